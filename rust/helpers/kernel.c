// SPDX-License-Identifier: GPL-2.0
/* What any driver may want of the kernel: locks, tables, processes, copies. */

#include <linux/capability.h>
#include <linux/cpumask.h>
#include <linux/crc32.h>
#include <linux/irq_work.h>
#include <linux/irqflags.h>
#include <linux/jiffies.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/spinlock.h>
#include <linux/unaligned.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

/* Locks and contexts. */

unsigned long rust_helper_spin_lock_irqsave(spinlock_t *lock)
{
	unsigned long flags;

	spin_lock_irqsave(lock, flags);
	return flags;
}

bool rust_helper_spin_trylock_irqsave(spinlock_t *lock, unsigned long *flags)
{
	return spin_trylock_irqsave(lock, *flags);
}

void rust_helper_spin_unlock_irqrestore(spinlock_t *lock, unsigned long flags)
{
	spin_unlock_irqrestore(lock, flags);
}

unsigned int rust_helper_jiffies_ms(void)
{
	return jiffies_to_msecs(jiffies);
}

unsigned int rust_helper_num_online_cpus(void)
{
	return num_online_cpus();
}

unsigned int rust_helper_rdma_nth_online_cpu(unsigned int n)
{
	return cpumask_nth(n, cpu_online_mask);
}

void rust_helper_rdma_preempt_disable(void)
{
	preempt_disable();
}

void rust_helper_rdma_preempt_enable(void)
{
	preempt_enable();
}

/*
 * What the kernel does around each irq_work. Those cannot be used here: the function that queues
 * one on another processor is not exported.
 */
void rust_helper_rdma_lockdep_irq_work_enter(void)
{
	lockdep_irq_work_enter(0);
}

void rust_helper_rdma_lockdep_irq_work_exit(void)
{
	lockdep_irq_work_exit(0);
}

bool rust_helper_in_task(void)
{
	return in_task();
}

/* Tables. Entries are changed with interrupts disabled, and looked up under RCU. */

int rust_helper_xa_alloc_irq(struct xarray *xa, u32 *id, u32 min, u32 max, gfp_t gfp)
{
	return xa_alloc_irq(xa, id, NULL, XA_LIMIT(min, max), gfp);
}

int rust_helper_xa_alloc_cyclic_irq(struct xarray *xa, u32 *id, u32 min, u32 max, u32 *next,
				    gfp_t gfp)
{
	return xa_alloc_cyclic_irq(xa, id, NULL, XA_LIMIT(min, max), next, gfp);
}

void *rust_helper_xa_store_irq(struct xarray *xa, unsigned long index, void *entry, gfp_t gfp)
{
	return xa_store_irq(xa, index, entry, gfp);
}

void *rust_helper_xa_erase_irqsave(struct xarray *xa, unsigned long index)
{
	unsigned long flags;
	void *entry;

	xa_lock_irqsave(xa, flags);
	entry = __xa_erase(xa, index);
	xa_unlock_irqrestore(xa, flags);
	return entry;
}

bool rust_helper_xa_empty(struct xarray *xa)
{
	return xa_empty(xa);
}

void rust_helper_init_rcu_work(struct rcu_work *rwork, work_func_t func)
{
	INIT_RCU_WORK(rwork, func);
}

/* The current process, and others. */

struct pid *rust_helper_rdma_get_current_tgid(void)
{
	return get_pid(task_tgid(current));
}

bool rust_helper_rdma_is_current_tgid(const struct pid *pid)
{
	return pid == task_tgid(current);
}

/* Whether the process was killed, is exiting, or is gone. */
bool rust_helper_rdma_tgid_ends(struct pid *pid)
{
	struct task_struct *leader;
	bool ends;

	rcu_read_lock();
	leader = pid_task(pid, PIDTYPE_TGID);
	ends = !leader || READ_ONCE(leader->signal->flags) & SIGNAL_GROUP_EXIT;
	rcu_read_unlock();
	return ends;
}

bool rust_helper_rdma_in_kernel_thread(void)
{
	return current->flags & PF_KTHREAD;
}

/* Without an audit record, as the caller may have interrupts disabled. */
bool rust_helper_rdma_current_may_all(void)
{
	return ns_capable_noaudit(&init_user_ns, CAP_NET_ADMIN);
}

/*
 * Copies of memory that others may change meanwhile. The compiler must not know
 * that these are copies when it compiles the caller, or it might read twice.
 *
 * By memmove(), though they never overlap: on x86 without FSRM, memcpy() copies
 * from the end to the beginning where the source's lowest address byte is less
 * than that of the destination. With an FPDU's header of some bytes between two
 * pieces of payload that is so for every other piece, and a processor reads
 * ahead in one direction only.
 */

void rust_helper_copy_bytes(void *dst, const void *src, size_t len)
{
	memmove(dst, src, len);
}

/*
 * Copies up to a word's bytes in order, visible only after all earlier writes. The
 * bytes of a whole word are seen together.
 */
void rust_helper_copy_last(void *dst, const void *src, size_t len)
{
	const u8 *from = src;
	u8 *to = dst;

	if (!len)
		return;
	if (len == sizeof(u64) && IS_ALIGNED((unsigned long)dst, sizeof(u64))) {
		/* Pairs with a program's barrier behind its read of a byte of this word. */
		smp_store_release((u64 *)dst, get_unaligned((const u64 *)src));
		return;
	}
	/* Pairs with a program's barrier between its reads of the last byte and of others. */
	smp_wmb();
	while (--len)
		WRITE_ONCE(*to++, *from++);
	/* Pairs with the same barrier, for the other bytes of the word. */
	smp_store_release(to, *from);
}

void rust_helper_full_barrier(void)
{
	/* The caller says what it pairs with. */
	smp_mb();
}

/* Allocation. */

unsigned int rust_helper_kext_noio_save(void)
{
	return memalloc_noio_save();
}

void rust_helper_kext_noio_restore(unsigned int flags)
{
	memalloc_noio_restore(flags);
}
