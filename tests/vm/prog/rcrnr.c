// SPDX-License-Identifier: GPL-2.0
/*
 * rcrnr DEVICE GID-INDEX: Sends that find no receive, of queue pairs that a program
 * connects itself, and how long they wait ("receiver not ready"). Both queue pairs are
 * this process'. See rc_tests.h for what it prints.
 */
#include <unistd.h>

#include "rc_tests.h"

#define LEN 256
#define SLOTS 512
#define DEPTH 16

#define RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

/* Codes of times: 655.36 ms, 2.56 ms, 163.84 ms. */
#define LONG 0
#define SHORT 16
#define MEDIUM 28

static struct ibv_cq *cq, *peer_cq;
static struct ibv_qp *qp, *peer;
static struct ibv_srq *srq;
static struct ibv_mr *from_mr, *to_mr;
static unsigned char *from, *to;
static enum ibv_wc_status not_ready;

static struct ibv_qp *make(struct ibv_cq *of, struct ibv_srq *receives)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC, .send_cq = of, .recv_cq = of, .srq = receives,
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	return must(ibv_create_qp(pd, &init), "queue pair");
}

static void to_init(struct ibv_qp *one)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = RIGHTS };

	if (ibv_modify_qp(one, &attr, TO_INIT))
		fail("INIT");
}

static int set(struct ibv_qp *one, struct ibv_qp_attr attr, int mask)
{
	errno = ibv_modify_qp(one, &attr, mask);
	if (errno)
		fail("attributes");
	return 1;
}

static void nothing_left(void)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(cq, 1, &wc) > 0 || ibv_poll_cq(peer_cq, 1, &wc) > 0)
		;
}

/* A request that is lost fails after 4 s. */
static void connect_both(int rnr_retry, int min_rnr_timer)
{
	to_init(qp);
	to_init(peer);
	meet_patient(qp, &gid, gid_index, peer->qp_num, 17, 1, rnr_retry, 1);
	meet_patient(peer, &gid, gid_index, qp->qp_num, 17, 1, 7, min_rnr_timer);
	memset(to, 0, LEN * SLOTS);
}

/* Another pair. The peer's receives are those of `receives`, if it is there. */
static void begin_with(struct ibv_srq *receives, int rnr_retry, int min_rnr_timer)
{
	if (qp)
		ibv_destroy_qp(qp);
	if (peer)
		ibv_destroy_qp(peer);
	nothing_left();
	qp = make(cq, NULL);
	peer = make(peer_cq, receives);
	connect_both(rnr_retry, min_rnr_timer);
}

static void begin(int rnr_retry, int min_rnr_timer)
{
	begin_with(NULL, rnr_retry, min_rnr_timer);
}

static void post(uint64_t id, enum ibv_wr_opcode opcode, uint32_t len, int flags)
{
	struct ibv_sge sge = { (uintptr_t)from + id % SLOTS * LEN, len, from_mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = flags,
		.imm_data = htobe32(id),
		.wr.rdma = { (uintptr_t)to + id % SLOTS * LEN, to_mr->rkey },
	};

	errno = ibv_post_send(qp, &wr, &bad);
	if (errno)
		fail("request");
}

static void sends(uint64_t id)
{
	post(id, IBV_WR_SEND, LEN, IBV_SEND_SIGNALED);
}

static void writes(uint64_t id, int flags)
{
	post(id, IBV_WR_RDMA_WRITE, LEN, flags);
}

static void receives_of(uint64_t id, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)to + id % SLOTS * LEN, len, to_mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 };

	errno = peer->srq ? ibv_post_srq_recv(peer->srq, &wr, &bad) : ibv_post_recv(peer, &wr, &bad);
	if (errno)
		fail("receive");
}

static void receives(uint64_t id)
{
	receives_of(id, LEN);
}

static int completes_at(struct ibv_cq *at, uint64_t id, enum ibv_wc_status status)
{
	long stop = now_ms() + 60000;
	struct ibv_wc wc = { .wr_id = -1 };

	while (!ibv_poll_cq(at, 1, &wc) && now_ms() < stop)
		usleep(200);
	if (wc.wr_id == id && wc.status == status)
		return 1;
	printf("# completion %ld: %s\n", (long)wc.wr_id, ibv_wc_status_str(wc.status));
	return 0;
}

/* The next completion of a request, and that of a receive. */
static int completes(uint64_t id, enum ibv_wc_status status)
{
	return completes_at(cq, id, status);
}

static int succeeds(uint64_t id)
{
	return completes(id, IBV_WC_SUCCESS);
}

static int received(uint64_t id)
{
	return completes_at(peer_cq, id, IBV_WC_SUCCESS);
}

/* The peer has the data of that request, and has them now. */
static int placed(uint64_t id)
{
	return !memcmp(to + id % SLOTS * LEN, from + id % SLOTS * LEN, LEN);
}

/* No request completes for that time. */
static int quiet(int ms)
{
	long stop = now_ms() + ms;
	struct ibv_wc wc;

	while (now_ms() < stop) {
		if (ibv_poll_cq(cq, 1, &wc)) {
			printf("# completion %ld: %s\n", (long)wc.wr_id, ibv_wc_status_str(wc.status));
			return 0;
		}
		usleep(1000);
	}
	return 1;
}

static struct ibv_qp_attr query(struct ibv_qp *one)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (ibv_query_qp(one, &attr, IBV_QP_STATE | IBV_QP_RNR_RETRY | IBV_QP_MIN_RNR_TIMER, &init))
		fail("query");
	return attr;
}

/* Both are in RTS after that time. */
static int lives(int ms)
{
	return quiet(ms) && query(qp).qp_state == IBV_QPS_RTS && query(peer).qp_state == IBV_QPS_RTS;
}

/* The peer, whose receives are those of a process, has ended, too. */
static int both_in_error(void)
{
	long stop = now_ms() + 60000;

	while (query(peer).qp_state != IBV_QPS_ERR && now_ms() < stop)
		usleep(1000);
	return query(qp).qp_state == IBV_QPS_ERR && query(peer).qp_state == IBV_QPS_ERR;
}

/* All numbers, without a receive. */
static void too_late(void)
{
	char name[80];
	long began;
	int n, good;

	for (n = 0; n < 7; n++) {
		begin(n, MEDIUM);
		good = query(qp).rnr_retry == n && query(peer).min_rnr_timer == MEDIUM;
		began = now_ms();
		sends(1);
		sends(2);
		good = good && completes(1, not_ready);
		printf("# after %ld ms\n", now_ms() - began);
		/* The clock may be late by one when it begins. */
		good = good && now_ms() - began >= n * 16384 / 100;
		good = good && completes(2, IBV_WC_WR_FLUSH_ERR) && both_in_error();
		snprintf(name, sizeof(name), "a Send that is tried again %d times fails, and not before its time", n);
		told(good, name);
	}
	begin(1, LONG);
	began = now_ms();
	sends(1);
	told(completes(1, not_ready) && now_ms() - began >= 655, "the time is that of the receiver's code");
}

static void in_time(void)
{
	begin(6, LONG);
	sends(1);
	told(quiet(100), "a Send that may wait for 4 s does not complete without a receive");
	receives(1);
	told(succeeds(1) && placed(1) && received(1), "a receive that is posted in time takes it");
	sends(2);
	told(quiet(100), "the next Send waits, too");
	receives(2);
	told(succeeds(2) && placed(2) && received(2), "a receive that is posted in time takes the next Send");
	begin(7, SHORT);
	sends(1);
	told(succeeds(1), "a Send that is tried again without end completes when TCP has taken it");
	told(lives(1500), "it waits for its receive for longer than the others");
	receives(1);
	told(received(1) && placed(1), "a receive takes it in the end");
}

/* Three Sends, and two receives; in front of them what `before` posts. */
static int two_of_three(void (*before)(void), int flags)
{
	begin(1, MEDIUM);
	receives(2);
	receives(3);
	if (before)
		before();
	post(2, IBV_WR_SEND, LEN, flags);
	post(3, IBV_WR_SEND, LEN, flags);
	post(4, IBV_WR_SEND, LEN, flags);
	sends(5);
	if (flags && !(succeeds(2) && succeeds(3)))
		return 0;
	return completes(4, not_ready) && completes(5, IBV_WC_WR_FLUSH_ERR) && placed(2) && placed(3) &&
	       received(2) && received(3);
}

static void write_before(void)
{
	writes(1, 0);
}

static void signalled_write_before(void)
{
	writes(1, IBV_SEND_SIGNALED);
}

static int write_succeeds_first(void)
{
	begin(0, SHORT);
	signalled_write_before();
	sends(2);
	return succeeds(1) && placed(1) && completes(2, not_ready);
}

static void which(void)
{
	struct ibv_wc wc;

	told(two_of_three(NULL, IBV_SEND_SIGNALED), "the first Send without a receive fails, those before it succeed");
	told(two_of_three(NULL, 0), "the first Send without a receive fails if none is signalled");
	told(two_of_three(write_before, IBV_SEND_SIGNALED) && placed(1), "the first Send without a receive fails behind a Write, which is placed");
	told(write_succeeds_first(), "a Write before a Send that fails is placed, and succeeds");
	begin(3, SHORT);
	receives(1);
	post(1, IBV_WR_SEND, LEN, 0);
	told(received(1) && !ibv_poll_cq(cq, 1, &wc), "a Send that is not signalled succeeds without a word");
	receives(2);
	sends(2);
	told(succeeds(2), "a Send behind one that is not signalled succeeds");
}

static void refused(void)
{
	struct ibv_sge sge = { (uintptr_t)from, LEN, from_mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED, .wr.rdma = { (uintptr_t)to, to_mr->rkey + 1 },
	};

	begin(6, LONG);
	receives(1);
	sends(1);
	if (ibv_post_send(qp, &wr, &bad))
		fail("request");
	told(succeeds(1) && completes(2, IBV_WC_REM_ACCESS_ERR),
	     "a Send succeeds before a Write with a wrong key: remote access error");
	begin(6, LONG);
	receives(1);
	receives_of(2, LEN / 2);
	sends(1);
	sends(2);
	told(succeeds(1) && completes(2, IBV_WC_REM_INV_REQ_ERR),
	     "a Send that is longer than its receive: remote invalid request");
}

/* More than the queue holds, signalled or not. */
static void flow(void)
{
	int i, good = 1;

	begin(2, LONG);
	for (i = 0; i < DEPTH; i++)
		receives(i);
	for (i = 0; i < SLOTS + DEPTH && good; i++) {
		if (i >= DEPTH) {
			good = succeeds(i - DEPTH) && placed(i - DEPTH) && received(i - DEPTH);
			if (i < SLOTS)
				receives(i);
		}
		if (i < SLOTS)
			sends(i);
	}
	told(good, "each of many Sends is placed when it has completed");
	begin(2, LONG);
	for (i = 0, good = 1; i < SLOTS && good; i++) {
		int last = i % 4 == 3;

		if (i % 3)
			receives(i);
		post(i, i % 3 ? IBV_WR_SEND : IBV_WR_RDMA_WRITE, LEN, last ? IBV_SEND_SIGNALED : 0);
		if (!last)
			continue;
		good = succeeds(i) && placed(i) && placed(i - 1) && placed(i - 2) && placed(i - 3);
		nothing_left();
	}
	told(good, "Sends among Writes, some of them signalled, are placed when they have completed");
}

static void shared(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = DEPTH, .max_sge = 1 } };

	srq = must(ibv_create_srq(pd, &init), "shared receive queue");
	begin_with(srq, 0, SHORT);
	receives(1);
	sends(1);
	sends(2);
	told(succeeds(1) && received(1) && completes(2, not_ready), "a Send fails that finds a shared queue empty");
	begin_with(srq, 6, LONG);
	sends(3);
	told(quiet(100), "a Send that may wait does so at a shared queue");
	receives(3);
	told(succeeds(3) && placed(3) && received(3), "a receive of the shared queue takes it");
	ibv_destroy_qp(peer);
	peer = NULL;
	ibv_destroy_srq(srq);
}

static void again(void)
{
	begin(0, SHORT);
	sends(1);
	told(completes(1, not_ready) && both_in_error(), "a Send that may not wait fails");
	set(qp, (struct ibv_qp_attr){ .qp_state = IBV_QPS_RESET }, IBV_QP_STATE);
	set(peer, (struct ibv_qp_attr){ .qp_state = IBV_QPS_RESET }, IBV_QP_STATE);
	nothing_left();
	connect_both(7, SHORT);
	sends(2);
	told(query(qp).rnr_retry == 7 && succeeds(2) && lives(200), "a Send waits after a reset, as the program has it then");
	receives(2);
	told(received(2), "a receive takes it after a reset");
	set(qp, (struct ibv_qp_attr){ .qp_state = IBV_QPS_SQD }, IBV_QP_STATE);
	set(qp, (struct ibv_qp_attr){ .rnr_retry = 1 }, IBV_QP_RNR_RETRY);
	set(qp, (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS }, IBV_QP_STATE);
	receives(3);
	sends(3);
	told(query(qp).rnr_retry == 1 && succeeds(3) && placed(3), "a Send succeeds after the number was changed in SQD");
	set(peer, (struct ibv_qp_attr){ .min_rnr_timer = LONG }, IBV_QP_MIN_RNR_TIMER);
	told(query(peer).min_rnr_timer == LONG, "a query tells the time that was changed in RTS");
	sends(4);
	told(quiet(100), "a Send waits for the new time");
	receives(4);
	told(succeeds(4), "a receive takes it within the new time");
	set(peer, (struct ibv_qp_attr){ .min_rnr_timer = SHORT }, IBV_QP_MIN_RNR_TIMER);
	sends(5);
	told(completes(5, not_ready), "a Send fails after the time was changed back");
}

static void lost(void)
{
	begin(6, LONG);
	sends(1);
	told(quiet(100), "a Send waits at a peer that goes");
	ibv_destroy_qp(peer);
	peer = NULL;
	told(completes(1, of_infiniband(IBV_WC_RETRY_EXC_ERR)), "a Send fails if the peer goes while it waits");
}

static void immediate(void)
{
	begin(1, SHORT);
	receives(1);
	post(1, IBV_WR_SEND_WITH_IMM, LEN, IBV_SEND_SIGNALED);
	told(succeeds(1) && placed(1) && received(1), "a Send with immediate data succeeds");
	post(2, IBV_WR_SEND_WITH_IMM, LEN, IBV_SEND_SIGNALED);
	told(completes(2, not_ready), "a Send with immediate data fails without a receive");
	begin(1, SHORT);
	receives(1);
	post(1, IBV_WR_RDMA_WRITE_WITH_IMM, LEN, IBV_SEND_SIGNALED);
	told(succeeds(1) && placed(1) && received(1), "a Write with immediate data succeeds");
	post(2, IBV_WR_RDMA_WRITE_WITH_IMM, LEN, IBV_SEND_SIGNALED);
	told(completes(2, not_ready) && placed(2), "a Write with immediate data fails without a receive, and is placed");
}

int main(int argc, char **argv)
{
	int i;

	if (argc != 3)
		return 2;
	open_with(argv[1], argv[2]);
	not_ready = of_infiniband(IBV_WC_RNR_RETRY_EXC_ERR);
	cq = must(ibv_create_cq(context, 64, NULL, NULL, 0), "completion queue");
	peer_cq = must(ibv_create_cq(context, 64, NULL, NULL, 0), "completion queue");
	from = must(malloc(LEN * SLOTS), "memory");
	to = must(malloc(LEN * SLOTS), "memory");
	for (i = 0; i < LEN * SLOTS; i++)
		from[i] = 1 + (i + i / LEN) % 255;
	from_mr = must(ibv_reg_mr(pd, from, LEN * SLOTS, RIGHTS), "region");
	to_mr = must(ibv_reg_mr(pd, to, LEN * SLOTS, RIGHTS), "region");
	too_late();
	in_time();
	which();
	refused();
	flow();
	shared();
	again();
	lost();
	if (own_library)
		immediate();
	return failed ? 3 : 0;
}
