// SPDX-License-Identifier: GPL-2.0

//! Memory regions: the structure that a driver allocates for the core, and requests for regions;
//! memory windows, which a driver gives a region of its own.
//!
//! [`page_list`](super::page_list) has the memory of fast registrations.

use super::{page_list::MrHead, Object};
use crate::{attr::Access, owner::Consumer, types::DriverTypes, umem::Umem};
use kernel::{prelude::*, sync::Arc, types::Opaque};
use rdma_bindings as bindings;

/// A memory window (`struct ib_mw`).
pub(crate) type MwObject<D> = Object<bindings::ib_mw, Arc<<D as DriverTypes>::Mr>>;

/// The type of a memory window (`enum ib_mw_type`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MwType {
    /// It is for all queue pairs of its domain. Only its consumer changes what it is bound to.
    One,
    /// It is for the queue pair that binds it, until it is invalidated.
    Two,
}

/// A memory region (`struct ib_mr`). The driver's side allocates it, unlike other objects.
#[repr(C)]
pub(crate) struct MrObject<D: DriverTypes> {
    head: MrHead,
    pub(crate) data: Arc<D::Mr>,
}

impl<D: DriverTypes> MrObject<D> {
    /// Allocates the C structure for `new`. Errors: `ENOMEM`. Context: sleeping.
    pub(crate) fn create(new: NewMr<D::Mr>, consumer: Consumer) -> Result<*mut bindings::ib_mr> {
        let mr: Opaque<bindings::ib_mr> = pin_init::zeroed();
        // SAFETY: Zeroes are a valid value of the structure, and nobody else has it yet.
        unsafe {
            (*mr.get()).lkey = new.lkey;
            (*mr.get()).rkey = new.rkey;
        }
        let object = KBox::new(
            Self {
                head: MrHead::new(mr),
                data: new.mr,
            },
            consumer.flags(),
        )?;
        Ok(KBox::into_raw(object).cast())
    }

    /// The driver's region.
    ///
    /// # Safety
    ///
    /// `mr` must come from [`Self::create`], and must not be freed during `'a`.
    pub(crate) unsafe fn data<'a>(mr: *mut bindings::ib_mr) -> &'a Arc<D::Mr> {
        // SAFETY: By the contract of this function `mr` begins a `Self`. The field does not change.
        unsafe { &(*mr.cast::<Self>()).data }
    }

    /// The driver's region if `mr` is of `device`.
    ///
    /// # Safety
    ///
    /// `mr` must be null or a region that is not freed during the call. `device` must be of driver
    /// `D`.
    pub(crate) unsafe fn of_device(
        mr: *mut bindings::ib_mr,
        device: *mut bindings::ib_device,
    ) -> Option<Arc<D::Mr>> {
        // SAFETY: By the contract of this function a region is valid. If its device is `device`,
        // which is of driver `D`, it comes from `create`.
        unsafe { (!mr.is_null() && (*mr).device == device).then(|| Self::data(mr).clone()) }
    }

    /// Frees the C structure.
    ///
    /// # Safety
    ///
    /// `mr` must come from [`Self::create`], and nobody may use it any more.
    pub(crate) unsafe fn free(mr: *mut bindings::ib_mr) {
        // SAFETY: By the contract of this function `mr` comes from a box in `create`, and is ours.
        drop(unsafe { KBox::from_raw(mr.cast::<Self>()) });
    }
}

/// A region that the driver has made.
pub struct NewMr<T> {
    /// The driver's part.
    pub mr: Arc<T>,
    /// The local key.
    pub lkey: u32,
    /// The remote key.
    pub rkey: u32,
}

/// A request to register memory of the calling process.
pub struct UserMr {
    /// The address in the process.
    pub start: u64,
    /// The number of bytes.
    pub length: u64,
    /// The address by which work requests name the first byte.
    pub iova: u64,
    /// The rights that the region gives.
    pub access: Access,
    pub(crate) device: *mut bindings::ib_device,
}

impl UserMr {
    /// Pins the memory. Errors: see [`Umem`] and `ib_umem_get_va()`. Context: sleeping.
    pub fn pin(&self) -> Result<Umem> {
        // SAFETY: A driver has this object during its `reg_user_mr` only, which keeps the device.
        unsafe { Umem::pin(self.device, self.start, self.length, self.access) }
    }
}

/// A request to register a dma-buf.
pub struct DmaBufMr {
    /// The offset of the first byte in the buffer.
    pub offset: u64,
    /// The number of bytes.
    pub length: u64,
    /// The address by which work requests name the first byte.
    pub iova: u64,
    /// The rights that the region gives.
    pub access: Access,
    pub(crate) fd: i32,
    pub(crate) device: *mut bindings::ib_device,
}

impl DmaBufMr {
    /// Maps the memory. Errors: `EBADF`, `EINVAL`, `EOPNOTSUPP`, `ENOMEM`, and those of the
    /// exporter. Context: sleeping.
    pub fn map(&self) -> Result<Umem> {
        let Self { offset, length, .. } = *self;
        // SAFETY: A driver has this object during its `reg_user_mr_dmabuf` only, which keeps the
        // device.
        unsafe { Umem::map(self.device, self.fd, offset, length, self.access) }
    }
}

/// Memory of a process, as a region addresses it.
#[derive(Clone, Copy)]
pub struct UserMemory {
    /// The address in the process.
    pub start: u64,
    /// The number of bytes.
    pub length: u64,
    /// The address by which work requests name the first byte.
    pub iova: u64,
}

/// A request to change a process' region. What is `None` stays as it is.
pub struct Rereg {
    /// The memory that the region is to have.
    pub memory: Option<UserMemory>,
    /// The rights that it is to give.
    pub access: Option<Access>,
    pub(crate) device: *mut bindings::ib_device,
}

impl Rereg {
    /// Pins memory of the calling process for a region with the rights `access`, as
    /// [`UserMr::pin`]. Context: sleeping.
    pub fn pin(&self, start: u64, length: u64, access: Access) -> Result<Umem> {
        // SAFETY: A driver has this object during its `rereg_user_mr` only, which keeps the device.
        unsafe { Umem::pin(self.device, start, length, access) }
    }
}
