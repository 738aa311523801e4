// SPDX-License-Identifier: GPL-2.0

//! The connections of a device that is removed.

use super::{conn::Conns, events::Event, Close, User};
use crate::device::Device;
use kernel::time::{delay::fsleep, Delta};

/// Ends the connections of a device that are being set up, and refuses new ones. To be called when
/// the removal of the device begins, so that nobody has to wait for such connections.
///
/// Established connections stay. The RDMA core asks their consumers to go next, and those close
/// them: an NVMe host, for one, shuts its controller down by a command first, and waits for the
/// answer for a minute. From now on an orderly close is quick. Context: sleeping; does not wait.
pub(crate) fn leave<U: User>(registry: &Conns<U>) {
    registry.shut(|conn| conn.notify(Event::Leave));
}

/// Resets all connections of a device and refuses new ones. When it returns, no code of the
/// connection manager runs for the device, or will. Context: sleeping, not on the device's own work
/// queues.
pub(crate) fn shutdown<U: User>(registry: &Conns<U>) {
    let dev = &registry.dev;
    registry.shut(|conn| conn.close(Close::Abort));
    loop {
        flush(dev);
        if registry.is_empty() {
            break;
        }
        fsleep(Delta::from_millis(1));
    }
    // A timer may have run out while the last connection left, and have woken its actor in vain.
    flush(dev);
    flush(dev);
    // The actors have cancelled the bulk work items of their streams, so the queues should have
    // none left. Flush them all the same, and what they may have woken.
    dev.workqueues.rx.flush();
    flush(dev);
}

/// Waits for the queued work. Twice, as work on one queue may queue more on the other.
fn flush(dev: &Device) {
    for _ in 0..2 {
        dev.workqueues.cm.flush();
    }
}
