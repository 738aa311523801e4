// SPDX-License-Identifier: GPL-2.0
/*
 * For tests: part of the module only if it is built with RSIW_FAIL_CALLS=y, for which Kbuild leads
 * the calls here (ld --wrap).
 *
 * Has a call of a kernel function fail, the fail_nth-th one that the module makes of the function
 * named fail_call, in whatever context: what the kernel's fault injection does for allocations.
 * fail_nth is 0 or less afterwards.
 *
 * Has threads that run the module be late, before and after every eighth call of some other
 * functions, by up to late_us: so other threads come between two steps that follow each other
 * closely. If late_thread is a thread's name, threads of that name are late at each such call, and
 * no others.
 */
#include <linux/atomic.h>
#include <linux/delay.h>
#include <linux/errno.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/preempt.h>
#include <linux/random.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
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

static uint late_us;
module_param(late_us, uint, 0644);
static char late_thread[TASK_COMM_LEN];
module_param_string(late_thread, late_thread, sizeof(late_thread), 0644);

/* Sleeps, where the caller may, and is not about to wait. */
static void be_late(void)
{
	uint most = READ_ONCE(late_us), us;

	if (likely(!most) || !preemptible() || rcu_preempt_depth() || !task_is_running(current))
		return;
	if (*late_thread ? !sysfs_streq(late_thread, current->comm) : get_random_u32_below(8))
		return;
	us = get_random_u32_below(most) + 1;
	usleep_range(us, us + 1);
}

/* Arguments are in registers, and so is the result. Weak: other kernels may not have all. */
#define ARGUMENTS ulong a, ulong b, ulong c, ulong d, ulong e, ulong f
#define FAIL(name, result)						\
	MODULE_INFO(fails, #name);					\
	ulong __weak __real_##name(ARGUMENTS);				\
	ulong __wrap_##name(ARGUMENTS);					\
	ulong __wrap_##name(ARGUMENTS)					\
	{								\
		return fails(#name) ? (ulong)(result) : __real_##name(a, b, c, d, e, f); \
	}
#define LATE(name)							\
	ulong __weak __real_##name(ARGUMENTS);					\
	ulong __wrap_##name(ARGUMENTS);					\
	ulong __wrap_##name(ARGUMENTS)					\
	{								\
		ulong result;						\
									\
		be_late();						\
		result = __real_##name(a, b, c, d, e, f);		\
		be_late();						\
		return result;						\
	}
#include "calls.list"
