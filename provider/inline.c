// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Inline data that have no room in an element of the ring. The queue pair has registered memory for
 * them, two slots for each element, and the request names its slot as any request names its data.
 *
 * The kernel takes an element only if fewer requests than the ring has elements have not completed,
 * and an element is written again only after the kernel has taken it. So when a request is written,
 * all those have completed that are two rounds of the ring or more behind it: its slot is free,
 * whether or not the program polls.
 */

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "rsiw.h"

static size_t size_of(const struct rsiw_qp *qp)
{
	return 2 * (qp->mask + 1ULL) * qp->max_inline;
}

/* Gives a queue pair with a ring the memory for `most` bytes a request. Returns 0 or errno. */
int rsiw_init_inline(struct rsiw_qp *qp, struct ibv_pd *pd, uint32_t most)
{
	void *slots;

	if (most <= SIW_MAX_INLINE)
		return 0;
	qp->max_inline = (most + 63) / 64 * 64;
	slots = mmap(NULL, size_of(qp), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (slots == MAP_FAILED)
		return errno;
	qp->inline_slots = slots;
	/* A child has no use for it, and the pages must stay this process'. */
	if (madvise(slots, size_of(qp), MADV_DONTFORK))
		return errno;
	qp->inline_mr = rsiw_reg_mr(pd, slots, size_of(qp), (uintptr_t)slots, 0);
	return qp->inline_mr ? 0 : errno;
}

/* The kernel's queue pair is gone. */
void rsiw_end_inline(struct rsiw_qp *qp)
{
	if (qp->inline_mr)
		rsiw_dereg_mr(container_of(qp->inline_mr, struct verbs_mr, ibv_mr));
	if (qp->inline_slots)
		munmap(qp->inline_slots, size_of(qp));
}

/*
 * Makes the data of the request at `position` (of all requests, as `put` counts them) those in its
 * slot, whose address it returns; NULL if it has none. The length is not set.
 */
char *rsiw_use_slot(const struct rsiw_qp *qp, struct siw_sqe *sqe, uint32_t position)
{
	char *slot;

	/* The data of a Read are the peer's. */
	if (!qp->inline_mr || sqe == &qp->spare || sqe->opcode == SIW_OP_READ)
		return NULL;
	slot = qp->inline_slots + (size_t)(position & (2 * qp->mask + 1)) * qp->max_inline;
	/* An immediate goes where it is beside a list. */
	sqe->sge[RSIW_IMM_SGE].lkey = sqe->sge[0].lkey;
	sqe->sge[0].laddr = (uintptr_t)slot;
	sqe->sge[0].lkey = qp->inline_mr->lkey;
	sqe->num_sge = 1;
	return slot;
}
