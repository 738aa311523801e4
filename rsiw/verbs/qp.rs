// SPDX-License-Identifier: GPL-2.0

//! Verbs on queue pairs.

use super::{
    context,
    queue::{recv_wait_ms, ring_size},
};
use crate::{
    abi::{CreateQpResp, Operations, Rqe, Sqe, MAX_INLINE, MAX_SGE},
    cq::Tag,
    device::{max, Rsiw},
    mem::Access,
    pd::Pd,
    qp::{number::QpNumber, Qp},
    queue::{self, rq::RecvQueue, sq::SendQueue, state::State},
    ring::WorkRing,
    wr::{Extra, Registration, SendOp, SendWr},
};
use iwarp::rdmap::{AtomicOp, ATOMIC_LEN};
use kernel::{prelude::*, sync::Arc};
use rdma::{
    errno, Consumer, Details, Device, NewQp, QpAttr, QpCap, QpHandle, QpInitAttr, QpModify, QpOps,
    QpType, RecvWrs, SendWrs, Udata,
};

/// Checks what a consumer asks for, and sets the number of elements that a request of its can have.
/// Errors: as of [`Qp::create`].
fn check(dev: &Device<Rsiw>, attr: &mut QpInitAttr<Rsiw>, consumer: Consumer) -> Result {
    let has_type = match attr.qp_type {
        QpType::Rc => true,
        QpType::Uc => dev.data().dev.is_rc(),
        QpType::Other(_) => false,
    };
    if !has_type || attr.create_flags != 0 {
        return Err(errno::unsupported());
    }
    let cap = &mut attr.cap;
    let max_send_sge = match consumer {
        Consumer::Process => MAX_SGE as u32,
        Consumer::Kernel => max::SEND_SGE,
    };
    if cap.max_send_sge > max_send_sge
        || cap.max_recv_sge > MAX_SGE as u32
        || cap.max_inline_data > MAX_INLINE
    {
        return Err(EINVAL);
    }
    if consumer == Consumer::Kernel && cap.max_rdma_ctxs != 0 {
        // The RDMA core cuts its consumer's transfers into requests of `max_send_sge` elements
        // (`rdma_rw_ctx_init()`).
        cap.max_send_sge = max_send_sge;
    }
    Ok(())
}

/// The elements of a send queue for `n` requests. Errors: as of [`ring_size`].
fn send_ring_size(n: u32, consumer: Consumer) -> Result<u32> {
    let ring = ring_size(n, max::QP_WR)?;
    Ok(match consumer {
        // At least two elements. After posting, the library rings the doorbell if the element in
        // front of the new ones is not VALID. In a ring of one, that is the new element itself.
        Consumer::Process => ring.max(2),
        // Not a power of two, as each element takes memory, but a few more than asked for:
        // consumers that drain a queue post one more request than it has room for.
        Consumer::Kernel => (n + 1).next_multiple_of(16).min(max::QP_WR),
    })
}

/// Makes the ring of `size` elements that a process posts requests to, and lets the process map it,
/// and `rq`, the one for receives, if the QP has its own. Context: sleeping.
fn shared_ring(
    udata: &mut Udata<'_, Rsiw>,
    qpn: u32,
    size: u32,
    rq: Option<&WorkRing<Rqe>>,
) -> Result<WorkRing<Sqe>> {
    udata.require_out(core::mem::size_of::<CreateQpResp>())?;
    let ring = WorkRing::new(size, Consumer::Process)?;
    let sq_key = udata.share(ring.mem())?;
    let (num_rqe, rq_key) = match rq {
        Some(ring) => (ring.entries(), udata.share(ring.mem())?),
        None => (0, 0),
    };
    udata.respond(&CreateQpResp {
        qp_id: qpn,
        num_sqe: size,
        num_rqe,
        pad: 0,
        sq_key,
        rq_key,
    })?;
    Ok(ring)
}

impl QpOps<Rsiw> for Qp {
    //= 5040-8.1.2-2, 5041-8.3.2-3
    /// Creates a QP, which is not found by its number until [`Self::publish`]. Context: sleeping.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` for other types than RC, and UC where programs connect queue pairs themselves,
    /// and for creation flags; `EINVAL` for limits out of range, `ENOMEM`.
    fn create(
        dev: &Device<Rsiw>,
        pd: &Arc<Pd>,
        attr: &mut QpInitAttr<Rsiw>,
        user: Option<&mut Udata<'_, Rsiw>>,
        new: &mut NewQp<'_>,
    ) -> Result<Arc<Qp>> {
        let consumer = Consumer::of(&user);
        check(dev, attr, consumer)?;
        let scq = attr.send_cq.as_ref().ok_or(EINVAL)?.cq.clone();
        let rcq = attr.recv_cq.as_ref().ok_or(EINVAL)?.cq.clone();
        let rnic = dev.data();
        let held = rnic.dev.quotas.qp.hold()?;
        let sq_size = send_ring_size(attr.cap.max_send_wr, consumer)?;
        // A QP without a receive queue still maps a ring of one element.
        let rq_size = ring_size(attr.cap.max_recv_wr, max::QP_WR)?;
        let number = QpNumber::new(&rnic.qps)?;
        let rq_ring = match attr.srq {
            Some(_) => None,
            None => Some(WorkRing::new(rq_size, consumer)?),
        };
        let (known, sq_ring) = match user {
            Some(udata) => (
                context::known(udata)?,
                Some(shared_ring(udata, number.id(), sq_size, rq_ring.as_ref())?),
            ),
            None => (Operations::Extended, None),
        };
        let cap = &mut attr.cap;
        let rq = match rq_ring {
            Some(ring) => {
                let wait_ms = match cap.max_recv_wr {
                    // No receive will ever be posted.
                    0 => 0,
                    _ => recv_wait_ms(&rnic.dev, consumer),
                };
                let rq = RecvQueue::new(cap.max_recv_sge, pd.id(), ring, 0, None, wait_ms);
                Arc::pin_init(rq, consumer.flags())?
            }
            None => attr.srq.as_ref().ok_or(EINVAL)?.rq.clone(),
        };
        cap.max_send_wr = sq_size;
        if attr.srq.is_none() && cap.max_recv_wr != 0 {
            cap.max_recv_wr = rq_size;
        }
        cap.max_inline_data = MAX_INLINE;
        new.set_number(number.id());
        let queues = queue::Parts {
            dev: rnic.dev.clone(),
            pd: pd.clone(),
            tag: Tag {
                number: number.id(),
                token: new.handle().token(),
            },
            scq,
            rcq,
            sq: SendQueue::new(sq_size, cap.max_send_sge, attr.signal_all, known, sq_ring)?,
            rq,
            rq_is_shared: attr.srq.is_some(),
        };
        let qp = Qp::new(number, queues, new.handle(), consumer, held)?;
        if attr.qp_type == QpType::Uc {
            qp.stream.set_unreliable();
        }
        Ok(qp)
    }

    /// Finds the queue pair `qpn`, which the current task wants to connect. Returns `None` if there
    /// is no such queue pair, or if it belongs to another process or to the kernel; the RDMA core
    /// does not check that. Context: interrupts may be off.
    fn find(dev: &Device<Rsiw>, qpn: u32) -> Option<QpHandle> {
        let qps = &dev.data().qps;
        let handle = qps.with(qpn, |qp| {
            let stream = &qp.stream;
            stream
                .owner()
                .admits_current()
                .then(|| stream.handle().clone())
        })?;
        if handle.is_none() {
            kext::ratelimited_warn!(
                dev.name(),
                "QP {qpn}: another process tried to connect it; refused\n"
            );
        }
        handle
    }

    fn publish(self: &Arc<Self>) -> Result {
        self.enter()
    }

    fn modify(self: &Arc<Self>, m: &QpModify) -> Result {
        if !self.is_rc() {
            return self.change(m);
        }
        let handle = self.queues().dev.handle();
        let dev = handle.and_then(|handle| handle.try_get()).ok_or(ENODEV)?;
        self.change_rc(&dev, &dev.data().doors, m)
    }

    /// The QP's attributes. Errors: `ENODEV`.
    fn query(self: &Arc<Self>) -> Result<QpAttr> {
        let queues = self.queues();
        let mtu = queues
            .dev
            .handle()
            .and_then(|h| h.try_get())
            .and_then(|d| d.netdev().map(|n| n.mtu()))
            .ok_or(ENODEV)?;
        let terms = self.stream.terms();
        let mut attr = QpAttr {
            state: self.state().to_verbs(),
            cap: QpCap {
                max_send_wr: queues.sq.size(),
                max_recv_wr: if queues.rq_is_shared() {
                    0
                } else {
                    queues.rq.status().size
                },
                max_send_sge: queues.sq.max_sge(),
                max_recv_sge: queues.rq.max_sge(),
                max_inline_data: MAX_INLINE,
                ..Default::default()
            },
            access: rdma::Access::LOCAL_WRITE
                | rdma::Access::from_bits(self.stream.access().bits()),
            path_mtu: mtu,
            max_rd_atomic: terms.ord as u8,
            max_dest_rd_atomic: terms.ird as u8,
            signal_all: queues.sq.signal_all(),
            sq_draining: false,
            path: Default::default(),
        };
        self.tell_rc(&mut attr);
        Ok(attr)
    }

    /// The values that `rdma -dd res show qp` shows beside the attributes. The number of receives
    /// that each QP has taken shows which peer empties a shared queue (RFC 5040 section 8.1.2).
    fn describe(self: &Arc<Self>, details: &mut Details<'_>) -> Result {
        let terms = self.stream.terms();
        details.number(c"ird", terms.ird.into())?;
        details.number(c"ord", terms.ord.into())?;
        details.number(c"crc", terms.crc.into())?;
        details.number(c"large_fpdu", terms.large_fpdu.into())?;
        details.number(c"send_immediate", terms.send_immediate.into())?;
        details.number(c"reads_asked", self.queues().inbound.waiting().into())?;
        details.number(c"receives_taken", self.queues().receives.get())?;
        if let Some(cookie) = self.stream.tcp_cookie() {
            details.hex(c"tcp_cookie", cookie)?;
        }
        match self.stream.identity() {
            Some(peer) => details.text(c"tls_peer", peer),
            None => Ok(()),
        }
    }

    /// Ends a QP: afterwards it is not found, and does not send, receive or complete. Context:
    /// sleeping.
    fn destroy(self: &Arc<Self>) -> Result {
        self.retire();
        self.stream.end();
        self.end_rc();
        self.close_account();
        Ok(())
    }

    fn doorbell(self: &Arc<Self>) -> Result {
        self.ring_doorbell();
        Ok(())
    }

    //= 5041-6.2.1-1: Local Peer ULP MUST return an error.
    /// Posts a kernel consumer's send requests, up to the first bad one. Context: any. Errors:
    /// `ENOTCONN` before a connection has begun; those of the first bad request.
    fn post_send(self: &Arc<Self>, wrs: &mut SendWrs<'_, Rsiw>) -> Result {
        if self.state() == State::Idle {
            return Err(net::errno::ENOTCONN.error());
        }
        let queues = self.queues();
        let mut notify = Default::default();
        let mut result = Ok(());
        while let Some(wr) = wrs.next() {
            let request = match &wr.op {
                // The peer has to know it, as no RFC has it.
                rdma::SendOp::SendImm { .. } if self.lacks_send_immediate() => {
                    Err(errno::unsupported())
                }
                _ => kernel_request(queues.sq.max_sge(), &wr),
            };
            if let Ok((wr, _)) = &request {
                if matches!(wr.extra, Extra::Immediate(_)) {
                    queues.pd.take_immediates();
                }
            }
            match request.and_then(|(wr, more)| queues.sq.post(wr, more, queues.send_out())) {
                Ok(n) => notify |= n,
                Err(e) => {
                    result = Err(e);
                    break;
                }
            }
        }
        self.stream.defer_notify(notify, Default::default());
        self.stream.wake_tx();
        result
    }

    /// Posts a kernel consumer's receives, up to the first bad one. Context: any. Errors: `EINVAL`
    /// if the receive queue is shared; those of the first bad request.
    fn post_recv(self: &Arc<Self>, wrs: &mut RecvWrs<'_>) -> Result {
        let queues = self.queues();
        if queues.rq_is_shared() {
            return Err(EINVAL);
        }
        let mut notify = Default::default();
        let mut result = Ok(());
        while let Some(wr) = wrs.next() {
            // To drain a queue pair in ERROR the core posts such a receive, too.
            if wr.sges.is_empty() && self.state() != State::Error {
                queues.pd.take_immediates();
            }
            match queues.rq.post(wr.id, wr.sges, Some(queues.recv_out())) {
                Ok(n) => notify |= n,
                Err(e) => {
                    result = Err(e);
                    break;
                }
            }
        }
        self.stream.defer_notify(Default::default(), notify);
        result
    }
}

impl Qp {
    /// Whether a connection has been agreed on that does not carry Sends with immediate data.
    fn lacks_send_immediate(&self) -> bool {
        matches!(self.state(), State::Rts | State::Closing) && !self.stream.terms().send_immediate
    }
}

/// Converts a kernel consumer's send request, of up to `max_sge` elements, to the driver's form.
/// Also returns the elements of its list that have no room there.
fn kernel_request<'a>(
    max_sge: u32,
    wr: &rdma::SendWr<'a, Rsiw>,
) -> Result<(SendWr, &'a [rdma::Sge])> {
    use rdma::SendOp as Op;
    let (op, rkey, raddr, payload) = match wr.op {
        Op::Send => (SendOp::Send, 0, 0, true),
        Op::SendInv { rkey } => (SendOp::SendInv, rkey, 0, true),
        Op::Write { remote_addr, rkey } => (SendOp::Write, rkey, remote_addr, true),
        Op::Read { remote_addr, rkey } => (SendOp::Read, rkey, remote_addr, true),
        Op::ReadInv { remote_addr, rkey } => (SendOp::ReadLocalInv, rkey, remote_addr, true),
        Op::LocalInv { rkey } => (SendOp::LocalInv, rkey, 0, false),
        Op::RegMr { .. } => (SendOp::RegMr, 0, 0, false),
        Op::WriteImm {
            remote_addr, rkey, ..
        } => (SendOp::WriteImm, rkey, remote_addr, true),
        Op::FetchAdd {
            remote_addr, rkey, ..
        } => (SendOp::FetchAdd, rkey, remote_addr, true),
        Op::CmpSwap {
            remote_addr, rkey, ..
        } => (SendOp::CmpSwap, rkey, remote_addr, true),
        Op::SendImm { .. } => (SendOp::SendImm, 0, 0, true),
        Op::Other(_) => return Err(EINVAL),
    };
    let mut out = SendWr::new(wr.id, op, rkey, raddr);
    out.signalled = wr.flags.signaled();
    out.solicited = wr.flags.solicited();
    out.fence = wr.flags.fence();
    out.extra = match &wr.op {
        Op::RegMr {
            mr,
            key,
            access,
            iova,
        } => Extra::Registration(Registration {
            region: mr.region.clone(),
            key: *key,
            access: Access::from_verbs(*access)?,
            iova: *iova,
        }),
        Op::SendImm { imm } | Op::WriteImm { imm, .. } => Extra::Immediate(*imm),
        Op::FetchAdd { add, mask, .. } => Extra::Atomic(AtomicOp::FetchAdd {
            add: *add,
            mask: *mask,
        }),
        Op::CmpSwap { compare, swap, .. } => Extra::Atomic(AtomicOp::CmpSwap {
            compare: compare.0,
            compare_mask: compare.1,
            swap: swap.0,
            swap_mask: swap.1,
        }),
        _ => Extra::None,
    };
    let mut more: &[_] = &[];
    if payload {
        if wr.sges.len() > max_sge as usize || op.is_answered() && wr.sges.len() > 1 {
            return Err(EINVAL);
        }
        // The request invalidates the STag of its sink, so it needs one.
        if op == SendOp::ReadLocalInv && wr.sges.is_empty() {
            return Err(EINVAL);
        }
        if op.is_atomic() && wr.sges.iter().map(rdma::Sge::length).ne([ATOMIC_LEN]) {
            return Err(EINVAL);
        }
        if wr.flags.inline() && !op.is_answered() {
            let mut data = [0; MAX_INLINE as usize];
            let n = wr.copy_inline(&mut data)?;
            out.push_inline(data.get(..n).ok_or(EINVAL)?)?;
        } else {
            more = out.set_sges(wr.sges)?;
        }
    }
    Ok((out, more))
}
