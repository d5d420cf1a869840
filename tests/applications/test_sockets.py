# SPDX-License-Identifier: MIT
"""Servers of the distribution that know TCP and nothing else, under `verbena run --sockets`, beside the same over TCP."""

import os
import re
import subprocess

from pylib.applications import ApplicationCase
from pylib.clients import across, expand
from pylib.workloads import sockets
from pylib.workloads.ground import plain
from pylib.workloads.sockets import PORT

BOTH = ("lo_v4", "veth1500_v4")


@expand
class Sockets(ApplicationCase):
    def settle(self, place):
        super().settle(place)
        self.programs = sockets.Sockets(self)
        self.ask, self.stop = self.programs.ask, self.programs.stop

    def assert_by_rdma(self, program, least):
        """So many connections of the program that have ended went by RDMA."""
        self.assertGreaterEqual(self.programs.by_rdma(program), least)

    def make_file(self, name, size):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(os.urandom(size))
        os.chmod(path, 0o644)
        return path

    def assert_same(self, one, other):
        self.assertEqual(subprocess.run(["cmp", one, other]).returncode, 0)

    def both_ways(self, serve, measure):
        """The figures with and without us; each way has a server of its own."""
        return [self.programs.rate(serve, measure, wrap) for wrap in (self.sockets, plain)]

    # ---- redis ----

    @across(BOTH)
    def test_redis(self):
        value = "x" * 100000 + "end"
        programs = self.programs
        server = programs.redis(self.sockets)
        command = "set key %s\nget key\nappend key !\nstrlen key\n" % value
        path = self.write("commands", command * 20)
        out = self.ask("sh", "-c", " ".join(self.sockets("redis-cli", "-h", self.address, "-p", str(PORT))) + " < " + path)
        self.assertEqual(out.split(), ["OK", value, str(len(value) + 1), str(len(value) + 1)] * 20)
        self.stop(server)
        for options, what in ((("-c", "1"), "1 client"), (("-c", "20"), "20 clients"), (("-c", "20", "-P", "16"), "20 clients, 16 at once")):
            ours, theirs = self.both_ways(programs.redis, lambda wrap, options=options: programs.redis_rate(wrap, 20000, *options))
            self.figure("redis", "GET, %s, %s" % (what, self.where()), "/s", ours, theirs, "TCP")
        self.assert_by_rdma("redis-benchmark", 40)

    # ---- nginx ----

    def nginx(self, wrap):
        path = self.write("nginx.conf", """worker_processes 2; daemon off; pid {0}/nginx.pid; error_log stderr;
events {{ worker_connections 256; }}
http {{ access_log off; sendfile on; client_body_temp_path {0}/b; proxy_temp_path {0}/p; fastcgi_temp_path {0}/f; uwsgi_temp_path {0}/u;
scgi_temp_path {0}/s; keepalive_requests 1000000;
server {{ listen {1}:{2}; root {0}; }} }}
""".format(self.folder, self.address, PORT))
        return self.programs.serve(*wrap("/usr/sbin/nginx", "-e", "stderr", "-c", path))

    def wrk_rate(self, wrap, name):
        out = self.ask(*wrap("wrk", "-t", "1", "-c", "8", "-d", "2s", "http://%s:%d/%s" % (self.address, PORT, name)))
        self.assertNotRegex(out, "Non-2xx|Socket errors")
        return float(re.search(r"Requests/sec:\s+([\d.]+)", out).group(1))

    @across(BOTH)
    def test_nginx(self):
        """Workers that accept from one socket, edge triggered epoll, sendfile."""
        small, large = self.make_file("small", 1000), self.make_file("large", 30 << 20)
        server = self.nginx(self.sockets)
        got = os.path.join(self.folder, "got")
        url = "http://%s:%d/" % (self.address, PORT)
        self.ask(*self.sockets("curl", "-sS", "--fail", url + "large", "-o", got, url + "small", "-o", got + "2", url + "large", "-o", got + "3"))
        for file, copy in ((large, got), (small, got + "2"), (large, got + "3")):
            self.assert_same(file, copy)
        self.stop(server)
        self.assert_by_rdma("curl", 1)
        ours, theirs = self.both_ways(self.nginx, lambda wrap: self.wrk_rate(wrap, "small"))
        self.figure("nginx", "wrk, 1 kB, 8 connections, %s" % self.where(), "/s", ours, theirs, "TCP")

    # ---- memcached ----

    def memcached(self, wrap):
        return self.programs.serve(*wrap("memcached", "-p", str(PORT), "-l", self.address, "-U", "0", "-t", "2"))

    def memcached_rate(self, wrap):
        out = self.ask(*wrap("memcslap", "--servers=%s:%d" % (self.address, PORT), "--concurrency=8", "--execute-number=2000", "--test=get",
                             "--binary"))
        return 8 * 2000 / float(re.search(r"Time to get .*?([\d.]+) seconds", out).group(1))

    @across(BOTH)
    def test_memcached(self):
        """Threads with an epoll set each."""
        server = self.memcached(self.sockets)
        source = self.make_file("value", 900000)
        where = "--servers=%s:%d" % (self.address, PORT)
        self.ask(*self.sockets("memccp", where, source))
        got = os.path.join(self.folder, "got")
        self.ask(*self.sockets("memccat", where, "--file=" + got, "value"))
        self.assert_same(source, got)
        self.stop(server)
        ours, theirs = self.both_ways(self.memcached, self.memcached_rate)
        self.figure("memcached", "memcslap, 8 clients, %s" % self.where(), "/s", ours, theirs, "TCP")

    # ---- PostgreSQL ----

    def postgres_program(self, name):
        found = sorted(root for root, _, names in os.walk("/usr/lib/postgresql") if name in names)
        return os.path.join(found[-1], name)

    def with_a_name(self, *argv):
        """PostgreSQL wants its user to have one."""
        users = self.write("passwd", "root:x:0:0::/:/bin/sh\nuser:x:%d:%d::/tmp:/bin/sh\n" % (self.network.uid, self.network.uid))
        drop = "exec setpriv --reuid=%d --regid=%d --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs" % (self.network.uid,
                                                                                                                   self.network.uid)
        return ("unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/passwd && %s "$@"' % drop, users, *argv)

    def postgres(self, wrap):
        server = self.programs.serve(*self.with_a_name(*wrap(self.postgres_program("postgres"), "-D", self.data, "-p", str(PORT), "-h",
                                                             self.address, "-k", "", "-F")), privileged=True)
        asks = (self.postgres_program("pg_isready"), "-h", self.address, "-p", str(PORT), "-U", "user", "-d", "postgres")
        self.until(lambda: self.server.run(*asks).code == 0, server.output)
        return server

    def pgbench(self, wrap, *options):
        return self.ask(*wrap(self.postgres_program("pgbench"), "-h", self.address, "-p", str(PORT), "-U", "user", *options, "postgres"))

    @across(BOTH)
    def test_postgresql(self):
        """A process for each connection, forked off by the one that accepts."""
        self.data = os.path.join(self.folder, "data")
        result = self.server.run(*self.with_a_name(self.postgres_program("initdb"), "-D", self.data, "-U", "user", "-A", "trust", "--no-sync"),
                                 privileged=True)
        self.assertEqual(result.code, 0, result)
        with open(os.path.join(self.data, "pg_hba.conf"), "a") as file:
            file.write("host all all 0.0.0.0/0 trust\n")
        server = self.postgres(self.sockets)
        self.pgbench(self.sockets, "-i", "-s", "1", "-q")
        psql = self.sockets(self.postgres_program("psql"), "-h", self.address, "-p", str(PORT), "-U", "user", "-tA", "postgres")
        out = self.ask(*psql, "-c", "select aid from pgbench_accounts order by aid", "-c", "select sum(aid) from pgbench_accounts")
        numbers = [int(word) for word in out.split()]
        self.assertEqual(numbers[:-1], list(range(1, 100001)))
        self.assertEqual(numbers[-1], sum(numbers[:-1]))
        self.stop(server)

        def rate(wrap):
            out = self.pgbench(wrap, "-n", "-S", "-c", "4", "-T", "2")
            return float(re.search(r"tps = ([\d.]+)", out).group(1))
        ours, theirs = self.both_ways(self.postgres, rate)
        self.figure("PostgreSQL", "pgbench -S, 4 clients, %s" % self.where(), "/s", ours, theirs, "TCP")
        self.assert_by_rdma("pgbench", 4)

    # ---- iperf3 ----

    @across(BOTH)
    def test_iperf3(self):
        ours, theirs = self.both_ways(self.programs.iperf3, self.programs.iperf3_rate)
        self.figure("iperf3", "one stream, %s" % self.where(), "Mb/s", ours, theirs, "TCP")
        self.assert_by_rdma("iperf3", 1)

    # ---- Python ----

    def http_server(self, wrap):
        return self.programs.serve(*wrap("python3", "-m", "http.server", str(PORT), "--bind", self.address, "-d", self.folder))

    @across(BOTH)
    def test_http_server(self):
        """Python's server, and curl, which says how fast it was."""
        source, got = self.make_file("source", 96 << 20), os.path.join(self.folder, "got")

        def rate(wrap):
            out = self.ask(*wrap("curl", "-sS", "--fail", "-w", "%{speed_download}", "-o", got,
                                 "http://%s:%d/source" % (self.address, PORT)))
            self.assert_same(source, got)
            return float(out) / 1e6
        ours, theirs = self.both_ways(self.http_server, rate)
        self.figure("http.server", "curl, 96 MiB, %s" % self.where(), "MB/s", ours, theirs, "TCP")
        self.assert_by_rdma("curl", 1)
