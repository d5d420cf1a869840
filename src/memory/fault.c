/* SPDX-License-Identifier: MIT
 *
 * Names and sentences of faults, derived from the one list in fault.h.
 */
#include "memory/fault.h"

static const struct {
	const char *name, *sentence;
} faults[VB_FAULT_COUNT] = {
#define X(name, sentence) [VB_FAULT_##name] = {#name, sentence},
	VB_FAULTS(X)
#undef X
};

const char *vb_fault_name(enum vb_fault fault)
{
	return (unsigned)fault < VB_FAULT_COUNT ? faults[fault].name : "UNKNOWN";
}

const char *vb_fault_sentence(enum vb_fault fault)
{
	return (unsigned)fault < VB_FAULT_COUNT ? faults[fault].sentence : "a fault without a name";
}
