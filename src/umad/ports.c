/* SPDX-License-Identifier: MIT
 *
 * An open port is two connections to verbenad: one by which agents are registered, and the socket of MADs
 * (wire/umad.h), whose descriptor is the port's number. Programs poll it, and threads are cancelled while they wait
 * at it (opensm does so): no lock is held there. They are cancelled nowhere else.
 */
#include "umad/ports.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <infiniband/umad.h>

#include "base/mutex.h"
#include "io/cancellation.h"
#include "io/daemon_client.h"
#include "io/descriptor.h"
#include "io/unix_socket.h"
#include "wire/umad.h"

_Static_assert(sizeof(struct ib_user_mad) == sizeof(struct vb_umad), "ib_user_mad");
_Static_assert(offsetof(struct ib_user_mad, addr) == offsetof(struct vb_umad, qpn), "addr");
_Static_assert(offsetof(struct ib_user_mad, addr.lid) == offsetof(struct vb_umad, lid), "lid");
_Static_assert(offsetof(struct ib_user_mad, addr.gid) == offsetof(struct vb_umad, gid), "gid");
_Static_assert(offsetof(struct ib_user_mad, addr.pkey_index) == offsetof(struct vb_umad, pkey_index), "pkey_index");

struct port {
	struct port *next;
	int fd;
	struct vb_daemon_client control;
};

static struct vb_mutex ports_lock = VB_MUTEX_INITIALIZER(VB_RANK_UMAD);
static struct port *ports VB_GUARDED_BY(ports_lock);

int umad_init(void)
{
	return 0;
}

int umad_done(void)
{
	return 0;
}

/* ---- opening ---- */

struct answer {
	int fd;
	uint32_t id;
};

static bool take_answer(void *context, const struct vb_daemon_message *message, const int *fds, unsigned count)
{
	struct answer *answer = context;

	if (message->header.type == VB_DAEMON_MAD_PORT && count == 1)
		answer->fd = vb_descriptor_duplicate(fds[0]);
	if (message->header.type == VB_DAEMON_AGENT)
		answer->id = message->agent.id;
	return true;
}

int umad_open_port(const char *ca_name, int portnum)
{
	VB_UNCANCELLED;
	struct vb_umad_device device;
	struct vb_daemon_message message;
	struct answer answer = {.fd = -EIO};
	struct port *port;
	int error = vb_umad_find(ca_name, portnum, &device, &portnum);

	if (error != 0)
		return error == -ENODEV ? -ENODEV : -EINVAL;
	if (!device.is_infiniband || (uint32_t)portnum != device.adapter.port)
		return -EINVAL;
	port = calloc(1, sizeof(*port));
	if (!port)
		return -ENOMEM;
	error = vb_daemon_client_connect(&port->control, false);
	if (error != 0) {
		free(port);
		return -EIO;
	}
	vb_daemon_message_begin(&message, VB_DAEMON_OPEN_MAD_PORT, 0);
	error = vb_daemon_client_request(&port->control, &message, NULL, 0, take_answer, &answer);
	if (error == 0 && answer.fd < 0)
		error = answer.fd;
	if (error != 0) {
		vb_daemon_client_close(&port->control);
		free(port);
		return error == -EACCES ? -EACCES : -EIO;
	}
	port->fd = answer.fd;
	vb_mutex_lock(&ports_lock);
	port->next = ports;
	ports = port;
	vb_mutex_unlock(&ports_lock);
	return port->fd;
}

int umad_close_port(int portid)
{
	VB_UNCANCELLED;
	struct port **at, *found;

	vb_mutex_lock(&ports_lock);
	for (at = &ports; *at && (*at)->fd != portid; at = &(*at)->next)
		;
	found = *at;
	if (found)
		*at = found->next;
	vb_mutex_unlock(&ports_lock);
	if (found) {
		vb_daemon_client_close(&found->control);
		vb_descriptor_close(found->fd);
		free(found);
	}
	return 0;
}

int umad_get_fd(int portid)
{
	return portid;
}

/* ---- agents ---- */

/* Ask verbenad on behalf of a port. 0 or -errno. */
static int ask(int portid, struct vb_daemon_message *message, struct answer *answer)
{
	int error = -EINVAL;

	vb_mutex_lock(&ports_lock);
	for (struct port *port = ports; port; port = port->next)
		if (port->fd == portid)
			error = vb_daemon_client_request(&port->control, message, NULL, 0, take_answer, answer);
	vb_mutex_unlock(&ports_lock);
	return error;
}

static int register_agent(int portid, struct vb_daemon_register_agent *wanted, uint32_t *id)
{
	struct vb_daemon_message message;
	struct answer answer = {.fd = -1};
	int error;

	vb_daemon_message_begin(&message, VB_DAEMON_REGISTER_AGENT, 0);
	message.register_agent = *wanted;
	error = ask(portid, &message, &answer);
	*id = answer.id;
	return error;
}

static void copy_methods(struct vb_daemon_register_agent *wanted, const long *mask)
{
	if (mask)
		memcpy(wanted->methods, mask, sizeof(wanted->methods));
}

int umad_register(int portid, int mgmt_class, int mgmt_version, uint8_t rmpp_version, long method_mask[16 / sizeof(long)])
{
	VB_UNCANCELLED;
	struct vb_daemon_register_agent wanted = {
		.mgmt_class = (uint8_t)mgmt_class,
		.class_version = (uint8_t)mgmt_version,
		.rmpp_version = rmpp_version,
		.oui = 0x001405,
	};
	uint32_t id;
	int error;

	copy_methods(&wanted, method_mask);
	error = register_agent(portid, &wanted, &id);
	return error == 0 ? (int)id : error == -EINVAL ? -EINVAL : -EPERM;
}

int umad_register_oui(int portid, int mgmt_class, uint8_t rmpp_version, uint8_t oui[3], long method_mask[16 / sizeof(long)])
{
	VB_UNCANCELLED;
	struct vb_daemon_register_agent wanted = {
		.mgmt_class = (uint8_t)mgmt_class,
		.class_version = 1,
		.rmpp_version = rmpp_version,
		.oui = (uint32_t)oui[0] << 16 | (uint32_t)oui[1] << 8 | oui[2],
	};
	uint32_t id;
	int error;

	if (mgmt_class < 0x30 || mgmt_class > 0x4f)
		return -EINVAL;
	copy_methods(&wanted, method_mask);
	error = register_agent(portid, &wanted, &id);
	return error == 0 ? (int)id : error == -EINVAL ? -EINVAL : -EPERM;
}

/* A positive errno, unlike the others. */
int umad_register2(int port_fd, struct umad_reg_attr *attr, uint32_t *agent_id)
{
	VB_UNCANCELLED;
	struct vb_daemon_register_agent wanted;
	int error;

	if (!attr || !agent_id)
		return EINVAL;
	if (attr->flags & ~(uint32_t)UMAD_USER_RMPP) {
		attr->flags = UMAD_USER_RMPP; /* what there is */
		return EINVAL;
	}
	wanted = (struct vb_daemon_register_agent){
		.mgmt_class = attr->mgmt_class,
		.class_version = attr->mgmt_class_version,
		.rmpp_version = attr->rmpp_version,
		.user_rmpp = (attr->flags & UMAD_USER_RMPP) != 0,
		.oui = attr->oui & 0xffffff,
		.methods = {attr->method_mask[0], attr->method_mask[1]},
	};
	error = register_agent(port_fd, &wanted, agent_id);
	return -error;
}

int umad_unregister(int portid, int agentid)
{
	VB_UNCANCELLED;
	struct vb_daemon_message message;
	struct answer answer = {.fd = -1};

	if (agentid < 0 || agentid >= UMAD_CA_MAX_AGENTS)
		return -EINVAL;
	vb_daemon_message_begin(&message, VB_DAEMON_UNREGISTER_AGENT, 0);
	message.agent.id = (uint32_t)agentid;
	return ask(portid, &message, &answer);
}

/* ---- MADs ---- */

int umad_send(int portid, int agentid, void *umad, int length, int timeout_ms, int retries)
{
	VB_UNCANCELLED;
	struct ib_user_mad *mad = umad;
	size_t bytes = sizeof(*mad) + (size_t)(length < 0 ? 0 : length);
	int error, memory;

	errno = 0;
	if (length < 0) {
		errno = EINVAL;
		return -EINVAL;
	}
	mad->agent_id = (uint32_t)agentid;
	mad->timeout_ms = (uint32_t)(timeout_ms < 0 ? 0 : timeout_ms);
	mad->retries = (uint32_t)(retries < 0 ? 0 : retries);
	mad->length = (uint32_t)bytes;
	if ((size_t)length <= VB_UMAD_INLINE) {
		error = vb_unix_send(portid, mad, bytes, NULL, 0, true);
	} else {
		memory = vb_page_create_filled("verbena-mad", mad->data, (size_t)length);
		error = memory < 0 ? memory : vb_unix_send(portid, mad, sizeof(*mad), &memory, 1, true);
		if (memory >= 0)
			vb_descriptor_close(memory);
	}
	if (error == 0)
		return 0;
	errno = -error;
	return error;
}

static int wait_for(int fd, int timeout_ms)
{
	struct pollfd item = {.fd = fd, .events = POLLIN};
	int count = poll(&item, 1, timeout_ms);

	if (count < 0)
		return -errno;
	if (count == 0)
		return -ETIMEDOUT;
	/* verbenad hung up: the device is gone. Reading says so. */
	return item.revents & POLLNVAL ? -EIO : 0;
}

int umad_poll(int portid, int timeout_ms)
{
	int error = wait_for(portid, timeout_ms);

	if (error != 0)
		errno = -error;
	return error;
}

/* The next message stays in line; its header is in `mad`, and `room` more bytes of it. Length of all, 0: none is
 * there any more, or -errno. */
static ssize_t look(int fd, struct ib_user_mad *mad, size_t room, bool wait)
{
	struct iovec span = {.iov_base = mad, .iov_len = sizeof(*mad) + room};
	struct msghdr message = {.msg_iov = &span, .msg_iovlen = 1};
	ssize_t got = recvmsg(fd, &message, MSG_PEEK | (wait ? 0 : MSG_DONTWAIT));

	if (got < 0)
		return -errno;
	if (got == 0)
		return 0;
	return (size_t)got >= sizeof(*mad) && mad->length >= sizeof(*mad) ? (ssize_t)mad->length : -EIO;
}

/* Take the message that was looked at. 0 or -errno. */
static int take(int fd, struct ib_user_mad *mad, size_t room)
{
	VB_UNCANCELLED;
	unsigned count;
	int memory, error = 0;
	void *bytes;
	size_t length;
	ssize_t got = vb_unix_receive(fd, mad, sizeof(*mad) + room, &memory, 1, &count, 0);

	if (got < (ssize_t)sizeof(*mad))
		return got < 0 ? (int)got : -EIO;
	if (count == 0)
		return 0;
	error = vb_page_read(memory, room, &bytes, &length);
	vb_descriptor_close(memory);
	if (error != 0)
		return error;
	memcpy(mad->data, bytes, length);
	free(bytes);
	return 0;
}

int umad_recv(int portid, void *umad, int *length, int timeout_ms)
{
	struct ib_user_mad *mad = umad;
	size_t room = length && *length > 0 ? (size_t)*length : 0;
	ssize_t whole;
	int error;

	errno = 0;
	if (!umad || !length) {
		errno = EINVAL;
		return -EINVAL;
	}
	/* Two threads may wait; the other may have taken it. */
	for (;;) {
		if (timeout_ms > 0 && (error = wait_for(portid, timeout_ms)) != 0) {
			errno = -error;
			return error;
		}
		whole = look(portid, mad, room, timeout_ms < 0);
		/* The program has made it non-blocking. */
		if (whole == -EAGAIN && timeout_ms < 0) {
			error = wait_for(portid, -1);
			if (error != 0) {
				errno = -error;
				return error;
			}
			continue;
		}
		if (whole <= 0) {
			errno = whole == 0 ? EIO : (int)-whole;
			return -errno;
		}
		if ((size_t)whole > sizeof(*mad) + room) {
			*length = (int)((size_t)whole - sizeof(*mad));
			errno = ENOSPC;
			return -ENOSPC;
		}
		error = take(portid, mad, room);
		if (error == -EAGAIN && timeout_ms < 0)
			continue;
		if (error != 0) {
			errno = -error;
			return error;
		}
		*length = (int)(mad->length - sizeof(*mad));
		return (int)mad->agent_id;
	}
}
