// SPDX-License-Identifier: GPL-2.0
/*
 * Devices and connections. Each connection has a listener of its own on the
 * server, which sends its port to the client over the out-of-band connection.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "vt.h"

uint16_t port_of(const struct sockaddr *sa)
{
	return ntohs(((const struct sockaddr_in *)sa)->sin_port);
}

void set_port(struct sockaddr_storage *sa, uint16_t port)
{
	/* The port has the same offset in sockaddr_in6. */
	((struct sockaddr_in *)sa)->sin_port = htons(port);
}

/*
 * Opens the device that has this side's address. (This must not be 127.0.0.1:
 * the kernel binds iWARP devices only to other addresses of lo.)
 */
void dev_open(struct side *s)
{
	struct sockaddr_storage at = s->local;

	set_port(&at, 0);
	s->ech = rdma_create_event_channel();
	CHECK(s->ech, "rdma_create_event_channel: errno %d", errno);
	CALL(rdma_create_id(s->ech, &s->bound, NULL, RDMA_PS_TCP));
	CALL(rdma_bind_addr(s->bound, (struct sockaddr *)&at));
	CHECK(s->bound->verbs, "no RDMA device has this side's address");
	s->ctx = s->bound->verbs;
	s->pd = ibv_alloc_pd(s->ctx);
	CHECK(s->pd, "ibv_alloc_pd: errno %d", errno);
	fcntl(s->ctx->async_fd, F_SETFL, O_NONBLOCK);
}

void dev_close(struct side *s)
{
	CALL(ibv_dealloc_pd(s->pd));
	CALL(rdma_destroy_id(s->bound));
	rdma_destroy_event_channel(s->ech);
}

static bool cm_wait(struct rdma_event_channel *ech, unsigned int ms)
{
	struct pollfd pfd = { .fd = ech->fd, .events = POLLIN };

	return poll(&pfd, 1, ms) == 1;
}

bool cm_quiet(struct rdma_event_channel *ech, unsigned int ms)
{
	return !cm_wait(ech, ms);
}

struct rdma_cm_event cm_event(struct rdma_event_channel *ech, unsigned int ms,
			      uint8_t *pdata)
{
	struct rdma_cm_event *ev, copy;

	CHECK(cm_wait(ech, ms), "no connection event within %u ms", ms);
	CALL(rdma_get_cm_event(ech, &ev));
	copy = *ev;
	/* Acknowledging the event frees its private data. */
	if (pdata && ev->param.conn.private_data_len)
		memcpy(pdata, ev->param.conn.private_data, ev->param.conn.private_data_len);
	CALL(rdma_ack_cm_event(ev));
	return copy;
}

void cm_expect(struct rdma_event_channel *ech, enum rdma_cm_event_type type,
	       struct rdma_cm_event *ev, uint8_t *pdata)
{
	struct rdma_cm_event copy = cm_event(ech, wait_ms, pdata);

	CHECK(copy.event == type, "event %s (status %d), not %s",
	      rdma_event_str(copy.event), copy.status, rdma_event_str(type));
	if (ev)
		*ev = copy;
}

static unsigned int or_else(unsigned int value, unsigned int otherwise)
{
	return value ? value : otherwise;
}

static struct ibv_cq *new_cq(struct conn *c, unsigned int size)
{
	struct ibv_cq *cq = ibv_create_cq(c->id->verbs, size, c, c->channel, 0);

	CHECK(cq, "ibv_create_cq of %u entries: errno %d", size, errno);
	return cq;
}

static uint8_t depth_of(int wanted)
{
	return wanted < 0 ? 0 : or_else(wanted, 16);
}

/*
 * Moves a QP of the test's own as the RDMA CM says for each state. Before a client connects,
 * the RDMA CM's attributes for RTS ask for a transition that only connecting makes.
 */
static void own_states(struct conn *c, bool connected)
{
	static const enum ibv_qp_state states[] = { IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS };
	struct ibv_qp_attr attr;
	unsigned int i;
	int mask, ret;

	for (i = 0; i < ARRAY_SIZE(states); i++) {
		if (states[i] == IBV_QPS_RTS && c->s->client && !connected)
			break;
		memset(&attr, 0, sizeof(attr));
		attr.qp_state = states[i];
		CALL(rdma_init_qp_attr(c->id, &attr, &mask));
		ret = ibv_modify_qp(c->qp, &attr, mask);
		CHECK(!ret, "%s: state %d with mask 0x%x: %d", connected ? "connected" : "early",
		      states[i], mask, ret);
		CHECK(qp_state(c->qp) == (connected ? IBV_QPS_RTS : IBV_QPS_INIT),
		      "%s: state %d after state %d was asked for", connected ? "connected" : "early",
		      qp_state(c->qp), states[i]);
	}
}

/* Creates a QP with the functions of ibv_wr_start() and what follows it. */
static struct ibv_qp *new_qp_ex(struct conn *c, const struct ibv_qp_init_attr *plain)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = plain->send_cq, .recv_cq = plain->recv_cq, .cap = plain->cap,
		.qp_type = plain->qp_type, .pd = c->pd, .send_ops_flags = c->o.send_ops,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
	};
	int e = rdma_create_qp_ex(c->id, &attr);

	if (e && errno == EOPNOTSUPP)
		skip("siw's library has no flushes");
	CHECK(!e, "rdma_create_qp_ex: errno %d", errno);
	return c->id->qp;
}

/* Creates the connection's CQs and QP. */
void conn_setup(struct side *s, struct conn *c, const struct conn_opts *o)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC };

	if (c->qp) {
		/* It had another connection before. librdmacm moves it through its states again. */
		c->id->qp = c->qp;
		return;
	}
	c->s = s;
	c->o = *o;
	c->pd = o->pd ? o->pd : s->pd;
	if (o->events) {
		c->channel = ibv_create_comp_channel(s->ctx);
		CHECK(c->channel, "ibv_create_comp_channel: errno %d", errno);
	}
	attr.cap.max_send_wr = or_else(o->sq, 64);
	attr.cap.max_recv_wr = o->no_rq || o->srq ? 0 : or_else(o->rq, 64);
	attr.cap.max_send_sge = 6;
	attr.cap.max_recv_sge = o->no_rq ? 1 : 6;
	attr.cap.max_inline_data = o->max_inline;
	attr.sq_sig_all = o->sig_all;
	attr.srq = o->srq;
	c->scq = o->scq ? o->scq : new_cq(c, or_else(o->scq_size, attr.cap.max_send_wr));
	c->rcq = o->rcq ? o->rcq : new_cq(c, or_else(o->rcq_size, or_else(o->rq, 64)));
	attr.send_cq = c->scq;
	attr.recv_cq = c->rcq;
	if (o->own) {
		c->qp = ibv_create_qp(c->pd, &attr);
		CHECK(c->qp, "ibv_create_qp: errno %d", errno);
		if (o->own & OWN_EARLY)
			own_states(c, false);
	} else if (o->send_ops) {
		c->qp = new_qp_ex(c, &attr);
	} else {
		CALL(rdma_create_qp(c->id, c->pd, &attr));
		c->qp = c->id->qp;
	}
	if (o->qp_ird || o->qp_ord) {
		struct ibv_qp_attr depths = {
			.max_dest_rd_atomic = depth_of(o->qp_ird), .max_rd_atomic = depth_of(o->qp_ord),
		};

		CALL(ibv_modify_qp(c->qp, &depths,
				   (o->qp_ird ? IBV_QP_MAX_DEST_RD_ATOMIC : 0) |
				   (o->qp_ord ? IBV_QP_MAX_QP_RD_ATOMIC : 0)));
	}
}

void conn_param(struct conn *c, struct rdma_conn_param *p)
{
	*p = (struct rdma_conn_param) {
		.private_data = c->o.pdata, .private_data_len = c->o.pdata_len,
		.responder_resources = depth_of(c->o.ird),
		.initiator_depth = depth_of(c->o.ord), .retry_count = 7,
		.qp_num = c->qp->qp_num,
	};
}

void conn_resolve(struct side *s, struct rdma_cm_id *id, struct rdma_event_channel *ech,
		  struct sockaddr_storage *to)
{
	struct sockaddr_storage from = s->local;

	set_port(&from, 0);
	CALL(rdma_resolve_addr(id, (struct sockaddr *)&from, (struct sockaddr *)to, 5000));
	cm_expect(ech, RDMA_CM_EVENT_ADDR_RESOLVED, NULL, NULL);
	CALL(rdma_resolve_route(id, 5000));
	cm_expect(ech, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL, NULL);
}

struct rdma_cm_id *listen_open(struct side *s, struct rdma_event_channel *ech, int backlog)
{
	struct sockaddr_storage at = s->local;
	struct rdma_cm_id *id;
	int try;

	/*
	 * The RDMA CM picks a port that no RDMA program uses. If a TCP connection of the host
	 * uses it, try again with another port.
	 */
	set_port(&at, 0);
	for (try = 0; try < 8; try++) {
		CALL(rdma_create_id(ech, &id, NULL, RDMA_PS_TCP));
		CALL(rdma_bind_addr(id, (struct sockaddr *)&at));
		if (!rdma_listen(id, backlog))
			return id;
		CHECK(errno == EADDRINUSE, "rdma_listen: errno %d", errno);
		CALL(rdma_destroy_id(id));
	}
	CHECK(0, "no free port");
	return NULL;
}

static void server_open(struct side *s, struct conn *c, const struct conn_opts *o)
{
	struct rdma_cm_id *listener;
	struct rdma_conn_param p;
	struct rdma_cm_event ev;
	uint16_t port;

	c->ech = rdma_create_event_channel();
	CHECK(c->ech, "rdma_create_event_channel: errno %d", errno);
	listener = listen_open(s, c->ech, 4);
	port = port_of(rdma_get_local_addr(listener));
	CHECK(port, "the listener has no port");
	oob_send(s, &port, sizeof(port));

	cm_expect(c->ech, RDMA_CM_EVENT_CONNECT_REQUEST, &ev, c->pdata);
	c->pdata_len = ev.param.conn.private_data_len;
	c->id = ev.id;
	conn_setup(s, c, o);
	conn_param(c, &p);
	CALL(rdma_accept(c->id, &p));
	cm_expect(c->ech, RDMA_CM_EVENT_ESTABLISHED, &ev, NULL);
	c->ird = ev.param.conn.responder_resources;
	c->ord = ev.param.conn.initiator_depth;
	CALL(rdma_destroy_id(listener));
}

static void set_tos(struct rdma_cm_id *id, uint8_t tos)
{
	CALL(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof(tos)));
}

static void client_open(struct side *s, struct conn *c, const struct conn_opts *o)
{
	struct sockaddr_storage to = s->peer;
	struct rdma_conn_param p;
	struct rdma_cm_event ev;
	uint16_t port;

	c->ech = rdma_create_event_channel();
	CHECK(c->ech, "rdma_create_event_channel: errno %d", errno);
	oob_recv(s, &port, sizeof(port));
	set_port(&to, port);
	CALL(rdma_create_id(c->ech, &c->id, NULL, RDMA_PS_TCP));
	if (o->tos)
		set_tos(c->id, o->tos);
	conn_resolve(s, c->id, c->ech, &to);
	conn_setup(s, c, o);
	conn_param(c, &p);
	CALL(rdma_connect(c->id, &p));
	cm_expect(c->ech, RDMA_CM_EVENT_ESTABLISHED, &ev, c->pdata);
	c->pdata_len = ev.param.conn.private_data_len;
	c->ird = ev.param.conn.responder_resources;
	c->ord = ev.param.conn.initiator_depth;
}

#define FIRST_ID 0x46495253ull

static void connect_sides(struct side *s, struct conn *c, const struct conn_opts *o)
{
	static const struct conn_opts usual;

	if (s->client)
		client_open(s, c, o ? o : &usual);
	else
		server_open(s, c, o ? o : &usual);
	/*
	 * The side that accepts must not send before it has received a message
	 * of the side that connects (RFC 5044, 7.1.3). The latter sends a
	 * zero-length Write, which no test notices, and waits for its completion:
	 * a test that ends the connection at once would otherwise find it among
	 * the flushed requests.
	 */
	if (s->client && !c->o.silent) {
		post(c, IBV_WR_RDMA_WRITE, FIRST_ID, IBV_SEND_SIGNALED, NULL, 0, 0, 0);
		good(c->scq, FIRST_ID, IBV_WC_RDMA_WRITE, -1);
	}
	CHECK(qp_state(c->qp) == IBV_QPS_RTS, "connected, but in state %d", qp_state(c->qp));
	if (c->o.own & OWN_LATE)
		own_states(c, true);
	/* Both sides are connected before either sends. */
	sync_sides(s);
}

void conn_open(struct side *s, struct conn *c, const struct conn_opts *o)
{
	memset(c, 0, sizeof(*c));
	connect_sides(s, c, o);
}

/* Connects the queue pair, which was reset, to the other side once more. */
void conn_again(struct conn *c)
{
	const struct conn_opts o = c->o;

	c->id->qp = NULL;
	CALL(rdma_destroy_id(c->id));
	rdma_destroy_event_channel(c->ech);
	c->disconnected = false;
	connect_sides(c->s, c, &o);
}

enum ibv_qp_state qp_state(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CALL(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
	return attr.qp_state;
}

static void expect_state(struct conn *c, unsigned int states)
{
	uint64_t end = now_ms() + wait_ms;

	if (!c->disconnected)
		cm_expect(c->ech, RDMA_CM_EVENT_DISCONNECTED, NULL, NULL);
	c->disconnected = true;
	while (!(BIT(qp_state(c->qp)) & states)) {
		CHECK(now_ms() < end, "disconnected, but in state %d", qp_state(c->qp));
		sleep_ms(2);
	}
}

/* Expects that the connection ends, in any way. */
void conn_expect_down(struct conn *c)
{
	expect_state(c, ~BIT(IBV_QPS_RTS));
}

/* Expects an orderly end of the connection, after which the QP may be in an initial state again. */
void conn_expect_closed(struct conn *c)
{
	expect_state(c, BIT(IBV_QPS_ERR) | BIT(IBV_QPS_INIT) | BIT(IBV_QPS_RESET));
}

/* Expects that the connection ends with an error. */
void conn_expect_error(struct conn *c)
{
	expect_state(c, BIT(IBV_QPS_ERR));
}

void conn_free(struct conn *c)
{
	if (c->id->qp)
		rdma_destroy_qp(c->id);
	else if (c->o.own)
		CALL(ibv_destroy_qp(c->qp));
	if (!c->o.scq)
		CALL(ibv_destroy_cq(c->scq));
	if (!c->o.rcq)
		CALL(ibv_destroy_cq(c->rcq));
	if (c->channel)
		CALL(ibv_destroy_comp_channel(c->channel));
	if (c->token_mr)
		CALL(ibv_dereg_mr(c->token_mr));
	CALL(rdma_destroy_id(c->id));
	if (c->ech)
		rdma_destroy_event_channel(c->ech);
	memset(c, 0, sizeof(*c));
}

/* The orderly end: when both sides are done, the active one disconnects, and both get the event. */
void conn_close(struct conn *c)
{
	sync_sides(c->s);
	if (c->s->active)
		CALL(rdma_disconnect(c->id));
	conn_expect_down(c);
	conn_free(c);
}

/* siw's provider tells what the kernel says of atomics, which is that there are none. */
bool own_provider(struct side *s)
{
	struct ibv_device_attr attr;

	CALL(ibv_query_device(s->ctx, &attr));
	return attr.atomic_cap != IBV_ATOMIC_NONE;
}

int async_event(struct side *s, unsigned int ms)
{
	struct pollfd pfd = { .fd = s->ctx->async_fd, .events = POLLIN };
	struct ibv_async_event ev;

	if (poll(&pfd, 1, ms) != 1)
		return -1;
	CALL(ibv_get_async_event(s->ctx, &ev));
	ibv_ack_async_event(&ev);
	return ev.event_type;
}
