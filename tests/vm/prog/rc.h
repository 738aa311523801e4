/* SPDX-License-Identifier: GPL-2.0 */
/* For programs that connect queue pairs by themselves: rcstates, rcwait, rcmesh. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What InfiniBand wants for each transition. */
#define TO_INIT (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define TO_RTR (IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | \
		IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define TO_RTS (IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | \
		IBV_QP_MAX_QP_RD_ATOMIC)

static inline void fail(const char *what)
{
	printf("# %s: %s\n", what, strerror(errno));
	exit(1);
}

static inline void *must(void *p, const char *what)
{
	if (!p)
		fail(what);
	return p;
}

static inline long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static inline struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = must(ibv_get_device_list(NULL), "device list");
	struct ibv_context *context = NULL;
	int i;

	for (i = 0; list[i] && !context; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			context = must(ibv_open_device(list[i]), name);
	return must(context, "no such device");
}
