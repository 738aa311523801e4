// SPDX-License-Identifier: GPL-2.0
/*
 * watch DEVICE: makes one of each object of an RDMA device, posts three receives to the
 * shared receive queue, arms the completion queue and prints "ready", and
 * then "event NAME" for each asynchronous event. After the fatal event it calls a verb
 * and prints the error ("then ERRNO"), destroys all objects, and prints "gone". SIGTERM
 * ends it before, without destroying the objects.
 */
#include <stdio.h>

#include "verbs.h"

static char memory[4096] __attribute__((aligned(4096)));

int main(int argc, char **argv)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_srq_init_attr srq_init = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_sge sge = { .addr = (uintptr_t)memory, .length = sizeof(memory) };
	struct ibv_recv_wr recv = { .sg_list = &sge, .num_sge = 1 }, *bad;
	struct ibv_context *context;
	struct ibv_async_event event = { 0 };
	struct ibv_comp_channel *channel;
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	int i;

	if (argc != 2) {
		fprintf(stderr, "usage: watch DEVICE\n");
		return 2;
	}
	setlinebuf(stdout);
	context = open_device(argv[1]);
	pd = must(ibv_alloc_pd(context), "protection domain");
	channel = must(ibv_create_comp_channel(context), "completion channel");
	cq = must(ibv_create_cq(context, 16, NULL, channel, 0), "completion queue");
	mr = must(ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE), "region");
	srq = must(ibv_create_srq(pd, &srq_init), "shared receive queue");
	sge.lkey = mr->lkey;
	for (i = 0; i < 3; i++)
		if (ibv_post_srq_recv(srq, &recv, &bad))
			must(NULL, "receive");
	if (ibv_req_notify_cq(cq, 0))
		must(NULL, "request for an event");
	init.send_cq = cq;
	init.recv_cq = cq;
	qp = must(ibv_create_qp(pd, &init), "queue pair");
	puts("ready");
	while (event.event_type != IBV_EVENT_DEVICE_FATAL) {
		if (ibv_get_async_event(context, &event)) {
			printf("no more events: %s\n", strerror(errno));
			break;
		}
		printf("event %s\n", ibv_event_type_str(event.event_type));
		ibv_ack_async_event(&event);
	}
	errno = 0;
	printf("then %s\n", ibv_alloc_pd(context) ? "a new PD" : strerror(errno));
	/* The kernel's objects are gone already: the calls may fail, but must not hang. */
	ibv_destroy_qp(qp);
	ibv_destroy_srq(srq);
	ibv_dereg_mr(mr);
	ibv_destroy_cq(cq);
	ibv_destroy_comp_channel(channel);
	ibv_dealloc_pd(pd);
	ibv_close_device(context);
	puts("gone");
	return 0;
}
