# SPDX-License-Identifier: MIT
"""rdma-core's own tests of the verbs and of librdmacm (Debian's python3-pyverbs), unmodified: on one host, through memory, by packets,
by iWARP and through a switch of the software InfiniBand.

But for the last they are root's in a network namespace of the test's own, as tests of raw packets ask for. What they pass over is known, with the reason:
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
from pylib.fabric import FabricCase

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
LEAST_RUN, LEAST_BY_LIDS = 150, 125


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


# By LIDs there is neither Ethernet nor an interface of the network.
NOT_INFINIBAND = PASSED_OVER + (
    "Device vib0 doesn't have net interface", "Must be run by root on Ethernet link layer",
    "To Create RAW QP must be done by root on Ethernet link layer", "Link layer of port=1 is InfiniBand , skip RoCE test",
    "All gid indices populated, cannot check bad flow", "No supported port is up, can't run traffic",
)


# The tests take no GID that ends in zeros for one, as an RNIC's does, and so pass over all that carry data unless they are told an index. Told so they
# connect without librdmacm, which no RNIC can: only those that connect by it carry data, and of these not the ones that ask for IBA's ack timeout, UD or
# a queue pair that the program itself leads to RTS, nor the one that looks for a WRITE as soon as it has completed at the other end: then TCP has it
# (RFC 5040, 5.5), and it may not be in memory yet.
NOT_OF_AN_RNIC = PASSED_OVER + ("No supported port is up, can't run traffic", "All gid indices populated, cannot check bad flow", "Create AH is not supported") + tuple(
    "Create %s QP %s attrs is not supported" % (kind, how) for kind in ("UD", "UC", "Raw Packet")
    for how in ("with", "without", "with extended", "without extended"))
OF_AN_RNIC = ("rdmacm_sync_traffic", "rdmacm_async_reject_traffic", "rdmacm_async_read")
LEAST_OF_AN_RNIC = 35


class Suite:
    TIMEOUT = 300

    def run_all(self, host, device, *options, arguments=(), environment=None, passed_over=PASSED_OVER, least=LEAST_RUN, privileged=False):
        folder = tempfile.mkdtemp(prefix="verbena-pyverbs-")
        self.addCleanup(shutil.rmtree, folder, True)
        os.chmod(folder, 0o755)
        program = os.path.join(copy_of_tests(folder), "run_tests.py")
        done = host.start(clients.staged.verbena, "run", *options, "/usr/bin/python3", program, "-v", "--dev", device, *arguments,
                          environment=environment or {}, privileged=privileged).wait(self.TIMEOUT)
        self.assertEqual(done.code, 0, done)
        run = re.search(r"^Ran (\d+) tests", done.out, re.M)
        reasons = re.findall(r"\.\.\. skipped ['\"](.*)['\"]$", done.out, re.M)
        self.assertEqual([reason for reason in reasons if reason not in passed_over], [], done)
        self.assertRegex(done.out, r"(?m)^OK \(skipped=%d\)$" % len(reasons) if reasons else r"(?m)^OK$", done)
        self.assertGreaterEqual(int(run.group(1)) - len(reasons), least, done)


class Pyverbs(Suite, ClientCase):
    def run_as_root(self, *options, device="roce_eth0", **more):
        """verbenad is root's, too: another user's would serve that user alone."""
        host, _ = self.network.pair()
        self.until(lambda: "tentative" not in host.ip("addr", "show", "eth0"), lambda: host.ip("addr", "show", "eth0"))
        self.run_all(host, device, *options, privileged=True, **more)

    def test_through_memory(self):
        self.run_as_root()

    def test_by_packets(self):
        self.run_as_root(environment={"VERBENA_WIRE": "rocev2"})

    def test_with_an_adapters_limits(self):
        """GID 0 is one of RoCEv1 there. No adapter has ibv_wr_atomic_write."""
        self.run_as_root("--profile", "mlx5", passed_over=PASSED_OVER + ("Extended QP is not supported on this device",))

    def test_an_rnic(self):
        self.run_as_root("--iwarp", device="iwarp_eth0", passed_over=NOT_OF_AN_RNIC, least=LEAST_OF_AN_RNIC)
        self.run_as_root("--iwarp", device="iwarp_eth0", arguments=("--gid", "0", *(word for name in OF_AN_RNIC for word in ("-k", name))),
                         least=len(OF_AN_RNIC))


class InfiniBand(Suite, FabricCase):
    def test_by_lids(self):
        self.pair(None)
        self.until_up(*self.opensm(self.left, "sm"))
        self.run_all(self.left, "vib0", passed_over=NOT_INFINIBAND, least=LEAST_BY_LIDS)
