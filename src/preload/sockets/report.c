/* SPDX-License-Identifier: MIT
 *
 * PROGRAM PID rdma|tcp sent=BYTES received=BYTES, the bytes being those that went by RDMA. One write each, so that many
 * processes may share a file.
 */
#include "preload/sockets/report.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "preload/sockets/connection.h"

void vb_sockets_report(const struct vb_connection *connection)
{
	const char *file = secure_getenv("VERBENA_SOCKETS_REPORT");
	bool by_rdma = connection->receives_by_rdma || connection->sends_by_rdma;
	char line[160];
	int length, fd;

	if (file == NULL || *file == '\0')
		return;
	fd = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (fd < 0)
		return;
	length = snprintf(line, sizeof(line), "%s %d %s sent=%" PRIu64 " received=%" PRIu64 "\n",
			  program_invocation_short_name, getpid(), by_rdma ? "rdma" : "tcp", connection->sent, connection->received);
	(void)!write(fd, line, (size_t)length);
	close(fd);
}
