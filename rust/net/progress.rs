// SPDX-License-Identifier: GPL-2.0

//! What comes out of a send or a receive, and the function by which C passes on received bytes.

use core::sync::atomic::AtomicU8;
use kernel::{
    error::{to_result, Result},
    prelude::*,
};

/// The result of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// TCP took this many bytes: at least one, possibly fewer than it was offered.
    Bytes(usize),
    /// TCP has no room. [`SockCallbacks::write_space`] is called when it has.
    ///
    /// [`SockCallbacks::write_space`]: crate::SockCallbacks::write_space
    WouldBlock,
}

/// The result of a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// This many bytes were received, at least one.
    Bytes(usize),
    /// Nothing has arrived yet.
    WouldBlock,
    /// The stream has ended with the peer's FIN.
    Eof,
}

#[inline]
pub(crate) fn sent(ret: c_int) -> Result<Sent> {
    match usize::try_from(ret) {
        // TCP never takes 0 bytes of a send. If it did, a caller that sends in a loop would spin.
        Ok(0) => return Err(EIO),
        Ok(n) => return Ok(Sent::Bytes(n)),
        Err(_) => {}
    }
    match to_result(ret) {
        Err(e) if e != EAGAIN => Err(e),
        _ => Ok(Sent::WouldBlock),
    }
}

/// # Safety
///
/// `ctx` must point to an `F` that nobody else uses. `data` must point to `len` bytes that
/// are valid for reads. Both for the time of the call.
pub(crate) unsafe extern "C" fn chunk<F: FnMut(&[AtomicU8]) -> usize>(
    ctx: *mut c_void,
    data: *const u8,
    len: usize,
) -> usize {
    // SAFETY: By the contract of this function nobody else uses the `F` at `ctx`.
    let take = unsafe { &mut *ctx.cast::<F>() };
    // SAFETY: By the contract of this function `len` bytes at `data` are valid for reads, and any
    // value of them is an `AtomicU8`. Others may write to them meanwhile: a process to pages that
    // it has spliced into a socket of this host, or sends with `MSG_ZEROCOPY`, and a device by DMA
    // to such pages. A slice of atomics allows that. Users of `take` do not store by it, as the
    // contract of `LockedSock::read` says.
    let data = unsafe { core::slice::from_raw_parts(data.cast::<AtomicU8>(), len) };
    take(data).min(len)
}
