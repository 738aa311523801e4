// SPDX-License-Identifier: GPL-2.0
/*
 * rccount DEVICE GID-INDEX QUEUE-PAIRS ROUNDS: queue pairs of a device, and a local
 * thread with the processor's own atomic instructions, change a word of memory at
 * once. Prints a line for each test ("ok ..." or "not ok ..."). Exit status 3: a
 * test failed.
 */
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

#include "rc.h"

#define MOST_PAIRS 32
/* Requests that a queue pair has under way. */
#define DEPTH 4
#define MOST (MOST_PAIRS * DEPTH)
#define LIMIT_MS 120000
#define RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

enum kind { ADD, SWAP, LOCK };

/* One request under way, and what it goes on with. */
struct caller {
	struct ibv_qp *qp;
	uint64_t compare;	/* of its CmpSwap */
	uint32_t left;
	bool holds;		/* the lock */
};

/* The counter, and a result for each caller: what a request refers to. */
static struct {
	uint64_t word;
	uint64_t result[MOST];
} memory __attribute__((aligned(8)));

static struct caller callers[MOST];
static struct ibv_qp *called[MOST_PAIRS];
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static union ibv_gid gid;
static int gid_index, number;
static bool failed;

/* Values that requests have found and increased, and those that the local thread has not. */
static uint64_t *taken, *left_out;
static uint32_t taken_count, left_out_count, total;
static uint64_t local, wrong;
/* What the lock protects. */
static uint64_t guarded;
static bool over;

static void told(bool good, const char *name)
{
	failed |= !good;
	printf("%sok %s\n", good ? "" : "not ", name);
	fflush(stdout);
}

static struct ibv_qp *make_qp(void)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq, .sq_sig_all = 1,
		.cap = {
			.max_send_wr = DEPTH, .max_recv_wr = 1, .max_send_sge = 1,
			.max_recv_sge = 1,
		},
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = RIGHTS,
	};
	struct ibv_qp *qp = must(ibv_create_qp(pd, &init), "queue pair");

	if (ibv_modify_qp(qp, &attr, TO_INIT))
		fail("INIT");
	return qp;
}

static void post(struct caller *c, enum kind how)
{
	int i = c - callers;
	struct ibv_sge sge = { (uintptr_t)&memory.result[i], 8, mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = i, .sg_list = &sge, .num_sge = 1,
		.opcode = how == ADD ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_ATOMIC_CMP_AND_SWP,
		.wr.atomic = { .remote_addr = (uintptr_t)&memory.word, .rkey = mr->rkey },
	};

	switch (how) {
	case ADD:
		wr.wr.atomic.compare_add = 1;
		break;
	case SWAP:
		wr.wr.atomic.compare_add = c->compare;
		wr.wr.atomic.swap = c->compare + 1;
		break;
	case LOCK:
		/* The local thread is 1. */
		wr.wr.atomic.compare_add = c->holds ? i + 2 : 0;
		wr.wr.atomic.swap = c->holds ? 0 : i + 2;
		break;
	}
	if (ibv_post_send(c->qp, &wr, &bad))
		fail("post");
}

/* Two steps, between which another holder would come if there were two. */
static void count_guarded(void)
{
	uint64_t value = __atomic_load_n(&guarded, __ATOMIC_ACQUIRE);

	__atomic_store_n(&guarded, value + 1, __ATOMIC_RELEASE);
}

static bool replace(uint64_t from, uint64_t to)
{
	return __atomic_compare_exchange_n(&memory.word, &from, to, false, __ATOMIC_SEQ_CST,
					   __ATOMIC_RELAXED);
}

/* A request has found a value. Returns whether the caller has a round less. */
static bool found(struct caller *c, enum kind how, uint64_t value)
{
	switch (how) {
	case ADD:
		break;
	case SWAP:
		if (value != c->compare) {
			c->compare = value;
			return false;
		}
		c->compare = value + 1;
		break;
	case LOCK:
		if (c->holds) {
			wrong += value != (uint64_t)(c - callers) + 2;
			c->holds = false;
			return true;
		}
		c->holds = !value;
		if (c->holds)
			count_guarded();
		return false;
	}
	taken[taken_count++] = value;
	return true;
}

/* The local thread sees all values in their order, but for those that requests have increased. */
static void leave_out(uint64_t *from, uint64_t to)
{
	wrong += to < *from;
	for (; *from < to; ++*from) {
		if (left_out_count < total)
			left_out[left_out_count++] = *from;
		else
			wrong++;
	}
}

static void *run_local(void *arg)
{
	enum kind how = *(enum kind *)arg;
	uint64_t next = 0;

	while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
		switch (how) {
		case SWAP:
			/* Each change fails all that are under way: one for each of theirs. */
			if (__atomic_load_n(&memory.word, __ATOMIC_ACQUIRE) == next) {
				sched_yield();
				continue;
			}
			/* fallthrough */
		case ADD:
			leave_out(&next, __atomic_fetch_add(&memory.word, 1, __ATOMIC_SEQ_CST));
			next++;
			break;
		case LOCK:
			if (!replace(0, 1))
				continue;
			count_guarded();
			wrong += !replace(1, 0);
			break;
		}
		local++;
	}
	if (how != LOCK)
		leave_out(&next, memory.word);
	return NULL;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(uint64_t *)a, y = *(uint64_t *)b;

	return (x > y) - (x < y);
}

/* Callers, for so many rounds each, and the local thread. Returns whether all completed. */
static bool run(enum kind how, uint32_t rounds)
{
	int i, n, under_way = 0;
	long began = now_ms();
	struct ibv_wc wc[16];
	bool good = true;
	pthread_t thread;

	memory.word = guarded = local = wrong = 0;
	taken_count = left_out_count = 0;
	total = number * rounds;
	over = false;
	if (pthread_create(&thread, NULL, run_local, &how))
		fail("thread");
	for (i = 0; i < number; i++) {
		callers[i] = (struct caller){ .qp = callers[i].qp, .left = rounds };
		post(&callers[i], how);
		under_way++;
	}
	while (under_way && now_ms() - began < LIMIT_MS) {
		n = ibv_poll_cq(cq, 16, wc);
		if (n <= 0)
			sched_yield();
		for (i = 0; i < n; i++) {
			struct caller *c = &callers[wc[i].wr_id];

			under_way--;
			if (wc[i].status) {
				printf("# completion %lu: %s\n", (unsigned long)wc[i].wr_id,
				       ibv_wc_status_str(wc[i].status));
				good = false;
				continue;
			}
			if (found(c, how, memory.result[wc[i].wr_id]))
				c->left--;
			if (!c->left)
				continue;
			post(c, how);
			under_way++;
		}
	}
	__atomic_store_n(&over, true, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	printf("# %u by %d requests at a time, %lu by the processor, in %ld ms\n", total, number,
	       (unsigned long)local, now_ms() - began);
	return good && !under_way;
}

static void counted(enum kind how, uint32_t rounds, const char *sum, const char *values)
{
	bool complete = run(how, rounds);

	printf("# the counter is %lu, and lost %ld; values out of order: %lu\n",
	       (unsigned long)memory.word, (long)(local + total - memory.word),
	       (unsigned long)wrong);
	told(complete && local && memory.word == local + total, sum);
	qsort(taken, taken_count, sizeof(*taken), by_value);
	told(complete && !wrong && taken_count == total && left_out_count == total &&
	     !memcmp(taken, left_out, total * sizeof(*taken)), values);
}

int main(int argc, char **argv)
{
	int i, pairs, rounds;

	if (argc < 5)
		return 2;
	gid_index = atoi(argv[2]);
	pairs = atoi(argv[3]);
	rounds = atoi(argv[4]);
	number = pairs * DEPTH;
	if (pairs < 1 || number > MOST || rounds < 50)
		return 2;
	taken = must(calloc(number * rounds, sizeof(*taken)), "memory");
	left_out = must(calloc(number * rounds, sizeof(*left_out)), "memory");
	context = open_device(argv[1]);
	if (ibv_query_gid(context, 1, gid_index, &gid))
		fail("GID");
	pd = must(ibv_alloc_pd(context), "protection domain");
	cq = must(ibv_create_cq(context, 2 * MOST, NULL, NULL, 0), "completion queue");
	mr = must(ibv_reg_mr(pd, &memory, sizeof(memory), RIGHTS), "region");
	for (i = 0; i < number; i++)
		callers[i].qp = i % DEPTH ? callers[i - 1].qp : make_qp();
	for (i = 0; i < pairs; i++) {
		called[i] = make_qp();
		meet(called[i], &gid, gid_index, callers[i * DEPTH].qp->qp_num, 18, DEPTH);
		meet(callers[i * DEPTH].qp, &gid, gid_index, called[i]->qp_num, 18, DEPTH);
	}

	/* Most CmpSwaps find that another one came first. */
	counted(ADD, rounds, "FetchAdd: the sum is that of all increments",
		"FetchAdd: no two increments have found the same value");
	counted(SWAP, rounds / 50, "CmpSwap: the sum is that of all increments",
		"CmpSwap: no two increments have found the same value");
	i = run(LOCK, rounds / 50);
	printf("# counted %lu under the lock; found it with another: %lu\n",
	       (unsigned long)guarded, (unsigned long)wrong);
	told(i && local && !memory.word && !wrong && guarded == local + total,
	     "CmpSwap: a lock has one holder at a time");
	return failed ? 3 : 0;
}
