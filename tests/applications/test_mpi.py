# SPDX-License-Identifier: MIT
"""Open MPI, its OpenSHMEM, and MPICH of the distribution, all over UCX: messages, collectives and one-sided, every byte compared."""

from pylib.applications import ApplicationCase
from pylib.clients import across, expand
from pylib.workloads import mpi
from pylib.workloads.ground import plain

BOTH = ("lo_v4", "veth1500_v4")


class Mpi(ApplicationCase):
    def compare(self, program, ours, theirs, beside):
        self.figure(program, self.where() + ", 8 B one way", "us", ours[0], theirs[0], beside)
        self.figure(program, self.where() + ", 1 MiB", "MB/s", ours[1], theirs[1], beside)


@expand
class OpenMpi(Mpi):
    @across(BOTH)
    def test_ranks(self):
        """Beside its shared memory on one host, beside TCP between two."""
        programs = mpi.OpenMpi(self)
        ours = mpi.pace(programs.run(self.verbena, *programs.UCX))
        theirs, beside = (programs.SHARED_MEMORY, "shared memory") if self.server is self.client else (programs.TCP, "TCP")
        self.compare("Open MPI", ours, mpi.pace(programs.run(plain, *theirs)), beside)

    @across(["lo_v4"])
    def test_four_ranks(self):
        """More ranks than cores here."""
        programs = mpi.OpenMpi(self)
        mpi.pace(programs.run(self.verbena, *programs.UCX, ranks=4, arguments=("quick",)), 4)

    @across(["lo_v4"])
    def test_it_is_preferred(self):
        """Asked what it thinks of our device, Open MPI's choice of UCX says what it says of adapters that it knows."""
        programs = mpi.OpenMpi(self)
        out = programs.run(self.verbena, *programs.UCX, "--mca", "opal_common_ucx_verbose", "10", arguments=("quick",))
        self.assertIn("rc_verbs/roce_lo:1: matched both transport and device list", out)


@expand
class OpenShmem(ApplicationCase):
    @across(BOTH)
    def test_ring(self):
        """Puts, gets, atomics and a reduction of Open MPI's OpenSHMEM, which has nothing but UCX to run on."""
        programs = mpi.OpenMpi(self)
        paces = []
        # Without Verbena it must be told that UCX may do without an adapter.
        for wrap, transports, devices in ((self.verbena, mpi.BY_VERBS, ()), (plain, {"UCX_TLS": "tcp,self"}, programs.ANY_DEVICE)):
            out = programs.run(wrap, *programs.UCX, *devices, "--mca", "spml", "ucx", environment=transports, mpirun="oshrun", compiler="oshcc",
                               source="shmem_check.c")
            paces.append(mpi.pace(out))
        for number, what, unit in ((0, "8 B fetched", "us"), (1, "1 MiB put", "MB/s")):
            self.figure("OpenSHMEM", "%s, %s" % (self.where(), what), unit, paces[0][number], paces[1][number], "UCX over TCP")


@expand
class Mpich(Mpi):
    @across(BOTH)
    def test_ranks(self):
        program = mpi.Mpich(self)
        if self.server is not self.client:
            ours = mpi.pace(program.run(self.verbena, mpi.BY_VERBS))
            theirs = mpi.pace(program.run(plain, {"UCX_TLS": "tcp,self"}))
            self.compare("MPICH", ours, theirs, "TCP")
            return
        # Its own shared memory is for ranks of one host, whatever UCX has.
        ours = mpi.pace(program.run(self.verbena, {**mpi.BY_VERBS, "MPIR_CVAR_NOLOCAL": "1"}))
        # MPI_Put through its shared memory does not arrive (4.0.2, arm64): that has nothing to do with us, and is left out.
        theirs = mpi.pace(program.run(plain, {}, arguments=("two-sided",)))
        self.compare("MPICH", ours, theirs, "shared memory")
