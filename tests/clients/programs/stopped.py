#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Two rsockets, one of which is of a process that is stopped (SIGSTOP, a debugger).

    stopped.py serve ADDRESS                    takes one connection and sends back what comes
    stopped.py connect ADDRESS PID              stops that process, writes to it, and lets it go on
"""

import ctypes
import os
import signal
import socket
import struct
import sys
import time

PORT, PATIENCE, LENGTH = 7474, 30, 1000
rs = ctypes.CDLL("librdmacm.so.1", use_errno=True)


def fail(what):
    sys.exit("%s: errno %d" % (what, ctypes.get_errno()))


def connect(address):
    limit = time.monotonic() + PATIENCE
    while True:
        fd = rs.rsocket(socket.AF_INET, socket.SOCK_STREAM, 0)
        if rs.rconnect(fd, address, len(address)) == 0:
            return fd
        if time.monotonic() > limit:
            fail("rconnect")
        rs.rclose(fd)
        time.sleep(0.05)


def receive(fd, length):
    """How many came; those that did not are told by errno."""
    buffer, got = ctypes.create_string_buffer(length), 0
    while got < length:
        count = rs.rrecv(fd, buffer, length - got, 0)
        if count <= 0:
            print("end", ctypes.get_errno() if count < 0 else 0, flush=True)
            break
        got += count
    return got


def serve(address):
    listener = rs.rsocket(socket.AF_INET, socket.SOCK_STREAM, 0)
    if rs.rbind(listener, address, len(address)) != 0 or rs.rlisten(listener, 4) != 0:
        fail("rlisten")
    fd = rs.raccept(listener, None, None)
    rs.rsend(fd, b"!", 1, 0)
    print("got", receive(fd, LENGTH), flush=True)
    rs.rsend(fd, b"y" * LENGTH, LENGTH, 0)
    receive(fd, 1)


def ask(address, peer):
    fd = connect(address)
    receive(fd, 1)
    os.kill(peer, signal.SIGSTOP)
    print("sent", rs.rsend(fd, b"x" * LENGTH, LENGTH, 0), flush=True)
    os.kill(peer, signal.SIGCONT)
    print("echoed", receive(fd, LENGTH), flush=True)


def main():
    address = struct.pack("=H", socket.AF_INET) + struct.pack("!H", PORT) + socket.inet_aton(sys.argv[2]) + bytes(8)
    if sys.argv[1] == "serve":
        serve(address)
    else:
        ask(address, int(sys.argv[3]))


main()
