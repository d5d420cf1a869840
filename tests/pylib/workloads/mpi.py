# SPDX-License-Identifier: MIT
"""Open MPI, its OpenSHMEM, and MPICH of the distribution. All run mpi_check.c, which compares every byte before it measures."""

import re

from pylib.hosts import HostError

# Over UCX neither may take the shared memory that two "hosts" of one machine do have.
BY_VERBS = {"UCX_TLS": "rc,self"}
# In a user namespace an ordinary user looks like root.
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
NEEDS = ("mpirun.openmpi", "mpicc.openmpi")


def pace(out, ranks=2):
    """Microseconds one way for 8 bytes, MB/s for 1 MiB."""
    found = re.search(r"^%d ranks: all right. 8 B: ([\d.]+) us. 1 MiB: ([\d.]+) MB/s$" % ranks, out, re.M)
    if not found:
        raise HostError(out)
    return float(found.group(1)), float(found.group(2))


class OpenMpi:
    # Debian's /etc/openmpi/openmpi-mca-params.conf turns UCX off; on the command line it is turned on, as for any adapter.
    UCX = ("--mca", "pml", "ucx", "--mca", "osc", "ucx")
    ANY_DEVICE = ("--mca", "opal_common_ucx_devices", "any", "--mca", "opal_common_ucx_tls", "any")
    TCP = ("--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "osc", "pt2pt")
    SHARED_MEMORY = ("--mca", "pml", "ob1", "--mca", "btl", "vader,self")

    def __init__(self, ground):
        self.ground, self.kept = ground, {}

    def once(self, what, make):
        if what not in self.kept:
            self.kept[what] = make()
        return self.kept[what]

    def remote(self):
        """What mpirun must be told where there are two hosts. Both are this machine: each would bind its first rank to the same core."""
        if self.ground.server is self.ground.client:
            return ()
        shell = self.once("shell", self.ground.open_shells)
        return ("--mca", "plm_rsh_agent", "python3 %s" % shell, "-H", "10.77.0.1,10.77.0.2", "--map-by", "node", "--bind-to", "none")

    def run(self, wrap, *options, ranks=2, environment=BY_VERBS, arguments=(), mpirun="mpirun.openmpi",
            compiler="mpicc.openmpi", source="mpi_check.c"):
        program = self.once(source, lambda: self.ground.compile(compiler, source))
        named = [word for name in environment for word in ("-x", name)]
        return self.ground.see(self.ground.server, mpirun, "-np", str(ranks), "--oversubscribe", *named, *self.remote(), *options,
                               *wrap(program), *arguments, environment={**environment, **AS_ROOT})


class Mpich:
    def __init__(self, ground):
        self.ground = ground
        self.program = ground.compile("mpicc.mpich", "mpi_check.c")
        self.remote = ()
        if ground.server is not ground.client:
            self.remote = ("-launcher", "rsh", "-launcher-exec", ground.open_shells(), "-hosts", "10.77.0.1,10.77.0.2", "-ppn", "1",
                           "-iface", "eth0")

    def run(self, wrap, environment, arguments=()):
        named = [word for name, value in environment.items() for word in ("-genv", name, value)]
        return self.ground.see(self.ground.server, "mpirun.mpich", "-np", "2", *named, *self.remote, *wrap(self.program), *arguments)
