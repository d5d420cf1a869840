/* SPDX-License-Identifier: MIT
 *
 * The datagrams by which a new verbenad learns the order of the port's sockets (wire/daemon_message.h) are taken from
 * the loopback device, where no other host can send. With any other address they are what any malformed packet is.
 */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/daemon_client.h"
#include "lib/one_world.h"
#include "lib/patience.h"
#include "lib/private_network.h"
#include "wire/daemon_message.h"
#include "wire/path.h"

enum { FROM_HERE = 3, FROM_ELSEWHERE = 2 };

static bool take(void *context, const struct vb_daemon_message *message, const int *fds, unsigned count)
{
	(void)fds;
	(void)count;
	if (message->header.type == VB_DAEMON_PROCESS && message->process.pid == (uint32_t)getpid())
		*(uint64_t *)context = message->process.counters.malformed_pkts;
	return true;
}

static uint64_t malformed(void)
{
	struct vb_daemon_client client;
	struct vb_daemon_message request;
	uint64_t count = UINT64_MAX;

	assert_int_equal(vb_daemon_client_connect(&client, false), 0);
	vb_daemon_message_begin(&request, VB_DAEMON_LIST_PROCESSES, 0);
	assert_int_equal(vb_daemon_client_request(&client, &request, NULL, 0, take, &count), 0);
	vb_daemon_client_close(&client);
	return count;
}

static void send_from(const char *source, const char *destination, const void *bytes, size_t length)
{
	struct sockaddr_in here = {.sin_family = AF_INET}, there = {.sin_family = AF_INET, .sin_port = htons(VB_ROCE_PORT)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_int_equal(inet_pton(AF_INET, source, &here.sin_addr), 1);
	assert_int_equal(inet_pton(AF_INET, destination, &there.sin_addr), 1);
	assert_int_equal(bind(fd, (struct sockaddr *)&here, sizeof(here)), 0);
	assert_int_equal(sendto(fd, bytes, length, 0, (struct sockaddr *)&there, sizeof(there)), (ssize_t)length);
	close(fd);
}

static void only_loopback_may_ask(void **state)
{
	struct vb_daemon_probe probe = {0};
	struct pair pair;
	uint64_t before;

	(void)state;
	assert_int_equal(private_network_add_address("lo", "10.79.0.1", 32), 0);
	pair_open(&pair, &world, NULL);
	before = malformed();
	probe.magic = be32_of(VB_DAEMON_PROBE_MAGIC);
	probe.index = be32_of(1);        /* the only process behind verbenad itself */
	probe.nonce = be64_of(0x1234567890);
	/* One socket receives all of these, in this order: those that are counted come last. */
	for (unsigned i = 0; i < FROM_HERE; i++)
		send_from("127.0.0.1", "127.0.0.1", &probe, sizeof(probe));
	for (unsigned i = 0; i < FROM_ELSEWHERE; i++) {
		send_from("10.79.0.1", "10.79.0.1", &probe, sizeof(probe));
		send_from("10.79.0.1", "127.0.0.1", &probe, sizeof(probe));
		send_from("127.0.0.1", "10.79.0.1", &probe, sizeof(probe));
	}
	assert_true(eventually(malformed() >= before + 3 * FROM_ELSEWHERE));
	assert_int_equal(malformed(), before + 3 * FROM_ELSEWHERE);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(only_loopback_may_ask)};

	private_network_enter();
	return cmocka_run_group_tests(tests, open_world, close_world);
}
