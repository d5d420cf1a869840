#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every allocation and every system call of the libraries and of verbenad fails once (interpose.c), while a program lives its life
(lifetime.c); and at every one of them the process dies, or stops.

    test_system_calls.py VERBENAD LIFETIME INTERPOSE RSOCKETS SOCKETS [--every STEP] [--from N] [--seconds S] [--only GROUP]

Without options a few of each group, spread over all; `make campaign` runs `--every 1`. A run that fails is told with the options that
repeat it.
Which call is the Nth depends on which thread is first: a repetition may hit a neighbour of it.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

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
    # Two hosts: rping's server, and what its client hears.
    "peer-killed": (LIBRARIES, "killed"),
    "peer-stopped": (LIBRARIES, "stopped"),
    # Its client instead; and both on one host, the server first.
    "client-stopped": (LIBRARIES, "stopped"),
    "alone-killed": (LIBRARIES, "killed"),
    "alone-stopped": (LIBRARIES, "stopped"),
    # The program's calls wait, and go on.
    "daemon-stopped": ("verbenad", "stopped"),
    # Streams (streams.c): of rsockets, and of TCP sockets that a preloaded library carries. What moves one byte is no failure.
    "rsockets-short": (LIBRARIES, "short"),
    "rsockets-interrupted": (LIBRARIES, "interrupted"),
    "sockets-short": (SOCKETS, "short"),
    "sockets-interrupted": (SOCKETS, "interrupted"),
    # Where a function of it ends in the C library's, that is called by the program.
    "sockets-part": (SOCKETS + ":fault_sockets", "part"),
}
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
# Of each, in `make test`.
FEW = 4
# Of those that are like others.
FEWER = ("client-stopped", "alone-killed", "alone-stopped", "daemon-stopped", "rsockets-short", "rsockets-interrupted", "sockets-short",
         "sockets-interrupted", "sockets-part")
PATIENCE = 100
STOPPED = 0.5


class Faults:
    def __init__(self, verbenad, lifetime, interpose, rsockets, sockets):
        self.folder = tempfile.mkdtemp(prefix="verbena-faults-")
        os.chmod(self.folder, 0o755)
        library = os.path.join(os.path.dirname(verbenad), "..", "lib")
        sources = [verbenad, lifetime, interpose, rsockets, sockets]
        sources += [os.path.join(library, name) for name in LIBRARIES.split(":") + [SOCKETS]]
        self.verbenad, self.lifetime, self.interpose, self.rsockets, self.sockets, *_, self.carrier = map(self.take, sources)
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
        if group.endswith("-warm"):
            faults["LIFE_WARM"] = "1"
        # Hosts of its own: nothing of one run is there in the next.
        here = list(self.network.pair()) if group.startswith(("peer-", "client-")) else [self.network.host()]
        try:
            if group.startswith(("peer-", "client-")):
                return self.run_between(*here, "10.77.0.1", faults, group.startswith("client-"))
            if group.startswith("alone-"):
                return self.run_between(here[0], here[0], "127.0.0.1", faults, False)
            if group.startswith(("rsockets-", "sockets-")):
                return self.run_streams(here[0], group, faults)
            if group == "libraries-killed":
                return self.run_killed(here[0], faults)
            return self.run_on(here[0], objects, faults)
        finally:
            for host in here:
                host.close()
                self.network.hosts.remove(host)
                hosts.system("ip", "netns", "del", host.name)

    def run_killed(self, host, faults):
        first = host.start(self.lifetime, environment={**faults, "FAIL_WAITS": "1"}).wait(PATIENCE)
        second = host.start(self.lifetime).wait(PATIENCE)
        problem = None
        if first.code not in (0, -signal.SIGKILL):
            problem = "the program ended with %s" % first.code
        elif second.code:
            problem = "the next program ended with %s" % second.code
        else:
            limit = time.monotonic() + PATIENCE
            while host.pids_of("verbenad") and time.monotonic() < limit:
                time.sleep(0.01)
            if host.pids_of("verbenad"):
                problem = "verbenad believes that somebody is there"
        return self.judged(problem, first.out + second.out)

    def run_between(self, left, right, address, faults, client_fails):
        """A process dies or stops at a call of its library, rping's server unless it is the client. The client hears of it, or is
        served: it ends."""
        server = left.start(which("rping"), "-s", "-a", address, "-C", "3", environment={} if client_fails else faults)
        server.wait_until(lambda process: self.is_bound(process) or self.is_stopped(process))
        client = right.start(which("rping"), "-c", "-a", address, "-C", "3", "-S", "4000", environment=faults if client_fails else {})
        if faults["FAIL_KIND"] == "stopped":
            # Where the other one waits as long as its peer's timeouts say, that is minutes: so it goes on after a while.
            self.go_on_after_a_while(client if client_fails else server, client)
        client = client.wait(PATIENCE)
        problem = "the client waits for ever" if client.timed_out else None
        if client.code is not None and client.code < 0 and not client.timed_out:
            problem = "the client ended with %s" % client.code
        # A client that was served leaves a server that ends too. It may stop on the way.
        patience = PATIENCE if client.code == 0 and not problem else 1
        if faults["FAIL_KIND"] == "stopped":
            server.wait_until(self.is_stopped, patience)
        server.signal(signal.SIGCONT)
        ended = server.wait(patience)
        if ended.timed_out and client.code == 0:
            problem = "the server waits for ever"
        return self.judged(problem, client.out + ended.out)

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
        good = (0,) if faults["FAIL_KIND"] == "part" else (0, 3)
        return self.judged(None if program.code in good else "the program ended with %s" % program.code, program.out)

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

    @staticmethod
    def judged(problem, out):
        failed = re.search(r"call (\S+) failed in (.*)", out)
        count = re.search(r"^calls (\d+)", out, re.M)
        return (problem and problem + "\n" + out, failed.group(0) if failed else "none", int(count.group(1)) if count else 0)

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


def numbers(total, step, first, few):
    if step:
        return range(max(first, 1), total + 1, step)
    return sorted({max(1, total * i // few + 1) for i in range(few)})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs=5)
    parser.add_argument("--every", type=int)
    parser.add_argument("--from", dest="first", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--only", choices=GROUPS, action="append")
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
        for group in arguments.only or GROUPS:
            problem, _, total = faults.run(group, 0)
            if problem or not total:
                print("%s: without a fault: %s" % (group, problem or "no call was counted"))
                return 1
            print("%s: %d calls" % (group, total))
            for number in numbers(total, arguments.every, arguments.first, FEW // 2 if group in FEWER else FEW):
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
