/* SPDX-License-Identifier: MIT
 *
 * ucx_check PORT [HOST]: tagged messages of many sizes there and back, every byte compared. Without HOST: the server. The two tell each
 * other where their workers are by TCP.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

enum { LARGEST = 4 << 20, SIZES = 24, FIRST_TAG = 1 };

static ucp_worker_h worker;

static void require(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "wrong: %s\n", what);
	exit(1);
}

/* 1, 3, 7, 13 ... 4 MiB: on both sides of where UCX changes its protocol. */
static size_t size_of(unsigned number)
{
	return number + 1 == SIZES ? LARGEST : LARGEST * (size_t)3 / 4 >> (SIZES - 2 - number) | 1;
}

static void fill(unsigned char *bytes, size_t size, unsigned round)
{
	for (size_t i = 0; i < size; i++)
		bytes[i] = (unsigned char)(round * 29 + i % 251 + (i >> 12));
}

/* ---- the workers find each other ---- */

static int meet(const char *host, uint16_t port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
	int fd = socket(AF_INET, SOCK_STREAM, 0), listener = fd;

	require(fd >= 0, "a socket");
	if (host != NULL) {
		require(inet_pton(AF_INET, host, &address.sin_addr) == 1, "the address");
		require(connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0, "the server");
		return fd;
	}
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
	require(bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 && listen(fd, 1) == 0, "the port");
	fd = accept(listener, NULL, NULL);
	require(fd >= 0, "the client");
	close(listener);
	return fd;
}

static void give(int fd, const void *bytes, size_t length)
{
	require(send(fd, bytes, length, 0) == (ssize_t)length, "telling the peer");
}

static void take(int fd, void *bytes, size_t length)
{
	require(recv(fd, bytes, length, MSG_WAITALL) == (ssize_t)length, "what the peer tells");
}

static ucp_ep_h join(int fd)
{
	ucp_ep_params_t parameters = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
	ucp_address_t *mine;
	void *theirs;
	uint64_t length;
	size_t size;
	ucp_ep_h ep;

	require(ucp_worker_get_address(worker, &mine, &size) == UCS_OK, "the worker's address");
	length = size;
	give(fd, &length, sizeof(length));
	give(fd, mine, size);
	take(fd, &length, sizeof(length));
	theirs = malloc(length);
	require(theirs != NULL, "memory");
	take(fd, theirs, length);
	parameters.address = theirs;
	require(ucp_ep_create(worker, &parameters, &ep) == UCS_OK, "the endpoint");
	ucp_worker_release_address(worker, mine);
	free(theirs);
	return ep;
}

/* ---- messages ---- */

static void finish(void *request, const char *what)
{
	require(!UCS_PTR_IS_ERR(request), what);
	if (request == NULL)
		return;
	while (ucp_request_check_status(request) == UCS_INPROGRESS)
		ucp_worker_progress(worker);
	require(ucp_request_check_status(request) == UCS_OK, what);
	ucp_request_free(request);
}

static void transmit(ucp_ep_h ep, const void *bytes, size_t size, ucp_tag_t tag)
{
	ucp_request_param_t none = {0};

	finish(ucp_tag_send_nbx(ep, bytes, size, tag, &none), "a send");
}

static void receive(void *bytes, size_t size, ucp_tag_t tag)
{
	ucp_request_param_t none = {0};

	finish(ucp_tag_recv_nbx(worker, bytes, size, tag, ~(ucp_tag_t)0, &none), "a receive");
}

/* Both have everything before either leaves. */
static void part(int fd, ucp_ep_h ep)
{
	ucp_request_param_t none = {0};
	char through = 1;

	finish(ucp_ep_flush_nbx(ep, &none), "the end");
	give(fd, &through, 1);
	while (recv(fd, &through, 1, MSG_DONTWAIT) != 1)
		ucp_worker_progress(worker);
}

int main(int argc, char **argv)
{
	ucp_params_t parameters = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
	ucp_worker_params_t threads = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE, .thread_mode = UCS_THREAD_MODE_SINGLE};
	const char *host = argc > 2 ? argv[2] : NULL;
	unsigned char *out = malloc(LARGEST), *in = malloc(LARGEST);
	ucp_context_h context;
	ucp_ep_h ep;
	int fd;

	require(argc > 1 && out != NULL && in != NULL, "ucx_check PORT [HOST]");
	require(ucp_init(&parameters, NULL, &context) == UCS_OK, "UCX");
	require(ucp_worker_create(context, &threads, &worker) == UCS_OK, "the worker");
	fd = meet(host, (uint16_t)atoi(argv[1]));
	ep = join(fd);
	for (unsigned i = 0; i < SIZES; i++) {
		size_t size = size_of(i);

		/* The server's answer is of other bytes. */
		fill(out, size, host != NULL ? i : i + 100);
		memset(in, 0, size);
		if (host != NULL)
			transmit(ep, out, size, FIRST_TAG + i);
		receive(in, size, FIRST_TAG + i);
		if (host == NULL)
			transmit(ep, out, size, FIRST_TAG + i);
		fill(out, size, host != NULL ? i + 100 : i);
		require(memcmp(in, out, size) == 0, "a message");
	}
	part(fd, ep);
	if (host != NULL)
		printf("%d messages compared\n", SIZES);
	ucp_worker_destroy(worker);
	ucp_cleanup(context);
	close(fd);
	free(out);
	free(in);
	return 0;
}
