/* SPDX-License-Identifier: MIT
 *
 * A network namespace of a test's own, without a daemon.
 */
#ifndef TESTS_NETNS_NAMESPACE_H
#define TESTS_NETNS_NAMESPACE_H

#include <errno.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* With lo up; ends the test with 77 where that is not possible. */
static inline void enter_namespace(void)
{
	struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	int fd;

	if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
		printf("network namespaces cannot be created here: %s\n", strerror(errno));
		exit(77);
	}
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request) != 0)
		exit(77);
	close(fd);
}

#endif
