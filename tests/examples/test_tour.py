# SPDX-License-Identifier: MIT
"""The README's tour: every command of it, as it stands, one after the other."""

import os
import re
import shutil
import subprocess
import tempfile

from pylib import clients
from pylib.clients import ClientCase, across, expand

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
# What a command of the tour must show.
SHOWS = {
    "verbena devices": "roce_lo",
    "verbena run ibv_devinfo": "hca_id:\troce_lo",
    "verbena run ib_write_bw": "BW average",
    "verbena run ib_send_lat": "t_typical",
    "verbena status": "verbenad",
    "verbena doctor": "UDP port 4791",
    "verbena run rping -c": "rdma-ping-9",
    "verbena capture": "packets",
}


def tour():
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        block = re.search(r"^## A tour\n+```\n(.*?)^```$", file.read(), re.S | re.M).group(1)
    for line in block.splitlines():
        command, _, comment = line.partition("#")
        if command.strip() and not command.startswith(("make", "export")):
            yield command.strip(), comment


@expand
class Tour(ClientCase):
    @across(["lo_v4"])
    def test_word_for_word(self):
        """Servers in a terminal of their own. What it says of two machines is tried on one."""
        folder = tempfile.mkdtemp(prefix="verbena-tour-")
        self.addCleanup(shutil.rmtree, folder, True)
        os.chmod(folder, 0o777)
        environment = {"PATH": os.path.dirname(clients.staged.verbena) + ":/usr/bin:/bin", "HOME": folder}
        count = 0
        for command, comment in tour():
            count += 1
            words = "cd %s && exec %s" % (folder, command.replace("eth0", "lo").replace("192.0.2.1", "127.0.0.1"))
            if "server" in comment or "two machines" in comment:
                server = self.server.start("sh", "-c", words, environment=environment)
                if " rping " in command:
                    self.until_listening(server)
                else:
                    self.assertTrue(server.wait_until(lambda process: process.listens(clients.TCP_PORT)), server.output())
                continue
            if command == "verbena web":
                page = self.server.start("sh", "-c", words, environment=environment)
                self.until(lambda: "http://127.0.0.1:" in page.output(), page.output)
                page.kill()
                continue
            result = self.server.run("sh", "-c", words, environment=environment, timeout=self.TIMEOUT)
            if "--explain" in command:
                self.assertIn("cause: nobody listens", result.out)
                continue
            self.assertEqual(result.code, 0, result)
            for beginning, shown in SHOWS.items():
                if command.startswith(beginning):
                    self.assertIn(shown, result.out)
        self.assertGreater(count, 14)
        self.assertGreater(os.path.getsize(os.path.join(folder, "x.svg")), 1000)


@expand
class TenLines(ClientCase):
    @across(["lo_v4"])
    def test_compiles_and_runs(self):
        """The README's program, by the command that stands below it."""
        with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
            source = re.search(r"^## Ten lines\n+```c\n(.*?)^```$", file.read(), re.S | re.M).group(1)
        folder = tempfile.mkdtemp(prefix="verbena-lines-")
        self.addCleanup(shutil.rmtree, folder, True)
        os.chmod(folder, 0o755)
        built = subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", "-xc", "-", "-o", folder + "/a.out", "-libverbs"], input=source,
                               text=True, capture_output=True)
        self.assertEqual(built.returncode, 0, built.stderr)
        result = self.client.run(clients.staged.verbena, "run", folder + "/a.out")
        self.assertEqual((result.code, result.out), (0, "roce_lo: active\n"), result)

    def test_links(self):
        """What the README and the documents link to is there."""
        for name in ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"] + ["docs/" + name for name in os.listdir(ROOT + "/docs")]:
            if not name.endswith(".md"):
                continue
            with open(os.path.join(ROOT, name), encoding="utf-8") as file:
                for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", file.read()):
                    self.assertTrue(os.path.exists(os.path.join(ROOT, os.path.dirname(name), target)), "%s: %s" % (name, target))
