# SPDX-License-Identifier: MIT
"""Open MPI, its OpenSHMEM, and MPICH of the distribution, all over UCX: messages, collectives and one-sided, every byte compared."""

import re

from pylib.applications import ApplicationCase
from pylib.clients import across, expand

# Neither of them may take the shared memory that two "hosts" of one machine do have.
BY_VERBS = {"UCX_TLS": "rc,self"}
# In a user namespace an ordinary user looks like root.
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


class Mpi(ApplicationCase):
    def pace(self, out, ranks=2):
        found = re.search(r"^%d ranks: all right. 8 B: ([\d.]+) us. 1 MiB: ([\d.]+) MB/s$" % ranks, out, re.M)
        self.assertTrue(found, out)
        return float(found.group(1)), float(found.group(2))

    def compare(self, program, where, ours, theirs, beside):
        self.figure(program, where + ", 8 B one way", "us", ours[0], theirs[0], beside)
        self.figure(program, where + ", 1 MiB", "MB/s", ours[1], theirs[1], beside)


@expand
class OpenMpi(Mpi):
    # Debian's /etc/openmpi/openmpi-mca-params.conf turns UCX off; on the command line it is turned on, as for any adapter.
    UCX = ("--mca", "pml", "ucx", "--mca", "osc", "ucx")
    TCP = ("--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "osc", "pt2pt")

    def mpirun(self, wrap, *options, program, ranks=2, environment=BY_VERBS, arguments=()):
        named = [word for name in environment for word in ("-x", name)]
        return self.see(self.server, "mpirun.openmpi", "-np", str(ranks), "--oversubscribe", *named, *options, *wrap(program), *arguments,
                        environment={**environment, **AS_ROOT})

    @across(["lo_v4"])
    def test_one_host(self):
        program = self.compile("mpicc.openmpi", "mpi_check.c")
        ours = self.pace(self.mpirun(self.verbena, *self.UCX, program=program))
        theirs = self.pace(self.mpirun(lambda *argv: argv, "--mca", "pml", "ob1", program=program))
        self.compare("Open MPI", "one host", ours, theirs, "shared memory (vader)")

    @across(["lo_v4"])
    def test_four_ranks(self):
        """More ranks than cores here."""
        program = self.compile("mpicc.openmpi", "mpi_check.c")
        self.pace(self.mpirun(self.verbena, *self.UCX, program=program, ranks=4, arguments=("quick",)), 4)

    @across(["lo_v4"])
    def test_it_is_preferred(self):
        """Asked what it thinks of our device, Open MPI's choice of UCX says what it says of adapters that it knows."""
        program = self.compile("mpicc.openmpi", "mpi_check.c")
        out = self.mpirun(self.verbena, *self.UCX, "--mca", "opal_common_ucx_verbose", "10", program=program, arguments=("quick",))
        self.assertIn("rc_verbs/roce_lo:1: matched both transport and device list", out)

    @across(["veth1500_v4"])
    def test_two_hosts(self):
        program = self.compile("mpicc.openmpi", "mpi_check.c")
        remote = ("--mca", "plm_rsh_agent", "python3 %s" % self.open_shells(), "-H", "10.77.0.1,10.77.0.2", "--map-by", "node")
        ours = self.pace(self.mpirun(self.verbena, *remote, *self.UCX, program=program))
        theirs = self.pace(self.mpirun(lambda *argv: argv, *remote, *self.TCP, program=program))
        self.compare("Open MPI", "two hosts", ours, theirs, "TCP")


@expand
class OpenShmem(Mpi):
    @across(["lo_v4", "veth1500_v4"])
    def test_ring(self):
        """Puts, gets, atomics and a reduction of Open MPI's OpenSHMEM, which has nothing but UCX to run on."""
        program = self.compile("oshcc", "shmem_check.c")
        remote = ()
        if self.server is not self.client:
            remote = ("--mca", "plm_rsh_agent", "python3 %s" % self.open_shells(), "-H", "10.77.0.1,10.77.0.2", "--map-by", "node")
        out = self.see(self.server, "oshrun", "-np", "2", "--oversubscribe", "-x", "UCX_TLS", *remote, *OpenMpi.UCX, "--mca", "spml", "ucx",
                       *self.verbena(program), environment={**BY_VERBS, **AS_ROOT})
        self.assertIn("2 ranks: all right", out)


@expand
class Mpich(Mpi):
    def mpirun(self, wrap, *options, program, environment, arguments=()):
        named = [word for name, value in environment.items() for word in ("-genv", name, value)]
        return self.see(self.server, "mpirun.mpich", "-np", "2", *named, *options, *wrap(program), *arguments)

    @across(["lo_v4"])
    def test_one_host(self):
        program = self.compile("mpicc.mpich", "mpi_check.c")
        # Its own shared memory is for ranks of one host, whatever UCX has.
        ours = self.pace(self.mpirun(self.verbena, program=program, environment={**BY_VERBS, "MPIR_CVAR_NOLOCAL": "1"}))
        # MPI_Put through its shared memory does not arrive (4.0.2, arm64): that has nothing to do with us, and is left out.
        theirs = self.pace(self.mpirun(lambda *argv: argv, program=program, environment={}, arguments=("two-sided",)))
        self.compare("MPICH", "one host", ours, theirs, "shared memory")

    @across(["veth1500_v4"])
    def test_two_hosts(self):
        program = self.compile("mpicc.mpich", "mpi_check.c")
        shell = self.open_shells()
        remote = ("-launcher", "rsh", "-launcher-exec", shell, "-hosts", "10.77.0.1,10.77.0.2", "-ppn", "1", "-iface", "eth0")
        ours = self.pace(self.mpirun(self.verbena, *remote, program=program, environment=BY_VERBS))
        theirs = self.pace(self.mpirun(lambda *argv: argv, *remote, program=program, environment={"UCX_TLS": "tcp,self"}))
        self.compare("MPICH", "two hosts", ours, theirs, "TCP")
