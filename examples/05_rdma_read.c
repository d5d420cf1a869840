/* SPDX-License-Identifier: MIT
 *
 * 05: RDMA READ fetches bytes out of the other side's memory.
 *
 *   cc 05_rdma_read.c -libverbs && ./a.out [DEVICE]
 *
 * The mirror of a WRITE: remote_addr and rkey name the source, the scatter list says where the bytes go. Three things
 * differ:
 *
 *   - the far memory needs IBV_ACCESS_REMOTE_READ, and ours IBV_ACCESS_LOCAL_WRITE, because our adapter writes there;
 *   - a READ waits for an answer, so each end bounds how many may be under way: max_rd_atomic of the asking queue
 *     pair must not exceed max_dest_rd_atomic of the answering one (both 4 in course.h). More may be posted; they
 *     wait their turn;
 *   - our buffer holds nothing of use before the completion. A WRITE posted after a READ may overtake its *answer*,
 *     so a request that depends on what was read needs IBV_SEND_FENCE.
 */
#include "course.h"

enum { RECORDS = 8, RECORD = 32 };

/* A table of records, as a database server might keep it for clients that read without disturbing it. */
static void fill(struct buffer *table)
{
	for (int i = 0; i < RECORDS; i++)
		snprintf(table->bytes + i * RECORD, RECORD, "record %d: %d squared is %d", i, i, i * i);
}

static struct ibv_send_wr read_record(const struct window *far, int number, struct ibv_sge *to)
{
	return (struct ibv_send_wr){
		.wr_id = (uint64_t)number, .sg_list = to, .num_sge = 1, .opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = far->address + (uint64_t)number * RECORD, .rkey = far->rkey },
	};
}

int main(int argc, char **argv)
{
	struct device device = open_device(argc > 1 ? argv[1] : NULL);
	struct side reader = side_open(&device), owner = side_open(&device);

	sides_connect(&device, &reader, &owner);

	struct buffer table = buffer_register(owner.pd, RECORDS * RECORD, IBV_ACCESS_REMOTE_READ);
	struct buffer copy = buffer_register(reader.pd, RECORDS * RECORD, IBV_ACCESS_LOCAL_WRITE);
	/* As in 04, the owner would send this. */
	struct window far = window_of(&table);

	fill(&table);

	/* One record out of the middle. */
	struct ibv_sge place = piece_of(&copy, 0, RECORD);
	struct ibv_send_wr one = read_record(&far, 5, &place);

	post_send(reader.qp, &one);

	struct ibv_wc completion = wait_completion(reader.cq, "RDMA READ");

	printf("read %d bytes: %s\n", RECORD, copy.bytes);
	if (completion.opcode != IBV_WC_RDMA_READ || strcmp(copy.bytes, "record 5: 5 squared is 25"))
		die("that is not record 5");

	/* All of them, as one list of eight requests: more than may be under way at once, which the queue pair sees
	 * to itself. They complete in the order in which they were posted. */
	struct ibv_sge places[RECORDS];
	struct ibv_send_wr all[RECORDS];

	memset(copy.bytes, 0, copy.length);
	for (int i = 0; i < RECORDS; i++) {
		places[i] = piece_of(&copy, (size_t)i * RECORD, RECORD);
		all[i] = read_record(&far, i, &places[i]);
		all[i].next = i + 1 < RECORDS ? &all[i + 1] : NULL;
	}
	post_send(reader.qp, all);
	for (int i = 0; i < RECORDS; i++) {
		completion = wait_completion(reader.cq, "RDMA READ");
		if (completion.wr_id != (uint64_t)i)
			die("request %d completed before request %d", (int)completion.wr_id, i);
		printf("request %d: %s\n", i, copy.bytes + i * RECORD);
	}
	if (memcmp(copy.bytes, table.bytes, table.length))
		die("the copy differs");

	/* Move a word: read it from record 0, write it into our own page of the owner's table. Without the fence the
	 * WRITE could leave before the READ's answer is here, and carry old bytes. */
	struct buffer page = buffer_register(owner.pd, RECORD, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	struct window target = window_of(&page);
	struct ibv_send_wr write = {
		.wr_id = 101, .sg_list = &places[0], .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE,
		.wr.rdma = { .remote_addr = target.address, .rkey = target.rkey },
	};
	struct ibv_send_wr fetch = read_record(&far, 3, &places[0]);

	fetch.next = &write;
	post_send(reader.qp, &fetch);
	wait_completion(reader.cq, "READ before the fence");
	wait_completion(reader.cq, "WRITE behind the fence");
	printf("read and written back, fenced: %s\n", page.bytes);
	if (strcmp(page.bytes, table.bytes + 3 * RECORD))
		die("the fence did not hold");

	buffer_release(&page);
	buffer_release(&copy);
	buffer_release(&table);
	side_close(&reader);
	side_close(&owner);
	close_device(&device);
	return EXIT_SUCCESS;
}
