# SPDX-License-Identifier: MIT
"""UCX by its own program, ucx_perftest."""

import re

from pylib.hosts import HostError

PORT = 13337
NEEDS = ("ucx_perftest",)
# It says so wherever there are more than two processors.
USUAL = r".*WARN +CPU affinity is not set.*"


def measure(ground, transports, test, size, count, wrap):
    """Median and mean in microseconds, one way, and MB/s."""
    environment = {"UCX_TLS": transports, "UCX_WARN_UNUSED_ENV_VARS": "n"}
    server = ground.serve(*wrap("ucx_perftest", "-p", str(PORT)), port=PORT, environment=environment)
    out = ground.see(ground.client, *wrap("ucx_perftest", ground.address, "-p", str(PORT), "-t", test, "-s", str(size), "-n", str(count),
                                          "-w", str(count // 10), "-f"), environment=environment)
    server.wait(10)
    rows = re.findall(r"^(?:Final:)?\s*[\d.]+(?:\s+[\d.]+)+$", out, re.M)
    if not rows or re.search("ERROR|WARN", re.sub(USUAL, "", out)):
        raise HostError(out)
    # Rounds; median, mean of the last part and of all; bandwidth, the last part's and of all; messages likewise.
    numbers = [float(word) for word in rows[-1].replace("Final:", "").split()]
    return {"median": numbers[1], "mean": numbers[3], "bandwidth": numbers[5]}
