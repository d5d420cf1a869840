# SPDX-License-Identifier: MIT
"""Servers and clients that know TCP and nothing else, under `verbena run --sockets` and without."""

import os
import re

from pylib.hosts import HostError
from pylib.workloads.ground import until

PORT = 7100
SERVERS = ("nginx", "postgres", "redis-server", "memcached")


def number(pattern, out):
    """The last one."""
    found = re.findall(pattern, out)
    if not found:
        raise HostError(out)
    return float(found[-1])


class Sockets:
    def __init__(self, ground):
        self.ground = ground
        self.report = os.path.join(ground.folder, "report")
        self.environment = {"VERBENA_SOCKETS_REPORT": self.report}

    def serve(self, *argv, **more):
        return self.ground.serve(*argv, port=PORT, environment=self.environment, **more)

    def ask(self, *argv):
        return self.ground.see(self.ground.client, *argv, environment=self.environment)

    def stop(self, server):
        server.kill()
        # What it started has gone with it, and the port with that.
        until(lambda: not any(self.ground.server.pids_of(name) for name in SERVERS), lambda: "servers are gone")

    def by_rdma(self, program):
        """How many connections of the program that have ended went by RDMA."""
        with open(self.report) as report:
            return len(re.findall(r"^%s \d+ rdma sent=\d+ received=\d+$" % re.escape(program), report.read(), re.M))

    def rate(self, serve, measure, wrap):
        """The figure of a client with a server of its own."""
        server = serve(wrap)
        try:
            return measure(wrap)
        finally:
            self.stop(server)

    # ---- redis ----

    def redis(self, wrap):
        return self.serve(*wrap("redis-server", "--port", str(PORT), "--bind", self.ground.address, "--save", "", "--appendonly", "no",
                                "--dir", self.ground.folder, "--protected-mode", "no"))

    def redis_rate(self, wrap, count, *options):
        """GETs a second."""
        return number(r"([\d.]+) requests per second", self.ask(*wrap(
            "redis-benchmark", "-h", self.ground.address, "-p", str(PORT), "-t", "get", "-q", "-n", str(count), *options)))

    # ---- iperf3 ----

    def iperf3(self, wrap):
        return self.serve(*wrap("iperf3", "-s", "-1", "-B", self.ground.address, "-p", str(PORT)))

    def iperf3_rate(self, wrap, seconds=2):
        """Mb/s of one stream, as it was received."""
        return number(r"([\d.]+) Mbits/sec.*receiver", self.ask(*wrap(
            "iperf3", "-c", self.ground.address, "-p", str(PORT), "-t", str(seconds), "-f", "m")))
