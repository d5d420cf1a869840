# SPDX-License-Identifier: MIT
"""`make install` into a folder, and the demo: what a new user does first."""

import fnmatch
import os
import re
import shutil
import signal
import subprocess
import tempfile

from pylib import clients
from pylib.clients import ClientCase, across, expand, which

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))

PROGRAM = """
#include <infiniband/verbs.h>
#include <stdio.h>
int main(void)
{
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);
	for (int i = 0; i < count; i++)
		puts(ibv_get_device_name(list[i]));
	ibv_free_device_list(list);
	return count == 0;
}
"""


class Installing(ClientCase):
    def install(self, prefix, destdir, build=None):
        done = subprocess.run([os.path.join(ROOT, "scripts", "install-files"), build or clients.staged.root, prefix, destdir],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def folder(self):
        path = tempfile.mkdtemp(prefix="verbena-install-")
        self.addCleanup(shutil.rmtree, path, True)
        os.chmod(path, 0o755)
        return path


@expand
class Install(Installing):
    @across(["lo_v4"])
    def test_destdir(self):
        """A package's root: every file in its place, none of them naming the root."""
        root = self.folder()
        self.install("/usr", root)
        for path in ("bin/verbena", "bin/verbenad", "lib/verbena/libibverbs.so.1", "lib/verbena/libibverbs.so",
                     "lib/verbena/librdmacm.so.1", "lib/verbena/libverbena-view.so", "lib/verbena/libverbena-sockets.so",
                     "lib/verbena/pkgconfig/verbena.pc", "lib/verbena/pkgconfig/libibverbs.pc",
                     "lib/verbena/pkgconfig/librdmacm.pc", "lib/systemd/system/verbenad.service", "lib/systemd/system/verbenad.socket", "lib/sysusers.d/verbena.conf",
                     "share/verbena/demo", "share/man/man1/verbena.1", "share/man/man8/verbenad.8",
                     "share/bash-completion/completions/verbena"):
            self.assertTrue(os.path.exists(os.path.join(root, "usr", path)), path)
        for directory, _, names in os.walk(root):
            for name in names:
                if name.endswith((".pc", ".service", ".conf")):
                    with open(os.path.join(directory, name)) as file:
                        text = file.read()
                    self.assertNotIn(root, text)
                    self.assertNotRegex(text, r"@[A-Z_]+@", name)

    @across(["lo_v4"])
    def test_packages_have_every_file(self):
        """Each file that is installed is in exactly one package of Debian and in one of the RPM spec; each line there stands for a file."""
        root = self.folder()
        self.install("/usr", root, clients.staged.build)
        there = {os.path.relpath(os.path.join(directory, name), root) for directory, _, names in os.walk(root) for name in names}
        there.discard("usr/share/verbena/installed-files")
        debian = {}
        for name in ("libverbena", "libverbena-dev", "verbena", "verbena-doc"):
            with open(os.path.join(ROOT, "packaging", "debian", name + ".install")) as file:
                debian[name] = file.read().split()
        with open(os.path.join(ROOT, "packaging", "verbena.spec")) as file:
            spec = file.read()
        macros = {"%{_prefix}": "usr", "%{_bindir}": "usr/bin", "%{_datadir}": "usr/share", "%{_mandir}": "usr/share/man"}
        rpm = {}
        for name, text in re.findall(r"^%files ?(\S*)\n((?:.+\n)+)", spec, re.M):
            for macro, path in macros.items():
                text = text.replace(macro, path)
            rpm[name or "main"] = [line for line in text.splitlines() if not line.startswith("%")]
        self.assertEqual(set(rpm), {"main", "devel"})
        for packages in (debian, rpm):
            lines = [line for lines in packages.values() for line in lines]
            unused, homes = set(lines), dict.fromkeys(there, 0)
            for path in there:
                for line in lines:
                    if fnmatch.fnmatchcase(path, line) or path.startswith(line + "/"):
                        unused.discard(line)
                        homes[path] += 1
            self.assertEqual([path for path, count in homes.items() if count != 1], [])
            self.assertEqual(unused, set())

    @across(["lo_v4"])
    def test_daemon_is_hardened(self):
        """Position independent, and no table of functions is writable once it runs."""
        said = subprocess.run(["readelf", "-hldW", os.path.join(clients.staged.root, "bin", "verbenad")], capture_output=True,
                              text=True).stdout
        for mark in ("DYN (", "GNU_RELRO", "NOW"):
            self.assertIn(mark, said)

    @across(["lo_v4"])
    def test_installed_tree_works(self):
        """`verbena run` finds the libraries of an installation, and they find their daemon."""
        prefix = self.folder()
        self.install(prefix, "")
        result = self.client.run(prefix + "/bin/verbena", "run", which("ibv_devices"), environment={"LD_LIBRARY_PATH": ""})
        self.assertEqual(result.code, 0, result)
        self.assertIn("roce_lo", result.out)

    @across(["lo_v4"])
    def test_uninstall(self):
        """Every file that was installed goes, those of others stay; a second time there is nothing to take away."""
        root = self.folder()
        os.makedirs(root + "/usr/lib/verbena")
        others = {"lib/verbena/local.conf", "bin/other"}
        os.makedirs(root + "/usr/bin")
        for name in others:
            with open(os.path.join(root, "usr", name), "w"):
                pass
        self.install("/usr", root, clients.staged.build)
        uninstall = [os.path.join(ROOT, "scripts", "uninstall-files"), "/usr", root]
        done = subprocess.run(uninstall, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        left = {os.path.relpath(os.path.join(directory, name), root + "/usr")
                for directory, _, names in os.walk(root) for name in names}
        self.assertEqual(left, others)
        self.assertFalse(os.path.exists(root + "/usr/share/doc/verbena"))
        again = subprocess.run(uninstall, capture_output=True, text=True)
        self.assertEqual(again.returncode, 1, again.stdout + again.stderr)

    @across(["lo_v4"])
    def test_pkg_config(self):
        """A program linked by our pkg-config file uses our library without any environment."""
        prefix = self.folder()
        self.install(prefix, "")
        source, program = prefix + "/list.c", prefix + "/list"
        with open(source, "w") as file:
            file.write(PROGRAM)
        environment = {**os.environ, "PKG_CONFIG_PATH": prefix + "/lib/verbena/pkgconfig"}
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "libibverbs"], env=environment, check=True, text=True,
                               capture_output=True).stdout.split()
        subprocess.run(["gcc", source, "-o", program, *flags], check=True)
        result = self.client.run(program, environment={"LD_LIBRARY_PATH": ""})
        self.assertEqual(result.code, 0, result)
        self.assertIn("roce_lo", result.out)


@expand
class Demo(Installing):
    CORES = 2    # two programs that talk to each other, within a minute each

    @across(["lo_v4"])
    def test_demo(self):
        """`verbena demo` of an installation, as an ordinary user: both programs work, and the summary says with what."""
        prefix = self.folder()
        self.install(prefix, "")
        result = self.client.run(prefix + "/bin/verbena", "demo", environment={"LD_LIBRARY_PATH": ""})
        self.assertEqual(result.code, 0, result)
        self.assertIn("No RDMA hardware and no kernel module was used, and no privilege.", result.out)
        self.assertIn(prefix + "/lib/verbena/libibverbs.so.1", result.out)
        self.assertNotIn("make test", result.out)
        self.assertRegex(result.out, r"/usr/bin/ibv_rc_pingpong\s+\(ibverbs-utils ")
        self.assertRegex(result.out, r"/usr/bin/ib_write_bw\s+\(perftest ")
        self.assertRegex(result.out, r"\n +\S*/bin/verbena devices ")
        # Where it is found by its name, that is what to type.
        result = self.client.run(prefix + "/bin/verbena", "demo", environment={"LD_LIBRARY_PATH": "", "PATH": prefix + "/bin:" + os.environ["PATH"]})
        self.assertEqual(result.code, 0, result)
        self.assertRegex(result.out, r"\n +verbena devices ")

    @across(["lo_v4"])
    def test_demo_as_root(self):
        """Root is named as who started it, and not as what it needs."""
        if os.environ.get("VERBENA_TEST_INSIDE"):
            self.skipTest("only root can be several users")
        self.until(lambda: not self.client.pids(), "the first daemon has left")
        prefix = self.folder()
        self.install(prefix, "")
        result = self.client.run(prefix + "/bin/verbena", "demo", environment={"LD_LIBRARY_PATH": ""}, privileged=True)
        self.assertEqual(result.code, 0, result)
        self.assertIn("root, who started the demo; an ordinary user sees the same", result.out)
        self.assertNotRegex(result.out, "(?i)no root")

    @across(["lo_v4"])
    def test_port_taken(self):
        """With somebody else on port 4791 the demo says so."""
        # The daemon that answered while this place was set up must leave first.
        self.client.signal_all(number=signal.SIGTERM)
        self.until(lambda: not self.client.pids(), "the daemon has left")
        thief = self.client.start("python3", "-u", "-c",
                                  "import socket, time\n"
                                  "for family in (socket.AF_INET, socket.AF_INET6):\n"
                                  "    s = socket.socket(family, socket.SOCK_DGRAM); globals()[str(family)] = s\n"
                                  "    if family == socket.AF_INET6: s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)\n"
                                  "    s.bind(('', 4791))\n"
                                  "print('bound')\ntime.sleep(600)")
        self.assertTrue(thief.wait_until(lambda process: "bound" in process.output()), thief.output())
        script = os.path.join(clients.staged.root, "demo")
        shutil.copy(os.path.join(ROOT, "scripts", "demo"), script)
        result = self.client.run("python3", script, clients.staged.root)
        self.assertEqual(result.code, 1, result)
        self.assertIn("4791", result.out)
