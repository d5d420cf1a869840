# SPDX-License-Identifier: MIT
"""Unmodified client programs as test cases: where they run, how a server and a client meet, what their output says.

A case is a method of a ClientCase subclass whose name carries its place; `across(places)` writes one method for each
place. Each case has network namespaces of its own, so any number of cases can run side by side.
"""

import json
import math
import os
import re
import time
import unittest

from pylib.hosts import PATIENCE, RUN_TIMEOUT, HostError, Network

# Everything here talks TCP over IPv4 to find its peer; `family` says which GID carries the RDMA traffic.
PLACES = {
    "lo_v4": {"mtu": None, "address": "127.0.0.1", "gids": ("127.0.0.1", "127.0.0.1")},
    "lo_v6": {"mtu": None, "address": "127.0.0.1", "gids": ("::1", "::1")},
    "veth1500_v4": {"mtu": 1500, "address": "10.77.0.1", "gids": ("10.77.0.1", "10.77.0.2")},
    "veth1500_v6": {"mtu": 1500, "address": "10.77.0.1", "gids": ("fd77::1", "fd77::2")},
    "veth9000_v4": {"mtu": 9000, "address": "10.77.0.1", "gids": ("10.77.0.1", "10.77.0.2")},
    "veth9000_v6": {"mtu": 9000, "address": "10.77.0.1", "gids": ("fd77::1", "fd77::2")},
}
ALL_PLACES = tuple(PLACES)
# On one host connections (RC, UC) go through memory. Between two they go by wire, where most is tried; here only that a host can also
# talk to itself by wire.
WIRE = {"VERBENA_WIRE": "rocev2"}
PLACES["lo_wire"] = {"mtu": None, "address": "127.0.0.1", "gids": ("127.0.0.1", "127.0.0.1"), "environment": WIRE}
MAIN_PLACES = ("lo_v4", "veth1500_v4")

# Set by the runner: the files under test (hosts.Staged).
staged = None

TCP_PORT = 18515


class ClientCase(unittest.TestCase):
    # On a busy machine two programs that poll wait for each other to be scheduled.
    TIMEOUT = RUN_TIMEOUT

    def setUp(self):
        # Programs that poll are slowed down out of proportion by whatever else runs on the machine.
        self.network = Network(staged, niceness=-5)
        self.network.__enter__()
        self.addCleanup(self.network.close)

    def settle(self, place):
        """Build the place: self.server and self.client are hosts, self.device and self.gids what they use."""
        where = PLACES[place]
        self.place = place
        self.network.environment.update(where.get("environment", {}))
        if where["mtu"] is None:
            self.server = self.client = self.network.host()
            self.device = "roce_lo"
        else:
            self.server, self.client = self.network.pair(where["mtu"])
            self.device = "roce_eth0"
        self.address = where["address"]
        self.prepare()
        try:
            self.gids = (self.server.gid_index(self.device, where["gids"][0]),
                         self.client.gid_index(self.device, where["gids"][1]))
        except HostError as problem:
            self.fail(str(problem))

    def prepare(self):
        """What must be there before the first program runs."""

    def datagrams(self, host):
        """UDP datagrams that a host has sent so far."""
        sent = 0
        for line in host.run("cat", "/proc/net/snmp", "/proc/net/snmp6").out.splitlines():
            words = line.split()
            if words[0] == "Udp:" and words[4].isdigit():
                sent += int(words[4])
            elif words[0] == "Udp6OutDatagrams":
                sent += int(words[1])
        return sent

    def assert_through_memory(self, before):
        """Two processes sent each other no packets since then. verbenad tries by a few of its own whether a process can be reached."""
        self.assertLess(self.datagrams(self.client) - before, 16)

    def exchange(self, server_argv, client_argv, timeout=None, port=TCP_PORT):
        """Run a server, wait until it listens, run the client against it; both must succeed. Returns their outputs."""
        timeout = timeout or self.TIMEOUT
        server = self.server.start(*server_argv)
        if not server.wait_until(lambda process: process.listens(port)):
            self.fail("the server does not listen:\n%s" % server.wait(0))
        client = self.client.start(*client_argv)
        client_result = client.wait(timeout)
        # A client that failed leaves its server waiting: no point in waiting with it.
        server_result = server.wait(timeout if client_result.code == 0 else 2)
        if client_result.code or server_result.code:
            self.fail("client:\n%s\n\nserver:\n%s" % (client_result, server_result))
        return server_result.out, client_result.out

    def until(self, look, why):
        """What look() finds, once it finds something."""
        limit = time.monotonic() + PATIENCE
        while True:
            over = time.monotonic() > limit
            found = look()
            if found:
                return found
            if over:
                self.fail("not within %d seconds: %s" % (PATIENCE, why() if callable(why) else why))
            time.sleep(0.02)

    def until_listening(self, server, host=None):
        """Nothing outside shows that an id of librdmacm listens; `verbena res` does."""
        def listening():
            if not server.running():
                self.fail("the server has ended:\n%s" % server.wait(0))
            told = (host or self.server).run(staged.verbena, "res", "cm_id", "--json").out
            return any(row["state"] == "LISTENING" for process in json.loads(told[told.index("["):]) for row in process["cm_ids"])
        self.until(listening, "the server listens")

    def assert_no_complaint(self, *outputs):
        for out in outputs:
            for line in out.splitlines():
                if re.search(r"invalid data|fail|error|couldn't|unable|mismatch", line, re.I):
                    self.fail("a complaint: %s\n\n%s" % (line, out))


def busy(cores):
    """Decorator: the programs of this case keep so many cores busy (pylib.cases), whatever its class says."""
    def mark(function):
        function.cores = cores
        return function
    return mark


def across(places):
    """Decorator: a function(self) that runs in each place, as test methods NAME__PLACE."""
    def mark(function):
        function.places = tuple(places)
        return function
    return mark


def expand(cls):
    """Class decorator: replace each marked function by its test methods."""
    for name, function in list(vars(cls).items()):
        places = getattr(function, "places", None)
        if places is None:
            continue
        delattr(cls, name)
        for place in places:
            add(cls, "%s__%s" % (name, place), place, function)
    return cls


def add(cls, name, place, function, *arguments):
    """Add a test method that settles in the place and calls function(self, *arguments)."""
    def method(self):
        self.settle(place)
        function(self, *arguments)
    method.__name__ = name
    method.__doc__ = function.__doc__
    if hasattr(function, "cores"):
        method.cores = function.cores
    assert not hasattr(cls, name), name
    setattr(cls, name, method)


def pingpong_figures(out):
    """(bytes, megabits per second, iterations, microseconds per iteration) of an ibv_*_pingpong."""
    volume = re.search(r"^(\d+) bytes in [\d.]+ seconds = ([\d.]+) Mbit/sec", out, re.M)
    pace = re.search(r"^(\d+) iters in [\d.]+ seconds = ([\d.]+) usec/iter", out, re.M)
    if not volume or not pace:
        return None
    return int(volume.group(1)), float(volume.group(2)), int(pace.group(1)), float(pace.group(2))


# perftest measures how fast the processor's counter runs, anew for each row, and says so when a busy machine was in the way; that row then
# has 0 or inf for figures. The remark comes by standard error, between a row and the end of its line.
UNCLEAR = re.compile(r"Correlation coefficient r\^2: \S+ < 0\.9\n?")


def perftest_rows(out):
    """The rows of figures of a perftest report, as lists of floats."""
    rows, table = [], False
    for line in UNCLEAR.sub("", out).splitlines():
        if line.lstrip().startswith("#bytes"):
            table = True
        elif table:
            words = line.split()
            try:
                rows.append([float(word) for word in words])
            except ValueError:
                pass
            if rows and not rows[-1]:
                rows.pop()
    return rows


def is_measured(row):
    """On a busy machine perftest may not find out how fast the processor's counter runs, and prints 0 or inf."""
    return 0 < row[-1] < math.inf


def perftest_measured(out):
    """Those of the rows that have figures; perftest has to have said why others have none."""
    rows = perftest_rows(out)
    measured = [row for row in rows if is_measured(row)]
    if len(rows) - len(measured) > len(UNCLEAR.findall(out)):
        raise AssertionError("rows without figures:\n" + out)
    return measured


def which(program):
    """The distribution's own program, or None."""
    path = os.path.join("/usr/bin", program)
    return path if os.access(path, os.X_OK) else None
