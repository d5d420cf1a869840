/* SPDX-License-Identifier: MIT
 *
 * The program is kept when it is attached, and run here as the kernel runs it. How many sockets its group has is read from
 * /proc/net/udp, when one may have come or gone: the group is of those that are bound to the port and connected to nothing
 * (io/udp.c, vb_udp_leave_group).
 */
#include "sim/steered.h"

#include <linux/filter.h>
#include <string.h>

#include "base/bytes.h"
#include "daemon/steering.h"
#include "io/descriptor.h"
#include "io/udp.h"
#include "sim/seams.h"
#include "sim/world.h"
#include "wire/daemon_message.h"

enum { MACHINES = 8, FAMILIES = 2 };

struct group {
	struct sock_filter program[VB_STEERING_INSTRUCTIONS];
	unsigned length;                 /* 0: none is attached */
	unsigned members;
	bool is_counted;
};

static struct group group[MACHINES][FAMILIES];
static unsigned at;
static bool in_use;

void steered_use(bool use)
{
	in_use = use;
	memset(group, 0, sizeof(group));
}

void steered_enter(unsigned machine)
{
	CHECK(machine < MACHINES);
	at = machine;
}

void steered_changed(void)
{
	for (unsigned m = 0; m < MACHINES; m++)
		for (unsigned f = 0; f < FAMILIES; f++)
			group[m][f].is_counted = false;
}

/* ---- the group ---- */

/* "  42: LOCAL:12B7 REMOTE:0000 ...": bound, and connected to nothing. */
static bool is_member(const char *row)
{
	char local[40], remote[40];
	unsigned local_port, remote_port;

	return sscanf(row, " %*u: %39[0-9A-F]:%x %39[0-9A-F]:%x", local, &local_port, remote, &remote_port) == 4 &&
	       local_port == VB_ROCE_PORT && remote_port == 0;
}

static struct group *counted(bool ipv6)
{
	struct group *found = &group[at][ipv6];
	char row[512];
	FILE *table;

	if (found->is_counted)
		return found;
	table = fopen(ipv6 ? "/proc/thread-self/net/udp6" : "/proc/thread-self/net/udp", "r");
	CHECK(table);
	found->members = 0;
	while (fgets(row, sizeof(row), table))
		found->members += is_member(row);
	fclose(table);
	found->is_counted = true;
	if (found->members == 0)
		found->length = 0; /* it goes with the last of them */
	return found;
}

/* ---- the program ---- */

/* What it returns for the datagram: a place in the group (daemon/steering.c says of which instructions it is made). */
static uint32_t run(const struct group *steering, const uint8_t *bytes, size_t length)
{
	uint32_t a = 0, x = 0;

	for (unsigned i = 0; i < steering->length; i++) {
		const struct sock_filter *step = &steering->program[i];

		switch (step->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			if (step->k + sizeof(a) > length)
				return 0;
			a = (uint32_t)bytes[step->k] << 24 | (uint32_t)bytes[step->k + 1] << 16 | (uint32_t)bytes[step->k + 2] << 8 |
			    bytes[step->k + 3];
			break;
		case BPF_MISC | BPF_TAX:
			x = a;
			break;
		case BPF_MISC | BPF_TXA:
			a = x;
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= step->k;
			break;
		case BPF_ALU | BPF_RSH | BPF_K:
			a >>= step->k;
			break;
		case BPF_JMP | BPF_JEQ | BPF_K:
			i += a == step->k ? step->jt : step->jf;
			break;
		case BPF_JMP | BPF_JGT | BPF_K:
			i += a > step->k ? step->jt : step->jf;
			break;
		case BPF_JMP | BPF_JA:
			i += step->k;
			break;
		case BPF_RET | BPF_A:
			return a;
		default:
			CHECK(step->code == (BPF_RET | BPF_K));
			return step->k;
		}
	}
	return UINT32_MAX;
}

bool steered_is_stray(bool ipv6, const void *bytes, size_t length)
{
	const struct group *found = counted(ipv6);

	return found->members > 1 && run(found, bytes, length) >= found->members;
}

/* ---- around verbenad's calls (--wrap) ---- */

int __real_vb_udp_attach_program(int fd, const struct sock_filter *program, unsigned length);
int __wrap_vb_udp_attach_program(int fd, const struct sock_filter *program, unsigned length);
int __real_vb_udp_open_receiver(bool ipv6, uint16_t port);
int __wrap_vb_udp_open_receiver(bool ipv6, uint16_t port);
int __real_vb_udp_leave_group(int fd, bool ipv6);
int __wrap_vb_udp_leave_group(int fd, bool ipv6);
void __real_vb_descriptor_close(int fd);
void __wrap_vb_descriptor_close(int fd);
int __real_vb_udp_send_loopback(int fd, bool ipv6, uint16_t port, const void *bytes, size_t length);
int __wrap_vb_udp_send_loopback(int fd, bool ipv6, uint16_t port, const void *bytes, size_t length);

int __wrap_vb_udp_attach_program(int fd, const struct sock_filter *program, unsigned length)
{
	int error = __real_vb_udp_attach_program(fd, program, length);
	struct group *steering = &group[at][vb_udp_is_receiver(fd, true, VB_ROCE_PORT)];

	if (error != 0 || !in_use)
		return error;
	CHECK(length <= VB_STEERING_INSTRUCTIONS);
	memcpy(steering->program, program, length * sizeof(*program));
	steering->length = length;
	return 0;
}

int __wrap_vb_udp_open_receiver(bool ipv6, uint16_t port)
{
	steered_changed();
	return __real_vb_udp_open_receiver(ipv6, port);
}

int __wrap_vb_udp_leave_group(int fd, bool ipv6)
{
	steered_changed();
	return __real_vb_udp_leave_group(fd, ipv6);
}

void __wrap_vb_descriptor_close(int fd)
{
	steered_changed();
	__real_vb_descriptor_close(fd);
}

/* Who receives it tells by its nonce alone that it did. */
int __wrap_vb_udp_send_loopback(int fd, bool ipv6, uint16_t port, const void *bytes, size_t length)
{
	struct vb_daemon_probe probe;

	CHECK(length == sizeof(probe));
	memcpy(&probe, bytes, sizeof(probe));
	if (in_use && steered_is_stray(ipv6, &probe, sizeof(probe)))
		probe.index = be32_of(seam.draw(counted(ipv6)->members));
	return __real_vb_udp_send_loopback(fd, ipv6, port, &probe, sizeof(probe));
}
