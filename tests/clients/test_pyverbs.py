# SPDX-License-Identifier: MIT
"""rdma-core's own tests of the verbs and of librdmacm (Debian's python3-pyverbs), unmodified: on one host, through memory and by packets.

They are root's in a network namespace of the test's own, as tests of raw packets ask for. What they pass over is known, with the reason:
any other reason, and any test that is passed over without one, fails here.
"""

import glob
import gzip
import os
import re
import shutil
import subprocess
import tempfile

from pylib import clients
from pylib.clients import ClientCase

PACKAGE, FOLDER = "python3-pyverbs", "usr/share/doc/rdma-core/tests"
# What no device but these has, or this machine has not.
PASSED_OVER = (
    "Can not run the test over non MLX5 device", "Can not run the test over non EFA device",
    "Could not open mlx5 context (This is not an MLX5 device)", "Converting timestamp to nanoseconds is not supported",
    "Allocating dmabuf is not supported by /dev/dri/renderD128", "cuda-python 12.0+ must be installed to run CUDA tests",
    "PCI device must be passed by the user", "There are no huge pages of size 2M allocated",
    # Tag matching: docs/verbs.md says why.
    "Extended CQ is not supported",
)
# As rdma-core 44 has them; later ones have more.
LEAST_RUN = 150


def copy_of_tests(folder):
    """Documents may have been left out when packages were installed, as images for containers do."""
    source = os.path.join("/", FOLDER)
    if not os.path.exists(os.path.join(source, "run_tests.py")):
        subprocess.run(["apt-get", "-q", "download", PACKAGE], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["dpkg-deb", "-x", *glob.glob(os.path.join(folder, "*.deb")), folder], check=True)
        source = os.path.join(folder, FOLDER)
    tests = shutil.copytree(source, os.path.join(folder, "tests"))
    for packed in glob.glob(os.path.join(tests, "*.gz")):
        with gzip.open(packed) as file, open(packed[:-len(".gz")], "wb") as plain:
            shutil.copyfileobj(file, plain)
        os.unlink(packed)
    return tests


class Pyverbs(ClientCase):
    TIMEOUT = 300

    def run_all(self, *options, environment=None, passed_over=PASSED_OVER):
        # All of it is root's, and verbenad, too: another user's would serve that user alone.
        host, _ = self.network.pair()
        self.until(lambda: "tentative" not in host.ip("addr", "show", "eth0"), lambda: host.ip("addr", "show", "eth0"))
        folder = tempfile.mkdtemp(prefix="verbena-pyverbs-")
        self.addCleanup(shutil.rmtree, folder, True)
        os.chmod(folder, 0o755)
        program = os.path.join(copy_of_tests(folder), "run_tests.py")
        done = host.start(clients.staged.verbena, "run", *options, "/usr/bin/python3", program, "-v", "--dev", "roce_eth0",
                          environment=environment or {}, privileged=True).wait(self.TIMEOUT)
        self.assertEqual(done.code, 0, done)
        run = re.search(r"^Ran (\d+) tests", done.out, re.M)
        reasons = re.findall(r"\.\.\. skipped ['\"](.*)['\"]$", done.out, re.M)
        self.assertEqual([reason for reason in reasons if reason not in passed_over], [], done)
        self.assertRegex(done.out, r"(?m)^OK \(skipped=%d\)$" % len(reasons), done)
        self.assertGreaterEqual(int(run.group(1)) - len(reasons), LEAST_RUN, done)

    def test_through_memory(self):
        self.run_all()

    def test_by_packets(self):
        self.run_all(environment={"VERBENA_WIRE": "rocev2"})

    def test_with_an_adapters_limits(self):
        """GID 0 is one of RoCEv1 there. No adapter has ibv_wr_atomic_write."""
        self.run_all("--profile", "mlx5", passed_over=PASSED_OVER + ("Extended QP is not supported on this device",))
