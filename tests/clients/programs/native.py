#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""librdmacm by addresses of AF_IB, as a C program would call it.

    native.py serve P_KEY          listens at any GID; tells of the first request what it says, accepts it, waits for its end
    native.py ask GID P_KEY        connects to it, with as much private data as a REQ has room for
    native.py bind GID             what rdma_bind_addr says to addresses of all sorts
    native.py meet                 listens at any GID; tells by which LIDs the first who asks will be answered
    native.py go GID SLID DLID     connects to it by a path record of its own (RDMA_OPTION_IB_PATH), after some that cannot be used
"""

import ctypes
import errno
import socket
import struct
import sys

OPTION_IB, IB_PATH = 1, 1
GMP, PRIMARY, ALTERNATE, OUTBOUND, INBOUND_REVERSE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 5
RTR, ADDRESS_AT = 2, 80                  # of struct ibv_qp_attr: dlid, sl, src_path_bits
AF_IB, PS_TCP, PS_UDP, PORT = 27, 0x106, 0x111, 7471
SID, PORT_MASK, SPACE_MASK = PS_TCP << 16 | PORT, 0xffff, 0xffffffffffff0000
EVENTS = ["ADDR_RESOLVED", "ADDR_ERROR", "ROUTE_RESOLVED", "ROUTE_ERROR", "CONNECT_REQUEST", "CONNECT_RESPONSE", "CONNECT_ERROR",
          "UNREACHABLE", "REJECTED", "ESTABLISHED", "DISCONNECTED"]

cm = ctypes.CDLL("librdmacm.so.1", use_errno=True)
cm.rdma_create_event_channel.restype = ctypes.c_void_p


class ConnectionParameters(ctypes.Structure):
    _fields_ = [("private_data", ctypes.c_char_p), ("private_data_len", ctypes.c_uint8), ("responder_resources", ctypes.c_uint8),
                ("initiator_depth", ctypes.c_uint8), ("flow_control", ctypes.c_uint8), ("retry_count", ctypes.c_uint8),
                ("rnr_retry_count", ctypes.c_uint8), ("srq", ctypes.c_uint8), ("qp_num", ctypes.c_uint32)]


class Route(ctypes.Structure):
    _fields_ = [("source", ctypes.c_uint8 * 128), ("destination", ctypes.c_uint8 * 128), ("ibaddr", ctypes.c_uint8 * 36)]


class Id(ctypes.Structure):
    _fields_ = [("verbs", ctypes.c_void_p), ("channel", ctypes.c_void_p), ("context", ctypes.c_void_p), ("qp", ctypes.c_void_p),
                ("route", Route)]


class PrivateData(ctypes.Structure):
    _fields_ = [("bytes", ctypes.POINTER(ctypes.c_uint8)), ("length", ctypes.c_uint8)]


class Event(ctypes.Structure):
    _fields_ = [("id", ctypes.POINTER(Id)), ("listener", ctypes.c_void_p), ("event", ctypes.c_int), ("status", ctypes.c_int),
                ("param", PrivateData)]


def address(gid, sid, mask, pkey=0xffff):
    raw = socket.inet_pton(socket.AF_INET6, gid)
    return struct.pack("=H", AF_IB) + struct.pack(">HI", pkey, 0) + raw + struct.pack(">QQ", sid, mask) + bytes(8)


def tell(what, raw):
    """family, P_Key, GID, service id"""
    raw = bytes(raw)
    print(what, struct.unpack("=H", raw[:2])[0], "%04x" % struct.unpack(">H", raw[2:4]), socket.inet_ntop(socket.AF_INET6, raw[8:24]),
          "%x" % struct.unpack(">Q", raw[24:32]), flush=True)


def call(name, *argv):
    result = getattr(cm, name)(*argv)
    if result != 0:
        print(name, errno.errorcode[ctypes.get_errno()], flush=True)
    return result


def create(channel, space=PS_TCP):
    id = ctypes.POINTER(Id)()
    assert call("rdma_create_id", ctypes.c_void_p(channel), ctypes.byref(id), None, space) == 0
    return id


def event(channel, wanted):
    got = ctypes.POINTER(Event)()
    assert call("rdma_get_cm_event", ctypes.c_void_p(channel), ctypes.byref(got)) == 0
    name = EVENTS[got.contents.event]
    if name != wanted:
        sys.exit("%s, status %d" % (name, got.contents.status))
    return got


def parameters(data=b""):
    return ConnectionParameters(data, len(data), 1, 1, 0, 7, 7, 0, 77)


def serve(pkey):
    channel = cm.rdma_create_event_channel()
    listener = create(channel)
    assert call("rdma_bind_addr", listener, address("::", SID, SPACE_MASK | PORT_MASK, pkey)) == 0
    assert call("rdma_listen", listener, 1) == 0
    tell("listening", listener.contents.route.source)
    request = event(channel, "CONNECT_REQUEST")
    id, data = request.contents.id, request.contents.param
    tell("source", id.contents.route.source)
    tell("destination", id.contents.route.destination)
    print("private", bytes(data.bytes[:data.length]).decode(), flush=True)
    assert call("rdma_accept", id, ctypes.byref(parameters(b"welcome"))) == 0
    cm.rdma_ack_cm_event(request)
    event(channel, "ESTABLISHED")
    event(channel, "DISCONNECTED")


def ask(gid, pkey):
    channel = cm.rdma_create_event_channel()
    id = create(channel)
    assert call("rdma_resolve_addr", id, None, address(gid, SID, 0, pkey), 2000) == 0
    event(channel, "ADDR_RESOLVED")
    tell("source", id.contents.route.source)
    tell("destination", id.contents.route.destination)
    assert call("rdma_resolve_route", id, 2000) == 0
    event(channel, "ROUTE_RESOLVED")
    call("rdma_connect", id, ctypes.byref(parameters(b"x" * 93)))
    assert call("rdma_connect", id, ctypes.byref(parameters(b"x" * 92))) == 0
    event(channel, "CONNECT_RESPONSE")
    assert call("rdma_establish", id) == 0
    assert call("rdma_disconnect", id) == 0


def bind(gid):
    channel = cm.rdma_create_event_channel()
    for what in (address("::", SID, 0), address("::", SID, SPACE_MASK), address("::1", SID, SPACE_MASK | PORT_MASK),
                 address("::", PS_UDP << 16, SPACE_MASK), address(gid, SID, PORT_MASK), address("fe80::9", 0, 0),
                 address("::ffff:127.0.0.1", 0, 0)):
        id = create(channel)
        if call("rdma_bind_addr", id, what) == 0:
            raw = bytearray(id.contents.route.source)
            chosen, = struct.unpack(">H", raw[30:32])
            raw[30:32] = b"\0\0" if chosen != PORT else raw[30:32]   # one that was chosen
            assert chosen != 0 and bool(id.contents.verbs) == (raw[8:24] == socket.inet_pton(socket.AF_INET6, gid))
            tell("bound", raw)
        cm.rdma_destroy_id(id)


def tell_address(id):
    """What a queue pair of this connection would be told: destination LID, and which of the port's own."""
    attributes, mask = ctypes.create_string_buffer(struct.pack("=I", RTR), 256), ctypes.c_int()
    assert call("rdma_init_qp_attr", id, attributes, ctypes.byref(mask)) == 0
    dlid, _, bits = struct.unpack_from("=HBB", attributes, ADDRESS_AT)
    print("to %d from %d" % (dlid, bits), flush=True)


def meet():
    channel = cm.rdma_create_event_channel()
    listener = create(channel)
    assert call("rdma_bind_addr", listener, address("::", SID, SPACE_MASK | PORT_MASK)) == 0
    assert call("rdma_listen", listener, 1) == 0
    print("listening", flush=True)
    request = event(channel, "CONNECT_REQUEST")
    id = request.contents.id
    tell_address(id)
    assert call("rdma_accept", id, ctypes.byref(parameters())) == 0
    cm.rdma_ack_cm_event(request)
    event(channel, "ESTABLISHED")
    event(channel, "DISCONNECTED")


def path(gid, slid, dlid, flags=GMP | PRIMARY | OUTBOUND | INBOUND_REVERSE, mtu=4):
    """struct ibv_path_data: 2 stands for "exactly" before MTU, rate and lifetime."""
    gids = bytes(16) if gid is None else socket.inet_pton(socket.AF_INET6, gid)
    return (struct.pack("=II", flags, 0) + bytes(8) + gids + bytes(16)
            + struct.pack(">HHIBBHHBBBB", dlid, slid, 0, 0, 0x80 | 1, 0xffff, 0, 2 << 6 | mtu, 2 << 6 | 3, 2 << 6 | 16, 0) + bytes(6))


def go(gid, slid, dlid):
    channel = cm.rdma_create_event_channel()
    id = create(channel)
    assert call("rdma_resolve_addr", id, None, address(gid, SID, 0), 2000) == 0
    event(channel, "ADDR_RESOLVED")

    def give(*paths):
        value = b"".join(paths)
        return call("rdma_set_option", id, OPTION_IB, IB_PATH, value, ctypes.c_size_t(len(value)))
    only_there = path(gid, slid, dlid, flags=GMP | PRIMARY | OUTBOUND)
    for wrong in (only_there, path(gid, slid, 0), path(gid, slid, 0xc001), path(gid, slid, dlid, mtu=9), path("fe80::9", slid, dlid),
                  path(gid, slid, dlid)[:-1], b""):
        assert give(wrong) == -1
    assert give(only_there, path(None, slid, dlid)) == 0
    event(channel, "ROUTE_RESOLVED")
    assert call("rdma_connect", id, ctypes.byref(parameters())) == 0
    event(channel, "CONNECT_RESPONSE")
    tell_address(id)
    assert call("rdma_establish", id) == 0
    assert call("rdma_disconnect", id) == 0


if sys.argv[1] == "serve":
    serve(int(sys.argv[2], 0))
elif sys.argv[1] == "ask":
    ask(sys.argv[2], int(sys.argv[3], 0))
elif sys.argv[1] == "meet":
    meet()
elif sys.argv[1] == "go":
    go(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
else:
    bind(sys.argv[2])
