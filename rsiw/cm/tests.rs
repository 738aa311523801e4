// SPDX-License-Identifier: GPL-2.0

//! Connection setup with a stand-in for the queue pair. The peer, in this kernel, speaks MPA by the
//! engine's rules over the loopback interface.

use super::{
    conn::Conns,
    events::Event,
    initiator::attempt::{Attempt, Caller, Route},
    order::Order,
    party::Party,
    registry::InOrder,
    run::Run,
    sockets::{Origin, SocketConfig},
    Close, Conn, Lost, StreamParams, User,
};
use crate::{
    device::{Device, Rsiw, Workqueues},
    pd::PdId,
};
use core::{
    net::{Ipv4Addr, SocketAddr},
    sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
};
use iwarp::{
    conn::{Machine, Plan},
    mpa::{FrameKind, FrameReader, Offer, Responder, RtrSet, FRAME_MAX},
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{Arc, ArcBorrow, Mutex},
    time::{delay::fsleep, Delta},
};
use net::{errno, Family, Keyring, LockedSock, Namespace, Received, Sent, TcpSocket};
use rdma::{
    iwcm::testing::{TestEvent, TestId},
    CmId, ConnInfo, Consumer, RequestId,
};

/// Fails by an error, where `assert!` would panic.
macro_rules! check {
    ($condition:expr) => {
        if !$condition {
            pr_err!("not so: {}\n", stringify!($condition));
            return Err(EINVAL);
        }
    };
}

/// A stand-in for the queue pair: records the connection manager's calls.
#[pin_data]
struct Fake {
    #[pin]
    state: Mutex<Calls>,
    /// Bytes received.
    received: AtomicU32,
    eofs: AtomicU32,
    orphaned: AtomicBool,
    /// It has no memory to start.
    fails: AtomicBool,
}

#[derive(Default)]
struct Calls {
    conn: Option<Arc<Conn<Fake>>>,
    params: Option<StreamParams>,
    drains: u32,
    lost: Option<Lost>,
}

impl Fake {
    fn new() -> Result<Arc<Self>> {
        let fake = pin_init!(Self {
            state <- new_mutex!(Calls::default(), "rsiw_fake"),
            received: AtomicU32::new(0),
            eofs: AtomicU32::new(0),
            orphaned: AtomicBool::new(false),
            fails: AtomicBool::new(false),
        });
        Arc::pin_init(fake, GFP_KERNEL)
    }
}

impl User for Fake {
    fn domain(&self) -> PdId {
        PdId::of_test(1, Consumer::Kernel)
    }

    fn consumer(&self) -> Consumer {
        Consumer::Kernel
    }

    fn is_orphaned(&self) -> bool {
        self.orphaned.load(Relaxed)
    }

    fn is_extended(&self) -> bool {
        true
    }

    fn life(&self) -> u32 {
        0
    }

    fn most_reads(&self) -> (u32, u32) {
        (16, 16)
    }

    fn report_request(
        _dev: &rdma::Device<Rsiw>,
        _cm: &CmId,
        _conn: Arc<Conn<Self>>,
        _info: &ConnInfo<'_>,
    ) -> Result<RequestId> {
        // These tests register no device, so no Request is reported.
        Err(ENODEV)
    }

    fn attach(&self, conn: &Arc<Conn<Self>>, _life: u32) -> Result {
        self.state.lock().conn = Some(conn.clone());
        Ok(())
    }

    fn is_attachable(&self, _life: u32) -> bool {
        self.state.lock().conn.is_none()
    }

    fn established(self: &Arc<Self>, params: &StreamParams) -> Result {
        if self.fails.load(Relaxed) {
            return Err(ENOMEM);
        }
        self.state.lock().params = Some(*params);
        Ok(())
    }

    fn data_ready(self: &Arc<Self>, conn: ArcBorrow<'_, Conn<Self>>, sk: &mut LockedSock) {
        self.receive_all(conn, sk);
    }

    fn receive_all(self: &Arc<Self>, conn: ArcBorrow<'_, Conn<Self>>, sk: &mut LockedSock) {
        let taken = sk.read(<[_]>::len).unwrap_or(0);
        self.received.fetch_add(taken as u32, Relaxed);
        if sk.at_eof() {
            self.eofs.fetch_add(1, Relaxed);
            Conn::peer_finished(conn, true);
        }
    }

    fn writable(self: &Arc<Self>) {}

    fn given(self: &Arc<Self>) {}

    fn may_start(self: &Arc<Self>) {}

    fn repeat_rtr(self: &Arc<Self>) {}

    fn drain(self: &Arc<Self>) -> bool {
        let conn = {
            let mut state = self.state.lock();
            state.drains += 1;
            state.conn.clone()
        };
        if let Some(conn) = conn {
            conn.tx_drained();
        }
        false
    }

    fn lost(self: &Arc<Self>, why: Lost) {
        let conn = {
            let mut state = self.state.lock();
            state.lost = Some(why);
            state.conn.take()
        };
        drop(conn);
    }
}

/// What iwcm is given of a connection that ends by FINs.
const IN_ORDER: [TestEvent; 3] = [
    TestEvent::ConnectReply(0),
    TestEvent::Disconnect,
    TestEvent::Close(0),
];

/// Waits until `done` returns true, for ten seconds at the most.
fn soon(what: &str, mut done: impl FnMut() -> bool) -> Result {
    for _ in 0..10_000 {
        if done() {
            return Ok(());
        }
        fsleep(Delta::from_millis(1));
    }
    pr_err!("this never came: {what}\n");
    Err(errno::ETIMEDOUT.into())
}

/// The connections of a test. However it ends, none stays behind: they use work queues of the test.
/// (So a test that has some returns errors, and does not panic.)
struct TestConns(Arc<Conns<Fake>>);

impl Drop for TestConns {
    fn drop(&mut self) {
        super::shutdown(&self.0);
    }
}

/// An attempt to connect, and the peer's socket.
struct Pair {
    conns: TestConns,
    user: Arc<Fake>,
    id: Arc<TestId>,
    peer: TcpSocket,
}

impl Pair {
    /// Makes a pair that TCP has connected; the MPA Request is on its way. `None`: there is no
    /// loopback interface.
    fn new() -> Result<Option<Self>> {
        let dev = Device::new(
            rdma::Protocol::Iwarp,
            [2, 0, 0, 0, 0, 1],
            Arc::new(Workqueues::new()?, GFP_KERNEL)?,
            Arc::new(Keyring::new(c".rsiw_test")?, GFP_KERNEL)?,
        )?;
        let conns = TestConns(Conns::new(&dev)?);
        let net = Namespace::init();
        let to = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
        let listener = TcpSocket::new(&net, Family::of(&to))?;
        if listener.bind(&to).is_err() {
            return Ok(None);
        }
        listener.listen(1)?;
        let remote = listener.local_addr()?;
        let (user, id) = (Fake::new()?, TestId::new()?);
        let route = Route {
            origin: Origin {
                socket: SocketConfig::default(),
                ifindex: None,
                local: to,
                low_port: false,
            },
            remote,
            server: remote.ip(),
        };
        let plan = Plan::new(2, false, false, 0);
        let caller = Caller::Iwcm(id.id());
        let attempt = Attempt::new(caller, (user.clone(), 0), route, (4, 4), &[], plan)?;
        let socket = TcpSocket::new(&net, Family::of(&to))?;
        let order = InOrder::of_listener(&Order::new(Consumer::Kernel)?);
        Conn::start(&conns.0, socket, order, |conn| {
            user.attach(conn, user.life())?;
            conn.socket().connect(&remote)?;
            Ok(Run::new(conn, Party::Attempt(attempt), |seen| {
                Machine::connecting(plan, seen)
            }))
        })?;
        let mut peer = None;
        soon("the connection", || {
            peer = listener.accept().ok().flatten();
            peer.is_some()
        })?;
        Ok(peer.map(|peer| Self {
            conns,
            user,
            id,
            peer,
        }))
    }

    /// Waits for the Request and answers it with the frame that `answer` writes.
    fn reply(
        &self,
        answer: impl FnOnce(Responder, &mut [u8]) -> Result<usize, iwarp::mpa::MpaError>,
    ) -> Result {
        let mut reader = KBox::new(FrameReader::new(FrameKind::Request), GFP_KERNEL)?;
        let mut buf = [0; 64];
        soon("the Request", || {
            let n = reader.want().min(buf.len());
            if let (1.., Ok(Received::Bytes(n))) = (n, self.peer.recv(&mut buf[..n])) {
                let _ = reader.input(&buf[..n]);
            }
            reader.want() == 0
        })?;
        let (responder, _) = reader
            .frame()
            .and_then(|frame| Responder::request(&frame).ok())
            .ok_or(EINVAL)?;
        let mut out = [0; FRAME_MAX];
        let len = answer(responder, &mut out).map_err(|_| EINVAL)?;
        match self.peer.send(&out[..len], None)? {
            Sent::Bytes(n) if n == len => Ok(()),
            _ => Err(EAGAIN),
        }
    }

    fn accept(&self) -> Result {
        self.send_reply()?;
        self.event(TestEvent::ConnectReply(0))
    }

    /// Accepts, and leaves open how the Reply is taken.
    fn send_reply(&self) -> Result {
        let offer = Offer {
            revision: 2,
            crc: true,
            ird: 4,
            ord: 4,
            rtr: RtrSet::EMPTY,
            large_fpdu: false,
            send_immediate: false,
            private_data: &[],
        };
        self.reply(|responder, out| responder.accept(&offer, out).map(|(_, len)| len))
    }

    /// Waits until `event` is the last one that iwcm was given.
    fn event(&self, event: TestEvent) -> Result {
        soon("an event", || {
            self.id
                .events()
                .is_ok_and(|events| events.last() == Some(&event))
        })
    }

    /// Waits for the end of the connection, and checks its reason and that iwcm was given these
    /// events.
    fn ends(self, why: Lost, events: &[TestEvent]) -> Result {
        soon("the end", || self.user.state.lock().lost.is_some())?;
        let Self {
            conns, user, id, ..
        } = self;
        // This waits for the rest of the last step.
        drop(conns);
        check!(user.state.lock().lost == Some(why));
        check!(*id.events()? == *events);
        // No reference to the stand-in or the consumer's identifier is left.
        check!(Arc::into_unique_or_drop(user).is_some());
        check!(Arc::into_unique_or_drop(id).is_some());
        Ok(())
    }
}

#[kunit_tests(rsiw_cm_setup)]
mod tests {
    use super::*;

    /// Terms are agreed on, the user gets the stream, and the peer's FIN ends it in order.
    #[test]
    fn a_connection_from_request_to_fin() -> Result {
        let Some(pair) = Pair::new()? else {
            return Ok(());
        };
        pair.accept()?;
        let params = pair.user.state.lock().params.ok_or(EINVAL)?;
        check!(params.initiator && params.crc && !params.tx_markers);
        check!((params.ird, params.ord) == (4, 4));
        check!(pair.peer.send(&[7; 100], None)? == Sent::Bytes(100));
        soon("data", || pair.user.received.load(Relaxed) == 100)?;
        pair.peer.shutdown_write()?;
        soon("the FIN", || pair.user.eofs.load(Relaxed) > 0)?;
        pair.ends(Lost::Closed, &IN_ORDER)
    }

    /// A user that closes is drained first; then FINs are exchanged.
    #[test]
    fn a_user_that_closes_is_drained() -> Result {
        let Some(pair) = Pair::new()? else {
            return Ok(());
        };
        pair.accept()?;
        let conn = pair.user.state.lock().conn.clone().ok_or(EINVAL)?;
        conn.close(Close::Graceful);
        drop(conn);
        let mut byte = [0];
        soon("our FIN", || pair.peer.recv(&mut byte) == Ok(Received::Eof))?;
        check!(pair.user.state.lock().drains == 1);
        pair.peer.shutdown_write()?;
        pair.ends(Lost::Closed, &IN_ORDER)
    }

    /// A rejection is reported to the consumer, and the user never runs.
    #[test]
    fn a_rejection_is_reported() -> Result {
        let Some(pair) = Pair::new()? else {
            return Ok(());
        };
        pair.reply(|responder, out| responder.reject(b"no", out))?;
        let refused = TestEvent::ConnectReply(errno::ECONNREFUSED.error().to_errno());
        pair.event(refused)?;
        check!(pair.user.state.lock().params.is_none());
        pair.ends(Lost::Handshake, &[refused])
    }

    //= 6581-9.3-1
    /// RFC 6581 section 9.3: a peer that has accepted a user that cannot start is told by a
    /// Terminate of MPA, code 5; then both ends send FINs.
    #[test]
    fn a_user_that_cannot_start_terminates() -> Result {
        let Some(pair) = Pair::new()? else {
            return Ok(());
        };
        pair.user.fails.store(true, Relaxed);
        pair.send_reply()?;
        let failed = TestEvent::ConnectReply(errno::EPROTO.error().to_errno());
        pair.event(failed)?;
        let (mut fpdu, mut have) = ([0; 64], 0);
        soon("a Terminate and our FIN", || {
            match pair.peer.recv(&mut fpdu[have..]) {
                Ok(Received::Bytes(n)) => have += n,
                Ok(Received::Eof) => return true,
                _ => {}
            }
            false
        })?;
        // ULPDU Length, DDP header of queue 2, and the Terminate Control.
        check!(have == 28 && fpdu[..2] == [0, 22] && fpdu[2..4] == [0x41, 0x47]);
        check!(fpdu[20..22] == [0x20, 5]);
        pair.peer.shutdown_write()?;
        pair.ends(Lost::Handshake, &[failed])
    }

    /// A reset ends an established connection, and is reported as one.
    #[test]
    fn a_reset_ends_the_connection() -> Result {
        let Some(pair) = Pair::new()? else {
            return Ok(());
        };
        pair.accept()?;
        pair.peer.abort();
        let reset = TestEvent::Close(errno::ECONNRESET.error().to_errno());
        pair.event(reset)?;
        pair.ends(Lost::Reset, &[TestEvent::ConnectReply(0), reset])
    }

    /// A timer that runs out early is armed again: a later look finds that the process has ended.
    #[test]
    fn an_early_timer_is_not_the_last() -> Result {
        let Some(pair) = Pair::new()? else {
            return Ok(());
        };
        let conn = pair.user.state.lock().conn.clone().ok_or(EINVAL)?;
        // Once the peer has the Request, the stage is, or soon will be, the one that waits for the
        // Reply.
        let mut byte = [0];
        soon("the Request", || {
            pair.peer.recv(&mut byte) == Ok(Received::Bytes(1))
        })?;
        fsleep(Delta::from_millis(50));
        check!(conn.timer.cancel());
        conn.notify(Event::Timeout);
        pair.user.orphaned.store(true, Relaxed);
        drop(conn);
        let aborted = TestEvent::ConnectReply(errno::ECONNABORTED.error().to_errno());
        pair.event(aborted)?;
        pair.ends(Lost::Handshake, &[aborted])
    }
}
