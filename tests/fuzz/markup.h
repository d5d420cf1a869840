/* SPDX-License-Identifier: MIT
 *
 * Is a text that was drawn from hostile input well-formed markup?
 */
#ifndef VB_TESTS_FUZZ_MARKUP_H
#define VB_TESTS_FUZZ_MARKUP_H

#include <stddef.h>

/* Each aborts if not. Characters of UTF-8, and no control character but the end of a line. */
void markup_check_characters(const char *text, size_t length);
/* The same, every tag closed, in order, no number that is none. */
void markup_check(const char *text, size_t length);

#endif
