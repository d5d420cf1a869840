/* SPDX-License-Identifier: MIT
 *
 * The file lab: what sender and receiver have in common.
 *
 * The conversation. Messages are SENDs of one fixed size; the file itself goes by RDMA WRITE, straight into the
 * receiver's memory.
 *
 *   sender                                   receiver
 *     OFFER     length, SHA-256         ->
 *                                       <-   REGION    address, length, rkey
 *     (RDMA WRITEs)                     =>
 *     WINDOW    bytes written           ->             only while more is to come than fits into the region
 *                                       <-   NEXT      stored; the region is free again
 *     (RDMA WRITEs)                     =>
 *     DONE      bytes since the last window ->
 *                                       <-   GOOD, or BAD with a text
 *     IDENTITY  text: who you are       ->
 *                                       <-   KEY       text: a secret key derived from it
 *
 * Either side may say ABORT, with a text, instead of what is expected of it.
 */
#ifndef LAB_H
#define LAB_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	LAB_PORT = 7474,
	LAB_HASH = 32,          /* bytes of a SHA-256 */
	LAB_TEXT = 200,
	LAB_RECEIVES = 4,       /* messages that may arrive before one is read */
	LAB_WRITES = 8,         /* RDMA WRITEs that may be under way */
	LAB_PATIENCE = 60,      /* seconds without a word from the peer before we give up */
	LAB_PROBE = 2,          /* seconds of silence before we see whether there still is a peer */
	LAB_ACK_TIMEOUT = 17,   /* 4.096 us * 2^17 = 0.54 s until a packet is repeated, 7 times: 4 s to notice a death */
};

enum lab_kind {
	LAB_OFFER = 1, LAB_REGION, LAB_WINDOW, LAB_NEXT, LAB_DONE, LAB_GOOD, LAB_BAD, LAB_IDENTITY, LAB_KEY, LAB_ABORT,
};

/* In memory in this machine's byte order; lab_send and lab_receive turn it into the network's and back. */
struct lab_message {
	uint32_t kind;           /* enum lab_kind */
	uint32_t rkey;
	uint64_t address;
	uint64_t length;
	uint8_t hash[LAB_HASH];
	char text[LAB_TEXT];     /* ends with a zero */
};

struct lab_connection {
	struct rdma_event_channel *events;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_comp_channel *completions;
	struct ibv_cq *cq;
	struct lab_message *messages;          /* LAB_RECEIVES to receive into, one to send from */
	struct ibv_mr *messages_mr;
	unsigned arrived[LAB_RECEIVES];        /* slots that hold a message nobody has read yet, oldest first */
	unsigned arrived_count;
	unsigned receives_posted;              /* so far */
	bool sending;                          /* the message to send is still in use */
	bool probing;                          /* a probe is under way */
	int silence;                           /* seconds since the last word */
	bool closed;                           /* the peer has disconnected */
	unsigned writes_under_way;             /* counted up by whoever posts one, down by lab_wait */
};

/* The wr_id of each request says what it was: LAB_ID_RECEIVE + slot, LAB_ID_SEND, LAB_ID_PROBE, LAB_ID_WRITE. */
enum { LAB_ID_RECEIVE = 0, LAB_ID_SEND = 100, LAB_ID_PROBE = 101, LAB_ID_WRITE = 200 };

/* Complains on stderr, in the name of the program, and ends it with exit code 1. */
__attribute__((format(printf, 1, 2), noreturn)) void lab_fail(const char *format, ...);
/* The same, and lets the peer know the reason first. */
__attribute__((format(printf, 2, 3), noreturn)) void lab_give_up(struct lab_connection *connection, const char *format,
								 ...);
/* For the exercise: this part of the program is not written yet. */
__attribute__((noreturn)) void lab_part_missing(int part);

/* Waits for the next event of the connection manager, which has to be the wanted one. Caller acknowledges it. */
struct rdma_cm_event *lab_event(struct rdma_event_channel *events, enum rdma_cm_event_type wanted);

/* connection->id has a device (its address is resolved, or it came with a request): make PD, CQ and queue pair, and
 * post the receives. (prepare.c) */
void lab_prepare(struct lab_connection *connection);
void lab_close(struct lab_connection *connection);

/* For the next message: one receive, into that slot. */
void lab_post_receive(struct lab_connection *connection, unsigned slot);

/* Sleeps until at least one request is completed, and takes account of all that are. Ends the program when the peer
 * is gone. */
void lab_wait(struct lab_connection *connection);
void lab_send(struct lab_connection *connection, const struct lab_message *message);
/* Last words: stays, for two seconds at most, until the peer has what was sent, or is gone. */
void lab_linger(struct lab_connection *connection);
struct lab_message lab_receive(struct lab_connection *connection);
/* Receives; anything else than that kind ends the program. */
struct lab_message lab_expect(struct lab_connection *connection, enum lab_kind kind);

/* Nothing more will be said: waits for the peer to disconnect. */
void lab_wait_for_end(struct lab_connection *connection);

/* A bar on stderr, if that is a terminal: nothing otherwise. Call it as often as you like. */
void lab_progress(const char *what, uint64_t done, uint64_t total);

/* "e3b0c442..." of so many bytes; text has room for twice as many characters, and one. */
void lab_hex(char *text, const uint8_t *bytes, unsigned count);

#endif
