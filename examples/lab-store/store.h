/* SPDX-License-Identifier: MIT
 *
 * The store lab: a table of keys and values in the server's memory, which clients read without asking the server.
 *
 *   client                                     server
 *     connect                              ->
 *                                          <-  accept, with struct store_table as private data: where the table is
 *     RDMA READ of a bucket                =>  (its program does not notice)
 *     SEND struct store_request            ->  puts the value
 *                                          <-  SEND struct store_answer
 *
 * A key's home is bucket hash(key) % buckets. Where that is taken by another key, it is in the first free one after
 * it (the first bucket follows the last). Nothing is ever removed: an empty bucket ends the search.
 *
 * The server changes a bucket while others read it. So each has a version, which is odd while it is being changed, and
 * a checksum over all the rest: a READ that caught some bytes before and some after the change does not add up.
 */
#ifndef STORE_H
#define STORE_H

#include <endian.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STORE_PORT = 7476, STORE_BUCKETS = 32, STORE_KEY = 32, STORE_VALUE = 80 };

/* Numbers that travel are big-endian. */
struct store_table {
	uint64_t address;
	uint32_t rkey;
	uint32_t buckets;
};

struct store_bucket {
	uint64_t version;                /* 0: empty; odd: being changed */
	char key[STORE_KEY];             /* ends with a zero */
	char value[STORE_VALUE];
	uint64_t check;                  /* store_check of all the rest */
};

struct store_request {
	char key[STORE_KEY], value[STORE_VALUE];
};

struct store_answer {
	uint32_t stored;                 /* 1, or 0: the table is full */
};

/* FNV-1a, 64 bits. */
static inline uint64_t store_mix(uint64_t hash, const void *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++)
		hash = (hash ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3;
	return hash;
}

static inline uint32_t store_home(const char *key, uint32_t buckets)
{
	return (uint32_t)(store_mix(0xcbf29ce484222325, key, strlen(key)) % buckets);
}

static inline uint64_t store_check(const struct store_bucket *bucket)
{
	return htobe64(store_mix(0xcbf29ce484222325, bucket, offsetof(struct store_bucket, check)));
}

/* Complains on stderr, in the name of the program, and ends it with exit code 1. */
__attribute__((format(printf, 1, 2), noreturn)) static inline void lab_fail(const char *format, ...)
{
	extern char *program_invocation_short_name;
	va_list arguments;

	fflush(stdout);
	fprintf(stderr, "%s: ", program_invocation_short_name);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(EXIT_FAILURE);
}

/* For the exercise: this part of the program is not written yet. */
__attribute__((noreturn)) static inline void lab_part_missing(int part)
{
	lab_fail("part %d is not written yet", part);
}

#endif
