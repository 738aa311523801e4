// SPDX-License-Identifier: GPL-2.0
/*
 * honest ADDRESS PORT: connects to itself, does an RDMA Write, a Read, a Send and
 * its echo again and again, and compares every byte. Tests run it beside programs
 * that may harm the device. It prints the number of rounds, and ends only when
 * something is wrong.
 */
#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SIZE 8192
#define WORDS 64

struct told {
	uint64_t at;
	uint32_t stag;
} __attribute__((packed));

static struct rdma_cm_id *listener;
/* Memory of the end that accepts: the sink of Writes, and the message to echo. */
static unsigned char target[SIZE], heard[WORDS];
/* Memory of the end that connects. */
static unsigned char source[SIZE], back[SIZE], said[WORDS], echo[WORDS];

static void check(int what, const char *message)
{
	if (what)
		return;
	fprintf(stderr, "honest: %s: %s\n", message, strerror(errno));
	exit(1);
}

static void *must(void *p, const char *message)
{
	check(!!p, message);
	return p;
}

static void received(struct rdma_cm_id *id, const char *message)
{
	struct ibv_wc wc;

	check(rdma_get_recv_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS &&
	      wc.byte_len == WORDS, message);
}

static void sent(struct rdma_cm_id *id, const char *message)
{
	struct ibv_wc wc;

	check(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS, message);
}

static void *accept_one(void *unused)
{
	struct rdma_conn_param param = { .responder_resources = 2, .initiator_depth = 2 };
	struct ibv_mr *mr, *words;
	struct rdma_cm_id *id;
	struct told told;

	(void)unused;
	check(!rdma_get_request(listener, &id), "request");
	mr = must(ibv_reg_mr(id->pd, target, SIZE, IBV_ACCESS_LOCAL_WRITE |
			     IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ), "region");
	words = must(rdma_reg_msgs(id, heard, WORDS), "region");
	told = (struct told) { htobe64((uintptr_t)target), htobe32(mr->rkey) };
	param.private_data = &told;
	param.private_data_len = sizeof(told);
	check(!rdma_post_recv(id, NULL, heard, WORDS, words), "receive");
	check(!rdma_accept(id, &param), "accept");
	for (;;) {
		unsigned char copy[WORDS];

		received(id, "the acceptor hears nothing");
		memcpy(copy, heard, WORDS);
		check(!rdma_post_recv(id, NULL, heard, WORDS, words), "receive");
		check(!rdma_post_send(id, NULL, copy, WORDS, NULL, IBV_SEND_SIGNALED | IBV_SEND_INLINE),
		      "send");
		sent(id, "the echo is not sent");
	}
	return NULL;
}

static void fill(unsigned char *p, size_t size, unsigned int seed)
{
	while (size--) {
		seed = seed * 1103515245 + 12345;
		*p++ = seed >> 16;
	}
}

static uint64_t now_us(void)
{
	struct timespec now;

	check(!clock_gettime(CLOCK_MONOTONIC, &now), "clock");
	return now.tv_sec * 1000000ull + now.tv_nsec / 1000;
}

/* Leaves the processors to others for most of the time, however slow they are. */
static void rest(uint64_t began)
{
	uint64_t us = 4 * (now_us() - began);

	usleep(us < 10000 ? 10000 : us > 200000 ? 200000 : us);
}

static void rounds(struct rdma_cm_id *id)
{
	const struct told *told = id->event->param.conn.private_data;
	uint64_t at = be64toh(told->at);
	uint32_t stag = be32toh(told->stag);
	struct ibv_mr *out, *in, *words, *answers;
	unsigned int round;
	uint64_t began;

	out = must(rdma_reg_msgs(id, source, SIZE), "region");
	in = must(rdma_reg_msgs(id, back, SIZE), "region");
	words = must(rdma_reg_msgs(id, said, WORDS), "region");
	answers = must(rdma_reg_msgs(id, echo, WORDS), "region");
	for (round = 1;; round++) {
		began = now_us();
		fill(source, SIZE, round);
		fill(said, WORDS, ~round);
		memset(back, 0, SIZE);
		memset(echo, 0, WORDS);
		check(!rdma_post_recv(id, NULL, echo, WORDS, answers), "receive");
		check(!rdma_post_write(id, NULL, source, SIZE, out, IBV_SEND_SIGNALED, at, stag),
		      "write");
		sent(id, "the Write fails");
		check(!rdma_post_read(id, NULL, back, SIZE, in, IBV_SEND_SIGNALED, at, stag), "read");
		sent(id, "the Read fails");
		check(!memcmp(source, back, SIZE), "what was read is not what was written");
		check(!rdma_post_send(id, NULL, said, WORDS, words, IBV_SEND_SIGNALED), "send");
		sent(id, "the Send fails");
		received(id, "no echo");
		check(!memcmp(said, echo, WORDS), "the echo is not what was sent");
		if (round % 10 == 0)
			printf("%u\n", round);
		rest(began);
	}
}

int main(int argc, char **argv)
{
	struct ibv_qp_init_attr init = {
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1,
			 .max_inline_data = WORDS },
		.sq_sig_all = 1,
	};
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP }, *address;
	struct rdma_conn_param param = { .responder_resources = 2, .initiator_depth = 2 };
	struct ibv_qp_init_attr copy = init;
	struct rdma_cm_id *id;
	pthread_t thread;

	if (argc != 3) {
		fprintf(stderr, "usage: honest ADDRESS PORT\n");
		return 2;
	}
	setlinebuf(stdout);
	hints.ai_flags = RAI_PASSIVE;
	check(!rdma_getaddrinfo(argv[1], argv[2], &hints, &address), "address");
	check(!rdma_create_ep(&listener, address, NULL, &init), "listener");
	check(!rdma_listen(listener, 1), "listen");
	check(!pthread_create(&thread, NULL, accept_one, NULL), "thread");
	hints.ai_flags = 0;
	check(!rdma_getaddrinfo(argv[1], argv[2], &hints, &address), "address");
	check(!rdma_create_ep(&id, address, NULL, &copy), "endpoint");
	check(!rdma_connect(id, &param), "connect");
	rounds(id);
	return 0;
}
