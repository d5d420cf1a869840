/* SPDX-License-Identifier: MIT
 *
 * A tun device: a wire whose other end is the test. What is routed to it can be read as it would leave, IP header first, runs cut up by
 * the kernel; what is written to it comes in.
 */
#ifndef TESTS_NETNS_TUNNEL_H
#define TESTS_NETNS_TUNNEL_H

#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/ipv6.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static inline void tunnel_set_address(const char *name, const uint8_t address[4], unsigned prefix)
{
	struct ifreq request = {0};
	struct sockaddr_in four = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	memcpy(&four.sin_addr, address, 4);
	memcpy(&request.ifr_addr, &four, sizeof(four));
	if (ioctl(fd, SIOCSIFADDR, &request) != 0)
		abort();
	four.sin_addr.s_addr = htonl(~UINT32_C(0) << (32 - prefix));
	memcpy(&request.ifr_netmask, &four, sizeof(four));
	if (ioctl(fd, SIOCSIFNETMASK, &request) != 0)
		abort();
	close(fd);
}

static inline void tunnel_add_address6(const char *name, const uint8_t address[16])
{
	struct in6_ifreq request = {.ifr6_prefixlen = 64, .ifr6_ifindex = (int)if_nametoindex(name)};
	int fd = socket(AF_INET6, SOCK_DGRAM, 0);

	memcpy(&request.ifr6_addr, address, 16);
	if (ioctl(fd, SIOCSIFADDR, &request) != 0)
		abort();
	close(fd);
}

static inline void tunnel_set_up(const char *name, bool up)
{
	struct ifreq request = {.ifr_flags = (short)(up ? IFF_UP : 0)};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	if (ioctl(fd, SIOCSIFFLAGS, &request) != 0)
		abort();
	close(fd);
}

static inline void tunnel_set_queue(const char *name, int packets)
{
	struct ifreq request = {.ifr_qlen = packets};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	if (ioctl(fd, SIOCSIFTXQLEN, &request) != 0)
		abort();
	close(fd);
}

/* Its other end, non-blocking. Ends the test with 77 where that is not possible. */
static inline int tunnel_open(const char *name)
{
	struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
	int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	if (fd < 0 || ioctl(fd, TUNSETIFF, &request) != 0) {
		printf("there are no tun devices here\n");
		exit(77);
	}
	/* Kernels before 6.11 or so segment nothing for an interface that computes no checksums. No test looks at them. */
	(void)ioctl(fd, TUNSETOFFLOAD, (unsigned long)TUN_F_CSUM);
	return fd;
}

#endif
