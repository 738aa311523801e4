// SPDX-License-Identifier: GPL-2.0

//! Assembling a train of FPDUs.

use super::{message::Current, Failed, Tx};
use crate::{
    mem::{gather::Gather, MemError},
    qp::Qp,
    wr::Status,
};
use iwarp::tx::Sink;
use kernel::prelude::*;
use net::TrainBuf;

/// FPDU octets that are not payload, at most: length, header of a Read Request, pad, CRC.
const OVERHEAD: usize = 2 + 18 + 28 + 3 + 4;

/// Why a piece of an FPDU could not be put into the train.
pub(super) enum Stop {
    /// No memory for the train: later, maybe.
    NoMemory,
    /// The payload's memory cannot be read.
    Memory(MemError),
}

impl From<Error> for Stop {
    fn from(_: Error) -> Self {
        Stop::NoMemory
    }
}

/// The engine's way into the train.
struct Out<'a> {
    train: &'a mut TrainBuf,
    gather: &'a mut Gather,
}

impl Sink for Out<'_> {
    type Error = Stop;

    #[inline]
    fn crc32c(&mut self, crc: u32, data: &[u8]) -> u32 {
        rdma::crc32c(crc, data)
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        Ok(self.train.put(bytes)?)
    }

    fn put_payload(&mut self, len: u32, crc: Option<u32>) -> Result<u32, Stop> {
        let gather = &mut *self.gather;
        let mut sum = crc.unwrap_or(0);
        self.train.fill(len as usize, |dst| -> Result<(), Stop> {
            gather.copy_to(dst).map_err(Stop::Memory)?;
            // Of the copy, which is what goes out, whatever the source does meanwhile; and while
            // it is in the cache.
            if crc.is_some() {
                sum = rdma::crc32c(sum, dst);
            }
            Ok(())
        })?;
        Ok(sum)
    }
}

impl Tx {
    /// Builds the next train: whole FPDUs, as many as there are, up to its size limit.
    ///
    /// A train ends early where the next FPDU would neither fit into the TCP segment under way nor
    /// begin a new one: TCP cuts there, and the alignment holds.
    pub(super) fn fill(&mut self, qp: &Qp) -> Result<(), Failed> {
        let mss = self.conn.socket().mss() as usize;
        let mulpdu = if self.cfg.large_fpdu {
            iwarp::MAX_ULPDU
        } else {
            iwarp::mpa::mulpdu(mss as u32, self.cfg.markers)
        };
        let segment = if self.cfg.large_fpdu || mss == 0 {
            usize::MAX
        } else {
            mss
        };
        let fpdu_max = usize::from(mulpdu) + OVERHEAD;
        loop {
            let mut current = match self.current.take() {
                Some(c) => c,
                None if self.next_message(qp)? => match self.current.take() {
                    Some(c) => c,
                    None => return Ok(()),
                },
                None => return Ok(()),
            };
            let left = current.segmenter.remaining() as usize;
            if self.train.is_empty() {
                // Assembling on a page boundary keeps a long train within TCP's fragments.
                self.train.begin((left + OVERHEAD).min(TrainBuf::MAX_LEN));
            }
            let natural = (left + OVERHEAD).min(fpdu_max);
            let used = self.train.len() % segment;
            let room = if used == 0 {
                usize::MAX
            } else {
                segment - used
            };
            if !self.train.is_empty() && (natural > room || natural > self.train.room()) {
                self.current = Some(current);
                return Ok(());
            }
            let mark = self.train.len();
            match self.put_segment(&mut current, mulpdu) {
                Ok(()) => {}
                Err(Stop::NoMemory) if mark != 0 => {
                    // Send what there is; the segment is built again afterwards.
                    self.current = Some(current);
                    return Ok(());
                }
                Err(Stop::NoMemory) => return Err(Failed::new(current.seq, Status::General)),
                Err(Stop::Memory(e)) => return Err(current.failed(e)),
            }
            if current.segmenter.done() {
                self.messages += 1;
                if let Some(seq) = current.seq {
                    self.built = Some(seq.wrapping_add(1));
                }
            } else {
                self.current = Some(current);
            }
        }
    }

    /// Appends all of a short message. Errors: no memory.
    pub(super) fn append(&mut self, current: &mut Current) -> Result<(), Stop> {
        let mulpdu = iwarp::mpa::mulpdu(self.conn.socket().mss(), self.cfg.markers);
        while !current.segmenter.done() {
            self.put_segment(current, mulpdu)?;
        }
        Ok(())
    }

    fn put_segment(&mut self, current: &mut Current, mulpdu: u16) -> Result<(), Stop> {
        let mark = self.train.len();
        let before = (current.segmenter, current.gather.position());
        let framer = self.framer;
        let Some(segment) = current.segmenter.next(mulpdu) else {
            return Ok(());
        };
        let mut out = Out {
            train: &mut self.train,
            gather: &mut current.gather,
        };
        let done = self.framer.write(&segment, &mut out);
        if done.is_err() {
            // Half an FPDU must never be sent.
            self.train.rollback(mark);
            self.framer = framer;
            current.segmenter = before.0;
            current.gather.rewind(before.1);
        }
        done
    }
}
