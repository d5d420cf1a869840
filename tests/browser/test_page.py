# SPDX-License-Identifier: MIT
"""The page of `verbena web` in a real browser: what it shows is what `verbena res` tells, a click draws a ladder, an explanation appears."""

import json
import os
import shutil
import sys
import tempfile

from pylib import clients
from pylib.clients import WIRE, ClientCase, across, expand, which
from pylib.hosts import ORDINARY_UID

HERE = os.path.dirname(os.path.realpath(__file__))
# The connection that is refused at the end gives the page something to explain.
SCRIPT = ("ib_send_lat -d roce_lo -D 600 -p 18600 >/dev/null & "
          "while ! grep -q ':48A8 ' /proc/net/tcp /proc/net/tcp6; do sleep 0.01; done; "
          "ib_send_lat -d roce_lo -D 600 -p 18600 localhost >/dev/null & rping -c -a 127.0.0.1 -p 7777 -C 1; wait")


TOPOLOGY = """Switch 4 "S1"
[1] "A"[1]
[2] "B"[1]
[3] "S2"[3]
Switch 4 "S2"
[1] "C"[1]
Ca 1 "A" # "alpha"
Ca 1 "B" # "beta"
Ca 1 "C" # "gamma"
"""


@expand
class Page(ClientCase):
    @across(["lo_v4"])
    def test_page(self):
        keep = os.environ.get("VERBENA_TEST_PICTURES")
        folder = tempfile.mkdtemp(prefix="verbena-browser-")
        self.addCleanup(shutil.rmtree, folder, True)
        os.chown(folder, ORDINARY_UID if os.getuid() == 0 else -1, -1)
        with open(os.path.join(folder, "topology"), "w") as file:
            file.write(TOPOLOGY)
        fabric = self.client.start(clients.staged.verbena, "fabric", "up", file.name)
        self.assertTrue(fabric.wait_until(lambda process: "UDP port 14791" in process.output()), fabric.output())
        self.assertEqual(self.client.run(clients.staged.verbena, "fabric", "cut", "S1:3").code, 0)
        web = self.client.start(clients.staged.verbena, "web", "--", "sh", "-c", SCRIPT,
                                environment={**WIRE, "VERBENA_CONTROL": "dcqcn@10G"})
        url = self.until(lambda: next((line for line in web.output().splitlines() if line.startswith("http://")), None), web.output)
        result = self.client.run(sys.executable, os.path.join(HERE, "look.py"), url, folder, "15" if keep else "0", environment={"HOME": folder}, timeout=300)
        self.assertEqual(result.code, 0, result)
        seen = json.loads(result.out.splitlines()[-1])
        told = {(str(row["pid"]), "0x%06x" % qp["qpn"]): qp for row in
                json.loads(self.client.run(clients.staged.verbena, "res", "--json").out) for qp in row["qps"]}
        shown = {(row[1], row[2]): row for row in seen["rows"]}
        self.assertEqual(set(shown), set(told))
        for key, qp in told.items():
            self.assertEqual(shown[key][3:8], [qp["type"], qp["state"], qp["way"], qp["device"],
                                               "%s 0x%06x" % (qp["peer_address"], qp["peer_qpn"])])
        self.assertEqual(len(seen["control"]), 2, seen["control"])
        for entry in seen["control"]:
            self.assertRegex(entry, r"^dcqcn ib_send_lat 0x[0-9a-f]{6} [0-9.]+ Gb/s$")
        self.assertIn("roce_lo", seen["devices"])
        self.assertEqual(seen["fabric"], "5 nodes, 4 cables, 0 active")
        self.assertEqual((seen["boxes"], seen["edges"]), (2, 1))
        self.assertIn("2 queue pairs", seen["edge"])
        self.assertTrue(seen["ladder"], seen["ladder_why"])
        self.assertIn("SEND", seen["ladder_text"])
        self.assertTrue(any("7777" in text for text in seen["news"]), seen["news"])
        self.assertIn("token", seen["without_token"])
        self.assertEqual(seen["rows_without_token"], 0)
        self.assertEqual(seen["complaints"], [])
        if keep:
            for name in ("page.png", "ladder.png"):
                shutil.copy(os.path.join(folder, name), keep)
