# SPDX-License-Identifier: MIT
"""Reading our captures, independently of src/capture: raw IP packets, their times and their comments."""

import struct

from pylib.capture import expected_icrc

# Of src/capture/record.h and of verbs.h.
RECORD, COMPLETION, RECV = 0x80005642, 5, 128


def packets(path):
    """(time in ns, IP packet, comment) of each packet of a pcapng file with raw IP frames and nanosecond times."""
    with open(path, "rb") as file:
        data = file.read()
    assert data[8:12] == struct.pack("=I", 0x1a2b3c4d), "not this machine's byte order"
    at = 0
    while at < len(data):
        kind, length = struct.unpack_from("=II", data, at)
        assert length >= 12 and length % 4 == 0, "block at %d" % at
        assert data[at + length - 4:at + length] == data[at + 4:at + 8], "block at %d" % at
        if kind == 1:
            assert struct.unpack_from("=H", data, at + 8)[0] == 101, "not raw IP"
        if kind == 6:
            high, low, kept, full = struct.unpack_from("=IIII", data, at + 12)
            assert kept == full
            frame, comment, option = data[at + 28:at + 28 + kept], "", at + 28 + (kept + 3) // 4 * 4
            while option < at + length - 4:
                code, size = struct.unpack_from("=HH", data, option)
                if code == 0:
                    break
                if code == 1:
                    comment = data[option + 4:option + 4 + size].decode()
                option += 4 + (size + 3) // 4 * 4
            yield high << 32 | low, frame, comment
        at += length


def judge(path):
    """(packets as (opcode, PSN, destination QP, comment), descriptions of those with a wrong ICRC)."""
    found, wrong, last = [], [], 0
    for number, (time, packet, comment) in enumerate(packets(path), 1):
        header = 40 if packet[0] >> 4 == 6 else 20
        bth = packet[header + 8:]
        assert struct.unpack_from(">H", packet, header + 2)[0] == 4791
        assert time >= last, "packet %d is out of order" % number
        last = time
        carried, expected = struct.unpack("<I", packet[-4:])[0], expected_icrc(packet, header)
        if carried != expected:
            wrong.append("packet %d, opcode 0x%02x: ICRC %08x, should be %08x; %s"
                         % (number, bth[0], carried, expected, comment))
        found.append((bth[0], int.from_bytes(bth[9:12], "big"), int.from_bytes(bth[5:8], "big"), comment))
    return found, wrong


def receives(path):
    """How many receives were completed well, of a file that may still be written to: records of src/capture/record.h."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return 0
    count, at = 0, 0
    while at + 12 <= len(data):
        kind, length = struct.unpack_from("=II", data, at)
        if length < 12 or at + length > len(data):
            break
        if kind == RECORD:
            what, = struct.unpack_from("=I", data, at + 8)
            opcode, status = struct.unpack_from("=II", data, at + 8 + 48)
            count += what == COMPLETION and opcode == RECV and status == 0
        at += length
    return count
