/* SPDX-License-Identifier: MIT
 *
 * 06: Change eight bytes in the other side's memory, with nobody in between.
 *
 *   cc 06_atomics.c -libverbs && ./a.out [DEVICE]
 *
 * Two operations exist, on 64-bit words aligned to eight bytes, and both bring back what was there before:
 *
 *   FETCH_AND_ADD   adds; a counter or a ticket machine for many clients
 *   CMP_AND_SWP     writes only if the old value is the expected one; a lock
 *
 * They are atomic against each other on the same adapter. Against the processor of the memory's owner they need not
 * be: ask ibv_query_device whether atomic_cap is IBV_ATOMIC_HCA (this adapter only) or IBV_ATOMIC_GLOB (everybody).
 *
 * The returned value lands in our buffer in the byte order of this machine.
 */
#include <inttypes.h>

#include "course.h"

struct client {
	struct side side;
	struct side owner_side;        /* the far end of this client's connection */
	struct buffer old;             /* where the adapter puts what was there before */
};

/* Posts one atomic and waits. Returns the old value. */
static uint64_t change(struct client *client, const struct window *word, enum ibv_wr_opcode opcode,
		       uint64_t compare_add, uint64_t swap)
{
	struct ibv_sge result = piece_of(&client->old, 0, sizeof(uint64_t));
	struct ibv_send_wr request = {
		.sg_list = &result,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.atomic = { .remote_addr = word->address,
			       .rkey = word->rkey,
			       .compare_add = compare_add,
			       .swap = swap },
	};
	uint64_t old;

	post_send(client->side.qp, &request);
	wait_completion(client->side.cq, "atomic");
	memcpy(&old, client->old.bytes, sizeof(old));
	return old;
}

static uint64_t fetch_and_add(struct client *client, const struct window *word, uint64_t increment)
{
	return change(client, word, IBV_WR_ATOMIC_FETCH_AND_ADD, increment, 0);
}

/* Did it happen? Yes exactly if the old value was the expected one. */
static int compare_and_swap(struct client *client, const struct window *word, uint64_t expected, uint64_t wanted)
{
	return change(client, word, IBV_WR_ATOMIC_CMP_AND_SWP, expected, wanted) == expected;
}

static void open_client(const struct device *device, struct client *client, struct ibv_pd *owner_pd)
{
	client->side = side_open(device);
	if (!(client->owner_side.cq = ibv_create_cq(device->context, 4, NULL, NULL, 0)))
		die("ibv_create_cq");
	/* A queue pair reaches memory of its own protection domain only, so the owner's ends share the PD of the
	 * word. */
	client->owner_side.pd = owner_pd;
	client->owner_side.qp = create_qp(owner_pd, client->owner_side.cq, NULL);
	sides_connect(device, &client->side, &client->owner_side);
	client->old = buffer_register(client->side.pd, sizeof(uint64_t), IBV_ACCESS_LOCAL_WRITE);
}

static void close_client(struct client *client)
{
	if ((errno = ibv_destroy_qp(client->owner_side.qp)) || (errno = ibv_destroy_cq(client->owner_side.cq)))
		die("closing the owner's end");
	buffer_release(&client->old);
	side_close(&client->side);
}

int main(int argc, char **argv)
{
	struct device device = open_device(argc > 1 ? argv[1] : NULL);
	struct ibv_device_attr attributes;
	struct client ada, bob;
	struct ibv_pd *pd = ibv_alloc_pd(device.context);

	if (!pd)
		die("ibv_alloc_pd");
	if ((errno = ibv_query_device(device.context, &attributes)))
		die("ibv_query_device");
	if (attributes.atomic_cap == IBV_ATOMIC_NONE)
		die("this device has no atomics");
	printf("atomics of this device are atomic %s\n", attributes.atomic_cap == IBV_ATOMIC_GLOB
								 ? "for everybody, processors included"
								 : "among its own queue pairs");

	/* calloc aligns well enough. Two words: a counter, and a lock that holds the number of its owner, 0 for
	 * none. */
	struct buffer words =
		buffer_register(pd, 2 * sizeof(uint64_t), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
	struct window counter = window_of(&words), lock = counter;

	lock.address += sizeof(uint64_t);
	open_client(&device, &ada, pd);
	open_client(&device, &bob, pd);

	/* A ticket machine: every client gets a different number. */
	for (int round = 0; round < 3; round++) {
		uint64_t first = fetch_and_add(&ada, &counter, 1), second = fetch_and_add(&bob, &counter, 1);

		printf("ada draws ticket %" PRIu64 ", bob ticket %" PRIu64 "\n", first, second);
		if (second != first + 1)
			die("a ticket was drawn twice");
	}
	uint64_t total;

	memcpy(&total, words.bytes, sizeof(total));
	printf("the counter is now %" PRIu64 "\n", total);

	/* A lock: whoever turns 0 into his own number has it. */
	if (!compare_and_swap(&ada, &lock, 0, 1))
		die("ada did not get a free lock");
	printf("ada has the lock\n");
	if (compare_and_swap(&bob, &lock, 0, 2))
		die("bob got a lock that ada has");
	printf("bob does not get it: its word was %" PRIu64 ", and stays so\n", *(uint64_t *)bob.old.bytes);
	if (!compare_and_swap(&ada, &lock, 1, 0))
		die("ada could not unlock");
	if (!compare_and_swap(&bob, &lock, 0, 2))
		die("bob did not get the lock ada gave back");
	printf("ada gave it back; bob has the lock\n");

	close_client(&ada);
	close_client(&bob);
	buffer_release(&words);
	if ((errno = ibv_dealloc_pd(pd)))
		die("ibv_dealloc_pd");
	close_device(&device);
	return total == 6 ? EXIT_SUCCESS : EXIT_FAILURE;
}
