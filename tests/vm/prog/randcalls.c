// SPDX-License-Identifier: GPL-2.0
/*
 * randcalls ADDRESS FILE: two threads make random calls of verbs and of the RDMA CM, with
 * random objects and arguments (SEED), until the process is killed. They connect to other
 * processes of this program. FILE counts, for all processes, how often each call has
 * succeeded; `randcalls tell FILE` prints that, and fails if a call never has.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "randcalls.h"

static struct shared *shared;

static struct sockaddr_in address;

static int pd(struct mine *m)
{
	struct ibv_pd **at = PLACE(m, pd);

	if (*at)
		return below(m, 4) ? -1 : DESTROY(at, ibv_dealloc_pd);
	*at = ibv_alloc_pd(m->context);
	return *at ? 0 : -1;
}

static int mr(struct mine *m)
{
	struct ibv_mr **at = PLACE(m, mr);
	struct ibv_pd *domain = ONE(m, pd);
	size_t from = below(m, MEMORY), len = below(m, 4) ? 1 + below(m, MEMORY - from) : any(m);
	int access = below(m, 4) ? IBV_ACCESS_LOCAL_WRITE | (below(m, 16) << 1) : any(m);

	if (*at)
		return below(m, 2) ? -1 : DESTROY(at, ibv_dereg_mr);
	if (!domain)
		return -1;
	/* Half of the regions have all the memory, so that many requests can succeed. */
	*at = below(m, 2) ? ibv_reg_mr_iova(domain, m->memory, MEMORY, 0, access) :
		ibv_reg_mr_iova(domain, m->memory + from, len, below(m, 4) ? from : any(m), access);
	return *at ? 0 : -1;
}

static int channel(struct mine *m)
{
	struct ibv_comp_channel **at = PLACE(m, channel);

	if (*at)
		return below(m, 4) ? -1 : DESTROY(at, ibv_destroy_comp_channel);
	*at = ibv_create_comp_channel(m->context);
	if (*at)
		fcntl((*at)->fd, F_SETFL, O_NONBLOCK);
	return *at ? 0 : -1;
}

static int cq(struct mine *m)
{
	struct ibv_cq **at = PLACE(m, cq);

	if (*at)
		return below(m, 4) ? -1 : DESTROY(at, ibv_destroy_cq);
	*at = ibv_create_cq(m->context, number(m, 64), NULL, ONE(m, channel), below(m, 3));
	return *at ? 0 : -1;
}

static int srq(struct mine *m)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = number(m, 64), .max_sge = number(m, 6) } };
	struct ibv_srq_attr attr = { .max_wr = number(m, 64), .srq_limit = number(m, 8) };
	struct ibv_srq **at = PLACE(m, srq);
	struct ibv_pd *domain = ONE(m, pd);

	if (*at) {
		if (below(m, 3))
			return ibv_modify_srq(*at, &attr, below(m, 4) ? IBV_SRQ_LIMIT : below(m, 8));
		return DESTROY(at, ibv_destroy_srq);
	}
	if (!domain)
		return -1;
	*at = ibv_create_srq(domain, &init);
	return *at ? 0 : -1;
}

static struct ibv_qp_init_attr qp_init(struct mine *m)
{
	return (struct ibv_qp_init_attr) {
		.qp_type = below(m, 16) ? IBV_QPT_RC : below(m, 12),
		.send_cq = ONE(m, cq),
		.recv_cq = ONE(m, cq),
		.srq = below(m, 4) ? NULL : ONE(m, srq),
		.sq_sig_all = below(m, 2),
		.cap = { number(m, 64), number(m, 64), number(m, 6), number(m, 6),
			 below(m, 4) ? number(m, 64) : below(m, 600) },
	};
}

/* Makes a queue pair in an empty slot, with an id if there is one. */
static int new_qp(struct mine *m, struct ibv_qp **at, struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init = qp_init(m);
	struct ibv_pd *domain = ONE(m, pd);

	/* The library dereferences these. */
	if (*at || !domain || !init.send_cq || !init.recv_cq)
		return -1;
	if (!id) {
		*at = ibv_create_qp(domain, &init);
		return *at ? 0 : -1;
	}
	if (id->qp || rdma_create_qp(id, domain, &init))
		return -1;
	*at = id->qp;
	return 0;
}

static int qp(struct mine *m)
{
	struct ibv_qp **at = PLACE(m, qp);
	int i;

	if (*at) {
		if (below(m, 4))
			return -1;
		for (i = 0; i < SLOTS; i++)
			if (m->id[i] && m->id[i]->qp == *at)
				m->id[i]->qp = NULL;
		return DESTROY(at, ibv_destroy_qp);
	}
	return new_qp(m, at, below(m, 2) ? ONE(m, id) : NULL);
}

static int modify(struct mine *m)
{
	struct ibv_qp_attr attr = { .qp_state = below(m, 8), .qp_access_flags = below(m, 16) };
	struct ibv_qp_init_attr init;
	struct ibv_qp *one = ONE(m, qp);

	if (!one)
		return -1;
	if (!below(m, 4))
		return ibv_query_qp(one, &attr, any(m), &init);
	return ibv_modify_qp(one, &attr, below(m, 4) ? IBV_QP_STATE : any(m));
}

static struct ibv_sge sge(struct mine *m)
{
	struct ibv_mr *region = ONE(m, mr);
	uint64_t from = below(m, MEMORY);

	if (!region || !below(m, 8))
		return (struct ibv_sge) { any(m), any(m), any(m) };
	/* The address is the offset in the memory, as in most regions. */
	return (struct ibv_sge) { from, below(m, 4) ? below(m, 4096) : number(m, MEMORY - from),
		below(m, 16) ? region->lkey : any(m) };
}

static int post_recv(struct mine *m)
{
	struct ibv_sge list[4] = { sge(m), sge(m), sge(m), sge(m) };
	struct ibv_recv_wr wr = { .wr_id = any(m), .sg_list = list, .num_sge = below(m, 5) }, *bad;
	struct ibv_srq *shared = ONE(m, srq);
	struct ibv_qp *one = ONE(m, qp);

	if (shared && below(m, 2))
		return ibv_post_srq_recv(shared, &wr, &bad);
	/* The library assumes that a queue pair with a shared queue has no receives. */
	return one && !one->srq ? ibv_post_recv(one, &wr, &bad) : -1;
}

static int post_send(struct mine *m)
{
	struct ibv_sge list[4] = { sge(m), sge(m), sge(m), sge(m) }, far = sge(m);
	static const unsigned int plain[] = {
		IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND_WITH_INV,
	};
	struct ibv_send_wr wr = {
		.wr_id = any(m), .sg_list = list, .num_sge = below(m, 5),
		.opcode = below(m, 4) ? plain[below(m, 4)] : below(m, 16),
		.send_flags = below(m, 32),
		.imm_data = any(m),
		.wr.rdma = { far.addr, far.lkey },
	}, *bad;
	struct ibv_qp *one = ONE(m, qp);

	if (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = far.addr & ~7ull;
		wr.wr.atomic.compare_add = any(m);
		wr.wr.atomic.swap = any(m);
		wr.wr.atomic.rkey = far.lkey;
		if (below(m, 8)) {
			wr.num_sge = 1;
			list[0].length = 8;
		}
	}

	/* The library copies inline data itself: they must be readable. */
	if (wr.send_flags & IBV_SEND_INLINE)
		for (int i = 0; i < 4; i++) {
			list[i].addr = (uintptr_t)m->memory + list[i].addr % (MEMORY / 2);
			list[i].length %= 16;
		}
	return one ? ibv_post_send(one, &wr, &bad) : -1;
}

static int poll_cq(struct mine *m)
{
	struct ibv_cq *one = ONE(m, cq);
	struct ibv_wc wc[4];

	if (!one || (!below(m, 2) && ibv_req_notify_cq(one, below(m, 2))))
		return -1;
	return ibv_poll_cq(one, 1 + below(m, 4), wc) > 0 ? 0 : -1;
}

static int cq_event(struct mine *m)
{
	struct ibv_comp_channel *one = ONE(m, channel);
	struct ibv_cq *cq;
	void *context;

	if (!one || ibv_get_cq_event(one, &cq, &context))
		return -1;
	ibv_ack_cq_events(cq, 1);
	return 0;
}

static int async_event(struct mine *m)
{
	struct ibv_async_event event;

	if (ibv_get_async_event(m->context, &event))
		return -1;
	ibv_ack_async_event(&event);
	return 0;
}

static struct sockaddr *place(struct mine *m)
{
	static __thread struct sockaddr_in at;

	at = address;
	at.sin_port = htons(7400 + below(m, PORTS));
	if (!below(m, 8))
		at.sin_addr.s_addr = any(m);
	return (struct sockaddr *)&at;
}

static int id(struct mine *m)
{
	struct rdma_cm_id **at = PLACE(m, id), *was = *at;

	if (!was)
		return rdma_create_id(m->events, at, NULL, RDMA_PS_TCP);
	if (below(m, 4))
		return -1;
	*at = NULL;
	/* The id's queue pair, if it has one, stays. */
	return rdma_destroy_id(was);
}

static int listen_at(struct mine *m)
{
	struct rdma_cm_id *one = ONE(m, id);

	if (!one)
		return -1;
	rdma_bind_addr(one, place(m));
	return rdma_listen(one, below(m, 16));
}

static int resolve(struct mine *m)
{
	struct rdma_cm_id *one = ONE(m, id);

	return one ? rdma_resolve_addr(one, NULL, place(m), 200) : -1;
}

static int go(struct mine *m, struct rdma_cm_id *one, int accept)
{
	static char data[512];
	struct rdma_conn_param p = {
		.private_data = data, .private_data_len = number(m, 255),
		.responder_resources = below(m, 256), .initiator_depth = below(m, 256),
		.rnr_retry_count = 7,
		.qp_num = below(m, 8) && ONE(m, qp) ? 0 : any(m),
	};

	for (int i = 0; i < SLOTS && !one->qp && below(m, 8); i++)
		new_qp(m, &m->qp[i], one);
	if (!p.qp_num && !one->qp)
		for (int i = 0; i < SLOTS; i++)
			if (m->qp[i])
				p.qp_num = m->qp[i]->qp_num;
	return accept ? rdma_accept(one, &p) : rdma_connect(one, &p);
}

static int connect_id(struct mine *m)
{
	struct rdma_cm_id *one = ONE(m, id);

	/* The library uses the id's device without a check that there is one. */
	return one && one->verbs ? go(m, one, 0) : -1;
}

static int leave(struct mine *m)
{
	struct rdma_cm_id *one = ONE(m, id);

	return one ? rdma_disconnect(one) : -1;
}

/* Mostly does what a consumer would do next. */
static int cm_event(struct mine *m)
{
	struct rdma_cm_event *event, copy;
	struct rdma_cm_id **at;

	if (rdma_get_cm_event(m->events, &event))
		return -1;
	copy = *event;
	rdma_ack_cm_event(event);
	switch (below(m, 16) ? copy.event : RDMA_CM_EVENT_CONNECT_ERROR) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		return rdma_resolve_route(copy.id, 200);
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		return go(m, copy.id, 0);
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		at = PLACE(m, id);
		if (*at)
			return rdma_reject(copy.id, m->memory, below(m, 256)) | rdma_destroy_id(copy.id);
		*at = copy.id;
		return go(m, copy.id, 1);
	case RDMA_CM_EVENT_ESTABLISHED:
		atomic_fetch_add(&shared->established, 1);
		return 0;
	default:
		return 0;
	}
}

/* Forks a child, which shares the parent's objects and ends some time later. */
static int fork_child(struct mine *m);

static int unmap(struct mine *m)
{
	size_t from = below(m, MEMORY / 4096) * 4096UL, len = (1 + below(m, 16)) * 4096UL;

	if (from + len > MEMORY)
		return -1;
	if (below(m, 2))
		return mprotect(m->memory + from, len, below(m, 2) ? PROT_READ : PROT_READ | PROT_WRITE);
	return mmap(m->memory + from, len, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED ? -1 : 0;
}

static int query(struct mine *m)
{
	struct ibv_device_attr device;
	struct ibv_srq_attr shared;
	struct ibv_port_attr port;
	struct ibv_srq *one = ONE(m, srq);
	union ibv_gid gid;

	switch (below(m, 4)) {
	case 0: return ibv_query_device(m->context, &device);
	case 1: return ibv_query_port(m->context, below(m, 3), &port);
	case 2: return ibv_query_gid(m->context, below(m, 3), below(m, 3), &gid);
	default: return one ? ibv_query_srq(one, &shared) : -1;
	}
}

static const struct call {
	const char *name;
	int (*does)(struct mine *m);
	unsigned int weight;
} calls[] = {
	{ "pd", pd, 4 }, { "mr", mr, 6 }, { "channel", channel, 3 }, { "cq", cq, 6 },
	{ "srq", srq, 4 }, { "qp", qp, 4 }, { "modify", modify, 2 }, { "post_recv", post_recv, 10 },
	{ "post_send", post_send, 16 }, { "poll_cq", poll_cq, 10 }, { "cq_event", cq_event, 4 },
	{ "async_event", async_event, 3 }, { "id", id, 4 }, { "listen", listen_at, 3 },
	{ "resolve", resolve, 6 }, { "connect", connect_id, 2 }, { "leave", leave, 1 },
	{ "cm_event", cm_event, 16 }, { "unmap", unmap, 2 }, { "query", query, 2 },
	{ "fork", fork_child, 1 },
};
#define CALLS ARRAY_SIZE(calls)

static __thread unsigned int under_way;

/* The library checks few arguments, and may crash. */
static void crashed(int signal)
{
	atomic_fetch_add(&shared->of[under_way].crashed, 1);
	_exit(signal);
}

static void call(struct mine *m, int may_fork)
{
	unsigned int sum = 0, i, n;

	for (i = 0; i < CALLS; i++)
		sum += calls[i].weight;
	n = below(m, sum);
	for (i = 0; n >= calls[i].weight; i++)
		n -= calls[i].weight;
	if (calls[i].does == fork_child && !may_fork)
		return;
	under_way = i;
	atomic_fetch_add(calls[i].does(m) ? &shared->of[i].bad : &shared->of[i].good, 1);
}

static int fork_child(struct mine *m)
{
	pid_t child;

	if (below(m, 8))
		return -1;
	child = fork();
	if (child)
		return child < 0 ? -1 : 0;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	m->state ^= 0x5555;
	for (int i = below(m, 50); i; i--)
		call(m, 0);
	_exit(0);
}

static struct mine start(struct ibv_context *context, uint64_t seed)
{
	struct mine m = { .state = seed, .context = context };

	m.events = rdma_create_event_channel();
	m.memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!m.events || m.memory == MAP_FAILED)
		_exit(3);
	fcntl(m.events->fd, F_SETFL, O_NONBLOCK);
	return m;
}

static void *thread(void *arg)
{
	for (;;)
		call(arg, 0);
	return NULL;
}

/* The counts of all processes that share this file. */
static struct shared *shared_counts(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT, 0600);
	void *p;

	if (fd < 0 || ftruncate(fd, 4096))
		return NULL;
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return p == MAP_FAILED ? NULL : p;
}

/*
 * Prints the counts. A call that never succeeds tests little, so this fails if more than @most
 * calls never have, or if there was no connection.
 */
static int tell(unsigned int most)
{
	unsigned int i, never = 0;

	for (i = 0; i < CALLS; i++) {
		const struct counts *c = &shared->of[i];

		printf("%s: %u good, %u bad, %u crashed\n", calls[i].name, c->good, c->bad, c->crashed);
		never += !c->good;
	}
	printf("%u connections\n", shared->established);
	return never > most || !shared->established;
}

int main(int argc, char **argv)
{
	const char *seed = getenv("SEED");
	struct ibv_context **contexts;
	struct mine first, second;
	pthread_t t;
	int n;

	if (argc != 3 && argc != 4) {
		fprintf(stderr, "usage: randcalls ADDRESS FILE\n"
			"       randcalls tell FILE [CALLS THAT MAY NEVER HAVE BEEN GOOD]\n");
		return 2;
	}
	shared = shared_counts(argv[2]);
	if (!shared)
		return 3;
	if (!strcmp(argv[1], "tell"))
		/* Some calls succeed only by chance, as there may be no event of a queue. */
		return tell(argc > 3 ? strtoul(argv[3], NULL, 10) : 1);
	address.sin_family = AF_INET;
	inet_pton(AF_INET, argv[1], &address.sin_addr);
	contexts = rdma_get_devices(&n);
	if (!contexts || !n)
		return 3;
	signal(SIGSEGV, crashed);
	signal(SIGBUS, crashed);
	signal(SIGFPE, crashed);
	signal(SIGABRT, crashed);
	fcntl(contexts[0]->async_fd, F_SETFL, O_NONBLOCK);
	first = start(contexts[0], seed ? strtoull(seed, NULL, 0) : 1);
	second = start(contexts[0], ~first.state);
	if (pthread_create(&t, NULL, thread, &second))
		return 3;
	for (;;)
		call(&first, 1);
}
