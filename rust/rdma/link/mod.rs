// SPDX-License-Identifier: GPL-2.0

//! How devices come and go: `rdma link add`, and events of the network device underneath.
//!
//! - [`LinkRegistration`]: a link type of RDMA netlink.
//! - [`NotifierRegistration`] ([`notifier`]): events of network devices.

pub mod notifier;

pub use notifier::{NetdevEvent, NetdevNotifier, NotifierRegistration};

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

    /// Makes a device called `name` on `ndev`. Context: sleeping, without RTNL. Several calls may
    /// run at the same time.
    fn newlink(&self, name: &CStr, ndev: &NetDevice) -> Result;
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
    data: T,
    #[pin]
    _pin: PhantomPinned,
}

// SAFETY: The core locks its list of types, and any thread may use the data.
unsafe impl<T: LinkOps> Send for LinkRegistration<T> {}
// SAFETY: The core locks its list of types, and any thread may use the data.
unsafe impl<T: LinkOps> Sync for LinkRegistration<T> {}

/// The data of the registered link type. C callbacks have no argument for it, so this module can
/// have one registration only.
static DATA: AtomicPtr<core::ffi::c_void> = AtomicPtr::new(ptr::null_mut());

impl<T: LinkOps> LinkRegistration<T> {
    /// Registers the type. Wraps `rdma_link_register()`. Errors: `EBUSY` if this module has a
    /// registration, `ENOMEM`. Context: sleeping.
    pub fn new(data: T) -> Result<Pin<KBox<Self>>> {
        let this = KBox::pin_init(
            pin_init!(Self {
                ops <- Opaque::ffi_init(|slot: *mut bindings::rdma_link_ops| {
                    let mut ops: bindings::rdma_link_ops = pin_init::zeroed();
                    ops.type_ = T::TYPE.as_char_ptr();
                    ops.newlink = Some(Self::newlink);
                    // SAFETY: `slot` is valid for writes.
                    unsafe { slot.write(ops) }
                }),
                data,
                _pin: PhantomPinned,
            }),
            GFP_KERNEL,
        )?;
        let data = ptr::from_ref(&this.data).cast_mut().cast();
        DATA.compare_exchange(ptr::null_mut(), data, Ordering::Release, Ordering::Relaxed)
            .map_err(|_| EBUSY)?;
        // SAFETY: The structure is pinned, and is taken off the list before it is freed.
        unsafe { bindings::rdma_link_register(this.ops.get()) };
        Ok(this)
    }

    /// # Safety
    ///
    /// Only the core may call this, with a string and a live network device, while the type is
    /// registered.
    unsafe extern "C" fn newlink(name: *const c_char, ndev: *mut bindings::net_device) -> i32 {
        let data = DATA.load(Ordering::Acquire).cast::<T>();
        if data.is_null() {
            return ENODEV.to_errno();
        }
        // SAFETY: The data is that of the only registration, whose callback this is. It stays until
        // the type is unregistered, which waits for this call. Name and network device are valid by
        // the contract of this function.
        let result =
            unsafe { (*data).newlink(CStr::from_char_ptr(name), NetDevice::from_raw(ndev)) };
        result.map_or_else(Error::to_errno, |()| 0)
    }
}

#[pinned_drop]
impl<T: LinkOps> PinnedDrop for LinkRegistration<T> {
    fn drop(self: Pin<&mut Self>) {
        let data = ptr::from_ref(&self.data).cast_mut().cast();
        // `new` drops a registration that did not get into `DATA`.
        if DATA.load(Ordering::Relaxed) == data {
            // SAFETY: The type is registered, as its data is in `DATA`.
            unsafe { bindings::rdma_link_unregister(self.ops.get()) };
            DATA.store(ptr::null_mut(), Ordering::Relaxed);
        }
    }
}
