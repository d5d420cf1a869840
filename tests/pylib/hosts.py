# SPDX-License-Identifier: MIT
"""Hosts for tests and benchmarks: network namespaces on this machine, joined by veth.

    with Network() as network:                      one host, loopback only
        host = network.host()

    with Network() as network:                      host ── veth ── host
        left, right = network.pair(mtu=1500)        10.77.0.1, fd77::1        10.77.0.2, fd77::2

Programs run in them as an ordinary user: when we are root, as uid 12345 without any capability; otherwise as ourselves,
after `enter_user_namespace` made us able to create namespaces at all.

Nothing survives a Network: processes are killed by pid, and whatever else runs in a namespace (an on-demand
verbenad) by `ip netns pids`; atexit covers the ways out that skip `__exit__`.
"""

import atexit
import itertools
import json
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time

ORDINARY_UID = 12345
# Seconds until something must have appeared, and until a program must have ended: only a failure waits that long, and a machine may
# be slow and busy.
PATIENCE = 60
RUN_TIMEOUT = 120

_serial = itertools.count()
_living = set()
_living_lock = threading.Lock()

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class HostError(Exception):
    pass


def system(*argv):
    """Run a command of the operating system that must succeed."""
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          env={**os.environ, "PATH": SYSTEM_PATH})
    if done.returncode:
        raise HostError("%s: %s" % (" ".join(argv), (done.stderr or done.stdout).strip()))
    return done.stdout


def can_create_namespaces():
    try:
        name = "vb-probe-%d" % os.getpid()
        system("ip", "netns", "add", name)
        system("ip", "netns", "del", name)
        return True
    except (HostError, OSError):
        return False


def enter_user_namespace(argv):
    """Not root: start ourselves again inside a user namespace, where network namespaces may be made."""
    if os.geteuid() == 0 or os.environ.get("VERBENA_TEST_INSIDE"):
        return
    os.environ["VERBENA_TEST_INSIDE"] = "1"
    script = "mount -t tmpfs none /run && exec \"$@\""
    os.execvp("unshare", ["unshare", "--user", "--map-root-user", "--net", "--mount", "sh", "-c", script, "sh", *argv])


class Staged:
    """A copy of the built files that every user can read, and that a rebuild does not pull away under a test."""

    def __init__(self, build):
        self.build = build
        self.root = tempfile.mkdtemp(prefix="verbena-stage-")
        os.chmod(self.root, 0o755)
        atexit.register(shutil.rmtree, self.root, True)
        for part in ("bin", "lib"):
            os.mkdir(os.path.join(self.root, part), 0o755)
            for name in os.listdir(os.path.join(build, part)):
                source = os.path.join(build, part, name)
                target = os.path.join(self.root, part, name)
                if os.path.isfile(source):
                    shutil.copy2(source, target)
                    os.chmod(target, 0o755)
        # A checkout in root's home is closed to the user that the programs run as.
        shutil.copytree(os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "clients", "programs"),
                        os.path.join(self.root, "programs"), ignore=shutil.ignore_patterns("__pycache__"))
        os.chmod(os.path.join(self.root, "programs"), 0o755)
        self.verbena = os.path.join(self.root, "bin", "verbena")
        self.library = os.path.join(self.root, "lib")
        self.lock = threading.Lock()

    def script(self, name):
        """One of tests/clients/programs."""
        path = os.path.join(self.root, "programs", name)
        os.chmod(path, 0o755)
        return path

    def program(self, name):
        """A program of bench/ as well. It appears whole: another case may be about to start it, or to copy all that is here."""
        target = os.path.join(self.root, name)
        with self.lock:
            if not os.path.exists(target):
                with tempfile.TemporaryDirectory(prefix="verbena-stage-") as beside:
                    copy = shutil.copy2(os.path.join(self.build, "bench", name), beside)
                    os.chmod(copy, 0o755)
                    os.rename(copy, target)
        return target


class Result:
    def __init__(self, argv, code, out, seconds, timed_out):
        self.argv, self.code, self.out, self.seconds, self.timed_out = argv, code, out, seconds, timed_out

    def __str__(self):
        how = "timed out" if self.timed_out else "exit code %s" % self.code
        return "$ %s\n[%s after %.1f s]\n%s" % (" ".join(self.argv), how, self.seconds, self.out.rstrip())


class Process:
    """A program running on a host. Its output goes to a file: a pipe would be held open by a daemon it starts."""

    def __init__(self, host, argv, environment, privileged):
        self.argv = list(argv)
        self.started = time.monotonic()
        self.file = tempfile.TemporaryFile()
        self.popen = subprocess.Popen(host.prefix(privileged) + self.argv, stdin=subprocess.DEVNULL, stdout=self.file,
                                      stderr=subprocess.STDOUT, env=environment, cwd="/", start_new_session=True)
        self.pid = self.popen.pid

    def running(self):
        return self.popen.poll() is None

    def output(self):
        if self.file is None:
            return self.kept
        size = os.fstat(self.file.fileno()).st_size
        return os.pread(self.file.fileno(), size, 0).decode(errors="replace")

    def close(self):
        """Killed, and its output kept without a descriptor: the runner remembers every case, of which there are many hundreds."""
        self.kill()
        if self.file is not None:
            self.kept = self.output()
            self.file.close()
            self.file = None

    def signal(self, number):
        if self.running():
            os.kill(self.pid, number)

    def kill(self):
        if self.running():
            try:
                os.killpg(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.popen.wait()

    def wait(self, timeout):
        timed_out = False
        try:
            self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            timed_out = True
            self.kill()
        return Result(self.argv, self.popen.returncode, self.output(), time.monotonic() - self.started, timed_out)

    def listens(self, port):
        """Does the process's network namespace have a TCP listener on this port?"""
        for table in ("tcp", "tcp6"):
            try:
                with open("/proc/%d/net/%s" % (self.pid, table)) as rows:
                    for row in list(rows)[1:]:
                        fields = row.split()
                        if fields[3] == "0A" and int(fields[1].rsplit(":", 1)[1], 16) == port:
                            return True
            except OSError:
                pass
        return False

    def wait_until(self, condition, timeout=PATIENCE):
        """Wait for condition(self); false when the program ended or time is up first."""
        limit = time.monotonic() + timeout
        while time.monotonic() < limit:
            if condition(self):
                return True
            if not self.running():
                return condition(self)
            time.sleep(0.005)
        return False


class Host:
    def __init__(self, network, name):
        self.network, self.name = network, name
        self.processes = []

    def prefix(self, privileged):
        inside = ["ip", "netns", "exec", self.name]
        if self.network.niceness and not os.environ.get("VERBENA_TEST_INSIDE"):
            # Each program is a session, and where sessions are scheduling groups (sched(7): autogroup) its niceness counts within it alone.
            group = 'echo "$0" 2>/dev/null >/proc/self/autogroup; exec nice -n "$0" "$@"'
            inside += ["sh", "-c", group, str(self.network.niceness)]
        if self.network.tmp:
            inside += ["sh", "-c", self.network.mounts(), "sh"]
        if self.network.own_names:
            inside += ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', self.name]
        if privileged:
            return inside
        drop = ["setpriv", "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"]
        if not os.environ.get("VERBENA_TEST_INSIDE"):
            drop += ["--reuid=%d" % ORDINARY_UID, "--regid=%d" % ORDINARY_UID, "--clear-groups"]
        return inside + drop

    def environment(self, more=None):
        environment = {"PATH": SYSTEM_PATH, "HOME": self.network.home, "LANG": "C.UTF-8", "VERBENA_IDLE_SECONDS": "1",
                       "XDG_RUNTIME_DIR": self.network.runtime}
        if self.network.staged:
            environment["LD_LIBRARY_PATH"] = self.network.staged.library
        # VERBENA_WIRE=rocev2 tests/run --only clients: everything by wire, one host or two.
        # VERBENA_TEST_LOCK_ORDER: what stage `locks` does to show that it notices.
        environment.update({name: os.environ[name] for name in ("VERBENA_WIRE", "VERBENA_TEST_LOCK_ORDER") if name in os.environ})
        environment.update(self.network.environment)
        environment.update(more or {})
        return environment

    def ip(self, *words):
        return system("ip", "-n", self.name, *words)

    def wait_for_link_local(self):
        """The kernel adds this address by itself, a moment after the link is up; GID indices depend on who came first."""
        limit = time.monotonic() + PATIENCE
        while "fe80:" not in self.ip("-6", "addr", "show", "dev", "eth0", "scope", "link", "-tentative"):
            if time.monotonic() > limit:
                raise HostError("eth0 of %s got no link-local address" % self.name)
            time.sleep(0.005)

    def start(self, *argv, environment=None, privileged=False):
        process = Process(self, argv, self.environment(environment), privileged)
        self.processes.append(process)
        return process

    def run(self, *argv, timeout=RUN_TIMEOUT, environment=None, privileged=False):
        return self.start(*argv, environment=environment, privileged=privileged).wait(timeout)

    def devices(self):
        """What `verbena devices --json` says."""
        result = self.run(self.network.staged.verbena, "devices", "--json")
        if result.code:
            raise HostError(str(result))
        return json.loads(result.out[result.out.index("["):])

    def gid_index(self, device, address):
        for row in self.devices():
            if row["name"] == device:
                for gid in row["gids"]:
                    if gid["address"] == address:
                        return gid["index"]
        raise HostError("%s has no GID for %s on %s" % (device, address, self.name))

    def pids(self):
        return [int(pid) for pid in system("ip", "netns", "pids", self.name).split()]

    def pids_of(self, name):
        """The processes of that name that live; one may leave while we look."""
        found = []
        for pid in self.pids():
            try:
                with open("/proc/%d/comm" % pid) as comm, open("/proc/%d/stat" % pid) as stat:
                    if comm.read().strip() == name and stat.read().rsplit(")", 1)[1].split()[0] != "Z":
                        found.append(pid)
            except OSError:
                pass
        return found

    def signal_all(self, name=None, number=signal.SIGKILL):
        """Send the signal to the processes of that name; None: to everything on this host."""
        for pid in self.pids() if name is None else self.pids_of(name):
            try:
                os.kill(pid, number)
            except ProcessLookupError:  # gone since it was listed
                pass

    def meeting_path(self):
        """Where the system's verbenad of this host listens, besides its name."""
        return "/run/verbena/net-%d" % os.stat("/run/netns/" + self.name).st_ino

    def close(self):
        for process in self.processes:
            process.close()
        try:
            os.unlink(self.meeting_path())
        except FileNotFoundError:
            if not os.path.exists("/run/netns/" + self.name):
                return  # it was not made
        except OSError:
            pass
        limit = time.monotonic() + PATIENCE
        while time.monotonic() < limit:
            if not self.pids():
                break
            self.signal_all()
            time.sleep(0.01)


class Network:
    def __init__(self, staged=None, niceness=0):
        """niceness: of everything that runs here, if we are root."""
        self.staged, self.niceness = staged, niceness
        self.environment = {}
        self.own_names = False           # hosts all have the machine's name unless asked for
        self.hosts = []
        self.uid = os.geteuid() if os.environ.get("VERBENA_TEST_INSIDE") else ORDINARY_UID
        # Of this user's own, and new: what a program finds or leaves at home is no other's.
        self.runtime, self.home = self.folder("run"), self.folder("home")
        self.tmp = None

    def __enter__(self):
        with _living_lock:
            _living.add(self)
        return self

    def __exit__(self, *_):
        self.close()

    def folder(self, what):
        path = tempfile.mkdtemp(prefix="verbena-%s-" % what)
        os.chown(path, self.uid, self.uid)
        return path

    def own_tmp(self):
        """From now on programs here have a /tmp of their own: for those that put files of fixed names there, where another user's,
        or a run's beside ours, would be in the way. Of the machine's they see what is staged and this network's folders."""
        if not self.tmp:
            self.tmp = self.folder("tmp")
            for path in self.kept():
                os.mkdir(os.path.join(self.tmp, os.path.basename(path)))

    def kept(self):
        return [self.runtime, self.home] + ([self.staged.root] if self.staged else [])

    def mounts(self):
        """In the mount namespace that `ip netns exec` makes for each program."""
        binds = ["mount --bind %s %s" % (shlex.quote(path), shlex.quote(os.path.join(self.tmp, os.path.basename(path))))
                 for path in self.kept()]
        return " && ".join([*binds, "mount --rbind %s /tmp" % shlex.quote(self.tmp), 'exec "$@"'])

    def add_namespace(self, name):
        system("ip", "netns", "add", name)

    def host(self):
        host = Host(self, "vb-%d-%d" % (os.getpid(), next(_serial)))
        # First: whoever is ended by a signal while it is made clears it away all the same.
        self.hosts.append(host)
        self.add_namespace(host.name)
        host.ip("link", "set", "lo", "up")
        return host

    def pair(self, mtu=1500):
        left, right = self.host(), self.host()
        system("ip", "-n", left.name, "link", "add", "eth0", "mtu", str(mtu), "type", "veth", "peer", "name", "eth0", "mtu",
               str(mtu), "netns", right.name)
        for number, host in ((1, left), (2, right)):
            host.ip("addr", "add", "10.77.0.%d/24" % number, "dev", "eth0")
            host.ip("addr", "add", "fd77::%d/64" % number, "dev", "eth0", "nodad")
            # Without this the link-local address is tentative for two seconds.
            host.run("sysctl", "-q", "-w", "net.ipv6.conf.eth0.accept_dad=0", privileged=True)
        for host in (left, right):
            host.ip("link", "set", "eth0", "up")
        for host in (left, right):
            host.wait_for_link_local()
        return left, right

    def close(self):
        with _living_lock:
            if self not in _living:
                return
            _living.discard(self)
        for host in self.hosts:
            try:
                host.close()
            finally:
                try:
                    system("ip", "netns", "del", host.name)
                except HostError:
                    pass
        for path in (self.runtime, self.home, self.tmp):
            if path:
                shutil.rmtree(path, True)


def close_all():
    for network in list(_living):
        network.close()


atexit.register(close_all)
