// SPDX-License-Identifier: GPL-2.0

//! Which thread receives the data of a stream, and when.
//!
//! The rx actor is the holder of the socket's lock. Most often that is the socket's callback, which
//! receives all that the socket has. If much data waits, or data comes fast, a work item receives
//! instead, about a MiB at a time. Data behind a Send that waits for its receive stays in the
//! socket; a timer tries again until there is a receive.

use super::{bulk::Window, Conn, Stream, BULK, LATE};
use crate::{
    rx::{FinAt, RunOutcome, Rx},
    transport::Transport,
    wr::Status,
};
use core::sync::atomic::Ordering::Relaxed;
use kernel::{
    sync::{Arc, ArcBorrow},
    workqueue::WorkItem,
};
use kext::{
    noio::noio,
    work::{cancel_work_sync, DelayedWorkItem},
};
use net::LockedSock;

/// Unread bytes that count as bulk. That is more than one message that somebody waits for, or a
/// message that takes longer to receive than a worker takes to wake.
const BULK_LEN: usize = 32 << 10;

/// Unread bytes that are taken for no more than a segment, without a look at TCP's.
const SHORT: usize = 256;

/// Bytes that the bulk work item receives in one run. Afterwards other work gets the CPU, and
/// senders get the socket lock.
pub(super) const BULK_BUDGET: usize = 1 << 20;

impl WorkItem<BULK> for Stream {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let _run = this.dev().workqueues.begin(this.owner.consumer());
        noio(|| this.receive_some());
    }
}

impl DelayedWorkItem<LATE> for Stream {
    fn expire(this: Arc<Self>) {
        let run = this.dev().workqueues.begin(this.owner.consumer());
        // Clear the mark first: data that finds no receive from here on arms the timer again.
        this.late_timer_armed.store(false, Relaxed);
        this.receive_some();
        drop(run);
        if this.late.load(Relaxed) {
            this.look_for_fin();
        }
    }
}

impl Stream {
    /// Data or the peer's FIN has arrived. Context: callback.
    pub(super) fn receive_or_defer(
        self: &Arc<Self>,
        conn: ArcBorrow<'_, Conn>,
        sk: &mut LockedSock,
    ) {
        // All new data waits behind a Send that has no receive yet. The timer looks for the
        // receive.
        if self.late_timer_armed.load(Relaxed) && self.is_waiting(sk) {
            return;
        }
        let transport = conn.transport();
        let unread = transport.unread(sk);
        let (here, now) = (transport.works_in_callback(), kext::jiffies_ms());
        // More than a segment comes at a time, so this is no slow start that each acknowledgment
        // would help. (Where many connections take turns, each turn begins after an idle time,
        // behind which TCP expects a slow start.) Or it is one of many short messages, of which TCP
        // would acknowledge each for itself, as it is read at once.
        let window = (unread < BULK_LEN).then(|| self.bulk_detector.at(now));
        let joins = match unread {
            ..=SHORT => window.as_ref().is_some_and(Window::is_busy),
            _ => unread > transport.segment_len() as usize,
        };
        if joins {
            transport.leave_quickack(sk);
        }
        let bulk = !here || window.as_ref().is_none_or(Window::is_fast);
        if bulk && self.is_receiving(sk) {
            self.receive_in_bulk();
        } else if !here {
            // Rx has stopped, and with it the work item.
            Conn::receive_later(conn);
        } else {
            self.receive(conn, sk, usize::MAX, now);
        }
    }

    //= 5041-3-10, 5041-3-11, 5044-8-1
    /// Receives the data that the socket has, up to about `most` bytes; a work item receives the
    /// rest. Tells the connection when the peer's FIN was reached. `now` is the time in
    /// milliseconds. Context: any, socket locked.
    pub(super) fn receive(
        self: &Arc<Self>,
        conn: ArcBorrow<'_, Conn>,
        sk: &mut LockedSock,
        most: usize,
        now: u32,
    ) {
        let transport = conn.transport();
        let taken = self.read(conn, sk, most);
        // Without rx the connection is not the queue pair's any more, which may have another one.
        if taken != 0 {
            self.bulk_detector.took(taken, now);
        }
        if taken >= most {
            if self.is_receiving(sk) {
                self.receive_in_bulk();
            } else {
                Conn::receive_later(conn);
            }
        } else if let Some(ms) = self.next_look(sk) {
            if !self.late_timer_armed.swap(true, Relaxed) {
                let queue = self.dev().workqueues.rx.of(self.owner.consumer());
                self.late_timer.arm(queue, self.clone(), ms);
            }
        } else if transport.at_eof(sk) {
            let rx = self.rx.get_mut(sk).and_then(Option::as_mut);
            if rx.is_some() {
                // Without rx the connection is not the queue pair's any more.
                self.queues.set_peer_done();
            }
            let at = rx.map_or(FinAt::Boundary, Rx::fin_reached);
            Conn::peer_finished(conn, at == FinAt::Boundary && transport.eof_is_trusted());
        }
    }

    /// Passes the received data to rx, until it has taken `most` bytes or more; returns how many.
    /// Context: any, socket locked.
    fn read(
        self: &Arc<Self>,
        conn: ArcBorrow<'_, Conn>,
        sk: &mut LockedSock,
        most: usize,
    ) -> usize {
        // After `lost` the cell is not for this socket any more. The data stay for the connection,
        // which discards them: it must not be taken for broken, as it may have to send something.
        if self.rx.get(sk).is_none() {
            return 0;
        }
        let (queues, mut taken) = (&self.queues, 0);
        if let Some(rx) = self.rx.get_mut(sk).and_then(Option::as_mut) {
            // The Send that waits for a receive may be all that there is. Then `read_into` below
            // has no chunk.
            if rx.is_late() {
                rx.chunk(queues, &[]);
            }
        }
        let transport = conn.transport();
        let sleeps = !transport.works_in_callback();
        let read = transport.read_into(sk, &self.rx, |rx, chunk| match rx {
            Some(rx) if taken < most => {
                let n = rx.chunk(queues, chunk);
                if sleeps {
                    rx.end_access();
                }
                taken += n;
                n
            }
            _ => 0,
        });
        if taken != 0 {
            queues.counters.rx_bytes.add_alone(taken as u64);
        }
        if let Err(e) = read {
            // The socket has urgent data. No MPA peer sends any, and they would block the stream
            // for good. Or a record of TLS is not as it should be.
            Conn::broken(conn, e);
        }
        self.finish_receive_run(sk);
        taken
    }

    /// Acts on what rx has found, calls the consumers for completions, and answers short Reads or
    /// wakes tx for others. Context: any, socket locked.
    fn finish_receive_run(self: &Arc<Self>, sk: &mut LockedSock) {
        let Some(rx) = self.rx.get_mut(sk).and_then(Option::as_mut) else {
            return;
        };
        let RunOutcome {
            send,
            recv,
            wake,
            answer,
            starts,
        } = rx.finish_run();
        let end = if rx.has_end() { rx.take_end() } else { None };
        if let Some(end) = end {
            self.rx_ended(end);
        }
        if starts {
            if let Some(conn) = &self.shared.lock().conn {
                conn.first_fpdu_seen();
            }
        }
        self.after_recv(recv);
        self.after_send(send);
        if wake.0 {
            self.wake_tx();
        } else if answer {
            self.answer_here(sk);
        }
    }

    /// Has a work item receive. Context: socket locked, and rx is not stopped.
    fn receive_in_bulk(self: &Arc<Self>) {
        let queue = self.dev().workqueues.rx.of(self.owner.consumer());
        queue.enqueue::<_, BULK>(self.clone());
    }

    /// Receives up to about [`BULK_BUDGET`] bytes, if callbacks have left any. Run by work items,
    /// and by a process that has posted a receive. Context: sleeping.
    fn receive_some(self: &Arc<Self>) {
        if let Some(conn) = self.conn() {
            let mut sk = conn.socket().lock();
            if self.is_receiving(&sk) {
                let now = kext::jiffies_ms();
                self.receive(conn.as_arc_borrow(), &mut sk, BULK_BUDGET, now);
            }
            drop(sk);
            if conn.take_control() {
                Conn::receive_later(conn.as_arc_borrow());
            }
        }
    }

    /// A process makes a call for this QP, so it may have posted the receive that a Send waits for.
    /// Context: sleeping, no lock held.
    pub(crate) fn look_for_receive(self: &Arc<Self>) {
        if self.late.load(Relaxed) && self.queues.rq.has_receive() {
            self.receive_some();
        }
    }

    /// Whether a Send waits for a receive that is still not posted. Context: any, socket locked.
    fn is_waiting(&self, sk: &LockedSock) -> bool {
        let rx = self.rx.get(sk).and_then(Option::as_ref);
        rx.is_some_and(Rx::is_late) && !self.queues.rq.has_receive()
    }

    /// Whether there is an rx that was not stopped. Context: any, socket locked.
    pub(super) fn is_receiving(&self, sk: &LockedSock) -> bool {
        let rx = self.rx.get(sk).and_then(Option::as_ref);
        rx.is_some_and(|rx| !rx.is_stopped())
    }

    /// Milliseconds until the timer looks for the receive that a Send waits for; `None` if no Send
    /// waits. Context: any, socket locked.
    #[inline]
    fn next_look(&self, sk: &LockedSock) -> Option<u32> {
        let rx = self.rx.get(sk).and_then(Option::as_ref)?;
        let ms = rx.next_look(&self.queues);
        if self.late.load(Relaxed) != ms.is_some() {
            self.late.store(ms.is_some(), Relaxed);
        }
        ms
    }

    /// Stops rx; returns the receive that was being filled, with its status. No work item receives
    /// from then on. Context: sleeping.
    pub(super) fn stop_rx(&self) -> Option<(u64, Status)> {
        let conn = self.conn()?;
        let mut sk = conn.socket().lock();
        self.rx
            .get_mut(&mut sk)
            .and_then(Option::as_mut)
            .and_then(Rx::stop)
    }

    /// Ends the work item and the timer, after [`Self::stop_rx`]. Context: sleeping; the socket is
    /// not locked.
    pub(super) fn end_receiving(self: &Arc<Self>) {
        self.late_timer.cancel_sync();
        cancel_work_sync(self, |stream| &stream.bulk_work);
        // The queue pair may get another connection.
        self.late.store(false, Relaxed);
        self.late_timer_armed.store(false, Relaxed);
    }
}
