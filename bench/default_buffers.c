/* SPDX-License-Identifier: MIT
 *
 * To be preloaded: socket buffers as an ordinary user gets them where nobody has raised net.core.rmem_max and wmem_max. What is asked for
 * beyond their default is cut to it, of which the kernel grants twice; the options that go beyond it, for the privileged, fail.
 */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

typedef int setsockopt_function(int fd, int level, int option, const void *value, socklen_t length);

enum { DEFAULT_MAXIMUM = 212992 };

int setsockopt(int fd, int level, int option, const void *value, socklen_t length)
{
	setsockopt_function *next;
	void *symbol = dlsym(RTLD_NEXT, "setsockopt");
	int size;

	memcpy(&next, &symbol, sizeof(next));
	if (level == SOL_SOCKET && (option == SO_RCVBUFFORCE || option == SO_SNDBUFFORCE)) {
		errno = EPERM;
		return -1;
	}
	if (level != SOL_SOCKET || (option != SO_RCVBUF && option != SO_SNDBUF) || length != sizeof(size))
		return next(fd, level, option, value, length);
	memcpy(&size, value, sizeof(size));
	if (size > DEFAULT_MAXIMUM)
		size = DEFAULT_MAXIMUM;
	return next(fd, level, option, &size, sizeof(size));
}
