// SPDX-License-Identifier: GPL-2.0
/*
 * victim ADDRESS PORT: accepts connections of peers that break every rule. After each
 * connection it checks that memory that the peer must not write to is unchanged.
 *
 * Each connection has a protection domain, regions, a completion queue and a queue
 * pair of its own, and an area of memory full of a pattern, which contains the regions.
 * The private data of the MPA Reply tell the peer where they are (struct told); those
 * of the Request tell victim what to do (struct asked). At the end of each connection
 * victim prints "end TOKEN ok got=N", or an error instead of ok. It exits at the end of its input.
 * With EXTENDED in its environment, it knows the messages of RFC 7306.
 * Lines of input:
 *
 *   connect PORT TOKEN FLAGS RECEIVES
 *	Connect to that port of its own address; the Request has the struct told.
 *   deny TOKEN
 *	Once the first DENY_AFTER bytes of the region BOTH were written to, take from this
 *	connection's peer the right to write, and print "denied TOKEN".
 *   free TOKEN RANGE
 *	Deregister this region of the connection, BOTH not before those bytes were written, or
 *	destroy the queue pair if there is no such region, and print "freed TOKEN".
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define AREA 0x20000
#define SLOTS 64
#define RECEIVES 8
#define RECEIVE_AT 0x1c040
#define RECEIVE_STEP 256
#define RECEIVE_SIZE 64
#define READS 2
#define SINK_AT 0x1e040
#define SINK_STEP 256
#define SINK_SIZE 64
#define FLOODS 8
#define DENY_AFTER 24

/* Regions that the peer can name. None begins or ends at the border of a page. */
enum { BOTH, WRITE, READ, OTHER, STALE, LOCAL, RANGES };

static const struct {
	size_t at, size;
	int access;
} layout[RANGES] = {
	[BOTH] = { 0x1064, 5000,
		   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ },
	[WRITE] = { 0x4010, 1000, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE },
	[READ] = { 0x6020, 70000, IBV_ACCESS_REMOTE_READ },
	/* In a protection domain of no connection. */
	[OTHER] = { 0x19008, 500,
		    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ },
	/* Deregistered again. */
	[STALE] = { 0x1a010, 600,
		    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ },
	/* Buffers of receives, and sinks of Reads. */
	[LOCAL] = { 0x1c004, 0x3000, IBV_ACCESS_LOCAL_WRITE },
};

/* In network byte order, as are the structs below. */
struct asked {
	uint32_t token;
	uint8_t flags, receives;
} __attribute__((packed));

/*
 * Flags for the victim's own operations: Reads of 64 bytes from the peer's STag 0x100, address
 * 0x1000 on; Writes to there; a zero-length Write and Read, with STag 0; a FetchAdd and a CmpSwap of
 * the value there. Other flags: expect that nothing that the peer sends is placed; ask for an IRD of
 * 0.
 */
#define ASKS_READS 1
#define ASKS_FLOOD 2
#define ASKS_EMPTY 4
#define PLACES_NOTHING 8
#define NO_READS 16
#define ASKS_ATOMICS 32

struct told {
	uint32_t qpn, receive_size;
	uint64_t receive_at, sink_at;
	struct {
		uint64_t at;
		uint32_t size, stag;
	} range[RANGES];
} __attribute__((packed));

struct slot {
	int used;
	unsigned char *area;
	struct asked asked;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr[RANGES];
	int posted, sent;
	/* An attempt to connect that has not ended. */
	int calls;
};

static struct slot slots[SLOTS];
static struct ibv_pd *other_pd;
static struct rdma_event_channel *channel;
static struct sockaddr_storage own;
static unsigned char pattern[AREA];
/* The peer may execute atomics on the region BOTH. */
static int extended;

static void die(const char *what)
{
	fprintf(stderr, "victim: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void *must(void *p, const char *what)
{
	if (!p)
		die(what);
	return p;
}

static void zero(int error, const char *what)
{
	if (error > 0)
		errno = error;
	if (error)
		die(what);
}

/* --- a connection begins ------------------------------------------------------------ */

static struct slot *find_slot(void)
{
	int i;

	for (i = 0; i < SLOTS; i++) {
		struct slot *s = &slots[i];

		if (s->used)
			continue;
		if (!s->area) {
			s->area = mmap(NULL, AREA, PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
			if (s->area == MAP_FAILED)
				die("area");
			memcpy(s->area, pattern, AREA);
		}
		s->used = 1;
		return s;
	}
	return NULL;
}

static void post_receives(struct slot *s)
{
	int n = s->asked.receives > RECEIVES ? RECEIVES : s->asked.receives;

	for (s->posted = 0; s->posted < n; s->posted++) {
		struct ibv_sge sge = {
			.addr = (uintptr_t)s->area + RECEIVE_AT + s->posted * RECEIVE_STEP,
			.length = RECEIVE_SIZE,
			.lkey = s->mr[LOCAL]->lkey,
		};
		struct ibv_recv_wr *bad, wr = { .wr_id = s->posted, .sg_list = &sge, .num_sge = 1 };

		zero(ibv_post_recv(s->id->qp, &wr, &bad), "receive");
	}
}

static void prepare(struct slot *s)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 16, .max_recv_wr = RECEIVES, .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};
	int i;

	if (!other_pd)
		other_pd = must(ibv_alloc_pd(s->id->verbs), "another protection domain");
	s->pd = must(ibv_alloc_pd(s->id->verbs), "protection domain");
	s->cq = must(ibv_create_cq(s->id->verbs, 64, NULL, NULL, 0), "completion queue");
	for (i = 0; i < RANGES; i++)
		s->mr[i] = must(ibv_reg_mr(i == OTHER ? other_pd : s->pd, s->area + layout[i].at,
					   layout[i].size, layout[i].access |
					   (i == BOTH && extended ? IBV_ACCESS_REMOTE_ATOMIC : 0)),
				"region");
	init.send_cq = s->cq;
	init.recv_cq = s->cq;
	zero(rdma_create_qp(s->id, s->pd, &init), "queue pair");
	post_receives(s);
}

static void fill(struct told *told, struct slot *s)
{
	int i;

	told->qpn = htobe32(s->id->qp->qp_num);
	told->receive_size = htobe32(RECEIVE_SIZE);
	told->receive_at = htobe64((uintptr_t)s->area + RECEIVE_AT);
	told->sink_at = htobe64((uintptr_t)s->area + SINK_AT);
	for (i = 0; i < RANGES; i++) {
		told->range[i].at = htobe64((uintptr_t)s->area + layout[i].at);
		told->range[i].size = htobe32(layout[i].size);
		told->range[i].stag = htobe32(s->mr[i]->rkey);
	}
	/* The peer learns this region's STag, which is invalid by then. */
	zero(ibv_dereg_mr(s->mr[STALE]), "the end of a region");
	s->mr[STALE] = NULL;
}

static void post_sends(struct slot *s)
{
	int reads = s->asked.flags & ASKS_READS, floods = s->asked.flags & ASKS_FLOOD, i;

	for (i = 0; i < 2 && s->asked.flags & ASKS_EMPTY; i++) {
		struct ibv_send_wr *bad, wr = {
			.wr_id = 200 + i,
			.opcode = i ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
			.send_flags = IBV_SEND_SIGNALED,
		};

		if (ibv_post_send(s->id->qp, &wr, &bad))
			break;
		s->sent++;
	}
	for (i = 0; i < 2 && s->asked.flags & ASKS_ATOMICS; i++) {
		struct ibv_sge sge = {
			.addr = (uintptr_t)s->area + SINK_AT + i * SINK_STEP,
			.length = 8,
			.lkey = s->mr[LOCAL]->lkey,
		};
		struct ibv_send_wr *bad, wr = {
			.wr_id = 300 + i,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = i ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.atomic = { .remote_addr = 0x1000, .rkey = 0x100, .compare_add = 5,
				       .swap = 6 },
		};

		if (ibv_post_send(s->id->qp, &wr, &bad))
			break;
		s->sent++;
	}
	for (i = 0; i < (reads ? READS : floods ? FLOODS : 0); i++) {
		struct ibv_sge sge = {
			.addr = (uintptr_t)s->area + layout[READ].at,
			.length = layout[READ].size,
			.lkey = s->mr[reads ? LOCAL : READ]->lkey,
		};
		struct ibv_send_wr *bad, wr = {
			.wr_id = 100 + i,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = reads ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = { .remote_addr = 0x1000, .rkey = 0x100 },
		};

		if (reads) {
			sge.addr = (uintptr_t)s->area + SINK_AT + i * SINK_STEP;
			sge.length = SINK_SIZE;
		}
		/* The peer may have ended the connection already. */
		if (ibv_post_send(s->id->qp, &wr, &bad))
			break;
		s->sent++;
	}
}

/* --- a connection ends --------------------------------------------------------------- */

/* Each posted request completes once; returns how many receives had a message. */
static const char *completions(struct slot *s, int *got)
{
	int left = s->posted + s->sent, tries = 3000, failed = 0;
	struct ibv_wc wc;

	while (left) {
		int n = ibv_poll_cq(s->cq, 1, &wc);

		if (n < 0)
			return "the completion queue cannot be read";
		if (!n) {
			if (!tries--)
				return "not all that was posted completes";
			usleep(1000);
			continue;
		}
		left--;
		if (wc.wr_id < 100 && wc.status == IBV_WC_SUCCESS) {
			if ((int)wc.wr_id != *got || failed)
				return "receives complete in another order";
			/* Immediate data tell the length of the Write before them. */
			if (wc.byte_len > RECEIVE_SIZE && wc.opcode != IBV_WC_RECV_RDMA_WITH_IMM)
				return "more was received than there was room for";
			++*got;
		} else if (wc.wr_id < 100) {
			failed++;
		}
	}
	return ibv_poll_cq(s->cq, 1, &wc) ? "more completes than was posted" : NULL;
}

/* Restores the pattern where the peer may write; then the whole area must have the pattern. */
static const char *canaries(struct slot *s)
{
	static char text[80];
	const char *bad = NULL;
	size_t i;

#define RESTORE(at, size) memcpy(s->area + (at), pattern + (at), (size))
	int placed = !(s->asked.flags & PLACES_NOTHING);

	if (placed) {
		RESTORE(layout[BOTH].at, layout[BOTH].size);
		RESTORE(layout[WRITE].at, layout[WRITE].size);
	}
	for (i = 0; i < (size_t)s->posted && placed; i++)
		RESTORE(RECEIVE_AT + i * RECEIVE_STEP, RECEIVE_SIZE);
	for (i = 0; i < (size_t)s->sent && s->asked.flags & (ASKS_READS | ASKS_ATOMICS); i++)
		RESTORE(SINK_AT + i * SINK_STEP, SINK_SIZE);
	if (memcmp(s->area, pattern, AREA)) {
		for (i = 0; s->area[i] == pattern[i]; i++)
			;
		snprintf(text, sizeof(text), "written to at %#zx of the area", i);
		bad = text;
		memcpy(s->area, pattern, AREA);
	}
	return bad;
}

static const char *in_error(struct slot *s)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	int tries = 3000;

	for (;;) {
		if (ibv_query_qp(s->id->qp, &attr, IBV_QP_STATE, &init))
			return "the queue pair's state is not known";
		if (attr.qp_state == IBV_QPS_ERR)
			return NULL;
		if (!tries--)
			return "the queue pair is not in ERROR";
		usleep(1000);
	}
}

static void clear(struct slot *s)
{
	int i;

	if (s->id->qp)
		rdma_destroy_qp(s->id);
	for (i = 0; i < RANGES; i++)
		if (s->mr[i])
			zero(ibv_dereg_mr(s->mr[i]), "the end of a region");
	zero(ibv_destroy_cq(s->cq), "the end of the completion queue");
	zero(ibv_dealloc_pd(s->pd), "the end of the protection domain");
	zero(rdma_destroy_id(s->id), "the end of the id");
	*s = (struct slot) { .area = s->area };
}

static void end(struct slot *s)
{
	const char *bad, *also;
	uint32_t token = be32toh(s->asked.token);
	int got = 0;

	bad = in_error(s);
	also = completions(s, &got);
	if (!bad)
		bad = also;
	also = canaries(s);
	if (also)
		bad = also;
	clear(s);
	/* Printed after all objects of the connection were destroyed. */
	printf("end %u %s got=%d\n", token, bad ? bad : "ok", got);
}

/* --- events -------------------------------------------------------------------------- */

static void request(struct rdma_cm_event *event)
{
	struct rdma_conn_param *from = &event->param.conn;
	struct told told = { 0 };
	struct rdma_conn_param param = {
		.private_data = &told, .private_data_len = sizeof(told),
		.responder_resources = 4, .initiator_depth = 4,
	};
	struct slot *s = find_slot();

	if (!s) {
		rdma_reject(event->id, NULL, 0);
		return;
	}
	s->id = event->id;
	s->id->context = s;
	s->asked = (struct asked) { .token = ~0u, .receives = RECEIVES };
	if (from->private_data && from->private_data_len >= sizeof(s->asked))
		memcpy(&s->asked, from->private_data, sizeof(s->asked));
	if (s->asked.flags & NO_READS)
		param.responder_resources = 0;
	prepare(s);
	fill(&told, s);
	if (rdma_accept(s->id, &param)) {
		/* The peer has closed the connection. */
		printf("end %u gone got=0\n", be32toh(s->asked.token));
		/* The id must not be destroyed before its event is acknowledged. */
		s->used = -1;
	}
}

/* Connects, as a line of input requests. */
static void call(unsigned int port, unsigned int token, unsigned int flags, unsigned int receives)
{
	struct sockaddr_storage to = own;
	struct slot *s = must(find_slot(), "a slot");

	/* The port has the same offset in both address families. */
	((struct sockaddr_in *)&to)->sin_port = htobe16(port);
	s->asked = (struct asked) { .token = htobe32(token), .flags = flags, .receives = receives };
	s->calls = 1;
	zero(rdma_create_id(channel, &s->id, s, RDMA_PS_TCP), "id");
	zero(rdma_resolve_addr(s->id, NULL, (struct sockaddr *)&to, 5000), "address");
}

static struct slot *slot_of(unsigned int token)
{
	int i;

	for (i = 0; i < SLOTS; i++)
		if (slots[i].used == 1 && be32toh(slots[i].asked.token) == token)
			return &slots[i];
	return NULL;
}

/* Whether the peer is in the middle of its message. */
static int written(const struct slot *s)
{
	size_t last = layout[BOTH].at + DENY_AFTER - 1;
	int tries = 3000;

	while (s->area[last] == pattern[last] && tries--)
		usleep(1000);
	return s->area[last] != pattern[last];
}

/* Takes a right from a peer in the middle of its message. */
static void deny(unsigned int token)
{
	struct ibv_qp_attr attr = { .qp_access_flags = IBV_ACCESS_REMOTE_READ };
	struct slot *s = slot_of(token);

	if (s && written(s) && !ibv_modify_qp(s->id->qp, &attr, IBV_QP_ACCESS_FLAGS))
		printf("denied %u\n", token);
	else
		printf("cannot deny %u\n", token);
}

/* Ends a region, or the queue pair, in the middle of a message. */
static void free_part(unsigned int token, unsigned int range)
{
	struct slot *s = slot_of(token);
	const char *bad;

	if (!s || (range == BOTH && !written(s))) {
		printf("cannot free %u\n", token);
	} else if (range < RANGES) {
		zero(ibv_dereg_mr(s->mr[range]), "the end of a region");
		s->mr[range] = NULL;
		printf("freed %u\n", token);
	} else {
		rdma_destroy_qp(s->id);
		printf("freed %u\n", token);
		bad = canaries(s);
		clear(s);
		printf("end %u %s got=0\n", token, bad ? bad : "ok");
	}
}

static void introduce(struct slot *s)
{
	struct told told = { 0 };
	struct rdma_conn_param param = {
		.private_data = &told, .private_data_len = sizeof(told),
		.responder_resources = 4, .initiator_depth = 4,
	};

	prepare(s);
	fill(&told, s);
	zero(rdma_connect(s->id, &param), "connect");
}

static void handle(void)
{
	struct ibv_qp_attr failed = { .qp_state = IBV_QPS_ERR };
	enum rdma_cm_event_type type;
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	struct slot *s;

	if (rdma_get_cm_event(channel, &event)) {
		if (errno != EAGAIN)
			die("event");
		return;
	}
	type = event->event;
	id = event->id;
	if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
		request(event);
	rdma_ack_cm_event(event);
	s = id->context;
	switch (type) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		if (!s)
			rdma_destroy_id(id);
		else if (s->used < 0)
			clear(s);
		break;
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		zero(rdma_resolve_route(id, 5000), "route");
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		introduce(s);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		s->calls = 0;
		post_sends(s);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
		/* There was no connection, so nothing has moved the queue pair. */
		if (s->calls)
			zero(ibv_modify_qp(id->qp, &failed, IBV_QP_STATE), "queue pair's state");
		end(s);
		break;
	default:
		printf("event %s\n", rdma_event_str(type));
	}
}

int main(int argc, char **argv)
{
	unsigned int port, token, flags, receives, range;
	struct rdma_addrinfo *address, hints = { .ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP };
	struct rdma_cm_id *listener;
	struct pollfd fds[2];
	char line[80];
	size_t i;

	if (argc != 3) {
		fprintf(stderr, "usage: victim ADDRESS PORT\n");
		return 2;
	}
	extended = !!getenv("EXTENDED");
	setlinebuf(stdout);
	for (i = 0; i < AREA; i++)
		pattern[i] = i * 31 + (i >> 8) + 7;
	channel = must(rdma_create_event_channel(), "event channel");
	zero(rdma_getaddrinfo(argv[1], argv[2], &hints, &address), "address");
	memcpy(&own, address->ai_src_addr, address->ai_src_len);
	zero(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP), "id");
	zero(rdma_bind_addr(listener, address->ai_src_addr), "bind");
	zero(rdma_listen(listener, 128), "listen");
	zero(fcntl(channel->fd, F_SETFL, O_NONBLOCK), "event channel");
	puts("ready");
	fds[0] = (struct pollfd) { .fd = channel->fd, .events = POLLIN };
	fds[1] = (struct pollfd) { .fd = 0, .events = POLLIN };
	/* With a buffer in stdio, poll() would not report lines that it holds. */
	setvbuf(stdin, NULL, _IONBF, 0);
	for (;;) {
		if (poll(fds, 2, -1) < 0)
			die("poll");
		if (fds[0].revents)
			handle();
		if (!fds[1].revents)
			continue;
		if (!fgets(line, sizeof(line), stdin))
			return 0;
		if (sscanf(line, "connect %u %u %u %u", &port, &token, &flags, &receives) == 4)
			call(port, token, flags, receives);
		else if (sscanf(line, "deny %u", &token) == 1)
			deny(token);
		else if (sscanf(line, "free %u %u", &token, &range) == 2)
			free_part(token, range);
	}
}
