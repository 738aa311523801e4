// SPDX-License-Identifier: GPL-2.0
/*
 * backlog server ADDRESS PORT BACKLOG [told|mixed|collect NUMBER|leave]
 * backlog client ADDRESS PORT NUMBER
 *
 * The client makes NUMBER connections at once, and keeps them until each has an answer. It
 * prints how many are established and how many rejected, and fails if any is neither.
 *
 * The server accepts, and ends when it is killed. "told": it looks at no event before it gets
 * SIGUSR1. "mixed": of three requests it accepts one, rejects one and destroys the identifier of
 * one. "collect": it takes NUMBER requests before it answers the first. "leave": at SIGUSR1 it
 * destroys the listener, without a look at any request, and ends.
 */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct rdma_event_channel *channel;
static struct addrinfo *at;
static struct ibv_pd *pd;
static struct ibv_cq *cq;

static void must(int bad, const char *what)
{
	if (!bad)
		return;
	fprintf(stderr, "backlog: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	if (!pd) {
		pd = ibv_alloc_pd(id->verbs);
		must(!pd, "protection domain");
		cq = ibv_create_cq(id->verbs, 16, NULL, NULL, 0);
		must(!cq, "completion queue");
	}
	init.send_cq = init.recv_cq = cq;
	must(rdma_create_qp(id, pd, &init), "queue pair");
}

static void forget(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
	rdma_destroy_id(id);
}

static enum rdma_cm_event_type next(struct rdma_cm_id **id, int *status)
{
	enum rdma_cm_event_type type;
	struct rdma_cm_event *e;

	must(rdma_get_cm_event(channel, &e), "event");
	*id = e->id;
	*status = e->status;
	type = e->event;
	rdma_ack_cm_event(e);
	return type;
}

static void wait_for_signal(void)
{
	sigset_t set;
	int got;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigwait(&set, &got);
}

static void accept_one(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = { .initiator_depth = 1, .responder_resources = 1 };

	make_qp(id);
	/* The peer may have gone. */
	if (rdma_accept(id, &param))
		forget(id);
}

static void serve(int backlog, const char *how, unsigned int number)
{
	struct rdma_cm_id *listener, *id, **held = calloc(number + 1, sizeof(*held));
	unsigned int count = 0, i;
	int status;

	must(!held, "memory");
	must(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP), "identifier");
	must(rdma_bind_addr(listener, at->ai_addr), "bind");
	must(rdma_listen(listener, backlog), "listen");
	if (!strcmp(how, "told") || !strcmp(how, "leave"))
		wait_for_signal();
	if (!strcmp(how, "leave")) {
		rdma_destroy_id(listener);
		return;
	}
	for (;;) {
		switch (next(&id, &status)) {
		case RDMA_CM_EVENT_CONNECT_REQUEST:
			count++;
			if (count <= number) {
				held[count - 1] = id;
				for (i = 0; count == number && i < number; i++)
					accept_one(held[i]);
			} else if (strcmp(how, "mixed") || count % 3 == 1) {
				accept_one(id);
			} else if (count % 3 == 2) {
				rdma_reject(id, NULL, 0);
				rdma_destroy_id(id);
			} else {
				rdma_destroy_id(id);
			}
			break;
		case RDMA_CM_EVENT_DISCONNECTED:
			rdma_disconnect(id);
			forget(id);
			break;
		default:
			break;
		}
	}
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static int crowd(unsigned int number)
{
	struct rdma_conn_param param = { .initiator_depth = 1, .responder_resources = 1 };
	struct pollfd fd = { .fd = channel->fd, .events = POLLIN };
	unsigned int up = 0, rejected = 0, failed = 0, i;
	struct rdma_cm_id *id;
	double began = now();
	int status;

	for (i = 0; i < number; i++) {
		must(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), "identifier");
		must(rdma_resolve_addr(id, NULL, at->ai_addr, 60000), "address");
	}
	while (up + rejected + failed < number && poll(&fd, 1, 100000) > 0) {
		enum rdma_cm_event_type type = next(&id, &status);

		switch (type) {
		case RDMA_CM_EVENT_ADDR_RESOLVED:
			must(rdma_resolve_route(id, 60000), "route");
			break;
		case RDMA_CM_EVENT_ROUTE_RESOLVED:
			make_qp(id);
			must(rdma_connect(id, &param), "connect");
			break;
		case RDMA_CM_EVENT_ESTABLISHED:
			up++;
			break;
		case RDMA_CM_EVENT_REJECTED:
			rejected++;
			break;
		default:
			fprintf(stderr, "backlog: %s, status %d\n", rdma_event_str(type), status);
			failed++;
			break;
		}
	}
	printf("%u established, %u rejected, %u failed, %u without an answer, in %.1f s\n", up, rejected,
	       failed, number - up - rejected - failed, now() - began);
	return up + rejected != number;
}

int main(int argc, char **argv)
{
	sigset_t set;

	if (argc < 5) {
		fprintf(stderr, "usage: backlog server|client ADDRESS PORT NUMBER ...\n");
		return 2;
	}
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	must(getaddrinfo(argv[2], argv[3], NULL, &at), "address");
	channel = rdma_create_event_channel();
	must(!channel, "event channel");
	if (!strcmp(argv[1], "client"))
		return crowd(strtoul(argv[4], NULL, 0));
	serve(atoi(argv[4]), argc > 5 ? argv[5] : "", argc > 6 ? strtoul(argv[6], NULL, 0) : 0);
	return 0;
}
