# SPDX-License-Identifier: MIT
"""`verbena shape`: a worse network for a device's packets, while programs run."""

import json

from pylib import clients
from pylib.clients import TCP_PORT, WIRE, ClientCase, across, expand, perftest_measured, which


@expand
class Shape(ClientCase):
    def shape(self, *argv, host=None, code=0):
        result = (host or self.client).run(clients.staged.verbena, "shape", *argv)
        self.assertEqual(result.code, code, result)
        return result.out

    def perftest(self, program, *argv):
        command = [which(program), "-F", "-d", self.device, "-p", str(TCP_PORT), *argv]
        return self.exchange(command + ["-x", str(self.gids[0])], command + ["-x", str(self.gids[1]), self.address])

    def figures(self, program, *argv):
        """Those that it measures; on a busy machine it may find out only later how fast the processor's counter runs."""
        return self.until(lambda: perftest_measured(self.perftest(program, *argv)[1]), program + " measures")[0]

    def endless(self, program, *argv, environment=WIRE):
        command = [which(program), "-F", "-d", self.device, "-p", str(TCP_PORT), "-D", "600", *argv]
        server = self.server.start(*command, "-x", str(self.gids[0]), environment=environment)
        self.assertTrue(server.wait_until(lambda process: process.listens(TCP_PORT)), server.output())
        return server, self.client.start(*command, "-x", str(self.gids[1]), self.address, environment=environment)

    def queue_pair(self, process, host=None):
        told = json.loads((host or self.client).run(clients.staged.verbena, "res", "--pid", str(process.pid), "--json").out)
        rows = [qp for row in told for qp in row["qps"] if qp["peer_address"]]
        return rows[0] if rows else None

    def round_trip(self, process):
        """In nanoseconds; 0: a process that is busy did not answer in time, or has not measured one yet."""
        return (self.queue_pair(process) or {}).get("round_trip_ns", 0)

    @across(["lo_v4"])
    def test_words(self):
        """What is set is listed, what is wrong is said, and what is off is gone."""
        self.assertIn("No device is shaped", self.shape())
        self.assertEqual(json.loads(self.shape("--json")), [])
        self.shape("roce_lo", "--rate", "2.5g", "--delay", "50us", "--jitter", "10us", "--loss", "0.1%", "--queue", "64k")
        row, = json.loads(self.shape("--json"))
        del row["uid"]
        self.assertEqual(row, {"device": "roce_lo", "rate": 2500000000, "queue": 65536, "delay_ns": 50000, "jitter_ns": 10000, "loss": 0.001})
        self.assertIn("rate 2.5 Gb/s (queue of 64 KiB) delay 50 us to 60 us loss 0.1 %", self.shape())
        self.shape("roce_lo", "--loss", "0.25")
        row, = json.loads(self.shape("--json"))
        self.assertEqual((row["rate"], row["delay_ns"], row["loss"]), (0, 0, 0.25), "what is not named is not shaped")
        self.shape("roce_lo", "off")
        self.assertEqual(json.loads(self.shape("--json")), [])
        for argv in (["roce_lo"], ["--rate", "1g"], ["roce_lo", "--rate"], ["roce_lo", "--rate", "5"], ["roce_lo", "--rate", "20t"],
                     ["roce_lo", "--delay", "5"], ["roce_lo", "--delay", "61s"], ["roce_lo", "--loss", "101%"], ["roce_lo", "--loss", "-1%"],
                     ["roce_lo", "--loss", "nan"], ["roce_lo", "--queue", "0"], ["roce_lo", "--rate", "1g", "off"], ["roce_lo", "roce_x", "off"],
                     ["roce_lo", "--bogus", "1"]):
            self.assertIn("--help", self.shape(*argv, code=2), argv)
        self.assertIn("there is no device", self.shape("roce_x", "off", code=1))

    @across(["veth1500_v4", "veth1500_v6"])
    def test_delay(self):
        """No message is faster than the delay; without it, one is."""
        for host in (self.server, self.client):
            self.shape(self.device, "--delay", "20ms", host=host)
        self.assertGreaterEqual(self.figures("ib_send_lat", "-n", "20")[2], 20000)
        for host in (self.server, self.client):
            self.shape(self.device, "off", host=host)
        self.assertLess(self.figures("ib_send_lat", "-n", "100")[2], 20000)

    @across(["veth1500_v4"])
    def test_rate(self):
        """Payload is never faster than the rate, and all of it arrives."""
        self.shape(self.device, "--rate", "100m")
        self.assertLessEqual(self.figures("ib_write_bw", "-s", "65536", "-n", "40", "-t", "8")[3] * 1048576 * 8, 100e6)

    @across(["veth1500_v4"])
    def test_loss_while_it_runs(self):
        server, client = self.endless("ib_write_bw", "-s", "16384")
        self.until(lambda: self.queue_pair(client), client.output)
        self.shape(self.device, "--loss", "2%")

        def holes():
            told = json.loads(self.server.run(clients.staged.verbena, "stat", "--json").out)
            return sum(row["counters"]["out_of_seq_request"] for row in told)
        self.until(holes, "the responder misses packets")
        before = self.until(lambda: self.queue_pair(client), client.output)["sq_psn"]
        self.until(lambda: (self.queue_pair(client) or {"sq_psn": before})["sq_psn"] != before, "and goes on")
        self.assertTrue(server.running() and client.running())

    @across(["veth1500_v4"])
    def test_delay_while_it_runs(self):
        """Below the shortest retransmission timeout and far beyond it: the round trip is learnt, although what is sent twice does not tell it."""
        _, client = self.endless("ib_send_lat")
        self.until(lambda: self.round_trip(client) > 0, client.output)
        for milliseconds in (3, 40):
            self.shape(self.device, "--delay", f"{milliseconds}ms")
            self.until(lambda: self.round_trip(client) >= milliseconds * 900000, f"the round trip is {milliseconds} ms")
        self.shape(self.device, "off")
        self.until(lambda: 0 < self.round_trip(client) < 36000000, "and then it is short again")

    @across(["lo_v4"])
    def test_not_through_memory(self):
        """A connection of one host that is made while its device is shaped goes by wire."""
        self.shape(self.device, "--delay", "1ms")
        _, client = self.endless("ib_send_lat", environment={"VERBENA_WIRE": "auto"})
        self.assertEqual(self.until(lambda: self.queue_pair(client), client.output)["way"], "roce")

    @across(["lo_v4"])
    def test_kept_while_nobody_is_there(self):
        """The daemon, which ends when it is idle (here after a second), keeps what was set; then it may end."""
        self.shape(self.device, "--loss", "1%")
        daemon, = self.client.pids_of("verbenad")
        server = self.client.start(which("sleep"), "2.5")
        server.wait(30)
        self.assertEqual(self.client.pids_of("verbenad"), [daemon])
        self.assertEqual(len(json.loads(self.shape("--json"))), 1)
        self.shape(self.device, "off")
        self.until(lambda: not self.client.pids_of("verbenad"), "the daemon ends")
