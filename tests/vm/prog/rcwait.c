// SPDX-License-Identifier: GPL-2.0
/*
 * rcwait DEVICE GID-INDEX PEER-GID PEER-QPN [COUNT [TIMEOUT [READS [RNR-RETRY [RNR-TIMER]]]]]:
 * makes COUNT queue pairs (1) with that local ACK timeout (0, which is for ever), for so many
 * Reads (0), whose Sends are tried again so often (7, which is for ever) without a receive,
 * those of the peer after the time of that code (0). Prints the number of the first, and has
 * them wait for peers with that GID and the numbers from PEER-QPN on: to RTR and RTS, with a
 * receive each. Then reads lines: "state" prints the states, "send" posts a Send to queue
 * pair 0, "large" one of 1 MiB, "write ADDRESS KEY" and "read ADDRESS KEY" others, to and from
 * what the peer's "region" prints. "later" makes one more queue pair, prints its number, and
 * "meet" has it wait, for PEER-QPN. SIGUSR1 posts a receive to queue pair 0. Prints "received
 * N" when queue pair N has received, and "sent N after MS ms" when its request has completed.
 */
#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>

#include "rc.h"

#define MOST 64

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct ibv_qp *qp[MOST + 1];
static union ibv_gid peer;
static char memory[1 << 20];
static int gid_index, count = 1, timeout, reads, rnr_retry = 7, rnr_timer;
/* Set by a signal, and looked at behind poll(). */
static sig_atomic_t asked;
static long sent_at;

static void ask(int signal)
{
	(void)signal;
	asked = 1;
}

static void post_receive(int n)
{
	struct ibv_sge sge = { (uintptr_t)memory, sizeof(memory), mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = n, .sg_list = &sge, .num_sge = 1 };

	ibv_post_recv(qp[n], &wr, &bad);
}

static void make(int n)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
	};

	qp[n] = must(ibv_create_qp(pd, &init), "queue pair");
	if (ibv_modify_qp(qp[n], &attr, TO_INIT))
		fail("INIT");
	post_receive(n);
}

static void post(int n, enum ibv_wr_opcode opcode, uint32_t len, uint64_t address, uint32_t key)
{
	struct ibv_sge sge = { (uintptr_t)memory, len, mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = n, .sg_list = &sge, .num_sge = 1, .opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED, .wr.rdma = { address, key },
	};

	if (ibv_post_send(qp[n], &wr, &bad))
		fail("post");
	sent_at = now_ms();
}

static void completed(const struct ibv_wc *wc)
{
	int good = wc->status == IBV_WC_SUCCESS, receive = wc->opcode & IBV_WC_RECV;

	printf("%s %lu", !good ? ibv_wc_status_str(wc->status) : receive ? "received" : "sent",
	       (unsigned long)wc->wr_id);
	if (!good || !receive)
		printf(" after %ld ms", now_ms() - sent_at);
	printf("\n");
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
	uint64_t address;
	uint32_t peer_qpn, key;
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
	if (argc > 7)
		reads = atoi(argv[7]);
	if (argc > 8)
		rnr_retry = atoi(argv[8]);
	if (argc > 9)
		rnr_timer = atoi(argv[9]);
	signal(SIGUSR1, ask);
	if (inet_pton(AF_INET6, argv[3], &peer) != 1 || count > MOST)
		return 2;
	context = open_device(argv[1]);
	pd = must(ibv_alloc_pd(context), "protection domain");
	cq = must(ibv_create_cq(context, 256, NULL, NULL, 0), "completion queue");
	mr = must(ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
			     IBV_ACCESS_REMOTE_WRITE), "region");
	for (i = 0; i < count; i++) {
		make(i);
		meet_patient(qp[i], &peer, gid_index, peer_qpn + i, timeout, reads, rnr_retry, rnr_timer);
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	/* With a buffer in stdio, poll() would not report lines that it holds. */
	setvbuf(stdin, NULL, _IONBF, 0);
	printf("%u\n", qp[0]->qp_num);
	for (;;) {
		while (ibv_poll_cq(cq, 1, &wc) == 1)
			completed(&wc);
		if (asked) {
			asked = 0;
			post_receive(0);
		}
		if (poll(&in, 1, 10) <= 0)
			continue;
		if (!fgets(line, sizeof(line), stdin))
			return 0;
		if (!strcmp(line, "state\n")) {
			states();
		} else if (!strcmp(line, "send\n")) {
			post(0, IBV_WR_SEND, 16, 0, 0);
		} else if (!strcmp(line, "large\n")) {
			post(0, IBV_WR_SEND, sizeof(memory), 0, 0);
		} else if (!strcmp(line, "region\n")) {
			printf("region %lu %u\n", (unsigned long)memory, mr->rkey);
		} else if (sscanf(line, "write %lu %u", &address, &key) == 2) {
			post(0, IBV_WR_RDMA_WRITE, 16, address, key);
		} else if (sscanf(line, "read %lu %u", &address, &key) == 2) {
			post(0, IBV_WR_RDMA_READ, 16, address, key);
		} else if (!strcmp(line, "later\n")) {
			make(count);
			printf("%u\n", qp[count]->qp_num);
		} else if (!strcmp(line, "meet\n")) {
			meet(qp[count], &peer, gid_index, peer_qpn, timeout, 0);
			printf("meets\n");
		}
	}
}
