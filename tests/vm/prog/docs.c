// SPDX-License-Identifier: GPL-2.0
/*
 * docs serve tcp|rdma ADDRESS PORT FILE
 * docs fetch tcp|rdma ADDRESS PORT CLIENTS SIZE SECONDS
 *
 * A server of documents and its clients, as a web server has them: each of CLIENTS connections asks for a
 * document of SIZE bytes, waits for all of it, and asks again. Documents begin anywhere in FILE, which is in
 * the page cache. Over TCP the server answers by sendfile(). Over RDMA it has registered a mapping of the file,
 * writes the document to where the client wants it, and sends a word behind. Either has one thread, which
 * sleeps when there is nothing to do. The client prints "connected", and after SECONDS "fetched N" documents; the
 * server runs until it is killed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* What a client asks for. Over RDMA also: where the document goes. */
struct request {
	uint64_t from, addr;
	uint32_t size, rkey;
};

struct one {
	int fd;
	struct rdma_cm_id *id;
	struct request ask;
	/* Bytes of the request that have come (server), or of the document (client). */
	size_t got;
	/* Bytes of the document that are to be sent. */
	size_t left;
	off_t at;
	uint32_t word;
	bool listening;
};

#define MOST 1024
static struct one all[MOST];
static unsigned int number, size;
static unsigned long fetched;
static char *file, *sink;
static size_t length;
static int file_fd, poller;

static struct rdma_event_channel *channel;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_comp_channel *completions;
static struct ibv_mr *words, *memory;

static void must(int bad, const char *what)
{
	if (!bad)
		return;
	fprintf(stderr, "docs: %s: %s\n", what, strerror(errno));
	exit(1);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* The next document: anywhere in the first MiB, so that clients do not all ask for the same pages. */
static void choose(struct one *c)
{
	c->ask.from = (uint64_t)(random() & 255) * 4096;
	c->ask.size = size;
	c->got = 0;
}

static bool is_in_file(const struct request *r)
{
	return r->size && r->from < length && r->size <= length - r->from;
}

/* All clients are connected; returns when they end. */
static double begin(double seconds)
{
	printf("connected\n");
	return now() + seconds;
}

/* TCP */

static void watch_fd(struct one *c, int how, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = c };

	must(epoll_ctl(poller, how, c->fd, &e), "epoll");
}

static void ask_tcp(struct one *c)
{
	choose(c);
	must(send(c->fd, &c->ask, sizeof(c->ask), 0) != sizeof(c->ask), "request");
}

static void take_document(struct one *c)
{
	ssize_t n;

	while ((n = recv(c->fd, sink + c->got, size - c->got, MSG_DONTWAIT)) > 0) {
		c->got += n;
		if (c->got == size) {
			fetched++;
			ask_tcp(c);
		}
	}
	must(n == 0 || errno != EAGAIN, "document");
}

/* Sends what the socket takes; tells whether that is all. */
static bool send_document(struct one *c)
{
	while (c->left) {
		ssize_t n = sendfile(c->fd, file_fd, &c->at, c->left);

		if (n < 0 && errno == EAGAIN)
			return false;
		must(n <= 0, "sendfile");
		c->left -= n;
	}
	return true;
}

static void take_request(struct one *c, uint32_t events)
{
	ssize_t n;

	if (events & EPOLLOUT) {
		if (!send_document(c))
			return;
		watch_fd(c, EPOLL_CTL_MOD, EPOLLIN);
	}
	n = recv(c->fd, (char *)&c->ask + c->got, sizeof(c->ask) - c->got, MSG_DONTWAIT);
	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0) {
		close(c->fd);
		return;
	}
	c->got += n;
	if (c->got < sizeof(c->ask))
		return;
	must(!is_in_file(&c->ask), "a document outside of the file");
	c->got = 0;
	c->at = c->ask.from;
	c->left = c->ask.size;
	if (!send_document(c))
		watch_fd(c, EPOLL_CTL_MOD, EPOLLOUT);
}

static int tcp_socket(struct addrinfo *at)
{
	int one = 1, fd = socket(at->ai_family, SOCK_STREAM, 0);

	must(fd < 0, "socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

static void tcp(struct addrinfo *at, bool serves, double seconds)
{
	struct epoll_event events[64];
	unsigned int i;
	double end;
	int n;

	poller = epoll_create1(0);
	if (serves) {
		all[0].fd = tcp_socket(at);
		all[0].listening = true;
		must(bind(all[0].fd, at->ai_addr, at->ai_addrlen), "bind");
		must(listen(all[0].fd, MOST), "listen");
		watch_fd(&all[0], EPOLL_CTL_ADD, EPOLLIN);
	}
	for (i = 0; !serves && i < number; i++) {
		all[i].fd = tcp_socket(at);
		must(connect(all[i].fd, at->ai_addr, at->ai_addrlen), "connect");
		watch_fd(&all[i], EPOLL_CTL_ADD, EPOLLIN);
	}
	end = begin(seconds);
	for (i = 0; !serves && i < number; i++)
		ask_tcp(&all[i]);
	while (serves || now() < end) {
		n = epoll_wait(poller, events, 64, 100);
		for (i = 0; n > 0 && i < (unsigned int)n; i++) {
			struct one *c = events[i].data.ptr;

			if (c->listening) {
				struct one *new = &all[1 + number++ % (MOST - 1)];

				*new = (struct one){ .fd = accept4(c->fd, NULL, NULL, SOCK_NONBLOCK) };
				must(new->fd < 0, "accept");
				watch_fd(new, EPOLL_CTL_ADD, EPOLLIN);
			} else if (serves) {
				take_request(c, events[i].events);
			} else {
				take_document(c);
			}
		}
	}
}

/* RDMA */

static void post_receive(struct one *c, void *to, uint32_t len)
{
	struct ibv_sge sge = { .addr = (uintptr_t)to, .length = len, .lkey = words->lkey };
	struct ibv_recv_wr wr = { .wr_id = c - all, .sg_list = &sge, .num_sge = 1 }, *bad;

	must(ibv_post_recv(c->id->qp, &wr, &bad), "receive");
}

static void post_message(struct one *c, void *from, uint32_t len, struct ibv_send_wr *before)
{
	struct ibv_sge sge = { .addr = (uintptr_t)from, .length = len, .lkey = words->lkey };
	struct ibv_send_wr wr = {
		.wr_id = c - all, .sg_list = &sge, .num_sge = 1,
		.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
	}, *first = before ? before : &wr, *bad;

	if (before)
		before->next = &wr;
	must(ibv_post_send(c->id->qp, first, &bad), "send");
}

static void ask_rdma(struct one *c)
{
	choose(c);
	c->ask.addr = (uintptr_t)sink;
	c->ask.rkey = memory->rkey;
	post_receive(c, &c->word, sizeof(c->word));
	post_message(c, &c->ask, sizeof(c->ask), NULL);
}

static void answer(struct one *c)
{
	struct ibv_sge sge = { .lkey = memory->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE };

	must(!is_in_file(&c->ask), "a document outside of the file");
	sge.addr = (uintptr_t)file + c->ask.from;
	sge.length = c->ask.size;
	wr.wr.rdma.remote_addr = c->ask.addr;
	wr.wr.rdma.rkey = c->ask.rkey;
	post_receive(c, &c->ask, sizeof(c->ask));
	post_message(c, &c->word, sizeof(c->word), &wr);
}

static void objects(struct ibv_context *verbs, bool serves)
{
	if (pd)
		return;
	pd = ibv_alloc_pd(verbs);
	must(!pd, "protection domain");
	completions = ibv_create_comp_channel(verbs);
	must(!completions, "completion channel");
	cq = ibv_create_cq(verbs, 8 * MOST, NULL, completions, 0);
	must(!cq || ibv_req_notify_cq(cq, 0), "completion queue");
	words = ibv_reg_mr(pd, all, sizeof(all), IBV_ACCESS_LOCAL_WRITE);
	memory = serves ? ibv_reg_mr(pd, file, length, 0) :
		ibv_reg_mr(pd, sink, size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	must(!words || !memory, "region");
}

static void make_qp(struct one *c, bool serves)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	objects(c->id->verbs, serves);
	init.send_cq = init.recv_cq = cq;
	must(rdma_create_qp(c->id, pd, &init), "queue pair");
}

static void cm_event(bool serves)
{
	struct rdma_conn_param param = { .initiator_depth = 1, .responder_resources = 1 };
	struct rdma_cm_event *e;
	struct one *c;

	must(rdma_get_cm_event(channel, &e), "event");
	if (e->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		c = &all[number++ % MOST];
		*c = (struct one){ .id = e->id };
		c->id->context = c;
		make_qp(c, serves);
		post_receive(c, &c->ask, sizeof(c->ask));
		must(rdma_accept(c->id, &param), "accept");
	} else if (e->event == RDMA_CM_EVENT_DISCONNECTED) {
		rdma_disconnect(e->id);
		rdma_destroy_qp(e->id);
		e->id->qp = NULL;
	}
	must(rdma_ack_cm_event(e), "acknowledgement");
}

static void take_completions(bool serves)
{
	struct ibv_wc wc[64];
	int i, n;

	while ((n = ibv_poll_cq(cq, 64, wc)) > 0)
		for (i = 0; i < n; i++) {
			struct one *c = &all[wc[i].wr_id];

			/* Those of a client that has gone are flushed. */
			if (serves && wc[i].status == IBV_WC_WR_FLUSH_ERR)
				continue;
			errno = wc[i].status;
			must(errno != IBV_WC_SUCCESS, "completion");
			if (wc[i].opcode != IBV_WC_RECV)
				continue;
			if (serves) {
				answer(c);
			} else {
				fetched++;
				ask_rdma(c);
			}
		}
	must(n < 0, "poll");
}

static void connect_rdma(struct one *c, struct addrinfo *at)
{
	struct rdma_conn_param param = { .initiator_depth = 1, .responder_resources = 1 };

	must(rdma_create_id(NULL, &c->id, c, RDMA_PS_TCP), "identifier");
	must(rdma_resolve_addr(c->id, NULL, at->ai_addr, 5000), "address");
	must(rdma_resolve_route(c->id, 5000), "route");
	make_qp(c, false);
	must(rdma_connect(c->id, &param), "connect");
}

static void rdma(struct addrinfo *at, bool serves, double seconds)
{
	struct rdma_cm_id *id;
	unsigned int i;
	double end;

	channel = rdma_create_event_channel();
	must(!channel, "event channel");
	if (serves) {
		must(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), "identifier");
		must(rdma_bind_addr(id, at->ai_addr), "bind");
		must(rdma_listen(id, MOST), "listen");
	}
	for (i = 0; !serves && i < number; i++)
		connect_rdma(&all[i], at);
	end = begin(seconds);
	for (i = 0; !serves && i < number; i++)
		ask_rdma(&all[i]);
	while (serves || now() < end) {
		struct pollfd fds[] = {
			{ .fd = channel->fd, .events = POLLIN },
			{ .fd = completions ? completions->fd : -1, .events = POLLIN },
		};
		struct ibv_cq *which;
		void *context;

		must(poll(fds, 2, 100) < 0, "poll");
		if (fds[0].revents)
			cm_event(serves);
		if (!fds[1].revents)
			continue;
		must(ibv_get_cq_event(completions, &which, &context), "completion event");
		ibv_ack_cq_events(cq, 1);
		must(ibv_req_notify_cq(cq, 0), "request to notify");
		take_completions(serves);
	}
}

int main(int argc, char **argv)
{
	struct addrinfo *at;
	bool serves, over_rdma;
	double seconds = 0;

	if (argc < 6) {
		fprintf(stderr, "usage: docs serve tcp|rdma ADDRESS PORT FILE\n"
			"       docs fetch tcp|rdma ADDRESS PORT CLIENTS SIZE SECONDS\n");
		return 2;
	}
	serves = !strcmp(argv[1], "serve");
	over_rdma = !strcmp(argv[2], "rdma");
	must(getaddrinfo(argv[3], argv[4], NULL, &at), "address");
	if (serves) {
		struct stat st;

		file_fd = open(argv[5], O_RDONLY);
		must(file_fd < 0 || fstat(file_fd, &st), argv[5]);
		length = st.st_size;
		file = mmap(NULL, length, PROT_READ, MAP_SHARED | MAP_POPULATE, file_fd, 0);
		must(file == MAP_FAILED, "mapping");
	} else {
		must(argc < 8, "SIZE SECONDS");
		number = strtoul(argv[5], NULL, 0);
		size = strtoul(argv[6], NULL, 0);
		seconds = strtod(argv[7], NULL);
		must(!number || number > MOST || !size, "CLIENTS SIZE");
		sink = calloc(1, size);
		must(!sink, "memory");
	}
	setlinebuf(stdout);
	(over_rdma ? rdma : tcp)(at, serves, seconds);
	printf("fetched %lu\n", fetched);
	return 0;
}
