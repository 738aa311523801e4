// SPDX-License-Identifier: GPL-2.0
/*
 * rclives DEVICE GID-INDEX PEER-GID PEER-QPN LIVES SEED: a queue pair lives so many
 * lives, and more, up to ten times as many, until an "e" comes on the standard input.
 * In each it goes to RTS, by way of INIT and RTR, for a peer that may come or
 * not, posts requests and receives, is held and released (SQD) at random, and ends
 * by RESET, from any state, or is destroyed, and another takes its place. Prints the
 * number of each queue pair.
 *
 * An "x" on the standard input says that the peer breaks off. Prints "received" when
 * the first message has come.
 *
 * Whatever the peer does, each modify succeeds, but for SQD and RTS of a queue pair
 * that has failed; nothing completes twice, or in a later life. Prints "lives N,
 * with a peer N, failed N" at its end, or what went wrong.
 */
#include <arpa/inet.h>
#include <poll.h>
#include <stdbool.h>
#include <unistd.h>

#include "rc.h"

#define EACH 4

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct ibv_qp *qp;
static union ibv_gid peer;
static uint32_t peer_qpn;
static char memory[4096];
static int gid_index;
static unsigned int life, met, failed;
/* What was posted in this life, receives first, and has completed. */
static bool done[2 * EACH];
static bool has_received, has_failed, is_enough;

static void wrong(const char *what, int error)
{
	printf("life %u: %s: %s\n", life, what, strerror(error));
	exit(1);
}

static enum ibv_qp_state state(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	int error = ibv_query_qp(qp, &attr, IBV_QP_STATE, &init);

	if (error)
		wrong("query", error);
	return attr.qp_state;
}

static void to(enum ibv_qp_state next, int mask, const char *what)
{
	/* A request is tried for 8 us times 2, for 67 ms, or for ever. */
	static const uint8_t timeouts[] = { 1, 14, 0 };
	struct ibv_qp_attr attr = {
		.qp_state = next, .port_num = 1, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer_qpn,
		.timeout = timeouts[life % 3], .rnr_retry = 7, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
		.ah_attr = {
			.is_global = 1, .port_num = 1,
			.grh = { .dgid = peer, .sgid_index = gid_index, .hop_limit = 64 },
		},
	};
	int error = ibv_modify_qp(qp, &attr, mask), tries;

	/* The worker that takes the old connection may not have run for a second. */
	for (tries = 0; error == EBUSY && next == IBV_QPS_RESET && tries < 10; tries++)
		error = ibv_modify_qp(qp, &attr, mask);
	if (error && (mask != IBV_QP_STATE || next == IBV_QPS_RESET || state() != IBV_QPS_ERR))
		wrong(what, error);
}

static void post(unsigned int n)
{
	struct ibv_sge sge = { (uintptr_t)memory, 16, mr->lkey };
	struct ibv_recv_wr *bad_recv, recv = { .sg_list = &sge, .num_sge = 1 };
	struct ibv_send_wr *bad, send = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
	};
	int error;

	recv.wr_id = send.wr_id = (uint64_t)life << 8 | n;
	error = n < EACH ? ibv_post_recv(qp, &recv, &bad_recv) : ibv_post_send(qp, &send, &bad);
	if (error)
		wrong("post", error);
}

static void poll_all(void)
{
	struct ibv_wc wc;
	unsigned int n;

	while (ibv_poll_cq(cq, 1, &wc) == 1) {
		n = wc.wr_id & 0xff;
		if (wc.wr_id >> 8 != life || n >= 2 * EACH || done[n]) {
			printf("life %u: completion %u of life %lu: %s\n", life, n,
			       (unsigned long)(wc.wr_id >> 8), ibv_wc_status_str(wc.status));
			exit(1);
		}
		done[n] = true;
		has_received |= n < EACH && !wc.status;
		has_failed |= wc.status && wc.status != IBV_WC_WR_FLUSH_ERR;
	}
}

/* Waits until the peer breaks off, and for some ms more; false if it does not do so soon. */
static bool peer_leaves(void)
{
	struct pollfd in = { .fd = 0, .events = POLLIN };
	char bytes[4096];
	ssize_t n;

	while (poll(&in, 1, 0) == 1 && (n = read(0, bytes, sizeof(bytes))) > 0)
		is_enough |= memchr(bytes, 'e', n) != NULL;
	if (poll(&in, 1, 200) <= 0)
		return false;
	usleep(random() % 8000);
	return true;
}

static void live(void)
{
	unsigned int n, sends = EACH;
	int steps = random() % 6;

	memset(done, 0, sizeof(done));
	has_received = has_failed = false;
	to(IBV_QPS_INIT, TO_INIT, "INIT");
	for (n = 0; n < random() % (EACH + 1); n++)
		post(n);
	to(IBV_QPS_RTR, TO_RTR, "RTR");
	to(IBV_QPS_RTS, TO_RTS, "RTS");
	while (steps-- > 0) {
		switch (random() % 5) {
		case 0:
			to(IBV_QPS_SQD, IBV_QP_STATE, "SQD");
			break;
		case 1:
			to(IBV_QPS_RTS, IBV_QP_STATE, "RTS again");
			break;
		case 2:
			if (sends < 2 * EACH)
				post(sends++);
			break;
		case 3:
			/* Most often it goes on while the driver finds that its peer is gone. */
			if (peer_leaves() && random() % 4)
				steps = 0;
			break;
		default:
			usleep(random() % 20000);
		}
		poll_all();
	}
	if (random() % 8 == 0)
		to(IBV_QPS_ERR, IBV_QP_STATE, "ERR");
	if (random() % 16 == 0) {
		ibv_destroy_qp(qp);
		qp = NULL;
	} else {
		to(IBV_QPS_RESET, IBV_QP_STATE, "RESET");
		/* What completed before the reset may be there still. Nothing comes later. */
	}
	poll_all();
	if (has_received && !met++)
		printf("received\n");
	failed += has_failed;
}

int main(int argc, char **argv)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = EACH, .max_recv_wr = EACH, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	unsigned int lives;

	if (argc < 7)
		return 2;
	gid_index = atoi(argv[2]);
	if (inet_pton(AF_INET6, argv[3], &peer) != 1)
		return 2;
	peer_qpn = strtoul(argv[4], NULL, 0);
	lives = atoi(argv[5]);
	srandom(atoi(argv[6]));
	setvbuf(stdout, NULL, _IOLBF, 0);
	context = open_device(argv[1]);
	pd = must(ibv_alloc_pd(context), "protection domain");
	cq = must(ibv_create_cq(context, 256, NULL, NULL, 0), "completion queue");
	mr = must(ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE), "region");
	init.send_cq = init.recv_cq = cq;
	for (; life < lives || (!is_enough && life < 10 * lives); life++) {
		if (!qp) {
			qp = must(ibv_create_qp(pd, &init), "queue pair");
			printf("%u\n", qp->qp_num);
		}
		live();
	}
	printf("lives %u, with a peer %u, failed %u\n", life, met, failed);
	return 0;
}
