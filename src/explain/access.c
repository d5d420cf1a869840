/* SPDX-License-Identifier: MIT
 *
 * One function per check that memory/place.c and the responder make, each saying what was asked, what there is, and
 * what usually helps.
 */
#include "explain/access.h"

#include "base/time.h"
#include "explain/words.h"

struct telling {
	const struct vb_fault_record *fault;
	const char *key_word; /* "rkey", "lkey" */
	const char *whose;
	struct vb_report *report;
};

static void tell_gone_key(const struct telling *t)
{
	int64_t milliseconds = t->fault->gone_for / VB_MILLISECONDS(1);

	vb_report_say(t->report, VB_REPORT_CAUSE,
		      "%s 0x%08x was the key of a region on %s side that was deregistered %lld.%03lld s earlier. ", t->key_word,
		      t->fault->key, t->whose, (long long)(milliseconds / 1000), (long long)(milliseconds % 1000));
	vb_report_say(t->report, VB_REPORT_FIX,
		      "Call ibv_dereg_mr when the last work that names the key has completed, the peer's included.");
}

static void tell_unknown_key(const struct telling *t)
{
	if (t->fault->gone_for > 0) {
		tell_gone_key(t);
		return;
	}
	vb_report_say(t->report, VB_REPORT_CAUSE, "%s 0x%08x names no memory region or window on %s side. ",
		      t->key_word, t->fault->key, t->whose);
	if (t->fault->swapped_key != 0) {
		vb_report_say(t->report, VB_REPORT_CAUSE, "With its bytes swapped it is 0x%08x, which does. ",
			      t->fault->swapped_key);
		vb_report_say(t->report, VB_REPORT_FIX,
			      "A key that crossed the network must come out in the byte order it went in: one of htonl and "
			      "ntohl is missing, or one too many.");
		return;
	}
	vb_report_say(t->report, VB_REPORT_FIX,
		      "Use the key of an ibv_mr that is still registered on the same device; a key that crossed the "
		      "network must come out in the byte order it went in.");
}

static void tell_invalidated_key(const struct telling *t)
{
	vb_report_say(t->report, VB_REPORT_CAUSE,
		      "%s 0x%08x belongs to a window on %s side that is not bound (any more). ", t->key_word,
		      t->fault->key, t->whose);
	vb_report_say(t->report, VB_REPORT_FIX,
		      "Bind the window and use the rkey of the latest bind; SEND_WITH_INV, LOCAL_INV and a new bind "
		      "end the old key.");
}

static void tell_window_as_local(const struct telling *t)
{
	vb_report_say(t->report, VB_REPORT_CAUSE, "key 0x%08x is a memory window's and was used as an lkey. ",
		      t->fault->key);
	vb_report_say(t->report, VB_REPORT_FIX,
		      "Put the lkey of the region (ibv_mr), not the rkey of a window, into the ibv_sge.");
}

static void tell_domain(const struct telling *t)
{
	vb_report_say(t->report, VB_REPORT_CAUSE,
		      "%s 0x%08x is registered in protection domain %u, the queue pair on %s side belongs to domain "
		      "%u. ",
		      t->key_word, t->fault->key, t->fault->region_pd, t->whose, t->fault->pd);
	vb_report_say(t->report, VB_REPORT_FIX, "Register the memory and create the queue pair with the same ibv_pd.");
}

static void tell_rights(const struct telling *t)
{
	char missing[VB_WORDS_ROOM], granted[VB_WORDS_ROOM];

	vb_words_rights(missing, t->fault->rights_asked & ~t->fault->rights_granted);
	vb_words_rights(granted, t->fault->rights_granted);
	vb_report_say(t->report, VB_REPORT_CAUSE, "%s 0x%08x is registered without %s on %s side (it has: %s). ",
		      t->key_word, t->fault->key, missing, t->whose, granted);
	vb_report_say(t->report, VB_REPORT_FIX, "Add IBV_ACCESS_%s to the access flags of ibv_reg_mr%s.", missing,
		      t->fault->rights_asked & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) ? " (it needs "
												      "IBV_ACCESS_"
												      "LOCAL_WRITE too)"
												    : "");
}

static void tell_qp_rights(const struct telling *t)
{
	char missing[VB_WORDS_ROOM], granted[VB_WORDS_ROOM];

	vb_words_rights(missing, t->fault->rights_asked & ~t->fault->rights_granted);
	vb_words_rights(granted, t->fault->rights_granted);
	vb_report_say(t->report, VB_REPORT_CAUSE,
		      "the queue pair on %s side does not allow %s: its qp_access_flags are %s. ", t->whose, missing,
		      granted);
	vb_report_say(t->report, VB_REPORT_FIX,
		      "Set qp_access_flags to include IBV_ACCESS_%s in the ibv_modify_qp to INIT; the region's rights "
		      "are not enough.",
		      missing);
}

static void tell_range(const struct telling *t)
{
	const struct vb_fault_record *f = t->fault;
	uint64_t end = f->address + f->length, region_end = f->region_start + f->region_length;

	vb_report_say(t->report, VB_REPORT_CAUSE,
		      "%llu bytes at 0x%llx were asked for; %s 0x%08x on %s side covers %llu bytes at 0x%llx",
		      (unsigned long long)f->length, (unsigned long long)f->address, t->key_word, f->key, t->whose,
		      (unsigned long long)f->region_length, (unsigned long long)f->region_start);
	if (f->address >= f->region_start && f->address < region_end && end > region_end)
		vb_report_say(t->report, VB_REPORT_CAUSE, ": %llu too many at the end. ",
			      (unsigned long long)(end - region_end));
	else if (f->address < f->region_start && end > f->region_start)
		vb_report_say(t->report, VB_REPORT_CAUSE, ": it begins %llu bytes too early. ",
			      (unsigned long long)(f->region_start - f->address));
	else
		vb_report_say(t->report, VB_REPORT_CAUSE, ": not a byte of it. ");
	vb_report_say(t->report, VB_REPORT_FIX,
		      "Check address and length against what was registered; remote addresses are those of the other "
		      "process, and a key belongs to one region only.");
}

static void tell_window_of_other_qp(const struct telling *t)
{
	vb_report_say(t->report, VB_REPORT_CAUSE,
		      "rkey 0x%08x is a type 2 window that was bound through another queue pair. ", t->fault->key);
	vb_report_say(t->report, VB_REPORT_FIX,
		      "A type 2 window works only through the queue pair its bind was posted to.");
}

static void tell_unaligned(const struct telling *t)
{
	vb_report_say(t->report, VB_REPORT_CAUSE, "an atomic was asked for at 0x%llx, which is not a multiple of 8. ",
		      (unsigned long long)t->fault->address);
	vb_report_say(t->report, VB_REPORT_FIX, "Atomics work on 8 bytes at an address that is a multiple of 8.");
}

static void tell_unmapped(const struct telling *t)
{
	vb_report_say(t->report, VB_REPORT_CAUSE,
		      "the memory behind %s 0x%08x (%llu bytes at 0x%llx) on %s side is not mapped, or not writable, "
		      "any more. ",
		      t->key_word, t->fault->key, (unsigned long long)t->fault->length,
		      (unsigned long long)t->fault->address, t->whose);
	vb_report_say(t->report, VB_REPORT_FIX, "Free or unmap memory only after its region was deregistered.");
}

static void tell_bind(const struct telling *t)
{
	const struct vb_fault_record *f = t->fault;
	char rights[VB_WORDS_ROOM];

	if (f->region_length > 0 && f->length > 0) {
		vb_report_say(t->report, VB_REPORT_CAUSE,
			      "the type 2 window with key 0x%08x is bound already, to %llu bytes at 0x%llx. ", f->key,
			      (unsigned long long)f->region_length, (unsigned long long)f->region_start);
		vb_report_say(t->report, VB_REPORT_FIX,
			      "Invalidate it first (IBV_WR_LOCAL_INV, or IBV_WR_SEND_WITH_INV from the peer); then it can be "
			      "bound again.");
	} else if (f->length == 0) {
		vb_report_say(t->report, VB_REPORT_CAUSE, "the type 2 window with key 0x%08x was to be bound to no bytes. ",
			      f->key);
		vb_report_say(t->report, VB_REPORT_FIX,
			      "To end a binding, invalidate the window (IBV_WR_LOCAL_INV); a length of 0 ends that of a type 1 "
			      "window only.");
	} else {
		vb_report_say(t->report, VB_REPORT_CAUSE,
			      "the window cannot be bound as asked: %llu bytes at 0x%llx with key 0x%08x, rights %s. ",
			      (unsigned long long)f->length, (unsigned long long)f->address, f->key,
			      vb_words_rights(rights, f->rights_asked));
		vb_report_say(t->report, VB_REPORT_FIX,
			      "A window grants REMOTE_READ, REMOTE_WRITE and REMOTE_ATOMIC, and may be ZERO_BASED; its key is "
			      "ibv_inc_rkey of the one it had.");
	}
}

typedef void telling_of(const struct telling *t);

static telling_of *const tellings[VB_FAULT_COUNT] = {
	[VB_FAULT_KEY_UNKNOWN] = tell_unknown_key,
	[VB_FAULT_KEY_INVALIDATED] = tell_invalidated_key,
	[VB_FAULT_KEY_NOT_LOCAL] = tell_window_as_local,
	[VB_FAULT_PD_MISMATCH] = tell_domain,
	[VB_FAULT_QP_MISMATCH] = tell_window_of_other_qp,
	[VB_FAULT_RIGHTS] = tell_rights,
	[VB_FAULT_QP_RIGHTS] = tell_qp_rights,
	[VB_FAULT_RANGE] = tell_range,
	[VB_FAULT_UNALIGNED_ATOMIC] = tell_unaligned,
	[VB_FAULT_UNMAPPED] = tell_unmapped,
	[VB_FAULT_BIND] = tell_bind,
};

bool vb_explain_access(const struct vb_fault_record *fault, bool remote_key, const char *whose,
		       struct vb_report *report)
{
	struct telling telling = {
		.fault = fault,
		.key_word = remote_key ? "rkey" : "lkey",
		.whose = whose,
		.report = report,
	};

	if ((unsigned)fault->fault >= VB_FAULT_COUNT || !tellings[fault->fault])
		return false;
	tellings[fault->fault](&telling);
	return true;
}

void vb_explain_access_evidence(const struct vb_fault_record *fault, bool far, struct vb_report *report)
{
	char rights[VB_WORDS_ROOM];

	if (fault->key != 0)
		vb_report_hex(report, far ? "far_key" : "key", fault->key, 8);
	/* A message has a length and no address, a receive a room and no start. */
	if (fault->length != 0) {
		if (fault->key != 0)
			vb_report_hex(report, far ? "far_address" : "address", fault->address, 1);
		vb_report_number(report, far ? "far_length" : "length", fault->length);
	}
	if (fault->swapped_key != 0)
		vb_report_hex(report, far ? "far_swapped_key" : "swapped_key", fault->swapped_key, 8);
	if (fault->gone_for > 0)
		vb_report_number(report, far ? "far_gone_us" : "gone_us", (uint64_t)fault->gone_for / 1000);
	if (fault->fault == VB_FAULT_PACKET_LENGTH) {
		vb_report_number(report, far ? "far_path_mtu" : "path_mtu", fault->region_length);
	} else if (fault->region_length != 0) {
		if (fault->key != 0)
			vb_report_hex(report, far ? "far_region_start" : "region_start", fault->region_start, 1);
		vb_report_number(report, far ? "far_region_length" : "region_length", fault->region_length);
	}
	if (fault->rights_asked != 0) {
		vb_report_word(report, far ? "far_rights_asked" : "rights_asked",
			       vb_words_rights(rights, fault->rights_asked));
		vb_report_word(report, far ? "far_rights_granted" : "rights_granted",
			       vb_words_rights(rights, fault->rights_granted));
	}
	if (fault->fault == VB_FAULT_PD_MISMATCH) {
		vb_report_number(report, far ? "far_pd" : "pd", fault->pd);
		vb_report_number(report, far ? "far_region_pd" : "region_pd", fault->region_pd);
	}
}
