/* SPDX-License-Identifier: GPL-2.0 */
/*
 * kverbs: a kernel consumer of an RDMA device that talks to itself over the
 * connection manager. Loading it with addr= runs all tests; what they say is in
 * the kernel's log, as KTAP. It is unloaded afterwards.
 */
#ifndef KVERBS_H
#define KVERBS_H

#include <linux/completion.h>
#include <linux/printk.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

/* How a pair of ends is set up; zero: the usual. */
struct opts {
	enum ib_poll_context poll;	/* of the CQs; 0: IB_POLL_DIRECT */
	u32 sq, rq;			/* depths; 0: 64 */
	int scq;			/* entries of the client's send CQ */
	bool srq;			/* the server's receives are shared */
	int vector;
};

struct end {
	struct pair *pair;
	struct rdma_cm_id *id;
	struct ib_pd *pd;
	struct ib_cq *scq, *rcq;
	struct ib_srq *srq;
	struct completion up, down;
	unsigned long events;		/* of the QP, a bit each */
	unsigned long cq_events;
};

/* Two ends of one connection on this host. */
struct pair {
	struct opts o;
	struct rdma_cm_id *listener;
	struct end c, s;
	int error;
};

/* A work request under way. */
struct req {
	struct ib_cqe cqe;
	struct completion done;
	struct ib_wc wc;
};

/* Kernel memory with its DMA address. */
struct mem {
	u8 *p;
	u64 dma;
	size_t len;
	struct ib_device *dev;
};

extern char *addr;

int pair_open(struct pair *p, const struct opts *o);
void pair_close(struct pair *p);
static inline struct ib_qp *qp_of(struct end *e) { return e->id->qp; }

int mem_new(struct mem *m, struct ib_device *dev, size_t len);
void mem_free(struct mem *m);
void mem_fill(struct mem *m, u8 seed);
bool mem_is(struct mem *m, size_t off, size_t len, u8 seed);

void req_init(struct req *r);
/* Waits for the request's completion; its status, or -ETIMEDOUT. */
int req_wait(struct end *e, struct req *r);
int post_recv(struct end *e, struct req *r, struct mem *m, u32 off, u32 len);
int post(struct end *e, struct req *r, struct ib_send_wr *wr);
/* An element of memory that local_dma_lkey reaches. */
struct ib_sge sge_of(struct end *e, struct mem *m, u32 off, u32 len);
int post_op(struct end *e, struct req *r, enum ib_wr_opcode op, int flags, struct ib_sge *sge,
	    u64 raddr, u32 key);

/* A registration by work request, with the key that it got. */
int reg_mr(struct end *e, struct ib_mr *mr, int access);
int inv_mr(struct end *e, u32 key);

typedef int (*test_fn)(void);
struct test {
	const char *name;
	test_fn run;
};

extern const struct test ops_tests[], queue_tests[];

/* Ends a test that finds something wrong, with the place. */
#define EXPECT(cond, ...) do {						\
	if (!(cond)) {							\
		pr_err("kverbs: # %s:%d: %s\n", __func__, __LINE__, #cond); \
		pr_err("kverbs: # " __VA_ARGS__);			\
		ret = -EINVAL;						\
		goto out;						\
	}								\
} while (0)
#define DO(call) do {							\
	ret = (call);							\
	if (ret) {							\
		pr_err("kverbs: # %s:%d: %s: %d\n", __func__, __LINE__, #call, ret); \
		goto out;						\
	}								\
} while (0)

#endif
