# SPDX-License-Identifier: MIT
"""Looking at running programs: `verbena res`, `stat`, `top`, `status`, as an ordinary user; and `verbena doctor` on machines
that are not well."""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time

from pylib import clients
from pylib.clients import TCP_PORT, WIRE, ClientCase, across, expand, which
from pylib.hosts import ORDINARY_UID, PATIENCE

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
COMPLETION = os.path.join(ROOT, "packaging", "verbena.bash-completion")


class Looking(ClientCase):
    def verbena(self, *argv, host=None, **more):
        return (host or self.client).run(clients.staged.verbena, *argv, **more)

    def told(self, *argv, host=None):
        """What a command says in JSON."""
        result = self.verbena(*argv, "--json", host=host)
        self.assertEqual(result.code, 0, result)
        return json.loads(result.out)

    def write_bw(self, *options, environment=WIRE):
        """A server and a client that write until they are killed, by wire: packets are what is looked at."""
        argv = [which("ib_write_bw"), "-F", "-d", self.device, "-p", str(TCP_PORT), "-D", "600", "-s", "4096", *options]
        server = self.server.start(*argv, "-x", str(self.gids[0]), environment=environment)
        self.assertTrue(server.wait_until(lambda process: process.listens(TCP_PORT)), server.output())
        return server, self.client.start(*argv, "-x", str(self.gids[1]), self.address, environment=environment)

    def of(self, process, host=None):
        """`verbena res` of one process whose queue pair is connected; None until there is one."""
        for row in self.told("res", "--pid", str(process.pid), host=host):
            if row.get("qps") and row["qps"][0]["peer_address"]:
                return row
        return None


@expand
class Resources(Looking):
    @across(["veth1500_v4", "lo_v6"])
    def test_queue_pairs(self):
        """Each side's queue pair names the other's address and number; its PSNs move; depths and keys are the program's."""
        server, client = self.write_bw()
        theirs = self.until(lambda: self.of(server, self.server), "the server's queue pair")
        ours = self.until(lambda: self.of(client), "the client's queue pair")
        mine, other = ours["qps"][0], theirs["qps"][0]
        self.assertEqual((mine["type"], other["type"]), ("RC", "RC"))
        self.assertEqual((mine["peer_qpn"], other["peer_qpn"]), (other["qpn"], mine["qpn"]))
        self.assertEqual((mine["peer_address"], mine["local_address"]), (other["local_address"], other["peer_address"]))
        self.assertEqual(mine["device"], self.device)
        self.assertEqual(mine["send_depth"], 128)
        self.until(lambda: self.of(client)["qps"][0]["state"] == "RTS", "the client is in RTS")
        first = self.of(client)["qps"][0]
        later = self.until(lambda: self.of(client)["qps"][0] if self.of(client)["qps"][0]["sq_psn"] != first["sq_psn"] else None,
                           "packets are sent")
        self.assertLessEqual(later["send_posted"], later["send_depth"])
        # The server's queue pair expects what the client sends: a distance of less than a window's.
        self.assertEqual(len(ours["cqs"]), 1)
        self.assertEqual(ours["cqs"][0]["number"], mine["send_cq"])
        region = ours["mrs"][0]
        self.assertGreaterEqual(region["length"], 4096)
        self.assertIn("remote write", region["access"])
        self.assertEqual(region["pd"], mine["pd"])
        self.assertIn(mine["pd"], [pd["number"] for pd in ours["pds"]])
        table = self.verbena("res").out
        self.assertNotIn("\033", table)
        for text in ("ib_write_bw", "0x%06x" % mine["qpn"], "0x%06x" % mine["peer_qpn"], mine["peer_address"]):
            self.assertIn(text, table)
        self.assertEqual(self.told("res", "cq", "--device", "no_such")[0]["cqs"], [])
        self.assertEqual((mine["way"], other["way"]), ("roce", "roce"))

    @across(["lo_v4"])
    def test_through_memory(self):
        """On one host no packet is sent, and the list says why."""
        server, client = self.write_bw(environment={"VERBENA_WIRE": "auto"})
        for process in (server, client):
            self.until(lambda: self.of(process) and self.of(process)["qps"][0]["way"] == "memory", "it goes through memory")
        self.assertIn("  memory\n", self.verbena("res", "qp").out)
        self.assertEqual([row["counters"]["sent_pkts"] for row in self.told("stat")], [0, 0])
        # The engine that carries them answers: no PSNs, and what it has done.
        for process in (server, client):
            qp = self.of(process)["qps"][0]
            self.assertEqual([qp[name] for name in ("sq_psn", "acknowledged_psn", "rq_psn")], [None] * 3)
            self.assertGreaterEqual(qp["sends_record"], qp["acknowledged_record"])
        self.until(lambda: sorted(row["counters"]["rdma_writes"] > 0 for row in self.told("stat")) == [False, True],
                   "WRITEs are counted, by the side that makes them")
        self.assertNotIn("mrs", self.told("res", "qp")[0])
        self.assertEqual(self.told("res", "--pid", "1"), [])

    @across(["lo_v4"])
    def test_unreliable_through_memory(self):
        """Unreliable connections of one user do too, and count what they do."""
        server, client = self.write_bw("-c", "UC", environment={"VERBENA_WIRE": "auto"})
        for process in (server, client):
            self.until(lambda: self.of(process) and self.of(process)["qps"][0]["way"] == "memory", "it goes through memory")
            self.assertEqual(self.of(process)["qps"][0]["type"], "UC")
        self.until(lambda: sorted(row["counters"]["rdma_writes"] > 0 for row in self.told("stat")) == [False, True],
                   "WRITEs are counted, by the side that makes them")
        self.assertEqual([row["counters"]["sent_pkts"] for row in self.told("stat")], [0, 0])

    @across(["lo_v4"])
    def test_datagrams_through_memory(self):
        """Datagrams do a moment after the first: the list says where the last one went. Packets they are all the same, and counted."""
        argv = [which("ib_send_lat"), "-F", "-c", "UD", "-d", self.device, "-p", str(TCP_PORT), "-D", "600"]
        environment = {"VERBENA_WIRE": "auto"}
        server = self.server.start(*argv, "-x", str(self.gids[0]), environment=environment)
        self.assertTrue(server.wait_until(lambda process: process.listens(TCP_PORT)), server.output())
        client = self.client.start(*argv, "-x", str(self.gids[1]), self.address, environment=environment)
        pairs = lambda: [qp for row in self.told("res", "qp") for qp in row["qps"]]
        self.until(lambda: [qp["way"] for qp in pairs()] == ["memory"] * 2, client.output)
        self.assertTrue(all(qp["type"] == "UD" and qp["sq_psn"] is not None for qp in pairs()))
        sent = lambda: min(row["counters"]["sent_pkts"] for row in self.told("stat"))
        before, already = self.datagrams(self.client), sent()
        self.until(lambda: sent() > already + 1000, client.output)
        self.assert_through_memory(before)

    @across(["lo_v4"])
    def test_extended_connections(self):
        """Queue pairs of XRC, one of which has neither domain nor completion queue; the columns make room for their names."""
        self.network.own_tmp()    # the file that names the XRC domain
        server = self.server.start(which("ibv_xsrq_pingpong"), "-d", self.device, "-g", str(self.gids[0]), "-p", str(TCP_PORT))
        self.assertTrue(server.wait_until(lambda process: process.listens(TCP_PORT)), server.output())
        row = self.told("res", "--pid", str(server.pid), host=self.server)[0]
        self.assertEqual(sorted(qp["type"] for qp in row["qps"]), ["XRC_RECV", "XRC_SEND"])
        lines = self.verbena("res", "qp", host=self.server).out.splitlines()
        heading = next(line for line in lines if "TYPE" in line)
        rows = [line for line in lines if "XRC_" in line]
        self.assertEqual([line.index("INIT") for line in rows], [heading.index("STATE")] * 2, lines)

    @across(["lo_v4"])
    def test_communication_ids(self):
        """rping: a listener and both ends of its connection."""
        server = self.server.start(which("rping"), "-s", "-a", "127.0.0.1", "-p", "7174")
        self.until(lambda: [row for row in self.told("res", "cm_id") if row["cm_ids"]], "the listener")
        client = self.client.start(which("rping"), "-c", "-a", "127.0.0.1", "-p", "7174", "-C", "1000000")

        def connected():
            rows = {row["pid"]: row["cm_ids"] for row in self.told("res", "cm_id")}
            ids = rows.get(client.pid, [])
            return rows if ids and ids[0]["state"] == "ESTABLISHED" and len(rows.get(server.pid, [])) == 2 else None

        rows = self.until(connected, "the connection")
        self.assertEqual({row["state"] for row in rows[server.pid]}, {"LISTENING", "ESTABLISHED"})
        active = rows[client.pid][0]
        passive = next(row for row in rows[server.pid] if row["state"] == "ESTABLISHED")
        self.assertEqual((active["peer_port"], active["peer_address"], active["port_space"]), (7174, "127.0.0.1", "TCP"))
        self.assertEqual((active["local_qpn"], active["peer_qpn"]), (passive["peer_qpn"], passive["local_qpn"]))
        self.assertIn("ESTABLISHED", self.verbena("res").out)

    @across(["lo_v4"])
    def test_stopped_process(self):
        """A process that cannot answer is named, and the others are not kept waiting for long; later it answers again."""
        server, client = self.write_bw()
        self.until(lambda: self.of(client), "the client's queue pair")
        os.kill(client.pid, signal.SIGSTOP)
        try:
            def others_answer():
                rows = {row["pid"]: row for row in self.told("res")}
                self.assertFalse(rows[client.pid]["answered"])
                return rows[server.pid]["answered"]
            self.until(others_answer, "the others answer")
            self.assertIn("does not answer", self.verbena("res").out)
        finally:
            os.kill(client.pid, signal.SIGCONT)
        self.until(lambda: any(row["answered"] for row in self.told("res", "--pid", str(client.pid))), "it answers again")

    @across(["lo_v4"])
    def test_other_users(self):
        """Root is shown everybody's; a user is not shown another's."""
        if os.environ.get("VERBENA_TEST_INSIDE"):
            self.skipTest("only root can be several users")
        # The daemon that answered while this place was set up must leave first.
        self.until(lambda: not self.client.pids(), "the first daemon has left")
        self.client.start(os.path.join(clients.staged.root, "bin", "verbenad"), "--system", "--foreground", privileged=True)
        self.until(lambda: self.told("status")["daemon"], "the system's daemon")
        watch = ["stdbuf", "-oL", which("ibv_asyncwatch"), "-d", "roce_lo"]
        theirs = self.client.start(*watch)
        drop = ["setpriv", "--reuid=%d" % (ORDINARY_UID + 1), "--regid=%d" % (ORDINARY_UID + 1), "--clear-groups",
                "--inh-caps=-all", "--bounding-set=-all"]
        other = self.client.start(*drop, *watch, privileged=True)
        for process in (theirs, other):
            self.assertTrue(process.wait_until(lambda p: "async event FD" in p.output()), process.output())
        for command in ("res", "stat"):
            self.assertEqual({row["pid"] for row in self.told(command)}, {theirs.pid}, command)
            everything = self.verbena(command, "--json", privileged=True)
            self.assertEqual({row["pid"] for row in json.loads(everything.out)}, {theirs.pid, other.pid}, everything)
        # On one host, but not one user's: neither may reach into the other's memory.
        pingpong = [which("ibv_rc_pingpong"), "-d", "roce_lo", "-g", str(self.gids[0]), "-c", "-n", "200"]
        auto = {"VERBENA_WIRE": "auto"}
        before = self.datagrams(self.client)
        server = self.client.start(*pingpong, environment=auto)
        self.assertTrue(server.wait_until(lambda process: process.listens(TCP_PORT)), server.output())
        client = self.client.start(*drop, *pingpong, self.address, environment=auto, privileged=True)
        for process in (client, server):
            self.assertEqual(process.wait(self.TIMEOUT).code, 0, process.output())
        self.assertGreater(self.datagrams(self.client) - before, 400)


@expand
class Statistics(Looking):
    @across(["veth1500_v4"])
    def test_counters_grow(self):
        server, client = self.write_bw()
        self.until(lambda: self.of(client), "the client's queue pair")

        def sent():
            row = next(row for row in self.told("stat") if row["pid"] == client.pid)
            device = next(device for device in row["devices"] if device["device"] == self.device)
            self.assertLessEqual(device["counters"]["sent_pkts"], row["counters"]["sent_pkts"])
            return device["counters"]["sent_pkts"]

        first = self.until(sent, "packets are counted")
        self.until(lambda: sent() > first, "the counter grows")
        received = next(row for row in self.told("stat", host=self.server) if row["pid"] == server.pid)["counters"]["rcvd_pkts"]
        self.assertGreater(received, 0)
        text = self.verbena("stat", "--all", "--device", self.device).out
        self.assertIn("out_of_seq_request", text)
        self.assertNotIn("bad_qkey_pkts", self.verbena("stat").out)
        self.assertEqual(self.told("stat", "--pid", "1"), [])
        status = next(row for row in self.told("status")["processes"] if row["pid"] == client.pid)
        self.assertEqual(status["devices"], [self.device])
        self.assertGreaterEqual(status["counters"]["sent_pkts"], first)

    @across(["lo_v4"])
    def test_nobody(self):
        """Without a daemon every list is empty, and valid."""
        self.until(lambda: not self.client.pids(), "the daemon has left")
        for command in ("res", "stat"):
            self.assertEqual(self.told(command), [])
        self.assertEqual(self.told("status"), {"daemon": None, "processes": []})
        self.assertIn("No verbenad", self.verbena("top").out)
        self.assertEqual(self.verbena("res", "nonsense").code, 2)
        self.assertEqual(self.verbena("res", "--pid", "x").code, 2)
        self.assertEqual(self.verbena("top", "--interval", "0").code, 2)


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, host, argv, rows=30, columns=160, environment=None):
        self.master, slave = pty.openpty()
        self.resize(rows, columns)
        self.screen = b""
        self.process = subprocess.Popen(host.prefix(False) + list(argv), stdin=slave, stdout=slave, stderr=slave, cwd="/",
                                        env=host.environment({"TERM": "xterm", **(environment or {})}), start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read_until(self, text):
        limit, poll = time.monotonic() + PATIENCE, select.poll()
        poll.register(self.master, select.POLLIN)
        while text not in self.screen and time.monotonic() < limit:
            if poll.poll(100):
                try:
                    self.screen += os.read(self.master, 65536)
                except OSError:
                    break
        return text in self.screen

    def press(self, keys):
        os.write(self.master, keys)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)


@expand
class Top(Looking):
    def terminal(self, *argv, **more):
        terminal = Terminal(self.client, [clients.staged.verbena, *argv], **more)
        self.addCleanup(terminal.close)
        return terminal

    @across(["lo_v4"])
    def test_screen(self):
        """Draws processes and queue pairs, follows a resize, quits on q and leaves the terminal as it was."""
        _, client = self.write_bw()
        row = self.until(lambda: self.of(client), "the client's queue pair")
        terminal = self.terminal("top", "--interval", "0.2")
        self.assertTrue(terminal.read_until(b"0x%06x" % row["qps"][0]["qpn"]), terminal.screen)
        for text in (b"verbenad", b"ib_write_bw", b"RETRY/s", b"q quit", b"127.0.0.1"):
            self.assertTrue(terminal.read_until(text), terminal.screen)
        terminal.screen = b""
        terminal.resize(12, 60)
        self.assertTrue(terminal.read_until(b"q quit"), terminal.screen)
        terminal.press(b" ")
        self.assertTrue(terminal.read_until(b"go on"), terminal.screen)
        terminal.press(b"q")
        self.assertEqual(terminal.process.wait(PATIENCE), 0)
        # Back from the alternate screen, and the cursor is there.
        self.assertTrue(terminal.read_until(b"\033[?1049l"), terminal.screen)

    @across(["veth1500_v6"])
    def test_keys(self):
        """? explains the columns, s sorts by the next one, arrows bring a peer's long address into a narrow window."""
        peer = "fd77:1234:5678:9abc:def1:2345:6789:abc1"
        for host, address in ((self.server, peer), (self.client, peer[:-1] + "2")):
            host.ip("addr", "add", address + "/64", "dev", "eth0", "nodad")
        server = self.server.start(which("rping"), "-s", "-a", peer)
        self.until_listening(server)
        client = self.client.start(which("rping"), "-c", "-a", peer, "-C", "1000000000", environment=WIRE)
        row = self.until(lambda: self.of(client), client.output)["qps"][0]
        whole = "%s 0x%06x" % (peer, row["peer_qpn"])
        self.assertIn(whole, self.verbena("top", "--interval", "0.1").out)
        terminal = self.terminal("top", "--interval", "0.2", rows=24, columns=80)
        self.assertTrue(terminal.read_until(b"s sort (rate)"), "it is drawn")
        self.assertNotIn(whole.encode(), terminal.screen)
        # Only what is new is drawn, unless Ctrl-L asks for all of it.
        for keys, text in ((b"s\f", b"s sort (retries)"), (b"?\f", b"bytes of its own work requests"),
                           (b"\f", b"from a request to its acknowledgement"), (b"?" + 15 * b"\033OC" + b"\f", whole.encode())):
            terminal.screen = b""
            terminal.press(keys)
            self.assertTrue(terminal.read_until(text), text)

    @across(["lo_v4"])
    def test_interrupted(self):
        """Ctrl-C gives the terminal back."""
        terminal = self.terminal("top")
        self.assertTrue(terminal.read_until(b"q quit"), terminal.screen)
        terminal.press(b"\x03")
        terminal.process.wait(PATIENCE)
        self.assertTrue(terminal.read_until(b"\033[?1049l"), terminal.screen)

    @across(["lo_v4"])
    def test_text(self):
        """Not on a terminal: one look, with rates, of packets or of what goes through memory."""
        for way, environment in (("wire", WIRE), ("memory", {})):
            server, client = self.write_bw(environment=environment)
            self.until(lambda: self.of(client), "the client's queue pair")

            def moves():
                out = self.verbena("top", "--interval", "0.3").out
                self.assertNotIn("\033", out)
                mine = [line.split() for line in out.splitlines() if line.split()[:1] == [str(client.pid)]]
                process, qp = sorted(mine, key=len)
                self.assertEqual((process[1], qp[4]), ("ib_write_bw", way))
                return process[4] != "0" and qp[5] != "0"
            # On a busy machine nothing may move for the length of one look.
            self.until(moves, "work is done by " + way)
            for process in (client, server):
                process.kill()

    @across(["lo_v4"])
    def test_bytes(self):
        """Payload is what was sent, to the byte, by wire and through memory; a SEND also counts where it comes in."""
        for environment in (WIRE, {"VERBENA_WIRE": "auto"}):
            argv = [which("ibv_rc_pingpong"), "-d", self.device, "-p", str(TCP_PORT), "-s", "1000", "-n", "1000000000", "-e"]
            server = self.server.start(*argv, "-g", str(self.gids[0]), environment=environment)
            self.assertTrue(server.wait_until(lambda process: process.listens(TCP_PORT)), server.output())
            client = self.client.start(*argv, "-g", str(self.gids[1]), self.address, environment=environment)

            def counted():
                qp = (self.of(client) or {"qps": [None]})["qps"][0]
                return qp if qp and qp["received_bytes"] > 0 else None
            qp = self.until(counted, client.output)
            self.assertEqual((qp["work_bytes"], qp["received_bytes"]), (1000 * qp["sends_done"], 1000 * qp["receives_done"]))

            def moves():
                told = self.told("top", "--interval", "0.3")
                row = [row for row in told["qps"] if row["pid"] == client.pid][0]
                process = [row for row in told["processes"] if row["pid"] == client.pid][0]
                return row["work_bytes_per_s"] > 0 and row["received_bytes_per_s"] > 0 and process["work_bytes_per_s"] > 0
            self.until(moves, "bytes are sent and received")
            for process in (client, server):
                process.kill()

    @across(["lo_v4"])
    def test_colours(self):
        """On a terminal, unless NO_COLOR or a dumb terminal says otherwise."""
        for environment, coloured in (({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)):
            terminal = self.terminal("devices", environment=environment)
            self.assertTrue(terminal.read_until(b"127.0.0.1"), terminal.screen)
            self.assertEqual(b"\033[" in terminal.screen, coloured, environment)


@expand
class Doctor(Looking):
    def findings(self, *argv, expect=0, host=None, **more):
        result = self.verbena("doctor", "--json", host=host, **more)
        self.assertEqual(result.code, expect, result)
        rows = json.loads(result.out)
        for row in rows:
            self.assertIn(row["verdict"], ("ok", "warn", "fail"))
        return {row["check"]: row for row in rows}

    @across(["veth1500_v4"])
    def test_healthy(self):
        """Nothing fails; every device is named with the packets it carries; the text says the same as the JSON."""
        found = self.findings()
        for check in ("libraries", "daemon", "UDP port 4791", "kernel RDMA", "programs", "environment", "IPv6", "rmem_max",
                      "wmem_max", "UDP GSO, GRO", "port sharing", "shared memory", "ptrace", "descriptors"):
            self.assertIn(check, found)
        self.assertIn("1024 bytes", found["device eth0"]["found"])
        self.assertEqual(found["IPv6"]["verdict"], "ok")
        text = self.verbena("doctor")
        self.assertEqual(text.code, 0)
        for row in found.values():
            self.assertIn(row["check"], text.out)

    @across(["lo_v4"])
    def test_port_taken(self):
        """Somebody else on port 4791, whether or not a daemon was there before, is a failure that names him."""
        self.until(lambda: not self.client.pids(), "the daemon has left")
        thief = self.client.start("python3", "-u", "-c", "import socket, time\n"
                                  "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 4791))\n"
                                  "print('bound'); time.sleep(600)")
        self.assertTrue(thief.wait_until(lambda process: "bound" in process.output()), thief.output())
        row = self.findings(expect=1)["UDP port 4791"]
        self.assertEqual(row["verdict"], "fail")
        self.assertIn(str(thief.pid), row["found"])
        self.assertIn("unshare", row["advice"])

    @across(["lo_v4"])
    def test_port_ours(self):
        """The daemon's own sockets are no thief's."""
        watcher = self.client.start("stdbuf", "-oL", which("ibv_asyncwatch"), "-d", "roce_lo")
        self.assertTrue(watcher.wait_until(lambda process: "async event FD" in process.output()), watcher.output())
        found = self.findings()
        self.assertEqual(found["UDP port 4791"]["verdict"], "ok")
        self.assertIn("answers", found["daemon"]["found"])

    @across(["veth1500_v4"])
    def test_no_ipv6(self):
        self.client.run("sysctl", "-q", "-w", "net.ipv6.conf.all.disable_ipv6=1", privileged=True)
        row = self.findings()["IPv6"]
        self.assertEqual(row["verdict"], "warn")
        self.assertIn("sysctl", row["advice"])

    @across(["lo_v4"])
    def test_no_loopback(self):
        self.client.ip("link", "set", "lo", "down")
        self.assertEqual(self.findings(expect=1)["loopback"]["verdict"], "fail")

    @across(["lo_v4"])
    def test_environment(self):
        """Another libibverbs in LD_LIBRARY_PATH, a daemon that is not there."""
        for directory in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"):
            if os.path.exists(directory + "/libibverbs.so.1"):
                row = self.findings(environment={"LD_LIBRARY_PATH": directory})["environment"]
                self.assertEqual(row["verdict"], "warn")
                self.assertIn(directory, row["found"])
        self.until(lambda: not self.client.pids(), "the daemon has left")
        row = self.findings(expect=1, environment={"VERBENA_DAEMON": "/no/such/verbenad"})["daemon"]
        self.assertEqual(row["verdict"], "fail")
        result = self.client.run("env", "PATH=/nowhere", clients.staged.verbena, "doctor", "--json")
        programs = next(row for row in json.loads(result.out) if row["check"] == "programs")
        self.assertEqual(programs["verdict"], "warn")
        self.assertIn("perftest", programs["advice"])


@expand
class Words(Looking):
    """Help, manual pages, completion: every command has them."""

    def commands(self):
        lines = self.verbena("help").out.splitlines()
        return [line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "]

    @across(["lo_v4"])
    def test_every_command_explains_itself(self):
        names = self.commands()
        self.assertLessEqual({"run", "devices", "status", "res", "stat", "top", "doctor", "demo", "capture", "lab"}, set(names))
        for name in names:
            result = self.verbena(name, "--help")
            self.assertEqual(result.code, 0, result)
            self.assertIn("Usage: verbena " + name, result.out)
            self.assertRegex(result.out, r"(?m)^Examples?:")
            self.assertEqual(self.verbena(name, "--no-such-option").code, 2, name)

    @across(["lo_v4"])
    def test_manual_pages(self):
        """Each command has a page, and groff finds nothing wrong with any."""
        pages = os.path.join(clients.staged.build, "docs", "man")
        for name in self.commands():
            self.assertTrue(os.path.exists(os.path.join(pages, "verbena-%s.1" % name)), name)
        listed = [os.path.join(pages, page) for page in sorted(os.listdir(pages)) if page.endswith(".1")]
        listed += [os.path.join(ROOT, "docs", "man", page) for page in ("verbena.1", "verbenad.8")]
        for page in listed:
            done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", page], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""), page)

    @across(["lo_v4"])
    def test_completion(self):
        """Sourced in bash, it completes commands, options, kinds and devices."""
        with open(COMPLETION) as file:
            text = file.read()
        asked = [("verbena", ""), ("verbena", "dev"), ("verbena", "res", "c"), ("verbena", "stat", "--d"),
                 ("verbena", "run", "--device", ""), ("verbena", "help", "top"), ("verbena", "run", "ibv_rc_ping")]
        lines = "\n".join("complete_line " + " ".join("'%s'" % word for word in words) for words in asked)
        ask = ('complete_line() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _verbena; '
               'echo "${COMPREPLY[@]}"; }\n')
        script = text + ask + lines
        result = self.client.run("bash", "--norc", "-c", script,
                                 environment={"PATH": os.path.dirname(clients.staged.verbena) + ":/usr/bin:/bin"})
        self.assertEqual(result.code, 0, result)
        answers = result.out.splitlines()
        self.assertLessEqual(set(self.commands()), set(answers[0].split()))
        self.assertEqual(answers[1].split(), ["devices"])
        self.assertEqual(set(answers[2].split()), {"cq", "cm_id"})
        self.assertEqual(answers[3].split(), ["--device"])
        self.assertEqual(answers[4].split(), ["roce_lo"])
        self.assertEqual(answers[5].split(), ["top"])
        self.assertIn("ibv_rc_pingpong", answers[6])

    @across(["veth1500_v4"])
    def test_run_device(self):
        """--device hides the others; a wrong name is refused before anything runs."""
        plain = {"LD_LIBRARY_PATH": ""}
        shown = self.verbena("run", "--device", "roce_eth0", which("ibv_devices"), environment=plain)
        self.assertEqual(shown.code, 0, shown)
        self.assertIn("roce_eth0", shown.out)
        self.assertNotIn("roce_lo", shown.out)
        both = self.verbena("run", "--device", "roce_eth0,roce_lo", "--wire", "rocev2", which("ibv_devices"), environment=plain)
        self.assertIn("roce_lo", both.out)
        other = self.verbena("run", "--iwarp", "--device", "roce_eth0", which("ibv_devices"))
        self.assertEqual((other.code, "`roce_eth0' is not among the devices of the transport that is asked for, iwarp" in other.out), (1, True), other)
        wrong = self.verbena("run", "--device", "mlx5_0", which("ibv_devices"))
        self.assertEqual(wrong.code, 1)
        self.assertIn("mlx5_0", wrong.out)
        self.assertEqual(self.verbena("run", "--wire=iwarp", "true").code, 2)
        for option in ("--wire", "--wire=rocev2", "--wire=auto"):
            said = self.verbena("run", option, "printenv", "VERBENA_WIRE", environment=plain)
            self.assertEqual((said.code, said.out.strip()), (0, option.partition("=")[2] or "rocev2"))
