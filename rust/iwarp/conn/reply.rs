// SPDX-License-Identifier: GPL-2.0

//! What a peer's Reply means to an attempt to connect.

use super::{Input, Plan};
use crate::mpa::{Agreed, Frame, Initiator, Limits, MpaError};

/// What a Reply says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The peer accepts, on these terms.
    Accepts(Agreed),
    /// The peer rejects.
    Rejects,
    /// The peer rejects, gives no reason and does not know offers of FPDUs that are larger than a
    /// TCP segment. So it may mean the offer.
    RejectsTheOffer,
    /// The peer accepts in the format of revision 1. It does not know the new one, and has passed
    /// the enhanced data to its consumer as private data, so its consent is void.
    OldFormat,
    /// The peer accepts on terms that this end cannot meet
    /// ([`MpaError::Incompatible`]).
    Incompatible(MpaError),
    /// The Reply is none that a peer may send.
    Bad(MpaError),
    /// Within TLS nobody sends markers, and nobody answers in the format of revision 1.
    NotWithinTls,
}

impl Answer {
    //= 5044-7.1.2-7
    /// What `reply` says to the Request of `mpa`.
    pub fn of(reply: &Frame<'_>, mpa: Initiator, plan: &Plan, limits: Limits) -> Self {
        if plan.secure && reply.markers() {
            return Self::NotWithinTls;
        }
        // A rejection stands in whatever format: another attempt would hide it, and the private
        // data that say why.
        if plan.revision >= 2 && reply.enhanced().is_none() && !reply.rejected() {
            return if plan.secure {
                Self::NotWithinTls
            } else {
                Self::OldFormat
            };
        }
        let reason = reply.knows_large_fpdu() || !reply.private_data().is_empty();
        if plan.large_fpdu && reply.rejected() && !reason {
            return Self::RejectsTheOffer;
        }
        match mpa.reply(reply, limits) {
            Ok(agreed) => Self::Accepts(agreed),
            Err(MpaError::Rejected) => Self::Rejects,
            Err(e @ MpaError::Incompatible { .. }) => Self::Incompatible(e),
            Err(e) => Self::Bad(e),
        }
    }

    /// The machine's input for it.
    pub fn input(&self) -> Input {
        match self {
            Self::Accepts(_) => Input::Accepted,
            Self::Rejects => Input::Rejected,
            Self::RejectsTheOffer => Input::OfferRejected,
            Self::OldFormat => Input::OldFormat,
            Self::Incompatible(_) => Input::Incompatible,
            Self::Bad(_) | Self::NotWithinTls => Input::BadReply,
        }
    }
}
