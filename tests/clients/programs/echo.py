#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""An echo server and its client, as programs are written that know TCP and nothing else.

    echo.py serve HOW ADDRESS PORT [FILE]     HOW: one of the functions serve_* below
    echo.py ask ADDRESS PORT HOW [FILE]       HOW: rdma, tcp (what the connection must become), many (that, and others beside it), file,
                                              single (bytes one by one on many connections, waited for by epoll), spawn (a program is
                                              started meanwhile, whose descriptors are closed and moved before it is)

The client first sends until it sees what carries its bytes: those that TCP's own counters (TCP_INFO) do not count went another way.
"""

import array
import ctypes
import fcntl
import hashlib
import os
import random
import select
import socket
import struct
import subprocess
import sys
import termios
import threading
import time

PATIENCE = 40
SINGLES = 300
SIZES = (1, 2, 63, 64, 65, 1000, 4096, 65536, 65537, 300000, 1 << 20)


def listen(address, port):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, port))
    listener.listen(64)
    print("listening", flush=True)
    return listener


def echo(connection):
    while True:
        data = connection.recv(100000)
        if not data:
            break
        connection.sendall(data)
    connection.close()


def serve_blocking(listener):
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=echo, args=(connection,), daemon=True).start()


def serve_dup(listener):
    """The descriptor it was accepted as is closed: a copy of it is the connection. And a copy that is dropped does no harm."""
    while True:
        connection, _ = listener.accept()
        copy = socket.socket(fileno=os.dup(connection.fileno()))
        connection.close()
        first = copy.recv(100000)
        os.close(fcntl.fcntl(copy.fileno(), fcntl.F_DUPFD_CLOEXEC, 100))
        high = os.dup2(copy.fileno(), 200)
        copy.close()
        moved = socket.socket(fileno=high)
        moved.sendall(first)
        echo(moved)


def serve_fork(listener):
    """A child for each connection, as old servers have it. The parent never uses the connection."""
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            echo(connection)
            os._exit(0)
        connection.close()


def serve_prefork(listener):
    """Workers that accept from one listening socket."""
    for _ in range(3):
        if os.fork() == 0:
            while True:
                connection, _ = listener.accept()
                echo(connection)
    os.wait()


def serve_exec(listener):
    """As inetd does: another program gets the connection as its standard input and output."""
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            os.dup2(connection.fileno(), 0)
            os.dup2(connection.fileno(), 1)
            os.execvp("cat", ["cat"])
        connection.close()


class Loop:
    """One thread, connections that never block, and an eventfd and a timerfd in the same set."""

    def __init__(self, listener):
        self.listener = listener
        listener.setblocking(False)
        self.connections, self.waiting = {}, {}
        self.event = os.eventfd(0, os.EFD_NONBLOCK)
        libc = ctypes.CDLL(None, use_errno=True)
        self.timer = libc.timerfd_create(1, os.O_NONBLOCK)
        interval = struct.pack("qqqq", 0, 5000000, 0, 5000000)
        assert libc.timerfd_settime(self.timer, 0, ctypes.c_char_p(interval), None) == 0
        self.ticks = 0

    def other(self, fd):
        """True: it was one of the others."""
        if fd == self.timer:
            os.read(fd, 8)
            self.ticks += 1
            os.eventfd_write(self.event, 1)
        elif fd == self.event:
            os.eventfd_read(fd)
        elif fd == self.listener.fileno():
            self.accept()
        else:
            return False
        return True

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except BlockingIOError:
                return
            connection.setblocking(False)
            self.connections[connection.fileno()] = connection
            self.waiting[connection.fileno()] = bytearray()
            self.add(connection.fileno())

    def drop(self, fd):
        self.remove(fd)
        self.connections.pop(fd).close()
        del self.waiting[fd]

    def receive(self, fd, until_empty):
        """False: that was the end. until_empty: as those must who are told of changes only."""
        while True:
            try:
                data = self.connections[fd].recv(70000)
            except BlockingIOError:
                if until_empty:
                    return True
                # Programs take that for an error (wrk does).
                print("there was nothing to read, though it was reported", flush=True)
                os._exit(1)
            if not data:
                return False
            self.waiting[fd] += data
            if not until_empty:
                return True

    def transmit(self, fd):
        waiting = self.waiting[fd]
        while waiting:
            try:
                del waiting[:self.connections[fd].send(waiting)]
            except BlockingIOError:
                return

    def handle(self, fd, readable, edge=False):
        if readable and not self.receive(fd, edge):
            self.transmit(fd)
            self.drop(fd)
            return
        self.transmit(fd)
        self.want(fd, bool(self.waiting[fd]))

    def add(self, fd):
        pass

    def remove(self, fd):
        pass

    def want(self, fd, writing):
        pass


class EpollLoop(Loop):
    def __init__(self, listener, flags):
        super().__init__(listener)
        self.flags, self.epoll = flags, select.epoll()
        for fd in (listener.fileno(), self.event, self.timer):
            self.epoll.register(fd, select.EPOLLIN)

    def add(self, fd):
        self.epoll.register(fd, select.EPOLLIN | self.flags | (select.EPOLLOUT if self.flags & select.EPOLLET else 0))

    def remove(self, fd):
        self.epoll.unregister(fd)

    def want(self, fd, writing):
        if not self.flags & select.EPOLLET:
            self.epoll.modify(fd, select.EPOLLIN | self.flags | (select.EPOLLOUT if writing else 0))

    def run(self):
        while True:
            for fd, events in self.epoll.poll():
                if not self.other(fd) and fd in self.connections and events & ~select.EPOLLRDHUP:
                    self.handle(fd, events & (select.EPOLLIN | select.EPOLLHUP), bool(self.flags & select.EPOLLET))


class AgainLoop(EpollLoop):
    """Takes a connection out of the set after each answer and puts it in again, as redis-benchmark does."""

    def refused(self, error, call, *arguments):
        try:
            call(*arguments)
        except error:
            return
        print("%s was to be refused" % call.__name__, flush=True)
        os._exit(1)

    def want(self, fd, writing):
        self.epoll.unregister(fd)
        self.refused(FileNotFoundError, self.epoll.unregister, fd)
        self.refused(FileNotFoundError, self.epoll.modify, fd, select.EPOLLIN)
        # Whatever has come for it meanwhile.
        if fd in dict(self.epoll.poll(0)):
            print("it was reported, though it is not in the set", flush=True)
            os._exit(1)
        events = select.EPOLLIN | (select.EPOLLOUT if writing else 0)
        self.epoll.register(fd, events)
        self.refused(FileExistsError, self.epoll.register, fd, events)


def serve_epoll_again(listener):
    AgainLoop(listener, 0).run()


def serve_epoll(listener):
    EpollLoop(listener, 0).run()


def serve_epoll_edge(listener):
    EpollLoop(listener, select.EPOLLET | select.EPOLLRDHUP).run()


def serve_epoll_once(listener):
    EpollLoop(listener, select.EPOLLONESHOT).run()


def serve_poll(listener):
    loop = Loop(listener)
    while True:
        poll = select.poll()
        for fd in (listener.fileno(), loop.event, loop.timer):
            poll.register(fd, select.POLLIN)
        for fd in loop.connections:
            poll.register(fd, select.POLLIN | (select.POLLOUT if loop.waiting[fd] else 0))
        for fd, events in poll.poll():
            if not loop.other(fd):
                loop.handle(fd, events & (select.POLLIN | select.POLLHUP))


def serve_select(listener):
    loop = Loop(listener)
    while True:
        others = [listener.fileno(), loop.event, loop.timer]
        readable, writable, _ = select.select(others + list(loop.connections), [fd for fd in loop.connections if loop.waiting[fd]], [], 10)
        for fd in set(readable) | set(writable):
            if not loop.other(fd):
                loop.handle(fd, fd in readable)


def serve_file(listener):
    """A line is answered with the file, by sendfile."""
    while True:
        connection, _ = listener.accept()
        while connection.recv(1):
            with open(sys.argv[5], "rb") as file:
                connection.sendfile(file)
        connection.close()


# ---- the client ----

def tcp_counts(connection):
    """Bytes that TCP has sent and received."""
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    received, = struct.unpack_from("Q", info, 128)
    sent, = struct.unpack_from("Q", info, 200)
    return sent, received


def receive(connection, length):
    parts = []
    while length:
        data = connection.recv(min(length, 200000))
        if not data:
            raise EOFError("%d bytes are missing" % length)
        parts.append(data)
        length -= len(data)
    return b"".join(parts)


def exchange(connection, data):
    """Both directions at once: the server need not hold all of it."""
    sender = threading.Thread(target=connection.sendall, args=(data,))
    sender.start()
    got = receive(connection, len(data))
    sender.join()
    if got != data:
        raise ValueError("%d bytes came back as others" % len(data))


def settle(connection, how):
    """Until the connection is what it must become; for TCP: a while of it."""
    limit = time.monotonic() + PATIENCE
    for count in range(1000000):
        before = tcp_counts(connection)
        exchange(connection, os.urandom(1000))
        after = tcp_counts(connection)
        if how == "tcp" and after[0] - before[0] < 1000:
            raise ValueError("the bytes do not go by TCP")
        if (how == "tcp" and count == 50) or (how == "rdma" and before == after):
            return
        if time.monotonic() > limit:
            raise TimeoutError("still by TCP: %s %s" % (before, after))


def chatter(address, port):
    """Others that talk at the same time, in small pieces."""
    connections = [socket.create_connection((address, port), PATIENCE) for _ in range(4)]
    for connection in connections:
        settle(connection, "rdma")
    # The second comes while the server answers the first, at another moment each time.
    for count in range(1500):
        data = bytes([count % 256]) * 10
        for connection in connections:
            connection.sendall(data)
            for _ in range(count % 50 * 20):
                pass
            connection.sendall(data)
        for connection in connections:
            if receive(connection, 20) != data * 2:
                raise ValueError("chatter")
    for connection in connections:
        connection.close()


def ask_single(address, port):
    """Byte by byte, of all values, on many connections: some of them are the first byte of a token, come while it may come."""
    poller, connections = select.epoll(), {}
    for number in range(SINGLES):
        connection = socket.create_connection((address, port), PATIENCE)
        connection.setblocking(False)
        connections[connection.fileno()] = [connection, number % 256, 32]
        poller.register(connection.fileno(), select.EPOLLIN)
        connection.send(bytes([number % 256]))
    while connections:
        events = poller.poll(PATIENCE)
        if not events:
            raise TimeoutError("%d connections wait for an answer" % len(connections))
        for fd, _ in events:
            connection, value, left = connections[fd]
            # What was reported can be read, also where it may be the beginning of a token by now.
            data = connection.recv(10)
            if data != bytes([value]):
                raise ValueError("another byte")
            value, left = (value + 1) % 256, left - 1
            connections[fd][1:] = value, left
            if left:
                connection.send(bytes([value]))
            else:
                poller.unregister(fd)
                del connections[fd]
    print("all came back")


def ask(address, port, how, file=None):
    if how == "single":
        ask_single(address, port)
        return
    connection = socket.create_connection((address, port), PATIENCE)
    if how == "file":
        ask_for_file(connection, file)
        return
    if how == "many":
        chatter(address, port)
        how = "rdma"
    settle(connection, "rdma" if how == "spawn" else how)
    if how == "spawn":
        # Between vfork and exec it closes all it has, and this connection becomes another number's, too.
        subprocess.run(["true"], check=True, close_fds=True, stdin=connection.fileno())
    source = random.Random(7)
    for size in SIZES:
        exchange(connection, source.randbytes(size))
    connection.sendall(b"x" * 100)
    count = array.array("i", [0])
    limit = time.monotonic() + PATIENCE
    while count[0] != 100 and time.monotonic() < limit:
        fcntl.ioctl(connection.fileno(), termios.FIONREAD, count)
    if count[0] != 100 or connection.recv(50, socket.MSG_PEEK) != b"x" * 50:
        raise ValueError("FIONREAD says %d" % count[0])
    if connection.recv(100, socket.MSG_WAITALL) != b"x" * 100:
        raise ValueError("MSG_WAITALL")
    connection.settimeout(0)
    try:
        connection.recv(1)
        raise ValueError("there was nothing to read")
    except BlockingIOError:
        connection.settimeout(PATIENCE)
    connection.shutdown(socket.SHUT_WR)
    if connection.recv(1) != b"":
        raise ValueError("that was the end")
    print("all came back")


def ask_for_file(connection, path):
    with open(path, "rb") as file:
        expected = file.read()
    limit = time.monotonic() + PATIENCE
    while True:
        before = tcp_counts(connection)
        connection.sendall(b"\n")
        got = receive(connection, len(expected))
        if hashlib.sha256(got).digest() != hashlib.sha256(expected).digest():
            raise ValueError("another file")
        if tcp_counts(connection) == before:
            break
        if time.monotonic() > limit:
            raise TimeoutError("still by TCP")
    print("all came back")


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        globals()["serve_" + sys.argv[2]](listen(sys.argv[3], int(sys.argv[4])))
    else:
        ask(sys.argv[2], int(sys.argv[3]), *sys.argv[4:])
