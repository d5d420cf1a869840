# SPDX-License-Identifier: MIT
"""ibv_devices, ibv_devinfo and ibv_asyncwatch of the distribution."""

import re
import time

from pylib import clients
from pylib.clients import ALL_PLACES, ClientCase, across, expand, which


@expand
class Devices(ClientCase):
    def ask(self, *argv):
        result = self.client.run(*argv)
        self.assertEqual(result.code, 0, result)
        return result.out

    @across(["lo_v4", "veth1500_v4", "veth9000_v4"])
    def test_ibv_devices(self):
        """Lists a device per interface, each with a GUID."""
        rows = [line.split() for line in self.ask(which("ibv_devices")).splitlines()]
        guids = {row[0]: row[1] for row in rows if len(row) == 2 and re.fullmatch(r"[0-9a-f]{16}", row[1])}
        expected = {"roce_lo", self.device}
        self.assertLessEqual(expected, set(guids))
        self.assertTrue(all(int(guid, 16) for guid in guids.values()), guids)

    @across(ALL_PLACES)
    def test_ibv_devinfo(self):
        """-v tells an active Ethernet port, the MTU that fits, and the GID of this place."""
        out = self.ask(which("ibv_devinfo"), "-v", "-d", self.device)
        self.assertIn("PORT_ACTIVE", out)
        self.assertRegex(out, r"link_layer:\s+Ethernet")
        self.assertRegex(out, r"transport:\s+InfiniBand \(0\)")
        mtu = {"roce_lo": 4096, "roce_eth0": 1024 if "1500" in self.id() else 4096}[self.device]
        self.assertRegex(out, r"active_mtu:\s+%d " % mtu)
        gid = {"127.0.0.1": "::ffff:127.0.0.1", "10.77.0.1": "::ffff:10.77.0.2"}[self.address]
        if self.id().endswith("v6"):
            gid = "fd77::2" if self.device == "roce_eth0" else "::1"
        self.assertRegex(out, r"GID\[\s*%d\]:\s+%s, RoCE v2" % (self.gids[1], re.escape(gid)))

    @across(["lo_v4"])
    def test_ibv_devinfo_list(self):
        """-l counts and names the devices; an unknown name is an error."""
        out = self.ask(which("ibv_devinfo"), "-l")
        self.assertRegex(out, r"1 HCA found")
        self.assertIn("roce_lo", out)
        self.assertNotEqual(self.client.run(which("ibv_devinfo"), "-d", "mlx5_0").code, 0)

    @across(["lo_v4"])
    def test_the_first_works(self):
        """Interfaces without a cable come behind, whatever their number: programs that name no device take the first."""
        self.client.ip("link", "add", "unplugged0", "type", "veth", "peer", "name", "unplugged1")
        self.until(lambda: "unplugged1" in self.client.run(clients.staged.verbena, "devices").out, "verbenad has seen the interfaces")
        listed = [line.split()[0] for line in self.ask(which("ibv_devices")).splitlines() if "roce_" in line]
        self.assertEqual(listed[0], "roce_lo")
        self.assertEqual(set(listed), {"roce_lo", "roce_unplugged0", "roce_unplugged1"})
        self.exchange([which("ib_send_lat"), "-n", "100"], [which("ib_send_lat"), "-n", "100", "127.0.0.1"])


@expand
class AsyncWatch(ClientCase):
    def watch(self, host):
        # asyncwatch prints through stdio: into a file that would be a block at a time.
        watcher = host.start("stdbuf", "-oL", which("ibv_asyncwatch"), "-d", "roce_eth0")
        self.assertTrue(watcher.wait_until(lambda process: "async event FD" in process.output()), watcher.output())
        return watcher

    def expect(self, watcher, events):
        """Events in this order, others may come between."""
        def seen(process):
            at = 0
            for event in events:
                at = process.output().find(event, at)
                if at < 0:
                    return False
                at += len(event)
            return True
        self.assertTrue(watcher.wait_until(seen), "wanted %s, got:\n%s" % (events, watcher.output()))

    @across(["veth1500_v4"])
    def test_link_down_and_up(self):
        """An interface that goes down and comes back is a port error, then an active port."""
        watcher = self.watch(self.client)
        self.client.ip("link", "set", "eth0", "down")
        self.expect(watcher, ["IBV_EVENT_PORT_ERR"])
        self.client.ip("link", "set", "eth0", "up")
        self.expect(watcher, ["IBV_EVENT_PORT_ERR", "IBV_EVENT_PORT_ACTIVE"])

    @across(["veth1500_v4"])
    def test_peer_down_and_up(self):
        """Losing the carrier is a port error too: the peer's end of the cable was pulled."""
        watcher = self.watch(self.client)
        self.server.ip("link", "set", "eth0", "down")
        self.expect(watcher, ["IBV_EVENT_PORT_ERR"])
        self.server.ip("link", "set", "eth0", "up")
        self.expect(watcher, ["IBV_EVENT_PORT_ERR", "IBV_EVENT_PORT_ACTIVE"])

    @across(["veth1500_v4"])
    def test_address_added_and_removed(self):
        """A new address is a new GID, and so is one that goes."""
        watcher = self.watch(self.client)
        self.client.ip("addr", "add", "10.78.0.2/24", "dev", "eth0")
        self.expect(watcher, ["IBV_EVENT_GID_CHANGE"])
        self.client.ip("addr", "del", "10.78.0.2/24", "dev", "eth0")
        self.expect(watcher, ["IBV_EVENT_GID_CHANGE", "IBV_EVENT_GID_CHANGE"])

    @across(["veth1500_v4"])
    def test_idle_watcher_sleeps(self):
        """A process that only holds a device open uses under 1 % of a core."""
        watcher = self.watch(self.client)
        def ticks():
            with open("/proc/%d/stat" % watcher.pid) as stat:
                fields = stat.read().rsplit(")", 1)[1].split()
            return int(fields[11]) + int(fields[12])

        def sleeps():
            before = ticks()
            time.sleep(3)
            # 100 ticks a second: 3 of 300 are one per cent.
            return ticks() - before <= 3
        # It may still be at its start: at some time it sleeps.
        self.until(sleeps, "it sleeps")
