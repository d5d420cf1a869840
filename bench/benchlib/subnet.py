# SPDX-License-Identifier: MIT
"""How long opensm takes from its start to SUBNET UP, on our fabric and on ibsim (Debian: ibsim-utils), with the same topology files."""

import os
import shutil
import tempfile
import time

from benchlib import BenchFailed

# Key, words, spines, leaves, hosts of each leaf, limit in seconds, limit as a multiple of ibsim's.
SIZES = (("small", "2 switches and 4 HCAs", 0, 2, 2, 2, None), ("large", "54 switches and 648 HCAs", 18, 36, 18, 10, 2.0))
PATIENCE = 60


def topology(spines, leaves, hosts):
    """Each leaf has its hosts and a cable to each spine; without spines the leaves are a chain. ibsim wants each cable at both of its ends."""
    lines = []
    for leaf in range(leaves):
        lines.append('Switch %d "S-leaf%d"' % (hosts + max(spines, 2), leaf))
        lines += ['[%d] "H-%d"[1]' % (host + 1, leaf * hosts + host) for host in range(hosts)]
        lines += ['[%d] "S-spine%d"[%d]' % (hosts + 1 + spine, spine, leaf + 1) for spine in range(spines)]
        if not spines and leaf + 1 < leaves:
            lines.append('[%d] "S-leaf%d"[%d]' % (hosts + 1, leaf + 1, hosts + 2))
        if not spines and leaf > 0:
            lines.append('[%d] "S-leaf%d"[%d]' % (hosts + 2, leaf - 1, hosts + 1))
        lines.append("")
    for spine in range(spines):
        lines.append('Switch %d "S-spine%d"' % (leaves, spine))
        lines += ['[%d] "S-leaf%d"[%d]' % (leaf + 1, leaf, hosts + 1 + spine) for leaf in range(leaves)] + [""]
    for host in range(leaves * hosts):
        lines += ['Hca 1 "H-%d"' % host, '[1] "S-leaf%d"[%d]' % (host // hosts, host % hosts + 1), ""]
    return "\n".join(lines)


class Subnet:
    """A host with a folder of its own for what opensm writes."""

    def __init__(self, host, verbena):
        self.host, self.verbena = host, verbena
        self.folder = tempfile.mkdtemp(prefix="verbena-subnet-", dir=host.network.runtime)
        os.chown(self.folder, host.network.uid, host.network.uid)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, 0o644)
        return path

    def opensm(self, *command, environment=None):
        """Starts it; the process, and a function that tells whether the subnet is up. Under ibsim it leaves files where it is started."""
        log, cache = os.path.join(self.folder, "opensm.log"), os.path.join(self.folder, "cache")
        shutil.rmtree(cache, True)
        os.mkdir(cache)
        os.chown(cache, self.host.network.uid, self.host.network.uid)
        if os.path.exists(log):
            os.unlink(log)
        config = self.write("opensm.conf", "force_log_flush TRUE\n")
        script = 'cd "$0" && exec "$@"'
        process = self.host.start("sh", "-c", script, self.folder, *command, "/usr/sbin/opensm", "-f", log, "-F", config, environment={
            **(environment or {}), "OSM_CACHE_DIR": cache, "OSM_TMP_DIR": cache})

        def is_up():
            try:
                with open(log, errors="replace") as file:
                    return "SUBNET UP" in file.read()
            except OSError:
                return False
        return process, is_up

    def wait(self, process, is_up):
        limit = time.monotonic() + PATIENCE
        while not is_up():
            if time.monotonic() > limit or not process.running():
                raise BenchFailed("opensm has not said SUBNET UP\n" + process.output())
            time.sleep(0.002)

    def seconds(self, *command, environment=None):
        began = time.monotonic()
        process, is_up = self.opensm(*command, environment=environment)
        try:
            self.wait(process, is_up)
            return time.monotonic() - began
        finally:
            process.kill()

    def fabric(self, *words):
        result = self.host.run(self.verbena, "fabric", *words)
        if result.code:
            raise BenchFailed(str(result))

    def up(self, file=None):
        process = self.host.start(self.verbena, "fabric", "up", *([file] if file else []))
        if not process.wait_until(lambda p: "UDP port" in p.output()):
            raise BenchFailed(str(process.wait(0)))
        return process

    def ours(self, file):
        fabric = self.up(file)
        try:
            self.fabric("join")
            seconds = self.seconds()
            self.fabric("leave")
            return seconds
        finally:
            fabric.kill()

    def ibsims(self, file):
        # It ends with its input. It says nothing when it listens.
        simulator = self.host.start("sh", "-c", 'sleep %d | /usr/bin/ibsim -s "$0"' % PATIENCE, file)
        try:
            time.sleep(1)
            return self.seconds("/usr/bin/ibsim-run", environment={"LD_LIBRARY_PATH": ""})
        finally:
            simulator.kill()
