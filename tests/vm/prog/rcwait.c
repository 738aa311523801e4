// SPDX-License-Identifier: GPL-2.0
/*
 * rcwait DEVICE GID-INDEX PEER-GID PEER-QPN [COUNT [TIMEOUT]]: makes COUNT queue pairs (1)
 * with that local ACK timeout (0, which is for ever),
 * prints the number of the first, and has them wait for peers with that GID and
 * the numbers from PEER-QPN on: to RTR and RTS, with a receive each. Then reads
 * lines: "state" prints the states, "send" posts a Send to queue pair 0, "later"
 * makes one more queue pair, prints its number, and "meet" has it wait, for
 * PEER-QPN. Prints "received N" when queue pair N has received, and "sent N" when
 * its Send has completed.
 */
#include <arpa/inet.h>
#include <poll.h>

#include "rc.h"

#define MOST 64

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct ibv_qp *qp[MOST + 1];
static union ibv_gid peer;
static char memory[4096];
static int gid_index, count = 1, timeout;

static void make(int n)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_sge sge = { (uintptr_t)memory, sizeof(memory), mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = n, .sg_list = &sge, .num_sge = 1 };

	qp[n] = must(ibv_create_qp(pd, &init), "queue pair");
	if (ibv_modify_qp(qp[n], &attr, TO_INIT))
		fail("INIT");
	ibv_post_recv(qp[n], &wr, &bad);
}

static void post_send(int n)
{
	struct ibv_sge sge = { (uintptr_t)memory, 16, mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = n, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};

	if (ibv_post_send(qp[n], &wr, &bad))
		fail("post");
}

static void states(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	int n;

	printf("states");
	for (n = 0; n < count; n++) {
		ibv_query_qp(qp[n], &attr, IBV_QP_STATE, &init);
		printf(" %d", attr.qp_state);
	}
	printf("\n");
}

int main(int argc, char **argv)
{
	struct pollfd in = { .fd = 0, .events = POLLIN };
	struct ibv_wc wc;
	uint32_t peer_qpn;
	char line[64];
	int i;

	if (argc < 5)
		return 2;
	gid_index = atoi(argv[2]);
	peer_qpn = strtoul(argv[4], NULL, 0);
	if (argc > 5)
		count = atoi(argv[5]);
	if (argc > 6)
		timeout = atoi(argv[6]);
	if (inet_pton(AF_INET6, argv[3], &peer) != 1 || count > MOST)
		return 2;
	context = open_device(argv[1]);
	pd = must(ibv_alloc_pd(context), "protection domain");
	cq = must(ibv_create_cq(context, 256, NULL, NULL, 0), "completion queue");
	mr = must(ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE), "region");
	for (i = 0; i < count; i++) {
		make(i);
		meet(qp[i], &peer, gid_index, peer_qpn + i, timeout, 0);
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("%u\n", qp[0]->qp_num);
	for (;;) {
		while (ibv_poll_cq(cq, 1, &wc) == 1)
			printf("%s %lu\n", wc.status ? ibv_wc_status_str(wc.status) :
			       wc.opcode == IBV_WC_SEND ? "sent" : "received", (unsigned long)wc.wr_id);
		if (poll(&in, 1, 10) <= 0)
			continue;
		if (!fgets(line, sizeof(line), stdin))
			return 0;
		if (!strcmp(line, "state\n")) {
			states();
		} else if (!strcmp(line, "send\n")) {
			post_send(0);
		} else if (!strcmp(line, "later\n")) {
			make(count);
			printf("%u\n", qp[count]->qp_num);
		} else if (!strcmp(line, "meet\n")) {
			meet(qp[count], &peer, gid_index, peer_qpn, timeout, 0);
			printf("meets\n");
		}
	}
}
