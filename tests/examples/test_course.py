# SPDX-License-Identifier: MIT
"""The numbered programs of examples/: each compiles by the command in its own head, runs, and does what it says."""

import glob
import os
import re
import shutil
import subprocess
import tempfile

from pylib import clients
from pylib.clients import ClientCase, across, add, expand

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
EXAMPLES = os.path.join(ROOT, "examples")

# Program: what its output has to show, in this order. All but 01 take a device, 11 a local address.
ALONE = {
    "01_devices": [r"^roce_{interface}: \d+ queue pairs", r"port 1: active, Ethernet, MTU {mtu}", r"gid \d+: \S+, RoCE v2"],
    "02_first_send": [r"^1\. opened roce_{interface}", r"^5\. 0x\w+ is connected", r"^8\. received 32 bytes \(request 1\)",
                      r"the message: Hello, memory", r"^9\. gave everything back"],
    "03_completion_channel": [r"slept (29\d|[3-9]\d\d|\d{4,}) ms; that cost \d{1,2}\.\d ms", r"woken by an event: [1-3] completions",
                              r"received all 3 messages"],
    "04_rdma_write": [r"R_Key 0x", r"before: \(nothing yet\)", r"after:  written from afar \(and no completion there\)",
                      r"completion for request 3 only", r"told \"your memory has changed\" and finds \"your memory has changed\""],
    "05_rdma_read": [r"record 5: 5 squared is 25", r"request 7: record 7", r"fenced: record 3"],
    "06_atomics": [r"ada draws ticket 4, bob ticket 5", r"the counter is now 6", r"its word was 1, and stays so",
                   r"bob has the lock"],
    "07_immediate": [r"receive 100: slot 0 holds 6 bytes: to be", r"receive 103: slot 3 holds 13 bytes: the question",
                     r"receive 200: a SEND of 8 bytes, immediate 0xc0ffee"],
    "08_scatter_gather": [r"54 bytes arrived; header: kind 7, length 42", r"\"a body that live\"",
                          r"\"s somewhere else entirely\", \"END\"", r"inline: \"no key needed\""],
    "09_shared_receive_queue": [r"buffer 0, queue pair of client 0: message 0 of client 0",
                                r"buffer 1, queue pair of client 2: message 2 of client 2"],
    "10_datagram": [r"bob got 50 bytes, 10 of them text: hello bob", r"ada got: hello ada"],
    "11_multicast": [r"3 members joined .* 0xffffff", r"member 1 received .*: one for all", r"member 2 received .*: one for all"],
    "14_async_events": [r"event: SRQ limit reached", r"client's completion: remote access error",
                        r"event: local access violation work queue error", r"event: last WQE reached"],
    "16_extended": [r"reader: request 7, 5 bytes, immediate 3, at \d+", r"builder: request 3, at \d+", r"the reader finds: built in one batch",
                    r"nothing of it was posted"],
    "15_errors": [r"^7\. nobody there\n.*transport retry counter exceeded", r"request 3: Work Request Flushed Error",
                  r"request 4 works", r"refused by ibv_post_send: Invalid argument"],
}


# In place of 13's three conversations.
HASTY = '''
	static const char *const texts[] = { "one", "two", "three" };
	for (uint64_t i = 0; i < 3; i++) {
		struct ibv_sge empty = piece_of(&in, i * SIZE, SIZE), full = piece_of(&out, i * SIZE, strlen(texts[i]));
		struct ibv_send_wr send = { .wr_id = 10 + i, .sg_list = &full, .num_sge = 1, .opcode = IBV_WR_SEND,
					    .send_flags = IBV_SEND_SIGNALED };

		memcpy(out.bytes + i * SIZE, texts[i], strlen(texts[i]));
		post_receive(id->qp, i, &empty, 1);
		post_send(id->qp, &send);
	}
	for (int done = 0; done < 6; done++) {
		struct ibv_wc completion = wait_completion(cq, "talking to the server");

		if (completion.wr_id < 3)
			printf("answer: %.*s\\n", (int)completion.byte_len, in.bytes + completion.wr_id * SIZE);
	}
'''


class Example(ClientCase):
    def argv(self, program, *arguments):
        return [clients.staged.verbena, "run", os.path.join(clients.staged.root, "examples", program), *arguments]

    def wait_for(self, process, words):
        if not process.wait_until(lambda it: words in it.output()):
            self.fail("no `%s`:\n%s" % (words, process.wait(0)))

    def look(self, out, patterns):
        rest = out
        for pattern in patterns:
            found = re.search(pattern, rest, re.M)
            self.assertIsNotNone(found, "no `%s` in\n%s" % (pattern, out))
            rest = rest[found.end():]


class Alone(Example):
    """Programs that have both sides in one process."""

    def alone(self, program):
        interface = self.device[len("roce_"):]
        arguments = {"01_devices": [], "11_multicast": [self.address]}.get(program, [self.device])
        result = self.server.run(*self.argv(program, *arguments))
        self.assertEqual(result.code, 0, result)
        self.look(result.out, [pattern.replace("{interface}", interface).replace("{mtu}", "4096" if interface == "lo" else "1024")
                               for pattern in ALONE[program]])


for name in ALONE:
    for place in ("lo_v4", "veth1500_v4"):
        add(Alone, "test_%s__%s" % (name, place), place, Alone.alone, name)


@expand
class Connected(Example):
    """12 and 13: a server and its client."""

    @across(["lo_v4", "veth1500_v4"])
    def test_12_and_13(self):
        server = self.server.start(*self.argv("12_cm_server"))
        self.wait_for(server, "listening on port 7471")
        client = self.client.run(*self.argv("13_cm_client", self.address))
        self.assertEqual(client.code, 0, client)
        self.look(client.out, [r"we go by " + self.device, r"a drawer is no reward -> drawer on si reward a", r"-> ssecca yromem tcerid etomer", r"DISCONNECTED"])
        result = server.wait(self.TIMEOUT)
        self.assertEqual(result.code, 0, result)
        self.look(result.out, ["CONNECT_REQUEST", "ESTABLISHED", "the client says: was it a car", "DISCONNECTED", "answered 3 messages"])

    @across(["lo_wire"])
    def test_12_and_a_hasty_client(self):
        """Three questions at once: no answer's buffer is used again before its send has completed."""
        with open(os.path.join(EXAMPLES, "13_cm_client.c")) as file:
            source = file.read()
        calls = re.search(r"(\tconverse\(id.*?;\n)+", source)
        source = source.replace(calls.group(0), HASTY).replace("(pd, SIZE,", "(pd, 4 * SIZE,")
        source = re.sub(r"/\* Sends a text and waits.*?(?=int main)", "", source, flags=re.S)
        program = os.path.join(clients.staged.root, "hasty")
        built = subprocess.run(["cc", "-xc", "-", "-I", EXAMPLES, "-o", program, "-lrdmacm", "-libverbs"], input=source, text=True,
                               capture_output=True)
        self.assertEqual(built.returncode, 0, built.stderr)
        # With what it sends delayed, acknowledgements come after the next question.
        server = self.server.start(clients.staged.verbena, "run", "--explain", "--faults", "delay=20ms",
                                   *self.argv("12_cm_server")[2:])
        self.wait_for(server, "listening on port 7471")
        client = self.client.run(clients.staged.verbena, "run", program, self.address)
        self.assertEqual(client.code, 0, client)
        self.assertEqual(sorted(re.findall(r"answer: (.*)", client.out)), ["eerht", "eno", "owt"])
        result = server.wait(self.TIMEOUT)
        self.assertEqual(result.code, 0, result)
        self.assertNotIn("was changed between its post and its completion", result.out)

    @across(["lo_v4"])
    def test_13_without_a_server(self):
        """The reason is named: rejected, because nobody listens."""
        client = self.client.run(*self.argv("13_cm_client", self.address))
        self.assertEqual(client.code, 1, client)
        self.look(client.out, [r"event: RDMA_CM_EVENT_REJECTED", r"status 8"])

    @across(["lo_v4"])
    def test_without_verbena(self):
        """Without our library there is no device, and every program says so instead of crashing."""
        for program, said in (("01_devices", "There is no RDMA device"), ("02_first_send", "device"), ("04_rdma_write", "no RDMA device")):
            result = self.client.run(os.path.join(clients.staged.root, "examples", program), environment={"LD_LIBRARY_PATH": ""})
            if os.path.isdir("/sys/class/infiniband") and os.listdir("/sys/class/infiniband"):
                continue
            self.assertEqual(result.code, 1, result)
            # The kernel may not even know of RDMA: ENOSYS.
            self.assertRegex(result.out, said + "|ibv_get_device_list: Function not implemented")


class Sources(ClientCase):
    def test_each_compiles_as_its_head_says(self):
        """`cc 04_rdma_write.c -libverbs` and nothing else."""
        folder = tempfile.mkdtemp(prefix="verbena-examples-")
        self.addCleanup(shutil.rmtree, folder, True)
        found = sorted(glob.glob(os.path.join(EXAMPLES, "[0-9][0-9]_*.c")))
        self.assertEqual(len(found), 16)
        for path in found:
            name = os.path.basename(path)
            with open(path) as file:
                text = file.read()
            command = re.search(r"^ \*   (cc %s(?: -l\w+)+) && \./a\.out" % re.escape(name), text, re.M)
            self.assertIsNotNone(command, name)
            done = subprocess.run(command.group(1).split() + ["-o", os.path.join(folder, "a.out")], cwd=EXAMPLES, text=True,
                                  capture_output=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""), name)
            lines = text.count("\n")
            self.assertTrue(90 <= lines <= 200, "%s has %d lines" % (name, lines))

    def test_the_reading_order_names_all(self):
        with open(os.path.join(EXAMPLES, "README.md")) as file:
            text = file.read()
        for path in glob.glob(os.path.join(EXAMPLES, "[0-9][0-9]_*.c")):
            self.assertIn("(%s)" % os.path.basename(path), text)
