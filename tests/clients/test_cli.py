# SPDX-License-Identifier: MIT
"""The `verbena` command itself, as an ordinary user."""

import json
import os
import tempfile

from pylib import clients
from pylib.clients import ClientCase, across, expand, which


@expand
class Cli(ClientCase):
    def verbena(self, *argv, **more):
        return self.client.run(clients.staged.verbena, *argv, **more)

    @across(["lo_v4"])
    def test_help(self):
        """Every command explains itself with an example; no command is the overview; unknown ones are refused."""
        self.assertEqual(self.verbena().code, 0)
        overview = self.verbena("help").out
        for name in ("run", "devices", "status", "help", "version"):
            self.assertIn(name, overview)
            for result in (self.verbena(name, "--help"), self.verbena("help", name)):
                self.assertEqual(result.code, 0, result)
                self.assertIn("Usage: verbena " + name, result.out)
                self.assertIn("Example", result.out)
        self.assertEqual(self.verbena("nonsense").code, 2)
        self.assertEqual(self.verbena("devices", "--nonsense").code, 2)
        self.assertEqual(self.verbena("run").code, 2)

    @across(["lo_v4"])
    def test_run(self):
        """Sets LD_LIBRARY_PATH in front of what was there, passes arguments and the exit code on."""
        library = os.path.realpath(clients.staged.library)
        show = self.verbena("run", "sh", "-c", "echo $LD_LIBRARY_PATH", environment={"LD_LIBRARY_PATH": "/elsewhere"})
        self.assertEqual(show.out.strip(), library + ":/elsewhere")
        self.assertEqual(self.verbena("run", "--", "sh", "-c", "exit 42").code, 42)
        result = self.verbena("run", which("ibv_devices"), environment={"LD_LIBRARY_PATH": ""})
        self.assertIn("roce_lo", result.out)

    @across(["lo_v4"])
    def test_run_what_is_not_there(self):
        """127 with a helpful word for a missing command, 126 for one that cannot be started."""
        missing = self.verbena("run", "ib_no_such_tool")
        self.assertEqual(missing.code, 127)
        self.assertIn("perftest", missing.out)
        self.assertEqual(self.verbena("run", "/no/such/file").code, 127)
        with tempfile.NamedTemporaryFile() as plain:
            os.chmod(plain.name, 0o644)
            self.assertEqual(self.verbena("run", plain.name).code, 126)
        self.assertEqual(self.verbena("run", "/").code, 126)

    @across(["veth1500_v4"])
    def test_devices(self):
        """The table and its JSON tell the same devices and GIDs, without colours in a file."""
        listed = json.loads(self.verbena("devices", "--json").out)
        self.assertEqual({row["name"] for row in listed}, {"roce_lo", "roce_eth0"})
        table = self.verbena("devices").out
        self.assertNotIn("\033", table)
        for row in listed:
            self.assertEqual(row["state"], "active")
            self.assertIn(row["name"], table)
            for gid in row["gids"]:
                self.assertIn(gid["address"], table)
        ethernet = next(row for row in listed if row["name"] == "roce_eth0")
        self.assertEqual(ethernet["active_mtu"], 1024)
        self.assertLessEqual({"10.77.0.2", "fd77::2"}, {gid["address"] for gid in ethernet["gids"]})

    @across(["veth1500_v4"])
    def test_devices_follow_the_interface(self):
        """State and GIDs are those of the moment."""
        self.client.ip("addr", "add", "10.99.0.1/24", "dev", "eth0")
        self.client.ip("link", "set", "eth0", "down")

        def followed():
            row = next(row for row in json.loads(self.verbena("devices", "--json").out) if row["name"] == "roce_eth0")
            return row["state"] == "down" and "10.99.0.1" in {gid["address"] for gid in row["gids"]}
        self.until(followed, lambda: self.verbena("devices").out)

    @across(["lo_v4"])
    def test_status(self):
        """Tells the daemon and the processes it serves."""
        watcher = self.client.start("stdbuf", "-oL", which("ibv_asyncwatch"), "-d", "roce_lo")
        self.assertTrue(watcher.wait_until(lambda process: "async event FD" in process.output()), watcher.output())
        result = self.verbena("status")
        self.assertEqual(result.code, 0, result)
        self.assertIn(str(watcher.pid), result.out)
        answer = json.loads(self.verbena("status", "--json").out)
        self.assertIn(watcher.pid, [process["pid"] for process in answer["processes"]])
