#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A user who wants what is not his: told on standard input what to try, with nothing but the sockets that verbenad gave him.

    open N      so many connections, each with a slot; "open SLOT PORT ..." or "refused SENTENCE"
    lanes N     so many lanes of each slot, asked for by another connection; "lanes TOTAL" or "refused TOTAL SENTENCE"
    lane SLOT LANE      that lane of any process's slot; "lane SOCKETS" or "refused SENTENCE"
    unlane SLOT LANE    back again; "unlaned" or "refused SENTENCE"
    show SLOT LANE      one's first socket as that lane's; "shown" or "refused SENTENCE"
    received    "received LANE ...": the sockets of the first slot in which datagrams were found since, 0 is the slot's own
    leave       out of the port's group and back in by the back door: connect, CLOSE_SLOT, connect to nobody
    hole        out of it by connect, and verbenad is not told
    detach      take the steering program away
    flow UID    connect to what that user's processes send from
    reclaim     when verbenad comes back: each old socket's slot, and its lanes, at once; "reclaimed N"
    silent N    so many connections on which nothing is said; "dropped" when verbenad has hung up on all
    flood N M   on N connections M questions each, no answer of which is read; "flooded"
    stolen      "stolen N": datagrams found in the sockets since
    segment SLOT GID    the memory of the process that has the slot; "segment N" with so many descriptors, or "refused SENTENCE"
    resources   "resources UID ...": whose processes show what they hold
    echo N      what the sockets receive is sent back, a number of bytes each time, N times; "echoed"
"""

import ctypes
import os
import select
import socket
import struct
import sys
import time

from protocol import MAGIC      # pylib/daemon.py puts it beside us

HELLO, LIST_DEVICES, OPEN_SLOT, ADOPT_SLOT, CLOSE_SLOT, LIST_RESOURCES, ASK_SEGMENT = 1, 2, 4, 5, 6, 9, 12
OPEN_LANE, ADOPT_LANE, CLOSE_LANE = 18, 19, 20
ERROR, END, SLOT, PROCESS_RESOURCES = 0x42, 0x43, 0x46, 0x4a
PROBE_SEEN, PROBE = 7, 0xff0f5601
CLAIM = 32
SO_DETACH_REUSEPORT_BPF = 68
libc = ctypes.CDLL(None, use_errno=True)


class Refused(Exception):
    pass


class Connection:
    def __init__(self):
        self.serial = 0
        self.slot, self.sockets, self.lanes = 0, [], {}
        self.connect()

    def connect(self):
        self.unix = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        while self.unix.connect_ex("\0verbena/1"):
            time.sleep(0.001)
        self.ask(HELLO, b"intruder".ljust(16, b"\0") + bytes(8))

    def ask(self, kind, body=bytes(8), fds=()):
        self.serial += 1
        socket.send_fds(self.unix, [struct.pack("4I", kind, MAGIC, 16 + len(body), self.serial) + body], fds)
        message, received, _, _ = socket.recv_fds(self.unix, 8192, 8)
        if not message:
            raise Refused("hung up")
        if struct.unpack_from("I", message)[0] == ERROR:
            raise Refused(message[24:].split(b"\0")[0].decode())
        return message[16:], received

    def open(self):
        body, received = self.ask(OPEN_SLOT)
        self.slot, self.descriptors = struct.unpack_from("2I", body)
        # Without the claim verbenad may give the slot to another when it has been given back.
        if self.descriptors & CLAIM:
            os.close(received.pop())
            self.descriptors &= ~CLAIM
        self.fds = received
        # The first are the slot's own: IPv4, IPv6.
        self.sockets = [socket.socket(fileno=os.dup(fd)) for fd in received[:bin(self.descriptors & 3).count("1")]]
        for one in self.sockets:
            one.setblocking(False)

    def ask_lane(self, kind, slot, lane, descriptors=0, fds=()):
        return self.ask(kind, struct.pack("4I", slot, lane, descriptors, 0), fds)

    def keep_lane(self, lane, descriptors, received):
        self.lanes[lane] = descriptors, received
        self.sockets += [socket.socket(fileno=os.dup(fd)) for fd in received]
        for one in self.sockets:
            one.setblocking(False)

    def reclaim(self):
        self.connect()
        try:
            self.ask(ADOPT_SLOT, struct.pack("2I", self.slot, self.descriptors), self.fds)
            for lane, (descriptors, fds) in self.lanes.items():
                self.ask_lane(ADOPT_LANE, self.slot, lane, descriptors, fds)
            return True
        except Refused:
            return False

    def places(self):
        """Its sockets by lane."""
        own = self.fds[:bin(self.descriptors & 3).count("1")]
        return [(0, fd) for fd in own] + [(lane, fd) for lane, (_, fds) in self.lanes.items() for fd in fds]


def plain_connection():
    one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    one.connect("\0verbena/1")
    return one


def connect_to(one, port):
    one.connect(("127.0.0.1", port) if one.family == socket.AF_INET else ("::1", port))


def disconnect(one):
    if libc.connect(one.fileno(), ctypes.create_string_buffer(16), 16) != 0:
        raise OSError(ctypes.get_errno(), "connect to AF_UNSPEC")


def source_ports(uid):
    found = set()
    for table in ("udp", "udp6"):
        with open("/proc/self/net/" + table) as rows:
            for row in list(rows)[1:]:
                fields = row.split()
                port = int(fields[1].rsplit(":", 1)[1], 16)
                if int(fields[7]) == uid and port >= 0xc000:
                    found.add(port)
    return sorted(found)


def count(one):
    seen = 0
    while True:
        try:
            one.recv(65536)
            seen += 1
        except BlockingIOError:
            return seen
        except OSError:         # an ICMP error of what we connected to
            pass


connections = []


def open_lane(asker, c, lane):
    body, fds = asker.ask_lane(OPEN_LANE, c.slot, lane)
    c.keep_lane(lane, struct.unpack_from("4I", body)[2], fds)


def look(c):
    """Answers verbenad's probes, too."""
    found = []
    for lane, fd in c.places():
        with socket.socket(fileno=os.dup(fd)) as one:
            while True:
                try:
                    data = one.recv(65536)
                except BlockingIOError:
                    break
                if len(data) == 16 and struct.unpack_from(">I", data)[0] == PROBE:
                    c.unix.send(struct.pack("4IQ2I", PROBE_SEEN, MAGIC, 32, 0, struct.unpack_from(">Q", data, 8)[0], lane, 0))
                else:
                    found.append(lane)
    return found


def carry_out(verb, *words):
    if verb == "open":
        try:
            for _ in range(int(words[0])):
                connections.append(Connection())
                connections[-1].open()
        except (Refused, BrokenPipeError, ConnectionResetError) as reason:
            return "refused %d %s" % (len(connections) - 1, reason)
        return "open " + " ".join("%d %d" % (c.slot, c.sockets[0].getsockname()[1]) for c in connections)
    if verb == "lanes":
        asker = Connection()
        connections.append(asker)
        try:
            for c in connections:
                for lane in range(1, int(words[0]) + 1 if c.slot else 0):
                    open_lane(asker, c, lane)
        except Refused as reason:
            return "refused %d %s" % (sum(len(c.lanes) for c in connections), reason)
        return "lanes %d" % sum(len(c.lanes) for c in connections)
    if verb in ("lane", "unlane", "show"):
        try:
            if not connections:
                connections.append(Connection())
            slot, lane = int(words[0]), int(words[1])
            if verb == "show":
                connections[0].ask_lane(ADOPT_LANE, slot, lane, 1, connections[0].fds[:1])
                return "shown"
            _, fds = connections[0].ask_lane(OPEN_LANE if verb == "lane" else CLOSE_LANE, slot, lane)
        except Refused as reason:
            return "refused %s" % reason
        for fd in fds:
            os.close(fd)
        return "lane %d" % len(fds) if verb == "lane" else "unlaned"
    if verb == "received":
        return " ".join(["received", *map(str, look(connections[0]))])
    if verb == "leave":
        for c in connections:
            for one in c.sockets:
                connect_to(one, 9)
            if c.slot:
                c.ask(CLOSE_SLOT)
            for one in c.sockets:
                disconnect(one)
    elif verb == "hole":
        for c in connections:
            for one in c.sockets:
                connect_to(one, 9)
    elif verb == "detach":
        for c in connections:
            for one in c.sockets:
                try:
                    one.setsockopt(socket.SOL_SOCKET, SO_DETACH_REUSEPORT_BPF, 0)
                except FileNotFoundError:       # the group has none any more
                    pass
    elif verb == "flow":
        for c, port in zip(connections, source_ports(int(words[0]))):
            for one in c.sockets:
                connect_to(one, port)
    elif verb == "reclaim":
        for c in connections:
            while c.unix.recv(8192):
                pass
        return "reclaimed %d" % sum(c.reclaim() for c in connections if c.slot)
    elif verb == "segment":
        try:
            one = Connection()
            connections.append(one)
            _, received = one.ask(ASK_SEGMENT, struct.pack("QII", 0, int(words[0]), 0) + socket.inet_pton(socket.AF_INET6, words[1]))
        except Refused as reason:
            return "refused %s" % reason
        return "segment %d" % len(received)
    elif verb == "resources":
        one = Connection()
        one.unix.send(struct.pack("4I", LIST_RESOURCES, MAGIC, 24, 77) + bytes(8))
        users = []
        while True:
            message, received, _, _ = socket.recv_fds(one.unix, 8192, 8)
            for fd in received:
                os.close(fd)
            kind = struct.unpack_from("I", message)[0]
            if kind != PROCESS_RESOURCES:
                return " ".join(["resources" if kind == END else "refused", *map(str, users)])
            users.append(struct.unpack_from("2I", message, 16)[1])
    elif verb == "echo":
        sockets = [one for c in connections for one in c.sockets]
        for _ in range(int(words[0])):
            for one in select.select(sockets, [], [])[0]:
                data, sender = one.recvfrom(65536)
                one.sendto(b"%d" % len(data), sender)
        return "echoed"
    elif verb == "silent":
        for one in [plain_connection() for _ in range(int(words[0]))]:
            one.recv(1)
        return "dropped"
    elif verb == "flood":
        question = struct.pack("4I", LIST_DEVICES, MAGIC, 24, 7) + bytes(8)
        floods = []
        try:
            for _ in range(int(words[0])):
                floods.append(Connection())
        except (Refused, BrokenPipeError, ConnectionResetError) as reason:
            connections.extend(floods)
            return "refused %d %s" % (len(floods), reason)
        for c in floods:
            try:
                for _ in range(int(words[1])):
                    c.unix.send(question)
            except (BrokenPipeError, ConnectionResetError):
                pass
        connections.extend(floods)
        return "flooded"
    elif verb == "stolen":
        return "stolen %d" % sum(count(one) for c in connections for one in c.sockets)
    else:
        return "what is %s" % verb
    return verb


for line in sys.stdin:
    print(carry_out(*line.split()), flush=True)
