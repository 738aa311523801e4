// SPDX-License-Identifier: GPL-2.0

//! Transmit: from messages to bytes of the TCP stream.
//!
//! A [`Segmenter`] cuts a [`Message`] into DDP segments, a [`Framer`] makes an FPDU of each and
//! writes it to memory of its size, with the bytes of a [`Payload`], or piece by piece to a
//! [`Sink`].

mod framer;
mod segmenter;

pub use framer::Framer;
pub use segmenter::{Mark, Message, Segment, Segmenter};

/// The lower half of the transmit path: it takes the bytes, and has the payload.
pub trait Sink {
    /// The error of a sink that cannot take bytes.
    type Error;

    /// Updates the raw CRC32c register `crc` (no inversions) over `data`.
    fn crc32c(&mut self, crc: u32, data: &[u8]) -> u32;

    /// Appends these bytes to the stream.
    fn put(&mut self, bytes: &[u8]) -> Result<(), Self::Error>;

    /// Appends the next `len` bytes of the segment's payload, and returns `crc` updated over the
    /// bytes that were appended. `crc` is `None` when CRCs are off; the value returned is then
    /// ignored.
    ///
    /// The first call for a segment starts at its
    /// [`payload_offset`](Segment::payload_offset), every other one where the last ended.
    fn put_payload(&mut self, len: u32, crc: Option<u32>) -> Result<u32, Self::Error>;
}

/// The payload of a message whose FPDUs are written in whole.
pub trait Payload {
    /// The error of a payload that cannot be read.
    type Error;

    /// Updates the raw CRC32c register `crc` (no inversions) over `data`.
    fn crc32c(&mut self, crc: u32, data: &[u8]) -> u32;

    /// Copies the next bytes to all of `dst`.
    ///
    /// The first call for a segment starts at its
    /// [`payload_offset`](Segment::payload_offset).
    fn copy_to(&mut self, dst: &mut [u8]) -> Result<(), Self::Error>;
}
