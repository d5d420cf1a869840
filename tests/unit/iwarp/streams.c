/* SPDX-License-Identifier: MIT
 *
 * See streams.h.
 */
#include "streams.h"

#include <errno.h>

#include "profiles/profile.h"

enum { REGIONS = 512, CQ_CAPACITY = 4096, STAGING = 64 << 10, STEPS = 1 << 22 };

uint32_t streams_random(struct streams *streams)
{
	uint64_t z = streams->random += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return (uint32_t)((z ^ z >> 31) >> 32);
}

static uint32_t draw(void *context)
{
	return streams_random(((struct end *)context)->streams);
}

static void note(struct end *end, enum ibv_event_type event)
{
	assert_true(end->events < EVENTS);
	end->event[end->events++] = event;
}

static void qp_event(struct vb_qp *qp, enum ibv_event_type event) { note(qp->host->context, event); }
static void cq_event(struct vb_cq *cq, enum ibv_event_type event) { note(cq->host->context, event); }
static void srq_event(struct vb_srq *srq, enum ibv_event_type event) { note(srq->host->context, event); }
static void completion_event(struct vb_cq *cq) { ((struct end *)cq->host->context)->completion_events++; }

static void completion_deadline(struct vb_cq *cq, vb_time when)
{
	(void)cq;
	(void)when;
}

bool was_told(const struct end *end, enum ibv_event_type event)
{
	for (unsigned i = 0; i < end->events; i++)
		if (end->event[i] == event)
			return true;
	return false;
}

/* ---- memory ---- */

static bool is_mapped(const struct end *end, uint64_t address, size_t length)
{
	return address >= end->hole_end || address + length <= end->hole_start;
}

static int checked_read(void *context, void *to, uint64_t from, size_t length)
{
	if (!is_mapped(context, from, length))
		return -EFAULT;
	memcpy(to, (const void *)(uintptr_t)from, length);
	return 0;
}

static int checked_write(void *context, uint64_t to, const void *from, size_t length)
{
	if (!is_mapped(context, to, length))
		return -EFAULT;
	memcpy((void *)(uintptr_t)to, from, length);
	return 0;
}

uint32_t register_part(struct end *end, struct vb_pd *pd, uint32_t offset, uint32_t length, unsigned access)
{
	struct vb_region_info info = {.kind = VB_REGION_MR, .pd = pd, .start = (uintptr_t)end->arena + offset, .length = length,
				      .iova = (uintptr_t)end->arena + offset, .access = access};
	uint32_t key;

	assert_int_equal(vb_region_register(end->memory, &info, &key), 0);
	return key;
}

static void make_memory(struct end *end, size_t size)
{
	const struct vb_memory_host host = {.random = draw, .checked_read = checked_read, .checked_write = checked_write, .context = end};
	struct vb_region_info info = {.kind = VB_REGION_MR, .pd = &end->pd, .length = size, .access = ALL_ACCESS, .checked = true};

	end->memory = vb_memory_create(&host, REGIONS);
	end->arena = calloc(1, size);
	assert_true(end->memory && end->arena);
	end->pd.handle = 1;
	end->other_pd.handle = 2;
	end->key = register_part(end, &end->pd, 0, (uint32_t)size, ALL_ACCESS);
	info.start = info.iova = (uintptr_t)end->arena;
	assert_int_equal(vb_region_register(end->memory, &info, &end->demand_key), 0);
}

/* ---- making ---- */

/* One for all, as the link has it: between two calls an engine keeps nothing there. */
static struct vb_iwarp_out out;

static void make_end(struct streams *streams, struct end *end, uint32_t qpn)
{
	const struct options *options = &streams->options;
	unsigned max_wr = options->max_wr ? options->max_wr : MAX_WR;
	struct ibv_srq_attr srq_attr = {.max_wr = max_wr, .max_sge = 4};
	struct vb_qp_config config = {
		.type = IBV_QPT_RC,
		.pd = &end->pd,
		.send_cq = &end->send_cq,
		.recv_cq = &end->recv_cq,
		.cap = {.max_send_wr = max_wr, .max_recv_wr = max_wr, .max_send_sge = VB_MAX_SGE, .max_recv_sge = VB_MAX_SGE,
			.max_inline_data = 256},
		.signal_all = options->signal_all,
		.qpn = qpn,
	};
	uint32_t capacity = options->cq_capacity ? options->cq_capacity : CQ_CAPACITY;

	end->streams = streams;
	make_memory(end, options->arena ? options->arena : ARENA);
	end->host = (struct vb_queue_host){
		.completion_event = completion_event,
		.completion_deadline = completion_deadline,
		.qp_event = qp_event,
		.cq_event = cq_event,
		.srq_event = srq_event,
		.random = draw,
		.context = end,
		.memory = end->memory,
		.counters = &end->counters,
		.profile = &vb_profile_iwarp,
	};
	assert_int_equal(vb_cq_init(&end->send_cq, &end->host, NULL, capacity), 0);
	assert_int_equal(vb_cq_init(&end->recv_cq, &end->host, NULL, capacity), 0);
	if (options->srq) {
		assert_int_equal(vb_srq_init(&end->srq, &end->host, NULL, &end->pd, &srq_attr), 0);
		config.srq = &end->srq;
	}
	assert_int_equal(vb_qp_create(&config, &end->host, &vb_iwarp_transport, end, &end->qp), 0);
	assert_int_equal(end->qp->state, IBV_QPS_INIT);
	/* Extensions of RFC 7306 are on. */
	end->qp->opcodes = ~0u;
	end->qp->attr.qp_access_flags = options->access ? options->access : ALL_ACCESS;
	end->out = &out;
	end->pipe_size = options->pipe ? options->pipe : PIPE;
	end->pipe = malloc(end->pipe_size);
	end->rest = malloc(STAGING);
	assert_true(end->pipe && end->rest);
	end->room = options->room;
}

void streams_make(struct streams *streams, const struct options *options)
{
	memset(streams, 0, sizeof(*streams));
	streams->options = *options;
	streams->random = options->seed;
	streams->now = VB_SECONDS(1);
	for (unsigned i = 0; i < 2; i++) {
		make_end(streams, &streams->end[i], 17 + i);
		streams->end[i].other = &streams->end[1 - i];
	}
}

int streams_begin(struct end *end, bool initiator)
{
	const struct options *options = &end->streams->options;
	unsigned side = end == &end->streams->end[1];
	struct vb_iwarp_terms terms = {
		.initiator = initiator,
		.crc = options->crc,
		.ready = options->ready,
		.mulpdu = options->mulpdu ? options->mulpdu : vb_fpdu_mulpdu(1448),
		.ird = options->no_reads ? 0 : options->ird[side] ? options->ird[side] : 4,
		.ord = options->no_reads ? 0 : options->ord[side] ? options->ord[side] : 4,
		.attentive = options->attentive,
		.nonce = options->nonce[side],
		.hold = options->strict ? VB_TIME_NEVER : VB_MILLISECONDS(100),
	};
	int rc;

	vb_lock_take(&end->qp->lock);
	rc = vb_iwarp_begin(end->qp, end->streams->now, &terms);
	vb_lock_release(&end->qp->lock);
	return rc;
}

void streams_open(struct streams *streams, const struct options *options)
{
	streams_make(streams, options);
	assert_int_equal(streams_begin(&streams->end[0], true), 0);
	assert_int_equal(streams_begin(&streams->end[1], false), 0);
	assert_int_equal(streams->end[0].qp->state, IBV_QPS_RTS);
}

void streams_close(struct streams *streams)
{
	for (unsigned i = 0; i < 2; i++) {
		struct end *end = &streams->end[i];

		vb_qp_destroy(end->qp);
		if (streams->options.srq)
			vb_srq_fini(&end->srq);
		vb_cq_fini(&end->send_cq);
		vb_cq_fini(&end->recv_cq);
		vb_memory_destroy(end->memory);
		free(end->arena);
		free(end->pipe);
		free(end->rest);
	}
}

/* ---- the sockets ---- */

static size_t cut(struct streams *streams, size_t length, size_t most)
{
	if (most > 0 && length > most)
		length = most;
	if (streams->options.random_cuts && length > 1 && streams_random(streams) % 4 == 0)
		length = 1 + streams_random(streams) % length;
	return length;
}

/* It comes later than what went before; where many pieces are under way, with the last of them. */
static void send_off(struct end *end)
{
	struct streams *streams = end->streams;
	vb_time delay = streams->options.delay, before = end->flights > 0 ? end->flight[end->flights - 1].at : 0, at;

	if (delay == 0)
		return;
	at = streams->now + streams_random(streams) % (uint64_t)delay;
	if (end->flights < FLIGHTS)
		end->flights++;
	end->flight[end->flights - 1].end = end->written;
	end->flight[end->flights - 1].at = at > before ? at : before;
}

/* Up to which byte the stream has come. */
static size_t arrived(struct end *end)
{
	size_t up_to = end->read;
	unsigned gone = 0;

	if (end->streams->options.delay == 0)
		return end->written;
	while (gone < end->flights && end->flight[gone].at <= end->streams->now)
		up_to = end->flight[gone++].end;
	if (gone == 0)
		return end->landed;
	end->landed = up_to;
	end->flights -= gone;
	memmove(end->flight, end->flight + gone, end->flights * sizeof(end->flight[0]));
	return up_to;
}

/* How much of what is offered the socket takes. */
static size_t write_some(struct end *end)
{
	const struct vb_iwarp_out *offered = end->out;
	size_t on_the_way = end->written - end->read, room = (end->room ? end->room : end->pipe_size) - on_the_way;
	size_t length = offered->bytes < room ? offered->bytes : room, left;

	length = cut(end->streams, length, end->streams->options.most_taken);
	left = length;
	for (unsigned i = 0; left > 0; i++) {
		size_t some = offered->spans[i].iov_len < left ? offered->spans[i].iov_len : left;

		for (size_t done = 0; done < some;) {
			size_t at = (end->written + done) % end->pipe_size, to_end = end->pipe_size - at;
			size_t piece = some - done < to_end ? some - done : to_end;

			memcpy(end->pipe + at, (const uint8_t *)offered->spans[i].iov_base + done, piece);
			done += piece;
		}
		end->written += some;
		left -= some;
	}
	end->short_writes += length < offered->bytes;
	if (end->damage_at != 0 && end->written > end->damage_at && end->written - length <= end->damage_at)
		end->pipe[end->damage_at % end->pipe_size] ^= 0x10;
	send_off(end);
	return length;
}

static bool transmit(struct end *end)
{
	vb_time now = end->streams->now;
	bool more = true, did = false;

	/* As the link: once it is shut nothing more is offered to it, whatever the peer still asks for. */
	while (more && !end->over && !end->streams->cut && !end->shut && !end->reset) {
		size_t total = 0, taken;

		more = vb_iwarp_send(end->qp, now, end->out);
		for (unsigned i = 0; i < end->out->count; i++)
			total += end->out->spans[i].iov_len;
		assert_int_equal(total, end->out->bytes);
		if (end->out->count == 0) {
			assert_false(more);
			break;
		}
		taken = write_some(end);
		more |= taken > 0 && taken < end->out->bytes;
		vb_iwarp_sent(end->qp, now, end->out, taken);
		did |= taken > 0;
		if (taken == 0)
			break;
	}
	if (!end->shut && !end->reset && !end->over) {
		if (vb_iwarp_wish(end->qp) == VB_IWARP_SHUT)
			did = end->shut = true;
		else if (vb_iwarp_wish(end->qp) == VB_IWARP_ABORT)
			did = end->reset = true;
	}
	return did;
}

void end_transmit(struct end *end)
{
	vb_lock_take(&end->qp->lock);
	transmit(end);
	vb_lock_release(&end->qp->lock);
}

static size_t read_pipe(struct end *from, uint8_t *to, size_t length)
{
	size_t there = from->written - from->read;

	if (length > there)
		length = there;
	for (size_t i = 0; i < length; i++)
		to[i] = from->pipe[(from->read + i) % from->pipe_size];
	from->read += length;
	return length;
}

static size_t read_into(struct end *from, const struct iovec *spans, unsigned count, size_t length)
{
	size_t done = 0;

	for (unsigned i = 0; i < count && done < length; i++) {
		size_t some = spans[i].iov_len < length - done ? spans[i].iov_len : length - done;

		done += read_pipe(from, spans[i].iov_base, some);
	}
	return done;
}

static void take(struct end *end, const uint8_t *bytes, size_t length)
{
	size_t taken = vb_iwarp_take(end->qp, end->streams->now, bytes, length);

	assert_true(taken <= length);
	assert_true(taken == length || vb_iwarp_is_stalled(end->qp));
	memmove(end->rest, bytes + taken, length - taken);
	end->rest_length = length - taken;
}

/* What has come, in a piece. */
static bool receive(struct end *end)
{
	static uint8_t staging[STAGING];
	struct end *from = end->other;
	size_t there = arrived(from) - from->read, length = cut(end->streams, there, end->streams->options.most_read);
	struct iovec spans[2];
	unsigned count;

	if (end->over)
		return false;
	if (end->streams->cut) {
		end->over = true;
		vb_iwarp_ended(end->qp, end->streams->now, VB_IWARP_END_RESET);
		return true;
	}
	if (end->rest_length > 0 || vb_iwarp_is_stalled(end->qp)) {
		size_t before = end->rest_length;

		memcpy(staging, end->rest, before);
		take(end, staging, before);
		return end->rest_length < before || (before == 0 && !vb_iwarp_is_stalled(end->qp));
	}
	/* A reset overtakes what is on its way. */
	if (from->reset || there == 0) {
		if (!from->reset && (!from->shut || from->read < from->written))
			return false;
		/* The link closes the socket, and the other side hears of that. */
		end->over = end->shut = true;
		vb_iwarp_ended(end->qp, end->streams->now, from->reset ? VB_IWARP_END_RESET : VB_IWARP_END_FIN);
		return true;
	}
	if (length > STAGING)
		length = STAGING;
	count = end->streams->options.direct ? vb_iwarp_want(end->qp, spans, 2) : 0;
	if (count > 0) {
		assert_int_equal(count, 2);
		end->direct_reads++;
		vb_iwarp_got(end->qp, end->streams->now, read_into(from, spans, count, length));
	} else {
		take(end, staging, read_pipe(from, staging, length));
	}
	return true;
}

void end_feed(struct end *end, const void *bytes, size_t length)
{
	vb_lock_take(&end->qp->lock);
	take(end, bytes, length);
	transmit(end);
	vb_lock_release(&end->qp->lock);
}

size_t end_drain(struct end *end, uint8_t *bytes, size_t room)
{
	end_transmit(end);
	return read_pipe(end, bytes, room);
}

void streams_settle(struct streams *streams)
{
	bool moved = true;

	for (unsigned steps = 0; moved; steps++) {
		assert_true(steps < STEPS);
		moved = false;
		for (unsigned i = 0; i < 2; i++) {
			struct end *end = &streams->end[i];

			vb_lock_take(&end->qp->lock);
			moved |= transmit(end);
			moved |= receive(end);
			vb_lock_release(&end->qp->lock);
		}
	}
}

vb_time streams_next(const struct streams *streams)
{
	vb_time next = VB_TIME_NEVER;

	for (unsigned i = 0; i < 2; i++) {
		const struct end *end = &streams->end[i];

		next = vb_time_earlier(next, vb_iwarp_next_deadline(end->qp));
		if (end->flights > 0 && !end->other->over)
			next = vb_time_earlier(next, end->flight[0].at);
	}
	return next;
}

void streams_step(struct streams *streams, vb_time when)
{
	streams->now = when > streams->now ? when : streams->now;
	for (unsigned i = 0; i < 2; i++) {
		struct end *end = &streams->end[i];

		vb_lock_take(&end->qp->lock);
		vb_iwarp_expire(end->qp, streams->now);
		vb_lock_release(&end->qp->lock);
	}
	streams_settle(streams);
}

void streams_run(struct streams *streams, vb_time until)
{
	streams_settle(streams);
	for (vb_time next; (next = streams_next(streams)) <= until;)
		streams_step(streams, next);
	streams->now = until;
}

/* ---- posting ---- */

struct ibv_sge sge_of(const struct end *end, uint32_t offset, uint32_t length)
{
	return (struct ibv_sge){.addr = (uintptr_t)end->arena + offset, .length = length, .lkey = end->key};
}

int post(struct end *end, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	int rc;

	vb_lock_take(&end->qp->lock);
	rc = vb_qp_post_send(end->qp, wr, &bad, end->streams->now);
	vb_lock_release(&end->qp->lock);
	return rc;
}

int post_send(struct end *end, enum ibv_wr_opcode opcode, uint32_t offset, uint32_t length, uint32_t remote, uint64_t wr_id,
	      unsigned flags)
{
	struct ibv_sge sge = sge_of(end, offset, length);
	struct ibv_send_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED | flags,
				 .imm_data = 0x11223344};

	wr.wr.rdma.remote_addr = (uintptr_t)end->other->arena + remote;
	wr.wr.rdma.rkey = end->other->key;
	return post(end, &wr);
}

int post_list(struct end *end, struct ibv_sge *list, int count, uint64_t wr_id)
{
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = list, .num_sge = count}, *bad;
	int rc;

	if (end->qp->srq)
		return vb_srq_post(end->qp->srq, &wr, &bad);
	vb_lock_take(&end->qp->lock);
	rc = vb_qp_post_receive(end->qp, &wr, &bad, end->streams->now);
	vb_lock_release(&end->qp->lock);
	return rc;
}

int post_receive(struct end *end, uint32_t offset, uint32_t length, uint64_t wr_id)
{
	struct ibv_sge sge = sge_of(end, offset, length);

	return post_list(end, &sge, 1, wr_id);
}

int modify(struct end *end, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};

	return vb_qp_modify(end->qp, &attr, IBV_QP_STATE, NULL, IBV_MTU_1024, end->streams->now);
}

/* ---- looking ---- */

bool poll_cq(struct vb_cq *cq, struct ibv_wc *wc)
{
	return vb_cq_poll(cq, 1, wc) == 1;
}

struct ibv_wc expect(struct vb_cq *cq, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc = {0};

	assert_true(poll_cq(cq, &wc));
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
	return wc;
}

void expect_none(struct streams *streams)
{
	struct ibv_wc wc;

	for (unsigned i = 0; i < 2; i++) {
		assert_false(poll_cq(&streams->end[i].send_cq, &wc));
		assert_false(poll_cq(&streams->end[i].recv_cq, &wc));
	}
}

void fill(struct end *end, uint32_t offset, uint32_t length, uint8_t first)
{
	for (uint32_t i = 0; i < length; i++)
		end->arena[offset + i] = (uint8_t)(first + i * 7 + (i >> 8));
}

void verify(const struct end *end, uint32_t offset, uint32_t length, uint8_t first)
{
	for (uint32_t i = 0; i < length; i++)
		if (end->arena[offset + i] != (uint8_t)(first + i * 7 + (i >> 8)))
			fail_msg("byte %u of %u at %u is wrong", i, length, offset);
}
