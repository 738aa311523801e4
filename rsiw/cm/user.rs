// SPDX-License-Identifier: GPL-2.0

//! What uses the stream of a connection.

use super::{Conn, Lost, StreamParams};
use crate::{device::Rsiw, pd::PdId};
use kernel::{prelude::*, sync::Arc};
use net::LockedSock;
use rdma::{CmId, ConnInfo, Consumer, Device, RequestId};

/// The user of a connection: the queue pair, or a stand-in for it in tests.
///
/// The connection manager calls it in this order: [`attach`](Self::attach),
/// [`established`](Self::established), then the methods of the stream in any order, at last
/// [`lost`](Self::lost). Between `attach` and `lost` it may call the connection.
pub(crate) trait User: Sized + Send + Sync + 'static {
    /// The protection domain, whose initiators' handshakes go on in order. Context: any.
    fn domain(&self) -> PdId;

    /// Who the user belongs to. Context: any.
    fn consumer(&self) -> Consumer;

    /// Whether the process that it belongs to has ended, or is about to. Context: any.
    fn is_orphaned(&self) -> bool;

    /// IRD and ORD that a connection may agree on at the most. Context: any.
    fn most_reads(&self) -> (u32, u32);

    /// Tells the consumer that listens by `cm` of a peer's Request; the consumer's answer comes with the
    /// connection. Context: sleeping. Errors: `ENOMEM`.
    fn report_request(
        dev: &Device<Rsiw>,
        cm: &CmId,
        conn: Arc<Conn<Self>>,
        info: &ConnInfo<'_>,
    ) -> Result<RequestId>;

    /// Takes a connection that is being set up, so that the end of the user ends it. Context: sleeping.
    /// Errors: `EINVAL` if the user has a connection, or cannot have one.
    fn attach(&self, conn: &Arc<Conn<Self>>) -> Result;

    /// Setup has agreed on `params`: the user makes ready to receive, and an initiator sends its RTR.
    /// The stream is the user's from the call of [`Conn::give_stream`] on. Context: sleeping, no lock
    /// held. Errors: `EINVAL` in a wrong state, `ENOMEM`.
    fn established(self: &Arc<Self>, params: &StreamParams) -> Result;

    /// Receives what the socket has, until `most` octets have been taken or more; returns how many.
    /// Context: any, the socket is locked.
    fn readable(self: &Arc<Self>, sk: &mut LockedSock, most: usize) -> usize;

    /// Whether what has been left in the socket waits for the user, so that more of it is no news.
    /// Context: any, the socket is locked.
    fn is_waiting(&self, sk: &LockedSock) -> bool;

    /// In how many milliseconds to call [`readable`](Self::readable) again, if the user waits for
    /// something that nobody tells. Context: any, the socket is locked.
    fn next_look(&self, sk: &LockedSock) -> Option<u32>;

    /// The peer's FIN was reached. Returns whether it cuts nothing short. Context: any, the socket is
    /// locked.
    fn eof(&self, sk: &mut LockedSock) -> bool;

    /// The socket has room again. Context: any.
    fn writable(self: &Arc<Self>);

    /// A responder may send although the peer has not: the peer waits, too. Context: any.
    fn may_start(self: &Arc<Self>);

    /// An initiator sends its RTR once more: the peer may have missed it. Context: sleeping.
    fn repeat_rtr(self: &Arc<Self>);

    /// An orderly close begins, or the peer's FIN has come meanwhile: the user sends what it has, then
    /// calls [`Conn::tx_drained`]. Context: sleeping.
    fn drain(self: &Arc<Self>);

    /// The connection is over for the user, which drops it. Context: sleeping.
    fn lost(self: &Arc<Self>, why: Lost);
}
