// SPDX-License-Identifier: GPL-2.0

//! The queue pairs of a device, by number.

use super::Qp;
use kernel::{prelude::*, sync::Arc};
use kext::IdTable;

/// The queue pairs of a device, by number.
pub(crate) struct Qps(IdTable<Qp>);

impl Qps {
    /// None. Context: sleeping. Errors: `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        // The wire never carries the numbers; 24 bits is what tools expect.
        let table = IdTable::new(2, (1 << 24) - 1)?;
        Ok(Arc::new(Self(table), GFP_KERNEL)?)
    }

    /// The queue pair of that number. Context: any.
    pub(crate) fn get(&self, number: u32) -> Option<Arc<Qp>> {
        self.0.get(number)
    }

    /// Calls `f` with the queue pair of that number, and takes no reference: it might be the last one
    /// when it is dropped. Context: any; `f` must not sleep.
    pub(crate) fn with<R>(&self, number: u32, f: impl FnOnce(&Arc<Qp>) -> R) -> Option<R> {
        self.0.with(number, f)
    }
}

/// The number of a queue pair. No other one gets it before this is dropped, with the last reference to
/// the queue pair: the RDMA core names queue pairs by number when it connects them, and checks earlier
/// whose they are.
pub(crate) struct QpNumber {
    qps: Arc<Qps>,
    id: u32,
}

impl QpNumber {
    /// A number that is free. Context: sleeping. Errors: `ENOMEM`, `EBUSY`.
    pub(crate) fn new(qps: &Arc<Qps>) -> Result<Self> {
        let id = qps.0.reserve_random()?.keep();
        Ok(Self {
            qps: qps.clone(),
            id,
        })
    }

    /// The number.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }
}

impl Drop for QpNumber {
    fn drop(&mut self) {
        drop(self.qps.0.remove(self.id));
    }
}

impl Qp {
    /// Lets the queue pair be found by its number. Context: sleeping. Errors: `ENOMEM`.
    pub(crate) fn publish(self: &Arc<Self>) -> Result {
        let flags = self.consumer().flags();
        let number = &self.number;
        number.qps.0.publish(number.id, self.clone(), flags)
    }

    /// Lets nobody find the queue pair any more. Context: process, interrupts on.
    pub(crate) fn retire(&self) {
        drop(self.number.qps.0.retire(self.number.id));
    }
}
