# SPDX-License-Identifier: MIT
"""Hosts at a software InfiniBand fabric, with the distribution's own opensm."""

import calendar
import glob
import os
import re
import tempfile
import time

from pylib import clients
from pylib.clients import ClientCase

# Three switches, each with a cable to both others, and a host at two of them.
RING = """Switch 4 "S1"
[1] "A"[1]
[3] "S2"[4]
[4] "S3"[3]
Switch 4 "S2"
[1] "B"[1]
[3] "S3"[4]
Switch 4 "S3"
Ca 1 "A" # "alpha"
Ca 1 "B" # "beta"
"""


def times_up(log):
    """When opensm had set all routes, each time: seconds since 1970, to the microsecond. Its lines have no year."""
    year = time.gmtime().tm_year
    return [calendar.timegm(time.strptime("%d %s" % (year, when), "%Y %b %d %H:%M:%S")) + int(fraction) / 1e6
            for when, fraction in re.findall(r"(?m)^(\w{3} \d\d \d\d:\d\d:\d\d) (\d{6}) .*SUBNET UP", log)]


def waited(pids):
    """Seconds that the threads of these processes have been ready to run and had no processor (proc(5), schedstat), in all."""
    total = 0
    for path in (path for pid in pids for path in glob.glob("/proc/%d/task/*/schedstat" % pid)):
        try:
            with open(path) as file:
                total += int(file.read().split()[1])
        except OSError:     # it has ended
            pass
    return total / 1e9


class FabricCase(ClientCase):
    def setUp(self):
        super().setUp()
        self.scratch = tempfile.mkdtemp(prefix="fabric-", dir=self.network.runtime)
        os.chown(self.scratch, self.network.uid, self.network.uid)

    def write(self, name, text):
        path = os.path.join(self.scratch, name)
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, 0o644)
        return path

    def tool(self, host, name, *argv, code=0, **more):
        result = host.run("/usr/sbin/" + name, *argv, **more)
        self.assertEqual(result.code, code, result)
        return result.out

    def verbena(self, host, *argv, code=0):
        result = host.run(clients.staged.verbena, "fabric", *argv)
        self.assertEqual(result.code, code, result)
        return result.out

    def up(self, host, topology=None):
        file = [self.write("topology", topology)] if topology else []
        process = host.start(clients.staged.verbena, "fabric", "up", *file)
        self.assertTrue(process.wait_until(lambda p: "UDP port 14791" in p.output()), process.output())
        self.fabric = process
        return process

    def opensm(self, host, name, *argv):
        """Starts one; returns the process and a function that reads its log."""
        log = os.path.join(self.scratch, name + ".log")
        config = self.write(name + ".conf", "force_log_flush TRUE\nsminfo_polling_timeout 500\npolling_retry_number 2\n")
        cache = os.path.join(self.scratch, name)
        os.mkdir(cache)
        os.chown(cache, self.network.uid, self.network.uid)
        process = host.start("/usr/sbin/opensm", "-f", log, "-F", config, *argv,
                             environment={"OSM_CACHE_DIR": cache, "OSM_TMP_DIR": cache, "TZ": "UTC0"})

        def read():
            try:
                with open(log) as file:
                    return file.read()
            except OSError:
                return ""
        return process, read

    def until_up(self, process, read, times=1, expected=()):
        """No ERR line but those with the expected numbers."""
        def look():
            self.assertTrue(process.running(), process.output() + read())
            return read().count("SUBNET UP") >= times
        self.until(look, lambda: "SUBNET UP:\n" + read())
        self.assertEqual([line for line in read().splitlines() if " ERR " in line and not any(" ERR " + e in line for e in expected)], [])

    def pair(self, topology, first=(), second=()):
        """A fabric on one host, which is an adapter of it too, and another adapter on the other."""
        self.left, self.right = self.network.pair()
        self.up(self.left, topology)
        self.verbena(self.left, "join", *first)
        self.verbena(self.right, "join", "10.77.0.1", *second)
