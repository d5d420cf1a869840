/* SPDX-License-Identifier: MIT
 *
 * The file lab, sending side: gives one file to a receiver, and gets a secret key for it.
 *
 *   cc sender.c lab.c prepare.c -lrdmacm -libverbs -lcrypto -o sender && ./sender ADDRESS FILE ID [PORT]
 *
 * lab.h has the conversation, lab.c the messages, receiver.c the other side.
 * In the exercise that `verbena lab start` writes, the insides of the six parts are left out.
 *
 * Exit code: 0 when the receiver has the file and we have the key, 1 otherwise, 2 wrong usage.
 */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lab.h"

/* The file passes through this much registered memory: while one slot is on its way, the next is read. */
enum { SLOT = 256 << 10, SLOTS = LAB_WRITES };

struct sender {
	struct lab_connection connection;
	const char *path;
	int file;
	uint64_t length;
	uint8_t hash[LAB_HASH];
	uint8_t *slots;
	struct ibv_mr *slots_mr;
	struct lab_message region;       /* what the receiver offered: address, length, rkey */
};

/* ---- The file ---- */

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Exactly so many bytes; a file that became shorter meanwhile ends the program, and tells the receiver why. */
static void read_file(struct sender *sender, uint64_t offset, void *to, uint64_t length)
{
	for (uint64_t done = 0; done < length;) {
		ssize_t count = pread(sender->file, (uint8_t *)to + done, length - done, (off_t)(offset + done));

		if (count < 0 && errno == EINTR)
			continue;
		if (count < 0)
			lab_give_up(&sender->connection, "cannot read %s: %s", sender->path, strerror(errno));
		if (count == 0)
			lab_give_up(&sender->connection, "short file: %llu of %llu bytes are left",
				    (unsigned long long)(offset + done), (unsigned long long)sender->length);
		done += (uint64_t)count;
	}
}

static void open_and_hash(struct sender *sender)
{
	static uint8_t piece[SLOT];
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	char text[2 * LAB_HASH + 1];
	struct stat status;
	ssize_t count;

	sender->file = open(sender->path, O_RDONLY | O_CLOEXEC);
	if (sender->file < 0 || fstat(sender->file, &status))
		lab_fail("%s: %s", sender->path, strerror(errno));
	if (!S_ISREG(status.st_mode))
		lab_fail("%s is not a file", sender->path);
	if (!context || !EVP_DigestInit_ex(context, EVP_sha256(), NULL))
		lab_fail("SHA-256 is not available");
	lab_progress("hashing", 0, (uint64_t)status.st_size);
	while ((count = read(sender->file, piece, sizeof(piece))) > 0) {
		EVP_DigestUpdate(context, piece, (size_t)count);
		sender->length += (uint64_t)count;
		lab_progress("hashing", sender->length, (uint64_t)status.st_size);
	}
	if (count < 0)
		lab_fail("cannot read %s: %s", sender->path, strerror(errno));
	EVP_DigestFinal_ex(context, sender->hash, NULL);
	EVP_MD_CTX_free(context);
	lab_hex(text, sender->hash, LAB_HASH);
	printf("%s: %llu bytes, SHA-256 %s\n", sender->path, (unsigned long long)sender->length, text);
}

/* ---- The parts ---- */

static void connect_to_receiver(struct sender *sender, struct sockaddr *address)
{
	struct lab_connection *connection = &sender->connection;

	connection->events = rdma_create_event_channel();
	if (!connection->events)
		lab_fail("rdma_create_event_channel: %s", strerror(errno));

	/* PART 1: connect. (examples/13_cm_client.c)
	 *
	 * Create connection->id on the channel connection->events (RDMA_PS_TCP). Resolve the address, wait for the
	 * event (lab_event does it; acknowledge what it returns), resolve the route, wait again. Then call
	 * lab_prepare, which makes the queue pair and posts the receives. Connect, with retry_count and
	 * rnr_retry_count 7, and wait for ESTABLISHED. */
	struct rdma_conn_param parameters = { .retry_count = 7, .rnr_retry_count = 7 };

	if (rdma_create_id(connection->events, &connection->id, NULL, RDMA_PS_TCP))
		lab_fail("rdma_create_id: %s", strerror(errno));
	if (rdma_resolve_addr(connection->id, NULL, address, 2000))
		lab_fail("rdma_resolve_addr: %s", strerror(errno));
	rdma_ack_cm_event(lab_event(connection->events, RDMA_CM_EVENT_ADDR_RESOLVED));
	if (rdma_resolve_route(connection->id, 2000))
		lab_fail("rdma_resolve_route: %s", strerror(errno));
	rdma_ack_cm_event(lab_event(connection->events, RDMA_CM_EVENT_ROUTE_RESOLVED));
	lab_prepare(connection);
	if (rdma_connect(connection->id, &parameters))
		lab_fail("rdma_connect: %s", strerror(errno));
	rdma_ack_cm_event(lab_event(connection->events, RDMA_CM_EVENT_ESTABLISHED));
	/* END OF PART 1 */
	printf("connected\n");
}

/* The file passes through these slots: the adapter reads from them. */
static void register_slots(struct sender *sender)
{
	if (posix_memalign((void **)&sender->slots, 4096, (size_t)SLOTS * SLOT))
		lab_fail("out of memory");
	/* PART 10: memory of the file. (examples/04_rdma_write.c)
	 *
	 * Register all SLOTS slots of SLOT bytes as sender->slots_mr, in the protection domain of the queue pair. Which
	 * access does an adapter need that only reads what it sends? */
	sender->slots_mr = ibv_reg_mr(sender->connection.pd, sender->slots, (size_t)SLOTS * SLOT, 0);
	if (!sender->slots_mr)
		lab_fail("ibv_reg_mr: %s", strerror(errno));
	/* END OF PART 10 */
	if (!sender->slots_mr)
		lab_fail("sender->slots_mr is not set");
	printf("slots: %d bytes registered\n", SLOTS * SLOT);
}

static void offer_file(struct sender *sender)
{
	/* PART 2: the offer. (examples/02_first_send.c)
	 *
	 * Send a message LAB_OFFER with the file's length and hash (lab_send), then wait for the answer LAB_REGION
	 * (lab_expect) and keep it in sender->region. */
	struct lab_message offer = { .kind = LAB_OFFER, .length = sender->length };

	memcpy(offer.hash, sender->hash, LAB_HASH);
	lab_send(&sender->connection, &offer);
	sender->region = lab_expect(&sender->connection, LAB_REGION);
	/* END OF PART 2 */
	printf("the receiver's region: %llu bytes, rkey 0x%x\n", (unsigned long long)sender->region.length,
	       sender->region.rkey);
}

/* One RDMA WRITE, of so many bytes at the beginning of a slot, to that offset in the receiver's region. */
static void post_write(struct sender *sender, unsigned slot, uint64_t offset, uint32_t length)
{
	/* PART 3: RDMA WRITE. (examples/04_rdma_write.c)
	 *
	 * The slot begins at sender->slots + slot * SLOT, and sender->slots_mr is its memory region. The wr_id is
	 * LAB_ID_WRITE, and the request must be signaled, so that lab_wait can count it. Count it yourself when it is
	 * posted: sender->connection.writes_under_way. */
	struct ibv_sge piece = { (uintptr_t)(sender->slots + (size_t)slot * SLOT), length, sender->slots_mr->lkey };
	struct ibv_send_wr write = { .wr_id = LAB_ID_WRITE,
				     .sg_list = &piece,
				     .num_sge = 1,
				     .opcode = IBV_WR_RDMA_WRITE,
				     .send_flags = IBV_SEND_SIGNALED,
				     .wr.rdma = { .remote_addr = sender->region.address + offset,
						  .rkey = sender->region.rkey } },
			   *refused;
	int error = ibv_post_send(sender->connection.id->qp, &write, &refused);

	if (error)
		lab_fail("ibv_post_send: %s", strerror(error));
	sender->connection.writes_under_way++;
	/* END OF PART 3 */
}

/* So many bytes of the file, from that offset, to the beginning of the region. Requests of one queue pair are
 * completed in order, so the slot that is needed next is always the one that becomes free next. */
static void write_window(struct sender *sender, uint64_t from, uint64_t length)
{
	unsigned slot = 0;

	for (uint64_t offset = 0; offset < length;) {
		uint32_t count = (uint32_t)smaller(SLOT, length - offset);

		while (sender->connection.writes_under_way == SLOTS)
			lab_wait(&sender->connection);
		read_file(sender, from + offset, sender->slots + (size_t)slot * SLOT, count);
		post_write(sender, slot, offset, count);
		slot = (slot + 1) % SLOTS;
		offset += count;
		lab_progress("sending", from + offset, sender->length);
	}
	/* The slots are ours again only when all are completed. */
	while (sender->connection.writes_under_way > 0)
		lab_wait(&sender->connection);
}

/* The last bytes are in the region. Is everything as it should be? */
static void ask_for_verdict(struct sender *sender, uint64_t length)
{
	/* PART 4: done.
	 *
	 * Send LAB_DONE with that length, the bytes since the last window. The answer (lab_receive) is LAB_GOOD, or
	 * LAB_BAD with a text; end the program by lab_fail then. */
	struct lab_message verdict;

	lab_send(&sender->connection, &(struct lab_message){ .kind = LAB_DONE, .length = length });
	verdict = lab_receive(&sender->connection);
	if (verdict.kind == LAB_BAD)
		lab_fail("the receiver says: bad: %s", verdict.text);
	if (verdict.kind != LAB_GOOD)
		lab_give_up(&sender->connection, "neither GOOD nor BAD but message %u arrived", verdict.kind);
	/* END OF PART 4 */
	printf("the receiver says: good\n");
}

static void ask_for_key(struct sender *sender, const char *identity)
{
	struct lab_message key = { .text = "" };

	/* PART 5: the key.
	 *
	 * Send LAB_IDENTITY with the identity as its text (at most LAB_TEXT - 1 characters and a zero); the text of
	 * the answer, LAB_KEY, goes into key. */
	struct lab_message question = { .kind = LAB_IDENTITY };

	snprintf(question.text, sizeof(question.text), "%s", identity);
	lab_send(&sender->connection, &question);
	key = lab_expect(&sender->connection, LAB_KEY);
	/* END OF PART 5 */
	printf("key for %s: %s\n", identity, key.text);
}

/* Tell the receiver that so many bytes are in its region, and that more will come; wait until it has stored them. */
static void pass_window(struct sender *sender, uint64_t length)
{
	/* PART 6: windows. A file that fits into the region works without.
	 *
	 * Send LAB_WINDOW with that length; wait for LAB_NEXT. */
	lab_send(&sender->connection, &(struct lab_message){ .kind = LAB_WINDOW, .length = length });
	lab_expect(&sender->connection, LAB_NEXT);
	/* END OF PART 6 */
}

/* ---- All together ---- */

static void send_file(struct sender *sender)
{
	uint64_t sent = 0, window;

	lab_progress("sending", 0, sender->length);
	for (;;) {
		window = smaller(sender->region.length, sender->length - sent);
		write_window(sender, sent, window);
		sent += window;
		if (sent == sender->length)
			break;
		if (window == 0)
			lab_give_up(&sender->connection, "the receiver's region is empty");
		pass_window(sender, window);
	}
	ask_for_verdict(sender, window);
}

static struct addrinfo *look_up(const char *name, const char *port)
{
	struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM }, *found;
	int error = getaddrinfo(name, port, &hints, &found);

	if (error)
		lab_fail("%s port %s: %s", name, port, gai_strerror(error));
	return found;
}

int main(int argc, char **argv)
{
	struct sender sender = { .file = -1 };
	struct addrinfo *address;
	char port[16];

	if (argc < 4 || argc > 5) {
		fprintf(stderr, "Usage: %s ADDRESS FILE ID [PORT]\n", argv[0]);
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	sender.path = argv[2];
	open_and_hash(&sender);
	snprintf(port, sizeof(port), "%d", LAB_PORT);
	address = look_up(argv[1], argc > 4 ? argv[4] : port);
	connect_to_receiver(&sender, address->ai_addr);
	freeaddrinfo(address);

	register_slots(&sender);
	offer_file(&sender);
	send_file(&sender);
	ask_for_key(&sender, argv[3]);

	rdma_disconnect(sender.connection.id);
	rdma_ack_cm_event(lab_event(sender.connection.events, RDMA_CM_EVENT_DISCONNECTED));
	ibv_dereg_mr(sender.slots_mr);
	free(sender.slots);
	lab_close(&sender.connection);
	rdma_destroy_event_channel(sender.connection.events);
	close(sender.file);
	return EXIT_SUCCESS;
}
