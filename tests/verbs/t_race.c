// SPDX-License-Identifier: GPL-2.0
/* Queue pairs that a thread destroys while another thread of the process uses them. */
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include "vt.h"

enum { STRAIGHT, BY_ERROR };

/* Threads of one processor: one disconnects, the other one keeps it from going on. */
struct race {
	struct conn *c;
	pthread_barrier_t begin;
	bool stop;
};

/* The last processor, on which the thread that destroys runs only if there is no other. */
static void on_last_processor(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(sysconf(_SC_NPROCESSORS_ONLN) - 1, &set);
	CALL(sched_setaffinity(0, sizeof(set), &set));
}

/*
 * Gets ten times as much of the processor as the other thread, which therefore waits wherever it
 * has woken somebody.
 */
static void *occupies(void *context)
{
	struct race *r = context;

	on_last_processor();
	CALL(setpriority(PRIO_PROCESS, gettid(), 15));
	pthread_barrier_wait(&r->begin);
	while (!__atomic_load_n(&r->stop, __ATOMIC_RELAXED))
		;
	return NULL;
}

/*
 * By the connection manager, which holds the queue pair only as long as there is a connection.
 * librdmacm would modify the queue pair first, if the identifier had one, which no destruction
 * interrupts.
 */
static void *disconnects(void *context)
{
	const struct sched_param param = {};
	struct race *r = context;

	on_last_processor();
	CALL(sched_setscheduler(0, SCHED_IDLE, &param));
	pthread_barrier_wait(&r->begin);
	CALL(rdma_disconnect(r->c->id));
	return NULL;
}

/*
 * The queue pair is destroyed when the peer has seen the disconnect. The thread that disconnects has
 * begun to modify the queue pair then, and has perhaps not ended.
 */
static void t_destroy(struct side *s)
{
	enum { ROUNDS = 5 };
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	pthread_t slow_one, busy_one;
	struct race r = {};
	struct conn c;
	int i;

	CALL(pthread_barrier_init(&r.begin, NULL, 3));
	for (i = 0; i < ROUNDS; i++) {
		conn_open(s, &c, NULL);
		if (!s->active) {
			conn_expect_down(&c);
			sync_sides(s);
			conn_free(&c);
			continue;
		}
		c.id->qp = NULL;
		r.c = &c;
		r.stop = false;
		CALL(pthread_create(&slow_one, NULL, disconnects, &r));
		CALL(pthread_create(&busy_one, NULL, occupies, &r));
		pthread_barrier_wait(&r.begin);
		sync_sides(s);
		if (s->arg == BY_ERROR)
			CALL(ibv_modify_qp(c.qp, &error, IBV_QP_STATE));
		CALL(ibv_destroy_qp(c.qp));
		__atomic_store_n(&r.stop, true, __ATOMIC_RELAXED);
		CALL(pthread_join(busy_one, NULL));
		CALL(pthread_join(slow_one, NULL));
		conn_free(&c);
	}
	CALL(pthread_barrier_destroy(&r.begin));
}

const struct test race_tests[] = {
	{ "destroy-while-disconnecting", t_destroy, T_QUICK, STRAIGHT },
	{ "destroy-while-disconnecting-error", t_destroy, T_QUICK, BY_ERROR },
	{ }
};
