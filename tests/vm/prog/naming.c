// SPDX-License-Identifier: GPL-2.0
/*
 * naming connect|accept ADDRESS PORT [QPN [TIMES]]: connects or accepts with the queue
 * pair of this number. Without QPN it makes a queue pair of its own, prints the number
 * ("qp N") and waits for a line of input. It makes the call TIMES times, prints the last
 * result ("connect: Operation not permitted"), and after a success the next event with
 * its private data ("RDMA_CM_EVENT_REJECTED: go away"). READS in the environment is the
 * number of RDMA Reads at a time that it asks for, in either direction; otherwise 1.
 */
#include <errno.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(int failed, const char *what)
{
	if (!failed)
		return;
	fprintf(stderr, "naming: %s: %s\n", what, strerror(errno));
	exit(1);
}

static struct rdma_cm_id *next(struct rdma_event_channel *channel,
			       enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	must(rdma_get_cm_event(channel, &event), "event");
	if (event->event != type) {
		printf("%s\n", rdma_event_str(event->event));
		exit(1);
	}
	id = event->id;
	rdma_ack_cm_event(event);
	return id;
}

static unsigned int own_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_pd *pd = ibv_alloc_pd(id->verbs);
	struct ibv_qp *qp;

	must(!pd, "protection domain");
	init.send_cq = init.recv_cq = ibv_create_cq(id->verbs, 16, NULL, NULL, 0);
	must(!init.send_cq, "completion queue");
	/* Without rdma_create_qp(), so that the id has only the number of the queue pair. */
	qp = ibv_create_qp(pd, &init);
	must(!qp, "queue pair");
	printf("qp %u\n", qp->qp_num);
	getchar();
	return qp->qp_num;
}

int main(int argc, char **argv)
{
	struct rdma_conn_param param = { .initiator_depth = 1, .responder_resources = 1 };
	struct rdma_event_channel *channel;
	struct rdma_cm_event *event;
	struct addrinfo *at;
	struct rdma_cm_id *id;
	int connects, ret, times;

	if (getenv("READS"))
		param.initiator_depth = param.responder_resources = atoi(getenv("READS"));
	if (argc < 4) {
		fprintf(stderr, "usage: naming connect|accept ADDRESS PORT [QPN [TIMES]]\n");
		return 2;
	}
	setlinebuf(stdout);
	connects = !strcmp(argv[1], "connect");
	must(getaddrinfo(argv[2], argv[3], NULL, &at), "address");
	channel = rdma_create_event_channel();
	must(!channel, "event channel");
	must(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), "identifier");
	if (connects) {
		must(rdma_resolve_addr(id, NULL, at->ai_addr, 2000), "address");
		next(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
		must(rdma_resolve_route(id, 2000), "route");
		next(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	} else {
		must(rdma_bind_addr(id, at->ai_addr), "bind");
		must(rdma_listen(id, 1), "listen");
		id = next(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	}
	param.qp_num = argc > 4 ? strtoul(argv[4], NULL, 0) : own_qp(id);
	ret = connects ? rdma_connect(id, &param) : rdma_accept(id, &param);
	for (times = argc > 5 ? atoi(argv[5]) : 1; ret && connects && times > 1; times--)
		ret = rdma_connect(id, &param);
	printf("%s: %s\n", argv[1], ret ? strerror(errno) : "good");
	if (ret)
		return 1;
	must(rdma_get_cm_event(channel, &event), "event");
	printf("%s: %.*s\n", rdma_event_str(event->event), event->param.conn.private_data_len,
	       (const char *)event->param.conn.private_data);
	return event->event != RDMA_CM_EVENT_ESTABLISHED;
}
