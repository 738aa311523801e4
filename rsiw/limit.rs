// SPDX-License-Identifier: GPL-2.0

//! How many objects of a kind a device may have.

use core::sync::atomic::{AtomicU32, Ordering};
use kernel::{prelude::*, sync::Arc};

/// How many objects of a kind there may be, and are.
pub(crate) struct Limit {
    used: AtomicU32,
    max: u32,
}

/// One object of the count; gives its place back when dropped.
pub(crate) struct Held(Arc<Limit>);

impl Limit {
    /// At most `max` objects. Context: sleeping. Errors: `ENOMEM`.
    pub(crate) fn new(max: u32) -> Result<Arc<Self>> {
        Ok(Arc::new(
            Self {
                used: AtomicU32::new(0),
                max,
            },
            GFP_KERNEL,
        )?)
    }
}

impl Limit {
    /// Takes a place. Errors: `ENOMEM` when all are taken.
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

impl Drop for Held {
    fn drop(&mut self) {
        self.0.used.fetch_sub(1, Ordering::Relaxed);
    }
}
