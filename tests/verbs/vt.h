/* SPDX-License-Identifier: GPL-2.0 */
/*
 * vt: verbs tests between two processes. Every test is one function, which
 * runs on both sides at once, in a new process each. The sides synchronize
 * over an out-of-band TCP connection (oob.c), so that the RDMA connection
 * carries nothing but the test's own data.
 *
 * No function returns an error. Errors end the process through fail(), which
 * tells the other side, so that it need not wait for its time limit.
 */
#ifndef VT_H
#define VT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <netinet/in.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define BIT(n) (1u << (n))
#define PAGE 4096ul

struct test;
double slow(void);
unsigned int time_limit(const struct test *t);
extern int wait_ms;			/* limit for something that must happen */
enum { QUIET_MS = 200 };		/* wait for something that must not happen */

/* One side of a running test. */
struct side {
	bool client;			/* this side connects */
	bool active;			/* this side starts the operations */
	int oob;
	uint64_t seed;			/* the same on both sides */
	unsigned int rounds;		/* length of the random tests */
	bool gentle;			/* avoid operations that siw fails */
	bool hasty;			/* the test is expected to fail: short waits */
	uint32_t arg;			/* from the test's entry in the table */
	struct sockaddr_storage local, peer;
	struct rdma_event_channel *ech;
	struct rdma_cm_id *bound;	/* keeps the device chosen by address */
	struct ibv_context *ctx;
	struct ibv_pd *pd;
};

enum test_flags {
	T_QUICK = 1,			/* in the quick subset (-q) */
	T_BOTH = 2,			/* also with the roles swapped */
	T_NODEV = 4,			/* opens the device itself, or needs none */
	T_LONG = 8,			/* only when asked for by name or -l */
};

struct test {
	const char *name;
	void (*run)(struct side *s);
	unsigned int flags;
	uint32_t arg;
	unsigned int seconds;		/* time limit; 0: the usual one */
};

/* Each t_*.c ends in one such table; its last entry has no name. */
extern const struct test
	ops_tests[], align_tests[], sge_tests[], order_tests[], mr_tests[], rereg_tests[],
	dmabuf_tests[], prot_tests[], window_tests[], window_refused_tests[],
	window_domain_tests[], placement_tests[], turns_tests[], recv_tests[], late_tests[],
	srq_tests[], srq_resize_tests[], cq_tests[], moderate_tests[], resize_tests[],
	qp_tests[], modify_tests[], reset_tests[], scale_tests[], cm_tests[], close_tests[],
	race_tests[], big_tests[], stress_tests[], hostile_tests[];

/* run.c: verdicts */
/* V_CRASH: the process died or hangs. */
enum verdict { V_PASS, V_FAIL, V_SKIP, V_CRASH };

struct result {
	int verdict;			/* of both sides together */
	char own[400];			/* this side's message */
	char peer[400];			/* the other side's message */
};

void fail_at(const char *file, int line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4), noreturn));
void fail_with_peer(const char *message) __attribute__((noreturn));
void skip(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
void run_child(struct side *s, const struct test *t, int out)
	__attribute__((noreturn));

#define fail(...) fail_at(__FILE__, __LINE__, __VA_ARGS__)
#define CHECK(cond, ...) do { if (!(cond)) fail(__VA_ARGS__); } while (0)
/* For calls that return 0 on success. */
#define CALL(call) do {							\
	int rv_ = (call);						\
	if (rv_)							\
		fail("%s: %d (errno %d)", #call, rv_, errno);		\
} while (0)

/* known.c: another driver's faults, and evidence of them */
extern bool known_client, known_server;
extern unsigned int run_first, run_of;
void read_known(const char *file);
void read_faults(const char *file);
const char *known_reason(const char *name, bool reverse, bool *run);
void known_ran(const char *reason, bool passed);
void tell_stale(void);
const char *excuse(const struct result *r);
unsigned long crc_errors(const struct side *s);
unsigned long unread(const struct side *s);

uint64_t now_ms(void);
void sleep_ms(unsigned int ms);

/* oob.c: the out-of-band connection */
enum oob_type { OOB_RUN = 1, OOB_DATA, OOB_PASS, OOB_FAIL, OOB_SKIP };

struct oob_run {			/* the client's request to run a test */
	char name[48];
	uint64_t seed;
	uint32_t rounds;
	uint32_t server_active;
	uint32_t gentle, hasty;
};

int oob_listen(const char *addr, const char *port);
int oob_connect(const char *addr, const char *port);
bool oob_put(int fd, enum oob_type type, const void *data, size_t len);
int oob_get(int fd, void *data, size_t size, size_t *len);
void oob_send(struct side *s, const void *data, size_t len);
void oob_recv(struct side *s, void *data, size_t len);
void sync_sides(struct side *s);

/* mem.c: buffers with their expected content */
struct buf {
	uint8_t *p, *model;
	size_t len;
	struct ibv_mr *mr;
};

struct rmem {				/* the address and key of the other side's buffer */
	uint64_t addr;
	uint32_t rkey;
	uint32_t pad;
	uint64_t len;
};

enum {
	ACC_LOCAL = IBV_ACCESS_LOCAL_WRITE,
	ACC_ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
};

uint64_t mix(uint64_t *state);
uint64_t below(uint64_t *state, uint64_t limit);
void fill(uint8_t *p, size_t len, uint64_t seed);
void buf_map(struct buf *b, size_t len);
void buf_new(struct side *s, struct buf *b, size_t len, int access);
void buf_free(struct buf *b);
void buf_fill(struct buf *b, size_t off, size_t len, uint64_t seed);
void buf_expect(struct buf *b, size_t off, size_t len, uint64_t seed);
void buf_verify_at(const char *file, int line, struct buf *b, const char *what);
#define buf_verify(b, what) buf_verify_at(__FILE__, __LINE__, b, what)
struct ibv_sge sge_of(struct buf *b, size_t off, size_t len);
void give_rmem(struct side *s, struct buf *b);
struct rmem take_rmem(struct side *s);

/* conn.c: devices and connections */
enum own {
	OWN_QP = 1,			/* made by ibv_create_qp(), connected by its number */
	OWN_EARLY = 2,			/* moved through its states before connect or accept */
	OWN_LATE = 4,			/* and after ESTABLISHED */
};

struct conn_opts {
	unsigned int sq, rq;		/* queue depths; 0: 64 */
	bool no_rq;
	unsigned int scq_size, rcq_size; /* 0: large enough for the queues */
	bool events;			/* completion channel for both CQs */
	bool sig_all;
	bool silent;			/* the client does not send a first message */
	unsigned int own;		/* enum own: the test makes and moves the QP, not librdmacm */
	int tos;			/* type of service; 0: none is set */
	int ird, ord;			/* 0: 16; -1: none */
	int qp_ird, qp_ord;		/* as set on the QP itself; 0: not set; -1: none */
	unsigned int max_inline;
	uint64_t send_ops;		/* for ibv_wr_*(); 0: none */
	struct ibv_pd *pd;
	struct ibv_cq *scq, *rcq;
	struct ibv_srq *srq;
	const void *pdata;
	uint8_t pdata_len;
};

struct conn {
	struct side *s;
	struct conn_opts o;
	struct rdma_event_channel *ech;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *scq, *rcq;
	struct ibv_qp *qp;
	uint8_t pdata[256];		/* from the other side */
	uint8_t pdata_len;
	int ird, ord;			/* from the event */
	uint64_t token;			/* buffer and region of the mark */
	struct ibv_mr *token_mr;
	bool disconnected;
};

void dev_open(struct side *s);
void dev_close(struct side *s);
void set_port(struct sockaddr_storage *sa, uint16_t port);
uint16_t port_of(const struct sockaddr *sa);
/* Gets and acknowledges the next event, and returns a copy; fails if none comes in time. */
struct rdma_cm_event cm_event(struct rdma_event_channel *ech, unsigned int ms,
			      uint8_t *pdata);
void cm_expect(struct rdma_event_channel *ech, enum rdma_cm_event_type type,
	       struct rdma_cm_event *ev, uint8_t *pdata);
bool cm_quiet(struct rdma_event_channel *ech, unsigned int ms);
void conn_resolve(struct side *s, struct rdma_cm_id *id, struct rdma_event_channel *ech,
		  struct sockaddr_storage *to);
void conn_setup(struct side *s, struct conn *c, const struct conn_opts *o);
void conn_param(struct conn *c, struct rdma_conn_param *p);
struct rdma_cm_id *listen_open(struct side *s, struct rdma_event_channel *ech, int backlog);
void conn_open(struct side *s, struct conn *c, const struct conn_opts *o);
void conn_again(struct conn *c);
void conn_expect_down(struct conn *c);
void conn_expect_closed(struct conn *c);
void conn_expect_error(struct conn *c);
void conn_close(struct conn *c);
void conn_free(struct conn *c);
enum ibv_qp_state qp_state(struct ibv_qp *qp);
/* Whether the program has rsiw's own provider, which knows more than siw's. */
bool own_provider(struct side *s);
/* The type of the next asynchronous event, or -1 if none comes in time. */
int async_event(struct side *s, unsigned int ms);

/* uverbs.c: verbs that the user library does not ask for; they return errno */
int rereg(struct ibv_mr *mr, unsigned int flags, struct ibv_pd *pd, void *addr, size_t len,
	  uint64_t iova, int access);
int reg_dmabuf(struct ibv_pd *pd, int fd, uint64_t offset, size_t len, uint64_t iova, int access,
	       struct ibv_mr *mr);
int dereg(struct ibv_mr *mr);
int moderate(struct ibv_cq *cq, unsigned int count, unsigned int us);
/* ibv_resize_cq() to at least "want" entries; *cqe is how many, and "answer" the driver's part. */
int resize(struct ibv_cq *cq, unsigned int want, uint32_t *cqe, void *answer, size_t len);
/* ibv_modify_srq() with a size, the driver's part of the request being "len" bytes of the answer's address. */
int resize_srq(struct ibv_srq *srq, unsigned int size, void *answer, unsigned int len);

/* wr.c: work requests and completions */
void post(struct conn *c, enum ibv_wr_opcode op, uint64_t id, unsigned int flags,
	  struct ibv_sge *sge, int num, uint64_t raddr, uint32_t rkey);
int try_post(struct conn *c, enum ibv_wr_opcode op, uint64_t id, unsigned int flags,
	     struct ibv_sge *sge, int num, uint64_t raddr, uint32_t rkey);
void post_recv(struct conn *c, uint64_t id, struct ibv_sge *sge, int num);
void post_srq(struct ibv_srq *srq, uint64_t id, struct ibv_sge *sge, int num);
struct ibv_wc poll_at(const char *file, int line, struct ibv_cq *cq);
#define poll_one(cq) poll_at(__FILE__, __LINE__, cq)
bool poll_quiet(struct ibv_cq *cq, unsigned int ms);
void good_at(const char *file, int line, struct ibv_cq *cq, uint64_t id,
	     enum ibv_wc_opcode op, int64_t bytes);
/* Expects that the next completion is this one, with success; bytes -1: any. */
#define good(cq, id, op, bytes) good_at(__FILE__, __LINE__, cq, id, op, bytes)
void bad_at(const char *file, int line, struct ibv_cq *cq, uint64_t id, uint32_t mask);
/* Expects that the next completion is this one, with a status of the mask. */
#define bad(cq, id, mask) bad_at(__FILE__, __LINE__, cq, id, mask)
#define FLUSHED BIT(IBV_WC_WR_FLUSH_ERR)

/* A mark is a small Send: when it arrives, everything sent before it has arrived. */
void mark_arm(struct conn *c);
void mark_send(struct conn *c, uint64_t token);
void mark_wait(struct conn *c, uint64_t token);

#endif
