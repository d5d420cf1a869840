/* SPDX-License-Identifier: MIT
 *
 * Two thousand queue pairs connected at once by iWARP, both ends in one process: two sockets each. And descriptors that run
 * out, at the side that connects and at the one that listens. The sanitizers' stages do with fewer: theirs is not the
 * question of scale.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "cm.h"
#include "lib/patience.h"
#include "lib/private_network.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { IDS = 300 };
#else
enum { IDS = 2000 };
#endif

enum { SOCKETS = 2, OTHERS = 200, UNTAKEN = 500 /* a listener holds 1024 requests that nobody has taken */ };

enum { MANY_DESCRIPTORS = 4096 };

static unsigned room_at_first;

static const struct rdma_conn_param one_read = {.responder_resources = 1, .initiator_depth = 1};

/* Of either side: its queue pairs share a completion queue. */
struct side {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id[IDS];
	unsigned count, established;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint32_t message[IDS];
};

static void side_open(struct side *side)
{
	*side = (struct side){.channel = rdma_create_event_channel()};
	assert_non_null(side->channel);
	assert_int_equal(fcntl(side->channel->fd, F_SETFL, O_NONBLOCK), 0);
}

static void side_take(struct side *side, struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};

	if (side->pd == NULL) {
		side->pd = ibv_alloc_pd(id->verbs);
		assert_non_null(side->pd);
		side->cq = ibv_create_cq(id->verbs, 2 * IDS, NULL, NULL, 0);
		assert_non_null(side->cq);
		side->mr = ibv_reg_mr(side->pd, side->message, sizeof(side->message), IBV_ACCESS_LOCAL_WRITE);
		assert_non_null(side->mr);
	}
	attr.send_cq = attr.recv_cq = side->cq;
	assert_int_equal(rdma_create_qp(id, side->pd, &attr), 0);
	id->context = (void *)(uintptr_t)side->count;
	side->id[side->count++] = id;
}

/* All that has happened; requests are accepted. */
static void side_serve(struct side *side)
{
	struct rdma_conn_param param = one_read;
	struct rdma_cm_event *event;

	while (rdma_get_cm_event(side->channel, &event) == 0) {
		assert_int_equal(event->status, 0);
		if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
			struct rdma_cm_id *id = event->id;
			uint32_t *place = &side->message[side->count];

			side_take(side, id);
			assert_int_equal(rdma_post_recv(id, NULL, place, sizeof(*place), side->mr), 0);
			assert_int_equal(rdma_accept(id, &param), 0);
		} else {
			assert_int_equal(event->event, RDMA_CM_EVENT_ESTABLISHED);
			side->established++;
		}
		assert_int_equal(rdma_ack_cm_event(event), 0);
	}
	assert_int_equal(errno, EAGAIN);
}

static void side_close(struct side *side)
{
	for (unsigned i = 0; i < side->count; i++) {
		rdma_destroy_qp(side->id[i]);
		assert_int_equal(rdma_destroy_id(side->id[i]), 0);
	}
	assert_int_equal(ibv_dereg_mr(side->mr), 0);
	assert_int_equal(ibv_destroy_cq(side->cq), 0);
	assert_int_equal(ibv_dealloc_pd(side->pd), 0);
	rdma_destroy_event_channel(side->channel);
}

static unsigned completions(struct side *side)
{
	struct ibv_wc wc;
	unsigned count = 0;

	while (ibv_poll_cq(side->cq, 1, &wc) == 1) {
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		count++;
	}
	return count;
}

/* Each sends a message of its own. */
static void exchange(struct side *active, struct side *passive)
{
	static bool came[IDS];
	unsigned sent = 0, received = 0;

	for (unsigned i = 0; i < IDS; i++)
		passive->message[i] = IDS;
	for (unsigned i = 0; i < IDS; i++) {
		active->message[i] = i;
		assert_int_equal(rdma_post_send(active->id[i], NULL, &active->message[i], sizeof(uint32_t), active->mr, 0), 0);
	}
	assert_true(eventually((sent += completions(active)) == IDS));
	assert_true(eventually((received += completions(passive)) == IDS));
	for (unsigned i = 0; i < IDS; i++) {
		assert_in_range(passive->message[i], 0, IDS - 1);
		assert_false(came[passive->message[i]]);
		came[passive->message[i]] = true;
	}
}

static struct rdma_cm_id *listen_for_many(struct rdma_event_channel *channel, uint16_t *port)
{
	struct sockaddr_in address = loopback(0);
	struct rdma_cm_id *listener;

	assert_int_equal(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(listener, (struct sockaddr *)&address), 0);
	assert_int_equal(rdma_listen(listener, 0), 0);
	*port = ntohs(rdma_get_src_port(listener));
	return listener;
}

static void many_are_connected_at_once(void **state)
{
	static struct side active, passive;
	struct rdma_conn_param param = one_read;
	struct rdma_event_channel *resolving = rdma_create_event_channel();
	struct rdma_cm_id *listener;
	struct rlimit limit;
	uint16_t port;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = limit.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	if (limit.rlim_cur < SOCKETS * IDS + OTHERS) {
		print_message("not tried: no more than %lu descriptors\n", (unsigned long)limit.rlim_cur);
		return;
	}
	side_open(&active);
	side_open(&passive);
	listener = listen_for_many(passive.channel, &port);
	for (unsigned i = 0; i < IDS; i++) {
		side_take(&active, resolved_id(resolving, RDMA_PS_TCP, port));
		assert_int_equal(rdma_migrate_id(active.id[i], active.channel), 0);
	}
	for (unsigned i = 0; i < IDS; i++) {
		assert_int_equal(rdma_connect(active.id[i], &param), 0);
		assert_true(eventually((side_serve(&passive), i < passive.count + UNTAKEN)));
	}
	assert_true(eventually((side_serve(&passive), side_serve(&active), active.established == IDS && passive.established == IDS)));
	exchange(&active, &passive);
	assert_int_equal(rdma_destroy_id(listener), 0);
	side_close(&active);
	side_close(&passive);
	rdma_destroy_event_channel(resolving);
}

/* So many descriptors can still be had, and no more. */
static void leave_descriptors(rlim_t left)
{
	struct rlimit limit;
	int lowest = dup(STDIN_FILENO);

	assert_true(lowest >= 0);
	close(lowest);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = (rlim_t)lowest + left;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void give_descriptors_back(void)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = limit.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static int64_t processor_ms(void)
{
	struct rusage usage;

	assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
	return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
}

/* Who connects is told, and may try again. Who listens takes the request when it can, and sleeps until then. */
static void descriptors_run_out(void **state)
{
	enum { A_WHILE_MS = 300 };
	struct rdma_event_channel *channel = rdma_create_event_channel(), *passive = rdma_create_event_channel();
	struct rdma_conn_param param = one_read;
	struct rdma_cm_id *listener, *asking, *accepting;
	struct rdma_cm_event *event;
	uint16_t port;
	int64_t began;

	(void)state;
	listener = listen_on_loopback(passive, RDMA_PS_TCP, &port);
	asking = resolved_id(channel, RDMA_PS_TCP, port);
	add_qp(asking);
	leave_descriptors(0);
	assert_int_equal(rdma_connect(asking, &param), -1);
	assert_int_equal(errno, EMFILE);
	give_descriptors_back();

	leave_descriptors(1);
	assert_int_equal(rdma_connect(asking, &param), 0);
	began = processor_ms();
	assert_int_equal(poll(&(struct pollfd){.fd = passive->fd, .events = POLLIN}, 1, A_WHILE_MS), 0);
	assert_in_range(processor_ms() - began, 0, A_WHILE_MS / 10);
	give_descriptors_back();
	event = next_event(passive, RDMA_CM_EVENT_CONNECT_REQUEST);
	accepting = event->id;
	assert_int_equal(rdma_ack_cm_event(event), 0);
	add_qp(accepting);
	assert_int_equal(rdma_accept(accepting, &param), 0);
	assert_int_equal(expect_cm_event(channel, RDMA_CM_EVENT_ESTABLISHED), 0);
	assert_int_equal(expect_cm_event(passive, RDMA_CM_EVENT_ESTABLISHED), 0);
	rdma_destroy_ep(asking);
	rdma_destroy_ep(accepting);
	assert_int_equal(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(channel);
	rdma_destroy_event_channel(passive);
}

/* How many descriptors the process has room for (proc(5)); 0: it was not alone when the library was loaded, as under TSan. */
static unsigned room_for_descriptors(void)
{
	unsigned room = 0, threads = 0;
	FILE *status = fopen("/proc/self/status", "r");
	char line[256];

	assert_non_null(status);
	while (fgets(line, sizeof(line), status) != NULL) {
		(void)sscanf(line, "FDSize: %u", &room);
		(void)sscanf(line, "Threads: %u", &threads);
	}
	fclose(status);
	return threads == 1 ? room : 0;
}

/* With more threads than one each doubling of the room takes a wait for RCU. */
static void there_is_room_for_descriptors(void **state)
{
	struct rlimit limit;

	(void)state;
	if (room_at_first == 0)
		return;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_true(room_at_first >= (limit.rlim_cur < MANY_DESCRIPTORS ? limit.rlim_cur : MANY_DESCRIPTORS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(there_is_room_for_descriptors),
		cmocka_unit_test(descriptors_run_out),
		cmocka_unit_test(many_are_connected_at_once),
	};

	room_at_first = room_for_descriptors();
	private_network_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
