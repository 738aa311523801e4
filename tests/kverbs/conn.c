// SPDX-License-Identifier: GPL-2.0
/* Connections: both ends, with queues and memory. */
#include <linux/inet.h>

#include "kverbs.h"

/* Number of entries of a CQ. */
enum { ENTRIES = 256 };

static void qp_event(struct ib_event *event, void *context)
{
	struct end *e = context;

	set_bit(event->event, &e->events);
}

static struct ib_cq *cq_new(struct end *e, int entries)
{
	struct ib_device *dev = e->id->device;
	const struct opts *o = &e->pair->o;
	int vector = (o->vector + (e == &e->pair->s)) % dev->num_comp_vectors;

	if (o->pool)
		return ib_cq_pool_get(dev, entries, vector, o->poll);
	return ib_alloc_cq(dev, e, entries, vector, o->poll);
}

static void cq_free(struct end *e, struct ib_cq *cq, int entries)
{
	if (IS_ERR_OR_NULL(cq))
		return;
	if (e->pair->o.pool) {
		ib_cq_pool_put(cq, entries);
		return;
	}
	/*
	 * ib_free_cq() waits only until irq_poll_complete(), after which
	 * ib_poll_handler() still arms the queue. As that runs in a softirq,
	 * wait for its end here.
	 */
	if (e->pair->o.poll == IB_POLL_SOFTIRQ)
		synchronize_rcu();
	ib_free_cq(cq);
}

static int send_entries(struct end *e)
{
	return e == &e->pair->c && e->pair->o.scq ? e->pair->o.scq : ENTRIES;
}

static int end_open(struct end *e, struct rdma_cm_id *id)
{
	const struct opts *o = &e->pair->o;
	bool client = e == &e->pair->c;
	struct ib_qp_init_attr attr = {
		.event_handler = qp_event,
		.qp_context = e,
		.cap = {
			.max_send_wr = o->sq ?: 64,
			.max_recv_wr = o->rq ?: 64,
			.max_send_sge = o->sge == ALL ? id->device->attrs.max_send_sge :
							o->sge ?: MAX_SGE,
			.max_rdma_ctxs = o->ctxs,
			.max_recv_sge = MAX_SGE,
		},
		.qp_type = IB_QPT_RC,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
	};
	struct ib_srq_init_attr srq = {
		.attr = { .max_wr = o->rq ?: 64, .max_sge = MAX_SGE },
		.srq_type = IB_SRQT_BASIC,
	};
	int ret;

	e->id = id;
	if (o->with)
		e->pd = client ? o->with->c.pd : o->with->s.pd;
	else
		e->pd = ib_alloc_pd(id->device, 0);
	if (IS_ERR(e->pd))
		return PTR_ERR(e->pd);
	e->scq = cq_new(e, send_entries(e));
	if (IS_ERR(e->scq))
		return PTR_ERR(e->scq);
	e->rcq = cq_new(e, ENTRIES);
	if (IS_ERR(e->rcq))
		return PTR_ERR(e->rcq);
	if (o->srq && !client) {
		e->srq = ib_create_srq(e->pd, &srq);
		if (IS_ERR(e->srq))
			return PTR_ERR(e->srq);
		attr.srq = e->srq;
	}
	ret = mem_new(&e->m, id->device, o->len ?: PAGE_SIZE);
	if (ret)
		return ret;
	attr.send_cq = e->scq;
	attr.recv_cq = e->rcq;
	return rdma_create_qp(id, e->pd, &attr);
}

static void end_close(struct end *e)
{
	int i;

	if (!IS_ERR_OR_NULL(e->id) && e->id->qp) {
		rdma_disconnect(e->id);
		ib_drain_qp(e->id->qp);
		rdma_destroy_qp(e->id);
	}
	if (!IS_ERR_OR_NULL(e->id))
		rdma_destroy_id(e->id);
	for (i = 0; i < ARRAY_SIZE(e->mr); i++)
		if (e->mr[i])
			ib_dereg_mr(e->mr[i]);
	if (!IS_ERR_OR_NULL(e->srq))
		ib_destroy_srq(e->srq);
	cq_free(e, e->scq, send_entries(e));
	cq_free(e, e->rcq, ENTRIES);
	if (!IS_ERR_OR_NULL(e->pd) && !e->pair->o.with)
		ib_dealloc_pd(e->pd);
	mem_free(&e->m);
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
		/* Refuse a second request. */
		if (p->s.id)
			return -EBUSY;
		p->error = end_open(&p->s, id);
		if (!p->error && p->o.before_accept)
			p->error = p->o.before_accept(&p->s);
		if (!p->error)
			p->error = rdma_accept(id, &param);
		/* The client then gets no answer, so end the wait for it. */
		if (p->error)
			complete(&p->c.up);
		return 0;
	case RDMA_CM_EVENT_ESTABLISHED:
		complete(&p->s.up);
		return 0;
	default:
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
		ret = end_open(&p->c, id);
		if (!ret)
			ret = rdma_connect_locked(id, &param);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		complete(&p->c.up);
		return 0;
	case RDMA_CM_EVENT_DISCONNECTED:
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

static void pair_init(struct pair *p, const struct opts *o)
{
	memset(p, 0, sizeof(*p));
	p->o = *o;
	p->c.pair = p;
	p->s.pair = p;
	init_completion(&p->c.up);
	init_completion(&p->s.up);
}

/* Listens at @port of the device under test; 0: at any port. */
static int listen_at(struct pair *p, u16 port)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(port) };
	int ret;

	if (!in4_pton(addr, -1, (u8 *)&at.sin_addr, -1, NULL))
		return -EINVAL;
	p->listener = rdma_create_id(&init_net, on_server, p, RDMA_PS_TCP, IB_QPT_RC);
	if (IS_ERR(p->listener))
		return PTR_ERR(p->listener);
	ret = rdma_bind_addr(p->listener, (struct sockaddr *)&at);
	return ret ?: rdma_listen(p->listener, 4);
}

static int connect_to(struct pair *p, struct sockaddr_in *at)
{
	int ret;

	p->c.id = rdma_create_id(&init_net, on_client, p, RDMA_PS_TCP, IB_QPT_RC);
	if (IS_ERR(p->c.id))
		return PTR_ERR(p->c.id);
	ret = rdma_resolve_addr(p->c.id, NULL, (struct sockaddr *)at, 2000);
	if (ret)
		return ret;
	if (!wait_for_completion_timeout(&p->c.up, TIME_LIMIT))
		return -ETIMEDOUT;
	return p->error;
}

int pair_open(struct pair *p, const struct opts *o)
{
	struct sockaddr_in at;
	int ret;

	pair_init(p, o);
	ret = listen_at(p, 0);
	if (ret)
		return ret;
	at = *(struct sockaddr_in *)&p->listener->route.addr.src_addr;
	ret = connect_to(p, &at);
	if (!ret && !wait_for_completion_timeout(&p->s.up, TIME_LIMIT))
		return -ETIMEDOUT;
	return p->error ?: ret;
}

int pair_serve(struct pair *p, const struct opts *o)
{
	int ret;

	pair_init(p, o);
	ret = listen_at(p, HOSTS_PORT);
	/* The module has to be loaded on the other host first. */
	if (!ret && !wait_for_completion_timeout(&p->s.up, 2 * TIME_LIMIT))
		ret = -ETIMEDOUT;
	return p->error ?: ret;
}

int pair_connect(struct pair *p, const struct opts *o, const char *peer)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(HOSTS_PORT) };

	pair_init(p, o);
	if (!in4_pton(peer, -1, (u8 *)&at.sin_addr, -1, NULL))
		return -EINVAL;
	return connect_to(p, &at);
}

void pair_close(struct pair *p)
{
	end_close(&p->c);
	if (!IS_ERR_OR_NULL(p->listener))
		rdma_destroy_id(p->listener);
	end_close(&p->s);
	memset(p, 0, sizeof(*p));
}
