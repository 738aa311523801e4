// SPDX-License-Identifier: GPL-2.0

//! The stream's part in its connection: the functions that the connection manager calls, in this
//! order.
//!
//! `attach` -> `established` -> `receive_all` -> `given` -> (`data_ready`, `receive_all`,
//! `writable`)* -> `drain`? -> `lost`

use super::{receive::BULK_BUDGET, Conn, Sender, Stream};
use crate::{
    cm::{Close, Lost, StreamParams, User},
    device::Rsiw,
    pd::PdId,
    queue::state::State,
    rx::{Rx, RxConfig},
    transport::Transport,
    tx::{Tx, TxConfig},
};
use iwarp::mpa::Rtr;
use kernel::{
    prelude::*,
    sync::{Arc, ArcBorrow},
};
use net::LockedSock;
use rdma::{CmId, ConnInfo, Consumer, Device, RequestId};

impl User for Stream {
    fn domain(&self) -> PdId {
        self.queues.pd.id()
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

    fn is_extended(&self) -> bool {
        self.queues.sq.is_extended()
    }

    fn life(&self) -> u32 {
        Stream::life(self)
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
    /// `EINVAL` when the QP is not IDLE or has a connection, or was reset since `life`.
    fn attach(&self, conn: &Arc<Conn>, life: u32) -> Result {
        let mut shared = self.shared.lock();
        // Checked under the lock: an actor that goes to ERROR looks for a connection to close
        // afterwards, under the same lock.
        if !self.is_attachable(life) || shared.conn.is_some() {
            return Err(EINVAL);
        }
        shared.conn = Some(conn.clone());
        if let Some(account) = &shared.account {
            conn.count_in(account.share());
        }
        Ok(())
    }

    fn is_attachable(&self, life: u32) -> bool {
        self.queues.state() == State::Idle && life == self.life()
    }

    //= 5040-5.2.2-3: The Data Source MUST ensure that a sufficient number
    //= 5044-7.1-2: A DDP endpoint MUST be "bound" to the MPA
    //= 5040-6.1-2, 5040-6.1-3
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
        let conn = self.conn().ok_or(EINVAL)?;
        let queues = &self.queues;
        // An accepting process is charged for these. A connecting one is not, as this runs in a
        // worker then.
        let flags = self.consumer().flags();
        let rtr_read = p.peer_rtr.contains(Rtr::Read);
        // The peer's device is of the same type.
        let peer_confirms = self.dev().is_rc();
        let ird = u32::from(p.ird);
        let confirms = peer_confirms && self.is_reliable() && self.dev().settings.rc_confirm();
        queues
            .inbound
            .set_ird(ird, rtr_read, peer_confirms, flags)?;
        queues.sq.set_ord(u32::from(p.ord), confirms)?;
        self.limit_ord();
        self.agree(p);

        let rx = Rx::new(
            RxConfig {
                crc: p.crc,
                expects_rtr_send: p.peer_rtr.contains(Rtr::Send),
                extended: queues.sq.is_extended(),
                send_immediate: p.send_immediate,
                verify_first: self.dev().settings.verify_first(),
            },
            queues.pd.join(),
            (queues.rq.max_sge(), flags),
            queues.counters.rx_fpdus.get(),
        )?;
        let is_plain = p.large_fpdu && !p.crc && !p.tx_markers;
        let may_refer = is_plain && !self.queues.sq.is_mapped() && self.dev().settings.zerocopy();
        let mut tx = Tx::new(
            conn.new_batch(),
            TxConfig {
                crc: p.crc,
                markers: p.tx_markers,
                large_fpdu: p.large_fpdu,
                zerocopy: may_refer && !peer_confirms,
                send_immediate: p.send_immediate,
                confirms,
                peer_confirms,
            },
            queues.sq.max_sge(),
            flags,
        )?;
        if let Some(rtr) = p.rtr {
            tx.owe_rtr(rtr);
        }
        {
            let mut sk = conn.socket().lock();
            self.rx.claim(&mut sk)?;
            if let Some(slot) = self.rx.get_mut(&mut sk) {
                // Under the socket lock, or rx would miss a concurrent `set_access`.
                slot.insert(rx).admit(self.peer_rights());
            }
        }
        queues.set_may_send(p.initiator);
        let oldest = queues.sq.oldest();
        // With tx locked, so that an actor that goes to ERROR either does so first, and this
        // fails, or finds the new `Tx`.
        self.with_tx(|slot| {
            queues.advance(State::Rts).map_err(|_| EINVAL)?;
            *slot = Some(Sender { tx, conn });
            Ok::<(), Error>(())
        })?;
        self.peer_has_come(oldest);
        let counters = &self.dev().counters;
        counters.connections.add(1);
        if p.initiator {
            counters.connections_initiated.add(1);
        } else {
            counters.connections_accepted.add(1);
        }
        Ok(())
    }

    /// Receives here, or leaves it to a work item. Context: callback.
    fn data_ready(self: &Arc<Self>, conn: ArcBorrow<'_, Conn>, sk: &mut LockedSock) {
        self.receive_or_defer(conn, sk);
    }

    fn receive_all(self: &Arc<Self>, conn: ArcBorrow<'_, Conn>, sk: &mut LockedSock) {
        let most = if conn.transport().works_in_callback() {
            usize::MAX
        } else {
            // Decrypting takes long enough for more to come, and then more.
            BULK_BUDGET
        };
        self.receive(conn, sk, most, kext::jiffies_ms());
    }

    /// The socket has room again. Context: any.
    fn writable(self: &Arc<Self>) {
        self.wake_tx();
    }

    /// Sends the RTR, and requests that a process may have posted early. Context: sleeping.
    fn given(self: &Arc<Self>) {
        // A responder that must not send yet has tx woken when it may.
        if self.queues.may_send() {
            self.run_batch();
        }
    }

    /// The responder may send although the peer has not sent yet. Context: any.
    fn may_start(self: &Arc<Self>) {
        if !self.queues.set_may_send(true) {
            self.wake_tx();
        }
    }

    /// Sends an empty RDMA Write, whatever kind of RTR was agreed on: the peer may have missed the
    /// RTR's arrival. Context: sleeping.
    fn repeat_rtr(self: &Arc<Self>) {
        self.with_tx(|slot| {
            if let Some(sender) = slot {
                sender.tx.owe_rtr(Rtr::Write);
            }
        });
        self.wake_tx();
    }

    /// Orderly close: tx sends the requests that are posted, and answers the Reads that wait. Most
    /// often nothing is left, or a batch, which is sent here; otherwise the worker sends it, then
    /// tells the connection manager. Context: sleeping.
    fn drain(self: &Arc<Self>) -> bool {
        // In TERMINATE or ERROR, the actor that moved the QP there has the connection closed after
        // the data that are still to be sent. A FIN now would cut them off.
        let (Ok(_) | Err(State::Closing)) = self.queues.advance(State::Closing) else {
            return false;
        };
        let drained = self.with_tx(|slot| {
            // A consumer that posts a request for each one that completes would put off the close
            // for ever.
            self.queues.sq.end_here();
            slot.as_mut().is_some_and(|sender| self.send_rest(sender))
        });
        if !drained {
            self.wake_tx();
        }
        drained
    }

    /// The connection is gone, or setup failed. Context: sleeping; no callback runs any more.
    fn lost(self: &Arc<Self>, why: Lost) {
        // Nobody resets a QP with a connection, so this is the life that the connection is of.
        let life = self.life();
        let expects = match why {
            Lost::Handshake => false,
            _ if self.dev().is_rc() => self.lose_peer(why == Lost::Call),
            _ => {
                self.enter_error(life, None);
                false
            }
        };
        if why != Lost::Handshake {
            self.end_receiving();
        } else if self.dev().is_rc() {
            self.peer_has_not_come();
        }
        if let Some(conn) = self.conn() {
            // The cell is for the socket of another connection from now on. A callback of this one
            // that comes nevertheless finds no rx. If setup has failed late, there is one.
            let mut sk = conn.socket().lock();
            let rx = self.rx.get_mut(&mut sk).and_then(Option::take);
            let _ = self.rx.release(&mut sk);
            drop(sk);
            drop(rx);
        }
        // A connection's last reference must not be dropped under a spinlock.
        let conn = self.shared.lock().leave_conn(&self.queues.counters);
        drop(conn);
        if expects {
            self.expect_caller(life);
        }
    }
}

impl Stream {
    /// The consumer asks for an orderly close: requests that it posts from now on are not sent.
    /// Without effect if the QP has left RTS and CLOSING, or was reset since `life`. Context:
    /// sleeping.
    pub(crate) fn disconnect(self: &Arc<Self>, life: u32) {
        // Held to the end, so that no reset comes between.
        let end = self.teardown.lock();
        if life != self.life() || !matches!(self.queues.state(), State::Rts | State::Closing) {
            return;
        }
        self.with_tx(|_| self.queues.sq.end_here());
        self.close_conn(Close::Graceful);
        drop(end);
    }

    /// Has the connection closed, if there is one. Context: any.
    pub(super) fn close_conn(&self, how: Close) {
        if let Some(conn) = &self.shared.lock().conn {
            conn.close(how);
        }
    }
}
