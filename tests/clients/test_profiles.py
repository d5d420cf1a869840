# SPDX-License-Identifier: MIT
"""Programs of the distribution under the profiles of adapters: what the adapter can do works, what it cannot is refused with a sentence."""

import re

from pylib import clients
from pylib.clients import TCP_PORT, ClientCase, across, add, expand, perftest_rows, which

# What ibv_devinfo -v prints under each, and what perftest needs of it.
ROWS = {
    "mlx5": {"max_qp_rd_atom": "16", "max_cqe": "4194303", "max_srq_wr": "32767", "atomic_cap": "ATOMIC_HCA (1)", "max_msg_sz": "0x80000000"},
    "rxe": {"max_qp_rd_atom": "128", "max_cqe": "32767", "atomic_cap": "ATOMIC_HCA (1)", "max_msg_sz": "0x800000"},
    "irdma": {"max_qp_wr": "4063", "max_sge": "13", "max_srq": "0", "atomic_cap": "ATOMIC_NONE (0)", "max_msg_sz": "0x7fffffff"},
    "bnxt_re": {"max_sge": "6", "max_sge_rd": "6", "max_mr_size": "0x8000000000", "max_msg_sz": "0x40000000"},
    "erdma-compat": {"max_qp": "1023", "max_qp_wr": "8192", "max_sge": "1", "max_sge_rd": "1", "max_srq": "0",
                     "atomic_cap": "ATOMIC_NONE (0)"},
}


@expand
class Profiles(ClientCase):
    def run_verbena(self, *argv, **options):
        return self.client.run(clients.staged.verbena, *argv, **options)

    @across(["lo_v4"])
    def test_devinfo(self):
        """Every value of the table, under every profile."""
        for profile, values in ROWS.items():
            told = self.run_verbena("run", "--profile", profile, which("ibv_devinfo"), "-v")
            self.assertEqual(told.code, 0, told)
            for name, value in values.items():
                self.assertRegex(told.out, r"\b%s:\s+%s\n" % (name, re.escape(value)), profile)

    @across(["lo_v4"])
    def test_names(self):
        """`verbena devices` tells the profile; an unknown one is refused before the program runs, with what may be meant."""
        told = self.run_verbena("devices", environment={"VERBENA_PROFILE": "irdma"})
        self.assertIn("profile irdma: Intel E810", told.out)
        told = self.run_verbena("devices", "--json", environment={"VERBENA_PROFILE": "irdma"})
        self.assertIn('"profile": "irdma"', told.out)
        self.assertIn('"profile": "roce"', self.run_verbena("devices", "--json").out)
        listed = self.run_verbena("devices", "--profiles").out
        for profile in ROWS:
            self.assertRegex(listed, r"(?m)^%s " % profile)
        told = self.run_verbena("run", "--profile", "mlx6", "true")
        self.assertEqual(told.code, 2)
        self.assertIn("there is no profile `mlx6'. Did you mean mlx5?", told.out)
        told = self.client.run(which("ibv_devices"), environment={"VERBENA_PROFILE": "mlx6"})
        self.assertIn("VERBENA_PROFILE=mlx6: there is no such profile; there are mlx5, rxe", told.out)
        told = self.client.run(which("ibv_devices"), environment={"VERBENA_PROFILE": "erdma"})
        self.assertIn("it needs iWARP devices", told.out)

    def refused(self, profile, argv, *sentences):
        """A program ends by itself, and the explanation says why."""
        told = self.run_verbena("run", "--explain", "--profile", profile, *argv, timeout=30)
        self.assertNotEqual(told.code, 0, told)
        for sentence in (*sentences, "So says the profile %s (VERBENA_PROFILE)." % profile):
            self.assertIn(sentence, told.out)

    @across(["lo_v4"])
    def test_refusals(self):
        """UD, UC and SRQ where the adapter has none of them."""
        base = ["-d", self.device, "-g", str(self.gids[0])]
        self.refused("erdma-compat", [which("ibv_ud_pingpong"), *base], "UD queue pairs are not supported: RC is.")
        self.refused("erdma-compat", [which("ibv_srq_pingpong"), *base], "max_srq is 1, at most 0 is possible.")
        self.refused("bnxt_re", [which("ibv_uc_pingpong"), *base], "UC queue pairs are not supported: RC and UD are.")

    @across(["lo_v4"])
    def test_perftest_refused(self):
        """perftest meets its peer before it makes queue pairs."""
        argv = [which("ib_send_bw"), "-d", self.device, "-c", "UD", "-x"]
        server = self.server.start(*argv, str(self.gids[0]))
        self.assertTrue(server.wait_until(lambda process: process.listens(TCP_PORT)), "no server")
        self.refused("erdma-compat", [*argv, str(self.gids[1]), self.address], "UD queue pairs are not supported: RC is.")

    def transfer(self, profile, tool):
        argv = [clients.staged.verbena, "run", "--profile", profile, which(tool), "-d", self.device, "-F", "-n", "200", "-x"]
        server, client = self.exchange([*argv, str(self.gids[0])], [*argv, str(self.gids[1]), self.address])
        self.assert_no_complaint(server, client)
        self.assertTrue(perftest_rows(client), client)


    @across(["veth1500_v4"])
    def test_both_versions_of_roce(self):
        """As with the adapter each address has a GID of RoCEv1 and one of RoCEv2. Without CAP_NET_RAW the second works, in silence,
        and the first is refused with the reason."""
        for profile in ("mlx5", "bnxt_re"):
            told = self.run_verbena("run", "--profile", profile, which("ibv_devinfo"), "-v", "-d", self.device).out
            types = [line.rsplit(", ", 1)[1].strip() for line in told.splitlines() if "GID[" in line]
            self.assertEqual(types, ["RoCE v1", "RoCE v2"] * (len(types) // 2), told)
            self.assertGreaterEqual(len(types), 4, told)
        for profile in ("rxe", "irdma"):
            self.assertNotIn("RoCE v1", self.run_verbena("run", "--profile", profile, which("ibv_devinfo"), "-v").out)
        run = [clients.staged.verbena, "run", "--profile", "mlx5"]
        command = [which("ibv_rc_pingpong"), "-d", self.device, "-n", "20", "-g"]
        outs = self.exchange([*run, *command, str(2 * self.gids[0] + 1)], [*run, *command, str(2 * self.gids[1] + 1), self.address])
        self.assert_no_complaint(*outs)
        self.assertNotIn("CAP_NET_RAW", "".join(outs))
        # librdmacm takes the second.
        server = self.server.start(*run, which("rping"), "-s", "-a", self.address, "-C", "5", "-V")
        self.until_listening(server)
        client = self.client.run(*run, which("rping"), "-c", "-a", self.address, "-C", "5", "-V")
        self.assertEqual(client.code, 0, client)
        self.assertEqual(server.wait(self.TIMEOUT).code, 0)
        server = self.server.start(*run, "--explain", *command, str(2 * self.gids[0]))
        self.assertTrue(server.wait_until(lambda process: process.listens(TCP_PORT)), server.output())
        self.assertNotEqual(self.client.run(*run, *command, str(2 * self.gids[1]), self.address).code, 0)
        ended = server.wait(self.TIMEOUT)
        self.assertNotEqual(ended.code, 0, ended)
        self.assertIn("names a GID of RoCEv1", ended.out)


for profile_, tool_ in (("mlx5", "ib_read_bw"), ("rxe", "ib_write_bw"), ("irdma", "ib_send_bw"), ("erdma-compat", "ib_read_bw")):
    add(Profiles, "test_%s_%s" % (profile_.replace("-", "_"), tool_), "lo_v4",
        lambda self, profile=profile_, tool=tool_: self.transfer(profile, tool))
