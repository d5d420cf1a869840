# SPDX-License-Identifier: MIT
"""The Dockerfile and the workflows of docs/ci.md, which cannot be run here: what they name is there."""

import os
import re
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


def text_of(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def installed_by(text):
    """The packages of each `apt-get install` in it, a set for each."""
    joined = text.replace("\\\n", " ")
    found = re.findall(r"apt-get install (.*?)(?:&&|$)", joined, re.M)
    return [{word for word in words.split() if not word.startswith("-")} for words in found]


class Packaging(unittest.TestCase):
    def packages(self):
        return set(re.findall(r"^Package: (\S+)", text_of("packaging", "debian", "control"), re.M))

    def test_dockerfile(self):
        """It builds with what the packages want for building, copies from the stage and folder that it built in, and is no root's."""
        text = text_of("Dockerfile")
        build, run = installed_by(text)
        control = text_of("packaging", "debian", "control")
        wanted = re.search(r"^Build-Depends:\n((?: .*\n)+)", control, re.M).group(1)
        wanted = {re.split(r"[ :(]", line.strip().rstrip(","))[0] for line in wanted.splitlines()} - {"debhelper-compat"}
        self.assertLessEqual(wanted | {"debhelper"}, build)
        script = text_of("scripts", "install-packages")
        self.assertLessEqual(set(re.search(r'^build="(.*)"', script, re.M).group(1).split()), build)
        self.assertLessEqual({"/packages/libverbena_*.deb", "/packages/verbena_*.deb", "ibverbs-utils", "perftest", "python3"}, run)
        for name in re.findall(r"/packages/([a-z-]+)_", text):
            self.assertIn(name, self.packages())
        for path in re.findall(r"/source/(\S+)", text):
            self.assertTrue(os.access(os.path.join(ROOT, path), os.X_OK), path)
        self.assertIn("COPY --from=build /packages/*.deb /packages/", text)
        self.assertIn("FROM debian:bookworm-slim AS build\n", text)
        self.assertLess(text.index("useradd --create-home verbs"), text.index("USER verbs"))

    def test_workflows(self):
        """Targets, packages, options and files that they name exist; what one of them installs, the other does."""
        text = text_of("docs", "ci.md")
        blocks = re.findall(r"^```yaml\n(.*?)^```$", text, re.S | re.M)
        self.assertEqual(len(blocks), 2)
        self.assertEqual(installed_by(blocks[0])[0], installed_by(blocks[1])[0])
        makefile, help_text = text_of("Makefile"), text_of("cli", "run.c")
        for block in blocks:
            self.assertNotIn("\t", block)
            for target in re.findall(r"make -C verbena (\w+)", block):
                self.assertRegex(makefile, r"(?m)^%s:" % target)
            for name in re.findall(r"build/deb/([a-z-]+)_", block):
                self.assertIn(name, self.packages())
            for command in re.findall(r"\bverbena (run|doctor)\b", block):
                self.assertTrue(os.path.exists(os.path.join(ROOT, "cli", command + ".c")))
            for option in re.findall(r"verbena run (--\w+)", block):
                self.assertIn(option, help_text)

    def test_versions(self):
        """One version everywhere."""
        version = re.search(r"^ *version: '([^']*)'", text_of("meson.build"), re.M).group(1)
        self.assertEqual(re.search(r"^verbena \(([^)]*)\)", text_of("packaging", "debian", "changelog")).group(1), version)
        self.assertEqual(re.search(r"^Version: *(\S+)", text_of("packaging", "verbena.spec"), re.M).group(1), version)

    def test_unit(self):
        """systemd takes from the system's daemon what it does not need, and gives it the two capabilities that it does."""
        lines = text_of("daemon", "verbenad.service").splitlines()
        settings = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith(("#", "SystemCallFilter")))
        for name in ("NoNewPrivileges", "ProtectHome", "PrivateTmp", "PrivateDevices", "MemoryDenyWriteExecute", "LockPersonality",
                     "ProtectClock", "ProtectControlGroups", "ProtectHostname", "ProtectKernelLogs", "ProtectKernelModules",
                     "ProtectKernelTunables", "RestrictNamespaces", "RestrictRealtime", "RestrictSUIDSGID"):
            self.assertEqual(settings.get(name), "yes", name)
        self.assertEqual(settings["ProtectSystem"], "strict")
        self.assertEqual(settings["User"], "verbena")
        for name in ("CapabilityBoundingSet", "AmbientCapabilities"):
            self.assertEqual(settings[name], "CAP_NET_ADMIN CAP_NET_BIND_SERVICE")
        self.assertEqual(set(settings["RestrictAddressFamilies"].split()), {"AF_UNIX", "AF_INET", "AF_INET6", "AF_NETLINK"})
        filters = [line.split("=", 1)[1] for line in lines if line.startswith("SystemCallFilter")]
        self.assertEqual(filters[0], "@system-service")
        self.assertLessEqual({"@mount", "@module", "@raw-io", "@debug", "@reboot"}, set(filters[1].lstrip("~").split()))
