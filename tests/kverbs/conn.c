// SPDX-License-Identifier: GPL-2.0
/* Connections, memory, requests. */
#include <linux/inet.h>
#include <linux/slab.h>

#include "kverbs.h"

#define TIME_LIMIT (20 * HZ)

static void qp_event(struct ib_event *event, void *context)
{
	struct end *e = context;

	set_bit(event->event, &e->events);
}

static int end_open(struct end *e, struct rdma_cm_id *id, const struct opts *o, bool client)
{
	struct ib_qp_init_attr attr = {
		.event_handler = qp_event,
		.qp_context = e,
		.cap = {
			.max_send_wr = o->sq ?: 64,
			.max_recv_wr = o->rq ?: 64,
			.max_send_sge = 4,
			.max_recv_sge = 4,
		},
		.qp_type = IB_QPT_RC,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
	};
	struct ib_device *dev = id->device;
	struct ib_srq_init_attr srq = {
		.attr = { .max_wr = 64, .max_sge = 4 },
		.srq_type = IB_SRQT_BASIC,
	};
	int vector = o->vector % dev->num_comp_vectors;
	int ret;

	e->id = id;
	e->pd = ib_alloc_pd(dev, 0);
	if (IS_ERR(e->pd)) {
		ret = PTR_ERR(e->pd);
		e->pd = NULL;
		return ret;
	}
	e->scq = ib_alloc_cq(dev, e, client && o->scq ? o->scq : 256, vector, o->poll);
	if (IS_ERR(e->scq)) {
		ret = PTR_ERR(e->scq);
		e->scq = NULL;
		return ret;
	}
	e->rcq = ib_alloc_cq(dev, e, 256, vector, o->poll);
	if (IS_ERR(e->rcq)) {
		ret = PTR_ERR(e->rcq);
		e->rcq = NULL;
		return ret;
	}
	if (o->srq && !client) {
		e->srq = ib_create_srq(e->pd, &srq);
		if (IS_ERR(e->srq)) {
			ret = PTR_ERR(e->srq);
			e->srq = NULL;
			return ret;
		}
		attr.srq = e->srq;
	}
	attr.send_cq = e->scq;
	attr.recv_cq = e->rcq;
	return rdma_create_qp(id, e->pd, &attr);
}

static void end_close(struct end *e)
{
	if (e->id && e->id->qp) {
		rdma_disconnect(e->id);
		ib_drain_qp(e->id->qp);
		rdma_destroy_qp(e->id);
	}
	if (e->id)
		rdma_destroy_id(e->id);
	if (e->srq)
		ib_destroy_srq(e->srq);
	if (e->scq)
		ib_free_cq(e->scq);
	if (e->rcq)
		ib_free_cq(e->rcq);
	if (e->pd)
		ib_dealloc_pd(e->pd);
}

static struct rdma_conn_param conn_param(void)
{
	return (struct rdma_conn_param) { .responder_resources = 8, .initiator_depth = 8 };
}

static int on_server(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct rdma_conn_param param = conn_param();
	struct pair *p = id->context;

	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		/* A second one is nobody's. */
		if (p->s.id)
			return -EBUSY;
		p->error = end_open(&p->s, id, &p->o, false);
		if (!p->error)
			p->error = rdma_accept(id, &param);
		if (p->error)
			complete(&p->s.up);
		return 0;
	case RDMA_CM_EVENT_ESTABLISHED:
		complete(&p->s.up);
		return 0;
	default:
		complete(&p->s.down);
		return 0;
	}
}

static int on_client(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct rdma_conn_param param = conn_param();
	struct pair *p = id->context;
	int ret = 0;

	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		ret = rdma_resolve_route(id, 2000);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		ret = end_open(&p->c, id, &p->o, true);
		if (!ret)
			ret = rdma_connect_locked(id, &param);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		complete(&p->c.up);
		return 0;
	case RDMA_CM_EVENT_DISCONNECTED:
		complete(&p->c.down);
		return 0;
	default:
		ret = event->status ?: -ECONNREFUSED;
	}
	if (ret) {
		p->error = ret;
		complete(&p->c.up);
	}
	return 0;
}

int pair_open(struct pair *p, const struct opts *o)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	int ret;

	memset(p, 0, sizeof(*p));
	p->o = o ? *o : (struct opts) { .poll = IB_POLL_SOFTIRQ };
	p->c.pair = p;
	p->s.pair = p;
	init_completion(&p->c.up);
	init_completion(&p->c.down);
	init_completion(&p->s.up);
	init_completion(&p->s.down);
	if (!in4_pton(addr, -1, (u8 *)&at.sin_addr, -1, NULL))
		return -EINVAL;
	p->listener = rdma_create_id(&init_net, on_server, p, RDMA_PS_TCP, IB_QPT_RC);
	if (IS_ERR(p->listener)) {
		ret = PTR_ERR(p->listener);
		p->listener = NULL;
		return ret;
	}
	ret = rdma_bind_addr(p->listener, (struct sockaddr *)&at);
	if (!ret)
		ret = rdma_listen(p->listener, 4);
	if (ret)
		return ret;
	at = *(struct sockaddr_in *)&p->listener->route.addr.src_addr;
	p->c.id = rdma_create_id(&init_net, on_client, p, RDMA_PS_TCP, IB_QPT_RC);
	if (IS_ERR(p->c.id)) {
		ret = PTR_ERR(p->c.id);
		p->c.id = NULL;
		return ret;
	}
	ret = rdma_resolve_addr(p->c.id, NULL, (struct sockaddr *)&at, 2000);
	if (ret)
		return ret;
	if (!wait_for_completion_timeout(&p->c.up, TIME_LIMIT))
		return -ETIMEDOUT;
	if (!p->error && !wait_for_completion_timeout(&p->s.up, TIME_LIMIT))
		return -ETIMEDOUT;
	return p->error;
}

void pair_close(struct pair *p)
{
	end_close(&p->c);
	if (p->listener)
		rdma_destroy_id(p->listener);
	end_close(&p->s);
}

int mem_new(struct mem *m, struct ib_device *dev, size_t len)
{
	m->p = kzalloc(len, GFP_KERNEL);
	if (!m->p)
		return -ENOMEM;
	m->len = len;
	m->dev = dev;
	m->dma = ib_dma_map_single(dev, m->p, len, DMA_BIDIRECTIONAL);
	return ib_dma_mapping_error(dev, m->dma) ? -EIO : 0;
}

void mem_free(struct mem *m)
{
	if (m->p)
		ib_dma_unmap_single(m->dev, m->dma, m->len, DMA_BIDIRECTIONAL);
	kfree(m->p);
	m->p = NULL;
}

static u8 byte_at(size_t i, u8 seed)
{
	return seed + i * 7 + (i >> 8) * 13;
}

void mem_fill(struct mem *m, u8 seed)
{
	size_t i;

	for (i = 0; i < m->len; i++)
		m->p[i] = byte_at(i, seed);
}

/* Whether the bytes from @off on are the first ones of that seed. */
bool mem_is(struct mem *m, size_t off, size_t len, u8 seed)
{
	size_t i;

	for (i = 0; i < len; i++)
		if (m->p[off + i] != byte_at(i, seed))
			return false;
	return true;
}

static void req_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct req *r = container_of(wc->wr_cqe, struct req, cqe);

	r->wc = *wc;
	complete(&r->done);
}

void req_init(struct req *r)
{
	memset(r, 0, sizeof(*r));
	r->cqe.done = req_done;
	init_completion(&r->done);
}

int req_wait(struct end *e, struct req *r)
{
	unsigned long end = jiffies + TIME_LIMIT;

	if (e->pair->o.poll != IB_POLL_DIRECT)
		return wait_for_completion_timeout(&r->done, TIME_LIMIT) ? r->wc.status
									 : -ETIMEDOUT;
	while (!try_wait_for_completion(&r->done)) {
		if (time_after(jiffies, end))
			return -ETIMEDOUT;
		ib_process_cq_direct(e->scq, -1);
		ib_process_cq_direct(e->rcq, -1);
		cond_resched();
	}
	return r->wc.status;
}

struct ib_sge sge_of(struct end *e, struct mem *m, u32 off, u32 len)
{
	return (struct ib_sge) { m->dma + off, len, e->pd->local_dma_lkey };
}

int post_recv(struct end *e, struct req *r, struct mem *m, u32 off, u32 len)
{
	struct ib_sge sge = sge_of(e, m, off, len);
	struct ib_recv_wr wr = { .wr_cqe = &r->cqe, .sg_list = &sge, .num_sge = 1 };

	req_init(r);
	return e->srq ? ib_post_srq_recv(e->srq, &wr, NULL) : ib_post_recv(qp_of(e), &wr, NULL);
}

int post(struct end *e, struct req *r, struct ib_send_wr *wr)
{
	req_init(r);
	wr->wr_cqe = &r->cqe;
	wr->send_flags |= IB_SEND_SIGNALED;
	return ib_post_send(qp_of(e), wr, NULL);
}

int post_op(struct end *e, struct req *r, enum ib_wr_opcode op, int flags, struct ib_sge *sge,
	    u64 raddr, u32 key)
{
	struct ib_rdma_wr wr = {
		.wr = { .opcode = op, .send_flags = flags, .sg_list = sge, .num_sge = !!sge },
		.remote_addr = raddr,
		.rkey = key,
	};

	if (op == IB_WR_SEND_WITH_INV || op == IB_WR_RDMA_READ_WITH_INV)
		wr.wr.ex.invalidate_rkey = op == IB_WR_SEND_WITH_INV ? key : sge->lkey;
	return post(e, r, &wr.wr);
}

int reg_mr(struct end *e, struct ib_mr *mr, int access)
{
	struct ib_reg_wr wr = { .wr.opcode = IB_WR_REG_MR, .mr = mr, .access = access };
	struct req r;
	int ret;

	ib_update_fast_reg_key(mr, ib_inc_rkey(mr->rkey));
	wr.key = mr->rkey;
	ret = post(e, &r, &wr.wr);
	return ret ?: req_wait(e, &r);
}

int inv_mr(struct end *e, u32 key)
{
	struct ib_send_wr wr = { .opcode = IB_WR_LOCAL_INV, .ex.invalidate_rkey = key };
	struct req r;
	int ret = post(e, &r, &wr);

	return ret ?: req_wait(e, &r);
}
