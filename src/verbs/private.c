/* SPDX-License-Identifier: MIT
 *
 * The IBVERBS_PRIVATE_ node: what rdma-core's own provider libraries call. Programs link some of those (perftest:
 * libmlx5, libefa), and the loader insists on every name. No provider drives a device here: they register for nothing,
 * and everything else they could call says ENOSYS.
 * execute_ioctl says more to librdmacm (stream_handover.c).
 */
#include "verbs/private.h"

#include <errno.h>
#include <stddef.h>

#include "verbs/export.h"

#define PASTE(a, b) a##b
#define PASTE_EXPANDED(a, b) PASTE(a, b)

/* Called from the constructors of provider libraries. */
void PASTE_EXPANDED(verbs_register_driver_, VB_PRIVATE_ABI)(const void *operations);
VB_EXPORT void PASTE_EXPANDED(verbs_register_driver_, VB_PRIVATE_ABI)(const void *operations)
{
	(void)operations;
}

/* Its ancestor, still there for binaries linked before 2010. */
void vb_legacy_register_driver(const char *name, void *init);
VB_EXPORT __attribute__((used)) void vb_legacy_register_driver(const char *name, void *init)
{
	(void)name;
	(void)init;
}
__asm__(".symver vb_legacy_register_driver,ibv_register_driver@IBVERBS_1.1");

/* Providers read it; no code sets it. */
extern char verbs_allow_disassociate_destroy;
VB_EXPORT char verbs_allow_disassociate_destroy;

/* Those that return an errno. */
#define REFUSING(X)                                                                                              \
	X(ibv_cmd_advise_mr) X(ibv_cmd_alloc_dm) X(ibv_cmd_alloc_mw) X(ibv_cmd_alloc_pd)        \
	X(ibv_cmd_attach_mcast) X(ibv_cmd_close_xrcd) X(ibv_cmd_create_ah) X(ibv_cmd_create_counters)            \
	X(ibv_cmd_create_cq) X(ibv_cmd_create_cq_ex) X(ibv_cmd_create_flow) X(ibv_cmd_create_flow_action_esp)    \
	X(ibv_cmd_create_qp) X(ibv_cmd_create_qp_ex) X(ibv_cmd_create_qp_ex2) X(ibv_cmd_create_rwq_ind_table)    \
	X(ibv_cmd_create_srq) X(ibv_cmd_create_srq_ex) X(ibv_cmd_create_wq) X(ibv_cmd_dealloc_mw)                \
	X(ibv_cmd_dealloc_pd) X(ibv_cmd_dereg_mr) X(ibv_cmd_destroy_ah) X(ibv_cmd_destroy_counters)              \
	X(ibv_cmd_destroy_cq) X(ibv_cmd_destroy_flow) X(ibv_cmd_destroy_flow_action) X(ibv_cmd_destroy_qp)       \
	X(ibv_cmd_destroy_rwq_ind_table) X(ibv_cmd_destroy_srq) X(ibv_cmd_destroy_wq) X(ibv_cmd_detach_mcast)    \
	X(ibv_cmd_free_dm) X(ibv_cmd_get_context) X(ibv_cmd_modify_cq) X(ibv_cmd_modify_flow_action_esp)         \
	X(ibv_cmd_modify_qp) X(ibv_cmd_modify_qp_ex) X(ibv_cmd_modify_srq) X(ibv_cmd_modify_wq)                  \
	X(ibv_cmd_open_qp) X(ibv_cmd_open_xrcd) X(ibv_cmd_poll_cq) X(ibv_cmd_post_recv) X(ibv_cmd_post_send)     \
	X(ibv_cmd_post_srq_recv) X(ibv_cmd_query_context) X(ibv_cmd_query_device_any) X(ibv_cmd_query_mr)        \
	X(ibv_cmd_query_port) X(ibv_cmd_query_qp) X(ibv_cmd_query_srq) X(ibv_cmd_read_counters)                  \
	X(ibv_cmd_reg_dm_mr) X(ibv_cmd_reg_dmabuf_mr) X(ibv_cmd_reg_mr) X(ibv_cmd_req_notify_cq)                 \
	X(ibv_cmd_rereg_mr) X(ibv_cmd_resize_cq)                                                                  \
	/* Since rdma-core 45. */                                                                                \
	X(ibv_cmd_alloc_dmah) X(ibv_cmd_create_cq_ex2) X(ibv_cmd_export_dmabuf_fd) X(ibv_cmd_free_dmah)          \
	X(ibv_cmd_query_port_speed) X(ibv_cmd_reg_mr_ex) X(ibv_cmd_create_comp_cntr) X(ibv_cmd_destroy_comp_cntr) \
	X(ibv_cmd_inc_comp_cntr) X(ibv_cmd_inc_err_comp_cntr) X(ibv_cmd_qp_attach_comp_cntr)                     \
	X(ibv_cmd_query_comp_cntr_caps) X(ibv_cmd_read_comp_cntr) X(ibv_cmd_read_err_comp_cntr)                  \
	X(ibv_cmd_set_comp_cntr) X(ibv_cmd_set_err_comp_cntr)

#define X(name)                                                                                                  \
	int name(void);                                                                                          \
	VB_EXPORT int name(void)                                                                                 \
	{                                                                                                        \
		errno = ENOSYS;                                                                                  \
		return ENOSYS;                                                                                   \
	}
REFUSING(X)
#undef X

/* Those that return an object. */
#define X(name)                                                                                                  \
	void *name(void);                                                                                        \
	VB_EXPORT void *name(void)                                                                               \
	{                                                                                                        \
		errno = ENOSYS;                                                                                  \
		return NULL;                                                                                     \
	}
X(_verbs_init_and_alloc_context) X(verbs_open_device) X(ibv_dmabuf_heap_alloc) X(ibv_dmabuf_heap_cc_shared_init)
#undef X

/* Those that return nothing: there is nothing to act on. */
#define X(name)                                                                                                  \
	void name(void);                                                                                         \
	VB_EXPORT void name(void)                                                                                \
	{                                                                                                        \
	}
X(__verbs_log) X(ibv_dmabuf_heap_destroy) X(ibv_dmabuf_heap_free) X(verbs_init_cq) X(verbs_set_ops) X(verbs_uninit_context)
#undef X

unsigned int __ioctl_final_num_attrs(void);
VB_EXPORT unsigned int __ioctl_final_num_attrs(void)
{
	return 0;
}

int ibv_read_ibdev_sysfs_file(void);
VB_EXPORT int ibv_read_ibdev_sysfs_file(void)
{
	errno = ENOSYS;
	return -1;
}
