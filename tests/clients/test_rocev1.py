# SPDX-License-Identifier: MIT
"""RoCEv1: the same programs by GIDs of that version, in Ethernet frames of their own (docs/rocev1.md).

The programs are an ordinary user's, without a capability; verbenad is that user's and has CAP_NET_RAW.
"""

import json
import os
import zlib

from pylib import clients
from pylib.clients import TCP_PORT, ClientCase, across, expand, perftest_rows, which

PLACES = ["veth1500_v4", "veth9000_v4", "veth1500_v6"]
BOTH = {"VERBENA_ROCE": "v1,v2"}
FIRST = {"VERBENA_ROCE": "v1"}


def icrc(frame):
    """Of a frame from its GRH on, without the ICRC: IBA 7.8.1, by another CRC than ours."""
    grh, rest = bytearray(frame[:40]), bytearray(frame[40:-4])
    grh[0] |= 0x0f
    grh[1] = grh[2] = grh[3] = grh[7] = 0xff
    rest[4] = 0xff
    return zlib.crc32(b"\xff" * 8 + bytes(grh) + bytes(rest)).to_bytes(4, "little")


def read_pcap(path):
    """The frames of a capture of tcpdump's, without their Ethernet headers."""
    with open(path, "rb") as file:
        bytes_ = file.read()
    order = "little" if bytes_[:4] == b"\xd4\xc3\xb2\xa1" else "big"
    at, frames = 24, []
    while at + 16 <= len(bytes_):
        length = int.from_bytes(bytes_[at + 8:at + 12], order)
        frames.append(bytes_[at + 16 + 14:at + 16 + length])
        at += 16 + length
    return frames


@expand
class RoCEv1(ClientCase):
    def start_daemon(self, host):
        words = ["setpriv", "--reuid=%d" % self.network.uid, "--regid=%d" % self.network.uid, "--clear-groups",
                 "--inh-caps=+net_raw", "--ambient-caps=+net_raw"]
        # Until it is killed: one that a program starts in its place would not have the capability.
        daemon = host.start(*words, os.path.join(self.network.staged.root, "bin", "verbenad"), "--foreground", "--idle-seconds", "3600",
                            privileged=True)
        # No program before it listens: that would start a daemon of its own, without the capability.
        self.until(lambda: self.listens(daemon), daemon.output)

    def listens(self, daemon):
        with open("/proc/%d/net/unix" % daemon.pid) as table:
            return any(line.split()[-1] == "@verbena/1" and line.split()[5] == "01" for line in table)

    def prepare(self):
        if os.environ.get("VERBENA_TEST_INSIDE"):
            self.skipTest("only root can be several users")
        for host in {self.server, self.client}:
            self.start_daemon(host)
        self.network.environment.update(BOTH)

    def first_version(self):
        """Of each address there are two: v1, then v2."""
        return [str(index - index % 2) for index in self.gids]

    @across(["veth1500_v4"])
    def test_gids(self):
        told = self.server.run(which("ibv_devinfo"), "-v", "-d", self.device).out
        rows = [line.split("GID[")[1] for line in told.splitlines() if "GID[" in line]
        types = [row.rsplit(", ", 1)[1].strip() for row in rows]
        self.assertEqual(types, ["RoCE v1", "RoCE v2"] * (len(rows) // 2), told)
        self.assertGreaterEqual(len(rows), 4)
        told = self.server.run(which("ibv_devinfo"), "-v", "-d", self.device, environment={"VERBENA_ROCE": "v1,v3"})
        self.assertIn("known are v2, v1 and v1,v2", told.out)
        self.assertNotIn("RoCE v1", told.out)
        # The loopback device has RoCEv2 alone.
        self.assertNotIn("RoCE v1", self.server.run(which("ibv_devinfo"), "-v", "-d", "roce_lo").out)

    @across(PLACES)
    def test_pingpongs(self):
        gids = self.first_version()
        for program in ("ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_srq_pingpong", "ibv_ud_pingpong"):
            command = [which(program), "-d", self.device, "-n", "20"] + ([] if program != "ibv_ud_pingpong" else ["-s", "1024"])
            outs = self.exchange(command + ["-g", gids[0]], command + ["-g", gids[1], self.address])
            self.assert_no_complaint(*outs)

    @across(["veth1500_v4", "veth1500_v6"])
    def test_one_host(self):
        """An interface does not hear its own frames: what does not go through memory goes by UDP, also where there are GIDs of v1 alone."""
        self.client = self.server
        for versions, gid in ((BOTH, self.first_version()[0]), (FIRST, str(self.gids[0] // 2))):
            self.network.environment.update(versions)
            command = [which("ibv_ud_pingpong"), "-d", self.device, "-n", "20", "-s", "1024", "-g", gid]
            self.assert_no_complaint(*self.exchange(command, command + [self.address]))

    @across(["veth1500_v4"])
    def test_faults(self):
        """Packets that are doubled, late or out of order are sent one by one: as frames, too. Where some are lost or damaged frames come
        in many at a time, and what is wrong is among them."""
        gids = self.first_version()
        for program, length in (("ibv_rc_pingpong", "60000"), ("ibv_srq_pingpong", "20000")):
            command = [clients.staged.verbena, "run", "--faults", "loss=2%,corrupt=3%,seed=7,only=requests", which(program), "-d", self.device,
                       "-n", "40", "-s", length, "-c"]
            self.assert_no_complaint(*self.exchange(command + ["-g", gids[0]], command + ["-g", gids[1], self.address]))
        command = [clients.staged.verbena, "run", "--faults", "dup=5%,reorder=5%,loss=2%,seed=7,only=requests", which("ibv_rc_pingpong"),
                   "-d", self.device, "-n", "40", "-c"]
        self.assert_no_complaint(*self.exchange(command + ["-g", gids[0]], command + ["-g", gids[1], self.address]))

    @across(PLACES)
    def test_perftest(self):
        self.network.own_tmp()    # the file that names the XRC domain
        gids = self.first_version()
        for program, *more in (("ib_write_bw", "-s", "65536"), ("ib_read_bw", "-s", "65536"), ("ib_send_lat",), ("ib_send_bw", "-c", "UD"),
                               ("ib_send_bw", "-c", "UC", "-s", "4096"), ("ib_write_bw", "-c", "XRC"), ("ib_send_lat", "-c", "XRC"), ("ib_atomic_lat",)):
            command = [which(program), "-F", "-d", self.device, "-n", "50", *more]
            outs = self.exchange(command + ["-x", gids[0]], command + ["-x", gids[1], self.address])
            self.assertTrue(perftest_rows(outs[1]))

    @across(["veth1500_v4", "veth1500_v6"])
    def test_on_the_wire(self):
        """Nothing but frames of EtherType 0x8915, whose ICRC another implementation confirms and which tshark takes apart."""
        path = os.path.join(self.network.runtime, "v1.pcap")
        sniffer = self.sniff(path)
        gids = self.first_version()
        command = [which("ibv_rc_pingpong"), "-d", self.device, "-n", "20", "-s", "3001"]
        self.exchange(command + ["-g", gids[0]], command + ["-g", gids[1], self.address])
        self.until(lambda: os.path.exists(path) and len(read_pcap(path)) >= 120, "tcpdump has written what it saw")
        sniffer.signal(15)
        frames = read_pcap(path)
        for frame in frames:
            self.assertEqual((frame[0] >> 4, frame[6]), (6, 0x1b), "a GRH, not IP")
            self.assertEqual(int.from_bytes(frame[4:6], "big"), len(frame) - 40)
            self.assertEqual(icrc(frame), frame[-4:])
        os.chmod(path, 0o644)
        told = self.server.run(which("tshark"), "-r", path, "-T", "fields", "-e", "infiniband.bth.opcode", "-e", "infiniband.grh.nxthdr").out
        rows = [line.split("\t") for line in told.splitlines() if "\t" in line]
        self.assertEqual(len(rows), len(frames))
        self.assertLessEqual({"0", "1", "2", "17"}, {row[0] for row in rows}, "SEND first, middle, last; acknowledgement")
        ladder = self.server.run(clients.staged.verbena, "ladder", path)
        self.assertEqual(ladder.code, 0, ladder)
        self.assertIn("SEND", ladder.out.upper())

    @across(["veth1500_v4", "veth1500_v6"])
    def test_capture(self):
        """Our own capture has the frames with their Ethernet headers, each once, on an interface of their own."""
        path = os.path.join(self.network.runtime, "own.pcapng")
        gids = self.first_version()
        command = [clients.staged.verbena, "run", "--capture", path, which("ibv_rc_pingpong"), "-d", self.device, "-n", "4", "-s", "3001"]
        self.exchange(command + ["-g", gids[0]], command + ["-g", gids[1], self.address])
        os.chmod(path, 0o644)
        fields = ("eth.src", "eth.dst", "eth.type", "infiniband.bth.opcode", "infiniband.grh.nxthdr", "frame.interface_name", "_ws.malformed")
        told = self.server.run(which("tshark"), "-n", "-r", path, "-T", "fields", *[word for name in fields for word in ("-e", name)],
                               environment={"HOME": self.network.runtime}).out
        rows = [line.split("\t") for line in told.splitlines() if "\t" in line]
        macs = {json.loads(host.ip("-j", "link", "show", "eth0"))[0]["address"] for host in (self.server, self.client)}
        self.assertEqual({frozenset(row[:2]) for row in rows}, {frozenset(macs)})
        self.assertEqual({tuple(row[2:3] + row[4:]) for row in rows}, {("0x8915", "27", "RoCEv1", "")})
        opcodes = [row[3] for row in rows]
        self.assertEqual(opcodes.count("0"), opcodes.count("2"))
        self.assertGreaterEqual(opcodes.count("0"), 8)
        ladder = self.server.run(clients.staged.verbena, "ladder", path)
        self.assertEqual(ladder.code, 0, ladder)
        self.assertIn("SEND_FIRST", ladder.out)

    def sniff(self, path):
        """tcpdump on the server's side: what is RoCE, of either version."""
        sniffer = self.server.start(which("tcpdump"), "-i", "eth0", "-U", "-Z", "root", "-w", path, "ether", "proto", "0x8915", "or", "udp", "port", "4791",
                                    privileged=True)
        self.until(lambda: "listening on" in sniffer.output(), sniffer.output)
        return sniffer

    def messages(self, path):
        """Of connection management, as tshark sees them in a file: EtherType and attribute."""
        os.chmod(path, 0o644)
        told = self.server.run(which("tshark"), "-n", "-r", path, "-Y", "infiniband.mad.mgmtclass == 7", "-T", "fields", "-e", "eth.type",
                               "-e", "infiniband.mad.attributeid", environment={"HOME": self.network.runtime}).out
        return {tuple(int(word, 0) for word in line.split("\t")) for line in told.splitlines() if line.startswith("0x")}

    @across(["veth1500_v4", "veth1500_v6"])
    def test_connections(self):
        """rdma_cm where the client speaks RoCEv1 alone, and the server that or both: messages and data are frames, and nothing is UDP."""
        path = os.path.join(self.network.runtime, "connections.pcap")
        sniffer = self.sniff(path)
        address = {"v4": "10.77.0.1", "v6": "fd77::1"}[self.id()[-2:]]
        bandwidth = ["ib_write_bw", "-R", "-F", "-d", self.device, "-n", "50"]
        programs = [(["rping", "-s", "-a", address, "-C", "20", "-V"], ["rping", "-c", "-a", address, "-C", "20", "-V"])]
        if address == "10.77.0.1":
            programs += [(["ucmatose", "-C", "5"], ["ucmatose", "-C", "5", "-s", address]),
                         (["udaddy", "-C", "5"], ["udaddy", "-C", "5", "-s", address]), (bandwidth, bandwidth + [address])]
        for i, (server, client) in enumerate(programs):
            with self.subTest(server=server):
                running = self.server.start(which(server[0]), *server[1:], environment=(BOTH, FIRST)[i % 2])
                self.until_listening(running)
                ended = self.client.run(which(client[0]), *client[1:], environment=FIRST)
                self.assertEqual(ended.code, 0, str(ended) + running.output())
                self.assertEqual(running.wait(self.TIMEOUT).code, 0, running.output())
        # REQ, REP, RTU, DREQ, DREP of all but udaddy, whose are SIDR_REQ and SIDR_REP.
        expected = {0x10, 0x13, 0x14, 0x15, 0x16} | ({0x17, 0x18} if len(programs) > 1 else set())
        self.until(lambda: {attribute for _, attribute in self.messages(path)} >= expected, lambda: str(self.messages(path)))
        sniffer.signal(15)
        self.assertEqual({kind for kind, _ in self.messages(path)}, {0x8915})
        for frame in read_pcap(path):
            self.assertEqual((frame[0] >> 4, frame[6]), (6, 0x1b), "a GRH, not IP")
            self.assertEqual(icrc(frame), frame[-4:])

    def hearers(self, host):
        """Interfaces of the sockets through which a host hears frames; 0: all."""
        rows = [line.split() for line in host.run("cat", "/proc/net/packet").out.splitlines()]
        return sorted(int(row[4]) for row in rows if row[3] == "8915")

    @across(["veth1500_v4"])
    def test_who_hears_frames(self):
        """Each frame is offered to all that do: no process without queue pairs is among them, others hear one interface, and verbenad
        hears none before there are connections to make."""
        own = json.loads(self.server.ip("-j", "link", "show", "eth0"))[0]["ifindex"]
        watcher = self.server.start("stdbuf", "-oL", which("ibv_asyncwatch"), "-d", self.device)
        self.until(lambda: "async event" in watcher.output(), watcher.output)
        self.assertEqual(self.hearers(self.server), [])
        waiting = self.server.start(which("ibv_rc_pingpong"), "-d", self.device, "-g", self.first_version()[0])
        self.assertTrue(waiting.wait_until(lambda process: process.listens(TCP_PORT)), waiting.output())
        self.assertEqual(self.hearers(self.server), [own])
        server = self.server.start(which("rping"), "-s", "-a", "10.77.0.1", "-C", "5", "-V", environment=FIRST)
        self.until_listening(server)
        self.assertEqual(self.hearers(self.server), [0, own])

    @across(["veth1500_v4"])
    def test_two_interfaces(self):
        """A process whose queue pairs come to be on two interfaces hears both."""
        self.server.ip("link", "add", "eth1", "type", "veth", "peer", "name", "eth1", "netns", self.client.name)
        for number, host in enumerate((self.server, self.client), 1):
            host.ip("addr", "add", "10.79.0.%d/24" % number, "dev", "eth1")
            host.ip("link", "set", "eth1", "up")
            gids = ["10.79.0.%d" % number]
            self.until(lambda host=host, gids=gids: any(gid["address"] in gids for row in host.devices() for gid in row["gids"]),
                       "verbenad has the new interface")
        own = json.loads(self.server.ip("-j", "link", "show", "eth0"))[0]["ifindex"]
        server = self.server.start(which("rping"), "-s", "-P", "-V", environment=FIRST)
        self.until_listening(server)
        for address, heard in (("10.77.0.1", [0, own]), ("10.79.0.1", [0, 0]), ("10.77.0.1", [0, 0])):
            ended = self.client.run(which("rping"), "-c", "-a", address, "-C", "20", "-V", environment=FIRST)
            self.assertEqual(ended.code, 0, str(ended) + server.output())
            self.assertEqual(self.hearers(self.server), heard)

    @across(["veth1500_v4"])
    def test_capture_of_connections(self):
        """Messages are in our own capture, too, with their Ethernet addresses; and a server and client on one host do without frames."""
        path = os.path.join(self.network.runtime, "messages.pcapng")
        for client in (self.client, self.server):
            server = self.server.start(which("rping"), "-s", "-a", "10.77.0.1", "-C", "5", "-V", environment=FIRST)
            self.until_listening(server)
            capture = [clients.staged.verbena, "capture", "-o", path, "--"] if client is self.client else []
            ended = client.run(*capture, which("rping"), "-c", "-a", "10.77.0.1", "-C", "5", "-V", environment=FIRST)
            self.assertEqual(ended.code, 0, str(ended) + server.output())
            self.assertEqual(server.wait(self.TIMEOUT).code, 0)
        self.assertEqual({kind for kind, _ in self.messages(path)}, {0x8915})
        self.assertLessEqual({0x10, 0x13, 0x14}, {attribute for _, attribute in self.messages(path)})

    @across(["veth1500_v4", "veth1500_v6"])
    def test_multicast(self):
        """mckey's datagrams reach who has joined, in frames."""
        address, sender, group = {"v4": ("10.77.0.1", "10.77.0.2", "239.77.0.1"), "v6": ("fd77::1", "fd77::2", "ff15::77")}[self.id()[-2:]]
        common = ["-m", group, "-C", "5", "-S", "200"]
        receiver = self.server.start(which("mckey"), "-b", address, *common, environment=FIRST)
        self.until(lambda: "status: 0" in receiver.output() or group in self.server.ip("maddr", "show", "dev", "eth0"), receiver.output)
        sent = self.client.run(which("mckey"), "-b", sender, *common, "-s", environment=FIRST)
        self.assertEqual(sent.code, 0, sent)
        received = receiver.wait(self.TIMEOUT)
        self.assertEqual(received.code, 0, received)


@expand
class Refused(ClientCase):
    @across(["veth1500_v4"])
    def test_without_capability(self):
        """An ordinary user's daemon cannot make such sockets; it says what would help, and RoCEv2 works as ever."""
        self.network.environment.update(BOTH)
        gids = [str(index * 2 + 1) for index in self.gids]
        command = [which("ibv_rc_pingpong"), "-d", self.device, "-n", "20"]
        outs = self.exchange(command + ["-g", gids[0]], command + ["-g", gids[1], self.address])
        self.assertIn("CAP_NET_RAW", "".join(outs))

    @across(["veth1500_v4"])
    def test_frames_without_capability(self):
        """A queue pair or address handle by such a GID is refused at once, with the reason."""
        self.network.environment.update(BOTH)
        gids = [str(index * 2) for index in self.gids]
        for program, verb in (("ibv_rc_pingpong", "ibv_modify_qp"), ("ibv_ud_pingpong", "ibv_create_ah")):
            run = [clients.staged.verbena, "run", "--explain", which(program), "-d", self.device, "-n", "5", "-s", "512"]
            server = self.server.start(*run, "-g", gids[0])
            self.assertTrue(server.wait_until(lambda process: process.listens(TCP_PORT)), server.output())
            self.assertNotEqual(self.client.run(*run, "-g", gids[1], self.address).code, 0)
            # The server connects first, and does not answer then.
            ended = server.wait(self.TIMEOUT)
            self.assertNotEqual(ended.code, 0, ended)
            self.assertIn(verb, ended.out)
            self.assertIn("names a GID of RoCEv1", ended.out)


# Two hosts of a user's own: namespaces that take no privilege to make, in which he has CAP_NET_RAW.
OWN_HOSTS = """
unshare -n sleep 600 &
peer=$!
trap 'kill $peer $server' EXIT
until [ "$(readlink /proc/$peer/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.1; done
ip link add eth0 type veth peer name eth0 netns $peer
ip addr add 10.88.0.1/24 dev eth0
ip link set eth0 up
nsenter -t $peer -n ip addr add 10.88.0.2/24 dev eth0
nsenter -t $peer -n ip link set eth0 up
ibv_devinfo -v -d roce_eth0 | grep GID
rping -s -P -a 10.88.0.1 &
server=$!
until "$0" res cm_id --json | grep -q LISTENING; do sleep 0.1; done
nsenter -t $peer -n rping -c -a 10.88.0.1 -C 20 -V
"""


class OwnNamespaces(ClientCase):
    def test_a_user_s_own_hosts(self):
        """Connections and data between two network namespaces in a user namespace: nothing is root's, and nobody gave a capability."""
        host = self.network.host()
        if host.run("unshare", "-Urn", "true").code != 0:
            self.skipTest("users may not make namespaces here")
        result = host.run("unshare", "-Urn", "sh", "-e", "-c", OWN_HOSTS, clients.staged.verbena, environment=FIRST)
        self.assertEqual(result.code, 0, result)
        self.assertIn("RoCE v1", result.out)
        self.assertNotIn("RoCE v2", result.out)
        self.assertNotIn("CAP_NET_RAW", result.out)
