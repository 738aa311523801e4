// SPDX-License-Identifier: GPL-2.0

//! A peer: a receiver and a framer, with memory and queues on top.

use std::collections::VecDeque;

use iwarp::rdmap::{AtomicRequest, AtomicResponse, Immediate};
use iwarp::rx::{ReadExpect, Receiver};
use iwarp::tx::{Framer, Message, Segmenter};
use iwarp::{Msn, ReadRequest, Stag, TaggedOffset, Terminate};

use crate::guard::Guard;
use crate::node::{Asked, Node};
use crate::stream::Tape;
use crate::{receiver, shared, Entropy};

/// An operation of the send queue.
#[derive(Clone, Debug)]
pub enum Op {
    /// Send of any kind.
    Send {
        /// The message.
        data: Vec<u8>,
        /// With Solicited Event.
        solicited: bool,
        /// With Invalidate.
        invalidate: Option<u32>,
    },
    /// Send with immediate data.
    SendImmediate {
        /// The message.
        data: Vec<u8>,
        /// With Solicited Event.
        solicited: bool,
        /// The immediate data.
        immediate: [u8; 4],
    },
    /// RDMA Write.
    Write {
        /// Bytes to write.
        data: Vec<u8>,
        /// Buffer of the peer.
        stag: u32,
        /// Tagged Offset of the first byte.
        to: u64,
    },
    /// RDMA Read.
    Read(ReadRequest),
    /// Immediate Data, with or without Solicited Event.
    Immediate {
        /// The data.
        data: Immediate,
        /// With Solicited Event.
        solicited: bool,
    },
    /// Atomic Operation.
    Atomic(AtomicRequest),
}

/// A message that is being sent.
#[derive(Debug)]
struct Active {
    segmenter: Segmenter,
    payload: Vec<u8>,
    tagged: bool,
}

impl Active {
    fn new(message: Message, payload: Vec<u8>) -> Self {
        let tagged = matches!(
            message,
            Message::Write { .. } | Message::ReadResponse { .. }
        );
        Self {
            segmenter: Segmenter::new(message, payload.len() as u32),
            payload,
            tagged,
        }
    }
}

/// One end of a connection in Full Operation.
#[derive(Debug)]
pub struct Peer {
    /// Memory and queues.
    pub node: Guard<Node>,
    /// Operations not yet begun.
    pub sq: VecDeque<Op>,
    /// Number of operations begun.
    pub begun: usize,
    /// Terminate to be sent, or sent.
    pub fault: Option<Terminate>,
    /// Nothing more is sent.
    pub quiet: bool,
    /// A fault was found.
    faulted: bool,
    rx: Receiver,
    framer: Framer,
    ord: usize,
    send_msn: Msn,
    read_msn: Msn,
    atomic_msn: Msn,
    /// The operation under way.
    current: Option<Active>,
    /// The Read Response under way.
    response: Option<Active>,
}

impl Peer {
    /// A peer with these depths.
    pub fn new(crc: bool, ird: usize, ord: usize) -> Self {
        Self {
            node: Guard::new(Node::new(ird), crc),
            sq: VecDeque::new(),
            begun: 0,
            fault: None,
            quiet: false,
            faulted: false,
            rx: receiver(crc),
            framer: Framer::new(crc, false),
            ord,
            send_msn: Msn::FIRST,
            read_msn: Msn::FIRST,
            atomic_msn: Msn::FIRST,
            current: None,
            response: None,
        }
    }

    /// Whether the receiver has found a fault.
    pub fn is_faulted(&self) -> bool {
        self.faulted
    }

    /// Number of calls of the handler.
    pub fn calls(&self) -> usize {
        self.node.calls.len()
    }

    /// Memory and queues.
    pub fn node(&mut self) -> &mut Node {
        &mut self.node.inner
    }

    /// Whether the received stream is in the middle of a message.
    pub fn mid_message(&self) -> bool {
        self.rx.mid_message()
    }

    /// Takes bytes from the wire.
    pub fn receive(&mut self, chunk: &[u8]) {
        if let Err(fault) = self.rx.receive(&shared(chunk), &mut self.node) {
            if self.fault.is_none() && !self.quiet {
                self.fault = self.rx.terminate_for(&fault);
                assert_eq!(self.fault.is_some(), fault.term().is_some(), "{fault}");
                // A fault without a Terminate to send ends the connection.
                self.quiet = self.fault.is_none();
                self.faulted = true;
            }
        }
    }

    /// Sends one FPDU of any message that may be sent now; `false` if there is none.
    pub fn transmit(&mut self, e: &mut Entropy, mulpdu: u16, wire: &mut VecDeque<u8>) -> bool {
        if self.quiet || self.node.inner.terminated.is_some() {
            return false;
        }
        if let Some(term) = self.fault {
            // RFC 5040 s5.4: "After sending a Terminate Message on an RDMAP Stream, the Local Peer
            // MUST NOT send any more Messages".
            self.quiet = true;
            let mut active = Active::new(Message::Terminate { term }, Vec::new());
            self.frame(&mut active, mulpdu, wire);
            return true;
        }
        let first = e.flag();
        for response in [first, !first] {
            let lane = if response {
                self.next_response()
            } else {
                self.next_operation()
            };
            if let Some(mut active) = lane {
                self.frame(&mut active, mulpdu, wire);
                if !active.segmenter.done() {
                    let lane = if response {
                        &mut self.response
                    } else {
                        &mut self.current
                    };
                    *lane = Some(active);
                }
                return true;
            }
        }
        false
    }

    fn frame(&mut self, active: &mut Active, mulpdu: u16, wire: &mut VecDeque<u8>) {
        let segment = active.segmenter.next(mulpdu).expect("segment");
        let mut tape = Tape {
            out: Vec::new(),
            payload: &active.payload,
            at: segment.payload_offset() as usize,
        };
        let Ok(()) = self.framer.write(&segment, &mut tape);
        wire.extend(tape.out);
    }

    /// Whether as many Reads and Atomic Operations are outstanding as ORD allows.
    fn asks_no_more(&self) -> bool {
        let node = &self.node.inner;
        node.orq.len() + node.atomics.len() >= self.ord
    }

    /// The operation to continue or to begin. A tagged operation must not begin in the middle of a
    /// response.
    fn next_operation(&mut self) -> Option<Active> {
        if let Some(active) = self.current.take() {
            return Some(active);
        }
        let within_response = self.response.is_some();
        match self.sq.front()? {
            Op::Write { .. } if within_response => return None,
            Op::Read(_) | Op::Atomic(_) if self.asks_no_more() => return None,
            _ => {}
        }
        self.begun += 1;
        Some(match self.sq.pop_front()? {
            Op::Send {
                data,
                solicited,
                invalidate,
            } => {
                let msn = take(&mut self.send_msn);
                let message = Message::Send {
                    msn,
                    solicited,
                    invalidate: invalidate.map(Stag),
                };
                Active::new(message, data)
            }
            Op::SendImmediate {
                data,
                solicited,
                immediate,
            } => {
                let message = Message::SendImmediate {
                    msn: take(&mut self.send_msn),
                    solicited,
                    data: immediate,
                };
                Active::new(message, data)
            }
            Op::Write { data, stag, to } => {
                let message = Message::Write {
                    stag: Stag(stag),
                    to: TaggedOffset(to),
                };
                Active::new(message, data)
            }
            Op::Read(req) => {
                let msn = take(&mut self.read_msn);
                self.node.inner.orq.push_back(ReadExpect {
                    stag: req.sink_stag,
                    to: req.sink_to,
                    len: req.len,
                });
                Active::new(Message::ReadRequest { msn, req }, Vec::new())
            }
            Op::Immediate { data, solicited } => {
                let message = Message::Immediate {
                    msn: take(&mut self.send_msn),
                    solicited,
                    data,
                };
                Active::new(message, Vec::new())
            }
            Op::Atomic(req) => {
                let msn = take(&mut self.read_msn);
                self.node.inner.atomics.push_back(req.id);
                Active::new(Message::AtomicRequest { msn, req }, Vec::new())
            }
        })
    }

    /// The response to continue or to begin. No Read Response must begin in the middle of a tagged
    /// operation.
    fn next_response(&mut self) -> Option<Active> {
        if let Some(active) = self.response.take() {
            return Some(active);
        }
        let within_tagged = self.current.as_ref().is_some_and(|a| a.tagged);
        match self.node.inner.irq.front()? {
            Asked::Read(_) if within_tagged => None,
            Asked::Read(req) => {
                let req = *req;
                self.node.inner.irq.pop_front();
                Some(self.read_response(&req))
            }
            Asked::Atomic(req) => {
                let req = *req;
                self.node.inner.irq.pop_front();
                let response = AtomicResponse {
                    id: req.id,
                    value: self.node.inner.execute(&req),
                };
                let msn = take(&mut self.atomic_msn);
                let message = Message::AtomicResponse { msn, response };
                Some(Active::new(message, Vec::new()))
            }
        }
    }

    fn read_response(&self, req: &ReadRequest) -> Active {
        let data = if req.len == 0 {
            Vec::new()
        } else {
            let region = &self.node.inner.regions[&req.src_stag.0];
            let range = region.range(req.src_to.0, req.len).expect("checked");
            region.data[range].to_vec()
        };
        let message = Message::ReadResponse {
            stag: req.sink_stag,
            to: req.sink_to,
        };
        Active::new(message, data)
    }
}

/// The MSN of the next message of a queue.
fn take(msn: &mut Msn) -> Msn {
    core::mem::replace(msn, msn.next())
}
