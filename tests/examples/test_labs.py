# SPDX-License-Identifier: MIT
"""Exercises of `verbena lab`: the complete programs of examples/ pass, and each mistake is found in the part in which it was made, for its
reason, which is often not where it shows."""

import json
import os
import shutil
import tempfile

from pylib import clients
from pylib.clients import ClientCase, across, add, expand

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))

# Exercise: the folder of its complete program, and which of its files are the student's.
LABS = {"file": ("lab", ["sender.c"]), "expert": ("lab", ["sender.c", "prepare.c"]), "echo": ("lab-echo", ["server.c"]),
        "store": ("lab-store", ["client.c"])}
STEPS = {"file": 9, "expert": 14, "echo": 10, "store": 7}

# Exercise, file, what stands there, what the student wrote instead, how many steps work, and the reasons given for the next.
WRONG = {
    "file_event_not_acknowledged": (
        "file", "sender.c", "rdma_ack_cm_event(lab_event(connection->events, RDMA_CM_EVENT_ROUTE_RESOLVED));",
        "lab_event(connection->events, RDMA_CM_EVENT_ROUTE_RESOLVED);", 1, ["not acknowledged", "rdma_ack_cm_event was not called"]),
    "expert_small_completion_queue": (
        "expert", "prepare.c", "ibv_create_cq(device, COMPLETIONS,", "ibv_create_cq(device, 2,", 2, ["completion queue (has|is)"]),
    "expert_no_channel": (
        "expert", "prepare.c", "NULL, connection->completions, 0)", "NULL, NULL, 0)", 2, ["reports to no channel"]),
    "expert_small_queue_pair": (
        "expert", "prepare.c", ".max_send_wr = LAB_WRITES + 2", ".max_send_wr = 1", 3, ["takes 1 sends and 4 receives; 10 and 4"]),
    "expert_read_only_messages": (
        "expert", "prepare.c", "sizeof(struct lab_message), IBV_ACCESS_LOCAL_WRITE);", "sizeof(struct lab_message), 0);", 4,
        ["could not be received", "LOCAL_WRITE"]),
    "expert_one_receive": (
        "expert", "prepare.c", "slot < LAB_RECEIVES; slot++)\n\t\tlab_post", "slot < 1; slot++)\n\t\tlab_post", 4,
        ["1 receives were posted; there are 4 slots"]),
    "expert_short_slots": (
        "expert", "sender.c", "sender->slots, (size_t)SLOTS * SLOT, 0)", "sender->slots, 4096, 0)", 6,
        ["could not read its slot", "LOC_PROT_ERR", "covers 4096 bytes"]),
    "echo_no_listen": (
        "echo", "server.c", "rdma_listen(server->listener, CLIENTS)", "0", 1, ["nobody listens on port"]),
    "echo_connection_event_not_acknowledged": (
        "echo", "server.c", "\trdma_ack_cm_event(event);\n", "", 3, ["event of a connection .* not acknowledged"]),
    "echo_completion_event_not_acknowledged": (
        "echo", "server.c", "\tibv_ack_cq_events(cq, 1);\n", "", 5, ["event of the completion queue .* not acknowledged"]),
    "echo_read_only_slots": (
        "echo", "server.c", "sizeof(client->slots), IBV_ACCESS_LOCAL_WRITE)", "sizeof(client->slots), 0)", 4,
        ["could not be received", "LOCAL_WRITE"]),
    "echo_receives_not_posted_again": (
        "echo", "server.c", "\t\telse\n\t\t\tpost_receive(client, wc.wr_id);\n", "", 6, ["did not come back", "posted again"]),
    "echo_polls": (
        "echo", "server.c", "poll(wait, 1 + CLIENTS, -1)", "poll(wait, 1 + CLIENTS, 0)", 7, ["it polls"]),
    "echo_looks_now_and_then": (
        "echo", "server.c", "poll(wait, 1 + CLIENTS, -1)", "poll(wait, 1 + CLIENTS, 2)", 7, ["woke up \\d+ times in a second"]),
    "store_byte_order": (
        "store", "client.c", "be32toh(table.rkey)", "table.rkey", 1, ["big-endian"]),
    "store_event_not_acknowledged": (
        "store", "client.c", "\trdma_ack_cm_event(event);\n\tclient->table", "\tclient->table", 1, ["ESTABLISHED .* not acknowledged"]),
    "store_always_the_first_bucket": (
        "store", "client.c", "client->table.address + number * sizeof(struct store_bucket)", "client->table.address", 2,
        ["Is it read from table.address \\+ number"]),
    "store_no_reads_allowed": (
        "store", "client.c", ".initiator_depth = 1", ".initiator_depth = 0", 1, ["initiator_depth", "max_rd_atomic"]),
    "store_believes_everything": (
        "store", "client.c", "return version == 0 || (version % 2 == 0 && bucket->check == store_check(bucket));", "return version < 1000;", 3,
        ["its version is odd"]),
    "store_believes_the_version": (
        "store", "client.c", "version % 2 == 0 && bucket->check == store_check(bucket)", "version % 2 == 0", 3, ["does not add up"]),
    "store_looks_at_home_only": (
        "store", "client.c", "i < client->table.buckets; i++", "i < 1; i++", 4, ["is absent", "goes on in the next bucket"]),
    "store_runs_off_the_table": (
        "store", "client.c", "(home + i) % client->table.buckets", "home + i", 4, ["The READ failed", "covers? \\d+ bytes"]),
}


class Graded(ClientCase):
    def setUp(self):
        super().setUp()
        self.folder = tempfile.mkdtemp(prefix="verbena-labs-test-")
        self.addCleanup(shutil.rmtree, self.folder, True)
        os.chmod(self.folder, 0o777)

    def begin(self, lab):
        self.lab = os.path.join(self.folder, lab)
        result = self.server.run(clients.staged.verbena, "lab", "start", lab, self.lab)
        self.assertEqual(result.code, 0, result)

    def write(self, name, text):
        # The file belongs to the user the exercise was written by; ours may be another.
        os.unlink(os.path.join(self.lab, name))
        with open(os.path.join(self.lab, name), "w") as file:
            file.write(text)
        os.chmod(os.path.join(self.lab, name), 0o666)

    def solve(self, lab):
        self.begin(lab)
        folder, names = LABS[lab]
        for name in names:
            with open(os.path.join(ROOT, "examples", folder, name)) as file:
                self.write(name, file.read())

    def check(self, lab, passed, *why):
        result = self.server.run(clients.staged.verbena, "lab", "check", "--json", self.lab)
        self.assertEqual(result.code, 0 if passed == STEPS[lab] else 1, result)
        told = json.loads(result.out[result.out.index("{"):])
        self.assertEqual(told["passed"], passed, result)
        self.assertEqual(len(told["steps"]), STEPS[lab])
        for words in why:
            self.assertRegex(told["steps"][passed]["why"], words)


class Labs(Graded):
    def mistake(self, name):
        lab, file, old, new, passed, why = WRONG[name]
        self.solve(lab)
        with open(os.path.join(self.lab, file)) as source:
            text = source.read()
        self.assertEqual(text.count(old), 1, old)
        self.write(file, text.replace(old, new))
        self.check(lab, passed, *why)

    def complete(self, lab):
        """The program of examples/ passes every step, in the folder that `lab start` wrote."""
        self.solve(lab)
        self.check(lab, STEPS[lab])


for mistake in WRONG:
    add(Labs, "test_%s__lo_v4" % mistake, "lo_v4", Labs.mistake, mistake)
for complete in ("expert", "echo", "store"):
    add(Labs, "test_%s_complete__lo_v4" % complete, "lo_v4", Labs.complete, complete)


@expand
class Handed(Graded):
    """What is handed out."""

    @across(["lo_v4"])
    def test_untouched(self):
        """Every exercise compiles as it is, and says which part is the first to write."""
        for lab in LABS:
            self.begin(lab)
            self.check(lab, 1, "part 1 is not written yet")

    @across(["lo_v4"])
    def test_expert_parts_in_their_order(self):
        """After part 1 the program meets those that the ordinary exercise hands out complete."""
        self.begin("expert")
        with open(os.path.join(ROOT, "examples", "lab", "sender.c")) as file:
            self.write("sender.c", file.read())
        self.check("expert", 2, "part 7 is not written yet")

    @across(["lo_v4"])
    def test_unknown_exercise(self):
        result = self.server.run(clients.staged.verbena, "lab", "start", "bogus", self.folder + "/x")
        self.assertEqual(result.code, 2, result)
        self.assertIn("file, expert, echo or store; there is no", result.out)
        result = self.server.run(clients.staged.verbena, "lab", "list")
        self.assertEqual([line.split()[0] for line in result.out.splitlines()], list(LABS))
        self.begin("echo")
        with open(self.lab + "/Makefile") as file:
            self.write("Makefile", file.read().replace("LAB = echo", "LAB = tennis"))
        result = self.server.run(clients.staged.verbena, "lab", "check", self.lab)
        self.assertEqual(result.code, 1, result)
        self.assertIn("there is no such exercise", result.out)
