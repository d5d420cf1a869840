/* SPDX-License-Identifier: MIT
 *
 * What programs reach without a function: the tables and fields of the public structures, as the inline functions of
 * today's and yesterday's headers look at them.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "lib/one_world.h"
#include "lib/private_network.h"

/* The installed headers are those the library was made for. */
_Static_assert(sizeof(struct ibv_port_attr) >= 52, "ibv_port_attr"); /* newer headers append fields */
_Static_assert(offsetof(struct ibv_port_attr, port_cap_flags2) == 48, "where the old ibv_port_attr ended");
_Static_assert(sizeof(struct ibv_gid_entry) == 32, "ibv_gid_entry");
_Static_assert(sizeof(struct ibv_context_ops) == 32 * sizeof(void *), "ibv_context_ops");
_Static_assert(offsetof(struct verbs_context, context) == offsetof(struct verbs_context, sz) + sizeof(size_t), "sz");
_Static_assert(sizeof(struct verbs_context) == offsetof(struct verbs_context, context) + sizeof(struct ibv_context), "context is last");
_Static_assert(offsetof(struct ibv_cq_ex, comp_mask) == offsetof(struct ibv_cq, async_events_completed) + 4, "a cq_ex begins as a cq");
_Static_assert(offsetof(struct ibv_qp_ex, qp_base) == 0, "a qp_ex begins as a qp");
#if __LP64__
_Static_assert(sizeof(struct ibv_device) == 664, "providers look right behind ibv_device");
_Static_assert(sizeof(struct ibv_wc) == 48 && sizeof(struct ibv_send_wr) == 128 && sizeof(struct ibv_recv_wr) == 32, "work");
_Static_assert(sizeof(struct ibv_mr) == 48 && sizeof(struct ibv_sge) == 16 && sizeof(struct ibv_async_event) == 16, "small ones");
_Static_assert(sizeof(struct ibv_device_attr) == 232 && sizeof(struct ibv_device_attr_ex) == 400, "device attributes");
_Static_assert(sizeof(struct ibv_qp_attr) == 144 && sizeof(struct ibv_qp_init_attr_ex) == 136, "queue pair attributes");
#endif

static void the_context_is_extended(void **state)
{
	struct verbs_context *context;

	(void)state;
	assert_ptr_equal(world.context->abi_compat, (void *)UINTPTR_MAX);
	context = verbs_get_ctx(world.context);
	assert_non_null(context);
	assert_int_equal(context->sz, sizeof(struct verbs_context));
	/* Called without a look. */
	assert_non_null(context->close_xrcd);
	assert_int_equal(context->close_xrcd(NULL), EINVAL);
	/* A client whose headers know more operations than we must find that out by sz. */
	assert_true(context->sz < sizeof(struct verbs_context) + 1);
}

static void no_slot_is_empty(void **state)
{
	void *slots[sizeof(struct ibv_context_ops) / sizeof(void *)];

	(void)state;
	memcpy(slots, &world.context->ops, sizeof(slots));
	for (size_t i = 0; i < sizeof(slots) / sizeof(slots[0]); i++)
		assert_non_null(slots[i]);
}

static void descriptors_are_real(void **state)
{
	(void)state;
	assert_true(fcntl(world.context->cmd_fd, F_GETFD) >= 0);
	assert_true(fcntl(world.context->async_fd, F_GETFD) >= 0);
	assert_true(fcntl(world.context->async_fd, F_GETFD) & FD_CLOEXEC);
	assert_true(world.context->num_comp_vectors >= 1);
	assert_ptr_equal(world.context->device->name, ibv_get_device_name(world.context->device));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_context_is_extended),
		cmocka_unit_test(no_slot_is_empty),
		cmocka_unit_test(descriptors_are_real),
	};

	private_network_enter();
	return cmocka_run_group_tests(tests, open_world, close_world);
}
