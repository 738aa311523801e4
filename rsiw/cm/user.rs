// SPDX-License-Identifier: GPL-2.0

//! The user of a connection's stream.

use super::{Conn, Lost, StreamParams};
use crate::{device::Rsiw, pd::PdId};
use kernel::{
    prelude::*,
    sync::{Arc, ArcBorrow},
};
use net::LockedSock;
use rdma::{CmId, ConnInfo, Consumer, Device, RequestId};

/// The user of a connection's stream: that of a queue pair, or a stand-in for it in tests.
///
/// The connection manager calls it in this order: [`attach`](Self::attach); if setup succeeds,
/// [`established`](Self::established), then the methods of the stream in any order; at last
/// [`lost`](Self::lost). Between `attach` and `lost` the user may call the connection.
pub(crate) trait User: Sized + Send + Sync + 'static {
    /// The protection domain of the user. The handshakes of its initiators go on in order. Context:
    /// any.
    fn domain(&self) -> PdId;

    /// The consumer that the user belongs to. Context: any.
    fn consumer(&self) -> Consumer;

    /// Whether the process that the user belongs to has ended, or is about to. Context: any.
    fn is_orphaned(&self) -> bool;

    /// A number that changes when the user, which has had a connection, is made ready for another.
    /// Context: any.
    fn life(&self) -> u32;

    /// Whether the consumer knows Sends with immediate data, and the operations of RFC 7306.
    /// Context: any.
    fn is_extended(&self) -> bool;

    /// The largest IRD and ORD that a connection may agree on. Context: any.
    fn most_reads(&self) -> (u32, u32);

    /// Reports a peer's Request to the consumer that listens by `cm`. The consumer's answer comes
    /// with `conn`. Context: sleeping. Errors: `ENOMEM`.
    fn report_request(
        dev: &Device<Rsiw>,
        cm: &CmId,
        conn: Arc<Conn<Self>>,
        info: &ConnInfo<'_>,
    ) -> Result<RequestId>;

    /// Takes a connection that is being set up, so that the user can end it when it goes itself.
    /// May call [`Conn::count_in`]. Context: sleeping. Errors: `EINVAL` if the user has a
    /// connection, or cannot have one, or if its [`life`](Self::life) was `life` when the consumer
    /// asked for this, and is not any more.
    fn attach(&self, conn: &Arc<Conn<Self>>, life: u32) -> Result;

    /// Whether [`attach`](Self::attach) may succeed still. Context: any.
    fn is_attachable(&self, life: u32) -> bool;

    /// Setup has agreed on `params`: the user prepares to send and to receive. The stream is the
    /// user's from the call of [`Conn::give_stream`] on. Context: sleeping;
    /// neither the socket nor a lock of the user's is held. Errors: `EINVAL` in a wrong state,
    /// `ENOMEM`.
    fn established(self: &Arc<Self>, params: &StreamParams) -> Result;

    /// Data or the peer's FIN has arrived. The user receives it at once, or has a work item do so.
    /// When it has reached the FIN, it calls [`Conn::peer_finished`]. Context: callback, socket
    /// locked.
    fn data_ready(self: &Arc<Self>, conn: ArcBorrow<'_, Conn<Self>>, sk: &mut LockedSock);

    /// Receives all data that the socket has, as [`data_ready`](Self::data_ready) does, but at
    /// once. Context: sleeping, socket locked.
    fn receive_all(self: &Arc<Self>, conn: ArcBorrow<'_, Conn<Self>>, sk: &mut LockedSock);

    /// The send buffer has room again. Context: any.
    fn writable(self: &Arc<Self>);

    /// The stream is the user's, which has received what had come: it sends from now on, an
    /// initiator first its RTR. Context: sleeping.
    fn given(self: &Arc<Self>);

    /// The user, a responder, may send although the peer has sent nothing: the peer waits, too.
    /// Context: any.
    fn may_start(self: &Arc<Self>);

    /// The user, an initiator, sends an RTR once more: the peer may have missed the first. Context:
    /// sleeping.
    fn repeat_rtr(self: &Arc<Self>);

    /// An orderly close begins, or the peer's FIN has come during one. The user sends what it still
    /// has. Returns true if nothing is left; otherwise the user calls [`Conn::tx_drained`] later.
    /// Context: sleeping.
    fn drain(self: &Arc<Self>) -> bool;

    /// The connection is over for the user, which drops it. No work item of the user's receives
    /// afterwards, but the callback may still come until the connection has ended. After
    /// [`Lost::Call`] another connection may be attached when this returns. Context: sleeping,
    /// socket not locked.
    fn lost(self: &Arc<Self>, why: Lost);
}
