// SPDX-License-Identifier: GPL-2.0

//! A call: the Request of a queue pair that connects by name. Until the queue pair that it asks for
//! expects its peer, the call waits. It occupies a slot of the listener meanwhile, and counts as a
//! peer that has sent nothing: when all slots are taken, the address with the most such calls loses
//! its oldest one.
//!
//! What a call is worth, the engine decides ([`Call::judge`]).

use super::{
    expected::{Calls, Place},
    gid_of, Pairing,
};
use crate::cm::{sockets::LAST_LOW_PORT, Conn, User};
use core::{format_args, net::SocketAddr};
use iwarp::conn::{
    names::{Call, Refusal, Verdict},
    Input,
};
use kernel::sync::Arc;

/// A call.
pub(in crate::cm) struct Parked<U> {
    call: Call,
    /// The addresses of the connection, as GIDs: this end's and the peer's.
    ends: ([u8; 16], [u8; 16]),
    /// The interface of this end's address.
    ifindex: u32,
    place: Place<U>,
}

impl<U: User> Parked<U> {
    /// The call of `conn` has come, with this private data. Context: sleeping. Errors: it is none;
    /// or there is no memory, of which the caller may try again as well.
    pub(in crate::cm) fn new(
        conn: &Arc<Conn<U>>,
        private_data: &[u8],
        (local, remote): (&SocketAddr, &SocketAddr),
        calls: &Calls<U>,
    ) -> Result<Self, Refusal> {
        let call = Call::read(private_data).ok_or(Refusal::NoCall)?;
        if conn.settings().rc_low_ports() && remote.port() > LAST_LOW_PORT {
            return Err(Refusal::Port);
        }
        // First this, then the look: who expects the call later finds it.
        let place = Place::new(&calls.expected, call.to.qpn, conn.serial);
        Ok(Self {
            call,
            ends: (gid_of(local), gid_of(remote)),
            ifindex: calls.ifindex,
            place: place.map_err(|_| Refusal::NoMemory)?,
        })
    }

    /// The queue pair of the number, if it expects anybody, and has not failed meanwhile.
    fn pairing(&self) -> Option<Arc<Pairing<U>>> {
        let pairing = self.place.expected.get(self.call.to.qpn);
        pairing.filter(|one| one.user.is_attachable(one.life))
    }

    /// Whether a queue pair of the number expects anybody.
    pub(in crate::cm) fn is_expected(&self) -> bool {
        self.pairing().is_some()
    }

    /// The queue pair that the call is for; `None`, if nobody expects it so far. Errors: it is for
    /// none. Context: process.
    pub(in crate::cm) fn look(&self) -> Result<Option<Arc<Pairing<U>>>, Refusal> {
        let pairing = self.pairing();
        let names = pairing.as_ref().map(|pairing| &pairing.names);
        match self.call.judge(&self.ends.0, &self.ends.1, names) {
            // Two interfaces may have the same address, in networks that have nothing to do with
            // each other.
            Verdict::Admit
                if pairing
                    .as_ref()
                    .is_some_and(|one| one.way.ifindex != self.ifindex) =>
            {
                Err(Refusal::Address)
            }
            Verdict::Admit => Ok(pairing),
            Verdict::Park => Ok(None),
            Verdict::Refuse(why) => Err(why),
        }
    }
}

/// Notes that a call is refused, and logs why. Returns what the machine is told.
pub(in crate::cm) fn refused<U: User>(conn: &Conn<U>, why: Refusal) -> Input {
    conn.dev().counters.rc_calls_refused.add(1);
    conn.log_failure(format_args!("call refused: {why}"));
    Input::NotAdmitted
}
