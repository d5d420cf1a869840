# SPDX-License-Identifier: MIT
"""Processor time of both sides: bench/many_queue_pairs, whose ends say what they used, and iperf3 beside it."""

PORT = 18521


class Cpu:
    def __init__(self, place, program):
        self.place, self.program = place, program

    def many(self, operation, size, qps, threads, seconds, wait=False):
        """(seconds, messages, CPU seconds of client and server, bytes per connection, switches of the server)"""
        place = self.place
        out = place.exchange([self.program, "serve", place.device, str(place.gids[0])],
                             [self.program, place.address, place.device, str(place.gids[1]), operation, str(size), str(qps),
                              str(threads), str(seconds)] + (["wait"] if wait else []), PORT, free=threads > 1)
        return [float(word) for word in out.split()[-6:]]

    def write(self, seconds):
        """CPU seconds per GB, initiator and target: WRITEs of 64 KiB, both sleep when there is nothing to do."""
        row = self.many("write", 65536, 1, 1, seconds, wait=True)
        return row[2] / row[1] / 65536 * 1e9, row[3] / row[1] / 65536 * 1e9

    def tcp(self, seconds):
        return self.place.tcp_cpu(seconds)
