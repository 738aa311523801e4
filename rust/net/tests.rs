// SPDX-License-Identifier: GPL-2.0

//! KUnit suite: batches alone, and two sockets of this kernel, connected over the loopback
//! interface. Where that is down, as it is until somebody configures it, those tests do nothing.

use crate::{addr, Bytes, PagePool, PageSpan, TxBatch};
use core::net::SocketAddr;
use kernel::{prelude::*, sync::Arc};
use pair::Pair;

/// Fails the test and logs the line.
macro_rules! check {
    ($what:expr) => {
        if !$what {
            pr_err!("line {}: {}\n", line!(), stringify!($what));
            return Err(EINVAL);
        }
    };
}

mod pair;

/// The byte at position `at` of every test stream.
fn pattern(at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// The batch's spans; none if its bytes are not in pages.
fn spans(batch: &TxBatch) -> &[PageSpan] {
    match batch.bytes() {
        Bytes::Pages(spans) => spans,
        Bytes::Small(_) => &[],
    }
}

/// Reserves the next `n` bytes of the batch, in one piece if possible, and has `write` write each
/// piece, which returns whether to append it.
fn pieces(batch: &mut TxBatch, n: usize, mut write: impl FnMut(&mut [u8]) -> bool) -> Result {
    let mut left = n;
    while left > 0 {
        // (A piece that is not in one piece is tried again, so that there is only one borrow.)
        let mut room = if batch.reserve(left).is_some() {
            batch.reserve(left).ok_or(EINVAL)?
        } else {
            batch.reserve_up_to(left)?
        };
        left -= room.len();
        if write(room.bytes()) {
            room.commit();
        }
    }
    Ok(())
}

/// Appends the next `n` bytes of a stream, which is at position `*at`.
fn fill(batch: &mut TxBatch, at: &mut u64, n: usize) -> Result {
    pieces(batch, n, |to| {
        for byte in to {
            *byte = pattern(*at);
            *at += 1;
        }
        true
    })
}

/// Writes `n` bytes that must never be sent: the last piece is not appended, or all are rolled
/// back.
fn scribble(batch: &mut TxBatch, n: usize, fails: bool) -> Result {
    let mark = batch.len();
    let mut done = 0;
    pieces(batch, n, |to| {
        to.fill(0xee);
        done += to.len();
        !(fails && done == n)
    })?;
    check!(done == n && (batch.len() == mark + n) == !fails);
    batch.rollback(mark);
    check!(batch.len() == mark);
    Ok(())
}

fn talk(to: SocketAddr, pool: Option<&Arc<PagePool>>) -> Result {
    if let Some(pair) = Pair::new(&to, pool)? {
        let at = pair.stream(8 << 20)?;
        let at = pair.lend(at)?;
        pair.back_pressure(at)?;
        pair.half_close()?;
    }
    if let Some(pair) = Pair::new(&to, pool)? {
        pair.replies()?;
        pair.reset()?;
    }
    Ok(())
}

#[kunit_tests(rsiw_net)]
mod suite {
    use super::*;

    #[test]
    fn batch_is_bounded() -> Result {
        let mut batch = TxBatch::new(None);
        let mut at = 0;
        for _ in 0..40 {
            batch.begin(TxBatch::MAX_LEN);
            while batch.room() > 0 {
                let n = batch.room().min(999);
                fill(&mut batch, &mut at, n)?;
            }
            check!(spans(&batch).len() <= TxBatch::MAX_SPANS);
            check!(batch.put(&[0]) == Err(ENOSPC));
            let total: usize = spans(&batch).iter().map(|span| span.len()).sum();
            check!(total == TxBatch::MAX_LEN && batch.len() == total);
            batch.consume(12_345);
            check!(batch.len() == TxBatch::MAX_LEN - 12_345);
            batch.clear();
            check!(batch.is_empty() && spans(&batch).is_empty());
        }
        Ok(())
    }

    #[test]
    fn batch_takes_back() -> Result {
        let mut batch = TxBatch::new(None);
        batch.put(&[1; 100])?;
        let mark = batch.len();
        batch.put(&[2; 50_000])?;
        batch.rollback(mark);
        check!(batch.len() == 100);
        check!(batch.reserve_up_to(10)?.len() == 10);
        check!(batch.len() == 100);
        batch.put(&[3; 100])?;
        check!(batch.len() == 200 && spans(&batch).len() == 2);
        batch.clear();
        check!(batch.is_empty());
        Ok(())
    }

    #[test]
    fn batch_is_short() -> Result {
        let mut batch = TxBatch::new(None);
        let short = |batch: &TxBatch, bytes: &[u8]| match batch.bytes() {
            Bytes::Small(small) => small == bytes,
            Bytes::Pages(_) => false,
        };
        batch.begin(30);
        batch.put(&[1; 10])?;
        batch.put(&[2; 20])?;
        batch.rollback(12);
        check!(batch.reserve_up_to(10)?.len() == 10);
        check!(short(&batch, &[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2]));
        batch.consume(9);
        check!(short(&batch, &[1, 2, 2]));
        // It outgrows its room: the bytes that were not sent move to pages.
        batch.put(&[3; 1000])?;
        check!(batch.len() == 1003 && spans(&batch).iter().map(|s| s.len()).sum::<usize>() == 1003);
        batch.rollback(2);
        check!(batch.len() == 2);
        batch.consume(2);
        check!(batch.is_empty());
        batch.put(&[4; 10])?;
        check!(spans(&batch).len() == 1);
        Ok(())
    }

    #[test]
    fn addresses_go_round() -> Result {
        let v4 = SocketAddr::from(([10, 7, 0, 1], 7174));
        let v6 = SocketAddr::from(([0xfd07, 0, 0, 0, 0, 0, 0, 1], 7174));
        let mapped = SocketAddr::from(([0, 0, 0, 0, 0, 0xffff, 0x0a07, 1], 7174));
        check!(addr::from_storage(&addr::to_storage(&v4)) == Ok(v4));
        check!(addr::from_storage(&addr::to_storage(&v6)) == Ok(v6));
        check!(addr::from_storage(&addr::to_storage(&mapped)) == Ok(v4));
        Ok(())
    }

    #[test]
    fn talks_over_ipv4() -> Result {
        talk(SocketAddr::from(([127, 0, 0, 1], 0)), None)
    }

    #[test]
    fn talks_out_of_a_pool() -> Result {
        let pool = PagePool::new()?;
        talk(SocketAddr::from(([127, 0, 0, 1], 0)), Some(&pool))
    }

    #[test]
    fn talks_over_ipv6() -> Result {
        talk(SocketAddr::from(([0u16, 0, 0, 0, 0, 0, 0, 1], 0)), None)
    }
}
