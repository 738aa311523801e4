// SPDX-License-Identifier: GPL-2.0
/*
 * rcstand DEVICE GID-INDEX [SERVER]: two processes have a queue pair for each state in which that of
 * the client stands still, until the client gets SIGUSR1. Then all go on, and pass messages both
 * ways. The client prints "stands", and in the end "goes on".
 */
#include <signal.h>

#include "rc_meet.h"

#define LIMIT_MS 60000

/* IDLE: in RTS. LATE: what it has sent finds no receive. */
enum state { INIT, RTR, IDLE, LATE, SQD, ERR, STATES };

static const enum ibv_qp_state stands[STATES] = {
	IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_ERR,
};
static struct one {
	union ibv_gid gid;
	uint32_t qpn[STATES];
} ours, theirs;
static struct ibv_qp *qp[STATES];
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static char memory[64];
static int gid_index;
/* Messages that each queue pair has received. */
static int received[STATES];

static void modify(enum state n, struct ibv_qp_attr *attr, int mask)
{
	if (!ibv_modify_qp(qp[n], attr, mask))
		return;
	printf("queue pair %d to state %d: %s\n", n, attr->qp_state, strerror(errno));
	exit(1);
}

static void move(enum state n, enum ibv_qp_state to)
{
	struct ibv_qp_attr attr = { .qp_state = to };

	modify(n, &attr, IBV_QP_STATE);
}

static void post_receive(enum state n)
{
	struct ibv_sge sge = { (uintptr_t)memory, 32, mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = n, .sg_list = &sge, .num_sge = 1 };

	if (ibv_post_recv(qp[n], &wr, &bad))
		fail("receive");
}

static void post_send(enum state n)
{
	struct ibv_sge sge = { (uintptr_t)memory + 32, 32, mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = STATES + n, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
	};

	if (ibv_post_send(qp[n], &wr, &bad))
		fail("send");
}

static void to_init(enum state n)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

	modify(n, &attr, TO_INIT);
}

static void to_rtr(enum state n)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = theirs.qpn[n],
		.ah_attr = {
			.is_global = 1, .port_num = 1,
			.grh = { .dgid = theirs.gid, .sgid_index = gid_index, .hop_limit = 64 },
		},
	};

	modify(n, &attr, TO_RTR);
}

static void to_rts(enum state n)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS, .timeout = 20, .retry_cnt = 7, .rnr_retry = 7,
	};

	modify(n, &attr, TO_RTS);
}

static void meet_peer(enum state n)
{
	to_rtr(n);
	to_rts(n);
}

static void live_again(enum state n)
{
	move(n, IBV_QPS_RESET);
	to_init(n);
	post_receive(n);
	meet_peer(n);
}

/* Waits until queue pair `n` has received so many messages. No Send fails, and no receive but that of ERR. */
static void wait_for(enum state n, int count)
{
	long end = now_ms() + LIMIT_MS;
	struct ibv_wc wc;

	while (received[n] < count && now_ms() < end) {
		if (ibv_poll_cq(cq, 1, &wc) != 1) {
			usleep(1000);
			continue;
		}
		if (wc.status == IBV_WC_SUCCESS) {
			received[wc.wr_id % STATES] += wc.wr_id < STATES;
			continue;
		}
		if (wc.wr_id % STATES == ERR && wc.status == IBV_WC_WR_FLUSH_ERR)
			continue;
		printf("queue pair %lu: %s\n", (unsigned long)wc.wr_id, ibv_wc_status_str(wc.status));
		exit(1);
	}
	if (received[n] < count) {
		printf("queue pair %d has received %d of %d messages\n", n, received[n], count);
		exit(1);
	}
}

static void check_states(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	enum state n;

	for (n = 0; n < STATES; n++) {
		ibv_query_qp(qp[n], &attr, IBV_QP_STATE, &init);
		if (attr.qp_state == stands[n])
			continue;
		printf("queue pair %d is in state %d\n", n, attr.qp_state);
		exit(1);
	}
}

static void client(int fd)
{
	char word = 0;
	sigset_t set;
	enum state n;
	int signal;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	to_rtr(RTR);
	for (n = IDLE; n < STATES; n++) {
		meet_peer(n);
		post_send(n);
	}
	/* The other process has what has a receive there, so all are connected. */
	swap(fd, &word, &word, 1);
	move(SQD, IBV_QPS_SQD);
	post_send(SQD);
	move(ERR, IBV_QPS_ERR);
	check_states();
	printf("stands\n");
	if (sigwait(&set, &signal))
		fail("sigwait");
	check_states();
	swap(fd, &word, &word, 1);
	meet_peer(INIT);
	to_rts(RTR);
	move(SQD, IBV_QPS_RTS);
	live_again(ERR);
	for (n = 0; n < STATES; n++)
		/* That of these has been posted already. */
		if (n != LATE && n != SQD)
			post_send(n);
	for (n = 0; n < STATES; n++)
		wait_for(n, 1);
}

static void server(int fd)
{
	char word = 0;
	enum state n;

	for (n = IDLE; n < STATES; n++)
		meet_peer(n);
	for (n = IDLE; n < STATES; n++)
		wait_for(n, n != LATE);
	swap(fd, &word, &word, 1);
	swap(fd, &word, &word, 1);
	meet_peer(INIT);
	meet_peer(RTR);
	post_receive(LATE);
	live_again(ERR);
	for (n = 0; n < STATES; n++)
		post_send(n);
	for (n = 0; n < STATES; n++)
		wait_for(n, n == IDLE || n == SQD || n == ERR ? 2 : 1);
}

int main(int argc, char **argv)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC, .sq_sig_all = 1,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_context *context;
	struct ibv_pd *pd;
	char word = 0;
	enum state n;
	int fd;

	if (argc < 3)
		return 2;
	gid_index = atoi(argv[2]);
	setvbuf(stdout, NULL, _IOLBF, 0);
	context = open_device(argv[1]);
	if (ibv_query_gid(context, 1, gid_index, &ours.gid))
		fail("GID");
	pd = must(ibv_alloc_pd(context), "protection domain");
	cq = must(ibv_create_cq(context, 64, NULL, NULL, 0), "completion queue");
	mr = must(ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE), "region");
	init.send_cq = init.recv_cq = cq;
	for (n = 0; n < STATES; n++) {
		qp[n] = must(ibv_create_qp(pd, &init), "queue pair");
		ours.qpn[n] = qp[n]->qp_num;
		to_init(n);
		if (!argv[3] && n == LATE)
			continue;
		post_receive(n);
		post_receive(n);
	}
	fd = dial(argv[3]);
	swap(fd, &ours, &theirs, sizeof(ours));
	if (argv[3])
		client(fd);
	else
		server(fd);
	/* Neither destroys a queue pair before both have all. */
	swap(fd, &word, &word, 1);
	printf("goes on\n");
	return 0;
}
