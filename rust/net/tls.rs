// SPDX-License-Identifier: GPL-2.0

//! TLS 1.3 on a socket: records in both directions.
//!
//! The kernel's TLS belongs to a socket: after a [handshake](crate::handshake) the socket's own
//! operations encrypt and decrypt. So [`TcpSocket`] has the same functions with TLS and without,
//! and they look at [`Tls`] once for each call. These differ:
//!
//! - Data is sent and received in process context only.
//! - The stream has records that are no data: alerts and handshake messages. Reading in place stops
//!   in front of one. [`TcpSocket::take_control`] takes it.
//! - The peer says that its stream ends here (`close_notify`). A FIN without it cuts the stream.
//! - A key encrypts so many bytes, and no more. The kernel has no way to agree on new keys for its
//!   own streams, so the stream then ends.
//!
//! C headers: [`include/net/tls.h`](srctree/include/net/tls.h).

use crate::{
    batch::Bytes,
    bindings, errno,
    progress::{chunk, sent, Received, Sent},
    LockedSock, TcpSocket, TxBatch,
};
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicU8, Ordering};
use kernel::{
    error::{to_result, Result},
    prelude::*,
};

/// Record types (RFC 8446, section 5.1).
mod record {
    pub(super) const ALERT: u8 = 21;
    pub(super) const HANDSHAKE: u8 = 22;
    pub(super) const DATA: u8 = 23;
}

/// Numbers of ciphers. C: `TLS_CIPHER_*` in
/// [`include/uapi/linux/tls.h`](srctree/include/uapi/linux/tls.h).
mod cipher {
    pub(super) const AES_CCM_128: u16 = 53;
    pub(super) const CHACHA20_POLY1305: u16 = 54;
}

/// Alerts that are no errors (RFC 8446, section 6).
mod alert {
    pub(super) const CLOSE_NOTIFY: u8 = 0;
    pub(super) const USER_CANCELED: u8 = 90;
}

/// Bytes of records without data that a peer may send, each record counted as [`RECORD`] more. A
/// server's tickets take a few hundred.
const MOST_CONTROL: u32 = 1 << 16;
const RECORD: u32 = 64;

/// The largest payload of a record. A send makes records of that size, and one of the rest.
pub const MAX_RECORD: usize = 1 << 14;

/// The most MiB that a key encrypts. RFC 8446 section 5.5: AES-GCM is as safe as it should be for
/// 2^24.5 full records, which are 362 GiB.
pub const MOST_KEY_MIB: u32 = 360 << 10;

/// What a record counts in addition to its payload: two blocks of the cipher.
const RECORD_BLOCKS: u64 = 32;

/// The state of TLS on a socket.
pub(crate) struct Tls {
    bits: AtomicU32,
    /// Bytes that this end's key has encrypted.
    sent: AtomicU64,
    /// Bytes that the peer's key has encrypted, as far as they were read.
    received: AtomicU64,
    /// How many either may have.
    limit: AtomicU64,
    /// Bytes of records without data so far.
    control: AtomicU32,
}

impl Tls {
    /// Both directions are encrypted. Never cleared.
    const ON: u32 = 1 << 0;
    /// The next record has no data, so reading has stopped.
    const CONTROL: u32 = 1 << 1;
    /// A thread takes that record.
    const TAKING: u32 = 1 << 2;
    /// The peer's `close_notify` was read.
    const CLOSED: u32 = 1 << 3;
    /// The peer's FIN was read.
    const FIN: u32 = 1 << 4;
    /// This end's `close_notify` is with TLS.
    const NOTIFIED: u32 = 1 << 5;

    pub(crate) const fn new() -> Self {
        Self {
            bits: AtomicU32::new(0),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            limit: AtomicU64::new(u64::MAX),
            control: AtomicU32::new(0),
        }
    }

    #[inline]
    fn any(&self, bits: u32) -> bool {
        self.bits.load(Ordering::Acquire) & bits != 0
    }

    fn set(&self, bits: u32) {
        self.bits.fetch_or(bits, Ordering::Release);
    }

    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.any(Self::ON)
    }

    /// Whether a key has encrypted as many bytes as it may. Others that use it at this moment may
    /// exceed the limit by what they have in hand.
    fn is_used_up(&self, bytes: &AtomicU64) -> bool {
        bytes.load(Ordering::Relaxed) >= self.limit.load(Ordering::Relaxed)
    }
}

/// The bytes that a key of that cipher may encrypt, and of which `mib` are allowed.
fn key_limit(cipher: u16, mib: u32) -> u64 {
    let mib = match cipher {
        // Its sequence numbers would wrap first (RFC 8446 section 5.5).
        cipher::CHACHA20_POLY1305 => return u64::MAX,
        // It encrypts each block twice (RFC 9147 section 4.5.3: 2^23 records).
        cipher::AES_CCM_128 => mib.min(MOST_KEY_MIB / 3),
        _ => mib.min(MOST_KEY_MIB),
    };
    u64::from(mib) << 20
}

type Chunk = unsafe extern "C" fn(*mut c_void, *const u8, usize) -> usize;

/// A closure as the context of a C function, and that function.
fn with_chunk<F: FnMut(&[AtomicU8]) -> usize>(take: &mut F) -> (*mut F, Chunk) {
    (take, chunk::<F>)
}

impl TcpSocket {
    /// Whether the stream is one of TLS. Context: any.
    #[inline]
    pub fn is_secure(&self) -> bool {
        self.tls().is_on()
    }

    /// Begins to use TLS, after a handshake on this socket has ended well. A key encrypts up to
    /// `key_mib` MiB, and less if its cipher wants that. Errors: `EPROTO` if the socket has no keys
    /// of TLS 1.3 for both directions. Sleeping.
    pub fn secure(&self, key_mib: u32) -> Result {
        let sk = self.lock();
        // SAFETY: `sk` proves that the socket is locked.
        if !unsafe { bindings::ksock_tls_is_on(sk.as_ptr()) } {
            return Err(errno::EPROTO.into());
        }
        // SAFETY: As above, and TLS is on.
        let cipher = unsafe { bindings::ksock_tls_cipher(sk.as_ptr()) };
        let limit = key_limit(cipher, key_mib);
        self.tls().limit.store(limit, Ordering::Relaxed);
        self.tls().set(Tls::ON);
        Ok(())
    }

    /// Whether this end's key has encrypted all that it may, so that nothing can be sent any more.
    /// Context: any.
    pub fn key_is_used_up(&self) -> bool {
        self.is_secure() && self.tls().is_used_up(&self.tls().sent)
    }

    /// Whether it was the peer that has ended its stream. A FIN can come from anybody on the path.
    /// With TLS: `close_notify` came before the FIN. Context: any.
    pub fn eof_is_trusted(&self) -> bool {
        !self.is_secure() || self.tls().any(Tls::CLOSED)
    }

    /// Whether all that was received was read, and the peer's end of the stream with it. Context:
    /// any.
    #[inline]
    pub fn at_eof(&self, sk: &LockedSock) -> bool {
        if self.is_secure() {
            self.tls().any(Tls::CLOSED | Tls::FIN)
        } else {
            sk.at_eof()
        }
    }

    /// Errors: also `EDQUOT`: the key is used up.
    pub(crate) fn tls_send(&self, bytes: &[u8]) -> Result<Sent> {
        self.encrypt(|| {
            // SAFETY: `self` owns the socket, and `bytes` are valid for reads of their length.
            unsafe { bindings::ksock_tls_send(self.sk(), bytes.as_ptr().cast(), bytes.len()) }
        })
    }

    /// Sends by `send`, if the key may encrypt more.
    fn encrypt(&self, send: impl FnOnce() -> c_int) -> Result<Sent> {
        if self.key_is_used_up() {
            return Err(errno::EDQUOT.into());
        }
        let sent = match sent(send()) {
            // TLS allocates each record. It has taken nothing.
            Err(e) if e == ENOMEM => Sent::WouldBlock,
            sent => sent?,
        };
        if let Sent::Bytes(n) = sent {
            // CAST: `usize` is not larger than `u64`.
            let records = (n / MAX_RECORD + 1) as u64;
            let bytes = n as u64 + records * RECORD_BLOCKS;
            self.tls().sent.fetch_add(bytes, Ordering::Relaxed);
        }
        Ok(sent)
    }

    /// As [`TcpSocket::send_batch`]: TLS encrypts from the pages.
    pub(crate) fn tls_send_batch(&self, batch: &TxBatch) -> Result<Sent> {
        match batch.bytes() {
            Bytes::Small([]) | Bytes::Pages([]) => Err(EINVAL),
            Bytes::Small(bytes) => self.tls_send(bytes),
            Bytes::Pages(spans) => {
                let count = u32::try_from(spans.len()).map_err(|_| EINVAL)?;
                let spans = spans.as_ptr().cast();
                self.encrypt(|| {
                    // SAFETY: `self` owns the socket. A `PageSpan` has the layout of a `bio_vec`,
                    // and a reference to its page, to whose bytes nobody writes as long as others
                    // have references. Together the spans have `batch.len()` bytes.
                    unsafe { bindings::ksock_tls_send_pages(self.sk(), spans, count, batch.len()) }
                })
            }
        }
    }

    /// As [`TcpSocket::recv`]; records without data are taken on the way.
    pub(crate) fn tls_recv(&self, bytes: &mut [u8]) -> Result<Received> {
        loop {
            // The loop is bounded: `control_record` fails when the peer has sent too many.
            if self.tls().any(Tls::CLOSED | Tls::FIN) {
                return Ok(Received::Eof);
            }
            match self.tls_recv_some(bytes)? {
                (Received::Bytes(n), kind) if kind != record::DATA => {
                    self.control_record(kind, bytes.get(..n).unwrap_or_default())?;
                }
                (received, _) => return Ok(received),
            }
        }
    }

    /// Receives bytes of one record; returns its type, too.
    fn tls_recv_some(&self, bytes: &mut [u8]) -> Result<(Received, u8)> {
        let (start, mut kind) = (bytes.as_mut_ptr().cast(), 0);
        // SAFETY: `self` owns the socket, `bytes` are valid for writes of their length, and `kind`
        // for a write.
        let ret = unsafe { bindings::ksock_tls_recv(self.as_ptr(), start, bytes.len(), &mut kind) };
        match to_result(ret) {
            Ok(()) if ret == 0 => {
                self.tls().set(Tls::FIN);
                Ok((Received::Eof, 0))
            }
            Ok(()) => Ok((Received::Bytes(usize::try_from(ret).unwrap_or(0)), kind)),
            Err(e) if e == EAGAIN => Ok((Received::WouldBlock, 0)),
            Err(e) => Err(e),
        }
    }

    /// Acts on bytes of a record without data.
    ///
    /// # Errors
    ///
    /// `EACCES`: the peer does not accept what this end is. `ECONNABORTED`: it ends the stream for
    /// another error. `EPROTO`: it breaks the protocol, or sends too many such records.
    fn control_record(&self, kind: u8, bytes: &[u8]) -> Result {
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let add = len.saturating_add(RECORD);
        if self.tls().control.fetch_add(add, Ordering::Relaxed) > MOST_CONTROL {
            return Err(errno::EPROTO.into());
        }
        match kind {
            record::ALERT => self.alert(bytes),
            // Tickets, which this end never uses. New keys need no look: the kernel tells of them
            // by `EKEYEXPIRED` from now on.
            record::HANDSHAKE => Ok(()),
            _ => Err(errno::EPROTO.into()),
        }
    }

    fn alert(&self, bytes: &[u8]) -> Result {
        let description = match bytes {
            [_level, description, ..] => *description,
            // There was room for the level only.
            _ => {
                let mut rest = [0; 1];
                match self.tls_recv_some(&mut rest)? {
                    (Received::Bytes(1), record::ALERT) => rest[0],
                    _ => return Err(errno::EPROTO.into()),
                }
            }
        };
        match description {
            alert::CLOSE_NOTIFY => {
                self.tls().set(Tls::CLOSED);
                Ok(())
            }
            alert::USER_CANCELED => Ok(()),
            // Certificates (42 to 46), unknown CA, access denied, unknown PSK, none at all.
            42..=46 | 48 | 49 | 115 | 116 => Err(EACCES),
            _ => Err(errno::ECONNABORTED.into()),
        }
    }

    /// As [`LockedSock::read`], of the data in the records; sleeps. Stops in front of a record
    /// without data, for [`TcpSocket::take_control`]. Where TLS has no memory for a record that has
    /// come, `data_ready` is called in a while.
    ///
    /// TLS lets one thread read at a time. If another one is in the middle of that, it releases the
    /// socket's lock for a moment, takes it again, and reads nothing. `take` is always called with
    /// the lock held.
    ///
    /// Errors: the stream is broken. `EKEYEXPIRED`: the peer has changed its key, and the kernel
    /// cannot follow. `EDQUOT`: the peer has not, and its key is used up. `EINVAL`: `sk` is another
    /// socket.
    pub(crate) fn tls_read<F: FnMut(&[AtomicU8]) -> usize>(
        &self,
        sk: &mut LockedSock,
        mut take: F,
    ) -> Result<usize> {
        if sk.as_ptr() != self.sk() {
            return Err(EINVAL);
        }
        let (tls, mut total) = (self.tls(), 0);
        let mut counted = |bytes: &[AtomicU8]| {
            let n = take(bytes);
            // CAST: `usize` is not larger than `u64`.
            let count = n as u64 + RECORD_BLOCKS;
            tls.received.fetch_add(count, Ordering::Relaxed);
            n
        };
        let (ctx, chunk) = with_chunk(&mut counted);
        loop {
            // The loop is bounded: by what has come, and by `take`, where more comes meanwhile.
            if tls.any(Tls::CLOSED | Tls::FIN | Tls::CONTROL | Tls::TAKING) {
                return Ok(total);
            }
            if tls.is_used_up(&tls.received) {
                return Err(errno::EDQUOT.into());
            }
            let mut stopped = false;
            // SAFETY: `sk` is this socket, as was looked at above, so it stays and has a `socket`.
            // By the type invariant it is locked. `ctx` points to this function's `counted`, which
            // nobody else uses during the call. `chunk` gets bytes that TLS has decrypted to memory
            // of its own, which nobody changes, and which stay until `chunk` returns.
            let ret = unsafe {
                bindings::ksock_tls_read(sk.as_ptr(), ctx.cast(), Some(chunk), &mut stopped)
            };
            // The lock may have been released, and another thread's `LockedSock` in use, which was
            // marked, and then the mark removed. From here on `sk` is the one in use again.
            // SAFETY: The lock is held again.
            unsafe { self.hook_slot().set_busy() };
            match usize::try_from(ret) {
                Ok(0) if !stopped => tls.set(Tls::FIN),
                Ok(n) => total += n,
                Err(_) => match Error::from_errno(ret) {
                    e if e == EAGAIN => return Ok(total),
                    e if e == EINVAL => tls.set(Tls::CONTROL),
                    e => return Err(e),
                },
            }
            if stopped {
                return Ok(total);
            }
        }
    }

    /// Takes the record without data in front of which reading has stopped. Returns true if there
    /// was one: the caller then reads again. If another thread takes it, that one does. Sleeping;
    /// not to be called with the socket locked.
    ///
    /// Errors: as of reading; `EACCES`, `ECONNABORTED`: the peer has sent such an alert.
    pub fn take_control(&self) -> Result<bool> {
        let tls = self.tls();
        let taken = tls
            .bits
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |bits| {
                (bits & Tls::CONTROL != 0).then_some(bits & !Tls::CONTROL | Tls::TAKING)
            });
        if taken.is_err() {
            return Ok(false);
        }
        let mut bytes = [0; 128];
        let done = match self.tls_recv_some(&mut bytes) {
            Ok((Received::Bytes(n), kind)) if kind != record::DATA => {
                self.control_record(kind, bytes.get(..n).unwrap_or_default())
            }
            // The reason to stop was no such record but a bad header: the kernel's error for both
            // is `EINVAL`.
            Ok(_) => Err(errno::EBADMSG.into()),
            Err(e) => Err(e),
        };
        tls.bits.fetch_and(!Tls::TAKING, Ordering::Release);
        done.map(|()| true)
    }

    /// As [`TcpSocket::shutdown_write`]: `close_notify`, and behind it the FIN. Errors: also
    /// `EAGAIN` while TCP has no room for it, or for records before it; to be called again then.
    pub(crate) fn tls_shutdown_write(&self) -> Result {
        if !self.tls().any(Tls::NOTIFIED) {
            // SAFETY: `self` owns the socket, and TLS is on.
            to_result(unsafe { bindings::ksock_tls_close_notify(self.sk()) })?;
            self.tls().set(Tls::NOTIFIED);
        }
        let sk = self.lock();
        // SAFETY: `sk` proves that the socket is locked.
        if unsafe { bindings::ksock_tls_is_behind(sk.as_ptr()) } {
            // A FIN would cut off what TCP has not taken.
            Err(EAGAIN)
        } else {
            Ok(())
        }
    }
}

#[kunit_tests(rsiw_net_tls)]
mod tests {
    use super::*;
    use crate::{Family, Namespace};

    const AES_GCM_256: u16 = 52;

    #[test]
    fn a_key_has_the_limit_of_its_cipher() {
        for (cipher, mib, limit) in [
            (AES_GCM_256, 1, 1 << 20),
            (AES_GCM_256, MOST_KEY_MIB, 360 << 30),
            (AES_GCM_256, u32::MAX, 360 << 30),
            (cipher::AES_CCM_128, 1, 1 << 20),
            (cipher::AES_CCM_128, MOST_KEY_MIB, 120 << 30),
            (cipher::CHACHA20_POLY1305, 1, u64::MAX),
        ] {
            assert_eq!(key_limit(cipher, mib), limit);
        }
    }

    #[test]
    fn reading_takes_the_lock_of_its_own_socket() -> Result {
        let socket = || TcpSocket::new(&Namespace::init(), Family::V4);
        let (secure, other) = (socket()?, socket()?);
        secure.tls().set(Tls::ON);
        assert_eq!(
            secure.read(&mut other.lock(), <[AtomicU8]>::len),
            Err(EINVAL)
        );
        Ok(())
    }

    #[test]
    fn the_limit_is_below_that_of_the_rfc() {
        // 2^24.5 records of 2^14 bytes, squared.
        let bytes = u128::from(key_limit(AES_GCM_256, MOST_KEY_MIB));
        assert!(bytes * bytes < 1 << 77);
    }
}
