// SPDX-License-Identifier: GPL-2.0
/*
 * rcrate ADDRESS CM-DEVICE RC-DEVICE GID-INDEX ROUNDS OP:SIZE:COUNT:MOST...: two pairs of
 * queue pairs on this host, one connected by the RDMA CM at ADDRESS, the other by this
 * program, take turns at COUNT requests, ROUNDS times. OP: write, send or read, many under
 * way; each, Writes that are all signalled; or ping, a Send there and back. A turn ends when
 * all is placed. Nothing polls. Prints the medians, and the program's time as a part of the
 * RDMA CM's; "ok ..." or "not ok ..." where that has a limit, MOST ("-": none). Exit status
 * 3: one is more.
 */
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>

#include "rc.h"

#define CM_PORT "18540"
#define MOST_ROUNDS 64
#define MOST_COUNT 4096
/* Requests under way, and Reads, which the RDMA CM limits for each connection. */
#define WINDOW 64
#define READS 16
#define PATIENCE_MS 60000
#define SIZE (1 << 20)
#define RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

struct end {
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	struct rdma_cm_id *id;
};

/* The first end posts. */
struct pair {
	const char *name;
	struct end ends[2];
	double ms[MOST_ROUNDS];
};

static struct pair pairs[2] = { { .name = "the RDMA CM" }, { .name = "the program" } };
static const char *address;
/* The turn, in the completions of its requests. */
static uint64_t present;

/* Both pairs have the same memory: where its pages lie makes some per cent. */
static char memory[2][SIZE] __attribute__((aligned(1 << 16)));

static struct ibv_qp_init_attr make(struct end *end, int side, struct ibv_context *context)
{
	end->pd = must(ibv_alloc_pd(context), "protection domain");
	end->channel = must(ibv_create_comp_channel(context), "channel");
	end->cq = must(ibv_create_cq(context, 2 * MOST_COUNT, NULL, end->channel, 0), "completion queue");
	end->mr = must(ibv_reg_mr(end->pd, memory[side], SIZE, RIGHTS), "region");
	return (struct ibv_qp_init_attr){
		.qp_type = IBV_QPT_RC, .send_cq = end->cq, .recv_cq = end->cq,
		.cap = { .max_send_wr = WINDOW, .max_recv_wr = MOST_COUNT, .max_send_sge = 1, .max_recv_sge = 1 },
	};
}

static struct rdma_addrinfo *find(int flags)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP, .ai_flags = flags }, *at;

	if (rdma_getaddrinfo(address, CM_PORT, &hints, &at))
		fail("address");
	return at;
}

static struct rdma_conn_param with_reads = {
	.responder_resources = READS, .initiator_depth = READS, .retry_count = 7, .rnr_retry_count = 7,
};

static void make_cm(int side)
{
	struct end *end = &pairs[0].ends[side];
	struct ibv_qp_init_attr init = make(end, side, end->id->verbs);

	if (rdma_create_qp(end->id, end->pd, &init))
		fail("queue pair");
	end->qp = end->id->qp;
}

static void *accept_one(void *listener)
{
	struct end *end = &pairs[0].ends[1];

	if (rdma_get_request(listener, &end->id))
		fail("request");
	make_cm(1);
	if (rdma_accept(end->id, &with_reads))
		fail("accept");
	return NULL;
}

static void connect_cm(const char *device)
{
	struct end *end = &pairs[0].ends[0];
	struct rdma_cm_id *listener;
	pthread_t thread;

	if (rdma_create_ep(&listener, find(RAI_PASSIVE), NULL, NULL) || rdma_listen(listener, 1))
		fail("listen");
	if (pthread_create(&thread, NULL, accept_one, listener))
		fail("thread");
	if (rdma_create_ep(&end->id, find(0), NULL, NULL))
		fail("route");
	if (strcmp(ibv_get_device_name(end->id->verbs->device), device))
		error(1, 0, "the RDMA CM has taken another device");
	make_cm(0);
	if (rdma_connect(end->id, &with_reads))
		fail("connect");
	pthread_join(thread, NULL);
}

static void connect_program(const char *device, int gid_index)
{
	struct ibv_context *context = open_device(device);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = RIGHTS };
	struct end *ends = pairs[1].ends;
	struct ibv_qp_init_attr init;
	union ibv_gid gid;
	int i;

	if (ibv_query_gid(context, 1, gid_index, &gid))
		fail("GID");
	for (i = 0; i < 2; i++) {
		init = make(&ends[i], i, context);
		ends[i].qp = must(ibv_create_qp(ends[i].pd, &init), "queue pair");
		if (ibv_modify_qp(ends[i].qp, &attr, TO_INIT))
			fail("INIT");
	}
	for (i = 0; i < 2; i++)
		meet(ends[i].qp, &gid, gid_index, ends[!i].qp->qp_num, 14, READS);
}

static void post_receives(struct end *end, int count, int size)
{
	struct ibv_sge sge = { (uintptr_t)end->mr->addr, size, end->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = present, .sg_list = &sge, .num_sge = 1 };

	while (count--)
		if (ibv_post_recv(end->qp, &wr, &bad))
			fail("receive");
}

static void post(struct pair *pair, int from, enum ibv_wr_opcode opcode, int size, int signalled)
{
	struct end *end = &pair->ends[from], *to = &pair->ends[!from];
	struct ibv_sge sge = { (uintptr_t)end->mr->addr, size, end->mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = present, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = signalled ? IBV_SEND_SIGNALED : 0,
		.wr.rdma = { (uintptr_t)to->mr->addr, to->mr->rkey },
	};

	if (ibv_post_send(end->qp, &wr, &bad))
		fail("post");
}

/* Waits, asleep, until so many requests of one kind, of this turn, have completed; others are let go. */
static void await(struct end *end, int count, int receives)
{
	struct pollfd event = { .fd = end->channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;
	int n;

	for (;;) {
		while (count && (n = ibv_poll_cq(end->cq, 1, &wc))) {
			if (n < 0)
				fail("completion queue");
			if (wc.status != IBV_WC_SUCCESS)
				error(1, 0, "%s", ibv_wc_status_str(wc.status));
			count -= wc.wr_id == present && !!(wc.opcode & IBV_WC_RECV) == receives;
		}
		if (!count)
			return;
		if (poll(&event, 1, PATIENCE_MS) != 1)
			error(1, 0, "%d %s have not completed", count, receives ? "receives" : "requests");
		if (ibv_get_cq_event(end->channel, &cq, &context))
			fail("event");
		ibv_ack_cq_events(cq, 1);
		if (ibv_req_notify_cq(end->cq, 0))
			fail("notify");
	}
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static void ping(struct pair *pair, int size, int count)
{
	int i;

	for (i = 0; i < 2 * count; i++) {
		post(pair, i % 2, IBV_WR_SEND, size, 1);
		await(&pair->ends[!(i % 2)], 1, 1);
	}
}

/* A part of the window is signalled by its last request. */
static void stream(struct pair *pair, enum ibv_wr_opcode opcode, int size, int count, int window, int part)
{
	int i, under_way = 0;

	for (i = 1; i <= count; i++) {
		if (under_way == window) {
			await(&pair->ends[0], 1, 0);
			under_way -= part;
		}
		post(pair, 0, opcode, size, i % part == 0);
		under_way++;
	}
	await(&pair->ends[0], under_way / part, 0);
}

static const struct op {
	const char *name, *title;
	enum ibv_wr_opcode opcode;
	int window, part;
} ops[] = {
	{ "write", "Writes", IBV_WR_RDMA_WRITE, WINDOW, WINDOW / 4 },
	{ "each", "Writes, each signalled,", IBV_WR_RDMA_WRITE, WINDOW, 1 },
	{ "send", "Sends", IBV_WR_SEND, WINDOW, WINDOW / 4 },
	{ "read", "Reads", IBV_WR_RDMA_READ, READS, READS / 4 },
	{ "ping", "Sends there and back", IBV_WR_SEND, 0, 0 },
};

/* Milliseconds until so many messages are placed. */
static double turn(struct pair *pair, const struct op *op, int size, int count)
{
	double began;
	int i;

	present++;
	for (i = 0; op->opcode == IBV_WR_SEND && i < (op->window ? 1 : 2); i++)
		post_receives(&pair->ends[!i], count, size);
	began = now();
	if (op->window)
		stream(pair, op->opcode, size, count, op->window, op->part);
	else
		ping(pair, size, count);
	/* The RDMA CM's Sends and Writes have completed when TCP has taken them. */
	if (op->opcode == IBV_WR_RDMA_WRITE) {
		post(pair, 0, IBV_WR_RDMA_READ, 1, 1);
		await(&pair->ends[0], 1, 0);
	} else if (op->opcode == IBV_WR_SEND && op->window) {
		await(&pair->ends[1], count, 1);
	}
	return now() - began;
}

static int order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static int compare(const char *what, int rounds)
{
	char name[8], most[16], *end;
	const struct op *op = ops;
	double middle[2], ratio, limit;
	int size, count, r, i;

	if (sscanf(what, "%7[a-z]:%d:%d:%15s", name, &size, &count, most) != 4)
		error(2, 0, "what is %s?", what);
	while (op < ops + sizeof(ops) / sizeof(*ops) && strcmp(op->name, name))
		op++;
	limit = strtod(most, &end);
	if (op == ops + sizeof(ops) / sizeof(*ops) || size < 1 || size > SIZE || count < WINDOW ||
	    count > MOST_COUNT || count % WINDOW || (strcmp(most, "-") && *end))
		error(2, 0, "what is %s?", what);
	for (i = 0; i < 2; i++)
		turn(&pairs[i], op, size, WINDOW);
	for (r = 0; r < rounds; r++)
		for (i = 0; i < 2; i++)
			pairs[(r + i) % 2].ms[r] = turn(&pairs[(r + i) % 2], op, size, count);
	for (i = 0; i < 2; i++) {
		qsort(pairs[i].ms, rounds, sizeof(*pairs[i].ms), order);
		middle[i] = pairs[i].ms[rounds / 2];
		printf("# %s: %.2f us each, %.2f to %.2f\n", pairs[i].name, middle[i] * 1000 / count,
		       pairs[i].ms[0] * 1000 / count, pairs[i].ms[rounds - 1] * 1000 / count);
	}
	ratio = middle[1] / middle[0];
	printf("# %s of %d bytes take %.3f times the RDMA CM's time\n", op->title, size, ratio);
	if (strcmp(most, "-"))
		printf("%sok %s of %d bytes take at most %s times the RDMA CM's time\n", ratio <= limit ? "" : "not ",
		       op->title, size, most);
	fflush(stdout);
	return strcmp(most, "-") && !(ratio <= limit);
}

int main(int argc, char **argv)
{
	int rounds = argc > 5 ? atoi(argv[5]) : 0, bad = 0, i;

	if (argc < 7 || rounds < 1 || rounds > MOST_ROUNDS)
		return 2;
	address = argv[1];
	connect_cm(argv[2]);
	connect_program(argv[3], atoi(argv[4]));
	for (i = 0; i < 4; i++)
		if (ibv_req_notify_cq(pairs[i / 2].ends[i % 2].cq, 0))
			fail("notify");
	for (i = 6; i < argc; i++)
		bad |= compare(argv[i], rounds);
	return bad ? 3 : 0;
}
