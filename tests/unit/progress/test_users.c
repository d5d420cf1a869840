/* SPDX-License-Identifier: MIT
 *
 * What one user of the system's verbenad leaves to the others, of each thing there is (docs/security.md). As processes of two users see
 * it: tests/netns/test_quotas.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <unistd.h>

#include "daemon/users.h"

enum { ALICE = 12345, BOB = 12346, DESCRIPTORS = 4096 };

static unsigned take_all(struct vb_user *user, enum vb_user_thing thing)
{
	unsigned taken = 0;

	while (vb_user_take(user, thing))
		taken++;
	return taken;
}

static void half_of_what_others_leave(void **state)
{
	struct vb_users users;
	struct vb_user *alice, *bob, *root;

	(void)state;
	vb_users_init(&users, DESCRIPTORS);
	alice = vb_users_find(&users, ALICE);
	bob = vb_users_find(&users, BOB);
	root = vb_users_find(&users, 0);
	for (unsigned thing = 0; thing < VB_USER_THINGS; thing++) {
		unsigned most = users.most[thing], first = take_all(bob, thing), second = take_all(alice, thing);

		assert_int_equal(first, (most + 1) / 2);
		assert_int_equal(second, (most - first + 1) / 2);
		/* Root is held back by what there is alone. */
		assert_int_equal(take_all(root, thing), most - first - second);
		assert_false(vb_user_take(root, thing));
		vb_user_give_back(bob, thing);
		assert_true(vb_user_take(root, thing));
	}
	vb_users_fini(&users);
}

/* They are counted by the connection manager, for each message. */
static void half_of_the_ids(void **state)
{
	struct vb_users users;
	struct vb_user *alice, *bob;
	unsigned all, most;

	(void)state;
	vb_users_init(&users, DESCRIPTORS);
	alice = vb_users_find(&users, ALICE);
	bob = vb_users_find(&users, BOB);
	vb_user_limit_ids(bob);
	most = bob->ids.most;
	all = 2 * most;
	bob->ids.count = most;
	vb_user_limit_ids(bob);
	assert_int_equal(bob->ids.most, most);
	vb_user_limit_ids(alice);
	assert_int_equal(alice->ids.most, (all - most) / 2);
	alice->ids.count = alice->ids.most;
	/* What he gives back he may have again, less what alice has now. */
	bob->ids.count = 0;
	vb_user_limit_ids(bob);
	assert_int_equal(bob->ids.most, (all - alice->ids.count) / 2);
	vb_users_fini(&users);
}

static void who_has_nothing_is_forgotten(void **state)
{
	struct vb_users users;
	struct vb_user *bob;

	(void)state;
	vb_users_init(&users, DESCRIPTORS);
	bob = vb_users_find(&users, BOB);
	assert_true(vb_user_take(bob, VB_USER_CONNECTIONS));
	bob->unsent = 5;
	vb_users_reap(&users);
	assert_ptr_equal(vb_users_find(&users, BOB), bob);
	assert_int_equal(bob->unsent, 5);
	vb_user_give_back(bob, VB_USER_CONNECTIONS);
	vb_users_reap(&users);
	assert_true(vb_list_is_empty(&users.list));
	vb_users_fini(&users);
}

static void bytes_that_wait(void **state)
{
	struct vb_users users;
	struct vb_user *bob;
	size_t most = 0;

	(void)state;
	vb_users_init(&users, DESCRIPTORS);
	bob = vb_users_find(&users, BOB);
	while (vb_user_may_wait_for(bob, most + 1024 * 1024))
		most += 1024 * 1024;
	assert_int_equal(most, 32 * 1024 * 1024);
	bob->unsent = most;
	assert_false(vb_user_may_wait_for(bob, 1));
	vb_users_fini(&users);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(half_of_what_others_leave),
		cmocka_unit_test(half_of_the_ids),
		cmocka_unit_test(who_has_nothing_is_forgotten),
		cmocka_unit_test(bytes_that_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
