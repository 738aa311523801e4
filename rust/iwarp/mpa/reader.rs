// SPDX-License-Identifier: GPL-2.0

//! Finds one MPA Request or Reply Frame at the front of a byte stream.

use super::frame::{Frame, FrameKind, Header, FRAME_MAX, HEADER_LEN, KEY_LEN};
use super::MpaError;

//= 5044-7.1.2-12: Private Data field MUST be large enough to receive that data … the amount of
/// Incremental reader for one frame.
///
/// Never takes a byte beyond the frame: what follows it belongs to the first FPDU, which a peer
/// may have put into the same TCP segment.
#[derive(Clone, Debug)]
pub struct FrameReader {
    kind: FrameKind,
    /// Fields after the key, once they have been received and checked.
    header: Option<Header>,
    have: usize,
    buf: [u8; FRAME_MAX],
}

impl FrameReader {
    /// A reader for a frame of this kind: `Request` at a responder, `Reply` at an initiator.
    pub const fn new(kind: FrameKind) -> Self {
        Self {
            kind,
            header: None,
            have: 0,
            buf: [0; FRAME_MAX],
        }
    }

    /// Bytes that the frame still needs, as far as is known yet; 0 once it is complete.
    pub fn want(&self) -> usize {
        let total = match &self.header {
            None => HEADER_LEN,
            Some(header) => HEADER_LEN + usize::from(header.pd_length),
        };
        total.saturating_sub(self.have)
    }

    //= 5044-7.1-1: MPA requires that the Consumer MUST activate MPA, and any TCP
    /// Takes bytes of the frame from the front of `bytes`; returns how many.
    ///
    /// A frame that is not properly formatted is refused as soon as its bytes show it, so that
    /// this end does not wait for a peer that speaks another protocol. The caller must then close
    /// the connection.
    pub fn input(&mut self, bytes: &[u8]) -> Result<usize, MpaError> {
        let mut rest = bytes;
        while self.want() != 0 && !rest.is_empty() {
            let n = self.want().min(rest.len());
            let room = self.buf.get_mut(self.have..).unwrap_or_default();
            let (Some((chunk, r)), Some(room)) = (rest.split_at_checked(n), room.get_mut(..n))
            else {
                return Err(MpaError::BufferTooSmall);
            };
            room.copy_from_slice(chunk);
            self.have = self.have.saturating_add(n);
            rest = r;
            if self.header.is_none() {
                self.check_header()?;
            }
        }
        Ok(bytes.len().saturating_sub(rest.len()))
    }

    /// What has come of the frame.
    pub fn bytes(&self) -> &[u8] {
        self.buf.get(..self.have).unwrap_or_default()
    }

    /// The frame, once it is complete.
    pub fn frame(&self) -> Option<Frame<'_>> {
        let header = self.header?;
        let data = self.buf.get(HEADER_LEN..self.have)?;
        (self.want() == 0).then_some(Frame {
            kind: self.kind,
            header,
            data,
        })
    }

    //= 5044-7.1.1-2: Responder mode receivers MUST check this field for the
    //= 5044-7.1.1-4: Initiator mode receivers MUST check this field for the
    //= 5044-7.1.2-9: the TCP/DDP connection MUST be closed, and an error
    //# deviates: the connection is closed, but a responder's consumer is not told, who has not
    //# heard of it before: the kernel log tells
    //= 5044-7.1.2-10: MPA implementations MUST use the difference between the MPA
    /// Checks the bytes of key and fields that have been received so far.
    fn check_header(&mut self) -> Result<(), MpaError> {
        let got = self.buf.get(..self.have.min(KEY_LEN)).unwrap_or_default();
        // RFC 5044 s7.1.2 rule 5: "If a received "Key" does not match the expected value [...] the
        // TCP/DDP connection MUST be closed".
        if !self.kind.key().starts_with(got) {
            // Rule 8: "MPA implementations MUST use the difference between the MPA Request Frame
            // and the MPA Reply Frame to check for incorrect "Initiator/Initiator" startups." The
            // keys differ only in their eleventh byte.
            return Err(if self.kind.other().key().starts_with(got) {
                MpaError::SameRole
            } else {
                MpaError::Key
            });
        }
        if self.have >= HEADER_LEN {
            let fields = self
                .buf
                .first_chunk::<HEADER_LEN>()
                .and_then(|h| h.last_chunk());
            if let Some(fields) = fields {
                self.header = Some(Header::parse(fields)?);
            }
        }
        Ok(())
    }
}
