#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""An rsocket whose program waits for data that never comes.

    rpoll.py serve ADDRESS      takes one connection
    rpoll.py connect ADDRESS    asks for it until it is there

Either says "connected" and sleeps in rpoll.
"""

import ctypes
import socket
import struct
import sys
import time

PORT, POLLIN, PATIENCE = 7473, 1, 30
rs = ctypes.CDLL("librdmacm.so.1", use_errno=True)


def fail(what):
    sys.exit("%s: errno %d" % (what, ctypes.get_errno()))


def connect(address):
    limit = time.monotonic() + PATIENCE
    while True:
        fd = rs.rsocket(socket.AF_INET, socket.SOCK_STREAM, 0)
        if fd < 0:
            fail("rsocket")
        if rs.rconnect(fd, address, len(address)) == 0:
            return fd
        if time.monotonic() > limit:
            fail("rconnect")
        rs.rclose(fd)
        time.sleep(0.05)


def serve(address):
    listener = rs.rsocket(socket.AF_INET, socket.SOCK_STREAM, 0)
    if rs.rbind(listener, address, len(address)) != 0 or rs.rlisten(listener, 4) != 0:
        fail("rlisten")
    fd = rs.raccept(listener, None, None)
    if fd < 0:
        fail("raccept")
    return fd


def main():
    address = struct.pack("=H", socket.AF_INET) + struct.pack("!H", PORT) + socket.inet_aton(sys.argv[2]) + bytes(8)
    fd = {"serve": serve, "connect": connect}[sys.argv[1]](address)
    print("connected", flush=True)
    rs.rpoll(struct.pack("=ihh", fd, POLLIN, 0), 1, -1)


main()
