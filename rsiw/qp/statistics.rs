// SPDX-License-Identifier: GPL-2.0

//! What the queue pairs of a device have counted, added up: for the device, and for counter sets.
//!
//! Each queue pair counts for itself, and never begins anew. An administrator may bind queue
//! pairs to a counter set (`rdma statistic qp bind`), which then has what they count from that
//! moment on. The RDMA core adds the sets to what the device shows for itself. So a queue pair's
//! counts are split in parts: those up to [`Account::since`] are in a sum already, and the rest
//! belongs to its set, or to the device.

use crate::{counters::Traffic, stream::Stream};
use kernel::{
    new_mutex,
    prelude::*,
    rbtree::{RBTree, RBTreeNode, RBTreeNodeReservation},
    sync::{Arc, Mutex},
};

/// A value of each counter.
type Values = [u64; Traffic::COUNT];

/// The accounts of a device's queue pairs. Its lock is a leaf but for the locks that
/// [`Stream::sample`] takes.
pub(crate) struct Statistics(Pin<KBox<Mutex<State>>>);

struct State {
    /// The device's own: of queue pairs that were in no set, for as long as they were not.
    past: Values,
    /// Of queue pairs that are closed, in a set or not.
    closed: Values,
    /// All that was counted, as it was read last.
    last: Last,
    accounts: RBTree<u32, Account>,
    sets: RBTree<u32, Set>,
    last_set: u32,
}

/// A counter set.
struct Set {
    /// What queue pairs have counted that were in it.
    past: Values,
    /// What was read last, until something changes.
    last: Last,
}

/// A sum that was read, and when (in milliseconds). The core reads a set once for each counter that
/// the device has, and a tool the files of a port one by one. Each time it would be added up anew.
#[derive(Default)]
struct Last(Option<(u32, Values)>);

impl Last {
    /// The sum, which `sum` adds up if the one that was read last is too old.
    fn get(&mut self, sum: impl FnOnce() -> Values) -> Values {
        /// Milliseconds; as long as the core keeps the counters of a device.
        const LIFESPAN: u32 = 10;
        let now = kext::jiffies_ms();
        match self.0 {
            Some((then, last)) if now.wrapping_sub(then) < LIFESPAN => last,
            _ => {
                let sum = sum();
                self.0 = Some((now, sum));
                sum
            }
        }
    }
}

struct Account {
    stream: Arc<Stream>,
    /// What the queue pair had counted when it was bound last, or taken out of a set. `None` if it
    /// never was, as most are: then it counts from 0.
    since: Option<KBox<Values>>,
    set: Option<u32>,
}

impl Account {
    /// What the queue pair has counted in all.
    fn all(&self) -> Values {
        self.stream.sample();
        self.stream.queues.counters.values()
    }

    /// What the queue pair has counted since `since`, for its set or for the device.
    fn rest(&self) -> Values {
        let mut values = self.all();
        for (value, since) in values
            .iter_mut()
            .zip(self.since.iter().flat_map(|s| s.iter()))
        {
            *value = value.wrapping_sub(*since);
        }
        values
    }
}

fn add(sum: &mut [u64], values: &Values) {
    for (sum, value) in sum.iter_mut().zip(values) {
        *sum = sum.wrapping_add(*value);
    }
}

impl State {
    /// Adds the rest of an account to what it belongs to, and has it belong to `set` from now on.
    /// `zeros` becomes its `since` if it has none; without either, the account must not be used
    /// again.
    fn move_to(&mut self, number: u32, set: Option<u32>, zeros: Option<KBox<Values>>) -> Result {
        let account = self.accounts.get_mut(&number).ok_or(ENOENT)?;
        if account.set.is_some() && set.is_some() {
            return Err(EBUSY);
        }
        // Sampled once: what is counted between the two would be lost.
        let rest = account.rest();
        account.since = account.since.take().or(zeros);
        if let Some(since) = &mut account.since {
            add(&mut since[..], &rest);
        }
        let old = core::mem::replace(&mut account.set, set);
        let sum = match old.and_then(|old| self.sets.get_mut(&old)) {
            Some(set) => {
                set.last = Last::default();
                &mut set.past
            }
            None => &mut self.past,
        };
        add(sum, &rest);
        Ok(())
    }
}

impl Statistics {
    /// Makes accounts of no queue pair. Context: sleeping. Errors: `ENOMEM`.
    pub(super) fn new() -> Result<Self> {
        let state = State {
            past: [0; Traffic::COUNT],
            closed: [0; Traffic::COUNT],
            last: Last::default(),
            accounts: RBTree::new(),
            sets: RBTree::new(),
            last_set: 0,
        };
        Ok(Self(KBox::pin_init(
            new_mutex!(state, "rsiw_statistics"),
            GFP_KERNEL,
        )?))
    }

    /// Opens the account of the queue pair with that number. Context: sleeping. Errors: `ENOMEM`.
    pub(super) fn open(&self, number: u32, stream: &Arc<Stream>) -> Result {
        let account = Account {
            stream: stream.clone(),
            since: None,
            set: None,
        };
        let node = RBTreeNode::new(number, account, stream.owner().consumer().flags())?;
        let old = self.0.lock().accounts.insert(node);
        drop(old);
        Ok(())
    }

    /// Closes an account: the consumer has destroyed the queue pair. What a connection that lingers
    /// still counts is in no sum. Context: sleeping.
    pub(super) fn close(&self, number: u32) {
        let mut state = self.0.lock();
        let _ = state.move_to(number, None, None);
        if let Some(all) = state.accounts.get(&number).map(Account::all) {
            add(&mut state.closed, &all);
        }
        let account = state.accounts.remove_node(&number);
        drop(state);
        // Not under the lock, as this may be the last reference to the stream.
        drop(account);
    }

    /// Adds what belongs to the device, and to no set, to `values`. Context: sleeping.
    pub(crate) fn read(&self, values: &mut [u64]) {
        let state = self.0.lock();
        add(values, &state.past);
        for account in state.accounts.values().filter(|a| a.set.is_none()) {
            add(values, &account.rest());
        }
    }

    /// All that the queue pairs have counted, in a set or not. Context: sleeping.
    pub(crate) fn read_all(&self) -> Values {
        let state = &mut *self.0.lock();
        let (accounts, closed) = (&state.accounts, &state.closed);
        state.last.get(|| {
            let mut sum = *closed;
            for account in accounts.values() {
                add(&mut sum, &account.all());
            }
            sum
        })
    }

    /// Makes a counter set; returns its number, which is not 0. Context: sleeping. Errors:
    /// `ENOMEM`; `EBUSY` if too many numbers are in use.
    pub(crate) fn new_set(&self) -> Result<u32> {
        const TRIES: u32 = 1 << 10;
        // Not under the lock: those who make and destroy queue pairs may be needed to free memory.
        let node = RBTreeNodeReservation::new(GFP_KERNEL)?;
        let mut state = self.0.lock();
        for _ in 0..TRIES {
            state.last_set = state.last_set.checked_add(1).unwrap_or(1);
            let set = state.last_set;
            if state.sets.get(&set).is_none() {
                let empty = Set {
                    past: [0; Traffic::COUNT],
                    last: Last::default(),
                };
                state.sets.insert(node.into_node(set, empty));
                return Ok(set);
            }
        }
        Err(EBUSY)
    }

    /// Removes a counter set, in which no queue pair is any more. Context: sleeping.
    pub(crate) fn free_set(&self, set: u32) {
        let node = self.0.lock().sets.remove_node(&set);
        drop(node);
    }

    /// Adds what the queue pairs of a set count to `values`. Context: sleeping.
    pub(crate) fn read_set(&self, set: u32, values: &mut [u64]) {
        let State { accounts, sets, .. } = &mut *self.0.lock();
        let Some(Set { past, last }) = sets.get_mut(&set) else {
            return;
        };
        let sum = last.get(|| {
            let mut sum = *past;
            for account in accounts.values().filter(|a| a.set == Some(set)) {
                add(&mut sum, &account.rest());
            }
            sum
        });
        add(values, &sum);
    }

    /// Puts a queue pair into `set`, or takes it out of its set. Context: sleeping. Errors:
    /// `ENOMEM`, when it is put into one; `ENOENT`: the queue pair is not, or not any more, one
    /// that counts. `EBUSY`: it is in a set, as two who bind it have come at once.
    pub(crate) fn bind(&self, number: u32, set: Option<u32>) -> Result {
        // Not under the lock, as in `new_set`. One in a set has its `since`, so that taking it
        // out cannot fail.
        let zeros = match set {
            Some(_) => Some(KBox::new([0; Traffic::COUNT], GFP_KERNEL)?),
            None => None,
        };
        let mut state = self.0.lock();
        match state.accounts.get(&number) {
            Some(account) if account.set.is_none() && set.is_none() => Ok(()),
            _ => state.move_to(number, set, zeros),
        }
    }
}
