// SPDX-License-Identifier: GPL-2.0
/* Connection setup, and its failures. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <string.h>
#include <unistd.h>

#include "vt.h"

/* Private data with the Request and with the Reply, of several lengths. */
static void t_private_data(struct side *s)
{
	static const uint8_t usual[] = { 0, 1, 3, 4, 5, 56, 128, 200, 251 };
	static const uint8_t most[] = { 252, 253, 254, 255 };
	const uint8_t *lens = s->arg ? most : usual;
	size_t i, n = s->arg ? ARRAY_SIZE(most) : ARRAY_SIZE(usual);
	uint8_t out[256], want[256];
	struct conn_opts o = { .pdata = out };
	struct conn c;

	for (i = 0; i < n; i++) {
		/* Request and Reply differ in content and length. */
		uint8_t own = s->client ? lens[i] : lens[n - 1 - i];
		uint8_t other = s->client ? lens[n - 1 - i] : lens[i];

		fill(out, own, 2 * i + s->client);
		fill(want, other, 2 * i + !s->client);
		o.pdata_len = own;
		conn_open(s, &c, &o);
		CHECK(c.pdata_len == other, "%u bytes of private data, not %u",
		      c.pdata_len, other);
		CHECK(!memcmp(c.pdata, want, other), "private data is not what was sent");
		conn_close(&c);
	}
}

/* The server rejects a connection request, with private data. */
static void t_reject(struct side *s)
{
	static const uint8_t lens[] = { 0, 1, 100, 251 };
	uint8_t out[256], in[256];
	struct conn_opts o = {};
	struct rdma_conn_param p;
	struct rdma_cm_event ev;
	struct rdma_cm_id *listener;
	uint16_t port;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		fill(out, lens[i], i);
		if (s->client) {
			struct sockaddr_storage to = s->peer;
			struct conn c = { .ech = rdma_create_event_channel() };

			CHECK(c.ech, "rdma_create_event_channel: errno %d", errno);
			oob_recv(s, &port, sizeof(port));
			set_port(&to, port);
			CALL(rdma_create_id(c.ech, &c.id, NULL, RDMA_PS_TCP));
			conn_resolve(s, c.id, c.ech, &to);
			conn_setup(s, &c, &o);
			conn_param(&c, &p);
			CALL(rdma_connect(c.id, &p));
			cm_expect(c.ech, RDMA_CM_EVENT_REJECTED, &ev, in);
			CHECK(ev.param.conn.private_data_len == lens[i] &&
			      !memcmp(in, out, lens[i]),
			      "rejected with %u bytes, not the %u sent",
			      ev.param.conn.private_data_len, lens[i]);
			CHECK(ev.status, "rejected without a reason");
			conn_free(&c);
		} else {
			listener = listen_open(s, s->ech, 4);
			port = port_of(rdma_get_local_addr(listener));
			oob_send(s, &port, sizeof(port));
			cm_expect(s->ech, RDMA_CM_EVENT_CONNECT_REQUEST, &ev, NULL);
			CALL(rdma_reject(ev.id, out, lens[i]));
			CALL(rdma_destroy_id(ev.id));
			CALL(rdma_destroy_id(listener));
		}
		sync_sides(s);
	}
}

/* Tries to connect to a port of the peer, gets the event that ends the attempt, and cleans up. */
static void attempt(struct side *s, uint16_t port, unsigned int ms, struct rdma_cm_event *ev)
{
	struct conn c = { .ech = rdma_create_event_channel() };
	struct sockaddr_storage to = s->peer;
	struct conn_opts o = {};
	struct rdma_conn_param p;
	uint64_t began;

	CHECK(c.ech, "rdma_create_event_channel: errno %d", errno);
	set_port(&to, port);
	CALL(rdma_create_id(c.ech, &c.id, NULL, RDMA_PS_TCP));
	conn_resolve(s, c.id, c.ech, &to);
	conn_setup(s, &c, &o);
	conn_param(&c, &p);
	began = now_ms();
	memset(ev, 0, sizeof(*ev));
	if (rdma_connect(c.id, &p)) {
		/* The refusal may come so fast that the call itself fails. */
		ev->event = RDMA_CM_EVENT_CONNECT_ERROR;
		ev->status = -errno;
	} else {
		CHECK(now_ms() - began < 2000 * slow(), "rdma_connect blocked for %lu ms",
		      now_ms() - began);
		if (ms)
			*ev = cm_event(c.ech, ms, NULL);
	}
	began = now_ms();
	conn_free(&c);
	CHECK(now_ms() - began < 5000 * slow(), "giving up took %lu ms", now_ms() - began);
}

#define REFUSALS (BIT(RDMA_CM_EVENT_REJECTED) | BIT(RDMA_CM_EVENT_UNREACHABLE) | \
		  BIT(RDMA_CM_EVENT_CONNECT_ERROR))

static void t_closed_port(struct side *s)
{
	struct rdma_cm_event ev;
	struct rdma_cm_id *id;
	uint16_t port;

	if (s->client) {
		oob_recv(s, &port, sizeof(port));
		attempt(s, port, wait_ms, &ev);
		CHECK(BIT(ev.event) & REFUSALS, "event %s", rdma_event_str(ev.event));
		CHECK(ev.status == -ECONNREFUSED || ev.event == RDMA_CM_EVENT_REJECTED,
		      "%s with status %d", rdma_event_str(ev.event), ev.status);
		sync_sides(s);
	} else {
		/* A port that was just released: nobody listens there. */
		id = listen_open(s, s->ech, 1);
		port = port_of(rdma_get_local_addr(id));
		CALL(rdma_destroy_id(id));
		oob_send(s, &port, sizeof(port));
		sync_sides(s);
	}
}

/* Opens a plain TCP listener on this side's address. */
static int tcp_listener(struct side *s, int backlog, uint16_t *port)
{
	struct sockaddr_storage at = s->local;
	socklen_t len = sizeof(at);
	int fd = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	set_port(&at, 0);
	CHECK(fd >= 0 && !bind(fd, (struct sockaddr *)&at, sizeof(at)) &&
	      !listen(fd, backlog) &&
	      !getsockname(fd, (struct sockaddr *)&at, &len), "TCP listener: errno %d", errno);
	*port = port_of((struct sockaddr *)&at);
	return fd;
}

/* The peer accepts the TCP connection, but sends no MPA frame. */
static void t_silent_peer(struct side *s)
{
	struct rdma_cm_event ev;
	uint16_t port;

	if (s->client) {
		oob_recv(s, &port, sizeof(port));
		attempt(s, port, 40000, &ev);
		CHECK(BIT(ev.event) & REFUSALS, "event %s", rdma_event_str(ev.event));
		sync_sides(s);
	} else {
		int fd = tcp_listener(s, 4, &port);

		oob_send(s, &port, sizeof(port));
		sync_sides(s);
		close(fd);
	}
}

/* The peer accepts, and then sends something that is no MPA Reply, or closes the connection. */
static void t_wrong_peer(struct side *s)
{
	static const char *const words[] = {
		"", "HTTP/1.1 400 Bad Request\r\n\r\n", "MPA ID Rep Frame\x81\x01\x00\x00",
		"MPA ID Req Frame\x40\x01\x00\x00", "MPA",
	};
	struct rdma_cm_event ev;
	char mpa[20 + 4];
	uint16_t port;
	size_t i, len;

	for (i = 0; i < ARRAY_SIZE(words); i++) {
		if (s->client) {
			oob_recv(s, &port, sizeof(port));
			attempt(s, port, wait_ms, &ev);
			CHECK(BIT(ev.event) & REFUSALS, "answer %zu: event %s", i,
			      rdma_event_str(ev.event));
		} else {
			int listener = tcp_listener(s, 4, &port), fd;

			oob_send(s, &port, sizeof(port));
			fd = accept(listener, NULL, NULL);
			CHECK(fd >= 0, "accept: errno %d", errno);
			memset(mpa, 0, sizeof(mpa));
			len = strlen(words[i]);
			memcpy(mpa, words[i], len < sizeof(mpa) ? len : sizeof(mpa));
			if (len >= 18)
				len = 20;
			CHECK(send(fd, mpa, len < 20 ? len : 20, MSG_NOSIGNAL) >= 0,
			      "send: errno %d", errno);
			close(fd);
			close(listener);
		}
		sync_sides(s);
	}
}

/* Nobody answers the SYN: rdma_connect() does not block, and the attempt can be given up. */
static void t_no_answer(struct side *s)
{
	struct rdma_cm_event ev;
	uint16_t port;
	int fd, i, idle[3];

	if (s->client) {
		oob_recv(s, &port, sizeof(port));
		attempt(s, port, 0, &ev);
		CHECK(!ev.status, "refused at once with %d: not what is tested", ev.status);
		sync_sides(s);
	} else {
		struct sockaddr_storage at = s->local;

		/* A listener with a full backlog drops further SYNs. */
		fd = tcp_listener(s, 0, &port);
		set_port(&at, port);
		for (i = 0; i < 3; i++) {
			idle[i] = socket(at.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
			CHECK(!connect(idle[i], (struct sockaddr *)&at, sizeof(at)) ||
			      errno == EINPROGRESS, "connect: errno %d", errno);
		}
		sleep_ms(QUIET_MS);
		oob_send(s, &port, sizeof(port));
		sync_sides(s);
		close(fd);
		for (i = 0; i < 3; i++)
			close(idle[i]);
	}
}

/* A port can have one listener, and is free again when that is destroyed. */
static void t_listen_twice(struct side *s)
{
	struct sockaddr_storage at = s->local;
	struct rdma_cm_id *one, *two;

	one = listen_open(s, s->ech, 4);
	set_port(&at, port_of(rdma_get_local_addr(one)));
	CALL(rdma_create_id(s->ech, &two, NULL, RDMA_PS_TCP));
	CHECK(rdma_bind_addr(two, (struct sockaddr *)&at) || rdma_listen(two, 4),
	      "a second listener on the same port");
	CALL(rdma_destroy_id(two));
	CALL(rdma_destroy_id(one));
	CALL(rdma_create_id(s->ech, &two, NULL, RDMA_PS_TCP));
	CALL(rdma_bind_addr(two, (struct sockaddr *)&at));
	CALL(rdma_listen(two, 4));
	CALL(rdma_destroy_id(two));
	sync_sides(s);
}

/* A listener on the wildcard address accepts connections to this side's address. */
static void t_wildcard(struct side *s)
{
	struct sockaddr_storage any = { .ss_family = s->local.ss_family }, to = s->peer;
	struct conn c = { .ech = rdma_create_event_channel() };
	struct conn_opts o = {};
	struct rdma_conn_param p;
	struct rdma_cm_event ev;
	struct rdma_cm_id *id;
	uint16_t port;

	CHECK(c.ech, "rdma_create_event_channel: errno %d", errno);
	if (s->client) {
		oob_recv(s, &port, sizeof(port));
		set_port(&to, port);
		CALL(rdma_create_id(c.ech, &c.id, NULL, RDMA_PS_TCP));
		conn_resolve(s, c.id, c.ech, &to);
		conn_setup(s, &c, &o);
		conn_param(&c, &p);
		CALL(rdma_connect(c.id, &p));
		cm_expect(c.ech, RDMA_CM_EVENT_ESTABLISHED, NULL, NULL);
	} else {
		CALL(rdma_create_id(c.ech, &id, NULL, RDMA_PS_TCP));
		CALL(rdma_bind_addr(id, (struct sockaddr *)&any));
		CALL(rdma_listen(id, 4));
		port = port_of(rdma_get_local_addr(id));
		oob_send(s, &port, sizeof(port));
		cm_expect(c.ech, RDMA_CM_EVENT_CONNECT_REQUEST, &ev, NULL);
		c.id = ev.id;
		CHECK(c.id->verbs == s->ctx, "the request came by another device");
		conn_setup(s, &c, &o);
		conn_param(&c, &p);
		CALL(rdma_accept(c.id, &p));
		cm_expect(c.ech, RDMA_CM_EVENT_ESTABLISHED, NULL, NULL);
		CALL(rdma_destroy_id(id));
	}
	if (!s->active)
		mark_arm(&c);
	sync_sides(s);
	if (s->active)
		mark_send(&c, 9);
	else
		mark_wait(&c, 9);
	conn_close(&c);
}

static bool same_end(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;
	const struct sockaddr_in6 *a6 = (const void *)a, *b6 = (const void *)b;

	if (a->ss_family != b->ss_family || a4->sin_port != b4->sin_port)
		return false;
	if (a->ss_family == AF_INET)
		return a4->sin_addr.s_addr == b4->sin_addr.s_addr;
	return !memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof(a6->sin6_addr));
}

/* Each side learns its peer's address and port. */
static void t_peer_address(struct side *s)
{
	struct sockaddr_storage own, other;
	struct conn c;

	conn_open(s, &c, NULL);
	own = c.id->route.addr.src_storage;
	oob_send(s, &own, sizeof(own));
	oob_recv(s, &other, sizeof(other));
	CHECK(same_end(&c.id->route.addr.dst_storage, &other), "told of another peer");
	set_port(&other, port_of((struct sockaddr *)&s->peer));
	CHECK(same_end(&s->peer, &other), "the peer is not where it should be");
	conn_close(&c);
}

/* As many Reads at once as the sides agreed on, and more, which have to wait. */
static void read_deep(struct side *s, struct conn *c)
{
	enum { SIZE = 512 };
	unsigned int i, count = 2 * c->ord < 60 ? 2 * c->ord : 60;
	struct buf b;

	buf_new(s, &b, 64 * SIZE, ACC_ALL);
	buf_fill(&b, 0, b.len, s->active ? 1 : 2);
	give_rmem(s, &b);
	struct rmem to = take_rmem(s);

	for (i = 0; s->active && i < count; i++) {
		struct ibv_sge sge = sge_of(&b, i * SIZE, SIZE);

		post(c, IBV_WR_RDMA_READ, i, IBV_SEND_SIGNALED, &sge, 1, to.addr + i * SIZE, to.rkey);
	}
	for (i = 0; s->active && i < count; i++)
		good(c->scq, i, IBV_WC_RDMA_READ, -1);
	if (s->active)
		buf_expect(&b, 0, count * SIZE, 2);
	sync_sides(s);
	buf_verify(&b, "what was read");
	buf_free(&b);
}

/* IRD and ORD: each side's ORD is the minimum of its own and the other side's IRD. */
static void t_read_depths(struct side *s)
{
	static const struct {
		int client_ird, client_ord, server_ird, server_ord;
	} cases[] = {
		{ 1, 1, 1, 1 }, { 16, 4, 4, 16 }, { 2, 30, 30, 2 }, { 128, 128, 128, 128 },
		{ 5, -1, -1, 5 }, { 3, 9, 5, 7 },
	};
	struct conn_opts o = {};
	struct conn c;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		int ird = cases[i].server_ird, ord = cases[i].server_ord, theirs = cases[i].client_ird;

		if (s->client) {
			ird = cases[i].client_ird;
			ord = cases[i].client_ord;
			theirs = cases[i].server_ird;
		}
		o.ird = ird;
		o.ord = ord;
		conn_open(s, &c, &o);
		/* Our ORD must not exceed the other side's IRD. */
		struct { int ird, ord; } own = { c.ird, c.ord }, other;

		oob_send(s, &own, sizeof(own));
		oob_recv(s, &other, sizeof(other));
		CHECK(own.ord <= other.ird, "case %zu: %d Reads sent, %d answered", i,
		      own.ord, other.ird);
		ord = ord < 0 ? 0 : ord;
		theirs = theirs < 0 ? 0 : theirs;
		CHECK(own.ord <= ord, "case %zu: %d Reads, asked for %d", i, own.ord, ord);
		/*
		 * It must not be less than the minimum, either. (The accepting side may raise its
		 * IRD.) siw does not always report the values that it uses.
		 */
		CHECK(s->gentle || own.ord >= (ord < theirs ? ord : theirs),
		      "case %zu: %d Reads, asked for %d and %d", i, own.ord, ord, theirs);
		read_deep(s, &c);
		conn_close(&c);
	}
}

/* The type of service in a TCP packet to this port; -1 for another packet. */
static int tos_of(const uint8_t *p, size_t len, uint16_t port)
{
	size_t head = 40;
	uint16_t ports[2];		/* source, destination */
	int tos, proto;

	if (len < 20)
		return -1;
	if (p[0] >> 4 == 4) {
		head = (p[0] & 15) * 4;
		tos = p[1];
		proto = p[9];
	} else {
		tos = (p[0] & 15) << 4 | p[1] >> 4;
		proto = p[6];
	}
	if (proto != IPPROTO_TCP || len < head + sizeof(ports))
		return -1;
	memcpy(ports, p + head, sizeof(ports));
	return ntohs(ports[1]) == port ? tos : -1;
}

/*
 * The packets of a connection carry the type of service that the connecting
 * side has set. The other side captures them.
 */
static void t_tos(struct side *s)
{
	/* The last two bits are for explicit congestion notification. */
	enum { ECN = 3 };
	static const uint8_t values[] = { 0x48, 0xb8, 0 };
	struct conn_opts o = {};
	struct timeval no_time = { .tv_usec = 1 };
	int i, sniffer, tos, seen;
	uint8_t packet[128];
	struct conn c;
	uint16_t port;
	ssize_t len;

	for (i = 0; i < (int)ARRAY_SIZE(values); i++) {
		sniffer = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, htons(ETH_P_ALL));
		if (sniffer < 0)
			skip("no packet socket: errno %d", errno);
		CALL(setsockopt(sniffer, SOL_SOCKET, SO_RCVTIMEO, &no_time, sizeof(no_time)));
		if (s->client)
			o.tos = values[i];
		conn_open(s, &c, &o);
		if (!s->client)
			mark_arm(&c);
		sync_sides(s);
		if (s->client)
			mark_send(&c, i);
		else
			mark_wait(&c, i);
		port = ntohs(rdma_get_src_port(c.id));
		for (seen = 0; !s->client; ) {
			len = recv(sniffer, packet, sizeof(packet), 0);
			if (len < 0)
				break;
			tos = tos_of(packet, len, port);
			if (tos < 0)
				continue;
			seen++;
			CHECK((tos & ~ECN) == values[i], "packet %d has %#x, not %#x", seen, tos,
			      values[i]);
		}
		/* At least the packets of TCP's handshake, the Request, and the mark. */
		CHECK(s->client || seen >= 4, "only %d packets", seen);
		close(sniffer);
		conn_close(&c);
	}
}

/*
 * The side that accepts sends first. It may, although RFC 5044 forbids it,
 * because the sides agree on a ready-to-receive message (RFC 6581).
 */
static void t_server_first(struct side *s)
{
	struct conn_opts o = { .silent = true };
	struct conn c;

	conn_open(s, &c, &o);
	if (s->client)
		mark_arm(&c);
	sync_sides(s);
	if (s->client)
		mark_wait(&c, 5);
	else
		mark_send(&c, 5);
	conn_close(&c);
}

const struct test cm_tests[] = {
	{ "private-data", t_private_data, T_QUICK, false },
	{ "private-data-most", t_private_data, 0, true },
	/*= 5044-7.1.2-4 */
	{ "reject", t_reject, T_QUICK },
	{ "closed-port", t_closed_port, T_QUICK },
	{ "silent-peer", t_silent_peer, 0, 0, 60 },
	/*= 5044-7.1.2-6 */
	{ "wrong-peer", t_wrong_peer, 0 },
	{ "no-answer", t_no_answer, 0, 0, 30 },
	{ "listen-twice", t_listen_twice, 0 },
	{ "listen-wildcard", t_wildcard, T_QUICK },
	/*= 5044-7.1-2, 6581-9.2-7 */
	{ "server-first", t_server_first, T_QUICK },
	{ "peer-address", t_peer_address, T_QUICK },
	/*= 5040-5.2.2-3, 5040-6.1-2, 5040-6.1-3 */
	{ "read-depths", t_read_depths, T_BOTH },
	{ "tos", t_tos, T_QUICK },
	{ }
};
