/* SPDX-License-Identifier: MIT
 *
 * Protection domains, parent domains, thread domains.
 *
 * A domain is an identity (struct vb_shared_pd) that one or more ibv_pd stand for: the one ibv_alloc_pd gave, parent
 * domains made of it ("completely interchangeable with the struct ibv_pd used to create it",
 * ibv_alloc_parent_domain(3)), and imports. The identity's memory stays until the last of them goes, and an ibv_pd's until nothing
 * that was created through it is left: an import may be given back before its queue pairs are destroyed.
 */
#include <errno.h>
#include <stdlib.h>

#include "io/cancellation.h"
#include "verbs/context.h"
#include "verbs/explain.h"
#include "verbs/export.h"
#include "verbs/operations.h"
#include "verbs/quota.h"

static struct vb_protection_domain *create_domain(struct ibv_context *context, struct vb_shared_pd *shared)
{
	struct vb_protection_domain *domain = calloc(1, sizeof(*domain));

	if (domain == NULL)
		return NULL;
	domain->base.context = context;
	domain->base.handle = shared->pd.handle;
	domain->shared = shared;
	domain->references = 1;
	vb_context_hold(context);
	return domain;
}

static void free_domain(struct vb_protection_domain *domain)
{
	struct ibv_context *context = domain->base.context;
	struct vb_session *session = vb_context_of(context)->session;

	vb_lock_take(&session->lock);
	if (--domain->shared->references == 0) {
		vb_list_remove(&domain->shared->node);
		free(domain->shared);
		vb_quota_give(context, VB_COUNTED_PD);
	}
	vb_lock_release(&session->lock);
	free(domain);
	vb_context_put(context);
}

void vb_domain_hold(struct vb_protection_domain *domain)
{
	vb_count_up(&domain->references);
}

void vb_domain_put(struct vb_protection_domain *domain)
{
	if (vb_count_down(&domain->references) > 0)
		return;
	if (domain->parent_of != NULL)
		vb_domain_put(domain->parent_of);
	if (domain->thread_domain != NULL)
		vb_count_down(&domain->thread_domain->users);
	free_domain(domain);
}

VB_EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	VB_UNCANCELLED;
	struct vb_shared_pd *shared;
	struct vb_protection_domain *domain;
	struct vb_session *session;
	int error;

	if (context == NULL)
		return vb_fail_null(-EINVAL);
	error = vb_quota_take(context, VB_COUNTED_PD);
	if (error != 0)
		return vb_fail_null(error);
	shared = calloc(1, sizeof(*shared));
	if (shared == NULL) {
		vb_quota_give(context, VB_COUNTED_PD);
		return vb_fail_null(-ENOMEM);
	}
	session = vb_context_of(context)->session;
	shared->references = 1;
	vb_lock_take(&session->lock);
	shared->pd.handle = vb_session_handle(session);
	vb_list_append(&session->pds, &shared->node);
	vb_lock_release(&session->lock);
	domain = create_domain(context, shared);
	if (domain == NULL) {
		vb_lock_take(&session->lock);
		vb_list_remove(&shared->node);
		vb_lock_release(&session->lock);
		free(shared);
		vb_quota_give(context, VB_COUNTED_PD);
		return vb_fail_null(-ENOMEM);
	}
	return &domain->base;
}
VB_EXPORT_COMPAT(ibv_alloc_pd);

VB_EXPORT int ibv_dealloc_pd(struct ibv_pd *pd)
{
	VB_UNCANCELLED;
	struct vb_protection_domain *domain = vb_domain_of(pd);

	if (pd == NULL)
		return vb_fail_number(EINVAL);
	if (pd->handle != domain->shared->pd.handle)
		return vb_fail_number(ENOENT);
	if (vb_count_read(&domain->references) > 1) {
		vb_explain_refused("ibv_dealloc_pd", "PD", pd->handle, EBUSY,
				   "regions, windows, queue pairs or other objects of it still exist.",
				   "Destroy everything that was created with this ibv_pd first.");
		return vb_fail_number(EBUSY);
	}
	if (domain->parent_of == NULL && vb_count_read(&domain->shared->pd.users) > 0) {
		vb_explain_refused("ibv_dealloc_pd", "PD", pd->handle, EBUSY,
				   "objects made with an import or a parent domain of it still exist.",
				   "Destroy everything that was created with them first.");
		return vb_fail_number(EBUSY);
	}
	vb_domain_put(domain);
	return 0;
}
VB_EXPORT_COMPAT(ibv_dealloc_pd);

VB_EXPORT struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t pd_handle)
{
	VB_UNCANCELLED;
	struct vb_shared_pd *shared = NULL;
	struct vb_protection_domain *domain;
	struct vb_session *session;

	if (context == NULL)
		return vb_fail_null(-EINVAL);
	session = vb_context_of(context)->session;
	vb_lock_take(&session->lock);
	VB_LIST_FOR_EACH(node, &session->pds) {
		struct vb_shared_pd *candidate = vb_container_of(node, struct vb_shared_pd, node);

		if (candidate->pd.handle == pd_handle)
			shared = candidate;
	}
	if (shared != NULL)
		shared->references++;
	vb_lock_release(&session->lock);
	if (shared == NULL)
		return vb_fail_null(-ENOENT);
	domain = create_domain(context, shared);
	if (domain == NULL) {
		vb_lock_take(&session->lock);
		shared->references--;
		vb_lock_release(&session->lock);
		return vb_fail_null(-ENOMEM);
	}
	domain->imported = true;
	return &domain->base;
}

VB_EXPORT void ibv_unimport_pd(struct ibv_pd *pd)
{
	VB_UNCANCELLED;
	if (pd != NULL && vb_domain_of(pd)->imported)
		vb_domain_put(vb_domain_of(pd));
}

struct ibv_td *vb_verbs_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *init_attr)
{
	VB_UNCANCELLED;
	struct vb_thread_domain *td;

	if (init_attr != NULL && init_attr->comp_mask != 0)
		return vb_fail_null(-EINVAL);
	td = calloc(1, sizeof(*td));
	if (td == NULL)
		return vb_fail_null(-ENOMEM);
	td->base.context = context;
	vb_context_hold(context);
	return &td->base;
}

int vb_verbs_dealloc_td(struct ibv_td *td)
{
	VB_UNCANCELLED;
	struct vb_thread_domain *own = vb_thread_domain_of(td);
	struct ibv_context *context = td->context;

	if (vb_count_read(&own->users) > 0) {
		vb_explain_refused("ibv_dealloc_td", NULL, 0, EBUSY, "a parent domain of it still exists.",
				   "Deallocate the parent domain first.");
		return vb_fail_number(EBUSY);
	}
	free(own);
	vb_context_put(context);
	return 0;
}

/* ---- memory of queues, from the application ---- */

static struct vb_protection_domain *domain_with(const struct vb_allocator *allocator)
{
	return vb_container_of(allocator, struct vb_protection_domain, allocator);
}

static void *ask_application(const struct vb_allocator *allocator, size_t size, size_t alignment, enum vb_allocated what)
{
	struct vb_protection_domain *domain = domain_with(allocator);

	return domain->alloc(&domain->base, domain->pd_context, size, alignment, what);
}

static void give_back(const struct vb_allocator *allocator, void *bytes, enum vb_allocated what)
{
	struct vb_protection_domain *domain = domain_with(allocator);

	domain->free(&domain->base, domain->pd_context, bytes, what);
}

struct ibv_pd *vb_verbs_alloc_parent_domain(struct ibv_context *context, struct ibv_parent_domain_init_attr *attr)
{
	VB_UNCANCELLED;
	struct vb_protection_domain *domain, *parent;
	struct vb_session *session = vb_context_of(context)->session;

	if (attr == NULL || attr->pd == NULL || !vb_same_session(context, attr->pd->context) ||
	    (attr->comp_mask & ~(uint32_t)(IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
					   IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)) != 0)
		return vb_fail_null(-EINVAL);
	if ((attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) && (attr->alloc == NULL || attr->free == NULL)) {
		vb_explain_refused("ibv_alloc_parent_domain", NULL, 0, EINVAL,
				   "IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS needs both alloc and free.", NULL);
		return vb_fail_null(-EINVAL);
	}
	parent = vb_domain_of(attr->pd);
	domain = create_domain(context, parent->shared);
	if (domain == NULL)
		return vb_fail_null(-ENOMEM);
	vb_lock_take(&session->lock);
	parent->shared->references++;
	vb_lock_release(&session->lock);
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) {
		domain->allocator = (struct vb_allocator){ask_application, give_back};
		domain->alloc = attr->alloc;
		domain->free = attr->free;
	}
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)
		domain->pd_context = attr->pd_context;
	domain->parent_of = parent;
	vb_domain_hold(parent);
	if (attr->td != NULL) {
		domain->thread_domain = vb_thread_domain_of(attr->td);
		vb_count_up(&domain->thread_domain->users);
	}
	return &domain->base;
}
