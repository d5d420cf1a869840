/* SPDX-License-Identifier: MIT
 *
 * The table of ids by the daemon's numbers, against a plain array.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "rdmacm/registry.h"

enum { MANY = 5000 };

static void what_is_inserted_is_found(void **state)
{
	struct vb_rdmacm_registry registry = {0};
	struct vb_rdmacm_id *ids = calloc(MANY, sizeof(*ids)), *chain;
	unsigned count = 0;

	(void)state;
	assert_non_null(ids);
	assert_null(vb_rdmacm_registry_find(&registry, 1));
	for (uint32_t i = 0; i < MANY; i++) {
		ids[i].handle = i * 64 + 1; /* a daemon that counts in steps must not make long chains a problem */
		assert_int_equal(vb_rdmacm_registry_insert(&registry, &ids[i]), 0);
	}
	assert_int_equal(registry.count, MANY);
	for (uint32_t i = 0; i < MANY; i++)
		assert_ptr_equal(vb_rdmacm_registry_find(&registry, i * 64 + 1), &ids[i]);
	assert_null(vb_rdmacm_registry_find(&registry, 2));
	for (uint32_t i = 0; i < MANY; i += 2)
		vb_rdmacm_registry_remove(&registry, &ids[i]);
	vb_rdmacm_registry_remove(&registry, &ids[0]); /* once more does no harm */
	for (uint32_t i = 0; i < MANY; i++)
		assert_ptr_equal(vb_rdmacm_registry_find(&registry, i * 64 + 1), i % 2 ? &ids[i] : NULL);
	assert_int_equal(registry.count, MANY / 2);
	for (chain = vb_rdmacm_registry_drain(&registry); chain != NULL; chain = chain->registry_next)
		count++;
	assert_int_equal(count, MANY / 2);
	assert_int_equal(registry.count, 0);
	assert_null(vb_rdmacm_registry_find(&registry, 65));
	free(registry.bucket);
	free(ids);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_inserted_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
