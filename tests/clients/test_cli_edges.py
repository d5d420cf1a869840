# SPDX-License-Identifier: MIT
"""The `verbena` command where something is not as it should be: mistyped words, full disks, files that cannot be written; and what
scripts read of it."""

import json
import os
import re
import tempfile

from pylib import clients
from pylib.clients import TCP_PORT, across, expand, which
from test_install import Installing
from test_observe import COMPLETION, Looking


@expand
class Mistyped(Looking):
    @across(["lo_v4"])
    def test_did_you_mean(self):
        """Commands and options that are nearly right are named; what is nothing like any is not guessed at."""
        for argv, meant in ((("devcies",), "`devices`"), (("docter",), "`doctor`"), (("help", "captrue"), "`capture`"),
                            (("stat", "--jsno"), "--json"), (("run", "--explan=x", "true"), "--explain"),
                            (("run", "--devise", "x", "true"), "--device"), (("top", "--intreval", "1"), "--interval"),
                            (("web", "--prot", "1"), "--port"), (("devices", "--profile"), "--profiles"), (("lab", "strat", "x"), "start"),
                            (("lab", "chekc", "x"), "check"), (("fabric", "shwo"), "show"), (("fabric", "mned", "a:1"), "mend"),
                            (("res", "qps"), "qp"), (("res", "cmid"), "cm_id")):
            result = self.verbena(*argv)
            self.assertEqual(result.code, 2, result)
            self.assertIn("Did you mean " + meant, result.out)
        for argv in (("xyzzy",), ("stat", "--xyzzy"), ("lab", "xyzzy"), ("res", "--pid"), ("fabric", "xyzzy")):
            result = self.verbena(*argv)
            self.assertEqual(result.code, 2, result)
            self.assertNotIn("Did you mean", result.out)

    @across(["lo_v4"])
    def test_lab(self):
        """What the lab does not know is named before a folder is asked for."""
        result = self.verbena("lab", "bogus")
        self.assertEqual(result.code, 2, result)
        self.assertIn("there is no: bogus", result.out)
        self.assertNotIn("folder", result.out)

    @across(["lo_v4"])
    def test_completion_leaves_examples_alone(self):
        """Options that only an example gives to another program are not offered."""
        with open(COMPLETION) as file:
            script = file.read() + ('COMP_WORDS=(verbena run --); COMP_CWORD=2; COMPREPLY=(); _verbena; echo "${COMPREPLY[@]}"')
        result = self.client.run("bash", "--norc", "-c", script,
                                 environment={"PATH": os.path.dirname(clients.staged.verbena) + ":/usr/bin:/bin"})
        words = result.out.split()
        self.assertIn("--explain", words)
        self.assertNotIn("--verbose", words)


@expand
class Output(Looking):
    @across(["lo_v4"])
    def test_full_disk(self):
        """Every command that prints says when what it prints does not arrive."""
        for words in ("devices", "devices --json", "help", "run --help", "version", "status", "res", "res --json", "stat", "doctor",
                      "top --once --interval 0.1"):
            result = self.client.run("sh", "-c", "%s %s >/dev/full" % (clients.staged.verbena, words))
            self.assertEqual(result.code, 1, words)
            self.assertIn("standard output: No space left on device", result.out)

    @across(["lo_v4"])
    def test_explanations_that_cannot_be_written(self):
        """`run --explain=FILE` where there can be no such file: said at once, and the command does not run."""
        result = self.verbena("run", "--explain=/nonexistent/x", "echo", "it ran")
        self.assertEqual(result.code, 1, result)
        self.assertIn("/nonexistent/x", result.out)
        self.assertNotIn("it ran", result.out)

    @across(["lo_v4"])
    def test_pictures_that_cannot_be_written(self):
        """`capture` where there can be no such picture: the same, and no capture is begun."""
        for option in ("--ladder", "--html"):
            result = self.verbena("capture", option, "/nonexistent/x", "--", "echo", "it ran")
            self.assertEqual(result.code, 1, result)
            self.assertEqual(result.out, "verbena capture: /nonexistent/x: No such file or directory\n")


@expand
class ForScripts(Looking):
    @across(["lo_v4"])
    def test_version(self):
        told = self.told("version")
        self.assertEqual(os.path.realpath(told["libraries"]), os.path.realpath(clients.staged.library))
        self.assertIn("verbena %s\n" % told["version"], self.verbena("version").out)
        self.assertEqual(self.verbena("version", "--yaml").code, 2)

    @across(["veth1500_v6"])
    def test_top(self):
        """What moves, as JSON and sorted; PSNs are hexadecimal as everywhere."""
        server, client = self.write_bw()
        self.until(lambda: self.of(client), "the client's queue pair")

        def moves():
            told = self.told("top", "--interval", "0.3")
            return told if told["qps"] and told["qps"][0]["out_per_s"] > 0 else None
        told = self.until(moves, "packets")
        self.assertEqual([row["pid"] for row in told["processes"]], [client.pid])
        self.assertEqual(told["processes"][0]["program"], "ib_write_bw")
        self.assertEqual((told["qps"][0]["peer_address"], told["qps"][0]["way"]), ("fd77::1", "roce"))
        self.assertGreaterEqual(told["seconds"], 0.3)
        second = self.client.start(which("ibv_asyncwatch"), "-d", self.device)
        self.until(lambda: any(row["pid"] == second.pid for row in self.told("top", "--interval", "0.1")["processes"]), "two processes")
        for key, wanted in (("program", [client.pid, second.pid]), ("pid", sorted([client.pid, second.pid]))):
            self.assertEqual([row["pid"] for row in self.told("top", "--interval", "0.1", "--sort", key)["processes"]], wanted, key)
        self.assertEqual(self.verbena("top", "--sort", "colour").code, 2)
        table = self.verbena("res", "qp", "--pid", str(client.pid)).out
        self.assertRegex(table, r"(?m)^    0x\w{6}  RC .* 0x\w{6}  0x\w{6}  0x\w{6}  0x\w{6}  ")


@expand
class InstalledHelp(Installing):
    @across(["lo_v4"])
    def test_documents_are_there(self):
        """What the help and the manual pages of an installation cite was installed with it."""
        prefix = self.folder()
        self.install(prefix, "", clients.staged.build)
        cited = set()
        overview = self.client.run(prefix + "/bin/verbena", "help").out.splitlines()
        for name in [line.split()[0] for line in overview if line.startswith("  ") and line[2] != " "]:
            result = self.client.run(prefix + "/bin/verbena", name, "--help")
            self.assertNotRegex(result.out, r"(^|[^/\w])docs/")
            cited |= set(re.findall(r"/[^\s()]+\.md", result.out))
        for directory, _, names in os.walk(prefix + "/share/man"):
            for name in names:
                with open(os.path.join(directory, name)) as page:
                    text = page.read().replace("\\-", "-")
                self.assertNotRegex(text, r"(^|[^/\w])docs/", name)
                cited |= set(re.findall(r"/[^\s()]+\.md", text))
        self.assertGreaterEqual({os.path.basename(path) for path in cited},
                                {"explain.md", "same-host.md", "faults.md", "infiniband.md", "congestion.md"})
        for path in cited:
            self.assertTrue(os.path.isfile(path), path)

    @across(["lo_v4"])
    def test_documents_find_each_other(self):
        """Every link from one installed document to another leads to a file, examples and pictures among them."""
        prefix = self.folder()
        self.install(prefix, "", clients.staged.build)
        links, lost = 0, []
        for directory, _, names in os.walk(prefix + "/share/doc"):
            for name in names:
                if not name.endswith(".md"):
                    continue
                with open(os.path.join(directory, name), encoding="utf-8") as file:
                    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", file.read()):
                        links += 1
                        if not os.path.exists(os.path.join(directory, target)):
                            lost.append("%s: %s" % (name, target))
        self.assertEqual(lost, [])
        self.assertGreater(links, 200)


@expand
class Hostile(Looking):
    """What files, peers and other programs are called reaches no terminal as it is: a terminal obeys control characters."""
    NAME = "x\x1b[2J\x07\x9by"

    def setUp(self):
        super().setUp()
        self.folder = tempfile.mkdtemp(prefix="hostile-", dir=self.network.runtime)
        os.chmod(self.folder, 0o777)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, 0o644)
        return path

    def assert_shown(self, out, mark):
        self.assertIn(mark, out)
        self.assertNotRegex(out, "[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffd]")

    @across(["lo_v4"])
    def test_lab(self):
        """The exercise that a Makefile names, and what make and the compiler say."""
        self.write("Makefile", "LAB = %s\n" % self.NAME)
        self.assert_shown(self.verbena("lab", "check", self.folder).out, "says LAB = x\\x1b[2J\\x07\\xc2\\x9by,")
        self.write("Makefile", "LAB = file\nsender:\n\t@echo 'sender.c:1: error: %s'; exit 1\n" % self.NAME)
        out = self.verbena("lab", "check", self.folder).out
        if "cannot be built here" in out:
            self.skipTest(out)
        self.assert_shown(out, "error: x\\x1b[2J")

    @across(["lo_v4"])
    def test_names_of_programs(self):
        """In res, stat, status and top, and in the ladder of a capture."""
        capture = os.path.join(self.folder, "x.pcapng")
        command = ["bash", "-c", 'exec -a "$0" "$@"', "x\x9b2Jy", which("ibv_rc_pingpong"), "-d", self.device, "-g", str(self.gids[0])]
        server = self.server.start(clients.staged.verbena, "run", "--wire=rocev2", "--capture", capture, *command)
        self.assertTrue(server.wait_until(lambda process: process.listens(TCP_PORT)), server.output())
        for words in (("res",), ("stat",), ("status",), ("top", "--once", "--interval", "0.1")):
            with self.subTest(words=words):
                self.assert_shown(self.verbena(*words).out, "x\\xc2\\x9b2Jy")
        self.client.run(clients.staged.verbena, "run", "--wire=rocev2", *command[4:], self.address)
        self.assertEqual(server.wait(self.TIMEOUT).code, 0, server.output())
        self.assert_shown(self.verbena("ladder", capture, "--text", "-").out, "SEND")

    @across(["lo_v4"])
    def test_names_of_interfaces(self):
        """Of seven bits verbenad takes none such; of eight, as UTF-8, it does."""
        self.client.ip("link", "add", "e\x9b2J", "type", "veth", "peer", "name", "p0")
        self.client.ip("link", "set", "e\x9b2J", "up")
        for words in (("devices",), ("doctor",)):
            with self.subTest(words=words):
                self.assert_shown(self.verbena(*words).out, "e\\xc2\\x9b2J")

    @across(["lo_v4"])
    def test_fabric(self):
        """Nodes of a topology, and its mistakes."""
        file = self.write("topology", 'Switch 4 "S1" # "%s"\n' % self.NAME)
        up = self.client.start(clients.staged.verbena, "fabric", "up", file)
        self.assertTrue(up.wait_until(lambda process: "UDP port 14791" in process.output()), up.output())
        self.assert_shown(self.verbena("fabric", "show").out, "x\\x1b[2J")
        up.kill()
        self.assert_shown(self.verbena("fabric", "up", self.write("topology", "%s\n" % self.NAME)).out, "neither a node")

    @across(["lo_v4"])
    def test_experiment(self):
        result = self.verbena("fabric", "simulate", self.write("x.toml", 'name = "x"\ntitle = "\\u001b[2J"\nnonsense = "\\u001b[2J"\n'))
        if "cannot simulate" in result.out or "built without" in result.out:
            self.skipTest(result.out)
        self.assertNotRegex(result.out, "[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffd]")
