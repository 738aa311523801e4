/* SPDX-License-Identifier: GPL-2.0 */
/* What the tests of unit have in common: a device of the stand-in, and what is open on it. */

#ifndef UNIT_H
#define UNIT_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "fake.h"
#include "rsiw.h"

#define CHECK(cond) do { \
	if (!(cond)) { \
		fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond); \
		exit(1); \
	} \
} while (0)

enum { SQ = 8, RQ = 4, CQ = 8 };

extern struct ibv_context *context;
extern struct ibv_pd *pd;
extern struct ibv_cq *cq;
extern struct ibv_qp *qp;
extern char buffer[128];

void open_device(bool extended);
struct ibv_qp_init_attr_ex qp_attr(uint64_t ops);
void open_all(bool extended);
struct ibv_qp_ex *open_ex(void);
struct ibv_sge sge(int n, uint32_t length);
int post(struct ibv_send_wr *wr);
const struct siw_sqe *posted(struct ibv_send_wr wr);
struct ibv_cq_ex *extended_cq(uint64_t wc_flags, uint32_t flags);

/* A test, which is a process of its own. A list ends with one of no name. */
struct test {
	const char *name;
	void (*run)(void);
};

extern const struct test requests_tests[];
extern const struct test inline_tests[];
extern const struct test cq_tests[];
extern const struct test wr_tests[];
extern const struct test objects_tests[];

#endif
