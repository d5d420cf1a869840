/* SPDX-License-Identifier: MIT
 *
 * 01: Which RDMA devices are there, and by which names can peers reach them?
 *
 *   cc 01_devices.c -libverbs && ./a.out
 *
 * Everything in verbs begins with three calls: list the devices, open one (that gives a context), ask it questions.
 * What you need to remember from the answers is small: the port's number, its state, its MTU, and the GID index.
 *
 * A GID is a port's address on the network, 16 bytes. On RoCE each IP address of the interface is a GID, and programs
 * choose one by its index in this table. A wrong index is the most frequent reason why a first program does not
 * connect: the two ends must use GIDs of one kind (RoCE v2 here) that can reach each other, as IP addresses must.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int mtu_in_bytes(enum ibv_mtu mtu)
{
	/* The enumeration counts powers of two: IBV_MTU_256 is 1, IBV_MTU_4096 is 5. */
	return 128 << mtu;
}

static const char *link_layer_name(uint8_t link_layer)
{
	switch (link_layer) {
	case IBV_LINK_LAYER_ETHERNET:
		return "Ethernet";
	case IBV_LINK_LAYER_INFINIBAND:
		return "InfiniBand";
	default:
		return "unspecified";
	}
}

static const char *gid_type_name(uint32_t type)
{
	switch (type) {
	case IBV_GID_TYPE_ROCE_V1:
		return "RoCE v1";
	case IBV_GID_TYPE_ROCE_V2:
		return "RoCE v2";
	default:
		return "IB";
	}
}

static void print_gids(struct ibv_context *context, uint8_t port, int length)
{
	for (int i = 0; i < length; i++) {
		struct ibv_gid_entry entry;
		char text[INET6_ADDRSTRLEN];

		/* The table has holes, which answer ENODATA. */
		if (ibv_query_gid_ex(context, port, (uint32_t)i, &entry, 0))
			continue;
		/* A GID has the form of an IPv6 address. IPv4 addresses appear as ::ffff:a.b.c.d. */
		inet_ntop(AF_INET6, entry.gid.raw, text, sizeof(text));
		printf("    gid %d: %s, %s\n", i, text, gid_type_name(entry.gid_type));
	}
}

static int print_port(struct ibv_context *context, uint8_t number)
{
	struct ibv_port_attr port;
	int error = ibv_query_port(context, number, &port);

	if (error) {
		fprintf(stderr, "ibv_query_port %d: %s\n", number, strerror(error));
		return 1;
	}
	printf("  port %d: %s, %s, MTU %d (at most %d)\n", number, ibv_port_state_str(port.state),
	       link_layer_name(port.link_layer), mtu_in_bytes(port.active_mtu), mtu_in_bytes(port.max_mtu));
	print_gids(context, number, port.gid_tbl_len);
	return 0;
}

static int print_device(struct ibv_device *device)
{
	/* Opening gives this process its own handle. It is not exclusive, and needs no privilege. */
	struct ibv_context *context = ibv_open_device(device);
	struct ibv_device_attr attributes;
	int error, failed = 0;

	if (!context) {
		fprintf(stderr, "ibv_open_device %s: %s\n", ibv_get_device_name(device), strerror(errno));
		return 1;
	}
	error = ibv_query_device(context, &attributes);
	if (error) {
		fprintf(stderr, "ibv_query_device: %s\n", strerror(error));
		failed = 1;
	} else {
		printf("%s: %d queue pairs of %d requests, %d memory regions\n", ibv_get_device_name(device),
		       attributes.max_qp, attributes.max_qp_wr, attributes.max_mr);
		/* Ports count from one. */
		for (int port = 1; port <= attributes.phys_port_cnt && !failed; port++)
			failed = print_port(context, (uint8_t)port);
	}
	error = ibv_close_device(context);
	if (error) {
		fprintf(stderr, "ibv_close_device: %s\n", strerror(error));
		failed = 1;
	}
	return failed;
}

int main(void)
{
	int count, failed = 0;
	struct ibv_device **list = ibv_get_device_list(&count);

	if (!list) {
		fprintf(stderr, "ibv_get_device_list: %s\n", strerror(errno));
		return EXIT_FAILURE;
	}
	if (count == 0) {
		fprintf(stderr, "There is no RDMA device. With Verbena, start programs by `verbena run`.\n");
		failed = 1;
	}
	for (int i = 0; i < count && !failed; i++)
		failed = print_device(list[i]);
	/* The list may go once the devices we want are open; a context does not need it. */
	ibv_free_device_list(list);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
