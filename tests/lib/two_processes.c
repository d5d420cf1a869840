/* SPDX-License-Identifier: MIT
 *
 * See two_processes.h.
 */
#include "lib/two_processes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/patience.h"

void talk(int fd, const struct card *own, struct card *other)
{
	assert_int_equal(write(fd, own, sizeof(*own)), sizeof(*own));
	assert_int_equal(read(fd, other, sizeof(*other)), sizeof(*other));
}

void meet(int fd)
{
	struct card nothing = {0};

	talk(fd, &nothing, &nothing);
}

void open_half(struct world *world, struct pair *pair, int side, const struct pair_options *options, int fd, struct card *other)
{
	struct pair_options waiting = *options;
	struct card own;

	waiting.stay_in_reset = true;
	world_open(world, "lo");
	pair_open(pair, world, &waiting);
	own = (struct card){pair->qp[side]->qp_num, pair->mr[side]->rkey, (uintptr_t)pair->buffer[side]};
	talk(fd, &own, other);
	pair->elsewhere = other->qpn;
	pair_to_init(pair, side);
	pair_to_rtr(pair, side);
	pair_to_rts(pair, side);
	meet(fd);                        /* both are ready */
}

void close_half(struct world *world, struct pair *pair)
{
	pair_close(pair);
	world_close(world);
}

struct ibv_send_wr half_request(struct pair *pair, int side, const struct card *other, enum ibv_wr_opcode opcode, struct ibv_sge *sge,
				size_t offset, uint32_t length)
{
	struct ibv_send_wr wr = pair_request(pair, side, opcode, sge, offset, length);

	if (opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM || opcode == IBV_WR_RDMA_READ) {
		wr.wr.rdma.rkey = other->rkey;
		wr.wr.rdma.remote_addr = other->address + offset;
	}
	return wr;
}

#ifdef __SANITIZE_THREAD__
static bool has_thread(const char *name)
{
	DIR *threads = opendir("/proc/self/task");
	const struct dirent *entry;
	bool found = false;

	assert_non_null(threads);
	while (!found && (entry = readdir(threads)) != NULL) {
		char path[300], comm[32] = "";
		FILE *file;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
		file = fopen(path, "re");
		found = file != NULL && fgets(comm, sizeof(comm), file) != NULL && strncmp(comm, name, strlen(name)) == 0;
		if (file != NULL)
			fclose(file);
	}
	closedir(threads);
	return found;
}
#endif

pid_t start(void (*play)(int fd), int *fd)
{
	int pair[2];
	pid_t child;

#ifdef __SANITIZE_THREAD__
	/* It lets a child have threads only where its parent had none. The one that brings memory in stays for a moment after all else. */
	assert_true(eventually(!has_thread("verbena-ahead")));
#endif
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		setenv("CMOCKA_TEST_ABORT", "1", 1);
		close(pair[0]);
		play(pair[1]);
		_exit(0);
	}
	close(pair[1]);
	*fd = pair[0];
	return child;
}

void finish(pid_t child, int fd)
{
	int status;

	close(fd);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}
