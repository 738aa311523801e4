// SPDX-License-Identifier: GPL-2.0
/*
 * fair server ADDRESS PORT NUMBER
 * fair client ADDRESS PORT NUMBER SIZE WINDOW SECONDS [mixed|real]
 *
 * Measures how queue pairs share the link. The client opens NUMBER connections and keeps WINDOW
 * RDMA Writes of SIZE bytes under way on each; with "mixed", one Write of 64 bytes on the first
 * connection. After SECONDS it prints
 *
 *   least L most M first F gap G wait W third W3 total T
 *
 * where L and M are the numbers of Writes completed on the slowest and the fastest connection
 * (mixed: without the first), F that of the first, and T the bytes of all connections. The others
 * are times in milliseconds that a connection waited for a completion: G the longest by the clock
 * of the measurement, W and W3 the longest and the third longest in real time. The server ends when
 * all connections are closed.
 *
 * The clock of the measurement stops 0.1 s after a completion of any connection, and goes on with
 * the next completion. On a busy machine a whole guest, this one or the peer, may stall for
 * seconds. All connections wait then, so a stall says nothing about how they share. While one
 * connection waits and others do not, the clock runs. SECONDS are of that clock. If they take ten
 * times as long in real time, the client fails.
 *
 * That clock cannot show that another process starves all connections of this one. With "real",
 * SECONDS are of real time.
 */
#include <errno.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 256, BATCH = 16, SMALL = 64, WAITS = 3 };

/*
 * The most seconds that the clock of the measurement counts from one completion of any connection
 * to the next. Without stalls the next one comes sooner.
 */
static const double most_between = 0.1;

struct target {
	uint64_t addr;
	uint32_t rkey;
	uint32_t len;
};

struct one {
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	struct target to;
	unsigned long done;
	unsigned int under_way;
	double last;		/* completion, by the clock of the measurement */
	double last_real;	/* the same in real time */
};

static struct one all[MOST];
static unsigned int number;
static double gap, waits[WAITS];

static void must(int bad, const char *what)
{
	if (!bad)
		return;
	fprintf(stderr, "fair: %s: %s\n", what, strerror(errno));
	exit(1);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static struct rdma_cm_id *endpoint(const char *addr, const char *port, int passive,
				   unsigned int window)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP }, *at;
	struct ibv_qp_init_attr attr = {
		.cap = { window, 1, 1, 1, 0 },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};
	struct rdma_cm_id *id;

	if (passive)
		hints.ai_flags = RAI_PASSIVE;
	must(rdma_getaddrinfo(addr, port, &hints, &at), "address");
	must(rdma_create_ep(&id, at, NULL, &attr), "endpoint");
	rdma_freeaddrinfo(at);
	return id;
}

static int server(const char *addr, const char *port)
{
	enum { LEN = 1 << 20 };
	struct rdma_cm_id *listener = endpoint(addr, port, 1, 1);
	struct rdma_cm_event *event;
	char *memory = malloc(LEN);
	unsigned int i;

	must(!memory, "memory");
	must(rdma_listen(listener, 64), "listen");
	for (i = 0; i < number; i++) {
		struct one *c = &all[i];
		struct rdma_conn_param param = {
			.private_data = &c->to,
			.private_data_len = sizeof(c->to),
		};

		must(rdma_get_request(listener, &c->id), "request");
		c->mr = rdma_reg_write(c->id, memory, LEN);
		must(!c->mr, "region");
		c->to = (struct target){ (uintptr_t)memory, c->mr->rkey, LEN };
		must(rdma_accept(c->id, &param), "accept");
	}
	for (i = 0; i < number; i++)
		must(rdma_get_cm_event(all[i].id->channel, &event), "end of a connection");
	return 0;
}

static void connect_one(struct one *c, const char *addr, const char *port, unsigned int window,
			char *memory, size_t size)
{
	struct rdma_conn_param param = { };

	c->id = endpoint(addr, port, 0, window);
	must(rdma_connect(c->id, &param), "connect");
	must(c->id->event->param.conn.private_data_len < sizeof(c->to), "private data");
	memcpy(&c->to, c->id->event->param.conn.private_data, sizeof(c->to));
	must(c->to.len < size, "size");
	c->mr = rdma_reg_msgs(c->id, memory, size);
	must(!c->mr, "region");
}

static void post(struct one *c, char *memory, size_t size)
{
	must(rdma_post_write(c->id, NULL, memory, size, c->mr, 0, c->to.addr, c->to.rkey), "Write");
	c->under_way++;
}

/* Ends a connection's wait, at `measured` by the clock of the measurement and `at` in real time. */
static void end_wait(struct one *c, double measured, double at)
{
	double wait = at - c->last_real, shorter;
	unsigned int i;

	if (measured - c->last > gap)
		gap = measured - c->last;
	/* The longest ones, in order: a longer one moves the others on. */
	for (i = 0; i < WAITS; i++) {
		if (wait <= waits[i])
			continue;
		shorter = waits[i];
		waits[i] = wait;
		wait = shorter;
	}
	c->last = measured;
	c->last_real = at;
}

static int client(char **argv)
{
	size_t size = atol(argv[5]), total = 0;
	unsigned int i, first, window = atoi(argv[6]);
	int mixed = argv[8] && !strcmp(argv[8], "mixed");
	int real = argv[8] && !strcmp(argv[8], "real"), any, n, w;
	/* The last look that found a completion, in real time and by the measurement's clock. */
	double seen, counted = 0;
	double seconds = atof(argv[7]), begin, at, measured;
	unsigned long least = -1ul, most = 0;
	char *memory = calloc(1, size + SMALL);
	struct ibv_wc wc[BATCH];

	must(!memory, "memory");
	for (i = 0; i < number; i++)
		connect_one(&all[i], argv[2], argv[3], window, memory, size + SMALL);
	begin = now();
	seen = begin;
	first = mixed;
	for (i = 0; i < number; i++) {
		all[i].last_real = begin;
		do
			post(&all[i], memory, i < first ? SMALL : size);
		while (all[i].under_way < (i < first ? 1 : window));
	}
	do {
		at = now();
		measured = counted + (at - seen < most_between ? at - seen : most_between);
		if (!real && at - begin > 10 * seconds) {
			fprintf(stderr, "fair: completions in only %.1f of %.1f s\n", measured,
				at - begin);
			return 1;
		}
		any = 0;
		for (i = 0; i < number; i++) {
			struct one *c = &all[i];

			n = ibv_poll_cq(c->id->send_cq, BATCH, wc);
			must(n < 0, "poll");
			if (n) {
				any = 1;
				end_wait(c, measured, at);
			}
			for (w = 0; w < n; w++) {
				if (wc[w].status) {
					fprintf(stderr, "fair: connection %u: %s\n", i,
						ibv_wc_status_str(wc[w].status));
					return 1;
				}
				c->under_way--;
				c->done++;
				post(c, memory, i < first ? SMALL : size);
			}
		}
		if (any) {
			counted = measured;
			seen = at;
		}
	} while ((real ? at - begin : measured) < seconds);
	for (i = 0; i < number; i++) {
		/* The wait of a connection counts even if it has no completion at all. */
		end_wait(&all[i], measured, at);
		total += all[i].done * (i < first ? SMALL : size);
		if (i < first)
			continue;
		least = all[i].done < least ? all[i].done : least;
		most = all[i].done > most ? all[i].done : most;
	}
	printf("least %lu most %lu first %lu gap %.0f wait %.0f third %.0f total %zu\n", least,
	       most, all[0].done, gap * 1000, waits[0] * 1000, waits[WAITS - 1] * 1000, total);
	for (i = 0; i < number; i++)
		rdma_disconnect(all[i].id);
	return 0;
}

int main(int argc, char **argv)
{
	int serves = argc == 5 && !strcmp(argv[1], "server");

	if (!serves && (argc < 8 || argc > 9 || strcmp(argv[1], "client"))) {
		fputs("usage: fair server ADDRESS PORT NUMBER\n"
		      "       fair client ADDRESS PORT NUMBER SIZE WINDOW SECONDS [mixed|real]\n",
		      stderr);
		return 2;
	}
	number = atoi(argv[4]);
	if (number < 1 || number > MOST) {
		fputs("fair: NUMBER is from 1 to 256\n", stderr);
		return 2;
	}
	return serves ? server(argv[2], argv[3]) : client(argv);
}
