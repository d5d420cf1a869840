# SPDX-License-Identifier: MIT
"""The view that `verbena run` gives: programs that look for devices in /sys and /dev find ours there."""

import json
import os
import re
import shutil
import subprocess
import tempfile

from pylib import clients
from pylib.clients import ClientCase, across, expand, which

# One that looks by every call that names a file, old names and new, and tells what it finds.
LOOK = r"""
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int all(const struct dirent *entry) { return entry->d_name[0] != '.'; }

#define CHECK(what) do { if (!(what)) { printf("not so: %s: %s\n", #what, strerror(errno)); wrong = 1; } } while (0)

int main(int argc, char **argv)
{
	static const char state[] = "/sys/class/infiniband/roce_lo/ports/1/state";
	char path[PATH_MAX], text[PATH_MAX];
	struct dirent **list;
	struct stat status;
	struct statx more;
	int wrong = 0, fd, at;
	FILE *file;

	(void)argc;
	CHECK((fd = open(state, O_RDONLY)) >= 0 && read(fd, text, 10) == 10 && !memcmp(text, "4: ACTIVE\n", 10));
	CHECK((file = fopen(state, "r")) && fgets(text, sizeof(text), file) && !strcmp(text, "4: ACTIVE\n"));
	CHECK(openat(AT_FDCWD, state, O_RDONLY) >= 0);
	CHECK((at = open("/", O_RDONLY)) >= 0 && openat(at, "sys/class/infiniband", O_RDONLY) >= 0);
	CHECK((at = open("/sys/class", O_RDONLY)) >= 0 && (at = openat(at, "infiniband", O_RDONLY)) >= 0);
	CHECK(openat(at, "roce_lo/node_guid", O_RDONLY) >= 0 && fstatat(at, "roce_lo", &status, 0) == 0);
	CHECK(chdir("/sys/class") == 0 && opendir("infiniband") && access("infiniband/roce_lo", R_OK) == 0);
	CHECK(opendir("/sys/class/infiniband") && scandir("/sys/class/infiniband", &list, all, alphasort) == atoi(argv[1]));
	CHECK(stat("/dev/infiniband/uverbs1", &status) == 0 && S_ISCHR(status.st_mode));
	CHECK(access("/dev/infiniband/uverbs1", R_OK | W_OK) == 0 && open("/dev/infiniband/uverbs1", O_RDWR) >= 0);
	CHECK(statx(AT_FDCWD, "/dev/infiniband/rdma_cm", 0, STATX_TYPE, &more) == 0 && S_ISCHR(more.stx_mode));
	CHECK(lstat("/sys/class/infiniband/roce_lo", &status) == 0 && S_ISLNK(status.st_mode));
	CHECK(readlink("/sys/class/infiniband/roce_lo", text, sizeof(text)) == 40);
	CHECK(realpath("/sys/class/infiniband/roce_lo", path) && !strcmp(path, "/sys/devices/virtual/infiniband/roce_lo"));
	CHECK(realpath("/sys/class/infiniband/roce_lo/device", path) && !strncmp(path, "/sys/devices/virtual/verbena/", 29));
	CHECK(access(path, R_OK) == 0 && path[strlen(path) - 1] == '0');
	errno = 0;
	CHECK(open("/sys/class/infiniband/mlx5_0", O_RDONLY) < 0 && errno == ENOENT);
	CHECK(open(state, O_WRONLY) < 0 && errno == EACCES);
	CHECK(open("/etc/passwd", O_RDONLY) >= 0 && stat("/sys/class/net/lo", &status) == 0);
	errno = 0;
	CHECK(open("/no/infiniband", O_RDONLY) < 0 && errno == ENOENT);
	return wrong;
}
"""


class ViewCase(ClientCase):
    def verbena(self, *argv, **more):
        more["environment"] = {"LD_LIBRARY_PATH": "", **more.get("environment", {})}
        return self.client.run(clients.staged.verbena, "run", *argv, **more)

    def see(self, *argv, **more):
        result = self.verbena(*argv, **more)
        self.assertEqual(result.code, 0, result)
        return result.out.rstrip("\n")

    def compile(self, source, *options):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        os.chmod(folder.name, 0o755)
        program = os.path.join(folder.name, "program")
        subprocess.run(["gcc", "-xc", "-", "-o", program, "-D_GNU_SOURCE", *options], input=source, text=True, check=True)
        return program


@expand
class View(ViewCase):
    @across(["veth1500_v4"])
    def test_the_files_say_what_libibverbs_says(self):
        """Names, GUIDs, states, GIDs of the view are those of ibv_devinfo; every GID has its type and its interface."""
        told = self.see(which("ibv_devinfo"), "-v")
        listed = json.loads(self.client.run(clients.staged.verbena, "devices", "--json").out)
        self.assertEqual(set(self.see("ls", "/sys/class/infiniband").split()), {row["name"] for row in listed})
        for row in listed:
            path = "/sys/class/infiniband/" + row["name"]
            part = told[re.search(r"hca_id:\s+%s\n" % row["name"], told).end():]
            self.assertEqual(self.see("cat", path + "/node_guid"), re.search(r"node_guid:\s+(\S+)", part).group(1))
            self.assertEqual(self.see("cat", path + "/fw_ver"), re.search(r"fw_ver:\s+(.+)", part).group(1))
            self.assertEqual(self.see("sh", "-c", "cd %s && cat node_type ports/1/state ports/1/link_layer ports/1/pkeys/0" % path),
                             "1: CA\n4: ACTIVE\nEthernet\n0xffff")
            for gid in row["gids"]:
                words = self.see("sh", "-c", "cd %s/ports/1 && cat gids/%d gid_attrs/types/%d gid_attrs/ndevs/%d"
                                 % ((path,) + 3 * (gid["index"],))).splitlines()
                self.assertEqual(words[0].replace(":", ""), gid["gid"].replace(":", ""))
                self.assertEqual(words[1:], ["RoCE v2", row["interface"]])
            self.assertEqual(self.see("ls", path + "/device/net"), row["interface"])

    @across(["veth1500_v4"])
    def test_versions_of_roce(self):
        """With an adapter's profile each address has two GIDs; programs choose by the types that the view shows."""
        told = self.see("--profile", "mlx5", which("ibv_devinfo"), "-v", "-d", self.device)
        versions = re.findall(r"GID\[ *(\d+)\]:.*, (RoCE v[12])", told)
        self.assertEqual({version for _, version in versions}, {"RoCE v1", "RoCE v2"})
        for index, version in versions:
            self.assertEqual(self.see("--profile", "mlx5", "cat", "/sys/class/infiniband/%s/ports/1/gid_attrs/types/%s" % (self.device, index)),
                             version.replace("RoCE v1", "IB/RoCE v1"), index)

    @across(["veth1500_v4"])
    def test_an_rnic(self):
        """iWARP's device has the kernel's words for an RNIC, one GID, which is its MAC, and no P_Key, as ibv_devinfo tells of it."""
        device = "iwarp_" + self.device.split("_", 1)[1]
        path, see = "/sys/class/infiniband/" + device, lambda *argv: self.see("--iwarp", *argv)
        told = see(which("ibv_devinfo"), "-v", "-d", device)
        self.assertEqual(see("cat", path + "/node_type"), "4: RNIC")
        self.assertEqual(see("ls", path + "/ports/1/gids"), "0")
        mac = see("cat", "/sys/class/net/eth0/address").replace(":", "")
        self.assertEqual(see("cat", path + "/ports/1/gids/0").replace(":", ""), mac + 20 * "0")
        self.assertEqual(see("sh", "-c", "cd %s/ports/1/gid_attrs && cat types/* ndevs/*" % path), "IB/RoCE v1\neth0")
        self.assertNotIn("pkeys", see("ls", path + "/ports/1"))
        self.assertEqual(int(see("cat", path + "/ports/1/cap_mask"), 16), int(re.search(r"port_cap_flags:\s+(\S+)", told).group(1), 16))
        self.assertEqual(see("ls", path + "/device/net"), "eth0")

    @across(["lo_v4"])
    def test_every_call_that_names_a_file(self):
        """Old names of the C library's calls and new ones, as a plain, a fortified and a checked program uses them."""
        for options in (("-O0",), ("-O2", "-D_FORTIFY_SOURCE=2", "-D_FILE_OFFSET_BITS=64"), ("-O1", "-fsanitize=address,undefined")):
            program = self.compile(LOOK, *options)
            result = self.verbena(program, "1", environment={"ASAN_OPTIONS": "detect_leaks=0"})
            self.assertEqual(result.code, 0, (options, result))

    @across(["veth1500_v4"])
    def test_a_view_follows(self):
        """New addresses, another choice of devices: the next command sees them, and so does one that runs."""
        reader = self.client.start(clients.staged.verbena, "run", "sh", "-c",
                                   "until cat /sys/class/infiniband/roce_eth0/ports/1/gids/* | grep 0a63:0001; do sleep 0.05; done")
        self.client.ip("addr", "add", "10.99.0.1/24", "dev", "eth0")
        self.until(lambda: "0a63:0001" in self.see("sh", "-c", "cat /sys/class/infiniband/roce_eth0/ports/1/gids/*"), "a new GID")
        self.assertEqual(reader.wait(self.TIMEOUT).code, 0)
        self.assertEqual(self.see("--device", "roce_eth0", "ls", "/sys/class/infiniband"), "roce_eth0")

    @across(["veth1500_v4"])
    def test_loopback_is_not_offered_beside_another(self):
        """What uses every device it can open (UCX) or is named (NCCL) would take loopback for one that other hosts reach."""
        listed = json.loads(self.client.run(clients.staged.verbena, "devices", "--json").out)
        index = {row["name"]: row["interface_index"] for row in listed}
        self.assertEqual(set(self.see("ls", "/dev/infiniband").split()), {"rdma_cm", "uverbs%d" % index["roce_eth0"]})
        self.assertEqual(self.see("sh", "-c", "echo $NCCL_IB_HCA"), "^=roce_lo")
        self.assertEqual(self.see("--device", "roce_lo", "ls", "/dev/infiniband").split(), ["rdma_cm", "uverbs%d" % index["roce_lo"]])
        self.assertEqual(self.see("--device", "roce_lo", "sh", "-c", "echo $NCCL_IB_HCA"), "")

    @across(["veth1500_v4"])
    def test_views_that_nobody_needs_go(self):
        """When a new one is made: those of namespaces without a process of this user, and no others."""
        other = self.server.start(clients.staged.verbena, "run", "sleep", "1000")
        kept = os.path.join(self.network.runtime, "verbena-%d" % self.network.uid)

        def number_of_its_namespace():
            """Which it enters a moment after it was started."""
            return str(os.stat("/proc/%d/ns/net" % other.pid).st_ino)
        self.until(lambda: os.path.exists(os.path.join(kept, number_of_its_namespace(), "stamp")), other.output)
        number = number_of_its_namespace()
        self.see("true")
        abandoned = os.path.join(kept, "1")
        os.mkdir(abandoned)
        os.chown(abandoned, self.network.uid, self.network.uid)
        self.client.ip("addr", "add", "10.99.0.1/24", "dev", "eth0")
        self.until(lambda: self.see("true") == "" and not os.path.exists(abandoned), lambda: str(os.listdir(kept)))
        self.assertIn(number, os.listdir(kept))

    @across(["lo_v4"])
    def test_where_it_cannot_be(self):
        """--no-view leaves it out; without its library programs run all the same, and who asks is told why."""
        # The kernel may have devices of its own there.
        self.assertNotIn("roce_", self.verbena("--no-view", "ls", "/sys/class/infiniband").out)
        with tempfile.TemporaryDirectory() as tree:
            os.chmod(tree, 0o755)
            # Links: a program that was written here could not be run while a child of another thread, forked meanwhile, still has it open.
            shutil.copytree(clients.staged.root, tree, dirs_exist_ok=True, copy_function=os.link)
            os.unlink(tree + "/lib/libverbena-view.so")
            for options in ((), ("--explain",)):
                result = self.client.run(tree + "/bin/verbena", "run", *options, which("ibv_devices"), environment={"LD_LIBRARY_PATH": ""})
                self.assertEqual(result.code, 0, result)
                self.assertIn("roce_lo", result.out)
                self.assertEqual("libverbena-view.so" in result.out, bool(options), result)
            told = json.loads(self.client.run(tree + "/bin/verbena", "doctor", "--json").out)
            self.assertIn(("view", "warn"), {(row["check"], row["verdict"]) for row in told})

    @across(["lo_v4"])
    def test_a_directory_that_others_can_write_to(self):
        """It is not used, whoever made it: names in /tmp can be guessed."""
        self.network.own_tmp()
        open_to_all = os.path.join(self.network.runtime, "verbena-%d" % self.network.uid)
        os.mkdir(open_to_all)
        os.chmod(open_to_all, 0o777)
        self.assertFalse(self.see("sh", "-c", "echo $VERBENA_VIEW").startswith(open_to_all))
        self.assertEqual(os.listdir(open_to_all), [])

    @across(["lo_v4"])
    def test_no_library_for_it(self):
        """A static program is told of."""
        program = self.compile("int main(void) { return 7; }", "-static")
        result = self.verbena(program)
        self.assertEqual(result.code, 7, result)
        self.assertIn("linked statically", result.out)


@expand
class Programs(ViewCase):
    @across(["lo_v4", "veth1500_v4"])
    def test_ucx_info(self):
        """UCX lists both its transports over verbs on our device, and warns of nothing."""
        out = self.see(which("ucx_info"), "-d")
        for transport in ("rc_verbs", "ud_verbs"):
            self.assertRegex(out, r"Transport: %s\n#\s+Device: %s:1\n" % (transport, self.device))
        self.assertNotRegex(out, "WARN|ERROR")

    @across(["lo_v4", "veth1500_v4", "veth1500_v6"])
    def test_ucx(self):
        """Its RC (which comes up by UD) and its UD, small and large messages, with nothing said about devices."""
        if self.id().endswith("v6"):
            for host in (self.server, self.client):
                host.ip("-4", "addr", "flush", "dev", "eth0")
            self.address = "fd77::1"
        family = ["-6"] if ":" in self.address else []
        for transport in ("rc", "ud_verbs"):
            for test, size, count in (("tag_lat", 8, 100), ("tag_bw", 1 << 20, 10)):
                environment = {"LD_LIBRARY_PATH": "", "UCX_TLS": transport + ",self"}
                server = self.server.start(clients.staged.verbena, "run", which("ucx_perftest"), *family, environment=environment)
                if not server.wait_until(lambda process: process.listens(13337)):
                    self.fail("the server does not listen:\n%s" % server.wait(0))
                result = self.client.run(clients.staged.verbena, "run", which("ucx_perftest"), self.address, "-t", test, "-s", str(size),
                                         "-n", str(count), "-w", "2", "-f", *family, environment=environment)
                self.assertEqual(result.code, 0, "%s\n\n%s" % (result, server.wait(1)))
                # Where there are many processors ucx_perftest wants to be bound to one.
                complaints = [line for line in result.out.splitlines() if "CPU affinity" not in line]
                self.assertNotRegex("\n".join(complaints), "WARN|ERROR")
                self.assertEqual(server.wait(self.TIMEOUT).code, 0)

    @across(["veth1500_v4"])
    def test_ibstat(self):
        """Knows nothing but /sys: names both devices and their ports."""
        self.assertEqual(set(self.see("/usr/sbin/ibstat", "-l").split()), {"roce_lo", "roce_eth0"})
        out = self.see("/usr/sbin/ibstat", "roce_eth0")
        self.assertRegex(out, r"State: Active\n\s+Physical state: LinkUp\n")
        self.assertRegex(out, r"Link layer: Ethernet")

    @across(["lo_v4"])
    def test_through_memory(self):
        """The view does not take the way through memory from two programs of one host."""
        server = self.client.start(clients.staged.verbena, "run", which("ib_write_bw"), "-d", self.device, "-F", "--run_infinitely",
                                   "-x", str(self.gids[0]))
        if not server.wait_until(lambda process: process.listens(18515)):
            self.fail("the server does not listen:\n%s" % server.wait(0))
        self.client.start(clients.staged.verbena, "run", which("ib_write_bw"), "-d", self.device, "-F", "--run_infinitely",
                          "-x", str(self.gids[0]), self.address)

        def ways():
            told = self.client.run(clients.staged.verbena, "res", "qp", "--json").out
            return [row["way"] for process in json.loads(told[told.index("["):]) for row in process["qps"]]
        self.until(lambda: ways() == ["memory", "memory"], lambda: str(ways()))
