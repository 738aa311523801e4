/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A stand-in for libibverbs, as providers see it, and for the kernel: one device, whose rings are
 * in a file of memory, where a test plays the kernel's half.
 */

#ifndef FAKE_H
#define FAKE_H

#include <infiniband/driver.h>
#include <rdma/siw-abi.h>
#include <stdbool.h>
#include <stdint.h>

#include "rsiw-abi.h"

/* What fills or empties a ring in the kernel's place. */
struct fake_ring {
	void *mem;
	uint32_t entries;
	uint32_t at;
};

/* Features that the kernel grants; what the provider has asked for. */
extern uint32_t fake_features, fake_asked;
/* Requests of the last completion queue. */
extern uint32_t fake_cq_flags;
/* What the provider takes for the device's file; calls that ring the doorbell. */
extern int fake_file;
extern unsigned int fake_doorbells;
/* Regions that there are. */
extern int fake_regions;
/* The rights of the last ibv_modify_qp(). */
extern unsigned int fake_access;
/* The rings of the last objects. */
extern struct fake_ring fake_sq, fake_rq, fake_cq;
/* The ring that a shared receive queue is going to have cannot be mapped. */
extern bool fake_unmappable;
/* The operations that the provider has set. */
extern struct verbs_context_ops fake_ops;
extern struct ibv_device fake_device;

/* Loads a provider and opens the device. */
struct ibv_context *fake_open(const char *provider);

struct siw_sqe *fake_take_sqe(void);
struct siw_rqe *fake_take_rqe(void);
void fake_free_wqe(__u16 *flags);
/* Publishes a completion, whose flags come last. */
void fake_complete(struct fake_ring *ring, struct siw_cqe cqe);
struct siw_cq_ctrl *fake_ctrl(struct fake_ring *ring);

#endif
