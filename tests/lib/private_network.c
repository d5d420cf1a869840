/* SPDX-License-Identifier: MIT
 *
 * See private_network.h. Interfaces and addresses are managed with the ioctls of if(7) and with rtnetlink, so that no
 * tool needs to be installed.
 */
#include "lib/private_network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SKIPPED = 77 };

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	(void)!write(fd, text, strlen(text));
	close(fd);
}

static void become_root_of_user_namespace(uid_t uid, gid_t gid)
{
	char map[64];

	write_file("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "0 %u 1", uid);
	write_file("/proc/self/uid_map", map);
	snprintf(map, sizeof(map), "0 %u 1", gid);
	write_file("/proc/self/gid_map", map);
}

static int wait_for(pid_t child)
{
	int status;

	while (waitpid(child, &status, 0) != child)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* A build with AddressSanitizer looks for leaks when a program ends, which takes seconds on some processors. We have read
 * the options by now; the daemon we start has not, and nobody reads what it would say at its end. */
static void look_for_leaks_here_only(void)
{
	const char *options = getenv("ASAN_OPTIONS");
	char more[1024];

	snprintf(more, sizeof(more), "%s:detect_leaks=0", options != NULL ? options : "");
	setenv("ASAN_OPTIONS", more, 1);
}

/* The numbers of processes in /proc are those of the namespace then. Where the kernel does not allow it (parts of /proc are covered) they
 * are another's: a search for leaks, which looks for its threads there by number, finds none or a stranger's. */
static void show_own_processes(void)
{
	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0)
		(void)mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
}

/* original -> first process of the namespace (when it ends, the kernel ends the rest) -> the test */
void private_network_enter(void)
{
	int flags = CLONE_NEWNET | CLONE_NEWPID | CLONE_NEWNS;
	uid_t uid = getuid();
	gid_t gid = getgid();
	pid_t child;

	if (getenv("PRIVATE_NETWORK_READY") != NULL)     /* under a debugger: whoever started us has made one */
		return;
	if (unshare(flags) != 0) {
		if (unshare(flags | CLONE_NEWUSER) != 0) {
			fprintf(stderr, "skipped: no namespaces here (%s)\n", strerror(errno));
			exit(SKIPPED);
		}
		become_root_of_user_namespace(uid, gid);
	}
	fflush(NULL);
	child = fork();
	if (child != 0)
		_exit(wait_for(child));
	show_own_processes();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	child = fork();
	if (child != 0)
		_exit(wait_for(child));
	if (private_network_set_up("lo", 1) != 0) {
		perror("loopback");
		exit(SKIPPED);
	}
	look_for_leaks_here_only();
}

int private_network_set_up(const char *name, int up)
{
	struct ifreq request;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), result = 0;

	memset(&request, 0, sizeof(request));
	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	if (ioctl(fd, SIOCGIFFLAGS, &request) != 0)
		result = -errno;
	if (up)
		request.ifr_flags |= IFF_UP | IFF_RUNNING;
	else
		request.ifr_flags &= (short)~IFF_UP;
	if (result == 0 && ioctl(fd, SIOCSIFFLAGS, &request) != 0)
		result = -errno;
	close(fd);
	return result;
}

struct message {
	struct nlmsghdr header;
	char body[512];
};

static void append(struct message *message, unsigned short type, const void *data, size_t length)
{
	struct rtattr *attribute = (struct rtattr *)(void *)((char *)message + NLMSG_ALIGN(message->header.nlmsg_len));

	attribute->rta_type = type;
	attribute->rta_len = (unsigned short)RTA_LENGTH(length);
	memcpy(RTA_DATA(attribute), data, length);
	message->header.nlmsg_len = (uint32_t)(NLMSG_ALIGN(message->header.nlmsg_len) + RTA_ALIGN(attribute->rta_len));
}

static int talk(struct message *message)
{
	char answer[1024] __attribute__((aligned(8)));
	struct nlmsghdr *header = (struct nlmsghdr *)(void *)answer;
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), result;

	message->header.nlmsg_flags |= NLM_F_REQUEST | NLM_F_ACK;
	if (send(fd, message, message->header.nlmsg_len, 0) < 0 || recv(fd, answer, sizeof(answer), 0) < 0)
		result = -errno;
	else
		result = ((struct nlmsgerr *)NLMSG_DATA(header))->error;
	close(fd);
	return result;
}

static int change_address(const char *name, const char *ipv4, unsigned prefix, unsigned short type)
{
	struct message message = {.header = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct ifaddrmsg)), .nlmsg_type = type}};
	struct ifaddrmsg *body = NLMSG_DATA(&message.header);
	struct in_addr address;

	if (type == RTM_NEWADDR)
		message.header.nlmsg_flags = NLM_F_CREATE | NLM_F_EXCL;
	body->ifa_family = AF_INET;
	body->ifa_prefixlen = (uint8_t)prefix;
	body->ifa_index = if_nametoindex(name);
	inet_pton(AF_INET, ipv4, &address);
	append(&message, IFA_LOCAL, &address, sizeof(address));
	append(&message, IFA_ADDRESS, &address, sizeof(address));
	return talk(&message);
}

int private_network_add_address(const char *name, const char *ipv4, unsigned prefix)
{
	return change_address(name, ipv4, prefix, RTM_NEWADDR);
}

int private_network_remove_address(const char *name, const char *ipv4, unsigned prefix)
{
	return change_address(name, ipv4, prefix, RTM_DELADDR);
}

/* A veth pair both ends of which stay here: present in every kernel that has containers, unlike dummy. */
int private_network_add_interface(const char *name, const char *ipv4, unsigned prefix)
{
	struct message message = {.header = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg)), .nlmsg_type = RTM_NEWLINK,
					     .nlmsg_flags = NLM_F_CREATE | NLM_F_EXCL}};
	struct rtattr *info;
	int result;

	append(&message, IFLA_IFNAME, name, strlen(name) + 1);
	info = (struct rtattr *)(void *)((char *)&message + NLMSG_ALIGN(message.header.nlmsg_len));
	append(&message, IFLA_LINKINFO, "", 0);
	append(&message, IFLA_INFO_KIND, "veth", 5);
	info->rta_len = (unsigned short)((char *)&message + message.header.nlmsg_len - (char *)info);
	result = talk(&message);
	if (result != 0)
		return result;
	result = private_network_add_address(name, ipv4, prefix);
	return result != 0 ? result : private_network_set_up(name, 1);
}

int private_network_remove_interface(const char *name)
{
	struct message message = {.header = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg)), .nlmsg_type = RTM_DELLINK}};

	append(&message, IFLA_IFNAME, name, strlen(name) + 1);
	return talk(&message);
}

unsigned long private_network_datagrams(void)
{
	char line[1024];
	unsigned long sent = 0, more;
	FILE *file = fopen("/proc/self/net/snmp", "r");

	if (file == NULL)
		abort();
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "Udp: %*u %*u %*u %lu", &sent) == 1)
			break;
	fclose(file);
	file = fopen("/proc/self/net/snmp6", "r");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "Udp6OutDatagrams %lu", &more) == 1)
			sent += more;
	if (file)
		fclose(file);
	return sent;
}

void private_network_give_up_ptrace(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &header, data) != 0)
		abort();
	data[0].effective &= ~(1u << CAP_SYS_PTRACE);
	data[0].permitted &= ~(1u << CAP_SYS_PTRACE);
	data[0].inheritable &= ~(1u << CAP_SYS_PTRACE);
	if (syscall(SYS_capset, &header, data) != 0)
		abort();
}
