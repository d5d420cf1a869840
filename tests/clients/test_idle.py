# SPDX-License-Identifier: MIT
"""A thousand connections and nothing to do: no thread of the programs, of the libraries or of verbenad is woken."""

import json
import os
import subprocess
import time

from pylib import clients
from pylib.clients import ClientCase, add

CONNECTIONS = 1000
WINDOW = 2
WAYS = {
    "memory": ("lo_v4", {}, CONNECTIONS),
    "wire": ("veth1500_v4", {}, CONNECTIONS),
    "iwarp": ("veth1500_v4", {"VERBENA_TRANSPORT": "iwarp"}, 200),
}


def switches_of(pid):
    """How often each thread of a process has gone to sleep."""
    found = {}
    for thread in os.listdir("/proc/%d/task" % pid):
        folder = "/proc/%d/task/%s/" % (pid, thread)
        with open(folder + "comm") as comm, open(folder + "status") as status:
            name = comm.read().strip()
            found[pid, thread, name] = next(int(line.split()[1]) for line in status if line.startswith("voluntary_ctxt_switches"))
    return found


class Idle(ClientCase):
    def switches(self):
        found = {}
        for host in {self.server, self.client}:
            for pid in subprocess.run(["ip", "netns", "pids", host.name], stdout=subprocess.PIPE, check=True).stdout.split():
                found.update(switches_of(int(pid)))
        return found

    def all_sleep(self):
        """Nobody has been awake for as long as the window is."""
        before = self.switches()
        time.sleep(WINDOW)
        after = self.switches()
        self.woken = {key: after.get(key, 0) - count for key, count in before.items() if after.get(key) != count}
        names = {name for _, _, name in after}
        return names if before == after else None

    def assert_idle(self):
        """verbenad, and the libraries' threads, are among those who sleep."""
        self.assertLessEqual({"verbenad", "verbena"}, self.until(self.all_sleep, lambda: "woken in %d s: %s" % (WINDOW, self.woken)))

    def connected(self, environment, count):
        """By librdmacm."""
        program = clients.staged.program("idle_connections")
        server = self.server.start(program, "serve", self.address, environment=environment)
        self.until(lambda: "ready" in server.output(), server.output)
        client = self.client.start(program, self.address, str(count), "hold", environment=environment)
        self.until(lambda: client.output().strip().isdigit() or not client.running(), client.output)
        self.assertTrue(client.running() and server.running(), client.output() + server.output())
        self.assert_idle()

    def queue_pairs(self, environment, count):
        """By verbs alone."""
        program = clients.staged.program("many_queue_pairs")
        server = self.server.start(program, "serve", self.device, str(self.gids[0]), environment=environment)
        self.until(lambda: server.listens(18521), server.output)
        client = self.client.start(program, self.address, self.device, str(self.gids[1]), "idle", "64", str(count), "1", "600",
                                   environment=environment)

        def ready():
            self.assertTrue(client.running() and server.running(), client.output() + server.output())
            told = self.client.run(clients.staged.verbena, "res", "qp", "--json").out
            states = [row["state"] for process in json.loads(told[told.index("["):]) for row in process["qps"]]
            return states.count("RTS") >= count
        self.until(ready, "the queue pairs are connected")
        self.assert_idle()


    def looked_at(self):
        """A program reads counters: that wakes nobody afterwards."""
        self.connected({}, 10)
        out = self.client.run(clients.staged.verbena, "run", "cat", "/sys/class/infiniband/%s/ports/1/counters/port_xmit_packets" % self.device,
                              environment={"LD_LIBRARY_PATH": ""}).out
        self.assertTrue(out.strip().isdigit(), out)
        self.assert_idle()

    def rsockets(self):
        """In rpoll, which rdma-core wakes every few seconds for safety's sake."""
        program = ["python3", clients.staged.script("rpoll.py")]
        server = self.server.start(*program, "serve", self.address)
        client = self.client.start(*program, "connect", self.address)
        for process in (server, client):
            self.until(lambda process=process: "connected" in process.output() or not process.running(), process.output)
        self.assertTrue(client.running() and server.running(), client.output() + server.output())
        self.assert_idle()


for _name, (_place, _environment, _count) in WAYS.items():
    add(Idle, "test_connections__" + _name, _place, Idle.connected, _environment, _count)
add(Idle, "test_looked_at", "veth1500_v4", Idle.looked_at)
add(Idle, "test_rsockets", "lo_v4", Idle.rsockets)
for _name in ("memory", "wire"):
    add(Idle, "test_queue_pairs__" + _name, WAYS[_name][0], Idle.queue_pairs, WAYS[_name][1], CONNECTIONS)
