// SPDX-License-Identifier: GPL-2.0

//! Events of network devices.

use super::NetDevice;
use core::{ffi::c_void, marker::PhantomPinned};
use kernel::{container_of, error::to_result, prelude::*, types::Opaque};
use rdma_bindings as bindings;

/// An event of a network device (`enum netdev_cmd`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NetdevEvent {
    /// It was brought up.
    Up,
    /// It was brought down.
    Down,
    /// It will be brought down.
    GoingDown,
    /// Its state has changed, for example its carrier.
    Change,
    /// It has appeared.
    Register,
    /// It goes away: references to it must be dropped.
    Unregister,
    /// Its MTU has changed.
    ChangeMtu,
    /// Its hardware address has changed.
    ChangeAddr,
    /// Its name has changed.
    ChangeName,
    /// Another event.
    Other(u32),
}

impl NetdevEvent {
    fn from_c(event: u32) -> Self {
        match event {
            bindings::netdev_cmd_NETDEV_UP => Self::Up,
            bindings::netdev_cmd_NETDEV_DOWN => Self::Down,
            bindings::netdev_cmd_NETDEV_GOING_DOWN => Self::GoingDown,
            bindings::netdev_cmd_NETDEV_CHANGE => Self::Change,
            bindings::netdev_cmd_NETDEV_REGISTER => Self::Register,
            bindings::netdev_cmd_NETDEV_UNREGISTER => Self::Unregister,
            bindings::netdev_cmd_NETDEV_CHANGEMTU => Self::ChangeMtu,
            bindings::netdev_cmd_NETDEV_CHANGEADDR => Self::ChangeAddr,
            bindings::netdev_cmd_NETDEV_CHANGENAME => Self::ChangeName,
            other => Self::Other(other),
        }
    }
}

/// A receiver of the events of network devices.
pub trait NetdevNotifier: Send + Sync + 'static {
    /// Called for each event of each network device of any namespace. Registration reports each
    /// device that exists, by [`NetdevEvent::Register`] and, if it is up, `Up`. Unregistration
    /// reports it by `GoingDown` and `Down`, if it is up, and `Unregister`. Context: sleeping,
    /// under RTNL.
    fn event(&self, event: NetdevEvent, ndev: &NetDevice);
}

/// A registered notifier. Dropping it waits until it is not running.
#[pin_data(PinnedDrop)]
pub struct NotifierRegistration<T: NetdevNotifier> {
    #[pin]
    block: Opaque<bindings::notifier_block>,
    registered: bool,
    data: T,
    #[pin]
    _pin: PhantomPinned,
}

// SAFETY: The core locks the chain, and any thread may use the data.
unsafe impl<T: NetdevNotifier> Send for NotifierRegistration<T> {}
// SAFETY: The core locks the chain, and any thread may use the data.
unsafe impl<T: NetdevNotifier> Sync for NotifierRegistration<T> {}

impl<T: NetdevNotifier> NotifierRegistration<T> {
    /// Registers a notifier. Wraps `register_netdevice_notifier()`. Errors: `ENOMEM`. Context:
    /// sleeping, without RTNL.
    pub fn new(data: T) -> Result<Pin<KBox<Self>>> {
        let mut this = KBox::pin_init(
            pin_init!(Self {
                block <- Opaque::ffi_init(|slot: *mut bindings::notifier_block| {
                    let mut block: bindings::notifier_block = pin_init::zeroed();
                    block.notifier_call = Some(Self::call);
                    // SAFETY: `slot` is valid for writes.
                    unsafe { slot.write(block) }
                }),
                registered: false,
                data,
                _pin: PhantomPinned,
            }),
            GFP_KERNEL,
        )?;
        // SAFETY: The block is pinned, and is taken off the chain before it is freed.
        to_result(unsafe { bindings::register_netdevice_notifier(this.block.get()) })?;
        *this.as_mut().project().registered = true;
        Ok(this)
    }

    /// # Safety
    ///
    /// Only the chain may call this, with the `block` field of a `Self` and a `struct
    /// netdev_notifier_info`.
    unsafe extern "C" fn call(
        block: *mut bindings::notifier_block,
        event: usize,
        info: *mut c_void,
    ) -> i32 {
        // SAFETY: By the contract of this function `block` is in a `Self`, which stays until the
        // notifier is off the chain. The network device is alive during the call.
        unsafe {
            let this = container_of!(Opaque::cast_from(block), Self, block);
            let ndev = bindings::netdev_notifier_info_to_dev(info);
            (*this)
                .data
                .event(NetdevEvent::from_c(event as u32), NetDevice::from_raw(ndev));
        }
        bindings::NOTIFY_DONE as i32
    }
}

#[pinned_drop]
impl<T: NetdevNotifier> PinnedDrop for NotifierRegistration<T> {
    fn drop(self: Pin<&mut Self>) {
        if self.registered {
            // SAFETY: The notifier is registered. The function fails only if it is not.
            unsafe { bindings::unregister_netdevice_notifier(self.block.get()) };
        }
    }
}
