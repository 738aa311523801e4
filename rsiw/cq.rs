// SPDX-License-Identifier: GPL-2.0

//! The completion queue.
//!
//! A process polls its own mapping of the ring, and arms events by a store to it
//! ([`CompletionRing`]). The completions of a kernel consumer are in a ring of the driver's.
//! Producers are the rx and tx actors of all QPs on the CQ, and flushes. They publish under the
//! CQ's lock. They call the consumer's handler after they have released the locks of queues
//! ([`Notify`], [`Cq::notify`]), as the handler may poll and post.

use crate::{
    abi::{opcode, Cqe, CQE_VALID},
    ring::CompletionRing,
    wr::{Completion, Status},
};
use core::ops::{BitOr, BitOrAssign};
use kernel::{prelude::*, str::CStr};
use kext::{lock::SpinLockIrq, new_spinlock_irq};
use rdma::{CqEvent, CqHandle, QpToken, Wc, WcOpcode, WcSlots, WcStatus};

/// The names of a QP in its completions: `number` for processes, `token` for kernel consumers.
pub(crate) struct Tag {
    pub(crate) number: u32,
    pub(crate) token: QpToken,
}

/// The calls of the consumer that a producer has to make after publishing, without locks.
#[must_use]
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Notify {
    /// Call the completion handler.
    fire: bool,
    /// A completion found no room. The consumer cannot rely on its QP any more.
    pub(crate) lost: bool,
    /// It was the first loss: the CQ is in error.
    overflow: bool,
}

impl BitOr for Notify {
    type Output = Self;
    fn bitor(self, o: Self) -> Self {
        Self {
            fire: self.fire | o.fire,
            lost: self.lost | o.lost,
            overflow: self.overflow | o.overflow,
        }
    }
}

impl BitOrAssign for Notify {
    fn bitor_assign(&mut self, o: Self) {
        *self = *self | o;
    }
}

#[derive(Clone, Copy)]
struct KernelCqe {
    c: Completion,
    qp: QpToken,
}

enum Ring {
    User(CompletionRing),
    Kernel {
        slots: KVVec<Option<KernelCqe>>,
        get: u32,
        armed: Option<Arm>,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Arm {
    Next,
    Solicited,
}

struct State {
    ring: Ring,
    put: u32,
    overflowed: bool,
}

/// What tools show of a completion queue.
pub(crate) struct CqStatus {
    /// Completions that the consumer has not polled.
    pub(crate) unpolled: u32,
    /// The completion that the consumer wants an event for.
    pub(crate) armed: &'static CStr,
    /// A completion found no room.
    pub(crate) overflowed: bool,
}

/// A completion queue.
#[pin_data]
pub(crate) struct Cq {
    size: u32,
    #[pin]
    state: SpinLockIrq<State>,
    handle: CqHandle,
}

impl Cq {
    /// Makes a CQ of `size` entries, a power of two: for a process if `ring` is given, else for a
    /// kernel consumer. Context: sleeping. Errors: `ENOMEM`.
    pub(crate) fn new(
        size: u32,
        ring: Option<CompletionRing>,
        handle: CqHandle,
    ) -> Result<impl PinInit<Self>> {
        let ring = match ring {
            Some(ring) => Ring::User(ring),
            None => Ring::Kernel {
                slots: KVVec::from_elem(None, size as usize, GFP_KERNEL)?,
                get: 0,
                armed: None,
            },
        };
        let state = State {
            ring,
            put: 0,
            overflowed: false,
        };
        Ok(pin_init!(Self {
            size,
            state <- new_spinlock_irq!(state, "rsiw_cq"),
            handle,
        }))
    }

    /// Publishes a completion of the QP that `tag` names. The caller passes the result to
    /// [`Self::notify`] when it has released its locks. Context: any.
    pub(crate) fn push(&self, tag: &Tag, c: &Completion) -> Notify {
        let st = &mut *self.state.lock();
        let place = st.put;
        let (ok, fire) = match &mut st.ring {
            Ring::User(ring) => {
                let ok = !st.overflowed && ring.put(place, &user_cqe(tag, c));
                (ok, ok && ring.fires(wants_attention(c)))
            }
            Ring::Kernel { slots, armed, .. } => {
                let slot = &mut slots[(place & (self.size - 1)) as usize];
                if slot.is_some() {
                    (false, false)
                } else {
                    *slot = Some(KernelCqe {
                        c: *c,
                        qp: tag.token,
                    });
                    let fire = match armed {
                        Some(Arm::Next) => true,
                        Some(Arm::Solicited) => wants_attention(c),
                        None => false,
                    };
                    if fire {
                        *armed = None;
                    }
                    (true, fire)
                }
            }
        };
        if ok {
            st.put = place.wrapping_add(1);
        }
        let first_loss = !ok && !core::mem::replace(&mut st.overflowed, true);
        Notify {
            fire,
            lost: !ok,
            overflow: first_loss,
        }
    }

    /// What tools show of the queue. Context: any.
    pub(crate) fn status(&self) -> CqStatus {
        let st = &*self.state.lock();
        let (unpolled, (solicited, next)) = match &st.ring {
            Ring::User(ring) => (ring.waiting(st.put), ring.armed()),
            Ring::Kernel { get, armed, .. } => (
                st.put.wrapping_sub(*get),
                (armed.is_some(), *armed == Some(Arm::Next)),
            ),
        };
        CqStatus {
            unpolled,
            armed: match (solicited, next) {
                (_, true) => c"next",
                (true, false) => c"solicited",
                (false, false) => c"no",
            },
            overflowed: st.overflowed,
        }
    }

    /// Makes the calls of the consumer that [`Self::push`] asked for. Context: any, without locks
    /// of this driver.
    pub(crate) fn notify(&self, n: Notify) {
        if n.fire {
            self.handle.notify();
        }
        if n.overflow {
            self.handle.event(CqEvent::Error);
        }
    }

    /// Takes completions out for a kernel consumer, as many as `out` has room for. Context: any.
    /// Errors: `EINVAL` for a process' CQ.
    pub(crate) fn poll(&self, out: &mut WcSlots<'_>) -> Result {
        let st = &mut *self.state.lock();
        let Ring::Kernel { slots, get, .. } = &mut st.ring else {
            return Err(EINVAL);
        };
        while out.free() > 0 {
            let Some(cqe) = slots[(*get & (self.size - 1)) as usize].take() else {
                break;
            };
            *get = get.wrapping_add(1);
            out.push(&kernel_wc(&cqe))?;
        }
        Ok(())
    }

    /// Arms the completion handler. Returns whether completions are waiting, always false for a
    /// process' CQ. Context: any.
    pub(crate) fn arm(&self, solicited_only: bool) -> bool {
        let st = &mut *self.state.lock();
        match &mut st.ring {
            Ring::User(ring) => {
                ring.arm(solicited_only);
                false
            }
            Ring::Kernel { get, armed, .. } => {
                *armed = Some(match solicited_only {
                    true if *armed != Some(Arm::Next) => Arm::Solicited,
                    _ => Arm::Next,
                });
                st.put != *get
            }
        }
    }
}

/// Whether a completion wakes a consumer that armed for solicited ones: it is solicited or an
/// error.
fn wants_attention(c: &Completion) -> bool {
    c.solicited || c.status != Status::Success
}

fn user_cqe(tag: &Tag, c: &Completion) -> Cqe {
    Cqe {
        id: c.id,
        flags: CQE_VALID,
        opcode: c.opcode,
        status: c.status as u16,
        bytes: c.bytes,
        inval_stag: c.invalidated.map_or(0, u64::from),
        qp_id: u64::from(tag.number),
    }
}

fn kernel_wc(cqe: &KernelCqe) -> Wc {
    Wc {
        wr_id: cqe.c.id,
        status: match cqe.c.status {
            Status::Success => WcStatus::Success,
            Status::LocLen => WcStatus::LocLenErr,
            Status::LocProt => WcStatus::LocProtErr,
            Status::QpOp => WcStatus::LocQpOpErr,
            Status::Flush => WcStatus::WrFlushErr,
            Status::LocAccess => WcStatus::LocAccessErr,
            Status::RemAccess => WcStatus::RemAccessErr,
            Status::General => WcStatus::GeneralErr,
            // InfiniBand's "memory management operation error"; verbs have its older name.
            Status::MemOp => WcStatus::MwBindErr,
        },
        opcode: match cqe.c.opcode {
            opcode::WRITE => WcOpcode::RdmaWrite,
            opcode::READ | opcode::READ_LOCAL_INV => WcOpcode::RdmaRead,
            opcode::INVAL_STAG => WcOpcode::LocalInv,
            opcode::REG_MR => WcOpcode::RegMr,
            opcode::RECEIVE => WcOpcode::Recv,
            _ => WcOpcode::Send,
        },
        byte_len: cqe.c.bytes,
        qp: cqe.qp,
        invalidated: cqe.c.invalidated,
        imm: None,
        vendor_err: 0,
    }
}

/// The destination of a queue's completions: the CQ, and the QP that they name.
#[derive(Clone, Copy)]
pub(crate) struct Out<'a> {
    pub(crate) cq: &'a Cq,
    pub(crate) tag: &'a Tag,
}

impl Out<'_> {
    /// Publishes one completion. Context: any.
    pub(crate) fn complete(&self, c: Completion) -> Notify {
        self.cq.push(self.tag, &c)
    }

    /// Publishes the completion of a flushed request. Context: any.
    pub(crate) fn flush(&self, id: u64, opcode: u8) -> Notify {
        self.complete(Completion {
            id,
            opcode,
            status: Status::Flush,
            bytes: 0,
            invalidated: None,
            solicited: false,
        })
    }
}
