# SPDX-License-Identifier: MIT
"""`verbena web`: what it tells, whom, and that it is what `verbena res` tells. The page itself, in a browser: tests/browser."""

import json
import os
import signal

from pylib import clients
from pylib.clients import TCP_PORT, WIRE, ClientCase, across, expand, which
from pylib.fabric import FabricCase


class Page:
    """A running `verbena web` and its address."""

    def __init__(self, test, host, *argv, environment=None):
        self.test, self.host = test, host
        self.process = host.start(clients.staged.verbena, "web", *argv, environment=environment)
        self.url = test.until(self.address, self.process.output)
        self.base, self.token = self.url.split("/?token=")
        self.port = int(self.base.rsplit(":", 1)[1])

    def address(self):
        lines = [line for line in self.process.output().splitlines() if line.startswith("http://127.0.0.1:")]
        return lines[0] if lines else None

    def ask(self, path, *options, token=True):
        """Status and body."""
        authorization = ["-H", "Authorization: Bearer " + self.token] if token else []
        result = self.host.run(which("curl"), "-s", "-S", "-w", "\n%{http_code}", *authorization, *options, self.base + path)
        self.test.assertEqual(result.code, 0, result)
        body, _, status = result.out.rpartition("\n")
        return int(status), body

    def state(self):
        status, body = self.ask("/api/state")
        self.test.assertEqual(status, 200, body)
        return json.loads(body)


@expand
class Web(ClientCase):
    def res(self):
        return json.loads(self.client.run(clients.staged.verbena, "res", "--json").out)

    def write_bw(self):
        argv = [which("ib_write_bw"), "-F", "-d", self.device, "-p", str(TCP_PORT), "-D", "600", "-s", "4096"]
        server = self.server.start(*argv, "-x", str(self.gids[0]), environment=WIRE)
        self.assertTrue(server.wait_until(lambda process: process.listens(TCP_PORT)), server.output())
        return server, self.client.start(*argv, "-x", str(self.gids[1]), self.address, environment=WIRE)

    @across(["lo_v4"])
    def test_equals_res(self):
        """A stopped program holds still: what the page is told of the other equals what `verbena res` tells."""
        page = Page(self, self.client)
        server = self.server.start(which("ibv_rc_pingpong"), "-d", self.device, "-g", str(self.gids[0]), "-p", str(TCP_PORT))
        self.assertTrue(server.wait_until(lambda process: process.listens(TCP_PORT)), server.output())
        self.until(lambda: self.res() and self.res()[0]["qps"], "the server has its queue pair")
        said = self.until(lambda: (lambda s: s if s["processes"] and s["processes"][0]["qps"] else None)(page.state()), "the page has it, too")
        self.assertEqual(said["processes"], self.res())
        self.assertEqual(json.loads(page.ask("/api/res")[1]), self.res())
        self.assertEqual(said["devices"], json.loads(self.client.run(clients.staged.verbena, "devices", "--all", "--json").out))
        self.assertEqual(said["processes"][0]["pid"], server.pid)

    @across(["veth1500_v4"])
    def test_rates(self):
        page = Page(self, self.client)
        _, client = self.write_bw()

        def moving():
            return [row for row in page.state()["rates"]["qps"] if row["pid"] == client.pid and row["out_per_s"] > 0]
        row = self.until(moving, "packets are sent")[0]
        self.assertEqual(row["device"], self.device)

    @across(["lo_v4"])
    def test_who_may_ask(self):
        """Only who has the token, by this address, from this page; and only to look."""
        page = Page(self, self.client)
        own = "Host: 127.0.0.1:%d" % page.port
        for path in ("/api/state", "/api/res", "/api/ladder?pid=1&qpn=1", "/api/nothing"):
            self.assertEqual(page.ask(path, token=False)[0], 403, path)
            wrong = "0" if page.token[-1] != "0" else "1"
            self.assertEqual(page.ask(path, "-H", "Authorization: Bearer " + page.token[:-1] + wrong, token=False)[0], 403, path)
            self.assertEqual(page.ask(path, "-H", "Authorization: Bearer " + page.token + "0", token=False)[0], 403, path)
        self.assertEqual(page.ask("/api/state?token=" + page.token, token=False)[0], 403, "a link of another page's has no token")
        for host in ("evil.example", "evil.example:%d" % page.port, "127.0.0.1", "127.0.0.1:1", "127.0.0.1:%d.evil.example" % page.port):
            self.assertEqual(page.ask("/api/state", "-H", "Host: " + host)[0], 403, host)
            self.assertEqual(page.ask("/", "-H", "Host: " + host)[0], 403, host)
        self.assertEqual(page.ask("/api/state", "-H", "Host: localhost:%d" % page.port)[0], 200)
        for origin in ("http://evil.example", "null", "https://127.0.0.1:%d" % page.port, "http://127.0.0.1:1"):
            self.assertEqual(page.ask("/api/state", "-H", own, "-H", "Origin: " + origin)[0], 403, origin)
        self.assertEqual(page.ask("/api/state", "-H", own, "-H", "Origin: http://127.0.0.1:%d" % page.port)[0], 200)
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            self.assertEqual(page.ask("/api/state", "-X", method, "--data", "x" * 1000)[0], 405, method)
        for path in ("/", "/page.css", "/page.js", "/plots.js", "/graph.js"):
            status, body = page.ask(path, token=False)
            self.assertEqual((status, page.token in body), (200, False), path)
        for path in ("/../etc/passwd", "/page", "/api", "/api/ladder", "/api/ladder?pid=1&qpn=x", "/api/ladder?pid=-1&qpn=4294967296"):
            self.assertIn(page.ask(path)[0], (400, 404), path)
        headers = self.client.run(which("curl"), "-s", "-I", page.base + "/").out.lower()
        for header in ("content-security-policy: default-src 'self'", "x-content-type-options: nosniff", "x-frame-options: deny", "referrer-policy: no-referrer"):
            self.assertIn(header, headers)

    @across(["veth1500_v4"])
    def test_not_from_elsewhere(self):
        """It listens on the loopback address alone."""
        page = Page(self, self.server)
        result = self.client.run(which("curl"), "-s", "--max-time", "5", "http://%s:%d/" % (self.address, page.port))
        self.assertEqual(result.code, 7, result)

    @across(["lo_v4"])
    def test_command(self):
        """Packets and explanations of the command are kept while the page is served, then nothing of them is left."""
        script = ("ibv_rc_pingpong -d roce_lo -g 0 -p 18600 & "
                  "while ! grep -q ':48A8 ' /proc/net/tcp /proc/net/tcp6; do sleep 0.01; done; "
                  "ibv_rc_pingpong -d roce_lo -g 0 -p 18600 -n 1000 localhost; rping -c -a 127.0.0.1 -p 7777 -C 1; sleep 600")
        self.network.own_tmp()
        page = Page(self, self.client, "--", "sh", "-c", script, environment=WIRE)

        def kept():
            return [name for name in os.listdir(self.network.tmp) if name.startswith("verbena-web-")]

        def explained():
            return [row["text"] for row in page.state()["records"]["explanations"] if "7777" in row["text"]]
        self.until(explained, page.process.output)
        self.assertEqual(len(kept()), 1)
        page.process.signal(signal.SIGTERM)
        self.assertFalse(page.process.wait(30).timed_out)
        self.assertEqual(kept(), [])

    @across(["lo_v4"])
    def test_ladder(self):
        """A queue pair whose packets are captured is drawn, also when its process is gone; any other is explained."""
        page = Page(self, self.client)
        folder = self.network.runtime
        captured = dict(WIRE, VERBENA_CAPTURE=os.path.join(folder, "x.pcapng"))
        argv = [which("ib_send_lat"), "-d", self.device, "-p", str(TCP_PORT), "-x", str(self.gids[0]), "-D", "600"]
        server = self.server.start(*argv, environment=captured)
        self.assertTrue(server.wait_until(lambda process: process.listens(TCP_PORT)), server.output())
        client = self.client.start(*argv, "localhost", environment=dict(captured, VERBENA_CAPTURE_LIMIT="300000"))

        def seen():
            state = page.state()
            rows = [qp for row in state["processes"] if row["pid"] == client.pid for qp in row["qps"]]
            return rows[0]["qpn"] if client.pid in state["records"]["captured"] and rows and rows[0]["sq_psn"] != rows[0]["acknowledged_psn"] else None
        qpn = self.until(seen, client.output)
        path = "/api/ladder?pid=%d&qpn=%d" % (client.pid, qpn)
        self.until(lambda: page.ask(path)[0] == 200, lambda: page.ask(path))
        for process in (client, server):
            process.kill()
        status, body = page.ask(path)
        self.assertEqual(status, 200, body[:300])
        self.assertIn("<svg", body)
        self.assertIn("SEND", body)
        status, body = page.ask("/api/ladder?pid=1&qpn=%d" % qpn)
        self.assertEqual(status, 404)
        self.assertIn("verbena capture -o FILE", body)
        status, body = page.ask("/api/ladder?pid=%d&qpn=77" % client.pid)
        self.assertEqual(status, 404)
        self.assertIn("no packet of this queue pair", body)

    @across(["lo_v4"])
    def test_usage(self):
        for argv in (["--port"], ["--port", "x"], ["--port", "65536"], ["--bogus"]):
            result = self.client.run(clients.staged.verbena, "web", *argv)
            self.assertEqual(result.code, 2, result)
        page = Page(self, self.client)
        result = self.client.run(clients.staged.verbena, "web", "--port", str(page.port))
        self.assertEqual(result.code, 1, result)
        self.assertIn("Address already in use", result.out)


class OtherTransports(FabricCase):
    def told(self, *argv):
        return json.loads(self.left.run(clients.staged.verbena, *argv, "--json").out)

    def test_infiniband_and_iwarp(self):
        """Queue pairs of InfiniBand and of iWARP, and the fabric: the page is told what `res` and `fabric show` tell."""
        self.pair(None)
        process, read = self.opensm(self.left, "sm")
        self.until_up(process, read)
        page = Page(self, self.left)
        iwarp = {"VERBENA_TRANSPORT": "iwarp", "VERBENA_WIRE": "rocev2"}
        first = self.left.start(which("ibv_rc_pingpong"), "-d", "vib0", "-p", str(TCP_PORT))
        second = self.left.start(which("rping"), "-s", "-a", "127.0.0.1", "-p", "7174", environment=iwarp)
        self.assertTrue(second.wait_until(lambda process: process.listens(7174)), second.output())
        client = self.left.start(which("rping"), "-c", "-a", "127.0.0.1", "-p", "7174", "-C", "1000000000", environment=iwarp)

        def has(device):
            return any(qp["device"] == device and qp["state"] == state for row in self.told("res") for qp in row.get("qps", []))
        for device, state, process in (("vib0", "INIT", first), ("iwarp_lo", "RTS", second)):
            self.until(lambda: has(device), process.output)
        # Its peer is stopped, so that the server's queue pair holds still.
        client.signal(signal.SIGSTOP)

        def same():
            said = page.state()
            return said if said["processes"] == self.told("res") and said["fabric"] == self.told("fabric", "show") else None
        said = self.until(same, lambda: "%s\n%s" % (page.state()["processes"], self.told("res")))
        self.assertEqual(said["devices"], self.told("devices", "--all"))
        self.assertLessEqual({"vib0", "iwarp_lo", "roce_lo"}, {device["name"] for device in said["devices"]})
        ways = {qp["device"]: qp["way"] for row in said["processes"] for qp in row.get("qps", [])}
        self.assertEqual(ways, {"vib0": "infiniband", "iwarp_lo": "iwarp"})
        status, picture = page.ask("/api/fabric")
        self.assertEqual(status, 200, picture)
        for node in said["fabric"]["nodes"]:
            self.assertIn(node["name"], picture)
        self.assertEqual(page.ask("/api/fabric", token=False)[0], 403)

    def test_fabric_that_is_not_there(self):
        """None, and one that does not answer: the page goes on without it."""
        self.left, self.right = self.network.pair()
        page = Page(self, self.left)
        self.assertIsNone(page.state()["fabric"])
        self.assertEqual(page.ask("/api/fabric")[0], 404)
        fabric = self.up(self.left)
        self.assertEqual(len(page.state()["fabric"]["nodes"]), 1)
        fabric.signal(signal.SIGSTOP)
        self.assertIsNone(page.state()["fabric"])
        fabric.signal(signal.SIGCONT)
        self.until(lambda: page.state()["fabric"], "it answers again")
