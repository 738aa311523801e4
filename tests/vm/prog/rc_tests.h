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
static int gid_index, failed, own_library;

static inline void told(int good, const char *name)
{
	failed |= !good;
	printf("%sok %s\n", good ? "" : "not ", name);
	fflush(stdout);
}

/* A status that the driver's own library knows, which also has atomics; siw's has the nearest. */
static inline enum ibv_wc_status of_infiniband(enum ibv_wc_status status)
{
	return own_library ? status : IBV_WC_GENERAL_ERR;
}

/* Opens a device, which has that GID, and makes a protection domain. */
static inline void open_with(const char *device, const char *index)
{
	struct ibv_device_attr attr;

	gid_index = atoi(index);
	context = open_device(device);
	must(ibv_query_gid(context, 1, gid_index, &gid) ? NULL : context, "GID");
	must(ibv_query_device(context, &attr) ? NULL : context, "attributes");
	own_library = attr.atomic_cap != IBV_ATOMIC_NONE;
	pd = must(ibv_alloc_pd(context), "protection domain");
}
