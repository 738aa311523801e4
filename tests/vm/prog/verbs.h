/* SPDX-License-Identifier: GPL-2.0 */
/* For programs that use a device by its name: what fails ends the program, with a message. */
#include <errno.h>
#include <error.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

static inline void fail(const char *what)
{
	error(1, errno, "%s", what);
}

static inline void *must(void *p, const char *what)
{
	if (!p)
		fail(what);
	return p;
}

static inline struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = must(ibv_get_device_list(NULL), "device list");
	struct ibv_context *context = NULL;
	int i;

	for (i = 0; list[i] && !context; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			context = must(ibv_open_device(list[i]), name);
	ibv_free_device_list(list);
	return must(context, "no such device");
}
