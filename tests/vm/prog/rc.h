/* SPDX-License-Identifier: GPL-2.0 */
/* For programs that connect queue pairs by themselves. */
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "verbs.h"

/* What InfiniBand wants for each transition. */
#define TO_INIT (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define TO_RTR (IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | \
		IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define TO_RTS (IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | \
		IBV_QP_MAX_QP_RD_ATOMIC)

/*
 * Has a queue pair in INIT, with that timeout and so many Reads, meet its peer: to RTR
 * and RTS. Its Sends that find no receive are tried again so often, those of the peer
 * after the time that the code stands for.
 */
static inline void meet_patient(struct ibv_qp *qp, const union ibv_gid *peer, int gid_index, uint32_t peer_qpn,
				int timeout, int reads, int rnr_retry, int min_rnr_timer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer_qpn,
		.timeout = timeout, .retry_cnt = 7, .rnr_retry = rnr_retry, .min_rnr_timer = min_rnr_timer,
		.max_rd_atomic = reads, .max_dest_rd_atomic = reads,
		.ah_attr = {
			.is_global = 1, .port_num = 1,
			.grh = { .dgid = *peer, .sgid_index = gid_index, .hop_limit = 64 },
		},
	};

	if (ibv_modify_qp(qp, &attr, TO_RTR))
		fail("RTR");
	attr.qp_state = IBV_QPS_RTS;
	if (ibv_modify_qp(qp, &attr, TO_RTS))
		fail("RTS");
}

static inline void meet(struct ibv_qp *qp, const union ibv_gid *peer, int gid_index, uint32_t peer_qpn,
			int timeout, int reads)
{
	meet_patient(qp, peer, gid_index, peer_qpn, timeout, reads, 7, 0);
}

static inline long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}
