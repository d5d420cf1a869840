/* SPDX-License-Identifier: MIT
 *
 * For the programs of these tests: what must work, or the program ends and says what did not.
 */
#ifndef VB_TESTS_NETNS_MUST_H
#define VB_TESTS_NETNS_MUST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void *must(void *object, const char *what)
{
	if (object)
		return object;
	perror(what);
	exit(1);
}

static inline void must_be_zero(int error, const char *what)
{
	if (error == 0)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(error));
	exit(1);
}

#endif
