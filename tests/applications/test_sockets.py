# SPDX-License-Identifier: MIT
"""Servers of the distribution that know TCP and nothing else, under `verbena run --sockets`, beside the same over TCP."""

import os
import re
import subprocess

from pylib import clients
from pylib.applications import ApplicationCase
from pylib.clients import across, expand

PORT = 7100
BOTH = ("lo_v4", "veth1500_v4")


@expand
class Sockets(ApplicationCase):
    def setUp(self):
        super().setUp()
        self.report = os.path.join(self.folder, "report")

    def sockets(self, *argv):
        return (clients.staged.verbena, "run", "--sockets", *argv)

    def plain(self, *argv):
        return argv

    def where(self):
        return "one host" if self.server is self.client else "two hosts"

    def serve(self, *argv, port=PORT, **more):
        server = self.server.start(*argv, environment={"VERBENA_SOCKETS_REPORT": self.report}, **more)
        self.assertTrue(server.wait_until(lambda process: process.listens(port)), server.output())
        return server

    def ask(self, *argv):
        return self.see(self.client, *argv, environment={"VERBENA_SOCKETS_REPORT": self.report})

    def stop(self, server):
        server.kill()
        # What it started has gone with it, and the port with that.
        self.until(lambda: not any(self.server.pids_of(name) for name in ("nginx", "postgres", "redis-server", "memcached")), "servers are gone")

    def assert_by_rdma(self, program, least):
        """So many connections of the program that have ended went by RDMA."""
        with open(self.report) as report:
            rows = re.findall(r"^%s \d+ rdma sent=(\d+) received=(\d+)$" % re.escape(program), report.read(), re.M)
        self.assertGreaterEqual(len(rows), least)

    def both_ways(self, serve, measure):
        """The figures with and without us; each way has a server of its own."""
        figures = []
        for wrap in (self.sockets, self.plain):
            server = serve(wrap)
            figures.append(measure(wrap))
            self.stop(server)
        return figures

    # ---- redis ----

    def redis(self, wrap):
        return self.serve(*wrap("redis-server", "--port", str(PORT), "--bind", self.address, "--save", "", "--appendonly", "no",
                                "--dir", self.folder, "--protected-mode", "no"))

    def redis_rate(self, wrap, *options):
        out = self.ask(*wrap("redis-benchmark", "-h", self.address, "-p", str(PORT), "-t", "get", "-q", "-n", "20000", *options))
        return float(re.findall(r"([\d.]+) requests per second", out)[-1])

    @across(BOTH)
    def test_redis(self):
        value = "x" * 100000 + "end"
        server = self.redis(self.sockets)
        command = "set key %s\nget key\nappend key !\nstrlen key\n" % value
        path = os.path.join(self.folder, "commands")
        with open(path, "w") as file:
            file.write(command * 20)
        os.chmod(path, 0o644)
        out = self.ask("sh", "-c", " ".join(self.sockets("redis-cli", "-h", self.address, "-p", str(PORT))) + " < " + path)
        self.assertEqual(out.split(), ["OK", value, str(len(value) + 1), str(len(value) + 1)] * 20)
        self.stop(server)
        for options, what in ((("-c", "1"), "1 client"), (("-c", "20"), "20 clients"), (("-c", "20", "-P", "16"), "20 clients, 16 at once")):
            ours, theirs = self.both_ways(self.redis, lambda wrap, options=options: self.redis_rate(wrap, *options))
            self.figure("redis", "GET, %s, %s" % (what, self.where()), "/s", ours, theirs, "TCP")
        self.assert_by_rdma("redis-benchmark", 40)

    # ---- nginx ----

    def nginx(self, wrap):
        path = os.path.join(self.folder, "nginx.conf")
        with open(path, "w") as file:
            file.write("""worker_processes 2; daemon off; pid {0}/nginx.pid; error_log stderr;
events {{ worker_connections 256; }}
http {{ access_log off; sendfile on; client_body_temp_path {0}/b; proxy_temp_path {0}/p; fastcgi_temp_path {0}/f; uwsgi_temp_path {0}/u;
scgi_temp_path {0}/s; keepalive_requests 1000000;
server {{ listen {1}:{2}; root {0}; }} }}
""".format(self.folder, self.address, PORT))
        os.chmod(path, 0o644)
        return self.serve(*wrap("/usr/sbin/nginx", "-e", "stderr", "-c", path))

    def wrk_rate(self, wrap, name):
        out = self.ask(*wrap("wrk", "-t", "1", "-c", "8", "-d", "2s", "http://%s:%d/%s" % (self.address, PORT, name)))
        self.assertNotRegex(out, "Non-2xx|Socket errors")
        return float(re.search(r"Requests/sec:\s+([\d.]+)", out).group(1))

    @across(BOTH)
    def test_nginx(self):
        """Workers that accept from one socket, edge triggered epoll, sendfile."""
        for name, size in (("small", 1000), ("large", 30 << 20)):
            with open(os.path.join(self.folder, name), "wb") as file:
                file.write(os.urandom(size))
            os.chmod(file.name, 0o644)
        server = self.nginx(self.sockets)
        got = os.path.join(self.folder, "got")
        url = "http://%s:%d/" % (self.address, PORT)
        self.ask(*self.sockets("curl", "-sS", "--fail", url + "large", "-o", got, url + "small", "-o", got + "2", url + "large", "-o", got + "3"))
        for name, copy in (("large", got), ("small", got + "2"), ("large", got + "3")):
            self.assertEqual(subprocess.run(["cmp", os.path.join(self.folder, name), copy]).returncode, 0)
        self.stop(server)
        self.assert_by_rdma("curl", 1)
        ours, theirs = self.both_ways(self.nginx, lambda wrap: self.wrk_rate(wrap, "small"))
        self.figure("nginx", "wrk, 1 kB, 8 connections, %s" % self.where(), "/s", ours, theirs, "TCP")

    # ---- memcached ----

    def memcached(self, wrap):
        return self.serve(*wrap("memcached", "-p", str(PORT), "-l", self.address, "-U", "0", "-t", "2"))

    def memcached_rate(self, wrap):
        out = self.ask(*wrap("memcslap", "--servers=%s:%d" % (self.address, PORT), "--concurrency=8", "--execute-number=2000", "--test=get",
                             "--binary"))
        return 8 * 2000 / float(re.search(r"Time to get .*?([\d.]+) seconds", out).group(1))

    @across(BOTH)
    def test_memcached(self):
        """Threads with an epoll set each."""
        server = self.memcached(self.sockets)
        source = os.path.join(self.folder, "value")
        with open(source, "wb") as file:
            file.write(os.urandom(900000))
        os.chmod(source, 0o644)
        where = "--servers=%s:%d" % (self.address, PORT)
        self.ask(*self.sockets("memccp", where, source))
        got = os.path.join(self.folder, "got")
        self.ask(*self.sockets("memccat", where, "--file=" + got, "value"))
        self.assertEqual(subprocess.run(["cmp", source, got]).returncode, 0)
        self.stop(server)
        ours, theirs = self.both_ways(self.memcached, self.memcached_rate)
        self.figure("memcached", "memcslap, 8 clients, %s" % self.where(), "/s", ours, theirs, "TCP")

    # ---- PostgreSQL ----

    def postgres_program(self, name):
        found = sorted(root for root, _, names in os.walk("/usr/lib/postgresql") if name in names)
        return os.path.join(found[-1], name)

    def with_a_name(self, *argv):
        """PostgreSQL wants its user to have one."""
        users = os.path.join(self.folder, "passwd")
        with open(users, "w") as file:
            file.write("root:x:0:0::/:/bin/sh\nuser:x:%d:%d::/tmp:/bin/sh\n" % (self.network.uid, self.network.uid))
        drop = "exec setpriv --reuid=%d --regid=%d --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs" % (self.network.uid,
                                                                                                                   self.network.uid)
        return ("unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/passwd && %s "$@"' % drop, users, *argv)

    def postgres(self, wrap):
        server = self.serve(*self.with_a_name(*wrap(self.postgres_program("postgres"), "-D", self.data, "-p", str(PORT), "-h", self.address,
                                                    "-k", "", "-F")), privileged=True)
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
        def serve(wrap):
            return self.serve(*wrap("iperf3", "-s", "-1", "-B", self.address, "-p", str(PORT)))

        def rate(wrap):
            out = self.ask(*wrap("iperf3", "-c", self.address, "-p", str(PORT), "-t", "2", "-f", "m"))
            return float(re.findall(r"([\d.]+) Mbits/sec.*receiver", out)[-1])
        ours, theirs = self.both_ways(serve, rate)
        self.figure("iperf3", "one stream, %s" % self.where(), "Mb/s", ours, theirs, "TCP")
        self.assert_by_rdma("iperf3", 1)
