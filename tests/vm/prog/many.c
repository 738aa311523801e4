// SPDX-License-Identifier: GPL-2.0
/*
 * many server|sink ADDRESS PORT NUMBER
 * many client ADDRESS PORT NUMBER WINDOW [SECONDS [BUSY]]
 * many churn ADDRESS PORT NUMBER [closed]
 *
 * NUMBER connections with a queue pair each. The client opens them, WINDOW at
 * once, and prints how long that took. At the first line of input it sends a message
 * on each, which the server sends back, again and again for SECONDS, and prints
 * "answered N". With BUSY only so many of them, evenly spread, work for that time; each
 * of the others sends its message after it. At the second line it closes all, and prints
 * "closed".
 * The server prints "established N", and ends when all are closed. A sink sends nothing back.
 * Churn makes the connections one after the other: each connects, sends one message,
 * disconnects, with "closed" waits until the connection is, and is destroyed. It prints how
 * many that are in a second.
 */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct one {
	struct rdma_cm_id *id;
	uint32_t out, in;
	bool up;
};

static struct rdma_event_channel *channel;
static struct addrinfo *at;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct one *all;
static unsigned int number, begun, up, failed, down, answered;

static void must(int bad, const char *what)
{
	if (!bad)
		return;
	fprintf(stderr, "many: %s: %s (of %u, %u are up)\n", what, strerror(errno), number, up);
	exit(1);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void post_recv(struct one *c)
{
	struct ibv_sge sge = { .addr = (uintptr_t)&c->in, .length = 4, .lkey = mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = c - all, .sg_list = &sge, .num_sge = 1 }, *bad;

	must(ibv_post_recv(c->id->qp, &wr, &bad), "receive");
}

static void post_send(struct one *c)
{
	struct ibv_sge sge = { .addr = (uintptr_t)&c->out, .length = 4, .lkey = mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = c - all, .sg_list = &sge, .num_sge = 1,
		.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
	}, *bad;

	must(ibv_post_send(c->id->qp, &wr, &bad), "send");
}

/* Makes the queue pair of the next connection; with the first, also the objects that all share. */
static struct one *add(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct one *c = id->context;

	if (!pd) {
		pd = ibv_alloc_pd(id->verbs);
		must(!pd, "protection domain");
		cq = ibv_create_cq(id->verbs, 4 * number, NULL, NULL, 0);
		must(!cq, "completion queue");
		mr = ibv_reg_mr(pd, all, number * sizeof(*all), IBV_ACCESS_LOCAL_WRITE);
		must(!mr, "region");
	}
	c->id = id;
	init.send_cq = init.recv_cq = cq;
	must(rdma_create_qp(id, pd, &init), "queue pair");
	post_recv(c);
	return c;
}

static void remove_one(struct one *c)
{
	if (!c->id)
		return;
	if (c->id->qp)
		rdma_destroy_qp(c->id);
	rdma_destroy_id(c->id);
	c->id = NULL;
}

static void begin(void)
{
	struct one *c = &all[begun++];

	must(rdma_create_id(channel, &c->id, c, RDMA_PS_TCP), "identifier");
	must(rdma_resolve_addr(c->id, NULL, at->ai_addr, 5000), "address");
}

/* Takes an event, if one comes in time. */
static bool event(int ms)
{
	struct rdma_conn_param param = { .initiator_depth = 1, .responder_resources = 1 };
	struct pollfd fd = { .fd = channel->fd, .events = POLLIN };
	enum rdma_cm_event_type type;
	struct rdma_cm_event *e;
	struct rdma_cm_id *id;
	struct one *c;

	if (poll(&fd, 1, ms) <= 0)
		return false;
	must(rdma_get_cm_event(channel, &e), "event");
	type = e->event;
	id = e->id;
	c = id->context;
	switch (type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		must(rdma_resolve_route(id, 5000), "route");
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		add(id);
		must(rdma_connect(id, &param), "connect");
		break;
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		if (begun == number) {
			rdma_reject(id, NULL, 0);
			break;
		}
		c = id->context = &all[begun++];
		add(id);
		must(rdma_accept(id, &param), "accept");
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		c->up = true;
		up++;
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		down++;
		rdma_ack_cm_event(e);
		rdma_disconnect(id);
		remove_one(c);
		return true;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	default:
		fprintf(stderr, "many: %s, status %d, with %u up\n", rdma_event_str(type), e->status, up);
		failed++;
		rdma_ack_cm_event(e);
		remove_one(c);
		return true;
	}
	rdma_ack_cm_event(e);
	return true;
}

static void ask(struct one *c)
{
	c->out++;
	post_send(c);
}

/* Handles a message: the server sends it back; the client sends the next one until "end". */
static unsigned int completions(bool answer, double end)
{
	bool again = end > now();
	unsigned int got = 0;
	struct ibv_wc wc[64];
	int i, n;

	while (cq && (n = ibv_poll_cq(cq, 64, wc)) > 0)
		for (i = 0; i < n; i++) {
			struct one *c = &all[wc[i].wr_id];

			/* Receives of a closed connection are flushed. */
			errno = wc[i].status;
			must(errno != IBV_WC_SUCCESS && errno != IBV_WC_WR_FLUSH_ERR, "completion");
			if (errno != IBV_WC_SUCCESS || wc[i].opcode != IBV_WC_RECV)
				continue;
			got++;
			post_recv(c);
			if (answer) {
				c->out = c->in;
				post_send(c);
				continue;
			}
			errno = 0;
			must(c->in != c->out, "another's answer");
			if (again)
				ask(c);
			else
				answered++;
		}
	return got;
}

/* Takes all completions; returns how many messages have come. */
static unsigned int received(void)
{
	unsigned int got = 0;
	struct ibv_wc wc;

	while (ibv_poll_cq(cq, 1, &wc) > 0)
		got += wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV;
	return got;
}

static void serve(bool answer)
{
	struct rdma_cm_id *id;
	bool said = false;

	must(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), "identifier");
	must(rdma_bind_addr(id, at->ai_addr), "bind");
	must(rdma_listen(id, 1024), "listen");
	while (down + failed < number) {
		event(!answer ? 60000 : completions(true, 0) ? 0 : 1);
		if (up == number && !said) {
			printf("established %u\n", up);
			said = true;
		}
	}
	printf("all closed\n");
	if (!answer)
		printf("received %u\n", received());
}

/* Takes answers until so many connections have had their last one; returns how many came. */
static unsigned long answers(unsigned int connections, double end)
{
	unsigned long got = 0;
	double quiet = now();
	unsigned int i;

	while (answered < connections && now() - quiet < 60) {
		i = completions(false, end);
		got += i;
		if (i)
			quiet = now();
		while (event(0))
			;
	}
	return got;
}

/* Asks of the connections that work all the time, or of the others. */
static void ask_all(bool busy, unsigned int step)
{
	unsigned int i;

	for (i = 0; i < number; i++) {
		if ((i % step == 0) != busy)
			continue;
		all[i].out = i << 16;
		ask(&all[i]);
	}
}

static void use(unsigned int window, unsigned int seconds, unsigned int busy)
{
	unsigned int i, step = number / busy;
	unsigned long got;
	double t = now();

	while (up + failed < number) {
		while (begun < number && begun - up - failed < window)
			begin();
		must(!event(60000), "nothing happens");
	}
	t = now() - t;
	printf("established %u in %.1f s, %.0f per second\n", up, t, up / t);
	if (failed)
		exit(1);
	getchar();
	t = now();
	ask_all(true, step);
	busy = (number + step - 1) / step;
	got = answers(busy, t + seconds);
	t = now() - t;
	ask_all(false, step);
	answers(number, 0);
	printf("answered %lu on %u, %u connections to the end, %.0f per second\n", got, busy,
	       answered, got / t);
	if (answered != number || down)
		exit(1);
	getchar();
	t = now();
	for (i = 0; i < number; i++)
		rdma_disconnect(all[i].id);
	while (down < number)
		must(!event(60000), "no end");
	printf("closed in %.1f s\n", now() - t);
}

/* Waits until a counter of events has a value. */
static void until(unsigned int *counter, unsigned int value)
{
	while (*counter < value)
		must(!event(60000) || failed, "no event");
}

static void churn(bool closed)
{
	struct ibv_wc wc;
	struct one *c;
	double t = now();
	int n;

	while (begun < number) {
		c = &all[begun];
		begin();
		until(&up, begun);
		post_send(c);
		while (!(n = ibv_poll_cq(cq, 1, &wc)))
			;
		must(n < 0 || wc.status != IBV_WC_SUCCESS || wc.opcode != IBV_WC_SEND, "send");
		rdma_disconnect(c->id);
		if (closed)
			until(&down, begun);
		remove_one(c);
		while (ibv_poll_cq(cq, 1, &wc) > 0)
			;
	}
	t = now() - t;
	printf("churned %u in %.2f s, %.1f per second\n", number, t, number / t);
}

int main(int argc, char **argv)
{
	unsigned int busy = argc > 7 ? strtoul(argv[7], NULL, 0) : 0;

	if (argc < 5) {
		fprintf(stderr, "usage: many server|sink|client|churn ADDRESS PORT NUMBER [...]\n");
		return 2;
	}
	setlinebuf(stdout);
	number = strtoul(argv[4], NULL, 0);
	all = calloc(number, sizeof(*all));
	must(!all, "memory");
	must(getaddrinfo(argv[2], argv[3], NULL, &at), "address");
	channel = rdma_create_event_channel();
	must(!channel, "event channel");
	if (!strcmp(argv[1], "server") || !strcmp(argv[1], "sink"))
		serve(!strcmp(argv[1], "server"));
	else if (!strcmp(argv[1], "churn"))
		churn(argc > 5);
	else
		use(argc > 5 ? strtoul(argv[5], NULL, 0) : 32, argc > 6 ? strtoul(argv[6], NULL, 0) : 0,
		    busy && busy < number ? busy : number);
	return failed != 0;
}
