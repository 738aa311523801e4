/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The user-space provider of rsiw: objects and what its files share.
 *
 * A ring is memory that the kernel shares. The side that fills an element stores its flags last,
 * with release; the other side loads them first, with acquire, and stores 0 when it is done.
 * Positions count without end and are masked.
 */

#ifndef RSIW_H
#define RSIW_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/driver.h>
#include <rdma/siw-abi.h>
#include <util/compiler.h>

#include "rsiw-abi.h"

/* The elements of a Write with immediate; the one behind them has the immediate. */
#define RSIW_IMM_SGE (SIW_MAX_SGE - 1)
/* The most inline data that a program can ask for. */
#define RSIW_MAX_INLINE 512

/*
 * A lock that an object of one thread does not take. Inline, as taking it would be a tenth of a
 * post otherwise.
 */
struct rsiw_lock {
	atomic_bool taken;
	bool needed;
};

static inline void rsiw_lock_init(struct rsiw_lock *lock, bool needed)
{
	atomic_init(&lock->taken, false);
	lock->needed = needed;
}

void rsiw_lock_contended(struct rsiw_lock *lock);

static inline void rsiw_lock(struct rsiw_lock *lock)
{
	if (likely(lock->needed) &&
	    unlikely(atomic_exchange_explicit(&lock->taken, true, memory_order_acquire)))
		rsiw_lock_contended(lock);
}

static inline void rsiw_unlock(struct rsiw_lock *lock)
{
	atomic_store_explicit(&lock->taken, false, memory_order_release);
}

struct rsiw_context {
	struct verbs_context base;
	/* Of enum rsiw_features, granted. */
	uint32_t features;
};

struct rsiw_td {
	struct ibv_td base;
	atomic_int users;
};

/* A protection domain; or a parent domain, which has one, and may have a thread domain. */
struct rsiw_pd {
	struct ibv_pd base;
	struct rsiw_pd *of;
	struct rsiw_td *td;
	atomic_int users;
};

/* A ring of completions, which the word that arms events follows. */
struct rsiw_cq_ring {
	struct siw_cqe *queue;
	uint32_t mask;
	struct rsiw_cq_ring *newer;
};

struct rsiw_cq {
	struct verbs_cq base;
	/* The ring that is polled, and its element of the completion that is read by accessors. */
	struct siw_cqe *queue;
	struct siw_cqe *current;
	uint32_t mask;
	uint32_t get;
	struct rsiw_lock lock;
	/* The same ring with those that came after it, and whether there are any. By `lock`. */
	struct rsiw_cq_ring *oldest;
	bool resized;
	/* Of the newest ring. Changed and used with `arm_lock`: events are armed while polling. */
	atomic_uint *armed;
	pthread_mutex_t arm_lock;
};

/* The receive queue of a queue pair, or a shared one. */
struct rsiw_rq {
	struct siw_rqe *queue;
	uint32_t mask;
	uint32_t put;
	/* The number of elements that a receive has at least. */
	int min_sge;
	struct rsiw_lock lock;
};

struct rsiw_srq {
	struct ibv_srq base;
	struct rsiw_rq rq;
};

struct rsiw_qp {
	struct verbs_qp base;
	struct siw_sqe *queue;
	uint32_t mask;
	uint32_t put;
	/* Operations of enum ibv_wr_opcode that the queue pair has, a bit for each. */
	uint32_t operations;
	/* SIW_WQE_SIGNALLED if all requests are. */
	uint16_t signal_all;
	struct rsiw_lock lock;
	/* What a request may have, and the memory for what its element has no room for. */
	uint32_t max_inline;
	char *inline_slots;
	struct ibv_mr *inline_mr;
	struct ibv_post_send doorbell;
	struct ib_uverbs_post_send_resp doorbell_resp;
	struct rsiw_rq rq;

	/* Requests that ibv_wr_start() has begun: the next position, the last one, and an error. */
	uint32_t begun;
	struct siw_sqe *request;
	int error;
	/* Takes what setters write after an error. */
	struct siw_sqe spare;
};

static inline struct rsiw_context *to_rsiw_context(struct ibv_context *context)
{
	return container_of(context, struct rsiw_context, base.context);
}

/* Whether the kernel has granted it. */
static inline bool rsiw_has(struct ibv_context *context, enum rsiw_features feature)
{
	return to_rsiw_context(context)->features & feature;
}

static inline struct rsiw_pd *to_rsiw_pd(struct ibv_pd *pd)
{
	return container_of(pd, struct rsiw_pd, base);
}

static inline struct rsiw_td *to_rsiw_td(struct ibv_td *td)
{
	return container_of(td, struct rsiw_td, base);
}

static inline struct rsiw_cq *to_rsiw_cq(struct ibv_cq *cq)
{
	return container_of(cq, struct rsiw_cq, base.cq);
}

static inline struct rsiw_cq *to_rsiw_cq_ex(struct ibv_cq_ex *cq)
{
	return container_of(cq, struct rsiw_cq, base.cq_ex);
}

static inline struct rsiw_srq *to_rsiw_srq(struct ibv_srq *srq)
{
	return container_of(srq, struct rsiw_srq, base);
}

static inline struct rsiw_qp *to_rsiw_qp(struct ibv_qp *qp)
{
	return container_of(qp, struct rsiw_qp, base.qp);
}

static inline struct rsiw_qp *to_rsiw_qp_ex(struct ibv_qp_ex *qp)
{
	return container_of(qp, struct rsiw_qp, base.qp_ex);
}

/* Objects of a parent domain with a thread domain are used by one thread at a time. */
static inline bool rsiw_one_thread(struct ibv_pd *pd)
{
	return to_rsiw_pd(pd)->td;
}

/* `flags` of elements: their memory is shared. */
static inline uint16_t load_wqe_flags(const __u16 *flags)
{
	return atomic_load_explicit((const _Atomic(__u16) *)flags, memory_order_acquire);
}

static inline void store_wqe_flags(__u16 *flags, uint16_t value)
{
	atomic_store_explicit((_Atomic(__u16) *)flags, value, memory_order_release);
}

static inline void free_cqe(struct siw_cqe *cqe)
{
	atomic_store_explicit((_Atomic(__u8) *)&cqe->flags, 0, memory_order_release);
}

/* The flags of a request, without SIW_WQE_VALID and SIW_WQE_INLINE. */
static inline uint16_t rsiw_send_flags(const struct rsiw_qp *qp, unsigned int flags)
{
	static_assert(IBV_SEND_SIGNALED << 1 == SIW_WQE_SIGNALLED &&
		      IBV_SEND_SOLICITED << 1 == SIW_WQE_SOLICITED &&
		      IBV_SEND_FENCE << 4 == SIW_WQE_READ_FENCE, "flags are shifted");

	return qp->signal_all | (flags & (IBV_SEND_SIGNALED | IBV_SEND_SOLICITED)) << 1 |
	       (flags & IBV_SEND_FENCE) << 4;
}

/*
 * Sets the immediate of a Write, before its data: in the place where it is beside a list, and in
 * the one where it is beside inline data. What follows leaves the one that it goes with.
 */
static inline void rsiw_set_immediate(struct siw_sqe *sqe, __be32 imm)
{
	sqe->sge[0].lkey = (__force uint32_t)imm;
	sqe->sge[RSIW_IMM_SGE].lkey = (__force uint32_t)imm;
}

/* Appends to inline data at `to`, of which there are `*length`. Returns whether there was room. */
static inline bool rsiw_append(char *to, size_t *length, size_t most, const void *from, size_t more)
{
	if (unlikely(more > most - *length))
		return false;
	memcpy(to + *length, from, more);
	*length += more;
	return true;
}

/*
 * Whether the kernel has to be told of `count` elements from position `first` on, which have just
 * been handed over. If the element before them is still the kernel's, then whoever told it of that
 * has told it of these. With the queue's lock, as nobody else has handed over the element then.
 */
static inline bool rsiw_needs_doorbell(const struct rsiw_qp *qp, uint32_t first, uint32_t count)
{
	/* The kernel sees the elements, or the load below sees that it has taken the one before. */
	atomic_thread_fence(memory_order_seq_cst);
	return count > qp->mask ||
	       !(load_wqe_flags(&qp->queue[(first - 1) & qp->mask].flags) & SIW_WQE_VALID);
}

/* Without the queue's lock: the kernel sends in this call. Returns 0 or errno. */
static inline int rsiw_ring_doorbell(struct rsiw_qp *qp)
{
	ssize_t n = write(qp->base.qp.context->cmd_fd, &qp->doorbell, sizeof(qp->doorbell));

	if (likely(n == sizeof(qp->doorbell)))
		return 0;
	return n < 0 ? errno : EIO;
}

/* verbs.c */
extern const struct verbs_context_ops rsiw_extended_ops;
struct ibv_pd *rsiw_alloc_pd(struct ibv_context *context);
int rsiw_dealloc_pd(struct ibv_pd *pd);
struct ibv_mr *rsiw_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access);
int rsiw_dereg_mr(struct verbs_mr *mr);
int rsiw_query_device(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
		      struct ibv_device_attr_ex *attr, size_t attr_size);

/* cq.c */
struct ibv_cq *rsiw_create_cq(struct ibv_context *context, int entries,
			      struct ibv_comp_channel *channel, int vector);
struct ibv_cq_ex *rsiw_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
int rsiw_resize_cq(struct ibv_cq *cq, int entries);
int rsiw_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
int rsiw_destroy_cq(struct ibv_cq *cq);
int rsiw_req_notify_cq(struct ibv_cq *cq, int solicited_only);
bool rsiw_next_ring(struct rsiw_cq *cq);

/* poll.c */
int rsiw_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc);
void rsiw_set_poll_ops(struct rsiw_cq *cq, bool timestamps);

/* qp.c */
struct ibv_qp *rsiw_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
struct ibv_qp *rsiw_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
int rsiw_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int rsiw_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		  struct ibv_qp_init_attr *init);
int rsiw_destroy_qp(struct ibv_qp *qp);
struct ibv_srq *rsiw_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
int rsiw_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask);
int rsiw_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr);
int rsiw_destroy_srq(struct ibv_srq *srq);

/* inline.c */
int rsiw_init_inline(struct rsiw_qp *qp, struct ibv_pd *pd, uint32_t most);
void rsiw_end_inline(struct rsiw_qp *qp);
char *rsiw_use_slot(const struct rsiw_qp *qp, struct siw_sqe *sqe, uint32_t position);

/* post.c */
extern const uint32_t rsiw_operations, rsiw_extended_operations, rsiw_answered_operations;
void rsiw_set_atomic(struct siw_sqe *sqe, uint64_t first, uint64_t second);
int rsiw_set_bind(struct siw_sqe *sqe, const struct ibv_mw *mw, uint32_t rkey,
		  const struct ibv_mw_bind_info *info);
int rsiw_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
int rsiw_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int rsiw_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int rsiw_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* wr.c */
int rsiw_set_wr_ops(struct rsiw_qp *qp, struct ibv_context *context, enum ibv_qp_type type,
		    uint64_t send_ops_flags);

#endif
