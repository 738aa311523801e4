// SPDX-License-Identifier: GPL-2.0
/*
 * loiter ADDRESS PORT ROUNDS: an unprivileged process delays its own connection. A
 * thread of SCHED_IDLE rings doorbells. Then other threads of the process use up the
 * thread's processor (1), so it stops, mostly within the driver. The peer, which is
 * the same process, then ends the connection by a fault. Each round prints the
 * milliseconds until the connection has ended: "held N".
 */
#define _GNU_SOURCE
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_verbs.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SIZE (1 << 20)
/* One Write at a time: with more, a worker takes all but the first, and the thread is rarely in the driver. */
#define DEPTH 1
#define HOGS 8
/* The most milliseconds for which the other threads use up the processor. */
#define MOST 4000

static struct rdma_cm_id *listener, *peer;
static struct ibv_mr *target_mr;
static unsigned char *target, *source;
static uint64_t stag;
static atomic_int written, hogs, over;

static void check(int what, const char *message)
{
	if (what)
		return;
	fprintf(stderr, "loiter: %s: %s\n", message, strerror(errno));
	exit(1);
}

static long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void on(int processor, int policy)
{
	struct sched_param none = { 0 };
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(processor, &set);
	check(!sched_setaffinity(0, sizeof(set), &set), "processor");
	check(!sched_setscheduler(0, policy, &none), "policy");
}

static void *accept_one(void *unused)
{
	struct rdma_conn_param param = { 0 };

	(void)unused;
	check(!rdma_get_request(listener, &peer), "request");
	target_mr = ibv_reg_mr(peer->pd, target, SIZE,
			       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	check(!!target_mr, "region");
	stag = htobe32(target_mr->rkey);
	param.private_data = &stag;
	param.private_data_len = sizeof(stag);
	check(!rdma_accept(peer, &param), "accept");
	return NULL;
}

/* Writes until the connection ends. */
static void *write_on(void *arg)
{
	struct rdma_cm_id *id = arg;
	struct ibv_mr *mr = rdma_reg_msgs(id, source, SIZE);
	struct ibv_wc wc[DEPTH];
	int posted = 0, n, i;

	check(!!mr, "region");
	on(1, SCHED_IDLE);
	for (;;) {
		/* In ERROR a post succeeds, and the request is flushed. */
		while (posted < DEPTH) {
			if (rdma_post_write(id, NULL, source, SIZE, mr, IBV_SEND_SIGNALED,
					    (uintptr_t)target, be32toh(stag)))
				return mr;
			posted++;
		}
		n = ibv_poll_cq(id->send_cq, DEPTH, wc);
		for (i = 0; i < n; i++) {
			if (wc[i].status != IBV_WC_SUCCESS)
				return mr;
			posted--;
			atomic_fetch_add(&written, 1);
		}
	}
}

static void *hog(void *unused)
{
	long end;

	(void)unused;
	on(1, SCHED_OTHER);
	while (!atomic_load(&hogs))
		usleep(1000);
	end = now() + MOST;
	while (now() < end && !atomic_load(&over))
		;
	return NULL;
}

static long one_round(char **argv, struct ibv_qp_init_attr init)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP }, *address;
	struct rdma_conn_param param = { 0 };
	pthread_t acceptor, writer, others[HOGS];
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	struct pollfd fd;
	struct ibv_mr *mr;
	long began;
	void *got;
	int i;

	atomic_store(&written, 0);
	atomic_store(&hogs, 0);
	atomic_store(&over, 0);
	check(!pthread_create(&acceptor, NULL, accept_one, NULL), "thread");
	check(!rdma_getaddrinfo(argv[1], argv[2], &hints, &address), "address");
	check(!rdma_create_ep(&id, address, NULL, &init), "endpoint");
	check(!rdma_connect(id, &param), "connect");
	pthread_join(acceptor, NULL);
	for (i = 0; i < HOGS; i++)
		check(!pthread_create(&others[i], NULL, hog, NULL), "thread");
	check(!pthread_create(&writer, NULL, write_on, id), "thread");
	while (atomic_load(&written) < 4)
		usleep(1000);
	atomic_store(&hogs, 1);
	usleep(50000);
	began = now();
	check(!ibv_dereg_mr(target_mr), "region");
	fd = (struct pollfd) { .fd = id->channel->fd, .events = POLLIN };
	check(poll(&fd, 1, 60000) == 1, "no end");
	began = now() - began;
	check(!rdma_get_cm_event(id->channel, &event), "event");
	check(event->event == RDMA_CM_EVENT_DISCONNECTED, "another event");
	rdma_ack_cm_event(event);
	atomic_store(&over, 1);
	for (i = 0; i < HOGS; i++)
		pthread_join(others[i], NULL);
	pthread_join(writer, &got);
	mr = got;
	rdma_dereg_mr(mr);
	rdma_destroy_ep(id);
	rdma_destroy_ep(peer);
	rdma_freeaddrinfo(address);
	return began;
}

int main(int argc, char **argv)
{
	struct ibv_qp_init_attr init = {
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = 1, .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.sq_sig_all = 1,
	};
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP, .ai_flags = RAI_PASSIVE };
	struct rdma_addrinfo *address;
	int i;

	if (argc != 4) {
		fprintf(stderr, "usage: loiter ADDRESS PORT ROUNDS\n");
		return 2;
	}
	setlinebuf(stdout);
	on(0, SCHED_OTHER);
	target = calloc(1, SIZE);
	source = calloc(1, SIZE);
	check(target && source, "memory");
	check(!rdma_getaddrinfo(argv[1], argv[2], &hints, &address), "address");
	check(!rdma_create_ep(&listener, address, NULL, &init), "listener");
	check(!rdma_listen(listener, 1), "listen");
	for (i = 0; i < atoi(argv[3]); i++)
		printf("held %ld\n", one_round(argv, init));
	return 0;
}
