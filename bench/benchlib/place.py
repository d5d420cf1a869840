# SPDX-License-Identifier: MIT
"""Where two programs are measured against each other: two hosts joined by veth, or one host and its loopback."""

import json
import os
import shutil

from benchlib import BenchFailed
from pylib.clients import is_measured, perftest_rows

PORT = 18515
IPERF_PORT = 5201


def two_cores():
    """Two processors that are not two threads of one core, or None."""
    cpus = sorted(os.sched_getaffinity(0))
    for cpu in cpus[1:]:
        try:
            with open("/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list" % cpu) as file:
                if str(cpus[0]) in file.read().strip().replace("-", ",").split(","):
                    continue
        except OSError:
            pass
        return cpus[0], cpu
    return None


class Place:
    """Two hosts (or one, twice) and the address of the first."""

    def __init__(self, network, name, environment=None, pinned=False):
        """pinned: each side has a processor of its own. Otherwise two programs that poll may share one for a tenth of a second, until
        the scheduler has seen it."""
        self.name, self.environment = name, environment
        self.pins = [["taskset", "-c", str(cpu)] for cpu in two_cores()] if pinned and two_cores() else [[], []]
        if name == "lo":
            self.server = self.client = network.host()
            self.device, self.address, mine = "roce_lo", "127.0.0.1", "127.0.0.1"
        else:
            self.server, self.client = network.pair(int(name[4:]))
            self.device, self.address, mine = "roce_eth0", "10.77.0.1", "10.77.0.2"
        for host in {self.server, self.client}:
            self.ready(host)
        self.gids = self.server.gid_index(self.device, self.address), self.client.gid_index(self.device, mine)

    def ready(self, host):
        """A daemon that leaves between two measurements would be started within the second one."""
        host.start("stdbuf", "-oL", "/usr/bin/ibv_asyncwatch", "-d", self.device)

    def exchange(self, server_argv, client_argv, port, timeout=60, free=False):
        """Run both; what the client said. The server is ready when it listens on `port`. free: not pinned, though others are."""
        pins = [[], []] if free else self.pins
        server = self.server.start(*pins[0], *server_argv, environment=self.environment)
        if not server.wait_until(lambda process: process.listens(port)):
            raise BenchFailed(str(server.wait(0)))
        result = self.client.run(*pins[1], *client_argv, timeout=timeout, environment=self.environment)
        said = server.wait(10 if result.code == 0 else 1)
        if result.code:
            raise BenchFailed("%s\n%s" % (result, said))
        return result.out

    def iperf(self, seconds):
        """What one TCP stream says of itself at its end. iperf3 counts whole seconds, and takes 0 for "for ever"."""
        seconds = max(1, round(seconds))
        return json.loads(self.exchange(["iperf3", "-s", "-1"], ["iperf3", "-c", self.address, "-t", str(seconds), "-J"],
                                        IPERF_PORT))["end"]

    def tcp_bandwidth(self, seconds):
        """Gb/s of one TCP stream."""
        return self.iperf(seconds)["sum_received"]["bits_per_second"] / 1e9

    def tcp_cpu(self, seconds):
        """CPU seconds per GB of one TCP stream, sender and receiver."""
        end = self.iperf(seconds)
        gigabytes = end["sum_received"]["bytes"] / 1e9
        return [end["cpu_utilization_percent"][side] / 100 * end["sum_sent"]["seconds"] / gigabytes
                for side in ("host_total", "remote_total")]

    def perftest(self, tool, options):
        """The first row of numbers that the tool prints."""
        base = ["/usr/bin/" + tool, "-F", "-d", self.device, *options]
        out = self.exchange(base + ["-x", str(self.gids[0])], base + ["-x", str(self.gids[1]), self.address], PORT)
        rows = list(filter(is_measured, perftest_rows(out)))
        if not rows:
            raise BenchFailed(out)
        return rows[0]


def listens(daemon):
    with open("/proc/%d/net/unix" % daemon.pid) as table:
        return any(line.split()[-1] == "@verbena/1" and line.split()[5] == "01" for line in table)


def start_daemon(host, capability=None):
    """A verbenad that stays, of the programs' user, as urgent as they are: one that a program starts is not."""
    words = ["setpriv", "--reuid=%d" % host.network.uid, "--regid=%d" % host.network.uid, "--clear-groups"]
    words += ["--inh-caps=+" + capability, "--ambient-caps=+" + capability] if capability else []
    if os.environ.get("VERBENA_TEST_INSIDE"):
        words = []
    daemon = host.start(*words, os.path.join(host.network.staged.root, "bin", "verbenad"), "--foreground", privileged=True,
                        environment={"VERBENA_IDLE_SECONDS": "3600"})
    if not daemon.wait_until(listens):
        raise BenchFailed(str(daemon.wait(0)))


def stage_program(staged, build, name):
    """A program of bench/, copied to where every user can run it."""
    target = os.path.join(staged.root, name)
    if not os.path.exists(target):
        shutil.copy2(os.path.join(build, "bench", name), target)
        os.chmod(target, 0o755)
    return target
