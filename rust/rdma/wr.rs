// SPDX-License-Identifier: GPL-2.0

//! Work requests that kernel consumers post.
//!
//! The C structures form chains, from which a driver takes one request after the other. If it
//! fails, the one that it took last is reported as the bad one. Processes post through mapped rings
//! instead. So these requests come from the kernel, and are trusted to be well formed.

use crate::{local::LocalSge, object::mr::MrObject, owner::Consumer, types::DriverTypes, Access};
use core::{marker::PhantomData, slice};
use kernel::{prelude::*, sync::Arc};
use rdma_bindings as bindings;

/// A piece of local memory that a kernel consumer has posted (`struct ib_sge`).
///
/// INVARIANT: Only the lists of kernel consumers' requests have elements of this type, and
/// [`Self::NONE`] is one.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Sge(pub(crate) bindings::ib_sge);

impl Sge {
    /// No bytes.
    pub const NONE: Self = Self(bindings::ib_sge {
        addr: 0,
        length: 0,
        lkey: 0,
    });

    /// The address: a kernel address if the key is the local DMA key, as DMA is virtual.
    pub fn addr(&self) -> u64 {
        self.0.addr
    }

    /// The number of bytes.
    pub fn length(&self) -> u32 {
        self.0.length
    }

    /// The local key of the memory region.
    pub fn lkey(&self) -> u32 {
        self.0.lkey
    }
}

impl From<&Sge> for LocalSge {
    #[inline]
    fn from(sge: &Sge) -> Self {
        // SAFETY: By the invariant of `Sge` a kernel consumer has posted it, or it is all zero.
        unsafe { Self::of(sge.0, Consumer::Kernel) }
    }
}

/// # Safety
///
/// If `num` is positive, `list` must be null or point to that many elements, which are valid and do
/// not change during `'a`.
unsafe fn sges<'a>(list: *const bindings::ib_sge, num: i32) -> &'a [Sge] {
    match usize::try_from(num) {
        // SAFETY: By the contract of this function there are `num` elements. `Sge` is transparent.
        Ok(num) if num > 0 && !list.is_null() => unsafe {
            slice::from_raw_parts(list.cast::<Sge>(), num)
        },
        _ => &[],
    }
}

/// Flags of a send work request (`enum ib_send_flags`).
#[derive(Clone, Copy)]
pub struct SendFlags(i32);

impl SendFlags {
    /// The request starts only when all earlier RDMA Reads are complete.
    pub fn fence(self) -> bool {
        self.0 & bindings::ib_send_flags_IB_SEND_FENCE != 0
    }

    /// The request's completion gets an entry in the completion queue.
    pub fn signaled(self) -> bool {
        self.0 & bindings::ib_send_flags_IB_SEND_SIGNALED != 0
    }

    /// The peer's consumer gets a solicited event.
    pub fn solicited(self) -> bool {
        self.0 & bindings::ib_send_flags_IB_SEND_SOLICITED != 0
    }

    /// The data is copied when the request is posted.
    pub fn inline(self) -> bool {
        self.0 & bindings::ib_send_flags_IB_SEND_INLINE != 0
    }
}

/// The operation of a send work request.
pub enum SendOp<D: DriverTypes> {
    /// Send.
    Send,
    /// Send with Invalidate: the peer invalidates `rkey`.
    SendInv {
        /// The peer's key.
        rkey: u32,
    },
    /// Send with immediate data.
    SendImm {
        /// The data.
        imm: [u8; 4],
    },
    /// RDMA Write.
    Write {
        /// The peer's address.
        remote_addr: u64,
        /// The peer's key.
        rkey: u32,
    },
    /// RDMA Write with immediate data.
    WriteImm {
        /// The peer's address.
        remote_addr: u64,
        /// The peer's key.
        rkey: u32,
        /// The data.
        imm: [u8; 4],
    },
    /// RDMA Read.
    Read {
        /// The peer's address.
        remote_addr: u64,
        /// The peer's key.
        rkey: u32,
    },
    /// RDMA Read, after which the local key of the data's buffer is invalidated.
    ReadInv {
        /// The peer's address.
        remote_addr: u64,
        /// The peer's key.
        rkey: u32,
    },
    /// Adds to 8 bytes of the peer's memory; the local memory gets the value before.
    FetchAdd {
        /// The peer's address.
        remote_addr: u64,
        /// The peer's key.
        rkey: u32,
        /// What is added.
        add: u64,
        /// The highest bits of the fields in which it is added; none: one field of all.
        mask: u64,
    },
    /// Compares 8 bytes of the peer's memory, and replaces them if they are equal; the local memory
    /// gets the value before.
    CmpSwap {
        /// The peer's address.
        remote_addr: u64,
        /// The peer's key.
        rkey: u32,
        /// The value to compare with, and the bits to compare.
        compare: (u64, u64),
        /// The new value, and the bits to replace.
        swap: (u64, u64),
    },
    /// Invalidates a local key.
    LocalInv {
        /// The key.
        rkey: u32,
    },
    /// Registers the pages that were mapped to a region.
    RegMr {
        /// The region, of the queue pair's device.
        mr: Arc<D::Mr>,
        /// The key that the region gets.
        key: u32,
        /// The rights that the region gives.
        access: Access,
        /// The address of the first byte. Consumers may change it after they have mapped the pages
        /// (NFS does), to one with the same offset in its page.
        iova: u64,
    },
    /// Another `enum ib_wr_opcode`.
    Other(u32),
}

/// One send work request.
pub struct SendWr<'a, D: DriverTypes> {
    /// The consumer's number of the request.
    pub id: u64,
    /// Flags.
    pub flags: SendFlags,
    /// The operation.
    pub op: SendOp<D>,
    /// The local memory, in the order of the message.
    pub sges: &'a [Sge],
}

impl<D: DriverTypes> SendWr<'_, D> {
    /// Copies the data of an inline request to `dst` and returns its length. Errors: `EINVAL` if it
    /// does not fit, or if the request is not inline. Context: any.
    pub fn copy_inline(&self, dst: &mut [u8]) -> Result<usize> {
        if !self.flags.inline() {
            return Err(EINVAL);
        }
        let mut done = 0;
        for sge in self.sges {
            let len = sge.length() as usize;
            let part = dst.get_mut(done..).and_then(|rest| rest.get_mut(..len));
            let part = part.ok_or(EINVAL)?;
            // SAFETY: The consumer is in the kernel. The addresses of its inline data are kernel
            // addresses, and the data is its own for the time of the call.
            unsafe { kext::copy::bytes_in(part, sge.addr() as usize as *const u8) };
            done += len;
        }
        Ok(done)
    }
}

/// The send work requests of one call.
pub struct SendWrs<'a, D: DriverTypes> {
    next: *const bindings::ib_send_wr,
    /// The request that was taken last; if there was none, the first.
    current: *const bindings::ib_send_wr,
    device: *mut bindings::ib_device,
    _chain: PhantomData<&'a D>,
}

impl<'a, D: DriverTypes> SendWrs<'a, D> {
    /// # Safety
    ///
    /// `first` must be the first of a chain of requests of a kernel consumer, which does not change
    /// during `'a`, and the regions that it names must be alive. `device` must be the device of the
    /// queue pair, of driver `D`.
    pub(crate) unsafe fn new(
        first: *const bindings::ib_send_wr,
        device: *mut bindings::ib_device,
    ) -> Self {
        Self {
            next: first,
            current: first,
            device,
            _chain: PhantomData,
        }
    }

    /// Takes the next request. If the driver's method fails, the request taken last is reported as
    /// bad, and those before it count as posted.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<SendWr<'a, D>> {
        if self.next.is_null() {
            return None;
        }
        self.current = self.next;
        // SAFETY: By the contract of `new` the requests of the chain are valid.
        let wr = unsafe { &*self.current };
        self.next = wr.next;
        // SAFETY: By the contract of `new` the request's elements are valid. The union is read as
        // its integer, for which any bits are a value.
        let (id, key, list) = unsafe {
            (
                wr.__bindgen_anon_1.wr_id,
                wr.ex.invalidate_rkey,
                sges(wr.sg_list, wr.num_sge),
            )
        };
        Some(SendWr {
            id,
            flags: SendFlags(wr.send_flags),
            op: self.op(wr, key),
            sges: list,
        })
    }

    fn op(&self, wr: &'a bindings::ib_send_wr, key: u32) -> SendOp<D> {
        // SAFETY: The closure is called for requests of these operations only, and they begin a
        // `struct ib_rdma_wr`.
        let rdma = || unsafe {
            let wr = &*core::ptr::from_ref(wr).cast::<bindings::ib_rdma_wr>();
            (wr.remote_addr, wr.rkey)
        };
        // Immediate data is in network byte order, and is in the same union as the key.
        let imm = key.to_ne_bytes();
        match wr.opcode {
            bindings::ib_wr_opcode_IB_WR_SEND => SendOp::Send,
            bindings::ib_wr_opcode_IB_WR_SEND_WITH_INV => SendOp::SendInv { rkey: key },
            bindings::ib_wr_opcode_IB_WR_SEND_WITH_IMM => SendOp::SendImm { imm },
            bindings::ib_wr_opcode_IB_WR_RDMA_WRITE => {
                let (remote_addr, rkey) = rdma();
                SendOp::Write { remote_addr, rkey }
            }
            bindings::ib_wr_opcode_IB_WR_RDMA_WRITE_WITH_IMM => {
                let (remote_addr, rkey) = rdma();
                SendOp::WriteImm {
                    remote_addr,
                    rkey,
                    imm,
                }
            }
            bindings::ib_wr_opcode_IB_WR_RDMA_READ => {
                let (remote_addr, rkey) = rdma();
                SendOp::Read { remote_addr, rkey }
            }
            bindings::ib_wr_opcode_IB_WR_RDMA_READ_WITH_INV => {
                let (remote_addr, rkey) = rdma();
                SendOp::ReadInv { remote_addr, rkey }
            }
            bindings::ib_wr_opcode_IB_WR_ATOMIC_FETCH_AND_ADD
            | bindings::ib_wr_opcode_IB_WR_ATOMIC_CMP_AND_SWP
            | bindings::ib_wr_opcode_IB_WR_MASKED_ATOMIC_FETCH_AND_ADD
            | bindings::ib_wr_opcode_IB_WR_MASKED_ATOMIC_CMP_AND_SWP => atomic(wr),
            bindings::ib_wr_opcode_IB_WR_LOCAL_INV => SendOp::LocalInv { rkey: key },
            bindings::ib_wr_opcode_IB_WR_REG_MR => self.reg_mr(wr),
            other => SendOp::Other(other),
        }
    }

    fn reg_mr(&self, wr: &'a bindings::ib_send_wr) -> SendOp<D> {
        // SAFETY: A request of this operation begins a `struct ib_reg_wr`.
        let wr = unsafe { &*core::ptr::from_ref(wr).cast::<bindings::ib_reg_wr>() };
        // SAFETY: By the contract of `new` the region is alive, and `device` is of driver `D`.
        let mr = unsafe { MrObject::<D>::of_device(wr.mr, self.device) };
        match mr {
            Some(mr) => SendOp::RegMr {
                mr,
                key: wr.key,
                access: Access::from_bits(wr.access as u32),
                // SAFETY: By the contract of `new` the region is alive.
                iova: unsafe { (*wr.mr).iova },
            },
            None => SendOp::Other(bindings::ib_wr_opcode_IB_WR_REG_MR),
        }
    }

    /// The request to report as bad.
    pub(crate) fn bad(&self) -> *const bindings::ib_send_wr {
        self.current
    }
}

/// The operation of an atomic request.
fn atomic<D: DriverTypes>(wr: &bindings::ib_send_wr) -> SendOp<D> {
    let opcode = wr.opcode;
    // SAFETY: A request of these operations begins a `struct ib_atomic_wr`.
    let wr = unsafe { &*core::ptr::from_ref(wr).cast::<bindings::ib_atomic_wr>() };
    let (remote_addr, rkey) = (wr.remote_addr, wr.rkey);
    // Consumers set no masks where the operation has none.
    let masked = |mask, none| match opcode {
        bindings::ib_wr_opcode_IB_WR_MASKED_ATOMIC_FETCH_AND_ADD
        | bindings::ib_wr_opcode_IB_WR_MASKED_ATOMIC_CMP_AND_SWP => mask,
        _ => none,
    };
    match opcode {
        bindings::ib_wr_opcode_IB_WR_ATOMIC_FETCH_AND_ADD
        | bindings::ib_wr_opcode_IB_WR_MASKED_ATOMIC_FETCH_AND_ADD => SendOp::FetchAdd {
            remote_addr,
            rkey,
            add: wr.compare_add,
            mask: masked(wr.compare_add_mask, 0),
        },
        _ => SendOp::CmpSwap {
            remote_addr,
            rkey,
            compare: (wr.compare_add, masked(wr.compare_add_mask, u64::MAX)),
            swap: (wr.swap, masked(wr.swap_mask, u64::MAX)),
        },
    }
}

/// One receive work request.
pub struct RecvWr<'a> {
    /// The consumer's number of the request.
    pub id: u64,
    /// The memory for the message, in its order.
    pub sges: &'a [Sge],
}

/// The receive work requests of one call.
pub struct RecvWrs<'a> {
    next: *const bindings::ib_recv_wr,
    current: *const bindings::ib_recv_wr,
    _chain: PhantomData<&'a bindings::ib_recv_wr>,
}

impl<'a> RecvWrs<'a> {
    /// # Safety
    ///
    /// `first` must be null or the first of a chain of requests of a kernel consumer, which does
    /// not change during `'a`.
    pub(crate) unsafe fn new(first: *const bindings::ib_recv_wr) -> Self {
        Self {
            next: first,
            current: first,
            _chain: PhantomData,
        }
    }

    /// Takes the next request. If the driver's method fails, the request taken last is reported as
    /// bad, and those before it count as posted.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<RecvWr<'a>> {
        if self.next.is_null() {
            return None;
        }
        self.current = self.next;
        // SAFETY: By the contract of `new` the requests of the chain are valid.
        let wr = unsafe { &*self.current };
        self.next = wr.next;
        // SAFETY: By the contract of `new` the request's elements are valid. The union is read as
        // its integer, for which any bits are a value.
        let (id, sges) = unsafe { (wr.__bindgen_anon_1.wr_id, sges(wr.sg_list, wr.num_sge)) };
        Some(RecvWr { id, sges })
    }

    /// The request to report as bad.
    pub(crate) fn bad(&self) -> *const bindings::ib_recv_wr {
        self.current
    }
}
