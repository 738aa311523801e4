// SPDX-License-Identifier: GPL-2.0

//! Atomic operations on a region (RFC 7306 section 5).
//!
//! They are atomic also against local processors, which the RFC leaves open: processors' own atomic
//! instructions execute them, wherever the page of the word is mapped.

use super::MemError;
use iwarp::rdmap::{AtomicOp, ATOMIC_LEN};
use kernel::prelude::*;
use rdma::{ring::Word, Memory};

/// How often an operation tries to replace a word that local processors change at the same time.
/// One that changes it all the time, to hold up the caller, finds the word in another cache.
const TRIES: u32 = 4096;

//= 7306-5.1.1-2b, 7306-5.1.2-3a, 7306-5.1.2-3b, 7306-8.2-6
/// Executes `op` on the word at `offset` of `memory`, and returns the value before. Context: any.
///
/// # Errors
///
/// `Bounds`, `Access` for memory that is pinned for reading, `Misaligned`, `Busy`.
pub(super) fn execute(memory: &impl Memory, offset: u64, op: AtomicOp) -> Result<u64, MemError> {
    let span = memory.span(offset, ATOMIC_LEN as usize);
    let word = span.and_then(|span| span.word()).map_err(|e| match e {
        EINVAL => MemError::Misaligned,
        EACCES => MemError::Access,
        _ => MemError::Bounds,
    })?;
    replace(word, op).ok_or(MemError::Busy)
}

//= 7306-5-1, 7306-5-2, 7306-5.1.1-5, 7306-5.3-1, 7306-5.4-2a, 7306-5.4-2b
fn replace(word: Word<'_, u64>, op: AtomicOp) -> Option<u64> {
    match op {
        AtomicOp::FetchAdd { add, mask: 0 } => return Some(word.fetch_add(add)),
        AtomicOp::Write { bytes } => return Some(word.swap(u64::from_ne_bytes(bytes))),
        _ => {}
    }
    let mut old = word.load_relaxed();
    for _ in 0..TRIES {
        match word.compare_exchange(old, op.apply(old)) {
            Ok(_) => return Some(old),
            Err(now) => old = now,
        }
    }
    None
}
