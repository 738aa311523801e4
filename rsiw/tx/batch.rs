// SPDX-License-Identifier: GPL-2.0

//! Assembles FPDUs into batches.
//!
//! The last segment of a batch stays open if it is not full. While the device is busy with earlier
//! data, TCP holds that segment back (`tcp_should_autocork()`), and the next batch goes on in it.
//! So small messages share segments; and messages of 64 KiB, each a little longer than TCP sends as
//! one packet, take one packet each and not two. Tx concludes from TCP's counters that the open
//! segment is unsent. TCP checks that under the socket's lock, and otherwise gives the first FPDU a
//! segment of its own. A ping-pong does not wait: none of its data is unacknowledged.
//!
//! While data of the peer is missing, TCP puts SACK blocks into each segment and cuts 12 to 28
//! bytes earlier. Data that is queued by then is out of step up to the end of its packet; with one
//! packet of a hundred lost both ways that is a twentieth to a tenth of the segments
//! (`tests/vm/wire/loss.sh`). Receivers must cope (RFC 5044 section 5.1). Making FPDUs for the
//! shorter segments (`tcp_current_mss()`) was tried and is no better, as the queue is longer than
//! such times.

use super::{
    current::Source,
    outcome::{Failed, Filled, Found},
    payload::{write_all, write_one, Pieces, Stop, FRAME, LARGE, OVERHEAD},
    zerocopy::Refer,
    Tx,
};
use crate::{mem::HeldAccess, queue::Queues, transport::Transport};
use core::num::NonZeroUsize;
use iwarp::tx::{Mark, Segment};
use net::TxBatch;

/// What is told of the length of a batch that refers to memory: neither short, as its bytes must be
/// in pages, nor long.
const REFERRING: usize = 1024;

/// The least that [`Transport::whole_packets`] returns for [`LARGE`].
const LEAST_END: usize = LARGE / 2;

/// Where the FPDUs of a batch may lie in TCP's segments and packets.
struct Layout {
    /// The longest ULPDU.
    mulpdu: u16,
    /// Bytes of a TCP segment.
    mss: usize,
    /// The same if no FPDU may cross the end of a segment; `None` for large FPDUs, which may lie
    /// anywhere.
    segment: Option<NonZeroUsize>,
    /// Bytes of the first segment that precede the batch.
    segment_offset: usize,
    /// Only for large FPDUs: bytes of a batch that TCP sends in packets of its largest size.
    /// `None` until it is needed.
    end: Option<usize>,
}

/// The next step in assembling a batch.
enum Next {
    /// Append the FPDU that was chosen. The mark is the state of the message before it, to rewind
    /// to.
    Fpdu(Mark),
    /// Go on to the next message: all of this one is in the batch. (Its last FPDU ends a message,
    /// and one that begins has an FPDU, so a message under way has one more. An end that comes
    /// nevertheless is the same.)
    EndOfMessage,
    /// Begin a new segment: the FPDU has no room in the segment that the previous batch has left
    /// open.
    NewSegment,
    /// End the batch: it is full, or the next batch is to begin a segment.
    EndOfBatch,
}

/// The length of a batch that TCP sends in packets of its largest size: at least [`LEAST_END`], and
/// a multiple of 4.
#[inline(never)]
fn end_of_packets(transport: &impl Transport, layout: &mut Layout) -> usize {
    let packets = || transport.whole_packets(LARGE) & !3;
    *layout.end.get_or_insert_with(packets)
}

impl Tx {
    //= 5041-3-2
    /// Builds the next batch out of whole FPDUs: as many as there are, up to its size limit and to
    /// `most` bytes.
    ///
    /// A batch goes on in the segment that the previous one has left open, if TCP has not sent that
    /// yet. It ends early if the next FPDU neither fits into the TCP segment under way, whole or
    /// cut, nor begins a new one. TCP then begins a segment with the next batch, so that each
    /// segment still begins with an FPDU.
    ///
    #[inline]
    pub(super) fn fill(
        &mut self,
        queues: &Queues,
        transport: &impl Transport,
        source: Source,
        most: usize,
    ) -> Result<Filled, Failed> {
        let mut layout = self.layout(transport);
        let (mut access, mut fpdu) = (HeldAccess::none(), Segment::EMPTY);
        loop {
            if !self.current.active {
                match self.next_message(queues, source)? {
                    Found::Message => {}
                    Found::Nothing => return Ok(Filled::Whole),
                    Found::NotYet => return Ok(Filled::Part),
                }
            }
            if self.batch.is_empty() {
                self.begin_batch(transport, &mut layout);
            }
            if self.may_refer() {
                match self.refer(queues, transport, &mut fpdu) {
                    Refer::Not => {}
                    Refer::Done => continue,
                    Refer::End(end) => return end,
                }
            }
            let mark = match self.next_fpdu(transport, &mut layout, most, &mut fpdu) {
                Next::Fpdu(mark) => mark,
                Next::EndOfMessage => {
                    self.end_message(queues);
                    continue;
                }
                Next::NewSegment => {
                    self.batch.begin_segment();
                    layout.segment_offset = 0;
                    continue;
                }
                Next::EndOfBatch => return Ok(Filled::Part),
            };
            let first = self.batch.is_empty();
            if !fpdu.last() {
                access.hold();
            }
            let count = self.count_like(&fpdu, &layout, most);
            match self.put_fpdus(&mut access, &mut fpdu, count) {
                Ok(()) => trace::fpdu_tx(|| {
                    let (dev, qpn) = (queues.dev.name(), queues.number());
                    let len = fpdu.fpdu_len() as u32;
                    (dev, qpn, fpdu.opcode(), len, count as u32)
                }),
                Err(Stop::NoMemory) => {
                    // Send the batch as it is. The FPDU is made again afterwards, when there is
                    // memory. (An empty batch has room for each FPDU, so that is all it lacks.)
                    self.current.segmenter.rewind(mark);
                    return Ok(if first {
                        Filled::NoMemory
                    } else {
                        Filled::Part
                    });
                }
                Err(Stop::Memory(e)) => {
                    self.current.segmenter.rewind(mark);
                    return Err(self.current.failed(e));
                }
            }
            if self.current.segmenter.done() {
                access.end();
                self.end_message(queues);
            }
        }
    }

    /// The layout for TCP's segments as they are at the moment.
    #[inline]
    fn layout(&self, transport: &impl Transport) -> Layout {
        let mss = transport.segment_len();
        let (mulpdu, segment) = if self.cfg.large_fpdu {
            (iwarp::MAX_ULPDU, None)
        } else {
            let mulpdu = iwarp::mpa::mulpdu(mss, self.cfg.markers);
            (mulpdu, NonZeroUsize::new(mss as usize))
        };
        Layout {
            mulpdu,
            mss: mss as usize,
            segment,
            segment_offset: 0,
            end: None,
        }
    }

    /// Prepares the empty batch for the message under way.
    #[inline]
    fn begin_batch(&mut self, transport: &impl Transport, layout: &mut Layout) {
        let unsent = transport.unsent();
        layout.segment_offset = self.batch.align_to(layout.segment, unsent);
        // A long batch that begins at a page boundary needs no more fragments than a packet has.
        let left = self.current.segmenter.remaining() as usize;
        let is_long = self.cfg.large_fpdu && left > LEAST_END;
        // One that refers to memory has only headers of its own.
        let own = if is_long && self.may_refer() {
            REFERRING
        } else {
            left + OVERHEAD
        };
        self.batch.begin(own.min(TxBatch::MAX_LEN));
        if is_long {
            let most = end_of_packets(transport, layout) - FRAME;
            layout.mulpdu =
                u16::try_from(most).map_or(layout.mulpdu, |most| most.min(layout.mulpdu));
        }
    }

    /// Chooses the next step: an FPDU of the message under way, in `fpdu`, that fits into the batch
    /// of `most` bytes, and, whole or cut, into the TCP segment (or packet) under way. An FPDU
    /// that does not fit is made again for the next batch.
    #[inline]
    fn next_fpdu(
        &mut self,
        transport: &impl Transport,
        layout: &mut Layout,
        most: usize,
        fpdu: &mut Segment,
    ) -> Next {
        let mark = self.current.segmenter.mark();
        if !self.current.segmenter.next_into(layout.mulpdu, fpdu) {
            return Next::EndOfMessage;
        }
        let (first, used) = (self.batch.is_empty(), self.batch.len());
        let mut len = self.framer.fpdu_len(fpdu);
        let left = self.left_of_segment(transport, layout, len);
        if len > left {
            self.current.segmenter.rewind(mark);
            // A short FPDU is not cut, but goes into the next batch.
            let short = self.cfg.large_fpdu && len <= layout.mss;
            if short || !self.part_of(left, fpdu) {
                return if first {
                    Next::NewSegment
                } else {
                    Next::EndOfBatch
                };
            }
            len = self.framer.fpdu_len(fpdu);
        }
        if len <= most.saturating_sub(used) && (first || len <= self.batch.room()) {
            return Next::Fpdu(mark);
        }
        self.current.segmenter.rewind(mark);
        Next::EndOfBatch
    }

    /// Takes FPDUs of the message that follow `fpdu` and are like it, if each fills a segment and
    /// all have room behind each other. Returns how many there are, with `fpdu`.
    #[inline]
    fn count_like(&mut self, fpdu: &Segment, layout: &Layout, most: usize) -> usize {
        let (len, used) = (fpdu.fpdu_len(), self.batch.len());
        let Some(segment) = layout.segment else {
            return 1;
        };
        let begins = (layout.segment_offset + used) % segment == 0;
        if fpdu.last() || len != segment.get() || !begins || self.cfg.markers {
            return 1;
        }
        let room = self.batch.contiguous().min(most.saturating_sub(used));
        let more = (room / len).saturating_sub(1);
        1 + self.current.segmenter.skip_like(fpdu, more)
    }

    /// Room in bytes for an FPDU of `len` bytes, before TCP begins another segment, or, for large
    /// FPDUs, another packet that is not of the largest size.
    #[inline]
    fn left_of_segment(
        &self,
        transport: &impl Transport,
        layout: &mut Layout,
        len: usize,
    ) -> usize {
        let used = self.batch.len();
        match layout.segment {
            Some(segment) => match (layout.segment_offset + used) % segment {
                0 => usize::MAX,
                of_segment => segment.get() - of_segment,
            },
            // TCP may cut large FPDUs anywhere. But bytes beyond its large packets would cost one
            // small packet more.
            None if used != 0 && used + len > LEAST_END => {
                end_of_packets(transport, layout).saturating_sub(used)
            }
            None => usize::MAX,
        }
    }

    //= 7306-6.1-1
    /// Ends the message under way, whose last FPDU is in the batch.
    #[inline]
    pub(super) fn end_message(&mut self, queues: &Queues) {
        self.ops.messages += 1;
        if self.current.go_on() {
            return;
        }
        if let Some(seq) = self.current.seq {
            self.built = Some(seq.wrapping_add(1));
        }
        if self.current.answers.is_some() {
            queues.inbound.answered();
        }
        self.current.end();
    }

    /// Makes `fpdu` a segment of the message under way whose FPDU takes exactly `room` bytes, the
    /// rest of a TCP segment, and returns whether it could: "When one or more FPDUs are already
    /// packed into a TCP Segment, MULPDU MAY be reduced accordingly", but not below 128 (RFC 5044
    /// section 4.5). TCP then goes on with full segments. Without the cut it would have to end this
    /// segment early.
    #[inline(never)]
    fn part_of(&mut self, room: usize, fpdu: &mut Segment) -> bool {
        let mulpdu = room.checked_sub(FRAME).map(u16::try_from);
        let Some(Ok(mulpdu @ iwarp::MIN_MULPDU..)) = mulpdu else {
            return false;
        };
        if self.cfg.markers || room % 4 != 0 {
            return false;
        }
        let mark = self.current.segmenter.mark();
        let made = self.current.segmenter.next_into(mulpdu, fpdu);
        // A message that cannot be cut (a Terminate or a Read Request) may be longer than that.
        if !made || fpdu.fpdu_len() > room {
            self.current.segmenter.rewind(mark);
            return false;
        }
        true
    }

    /// Appends all of the message under way, which is short. Errors: no memory.
    pub(super) fn append(&mut self, transport: &impl Transport) -> Result<(), Stop> {
        if self.batch.is_empty() {
            self.batch.begin_segment();
        }
        let mulpdu = iwarp::mpa::mulpdu(transport.segment_len(), self.cfg.markers);
        while let Some(mut fpdu) = self.current.segmenter.next(mulpdu) {
            self.put_fpdus(&mut HeldAccess::none(), &mut fpdu, 1)?;
        }
        Ok(())
    }

    /// Appends `fpdu` and those that follow it and are like it, `count` in all, of which `fpdu` is
    /// the last then; or nothing of them. Several must have room in one piece.
    #[inline]
    fn put_fpdus(
        &mut self,
        access: &mut HeldAccess,
        fpdu: &mut Segment,
        count: usize,
    ) -> Result<(), Stop> {
        let len = self.framer.fpdu_len(fpdu);
        let room = if self.cfg.markers {
            None
        } else {
            self.batch.reserve(len * count)
        };
        let Some(mut reserved) = room else {
            if len > self.batch.contiguous() {
                // Memory for another page may take a while.
                access.end();
            }
            return self.put_pieces(access, fpdu);
        };
        let gather = &mut self.current.gather;
        let (begin, room) = (gather.position(), reserved.bytes());
        let done = match count {
            1 => write_one(&self.framer, fpdu, room, gather, access),
            _ => write_all(&self.framer, fpdu, (len, count), room, gather, access),
        };
        match done {
            Ok(()) => {
                reserved.commit();
                self.ops.fpdus += count as u32;
            }
            Err(_) => gather.seek(begin),
        }
        done
    }

    /// As [`Self::put_fpdus`], for an FPDU that crosses the end of a page or has markers.
    #[inline(never)]
    fn put_pieces(&mut self, access: &mut HeldAccess, fpdu: &Segment) -> Result<(), Stop> {
        let gather = &mut self.current.gather;
        let (mark, position, framer) = (self.batch.len(), gather.position(), self.framer);
        let mut out = Pieces {
            batch: &mut self.batch,
            gather,
            access,
        };
        let done = self.framer.write(fpdu, &mut out);
        if done.is_err() {
            self.batch.rollback(mark);
            self.framer = framer;
            gather.seek(position);
        } else {
            self.ops.fpdus += 1;
        }
        done
    }
}
