// SPDX-License-Identifier: GPL-2.0
/*
 * A consumer gets its memory back when a request completes, also if the driver sends from there:
 * with lend=1 and as the tests between two hosts (serve=1, peer=). The memory is single pages, to
 * which TCP can refer, and the network between the hosts delays packets and loses some.
 */
#include <linux/delay.h>
#include <linux/mm.h>

#include "kverbs.h"

enum {
	PAGES = 16,				/* of a Write */
	WRITES = 16,
	LEN = WRITES * PAGES * PAGE_SIZE,
	ROUNDS = 8,
	/* Shorter than the network's delay. */
	HELD_MS = 40,
	OTHER = 0xee,
};

/* The server's message: the address of its region. */
struct region {
	__be64 addr;
	__be32 key;
};

/* The client's memory. */
struct pages {
	struct ib_device *dev;
	struct page *page[WRITES * PAGES];
	u64 dma[WRITES * PAGES];
};

static int post_first(struct end *e)
{
	return post_recv(e, e->pair->r, LEN, PAGE_SIZE);
}

static const struct opts options = {
	.len = LEN + PAGE_SIZE, .poll = IB_POLL_WORKQUEUE, .sge = ALL, .before_accept = post_first,
};

int lend_serve(struct pair *p)
{
	struct end *e = &p->s;
	struct region *said;
	struct ib_sge sge;
	struct ib_mr *mr;
	int i, ret;

	DO(pair_serve(p, &options));
	DO(req_wait(e, p->r));
	mr = reg_plain(e, LEN, REMOTE);
	EXPECT(mr, "no region\n");
	DO(post_recv(e, p->r, LEN, PAGE_SIZE));
	said = (struct region *)(e->m.p + LEN);
	*said = (struct region) { cpu_to_be64(mr->iova), cpu_to_be32(mr->rkey) };
	sge = sge_of(e, LEN, sizeof(*said));
	DO(post_op(e, p->r + 1, IB_WR_SEND, 0, &sge, 0, 0));
	DO(req_wait(e, p->r + 1));
	/* Until the client ends the connection. */
	for (i = 0; i < 20; i++) {
		ret = req_wait(e, p->r);
		if (ret != -ETIMEDOUT)
			break;
	}
	EXPECT(ret == IB_WC_WR_FLUSH_ERR, "a message, or no end: %d\n", ret);
	return 0;
}

static void pages_free(struct pages *m)
{
	int i;

	for (i = 0; i < WRITES * PAGES && m->page[i]; i++) {
		ib_dma_unmap_page(m->dev, m->dma[i], PAGE_SIZE, DMA_TO_DEVICE);
		__free_page(m->page[i]);
	}
}

static int pages_new(struct pages *m)
{
	int i;

	for (i = 0; i < WRITES * PAGES; i++) {
		m->page[i] = alloc_page(GFP_KERNEL);
		EXPECT(m->page[i], "no memory\n");
		m->dma[i] = ib_dma_map_page(m->dev, m->page[i], 0, PAGE_SIZE, DMA_TO_DEVICE);
	}
	return 0;
}

static void pages_fill(struct pages *m, u8 seed)
{
	size_t i;

	for (i = 0; i < LEN; i++)
		((u8 *)page_address(m->page[i / PAGE_SIZE]))[i % PAGE_SIZE] = byte_at(i, seed);
}

/* Nobody else has the pages of a Write; then they get other content. */
static int take_back(struct pages *m, int nr)
{
	unsigned long end = jiffies + msecs_to_jiffies(HELD_MS);
	struct page *page;
	int i;

	for (i = nr * PAGES; i < (nr + 1) * PAGES; i++) {
		page = m->page[i];
		/* TCP tells that it is done just before it drops its references. */
		while (page_count(page) != 1 && time_before(jiffies, end))
			usleep_range(100, 200);
		EXPECT(page_count(page) == 1, "page %d has %d references\n", i, page_count(page));
		memset(page_address(page), OTHER, PAGE_SIZE);
	}
	return 0;
}

static int post_writes(struct end *e, struct pages *m, struct region *there)
{
	struct ib_sge sge[PAGES];
	struct ib_rdma_wr wr;
	int i, nr;

	for (nr = 0; nr < WRITES; nr++) {
		for (i = 0; i < PAGES; i++)
			sge[i] = (struct ib_sge) {
				m->dma[nr * PAGES + i], PAGE_SIZE, e->pd->local_dma_lkey
			};
		wr = (struct ib_rdma_wr) {
			.wr = { .opcode = IB_WR_RDMA_WRITE, .sg_list = sge, .num_sge = PAGES },
			.remote_addr = be64_to_cpu(there->addr) + nr * PAGES * PAGE_SIZE,
			.rkey = be32_to_cpu(there->key),
		};
		DO(post(e, e->pair->r + nr, &wr.wr));
	}
	return 0;
}

static int t_hello(struct pair *p, struct pages *m, struct region *there)
{
	struct end *e = &p->c;
	struct ib_sge sge = sge_of(e, 0, 1);

	DO(pages_new(m));
	DO(post_recv(e, p->r, LEN, PAGE_SIZE));
	DO(post_op(e, p->r + 1, IB_WR_SEND, 0, &sge, 0, 0));
	DO(req_wait(e, p->r + 1));
	DO(req_wait(e, p->r));
	memcpy(there, e->m.p + LEN, sizeof(*there));
	return 0;
}

static int t_writes(struct pair *p, struct pages *m, struct region *there)
{
	struct req *read = p->r + WRITES;
	struct end *e = &p->c;
	struct ib_sge sge = sge_of(e, 0, LEN);
	unsigned long began;
	int i, nr;

	for (i = 0; i < ROUNDS; i++) {
		pages_fill(m, i);
		began = jiffies;
		DO(post_writes(e, m, there));
		DO(post_op(e, read, IB_WR_RDMA_READ, 0, &sge, be64_to_cpu(there->addr),
			   be32_to_cpu(there->key)));
		for (nr = 0; nr < WRITES; nr++) {
			DO(req_wait(e, p->r + nr));
			EXPECT(time_after(jiffies, began + msecs_to_jiffies(HELD_MS)),
			       "it has completed before an acknowledgment, so it was copied\n");
			DO(take_back(m, nr));
		}
		DO(req_wait(e, read));
		EXPECT(mem_is(&e->m, 0, LEN, i), "round %d: other bytes\n", i);
	}
	return 0;
}

static int t_drain(struct pair *p, struct pages *m, struct region *there)
{
	int nr, flushed = 0;

	pages_fill(m, ROUNDS);
	DO(post_writes(&p->c, m, there));
	/* The network has some of them, and nothing was acknowledged. */
	usleep_range(10000, 20000);
	ib_drain_qp(qp_of(&p->c));
	for (nr = 0; nr < WRITES; nr++) {
		EXPECT(completion_done(&p->r[nr].done), "Write %d has not completed\n", nr);
		flushed += p->r[nr].wc.status == IB_WC_WR_FLUSH_ERR;
		DO(take_back(m, nr));
	}
	EXPECT(flushed == WRITES, "%d of %d were flushed\n", flushed, WRITES);
	return 0;
}

static const struct {
	const char *name;
	int (*run)(struct pair *p, struct pages *m, struct region *there);
} tests[] = {
	{ "a connection with a consumer that lends pages", t_hello },
	{ "Writes complete when nobody else has their pages", t_writes },
	{ "a queue pair that is drained gives its pages back", t_drain },
};

void lend_test(struct pair *p, const char *peer)
{
	struct pages *m = kvzalloc(sizeof(*m), GFP_KERNEL);
	struct region there = { };
	int i, ret;

	ret = m ? pair_connect(p, &options, peer) : -ENOMEM;
	if (!ret)
		m->dev = p->c.id->device;
	pr_info("kverbs: 1..%zu\n", ARRAY_SIZE(tests));
	for (i = 0; i < ARRAY_SIZE(tests); i++) {
		ret = ret ?: tests[i].run(p, m, &there);
		pr_info("kverbs: %s %d - %s\n", ret ? "not ok" : "ok", i + 1, tests[i].name);
	}
	if (m)
		pages_free(m);
	kvfree(m);
}
