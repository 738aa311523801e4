// SPDX-License-Identifier: GPL-2.0
/*
 * rcstand DEVICE GID-INDEX TIMEOUT [SERVER]: two processes have a queue pair for each state in which
 * that of the client stands still, until the client gets SIGUSR1. Then all go on, and pass messages
 * both ways. The client prints "stands", and in the end "goes on".
 *
 * If the client ends instead, by whatever means, the server is told nothing of its queue pairs, until
 * it sends. It prints "told nothing", and in the end "alone". TIMEOUT is the code of each try.
 */
#include <signal.h>

#include "rc_meet.h"

#define LIMIT_MS 60000
/* For so long the server looks whether it is told anything. */
#define SILENCE_MS 1000

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
static int gid_index, timeout;
/* Messages that each queue pair has received, and receives that wait. */
static int received[STATES], posted[STATES];
/* Of a Send whose peer is not there: siw's library has the nearest. */
static enum ibv_wc_status gone = IBV_WC_GENERAL_ERR;

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
	posted[n]++;
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
		.qp_state = IBV_QPS_RTS, .timeout = timeout, .retry_cnt = 7, .rnr_retry = 7,
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
	posted[n] = 0;
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
			posted[wc.wr_id % STATES] -= wc.wr_id < STATES;
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

static void check_state(enum state n, enum ibv_qp_state state)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	ibv_query_qp(qp[n], &attr, IBV_QP_STATE, &init);
	if (attr.qp_state == state)
		return;
	printf("queue pair %d is in state %d\n", n, attr.qp_state);
	exit(1);
}

static void check_states(void)
{
	enum state n;

	for (n = 0; n < STATES; n++)
		check_state(n, stands[n]);
}

/* Waits for a completion until then. */
static int completion(struct ibv_wc *wc, long end)
{
	while (now_ms() < end) {
		if (ibv_poll_cq(cq, 1, wc) == 1)
			return 1;
		usleep(1000);
	}
	return 0;
}

/* The client has gone, in peace or not. Its queue pairs are missed when something is sent to them. */
static void alone(void)
{
	long began = now_ms();
	int left = STATES;
	struct ibv_wc wc;
	enum state n;

	if (completion(&wc, began + SILENCE_MS)) {
		printf("queue pair %lu is told: %s\n", (unsigned long)wc.wr_id, ibv_wc_status_str(wc.status));
		exit(1);
	}
	for (n = 0; n < STATES; n++)
		check_state(n, n < IDLE ? IBV_QPS_INIT : IBV_QPS_RTS);
	printf("told nothing\n");
	meet_peer(INIT);
	meet_peer(RTR);
	for (n = 0; n < STATES; n++) {
		post_send(n);
		left += posted[n];
	}
	while (left-- > 0) {
		if (!completion(&wc, began + LIMIT_MS)) {
			printf("%d requests have not completed\n", left + 1);
			exit(1);
		}
		printf("%s of queue pair %lu after %ld ms: %s\n", wc.wr_id < STATES ? "receive" : "Send",
		       (unsigned long)wc.wr_id % STATES, now_ms() - began, ibv_wc_status_str(wc.status));
		if (wc.status == (wc.wr_id < STATES ? IBV_WC_WR_FLUSH_ERR : gone))
			continue;
		exit(1);
	}
	for (n = 0; n < STATES; n++)
		check_state(n, IBV_QPS_ERR);
	printf("alone\n");
	exit(0);
}

/* Waits for the other process; false if it is no more. */
static int goes_on(int fd)
{
	char word = 0;

	return write(fd, &word, 1) == 1 && read(fd, &word, 1) == 1;
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
	if (!goes_on(fd))
		alone();
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
	struct ibv_device_attr attr;
	struct ibv_context *context;
	struct ibv_pd *pd;
	char word = 0;
	enum state n;
	int fd;

	if (argc < 4)
		return 2;
	gid_index = atoi(argv[2]);
	timeout = atoi(argv[3]);
	setvbuf(stdout, NULL, _IOLBF, 0);
	context = open_device(argv[1]);
	if (!ibv_query_device(context, &attr) && attr.atomic_cap != IBV_ATOMIC_NONE)
		gone = IBV_WC_RETRY_EXC_ERR;
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
		if (!argv[4] && n == LATE)
			continue;
		post_receive(n);
		post_receive(n);
	}
	fd = dial(argv[4]);
	swap(fd, &ours, &theirs, sizeof(ours));
	if (argv[4])
		client(fd);
	else
		server(fd);
	/* Neither destroys a queue pair before both have all. */
	swap(fd, &word, &word, 1);
	printf("goes on\n");
	return 0;
}
