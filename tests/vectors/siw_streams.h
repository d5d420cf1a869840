/* SPDX-License-Identifier: MIT
 *
 * Reads the streams of siw/ (see siw/index.txt), for tests: of each connection the bytes of both directions, and which came when.
 * Needs no library and works on any byte order.
 */
#ifndef VB_TESTS_SIW_STREAMS_H
#define VB_TESTS_SIW_STREAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SIW_CONNECTIONS = 4, SIW_CHUNKS = 1024 };

struct siw_direction {
	uint8_t *bytes;
	size_t length;
};

struct siw_connection {
	struct siw_direction from[2];    /* the initiator, the responder */
	struct {
		uint8_t side;
		size_t end;              /* bytes of that side that were there then */
	} chunk[SIW_CHUNKS];
	unsigned chunks;
};

struct siw_file {
	struct siw_connection connection[SIW_CONNECTIONS];
	unsigned connections;
};

/* False: not there, or not such a file. */
bool siw_open(struct siw_file *file, const char *folder, const char *name);
void siw_close(struct siw_file *file);

/* The next line of the index: name, connections, FPDUs. False at its end. */
struct siw_index {
	void *file;
	char name[128];
	unsigned connections, fpdus;
};
bool siw_index_open(struct siw_index *index, const char *folder);
bool siw_index_next(struct siw_index *index);
void siw_index_close(struct siw_index *index);

#endif
