# SPDX-License-Identifier: MIT
"""iWARP looked at, and disturbed on purpose: captures as tshark dissects them, ladders, and faults of streams."""

import os
import re
import signal

import test_look_at_the_wire as look
from pylib import clients, pcapng
from pylib.clients import across, expand, which
from test_iwarp import IwarpCase

RPING_PORT = 7174


class WireCase(IwarpCase):
    directory = look.LookAtTheWire.directory
    dissect = look.LookAtTheWire.dissect
    texts = look.LookAtTheWire.texts
    verbena = look.LookAtTheWire.verbena

    def rping(self, prefix_server, prefix_client, rounds=2, size=64):
        """As a client exits its server may find the stream ended: only the client's word counts."""
        common = ["-a", self.peer, "-C", str(rounds), "-V", "-v", "-S", str(size)]
        server = self.server.start(*prefix_server, which("rping"), "-s", *common)
        self.assertTrue(server.wait_until(lambda process: process.listens(RPING_PORT)), server.output())
        client = self.client.run(*prefix_client, which("rping"), "-c", *common, timeout=self.TIMEOUT)
        return client, server.wait(self.TIMEOUT)


@expand
class Capture(WireCase):
    def assert_dissected(self, path):
        """All that is not TCP's own business is MPA, and RDMAP in it, or a piece of an FPDU that others complete; nothing is wrong with it."""
        wrong = ("!tcp", "tcp.len > 0 && !iwarp_mpa && !tcp.reassembled_in", "_ws.malformed", "_ws.expert.severity == error", "tcp.analysis.lost_segment",
                 "tcp.analysis.retransmission", "tcp.analysis.ack_lost_segment", "ip.checksum.status == 0", "tcp.checksum.status == 0")
        self.assertEqual(self.dissect(path, " || ".join("(%s)" % word for word in wrong), "-2", "-o", "ip.check_checksum:TRUE",
                                      "-o", "tcp.check_checksum:TRUE"), "")
        rows = self.dissect(path, "tcp", "-T", "fields", "-E", "separator=|", "-e", "tcp.flags.syn", "-e", "iwarp_mpa.key.req",
                            "-e", "iwarp_mpa.key.rep", "-e", "iwarp_rdma.opcode").splitlines()
        return [row.split("|") for row in rows]

    @across(["lo_v4", "veth1500_v6"])
    def test_both_ends_in_one_file(self):
        """rping: both MPA frames, then SEND, READ, SEND, SEND, WRITE, SEND; each once, with times and comments; then the ladder."""
        path = os.path.join(self.directory(), "x.pcapng")
        run = [clients.staged.verbena, "run", "--capture", path]
        client, _ = self.rping(run, run)
        self.assertEqual(client.code, 0, client)
        shown = self.assert_dissected(path)
        # tshark has said True and False since 4.2.
        self.assertEqual([row[0] in ("1", "True") for row in shown[:3]], [True, True, False], shown)
        opcodes = [int(code, 0) for row in shown for code in row[3].split(",") if code]
        self.assertEqual([sum(row[1] != "" for row in shown), sum(row[2] != "" for row in shown)], [1, 1], shown)
        # Two rounds. Two of ours need no WRITE of no bytes to begin with.
        self.assertEqual([opcodes.count(code) for code in range(4)], [2, 2, 2, 8], opcodes)
        comments = [comment for _, packet, comment in pcapng.packets(path) if b"MPA ID" in packet or "QP 0x" in comment]
        self.assertGreater(len(comments), 14)
        self.assertTrue(all("sent by rping" in comment and "received by rping" in comment for comment in comments), comments)
        self.assertTrue(any("posted: RDMA_READ" in comment for comment in comments), comments)
        drawn = self.verbena("ladder", path, "-o", path + ".svg", "--html", path + ".html", "--text", path + ".txt")
        self.assertEqual(drawn.code, 0, drawn)
        with open(path + ".txt", encoding="utf-8") as plain:
            lines = plain.read().splitlines()
        for wanted in (r"s +\|<?-+ MPA request, IRD 1, ORD 1.* -+>?\|$", r"s +\|<?-+ READ_REQUEST MSN 1, for 64 B.* -+>?\|$", r"-- TCP FIN --",
                       r"\[post RDMA_READ"):
            self.assertTrue(any(re.search(wanted, line) for line in lines), (wanted, lines))
        texts = self.texts(path + ".svg")
        self.assertEqual(sum(text == "rping" for text in texts), 2)
        for wanted in ("MPA request, IRD 1, ORD 1", "MPA reply, IRD 1, ORD 1", "ESTABLISHED", "SEND MSN 1, 16 B",
                       "READ_REQUEST MSN 1, for 64 B", "READ_RESPONSE 64 B", "WRITE 64 B", "TCP FIN", "DISCONNECTED"):
            self.assertTrue(any(text.startswith(wanted) for text in texts), (wanted, texts))
        self.assertFalse(any("damaged" in text for text in texts if not text.startswith("NAK")), texts)

    @across(["veth1500_v4"])
    def test_one_end(self):
        """What was received as it was received: FPDUs of 32 KiB in whatever pieces."""
        path = os.path.join(self.directory(), "x.pcapng")
        client, _ = self.rping([], [clients.staged.verbena, "run", "--capture", path], size=60000)
        self.assertEqual(client.code, 0, client)
        self.assert_dissected(path)
        self.assertEqual(self.verbena("ladder", path, "-o", path + ".svg").code, 0)
        texts = self.texts(path + ".svg")
        self.assertEqual(sum(text == "rping" for text in texts), 1)
        for wanted in ("READ_RESPONSE 32768 B, more to come", "READ_RESPONSE 27232 B", "WRITE 32768 B, more to come", "WRITE 27232 B"):
            self.assertIn(wanted, texts)

    @across(["veth1500_v4"])
    def test_tcpdump(self):
        """Somebody else's capture of the same: drawn from the bytes alone."""
        path = os.path.join(self.directory(), "x.pcap")
        sniffer = self.server.start("tcpdump", "-i", "eth0", "-U", "--immediate-mode", "-Z", "root", "-w", path, "tcp", privileged=True)
        self.assertTrue(sniffer.wait_until(lambda process: "listening on" in process.output()), sniffer.output())
        client, _ = self.rping([], [], size=5000)
        self.assertEqual(client.code, 0, client)
        texts = []

        def drawn():
            self.assertEqual(self.verbena("ladder", path, "-o", path + ".svg").code, 0)
            texts[:] = self.texts(path + ".svg")
            return "WRITE 5000 B" in texts
        self.until(drawn, lambda: texts)
        sniffer.signal(signal.SIGINT)
        sniffer.wait(self.TIMEOUT)
        for wanted in ("MPA request, IRD 1, ORD 1, CRC", "READ_REQUEST MSN 1, for 5000 B", "READ_RESPONSE 5000 B"):
            self.assertIn(wanted, texts)


@expand
class Faults(WireCase):
    @across(["lo_v4", "veth1500_v4"])
    def test_every_byte_is_right(self):
        """Reads and writes of odd sizes, and pauses: rping compares what comes back with what it sent."""
        for settings in ("crc=on,fpdu=large", "crc=off,fpdu=large", "crc=off,fpdu=segment"):
            for faults in ("short=70%,seed=5", "short=30%,delay=100us..2ms,delayed=20%,seed=6"):
                with self.subTest(settings=settings, faults=faults):
                    self.network.environment["VERBENA_IWARP"] = settings
                    run = [clients.staged.verbena, "run", "--faults", faults]
                    client, _ = self.rping(run, run, rounds=8, size=40000)
                    self.assertEqual(client.code, 0, client)
                    self.assertEqual(client.out.count("ping data:"), 8, client)

    @across(["veth1500_v4"])
    def test_damage_is_found(self):
        """With CRC the receiver says so in a TERMINATE, and both queue pairs end: QP_FATAL, and what is posted is flushed."""
        self.network.environment["VERBENA_IWARP"] = "crc=on"
        path = os.path.join(self.directory(), "x.pcapng")
        run = [clients.staged.verbena, "run", "--explain", "--capture", path]
        client, server = self.rping(run, run + ["--faults", "corrupt-packet=3"], rounds=5)
        self.assertLess(client.out.count("ping data:"), 5, client)
        self.assertIn("2/0/02", server.out, server)
        self.assertIn("2/0/02", client.out, client)
        self.assertEqual(self.verbena("ladder", path, "-o", path + ".svg").code, 0)
        texts = self.texts(path + ".svg")
        self.assertTrue(any(text.endswith("(damaged)") for text in texts), texts)
        self.assertTrue(any(text.startswith("TERMINATE 2/0/02") for text in texts), texts)
        # Either side: the receive that was posted is flushed, and the queue pair's context hears of it.
        self.assertEqual(sum(text == "QP_FATAL" for text in texts), 2, texts)
        self.assertGreaterEqual(sum(text.startswith("\u2717 WR_FLUSH_ERR") for text in texts), 2, texts)

    @across(["lo_v4"])
    def test_cut(self):
        """Both ends hear at once that the stream is gone."""
        path = os.path.join(self.directory(), "x.pcapng")
        run = [clients.staged.verbena, "run", "--explain", "--capture", path]
        client, server = self.rping(run, run + ["--faults", "cut-packet=4"], rounds=5)
        self.assertLess(client.out.count("ping data:"), 5, client)
        for result in (client, server):
            self.assertFalse(result.timed_out, result)
            self.assertRegex(result.out, "reset", result)
        self.assertEqual(self.verbena("ladder", path, "-o", path + ".svg").code, 0)
        self.assertIn("TCP RST", self.texts(path + ".svg"))
