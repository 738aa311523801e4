// SPDX-License-Identifier: GPL-2.0

//! Where a batch lies in TCP's segments.

use super::TxBatch;
use core::num::NonZeroUsize;
use kernel::prelude::*;

/// Where a batch lies in TCP's segments.
pub(super) struct SegmentAlign {
    /// Bytes of a segment; `None`: the batch may lie anywhere.
    pub(super) segment: Option<NonZeroUsize>,
    /// Bytes of the batch's first segment that precede the batch.
    pub(super) segment_offset: usize,
    /// Bytes that the previous batch has left in its last segment, if more may go into that; else
    /// 0.
    pub(super) open: usize,
}

impl TxBatch {
    /// Aligns the batch that begins to segments of `segment` bytes: no frame may lie across two of
    /// them. `None`: frames may lie anywhere.
    ///
    /// If the previous batch has left its last segment open, and that is among the `unsent` bytes
    /// that TCP has not sent, the new batch goes on there. Returns how many bytes of the segment
    /// precede it; 0 if it begins a segment.
    #[inline]
    pub fn align_to(&mut self, segment: Option<NonZeroUsize>, unsent: usize) -> usize {
        let align = &mut self.align;
        if align.segment != segment {
            (align.segment, align.open) = (segment, 0);
        }
        align.segment_offset = if align.open <= unsent { align.open } else { 0 };
        align.segment_offset
    }

    /// Has the batch, which is still empty, begin a segment, whatever the previous one has left
    /// open.
    pub fn begin_segment(&mut self) {
        (self.align.segment_offset, self.align.open) = (0, 0);
    }

    /// The arguments of `ksock_send()` and its siblings: the segment offset, which is less than 0
    /// if the batch may lie anywhere or is the rest of a cut one; and whether nothing may share the
    /// last segment.
    pub(crate) fn alignment_hint(&self) -> (c_int, bool) {
        let free = self.align.segment.is_none() || self.is_cut();
        // CAST: A segment is no longer than an IP packet.
        let segment_offset = if free {
            -1
        } else {
            self.align.segment_offset as c_int
        };
        // The rest of a cut batch ends at an unknown place in a segment.
        (
            segment_offset,
            self.last || self.is_cut() && self.align.segment.is_some(),
        )
    }

    /// Notes how many bytes of the segment really preceded the batch.
    pub(crate) fn set_segment_offset(&mut self, segment_offset: c_int) {
        if let Ok(segment_offset) = usize::try_from(segment_offset) {
            self.align.segment_offset = segment_offset;
        }
    }
}
