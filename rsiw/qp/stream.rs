// SPDX-License-Identifier: GPL-2.0

//! The QP's part in its connection: the functions that the connection manager calls, in this order.
//!
//! `attach` → `established` → (`readable`, `eof`, `writable`)* → `drain`? → `lost`

use super::{Conn, Qp, State};
use crate::{
    cm::{Close, Lost, StreamParams, User},
    device::Rsiw,
    pd::PdId,
    rx::{RunOutcome, Rx},
    tx::{Tx, TxConfig},
};
use core::sync::atomic::Ordering;
use iwarp::{mpa::Rtr, rx::RxConfig};
use kernel::{prelude::*, sync::Arc};
use net::LockedSock;
use rdma::{CmId, ConnInfo, Consumer, Device, RequestId};

impl User for Qp {
    fn domain(&self) -> PdId {
        self.pd.id()
    }

    fn consumer(&self) -> Consumer {
        self.owner.consumer()
    }

    fn is_orphaned(&self) -> bool {
        self.owner.ends()
    }

    fn most_reads(&self) -> (u32, u32) {
        self.limits.lock().most
    }

    fn report_request(
        dev: &Device<Rsiw>,
        cm: &CmId,
        conn: Arc<Conn>,
        info: &ConnInfo<'_>,
    ) -> Result<RequestId> {
        cm.connect_request(dev, conn, info)
    }

    /// Notes a connection that is being set up, so that destroying the QP can end it. Context:
    /// sleeping.
    ///
    /// # Errors
    ///
    /// `EINVAL` when the QP is not IDLE or has a connection.
    fn attach(&self, conn: &Arc<Conn>) -> Result {
        let mut shared = self.shared.lock();
        // Checked under the lock: an actor that goes to ERROR looks for a connection to close
        // afterwards, under the same lock.
        if self.state() != State::Idle || shared.conn.is_some() {
            return Err(EINVAL);
        }
        shared.conn = Some(conn.clone());
        Ok(())
    }

    /// Starts data transfer: makes both halves of the stream and moves the QP to RTS.
    ///
    /// A responder stays silent until the peer's first FPDU has arrived: "the MPA responder MUST
    /// NOT send any FPDUs before it has received a valid FPDU" (RFC 5044 section 7.1.2).
    /// Context: as [`User::established`].
    ///
    /// # Errors
    ///
    /// `EINVAL` in a wrong state, `ENOMEM`.
    fn established(self: &Arc<Self>, p: &StreamParams) -> Result {
        let conn = self.shared.lock().conn.clone().ok_or(EINVAL)?;
        // An accepting process is charged for these. A connecting one is not, as this runs in a
        // worker then.
        let flags = self.consumer().flags();
        self.inbound.set_ird(u32::from(p.ird), flags)?;
        self.sq.set_ord(u32::from(p.ord))?;
        self.agree(p);

        let expect_send = !p.initiator && p.rtr == Some(Rtr::Send);
        let rx = Rx::new(RxConfig { crc: p.crc }, expect_send, self.pd.join())?;
        let tx = Tx::new(
            conn.clone(),
            TxConfig {
                crc: p.crc,
                markers: p.tx_markers,
                large_fpdu: p.large_fpdu,
                rtr: p.rtr.filter(|_| p.initiator),
            },
            self.sq.max_sge(),
        )?;
        {
            let mut sk = conn.socket().lock();
            self.rx.claim(&mut sk)?;
            if let Some(slot) = self.rx.get_mut(&mut sk) {
                // Under the socket lock, or rx would miss a concurrent `set_access`.
                slot.insert(rx).admit(self.access());
            }
        }
        self.may_send.store(p.initiator, Ordering::Release);
        {
            let mut slot = self.tx.lock();
            // With tx locked, so that an actor that goes to ERROR either does so first, and this
            // fails, or finds the new `Tx`.
            self.state.advance(State::Rts).map_err(|_| EINVAL)?;
            *slot = Some(tx);
        }
        self.dev.counters.connections.add(1);
        // For the RTR, and for requests that a process may have posted early.
        self.wake_tx();
        Ok(())
    }

    /// Receives the data that the socket has queued, until `most` octets or more have been taken;
    /// returns how many. Context: any, the socket's lock is held.
    fn readable(self: &Arc<Self>, sk: &mut LockedSock, most: usize) -> usize {
        let mut taken = 0;
        if let Some(rx) = self.rx.get_mut(sk).and_then(Option::as_mut) {
            // The Send that waits for a receive may be all that there is. Then `read_into` below
            // has no chunk.
            if rx.is_late() {
                rx.chunk(self, &[]);
            }
        }
        let read = sk.read_into(&self.rx, |rx, chunk| match rx {
            Some(rx) if taken < most => {
                let n = rx.chunk(self, chunk);
                taken += n;
                n
            }
            _ => 0,
        });
        self.dev.counters.rx_bytes.add(taken as u64);
        if read.is_err() {
            // The socket has urgent data. No MPA peer sends any, and they would block the stream
            // for good.
            self.close_conn(Close::Abort);
        }
        self.finish_rx(sk);
        taken
    }

    /// Whether a Send waits for a receive that is still not posted. Context: as [`User::readable`].
    fn is_waiting(&self, sk: &LockedSock) -> bool {
        let rx = self.rx.get(sk).and_then(Option::as_ref);
        rx.is_some_and(Rx::is_late) && !self.rq.has_receive()
    }

    /// Milliseconds until the timer looks for the receive that a Send waits for; `None` if no Send
    /// waits. Context: as [`User::readable`].
    #[inline]
    fn next_look(&self, sk: &LockedSock) -> Option<u32> {
        let rx = self.rx.get(sk).and_then(Option::as_ref)?;
        let ms = rx.next_look(self);
        if self.late.load(Ordering::Relaxed) != ms.is_some() {
            self.late.store(ms.is_some(), Ordering::Relaxed);
        }
        ms
    }

    /// The peer's FIN was reached; returns whether it came between messages. Context: callback.
    fn eof(&self, sk: &mut LockedSock) -> bool {
        self.peer_done.store(true, Ordering::Release);
        self.rx
            .get_mut(sk)
            .and_then(Option::as_mut)
            .is_none_or(Rx::end)
    }

    /// The socket has room again. Context: any.
    fn writable(self: &Arc<Self>) {
        self.wake_tx();
    }

    /// The responder may send although the peer has not sent yet. Context: any.
    fn may_start(self: &Arc<Self>) {
        if !self.may_send.swap(true, Ordering::AcqRel) {
            self.wake_tx();
        }
    }

    /// Sends an empty RDMA Write, whatever kind of RTR was agreed on: the peer may have missed the
    /// RTR's arrival. Context: sleeping.
    fn repeat_rtr(self: &Arc<Self>) {
        let mut slot = self.tx.lock();
        if let Some(tx) = slot.as_mut() {
            tx.owe_rtr(Rtr::Write);
        }
        // Wake-ups that arrived while tx was locked are lost; the one below makes up for them.
        drop(slot);
        self.wake_tx();
    }

    /// Orderly close: tx sends the requests that are posted, then tells the connection manager.
    /// Context: sleeping.
    fn drain(self: &Arc<Self>) {
        // In TERMINATE or ERROR, the actor that moved the QP there has the connection closed after
        // the data that are still to be sent. A FIN now would cut them off.
        if let Ok(_) | Err(State::Closing) = self.state.advance(State::Closing) {
            self.wake_tx();
        }
    }

    /// The connection is gone, or setup failed. Context: sleeping; no callback runs any more.
    fn lost(self: &Arc<Self>, why: Lost) {
        if !matches!(why, Lost::Handshake) {
            self.enter_error();
        }
        // A connection's last reference must not be dropped under a spinlock.
        let conn = self.shared.lock().conn.take();
        drop(conn);
    }
}

impl Qp {
    /// Calls the consumers for completions of the run, and answers short Reads or wakes tx for
    /// others. Context: as [`User::readable`].
    fn finish_rx(self: &Arc<Self>, sk: &mut LockedSock) {
        let outcome = self
            .rx
            .get_mut(sk)
            .and_then(Option::as_mut)
            .map(Rx::finish_run);
        let Some(RunOutcome {
            send,
            recv,
            wake,
            answer,
        }) = outcome
        else {
            return;
        };
        self.after_recv(recv);
        self.after_send(send);
        if wake.0 {
            self.wake_tx();
        } else if answer {
            self.answer_here(sk);
        }
    }

    /// A process makes a call for this QP, so it may have posted the receive that a Send waits for.
    /// Context: sleeping, no lock held.
    pub(crate) fn look_for_receive(&self) {
        if !self.late.load(Ordering::Relaxed) || !self.rq.has_receive() {
            return;
        }
        let conn = self.shared.lock().conn.clone();
        if let Some(conn) = conn {
            conn.receive_some();
        }
    }

    /// The consumer asks for an orderly close: requests that it posts from now on are not sent.
    /// Context: sleeping.
    pub(crate) fn disconnect(self: &Arc<Self>) {
        let tx = self.tx.lock();
        self.sq.end_here();
        // Wake-ups that arrived while tx was locked are lost; the one below makes up for them.
        drop(tx);
        self.wake_tx();
        self.close_conn(Close::Graceful);
    }

    /// Whether the peer's FIN was reached. It sends nothing any more, so waiting for it is no use.
    pub(crate) fn peer_done(&self) -> bool {
        self.peer_done.load(Ordering::Acquire)
    }

    /// Whether tx may send requests and responses.
    pub(crate) fn may_send(&self) -> bool {
        self.may_send.load(Ordering::Acquire)
    }

    /// Rx has received the peer's first FPDU; returns true if tx had to wait for it. Context: any.
    pub(crate) fn peer_started(&self) -> bool {
        if self.may_send.swap(true, Ordering::AcqRel) {
            return false;
        }
        let shared = self.shared.lock();
        if let Some(conn) = &shared.conn {
            conn.first_fpdu_seen();
        }
        true
    }
}
