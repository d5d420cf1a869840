/* SPDX-License-Identifier: MIT
 *
 * IP, UDP and TCP headers: RFC 791, RFC 8200, RFC 768, RFC 9293; don't-fragment as RoCEv2 demands (annex A17.4.3.1), and as Linux sets it
 * for TCP. Of RoCEv1 the GRH, which stands where IPv6's header would (annex A16.4.1). InfiniBand's frames have an ERF record's header, in
 * the way of Endace's cards: tools know no other link type for them. Its fields: time (little-endian, seconds << 32 and a fraction), type,
 * flags, length of the record, losses, length on the wire.
 */
#include "capture/frame.h"

#include <errno.h>
#include <string.h>

#include "base/crc.h"
#include "wire/ib_route.h"
#include "wire/icrc.h"
#include "wire/roce_packet.h"

enum { IPV4_LENGTH = 20, IPV4_ID = 4, IPV6_LENGTH = 40, UDP_LENGTH = 8, TCP_LENGTH = 20, DEFAULT_HOPS = 64, TCP_WINDOW = 0xffff };
enum { PROTOCOL_TCP = 6, PROTOCOL_UDP = 17, NEXT_IBA = 0x1b };
enum { LONGEST_PAYLOAD = 4096 };
enum { ETHERNET_LENGTH = 14, COOKED_LENGTH = 16, COOKED_2_LENGTH = 20, TAG_LENGTH = 4 };
enum { TYPE_IPV4 = 0x0800, TYPE_IPV6 = 0x86dd, TYPE_VLAN = 0x8100, TYPE_SERVICE_VLAN = 0x88a8, TYPE_ROCE = 0x8915 };
enum { ERF_TYPE_AT = 8, ERF_LENGTH_AT = 10, ERF_WIRE_LENGTH_AT = 14, ERF_EXTENSION = 8, ERF_MORE = 0x80, ERF_INFINIBAND = 21 };

static void store_16(uint8_t *at, unsigned v)
{
	at[0] = (uint8_t)(v >> 8);
	at[1] = (uint8_t)v;
}

static void store_32(uint8_t *at, uint32_t v)
{
	store_16(at, v >> 16);
	store_16(at + 2, v & 0xffff);
}

static unsigned load_16(const uint8_t *at)
{
	return (unsigned)at[0] << 8 | at[1];
}

static uint32_t load_32(const uint8_t *at)
{
	return (uint32_t)load_16(at) << 16 | load_16(at + 2);
}

static uint32_t sum_up(uint32_t sum, const uint8_t *bytes, size_t length)
{
	for (size_t i = 0; i + 1 < length; i += 2)
		sum += load_16(bytes + i);
	if (length & 1)
		sum += (uint32_t)bytes[length - 1] << 8;
	return sum;
}

static uint16_t fold(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

static uint8_t hops(const struct vb_path *path)
{
	return path->hop_limit ? path->hop_limit : DEFAULT_HOPS;
}

static size_t put_ipv4(uint8_t *at, const struct vb_path *path, uint16_t id, uint8_t protocol, size_t length)
{
	at[0] = 0x45;
	at[1] = path->traffic_class;
	store_16(at + 2, (unsigned)(IPV4_LENGTH + length));
	store_16(at + IPV4_ID, id);
	store_16(at + 6, 0x4000); /* don't fragment */
	at[8] = hops(path);
	at[9] = protocol;
	memcpy(at + 12, path->source + 12, 4);
	memcpy(at + 16, path->destination + 12, 4);
	store_16(at + 10, fold(sum_up(0, at, IPV4_LENGTH)));
	return IPV4_LENGTH;
}

static size_t put_ipv6(uint8_t *at, const struct vb_path *path, uint8_t protocol, size_t length)
{
	at[0] = (uint8_t)(0x60 | path->traffic_class >> 4);
	at[1] = (uint8_t)(path->traffic_class << 4 | (path->flow_label >> 16 & 0x0f));
	store_16(at + 2, path->flow_label & 0xffff);
	store_16(at + 4, (unsigned)length);
	at[6] = protocol;
	at[7] = hops(path);
	memcpy(at + 8, path->source, 16);
	memcpy(at + 24, path->destination, 16);
	return IPV6_LENGTH;
}

static size_t put_ip(uint8_t *at, const struct vb_path *path, uint16_t id, uint8_t protocol, size_t length)
{
	return vb_path_is_ipv4(path) ? put_ipv4(at, path, id, protocol, length) : put_ipv6(at, path, protocol, length);
}

/* Of UDP or TCP: over addresses, protocol and length, header and what follows it. */
static uint16_t checksum(const uint8_t *ip, const struct vb_path *path, uint8_t protocol, const uint8_t *header, size_t header_length,
			 const uint8_t *rest, size_t rest_length)
{
	uint32_t sum = protocol + (uint32_t)(header_length + rest_length);

	sum = vb_path_is_ipv4(path) ? sum_up(sum, ip + 12, 8) : sum_up(sum, ip + 8, 32);
	return fold(sum_up(sum_up(sum, header, header_length), rest, rest_length));
}

size_t vb_frame_headers(uint8_t out[VB_FRAME_HEADERS], const struct vb_path *path, uint16_t ip_id,
			const uint8_t *datagram, size_t length)
{
	size_t udp_length = UDP_LENGTH + length, ip_length;
	uint16_t sum;
	uint8_t *udp;

	memset(out, 0, VB_FRAME_HEADERS);
	ip_length = put_ip(out, path, ip_id, PROTOCOL_UDP, udp_length);
	udp = out + ip_length;
	store_16(udp, path->source_port);
	store_16(udp + 2, VB_ROCE_PORT);
	store_16(udp + 4, (unsigned)udp_length);
	sum = checksum(out, path, PROTOCOL_UDP, udp, UDP_LENGTH, datagram, length);
	store_16(udp + 6, sum ? sum : 0xffff);
	return ip_length + UDP_LENGTH;
}

void vb_frame_ethernet_headers(uint8_t out[VB_FRAME_ETHERNET_HEADERS], const uint8_t destination[6], const uint8_t source[6],
			       const struct vb_path *path, size_t length)
{
	memcpy(out, destination, 6);
	memcpy(out + 6, source, 6);
	store_16(out + 12, TYPE_ROCE);
	vb_ib_path_grh(path, length, out + ETHERNET_LENGTH);
}

size_t vb_frame_erf(uint8_t out[VB_FRAME_ERF_MOST], int64_t time, const uint8_t *frame, size_t length)
{
	uint64_t seconds = (uint64_t)time / 1000000000u, rest = (uint64_t)time % 1000000000u;
	uint64_t stamp = seconds << 32 | (rest << 32) / 1000000000u;
	uint8_t *end = out + VB_FRAME_ERF_HEADER + length;
	uint16_t vcrc;

	if (length > VB_IB_MAX_FRAME)
		return 0;
	memset(out, 0, VB_FRAME_ERF_HEADER);
	for (unsigned i = 0; i < 8; i++)
		out[i] = (uint8_t)(stamp >> 8 * i);
	out[ERF_TYPE_AT] = ERF_INFINIBAND;
	store_16(out + ERF_LENGTH_AT, (unsigned)(VB_FRAME_ERF_HEADER + length + VB_IB_VCRC_LENGTH));
	store_16(out + ERF_WIRE_LENGTH_AT, (unsigned)(length + VB_IB_VCRC_LENGTH));
	memcpy(out + VB_FRAME_ERF_HEADER, frame, length);
	vcrc = vb_ib_vcrc(frame, length);
	/* The low byte first, as the ICRC. */
	end[0] = (uint8_t)vcrc;
	end[1] = (uint8_t)(vcrc >> 8);
	return VB_FRAME_ERF_HEADER + length + VB_IB_VCRC_LENGTH;
}

size_t vb_frame_tcp_headers(uint8_t out[VB_FRAME_TCP_HEADERS], const struct vb_frame_tcp *segment, const uint8_t *payload, size_t length)
{
	size_t ip_length;
	uint8_t *tcp;

	memset(out, 0, VB_FRAME_TCP_HEADERS);
	ip_length = put_ip(out, &segment->path, 0, PROTOCOL_TCP, TCP_LENGTH + length);
	tcp = out + ip_length;
	store_16(tcp, segment->path.source_port);
	store_16(tcp + 2, segment->destination_port);
	store_32(tcp + 4, segment->sequence);
	store_32(tcp + 8, segment->acknowledged);
	tcp[12] = TCP_LENGTH / 4 << 4;
	tcp[13] = segment->flags;
	store_16(tcp + 14, TCP_WINDOW);
	store_16(tcp + 16, checksum(out, &segment->path, PROTOCOL_TCP, tcp, TCP_LENGTH, payload, length));
	return ip_length + TCP_LENGTH;
}

static int parse_udp(const uint8_t *udp, size_t length, struct vb_path *path, const uint8_t **datagram,
		     size_t *datagram_length)
{
	if (length < UDP_LENGTH || load_16(udp + 2) != VB_ROCE_PORT || load_16(udp + 4) < UDP_LENGTH ||
	    load_16(udp + 4) > length)
		return -EPROTO;
	path->source_port = (uint16_t)load_16(udp);
	*datagram = udp + UDP_LENGTH;
	*datagram_length = load_16(udp + 4) - UDP_LENGTH;
	return 0;
}

static void map_ipv4(uint8_t gid[16], const uint8_t *address)
{
	gid[10] = gid[11] = 0xff;
	memcpy(gid + 12, address, 4);
}

/* What the IP packet carries, if it is of that protocol. */
static int parse_ip(const uint8_t *ip, size_t length, uint8_t protocol, struct vb_path *path, const uint8_t **inner, size_t *inner_length)
{
	memset(path, 0, sizeof(*path));
	if (length >= IPV4_LENGTH && ip[0] >> 4 == 4) {
		size_t header = (size_t)(ip[0] & 15) * 4, total = load_16(ip + 2);

		/* A fragment has no UDP or TCP header, or no end. */
		if (header < IPV4_LENGTH || total < header || total > length || ip[9] != protocol || (load_16(ip + 6) & 0x3fff) != 0)
			return -EPROTO;
		path->traffic_class = ip[1];
		path->hop_limit = ip[8];
		map_ipv4(path->source, ip + 12);
		map_ipv4(path->destination, ip + 16);
		*inner = ip + header;
		*inner_length = total - header;
		return 0;
	}
	if (length >= IPV6_LENGTH && ip[0] >> 4 == 6) {
		if (ip[6] != protocol || load_16(ip + 4) > length - IPV6_LENGTH)
			return -EPROTO;
		path->traffic_class = (uint8_t)(ip[0] << 4 | ip[1] >> 4);
		path->flow_label = (ip[1] & 15u) << 16 | load_16(ip + 2);
		path->hop_limit = ip[7];
		memcpy(path->source, ip + 8, 16);
		memcpy(path->destination, ip + 24, 16);
		*inner = ip + IPV6_LENGTH;
		*inner_length = load_16(ip + 4);
		return 0;
	}
	return -EPROTO;
}

int vb_frame_tcp_parse(const uint8_t *ip, size_t length, struct vb_frame_tcp *segment, const uint8_t **payload, size_t *payload_length)
{
	size_t tcp_length, header;
	const uint8_t *tcp;
	int error = parse_ip(ip, length, PROTOCOL_TCP, &segment->path, &tcp, &tcp_length);

	if (error != 0)
		return error;
	header = tcp_length < TCP_LENGTH ? 0 : (size_t)(tcp[12] >> 4) * 4;
	if (header < TCP_LENGTH || header > tcp_length)
		return -EPROTO;
	segment->path.source_port = (uint16_t)load_16(tcp);
	segment->destination_port = (uint16_t)load_16(tcp + 2);
	segment->sequence = load_32(tcp + 4);
	segment->acknowledged = load_32(tcp + 8);
	segment->flags = tcp[13];
	*payload = tcp + header;
	*payload_length = tcp_length - header;
	return 0;
}

/* A header of `header` bytes with the EtherType at `type_at`; VLAN tags (IEEE 802.1Q, 802.1ad) may follow it. */
static int after_type(const uint8_t *frame, size_t length, size_t header, size_t type_at)
{
	unsigned type;

	if (length < header)
		return -EPROTO;
	type = load_16(frame + type_at);
	while ((type == TYPE_VLAN || type == TYPE_SERVICE_VLAN) && length - header >= TAG_LENGTH) {
		type = load_16(frame + header + 2);
		header += TAG_LENGTH;
	}
	return type == TYPE_IPV4 || type == TYPE_IPV6 || type == TYPE_ROCE ? (int)header : -EPROTO;
}

/* Extension headers may follow the first; the highest bit of a type says that there is one more. */
static int after_erf(const uint8_t *frame, size_t length)
{
	size_t header = VB_FRAME_ERF_HEADER;
	bool more;

	if (length < header || (frame[ERF_TYPE_AT] & 0x7f) != ERF_INFINIBAND)
		return -EPROTO;
	for (more = frame[ERF_TYPE_AT] & ERF_MORE; more; header += ERF_EXTENSION) {
		if (length - header < ERF_EXTENSION)
			return -EPROTO;
		more = frame[header] & ERF_MORE;
	}
	return (int)header;
}

int vb_frame_link_length(const uint8_t *frame, size_t length, uint32_t link_type)
{
	switch (link_type) {
	case VB_FRAME_RAW:
	case VB_FRAME_RAW_OLD:
	case VB_FRAME_IPV4:
	case VB_FRAME_IPV6:
		return 0;
	case VB_FRAME_ETHERNET:
		return after_type(frame, length, ETHERNET_LENGTH, 12);
	case VB_FRAME_COOKED:
		return after_type(frame, length, COOKED_LENGTH, 14);
	case VB_FRAME_COOKED_2:
		return after_type(frame, length, COOKED_2_LENGTH, 0);
	case VB_FRAME_ERF:
		return after_erf(frame, length);
	default:
		return -EPROTO;
	}
}

void vb_frame_lid_to_address(uint16_t lid, uint8_t address[16])
{
	memset(address, 0, 16);
	address[0] = 1;
	store_16(address + 14, lid);
}

uint16_t vb_frame_address_to_lid(const uint8_t address[16])
{
	static const uint8_t prefix[14] = {1};

	return memcmp(address, prefix, sizeof(prefix)) == 0 ? (uint16_t)load_16(address + 14) : 0;
}

/* LRH to VCRC. */
static int parse_infiniband(const uint8_t *bytes, size_t length, struct vb_path *path, const uint8_t **datagram, size_t *datagram_length)
{
	struct vb_ib_frame frame;

	if (length < VB_IB_VCRC_LENGTH || !vb_ib_frame_decode(&frame, bytes, length - VB_IB_VCRC_LENGTH))
		return -EPROTO;
	*path = vb_ib_route_to_path(&frame.route);
	if (path->framing == VB_FRAMING_LOCAL) {
		vb_frame_lid_to_address(path->slid, path->source);
		vb_frame_lid_to_address(path->dlid, path->destination);
	}
	*datagram = frame.bth;
	*datagram_length = frame.bth_length;
	return 0;
}

int vb_frame_parse(const uint8_t *frame, size_t length, uint32_t link_type, struct vb_path *path,
		   const uint8_t **datagram, size_t *datagram_length)
{
	int skip = vb_frame_link_length(frame, length, link_type), error;
	size_t udp_length;
	const uint8_t *udp;

	if (skip < 0)
		return skip;
	frame += skip;
	length -= (size_t)skip;
	if (link_type == VB_FRAME_ERF)
		return parse_infiniband(frame, length, path, datagram, datagram_length);
	if (length >= VB_IB_GRH_LENGTH && frame[0] >> 4 == 6 && frame[6] == NEXT_IBA) {
		memset(path, 0, sizeof(*path));
		*datagram = frame + VB_IB_GRH_LENGTH;
		*datagram_length = vb_ib_grh_to_path(path, frame, length);
		return *datagram_length > 0 ? 0 : -EPROTO;
	}
	error = parse_ip(frame, length, PROTOCOL_UDP, path, &udp, &udp_length);
	return error != 0 ? error : parse_udp(udp, udp_length, path, datagram, datagram_length);
}

static uint32_t load_24(const uint8_t *at)
{
	return (uint32_t)at[0] << 16 | load_16(at + 1);
}

/* Do headers (BTH) to the same queue pair with the next PSNs follow at each multiple of `step`? */
static bool is_step(const uint8_t *datagram, size_t length, size_t step)
{
	for (size_t at = step, number = 1; at < length; at += step, number++)
		if (length - at < VB_BTH_LENGTH + VB_ICRC_LENGTH || load_24(datagram + at + 5) != load_24(datagram + 5) ||
		    load_24(datagram + at + 9) != ((load_24(datagram + 9) + number) & 0xffffff))
			return false;
	return true;
}

size_t vb_frame_segment(const uint8_t *datagram, size_t length)
{
	/* Packets are padded to four bytes. No length but those of the packets tells where the next one begins. */
	for (size_t step = VB_BTH_LENGTH + VB_ICRC_LENGTH; step < length && step <= VB_ROCE_MAX_HEADER + LONGEST_PAYLOAD + 4;
	     step += 4)
		if (is_step(datagram, length, step))
			return step;
	return length;
}

uint16_t vb_frame_guess_id(const struct vb_path *path, const uint8_t *datagram, size_t length)
{
	uint32_t crc, difference;
	size_t covered = length - VB_ICRC_LENGTH;
	const uint8_t *carried = datagram + covered;

	if (length < VB_BTH_LENGTH + VB_ICRC_LENGTH || !vb_path_is_ipv4(path))
		return 0;
	crc = vb_icrc_headers(vb_icrc_begin(path, 0, length), datagram, covered);
	difference = crc ^ (carried[0] | (uint32_t)carried[1] << 8 | (uint32_t)carried[2] << 16 |
			    (uint32_t)carried[3] << 24);
	/* See wire/icrc.c: undone down to the identification, its two bytes are what is left, the first one lowest. */
	difference = vb_crc32_rewind(difference, IPV4_LENGTH - IPV4_ID + UDP_LENGTH + covered);
	return difference >> 16 ? 0 : (uint16_t)((difference & 0xff) << 8 | difference >> 8);
}
