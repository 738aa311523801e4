// SPDX-License-Identifier: GPL-2.0

//! Work requests that kernel consumers post.
//!
//! The C structures form chains, of which a driver takes one request after the other; the one that
//! it took last is the bad one if it fails. Processes post through mapped rings instead, so what
//! is here comes from the kernel and is trusted to be well formed.

use crate::{object::mr::MrObject, Access, Driver};
use core::{marker::PhantomData, slice};
use kernel::{prelude::*, sync::Arc};
use rdma_bindings as bindings;

/// A piece of local memory (`struct ib_sge`).
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Sge(bindings::ib_sge);

impl Sge {
    /// The address. With virtual DMA that is a kernel address.
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

/// # Safety
///
/// If `num` is positive, `list` points to that many elements, which are valid and do not change
/// during `'a`.
unsafe fn sges<'a>(list: *const bindings::ib_sge, num: i32) -> &'a [Sge] {
    match usize::try_from(num) {
        // SAFETY: By the requirement; `Sge` is transparent.
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
    /// Starts only when all earlier RDMA Reads are complete.
    pub fn fence(self) -> bool {
        self.0 & bindings::ib_send_flags_IB_SEND_FENCE != 0
    }

    /// Completes with an entry in the completion queue.
    pub fn signaled(self) -> bool {
        self.0 & bindings::ib_send_flags_IB_SEND_SIGNALED != 0
    }

    /// The peer's consumer is to be called.
    pub fn solicited(self) -> bool {
        self.0 & bindings::ib_send_flags_IB_SEND_SOLICITED != 0
    }

    /// The data is copied when the request is posted.
    pub fn inline(self) -> bool {
        self.0 & bindings::ib_send_flags_IB_SEND_INLINE != 0
    }
}

/// What a send work request asks for.
pub enum SendOp<D: Driver> {
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
    /// RDMA Read; when the data is there, the local key that it went to is invalidated.
    ReadInv {
        /// The peer's address.
        remote_addr: u64,
        /// The peer's key.
        rkey: u32,
    },
    /// Invalidates a key of one's own.
    LocalInv {
        /// The key.
        rkey: u32,
    },
    /// Registers the pages that were mapped to a region.
    RegMr {
        /// The region.
        mr: Arc<D::Mr>,
        /// The key that it gets.
        key: u32,
        /// The rights that it gives.
        access: Access,
        /// The address of the first byte. Consumers may change it after mapping (NFS does), to
        /// one with the same offset in its page.
        iova: u64,
    },
    /// Another `enum ib_wr_opcode`.
    Other(u32),
}

/// One send work request.
pub struct SendWr<'a, D: Driver> {
    /// The consumer's number for it.
    pub id: u64,
    /// Flags.
    pub flags: SendFlags,
    /// What to do.
    pub op: SendOp<D>,
    /// The local memory, in the order of the message.
    pub sges: &'a [Sge],
}

impl<D: Driver> SendWr<'_, D> {
    /// The number of bytes of an inline request that [`Self::copy_inline`] copies.
    pub fn inline_len(&self) -> u64 {
        self.sges.iter().map(|sge| u64::from(sge.length())).sum()
    }

    /// Copies the data of an inline request to `dst` and returns its length. Fails with `EINVAL`
    /// if it does not fit, or the request is not inline. Context: any.
    pub fn copy_inline(&self, dst: &mut [u8]) -> Result<usize> {
        if !self.flags.inline() {
            return Err(EINVAL);
        }
        let mut done = 0;
        for sge in self.sges {
            let len = sge.length() as usize;
            let part = dst.get_mut(done..).and_then(|rest| rest.get_mut(..len));
            let part = part.ok_or(EINVAL)?;
            // SAFETY: The consumer is in the kernel, and its inline data is at kernel addresses
            // that are its own for the time of the call.
            unsafe { crate::copy::bytes_in(part, sge.addr() as usize as *const u8) };
            done += len;
        }
        Ok(done)
    }
}

/// The send work requests of one call.
pub struct SendWrs<'a, D: Driver> {
    next: *const bindings::ib_send_wr,
    /// The request that was taken last; if there was none, the first.
    current: *const bindings::ib_send_wr,
    device: *mut bindings::ib_device,
    _chain: PhantomData<&'a D>,
}

impl<'a, D: Driver> SendWrs<'a, D> {
    /// # Safety
    ///
    /// `first` is the first of a chain of requests of a kernel consumer, which does not change
    /// during `'a`; regions that it names are alive. `device` is the device of the queue pair, of
    /// driver `D`.
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

    /// Takes the next request. If the driver's method fails, this is the one that is reported as
    /// bad, and those before it count as posted.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<SendWr<'a, D>> {
        if self.next.is_null() {
            return None;
        }
        self.current = self.next;
        // SAFETY: By the requirement of `new`.
        let wr = unsafe { &*self.current };
        self.next = wr.next;
        // SAFETY: As above. The union is read as its integer, for which any bits are a value.
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
        // SAFETY: Requests of these operations are at the start of a `struct ib_rdma_wr`.
        let rdma = || unsafe {
            let wr = &*core::ptr::from_ref(wr).cast::<bindings::ib_rdma_wr>();
            (wr.remote_addr, wr.rkey)
        };
        // The immediate data is in network byte order, and shares its place with the key.
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
            bindings::ib_wr_opcode_IB_WR_LOCAL_INV => SendOp::LocalInv { rkey: key },
            bindings::ib_wr_opcode_IB_WR_REG_MR => self.reg_mr(wr),
            other => SendOp::Other(other),
        }
    }

    fn reg_mr(&self, wr: &'a bindings::ib_send_wr) -> SendOp<D> {
        // SAFETY: Requests of this operation are at the start of a `struct ib_reg_wr`.
        let wr = unsafe { &*core::ptr::from_ref(wr).cast::<bindings::ib_reg_wr>() };
        // SAFETY: The region is alive, by the requirement of `new`. It is one of this driver if it
        // is of the queue pair's device.
        let mr = unsafe { MrObject::<D>::of_device(wr.mr, self.device) };
        match mr {
            Some(mr) => SendOp::RegMr {
                mr,
                key: wr.key,
                access: Access::from_bits(wr.access as u32),
                // SAFETY: The consumer's region is alive during the call.
                iova: unsafe { (*wr.mr).iova },
            },
            None => SendOp::Other(bindings::ib_wr_opcode_IB_WR_REG_MR),
        }
    }

    /// What to report as the bad request.
    pub(crate) fn bad(&self) -> *const bindings::ib_send_wr {
        self.current
    }
}

/// One receive work request.
pub struct RecvWr<'a> {
    /// The consumer's number for it.
    pub id: u64,
    /// Where the message goes, in its order.
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
    /// `first` is the first of a chain of requests of a kernel consumer, which does not change
    /// during `'a`.
    pub(crate) unsafe fn new(first: *const bindings::ib_recv_wr) -> Self {
        Self {
            next: first,
            current: first,
            _chain: PhantomData,
        }
    }

    /// Takes the next request. If the driver's method fails, this is the one that is reported as
    /// bad, and those before it count as posted.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<RecvWr<'a>> {
        if self.next.is_null() {
            return None;
        }
        self.current = self.next;
        // SAFETY: By the requirement of `new`.
        let wr = unsafe { &*self.current };
        self.next = wr.next;
        // SAFETY: As above. The union is read as its integer, for which any bits are a value.
        let (id, sges) = unsafe { (wr.__bindgen_anon_1.wr_id, sges(wr.sg_list, wr.num_sge)) };
        Some(RecvWr { id, sges })
    }

    /// What to report as the bad request.
    pub(crate) fn bad(&self) -> *const bindings::ib_recv_wr {
        self.current
    }
}
