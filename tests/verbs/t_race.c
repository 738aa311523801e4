// SPDX-License-Identifier: GPL-2.0
/* Queue pairs that a thread destroys while another thread of the process uses them. */
#include <pthread.h>
#include <sys/prctl.h>

#include "vt.h"

enum { STRAIGHT, BY_ERROR };

/*
 * By the connection manager, which holds the queue pair only as long as there is a connection.
 * librdmacm would modify the queue pair first, if the identifier had one, which no destruction
 * interrupts.
 */
static void *disconnects(void *context)
{
	struct conn *c = context;

	/* The name of a thread that tests/vm/verbs/late.sh has be late. */
	CALL(prctl(PR_SET_NAME, "disconnects"));
	CALL(rdma_disconnect(c->id));
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
	pthread_t slow_one;
	struct conn c;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		conn_open(s, &c, NULL);
		if (!s->active) {
			conn_expect_down(&c);
			sync_sides(s);
			conn_free(&c);
			continue;
		}
		c.id->qp = NULL;
		CALL(pthread_create(&slow_one, NULL, disconnects, &c));
		sync_sides(s);
		if (s->arg == BY_ERROR)
			CALL(ibv_modify_qp(c.qp, &error, IBV_QP_STATE));
		CALL(ibv_destroy_qp(c.qp));
		CALL(pthread_join(slow_one, NULL));
		conn_free(&c);
	}
}

const struct test race_tests[] = {
	{ "destroy-while-disconnecting", t_destroy, T_QUICK, STRAIGHT },
	{ "destroy-while-disconnecting-error", t_destroy, T_QUICK, BY_ERROR },
	{ }
};
