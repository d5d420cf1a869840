#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A user who sends what any user may: UDP datagrams to port 4791, in the name of the host he is on. Told on standard input what to send.

    injector.py SOURCE DESTINATION
    ready
    ask QPN ASKER SEND_PSN RECEIVE_PSN ABOUT    an inquiry (src/wire/inquiry.h), repeated until it is answered: "answer STATUS BYTES",
                                                without magic, number and nonce, which repeat the question
    hurry N QPN                                 N inquiries by no peer of that queue pair, whose answers nobody reads; "hurried"
    send QPN PSN LENGTH BYTE                    a SEND of one packet; "sent"
"""

import os
import socket
import struct
import sys
import time
import zlib

INQUIRY, ANSWER, LENGTH = 0xff0f5602, 0xff0f5603, 128
SEND_ONLY, DEFAULT_PKEY, ROCE = 0x04, 0xffff, 4791
PATIENCE = 60


class Injector:
    def __init__(self, source, destination):
        self.source, self.destination = source, destination
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.IPPROTO_IP, 10, 2)    # IP_MTU_DISCOVER, IP_PMTUDISC_DO: the identification is 0
        self.socket.bind((source, 0))
        self.socket.connect((destination, ROCE))

    def question(self, qpn, asker=0, send_psn=0, receive_psn=0, about=0):
        nonce = os.urandom(8)
        return nonce, struct.pack(">II8sIIII", INQUIRY, qpn, nonce, asker, send_psn, receive_psn, about).ljust(LENGTH, b"\0")

    def ask(self, *words):
        limit = time.monotonic() + PATIENCE
        while time.monotonic() < limit:
            nonce, question = self.question(*words)
            self.socket.send(question)
            self.socket.settimeout(0.1)
            try:
                while True:
                    answer = self.socket.recv(1000)
                    if len(answer) == LENGTH and answer[:4] == struct.pack(">I", ANSWER) and answer[8:16] == nonce:
                        return "answer %d %s" % (struct.unpack_from(">I", answer, 16)[0], answer[16:].hex())
            except OSError:
                pass
        return "silence"

    def hurry(self, count, qpn):
        for _ in range(count):
            self.socket.send(self.question(qpn)[1])
        return "hurried"

    def send(self, qpn, psn, length, byte):
        bth = struct.pack(">BBHII", SEND_ONLY, 0x40, DEFAULT_PKEY, qpn, 1 << 31 | psn)
        payload = bth + bytes([byte]) * length
        udp = struct.pack(">HHHH", self.socket.getsockname()[1], ROCE, 8 + len(payload) + 4, 0xffff)
        # What routers change is covered as ones (annex A17): type of service, time to live, checksums, resv8a.
        ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0xff, 20 + len(udp) + len(payload) + 4, 0, 0x4000, 0xff, 17, 0xffff,
                         socket.inet_aton(self.source), socket.inet_aton(self.destination))
        covered = b"\xff" * 8 + ip + udp + payload[:4] + b"\xff" + payload[5:]
        self.socket.send(payload + struct.pack("<I", zlib.crc32(covered)))
        return "sent"


injector = Injector(*sys.argv[1:])
print("ready", flush=True)
for line in sys.stdin:
    verb, *numbers = line.split()
    print(getattr(injector, verb)(*map(int, numbers)), flush=True)
