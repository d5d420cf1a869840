# SPDX-License-Identifier: MIT
"""`verbena capture`, `verbena ladder` and faults on purpose: as an ordinary user, judged by tshark and by an independent reader."""

import os
import shutil
import subprocess
import tempfile
import xml.dom.minidom

from pylib import clients, pcapng
from pylib.clients import ClientCase, across, expand, which
from test_capture import GUESSERS

PINGPONG = which("ibv_rc_pingpong")


@expand
class LookAtTheWire(ClientCase):
    def directory(self):
        directory = tempfile.mkdtemp(prefix="verbena-look-")
        self.addCleanup(shutil.rmtree, directory, True)
        os.chmod(directory, 0o777)
        return directory

    def verbena(self, *argv, **more):
        return self.client.run(clients.staged.verbena, *argv, **more)

    def dissect(self, path, display_filter, *more):
        quiet = [word for name in GUESSERS for word in ("--disable-heuristic", name)]
        done = subprocess.run(["tshark", "-n", *quiet, "-r", path, "-Y", display_filter, *more], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, env={**os.environ, "HOME": os.path.dirname(path)})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def assert_well_dissected(self, path, count):
        self.assertEqual(self.dissect(path, "!infiniband"), "", "not recognised as RoCEv2")
        self.assertEqual(self.dissect(path, "_ws.malformed || _ws.expert.severity == error"), "", "malformed")
        self.assertEqual(self.dissect(path, "ip.checksum.status == 0 || udp.checksum.status == 0", "-o", "ip.check_checksum:TRUE",
                                      "-o", "udp.check_checksum:TRUE"), "", "wrong checksums")
        self.assertEqual(len(self.dissect(path, "infiniband", "-T", "fields", "-e", "frame.number").split()), count)

    def texts(self, svg):
        """Well-formed, nothing from elsewhere; its texts."""
        document = xml.dom.minidom.parse(svg)
        with open(svg) as file:
            self.assertNotIn("href", file.read())
        return ["".join(part.data for part in node.childNodes if part.nodeType == part.TEXT_NODE)
                for node in document.getElementsByTagName("text")]

    def pingpong(self, prefix_server, prefix_client, *options, environments=({}, {})):
        base = [PINGPONG, "-d", self.device, *options]
        server = self.server.start(*prefix_server, *base, "-g", str(self.gids[0]), environment=environments[0])
        self.assertTrue(server.wait_until(lambda process: process.listens(18515)), server.output())
        client = self.client.start(*prefix_client, *base, "-g", str(self.gids[1]), self.address, environment=environments[1])
        results = client.wait(self.TIMEOUT), server.wait(self.TIMEOUT)
        for result in results:
            self.assertEqual(result.code, 0, result)
        return results

    @across(["lo_v4", "lo_v6", "veth1500_v4", "veth1500_v6"])
    def test_two_terminals_one_file(self):
        """Both write to one file; each packet is in it once, in order, with valid ICRC and the work as comments; then the ladder."""
        path = os.path.join(self.directory(), "x.pcapng")
        run = [clients.staged.verbena, "run", "--capture", path]
        self.pingpong(run, run, "-n", "20", "-s", "3000", "-m", "1024")
        found, wrong = pcapng.judge(path)
        self.assertEqual(wrong, [])
        # 20 messages of three packets each way, and acknowledgements. On a busy machine some are sent again.
        for opcode in (0x00, 0x01, 0x02):
            self.assertEqual(len({packet[:3] for packet in found if packet[0] == opcode}), 40)
        self.assertGreater(sum(packet[0] == 0x11 for packet in found), 0)
        self.assertTrue(all("sent by ibv_rc_pingpong" in comment and "received by" in comment for *_, comment in found), found)
        self.assertEqual(sum("wr_id 2" in comment for *_, comment in found if "posted: SEND" in comment), 40)
        self.assert_well_dissected(path, len(found))
        svg, html = path + ".svg", path + ".html"
        drawn = self.verbena("ladder", path, "-o", svg, "--html", html, "--packets", "8")
        self.assertEqual(drawn.code, 0, drawn)
        texts = self.texts(svg)
        self.assertEqual(sum(text == "ibv_rc_pingpong" for text in texts), 2)
        for wanted in ("SEND_FIRST PSN 0, 1024 B", "SEND_LAST PSN 2, 952 B", "post SEND, 3000 B, wr_id 2", "\u2713 RECV, wr_id 1"):
            self.assertIn(wanted, texts)
        self.assertIn("%d packets are not drawn" % (len(found) - 8), texts)
        xml.dom.minidom.parse(html)

    @across(["lo_v4", "veth1500_v4"])
    def test_lossy_write(self):
        """A packet lost on purpose is in the picture, and so is the one that makes good for it."""
        directory = self.directory()
        path, svg = os.path.join(directory, "x.pcapng"), os.path.join(directory, "x.svg")
        tool = [which("ib_write_bw"), "-F", "-d", self.device, "-n", "5", "-s", "8192", "-m", "1024"]
        server = self.server.start(clients.staged.verbena, "run", "--capture", path, *tool, "-x", str(self.gids[0]))
        self.assertTrue(server.wait_until(lambda process: process.listens(18515)), server.output())
        done = self.verbena("capture", "-o", path, "--faults", "drop-psn=+2", "--ladder", svg, "--", *tool, "-x",
                            str(self.gids[1]), self.address)
        self.assertEqual(done.code, 0, done)
        self.assertEqual(server.wait(self.TIMEOUT).code, 0)
        found, wrong = pcapng.judge(path)
        self.assertEqual(wrong, [])
        self.assertEqual(sum("LOST" in comment for *_, comment in found), 1)
        self.assertEqual(self.verbena("ladder", path, "-o", svg).code, 0)
        texts = self.texts(svg)
        self.assertIn("RDMA_WRITE_MIDDLE PSN 2, 1024 B (lost)", texts)
        self.assertTrue(any("(again)" in text for text in texts), texts)
        self.assertTrue(any(text.startswith("NAK PSN 2: PSN sequence error") for text in texts), texts)

    @across(["lo_v4", "veth1500_v4"])
    def test_connection(self):
        """The daemon's packets belong to it: REQ, REP, RTU, the traffic, DREQ, DREP; and the events."""
        directory = self.directory()
        path, svg = os.path.join(directory, "x.pcapng"), os.path.join(directory, "x.svg")
        run = [clients.staged.verbena, "run", "--capture", path, which("rping")]
        server = self.server.start(*run, "-s", "-a", self.address, "-C", "2")
        self.until_listening(server)
        client = self.client.run(*run, "-c", "-a", self.address, "-C", "2", "-v", timeout=self.TIMEOUT)
        self.assertEqual(client.code, 0, client)
        server.wait(self.TIMEOUT)
        found, wrong = pcapng.judge(path)
        self.assertEqual(wrong, [])
        self.assert_well_dissected(path, len(found))
        # Each once; on a busy machine one may be repeated, with the number it had.
        rows = self.dissect(path, "infiniband.mad", "-T", "fields", "-e", "infiniband.mad.attributeid", "-e",
                            "infiniband.mad.transactionid").splitlines()
        managed = [row.split()[0] for row in set(rows)]
        for attribute in ("0x0010", "0x0013", "0x0014", "0x0015", "0x0016"):
            self.assertEqual(managed.count(attribute), 1, rows)
        self.assertEqual(self.verbena("ladder", path, "-o", svg).code, 0)
        texts = self.texts(svg)
        for wanted in ("CM REQ", "CM REP", "CM RTU", "CONNECT_REQUEST", "ESTABLISHED", "RDMA_READ_REQUEST", "CM DREQ",
                       "DISCONNECTED"):
            self.assertTrue(any(text.startswith(wanted) for text in texts), wanted)
        self.assertEqual(sum(text == "rping" for text in texts), 2)

    @across(["veth1500_v4"])
    def test_lost_connection_messages(self):
        """REQ, REP and RTU lost once each: sent again, marked in the capture, and the connection comes about all the same."""
        path = os.path.join(self.directory(), "x.pcapng")
        run = [clients.staged.verbena, "run", "--capture", path]
        server = self.server.start(*run, "--faults", "drop-cm=REP", which("rping"), "-s", "-a", self.address, "-C", "2")
        self.until_listening(server)
        client = self.client.run(*run, "--faults", "drop-cm=REQ,drop-cm=RTU", which("rping"), "-c", "-a", self.address, "-C", "2", "-v",
                                 timeout=self.TIMEOUT)
        self.assertEqual(client.code, 0, client)
        server.wait(self.TIMEOUT)
        found, wrong = pcapng.judge(path)
        self.assertEqual(wrong, [])
        lost = [comment for *_, comment in found if "LOST" in comment]
        self.assertEqual(len(lost), 3, lost)
        rows = self.dissect(path, "frame.comment contains LOST", "-T", "fields", "-e", "infiniband.mad.attributeid").split()
        self.assertEqual(sorted(rows), ["0x0010", "0x0013", "0x0014"])
        svg = path + ".svg"
        self.assertEqual(self.verbena("ladder", path, "-o", svg).code, 0)
        texts = self.texts(svg)
        for wanted in ("CM REQ", "CM REP", "CM RTU"):
            self.assertTrue(any(text.startswith(wanted) and "(lost)" in text for text in texts), (wanted, texts))

    @across(["lo_v4", "veth1500_v4", "veth1500_v6"])
    def test_faults(self):
        """Whatever happens to packets, the content arrives: pingpong checks it."""
        # The very last acknowledgement must get through, for the peer of one that is lost waits for a program that is gone.
        for faults in ("seed=7,loss=1%,only=requests", "seed=3,dup=5%,reorder=5%", "seed=5,corrupt=2%,only=requests",
                       "seed=2,delay=50us..200us,delayed=20%", "drop-packet=3,corrupt-packet=21,drop-packet=22,drop-packet=43",
                       "seed=11,loss=0.5%,dup=1%,corrupt=0.5%,reorder=1%,delay=100us,delayed=1%,only=requests"):
            both = {"VERBENA_FAULTS": faults}
            with self.subTest(faults=faults):
                self.pingpong([], [], "-n", "300", "-s", "20000", "-m", "1024", "-c", environments=(both, both))

    @across(["lo_v4"])
    def test_nothing_captured(self):
        """A command without RDMA: said once, and the file is a capture all the same."""
        directory = self.directory()
        path, svg = os.path.join(directory, "x.pcapng"), os.path.join(directory, "x.svg")
        done = self.verbena("capture", "-o", path, "--ladder", svg, "--", "true")
        self.assertEqual(done.code, 0, done)
        self.assertEqual(done.out.strip().splitlines(), ["verbena capture: %s: 0 packets, 0 work requests; was the command an RDMA "
                                                         "program, and did it connect?" % path])
        self.assertEqual(list(pcapng.packets(path)), [])
        self.assertNotIn("RC", "".join(self.texts(svg)))

    @across(["lo_v4"])
    def test_picture_only(self):
        """Without -o there is no capture to name: the picture is named, in whatever is said."""
        svg = os.path.join(self.directory(), "x.svg")
        run = [clients.staged.verbena, "capture", "--ladder", svg, "--"]
        client = self.pingpong([], run, "-n", "1", "-s", "64")[0]
        self.assertRegex(client.out, "verbena capture: %s: [0-9]+ packets, " % svg)
        self.assertNotIn("verbena-capture-", client.out)
        self.assertTrue(any(text.startswith("SEND_ONLY") for text in self.texts(svg)))

    @across(["veth1500_v4", "veth1500_v6"])
    def test_tcpdump(self):
        """What tcpdump writes can be drawn: of an interface, and of `any` in both of its formats."""
        directory = self.directory()
        kinds = {"veth": ["-i", "eth0"], "nanoseconds": ["-i", "eth0", "--time-stamp-precision=nano"],
                 "any": ["-i", "any", "-y", "LINUX_SLL"], "any2": ["-i", "any", "-y", "LINUX_SLL2"]}
        sniffers = []
        for name, options in kinds.items():
            sniffers.append(self.client.start("tcpdump", *options, "-U", "--immediate-mode", "-B", "32768", "-Z", "root", "-w",
                                              os.path.join(directory, name), "udp port 4791", privileged=True))
        for sniffer in sniffers:
            self.assertTrue(sniffer.wait_until(lambda process: "listening on" in process.output()), sniffer.output())
        self.pingpong([], [], "-n", "3", "-s", "3000", "-m", "1024")
        pictures = {}

        def drawn(name):
            """Each SEND packet once: on a busy machine some are sent again. tcpdump may still be writing."""
            path = os.path.join(directory, name)
            os.chmod(path, 0o644)
            if self.verbena("ladder", path, "--absolute", "-o", path + ".svg").code != 0:
                return False
            pictures[name] = {text for text in self.texts(path + ".svg") if text.startswith("SEND_")}
            return len(pictures[name]) >= 18
        for name in kinds:
            self.until(lambda name=name: drawn(name), lambda name=name: "%s: %s" % (name, pictures.get(name)))
            self.assertEqual(pictures[name], pictures["veth"])
        # Both ends of the connection were found: PSNs are counted, and one queue pair's number brings both directions.
        path = os.path.join(directory, "veth")
        self.assertEqual(self.verbena("ladder", path, "-o", path + ".svg").code, 0)
        texts = self.texts(path + ".svg")
        self.assertGreaterEqual(sum(text.startswith("SEND_FIRST PSN 0, 1024 B") for text in texts), 2, texts)
        number = next(word for text in texts if "PSNs are counted" in text for word in text.split() if word.startswith("0x"))
        self.assertEqual(self.verbena("ladder", path, "--qp", number, "-o", path + ".svg").code, 0)
        self.assertEqual(self.texts(path + ".svg"), texts)

    @across(["lo_v4"])
    def test_queue_pair_that_is_not_there(self):
        """`ladder --qp` with a number nobody has says so, and which there are; nothing is drawn."""
        directory = self.directory()
        path, svg = os.path.join(directory, "x.pcapng"), os.path.join(directory, "x.svg")
        run = [clients.staged.verbena, "run", "--capture", path]
        self.pingpong(run, run, "-n", "1", "-s", "64")
        numbers = sorted({packet[2] for packet in pcapng.judge(path)[0]})
        result = self.verbena("ladder", path, "--qp", "0x1", "-o", svg)
        self.assertEqual(result.code, 1, result)
        self.assertIn("nothing of queue pair 0x000001", result.out)
        for number in numbers:
            self.assertIn("0x%06x" % number, result.out)
        self.assertFalse(os.path.exists(svg))
        self.assertEqual(self.verbena("ladder", path, "--qp", hex(numbers[0]), "-o", svg).code, 0)
        self.assertTrue(any(text.startswith("SEND_ONLY") for text in self.texts(svg)))

    @across(["lo_v4"])
    def test_wrong_usage(self):
        """What is no capture, no specification, no command: said clearly, and nothing is overwritten."""
        directory = self.directory()
        precious = os.path.join(directory, "precious.txt")
        with open(precious, "w") as file:
            file.write("not to be lost, and long enough to be looked at " * 3)
        os.chmod(precious, 0o666)
        refused = self.verbena("capture", "-o", precious, "--", "true")
        self.assertEqual(refused.code, 1)
        self.assertIn("another kind", refused.out)
        with open(precious) as file:
            self.assertIn("not to be lost", file.read())
        self.assertIn("neither a pcapng nor a pcap file", self.verbena("ladder", precious).out)
        self.assertEqual(self.verbena("ladder", os.path.join(directory, "missing")).code, 1)
        self.assertEqual(self.verbena("ladder").code, 2)
        self.assertEqual(self.verbena("capture", "--", "true").code, 2)
        self.assertEqual(self.verbena("capture", "-o", precious, "--nonsense").code, 2)
        wrong = self.verbena("run", "--faults", "los=1%", "--", "true")
        self.assertEqual(wrong.code, 2)
        self.assertIn("there is no fault `los`", wrong.out)
        path = os.path.join(directory, "x.pcapng")
        self.assertEqual(self.verbena("capture", "-o", path, "--", "sh", "-c", "exit 42").code, 42)
        # A capture cut anywhere is refused with the place.
        run = [clients.staged.verbena, "run", "--capture", path]
        self.pingpong(run, run, "-n", "1", "-s", "64")
        with open(path, "rb") as file:
            whole = file.read()
        cut = os.path.join(directory, "cut.pcapng")
        for length in (3, 30, len(whole) // 2 | 1, len(whole) - 1):
            with open(cut, "wb") as file:
                file.write(whole[:length])
            os.chmod(cut, 0o644)
            result = self.verbena("ladder", cut, "-o", "/dev/null")
            self.assertEqual(result.code, 1, result)
            self.assertIn("at byte", result.out)
