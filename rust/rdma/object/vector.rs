// SPDX-License-Identifier: GPL-2.0

//! Completion vectors: the processor that calls a completion handler.
//!
//! A consumer in the kernel gives each of its queues a vector, and expects that its work for that
//! queue is done on the vector's processor: the core polls where the handler was called
//! (`irq_poll_sched()`, and `queue_work()` on a bound workqueue). Hardware has an interrupt for
//! each vector. Software publishes a completion on whichever processor it happens to run. So the
//! call is sent to the vector's processor, by an interrupt between processors.
//!
//! The function is `smp_call_function_single_async()`: `irq_work_queue_on()`, which would serve
//! real-time kernels as well, is not exported to modules. On the same processor it is a plain call.
//!
//! A process has no use for that: its handler only wakes a thread, which the scheduler places.

use super::{CoreObject, CorePtr};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use kernel::{
    cpu::CpuId,
    ffi::c_void,
    prelude::*,
    sync::Arc,
    time::{delay::fsleep, Delta},
    types::Opaque,
};
use rdma_bindings as bindings;

/// The way from any processor to the handler of one queue, on the processor of its vector.
#[pin_data]
pub(crate) struct Vector {
    cpu: u32,
    object: Arc<CoreObject<bindings::ib_cq>>,
    /// A call was sent, and has not begun. The thread that sets this uses `request`.
    pending: AtomicBool,
    /// Threads that send a call, and calls that were sent and have not ended.
    busy: AtomicU32,
    /// Calls of the handler that are due. The thread that makes it 1 makes all of them.
    due: AtomicU32,
    /// What the kernel queues on the vector's processor.
    #[pin]
    request: Opaque<bindings::call_single_data_t>,
}

// SAFETY: `request` belongs to no thread; see `Sync` for who uses it.
unsafe impl Send for Vector {}
// SAFETY: `request` is used by one thread at a time, the one that has set `pending`. The other
// fields are atomic, or do not change.
unsafe impl Sync for Vector {}

impl Vector {
    /// The vector of number `vector` for the queue `object`. The vectors are the processors that
    /// are online, in order, over and over. Errors: `ENOMEM`. Context: sleeping.
    pub(crate) fn new(vector: u32, object: &Arc<CoreObject<bindings::ib_cq>>) -> Result<Arc<Self>> {
        // SAFETY: The functions only read the mask of processors. If it changes between them, the
        // result may be no processor, which is the same to `smp_call_function_single_async()` as
        // one that is offline.
        let cpu = unsafe {
            let online = bindings::num_online_cpus().max(1);
            bindings::rdma_nth_online_cpu(vector % online)
        };
        let this = Arc::pin_init(
            pin_init!(Self {
                cpu,
                object: object.clone(),
                pending: AtomicBool::new(false),
                busy: AtomicU32::new(0),
                due: AtomicU32::new(0),
                request <- Opaque::ffi_init(|request: *mut bindings::call_single_data_t| {
                    // SAFETY: `request` is valid for writes. Zeroes are a valid value, as
                    // `INIT_CSD()` stores it, but for the two fields that are set below.
                    unsafe { request.write_bytes(0, 1) };
                }),
            }),
            GFP_KERNEL,
        )?;
        // SAFETY: Nobody else has the object yet. It stays where it is, as an `Arc`'s content does.
        unsafe {
            let request = this.request.get();
            (*request).func = Some(Self::run);
            (*request).info = Arc::as_ptr(&this).cast_mut().cast();
        }
        Ok(this)
    }

    /// Has the vector's processor call the handler, which it does soon, in interrupt context. Calls
    /// that have not begun are made as one. The handler is called here, before this returns, if
    /// this is that processor, or if that one is offline. So it is on PREEMPT_RT, where a handler
    /// must not be called with interrupts disabled. Context: any. The caller has an access to the
    /// queue.
    pub(crate) fn call(&self, queue: &CorePtr<bindings::ib_cq>) {
        if cfg!(CONFIG_PREEMPT_RT) {
            self.call_handler(queue);
            return;
        }
        // A thread stays on this processor for the time of the call, and has it to itself: others
        // may leave their calls to it, or wait for `busy`, and must not keep the processor from it.
        // SAFETY: The function has no requirements. Its effect ends below.
        unsafe { bindings::rdma_preempt_disable() };
        if CpuId::current().as_u32() == self.cpu {
            self.call_handler(queue);
        } else {
            self.send();
        }
        // SAFETY: Undoes what was done above, in the same thread.
        unsafe { bindings::rdma_preempt_enable() };
    }

    /// Calls the handler. "The driver must guarantee that only one CQ event handler for a given CQ
    /// is running at a time" (Documentation/infiniband/core_locking.rst): if it runs already, on
    /// another processor or below this interrupt, whoever called it does so once more. A handler
    /// runs again only if its consumer has armed the queue anew, so that ends. Context: any.
    fn call_handler(&self, queue: &CorePtr<bindings::ib_cq>) {
        // Acquire and release: the next call sees what was published before this one was due.
        if self.due.fetch_add(1, Ordering::AcqRel) != 0 {
            return;
        }
        let mut due = 1;
        loop {
            call_handler(queue);
            let (set, get) = (Ordering::AcqRel, Ordering::Acquire);
            match self.due.compare_exchange(due, 0, set, get) {
                Ok(_) => break,
                Err(more) => due = more,
            }
        }
    }

    /// Sends a call to the vector's processor. Context: any, preemption disabled.
    fn send(&self) {
        // Before `pending` is looked at: `wait` must not miss the call that this thread relies on.
        self.busy.fetch_add(1, Ordering::Relaxed);
        // Release: the handler of a call that begins after this sees what was published before.
        // Acquire: `request` is used after the call that used it before has begun.
        let relies = self.pending.swap(true, Ordering::AcqRel);
        let result = if relies {
            0
        } else {
            // SAFETY: This thread has set `pending`, so nobody else uses `request`, which is not
            // queued: the kernel has given it back before it calls `run`, which clears `pending`.
            // It stays until `run` has ended: `busy` counts the call, and `end` waits for that,
            // after the caller's access to the queue. CAST: It is the number of a processor.
            unsafe { bindings::smp_call_function_single_async(self.cpu as i32, self.request.get()) }
        };
        if relies {
            self.busy.fetch_sub(1, Ordering::Release);
        }
        if result != 0 {
            // The processor is offline, so the call is made here. (One that goes offline makes
            // those that were sent to it: `smpcfd_dying_cpu()`.)
            self.make_call();
        }
    }

    /// Makes the call that was sent.
    fn make_call(&self) {
        // Acquire pairs with the release of those who rely on this call.
        self.pending.swap(false, Ordering::AcqRel);
        if let Some(queue) = self.object.try_access() {
            self.call_handler(&queue);
        }
        // Release: the call comes before its end. The object may be freed after this.
        self.busy.fetch_sub(1, Ordering::Release);
    }

    /// What the vector's processor runs. Context: interrupt.
    ///
    /// # Safety
    ///
    /// `info` must be a `Self`, with a call that was sent and is counted in `busy`.
    unsafe extern "C" fn run(info: *mut c_void) {
        // SAFETY: By the contract of this function it is a `Self`. `end` waits for the call, so it
        // is there until the call is not counted any more, which is the last access.
        let this = unsafe { &*info.cast::<Self>() };
        // Lockdep takes spinlocks for sleeping ones in such an interrupt, as they would be on
        // PREEMPT_RT. But there `call` does not come here. So this is told to lockdep, as the
        // kernel does for each `irq_work`.
        // SAFETY: The functions tell lockdep of the context of the code between them.
        unsafe { bindings::rdma_lockdep_irq_work_enter() };
        this.make_call();
        // SAFETY: As above.
        unsafe { bindings::rdma_lockdep_irq_work_exit() };
    }

    /// Waits until the calls that were asked for before have been made, and a moment comes when no
    /// other is under way. Each takes as long as a handler, which does not sleep. Context:
    /// sleeping.
    pub(crate) fn wait(&self) {
        // Acquire pairs with the releases in `make_call` and `call_handler`.
        while self.busy.load(Ordering::Acquire) != 0 || self.due.load(Ordering::Acquire) != 0 {
            fsleep(Delta::from_micros(20));
        }
    }

    /// Ends the vector: after this `request` is neither queued nor used, for good. The caller has
    /// revoked the queue, so no more calls are sent. Context: as of [`Self::wait`].
    pub(crate) fn end(&self) {
        self.wait();
    }
}

/// Calls the completion handler. The consumer must have armed the queue, to which the caller has an
/// access. Context: any.
pub(super) fn call_handler(cq: &CorePtr<bindings::ib_cq>) {
    let cq = cq.as_ptr();
    // SAFETY: The access keeps the queue. The core has set the context, and mostly the handler,
    // before it calls `create_cq`. `__ib_alloc_cq()` sets the handler when that has returned, by a
    // plain store. Only an armed queue is notified, and the core arms this one, or gives it to a
    // consumer who does, after that store; arming takes the queue's lock, as those do who find it
    // armed. So the store comes before this load. (A call by another processor is queued after
    // that, and queuing is a release.)
    unsafe {
        if let Some(handler) = (*cq).comp_handler {
            handler(cq, (*cq).cq_context);
        }
    }
}
