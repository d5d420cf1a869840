/* SPDX-License-Identifier: MIT
 *
 * The echo lab: what server and client have in common.
 *
 * A client connects by address and port (RDMA_PS_TCP, RC) and sends messages of 1 to ECHO_SIZE bytes. Each comes back
 * as it is, by a SEND. A client may have ECHO_WINDOW messages under way: so many receives must be posted for it at any
 * time, and before it is accepted.
 */
#ifndef ECHO_H
#define ECHO_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ECHO_PORT = 7475, ECHO_SIZE = 1024, ECHO_WINDOW = 4 };

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
