// SPDX-License-Identifier: GPL-2.0

//! The completion queue.
//!
//! A process polls its own mapping of the ring, and arms events by a store to it
//! ([`CompletionRing`]). The completions of a kernel consumer are in a ring of the driver's.
//! Producers are the rx and tx actors of all QPs on the CQ, and flushes. They publish under the
//! CQ's lock. They call the consumer's handler after they have released the locks of queues
//! ([`Notify`], [`Cq::notify`]), as the handler may poll and post.

mod entry;

pub(crate) use entry::Form;

use crate::{
    ring::CompletionRing,
    wr::{Completion, Status, Told},
};
use core::ops::{BitOr, BitOrAssign};
use entry::{kernel_wc, user_cqe, KernelCqe};
use kernel::{prelude::*, str::CStr, sync::Arc};
use kext::{
    hrtimer::{HrTimer, HrTimerItem},
    lock::SpinLockIrq,
    new_hrtimer, new_spinlock_irq,
};
use rdma::{Arm, CqEvent, CqHandle, QpToken, WcSlots};

/// The names of a QP in its completions: `number` for processes, `token` for kernel consumers.
pub(crate) struct Tag {
    pub(crate) number: u32,
    pub(crate) token: QpToken,
}

/// The calls of the consumer that a producer has to make after publishing, without locks.
///
/// They are bits of one byte, which is stored and read as a whole. Each message is asked for its
/// calls several times, and a load that needs the values of several stores waits for the cache.
#[must_use]
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Notify(u8);

impl Notify {
    const NOTHING: Self = Self(0);
    /// Call the completion handler.
    const FIRE: Self = Self(1 << 0);
    /// A completion found no room. The consumer cannot rely on its QP any more.
    const LOST: Self = Self(1 << 1);
    /// It was the first loss: the CQ is in error.
    const OVERFLOW: Self = Self(1 << 2);
    /// Start the timer of a moderated CQ: the event comes later.
    const DELAY: Self = Self(1 << 3);

    fn has(self, call: Self) -> bool {
        self.0 & call.0 != 0
    }

    /// Whether a completion found no room.
    pub(crate) fn is_lost(self) -> bool {
        self.has(Self::LOST)
    }
}

impl BitOr for Notify {
    type Output = Self;
    fn bitor(self, o: Self) -> Self {
        Self(self.0 | o.0)
    }
}

impl BitOrAssign for Notify {
    fn bitor_assign(&mut self, o: Self) {
        *self = *self | o;
    }
}

enum Ring {
    User {
        ring: CompletionRing,
        form: Form,
    },
    Kernel {
        slots: KVVec<Option<KernelCqe>>,
        get: u32,
        armed: Option<Arm>,
    },
}

impl Ring {
    /// Whether the consumer wants an event for the completion just published.
    fn wants_event(&self, attention: bool) -> bool {
        match self {
            Ring::User { ring, form } => form.events && ring.wants_event(attention),
            Ring::Kernel { armed, .. } => match armed {
                Some(Arm::Next) => true,
                Some(Arm::Solicited) => attention,
                None => false,
            },
        }
    }

    /// Disarms events: the consumer gets one.
    fn disarm(&mut self) {
        match self {
            Ring::User { ring, .. } => ring.disarm(),
            Ring::Kernel { armed, .. } => *armed = None,
        }
    }
}

/// How events are moderated: `count` completions share one, but it comes at most `period_us`
/// microseconds after the first of them. With a period of 0 each event comes at once.
#[derive(Clone, Copy, Default)]
struct Moderation {
    count: u16,
    period_us: u16,
}

impl Moderation {
    /// Whether the event for `waiting` completions, the last of them new, is put off.
    fn delays(self, waiting: u32) -> bool {
        let full = self.count != 0 && waiting >= self.count.into();
        self.period_us != 0 && !full
    }
}

struct State {
    ring: Ring,
    put: u32,
    overflowed: bool,
    moderation: Moderation,
    /// Completions that the consumer wants an event for, which is put off.
    delayed: u32,
}

impl State {
    /// The calls for the completion just published: an event now, or the timer's start for one that
    /// comes later. A completion that asks for attention waits for nothing, as its consumer is not
    /// to wait for others.
    fn event(&mut self, attention: bool) -> Notify {
        if !self.ring.wants_event(attention) {
            return Notify::NOTHING;
        }
        let delayed = self.delayed.saturating_add(1);
        if !attention && self.moderation.delays(delayed) {
            self.delayed = delayed;
            return match delayed {
                1 => Notify::DELAY,
                _ => Notify::NOTHING,
            };
        }
        self.delayed = 0;
        self.ring.disarm();
        Notify::FIRE
    }
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
    #[pin]
    state: SpinLockIrq<State>,
    /// Fires when the event of a moderated CQ is due. Started by those who notify.
    #[pin]
    timer: HrTimer<Cq>,
    handle: CqHandle,
}

impl HrTimerItem for Cq {
    fn fire(this: Arc<Self>) {
        let due = {
            let st = &mut *this.state.lock();
            let waiting = core::mem::take(&mut st.delayed) != 0;
            // `true`: it was wanted when it was put off, whatever the consumer has armed for since.
            let due = waiting && st.ring.wants_event(true);
            if due {
                st.ring.disarm();
            }
            due
        };
        if due {
            this.handle.notify();
        }
    }
}

impl Cq {
    /// Makes a CQ of `size` entries, a power of two: for a process if `ring` is given, else for a
    /// kernel consumer. Context: sleeping. Errors: `ENOMEM`.
    pub(crate) fn new(
        size: u32,
        ring: Option<(CompletionRing, Form)>,
        handle: CqHandle,
    ) -> Result<impl PinInit<Self>> {
        let ring = match ring {
            Some((ring, form)) => Ring::User { ring, form },
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
            moderation: Moderation::default(),
            delayed: 0,
        };
        Ok(pin_init!(Self {
            state <- new_spinlock_irq!(state, "rsiw_cq"),
            timer <- new_hrtimer!("rsiw_cq_timer"),
            handle,
        }))
    }

    //= 5040-8.1.1-11: An RNIC MUST ensure that if a CQ overflows
    //# a second connection goes on meanwhile
    //= 5040-5.5-1
    /// Publishes a completion of the QP that `tag` names. The caller passes the result to
    /// [`Self::notify`] when it has released its locks. Context: any.
    ///
    /// A process' CQ that has overflowed takes no more, so what the process polls has no gap. A
    /// kernel consumer's goes on, gap or not, when it has room: the consumer drains its queue pairs
    /// (`ib_drain_qp()`), and would wait for ever for the last completion of each.
    pub(crate) fn push(&self, tag: &Tag, c: &Completion) -> Notify {
        let st = &mut *self.state.lock();
        let place = st.put;
        let ok = match &mut st.ring {
            Ring::User { ring, form } => {
                !st.overflowed && ring.put(place, &user_cqe(tag, c, *form))
            }
            Ring::Kernel { slots, .. } => {
                let mask = slots.len() - 1;
                let slot = &mut slots[place as usize & mask];
                let free = slot.is_none();
                if free {
                    *slot = Some(KernelCqe {
                        c: *c,
                        qp: tag.token,
                    });
                }
                free
            }
        };
        if ok {
            st.put = place.wrapping_add(1);
            return st.event(wants_attention(c));
        }
        if core::mem::replace(&mut st.overflowed, true) {
            Notify::LOST
        } else {
            Notify::LOST | Notify::OVERFLOW
        }
    }

    /// What tools show of the queue. Context: any.
    pub(crate) fn status(&self) -> CqStatus {
        let st = &*self.state.lock();
        let (unpolled, (solicited, next)) = match &st.ring {
            Ring::User { ring, form } => {
                let (solicited, next) = ring.armed();
                let armed = (form.events && solicited, form.events && next);
                (ring.waiting(st.put), armed)
            }
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
    /// that the consumer's handler may need (Documentation/locking).
    pub(crate) fn notify(self: &Arc<Self>, n: Notify) {
        if n.has(Notify::FIRE) {
            self.handle.notify();
        }
        if n.has(Notify::DELAY) {
            let us = self.state.lock().moderation.period_us;
            self.timer.start(self.clone(), u64::from(us) * 1000);
        }
        if n.has(Notify::OVERFLOW) {
            self.handle.event(CqEvent::Error);
        }
    }

    /// Waits until the consumer has been called for each [`Self::notify`] that has returned.
    /// Context: sleeping.
    pub(crate) fn wait_notified(&self) {
        self.handle.wait();
    }

    /// Takes completions out for a kernel consumer, as many as `out` has room for. Context: any.
    /// Errors: `EINVAL` for a process' CQ.
    pub(crate) fn poll(&self, out: &mut WcSlots<'_>) -> Result {
        let st = &mut *self.state.lock();
        let Ring::Kernel { slots, get, .. } = &mut st.ring else {
            return Err(EINVAL);
        };
        while out.free() > 0 {
            let mask = slots.len() - 1;
            let Some(cqe) = slots[*get as usize & mask].take() else {
                break;
            };
            *get = get.wrapping_add(1);
            out.push(&kernel_wc(&cqe))?;
        }
        Ok(())
    }

    /// Has up to `count` completions share an event, which comes at most `period_us` microseconds
    /// after the first of them. A count of 0 has no such bound, a period of 0 ends moderation: with
    /// a count alone, the last completions before a pause would have no event. An event that is put
    /// off already comes as it was to. Context: any.
    pub(crate) fn moderate(&self, count: u16, period_us: u16) {
        self.state.lock().moderation = Moderation { count, period_us };
    }

    /// Gives the consumer an event that is put off, and returns when that is done. Context:
    /// sleeping.
    pub(crate) fn end_delay(self: &Arc<Self>) {
        // Waits for a call of the timer's that is under way. If another QP puts an event off
        // meanwhile, and finds the timer about to be stopped, this gives that event, too.
        self.timer.cancel_sync();
        Self::fire(self.clone());
    }

    /// Has a process' completions go to `new` from now on, at the positions that follow those of
    /// the old ring, and with the event armed that was armed there. What is in the old ring stays
    /// there, for the process to take out first: so nothing that it may write to is read, and
    /// nothing is copied with interrupts off. An overflow lasts. Context: sleeping. Errors:
    /// `EINVAL` for a kernel consumer's queue.
    pub(crate) fn replace_ring(&self, new: CompletionRing) -> Result {
        // The old ring is freed without the lock.
        let _old = {
            let st = &mut *self.state.lock();
            let Ring::User { ring, .. } = &mut st.ring else {
                return Err(EINVAL);
            };
            new.take_arming(ring);
            core::mem::replace(ring, new)
        };
        Ok(())
    }

    /// Stops the timer: the consumer destroys the CQ, which no QP uses any more. Context: sleeping.
    pub(crate) fn end(&self) {
        self.timer.cancel_sync();
    }

    /// Arms the completion handler. Returns whether completions are waiting, always false for a
    /// process' CQ. Context: any.
    pub(crate) fn arm(&self, how: Arm) -> bool {
        let st = &mut *self.state.lock();
        match &mut st.ring {
            Ring::User { ring, .. } => {
                ring.arm(how == Arm::Solicited);
                false
            }
            Ring::Kernel { get, armed, .. } => {
                // The wider of the two counts.
                *armed = match *armed {
                    Some(Arm::Next) => Some(Arm::Next),
                    _ => Some(how),
                };
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
        self.fail(id, opcode, Status::Flush)
    }

    /// Publishes the completion of a request that has failed before tx has taken it. Context: any.
    pub(crate) fn fail(&self, id: u64, opcode: u8, status: Status) -> Notify {
        self.complete(Completion {
            id,
            opcode,
            status,
            bytes: 0,
            told: Told::NOTHING,
            solicited: false,
        })
    }
}

#[kunit_tests(rsiw_cq)]
mod tests {
    use super::*;

    /// A process may arm events of a queue that has no channel for them.
    #[test]
    fn without_a_channel_there_are_no_events() -> Result {
        for events in [false, true] {
            let ring = CompletionRing::new(2)?;
            ring.arm(false);
            let form = Form {
                events,
                ..Form::default()
            };
            assert!(Ring::User { ring, form }.wants_event(false) == events);
        }
        Ok(())
    }
}
