// SPDX-License-Identifier: GPL-2.0

//! The queue pairs of a device, by number.

use super::{statistics::Statistics, Qp};
use kernel::{prelude::*, sync::Arc};
use kext::IdTable;

/// The queue pairs of a device, by number.
pub(crate) struct Qps {
    table: IdTable<Qp>,
    statistics: Statistics,
}

impl Qps {
    /// Makes an empty table. Context: sleeping. Errors: `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        // QP numbers are never on the wire; tools expect them to have 24 bits.
        let qps = Self {
            table: IdTable::new(2, (1 << 24) - 1)?,
            statistics: Statistics::new()?,
        };
        Ok(Arc::new(qps, GFP_KERNEL)?)
    }

    /// The queue pair of that number. Context: any.
    pub(crate) fn get(&self, number: u32) -> Option<Arc<Qp>> {
        self.table.get(number)
    }

    /// What the queue pairs have counted.
    pub(crate) fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Calls `f` with the queue pair of that number. It takes no reference, which could be the last
    /// one when it is dropped, and not every context may drop that. Context: any; `f` must not
    /// sleep.
    pub(crate) fn with<R>(&self, number: u32, f: impl FnOnce(&Arc<Qp>) -> R) -> Option<R> {
        self.table.with(number, f)
    }
}

/// The number of a queue pair. It is free again when this is dropped, which is with the last
/// reference to the [`Qp`].
///
/// Until then no other queue pair gets it. The RDMA core names a queue pair by its number twice: to
/// check whose it is (`iw_get_qp`), and later to connect it.
pub(crate) struct QpNumber {
    qps: Arc<Qps>,
    id: u32,
}

impl QpNumber {
    /// Reserves the next number that is free: not one that was in use a moment ago, and one whose
    /// neighbours are in use, as tables of numbers far apart take 1 KiB for each, in this driver
    /// and in the RDMA core. Context: sleeping. Errors: `ENOMEM`, `EBUSY`.
    pub(crate) fn new(qps: &Arc<Qps>) -> Result<Self> {
        let id = qps.table.reserve_cyclic()?.keep();
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
        drop(self.qps.table.remove(self.id));
    }
}

impl Qp {
    /// Enters the queue pair in the table, so that it is found by its number. Context: sleeping.
    /// Errors: `ENOMEM`.
    pub(crate) fn enter(self: &Arc<Self>) -> Result {
        let flags = self.stream.owner().consumer().flags();
        let number = &self.number;
        number.qps.statistics.open(number.id, &self.stream)?;
        number
            .qps
            .table
            .publish(number.id, self.clone(), flags)
            .inspect_err(|_| self.close_account())
    }

    /// Takes the queue pair out of the table, so that nobody finds it any more. Its number stays
    /// reserved. Context: process, interrupts on.
    pub(crate) fn retire(&self) {
        drop(self.number.qps.table.retire(self.number.id));
    }

    /// Leaves what the queue pair has counted to the device. Context: sleeping.
    pub(crate) fn close_account(&self) {
        self.number.qps.statistics.close(self.number.id);
    }
}
