# SPDX-License-Identifier: MIT
"""The house style, as far as a program can judge it. What may include what is checked by tests/check-layers.sh."""

import os
import re
import subprocess
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


class Style(unittest.TestCase):
    def files(self):
        """Our C files: those of the repository, or of an unpacked tarball."""
        listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard"], text=True,
                                capture_output=True).stdout.split()
        if not listed:
            for directory, folders, names in os.walk(ROOT):
                folders[:] = [name for name in folders if not name.startswith((".", "build"))]
                listed += [os.path.relpath(os.path.join(directory, name), ROOT) for name in names]
        found = [path for path in listed if path.endswith((".c", ".h")) and os.path.exists(os.path.join(ROOT, path))]
        self.assertGreater(len(found), 50)
        return found

    def test_the_picture_of_rooms_is_true(self):
        """Which room knows which: docs/architecture.md has it as tests/check-layers.sh enforces it."""
        told = subprocess.run([os.path.join(ROOT, "tests", "check-layers.sh"), "--rooms"], check=True, text=True, capture_output=True).stdout
        self.assertGreater(len(told.splitlines()), 20)
        with open(os.path.join(ROOT, "docs", "architecture.md")) as file:
            self.assertIn("```\n" + told + "```\n", file.read())

    def test_limits(self):
        """900 lines, a licence in the first line, and columns: 120 is the aim, 140 (tabs of eight) the limit."""
        wrong = []
        for path in self.files():
            with open(os.path.join(ROOT, path)) as file:
                lines = file.read().split("\n")
            if "SPDX-License-Identifier: MIT" not in lines[0]:
                wrong.append("%s: no licence line" % path)
            if len(lines) > 901:
                wrong.append("%s: %d lines" % (path, len(lines)))
            for number, line in enumerate(lines, 1):
                if len(line.expandtabs(8)) > 140:
                    wrong.append("%s:%d: longer than 140 columns" % (path, number))
        self.assertEqual("\n".join(wrong), "")

    def test_nothing_is_left_for_later(self):
        """No marks of unfinished work."""
        marks = re.compile(r"\b(%s)\b" % "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK")))
        wrong = []
        for path in self.files():
            with open(os.path.join(ROOT, path)) as file:
                for number, line in enumerate(file, 1):
                    if marks.search(line):
                        wrong.append("%s:%d: %s" % (path, number, line.strip()))
        self.assertEqual("\n".join(wrong), "")

    def test_documents_name_what_is_there(self):
        """Files and functions of ours that a document names in backquotes are in the tree."""
        listed = self.files()
        names = set()
        for path in listed:
            with open(os.path.join(ROOT, path)) as file:
                names |= set(re.findall(r"\b(?:vb|VB)_\w+", file.read()))
        wrong, looked = [], 0
        for directory, _, found in os.walk(os.path.join(ROOT, "docs")):
            for name in sorted(found):
                if not name.endswith(".md"):
                    continue
                with open(os.path.join(directory, name)) as file:
                    quoted = " ".join(re.findall(r"`([^`\n]+)`", file.read()))
                for path in re.findall(r"[\w-]+(?:/[\w-]+)+\.[ch]\b", quoted):
                    looked += 1
                    if not re.search(r"[A-Z]|^infiniband/|^rdma/", path) and not any(("/" + one).endswith("/" + path) for one in listed):
                        wrong.append("%s: %s" % (name, path))
                wrong += ["%s: %s" % (name, one) for one in re.findall(r"\b(?:vb|VB)_\w+", quoted)
                          if one not in names and not any(known.startswith(one) for known in names)]
        self.assertGreater(looked, 20)
        self.assertEqual("\n".join(wrong), "")

    # Words that we had for what the field has a word for, and what to write instead (docs/architecture.md, section Words).
    RETIRED = {"board": "shared segment", "verdict": "result, action, status", "bury": "reap", "stranger": "by meaning: attacker, foreign frame",
               "door": "access, handover", "beckon": "has work", "heed": "watch", "stance": "path", "weigh": "examine, update", "shelf": "reorder buffer",
               "outbox": "tx batch", "voice": "lane", "middles": "middle packets", "bell": "doorbell, wake_fd", "bedroom": "waiters",
               "goodbye": "disconnect", "loser": "drop filter", "teller": "client", "repair": "selective retransmit", "epoch": "generation",
               "in vain": "an empty CQ", "whoever": "thread, peer, process", "nobody": "no thread, no peer", "somebody": "a thread, a peer",
               "anybody": "a thread, a peer"}
    KEPT = {"cli/": ("verdict",)}  # of `verbena doctor`: what its JSON calls it

    def retired_in(self, path, text):
        """Where comments and names of that text have such a word. What users read, in quotes, is left alone."""
        kept = {word for folder, words in self.KEPT.items() if path.startswith(folder) for word in words}
        text = re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', text)
        pattern = re.compile(r"(?<![a-z])(%s)(?:s|ed|s?_\w*)?(?![a-z])" % "|".join(self.RETIRED), re.I)
        return ["%s:%d: %s: %s" % (path, number, found.group(), self.RETIRED[found.group(1).lower()])
                for number, line in enumerate(text.split("\n"), 1) for found in pattern.finditer(line)
                if found.group(1).lower() not in kept]

    def test_hot_functions_are_there(self):
        """lib/hot-functions.txt names functions of ours, each once: one that was renamed would lie elsewhere, and nobody would see it."""
        with open(os.path.join(ROOT, "lib", "hot-functions.txt")) as file:
            names = [line.strip() for line in file if not line.startswith("#")]
        self.assertGreater(len(names), 100)
        self.assertEqual(len(names), len(set(names)))
        words = set()
        for path in self.files():
            if path.startswith("src/"):
                with open(os.path.join(ROOT, path)) as file:
                    words.update(re.findall(r"\b\w+(?=\)?\()", file.read()))
        self.assertEqual([name for name in names if re.sub("_(three|wide)$", "", name) not in words], [])

    def test_retired_words_stay_away(self):
        """The libraries, the daemon and the command are written in the field's words."""
        wrong = []
        for path in self.files():
            if path.startswith(("src/", "lib/", "daemon/", "cli/")):
                with open(os.path.join(ROOT, path)) as file:
                    wrong += self.retired_in(path, os.path.basename(path) + " " + file.read())
        self.assertEqual("\n".join(wrong), "")

    def test_retired_words_are_found(self):
        """In names, in capitals, in comments and names of files; not within other words, nor in quotes."""
        for text in ("struct vb_board_qp *qp;", "VB_BOARDS_MOST", "/* Nobody waits. */", "is_stranger(a)", "polled in vain", "boards.c"):
            self.assertEqual(len(self.retired_in("src/x.c", text)), 1, text)
        for text in ("keyboard", "vb_doorbells_ring(a)", 'say("nobody listens")', "instance", "indoors"):
            self.assertEqual(self.retired_in("src/x.c", text), [], text)
        self.assertEqual(self.retired_in("cli/doctor.h", "enum vb_cli_verdict"), [])

    def test_every_lock_has_a_rank(self):
        """The ranks are those of the table in docs/architecture.md, in its order, all in use; nothing locks past them."""
        with open(os.path.join(ROOT, "src/base/lock_order.h")) as file:
            ranks = re.findall(r'^\tRANK\((\w+), "([^"]+)"\)', file.read(), re.M)
        with open(os.path.join(ROOT, "docs/architecture.md")) as file:
            section = file.read().split("\n## Locks\n")[1].split("\n## ")[0]
        self.assertGreater(len(ranks), 20)
        self.assertEqual([name for _, name in ranks], re.findall(r"^\| `([^`]+)` \|", section, re.M))
        calls = re.compile(r"\bpthread_(mutex_(try|timed)?lock|rwlock_\w+|spin_\w+|cond_(timed|clock)?wait)\b")
        wrappers = ("src/base/lock.c", "src/base/mutex.h", "src/verbs/public_mutex.h")
        wrong, used = [], set()
        for path in self.files():
            if not path.startswith("src/") or path.startswith("src/base/lock_order."):
                continue
            with open(os.path.join(ROOT, path)) as file:
                text = file.read()
            used |= set(re.findall(r"\bVB_RANK_([A-Z_]+)\b", text))
            if path not in wrappers and calls.search(text):
                wrong.append("%s: %s" % (path, calls.search(text).group()))
        self.assertEqual(wrong, [])
        self.assertEqual(sorted({rank for rank, _ in ranks} - used), [])

    # What an engine's headers declare is for its own room and its links; and for these.
    MAY_NAME = {"cli/names.c": ("vb_roce_algorithms",)}  # the names of what `verbena` shows as numbers
    ENGINES = {"roce": ("src/roce/", "src/links/udp/", "src/links/fabric/"), "local": ("src/local/", "src/links/memory/"),
               "iwarp": ("src/iwarp/", "src/links/tcp/")}

    def names_of(self, engine, room, texts):
        """Identifiers of an engine's own: those of its headers that the formats of the wire do not have."""
        pattern = re.compile(r"\b(?:vb_%s|VB_%s)_\w+" % (engine, engine.upper()))
        declared = {name for path, text in texts.items() if path.startswith(room) and path.endswith(".h") for name in pattern.findall(text)}
        shared = {name for path, text in texts.items() if path.startswith(("src/wire/", "src/profiles/")) and
                  path.endswith(".h") for name in pattern.findall(text)}
        return declared - shared

    def test_no_transport_is_named_elsewhere(self):
        """No file of the libraries, the daemon and the command names an engine but those of its room and of its link."""
        texts = {}
        for path in self.files():
            if path.startswith(("src/", "daemon/", "cli/")):
                with open(os.path.join(ROOT, path)) as file:
                    texts[path] = file.read()
        wrong = []
        for engine, own in self.ENGINES.items():
            names = self.names_of(engine, own[0], texts)
            self.assertGreater(len(names), 5, engine)
            found = re.compile(r"\b(?:%s)\b" % "|".join(sorted(names)))
            wrong += ["%s: %s" % (path, name) for path, text in sorted(texts.items()) if not path.startswith(own)
                      for name in sorted(set(found.findall(text)) - set(self.MAY_NAME.get(path, ())))]
        self.assertEqual("\n".join(wrong), "")
