// SPDX-License-Identifier: GPL-2.0
/*
 * Tests between two hosts, each with this module: one serves a connection (serve=1), the other one
 * connects to it (peer=) and runs the tests. Unlike in the other tests, no end can access the other
 * end's memory directly.
 */
#include <linux/slab.h>

#include "kverbs.h"

enum { LEN = 3 * PAGE_SIZE + 100, TURNS = 40, WINDOW = 4 };

/* The server's first message: the address of its region. */
struct region {
	__be64 addr;
	__be32 key;
	__be32 len;
};

/* Runs before the connection is accepted, as the first message may follow immediately. */
static int post_all(struct end *e)
{
	int i;

	for (i = 0; i < WINDOW; i++)
		DO(post_recv(e, e->pair->r + i, i * LEN, LEN));
	return 0;
}

static const struct opts options = {
	.len = LEN * (WINDOW + 1), .poll = IB_POLL_WORKQUEUE, .before_accept = post_all,
};

/*
 * The server sends each message back. A Send with Invalidate of its region ends the tests. The
 * server posts a receive before it sends the answer, which makes the client send again.
 */
int hosts_serve(struct pair *p)
{
	struct end *e = &p->s;
	struct req *r = p->r, *s = p->r + WINDOW;
	struct region *said;
	struct ib_sge sge;
	struct ib_mr *mr;
	u32 i, at, len;

	DO(pair_serve(p, &options));
	/* In iWARP the accepting side must not send first. */
	DO(req_wait(e, r));
	mr = reg_plain(e, LEN, REMOTE);
	EXPECT(mr, "no region\n");
	said = (struct region *)(e->m.p + WINDOW * LEN);
	*said = (struct region) { cpu_to_be64(mr->iova), cpu_to_be32(mr->rkey), cpu_to_be32(LEN) };
	sge = sge_of(e, WINDOW * LEN, sizeof(*said));
	DO(post_recv(e, r, 0, LEN));
	DO(post_op(e, s, IB_WR_SEND, 0, &sge, 0, 0));
	DO(req_wait(e, s));
	for (i = 1;; i++) {
		at = i % WINDOW;
		DO(req_wait(e, r + at));
		if (r[at].wc.wc_flags & IB_WC_WITH_INVALIDATE)
			break;
		len = r[at].wc.byte_len;
		memcpy(e->m.p + WINDOW * LEN, e->m.p + at * LEN, len);
		DO(post_recv(e, r + at, at * LEN, LEN));
		sge = sge_of(e, WINDOW * LEN, len);
		DO(post_op(e, s, IB_WR_SEND, 0, &sge, 0, 0));
		DO(req_wait(e, s));
	}
	EXPECT(r[at].wc.ex.invalidate_rkey == mr->rkey, "another key is invalid\n");
	/* The client then tries to read the region, and ends the connection. */
	return wait_error(e);
}

/* Sends a message, and receives the answer in the memory after it. */
static int turn(struct end *e, struct req *s, struct req *r, u32 len)
{
	struct ib_sge sge = sge_of(e, 0, len);

	DO(post_recv(e, r, LEN, LEN));
	DO(post_op(e, s, IB_WR_SEND, 0, &sge, 0, 0));
	DO(req_wait(e, s));
	DO(req_wait(e, r));
	return 0;
}

static int t_hello(struct pair *p, struct region *there)
{
	DO(turn(&p->c, p->r, p->r + 1, 1));
	EXPECT(p->r[1].wc.byte_len == sizeof(*there), "%u bytes\n", p->r[1].wc.byte_len);
	memcpy(there, p->c.m.p + LEN, sizeof(*there));
	EXPECT(be32_to_cpu(there->len) == LEN, "a region of %u bytes\n", be32_to_cpu(there->len));
	return 0;
}

static int t_echo(struct pair *p, struct region *there)
{
	struct end *e = &p->c;
	u32 i, len;

	for (i = 0; i < TURNS; i++) {
		len = 1 + i * (LEN - 1) / (TURNS - 1);
		mem_fill(&e->m, i);
		memset(e->m.p + LEN, 0, LEN);
		DO(turn(e, p->r, p->r + 1, len));
		EXPECT(p->r[1].wc.byte_len == len && mem_is(&e->m, LEN, len, i),
		       "turn %u: %u bytes of %u, or others\n", i, p->r[1].wc.byte_len, len);
	}
	return 0;
}

static int t_place(struct pair *p, struct region *there)
{
	u64 addr = be64_to_cpu(there->addr);
	u32 i, key = be32_to_cpu(there->key);
	struct end *e = &p->c;
	struct ib_sge sge;

	for (i = 0; i < TURNS; i++) {
		mem_fill(&e->m, 100 + i);
		memset(e->m.p + LEN, 0, LEN);
		sge = sge_of(e, 0, LEN);
		DO(post_op(e, p->r, IB_WR_RDMA_WRITE, 0, &sge, addr, key));
		/* A Read Request does not overtake the Write (RFC 5040, 5.5). */
		sge = sge_of(e, LEN, LEN);
		DO(post_op(e, p->r + 1, IB_WR_RDMA_READ, 0, &sge, addr, key));
		DO(req_wait(e, p->r));
		DO(req_wait(e, p->r + 1));
		EXPECT(mem_is(&e->m, LEN, LEN, 100 + i), "round %u: other bytes\n", i);
	}
	return 0;
}

static int t_invalidate(struct pair *p, struct region *there)
{
	u32 key = be32_to_cpu(there->key);
	struct end *e = &p->c;
	struct ib_sge sge = sge_of(e, 0, 8);

	DO(post_op(e, p->r, IB_WR_SEND_WITH_INV, 0, &sge, 0, key));
	DO(req_wait(e, p->r));
	/* The server refuses the Read with a Terminate. */
	DO(post_op(e, p->r + 1, IB_WR_RDMA_READ, 0, &sge, be64_to_cpu(there->addr), key));
	EXPECT(req_wait(e, p->r + 1) > 0, "the region can still be read\n");
	return wait_error(e);
}

static const struct {
	const char *name;
	int (*run)(struct pair *p, struct region *there);
} tests[] = {
	{ "the peer sends the address of its region", t_hello },
	{ "messages of all lengths come back", t_echo },
	{ "Reads find what Writes have placed", t_place },
	{ "Send with Invalidate ends the peer's region", t_invalidate },
};

void hosts_test(struct pair *p, const char *peer)
{
	struct region there = { };
	int i, ret;

	pr_info("kverbs: 1..%zu\n", ARRAY_SIZE(tests) + 1);
	ret = pair_connect(p, &options, peer);
	pr_info("kverbs: %s 1 - a connection with the peer host\n", ret ? "not ok" : "ok");
	if (ret)
		pr_err("kverbs: # no connection: %d\n", ret);
	/* After a failure the remaining tests fail, too. */
	for (i = 0; i < ARRAY_SIZE(tests); i++) {
		ret = ret ?: tests[i].run(p, &there);
		pr_info("kverbs: %s %d - %s\n", ret ? "not ok" : "ok", i + 2, tests[i].name);
	}
}
