#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The functions of libibumad, each by its name, as a C program would call them.

    umad_functions.py names            what those say and write that need no port
    umad_functions.py port LID         the others, with the port at LID for a peer; then the names of all that were called
    umad_functions.py pkey LID INDEX   a question for the port's counters by that entry of the P_Key table: status, and the answer's entry
"""

import collections
import ctypes
import errno
import itertools
import struct
import sys

DEVICE, HEADER, MAD = b"vib0", 64, 256
LID_AT, GRH_AT, PKEY_AT = 28, 32, 56                 # of struct ib_user_mad
PERFORMANCE, SA, VENDOR, VENDOR_OUI, GSI_QKEY = 4, 3, 0x0b, 0x32, 0x80010000
GET, GET_TABLE, PORT_COUNTERS, NODE_RECORD = 1, 0x12, 0x12, 0x11
ANSWERS = {"umad_get_mad": ctypes.c_void_p, "umad_get_mad_addr": ctypes.c_void_p, "umad_size": ctypes.c_size_t,
           "umad_class_str": ctypes.c_char_p, "umad_method_str": ctypes.c_char_p, "umad_attribute_str": ctypes.c_char_p,
           "umad_common_mad_status_str": ctypes.c_char_p, "umad_sa_mad_status_str": ctypes.c_char_p, "umad_addr_dump": None,
           "umad_dump": None, "umad_free_ca_device_list": None}


class Library:
    def __init__(self):
        self.library, self.called = ctypes.CDLL("libibumad.so.3", use_errno=True), set()

    def __getattr__(self, name):
        function = getattr(self.library, name)
        function.restype = ANSWERS.get(name, ctypes.c_int)
        self.called.add(name)
        return function


class Node(ctypes.Structure):
    pass


Node._fields_ = [("next", ctypes.POINTER(Node)), ("name", ctypes.c_char_p)]
ANSWERS["umad_get_ca_device_list"] = ctypes.POINTER(Node)


class Port(ctypes.Structure):
    _fields_ = [("ca_name", ctypes.c_char * 20), ("number", ctypes.c_int), ("lid", ctypes.c_uint), ("lmc", ctypes.c_uint),
                ("sm_lid", ctypes.c_uint), ("sm_sl", ctypes.c_uint), ("state", ctypes.c_uint), ("physical", ctypes.c_uint),
                ("rate", ctypes.c_uint), ("capabilities", ctypes.c_uint32), ("prefix", ctypes.c_uint64), ("guid", ctypes.c_uint64),
                ("pkey_count", ctypes.c_uint), ("pkeys", ctypes.POINTER(ctypes.c_uint16)), ("link_layer", ctypes.c_char * 20)]


class Adapter(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char * 20), ("node_type", ctypes.c_uint), ("ports", ctypes.c_int), ("firmware", ctypes.c_char * 20),
                ("type", ctypes.c_char * 40), ("hardware", ctypes.c_char * 20), ("guid", ctypes.c_uint64), ("system_guid", ctypes.c_uint64),
                ("port", ctypes.POINTER(Port) * 10)]


umad = Library()
assert (ctypes.sizeof(Port), ctypes.sizeof(Adapter)) == (112, 208)


def buffer(length=MAD):
    return ctypes.create_string_buffer(HEADER + length)


def network(value, bits):
    return int.from_bytes(value.to_bytes(bits // 8, sys.byteorder), "big")


# ---- names and headers ----

def tell_all(what, function, *ranges):
    """Every answer, each once, with all that it was given for."""
    answers = collections.defaultdict(list)
    for words in itertools.product(*ranges):
        answers[function(*words)].append(words)
    for answer in sorted(answers):
        print(what, answer.decode(), hash(tuple(answers[answer])), answers[answer][:4])


def names():
    byte, words = range(256), [network(value, 16) for value in range(65536)]
    attributes = [network(value, 16) for value in (*range(0x120), 0xff00, 0xff20, 0xffff)]
    tell_all("class", umad.umad_class_str, byte)
    tell_all("method", umad.umad_method_str, byte, byte)
    tell_all("attribute", umad.umad_attribute_str, byte, attributes)
    tell_all("status", umad.umad_common_mad_status_str, words)
    tell_all("status of SA", umad.umad_sa_mad_status_str, words)
    mad = buffer()
    print(umad.umad_get_mad_addr(mad) - ctypes.addressof(mad))
    print(umad.umad_set_addr(mad, 0x1234, 0x567, 5, 0x80010000), mad.raw.hex())
    print(umad.umad_set_addr_net(mad, network(0x4321, 16), network(1, 32), 6, network(7, 32)), mad.raw.hex())
    address = ctypes.create_string_buffer(bytes(range(1, 45)))
    print(umad.umad_set_grh(mad, address), mad.raw.hex())
    print(umad.umad_set_grh(mad, None), mad.raw.hex())
    struct.pack_into("=I", mad, 4, 110)
    print(umad.umad_status(mad), umad.umad_debug(3), umad.umad_debug(-1), umad.umad_debug(0))


# ---- a port ----

def question(mgmt_class, version, method, attribute, transaction, data=b"", data_at=24):
    head = struct.pack(">BBBBHHQHHI", 1, mgmt_class, version, method, 0, 0, transaction, attribute, 0, 0)
    return (head.ljust(data_at, b"\0") + data).ljust(MAD, b"\0")


def put(mad, bytes_, lid):
    ctypes.memmove(umad.umad_get_mad(mad), bytes_, len(bytes_))
    assert umad.umad_set_addr(mad, lid, 1, 0, GSI_QKEY) == 0


def receive(port, mad, room, timeout):
    length = ctypes.c_int(room)
    return umad.umad_recv(port, mad, ctypes.byref(length), timeout), length.value


def devices():
    names_ = (ctypes.c_char * 20 * 32)()
    assert umad.umad_get_cas_names(names_, 32) >= 1
    assert DEVICE in [bytes(name).split(b"\0")[0] for name in names_]
    assert umad.umad_get_cas_names(names_, 1) == 1
    first = umad.umad_get_ca_device_list()
    assert umad.umad_sort_ca_device_list(ctypes.byref(first), 0) == 0
    listed, node = [], first
    while node:
        listed.append(node.contents.name)
        node = node.contents.next
    assert listed == sorted(listed) and DEVICE in listed
    assert umad.umad_sort_ca_device_list(ctypes.byref(first), len(listed) + 1) == errno.EINVAL
    umad.umad_free_ca_device_list(first)


def adapter(lid):
    told, port, guids = Adapter(), Port(), (ctypes.c_uint64 * 4)()
    assert umad.umad_get_ca(DEVICE, ctypes.byref(told)) == 0
    assert (told.name, told.node_type, told.ports) == (DEVICE, 1, 1)
    assert umad.umad_get_port(DEVICE, 1, ctypes.byref(port)) == 0
    assert (port.ca_name, port.number, port.state, port.physical, port.link_layer) == (DEVICE, 1, 4, 5, b"InfiniBand")
    assert port.lid not in (0, lid) and port.sm_lid != 0 and port.pkeys[0] == 0xffff and port.pkey_count == 32
    assert network(port.prefix, 64) == 0xfe80 << 48
    assert umad.umad_get_ca_portguids(DEVICE, guids, 4) == 2 and guids[1] == port.guid == told.port[1].contents.guid
    assert umad.umad_get_ca_portguids(DEVICE, guids, 1) == -errno.ENOMEM
    assert umad.umad_get_ca(b"none", ctypes.byref(Adapter())) < 0 and umad.umad_get_port(DEVICE, 2, ctypes.byref(Port())) < 0
    sm_lid = port.sm_lid
    assert umad.umad_release_port(ctypes.byref(port)) == 0 and umad.umad_release_ca(ctypes.byref(told)) == 0
    path = ctypes.create_string_buffer(256)
    assert umad.umad_get_issm_path(DEVICE, 1, path, 256) == 0
    open(path.value).close()
    return sm_lid


class Pair(ctypes.Structure):
    _fields_ = [("smi", ctypes.c_char * 20), ("smi_port", ctypes.c_uint32), ("gsi", ctypes.c_char * 20), ("gsi_port", ctypes.c_uint32)]


def pairs():
    """For libibmad since rdma-core 55: the port that is for subnet management is the one for all else."""
    told, pair = (Pair * 4)(), Pair()
    assert umad.umad_get_smi_gsi_pairs(told, 4) == 1 and told[0].smi == told[0].gsi == DEVICE
    for name, number in ((DEVICE, 1), (DEVICE, 0), (None, 0)):
        assert umad.umad_get_smi_gsi_pair_by_ca_name(name, number, ctypes.byref(pair), 1) == 0, (name, number)
        assert (pair.smi, pair.gsi, pair.smi_port, pair.gsi_port) == (DEVICE, DEVICE, 1, 1)
    for name, number in ((DEVICE, 2), (b"none", 0), (b"roce_lo", 1)):
        assert umad.umad_get_smi_gsi_pair_by_ca_name(name, number, ctypes.byref(pair), 1) == -errno.ENODEV, (name, number)
    opened = umad.umad_open_smi_port(pair.smi or DEVICE, 1)
    assert opened >= 0 and umad.umad_close_port(opened) == 0


class RegisterAttributes(ctypes.Structure):
    _fields_ = [("mgmt_class", ctypes.c_uint8), ("version", ctypes.c_uint8), ("flags", ctypes.c_uint32), ("methods", ctypes.c_uint64 * 2),
                ("oui", ctypes.c_uint32), ("rmpp", ctypes.c_uint8)]


def agents(port):
    """One of each way to register: performance, subnet administration, vendors' classes."""
    mask = (ctypes.c_long * 2)(1 << GET, 0)
    ids = [umad.umad_register(port, PERFORMANCE, 1, 0, None), umad.umad_register(port, SA, 2, 1, None),
           umad.umad_register_oui(port, VENDOR_OUI, 0, b"\x12\x34\x56", mask)]
    wanted, id = RegisterAttributes(VENDOR, 1, 0, (ctypes.c_uint64 * 2)(1 << GET, 0), 0, 0), ctypes.c_uint32(99)
    assert umad.umad_register2(port, ctypes.byref(wanted), ctypes.byref(id)) == 0
    ids.append(id.value)
    assert sorted(ids) == [0, 1, 2, 3], ids
    assert umad.umad_register2(port, ctypes.byref(wanted), ctypes.byref(id)) == errno.EINVAL
    wanted.flags = 1 << 31
    assert umad.umad_register2(port, ctypes.byref(wanted), ctypes.byref(id)) == errno.EINVAL and wanted.flags == 1
    assert umad.umad_register_oui(port, PERFORMANCE, 0, b"\x12\x34\x56", None) == -errno.EINVAL
    return ids


def ask_counters(port, agent, lid, transaction=1, timeout=1000, retries=39, pkey_index=0):
    mad = buffer()
    put(mad, question(PERFORMANCE, 1, GET, PORT_COUNTERS, transaction, b"\1", 65), lid)
    assert umad.umad_set_pkey(mad, pkey_index) == 0 and umad.umad_get_pkey(mad) == pkey_index
    assert umad.umad_send(port, agent, mad, MAD, timeout, retries) == 0
    assert umad.umad_poll(port, -1) == 0
    got, length = receive(port, mad, MAD, 0)
    assert got == agent, (got, ctypes.get_errno())
    return mad, length


def short_of_room(port, agent, lid):
    """A table of several segments: what is needed is told, and the message waits for a buffer that holds it."""
    mad = buffer()
    put(mad, question(SA, 2, GET_TABLE, NODE_RECORD, 2), lid)
    assert umad.umad_send(port, agent, mad, MAD, 1000, 39) == 0
    for _ in range(2):
        got, length = receive(port, mad, MAD, -1)
        assert (got, ctypes.get_errno()) == (-errno.ENOSPC, errno.ENOSPC) and length > MAD, (got, length)
    large = buffer(length)
    assert receive(port, large, length, 40000) == (agent, length)
    assert umad.umad_status(large) == 0 and large.raw[HEADER + 3] == GET_TABLE | 0x80
    assert length > 56 + 2 * 108, length


def port(lid):
    assert umad.umad_init() == 0
    devices()
    sm_lid = adapter(lid)
    pairs()
    fd = umad.umad_open_port(DEVICE, 1)
    assert fd >= 0 and umad.umad_get_fd(fd) == fd and umad.umad_size() == HEADER
    assert umad.umad_open_port(DEVICE, 7) < 0 and umad.umad_open_port(b"none", 1) < 0
    performance, administration, *others = agents(fd)
    assert umad.umad_poll(fd, 0) == -errno.ETIMEDOUT
    assert receive(fd, buffer(), MAD, 0)[0] == -errno.EWOULDBLOCK
    assert receive(fd, buffer(), MAD, 1)[0] == -errno.ETIMEDOUT
    mad, length = ask_counters(fd, performance, lid)
    told, = struct.unpack_from(">H", mad.raw, LID_AT)
    assert (length, umad.umad_status(mad), told, mad.raw[GRH_AT]) == (MAD, 0, lid, 0)
    assert umad.umad_get_mad_addr(mad) == ctypes.addressof(mad) + 20 and mad.raw[HEADER + 3] == GET | 0x80
    umad.umad_dump(mad)
    umad.umad_addr_dump(ctypes.c_void_p(umad.umad_get_mad_addr(mad)))
    # Nobody has this LID: the question comes back, as far as its header.
    mad, length = ask_counters(fd, performance, 0xbffe, transaction=3, timeout=10, retries=1)
    assert (umad.umad_status(mad), length) == (errno.ETIMEDOUT, 24)
    # There is no such entry in the P_Key table.
    mad, length = ask_counters(fd, performance, lid, transaction=4, pkey_index=32)
    assert umad.umad_status(mad) == errno.EINVAL
    short_of_room(fd, administration, sm_lid)
    for agent in (performance, administration, *others):
        assert umad.umad_unregister(fd, agent) == 0
    assert umad.umad_unregister(fd, performance) < 0 and umad.umad_unregister(fd, 99) < 0
    assert umad.umad_close_port(fd) == 0 and umad.umad_done() == 0
    names()
    print("called", *sorted(umad.called))


def pkey(lid, index):
    assert umad.umad_init() == 0
    fd = umad.umad_open_port(DEVICE, 1)
    agent = umad.umad_register(fd, PERFORMANCE, 1, 0, None)
    mad, _ = ask_counters(fd, agent, lid, timeout=500, retries=1, pkey_index=index)
    print("status", umad.umad_status(mad), "entry", umad.umad_get_pkey(mad))


{"names": names, "port": port, "pkey": pkey}[sys.argv[1]](*[int(word) for word in sys.argv[2:]])
