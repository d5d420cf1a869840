#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Receive side scaling between two hosts: datagrams of the kernel's sockets, and which work queue each came to (netns/scaled.c)."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), ".."))

from pylib import daemon                                    # noqa: E402

KEY = bytes.fromhex("6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b477cb2da38030f20c6a42b73bbeac01fa")
QUEUES, ENTRIES = 4, 8
PORT, FIRST, FLOWS, ROUNDS = 5000, 20000, 48, 3


def toeplitz(data):
    """As Microsoft describes it, in numbers without end."""
    key, result = int.from_bytes(KEY, "big"), 0
    for bit in range(8 * len(data)):
        if data[bit // 8] >> 7 - bit % 8 & 1:
            result ^= key >> 8 * len(KEY) - 32 - bit & 0xffffffff
    return result


def queue_of(port):
    return toeplitz(bytes([10, 77, 0, 2, 10, 77, 0, 1]) + port.to_bytes(2, "big") + PORT.to_bytes(2, "big")) % ENTRIES % QUEUES


class Scaled(daemon.DaemonCase):
    def look(self, host, *words):
        """What `verbena res` says."""
        result = host.run(os.path.join(os.path.dirname(os.path.realpath(daemon.programs[0])), "verbena"), "res", *words, privileged=True)
        self.assertEqual(result.code, 0, result)
        return result.out

    def assert_shown(self, host):
        row, = json.loads(self.look(host, "wq", "rwq_table", "--json"))
        self.assertEqual([(wq["state"], wq["users"]) for wq in row["wqs"]], [("RDY", ENTRIES // QUEUES)] * QUEUES)
        self.assertEqual([(table["size"], table["wqs"], table["users"]) for table in row["rwq_tables"]], [(ENTRIES, QUEUES, 1)])
        out = self.look(host)
        self.assertIn("%d work queues\n    wq 0x%06x  RDY, " % (QUEUES, row["wqs"][0]["wq_num"]), out)
        self.assertIn("%d entries, %d work queues, 1 queue pair\n" % (ENTRIES, QUEUES), out)

    def test_flows_go_where_the_hash_says(self):
        self.assertEqual(toeplitz(bytes([66, 9, 149, 187, 161, 142, 100, 80]) + b"\x0a\xea\x06\xe6"), 0x51ccc178)
        here, far = self.network.pair()
        receiver = here.start(os.path.realpath(daemon.programs[1]), "roce_eth0", str(PORT), str(FLOWS * ROUNDS), privileged=True,
                              environment={"VERBENA_DAEMON": self.daemon_path})
        self.assertTrue(receiver.wait_until(lambda process: "ready" in process.output(), daemon.PATIENCE), receiver.output())
        self.assert_shown(here)
        sent = far.run("python3", "-c", """if True:
            import socket
            sockets = []
            for port in range(%d, %d):
                sockets.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
                sockets[-1].bind(('10.77.0.2', port))
            for _ in range(%d):
                for s in sockets:
                    s.sendto(b'x' * 100, ('10.77.0.1', %d))
        """ % (FIRST, FIRST + FLOWS, ROUNDS, PORT))
        self.assertEqual(sent.code, 0, sent)
        ended = receiver.wait(daemon.PATIENCE)
        self.assertEqual(ended.code, 0, ended)
        came = [tuple(map(int, line.split()[1:])) for line in ended.out.split("\n") if line.startswith("queue ")]
        wanted = [(queue_of(port), port) for port in range(FIRST, FIRST + FLOWS)] * ROUNDS
        self.assertEqual(sorted(came), sorted(wanted))
        self.assertEqual({queue for queue, _ in came}, set(range(QUEUES)))


if __name__ == "__main__":
    daemon.main(__file__)
