// SPDX-License-Identifier: GPL-2.0

//! Assembling a train of FPDUs.

use super::{Failed, Tx};
use crate::{
    mem::{gather::Gather, MemError},
    qp::Qp,
    wr::Status,
};
use iwarp::tx::{Segment, Sink};
use kernel::prelude::*;
use net::TrainBuf;

/// FPDU octets that are not payload: length, header, pad, CRC. Only to guess a train's length.
const OVERHEAD: usize = 2 + 18 + 3 + 4;

/// What a train has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Filled {
    /// Everything there was to send.
    Whole,
    /// As much as has room, or can be found at a time.
    Part,
}

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
    /// Builds the next train: whole FPDUs, as many as there are, up to its size limit and to `most`
    /// bytes.
    ///
    /// A train ends early where the next FPDU would neither fit into the TCP segment under way nor
    /// begin a new one: TCP cuts there, and the alignment holds.
    ///
    /// `next_message` makes the next message the current one, and is false when there is none.
    #[inline]
    pub(super) fn fill(
        &mut self,
        qp: &Qp,
        most: usize,
        next_message: impl Fn(&mut Self, &Qp) -> Result<bool, Failed>,
    ) -> Result<Filled, Failed> {
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
        loop {
            if !self.current.active && !next_message(self, qp)? {
                return Ok(if self.more {
                    Filled::Part
                } else {
                    Filled::Whole
                });
            }
            if self.train.is_empty() {
                // Assembling on a page boundary keeps a long train within TCP's fragments.
                let left = self.current.segmenter.remaining() as usize;
                self.train.begin((left + OVERHEAD).min(TrainBuf::MAX_LEN));
            }
            // A look ahead: what does not fit is made again for the next train.
            let mark = self.current.segmenter.mark();
            let next = self.current.segmenter.next(mulpdu);
            let Some(fpdu) = &next else {
                self.current.end();
                continue;
            };
            let len = self.framer.fpdu_len(fpdu);
            let (first, used) = (self.train.is_empty(), self.train.len());
            let used_of_segment = used % segment;
            let fits = used_of_segment == 0 || len <= segment - used_of_segment;
            if len > most.saturating_sub(used) || !first && (!fits || len > self.train.room()) {
                self.current.segmenter.rewind(mark);
                return Ok(Filled::Part);
            }
            match self.put_fpdu(fpdu) {
                Ok(()) => {}
                Err(Stop::NoMemory) if !first || self.train.is_atomic() => {
                    // Send what there is; the FPDU is made again afterwards, where there is more.
                    self.current.segmenter.rewind(mark);
                    return Ok(Filled::Part);
                }
                Err(Stop::NoMemory) => return Err(Failed::new(self.current.seq, Status::General)),
                Err(Stop::Memory(e)) => {
                    self.current.segmenter.rewind(mark);
                    return Err(self.current.failed(e));
                }
            }
            if self.current.segmenter.done() {
                self.messages += 1;
                if let Some(seq) = self.current.seq {
                    self.built = Some(seq.wrapping_add(1));
                }
                if self.current.answers.is_some() {
                    qp.inbound.answered();
                }
                self.current.end();
            }
        }
    }

    /// Appends all of the message under way, a short one. Errors: no memory.
    pub(super) fn append(&mut self) -> Result<(), Stop> {
        let mulpdu = iwarp::mpa::mulpdu(self.conn.socket().mss(), self.cfg.markers);
        while let Some(fpdu) = self.current.segmenter.next(mulpdu) {
            self.put_fpdu(&fpdu)?;
        }
        Ok(())
    }

    /// Appends one FPDU whole, or nothing of it.
    #[inline]
    fn put_fpdu(&mut self, fpdu: &Segment) -> Result<(), Stop> {
        let gather = &mut self.current.gather;
        let (mark, position, framer) = (self.train.len(), gather.position(), self.framer);
        let mut out = Out {
            train: &mut self.train,
            gather,
        };
        let done = self.framer.write(fpdu, &mut out);
        if done.is_err() {
            self.train.rollback(mark);
            self.framer = framer;
            gather.rewind(position);
        }
        done
    }
}
