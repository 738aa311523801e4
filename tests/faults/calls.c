// SPDX-License-Identifier: GPL-2.0
/*
 * Has a call of a kernel function fail, the fail_nth-th one that the module makes of the function
 * named fail_call, in whatever context: what the kernel's fault injection does for allocations.
 * fail_nth is 0 or less afterwards. For tests: part of the module only if it is built with
 * RSIW_FAIL_CALLS=y, for which Kbuild leads the calls here (ld --wrap).
 */
#include <linux/atomic.h>
#include <linux/errno.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/string.h>

static char fail_call[64];
module_param_string(fail_call, fail_call, sizeof(fail_call), 0644);
static atomic_t nth;
module_param_named(fail_nth, nth.counter, int, 0644);

static bool fails(const char *call)
{
	return unlikely(atomic_read(&nth) > 0) && !strcmp(strim(fail_call), call) &&
	       atomic_dec_return(&nth) == 0;
}

/* Arguments are in registers, and so is the result. Weak: other kernels may not have all. */
#define ARGUMENTS ulong a, ulong b, ulong c, ulong d, ulong e, ulong f
#define FAIL(name, result)						\
	ulong __weak __real_##name(ARGUMENTS);				\
	ulong __wrap_##name(ARGUMENTS);					\
	ulong __wrap_##name(ARGUMENTS)					\
	{								\
		return fails(#name) ? (ulong)(result) : __real_##name(a, b, c, d, e, f); \
	}
#include "calls.list"
