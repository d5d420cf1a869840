#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""vib0 with several LIDs (LMC), by libibverbs and libibumad, as a C program would call them.

    several_lids.py serve          a UD queue pair: tells its LID and number, answers each datagram to the address of its completion
    several_lids.py ask LID QPN    sends to it from and to each LID; tells from and to which the answer came
    several_lids.py extended LID QPN    the same with an extended completion queue
    several_lids.py mad LID        the same with a question for the port's counters
"""

import ctypes
import platform
import struct
import sys
import time

DEVICE, QKEY, PATIENCE, AGAIN = b"vib0", 0x11111111, 40, 0.5
POLL_CQ, POST_SEND, POST_RECV = 11, 25, 26           # of struct ibv_context_ops
CREATE_CQ_EX = -15                                   # of struct verbs_context: pointers before the context
MUTEX = 48 if platform.machine() == "aarch64" else 40
UD, STATE, PKEY_INDEX, PORT, QUEUE_KEY, SQ_PSN = 4, 1, 1 << 4, 1 << 5, 1 << 6, 1 << 16
INIT, RTR, RTS = 1, 2, 3
SEND, SIGNALED, LOCAL_WRITE, WC_RECV = 2, 1 << 1, 1, 1 << 7
PERFORMANCE, PORT_COUNTERS, GSI_QKEY = 4, 0x12, 0x80010000


class Context(ctypes.Structure):
    _fields_ = [("device", ctypes.c_void_p), ("ops", ctypes.c_void_p * 32)]


class QueuePair(ctypes.Structure):
    _fields_ = [("context", ctypes.c_void_p), ("objects", ctypes.c_void_p * 5), ("handle", ctypes.c_uint32), ("number", ctypes.c_uint32)]


class Region(ctypes.Structure):
    _fields_ = [("context", ctypes.c_void_p), ("pd", ctypes.c_void_p), ("address", ctypes.c_void_p), ("length", ctypes.c_size_t),
                ("handle", ctypes.c_uint32), ("lkey", ctypes.c_uint32)]


class QueuePairMaker(ctypes.Structure):
    _fields_ = [("context", ctypes.c_void_p), ("send_cq", ctypes.c_void_p), ("recv_cq", ctypes.c_void_p), ("srq", ctypes.c_void_p),
                ("cap", ctypes.c_uint32 * 5), ("type", ctypes.c_int), ("signal_all", ctypes.c_int)]


class Address(ctypes.Structure):
    _fields_ = [("dgid", ctypes.c_uint64 * 2), ("flow_label", ctypes.c_uint32), ("index_hops_class", ctypes.c_uint8 * 3),
                ("dlid", ctypes.c_uint16), ("sl", ctypes.c_uint8), ("path_bits", ctypes.c_uint8), ("rate", ctypes.c_uint8),
                ("is_global", ctypes.c_uint8), ("port", ctypes.c_uint8)]


class QueuePairChange(ctypes.Structure):
    _fields_ = [("state", ctypes.c_int), ("current", ctypes.c_int), ("mtu", ctypes.c_int), ("migration", ctypes.c_int),
                ("qkey", ctypes.c_uint32), ("psn_and_access", ctypes.c_uint32 * 4), ("cap", ctypes.c_uint32 * 5),
                ("address", Address), ("alternate", Address), ("pkey_index", ctypes.c_uint16), ("alternate_pkey_index", ctypes.c_uint16),
                ("limits", ctypes.c_uint8 * 5), ("port", ctypes.c_uint8), ("rest", ctypes.c_uint8 * 64)]


class Piece(ctypes.Structure):
    _fields_ = [("address", ctypes.c_uint64), ("length", ctypes.c_uint32), ("lkey", ctypes.c_uint32)]


class Receive(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint64), ("next", ctypes.c_void_p), ("pieces", ctypes.POINTER(Piece)), ("count", ctypes.c_int)]


class Send(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint64), ("next", ctypes.c_void_p), ("pieces", ctypes.POINTER(Piece)), ("count", ctypes.c_int),
                ("opcode", ctypes.c_int), ("flags", ctypes.c_uint), ("immediate", ctypes.c_uint32), ("ah", ctypes.c_void_p),
                ("qpn", ctypes.c_uint32), ("qkey", ctypes.c_uint32), ("rest", ctypes.c_uint8 * 128)]


class Completion(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint64), ("status", ctypes.c_int), ("opcode", ctypes.c_int), ("error", ctypes.c_uint32),
                ("length", ctypes.c_uint32), ("immediate", ctypes.c_uint32), ("qpn", ctypes.c_uint32), ("source_qpn", ctypes.c_uint32),
                ("flags", ctypes.c_uint), ("pkey_index", ctypes.c_uint16), ("slid", ctypes.c_uint16), ("sl", ctypes.c_uint8),
                ("path_bits", ctypes.c_uint8)]


class ExtendedQueueMaker(ctypes.Structure):
    _fields_ = [("cqe", ctypes.c_uint32), ("context", ctypes.c_void_p), ("channel", ctypes.c_void_p), ("vector", ctypes.c_uint32),
                ("wc_flags", ctypes.c_uint64), ("rest", ctypes.c_uint64 * 2)]


class ExtendedQueue(ctypes.Structure):
    """struct ibv_cq_ex: its functions in their order."""
    FUNCTIONS = [("start_poll", ctypes.c_int), ("next_poll", ctypes.c_int), ("end_poll", None), ("read_opcode", ctypes.c_int),
                 ("read_vendor_err", ctypes.c_uint32), ("read_byte_len", ctypes.c_uint32), ("read_imm_data", ctypes.c_uint32),
                 ("read_qp_num", ctypes.c_uint32), ("read_src_qp", ctypes.c_uint32), ("read_wc_flags", ctypes.c_uint32),
                 ("read_slid", ctypes.c_uint32), ("read_sl", ctypes.c_uint8), ("read_dlid_path_bits", ctypes.c_uint8)]
    STANDARD_FLAGS = 0x7f
    _fields_ = [("objects", ctypes.c_void_p * 3), ("handle", ctypes.c_uint32 * 2), ("mutex", ctypes.c_uint8 * MUTEX),
                ("condition", ctypes.c_uint8 * 48), ("events", ctypes.c_uint32 * 3), ("status", ctypes.c_int), ("wr_id", ctypes.c_uint64),
                ("function", ctypes.c_void_p * len(FUNCTIONS))]

    def call(self, name, *argv):
        index = [known for known, _ in self.FUNCTIONS].index(name)
        kind = ctypes.CFUNCTYPE(self.FUNCTIONS[index][1], ctypes.c_void_p, *[ctypes.c_void_p] * len(argv))
        return kind(self.function[index])(ctypes.addressof(self), *argv)

    def completions(self):
        nothing = ctypes.c_uint32()
        if self.call("start_poll", ctypes.addressof(nothing)) != 0:
            return
        while True:
            opcode = self.call("read_opcode")
            received = opcode == WC_RECV
            yield Completion(id=self.wr_id, status=self.status, opcode=opcode, source_qpn=self.call("read_src_qp") if received else 0,
                             flags=self.call("read_wc_flags"), slid=self.call("read_slid"), sl=self.call("read_sl"),
                             path_bits=self.call("read_dlid_path_bits"))
            if self.call("next_poll") != 0:
                break
        self.call("end_poll")


class Datagrams:
    """A UD queue pair and its memory: the first page is sent, the others are receives, each behind 40 bytes for a GRH."""
    RECEIVES, PAGE = 32, 256

    def __init__(self, extended=False):
        self.verbs = verbs = ctypes.CDLL("libibverbs.so.1", use_errno=True)
        for name, result in (("ibv_get_device_list", ctypes.POINTER(ctypes.c_void_p)), ("ibv_get_device_name", ctypes.c_char_p),
                             ("ibv_open_device", ctypes.POINTER(Context)), ("ibv_alloc_pd", ctypes.c_void_p),
                             ("ibv_create_cq", ctypes.c_void_p), ("ibv_create_qp", ctypes.POINTER(QueuePair)),
                             ("ibv_reg_mr", ctypes.POINTER(Region)), ("ibv_create_ah", ctypes.c_void_p),
                             ("ibv_create_ah_from_wc", ctypes.c_void_p)):
            getattr(verbs, name).restype = result
        devices, count = verbs.ibv_get_device_list(None), 0
        while verbs.ibv_get_device_name(ctypes.c_void_p(devices[count])) != DEVICE:
            count += 1
        self.context = verbs.ibv_open_device(ctypes.c_void_p(devices[count]))
        self.pd = ctypes.c_void_p(verbs.ibv_alloc_pd(self.context))
        self.extended = self.create_extended() if extended else None
        self.cq = ctypes.c_void_p(ctypes.addressof(self.extended) if extended else verbs.ibv_create_cq(self.context, 256, None, None, 0))
        maker = QueuePairMaker(None, self.cq, self.cq, None, (ctypes.c_uint32 * 5)(64, 64, 1, 1, 0), UD, 0)
        self.qp = verbs.ibv_create_qp(self.pd, ctypes.byref(maker))
        self.memory = ctypes.create_string_buffer((1 + self.RECEIVES) * self.PAGE)
        self.region = verbs.ibv_reg_mr(self.pd, self.memory, ctypes.c_size_t(len(self.memory)), LOCAL_WRITE)
        for state, mask in ((INIT, STATE | PKEY_INDEX | PORT | QUEUE_KEY), (RTR, STATE), (RTS, STATE | SQ_PSN)):
            change = QueuePairChange(state=state, qkey=QKEY, port=1)
            assert verbs.ibv_modify_qp(self.qp, ctypes.byref(change), mask) == 0
        for page in range(1, 1 + self.RECEIVES):
            self.receive(page)
        port = ctypes.create_string_buffer(256)
        assert verbs.ibv_query_port(self.context, 1, port) == 0
        self.lid, _, self.lmc = struct.unpack_from("=HHB", port.raw, 34)

    def create_extended(self):
        place = ctypes.addressof(self.context.contents) + CREATE_CQ_EX * ctypes.sizeof(ctypes.c_void_p)
        create = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(ctypes.c_void_p.from_address(place).value)
        maker = ExtendedQueueMaker(cqe=256, wc_flags=ExtendedQueue.STANDARD_FLAGS)
        made = create(ctypes.addressof(self.context.contents), ctypes.addressof(maker))
        assert made, ctypes.get_errno()
        return ExtendedQueue.from_address(made)

    def operation(self, index, *argv):
        function = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p if not isinstance(word, int) else ctypes.c_int for word in argv])
        return function(self.context.contents.ops[index])(*[ctypes.cast(word, ctypes.c_void_p) if not isinstance(word, int) else word
                                                            for word in argv])

    def piece(self, page, length):
        return Piece(ctypes.addressof(self.memory) + page * self.PAGE, length, self.region.contents.lkey)

    def receive(self, page):
        piece, bad = self.piece(page, self.PAGE), ctypes.c_void_p()
        assert self.operation(POST_RECV, self.qp, ctypes.byref(Receive(page, None, ctypes.pointer(piece), 1)), ctypes.byref(bad)) == 0

    def send(self, ah, qpn, number):
        assert ah, ctypes.get_errno()
        struct.pack_into("=I", self.memory, 0, number)
        piece, bad = self.piece(0, 4), ctypes.c_void_p()
        wanted = Send(0, None, ctypes.pointer(piece), 1, SEND, SIGNALED, 0, ah, qpn, QKEY)
        assert self.operation(POST_SEND, self.qp, ctypes.byref(wanted), ctypes.byref(bad)) == 0
        while not self.sent:
            self.poll()
        self.sent = False
        assert self.verbs.ibv_destroy_ah(ctypes.c_void_p(ah)) == 0

    sent = False
    heard = ()

    def completions(self):
        done = Completion()
        while self.operation(POLL_CQ, self.cq, 1, ctypes.byref(done)) == 1:
            yield Completion.from_buffer_copy(done)

    def poll(self):
        for done in self.extended.completions() if self.extended is not None else self.completions():
            assert done.status == 0, done.status
            if done.opcode == WC_RECV:
                number, = struct.unpack_from("=I", self.memory, done.id * self.PAGE + 40)
                self.heard += ((number, done),)
                self.receive(done.id)
            else:
                self.sent = True

    def take(self):
        """What has come: pairs of a number and its completion."""
        self.poll()
        heard, self.heard = self.heard, ()
        return heard


def serve():
    ours = Datagrams()
    print("ready", ours.lid, ours.qp.contents.number, flush=True)
    while True:
        for number, done in ours.take():
            ours.send(ours.verbs.ibv_create_ah_from_wc(ours.pd, ctypes.byref(done), None, 1), done.source_qpn, number)


def ask(lid, qpn, extended=False):
    ours = Datagrams(extended)
    for number in range(1 << 2 * ours.lmc):
        source, destination = divmod(number, 1 << ours.lmc)
        end, again, answer = time.monotonic() + PATIENCE, 0, None
        while answer is None:
            now = time.monotonic()
            if now > end:
                sys.exit("no answer")
            if now >= again:         # a datagram may be lost
                address, again = Address(dlid=lid + destination, path_bits=source, port=1), now + AGAIN
                ours.send(ours.verbs.ibv_create_ah(ours.pd, ctypes.byref(address)), qpn, number)
            answer = next((done for told, done in ours.take() if told == number), None)
        print("%d to %d: from %d to %d" % (source, destination, answer.slid - lid, answer.path_bits))


def mad(lid):
    umad, lmc = ctypes.CDLL("libibumad.so.3"), Datagrams().lmc
    for name in ("umad_get_mad", "umad_get_mad_addr"):
        getattr(umad, name).restype = ctypes.c_void_p
    assert umad.umad_init() == 0
    port = umad.umad_open_port(DEVICE, 1)
    agent = umad.umad_register(port, PERFORMANCE, 1, 0, None)
    buffer = ctypes.create_string_buffer(umad.umad_size() + 256)
    for number in range(1 << 2 * lmc):
        source, destination = divmod(number, 1 << lmc)
        question = struct.pack(">BBBBHHQHHI", 1, PERFORMANCE, 1, 1, 0, 0, 1 + number, PORT_COUNTERS, 0, 0) + bytes(41) + b"\1"
        ctypes.memmove(umad.umad_get_mad(buffer), question.ljust(256, b"\0"), 256)
        assert umad.umad_set_addr(buffer, lid + destination, 1, 0, GSI_QKEY) == 0
        address = (ctypes.c_uint8 * 44).from_address(umad.umad_get_mad_addr(buffer))
        address[11] = source
        assert umad.umad_send(port, agent, buffer, 256, 1000, PATIENCE) == 0
        length = ctypes.c_int(256)
        assert umad.umad_recv(port, buffer, ctypes.byref(length), -1) == agent and umad.umad_status(buffer) == 0
        told, = struct.unpack(">H", bytes(address[8:10]))
        print("%d to %d: from %d to %d" % (source, destination, told - lid, address[11]))


def extended(lid, qpn):
    ask(lid, qpn, True)


{"serve": serve, "ask": ask, "extended": extended, "mad": mad}[sys.argv[1]](*[int(word) for word in sys.argv[2:]])
