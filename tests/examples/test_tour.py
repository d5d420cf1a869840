# SPDX-License-Identifier: MIT
"""The README's tour: every command of it, as it stands, one after the other."""

import os
import re
import shutil
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
