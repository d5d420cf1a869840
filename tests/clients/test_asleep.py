# SPDX-License-Identifier: MIT
"""Programs that sleep until their completion channel has something: between two hosts a packet wakes the thread that waits, and no thread
of the library before it, whichever call that waits in."""

from pylib import clients
from pylib.clients import ClientCase, add

PORT, ROUNDS = 18533, 4000
WAYS = ("call", "poll", "epoll")


class Asleep(ClientCase):
    def played(self, how, *options):
        """How often the client's other threads went to sleep in a hundred rounds, in the stretch where that was least."""
        program = clients.staged.program("event_pingpong")
        start = [clients.staged.verbena, "run", *options, program, how]
        server = self.server.start(*start, "serve", self.device, str(self.gids[0]))
        self.until(lambda: server.listens(PORT), server.output)
        client = self.client.run(*start, self.address, self.device, str(self.gids[1]), str(ROUNDS))
        self.assertEqual(client.code, 0, client)
        self.assertEqual(server.wait(10).code, 0)
        took, sleeps = client.out.split()[-2:]
        self.assertGreater(float(took), 0)
        return int(sleeps)

    def wakes_itself(self, how):
        """Of each exchange the engine thread had two packets, or three."""
        self.assertLess(self.played(how), 50)

    def needs_the_view(self):
        """Without the preloaded library nothing is known of poll: the engine thread takes the packets, and the program runs all the same."""
        self.assertGreater(self.played("poll", "--no-view"), 50)


for _way in WAYS:
    add(Asleep, "test_wakes_itself__" + _way, "veth1500_v4", Asleep.wakes_itself, _way)
add(Asleep, "test_needs_the_view", "veth1500_v4", Asleep.needs_the_view)
