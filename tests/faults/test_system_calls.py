#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every allocation and every system call of the libraries and of verbenad fails once (interpose.c), while a program lives its life
(lifetime.c); and at every one of them the process dies, or stops.

    test_system_calls.py VERBENAD LIFETIME INTERPOSE RSOCKETS SOCKETS SURVIVOR PEERS [--every STEP] [--from N] [--seconds S] [--only GROUP]
                         [--part PART] [--pairs SEED]

With --pairs two calls fail in each run, of groups in which calls fail and nobody dies: which two is drawn by the seed, near each other or
not, and the runs go round and round the groups.

Without options a few of each group, spread over all; `make campaign` runs `--every 1`, and pairs. A run that fails is told with the
options that repeat it.
Which call is the Nth depends on which thread is first: a repetition may hit a neighbour of it.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from random import Random

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), ".."))

from pylib import hosts                                     # noqa: E402
from pylib.clients import which                             # noqa: E402

LIBRARIES = "libibverbs.so.1:librdmacm.so.1"
SOCKETS = "libverbena-sockets.so"
# Group: whose calls, and how they fail.
GROUPS = {
    "libraries-short": (LIBRARIES, "short"),
    "libraries-warm": (LIBRARIES, "short"),
    "libraries-interrupted": (LIBRARIES, "interrupted"),
    "daemon-short": ("verbenad", "short"),
    "daemon-interrupted": ("verbenad", "interrupted"),
    # The program goes on without it, and another one begins where it was.
    "daemon-killed": ("verbenad", "killed"),
    # Nothing of it stays with verbenad: the next one finds all as it was, and verbenad ends when it is idle.
    "libraries-killed": (LIBRARIES, "killed"),
    # The same with packets, instead of through memory.
    "wire-short": (LIBRARIES, "short"),
    "wire-interrupted": (LIBRARIES, "interrupted"),
    # Two hosts: rping's server, and what its client hears.
    "peer-killed": (LIBRARIES, "killed"),
    "peer-stopped": (LIBRARIES, "stopped"),
    # Its client instead, or the verbenad of one of them; and both on one host, the server first.
    "client-killed": (LIBRARIES, "killed"),
    "client-stopped": (LIBRARIES, "stopped"),
    "peer-daemon-killed": ("verbenad", "killed"),
    "client-daemon-killed": ("verbenad", "killed"),
    "peer-daemon-stopped": ("verbenad", "stopped"),
    "client-daemon-stopped": ("verbenad", "stopped"),
    "alone-killed": (LIBRARIES, "killed"),
    "alone-client-killed": (LIBRARIES, "killed"),
    "alone-client-stopped": (LIBRARIES, "stopped"),
    "alone-daemon-killed": ("verbenad", "killed"),
    "alone-daemon-stopped": ("verbenad", "stopped"),
    # The same with rsockets (rsocket_peers.c): the server or the client, between two hosts and on one.
    "rpeer-killed": (LIBRARIES, "killed"),
    "rclient-killed": (LIBRARIES, "killed"),
    "ralone-killed": (LIBRARIES, "killed"),
    "ralone-client-killed": (LIBRARIES, "killed"),
    "rpeer-stopped": (LIBRARIES, "stopped"),
    "rclient-stopped": (LIBRARIES, "stopped"),
    "ralone-stopped": (LIBRARIES, "stopped"),
    "ralone-client-stopped": (LIBRARIES, "stopped"),
    "alone-stopped": (LIBRARIES, "stopped"),
    # A connection that is there outlives any of them.
    "kept-short": (LIBRARIES, "short"),
    "kept-interrupted": (LIBRARIES, "interrupted"),
    # The program's calls wait, and go on.
    "daemon-stopped": ("verbenad", "stopped"),
    # Streams (streams.c): of rsockets, and of TCP sockets that a preloaded library carries. What moves one byte is no failure.
    "rsockets-short": (LIBRARIES, "short"),
    "rsockets-interrupted": (LIBRARIES, "interrupted"),
    "sockets-short": (SOCKETS, "short"),
    "sockets-interrupted": (SOCKETS, "interrupted"),
    # Where a function of it ends in the C library's, that is called by the program.
    "sockets-part": (SOCKETS + ":fault_sockets", "part"),
    # Streams of rsockets over iWARP, that is over TCP: one transfer is short, or all are.
    "iwarp-short": (LIBRARIES, "short"),
    "iwarp-interrupted": (LIBRARIES, "interrupted"),
    "iwarp-part": (LIBRARIES, "part"),
    "iwarp-pieces": (LIBRARIES, "pieces"),
    # A verbenad that takes over from one that died, with a listener and connections there (survivor.c): the user's own, and the system's.
    "heir-short": ("verbenad", "short"),
    "heir-interrupted": ("verbenad", "interrupted"),
    "heir-killed": ("verbenad", "killed"),
    "heir-stopped": ("verbenad", "stopped"),
    "system-heir-short": ("verbenad", "short"),
    "system-heir-interrupted": ("verbenad", "interrupted"),
    "system-heir-killed": ("verbenad", "killed"),
}
# Those of one process at a time, and those of several: two tests, which may run at the same time.
SEVERAL = ("peer-", "client-", "alone-", "iwarp-", "rpeer-", "rclient-", "ralone-")
HEIRS = ("heir-", "system-heir-")
PARTS = {"one": [group for group in GROUPS if not group.startswith(SEVERAL + HEIRS)],
         "several": [group for group in GROUPS if group.startswith(SEVERAL)],
         "heirs": [group for group in GROUPS if group.startswith(HEIRS)]}
# Who is who where both are on one host.
ALONE = {"alone": "peer", "alone-client": "client", "alone-daemon": "peer-daemon"}
ENVIRONMENT = {"wire-": {"VERBENA_WIRE": "rocev2"}, "iwarp-": {"VERBENA_TRANSPORT": "iwarp"}}
# Bytes that a transfer moves at most.
PIECES = (7, 61, 1000)
# Every call of the C library that asks the system for something, as far as library and daemon use it, must be among those that
# interpose.c has fail; but for these, with the reason.
CAN_FAIL = set("""accept accept4 access bind chdir chmod clock_gettime close close_range connect dup dup2 dup3
    epoll_create1 epoll_ctl epoll_wait eventfd fcntl fcntl64 flock fopen fopen64 fork fstat64 ftruncate ftruncate64
    getaddrinfo getifaddrs getpeername getrandom getrlimit64 getsockname getsockopt if_nametoindex ioctl listen lseek
    lseek64 madvise memfd_create mkdir mmap mmap64 mprotect mremap munmap nanosleep open open64 openat openat64
    opendir pipe2 poll posix_spawn ppoll prctl pread pread64 process_vm_readv process_vm_writev pwrite pwrite64 read
    readlink readv recv recvfrom recvmmsg recvmsg select send sendfile sendmmsg sendmsg sendto setrlimit64 setsid
    setsockopt shutdown socket socketpair splice stat64 statx syscall timerfd_create unlink waitpid write writev
    calloc malloc realloc aligned_alloc posix_memalign strdup strndup pthread_create""".split())
EXEMPT = {
    "clock_gettime": "always there", "close": "the descriptor is gone whatever it says", "close_range": "as close",
    "munmap": "of what was mapped whole",
    "nanosleep": "a shorter sleep", "prctl": "what it is asked for is no condition for anything", "shutdown": "of a stream that is over",
    "access": "as if there were no such file", "stat64": "as if there were no such file", "statx": "as if there were no such file",
    "fstat64": "of a descriptor that is open", "getrlimit64": "always there", "setrlimit64": "it goes on with the limit there is",
    "lseek": "as fstat64", "lseek64": "as fstat64", "flock": "of captures alone",
    "openat64": "under a folder in /proc: as if it were not there",
    "if_nametoindex": "as if there were no such interface", "ioctl": "as if there were no such interface",
    "getaddrinfo": "tells by itself",
    "chdir": "before it serves", "chmod": "before it serves", "mkdir": "before it serves", "unlink": "before it serves",
    "dup2": "before it serves", "fork": "before it serves", "setsid": "before it serves",
    # libverbena-sockets.so alone, which asks for the function behind it in the chain and never calls these itself.
    "open": "as open64: tests are built with large files", "mmap": "as mmap64", "pread": "as pread64",
}
# Where two calls may fail in one run: a connection that is there is promised to outlive one.
PAIRED = [group for group, (_, kind) in GROUPS.items() if kind in ("short", "interrupted") and not group.startswith(HEIRS + ("kept-",))]
ROUNDS = 1000
# Of each, in `make test`.
FEW = 4
# By `make campaign` alone.
LONG = ("heir-interrupted", "heir-stopped", "system-heir-interrupted", "system-heir-killed")
# Of those that are like others.
FEWER = ("peer-daemon-stopped", "client-daemon-stopped", "alone-client-killed", "alone-client-stopped", "alone-daemon-killed",
         "alone-daemon-stopped", "rpeer-stopped", "rclient-stopped", "ralone-stopped", "ralone-client-stopped", "kept-interrupted", "rclient-killed", "ralone-killed", "ralone-client-killed", "client-killed", "client-stopped",
         "peer-daemon-killed", "client-daemon-killed", "rpeer-killed", "kept-short", "heir-short", "heir-killed",
         "system-heir-short", "wire-short", "wire-interrupted", "iwarp-short", "iwarp-interrupted", "iwarp-part",
         "alone-killed", "alone-stopped", "daemon-stopped", "rsockets-short", "rsockets-interrupted", "sockets-short",
         "sockets-interrupted", "sockets-part")
PATIENCE = 100
STOPPED = 0.5


class Faults:
    def __init__(self, verbenad, lifetime, interpose, rsockets, sockets, survivor, peers):
        self.folder = tempfile.mkdtemp(prefix="verbena-faults-")
        os.chmod(self.folder, 0o755)
        library = os.path.join(os.path.dirname(verbenad), "..", "lib")
        sources = [verbenad, lifetime, interpose, rsockets, sockets, survivor, peers, os.path.join(os.path.dirname(verbenad), "verbena")]
        sources += [os.path.join(library, name) for name in LIBRARIES.split(":") + [SOCKETS]]
        (self.verbenad, self.lifetime, self.interpose, self.rsockets, self.sockets, self.survivor_path, self.peers, self.verbena, *_,
         self.carrier) = map(self.take, sources)
        self.left_behind = {}    # by group, when nothing fails
        self.network = hosts.Network()
        self.network.__enter__()
        self.network.environment = {"LD_LIBRARY_PATH": self.folder, "VERBENA_DAEMON": self.verbenad, "VERBENA_IDLE_SECONDS": "0.2"}

    def take(self, path):
        copy = shutil.copy(path, self.folder)
        os.chmod(copy, 0o755)
        return copy

    def close(self):
        self.network.close()
        shutil.rmtree(self.folder, True)

    def run(self, group, number):
        """(problem or None, which call failed, how many calls there were)."""
        objects, kind = GROUPS[group]
        faults = {"LD_PRELOAD": self.interpose, "FAIL_IN": objects, "FAIL_KIND": kind, "FAIL_AT": str(number)}
        for prefix, more in ENVIRONMENT.items():
            if group.startswith(prefix):
                faults.update(more)
        if group.endswith("-warm"):
            faults["LIFE_WARM"] = "1"
        # Hosts of its own: nothing of one run is there in the next.
        between = group.startswith(("peer-", "client-", "rpeer-", "rclient-"))
        here = list(self.network.pair()) if between else [self.network.host()]
        try:
            if group.startswith(("peer-", "client-", "alone-")):
                run = self.run_killed_between if kind == "killed" else self.run_between
                victim = group.rsplit("-", 1)[0]
                return run(here[0], here[-1], "10.77.0.1" if between else "127.0.0.1", faults, ALONE.get(victim, victim), group)
            if group.startswith(("rpeer-", "rclient-", "ralone-")):
                return self.run_rsockets(here[0], here[-1], "10.77.0.1" if between else "127.0.0.1", faults, group)
            if group.startswith(("rsockets-", "sockets-", "iwarp-")):
                return self.run_streams(here[0], group, faults)
            if group == "libraries-killed":
                return self.run_killed(here[0], faults)
            if group.startswith("kept-"):
                return self.run_kept(host=here[0], faults=faults)
            if "heir-" in group:
                return self.run_heir(here[0], group, faults)
            return self.run_on(here[0], objects, faults)
        finally:
            for host in here:
                host.close()
                self.network.hosts.remove(host)
                hosts.system("ip", "netns", "del", host.name)

    @staticmethod
    def until(condition, patience=PATIENCE):
        limit = time.monotonic() + patience
        while not condition():
            if time.monotonic() > limit:
                return False
            time.sleep(0.01)
        return True

    def run_killed(self, host, faults):
        first = host.start(self.lifetime, environment={**faults, "FAIL_WAITS": "1"}).wait(PATIENCE)
        second = host.start(self.lifetime).wait(PATIENCE)
        problem = None
        if first.code not in (0, -signal.SIGKILL):
            problem = "the program ended with %s" % first.code
        elif second.code:
            problem = "the next program ended with %s" % second.code
        elif not self.until(lambda: not host.pids_of("verbenad")):
            problem = "verbenad believes that somebody is there"
        return self.judged(problem, first.out + second.out)

    def queue_pairs(self, host, process):
        """How many it has, as verbenad knows; None: it does not know it."""
        told = host.run(self.verbena, "status", "--json")
        rows = json.loads(told.out[told.out.index("{"):])["processes"] if told.code == 0 else []
        return next((row["queue_pairs"] for row in rows if row["pid"] == process.pid), None)

    def communication_ids(self, host, process):
        """How many it has, as verbenad knows."""
        told = host.run(self.verbena, "res", "--json", "--pid", str(process.pid))
        return sum(len(row.get("cm_ids", ())) for row in json.loads(told.out[told.out.index("["):])) if told.code == 0 else 0

    def run_killed_between(self, left, right, address, faults, victim, group):
        """A process dies at a call that it makes: rping's server or client, or the verbenad of one of them. The other hears of it or is
        served; then all goes as ever, and nothing is left: no queue pair of the dead one's peer, no descriptor or memory of the server, no
        socket on its host, and no verbenad when all have gone."""
        def serve(environment):
            server = left.start(which("rping"), "-s", "-P", "-a", address, environment=environment)
            server.wait_until(self.is_bound)
            return server

        def ask(environment):
            return right.start(which("rping"), "-c", "-a", address, "-C", "3", "-S", "4000", environment=environment).wait(PATIENCE)

        daemon = None
        if victim.endswith("-daemon"):
            daemon = (left if victim == "peer-daemon" else right).start(self.verbenad, "--foreground", "--idle-seconds", "1",
                                                                        environment=faults)
            daemon.wait_until(lambda process: self.listens(process))
        server = serve({**faults, "FAIL_TELLS": "1"} if victim == "peer" else {})
        client = ask(faults if victim == "client" else {})
        out = client.out
        problem = "the client waits for ever" if client.timed_out else None
        if client.code is not None and client.code < 0 and not client.timed_out and victim != "client":
            problem = "the client ended with %s" % client.code
        # Without a fault of its own rping's server may end too, where the client is gone before it has looked at its request.
        if victim == "peer" or not server.running():
            server.signal(signal.SIGTERM)
            out += server.wait(PATIENCE).out
            server = serve({})
        # While the server's listener is told to the next verbenad there is none. rping's server ends when it hears that a client which it has
        # accepted is gone.
        while not problem:
            if not self.until(lambda: not server.running() or ask({}).code == 0):
                problem = "the next client is not served"
            elif not self.until(lambda: not server.running() or self.queue_pairs(left, server) == 0):
                problem = "the server has queue pairs of clients that are gone: %s" % self.queue_pairs(left, server)
            if server.running():
                break
            server = serve({})
        # What it has of an id that it could not accept rping keeps.
        if not problem and "rdma_accept" not in server.output():
            problem = self.look_behind_server(server, group)
        if problem:
            out += "the server says:\n%s%s" % (server.output(), left.run(self.verbena, "res").out)
        server.kill()
        if not problem and not self.until(lambda: not left.pids_of("verbenad") and not right.pids_of("verbenad")):
            problem = "verbenad believes that somebody is there"
        out += daemon.output() if daemon else ""
        return self.judged(problem, out)

    def run_rsockets(self, left, right, address, faults, group):
        """One end of a connection of rsockets dies, or stops for a while. The other is told, though it only waits; then all goes as ever, and nothing of the dead one
        is left: no queue pair, descriptor or memory of the server, no socket on its host, no verbenad when all have gone."""
        def serve(environment):
            server = left.start(self.peers, "server", address, "7180", environment=environment)
            if environment and stops:
                threading.Thread(target=self.go_on_after_a_while, args=(server, server), daemon=True).start()
            server.wait_until(lambda process: "listening" in process.output() or not process.running())
            return server

        def ask(environment):
            client = right.start(self.peers, "client", address, "7180", environment=environment)
            if environment and stops:
                self.go_on_after_a_while(client, client)
            return client.wait(PATIENCE)

        def has_heard():
            return server.output().count("accepted") == server.output().count("ended")

        client_dies, stops = "client" in group, faults["FAIL_KIND"] == "stopped"
        server = serve({} if client_dies else {**faults, "FAIL_TELLS": "1"})
        client = ask(faults if client_dies else {})
        out = client.out
        problem = "the client waits for ever" if client.timed_out else None
        if not problem and client.code not in (0, 3) + ((-signal.SIGKILL,) if client_dies else ()):
            problem = "the client ended with %s" % client.code
        if not client_dies:
            server.signal(signal.SIGTERM)
            out += server.wait(PATIENCE).out
            server = serve({})
        elif not problem and not self.until(has_heard):
            problem = "the server is not told"
        if not problem and not self.until(lambda: ask({}).code == 0):
            problem = "the next client is not served"
        if not problem and not self.until(lambda: has_heard() and self.queue_pairs(left, server) == 0):
            problem = "the server has queue pairs of clients that are gone: %s" % self.queue_pairs(left, server)
        problem = problem or self.look_behind_server(server, group)
        out += server.output()
        server.kill()
        if not problem and not self.until(lambda: not left.pids_of("verbenad") and not right.pids_of("verbenad")):
            problem = "verbenad believes that somebody is there"
        return self.judged(problem, out)

    def look_behind_server(self, server, group):
        """After a client has been served: descriptors, mapped memory files, and sockets of the network namespace."""
        def count():
            with open("/proc/%d/maps" % server.pid) as maps:
                files = {tuple(line.split()[3:5]) for line in maps if "memfd:" in line or "(deleted)" in line}
            with open("/proc/%d/net/udp" % server.pid) as four, open("/proc/%d/net/udp6" % server.pid) as six:
                sockets = len(list(four)) + len(list(six))
            return len(os.listdir("/proc/%d/fd" % server.pid)), len(files), sockets
        if group not in self.left_behind:
            self.until(lambda: count() == (time.sleep(0.1), count())[1])
            self.left_behind[group] = count()
        most = self.left_behind[group]
        if not self.until(lambda: all(now <= then for now, then in zip(count(), most)), 20):
            return "left behind: %s descriptors, memory files and sockets instead of %s" % (count(), most)
        return None

    def run_between(self, left, right, address, faults, victim, group):
        """A process stops at a call that it makes: rping's server or client, or the verbenad of one of them. The client hears of it, or is
        served: it ends."""
        daemon = None
        if victim.endswith("-daemon"):
            daemon = (left if victim == "peer-daemon" else right).start(self.verbenad, "--foreground", "--idle-seconds", "1",
                                                                        environment=faults)
            threading.Thread(target=self.go_on_after_a_while, args=(daemon, daemon), daemon=True).start()
            daemon.wait_until(lambda process: self.listens(process))
        server = left.start(which("rping"), "-s", "-a", address, "-C", "3", environment=faults if victim == "peer" else {})
        server.wait_until(lambda process: self.is_bound(process) or self.is_stopped(process))
        client = right.start(which("rping"), "-c", "-a", address, "-C", "3", "-S", "4000", environment=faults if victim == "client" else {})
        # Where the other one waits as long as its peer's timeouts say, that is minutes: so it goes on after a while.
        if not daemon:
            self.go_on_after_a_while(client if victim == "client" else server, client)
        client = client.wait(PATIENCE)
        problem = "the client waits for ever" if client.timed_out else None
        if client.code is not None and client.code < 0 and not client.timed_out:
            problem = "the client ended with %s" % client.code
        # A client that was served leaves a server that ends too. It may stop on the way.
        patience = PATIENCE if client.code == 0 and not problem else 1
        server.wait_until(self.is_stopped, patience)
        server.signal(signal.SIGCONT)
        ended = server.wait(patience)
        if ended.timed_out and client.code == 0:
            problem = "the server waits for ever"
        out = client.out + ended.out
        if daemon:
            done = daemon.wait(PATIENCE)
            out += done.out
            if not problem and done.code != 0:
                problem = "verbenad ended with %s" % done.code
        if not problem and not self.until(lambda: not left.pids_of("verbenad") and not right.pids_of("verbenad")):
            problem = "verbenad believes that somebody is there"
        return self.judged(problem, out)

    def go_on_after_a_while(self, stopped, program):
        """`program` is what must end."""
        program.wait_until(lambda _: self.is_stopped(stopped))
        if self.is_stopped(stopped):
            time.sleep(STOPPED)
        stopped.signal(signal.SIGCONT)

    def run_streams(self, host, group, faults):
        faults["FAIL_WAITS"] = "1"
        if objects_are_sockets(group):
            faults["LD_PRELOAD"] = self.carrier + ":" + self.interpose
        program = host.start(self.sockets if objects_are_sockets(group) else self.rsockets, environment=faults).wait(PATIENCE)
        good = (0,) if faults["FAIL_KIND"] in ("part", "pieces") else (0, 3)
        return self.judged(None if program.code in good else "the program ended with %s" % program.code, program.out)

    def can_be_system(self):
        """As root, with nf_tables: otherwise users cannot be kept apart."""
        host = self.network.host()
        able = not os.environ.get("VERBENA_TEST_INSIDE") and host.run("nft", "list", "ruleset", privileged=True).code == 0
        host.close()
        return able

    @staticmethod
    def is_stopped(process):
        try:
            with open("/proc/%d/stat" % process.pid) as stat:
                return stat.read().rsplit(")", 1)[1].split()[0] == "T"
        except OSError:
            return False

    @staticmethod
    def is_bound(process):
        """Somebody has UDP port 4791 there: the listener is, or is about to be."""
        try:
            with open("/proc/%d/net/udp" % process.pid) as table:
                return any(row.split()[1].endswith(":12B7") for row in list(table)[1:])
        except OSError:
            return False

    def run_on(self, host, objects, faults):
        daemon = None
        if objects == "verbenad":
            daemon = host.start(self.verbenad, "--foreground", "--idle-seconds", "0.5", environment=faults)
            daemon.wait_until(lambda process: self.listens(process) or self.is_stopped(process))
            if not self.listens(daemon):  # it stopped before; without it the program would start another
                daemon.signal(signal.SIGCONT)
                daemon.wait_until(lambda process: self.listens(process))
        life = host.start(self.lifetime, environment={} if daemon else {**faults, "FAIL_WAITS": "1"})
        if faults["FAIL_KIND"] == "stopped":
            self.go_on_after_a_while(daemon, life)
        life = life.wait(PATIENCE)
        out = life.out
        problem = None
        if life.code not in (0, 3):
            problem = "the program ended with %s" % life.code
        if daemon:
            if faults["FAIL_KIND"] == "stopped":
                daemon.wait_until(self.is_stopped)
                daemon.signal(signal.SIGCONT)
            done = daemon.wait(PATIENCE)
            out += done.out
            # 1: it did not start, and said why.
            if done.code not in (0, 1) and not (done.code == -signal.SIGKILL and faults["FAIL_KIND"] == "killed"):
                problem = "verbenad ended with %s" % done.code
        return self.judged(problem, out)

    def survivor(self, host, role, environment):
        process = host.start(self.survivor_path, role, "7174",
                             environment={"VERBENA_DAEMON": "/nonexistent", "VERBENA_WIRE": "rocev2", **environment})
        process.wait_until(lambda process: "ready" in process.output())
        return process

    def run_kept(self, host, faults):
        """A program has a connection, and one call of its libraries fails. What is refused is asked for again; the connection is there still."""
        daemon = host.start(self.verbenad, "--foreground", "--idle-seconds", "30")
        daemon.wait_until(lambda process: self.listens(process))
        server = self.survivor(host, "server", {})
        client = self.survivor(host, "client", {**faults, "FAIL_WAITS": "1"})
        problem = None
        for times in (1, 2):
            client.signal(signal.SIGUSR1)
            if not problem and not self.until(lambda: client.output().count("well") >= times or not client.running()):
                problem = "the client waits for ever"
        client.signal(signal.SIGTERM)
        done = client.wait(PATIENCE)
        if not problem and done.code != 0:
            problem = "the client ended with %s" % done.code
        if not problem and not self.until(lambda: "gone %d.0\n" % client.pid in server.output()):
            problem = "the server is not told that the client left"
        server.kill()
        daemon.signal(signal.SIGTERM)
        daemon.wait(PATIENCE)
        return self.judged(problem, done.out + server.output())

    def run_heir(self, host, group, faults):
        """A verbenad dies. The next one has the fault, and where it ends by it another comes. A listener and two connections are there:
        nothing of them is lost. New connections can be made; one process dies meanwhile, and the server hears of it."""
        system, daemons = group.startswith("system-"), []

        def start(environment):
            options = ["--system"] if system else ["--idle-seconds", "30"]
            daemons.append(host.start(self.verbenad, "--foreground", *options, privileged=system, environment=environment))

        def tended(condition):
            """Nobody but us starts a verbenad here."""
            def look():
                if not daemons[-1].running():
                    start({})
                return condition()
            return self.until(look)

        def well(client, times):
            client.signal(signal.SIGUSR1)
            return tended(lambda: client.output().count("well") >= times or not client.running()) and client.running()

        def all_known():
            """What a process has not told of when it dies is lost with it: its queue pairs and its ids, by two connections."""
            return (None not in [self.queue_pairs(host, process) for process in (server, one, other)] and
                    ids() == ids_before)

        def ids():
            return [self.communication_ids(host, process) for process in (server, one, other)]

        def told(client):
            return "gone %d.0\n" % client.pid in server.output()

        start({})
        daemons[0].wait_until(lambda process: self.listens(process))
        server, one, other = (self.survivor(host, role, {}) for role in ("server", "client", "client"))
        ids_before = ids()
        daemons[0].kill()
        start({**faults, "FAIL_TELLS": "1"})
        if faults["FAIL_KIND"] == "stopped":
            threading.Thread(target=self.go_on_after_a_while, args=(daemons[1], daemons[1]), daemon=True).start()
        problem = None
        # Packets for a process that does not come within two seconds are lost until it does: that is for those that stand still.
        if not tended(all_known):
            problem = "the next verbenad does not know who was there"
        if not problem and not well(one, 1):
            problem = "what outlives a verbenad is lost"
        if not problem and not tended(all_known):
            problem = "the next verbenad but one does not know who was there"
        knows = daemons[-1]
        other.kill()
        # One that dies together with its process cannot tell: the peer of a connection that rests hears of it when it sends.
        if not problem and not tended(lambda: told(other) or not knows.running()):
            problem = "the server is not told that a client died"
        if not problem and not well(one, 2):
            problem = "after a process died others cannot go on"
        one.signal(signal.SIGTERM)
        if not problem and not (tended(lambda: not one.running()) and one.wait(1).code == 0):
            problem = "the connection that was kept does not end well"
        if not problem and not tended(lambda: told(one)):
            problem = "the server is not told that a client left"
        server.signal(signal.SIGTERM)
        if not problem and not tended(lambda: not server.running()):
            problem = "the server does not end"
        problem = problem or self.look_behind(host, group, daemons)
        daemons[-1].signal(signal.SIGTERM)
        daemons[-1].signal(signal.SIGCONT)
        daemons[-1].wait(PATIENCE)
        if not problem and daemons[1].popen.returncode not in (0, 1) + ((-signal.SIGKILL,) if faults["FAIL_KIND"] == "killed" else ()):
            problem = "verbenad ended with %s" % daemons[1].popen.returncode
        return self.judged(problem, "".join(process.output() for process in (*daemons[1:], server, one, other)))

    def look_behind(self, host, group, daemons):
        """Descriptors of verbenad, and sockets of the network namespace."""
        def count():
            try:
                with open("/proc/%d/net/udp" % daemons[-1].pid) as four, open("/proc/%d/net/udp6" % daemons[-1].pid) as six:
                    sockets = len(list(four)) + len(list(six))
                return len(os.listdir("/proc/%d/fd" % daemons[-1].pid)), sockets
            except OSError:
                return 0, 0
        if group not in self.left_behind:
            self.until(lambda: count() == (time.sleep(0.1), count())[1])
            self.left_behind[group] = count()
        most = self.left_behind[group]
        if not self.until(lambda: count()[0] <= most[0] and count()[1] <= most[1], 20):
            return "left behind: %s descriptors and sockets instead of %s" % (count(), most)
        return None

    @staticmethod
    def judged(problem, out):
        failed = re.findall(r"call \S+ failed in .*", out)
        count = re.search(r"^calls (\d+)", out, re.M)
        return (problem and problem + "\n" + out, "; ".join(failed) or "none", int(count.group(1)) if count else 0)

    @staticmethod
    def listens(process):
        try:
            with open("/proc/%d/net/unix" % process.pid) as table:
                return any(line.rstrip().endswith("@verbena/1") for line in table)
        except OSError:  # it has ended
            return False


def calls_left_out(paths, interpose):
    """Names of calls that these objects make and that never fail in these tests."""
    def names(option, path):
        out = subprocess.run(["nm", "-D", option, path], check=True, capture_output=True, text=True).stdout
        return {line.split()[-1].split("@")[0] for line in out.splitlines() if line.strip()}
    used = set().union(*(names("--undefined-only", path) for path in paths))
    return sorted((used & CAN_FAIL) - names("--defined-only", interpose) - set(EXEMPT))


def objects_are_sockets(group):
    return SOCKETS in GROUPS[group][0]


def numbers(group, total, step, first, few):
    if GROUPS[group][1] == "pieces":
        return PIECES
    if step:
        return range(max(first, 1), total + 1, step)
    return sorted({max(1, total * i // few + 1) for i in range(few)})


def pairs(total, random):
    """One call, and one behind it: often one that is made because the first has failed."""
    first = random.randint(1, total)
    return "%d,%d" % (first, first + (random.randint(1, 8) if random.random() < 0.5 else random.randint(1, total)))


def run_pairs(faults, groups, seed, end):
    """Round and round, until time is up."""
    random, totals, runs, bad = Random(seed), {}, 0, 0
    for group in [group for _ in range(ROUNDS) for group in groups]:
        if time.monotonic() > end:
            break
        if group not in totals:
            problem, _, totals[group] = faults.run(group, 0)
            if problem or not totals[group]:
                print("%s: without a fault: %s" % (group, problem or "no call was counted"))
                return runs, bad + 1
        pair = pairs(totals[group], random)
        problem, failed, _ = faults.run(group, pair)
        runs += 1
        if problem:
            bad += 1
            print("FAILED --only %s --pair %s: %s; %s" % (group, pair, failed, problem), flush=True)
    return runs, bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs=7)
    parser.add_argument("--every", type=int)
    parser.add_argument("--from", dest="first", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--only", choices=GROUPS, action="append")
    parser.add_argument("--part", choices=PARTS)
    parser.add_argument("--pairs", type=int, metavar="SEED")
    parser.add_argument("--pair", metavar="N,M", help="these two, once")
    arguments = parser.parse_args()
    hosts.enter_user_namespace([sys.executable, os.path.realpath(__file__), *sys.argv[1:]])
    if not hosts.can_create_namespaces():
        print("network namespaces cannot be created here")
        return 77
    faults, bad, runs, end = Faults(*map(os.path.realpath, arguments.programs)), 0, 0, time.monotonic() + arguments.seconds
    try:
        missing = calls_left_out([faults.verbenad, faults.carrier] + [os.path.join(faults.folder, name) for name in LIBRARIES.split(":")],
                                 faults.interpose)
        if missing:
            print("nothing has these calls fail: " + " ".join(missing))
            return 1
        if arguments.pair:
            problem, failed, _ = faults.run(arguments.only[0], arguments.pair)
            print(failed, problem or "passed", sep="\n")
            return 1 if problem else 0
        if arguments.pairs is not None:
            runs, bad = run_pairs(faults, arguments.only or PAIRED, arguments.pairs, end)
        for group in () if arguments.pairs is not None else arguments.only or PARTS.get(arguments.part, GROUPS):
            if group.startswith("system-") and not faults.can_be_system():
                continue
            if group in LONG and not (arguments.every or arguments.only):
                continue
            problem, _, total = faults.run(group, 0)
            if problem or not total:
                print("%s: without a fault: %s" % (group, problem or "no call was counted"))
                return 1
            print("%s: %d calls" % (group, total), flush=True)
            for number in numbers(group, total, arguments.every, arguments.first, FEW // 2 if group in FEWER else FEW):
                if time.monotonic() > end:
                    break
                problem, failed, _ = faults.run(group, number)
                runs += 1
                if problem:
                    bad += 1
                    print("FAILED --only %s --every 1 --from %d: %s; %s" % (group, number, failed, problem), flush=True)
    finally:
        faults.close()
    print("%d runs, %d failed" % (runs, bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
