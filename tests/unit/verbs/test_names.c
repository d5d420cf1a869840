/* SPDX-License-Identifier: MIT
 *
 * Exported names no header of today declares, looked up as the loader would: old versions, private names, helpers.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

__attribute__((noinline)) static void *find(const char *name, const char *version)
{
	void *found = dlvsym(RTLD_DEFAULT, name, version);

	if (found == NULL)
		fail_msg("no %s@%s", name, version);
	return found;
}

static void old_versions_are_the_new_functions(void **state)
{
	static const char *const names[] = {
		"ibv_get_device_list", "ibv_open_device", "ibv_alloc_pd", "ibv_reg_mr", "ibv_create_cq", "ibv_create_qp",
		"ibv_modify_qp", "ibv_query_port", "ibv_get_cq_event", "ibv_ack_async_event",
	};
	void (*register_driver)(const char *, void *);

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_ptr_equal(find(names[i], "IBVERBS_1.0"), find(names[i], "IBVERBS_1.1"));
	*(void **)&register_driver = find("ibv_register_driver", "IBVERBS_1.1");
	register_driver("none", NULL);
}

static void providers_are_refused(void **state)
{
	static const char *const refusing[] = {
		"execute_ioctl", "ibv_cmd_advise_mr", "ibv_cmd_alloc_dm", "ibv_cmd_alloc_mw", "ibv_cmd_alloc_pd",
		"ibv_cmd_attach_mcast", "ibv_cmd_close_xrcd", "ibv_cmd_create_ah", "ibv_cmd_create_counters", "ibv_cmd_create_cq",
		"ibv_cmd_create_cq_ex", "ibv_cmd_create_flow", "ibv_cmd_create_flow_action_esp", "ibv_cmd_create_qp",
		"ibv_cmd_create_qp_ex", "ibv_cmd_create_qp_ex2", "ibv_cmd_create_rwq_ind_table", "ibv_cmd_create_srq",
		"ibv_cmd_create_srq_ex", "ibv_cmd_create_wq", "ibv_cmd_dealloc_mw", "ibv_cmd_dealloc_pd", "ibv_cmd_dereg_mr",
		"ibv_cmd_destroy_ah", "ibv_cmd_destroy_counters", "ibv_cmd_destroy_cq", "ibv_cmd_destroy_flow",
		"ibv_cmd_destroy_flow_action", "ibv_cmd_destroy_qp", "ibv_cmd_destroy_rwq_ind_table", "ibv_cmd_destroy_srq",
		"ibv_cmd_destroy_wq", "ibv_cmd_detach_mcast", "ibv_cmd_free_dm", "ibv_cmd_get_context", "ibv_cmd_modify_cq",
		"ibv_cmd_modify_flow_action_esp", "ibv_cmd_modify_qp", "ibv_cmd_modify_qp_ex", "ibv_cmd_modify_srq",
		"ibv_cmd_modify_wq", "ibv_cmd_open_qp", "ibv_cmd_open_xrcd", "ibv_cmd_poll_cq", "ibv_cmd_post_recv",
		"ibv_cmd_post_send", "ibv_cmd_post_srq_recv", "ibv_cmd_query_context", "ibv_cmd_query_device_any",
		"ibv_cmd_query_mr", "ibv_cmd_query_port", "ibv_cmd_query_qp", "ibv_cmd_query_srq", "ibv_cmd_read_counters",
		"ibv_cmd_reg_dm_mr", "ibv_cmd_reg_dmabuf_mr", "ibv_cmd_reg_mr", "ibv_cmd_req_notify_cq", "ibv_cmd_rereg_mr",
		"ibv_cmd_resize_cq", "ibv_cmd_alloc_dmah", "ibv_cmd_create_cq_ex2", "ibv_cmd_export_dmabuf_fd", "ibv_cmd_free_dmah",
		"ibv_cmd_query_port_speed", "ibv_cmd_reg_mr_ex", "ibv_cmd_create_comp_cntr", "ibv_cmd_destroy_comp_cntr",
		"ibv_cmd_inc_comp_cntr", "ibv_cmd_inc_err_comp_cntr", "ibv_cmd_qp_attach_comp_cntr", "ibv_cmd_query_comp_cntr_caps",
		"ibv_cmd_read_comp_cntr", "ibv_cmd_read_err_comp_cntr", "ibv_cmd_set_comp_cntr", "ibv_cmd_set_err_comp_cntr",
	};
	static const char *const objects[] = {"_verbs_init_and_alloc_context", "verbs_open_device", "ibv_dmabuf_heap_alloc",
						"ibv_dmabuf_heap_cc_shared_init"};
	static const char *const silent[] = {"__verbs_log", "ibv_dmabuf_heap_destroy", "ibv_dmabuf_heap_free", "verbs_init_cq",
					     "verbs_set_ops", "verbs_uninit_context"};
	int (*number)(void *, void *);
	void *(*object)(void);
	void (*nothing)(void);

	(void)state;
	for (size_t i = 0; i < sizeof(refusing) / sizeof(refusing[0]); i++) {
		*(void **)&number = find(refusing[i], PRIVATE);
		assert_int_equal(number(NULL, NULL), ENOSYS);
	}
	for (size_t i = 0; i < sizeof(objects) / sizeof(objects[0]); i++) {
		*(void **)&object = find(objects[i], PRIVATE);
		errno = 0;
		assert_null(object());
		assert_int_equal(errno, ENOSYS);
	}
	for (size_t i = 0; i < sizeof(silent) / sizeof(silent[0]); i++) {
		*(void **)&nothing = find(silent[i], PRIVATE);
		nothing();
	}
	*(void **)&number = find("__ioctl_final_num_attrs", PRIVATE);
	assert_int_equal(number(NULL, NULL), 0);
	*(void **)&number = find("ibv_read_ibdev_sysfs_file", PRIVATE);
	assert_int_equal(number(NULL, NULL), -1);
	assert_int_equal(*(char *)find("verbs_allow_disassociate_destroy", PRIVATE), 0);
}

static void opcodes_have_names(void **state)
{
	const char *(*name_of)(unsigned);

	(void)state;
	*(void **)&name_of = find("ibv_wr_opcode_str", PRIVATE);
	assert_string_equal(name_of(IBV_WR_RDMA_WRITE), "rdma-write");
	assert_string_equal(name_of(IBV_WR_DRIVER1), "driver1");
	assert_string_equal(name_of(14), "flush");
	assert_string_equal(name_of(IBV_WR_ATOMIC_WRITE), "atomic-write");
	assert_string_equal(name_of(12), "unknown");
	assert_string_equal(name_of(99), "unknown");
}

static void forking_needs_no_ranges(void **state)
{
	int (*range)(void *, size_t);

	(void)state;
	*(void **)&range = find("ibv_dontfork_range", "IBVERBS_1.1");
	assert_int_equal(range(&range, sizeof(range)), 0);
	*(void **)&range = find("ibv_dofork_range", "IBVERBS_1.1");
	assert_int_equal(range(&range, sizeof(range)), 0);
}

static void attribute_files_are_read(void **state)
{
	const char *(*get_path)(void);
	int (*read_file)(const char *, const char *, char *, size_t);
	char directory[] = "/tmp/verbena-names-XXXXXX", path[64], text[16];
	FILE *file;

	(void)state;
	*(void **)&get_path = find("ibv_get_sysfs_path", "IBVERBS_1.0");
	*(void **)&read_file = find("ibv_read_sysfs_file", "IBVERBS_1.0");
	assert_string_equal(get_path(), "/sys");
	assert_int_equal(setenv("SYSFS_PATH", "/elsewhere", 1), 0);
	assert_string_equal(get_path(), "/elsewhere");
	assert_non_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/value", directory);
	assert_non_null(file = fopen(path, "we"));
	fputs("hello\n", file);
	fclose(file);
	assert_int_equal(read_file(directory, "value", text, sizeof(text)), 5);
	assert_string_equal(text, "hello");
	assert_int_equal(read_file(directory, "value", text, 3), 3);
	assert_int_equal(read_file(directory, "other", text, sizeof(text)), -1);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(read_file(NULL, "value", text, sizeof(text)), -1);
	unlink(path);
	rmdir(directory);
}

static void structures_of_the_kernel_are_copied(void **state)
{
	void (*copy_qp)(struct ibv_qp_attr *, struct ib_uverbs_qp_attr *);
	void (*from_kernel)(struct ibv_sa_path_rec *, struct ib_user_path_rec *);
	void (*to_kernel)(struct ib_user_path_rec *, struct ibv_sa_path_rec *);
	struct ib_uverbs_qp_attr kernel = {.qp_state = 3, .path_mtu = 4, .qkey = 0x1234, .rq_psn = 7, .sq_psn = 8,
					   .dest_qp_num = 0xabcdef, .max_send_wr = 10, .max_inline_data = 11, .pkey_index = 2,
					   .timeout = 14, .rnr_retry = 6, .alt_timeout = 3};
	struct ib_user_path_rec first = {.dlid = htons(5), .flow_label = htonl(0x12345), .mtu = 3, .pkey = htons(0xffff),
					 .hop_limit = 64, .sl = 2, .rate = 7, .packet_life_time = 9, .preference = 1}, second;
	struct ibv_sa_path_rec record;
	struct ibv_qp_attr attr;

	(void)state;
	*(void **)&copy_qp = find("ibv_copy_qp_attr_from_kern", "IBVERBS_1.0");
	*(void **)&from_kernel = find("ibv_copy_path_rec_from_kern", "IBVERBS_1.0");
	*(void **)&to_kernel = find("ibv_copy_path_rec_to_kern", "IBVERBS_1.0");
	kernel.ah_attr.grh.dgid[15] = 9;
	kernel.ah_attr.is_global = 1;
	kernel.alt_ah_attr.sl = 5;
	copy_qp(&attr, &kernel);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(attr.path_mtu, IBV_MTU_2048);
	assert_int_equal(attr.qkey, 0x1234);
	assert_int_equal(attr.rq_psn, 7);
	assert_int_equal(attr.sq_psn, 8);
	assert_int_equal(attr.dest_qp_num, 0xabcdef);
	assert_int_equal(attr.cap.max_send_wr, 10);
	assert_int_equal(attr.cap.max_inline_data, 11);
	assert_int_equal(attr.pkey_index, 2);
	assert_int_equal(attr.timeout, 14);
	assert_int_equal(attr.rnr_retry, 6);
	assert_int_equal(attr.alt_timeout, 3);
	assert_int_equal(attr.ah_attr.grh.dgid.raw[15], 9);
	assert_int_equal(attr.ah_attr.is_global, 1);
	assert_int_equal(attr.alt_ah_attr.sl, 5);

	memset(first.dgid, 0x11, sizeof(first.dgid));
	memset(first.sgid, 0x22, sizeof(first.sgid));
	memset(&second, 0, sizeof(second));
	from_kernel(&record, &first);
	assert_int_equal(record.mtu, 3);
	assert_int_equal(record.flow_label, htonl(0x12345));
	assert_int_equal(record.dgid.raw[7], 0x11);
	to_kernel(&second, &record);
	assert_memory_equal(&first, &second, sizeof(first));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(old_versions_are_the_new_functions),
		cmocka_unit_test(providers_are_refused),
		cmocka_unit_test(opcodes_have_names),
		cmocka_unit_test(forking_needs_no_ranges),
		cmocka_unit_test(attribute_files_are_read),
		cmocka_unit_test(structures_of_the_kernel_are_copied),
	};

	/* Something of the library must be asked for, or the linker leaves it out. */
	if (ibv_fork_init() != 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
