// SPDX-License-Identifier: GPL-2.0

//! Scheduling of tx.
//!
//! One actor at a time runs a QP's tx, as the holder of a [`TxLock`](kext::tx_lock). It is the
//! process that rings the doorbell; or the receive callback, which answers short Reads at once; or
//! the module's worker, which does the work of callers that must not sleep. An actor that finds the
//! lock taken signals the holder, which then runs tx once more, so no wake-up is lost.

use super::{Conn, Sender, Stream, TX};
use crate::{
    cm::Close,
    queue::state::State,
    tx::{Step, Tx},
};
use kernel::{sync::Arc, workqueue::WorkItem};
use net::LockedSock;

/// A process' budget, as a multiple of the worker's. A process holds up only itself with its work.
/// So the budget lets most processes do all of it themselves, but each call returns in the end.
const PROCESS: usize = 4;

/// How often tx runs once more for actors that found it locked.
const ROUNDS: u32 = 16;

/// Why a run of tx ended.
#[derive(PartialEq, Eq)]
enum Ended {
    /// There is nothing to do, or another event will wake tx.
    Waits,
    /// The worker goes on.
    Again,
}

impl Stream {
    /// Has the worker run tx. Context: any.
    pub(crate) fn wake_tx(self: &Arc<Self>) {
        self.trace_tx(trace::Tx::Wake);
        let queue = self.dev().workqueues.tx.of(self.owner.consumer());
        queue.enqueue::<_, TX>(self.clone());
    }

    /// Runs tx for a process. If another actor runs tx, that one does the work. Context: sleeping,
    /// no lock held.
    pub(crate) fn run_tx(self: &Arc<Self>) {
        self.run_for(PROCESS * self.dev().settings.tx_budget());
    }

    /// Sends a batch here. If that is not all, the worker does the rest. Context: as of
    /// [`Self::run_tx`], or with the connection's stage locked.
    pub(super) fn run_batch(self: &Arc<Self>) {
        self.run_for(1);
    }

    /// Runs tx here for about `left` bytes. The worker does the rest.
    fn run_for(self: &Arc<Self>, mut left: usize) {
        let Some(mut guard) = self.tx.try_lock_or_signal() else {
            return;
        };
        self.trace_tx(trace::Tx::Run);
        let mut alone = false;
        // Other threads may ring the doorbell without end, so the loop is bounded. Then the worker
        // goes on.
        for _ in 0..ROUNDS {
            match &mut *guard {
                Some(sender) => {
                    if self.send(sender, &mut left) == Ended::Again {
                        break;
                    }
                }
                None => alone = true,
            }
            guard = match guard.unlock() {
                Ok(()) => {
                    if alone {
                        self.tell_drained();
                        self.await_peer();
                    }
                    return self.trace_tx(trace::Tx::Sleep);
                }
                Err(signalled) => signalled,
            };
        }
        // The worker does what is left here, and what signals have asked for meanwhile.
        drop(guard);
        self.trace_tx(trace::Tx::HandOver);
        self.wake_tx();
    }

    /// Calls `f` with tx locked. If an actor has found it locked meanwhile, the worker does
    /// its work. Context: sleeping; the socket is not locked.
    pub(super) fn with_tx<R>(self: &Arc<Self>, f: impl FnOnce(&mut Option<Sender>) -> R) -> R {
        let (result, signalled) = self.tx.lock_with(f);
        if signalled {
            self.wake_tx();
        }
        result
    }

    /// Emits the `tx` tracepoint.
    #[inline]
    fn trace_tx(&self, what: trace::Tx) {
        trace::tx(|| (self.dev().name(), self.queues.number(), what as u8));
    }

    /// Sends until one of these: nothing is left to send, the socket has no room, `left` bytes were
    /// sent, or another thread waits for the lock. `left` is lowered by the bytes sent. Context:
    /// sleeping, tx locked.
    fn send(self: &Arc<Self>, sender: &mut Sender, left: &mut usize) -> Ended {
        let Sender { tx, conn } = sender;
        let (queues, transport) = (&self.queues, conn.transport());
        if tx.is_lending() && !self.take_released(tx, conn) {
            return Ended::Waits;
        }
        loop {
            let step = if tx.is_behind() {
                tx.flush(queues, transport)
            } else if *left == 0 || self.tx.is_contended() {
                return Ended::Again;
            } else {
                match queues.state() {
                    State::Rts | State::Closing => tx.send_next(queues, transport),
                    State::Terminate => tx.terminate(queues, transport, self.take_terminate()),
                    State::Idle | State::Error => return Ended::Waits,
                }
            };
            self.after_send(tx.take_notify());
            match step {
                Step::Sent(n) => *left = left.saturating_sub(n),
                // What is in the batch is sent, then the Terminate.
                Step::Failed(failed) => self.local_fault(failed),
                // The calls above, or rx meanwhile, may have found a fault. Then the Terminate
                // goes, and not the FIN.
                Step::Drained if !self.begin_fin(tx) => {}
                end => return self.after_step(conn, end),
            }
        }
    }

    /// Completes the requests whose memory TCP has released; what is released later wakes tx again.
    /// Returns false if the connection ends. Context: sleeping, tx locked.
    #[cold]
    fn take_released(self: &Arc<Self>, tx: &mut Tx, conn: &Arc<Conn>) -> bool {
        let is_sound = tx.take_released(&self.queues, conn.transport());
        self.after_send(tx.take_notify());
        if !is_sound {
            self.after_step(conn, Step::Broken);
        }
        is_sound
    }

    /// Sends the last batch of an orderly close, if TCP has taken what was before it, and this end
    /// may send. Returns true if nothing is left, and the FIN is next. Context: sleeping, tx
    /// locked.
    pub(super) fn send_rest(self: &Arc<Self>, sender: &mut Sender) -> bool {
        let Sender { tx, conn } = sender;
        let may_send = self.queues.may_send() && self.queues.state() == State::Closing;
        if tx.is_behind() || !may_send {
            return false;
        }
        let step = tx.send_next(&self.queues, conn.transport());
        self.after_send(tx.take_notify());
        match step {
            Step::Drained => self.begin_fin(tx),
            end => {
                self.after_step(conn, end);
                false
            }
        }
    }

    /// Answers the peer's short Reads here. If another actor runs tx, that one does; longer answers
    /// are left to the worker. Context: callback, socket locked.
    pub(super) fn answer_here(self: &Arc<Self>, sk: &mut LockedSock) {
        let Some(mut guard) = self.tx.try_lock_or_signal() else {
            return;
        };
        let ended = match &mut *guard {
            Some(Sender { tx, conn }) => {
                let step = tx.answer(&self.queues, conn.transport(), sk);
                self.after_send(tx.take_notify());
                self.after_step(conn, step)
            }
            None => Ended::Waits,
        };
        if guard.unlock().is_err() || ended == Ended::Again {
            self.wake_tx();
        }
    }

    /// Does what a step of tx asks for at its end. Context: any, tx locked.
    fn after_step(self: &Arc<Self>, conn: &Arc<Conn>, step: Step) -> Ended {
        match step {
            Step::Sent(_) | Step::Waits => self.watch_peer(),
            Step::Held => self.tell_drained(),
            Step::Again => return Ended::Again,
            Step::NoMemory => self.await_memory(),
            Step::Failed(failed) => self.local_fault(failed),
            Step::Drained => conn.tx_drained(),
            Step::Terminated => conn.close(Close::Flush),
            Step::Broken => conn.close(Close::Abort),
        }
        Ended::Waits
    }
}

impl WorkItem<TX> for Stream {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let _run = this.dev().workqueues.begin(this.owner.consumer());
        this.flush_notify();
        this.run_for(this.dev().settings.tx_budget());
    }
}
