// SPDX-License-Identifier: GPL-2.0
/*
 * ending ADDRESS PORT WRITES [ENTRIES]: a consumer that accepts one connection and
 * posts WRITES RDMA Writes of 64 KiB to its peer (STag 0x100, from address 0x1000 on),
 * which are sent once the peer has sent something. With ENTRIES they have 64 bytes and
 * are signalled, and their completion queue has so many entries. It prints "ready" when it
 * listens, and then its events ("event disconnected"). It reads commands, one a
 * line, and exits at the end of its input:
 *
 *   disconnect, destroy: disconnects or destroys the id, and prints "done disconnect"
 *     or "done destroy"
 *   drain: disconnects, and waits until the queue pair sends what it still has
 *   query: prints the state of the queue pair ("done query error")
 *   receives: posts two receives, one more than their completion queue has entries,
 *     and prints where the peer may write ("target ADDRESS KEY")
 *   look: prints the byte at that address ("byte 0 at look 1")
 */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE 65536
#define MOST 64

static struct rdma_event_channel *channel;
static struct rdma_cm_id *connected;
static unsigned int writes, entries, looks;
static unsigned char target[4096] __attribute__((aligned(4096)));
static struct ibv_mr *target_mr;

static void zero(int result, const char *what)
{
	if (!result)
		return;
	printf("%s: %s\n", what, strerror(errno));
	exit(1);
}

static void *must(void *p, const char *what)
{
	zero(!p, what);
	return p;
}

static void accept_it(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = { .responder_resources = 4, .initiator_depth = 4 };
	struct ibv_pd *pd = must(ibv_alloc_pd(id->verbs), "protection domain");
	struct ibv_cq *cq = must(ibv_create_cq(id->verbs, entries ? entries : MOST + 1, NULL, NULL, 0),
				 "queue");
	struct ibv_cq *rcq = must(ibv_create_cq(id->verbs, 1, NULL, NULL, 0), "queue");
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.send_cq = cq,
		.recv_cq = rcq,
		.cap = { .max_send_wr = MOST, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	void *data = must(calloc(1, SIZE), "memory");
	struct ibv_mr *mr = must(ibv_reg_mr(pd, data, SIZE, IBV_ACCESS_LOCAL_WRITE), "region");
	struct ibv_sge sge = { .addr = (uintptr_t)data, .length = entries ? 64 : SIZE,
			       .lkey = mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = entries ? IBV_SEND_SIGNALED : 0,
		.wr.rdma = { .remote_addr = 0x1000, .rkey = 0x100 },
	};

	target_mr = must(ibv_reg_mr(pd, target, sizeof(target),
				    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE), "region");
	zero(rdma_create_qp(id, pd, &init), "queue pair");
	zero(rdma_accept(id, &param), "accept");
	connected = id;
	while (writes--)
		zero(ibv_post_send(id->qp, &wr, &bad), "post");
}

static void one_event(void)
{
	enum rdma_cm_event_type type;
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	zero(rdma_get_cm_event(channel, &event), "event");
	type = event->event;
	id = event->id;
	rdma_ack_cm_event(event);
	if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
		accept_it(id);
	printf("event %s\n", type == RDMA_CM_EVENT_DISCONNECTED ? "disconnected" : rdma_event_str(type));
}

static enum ibv_qp_state state(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	zero(ibv_query_qp(connected->qp, &attr, IBV_QP_STATE, &init), "query");
	return attr.qp_state;
}

static void obey(const char *line)
{
	if (!strcmp(line, "disconnect\n")) {
		zero(rdma_disconnect(connected), "disconnect");
	} else if (!strcmp(line, "drain\n")) {
		zero(rdma_disconnect(connected), "disconnect");
		while (state() == IBV_QPS_RTS)
			usleep(1000);
		zero(state() != IBV_QPS_SQD, "drain");
	} else if (!strcmp(line, "destroy\n")) {
		rdma_destroy_qp(connected);
		zero(rdma_destroy_id(connected), "the end of the id");
	} else if (!strcmp(line, "query\n")) {
		printf("done query %s\n", state() == IBV_QPS_ERR ? "error" : "no error");
		return;
	} else if (!strcmp(line, "receives\n")) {
		struct ibv_sge sge = { .addr = (uintptr_t)target + 2048, .length = 64,
				       .lkey = target_mr->lkey };
		struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

		zero(ibv_post_recv(connected->qp, &wr, &bad), "receive");
		zero(ibv_post_recv(connected->qp, &wr, &bad), "receive");
		printf("target %lu %u\n", (unsigned long)target, target_mr->rkey);
	} else if (!strcmp(line, "look\n")) {
		printf("byte %u at look %u\n", __atomic_load_n(target, __ATOMIC_RELAXED), ++looks);
		printf("done with look %u\n", looks);
		return;
	}
	printf("done %s", line);
}

int main(int argc, char **argv)
{
	struct addrinfo hints = { .ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM }, *at;
	struct pollfd fds[2] = { { .fd = 0, .events = POLLIN }, { .events = POLLIN } };
	struct rdma_cm_id *listener;
	char line[80];

	if (argc < 4) {
		fprintf(stderr, "usage: ending ADDRESS PORT WRITES [ENTRIES]\n");
		return 2;
	}
	writes = strtoul(argv[3], NULL, 0);
	entries = argc > 4 ? strtoul(argv[4], NULL, 0) : 0;
	setlinebuf(stdout);
	/* With a buffer in stdio, poll() would not report lines that it holds. */
	setbuf(stdin, NULL);
	zero(getaddrinfo(argv[1], argv[2], &hints, &at), "address");
	channel = must(rdma_create_event_channel(), "channel");
	zero(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP), "id");
	zero(rdma_bind_addr(listener, at->ai_addr), "bind");
	zero(rdma_listen(listener, 1), "listen");
	printf("ready\n");
	fds[1].fd = channel->fd;
	for (;;) {
		if (poll(fds, 2, -1) < 0)
			continue;
		if (fds[1].revents)
			one_event();
		if (!fds[0].revents)
			continue;
		if (!fgets(line, sizeof(line), stdin))
			return 0;
		obey(line);
	}
}
