// SPDX-License-Identifier: GPL-2.0

//! A timer of high resolution that is a field of an object in an `Arc`.
//!
//! It serves where milliseconds, as of a [`DelayedWork`](crate::DelayedWork), are too coarse. A
//! timer that runs owns a reference to the object it is in. `kernel::time::hrtimer` does not serve:
//! its handle cancels the timer when it is dropped, which may wait, and a new one comes with each
//! start, in any context.

use crate::lock::SpinLockIrq;
use core::{mem, ptr};
use kernel::{
    container_of,
    prelude::*,
    sync::{Arc, LockClassKey},
    types::Opaque,
};
use rdma_bindings as bindings;

/// `HRTIMER_NORESTART`, whose Rust type is a number in some kernels and a structure in others.
// SAFETY: The type is that of a C enumeration, of which 0, this constant, is a value.
const NORESTART: bindings::hrtimer_restart = unsafe { mem::zeroed() };

/// The function of a timer.
pub trait HrTimerItem: Send + Sync + Sized + 'static {
    /// Runs once for each time that the timer was started. Context: softirq.
    fn fire(this: Arc<Self>);
}

/// The references that a timer owns: one while it runs, and one for a call that has begun and has
/// not taken its reference yet.
struct Owners<T> {
    object: *const T,
    count: u32,
    /// The timer was started, and its call has not begun.
    runs: bool,
}

// SAFETY: It stands for `count` times an `Arc<T>`, which is `Send`.
unsafe impl<T: Send + Sync> Send for Owners<T> {}

impl<T> Owners<T> {
    const NONE: Self = Self {
        object: ptr::null(),
        count: 0,
        runs: false,
    };

    fn take(&mut self) -> Option<Arc<T>> {
        self.count = self.count.checked_sub(1)?;
        self.runs = false;
        // SAFETY: `start` has given a reference to the same object each time: it has checked that
        // the timer is in it. At least one was left, and this takes it.
        Some(unsafe { Arc::from_raw(self.object) })
    }
}

/// A timer (`struct hrtimer`, of the monotonic clock).
#[pin_data]
pub struct HrTimer<T: HrTimerItem> {
    #[pin]
    timer: Opaque<bindings::hrtimer>,
    #[pin]
    owners: SpinLockIrq<Owners<T>>,
}

// SAFETY: Any thread may start and cancel timers. The references are under a lock, and are `Send`.
unsafe impl<T: HrTimerItem> Send for HrTimer<T> {}
// SAFETY: Any thread may start and cancel timers. The references are under a lock.
unsafe impl<T: HrTimerItem> Sync for HrTimer<T> {}

/// Creates a [`HrTimer`] initialiser with a lock class of its own.
#[macro_export]
macro_rules! new_hrtimer {
    ($name:literal) => {
        $crate::hrtimer::HrTimer::new(::kernel::c_str!($name), ::kernel::static_lock_class!())
    };
}
pub use new_hrtimer;

impl<T: HrTimerItem> HrTimer<T> {
    /// Makes a timer that does not run; see [`new_hrtimer!`](crate::new_hrtimer).
    pub fn new(name: &'static CStr, key: Pin<&'static LockClassKey>) -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: `slot` is valid for writes. Only this timer, which is in a `Self`, calls
            // `call`.
            timer <- Opaque::ffi_init(|slot| unsafe {
                bindings::hrtimer_setup(
                    slot,
                    Some(Self::call),
                    bindings::CLOCK_MONOTONIC as i32,
                    bindings::hrtimer_mode_HRTIMER_MODE_REL_SOFT,
                )
            }),
            owners <- SpinLockIrq::new(Owners::NONE, name, key),
        })
    }

    /// Has the timer fire in `ns` nanoseconds, for `owner`, the object that it is in. If it runs
    /// already, it goes on as it is. Context: any.
    pub fn start(&self, owner: Arc<T>, ns: u64) {
        let offset = ptr::from_ref(self)
            .addr()
            .wrapping_sub(Arc::as_ptr(&owner).addr());
        let inside = mem::size_of::<T>()
            .checked_sub(mem::size_of::<Self>())
            .is_some_and(|last| offset <= last);
        if !inside {
            pr_err!("a timer was started for an object that it is not in\n");
            return;
        }
        let mut owners = self.owners.lock();
        if owners.runs {
            drop(owners);
            drop(owner);
            return;
        }
        owners.object = Arc::into_raw(owner);
        owners.count += 1;
        owners.runs = true;
        // SAFETY: The timer is set up, and does not run, as `runs` was not set; at most its
        // function does. Its memory stays while it runs: `owners` has a reference to the object
        // before a call can look for it, as the lock is held.
        unsafe {
            bindings::hrtimer_start_range_ns(
                self.timer.get(),
                i64::try_from(ns).unwrap_or(i64::MAX),
                0,
                bindings::hrtimer_mode_HRTIMER_MODE_REL_SOFT,
            )
        };
    }

    /// Stops the timer, and waits for its function if that runs. If others start it meanwhile, it
    /// may be stopped again: the caller does afterwards what the function would. Wraps
    /// `hrtimer_cancel()`. Context: sleeping.
    pub fn cancel_sync(&self) {
        // SAFETY: The timer is set up, and `self` keeps it. No lock is held that its function
        // takes.
        if unsafe { bindings::hrtimer_cancel(self.timer.get()) } != 0 {
            let owner = self.owners.lock().take();
            drop(owner);
        }
    }

    /// # Safety
    ///
    /// `timer` must be the `timer` field of a `Self` that [`Self::start`] has started.
    unsafe extern "C" fn call(timer: *mut bindings::hrtimer) -> bindings::hrtimer_restart {
        let timer = Opaque::cast_from(timer);
        // SAFETY: By the contract of this function `timer` is in a `Self`. That lives until the
        // reference of this call, which is in `owners`, is dropped. The core of timers does not
        // touch a timer whose function has returned this way.
        let owner = unsafe { (*container_of!(timer, Self, timer)).owners.lock().take() };
        if let Some(owner) = owner {
            T::fire(owner);
        }
        NORESTART
    }
}

#[kunit_tests(kext_hrtimer)]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicU32, Ordering};
    use kernel::time::{delay::fsleep, Delta};

    #[pin_data]
    struct Thing {
        fired: AtomicU32,
        #[pin]
        timer: HrTimer<Thing>,
    }

    impl HrTimerItem for Thing {
        fn fire(this: Arc<Self>) {
            this.fired.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn thing() -> Result<Arc<Thing>> {
        let init = pin_init!(Thing {
            fired: AtomicU32::new(0),
            timer <- new_hrtimer!("kext_test_hrtimer"),
        });
        Arc::pin_init(init, GFP_KERNEL)
    }

    #[test]
    fn it_fires_once_for_each_start() -> Result {
        let thing = thing()?;
        for n in 1..=3 {
            // Long enough for a busy machine to come to the next line in time.
            thing.timer.start(thing.clone(), 200_000_000);
            // It runs already.
            thing.timer.start(thing.clone(), 1);
            for _ in 0..1000 {
                if thing.fired.load(Ordering::Relaxed) == n {
                    break;
                }
                fsleep(Delta::from_millis(1));
            }
            fsleep(Delta::from_millis(5));
            assert_eq!(thing.fired.load(Ordering::Relaxed), n);
        }
        thing.timer.cancel_sync();
        // The timer has given back all references.
        assert!(Arc::into_unique_or_drop(thing).is_some());
        Ok(())
    }

    #[test]
    fn a_cancelled_timer_does_not_fire() -> Result {
        let thing = thing()?;
        thing.timer.start(thing.clone(), 60_000_000_000);
        thing.timer.cancel_sync();
        thing.timer.cancel_sync();
        assert_eq!(thing.fired.load(Ordering::Relaxed), 0);
        assert!(Arc::into_unique_or_drop(thing).is_some());
        Ok(())
    }
}
