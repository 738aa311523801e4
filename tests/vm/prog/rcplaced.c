// SPDX-License-Identifier: GPL-2.0
/*
 * rcplaced DEVICE GID-INDEX: what the completion of an RDMA Write says to a program that
 * connects its queue pairs itself: the peer has the data in its memory. Both queue pairs
 * are this process'. Prints a line for each test ("ok ..." or "not ok ..."). Exit status
 * 3: a test failed.
 */
#include <unistd.h>

#include "rc_tests.h"

#define LEN (8 << 20)
#define PIECE (64 << 10)
#define DEPTH 16

#define RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

static struct ibv_cq *cq, *peer_cq;
static struct ibv_qp *qp, *peer;
static struct ibv_mr *from_mr, *to_mr;
static unsigned char *from, *to;
static unsigned char round;

static struct ibv_qp *make(struct ibv_cq *of)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC, .send_cq = of, .recv_cq = of,
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = RIGHTS };
	struct ibv_qp *made = must(ibv_create_qp(pd, &init), "queue pair");

	if (ibv_modify_qp(made, &attr, TO_INIT))
		fail("INIT");
	return made;
}

/* Another pair, of so many Reads. A request that is lost fails after 4 s. */
static void begin(int reads)
{
	struct ibv_wc wc;

	if (qp)
		ibv_destroy_qp(qp);
	if (peer)
		ibv_destroy_qp(peer);
	while (ibv_poll_cq(cq, 1, &wc) > 0 || ibv_poll_cq(peer_cq, 1, &wc) > 0)
		;
	qp = make(cq);
	peer = make(peer_cq);
	meet(qp, &gid, gid_index, peer->qp_num, 17, reads);
	meet(peer, &gid, gid_index, qp->qp_num, 17, reads);
	memset(from, ++round, LEN);
}

static void post(uint64_t id, enum ibv_wr_opcode opcode, size_t at, uint32_t len, int flags, uint32_t key)
{
	struct ibv_sge sge = { (uintptr_t)(opcode == IBV_WR_RDMA_READ ? to : from) + at, len,
			       opcode == IBV_WR_RDMA_READ ? to_mr->lkey : from_mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = flags,
		.wr.rdma = { (uintptr_t)(opcode == IBV_WR_RDMA_READ ? from : to) + at, key },
	};

	errno = ibv_post_send(qp, &wr, &bad);
	if (errno)
		fail("request");
}

static void post_recv(void)
{
	struct ibv_sge sge = { (uintptr_t)to, 64, to_mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = 99, .sg_list = &sge, .num_sge = 1 };

	errno = ibv_post_recv(peer, &wr, &bad);
	if (errno)
		fail("receive");
}

static void write_at(uint64_t id, size_t at, uint32_t len, int flags)
{
	post(id, IBV_WR_RDMA_WRITE, at, len, flags, to_mr->rkey);
}

/* The next completion is of that request, and has that status. */
static int completes(uint64_t id, enum ibv_wc_status status)
{
	long stop = now_ms() + 60000;
	struct ibv_wc wc = { .wr_id = -1 };

	while (!ibv_poll_cq(cq, 1, &wc) && now_ms() < stop)
		;
	if (wc.wr_id == id && wc.status == status)
		return 1;
	printf("# completion %ld: %s\n", (long)wc.wr_id, ibv_wc_status_str(wc.status));
	return 0;
}

/* The data of this round are there. */
static int placed(size_t at, size_t len)
{
	size_t i;

	/* What was sent last is looked at first. */
	for (i = len; i-- > 0;) {
		if (__atomic_load_n(&to[at + i], __ATOMIC_RELAXED) != round) {
			printf("# the byte at %zu is not there\n", at + i);
			return 0;
		}
	}
	return 1;
}

static void one(void)
{
	begin(1);
	write_at(1, 0, LEN, IBV_SEND_SIGNALED);
	told(completes(1, IBV_WC_SUCCESS) && placed(0, LEN), "a Write has completed: the peer has placed it");
	begin(0);
	write_at(1, 0, LEN, IBV_SEND_SIGNALED);
	told(completes(1, IBV_WC_SUCCESS) && placed(0, LEN), "also where neither end allows Reads");
	post(2, IBV_WR_RDMA_READ, 0, 16, IBV_SEND_SIGNALED, from_mr->rkey);
	told(completes(2, IBV_WC_LOC_QP_OP_ERR), "a Read is refused there");
}

/* As many at a time as the queue holds. */
static int flow(int count, int flags)
{
	int i;

	for (i = 0; i < count + DEPTH; i++) {
		if (i >= DEPTH && !(completes(i - DEPTH, IBV_WC_SUCCESS) && placed((i - DEPTH) * (size_t)PIECE, PIECE)))
			return 0;
		if (i < count)
			write_at(i, i * (size_t)PIECE, PIECE, IBV_SEND_SIGNALED | flags);
	}
	return 1;
}

static void many(void)
{
	int i, good;

	begin(1);
	told(flow(LEN / PIECE, 0), "each of many Writes is placed when it has completed");
	begin(1);
	told(flow(LEN / PIECE, IBV_SEND_FENCE), "so is each of many with a fence");

	begin(1);
	for (good = 1, i = 0; i < 64 && good; i++) {
		write_at(2 * i, i * 512, 512, IBV_SEND_SIGNALED);
		post(2 * i + 1, IBV_WR_RDMA_READ, LEN / 2 + i * 512, 512, IBV_SEND_SIGNALED, from_mr->rkey);
		if (i < 4)
			continue;
		good = completes(2 * i - 8, IBV_WC_SUCCESS) && placed((i - 4) * 512, 512) &&
		       completes(2 * i - 7, IBV_WC_SUCCESS) && placed(LEN / 2 + (i - 4) * 512, 512);
	}
	told(good, "Writes and Reads complete in order, with one Read at a time");
}

/* The peer has no receive before a Write has completed. */
static void before_send(void)
{
	begin(1);
	write_at(1, 0, PIECE, IBV_SEND_SIGNALED);
	post(2, IBV_WR_SEND, 0, 64, IBV_SEND_SIGNALED, 0);
	told(completes(1, IBV_WC_SUCCESS) && placed(0, PIECE), "a Write does not wait for a Send behind it");
	post_recv();
	told(completes(2, IBV_WC_SUCCESS), "the Send completes");
	write_at(3, 0, 64, IBV_SEND_SIGNALED);
	write_at(4, 64, 64, IBV_SEND_SIGNALED);
	post(5, IBV_WR_SEND, 0, 64, IBV_SEND_SIGNALED, 0);
	told(completes(3, IBV_WC_SUCCESS) && completes(4, IBV_WC_SUCCESS), "nor does one that follows another");
	post_recv();
	told(completes(5, IBV_WC_SUCCESS), "its Send completes");
}

static void unsignalled(void)
{
	struct ibv_wc wc;
	int i;

	begin(1);
	post_recv();
	for (i = 0; i < 4; i++)
		write_at(i, i * (size_t)(LEN / 4), LEN / 4, 0);
	post(4, IBV_WR_SEND, 0, 0, IBV_SEND_SIGNALED, 0);
	told(completes(4, IBV_WC_SUCCESS) && placed(0, LEN), "a Send completes behind Writes: they are placed");
	told(!ibv_poll_cq(cq, 1, &wc), "Writes that are not signalled complete without a word");
	for (i = 0; i < 10 * DEPTH; i++) {
		write_at(i, 0, 64, i % DEPTH == DEPTH - 1 ? IBV_SEND_SIGNALED : 0);
		if (i % DEPTH == DEPTH - 1 && !completes(i, IBV_WC_SUCCESS))
			break;
	}
	told(i == 10 * DEPTH, "of a queue's length of Writes one is signalled");
}

/* The peer writes all of the memory, which takes longer than the way. */
static void write_back(void)
{
	struct ibv_sge sge = { (uintptr_t)to, LEN, to_mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = 98, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = { (uintptr_t)from, from_mr->rkey },
	};

	/* It is under way when its first bytes are there. */
	to[0] = round + 1;
	if (ibv_post_send(peer, &wr, &bad))
		fail("request of the peer");
	while (__atomic_load_n(from, __ATOMIC_RELAXED) != (unsigned char)(round + 1))
		;
}

static void refused(void)
{
	begin(1);
	write_at(1, 0, 64, IBV_SEND_SIGNALED);
	told(completes(1, IBV_WC_SUCCESS), "a Write before one that is refused");
	post(2, IBV_WR_RDMA_WRITE, 0, 64, IBV_SEND_SIGNALED, to_mr->rkey + 1);
	told(completes(2, IBV_WC_REM_ACCESS_ERR), "a Write with a wrong key: remote access error");
	begin(1);
	write_at(1, 0, 64, IBV_SEND_SIGNALED);
	post(2, IBV_WR_RDMA_READ, 0, 64, IBV_SEND_SIGNALED, from_mr->rkey + 1);
	told(completes(1, IBV_WC_SUCCESS) && completes(2, IBV_WC_REM_ACCESS_ERR),
	     "a Read with a wrong key behind a Write: remote access error");
	begin(1);
	write_back();
	write_at(1, 0, 64, IBV_SEND_SIGNALED);
	post(2, IBV_WR_RDMA_READ, 0, 64, IBV_SEND_SIGNALED, from_mr->rkey + 1);
	told(completes(1, IBV_WC_SUCCESS) && completes(2, IBV_WC_REM_ACCESS_ERR),
	     "a Read with a wrong key fails while the peer, in the middle of a Write, has not confirmed the Write before it");
	begin(1);
	write_at(1, 0, 64, IBV_SEND_SIGNALED);
	post(2, IBV_WR_RDMA_WRITE, LEN + 32, 64, IBV_SEND_SIGNALED, to_mr->rkey);
	told(completes(1, IBV_WC_SUCCESS) && placed(0, 64) && completes(2, IBV_WC_LOC_PROT_ERR),
	     "a request that cannot be sent fails behind a Write that is placed");
	begin(1);
	write_at(1, 0, 64, IBV_SEND_SIGNALED);
	post(2, IBV_WR_RDMA_READ, LEN - 32, 64, IBV_SEND_SIGNALED, from_mr->rkey);
	told(completes(1, IBV_WC_SUCCESS) && placed(0, 64) && completes(2, IBV_WC_LOC_PROT_ERR),
	     "so does a Read that has no sink");
	begin(1);
	post(3, IBV_WR_RDMA_WRITE, LEN - 32, 64, IBV_SEND_SIGNALED, to_mr->rkey);
	write_at(4, 0, 64, IBV_SEND_SIGNALED);
	told(completes(3, IBV_WC_REM_ACCESS_ERR) && completes(4, IBV_WC_WR_FLUSH_ERR),
	     "a Write beyond the region's end: remote access error, the next is flushed");
}

static void lost(void)
{
	unsigned char *last = to + LEN - 1;
	long stop = now_ms() + 60000;

	/* The way of pieces that are sent together, and of the question behind the last. */
	begin(1);
	write_at(1, LEN - 128, 64, IBV_SEND_SIGNALED);
	write_at(2, LEN - 64, 64, IBV_SEND_SIGNALED);
	while (__atomic_load_n(last, __ATOMIC_RELAXED) != round && now_ms() < stop)
		;
	ibv_destroy_qp(peer);
	peer = NULL;
	told(completes(1, IBV_WC_SUCCESS) && completes(2, IBV_WC_SUCCESS),
	     "a peer that goes when it sees the data has placed them");
	begin(1);
	write_at(1, 0, 64, IBV_SEND_SIGNALED);
	told(completes(1, IBV_WC_SUCCESS), "a Write before the peer goes");
	write_at(2, 0, LEN, IBV_SEND_SIGNALED);
	ibv_destroy_qp(peer);
	peer = NULL;
	told(completes(2, of_infiniband(IBV_WC_RETRY_EXC_ERR)), "a Write that the peer has not placed fails");
	begin(1);
	write_at(3, 0, 64, IBV_SEND_SIGNALED);
	told(completes(3, IBV_WC_SUCCESS) && placed(0, 64), "another pair is connected");
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	open_with(argv[1], argv[2]);
	cq = must(ibv_create_cq(context, 64, NULL, NULL, 0), "completion queue");
	peer_cq = must(ibv_create_cq(context, 64, NULL, NULL, 0), "completion queue");
	/* More than there is room for. */
	from = must(calloc(1, LEN + 64), "memory");
	to = must(malloc(LEN), "memory");
	from_mr = must(ibv_reg_mr(pd, from, LEN + 64, RIGHTS), "region");
	to_mr = must(ibv_reg_mr(pd, to, LEN, RIGHTS), "region");
	one();
	many();
	before_send();
	unsignalled();
	refused();
	lost();
	return failed ? 3 : 0;
}
