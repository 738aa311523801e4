// SPDX-License-Identifier: GPL-2.0

//! The responder's side of connection setup: begins connections that a listener has accepted, and
//! takes the consumer's answers.

pub(super) mod incoming;

use self::incoming::Incoming;
use super::{consumer::Call, party::Party, registry::InOrder, run::Run, Conn, Listener, User};
use crate::settings::TlsPolicy;
use core::mem::replace;
use iwarp::conn::{Input, Machine};
use kernel::{prelude::*, sync::Arc, workqueue::WorkItem};
use kext::noio::noio;
use net::Role;
use rdma::{CmId, ConnParam};

/// Connections that are taken in one run, before other work gets the worker.
const BATCH: u32 = 64;

impl<U: User> WorkItem for Listener<U> {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        noio(|| this.take_connections());
    }
}

impl<U: User> Listener<U> {
    /// Gives slots to up to [`BATCH`] connections. It is bounded as the removal of any device waits
    /// for the worker, which a peer that connects and resets all the time must not keep.
    fn take_connections(self: &Arc<Self>) {
        for _ in 0..BATCH {
            let Some((socket, slot)) = self.next() else {
                return;
            };
            let clear = self.conns.dev.settings.tls() == TlsPolicy::Off;
            let socket = if clear {
                socket
            } else {
                let peer = socket.peer_addr();
                match peer.and_then(|peer| socket.with_file(Role::Server(peer))) {
                    Ok(socket) => socket,
                    // As below; or the peer has gone already.
                    Err(_) => continue,
                }
            };
            let begin = |conn: &Arc<Conn<U>>| {
                let party = Party::Incoming(Incoming::new(conn, slot)?);
                let silence = conn.settings().responder_wait_ms();
                let first = if clear {
                    Machine::await_request
                } else {
                    Machine::await_octet
                };
                Ok(Run::new(conn, party, |seen| first(silence, seen)))
            };
            let order = InOrder::of_listener(&self.order);
            let started = Conn::start(&self.conns, socket, order, begin);
            // Without memory there is no connection; the peer sees it closed.
            drop(started);
        }
        self.wake();
    }
}

/// Accepts a request for `user`, the queue pair that the consumer named: the `iw_accept` operation.
/// Context: sleeping, within locks of the RDMA CM; does not wait for the network.
///
/// # Errors
///
/// `EINVAL`: there is no such queue pair, it has a connection, or there is too much private data.
/// `ECONNRESET`: the peer has gone, or the answer comes after the time-out. `ENOMEM`. The
/// connection is over then, and nothing is reported.
pub(crate) fn accept<U: User>(
    conn: Arc<Conn<U>>,
    user: Option<Arc<U>>,
    cm: CmId,
    param: &ConnParam<'_>,
) -> Result {
    let mut call = Call {
        user,
        cm: Some(cm),
        ird: param.ird,
        ord: param.ord,
        private_data: param.private_data,
        ..Call::nobodys()
    };
    answer(&conn, Input::Accept, &mut call)
}

/// Rejects a request: the `iw_reject` operation. Context: sleeping, within locks of the RDMA CM;
/// does not wait for the network.
///
/// # Errors
///
/// `ECONNRESET`: the peer has gone, or the answer comes after the time-out. `EINVAL`: there is too
/// much private data; the peer is rejected without them.
pub(crate) fn reject<U: User>(conn: Arc<Conn<U>>, private_data: &[u8]) -> Result {
    let mut call = Call {
        private_data,
        ..Call::nobodys()
    };
    answer(&conn, Input::Reject, &mut call)?;
    if call.fits {
        Ok(())
    } else {
        Err(EINVAL)
    }
}

/// Gives the consumer's answer in place of the actor.
fn answer<U: User>(conn: &Arc<Conn<U>>, input: Input, call: &mut Call<'_, U>) -> Result {
    conn.in_actors_place(|stage| stage.answer(conn, input, call));
    replace(&mut call.result, Ok(()))
}
