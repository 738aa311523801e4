// SPDX-License-Identifier: GPL-2.0
/*
 * rcstates DEVICE GID-INDEX: two queue pairs of a device whose programs connect
 * them, and what InfiniBand's verbs promise of their states and attributes. Prints
 * a line for each test ("ok ..." or "not ok ..."). Exit status 3: a test failed.
 */
#include <poll.h>
#include <unistd.h>

#include "rc_tests.h"

#define LEN 256

#define ALL_RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

/* A queue pair with a queue for its completions, and memory. */
struct end {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char *memory;
};

static struct end make(void)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1 },
		.sq_sig_all = 1,
	};
	struct end end;

	end.memory = must(calloc(1, LEN), "memory");
	end.cq = must(ibv_create_cq(context, 64, NULL, NULL, 0), "completion queue");
	init.send_cq = init.recv_cq = end.cq;
	end.qp = must(ibv_create_qp(pd, &init), "queue pair");
	end.mr = must(ibv_reg_mr(pd, end.memory, LEN, ALL_RIGHTS), "region");
	return end;
}

static void destroy(struct end *end)
{
	if (end->qp)
		ibv_destroy_qp(end->qp);
	ibv_dereg_mr(end->mr);
	ibv_destroy_cq(end->cq);
	free(end->memory);
}

static int to_init(struct end *end, int rights, int mask)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = rights,
	};

	return ibv_modify_qp(end->qp, &attr, mask);
}

static struct ibv_qp_attr rtr_attr(uint32_t qpn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_512, .dest_qp_num = qpn, .rq_psn = 0x123,
		.max_dest_rd_atomic = 3, .min_rnr_timer = 12,
		.ah_attr = {
			.is_global = 1, .port_num = 1, .sl = 2,
			.grh = { .dgid = gid, .sgid_index = gid_index, .hop_limit = 64,
				 .traffic_class = 0x20 },
		},
	};

	return attr;
}

static int to_rtr(struct end *end, uint32_t qpn)
{
	struct ibv_qp_attr attr = rtr_attr(qpn);

	return ibv_modify_qp(end->qp, &attr, TO_RTR);
}

static int to_rts(struct end *end, int timeout)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS, .timeout = timeout, .retry_cnt = 2, .rnr_retry = 7, .sq_psn = 0x456,
		.max_rd_atomic = 2,
	};

	return ibv_modify_qp(end->qp, &attr, TO_RTS);
}

static int to(struct end *end, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	return ibv_modify_qp(end->qp, &attr, IBV_QP_STATE);
}

static enum ibv_qp_state state_of(struct end *end)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	return ibv_query_qp(end->qp, &attr, IBV_QP_STATE, &init) ? IBV_QPS_UNKNOWN : attr.qp_state;
}

/* Connects two queue pairs; requests that are lost fail after 4.096 us << timeout, times 3. */
static int connect_both(struct end *a, struct end *b, int rights, int timeout)
{
	return to_init(a, rights, TO_INIT) || to_init(b, rights, TO_INIT) ||
	       to_rtr(a, b->qp->qp_num) || to_rtr(b, a->qp->qp_num) ||
	       to_rts(a, timeout) || to_rts(b, timeout);
}

static int post_recv(struct end *end, uint64_t id)
{
	struct ibv_sge sge = { (uintptr_t)end->memory, LEN, end->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 };

	return ibv_post_recv(end->qp, &wr, &bad);
}

static int post(struct end *end, uint64_t id, enum ibv_wr_opcode opcode, struct end *target)
{
	struct ibv_sge sge = { (uintptr_t)end->memory, 16, end->mr->lkey };
	struct ibv_send_wr *bad, wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = opcode };

	if (target) {
		wr.wr.rdma.remote_addr = (uintptr_t)target->memory;
		wr.wr.rdma.rkey = target->mr->rkey;
	}
	return ibv_post_send(end->qp, &wr, &bad);
}

/* The next completion, if one comes in time. */
static int next(struct end *end, int ms, struct ibv_wc *wc)
{
	long stop = now_ms() + ms;
	int n;

	while (!(n = ibv_poll_cq(end->cq, 1, wc)) && now_ms() < stop)
		usleep(200);
	if (n == 1)
		printf("# completion %lu: %s\n", (unsigned long)wc->wr_id, ibv_wc_status_str(wc->status));
	return n == 1;
}

static int completes(struct end *end, int ms, uint64_t id, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	return next(end, ms, &wc) && wc.wr_id == id && wc.status == status;
}

static int quiet(struct end *end, int ms)
{
	struct ibv_wc wc;

	return !next(end, ms, &wc);
}

static void transitions(void)
{
	struct end a = make(), b = make();
	struct ibv_qp_attr attr;

	told(state_of(&a) == IBV_QPS_RESET, "a new queue pair is in RESET");
	told(to_init(&a, 0, TO_INIT & ~IBV_QP_ACCESS_FLAGS) == EINVAL, "INIT without rights is refused");
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_INIT, .port_num = 1, .pkey_index = 1 };
	told(ibv_modify_qp(a.qp, &attr, TO_INIT) == EINVAL, "INIT with an unknown P_Key is refused");
	told(to_rtr(&a, b.qp->qp_num) == EINVAL, "RESET does not lead to RTR");
	told(to_rts(&a, 14) == EINVAL, "RESET does not lead to RTS");
	told(!to_init(&a, ALL_RIGHTS, TO_INIT) && state_of(&a) == IBV_QPS_INIT, "RESET leads to INIT");
	told(!to_init(&a, 0, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS), "INIT leads to INIT");
	told(to_rts(&a, 14) == EINVAL, "INIT does not lead to RTS");
	attr = rtr_attr(b.qp->qp_num);
	told(ibv_modify_qp(a.qp, &attr, TO_RTR & ~IBV_QP_DEST_QPN) == EINVAL,
	     "RTR without a number is refused");
	told(ibv_modify_qp(a.qp, &attr, TO_RTR | IBV_QP_TIMEOUT) == EINVAL,
	     "RTR with an attribute of RTS is refused");
	attr.ah_attr.is_global = 0;
	told(ibv_modify_qp(a.qp, &attr, TO_RTR) == EINVAL, "RTR without a GID is refused");
	attr = rtr_attr(b.qp->qp_num);
	memset(attr.ah_attr.grh.dgid.raw + 12, 0xe0, 1);
	told(ibv_modify_qp(a.qp, &attr, TO_RTR) != 0, "RTR with a multicast GID is refused");
	attr = rtr_attr(b.qp->qp_num);
	attr.max_dest_rd_atomic = 200;
	told(ibv_modify_qp(a.qp, &attr, TO_RTR) == EINVAL, "RTR with too many Reads is refused");
	told(state_of(&a) == IBV_QPS_INIT, "what is refused changes no state");
	told(!to_rtr(&a, b.qp->qp_num) && state_of(&a) == IBV_QPS_RTR, "INIT leads to RTR");
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 8 };
	told(ibv_modify_qp(a.qp, &attr, TO_RTS) == EINVAL, "RTS with 8 tries is refused");
	told(!to_rts(&a, 14) && state_of(&a) == IBV_QPS_RTS, "RTR leads to RTS");
	told(!to(&a, IBV_QPS_SQD) && state_of(&a) == IBV_QPS_SQD, "RTS leads to SQD");
	told(to(&a, IBV_QPS_RTR) == EINVAL && to(&a, IBV_QPS_SQD) == 0, "SQD leads to SQD, and not to RTR");
	told(!to(&a, IBV_QPS_RTS) && state_of(&a) == IBV_QPS_RTS, "SQD leads to RTS");
	told(!to(&a, IBV_QPS_ERR) && state_of(&a) == IBV_QPS_ERR, "RTS leads to ERR");
	told(!to(&a, IBV_QPS_RESET) && state_of(&a) == IBV_QPS_RESET, "ERR leads to RESET");
	destroy(&a);
	destroy(&b);
}

static void attributes(struct end *a, struct end *b)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr q;

	/* All that the library can ask for. */
	told(!ibv_query_qp(a->qp, &q, (IBV_QP_DEST_QPN << 1) - 1, &init) && q.dest_qp_num == b->qp->qp_num && q.rq_psn == 0x123 &&
	     q.sq_psn == 0x456 && q.path_mtu == IBV_MTU_512 && q.timeout == 10 && q.retry_cnt == 2 &&
	     q.rnr_retry == 7 && q.min_rnr_timer == 12 && q.max_rd_atomic == 2 &&
	     q.max_dest_rd_atomic == 3 && q.port_num == 1 && q.qp_access_flags == ALL_RIGHTS,
	     "a query tells what was set");
	told(q.ah_attr.is_global && !memcmp(&q.ah_attr.grh.dgid, &gid, sizeof(gid)) &&
	     q.ah_attr.grh.sgid_index == gid_index && q.ah_attr.grh.traffic_class == 0x20 &&
	     q.ah_attr.sl == 2 && q.ah_attr.port_num == 1, "a query tells the way to the peer");
}

static void data(void)
{
	struct end a = make(), b = make();
	int i, good = 1;

	told(!to_init(&a, ALL_RIGHTS, TO_INIT) && !to_init(&b, ALL_RIGHTS, TO_INIT) && !post_recv(&b, 1) &&
	     !to_rtr(&b, a.qp->qp_num) && !to_rtr(&a, b.qp->qp_num) && !to_rts(&a, 10) &&
	     !post(&a, 2, IBV_WR_SEND, NULL) && completes(&a, 5000, 2, IBV_WC_SUCCESS) &&
	     completes(&b, 5000, 1, IBV_WC_SUCCESS),
	     "a Send that is posted at once fills a receive of INIT, of a peer in RTR");
	told(!to_rts(&b, 10) && !post_recv(&a, 3) && !post(&b, 4, IBV_WR_SEND, NULL) &&
	     completes(&b, 5000, 4, IBV_WC_SUCCESS) && completes(&a, 5000, 3, IBV_WC_SUCCESS),
	     "the called end sends, too");
	attributes(&a, &b);
	for (i = 0; i < 8; i++)
		good = good && !post(&a, 10 + i, IBV_WR_RDMA_READ, &b);
	for (i = 0; i < 8; i++)
		good = good && completes(&a, 5000, 10 + i, IBV_WC_SUCCESS);
	told(good, "more Reads than the limits allow at a time complete");
	told(!post(&a, 20, IBV_WR_SEND, NULL) && completes(&a, 5000, 20, IBV_WC_SUCCESS) && quiet(&b, 1500) &&
	     !post_recv(&b, 21) && completes(&b, 5000, 21, IBV_WC_SUCCESS),
	     "a Send waits for its receive for as long as it takes");

	/* Reset, with receives and a connection. */
	told(!post_recv(&a, 30) && !post_recv(&b, 31) && !to(&a, IBV_QPS_RESET) && !to(&b, IBV_QPS_RESET) &&
	     quiet(&a, 100) && quiet(&b, 100) && state_of(&a) == IBV_QPS_RESET,
	     "RTS leads to RESET at once, and nothing completes");
	told(!connect_both(&a, &b, ALL_RIGHTS, 10) && !post_recv(&b, 32) && !post(&a, 33, IBV_WR_SEND, NULL) &&
	     completes(&a, 5000, 33, IBV_WC_SUCCESS) && completes(&b, 5000, 32, IBV_WC_SUCCESS),
	     "queue pairs that were reset are connected again");
	destroy(&a);
	destroy(&b);
}

static void ends(void)
{
	struct end a = make(), b = make();
	struct ibv_wc wc;
	long began;
	int i;

	told(!connect_both(&a, &b, ALL_RIGHTS, 10) && !post_recv(&b, 1) && !post(&a, 2, IBV_WR_SEND, NULL) &&
	     completes(&a, 5000, 2, IBV_WC_SUCCESS) && completes(&b, 5000, 1, IBV_WC_SUCCESS),
	     "two queue pairs are connected");
	post_recv(&b, 3);
	ibv_destroy_qp(a.qp);
	a.qp = NULL;
	told(quiet(&b, 500) && state_of(&b) == IBV_QPS_RTS, "a peer that is destroyed leaves the other end as it is");
	began = now_ms();
	post(&b, 4, IBV_WR_SEND, NULL);
	post(&b, 5, IBV_WR_SEND, NULL);
	for (i = 0; next(&b, 10000, &wc) && wc.status == IBV_WC_SUCCESS; i++)
		post(&b, 6 + i, IBV_WR_SEND, NULL);
	printf("# after %ld ms\n", now_ms() - began);
	told(wc.wr_id == 4 && wc.status == of_infiniband(IBV_WC_RETRY_EXC_ERR) && now_ms() - began >= 12,
	     "a request that has no peer fails after its tries");
	told(next(&b, 1000, &wc) && wc.status == IBV_WC_WR_FLUSH_ERR && next(&b, 1000, &wc) &&
	     wc.status == IBV_WC_WR_FLUSH_ERR && state_of(&b) == IBV_QPS_ERR,
	     "what is posted behind it is flushed, and the state is ERR");
	destroy(&a);
	destroy(&b);
}

static void rights(void)
{
	struct end a = make(), b = make();
	struct ibv_wc wc;

	told(!connect_both(&a, &b, IBV_ACCESS_LOCAL_WRITE, 10), "connect two queue pairs without remote rights");
	post_recv(&b, 1);
	post(&a, 2, IBV_WR_RDMA_WRITE, &b);
	told(next(&b, 5000, &wc) && wc.status == IBV_WC_WR_FLUSH_ERR && state_of(&b) == IBV_QPS_ERR,
	     "a Write that was not allowed ends the connection");
	destroy(&a);
	destroy(&b);
}

static void itself(void)
{
	struct end a = make();
	struct ibv_wc wc;
	int i, n = 0;

	told(!to_init(&a, ALL_RIGHTS, TO_INIT) && !post_recv(&a, 1) && !to_rtr(&a, a.qp->qp_num) &&
	     !to_rts(&a, 10) && !post(&a, 2, IBV_WR_SEND, NULL),
	     "a queue pair is connected to itself");
	for (i = 0; i < 2 && next(&a, 5000, &wc); i++)
		n += wc.status == IBV_WC_SUCCESS && wc.wr_id == (wc.opcode == IBV_WC_RECV ? 1 : 2);
	told(n == 2, "it receives what it sends");
	told(!post(&a, 3, IBV_WR_RDMA_WRITE, &a) && completes(&a, 5000, 3, IBV_WC_SUCCESS) &&
	     !post(&a, 4, IBV_WR_RDMA_READ, &a) && completes(&a, 5000, 4, IBV_WC_SUCCESS),
	     "it writes and reads its own memory");
	told(!to(&a, IBV_QPS_RESET) && quiet(&a, 100) && !to_init(&a, ALL_RIGHTS, TO_INIT) && !post_recv(&a, 5) &&
	     !to_rtr(&a, a.qp->qp_num) && !to_rts(&a, 10) && !post(&a, 6, IBV_WR_RDMA_READ, &a) &&
	     completes(&a, 5000, 6, IBV_WC_SUCCESS),
	     "it is connected to itself again after a reset");
	destroy(&a);
}

static int to_sqd(struct end *end, int notify)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = notify };

	return ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY);
}

/* In SQD: whether requests are left that had begun. */
static int draining(struct end *end)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	return !ibv_query_qp(end->qp, &attr, IBV_QP_STATE, &init) && attr.qp_state == IBV_QPS_SQD &&
	       attr.sq_draining;
}

/* The next event is that the end's send queue has drained, and comes in time. */
static int drained(struct end *end, int ms)
{
	struct pollfd fd = { .fd = context->async_fd, .events = POLLIN };
	struct ibv_async_event event;
	int good;

	if (poll(&fd, 1, ms) != 1 || ibv_get_async_event(context, &event))
		return 0;
	good = event.event_type == IBV_EVENT_SQ_DRAINED && event.element.qp == end->qp;
	printf("# event: %s\n", ibv_event_type_str(event.event_type));
	ibv_ack_async_event(&event);
	return good;
}

static int none_drained(void)
{
	struct pollfd fd = { .fd = context->async_fd, .events = POLLIN };

	return poll(&fd, 1, 0) == 0;
}

static int set(struct end *end, struct ibv_qp_attr attr, int mask)
{
	return ibv_modify_qp(end->qp, &attr, mask);
}

/* What may change in SQD. */
static void change(struct end *a, struct end *b)
{
	struct ibv_qp_attr attr = rtr_attr(b->qp->qp_num), q;
	struct ibv_qp_init_attr init;

	attr.ah_attr.sl = 3;
	attr.timeout = 12;
	attr.retry_cnt = 1;
	attr.qp_access_flags = IBV_ACCESS_REMOTE_READ;
	told(!set(a, attr, IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_ACCESS_FLAGS) &&
	     !ibv_query_qp(a->qp, &q, IBV_QP_STATE, &init) && q.qp_state == IBV_QPS_SQD && q.ah_attr.sl == 3 &&
	     q.timeout == 12 && q.retry_cnt == 1 && q.qp_access_flags == IBV_ACCESS_REMOTE_READ,
	     "attributes are changed in SQD");
	told(set(a, attr, IBV_QP_DEST_QPN) == EINVAL, "the peer's number is not changed in SQD");
	attr.ah_attr.grh.traffic_class = 0x40;
	told(set(a, attr, IBV_QP_AV) == EOPNOTSUPP, "the way to the peer is not changed in SQD");
	told(!set(a, (struct ibv_qp_attr){ .max_rd_atomic = 0 }, IBV_QP_MAX_QP_RD_ATOMIC) &&
	     !set(a, (struct ibv_qp_attr){ .max_rd_atomic = 2 }, IBV_QP_MAX_QP_RD_ATOMIC),
	     "the limit of Reads falls and rises in SQD");
}

static void drains(void)
{
	struct end a = make(), b = make();
	struct ibv_async_event event;
	int i;

	/* Events of the tests before. */
	while (!none_drained() && !ibv_get_async_event(context, &event))
		ibv_ack_async_event(&event);
	/* The Read waits at the peer behind a Send, which waits for its receive. */
	told(!connect_both(&a, &b, ALL_RIGHTS, 10) && !post(&a, 1, IBV_WR_SEND, NULL) &&
	     completes(&a, 5000, 1, IBV_WC_SUCCESS) && !post(&a, 2, IBV_WR_RDMA_READ, &b),
	     "a Read has no answer yet");
	for (i = 0; i < 1000 && !to_sqd(&a, 0) && !draining(&a); i++)
		to(&a, IBV_QPS_RTS);
	told(draining(&a), "a Read that has begun drains in SQD");
	told(!to(&a, IBV_QPS_RTS) && !to_sqd(&a, 1) && draining(&a) && none_drained(),
	     "RTS leads to SQD while it drains");
	told(!post(&a, 3, IBV_WR_RDMA_WRITE, &b), "a request is posted in SQD");
	told(!post_recv(&b, 4) && completes(&b, 5000, 4, IBV_WC_SUCCESS) && completes(&a, 5000, 2, IBV_WC_SUCCESS),
	     "the Read completes in SQD");
	told(drained(&a, 5000) && !draining(&a) && state_of(&a) == IBV_QPS_SQD, "an event tells that all is done");
	memset(a.memory, 0x5a, LEN);
	told(quiet(&a, 300) && b.memory[0] != 0x5a, "what is posted in SQD waits");
	told(!post_recv(&a, 5) && !post(&b, 6, IBV_WR_SEND, NULL) && completes(&b, 5000, 6, IBV_WC_SUCCESS) &&
	     completes(&a, 5000, 5, IBV_WC_SUCCESS) && !post(&b, 7, IBV_WR_RDMA_READ, &a) &&
	     completes(&b, 5000, 7, IBV_WC_SUCCESS),
	     "requests of the peer are served in SQD");
	change(&a, &b);
	memset(a.memory, 0x5a, LEN);
	told(!to(&a, IBV_QPS_RTS) && completes(&a, 5000, 3, IBV_WC_SUCCESS) && !post(&a, 8, IBV_WR_RDMA_READ, &b) &&
	     completes(&a, 5000, 8, IBV_WC_SUCCESS) && b.memory[15] == 0x5a && none_drained(),
	     "SQD leads to RTS, and what has waited goes on");
	told(!to_sqd(&a, 1) && drained(&a, 5000) && !draining(&a), "an event tells that there was nothing to do");
	told(!post(&a, 9, IBV_WR_SEND, NULL) && !to(&a, IBV_QPS_ERR) && completes(&a, 5000, 9, IBV_WC_WR_FLUSH_ERR) &&
	     state_of(&a) == IBV_QPS_ERR,
	     "SQD leads to ERR, and what has waited is flushed");
	to(&a, IBV_QPS_RESET);
	to(&b, IBV_QPS_RESET);

	/* Without a peer. */
	told(!connect_both(&a, &b, ALL_RIGHTS, 10) && !post_recv(&b, 10) && !post(&a, 11, IBV_WR_SEND, NULL) &&
	     completes(&a, 5000, 11, IBV_WC_SUCCESS) && completes(&b, 5000, 10, IBV_WC_SUCCESS),
	     "queue pairs that were in SQD are connected again");
	ibv_destroy_qp(b.qp);
	b.qp = NULL;
	told(!to_sqd(&a, 1) && drained(&a, 5000) && !post(&a, 12, IBV_WR_SEND, NULL) && quiet(&a, 500) &&
	     state_of(&a) == IBV_QPS_SQD,
	     "a request that waits in SQD needs no peer");
	told(!to(&a, IBV_QPS_RTS) && completes(&a, 5000, 12, of_infiniband(IBV_WC_RETRY_EXC_ERR)), "it fails for lack of one in RTS");
	told(!to(&a, IBV_QPS_RESET) && !to_init(&a, ALL_RIGHTS, TO_INIT) && !to_rtr(&a, a.qp->qp_num) &&
	     !to_rts(&a, 10) && !to_sqd(&a, 0) && !post(&a, 13, IBV_WR_SEND, NULL) && !to(&a, IBV_QPS_RESET) &&
	     quiet(&a, 100),
	     "SQD leads to RESET, and nothing completes");
	destroy(&a);
	destroy(&b);
}

static void names(void)
{
	struct end a = make(), b = make(), c = make();

	/* The one with the lowest number calls the other, which expects another one. */
	told(!to_init(&a, ALL_RIGHTS, TO_INIT) && !to_init(&b, ALL_RIGHTS, TO_INIT) &&
	     !to_init(&c, ALL_RIGHTS, TO_INIT) && !to_rtr(&a, c.qp->qp_num) && !to_rtr(&c, b.qp->qp_num) &&
	     !to_rts(&a, 10) && !post_recv(&c, 1) && !post(&a, 2, IBV_WR_SEND, NULL) && quiet(&c, 1000),
	     "a queue pair that expects another one takes no data");
	told(!to_rtr(&b, c.qp->qp_num) && !to_rts(&b, 10) && !post(&b, 3, IBV_WR_SEND, NULL) &&
	     completes(&b, 5000, 3, IBV_WC_SUCCESS) && completes(&c, 5000, 1, IBV_WC_SUCCESS),
	     "the one that it expects reaches it");
	told(completes(&a, 30000, 2, of_infiniband(IBV_WC_RETRY_EXC_ERR)), "a request without a peer fails in the end");
	destroy(&a);
	destroy(&b);
	destroy(&c);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	open_with(argv[1], argv[2]);
	transitions();
	data();
	ends();
	rights();
	itself();
	drains();
	names();
	return failed ? 3 : 0;
}
