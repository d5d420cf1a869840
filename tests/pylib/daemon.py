# SPDX-License-Identifier: MIT
"""verbenad and processes of any user, in network namespaces: what tests/netns/test_*.py have in common.

    test_X.py VERBENAD PEER [unittest arguments]

PEER is the program of netns/peer.c: an endpoint with queue pairs, below libibverbs.
"""

import os
import re
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from . import hosts

programs = []
PATIENCE = 60
HERE = os.path.dirname(os.path.realpath(__file__))


def protocol():
    """A line of Python for programs that speak to verbenad by themselves: with another number than its own they would be refused, and try nothing."""
    with open(os.path.join(HERE, "..", "..", "src", "wire", "daemon_message.h")) as file:
        return "MAGIC = %s\n" % re.search(r"#define VB_DAEMON_MAGIC (0x[0-9a-f]+)u", file.read()).group(1)


SPEAKS = protocol()
ALICE, BOB = 12345, 12346


class Peer:
    def __init__(self, test, host, *arguments, uid=ALICE, environment=None, program=None, gid=None, groups=()):
        drop = ["setpriv", "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"]
        if os.environ.get("VERBENA_TEST_INSIDE"):
            pass
        elif uid:
            drop += ["--reuid=%d" % uid, "--regid=%d" % (gid or uid),
                     "--groups=" + ",".join(map(str, groups)) if groups else "--clear-groups"]
        else:
            drop = []
        self.test = test
        self.errors = tempfile.TemporaryFile()
        self.buffer = b""
        self.popen = subprocess.Popen(
            ["ip", "netns", "exec", host.name, *drop, program or test.peer_path, *map(str, arguments)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=self.errors, cwd="/", start_new_session=True,
            env={"PATH": hosts.SYSTEM_PATH, "VERBENA_DAEMON": test.daemon_path, "VERBENA_LOG": "info",
                 "VERBENA_IDLE_SECONDS": "0.3", **(environment or {})})
        self.pid = self.popen.pid
        os.set_blocking(self.popen.stdout.fileno(), False)
        test.addCleanup(self.close)

    def close(self):
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait()
        self.popen.stdin.close()
        self.popen.stdout.close()
        log = self.log()
        self.errors.close()
        self.test.assertNotIn("Sanitizer", log)

    def log(self):
        size = os.fstat(self.errors.fileno()).st_size
        return os.pread(self.errors.fileno(), size, 0).decode(errors="replace")

    def say(self, *words):
        self.popen.stdin.write((" ".join(map(str, words)) + "\n").encode())
        self.popen.stdin.flush()

    def hear(self, *expected, timeout=PATIENCE, skip=("device", "gone")):
        """The next line as words; news are skipped unless asked for."""
        limit = time.monotonic() + timeout
        with selectors.DefaultSelector() as selector:
            selector.register(self.popen.stdout, selectors.EVENT_READ)
            while True:
                while b"\n" in self.buffer:
                    line, self.buffer = self.buffer.split(b"\n", 1)
                    words = line.decode().split()
                    if words[0] in skip:
                        continue
                    self.test.assertEqual(words[:len(expected)], [str(word) for word in expected],
                                          " ".join(words) + "\n" + self.log())
                    return words
                left = limit - time.monotonic()
                if left <= 0 or not selector.select(left):
                    self.test.fail("peer %d says nothing, expected %s\n%s" % (self.pid, expected, self.log()))
                got = os.read(self.popen.stdout.fileno(), 65536)
                if not got:
                    self.test.fail("peer %d ended, expected %s\n%s" % (self.pid, expected, self.log()))
                self.buffer += got

    def ready(self):
        words = self.hear("ready")
        self.slot, self.qpn = int(words[1]), [int(word) for word in words[2:]]
        return self

    def failed(self):
        words = self.hear("failed")
        self.popen.wait(PATIENCE)
        return " ".join(words)

    def quit(self):
        self.say("quit")
        self.test.assertEqual(self.popen.wait(PATIENCE), 0, self.log())

    def processes(self):
        """pid: (uid, slot, queue pairs)."""
        self.say("processes")
        found = {}
        while True:
            words = self.hear()
            if words[0] == "processes":
                self.test.assertEqual(int(words[1]), len(found))
                return found
            self.test.assertEqual(words[0], "process")
            found[int(words[1])] = tuple(int(word) for word in words[2:])


def connect(one, other, mine=0, theirs=0):
    one.say("connect", mine, other.qpn[theirs])
    other.say("connect", theirs, one.qpn[mine])
    one.hear("connected", mine)
    other.hear("connected", theirs)


def exchange(one, count=50, index=0):
    one.say("serve", index, count)
    one.hear("done", index, count)


class DaemonCase(unittest.TestCase):
    """A host of its own for each test."""

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(prefix="verbena-netns-")
        cls.addClassCleanup(shutil.rmtree, cls.directory, True)
        os.chmod(cls.directory, 0o755)
        cls.daemon_path = shutil.copy(programs[0], os.path.join(cls.directory, "verbenad"))
        cls.peer_path = shutil.copy(programs[1], os.path.join(cls.directory, "peer"))
        for path in (cls.daemon_path, cls.peer_path):
            os.chmod(path, 0o755)

    def setUp(self):
        network = hosts.Network()
        network.__enter__()
        self.addCleanup(network.close)
        self.network = network
        self.host = network.host()

    def peer(self, *arguments, **options):
        return Peer(self, self.host, *arguments, **options)

    def peers(self, count, *arguments, **options):
        started = [self.peer(*arguments, **options) for _ in range(count)]
        return [peer.ready() for peer in started]

    def daemons(self):
        return self.host.pids_of("verbenad")

    def until(self, condition, what, timeout=PATIENCE):
        limit = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > limit:
                self.fail("not within %d seconds: %s" % (timeout, what))
            time.sleep(0.01)

    def kill_daemon(self):
        # Of those that were started at once, all but one go again.
        self.until(lambda: len(self.daemons()) == 1, "one daemon")
        daemons = self.daemons()
        os.kill(daemons[0], signal.SIGKILL)
        self.until(lambda: daemons[0] not in self.daemons(), "the daemon is dead")

    def start_system(self, *options, wrapper=()):
        process = self.host.start(*wrapper, self.daemon_path, "--system", "--foreground", *options, privileged=True,
                                  environment={"VERBENA_LOG": "info", **self.sanitizer_options()})
        self.until(lambda: self.listens() or not process.running(), "the system daemon listens")
        return process

    def is_sanitized(self):
        """Was it built with AddressSanitizer? It then takes memory for itself."""
        with open(self.daemon_path, "rb") as program:
            return b"__asan_init" in program.read()

    def sanitizer_options(self):
        """Freed memory that is kept to find uses of it would be taken for memory that is not given back."""
        if not self.is_sanitized():
            return {}
        return {"ASAN_OPTIONS": "detect_leaks=0:exitcode=99:quarantine_size_mb=0"}

    def listens(self):
        with open("/proc/%d/net/unix" % self.host.processes[-1].pid) as table:
            return any(line.split()[-1] == self.host.meeting_path() and line.split()[5] == "01" for line in table)

    def needs_users(self):
        if os.environ.get("VERBENA_TEST_INSIDE"):
            self.skipTest("only root can be several users")

    def needs_tables(self):
        """Users who do not trust each other are kept apart by a rule of nf_tables."""
        if self.host.run("nft", "list", "ruleset", privileged=True).code:
            self.skipTest("this kernel has no nf_tables")


class IntruderCase(DaemonCase):
    """With a user who wants what is not his (netns/intruder.py)."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.intruder_path = shutil.copy(os.path.join(HERE, "..", "netns", "intruder.py"), cls.directory)
        os.chmod(cls.intruder_path, 0o755)
        with open(os.path.join(cls.directory, "protocol.py"), "w") as file:
            os.fchmod(file.fileno(), 0o644)
            file.write(SPEAKS)

    def intruder(self, uid=BOB, **options):
        return Peer(self, self.host, program=self.intruder_path, uid=uid, **options)

    def ask(self, intruder, *words):
        intruder.say(*words)
        return intruder.hear()


def main(path):
    hosts.enter_user_namespace([sys.executable, os.path.realpath(path), *sys.argv[1:]])
    if not hosts.can_create_namespaces():
        print("network namespaces cannot be created here")
        sys.exit(77)
    programs[:] = sys.argv[1:3]
    unittest.main(module="__main__", argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
