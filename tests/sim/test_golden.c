/* SPDX-License-Identifier: MIT
 *
 * What the kernel's rxe sent, played at our responder: it accepts every request of every capture, and answers with
 * the opcodes, PSNs and message numbers with which rxe answered. Keys and addresses of the captured machine stand
 * for memory that takes anything.
 */
#include <dirent.h>

#include "sim/testing.h"
#include "vectors/capture.h"
#include "wire/burst.h"

enum { MAX_ENDS = 16, MAX_PACKETS = 4096, MAX_DATAGRAM = 9216 };

static const char *folder;

/* One queue pair of the captured machines, as the target of requests. */
struct end {
	uint8_t address[16], peer[16];
	uint32_t qpn;
	enum ibv_qp_type type;
	uint32_t mtu;
	uint32_t first_psn;
	uint32_t qkey;
	unsigned requests;
};

struct file {
	const char *name;
	struct vb_roce_packet *packets;
	uint8_t (*bytes)[MAX_DATAGRAM];
	unsigned count;
	struct end ends[MAX_ENDS];
	unsigned end_count;
};

static void load(struct file *file, const char *path)
{
	struct captured_packet captured;
	struct capture capture;

	file->count = file->end_count = 0;
	assert_true(capture_open(&capture, path));
	while (capture_next(&capture, &captured)) {
		struct vb_roce_packet *packet = &file->packets[file->count];

		assert_true(file->count < MAX_PACKETS && captured.length <= MAX_DATAGRAM);
		memcpy(file->bytes[file->count], captured.datagram, captured.length);
		assert_int_equal(vb_roce_packet_decode(packet, file->bytes[file->count], captured.length,
						       &captured.path, true, captured.ip_id),
				 VB_PACKET_OK);
		file->count++;
	}
	capture_close(&capture);
}

static struct end *end_of(struct file *file, const struct vb_roce_packet *packet)
{
	struct end *end;

	for (unsigned i = 0; i < file->end_count; i++) {
		end = &file->ends[i];
		if (end->qpn == packet->destination_qpn && memcmp(end->address, packet->from.destination, 16) == 0)
			return end;
	}
	assert_true(file->end_count < MAX_ENDS);
	end = &file->ends[file->end_count++];
	memset(end, 0, sizeof(*end));
	memcpy(end->address, packet->from.destination, 16);
	memcpy(end->peer, packet->from.source, 16);
	end->qpn = packet->destination_qpn;
	end->type = packet->op->service == VB_SERVICE_RC ? IBV_QPT_RC :
		    packet->op->service == VB_SERVICE_UC ? IBV_QPT_UC :
							   IBV_QPT_UD;
	end->first_psn = packet->psn.v;
	end->qkey = packet->deth.qkey;
	end->mtu = 1024;
	return end;
}

/* What was captured of requests, and at which MTU. MADs are the connection manager's. */
static void find_ends(struct file *file)
{
	for (unsigned i = 0; i < file->count; i++) {
		struct vb_roce_packet *packet = &file->packets[i];
		struct end *end;

		if (!packet->op->is_request || packet->destination_qpn <= 1)
			continue;
		end = end_of(file, packet);
		end->requests++;
		if (packet->op->position == VB_POSITION_FIRST || packet->op->position == VB_POSITION_MIDDLE)
			end->mtu = packet->payload_length;
		else if (packet->payload_length > end->mtu)
			end->mtu = 4096;
	}
	/* Read responses tell the MTU of those who only read. */
	for (unsigned i = 0; i < file->count; i++)
		if (file->packets[i].op->kind == VB_KIND_READ_RESPONSE &&
		    file->packets[i].op->position == VB_POSITION_MIDDLE)
			for (unsigned k = 0; k < file->end_count; k++)
				if (file->ends[k].type == IBV_QPT_RC)
					file->ends[k].mtu = file->packets[i].payload_length;
}

static enum ibv_mtu mtu_code(uint32_t mtu)
{
	enum ibv_mtu code = IBV_MTU_256;

	while (128u << code < mtu)
		code++;
	return code;
}

/* Answers that our responder gave. */
struct answers {
	struct {
		uint8_t opcode;
		uint32_t psn, msn, length;
	} list[MAX_PACKETS];
	unsigned count;
	unsigned naks;
};

static bool record(void *context, const struct vb_roce_packet *packet)
{
	struct answers *answers = context;

	if (packet->op->is_request || packet->op->service == VB_SERVICE_CNP)
		return false;
	if ((packet->op->headers & VB_HEADER_AETH) && (packet->aeth.syndrome & VB_AETH_TYPE_MASK) != VB_AETH_ACK)
		answers->naks++;
	assert_true(answers->count < MAX_PACKETS);
	answers->list[answers->count].opcode = packet->opcode;
	answers->list[answers->count].psn = packet->psn.v;
	answers->list[answers->count].msn = packet->op->headers & VB_HEADER_AETH ? packet->aeth.msn : 0;
	answers->list[answers->count].length = packet->payload_length;
	answers->count++;
	return false;
}

static bool name_has(const struct file *file, const char *part)
{
	return strstr(file->name, part) != NULL;
}

/* Captures in which rxe refused something, or repeated itself: what we answer is ours to decide. */
static bool answers_are_comparable(const struct file *file)
{
	static const char *const special[] = {"badkey", "bound", "noperm",    "toolong",
					      "rnr",    "loss",  "blackhole", "op-sendinv"};

	for (unsigned i = 0; i < sizeof(special) / sizeof(special[0]); i++)
		if (name_has(file, special[i]))
			return false;
	return file->end_count <= 2;
}

static void compare_answers(const struct file *file, const struct end *end, const struct answers *answers)
{
	unsigned n = 0;

	for (unsigned i = 0; i < file->count; i++) {
		const struct vb_roce_packet *theirs = &file->packets[i];

		if (theirs->op->is_request || memcmp(theirs->from.source, end->address, 16) != 0)
			continue;
		assert_true(n < answers->count);
		assert_int_equal(answers->list[n].opcode, theirs->opcode);
		assert_int_equal(answers->list[n].psn, theirs->psn.v);
		assert_int_equal(answers->list[n].length, theirs->payload_length);
		if (theirs->op->headers & VB_HEADER_AETH)
			assert_int_equal(answers->list[n].msn, theirs->aeth.msn);
		n++;
	}
	assert_int_equal(n, answers->count);
}

static void open_end(struct pair *pair, const struct end *end)
{
	struct sim_connection connection = sim_usual;

	if (end->type == IBV_QPT_UD) {
		sim_open_datagram(pair->a, end->qkey, IBV_MTU_4096);
		return;
	}
	connection.mtu = mtu_code(end->mtu);
	assert_int_equal(sim_to_init(pair->a, SIM_ALL_ACCESS & ~IBV_ACCESS_MW_BIND), 0);
	assert_int_equal(sim_to_init(pair->b, SIM_ALL_ACCESS & ~IBV_ACCESS_MW_BIND), 0);
	assert_int_equal(sim_to_rtr(pair->a, pair->b, &connection, end->first_psn, 128), 0);
}

static unsigned play(struct file *file, const struct end *end)
{
	struct answers *answers = calloc(1, sizeof(*answers));
	uint32_t null_key;
	unsigned accepted = 0;
	struct pair pair;
	struct ibv_wc wc;

	assert_non_null(answers);
	pair_make(&pair, 1, false, end->type, 65536);
	null_key = sim_null_region(pair.hosts[0]);
	open_end(&pair, end);
	pair.sim->network.filter = record;
	pair.sim->network.filter_context = answers;
	for (unsigned i = 0; i < file->count; i++) {
		struct vb_roce_packet packet = file->packets[i];

		if (!packet.op->is_request || packet.destination_qpn != end->qpn ||
		    memcmp(packet.from.destination, end->address, 16) != 0)
			continue;
		while (sim_poll(pair.a_cq, &wc))
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
		sim_post_receive(pair.a, pair.a_memory.bytes, 65536, pair.a_memory.key, 1);
		packet.reth.rkey = null_key;
		packet.atomic.rkey = pair.a_memory.key;
		packet.atomic.address = (uintptr_t)pair.a_memory.bytes;
		/* There is no window here to be invalidated. */
		if (packet.op->headers & VB_HEADER_IETH)
			continue;
		sim_inject(pair.a, &packet);
		sim_run(pair.sim);
		if (pair.a->fault.fault != VB_FAULT_NONE)
			print_message("%s: packet %u: %s\n", file->name, i, vb_fault_sentence(pair.a->fault.fault));
		assert_int_equal(pair.a->fault.fault, VB_FAULT_NONE);
		accepted++;
	}
	if (!name_has(file, "loss"))
		assert_int_equal(answers->naks, 0);
	if (end->type == IBV_QPT_RC && answers_are_comparable(file))
		compare_answers(file, end, answers);
	assert_int_equal(pair.hosts[0]->counters.dropped_pkts, 0);
	pair_close(&pair);
	free(answers);
	return accepted;
}

static unsigned play_folder(const char *path)
{
	struct file file = {0};
	struct dirent *entry;
	unsigned accepted = 0;
	DIR *directory = opendir(path);

	if (!directory)
		return 0;
	file.packets = calloc(MAX_PACKETS, sizeof(*file.packets));
	file.bytes = calloc(MAX_PACKETS, MAX_DATAGRAM);
	assert_non_null(file.packets);
	assert_non_null(file.bytes);
	while ((entry = readdir(directory)) != NULL) {
		char full[4096];

		if (strncmp(entry->d_name, "rxe-", 4) != 0)
			continue;
		snprintf(full, sizeof(full), "%s/%s", path, entry->d_name);
		file.name = entry->d_name;
		load(&file, full);
		find_ends(&file);
		for (unsigned i = 0; i < file.end_count; i++)
			accepted += play(&file, &file.ends[i]);
	}
	closedir(directory);
	free(file.packets);
	free(file.bytes);
	return accepted;
}

static void every_captured_request_is_accepted(void **state)
{
	char older[4096];
	unsigned accepted = play_folder(folder);

	(void)state;
	snprintf(older, sizeof(older), "%s/linux-6.1", folder);
	accepted += play_folder(older);
	print_message("%u requests\n", accepted);
	assert_true(accepted > 20);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_captured_request_is_accepted),
	};

	if (argc != 2)
		return 77;
	folder = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
