/* SPDX-License-Identifier: GPL-2.0 */
/* For randcalls: the objects of a thread, and its random choices. */
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdint.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define SLOTS 8
#define MEMORY (1UL << 20)
#define PORTS 6

/* The objects of one thread. */
struct mine {
	uint64_t state;
	struct ibv_context *context;
	struct rdma_event_channel *events;
	struct ibv_pd *pd[SLOTS];
	struct ibv_mr *mr[SLOTS];
	struct ibv_comp_channel *channel[SLOTS];
	struct ibv_cq *cq[SLOTS];
	struct ibv_srq *srq[SLOTS];
	struct ibv_qp *qp[SLOTS];
	struct rdma_cm_id *id[SLOTS];
	char *memory;
};

/* Counts of all processes. */
struct counts {
	atomic_uint good, bad, crashed;
};

struct shared {
	atomic_uint established;
	struct counts of[64];
};

static inline uint64_t any(struct mine *m)
{
	uint64_t z = m->state += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

static inline unsigned int below(struct mine *m, unsigned int n)
{
	return any(m) % n;
}

/* A random object of the kind, or NULL. */
static inline void *some(struct mine *m, void *slots)
{
	void **all = slots;
	unsigned int i, from = below(m, SLOTS);

	for (i = 0; i < SLOTS; i++)
		if (all[(from + i) % SLOTS])
			return all[(from + i) % SLOTS];
	return NULL;
}

/* ONE: a random object of a kind. PLACE: a random slot, used or empty. */
#define ONE(m, kind) some(m, (m)->kind)
#define PLACE(m, kind) (&(m)->kind[below(m, SLOTS)])

/*
 * Destroys the object in a slot. A busy object stays, but is not used any more, because
 * the library has unmapped its ring.
 */
#define DESTROY(at, how) ({ int _err = how(*(at)); *(at) = NULL; _err; })

/* Mostly the plain number, sometimes one at a limit. */
static inline uint32_t number(struct mine *m, uint32_t plain)
{
	static const uint32_t odd[] = { 0, 1, 0x7fff, 0x8000, 0x8001, 0x7fffffff, 0xffffffff };

	if (below(m, 32))
		return 1 + below(m, plain);
	return odd[below(m, ARRAY_SIZE(odd))];
}
