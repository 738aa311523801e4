// SPDX-License-Identifier: GPL-2.0

//! Two sockets of this kernel, connected over the loopback interface, and what they say to each
//! other.

use super::{fill, pattern, scribble, spans};
use crate::{
    bindings, errno, page_ref::PageRef, Family, ListenCallbacks, LockedSock, Namespace, PagePool,
    PageSpan, Received, Released, Sent, SockCallbacks, SockCell, TcpSocket, TcpState, TxBatch,
};
use core::{
    net::SocketAddr,
    num::NonZeroUsize,
    sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::Relaxed},
};
use kernel::{
    page::PAGE_SIZE,
    prelude::*,
    sync::{Arc, ArcBorrow},
    time::{delay::fsleep, Delta},
};

/// Waits for an event: for two minutes, as a machine that emulates this one may stop for seconds.
fn soon(what: &str, mut done: impl FnMut() -> bool) -> Result {
    for _ in 0..120_000 {
        if done() {
            return Ok(());
        }
        fsleep(Delta::from_millis(1));
    }
    pr_err!("this never came: {}\n", what);
    Err(errno::ETIMEDOUT.into())
}

/// The number of objects dropped so far.
static DROPPED: AtomicU32 = AtomicU32::new(0);

/// One end of a connection.
struct End {
    rx: SockCell<Rx>,
    received: AtomicU64,
    spaces: AtomicU32,
    released: AtomicU32,
    error: AtomicI32,
    eof: AtomicU32,
}

struct Rx {
    next: u64,
    wrong: u64,
    /// Bytes of the longest piece that was contiguous.
    longest: usize,
    stop_at: u64,
    /// Bytes to reply with whenever something came, and the number of such bytes so far.
    reply: usize,
    replied: u64,
}

impl End {
    fn new() -> Result<Arc<Self>> {
        let end = Self {
            rx: SockCell::new(Rx {
                next: 0,
                wrong: 0,
                longest: 0,
                stop_at: u64::MAX,
                reply: 0,
                replied: 0,
            }),
            received: AtomicU64::new(0),
            spaces: AtomicU32::new(0),
            released: AtomicU32::new(0),
            error: AtomicI32::new(0),
            eof: AtomicU32::new(0),
        };
        Ok(Arc::new(end, GFP_KERNEL)?)
    }

    fn receive(&self, sk: &mut LockedSock) {
        let taken = sk.read_into(&self.rx, |rx, chunk| {
            let room = usize::try_from(rx.stop_at - rx.next).unwrap_or(usize::MAX);
            let n = chunk.len().min(room);
            rx.longest = rx.longest.max(chunk.len());
            for byte in &chunk[..n] {
                rx.wrong += u64::from(byte.load(Relaxed) != pattern(rx.next));
                rx.next += 1;
            }
            n
        });
        let taken = taken.unwrap_or(0);
        self.received.fetch_add(taken as u64, Relaxed);
        if taken != 0 && self.reply(sk).is_err() {
            self.error.store(EIO.to_errno(), Relaxed);
        }
        if sk.at_eof() {
            self.eof.store(1, Relaxed);
        }
    }

    /// Sends from within the callback.
    fn reply(&self, sk: &mut LockedSock) -> Result {
        let Some(&Rx { reply, replied, .. }) = self.rx.get(sk) else {
            return Ok(());
        };
        if reply == 0 {
            return Ok(());
        }
        let (mut batch, mut at) = (TxBatch::new(None), replied);
        batch.set_atomic(true);
        batch.begin(reply);
        fill(&mut batch, &mut at, reply)?;
        check!(sk.send_batch(&mut batch)? == Sent::Bytes(reply));
        self.rx.get_mut(sk).ok_or(EINVAL)?.replied = at;
        Ok(())
    }

    /// Receives up to position `at` of the stream and no further.
    fn stop_at(&self, socket: &TcpSocket, at: u64) -> Result {
        let mut sk = socket.lock();
        self.rx.get_mut(&mut sk).ok_or(EINVAL)?.stop_at = at;
        self.receive(&mut sk);
        Ok(())
    }

    fn wrong(&self, socket: &TcpSocket) -> Result<u64> {
        let sk = socket.lock();
        Ok(self.rx.get(&sk).ok_or(EINVAL)?.wrong)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, Relaxed);
    }
}

impl SockCallbacks for End {
    fn data_ready(this: ArcBorrow<'_, Self>, sk: &mut LockedSock) {
        this.receive(sk);
    }

    fn write_space(this: ArcBorrow<'_, Self>) {
        this.spaces.fetch_add(1, Relaxed);
    }

    fn state_change(_this: ArcBorrow<'_, Self>, _state: TcpState) {}

    fn error_report(this: ArcBorrow<'_, Self>, reason: Error) {
        this.error.store(reason.to_errno(), Relaxed);
    }

    fn released(this: ArcBorrow<'_, Self>) {
        this.released.fetch_add(1, Relaxed);
    }
}

struct Door(AtomicU32);

impl ListenCallbacks for Door {
    fn ready(this: ArcBorrow<'_, Self>) {
        this.0.fetch_add(1, Relaxed);
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, Relaxed);
    }
}

/// A connection with callbacks at both ends.
pub(super) struct Pair {
    client: TcpSocket,
    server: TcpSocket,
    at_client: Arc<End>,
    at_server: Arc<End>,
    pool: Option<Arc<PagePool>>,
}

impl Pair {
    /// `None` if there is no loopback interface.
    pub(super) fn new(to: &SocketAddr, pool: Option<&Arc<PagePool>>) -> Result<Option<Self>> {
        let net = Namespace::init();
        let dropped = DROPPED.load(Relaxed);
        let listener = TcpSocket::new(&net, Family::of(to))?;
        if let Err(e) = listener.bind(to) {
            pr_info!("no loopback: {}\n", e.to_errno());
            return Ok(None);
        }
        listener.listen(1)?;
        let door = Arc::new(Door(AtomicU32::new(0)), GFP_KERNEL)?;
        listener.attach_listener(door.clone())?;
        check!(listener.accept()?.is_none());
        let to = listener.local_addr()?;

        let client = TcpSocket::new(&net, Family::of(&to))?;
        let at_client = End::new()?;
        client.attach(at_client.clone())?;
        check!(client.attach(at_client.clone()).is_err());
        if client.connect(&to).is_err() {
            return Ok(None);
        }
        soon("connection", || client.state() == TcpState::Established)?;
        soon("knock", || door.0.load(Relaxed) > 0)?;
        let server = listener.accept()?.ok_or(EAGAIN)?;
        check!(server.local_addr()? == to);
        check!(server.peer_addr()? == client.local_addr()?);
        check!(client.mss() > 500);

        // As a handshake receives: exactly 6 bytes, while more have come.
        check!(client.send(b"hello world!", pool.map(|pool| &**pool))? == Sent::Bytes(12));
        let mut word = [0; 6];
        soon("word", || server.recv(&mut word) == Ok(Received::Bytes(6)))?;
        check!(&word == b"hello ");
        check!(server.recv(&mut word)? == Received::Bytes(6));
        check!(&word == b"world!");
        check!(server.recv(&mut word)? == Received::WouldBlock);

        let at_server = End::new()?;
        server.attach(at_server.clone())?;
        at_client.rx.claim(&mut client.lock())?;
        at_server.rx.claim(&mut server.lock())?;
        check!(at_client.rx.claim(&mut server.lock()).is_err());
        check!(at_client.rx.get_mut(&mut server.lock()).is_none());

        // Releasing a listener drops its callbacks, but not the sockets it accepted.
        drop(listener);
        check!(DROPPED.load(Relaxed) == dropped);
        drop(door);
        check!(DROPPED.load(Relaxed) == dropped + 1);
        Ok(Some(Self {
            client,
            server,
            at_client,
            at_server,
            pool: pool.cloned(),
        }))
    }

    /// Sends `total` bytes from client to server, in batches of all sizes; every other 512 KiB are
    /// aligned to segments. Pages are used again, and between the bytes lie some that must not be
    /// sent.
    pub(super) fn stream(&self, total: u64) -> Result<u64> {
        let mut batch = TxBatch::new(self.pool.clone());
        let (mut at, mut rest, mut large_pages) = (0, total, false);
        let mut seed = 1u64;
        while rest > 0 || !batch.is_empty() {
            if batch.is_empty() {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let most = if seed >> 62 == 0 { 300 } else { 65536 };
                let n = (1 + (seed >> 33) % most).min(rest) as usize;
                let segment = match at >> 19 & 1 {
                    0 => None,
                    _ => NonZeroUsize::new(self.client.mss() as usize),
                };
                let segment_offset = batch.align_to(segment, self.client.unsent());
                check!(segment_offset < segment.map_or(1, NonZeroUsize::get));
                batch.begin(n);
                for piece in (0..n).step_by(1460) {
                    let some = (n - piece).min(1460);
                    scribble(&mut batch, some, true)?;
                    // Each of these leaves a gap, and begins another span.
                    if piece % (16 * 1460) == 0 {
                        scribble(&mut batch, some, false)?;
                    }
                    fill(&mut batch, &mut at, some)?;
                }
                rest -= n as u64;
                check!(batch.len() == n && spans(&batch).len() <= TxBatch::MAX_SPANS);
                large_pages |= spans(&batch).iter().any(|span| span.len() > PAGE_SIZE);
            }
            match self.client.send_batch(&mut batch)? {
                Sent::Bytes(n) => batch.consume(n),
                Sent::WouldBlock => fsleep(Delta::from_micros(200)),
            }
        }
        soon("all of it", || self.at_server.received.load(Relaxed) == at)?;
        check!(self.at_server.wrong(&self.server)? == 0);
        // Pages that touch each other in the sender's memory are one piece to the receiver.
        let sk = self.server.lock();
        let longest = self.at_server.rx.get(&sk).map_or(0, |rx| rx.longest);
        check!(longest > PAGE_SIZE || !large_pages);
        Ok(at)
    }

    /// Sends a page between other bytes, and overwrites it when TCP has released it, before the
    /// server reads.
    pub(super) fn lend(&self, mut at: u64) -> Result<u64> {
        self.at_server.stop_at(&self.server, at)?;
        let page = PageRef::alloc(false)?;
        // SAFETY: We have a reference to the page, which is lowmem.
        let start = unsafe { bindings::ksock_page_address(page.as_ptr()) }.cast::<u8>();
        let write = |byte: &mut dyn FnMut() -> u8| {
            for i in 0..PAGE_SIZE {
                // SAFETY: The page has so many bytes at least. TCP, which may have a reference,
                // has released them, or does not know of them yet.
                unsafe { start.add(i).write_volatile(byte()) };
            }
        };
        let mut batch = TxBatch::new(self.pool.clone());
        let mut released = Released::default();
        for round in 0..20 {
            batch.begin(1000);
            fill(&mut batch, &mut at, 20)?;
            write(&mut || {
                at += 1;
                pattern(at - 1)
            });
            // SAFETY: The page is ours.
            let span = unsafe { PageSpan::of_kernel(start as usize, PAGE_SIZE) };
            batch.refer(span.ok_or(EINVAL)?)?;
            fill(&mut batch, &mut at, 7)?;
            check!(batch.refers() && spans(&batch).len() == 3);
            check!(self.client.send_batch(&mut batch)? == Sent::Bytes(PAGE_SIZE + 27));
            batch.consume(PAGE_SIZE + 27);
            check!(!batch.refers() && self.client.referred() == round + 1);
            soon("the release", || {
                while let Some((first, last)) = self.client.next_released() {
                    if released.note(first, last).is_err() {
                        return false;
                    }
                }
                released.all_before() == round + 1
            })?;
            write(&mut || 0xee);
        }
        check!(self.at_client.released.load(Relaxed) != 0);
        self.at_server.stop_at(&self.server, u64::MAX)?;
        soon("all of it", || self.at_server.received.load(Relaxed) == at)?;
        check!(self.at_server.wrong(&self.server)? == 0);
        Ok(at)
    }

    /// Sends a byte at a time, which the other end answers from within its callback.
    pub(super) fn replies(&self) -> Result {
        let (mut asked, mut back) = (0, 0);
        for len in [1, 2, 192, 193, 1448, 10_000, 40_000] {
            {
                let mut sk = self.server.lock();
                let rx = self.at_server.rx.get_mut(&mut sk).ok_or(EINVAL)?;
                rx.reply = len;
            }
            for _ in 0..10 {
                check!(self.client.send(&[pattern(asked)], None)? == Sent::Bytes(1));
                asked += 1;
                back += len as u64;
                soon("the reply", || {
                    self.at_client.received.load(Relaxed) == back
                        || self.at_server.error.load(Relaxed) != 0
                })?;
            }
        }
        check!(self.at_server.error.load(Relaxed) == 0);
        check!(
            self.at_client.wrong(&self.client)? == 0 && self.at_server.wrong(&self.server)? == 0
        );
        Ok(())
    }

    /// Sends until there is no room, as nobody receives; then lets the server receive.
    pub(super) fn back_pressure(&self, mut at: u64) -> Result<u64> {
        self.at_server.stop_at(&self.server, at)?;
        let mut batch = TxBatch::new(self.pool.clone());
        let (mut full, mut shared) = (0, false);
        while full < 3 {
            if batch.is_empty() {
                // Short batches first, so that a segment is open when the window is full.
                let n = if self.client.unsent() < 100_000 {
                    3000
                } else {
                    60_000
                };
                let segment = NonZeroUsize::new(self.client.mss() as usize);
                shared |= batch.align_to(segment, self.client.unsent()) != 0;
                batch.begin(n);
                fill(&mut batch, &mut at, n)?;
            }
            match self.client.send_batch(&mut batch)? {
                Sent::Bytes(n) => {
                    batch.consume(n);
                    full = 0;
                }
                Sent::WouldBlock => {
                    fsleep(Delta::from_millis(100));
                    // The answer to a probe of the window may have TCP enlarge the send buffer.
                    full = if self.client.writable() { 0 } else { full + 1 };
                }
            }
        }
        check!(shared);
        let spaces = self.at_client.spaces.load(Relaxed);
        self.at_server.stop_at(&self.server, u64::MAX)?;
        soon("room", || self.at_client.spaces.load(Relaxed) > spaces)?;
        while !batch.is_empty() {
            if let Sent::Bytes(n) = self.client.send_batch(&mut batch)? {
                batch.consume(n);
            }
        }
        soon("the rest", || self.at_server.received.load(Relaxed) == at)?;
        check!(self.at_server.wrong(&self.server)? == 0);
        Ok(at)
    }

    /// Both ends send a FIN, one after the other.
    pub(super) fn half_close(self) -> Result {
        let dropped = DROPPED.load(Relaxed);
        self.client.shutdown_write()?;
        soon("FIN", || self.at_server.eof.load(Relaxed) == 1)?;
        check!(self.at_client.eof.load(Relaxed) == 0);
        check!(self.server.send(&[pattern(0)], None)? == Sent::Bytes(1));
        soon("a byte against the FIN", || {
            self.at_client.received.load(Relaxed) == 1
        })?;
        self.server.shutdown_write()?;
        soon("the other FIN", || self.at_client.eof.load(Relaxed) == 1)?;
        check!(DROPPED.load(Relaxed) == dropped);
        drop(self);
        check!(DROPPED.load(Relaxed) == dropped + 2);
        Ok(())
    }

    /// The server sends a reset.
    pub(super) fn reset(self) -> Result {
        self.server.detach();
        self.server.detach();
        self.server.abort();
        soon("reset", || self.at_client.error.load(Relaxed) != 0)?;
        check!(self.client.state() == TcpState::Closed);
        check!(self
            .client
            .take_error()
            .is_some_and(|e| e == errno::ECONNRESET));
        check!(self.client.send(b"x", None).is_err());
        Ok(())
    }
}
