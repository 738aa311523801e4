// SPDX-License-Identifier: GPL-2.0

//! Sends and receives MPA frames, and sends the one FPDU of connection setup.

use super::{Conn, User};
use iwarp::{
    mpa::{mulpdu, FrameReader, MpaError, FRAME_MAX},
    tx::{Framer, Message, Segmenter, Sink},
    TermCode, Terminate,
};
use kernel::prelude::*;
use net::{errno, Received, Sent, TcpSocket};

/// The progress of receiving a frame.
pub(super) enum Progress {
    /// More of the frame must arrive.
    Pending,
    /// The frame is complete. The data behind it is still in the socket.
    Complete,
    /// The peer closed before the frame was complete.
    Eof,
}

/// The reason why a frame cannot be read.
pub(super) enum ReadError {
    /// The data is no valid frame.
    Mpa(MpaError),
    /// The connection failed.
    Socket(Error),
}

//= 5044-7.1-1
/// Reads the part of a frame that has arrived, and no data behind it. Context: sleeping.
pub(super) fn read(socket: &TcpSocket, reader: &mut FrameReader) -> Result<Progress, ReadError> {
    let mut buf = [0; 128];
    loop {
        let n = reader.want().min(buf.len());
        if n == 0 {
            return Ok(Progress::Complete);
        }
        match socket.recv(&mut buf[..n]).map_err(ReadError::Socket)? {
            Received::Bytes(n) => {
                reader
                    .input(buf.get(..n).unwrap_or(&buf))
                    .map_err(ReadError::Mpa)?;
            }
            Received::WouldBlock => return Ok(Progress::Pending),
            Received::Eof => return Ok(Progress::Eof),
        }
    }
}

/// Room for any frame.
pub(super) type FrameBuf = [u8; FRAME_MAX];

/// An empty [`FrameBuf`].
pub(super) const FRAME_BUF: FrameBuf = [0; FRAME_MAX];

/// Sends all of `bytes`. The send buffer must be empty. Context: sleeping.
///
/// # Errors
///
/// `ECONNABORTED` if TCP does not take all; TCP's.
pub(super) fn send<U: User>(conn: &Conn<U>, bytes: &[u8]) -> Result {
    match conn.socket().send(bytes, Some(conn.tx_pages()))? {
        Sent::Bytes(n) if n == bytes.len() => Ok(()),
        // A connection that has no room for half a kilobyte of first data is of no use.
        _ => Err(errno::ECONNABORTED.into()),
    }
}

/// Sends an MPA Request or Reply, as [`send`].
pub(super) fn send_frame<U: User>(conn: &Conn<U>, frame: &[u8]) -> Result {
    conn.trace_frame(true, frame);
    send(conn, frame)
}

//= 6581-9.1-5, 6581-9.2-8
/// Sends a Terminate as the only FPDU of a connection whose terms this end cannot meet (RFC 6581
/// section 9). Context: sleeping. Errors: as of [`send`]; `EINVAL`.
pub(super) fn send_terminate<U: User>(
    conn: &Conn<U>,
    code: TermCode,
    crc: bool,
    tx_markers: bool,
) -> Result {
    let message = Message::Terminate {
        term: Terminate::new(code),
    };
    let mut out = Fpdu {
        bytes: [0; 128],
        len: 0,
    };
    let segment = Segmenter::new(message, 0).next(mulpdu(conn.socket().mss(), tx_markers));
    Framer::new(crc, tx_markers).write(&segment.ok_or(EINVAL)?, &mut out)?;
    send(conn, out.bytes.get(..out.len).ok_or(EINVAL)?)
}

/// Room for one short FPDU.
struct Fpdu {
    bytes: [u8; 128],
    len: usize,
}

impl Sink for Fpdu {
    type Error = Error;

    fn crc32c(&mut self, crc: u32, data: &[u8]) -> u32 {
        kext::crc32c(crc, data)
    }

    fn put(&mut self, bytes: &[u8]) -> Result {
        let end = self.len + bytes.len();
        self.bytes
            .get_mut(self.len..end)
            .ok_or(EINVAL)?
            .copy_from_slice(bytes);
        self.len = end;
        Ok(())
    }

    fn put_payload(&mut self, _len: u32, _crc: Option<u32>) -> Result<u32> {
        // A Terminate has no payload.
        Err(EINVAL)
    }
}
