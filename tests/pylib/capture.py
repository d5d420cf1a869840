# SPDX-License-Identifier: MIT
"""Reading packet captures and judging RoCEv2 packets, written independently of src/wire on purpose.

ICRC (IBTA annex 17, section 17.9): CRC-32 over eight bytes of ones and the packet from the IP header on, with the fields that
routers change read as ones; on the wire least significant byte first.
"""

import struct
import zlib


def frames(path):
    """The Ethernet frames of a pcap file as tcpdump writes it."""
    with open(path, "rb") as file:
        data = file.read()
    if len(data) < 24:
        return
    order = {b"\xd4\xc3\xb2\xa1": "<", b"\x4d\x3c\xb2\xa1": "<", b"\xa1\xb2\xc3\xd4": ">", b"\xa1\xb2\x3c\x4d": ">"}[data[:4]]
    at = 24
    while at + 16 <= len(data):
        kept, full = struct.unpack(order + "II", data[at + 8:at + 16])
        if kept != full:
            raise ValueError("a frame of %d bytes was cut to %d" % (full, kept))
        yield data[at + 16:at + 16 + kept]
        at += 16 + kept


def roce_datagram(frame):
    """The IP packet of a RoCEv2 frame without Ethernet padding, and the length of its IP header; None for others."""
    kind = struct.unpack(">H", frame[12:14])[0]
    if kind == 0x0800 and frame[23] == 17:
        header, length = (frame[14] & 15) * 4, struct.unpack(">H", frame[16:18])[0]
    elif kind == 0x86dd and frame[20] == 17:
        header, length = 40, 40 + struct.unpack(">H", frame[18:20])[0]
    else:
        return None
    packet = frame[14:14 + length]
    if struct.unpack(">H", packet[header + 2:header + 4])[0] != 4791:
        return None
    return packet, header


def expected_icrc(packet, header):
    masked = bytearray(packet[:-4])
    if header == 40 and masked[0] >> 4 == 6:
        masked[0] |= 0x0f
        masked[1:4] = b"\xff\xff\xff"      # traffic class and flow label
        masked[7] = 0xff                   # hop limit
    else:
        masked[1] = masked[8] = 0xff       # type of service, time to live
        masked[10:12] = b"\xff\xff"        # header checksum
    masked[header + 6:header + 8] = b"\xff\xff"   # UDP checksum
    masked[header + 8 + 4] = 0xff          # BTH: congestion bits
    return zlib.crc32(b"\xff" * 8 + bytes(masked))


def judge(path):
    """(RoCE packets, how many of each opcode, descriptions of those with a wrong ICRC)."""
    count, opcodes, wrong = 0, {}, []
    for number, frame in enumerate(frames(path), 1):
        found = roce_datagram(frame)
        if not found:
            continue
        packet, header = found
        count += 1
        opcode = packet[header + 8]
        opcodes[opcode] = opcodes.get(opcode, 0) + 1
        carried = struct.unpack("<I", packet[-4:])[0]
        expected = expected_icrc(packet, header)
        if carried != expected:
            wrong.append("frame %d, opcode 0x%02x, %d bytes: ICRC %08x, should be %08x"
                         % (number, opcode, len(packet), carried, expected))
    return count, opcodes, wrong
