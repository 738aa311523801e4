// SPDX-License-Identifier: GPL-2.0

//! Link types of RDMA netlink: `rdma link add` and `rdma link del`.

use crate::{device::Device, netdev::NetDevice, Driver};
use core::{
    marker::{PhantomData, PhantomPinned},
    ptr,
    sync::atomic::{AtomicPtr, Ordering},
};
use kernel::{ffi::c_char, prelude::*, types::Opaque};
use rdma_bindings as bindings;

/// A link type.
pub trait LinkOps: Send + Sync + 'static {
    /// The name of the type, as in `rdma link add NAME type TYPE netdev DEV`. The kernel loads a
    /// module for it by the alias `rdma-link-TYPE`.
    const TYPE: &'static CStr;

    /// The driver's static for this type.
    fn slot() -> &'static LinkSlot<Self>
    where
        Self: Sized;

    /// Makes a device called `name` on `ndev`. Context: sleeping, without RTNL. Several calls may
    /// run at the same time.
    fn newlink(&self, name: &CStr, ndev: &NetDevice) -> Result;
}

/// Where the callback of a link type, to which C gives no argument for it, finds the data of the
/// registration. A driver has a static of it for each of its types.
pub struct LinkSlot<T>(
    /// INVARIANT: Null, or the data of a [`LinkRegistration`], which sets it to null and
    /// unregisters its type before the data is dropped.
    AtomicPtr<T>,
);

impl<T> LinkSlot<T> {
    /// Makes an empty slot.
    pub const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }
}

impl<T> Default for LinkSlot<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// `rdma link del` begins with [`Driver::leaving`], which ends what would hold the removal up.
pub(crate) struct DelLink<D: Driver>(PhantomData<D>);

impl<D: Driver> DelLink<D> {
    /// The `link_ops` of a device. The type itself is registered elsewhere.
    pub(crate) const OPS: &'static bindings::rdma_link_ops = &bindings::rdma_link_ops {
        dellink: Some(Self::dellink),
        ..pin_init::zeroed()
    };

    /// # Safety
    ///
    /// Only the core may call this, with a live device of driver `D`.
    unsafe extern "C" fn dellink(dev: *mut bindings::ib_device) -> i32 {
        // SAFETY: By the contract of this function the device is of driver `D`. The core keeps it
        // registered during the call, so it has its state.
        D::leaving(unsafe { Device::from_raw(dev) });
        0
    }
}

/// A registered link type. Dropping it waits until no [`LinkOps::newlink`] runs.
#[pin_data(PinnedDrop)]
pub struct LinkRegistration<T: LinkOps> {
    #[pin]
    ops: Opaque<bindings::rdma_link_ops>,
    /// The slot that has the data, once it is registered.
    published: Option<&'static LinkSlot<T>>,
    data: T,
    #[pin]
    _pin: PhantomPinned,
}

// SAFETY: The core locks its list of types, and any thread may use the data.
unsafe impl<T: LinkOps> Send for LinkRegistration<T> {}
// SAFETY: The core locks its list of types, and any thread may use the data.
unsafe impl<T: LinkOps> Sync for LinkRegistration<T> {}

impl<T: LinkOps> LinkRegistration<T> {
    /// Registers the type. Wraps `rdma_link_register()`. Errors: `EBUSY` if the type's slot has a
    /// registration, `ENOMEM`. Context: sleeping.
    pub fn new(data: T) -> Result<Pin<KBox<Self>>> {
        let mut this = KBox::pin_init(
            pin_init!(Self {
                ops <- Opaque::ffi_init(|slot: *mut bindings::rdma_link_ops| {
                    let mut ops: bindings::rdma_link_ops = pin_init::zeroed();
                    ops.type_ = T::TYPE.as_char_ptr();
                    ops.newlink = Some(Self::newlink);
                    // SAFETY: `slot` is valid for writes.
                    unsafe { slot.write(ops) }
                }),
                published: None,
                data,
                _pin: PhantomPinned,
            }),
            GFP_KERNEL,
        )?;
        let slot = T::slot();
        let data = ptr::from_ref(&this.data).cast_mut();
        let order = Ordering::Release;
        // INVARIANT: The data is dropped after `this`, whose `drop` does so.
        slot.0
            .compare_exchange(ptr::null_mut(), data, order, Ordering::Relaxed)
            .map_err(|_| EBUSY)?;
        *this.as_mut().project().published = Some(slot);
        // SAFETY: The structure is pinned, and is taken off the list before it is freed.
        unsafe { bindings::rdma_link_register(this.ops.get()) };
        Ok(this)
    }

    /// # Safety
    ///
    /// Only the core may call this, with a string and a live network device, while the type is
    /// registered.
    unsafe extern "C" fn newlink(name: *const c_char, ndev: *mut bindings::net_device) -> i32 {
        let data = T::slot().0.load(Ordering::Acquire);
        if data.is_null() {
            return ENODEV.to_errno();
        }
        // SAFETY: The slot's registration empties it, and then unregisters its type before the data
        // is dropped. That waits for this call, as the core has one lock for the callbacks of all
        // types. Name and network device are valid by the contract of this function.
        let result =
            unsafe { (*data).newlink(CStr::from_char_ptr(name), NetDevice::from_raw(ndev)) };
        result.map_or_else(Error::to_errno, |()| 0)
    }
}

#[pinned_drop]
impl<T: LinkOps> PinnedDrop for LinkRegistration<T> {
    fn drop(self: Pin<&mut Self>) {
        // `new` drops a registration that did not get into the slot.
        if let Some(slot) = self.published {
            // A callback that comes now finds nothing; see `newlink`.
            slot.0.store(ptr::null_mut(), Ordering::Relaxed);
            // SAFETY: The type is registered, as its data was in the slot.
            unsafe { bindings::rdma_link_unregister(self.ops.get()) };
        }
    }
}
