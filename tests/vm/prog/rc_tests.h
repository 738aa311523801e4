/* SPDX-License-Identifier: GPL-2.0 */
/*
 * For programs that try a device whose programs connect queue pairs, with queue pairs of
 * their own. They print a line for each test ("ok ..." or "not ok ..."). Exit status 3: a
 * test failed.
 */
#include "rc.h"

static struct ibv_context *context;
static struct ibv_pd *pd;
static union ibv_gid gid;
static int gid_index, failed;

static inline void told(int good, const char *name)
{
	failed |= !good;
	printf("%sok %s\n", good ? "" : "not ", name);
	fflush(stdout);
}

/* Opens a device, which has that GID, and makes a protection domain. */
static inline void open_with(const char *device, const char *index)
{
	gid_index = atoi(index);
	context = open_device(device);
	must(ibv_query_gid(context, 1, gid_index, &gid) ? NULL : context, "GID");
	pd = must(ibv_alloc_pd(context), "protection domain");
}
