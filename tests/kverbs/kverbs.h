/* SPDX-License-Identifier: GPL-2.0 */
/*
 * kverbs: a kernel consumer of an RDMA device, which connects to itself over
 * the RDMA CM. Loading the module with addr= runs all tests, and prints KTAP
 * to the kernel's log.
 */
#ifndef KVERBS_H
#define KVERBS_H

#include <linux/completion.h>
#include <linux/printk.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#define TIME_LIMIT (20 * HZ)

enum {
	REQS = 256,
	MAX_SGE = 4,
	ALL = -1,
	HOSTS_PORT = 7720,		/* for the tests between two hosts */
	REMOTE = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE,
};

struct end;

/* How a pair of ends is set up; 0: the default. */
struct opts {
	enum ib_poll_context poll;	/* of the CQs; 0: IB_POLL_SOFTIRQ */
	size_t len;			/* of each end's memory; 0: a page */
	u32 sq, rq;			/* depths; 0: 64 */
	int sge;			/* of sends; 0: MAX_SGE, ALL: as many as the device has */
	u32 ctxs;			/* the QP's max_rdma_ctxs */
	int scq;			/* entries of the client's send CQ */
	bool srq;			/* the server has an SRQ */
	bool pool;			/* the CQs come from the core's pool */
	int vector;			/* of the client's CQs; the server's have the next one */
	struct pair *with;		/* share the PDs of this pair */
	int (*before_accept)(struct end *e);	/* called at the server */
};

/* A work request under way. */
struct req {
	struct ib_cqe cqe;
	struct completion done;
	struct ib_wc wc;
	int cpu;			/* that polled the completion */
};

/* Kernel memory with its DMA address. */
struct mem {
	u8 *p;
	u64 dma;
	size_t len;
	struct ib_device *dev;
};

struct end {
	struct pair *pair;
	struct rdma_cm_id *id;
	struct ib_pd *pd;
	struct ib_cq *scq, *rcq;
	struct ib_srq *srq;
	struct mem m;
	struct ib_mr *mr[4];		/* regions of new_mr() */
	struct req own;			/* for reg_mr() and inv_mr() */
	struct completion up;
	unsigned long events;		/* asynchronous events of the QP, a bit each */
};

/*
 * Two ends of one connection on this host, with the requests of a test. It is
 * freed after the QPs are drained, so no request outlives it, however the test
 * ends.
 */
struct pair {
	struct opts o;
	struct rdma_cm_id *listener;
	struct end c, s;
	int error;
	struct req r[REQS];
};

extern char *addr;
extern uint drain_limit, local_dma_lkey;

int pair_open(struct pair *p, const struct opts *o);
/* Sets up only the server's end, for a client on another host, or only the client's end. */
int pair_serve(struct pair *p, const struct opts *o);
int pair_connect(struct pair *p, const struct opts *o, const char *peer);
/* Does nothing if the pair is not open. */
void pair_close(struct pair *p);
static inline struct ib_qp *qp_of(struct end *e) { return e->id->qp; }

int mem_new(struct mem *m, struct ib_device *dev, size_t len);
void mem_free(struct mem *m);
u8 byte_at(size_t i, u8 seed);
void mem_fill(struct mem *m, u8 seed);
bool mem_is(struct mem *m, size_t off, size_t len, u8 seed);

void req_init(struct req *r);
/* Waits for the request's completion. Returns its status, or -ETIMEDOUT. */
int req_wait(struct end *e, struct req *r);
/* Elements and requests for the end's memory. */
struct ib_sge sge_of(struct end *e, u32 off, u32 len);
int post_recv(struct end *e, struct req *r, u32 off, u32 len);
int post(struct end *e, struct req *r, struct ib_send_wr *wr);
int post_op(struct end *e, struct req *r, enum ib_wr_opcode op, int flags, struct ib_sge *sge,
	    u64 raddr, u32 key);
/* Waits until the QP is in ERROR. */
int wait_error(struct end *e);
/* Sends a message of @len bytes from client to server, and checks that it arrives. */
int message(struct pair *p, u32 len, u8 seed);

/* A new region for @pages pages, with none mapped; freed with the end. */
struct ib_mr *new_mr(struct end *e, u32 pages);
struct ib_mr *new_mr_of(struct end *e, enum ib_mr_type type, u32 most);
/* Registers a region by work request, with a new key. */
int reg_mr(struct end *e, struct ib_mr *mr, int access);
int inv_mr(struct end *e, u32 key);
/* Registers the first @len bytes of an end's memory. */
struct ib_mr *reg_plain(struct end *e, u32 len, int access);

struct test {
	const char *name;
	/* @p is open with these options, p[1] is not open; both are closed afterwards. */
	int (*run)(struct pair *p);
	struct opts o;
};

/* The tests between two hosts: the server's side, the client's side. */
int hosts_serve(struct pair *p);
void hosts_test(struct pair *p, const char *peer);

/* The same of those with lend=1. */
int lend_serve(struct pair *p);
void lend_test(struct pair *p, const char *peer);

extern const struct test op_tests[], atomic_tests[], mr_tests[], post_tests[], list_tests[],
	queue_tests[], drain_tests[];

/* Ends a test, or a function of one, if the condition is false, and prints the place. */
#define EXPECT(cond, ...) do {						\
	if (!(cond)) {							\
		pr_err("kverbs: # %s:%d: %s\n", __func__, __LINE__, #cond); \
		pr_err("kverbs: # " __VA_ARGS__);			\
		return -EINVAL;						\
	}								\
} while (0)
#define DO(call) do {							\
	int _ret = (call);						\
									\
	if (_ret) {							\
		pr_err("kverbs: # %s:%d: %s: %d\n", __func__, __LINE__, #call, _ret); \
		return _ret;						\
	}								\
} while (0)
/* Expects that the request completes with this status. */
#define ENDS(e, r, status) do {						\
	int _is = req_wait(e, r);					\
									\
	EXPECT(_is == (status), "status %d (%s)\n", _is,		\
	       _is < 0 ? "none" : ib_wc_status_msg(_is));		\
} while (0)

#endif
