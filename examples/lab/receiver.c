/* SPDX-License-Identifier: MIT
 *
 * The file lab, receiving side: takes one file from one sender.
 *
 *   cc receiver.c lab.c prepare.c -lrdmacm -libverbs -lcrypto -o receiver && ./receiver FILE [PORT [REGION_BYTES]]
 *
 * lab.h has the conversation. The sender writes into our region by RDMA WRITE; we learn of it by its messages, put
 * the bytes into a file without a name, and give it one only when the hash is right. Whatever goes wrong, no half
 * file is left.
 *
 * LAB_SECRET in the environment is what keys are derived from.
 * Exit code: 0 when the file is here and its sender has a key, 1 otherwise, 2 wrong usage.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* O_TMPFILE */
#endif
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lab.h"

enum { REGION = 16 << 20 };

struct receiver {
	struct lab_connection connection;
	uint8_t *region;
	uint64_t region_length;
	struct ibv_mr *region_mr;
	struct lab_message offer;
	uint64_t stored;
	const char *path;
	int file;
	EVP_MD_CTX *hash;
};

/* The name of the file under way, if it has one: a global, because every way out has to remove it. */
static char temporary[4096];

static void remove_temporary(void)
{
	if (temporary[0])
		unlink(temporary);
	temporary[0] = '\0';
}

static void interrupted(int number)
{
	if (temporary[0])
		unlink(temporary);
	_exit(128 + number);
}

/* ---- Connecting ---- */

static void wait_for_sender(struct receiver *receiver, uint16_t port)
{
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct rdma_conn_param parameters = { .rnr_retry_count = 7 };
	struct lab_connection *connection = &receiver->connection;
	struct rdma_cm_event *event;
	struct rdma_cm_id *listener;
	char peer[INET_ADDRSTRLEN];

	connection->events = rdma_create_event_channel();
	if (!connection->events || rdma_create_id(connection->events, &listener, NULL, RDMA_PS_TCP))
		lab_fail("rdma_create_id: %s", strerror(errno));
	if (rdma_bind_addr(listener, (struct sockaddr *)&any) || rdma_listen(listener, 1))
		lab_fail("cannot listen on port %d: %s", port, strerror(errno));
	printf("listening on port %d\n", port);

	event = lab_event(connection->events, RDMA_CM_EVENT_CONNECT_REQUEST);
	connection->id = event->id;
	rdma_ack_cm_event(event);
	/* One sender, one file: others are turned away from here on. */
	rdma_destroy_id(listener);
	lab_prepare(connection);

	if (posix_memalign((void **)&receiver->region, 4096, receiver->region_length))
		lab_fail("no memory for a region of %llu bytes", (unsigned long long)receiver->region_length);
	receiver->region_mr = ibv_reg_mr(connection->pd, receiver->region, receiver->region_length,
					 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (!receiver->region_mr)
		lab_fail("ibv_reg_mr of %llu bytes: %s", (unsigned long long)receiver->region_length, strerror(errno));
	if (rdma_accept(connection->id, &parameters))
		lab_fail("rdma_accept: %s", strerror(errno));
	rdma_ack_cm_event(lab_event(connection->events, RDMA_CM_EVENT_ESTABLISHED));
	inet_ntop(AF_INET, &((struct sockaddr_in *)rdma_get_peer_addr(connection->id))->sin_addr, peer, sizeof(peer));
	printf("connected: %s\n", peer);
}

/* ---- Storing ---- */

/* In the folder of the wanted file, so that giving it its name is one step within one file system. A file without any
 * name is best: it goes with the process, even one that is killed. Where the file system has no such thing, it gets a
 * name of its own. */
static int open_beside(const char *path)
{
	char *copy = strdup(path);
	int file, reason;
	mode_t mask;

	if (!copy)
		return -1;
	file = open(dirname(copy), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
	reason = errno;
	free(copy);
	errno = reason;
	if (file >= 0 || (reason != EOPNOTSUPP && reason != EISDIR && reason != EINVAL))
		return file;
	if (snprintf(temporary, sizeof(temporary), "%s.part-XXXXXX", path) >= (int)sizeof(temporary)) {
		temporary[0] = '\0';
		errno = ENAMETOOLONG;
		return -1;
	}
	file = mkstemp(temporary);
	if (file < 0) {
		temporary[0] = '\0';
		return -1;
	}
	/* mkstemp thinks of secrets; this one shall be readable as any other file. */
	mask = umask(0);
	umask(mask);
	fchmod(file, 0666 & ~mask);
	return file;
}

/* Now, and only now, does it get its name: at once, in place of what had it before. */
static int give_name(int file, const char *path)
{
	char self[64];

	if (fsync(file))
		return -1;
	if (!temporary[0]) {
		char name[sizeof(temporary)];

		/* A link cannot replace a file, but a rename can: two steps. */
		if (snprintf(name, sizeof(name), "%s.part-%d", path, (int)getpid()) >= (int)sizeof(name)) {
			errno = ENAMETOOLONG;
			return -1;
		}
		snprintf(self, sizeof(self), "/proc/self/fd/%d", file);
		if (linkat(AT_FDCWD, self, AT_FDCWD, name, AT_SYMLINK_FOLLOW))
			return -1;
		memcpy(temporary, name, sizeof(name));
	}
	if (rename(temporary, path))
		return -1;
	temporary[0] = '\0';
	return close(file);
}

static void begin_file(struct receiver *receiver)
{
	receiver->file = open_beside(receiver->path);
	if (receiver->file < 0)
		lab_give_up(&receiver->connection, "cannot create %s: %s", receiver->path, strerror(errno));
	receiver->hash = EVP_MD_CTX_new();
	if (!receiver->hash || !EVP_DigestInit_ex(receiver->hash, EVP_sha256(), NULL))
		lab_give_up(&receiver->connection, "SHA-256 is not available");
}

/* What the sender says it has written since the last time. */
static void store(struct receiver *receiver, uint64_t length)
{
	const uint8_t *from = receiver->region;

	if (length > receiver->region_length || length > receiver->offer.length - receiver->stored)
		lab_give_up(&receiver->connection, "%llu bytes announced; the region has %llu, and %llu are missing",
			    (unsigned long long)length, (unsigned long long)receiver->region_length,
			    (unsigned long long)(receiver->offer.length - receiver->stored));
	if (!EVP_DigestUpdate(receiver->hash, from, length))
		lab_give_up(&receiver->connection, "SHA-256 failed");
	for (uint64_t left = length; left > 0;) {
		ssize_t written = write(receiver->file, from, left);

		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			lab_give_up(&receiver->connection, "cannot write %s: %s", receiver->path, strerror(errno));
		from += written;
		left -= (uint64_t)written;
	}
	receiver->stored += length;
	lab_progress("receiving", receiver->stored, receiver->offer.length);
}

/* Windows until DONE. */
static void receive_file(struct receiver *receiver)
{
	lab_progress("receiving", 0, receiver->offer.length);
	for (;;) {
		struct lab_message message = lab_receive(&receiver->connection);

		if (message.kind != LAB_WINDOW && message.kind != LAB_DONE)
			lab_give_up(&receiver->connection, "neither WINDOW nor DONE but message %u arrived",
				    message.kind);
		store(receiver, message.length);
		if (message.kind == LAB_DONE)
			break;
		printf("window: %llu bytes\n", (unsigned long long)message.length);
		lab_send(&receiver->connection, &(struct lab_message){ .kind = LAB_NEXT });
	}
	printf("done: %llu bytes in all\n", (unsigned long long)receiver->stored);
}

/* ---- Judging ---- */

__attribute__((noreturn)) static void refuse(struct receiver *receiver, const char *why)
{
	struct lab_message bad = { .kind = LAB_BAD };

	snprintf(bad.text, sizeof(bad.text), "%s", why);
	lab_send(&receiver->connection, &bad);
	lab_linger(&receiver->connection);
	lab_fail("bad: %s; nothing is kept", why);
}

static void judge(struct receiver *receiver)
{
	uint8_t hash[EVP_MAX_MD_SIZE];
	char why[LAB_TEXT];

	if (receiver->stored < receiver->offer.length) {
		snprintf(why, sizeof(why), "short file: %llu of %llu bytes", (unsigned long long)receiver->stored,
			 (unsigned long long)receiver->offer.length);
		refuse(receiver, why);
	}
	if (!EVP_DigestFinal_ex(receiver->hash, hash, NULL))
		lab_give_up(&receiver->connection, "SHA-256 failed");
	if (memcmp(hash, receiver->offer.hash, LAB_HASH))
		refuse(receiver, "wrong hash: the SHA-256 of what arrived is another one");
	/* "Good" is said when it is safe on disk. */
	if (give_name(receiver->file, receiver->path))
		lab_give_up(&receiver->connection, "cannot store %s: %s", receiver->path, strerror(errno));
	lab_send(&receiver->connection, &(struct lab_message){ .kind = LAB_GOOD });
	printf("good: stored as %s\n", receiver->path);
}

/* The reward: a key that only this receiver can make from that name. */
static void hand_out_key(struct receiver *receiver)
{
	struct lab_message identity = lab_expect(&receiver->connection, LAB_IDENTITY), key = { .kind = LAB_KEY };
	const char *secret = getenv("LAB_SECRET");
	uint8_t code[EVP_MAX_MD_SIZE];
	unsigned length;

	if (!secret)
		secret = "verbena";
	printf("identity: %s\n", identity.text);
	if (!HMAC(EVP_sha256(), secret, (int)strlen(secret), (const uint8_t *)identity.text, strlen(identity.text),
		  code, &length))
		lab_give_up(&receiver->connection, "HMAC failed");
	lab_hex(key.text, code, 16);
	lab_send(&receiver->connection, &key);
	/* Who has the key disconnects. */
	lab_wait_for_end(&receiver->connection);
	printf("key sent: %s\n", key.text);
}

int main(int argc, char **argv)
{
	struct receiver receiver = { .region_length = REGION, .file = -1 };
	char hash[2 * LAB_HASH + 1];

	if (argc < 2 || argc > 4) {
		fprintf(stderr, "Usage: %s FILE [PORT [REGION_BYTES]]\n", argv[0]);
		return 2;
	}
	receiver.path = argv[1];
	if (argc > 3)
		receiver.region_length = strtoull(argv[3], NULL, 0);
	if (receiver.region_length == 0)
		lab_fail("%s is no size for a region", argv[3]);
	setvbuf(stdout, NULL, _IOLBF, 0);
	atexit(remove_temporary);
	signal(SIGINT, interrupted);
	signal(SIGTERM, interrupted);
	/* A file-size limit shall be an error of write(), not the end. */
	signal(SIGXFSZ, SIG_IGN);

	wait_for_sender(&receiver, (uint16_t)(argc > 2 ? atoi(argv[2]) : LAB_PORT));
	receiver.offer = lab_expect(&receiver.connection, LAB_OFFER);
	lab_hex(hash, receiver.offer.hash, LAB_HASH);
	printf("offered: %llu bytes, SHA-256 %s\n", (unsigned long long)receiver.offer.length, hash);
	begin_file(&receiver);
	lab_send(&receiver.connection, &(struct lab_message){ .kind = LAB_REGION,
							      .address = (uintptr_t)receiver.region,
							      .length = receiver.region_length,
							      .rkey = receiver.region_mr->rkey });
	receive_file(&receiver);
	judge(&receiver);
	hand_out_key(&receiver);

	rdma_disconnect(receiver.connection.id);
	EVP_MD_CTX_free(receiver.hash);
	ibv_dereg_mr(receiver.region_mr);
	free(receiver.region);
	lab_close(&receiver.connection);
	rdma_destroy_event_channel(receiver.connection.events);
	return EXIT_SUCCESS;
}
