// SPDX-License-Identifier: GPL-2.0
/*
 * fetchadd ADDRESS PORT [own]: connects, posts a FetchAdd and a Send behind it, and tells how each completes. The peer has
 * told no memory: it is a test's, which refuses. With `own` it is this end's memory that there is none of.
 */
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>

#include "verbs.h"

enum { FETCH_ADD = 1, SEND };

int main(int argc, char **argv)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP }, *at;
	struct ibv_qp_init_attr queues = {
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
		.sq_sig_all = 1,
	};
	struct rdma_conn_param depths = { .initiator_depth = 4, .responder_resources = 4 };
	struct ibv_send_wr send = { .wr_id = SEND, .opcode = IBV_WR_SEND };
	struct ibv_send_wr fetch = { .wr_id = FETCH_ADD, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .next = &send };
	struct ibv_send_wr *bad;
	static uint64_t memory;
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	struct ibv_sge sge;
	struct ibv_wc wc;

	if (argc != 3 && argc != 4)
		error(2, 0, "fetchadd ADDRESS PORT [own]");
	if (rdma_getaddrinfo(argv[1], argv[2], &hints, &at) || rdma_create_ep(&id, at, NULL, &queues))
		error(1, errno, "no queue pair");
	mr = rdma_reg_msgs(id, &memory, sizeof(memory));
	if (!mr || rdma_connect(id, &depths))
		error(1, errno, "no connection");
	sge = (struct ibv_sge){ .addr = (uintptr_t)&memory, .length = sizeof(memory), .lkey = mr->lkey };
	if (argc == 4)
		sge.lkey ^= 0x100;
	fetch.sg_list = &sge;
	fetch.num_sge = 1;
	fetch.wr.atomic.remote_addr = 0x1000;
	fetch.wr.atomic.rkey = 0x100;
	fetch.wr.atomic.compare_add = 1;
	if (ibv_post_send(id->qp, &fetch, &bad))
		error(1, errno, "%s is not posted", bad == &fetch ? "the FetchAdd" : "the Send");
	for (int i = 0; i < 2; i++) {
		if (rdma_get_send_comp(id, &wc) != 1)
			error(1, errno, "no completion");
		printf("%s: %s\n", wc.wr_id == FETCH_ADD ? "FetchAdd" : "Send", ibv_wc_status_str(wc.status));
	}
	return 0;
}
