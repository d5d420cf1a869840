# SPDX-License-Identifier: MIT
"""The two sides of the rig: Verbena in the host's namespace, and the kernel's rxe in the guest.

Both start a program and tell when it listens; the rest of the matrix does not care which of them it talks to.
"""

import ipaddress
import json
import os
import re
import subprocess
import time

from pylib import hosts

HERE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
CM = "cm"                               # instead of a TCP port: the server listens with librdmacm
ROCE_BRIDGE = "br-roce"
# What each transport is called on either side, and where.
PLACES = {
    "roce": {"bridge": ROCE_BRIDGE, "kernel": "rxe0", "ours": {4: "198.51.100.1", 6: "2001:db8:1::1"},
             "theirs": {4: "198.51.100.11", 6: "2001:db8:1::11"}},
    "iwarp": {"bridge": "br-iwarp", "kernel": "siw0", "ours": {4: "203.0.113.1", 6: "2001:db8:2::1"},
              "theirs": {4: "203.0.113.11", 6: "2001:db8:2::11"}},
}


class Group:
    """Instead of a TCP port: the server has joined this multicast group."""

    def __init__(self, address):
        self.row = ipaddress.ip_address(address).packed[::-1].hex().upper()   # as /proc/net/igmp shows it

    def is_joined(self, process):
        try:
            with open("/proc/%d/net/igmp" % process.pid) as file:
                return self.row in file.read()
        except OSError:
            return False


class Started:
    """A program on one of the sides, with the answer to `is it listening yet?`."""

    def __init__(self, side, process, listens):
        self.side, self.process, self.listens = side, process, listens

    def wait_until_listening(self, limit=20):
        return self.process.wait_until(self.listens, limit)

    def wait_for_output(self, text, limit=20):
        return self.process.wait_until(lambda process: text in process.output(), limit)

    def wait(self, limit):
        return self.process.wait(limit)


class Ours:
    name = "verbena"

    def __init__(self, rig, staged, transport="roce"):
        network = hosts.Network(staged)
        network.environment["VERBENA_TRANSPORT"] = transport
        # Peers are not asked: the wire is to be what it is without.
        self.told = os.path.join(network.home, "explanations")
        network.environment.update({"VERBENA_EXPLAIN": self.told, "VERBENA_EXPLAIN_PEERS": "0"})
        self.host = hosts.Host(network, rig.namespace)
        self.device = "%s_%s" % (transport, PLACES[transport]["bridge"])
        self.addresses = PLACES[transport]["ours"]
        self.operation = rig.operation
        self.indices = {}

    def gid(self, family):
        if family not in self.indices:
            self.indices[family] = self.host.gid_index(self.device, self.addresses[family])
        return self.indices[family]

    def start(self, line, listens=None, environment=None):
        process = self.host.start("sh", "-c", "exec " + line, environment=environment)
        if listens is CM:
            return Started(self, process, self.has_listening_id)
        if isinstance(listens, Group):
            return Started(self, process, listens.is_joined)
        return Started(self, process, lambda p: p.listens(listens))

    def has_listening_id(self, _):
        said = self.host.run(self.host.network.staged.verbena, "res", "cm_id", "--json").out
        return "[" in said and any(row["state"] == "LISTENING" for process in json.loads(said[said.index("["):]) for row in process["cm_ids"])

    def kill(self, started):
        started.process.kill()

    def explanations(self):
        """What our programs said of failures (docs/explain.md) since this was last asked."""
        try:
            with open(self.told, errors="replace") as file:
                said = file.read()
            os.truncate(self.told, 0)
        except FileNotFoundError:
            return ""
        return said

    def close(self):
        for process in self.host.processes:
            process.kill()
        self.host.processes = []


class Kernel:
    name = "kernel"
    operation = "/share/operation"
    READY = "@listening"

    def __init__(self, rig, transport="roce"):
        self.rig = rig
        self.device = PLACES[transport]["kernel"]
        self.addresses = PLACES[transport]["theirs"]
        self.host = hosts.Host(hosts.Network(None), rig.namespace)

    def gid(self, family):
        return {4: 1, 6: 2}[family]

    def start(self, line, listens=None):
        if listens is CM:
            test = "rdma resource show cm_id | grep -q LISTEN"
        elif isinstance(listens, Group):
            test = "grep -q %s /proc/net/igmp" % listens.row
        elif listens:
            test = "cat /proc/net/tcp /proc/net/tcp6 | grep -q ':%04X 0*:0000 0A'" % listens
        if listens:
            # The guest watches for itself: asking it again and again from here is slow.
            line = ("%s & p=$!; n=0; until %s || [ $n -gt 100 ]; do n=$((n+1)); usleep 50000; done; echo %s; wait $p"
                    % (line, test, self.READY))
        process = self.host.start(self.rig.tool("rig-exec"), "-t", "150", line, privileged=True, environment=self.rig.environment)
        return Started(self, process, lambda p: self.READY in p.output())

    def run(self, line):
        result = self.start(line).wait(30)
        if result.code:
            raise hosts.HostError(str(result))
        return result.out

    def kill(self, started):
        # The agent kills the command's process group when its client has gone.
        started.process.kill()

    def close(self):
        for process in self.host.processes:
            process.kill()
        self.host.processes = []


class Rig:
    """The rig's scripts, as methods."""

    def __init__(self, kernel_version=None, transport="roce"):
        self.environment = dict(os.environ)
        if transport == "iwarp":
            self.environment["RIG_SIW"] = "yes"
        if kernel_version:
            self.environment["RIG_KERNEL"] = kernel_version
        shown = subprocess.run(["bash", "-c", '. "$0/lib.sh"; echo "$RIG_NETNS"; echo "$RIG_SHARE"; echo "$RIG_RUN"', HERE],
                               env=self.environment, capture_output=True, text=True, check=True).stdout.split("\n")
        self.namespace, self.share, self.run_folder = shown[:3]
        self.operation = None
        self.started = False

    def tool(self, name):
        return os.path.join(HERE, name)

    def is_up(self):
        return os.path.exists("/run/netns/" + self.namespace)

    def up(self):
        """rig-up must not go on when whoever runs this is killed."""
        self.started = True
        subprocess.run(["setpriv", "--pdeathsig", "KILL", self.tool("rig-up")], env=self.environment, stdin=subprocess.DEVNULL, check=True)

    def guest_lives(self):
        """The process that rig-up recorded, and not another that got its number since."""
        try:
            with open(os.path.join(self.run_folder, "guest1.pid")) as file:
                pid, start = file.read().split()
            with open("/proc/%s/stat" % pid) as file:
                fields = file.read().rsplit(")", 1)[1].split()
        except (OSError, ValueError):
            return False
        return fields[19] == start and fields[0] != "Z"

    def guest_times(self):
        """Seconds that the guest's threads ran, and that they waited for a processor: a guest that is starved answers late."""
        ran = waited = 0
        try:
            with open(os.path.join(self.run_folder, "guest1.pid")) as file:
                tasks = "/proc/%s/task" % file.read().split()[0]
            for task in os.listdir(tasks):
                with open(os.path.join(tasks, task, "schedstat")) as file:
                    fields = file.read().split()
                ran, waited = ran + int(fields[0]) / 1e9, waited + int(fields[1]) / 1e9
        except (OSError, IndexError):
            pass
        return ran, waited

    def console(self):
        try:
            with open(os.path.join(self.run_folder, "guest1.console"), errors="replace") as file:
                return file.read()
        except OSError:
            return ""

    def panic(self):
        """Why the guest's kernel panicked; None: it did not."""
        found = re.search(r"Kernel panic - not syncing: (.*)", self.console())
        return found.group(1).strip() if found else None

    def build_operation(self, staged):
        """The same program for both sides; where every user can read it, and in the folder the guest sees."""
        self.operation = os.path.join(staged.root, "operation")
        subprocess.run(["gcc", "-O1", "-Wall", "-o", self.operation, self.tool("operation.c"), "-lrdmacm", "-libverbs"], check=True)
        os.makedirs(self.share, exist_ok=True)
        subprocess.run(["cp", self.operation, os.path.join(self.share, "operation")], check=True)

    def set_mtu(self, kernel, mtu):
        for device in (ROCE_BRIDGE, "r1"):
            hosts.system("ip", "-n", self.namespace, "link", "set", device, "mtu", str(mtu))
        kernel.run("ip link set roce mtu %d" % mtu)

    def strays(self):
        """Whatever of ours still lives in the namespace, a daemon started on demand above all."""
        mine = set()
        for name in os.listdir(self.run_folder) if os.path.isdir(self.run_folder) else ():
            if name.endswith(".pid"):
                with open(os.path.join(self.run_folder, name)) as file:
                    mine.add(file.read().split()[0])
        try:
            pids = hosts.system("ip", "netns", "pids", self.namespace).split()
        except hosts.HostError:
            return []
        return [int(pid) for pid in pids if pid not in mine]

    def clear(self):
        for pid in self.strays():
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                pass
        limit = time.monotonic() + 3
        while self.strays() and time.monotonic() < limit:
            time.sleep(0.02)

    def down(self):
        self.clear()
        subprocess.run([self.tool("rig-down")], env=self.environment, stdin=subprocess.DEVNULL)
