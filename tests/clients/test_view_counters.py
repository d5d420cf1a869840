# SPDX-License-Identifier: MIT
"""Counters in the view of `verbena run`: what scripts and exporters read in /sys/class/infiniband/DEVICE/ports/1."""

import os
import signal

from pylib import clients
from pylib.clients import TCP_PORT, across, expand, which
from test_view import ViewCase

MESSAGES, LENGTH = 500, 1024
# From the BTH to the ICRC: 12 + 16 (RETH) + LENGTH + 4.
LONGEST_PACKET = LENGTH + 32

# One that opens a counter by every call that opens files, by its whole path, from its directory and from another one.
OPEN = r"""
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER "/sys/class/infiniband/roce_lo/ports/1/hw_counters"
#define CHECK(what) do { if (!(what)) { printf("not so: %s: %s\n", #what, strerror(errno)); wrong = 1; } } while (0)

static int is_figure(int fd)
{
	char text[32] = "", *end;
	int good = fd >= 0 && read(fd, text, sizeof(text) - 1) > 1 && strtoull(text, &end, 10) < 1000000000 && end > text && !strcmp(end, "\n");

	close(fd);
	return good;
}

static int is_figure_stream(FILE *file)
{
	unsigned long long value;
	char end, more;
	int good = file && fscanf(file, "%llu%c", &value, &end) == 2 && end == '\n' && fread(&more, 1, 1, file) == 0;

	if (file)
		fclose(file);
	return good;
}

int main(void)
{
	struct stat status;
	char text[8];
	int wrong = 0, at, fd;

	CHECK(is_figure(open(FOLDER "/sent_pkts", O_RDONLY)));
	CHECK(is_figure(openat(AT_FDCWD, FOLDER "/sent_pkts", O_RDONLY | O_CLOEXEC)));
	CHECK(is_figure_stream(fopen(FOLDER "/sent_pkts", "r")) && is_figure_stream(fopen(FOLDER "/sent_pkts", "re")));
	CHECK(is_figure(open("/sys/class/infiniband/roce_lo/ports/1/counters/port_xmit_data", O_RDONLY)));
	CHECK((at = open(FOLDER, O_RDONLY | O_DIRECTORY)) >= 0 && is_figure(openat(at, "rcvd_pkts", O_RDONLY)));
	CHECK(chdir(FOLDER) == 0 && is_figure(open("rcvd_pkts", O_RDONLY)) && is_figure(open("../counters/link_downed", O_RDONLY)));
	CHECK(is_figure_stream(fopen("rdma_sends", "r")));
	/* The descriptor is as it was asked for. */
	CHECK((fd = open("sent_pkts", O_RDONLY | O_CLOEXEC)) >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC && close(fd) == 0);
	CHECK((fd = open("sent_pkts", O_RDONLY)) >= 0 && fcntl(fd, F_GETFD) == 0 && close(fd) == 0);
	/* From the beginning once more, as often as it is wanted; a descriptor that is another file's by now is left alone. */
	CHECK((fd = open("sent_pkts", O_RDONLY)) >= 0 && read(fd, text, 1) == 1 && lseek(fd, 0, SEEK_SET) == 0 && read(fd, text, 1) == 1);
	CHECK(pread(fd, text, sizeof(text), 0) > 1 && pread(fd, text, sizeof(text), 0) > 1 && text[0] >= '0' && text[0] <= '9');
	CHECK(dup2(at = open("/etc/passwd", O_RDONLY), fd) == fd && pread(fd, text, 5, 0) == 5 && !memcmp(text, "root:", 5));
	errno = 0;
	CHECK(open("sent_pkts", O_WRONLY) < 0 && errno == EACCES);
	CHECK(open("no_such_pkts", O_RDONLY) < 0 && errno == ENOENT);
	CHECK(fopen("sent_pkts", "r+") == NULL && errno == EACCES);
	CHECK(stat("sent_pkts", &status) == 0 && S_ISREG(status.st_mode) && (status.st_mode & 0777) == 0444 && access("sent_pkts", R_OK) == 0);
	/* A file of that name elsewhere is no counter. */
	CHECK(chdir(getenv("HOME")) == 0 && (fd = open("sent_pkts", O_RDWR | O_CREAT, 0600)) >= 0 && write(fd, "mine", 4) == 4);
	CHECK((fd = open("sent_pkts", O_RDONLY)) >= 0 && read(fd, text, sizeof(text)) == 4 && !memcmp(text, "mine", 4));
	unlink("sent_pkts");
	return wrong;
}
"""

# By pread(2), and by lseek(2) and read(2).
KEEP = """
import os, sys, time
first, second, last = os.open(sys.argv[1], os.O_RDONLY), os.open(sys.argv[1], os.O_RDONLY), None
while True:
    os.lseek(second, 0, os.SEEK_SET)
    now = int(os.pread(first, 100, 0)), int(os.read(second, 100))
    if now != last:
        print(*now)
    last = now
    time.sleep(0.02)
"""


@expand
class Counters(ViewCase):
    def figures(self, device=None, host=None, options=()):
        """All of a device's counters, read by a shell."""
        out = (host or self.client).run(clients.staged.verbena, "run", *options, "sh", "-c",
                                        "cd /sys/class/infiniband/%s/ports/1 && grep . counters/* hw_counters/*" % (device or self.device),
                                        environment={"LD_LIBRARY_PATH": ""}).out
        found = {}
        for line in out.splitlines():
            path, figure = line.split(":")
            found[path] = int(figure)
        self.assertIn("counters/port_xmit_data", found, out)
        return found

    def mover(self, *more):
        argv = [clients.staged.verbena, "run", "--wire", which("ib_write_bw"), "-F", "-d", self.device, "-p", str(TCP_PORT),
                "-s", str(LENGTH), "-m", "1024", *more]
        return argv + ["-x", str(self.gids[0])], argv + ["-x", str(self.gids[1]), self.address]

    def move_forever(self):
        """A server and a client that have begun to write."""
        server_argv, client_argv = self.mover("-D", "600")
        server = self.server.start(*server_argv)
        self.assertTrue(server.wait_until(lambda process: process.listens(TCP_PORT)), server.output())
        return server, self.client.start(*client_argv)

    def assert_not_less(self, before, after):
        self.assertEqual({name: (before[name], after[name]) for name in before if after[name] < before[name]}, {})

    @staticmethod
    def growth(before, after):
        return {name: after[name] - before[name] for name in before}

    @across(["veth1500_v4"])
    def test_they_grow(self):
        """By what is moved, in the kernel's units, at both ends; and when the programs have ended they stay."""
        before, theirs = self.figures(), self.figures(host=self.server)
        self.exchange(*self.mover("-n", str(MESSAGES)))
        after, theirs_after = self.figures(), self.figures(host=self.server)
        self.assert_not_less(before, after)
        self.assert_not_less(theirs, theirs_after)
        more, theirs_more = self.growth(before, after), self.growth(theirs, theirs_after)
        for sender, packets, data in ((more, "counters/port_xmit_packets", "counters/port_xmit_data"),
                                      (theirs_more, "counters/port_rcv_packets", "counters/port_rcv_data")):
            self.assertGreaterEqual(sender[packets], MESSAGES)
            # Words of four bytes.
            self.assertGreaterEqual(4 * sender[data], MESSAGES * LENGTH)
            self.assertLessEqual(4 * sender[data], sender[packets] * LONGEST_PACKET)
        self.assertEqual(after["hw_counters/sent_pkts"], after["counters/port_xmit_packets"])
        self.assertEqual(after["hw_counters/rcvd_pkts"], after["counters/port_rcv_packets"])
        self.assertEqual(after["hw_counters/sent_bytes"] // 4, after["counters/port_xmit_data"])
        self.assertEqual(after["hw_counters/rcvd_bytes"] // 4, after["counters/port_rcv_data"])
        self.assertGreaterEqual(more["hw_counters/rdma_writes"], MESSAGES)
        self.assertGreater(more["counters/port_rcv_packets"], 0)
        # What belongs to no device is none's, and a figure that nobody counts is not there.
        self.assertNotIn("hw_counters/icrc_error", after)
        self.assertNotIn("counters/symbol_error", after)
        self.assertEqual(self.figures("roce_lo")["counters/port_xmit_packets"], 0)

    @across(["veth1500_v4"])
    def test_killed(self):
        """A program that reads all the time sees the figure grow; and no less of it when those who counted are killed."""
        reader = self.client.start(clients.staged.verbena, "run", "sh", "-c",
                                   "cd /sys/class/infiniband/%s/ports/1/counters; last=0; n=0\n"
                                   "while [ $n -lt 2000 ]; do now=$(cat port_xmit_packets) && [ \"$now\" -ge $last ] || exit 1\n"
                                   "[ $now -eq $last ] || echo $now; last=$now; n=$((n + 1)); sleep 0.01; done" % self.device,
                                   environment={"LD_LIBRARY_PATH": ""})
        seen = lambda: [int(word) for word in reader.output().split()]
        server, client = self.move_forever()
        self.until(lambda: len(seen()) > 3, lambda: reader.output() + client.output())
        before = self.figures()
        self.assertGreater(before["counters/port_xmit_packets"], 3)
        pids = self.client.pids_of("ib_write_bw")
        self.assertEqual(len(pids), 1)
        last = self.figures()
        os.kill(pids[0], signal.SIGKILL)
        client.wait(self.TIMEOUT)
        after = self.figures()
        self.assert_not_less(before, last)
        self.assert_not_less(last, after)
        server.kill()
        self.until(lambda: seen()[-1] == after["counters/port_xmit_packets"], lambda: "%s\n%s" % (reader.output(), after))
        self.assertTrue(reader.running(), reader.output())
        self.assertEqual(seen(), sorted(seen()))
        # The next one's are added.
        self.exchange(*self.mover("-n", str(MESSAGES)))
        self.assertGreaterEqual(self.figures()["counters/port_xmit_packets"], after["counters/port_xmit_packets"] + MESSAGES)

    @across(["lo_v4"])
    def test_every_way_to_open(self):
        for options in (("-O0",), ("-O2", "-D_FORTIFY_SOURCE=2", "-D_FILE_OFFSET_BITS=64"), ("-O1", "-fsanitize=address,undefined")):
            result = self.verbena(self.compile(OPEN, *options), environment={"ASAN_OPTIONS": "detect_leaks=0"})
            self.assertEqual(result.code, 0, (options, result))

    @across(["veth1500_v4"])
    def test_kept_open(self):
        """A program that keeps the file open, and reads it from its beginning each time, sees the figure grow, too."""
        reader = self.client.start(clients.staged.verbena, "run", "python3", "-u", "-c", KEEP,
                                   "/sys/class/infiniband/%s/ports/1/counters/port_xmit_packets" % self.device, environment={"LD_LIBRARY_PATH": ""})
        self.until(lambda: reader.output().startswith("0 0\n"), reader.output)
        self.exchange(*self.mover("-n", str(MESSAGES)))
        after = self.figures()["counters/port_xmit_packets"]
        self.assertGreaterEqual(after, MESSAGES)
        self.until(lambda: reader.output().endswith("\n%d %d\n" % (after, after)), reader.output)

    @across(["veth1500_v4"])
    def test_the_link_goes_down(self):
        """Counted once, however many programs have the device open; a device that is gone has no figures."""
        def holds():
            program = self.client.start(clients.staged.verbena, "run", which("ibv_asyncwatch"), "-d", self.device, environment={"LD_LIBRARY_PATH": ""})
            self.until(lambda: "async event" in program.output(), program.output)
        before = self.figures()
        holds()
        holds()
        self.client.ip("link", "set", "eth0", "down")
        self.until(lambda: self.figures()["counters/link_downed"] == before["counters/link_downed"] + 1, lambda: str(self.figures()))
        self.assertEqual(self.figures()["hw_counters/link_downed"], before["hw_counters/link_downed"] + 1)
        reader = self.client.start(clients.staged.verbena, "run", "sh", "-c",
                                   "cd /sys/class/infiniband/%s/ports/1/counters; echo here; while cat link_downed; do sleep 0.05; done" % self.device,
                                   environment={"LD_LIBRARY_PATH": ""})
        self.until(lambda: "1" in reader.output(), reader.output)
        self.client.ip("link", "del", "eth0")
        self.assertNotEqual(reader.wait(self.TIMEOUT).code, None)
        self.assertIn("No such device", reader.output())

    @across(["lo_v4"])
    def test_a_daemon_that_is_looked_at_stays(self):
        """It would leave when the last program has: now it stays, and what was counted with it."""
        pid = lambda: self.client.pids_of("verbenad")
        self.network.environment["VERBENA_IDLE_SECONDS"] = "0"
        self.until(lambda: not pid(), "the daemon that served the preparations has left")
        self.figures()
        daemon = pid()
        self.assertEqual(len(daemon), 1)
        self.exchange(*self.mover("-n", str(MESSAGES)))
        self.assertGreaterEqual(self.figures()["counters/port_xmit_packets"], MESSAGES)
        self.assertEqual(pid(), daemon)

    @across(["veth1500_v4"])
    def test_another_daemon(self):
        """One that takes over knows what the processes that live have counted, and of those that ended nothing."""
        self.figures()
        self.exchange(*self.mover("-n", str(MESSAGES)))
        ended = self.figures()["counters/port_xmit_packets"]
        self.assertGreaterEqual(ended, MESSAGES)
        self.move_forever()
        before = self.until(lambda: max(0, self.figures()["hw_counters/rdma_writes"] - 2 * MESSAGES), "the second begins")
        daemon, = self.client.pids_of("verbenad")
        os.kill(daemon, signal.SIGKILL)
        self.until(lambda: self.figures()["hw_counters/rdma_writes"] >= before, lambda: str(self.figures()))
        for process in self.client.pids_of("ib_write_bw"):
            os.kill(process, signal.SIGKILL)
        self.until(lambda: not self.client.pids_of("ib_write_bw"), "they are dead")
        daemon, = self.client.pids_of("verbenad")
        os.kill(daemon, signal.SIGKILL)
        self.until(lambda: self.client.pids_of("verbenad") != [daemon], "it is dead")
        self.assertEqual(set(self.figures().values()), {0})

    @across(["veth1500_v4"])
    def test_with_sockets(self):
        """Behind the other library that `verbena run` preloads."""
        out = self.see("--sockets", "cat", "/sys/class/infiniband/%s/ports/1/counters/port_xmit_packets" % self.device)
        self.assertEqual(out, "0")

    @across(["veth1500_v4"])
    def test_an_rnic(self):
        """What a stream of iWARP carries: its bytes, and its FPDUs, each once."""
        device = "iwarp_" + self.device.split("_", 1)[1]
        before = self.figures(device, options=("--iwarp",))
        rping = [clients.staged.verbena, "run", "--iwarp", which("rping"), "-C", "20", "-S", "1000", "-a"]
        server = self.server.start(*rping, self.address, "-s", environment={"LD_LIBRARY_PATH": ""})
        self.until_listening(server)
        result = self.client.run(*rping, self.address, "-c", environment={"LD_LIBRARY_PATH": ""})
        self.assertEqual(result.code, 0, result)
        after = self.figures(device, options=("--iwarp",))
        self.assert_not_less(before, after)
        more = {name: after[name] - before[name] for name in after}
        # Each round: two SENDs and the answer to a READ; and that READ, two SENDs and a WRITE of the server's.
        self.assertEqual(more["counters/port_xmit_packets"], 20 * 3)
        self.assertEqual(more["counters/port_rcv_packets"], 20 * 4)
        for way in ("xmit", "rcv"):
            self.assertGreaterEqual(4 * more["counters/port_%s_data" % way], 20 * 1000)
            self.assertLess(4 * more["counters/port_%s_data" % way], 20 * 1000 + 80 * 100)
        self.assertEqual(self.figures()["counters/port_xmit_packets"], 0)
