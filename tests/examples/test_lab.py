# SPDX-License-Identifier: MIT
"""The file lab: whole files, windows, and everything that may go wrong; then the exercise and its grading."""

import hashlib
import hmac
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile

from pylib import clients
from pylib.clients import ClientCase, across, expand

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
SOLUTION = os.path.join(ROOT, "examples", "lab", "sender.c")
PART = r"^(\t/\* PART %d:.*?\*/\n)(.*?)(^\t/\* END OF PART %d \*/\n)"


class Lab(ClientCase):
    def setUp(self):
        super().setUp()
        self.folder = tempfile.mkdtemp(prefix="verbena-lab-test-")
        self.addCleanup(shutil.rmtree, self.folder, True)
        os.chmod(self.folder, 0o777)

    def path(self, name):
        return os.path.join(self.folder, name)

    def file(self, name, length, seed=1):
        """Bytes that do not repeat within a window, the same in each run."""
        block = b"".join(hashlib.sha256(b"%d %d" % (seed, i)).digest() for i in range(4096))
        with open(self.path(name), "wb") as file:
            for start in range(0, length, len(block)):
                file.write((start.to_bytes(8, "big") + block[8:])[:length - start])
        os.chmod(self.path(name), 0o666)
        return self.path(name)

    def program(self, name):
        return os.path.join(clients.staged.root, "examples", "lab", name)

    def receive(self, *arguments, target=None, environment=None):
        receiver = self.server.start(clients.staged.verbena, "run", self.program("receiver"), target or self.path("copy"), *arguments,
                                     environment=environment)
        self.wait_for(receiver, "listening")
        return receiver

    def send(self, path, *arguments, environment=None):
        return self.client.start(clients.staged.verbena, "run", self.program("sender"), self.address, path, "ada", *arguments,
                                 environment=environment)

    def wait_for(self, process, words, times=1):
        if not process.wait_until(lambda it: it.output().count(words) >= times):
            self.fail("no `%s`:\n%s" % (words, process.wait(0)))

    def finish(self, process, code, *said):
        result = process.wait(self.TIMEOUT)
        self.assertFalse(result.timed_out, result)
        self.assertEqual(result.code, code, result)
        for words in said:
            self.assertRegex(result.out, words)
        return result.out

    def assert_same(self, path):
        with open(path, "rb") as left, open(self.path("copy"), "rb") as right:
            self.assertTrue(left.read() == right.read(), "the copy differs")

    def assert_nothing_left(self, *others):
        """No half file, under whatever name."""
        self.assertEqual(sorted(os.listdir(self.folder)), sorted(others))


@expand
class Transfers(Lab):
    @across(["lo_v4"])
    def test_large_file(self):
        """64 MB, four windows and a bit; the key is the one that belongs to the ID."""
        path = self.file("file", 64 * 1024 * 1024 + 77)
        receiver = self.receive(environment={"LAB_SECRET": "sesame"})
        out = self.finish(self.send(path), 0, "the receiver says: good")
        told = self.finish(receiver, 0, "good: stored as")
        self.assert_same(path)
        self.assertEqual(told.count("window: 16777216 bytes"), 4)
        self.assertIn("key for ada: " + hmac.new(b"sesame", b"ada", "sha256").hexdigest()[:32], out)
        self.assert_nothing_left("file", "copy")

    @across(["lo_v4"])
    def test_a_gigabyte(self):
        path = self.file("file", 1 << 30)
        receiver = self.receive()
        self.finish(self.send(path), 0, "the receiver says: good")
        told = self.finish(receiver, 0, "good: stored as")
        self.assertEqual(told.count("window: 16777216 bytes"), 63)
        self.assertEqual(subprocess.run(["cmp", path, self.path("copy")]).returncode, 0)

    @across(["lo_v4", "veth1500_v4", "veth9000_v4"])
    def test_windows(self):
        """A region of an odd size, smaller than a slot: windows end anywhere."""
        path = self.file("file", 3000000)
        receiver = self.receive("7474", "70001")
        self.finish(self.send(path, "7474"), 0, "key for ada: [0-9a-f]{32}")
        told = self.finish(receiver, 0)
        self.assert_same(path)
        self.assertEqual(told.count("window: 70001 bytes"), 3000000 // 70001)

    @across(["lo_v4"])
    def test_file_of_exactly_the_region(self):
        path = self.file("file", 65536)
        receiver = self.receive("7474", "65536")
        self.finish(self.send(path), 0)
        self.assertNotIn("window:", self.finish(receiver, 0))
        self.assert_same(path)

    @across(["lo_v4"])
    def test_empty_file(self):
        path = self.file("file", 0)
        receiver = self.receive()
        self.finish(self.send(path), 0, "key for ada")
        self.finish(receiver, 0)
        self.assertEqual(os.path.getsize(self.path("copy")), 0)

    @across(["lo_v4"])
    def test_replaces_an_older_copy(self):
        path = self.file("file", 5000)
        self.file("copy", 9000, seed=2)
        os.chmod(self.folder, 0o777)
        receiver = self.receive()
        self.finish(self.send(path), 0)
        self.finish(receiver, 0)
        self.assert_same(path)

    @across(["lo_v4"])
    def test_progress_bar(self):
        """On a terminal only."""
        path = self.file("file", 2000000)
        receiver = self.receive("7474", "65536")
        command = " ".join([clients.staged.verbena, "run", self.program("sender"), self.address, path, "ada"])
        result = self.client.run("script", "-qec", command, "/dev/null")
        self.assertEqual(result.code, 0, result)
        self.assertRegex(result.out, r"sending +\[#{30}\] 100%  2\.0 MB, \d+ MB/s")
        self.assertNotIn("%", self.finish(receiver, 0))


@expand
class Failures(Lab):
    def start_with_receiver_asleep(self, path, receiver):
        """The sender has hashed the file and waits for a connection: now somebody can change the file behind its back."""
        receiver.signal(signal.SIGSTOP)
        sender = self.send(path)
        self.wait_for(sender, "SHA-256")
        return sender

    @across(["lo_v4"])
    def test_wrong_hash(self):
        path = self.file("file", 500000)
        receiver = self.receive("7474", "65536")
        sender = self.start_with_receiver_asleep(path, receiver)
        with open(path, "r+b") as file:
            file.seek(300000)
            file.write(b"!")
        receiver.signal(signal.SIGCONT)
        out = self.finish(sender, 1, "the receiver says: bad: wrong hash")
        self.assertNotIn("key for", out)
        self.finish(receiver, 1, "bad: wrong hash.*nothing is kept")
        self.assert_nothing_left("file")

    @across(["lo_v4"])
    def test_short_file(self):
        path = self.file("file", 500000)
        receiver = self.receive("7474", "65536")
        sender = self.start_with_receiver_asleep(path, receiver)
        os.truncate(path, 200000)
        receiver.signal(signal.SIGCONT)
        self.finish(sender, 1, "short file: 200000 of 500000 bytes")
        self.finish(receiver, 1, "the peer gave up: short file: 200000 of 500000 bytes")
        self.assert_nothing_left("file")

    def vanish(self, victim_is_sender):
        path = self.file("file", 64 * 1024 * 1024)
        receiver = self.receive("7474", "4096")
        sender = self.send(path)
        self.wait_for(receiver, "window:", 20)
        victim, other = (sender, receiver) if victim_is_sender else (receiver, sender)
        victim.kill()
        self.finish(other, 1, "the peer has vanished")
        self.assert_nothing_left("file")

    @across(["lo_v4", "veth1500_v4"])
    def test_sender_is_killed(self):
        self.vanish(True)

    @across(["lo_v4", "veth1500_v4"])
    def test_receiver_is_killed(self):
        self.vanish(False)

    @across(["veth1500_v4"])
    def test_cable_is_pulled(self):
        """Nobody can send a farewell: each side learns it from acknowledgements that do not come."""
        path = self.file("file", 64 * 1024 * 1024)
        receiver = self.receive("7474", "4096")
        sender = self.send(path)
        self.wait_for(receiver, "window:")
        self.server.ip("link", "set", "eth0", "down")
        self.finish(sender, 1, "the peer has vanished")
        self.finish(receiver, 1, "the peer has vanished")
        self.assert_nothing_left("file")

    @across(["lo_v4"])
    def test_interrupted_receiver(self):
        path = self.file("file", 64 * 1024 * 1024)
        receiver = self.receive("7474", "4096")
        sender = self.send(path)
        self.wait_for(receiver, "window:")
        receiver.signal(signal.SIGTERM)
        self.finish(receiver, 128 + signal.SIGTERM)
        self.finish(sender, 1, "the peer has vanished")
        self.assert_nothing_left("file")

    @across(["lo_v4"])
    def test_full_disk(self):
        """A file system of 1 MB. The receiver lives in a mount namespace of its own (`ip netns exec` makes one)."""
        path = self.file("file", 5000000)
        os.mkdir(self.path("disk"))
        drop = " ".join(word for word in self.server.prefix(False)[len(self.server.prefix(True)):])
        script = "mount -t tmpfs -o size=1m,mode=777 none %s; %s %s run %s %s/copy 7474 65536; echo code $?; echo left $(ls -A %s)" % (
            self.path("disk"), drop, clients.staged.verbena, self.program("receiver"), self.path("disk"), self.path("disk"))
        receiver = self.server.start("sh", "-c", script, privileged=True)
        self.wait_for(receiver, "listening")
        self.finish(self.send(path), 1, "the peer gave up: cannot write .*: No space left on device")
        self.finish(receiver, 0, r"receiver: cannot write .*: No space left on device\n", r"code 1\nleft\n")

    @across(["lo_v4"])
    def test_folder_is_not_there(self):
        path = self.file("file", 1000)
        receiver = self.receive(target=self.path("none/copy"))
        self.finish(self.send(path), 1, "the peer gave up: cannot create .*: No such file or directory")
        self.finish(receiver, 1, "cannot create")

    @across(["lo_v4"])
    def test_nobody_listens(self):
        path = self.file("file", 1000)
        self.finish(self.send(path), 1, "not connected: nobody listens there")

    @across(["lo_v4"])
    def test_no_such_file(self):
        self.finish(self.send(self.path("none")), 1, "none: No such file or directory")

    @across(["lo_v4"])
    def test_usage(self):
        for name in ("sender", "receiver"):
            result = self.client.run(self.program(name))
            self.assertEqual(result.code, 2)
            self.assertIn("Usage:", result.out)


@expand
class Exercise(Lab):
    """`verbena lab start` and `check`."""

    def begin(self):
        result = self.server.run(clients.staged.verbena, "lab", "start", self.path("lab"))
        self.assertEqual(result.code, 0, result)
        with open(self.path("lab/sender.c")) as file:
            return file.read()

    def body(self, number):
        with open(SOLUTION) as file:
            return re.search(PART % (number, number), file.read(), re.S | re.M).group(2)

    def fill_in(self, text, *parts):
        for number in parts:
            missing = "\tlab_part_missing(%d);\n" % number
            self.assertIn(missing, text)
            text = text.replace(missing, self.body(number))
        return text

    def check(self, text, passed, *why):
        """Grade this sender: so many of the nine steps, and the reason for the next."""
        # The file belongs to the user the exercise was written by; ours may be another.
        os.unlink(self.path("lab/sender.c"))
        with open(self.path("lab/sender.c"), "w") as file:
            file.write(text)
        os.chmod(self.path("lab/sender.c"), 0o666)
        result = self.server.run(clients.staged.verbena, "lab", "check", "--json", self.path("lab"))
        self.assertEqual(result.code, 0 if passed == 9 else 1, result)
        told = json.loads(result.out[result.out.index("{"):])
        self.assertEqual(told["passed"], passed, result)
        self.assertEqual([step["result"] for step in told["steps"]], (["ok"] * passed + ["failed"] + ["untried"] * 9)[:9])
        for words in why:
            self.assertRegex(told["steps"][passed]["why"], words)

    @across(["lo_v4"])
    def test_untouched(self):
        self.check(self.begin(), 1, "part 1 is not written yet")

    @across(["lo_v4"])
    def test_start_spares_what_is_there(self):
        text = self.begin()
        result = self.server.run(clients.staged.verbena, "lab", "start", self.path("lab"))
        self.assertEqual(result.code, 1, result)
        self.assertIn("left alone", result.out)
        with open(self.path("lab/sender.c")) as file:
            self.assertEqual(file.read(), text)

    @across(["lo_v4"])
    def test_half_done(self):
        text = self.begin()
        self.check(self.fill_in(text, 1), 2, "part 2 is not written yet", "waits for OFFER")
        self.check(self.fill_in(text, 1, 2), 3, "part 3 is not written yet")
        self.check(self.fill_in(text, 1, 2, 3), 4, "part 4 is not written yet", "waits for DONE")
        self.check(self.fill_in(text, 1, 2, 3, 4), 5, "part 5 is not written yet")
        self.check(self.fill_in(text, 1, 2, 3, 4, 5), 6, "part 6 is not written yet", "waits for WINDOW")

    @across(["lo_v4"])
    def test_complete(self):
        text = self.fill_in(self.begin(), 1, 2, 3, 4, 5, 6)
        self.check(text, 9)
        result = self.server.run(clients.staged.verbena, "lab", "check", self.path("lab"))
        self.assertEqual(result.code, 0, result)
        self.assertIn("All 9 steps work.", result.out)

    def wrong(self, old, new, passed, *why):
        text = self.fill_in(self.begin(), 1, 2, 3, 4, 5, 6)
        self.assertEqual(text.count(old), 1, old)
        self.check(text.replace(old, new), passed, *why)

    @across(["lo_v4"])
    def test_wrong_syntax(self):
        self.wrong("lab_expect(&sender->connection, LAB_NEXT);", "lab_expect(&sender->connection, LAB_NEXT)", 0,
                   r"sender\.c:\d+:\d+: error")

    @across(["lo_v4"])
    def test_wrong_length_offered(self):
        self.wrong(".kind = LAB_OFFER, .length = sender->length", ".kind = LAB_OFFER, .length = 1", 2, "offered 1 bytes; the file has")

    @across(["lo_v4"])
    def test_wrong_offset(self):
        """Every WRITE to the beginning of the region."""
        self.wrong("sender->region.address + offset", "sender->region.address", 3, "not those of the file", r"region\.address \+ offset")

    @across(["lo_v4"])
    def test_wrong_rkey(self):
        self.wrong(".rkey = sender->region.rkey", ".rkey = 1", 3, "A WRITE failed", "rkey 0x00000001")

    @across(["lo_v4"])
    def test_wrong_identity(self):
        self.wrong("\"%s\", identity);\n\tlab_send", "\"%s\", \"somebody\");\n\tlab_send", 5, "told the receiver \"somebody\"")

    @across(["lo_v4"])
    def test_verdict_ignored(self):
        self.wrong("verdict = lab_receive(&sender->connection);", "verdict = lab_receive(&sender->connection); verdict.kind = LAB_GOOD;",
                   7, "said BAD.*went on as if")

    @across(["lo_v4"])
    def test_death_ignored(self):
        """A sender that ends as if all were well when the receiver vanishes, and takes only BAD for a failure."""
        text = self.fill_in(self.begin(), 1, 2, 3, 4, 5, 6)
        for old, new in (("lab_fail(\"the receiver says: bad: %s\", verdict.text);", "_exit(1);"),
                         ("lab_expect(&sender->connection, LAB_NEXT);",
                          "void calm(void) { _exit(0); }\n\tatexit(calm);\n\tlab_expect(&sender->connection, LAB_NEXT);"),
                         ("#include \"lab.h\"\n", "#include \"lab.h\"\n#include <stdlib.h>\n#include <unistd.h>\n")):
            self.assertEqual(text.count(old), 1, old)
            text = text.replace(old, new)
        self.check(text, 8, "was killed in the middle of the file, and the sender's exit code is 0")
