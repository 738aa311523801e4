// SPDX-License-Identifier: GPL-2.0
/* Rights, domains, attributes, and threads that share a queue pair. */

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "unit.h"

/* Rights to operations that no device has here are left out where the kernel knows more than siw. */
static void t_rights(void)
{
	struct ibv_qp_attr attr = {
		.qp_access_flags = IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT,
	};
	const unsigned int known = IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_FLUSH_GLOBAL;
	unsigned int all = attr.qp_access_flags;

	open_all(true);
	CHECK(!fake_ops.modify_qp(qp, &attr, IBV_QP_ACCESS_FLAGS));
	CHECK(fake_access == known && attr.qp_access_flags == all);
	to_rsiw_context(context)->features = RSIW_FEATURE_EXTENDED;
	CHECK(!fake_ops.modify_qp(qp, &attr, IBV_QP_ACCESS_FLAGS));
	CHECK(fake_access == IBV_ACCESS_REMOTE_ATOMIC);
	to_rsiw_context(context)->features = 0;
	CHECK(!fake_ops.modify_qp(qp, &attr, IBV_QP_ACCESS_FLAGS) && fake_access == all);
}

static void t_domains(void)
{
	struct ibv_parent_domain_init_attr attr = {};
	struct ibv_cq_init_attr_ex cq_attr = { .cqe = 1, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD };
	struct ibv_td_init_attr td_attr = {};
	struct ibv_pd *plain, *alone, *own = NULL;
	struct ibv_qp_init_attr_ex ex;
	struct ibv_cq_ex *one;
	struct ibv_td *td;

	open_device(true);
	plain = pd;
	CHECK(!fake_ops.alloc_parent_domain(context, &attr) && errno == EINVAL);
	td = fake_ops.alloc_td(context, &td_attr);
	attr.pd = plain;
	alone = fake_ops.alloc_parent_domain(context, &attr);
	attr.td = td;
	own = fake_ops.alloc_parent_domain(context, &attr);
	CHECK(td && alone && own && own->handle == plain->handle && own->context == context);
	CHECK(fake_ops.dealloc_pd(plain) == EBUSY && fake_ops.dealloc_td(td) == EBUSY);
	cq_attr.parent_domain = plain;
	CHECK(!fake_ops.create_cq_ex(context, &cq_attr) && errno == EINVAL);
	cq_attr.parent_domain = alone;
	one = fake_ops.create_cq_ex(context, &cq_attr);
	CHECK(one && to_rsiw_cq_ex(one)->lock.needed);
	cq_attr.parent_domain = own;
	one = fake_ops.create_cq_ex(context, &cq_attr);
	CHECK(one && !to_rsiw_cq_ex(one)->lock.needed);
	one = extended_cq(0, IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
	CHECK(one && !to_rsiw_cq_ex(one)->lock.needed);
	pd = alone;
	ex = qp_attr(0);
	qp = fake_ops.create_qp_ex(context, &ex);
	CHECK(qp && to_rsiw_qp(qp)->lock.needed && to_rsiw_qp(qp)->rq.lock.needed);
	pd = own;
	ex = qp_attr(0);
	qp = fake_ops.create_qp_ex(context, &ex);
	CHECK(qp && !to_rsiw_qp(qp)->lock.needed && !to_rsiw_qp(qp)->rq.lock.needed);
	CHECK(!fake_ops.dealloc_pd(own) && !fake_ops.dealloc_td(td));
	CHECK(fake_ops.dealloc_pd(plain) == EBUSY);
	CHECK(!fake_ops.dealloc_pd(alone) && !fake_ops.dealloc_pd(plain));
}

static void t_device(void)
{
	struct ibv_device_attr_ex attr, part;
	struct ibv_ah_attr ah = { .port_num = 1, .is_global = 1, .grh.sgid_index = 1 };
	struct ibv_ah *made;

	open_device(true);
	CHECK(!fake_ops.query_device_ex(context, NULL, &attr, sizeof(attr)));
	CHECK(attr.orig_attr.atomic_cap == IBV_ATOMIC_GLOB && attr.hca_core_clock == 1000000);
	CHECK(attr.orig_attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B);
	CHECK(attr.orig_attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW);
	CHECK(attr.orig_attr.device_cap_flags & IBV_DEVICE_SRQ_RESIZE);
	/* A kernel that knows less. */
	to_rsiw_context(context)->features = RSIW_FEATURE_EXTENDED;
	CHECK(!fake_ops.query_device_ex(context, NULL, &part, sizeof(part)));
	CHECK(part.orig_attr.device_cap_flags == IBV_DEVICE_MEM_WINDOW_TYPE_2B);
	to_rsiw_context(context)->features = fake_features;
	CHECK(attr.completion_timestamp_mask == UINT64_MAX && !attr.pci_atomic_caps.fetch_add);
	/* A program of an older library has a shorter structure. */
	memset(&part, 0x55, sizeof(part));
	CHECK(!fake_ops.query_device_ex(context, NULL, &part, sizeof(part.orig_attr)));
	CHECK(part.hca_core_clock == 0x5555555555555555);
	made = fake_ops.create_ah(pd, &ah);
	CHECK(made && !fake_ops.destroy_ah(made));
	/* An index without a GID, one beyond the table, another port, no GID. */
	ah.grh.sgid_index = 2;
	CHECK(!fake_ops.create_ah(pd, &ah) && errno == EINVAL);
	ah.grh.sgid_index = 3;
	CHECK(!fake_ops.create_ah(pd, &ah) && errno == EINVAL);
	ah.grh.sgid_index = 1;
	ah.port_num = 2;
	CHECK(!fake_ops.create_ah(pd, &ah) && errno == EINVAL);
	ah.port_num = 1;
	ah.is_global = 0;
	CHECK(!fake_ops.create_ah(pd, &ah) && errno == EINVAL);
	ah.is_global = 1;
	fake_device.node_type = IBV_NODE_RNIC;
	CHECK(!fake_ops.create_ah(pd, &ah) && errno == EOPNOTSUPP);
}

enum { POSTERS = 2, POSTS = 60000 };

static void *post_many(void *arg)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .wr_id = (uintptr_t)arg }, *bad;
	int left = POSTS, e;

	while (left) {
		e = fake_ops.post_send(qp, &wr, &bad);
		CHECK(!e || e == ENOMEM);
		if (e)
			sched_yield();
		else
			left--;
	}
	return NULL;
}

/*
 * Threads post while the kernel sends, which rests when it has found an element that is not handed
 * over, until the doorbell: no request is left behind.
 */
static void t_doorbells(void)
{
	pthread_t posters[POSTERS];
	unsigned int heard = 0, now;
	int taken = 0, i;
	struct siw_sqe *sqe;

	open_all(true);
	for (i = 0; i < POSTERS; i++)
		CHECK(!pthread_create(&posters[i], NULL, post_many, (void *)(uintptr_t)i));
	while (taken < POSTERS * POSTS) {
		/* Until the alarm, if a doorbell was not rung. */
		while ((now = __atomic_load_n(&fake_doorbells, __ATOMIC_ACQUIRE)) == heard)
			;
		heard = now;
		while ((sqe = fake_take_sqe())) {
			CHECK(sqe->id < POSTERS && sqe->opcode == SIW_OP_SEND);
			fake_free_wqe(&sqe->flags);
			/* As the kernel does (rsiw/ring.rs). */
			__atomic_thread_fence(__ATOMIC_SEQ_CST);
			taken++;
		}
	}
	for (i = 0; i < POSTERS; i++)
		pthread_join(posters[i], NULL);
	CHECK(taken == POSTERS * POSTS && !fake_take_sqe());
}

const struct test objects_tests[] = {
	{ "no request of two threads waits for a doorbell", t_doorbells },
	{ "rights that nobody uses do not reach the kernel", t_rights },
	{ "objects of a thread domain take no locks", t_domains },
	{ "device attributes and address handles", t_device },
	{}
};
