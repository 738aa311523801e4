// SPDX-License-Identifier: GPL-2.0

//! Batches: bytes that are assembled back to back and sent by one call.
//!
//! A protocol that frames its data appends header, payload and trailer of many frames to a
//! [`TxBatch`] and passes it to [`TcpSocket::send_batch`]. TCP then cuts the batch into segments as
//! late as possible, often in the network device.
//!
//! [`TcpSocket::send_batch`]: crate::TcpSocket::send_batch

mod align;

use crate::{
    pages::{PageSpan, TxPages},
    PagePool,
};
use align::SegmentAlign;
use kernel::{error::Result, prelude::*, sync::Arc};

/// Bytes to send, in order.
///
/// The bytes of a batch that begins short are in the object itself, and TCP copies them, which
/// costs less than references to pages. When the batch outgrows that room, it moves to pages.
///
/// Filling it may sleep (pages are allocated with `GFP_NOIO`), unless [`TxBatch::set_atomic`] was
/// called. With a pool it has pages only while it is not empty. Without one it keeps a page, of up
/// to 32 KiB, until it is dropped.
pub struct TxBatch {
    pages: TxPages,
    /// INVARIANT: The first `count` spans are not empty, the others are. Their lengths add up to
    /// `len`; but if `is_small`, `count` is 0.
    spans: [PageSpan; TxBatch::MAX_SPANS],
    count: usize,
    len: usize,
    /// The bytes are `small[at..at + len]`, not in `spans`.
    is_small: bool,
    /// Filling must not sleep.
    atomic: bool,
    /// There is memory of others in it ([`TxBatch::refer`]).
    refers: bool,
    /// The bytes are the rest of a batch that was sent in part.
    begun: bool,
    /// The batch was sent in part, and that part ended inside a segment, or nobody knows where.
    cut: bool,
    /// Nothing that follows may share the last segment.
    last: bool,
    align: SegmentAlign,
    at: usize,
    small: [u8; TxBatch::SMALL],
}

/// The bytes of a batch, and whether TCP is to copy them.
#[derive(Clone, Copy)]
pub enum Bytes<'a> {
    /// TCP copies them.
    Small(&'a [u8]),
    /// TCP takes references to the pages, in order.
    Pages(&'a [PageSpan]),
}

impl TxBatch {
    /// The most bytes in a batch: the size of TCP's largest packet (`GSO_LEGACY_MAX_SIZE`).
    pub const MAX_LEN: usize = 65536;

    /// The most spans in a batch: as many as a packet has fragments (`MAX_SKB_FRAGS`), so that TCP
    /// never has to begin another packet in the middle of a frame. A batch that was empty when it
    /// was [begun] stays within them, even if it is made of single pages.
    ///
    /// [begun]: TxBatch::begin
    pub const MAX_SPANS: usize = 17;

    /// Bytes that have room in the object: a short message with its headers.
    const SMALL: usize = 192;

    /// Makes an empty batch; allocates nothing. Pages that it has filled go to `pool`, and it fills
    /// those of the pool that are free again.
    pub fn new(pool: Option<Arc<PagePool>>) -> Self {
        Self {
            pages: TxPages::new(pool),
            spans: [const { PageSpan::empty() }; TxBatch::MAX_SPANS],
            count: 0,
            len: 0,
            is_small: false,
            atomic: false,
            refers: false,
            begun: false,
            cut: false,
            last: false,
            align: SegmentAlign {
                segment: None,
                segment_offset: 0,
                open: 0,
            },
            at: 0,
            small: [0; TxBatch::SMALL],
        }
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the bytes are the rest of a batch that was sent in part.
    pub fn is_begun(&self) -> bool {
        self.begun && !self.is_empty()
    }

    /// Whether it is unknown where in a segment the bytes begin.
    fn is_cut(&self) -> bool {
        self.cut && !self.is_empty()
    }

    /// Has TCP send the batch at once, however busy the device is, as nothing follows that could
    /// share its last segment.
    pub fn set_last(&mut self) {
        self.last = true;
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many more bytes fit in.
    pub fn room(&self) -> usize {
        Self::MAX_LEN - self.len
    }

    /// Prepares for a new batch of about `hint` bytes. Call it after [`TxBatch::align_to`], while
    /// the batch is empty; otherwise it costs fragments.
    #[inline]
    pub fn begin(&mut self, hint: usize) {
        (self.begun, self.cut) = (self.is_begun(), self.is_cut());
        if hint > Self::SMALL {
            // A batch that goes on in a segment best follows its beginning in memory, too.
            if self.align.segment_offset == 0 {
                self.pages.begin(hint);
            }
        } else if self.is_empty() {
            (self.is_small, self.at) = (true, 0);
        }
    }

    /// The pool of its pages.
    pub(crate) fn pool(&self) -> Option<&PagePool> {
        self.pages.pool()
    }

    /// Whether filling must not sleep from now on.
    pub fn set_atomic(&mut self, atomic: bool) {
        self.atomic = atomic;
    }

    /// Moves the bytes from the object to pages.
    #[cold]
    fn outgrow(&mut self) -> Result {
        let (small, from, len) = (self.small, self.at, self.len);
        let bytes = small.get(from..from + len).ok_or(EINVAL)?;
        (self.is_small, self.len) = (false, 0);
        self.pages.begin(Self::MAX_LEN);
        let done = self.put(bytes);
        if done.is_err() {
            (self.is_small, self.len) = (true, len);
        }
        done
    }

    /// Appends a copy of `bytes`.
    ///
    /// Errors: `ENOSPC` if they do not fit in, `ENOMEM` if there is no memory at the moment. In
    /// either case nothing was appended.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) -> Result {
        if bytes.len() > self.room() {
            return Err(ENOSPC);
        }
        let (mark, mut left) = (self.len, bytes);
        while !left.is_empty() {
            let mut room = match self.reserve_up_to(left.len()) {
                Ok(room) => room,
                Err(e) => {
                    self.rollback(mark);
                    return Err(e);
                }
            };
            let (now, later) = left.split_at(room.len());
            room.copy_from_slice(now);
            room.commit();
            left = later;
        }
        Ok(())
    }

    /// How many of the next bytes can be [reserved](Self::reserve) in one piece without another
    /// page.
    #[inline]
    pub fn contiguous(&self) -> usize {
        if self.is_small {
            Self::SMALL - self.at - self.len
        } else if self.count == Self::MAX_SPANS {
            0
        } else {
            self.pages.contiguous().min(self.room())
        }
    }

    /// Reserves room for the next `n` bytes in one piece. Returns `None` if they do not lie in one
    /// piece, if the batch is full, or if a page must be allocated first.
    #[inline]
    pub fn reserve(&mut self, n: usize) -> Option<Reserved<'_>> {
        let fits = n <= self.contiguous() && (n != 0 || self.is_small);
        fits.then_some(Reserved {
            batch: self,
            len: n,
        })
    }

    /// Reserves room for the next bytes: at most `n` of them, and at least one, unless `n` is 0.
    /// Errors: `ENOSPC` if the batch is full, `ENOMEM` if there is no memory at the moment.
    #[inline]
    pub fn reserve_up_to(&mut self, n: usize) -> Result<Reserved<'_>> {
        if self.is_small {
            if n <= Self::SMALL - self.at - self.len {
                return Ok(Reserved {
                    batch: self,
                    len: n,
                });
            }
            self.outgrow()?;
        }
        let n = n.min(self.room());
        if n == 0 || self.count == Self::MAX_SPANS {
            return Err(ENOSPC);
        }
        let len = self.pages.prepare(n, self.atomic)?;
        Ok(Reserved { batch: self, len })
    }

    /// The next `n` bytes, which are reserved.
    #[inline]
    fn free(&mut self, n: usize) -> &mut [u8] {
        if !self.is_small {
            return self.pages.free(n);
        }
        let from = self.at + self.len;
        let free = self.small.get_mut(from..);
        free.and_then(|s| s.get_mut(..n)).unwrap_or_default()
    }

    /// Appends the next `n` bytes, which are reserved.
    #[inline]
    fn append(&mut self, n: usize) {
        if !self.is_small {
            let (full, free) = self.spans.split_at_mut(self.count);
            if let Some(span) = self.pages.give(n, full.last_mut()) {
                if let Some(next) = free.first_mut() {
                    *next = span;
                    self.count += 1;
                }
            }
        }
        self.len += n;
    }

    /// How many more spans have room, if the batch is in pages.
    pub fn spans_left(&self) -> usize {
        Self::MAX_SPANS - self.count
    }

    /// Whether there is memory of others in it.
    #[inline]
    pub fn refers(&self) -> bool {
        self.refers
    }

    /// Appends memory of others, without a copy. TCP reads it until it says that it has
    /// [released](crate::Released) it. Errors: `ENOSPC` if it does not fit in, `ENOMEM` as of
    /// [`TxBatch::put`].
    pub fn refer(&mut self, span: PageSpan) -> Result {
        if self.is_small {
            self.outgrow()?;
        }
        let len = span.len();
        if len > self.room() {
            return Err(ENOSPC);
        }
        let next = self.spans.get_mut(self.count).ok_or(ENOSPC)?;
        if len != 0 {
            *next = span;
            self.count += 1;
            self.len += len;
            self.refers = true;
        }
        Ok(())
    }

    /// Takes back the bytes that were appended since [`TxBatch::len`] was `mark`. Nothing may have
    /// been consumed since. TCP might have sent bytes in pages already, so their memory is not
    /// written again, and the next bytes begin a span.
    pub fn rollback(&mut self, mark: usize) {
        let mut drop = self.len.saturating_sub(mark);
        self.len -= drop;
        self.refers &= self.len != 0;
        self.reset_if_empty();
        while drop > 0 && self.count > 0 {
            let last = &mut self.spans[self.count - 1];
            let here = drop.min(last.len());
            last.trim_back(here);
            drop -= here;
            if last.is_empty() {
                *last = PageSpan::empty();
                self.count -= 1;
            }
        }
    }

    /// The bytes to send.
    pub fn bytes(&self) -> Bytes<'_> {
        if self.is_small {
            Bytes::Small(self.small.get(self.at..self.at + self.len).unwrap_or(&[]))
        } else {
            Bytes::Pages(&self.spans[..self.count])
        }
    }

    /// Only a batch that begins short uses the room in the object.
    fn reset_if_empty(&mut self) {
        if self.len == 0 {
            self.is_small = false;
        }
    }

    /// Removes the first `n` bytes, or all if there are fewer: TCP has taken them.
    #[inline]
    pub fn consume(&mut self, n: usize) {
        let drop = n.min(self.len);
        self.len -= drop;
        let align = &mut self.align;
        // Where in a segment the removed bytes end, if that is known.
        let end = if self.cut {
            None
        } else {
            let sent_to = align.segment_offset + drop;
            align.segment.map(|segment| sent_to % segment)
        };
        if self.len == 0 {
            align.open = end.filter(|_| !self.last).unwrap_or(0);
            (self.cut, self.refers) = (false, false);
        } else {
            // If the sent part ended where a segment does, the rest begins one, as a new batch
            // does.
            (align.segment_offset, self.cut) = (0, end != Some(0));
        }
        self.begun = self.len != 0;
        self.last &= self.begun;
        if self.is_small {
            self.at += drop;
            self.reset_if_empty();
        } else {
            self.consume_pages(drop);
            if self.len == 0 {
                self.pages.park();
            }
        }
    }

    fn consume_pages(&mut self, mut drop: usize) {
        let mut gone = 0;
        while drop > 0 && gone < self.count {
            let first = &mut self.spans[gone];
            let here = drop.min(first.len());
            first.trim_front(here);
            drop -= here;
            if first.is_empty() {
                *first = PageSpan::empty();
                gone += 1;
            }
        }
        if gone > 0 {
            self.spans[..self.count].rotate_left(gone);
            self.count -= gone;
        }
    }

    /// Removes all bytes. The next batch begins a segment.
    pub fn clear(&mut self) {
        self.consume(self.len);
        self.align.open = 0;
    }
}

/// Room for the next bytes of a batch, which holds arbitrary, old content.
///
/// Whoever has written all of it calls [`Reserved::commit`]. If it is dropped instead, nothing was
/// appended.
pub struct Reserved<'a> {
    batch: &'a mut TxBatch,
    len: usize,
}

impl Reserved<'_> {
    /// Appends the bytes to the batch.
    #[inline]
    pub fn commit(self) {
        self.batch.append(self.len);
    }

    /// The number of bytes.
    #[inline]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The bytes, to be written.
    #[inline]
    pub fn bytes(&mut self) -> &mut [u8] {
        self.batch.free(self.len)
    }

    fn copy_from_slice(&mut self, from: &[u8]) {
        for (to, from) in self.bytes().iter_mut().zip(from) {
            *to = *from;
        }
    }
}

impl Default for TxBatch {
    fn default() -> Self {
        Self::new(None)
    }
}

#[kunit_tests(rsiw_net_batch)]
mod tests {
    use super::*;

    /// Reserves `n` bytes in one piece and appends them if `commits`. Returns whether they were
    /// reserved.
    fn whole(batch: &mut TxBatch, n: usize, commits: bool) -> bool {
        let before = batch.len();
        let reserved = match batch.reserve(n) {
            Some(mut room) => {
                assert_eq!(room.bytes().len(), n);
                room.bytes().fill(1);
                if commits {
                    room.commit();
                }
                true
            }
            None => false,
        };
        let appended = if reserved && commits { n } else { 0 };
        assert_eq!(batch.len(), before + appended);
        reserved
    }

    /// Bytes are appended by `commit`, and only by it.
    #[test]
    fn whole_pieces() -> Result {
        let mut batch = TxBatch::new(None);
        // Short: in the object.
        batch.begin(TxBatch::SMALL);
        assert!(whole(&mut batch, 100, true));
        assert!(whole(&mut batch, 50, false));
        assert!(!whole(&mut batch, 1000, true));
        batch.clear();
        // Long: in the page, once there is one.
        batch.begin(TxBatch::MAX_LEN);
        assert!(!whole(&mut batch, 1000, true));
        batch.put(&[2; 1000])?;
        while whole(&mut batch, 1000, true) {}
        // Less than 1000 bytes are left in the page, or in the batch.
        assert!(batch.len() <= TxBatch::MAX_LEN && batch.len() % 1000 == 0);
        assert!(batch.pages.contiguous() < 1000 || batch.room() < 1000);
        if batch.pages.contiguous() > 10 {
            assert!(whole(&mut batch, 10, false));
        }
        batch.put(&[2; 1000])?;
        let spans = match batch.bytes() {
            Bytes::Pages(spans) => spans,
            Bytes::Small(_) => &[],
        };
        let total: usize = spans.iter().map(PageSpan::len).sum();
        assert_eq!(total, batch.len());
        Ok(())
    }
}
