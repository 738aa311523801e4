// SPDX-License-Identifier: GPL-2.0

//! The end of a send queue: all its requests complete as flushed.

use super::{placed::Placed, posted::Posted, SendQueue, NO_END};
use crate::{
    abi::Sqe,
    cq::{Notify, Out},
    fifo::Fifo,
    queue::{reads::OutstandingRead, Seq, BATCH},
    wr::Status,
};
use core::sync::atomic::Ordering;
use kernel::prelude::*;

impl SendQueue {
    /// Completes everything that is queued, in order: the request `failed` with its own status, all
    /// others as flushed. From then on requests complete as flushed when they are posted. Context:
    /// sleeping; the caller has locked tx out.
    pub(crate) fn flush(&self, failed: Option<(Seq, Status)>, out: Out<'_>) -> Notify {
        let mut notify = Notify::default();
        // The regions that these refer to are released outside the lock.
        let mut reads: Fifo<OutstandingRead> = Fifo::empty();
        let mut posted = Posted::NONE;
        if let Some((seq, _)) = failed {
            self.state.lock().send_placed(seq);
        }
        // What a kernel consumer posts meanwhile is queued, and completes in its turn. If it goes
        // on and on, what is queued at last completes in one hold of the lock.
        let mut left = self.size;
        loop {
            let st = &mut *self.state.lock();
            st.tell_drained = false;
            // Finds nothing once `sent` equals `head`, as it does after the first batch that is
            // flushed below.
            let (done, all) = self.advance(st, out);
            notify |= done;
            if !all {
                continue;
            }
            let mut head = self.head.load(Ordering::Relaxed);
            let most = if left == 0 { self.size } else { BATCH };
            left = left.saturating_sub(BATCH);
            for _ in 0..most {
                if head == self.tail() {
                    break;
                }
                let status = match failed {
                    Some((seq, status)) if seq == head => status,
                    _ => Status::Flush,
                };
                notify |= out.complete(self.slot(head).get().completion(status));
                head = head.wrapping_add(1);
            }
            self.head.store(head, Ordering::Release);
            (st.sent, st.next) = (head, head);
            if head == self.tail() {
                st.flushed = true;
                core::mem::swap(&mut st.reads, &mut reads);
                core::mem::swap(&mut st.posted, &mut posted);
                break;
            }
        }
        notify | self.flush_ring(failed, out)
    }

    /// Ends what [`Self::flush`] has begun: requests are queued again, and not flushed. Context:
    /// sleeping; tx has no connection to send on. Errors: `ENOMEM`.
    pub(crate) fn reset(&self) -> Result {
        let mut posted = if self.is_mapped() {
            Posted::NONE
        } else {
            Posted::new(self.size, self.max_sge)?
        };
        let mut guard = self.state.lock();
        let st = &mut *guard;
        core::mem::swap(&mut st.posted, &mut posted);
        st.agreed_ord = 0;
        st.placed = Placed::nothing(false);
        self.ord.store(0, Ordering::Relaxed);
        st.tx_waits = false;
        st.tell_drained = false;
        st.flushed = false;
        self.end.store(NO_END, Ordering::Relaxed);
        // The old list, which is empty, is freed outside the lock.
        drop(guard);
        Ok(())
    }

    /// Flushes the requests in a process' ring, which it goes on posting in ERROR; the request
    /// `failed` completes with its own status. Context: any, one call at a time
    /// (`Stream::teardown`), or another one would flush that request.
    ///
    /// The ring's size bounds the work. Elements that the process refills meanwhile are found by
    /// the timer that polls in ERROR (`Stream::poll_timer`).
    pub(crate) fn flush_ring(&self, failed: Option<(Seq, Status)>, out: Out<'_>) -> Notify {
        let mut notify = Notify::default();
        self.empty_ring(|at, sqe| {
            let status = match failed {
                Some((seq, status)) if seq == at => status,
                _ => Status::Flush,
            };
            let opcode = self.known_code(sqe.opcode);
            notify |= out.fail(sqe.id, opcode, status);
        });
        notify
    }

    /// Forgets everything that is queued, without completions. Until [`Self::reset`] it is as
    /// after [`Self::flush`]. Context: sleeping; the caller has locked tx out.
    pub(crate) fn discard(&self) {
        // The regions that these refer to are released outside the lock.
        let mut reads: Fifo<OutstandingRead> = Fifo::empty();
        let mut posted = Posted::NONE;
        {
            let st = &mut *self.state.lock();
            let tail = self.tail();
            self.head.store(tail, Ordering::Release);
            (st.sent, st.next) = (tail, tail);
            (st.flushed, st.tell_drained) = (true, false);
            core::mem::swap(&mut st.reads, &mut reads);
            core::mem::swap(&mut st.posted, &mut posted);
        }
        self.empty_ring(|_, _| {});
    }

    /// Takes the requests out of a process' ring, when the queue is flushed, and calls `each` with
    /// their positions.
    fn empty_ring(&self, mut each: impl FnMut(Seq, &Sqe)) {
        let Some(ring) = &self.ring else {
            return;
        };
        for _ in 0..self.size.div_ceil(BATCH) {
            let st = &mut *self.state.lock();
            if !st.flushed {
                break;
            }
            for _ in 0..BATCH.min(self.size) {
                let at = self.tail();
                let Some(sqe) = ring.take(at) else {
                    return;
                };
                let tail = at.wrapping_add(1);
                self.set_tail(tail);
                self.head.store(tail, Ordering::Release);
                (st.sent, st.next) = (tail, tail);
                each(at, &sqe);
            }
        }
    }
}
