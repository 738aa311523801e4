// SPDX-License-Identifier: GPL-2.0

//! Limits on the number of a device's objects of one kind.

use core::sync::atomic::{AtomicU32, Ordering};
use kernel::{alloc::Flags, prelude::*, sync::Arc};

/// The number of objects of one kind, and the limit for it.
pub(crate) struct Quota {
    used: AtomicU32,
    max: u32,
}

/// One counted object. Dropping it decrements the number.
pub(crate) struct Held(Arc<Quota>);

/// A queue pair's share of the limit, kept while a connection of the queue pair lingers.
pub(crate) struct Account {
    shares: AtomicU32,
    _held: Held,
}

/// A share in an account.
pub(crate) struct Share(Arc<Account>);

impl Quota {
    /// A limit of `max` objects. Context: sleeping. Errors: `ENOMEM`.
    pub(crate) fn new(max: u32) -> Result<Arc<Self>> {
        Ok(Arc::new(
            Self {
                used: AtomicU32::new(0),
                max,
            },
            GFP_KERNEL,
        )?)
    }

    //= 5040-8.1.2-2: for scarce resources MUST also be done using a
    //= 5041-8.3.2-3: for scarce resources MUST also be done using a
    //= 5040-8.1.2-5
    /// Counts one more object. Context: any. Errors: `ENOMEM` if there are as many as allowed.
    pub(crate) fn hold(self: &Arc<Self>) -> Result<Held> {
        let max = self.max;
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| {
                (n < max).then_some(n + 1)
            })
            .map_err(|_| ENOMEM)?;
        Ok(Held(self.clone()))
    }
}

impl Account {
    /// An account without shares. Context: sleeping. Errors: `ENOMEM`.
    pub(crate) fn new(held: Held, flags: Flags) -> Result<Arc<Self>> {
        let account = Self {
            shares: AtomicU32::new(0),
            _held: held,
        };
        Ok(Arc::new(account, flags)?)
    }

    /// Gives a share in it. Context: any.
    pub(crate) fn share(self: &Arc<Self>) -> Share {
        self.shares.fetch_add(1, Ordering::Relaxed);
        Share(self.clone())
    }

    /// Whether somebody has a share in it. Context: any.
    pub(crate) fn is_shared(&self) -> bool {
        self.shares.load(Ordering::Relaxed) != 0
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.0.shares.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.used.fetch_sub(1, Ordering::Relaxed);
    }
}
