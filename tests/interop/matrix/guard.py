# SPDX-License-Identifier: MIT
"""A process that outlives the runner, however that ends (kill -9 too), and then takes down what it left."""

import os
import shutil
import signal
import time


class Guard:
    def __init__(self, rig, folders):
        reading, self.writing = os.pipe()
        if os.fork() == 0:
            self.stand(reading, rig, folders)
        os.close(reading)

    def stand(self, reading, rig, folders):
        try:
            os.setsid()
            os.close(self.writing)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            # A byte: the runner has cleared up. None, ever: it has been killed. Nobody else has the other end.
            if not os.read(reading, 1):
                # rig-up dies with the runner. A guest that it has just started may still be on its way into the namespace.
                time.sleep(0.5)
                rig.down()
                for folder in folders:
                    shutil.rmtree(folder, True)
        finally:
            os._exit(0)

    def dismiss(self):
        os.write(self.writing, b".")
        os.close(self.writing)
