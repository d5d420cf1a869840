#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What ssh is to mpirun, between hosts that are network namespaces: no keys, no root, no configuration.

    remote_shell.py --serve                 on each host: runs what it is sent, as who started it
    remote_shell.py HOST COMMAND...         elsewhere: the command's output, and its exit code
"""

import json
import os
import socket
import subprocess
import sys
import threading

PORT = 5140


def attend(connection):
    with connection, connection.makefile("r") as lines:
        command = json.loads(lines.readline())
        done = subprocess.Popen(["sh", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for block in iter(lambda: os.read(done.stdout.fileno(), 65536), b""):
            connection.sendall(len(block).to_bytes(4, "big") + block)
        connection.sendall((0).to_bytes(4, "big") + done.wait().to_bytes(4, "big", signed=True))


def serve():
    with socket.create_server(("", PORT), backlog=16) as listener:
        print("listening", flush=True)
        while True:
            threading.Thread(target=attend, args=(listener.accept()[0],), daemon=True).start()


def ask(host, words):
    with socket.create_connection((host, PORT)) as connection, connection.makefile("rb") as answer:
        connection.sendall(json.dumps(" ".join(words)).encode() + b"\n")
        while True:
            length = int.from_bytes(answer.read(4), "big")
            if length == 0:
                return int.from_bytes(answer.read(4), "big", signed=True) & 255
            sys.stdout.buffer.write(answer.read(length))
            sys.stdout.buffer.flush()


if sys.argv[1:] == ["--serve"]:
    serve()
else:
    # mpirun of MPICH asks as ssh would be asked: -x HOST ...
    words = [word for word in sys.argv[1:] if word != "-x"]
    sys.exit(ask(words[0], words[1:]))
