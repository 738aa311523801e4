// SPDX-License-Identifier: GPL-2.0

//! Settings of a device. Module parameters give them to new devices, and sysfs shows and changes
//! those of a device in use (`/sys/class/infiniband/NAME/settings`). What concerns a connection
//! holds for those that are set up after a change, unless its description says otherwise.

use crate::{module_parameters, tls_names::Names};
use core::{
    ops::RangeInclusive,
    sync::atomic::{AtomicU32, Ordering},
};
use kernel::{new_mutex, prelude::*, str::CStr, sync::Mutex};
use net::Identity;
use rdma::compat::param;

/// The settings: a name, which is that of the module parameter, with its type, and a range. The
/// functions that read them tell what they mean.
macro_rules! settings {
    ($($name:ident: $type:ty = $range:expr,)*) => {
        /// The settings of one device. No other data depends on a value, so accesses are relaxed.
        pub(crate) struct Settings {
            $($name: AtomicU32,)*
            /// Which peers may connect.
            tls_names: Pin<KBox<Mutex<Names>>>,
            /// Held while a setting is changed, and what depends on it.
            changes: Pin<KBox<Mutex<()>>>,
        }

        /// Names of the settings, which are those of the module parameters.
        pub(crate) const NAMES: &[&CStr] = &[$(setting_name!($name),)*];

        const RANGES: &[RangeInclusive<u32>] = &[$($range,)*];

        impl Settings {
            /// The settings that the module's parameters have. One that is out of range becomes the
            /// nearest that is in range, and the log says so. Context: sleeping. Errors: `ENOMEM`.
            pub(crate) fn of_parameters() -> Result<Self> {
                Ok(Self {
                    $($name: AtomicU32::new(in_range(
                        stringify!($name),
                        u32::from(param::<$type>(module_parameters::$name.value())),
                        $range,
                    )),)*
                    tls_names: KBox::pin_init(
                        new_mutex!(Names::new(), "rsiw_tls_names"),
                        GFP_KERNEL,
                    )?,
                    changes: KBox::pin_init(new_mutex!((), "rsiw_settings"), GFP_KERNEL)?,
                })
            }

            /// Values in the order of [`NAMES`].
            fn all(&self) -> [&AtomicU32; NAMES.len()] {
                [$(&self.$name,)*]
            }
        }
    };
}

/// A setting's name as a C string.
macro_rules! setting_name {
    ($name:ident) => {
        match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
            Ok(name) => name,
            Err(_) => c"",
        }
    };
}

fn in_range(name: &str, value: u32, range: RangeInclusive<u32>) -> u32 {
    if range.contains(&value) {
        return value;
    }
    let nearest = value.clamp(*range.start(), *range.end());
    pr_warn!("parameter {name}={value} is out of range, {nearest} is used\n");
    nearest
}

/// An hour: longer than anybody waits for a peer's first message.
const HOUR_MS: u32 = 3_600_000;

settings! {
    crc: u8 = 0..=1,
    verify_first: u8 = 0..=1,
    large_fpdu: u8 = 0..=1,
    peer_to_peer: u8 = 0..=1,
    mpa_revision: u8 = 1..=2,
    tx_budget_kib: u32 = 64..=16384,
    port_mapper: u8 = 0..=1,
    tls: u8 = 0..=3,
    tls_psk: u8 = 0..=1,
    tls_key_mib: u32 = 1..=368_640,
    rc_port: u32 = 1..=65_535,
    rc_low_ports: u8 = 0..=1,
    rc_confirm: u8 = 0..=1,
    recv_wait_ms: u32 = 0..=60_000,
    initiator_wait_ms: u32 = 0..=HOUR_MS,
    responder_wait_ms: u32 = 0..=HOUR_MS,
    // The bounds of these four are TCP's.
    keepalive_idle_s: u32 = 0..=32767,
    keepalive_interval_s: u32 = 1..=32767,
    keepalive_count: u32 = 1..=127,
    user_timeout_ms: u32 = 0..=0x7fff_ffff,
}

/// Which connections of a device use TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TlsPolicy {
    /// None.
    Off,
    /// Those that a peer begins with TLS. This end connects without.
    Allow,
    /// As [`Allow`](Self::Allow), but this end connects with TLS, and with nothing else.
    Initiate,
    /// All.
    Require,
}

impl TlsPolicy {
    /// Whether connections with TLS are possible.
    pub(crate) fn is_on(self) -> bool {
        self != Self::Off
    }

    /// Whether this end connects with TLS, and with nothing else. Nothing but the administrator
    /// decides that: if a failed handshake led to an attempt without TLS, anybody on the path could
    /// have it fail.
    pub(crate) fn initiates(self) -> bool {
        matches!(self, Self::Initiate | Self::Require)
    }
}

impl Settings {
    /// The setting with that index in [`NAMES`]; 0 if there is none. Context: any.
    pub(crate) fn get(&self, index: usize) -> u32 {
        self.all()
            .get(index)
            .map_or(0, |value| value.load(Ordering::Relaxed))
    }

    /// Changes the setting with that index in [`NAMES`], and calls `then` before another change is
    /// made. Context: sleeping. Errors: `EINVAL` if the value is out of range, or if there is no
    /// such setting.
    pub(crate) fn set(&self, index: usize, value: u32, then: impl FnOnce(&Self)) -> Result {
        let range = RANGES.get(index).ok_or(EINVAL)?;
        if !range.contains(&value) {
            return Err(EINVAL);
        }
        let _one_at_a_time = self.changes.lock();
        self.all()[index].store(value, Ordering::Relaxed);
        then(self);
        Ok(())
    }

    /// Writes the names of peers that may connect to `out`; returns how many bytes they are.
    /// Context: sleeping.
    pub(crate) fn tls_names(&self, out: &mut [u8]) -> usize {
        let names = self.tls_names.lock();
        let text = names.text();
        match out.get_mut(..text.len()) {
            Some(out) => out.copy_from_slice(text),
            None => return 0,
        }
        text.len()
    }

    /// Changes the names of peers that may connect. Context: sleeping. Errors: as of
    /// [`Names::read`].
    pub(crate) fn set_tls_names(&self, text: &[u8]) -> Result {
        let names = Names::read(text)?;
        *self.tls_names.lock() = names;
        Ok(())
    }

    /// Whether `peer` may connect to a listener at `port`; `None`: no TLS has verified it. Context:
    /// sleeping.
    pub(crate) fn admits(&self, port: u16, peer: Option<&Identity>) -> bool {
        self.tls_names.lock().admit(port, peer)
    }

    //= 5044-4.4-3: for a connection MUST be to use CRCs.
    //= 5044-4.4-4: The process MUST be invisible to the ULP.
    //# no verb has to do with CRCs, and the same programs run with them and without
    //= 5044-1.2-2
    /// Whether this end insists on CRCs. They are used if either end does (RFC 5044 section 7.1.1).
    pub(crate) fn crc_required(&self) -> bool {
        self.crc.load(Ordering::Relaxed) != 0
    }

    /// Whether the payload of each FPDU is placed only after its CRC was verified. Otherwise that
    /// is so only for FPDUs that arrive in one piece.
    pub(crate) fn verify_first(&self) -> bool {
        self.verify_first.load(Ordering::Relaxed) != 0
    }

    //= 5044-7.1.1-13, 6581-6-1
    /// Whether this end offers FPDUs that are larger than a TCP segment, and agrees to them, by
    /// bits of the MPA frame that RFC 5044 reserves. Documentation/connection.md tells what peers
    /// make of these.
    pub(crate) fn large_fpdu(&self) -> bool {
        self.large_fpdu.load(Ordering::Relaxed) != 0
    }

    /// Whether an initiator asks for an explicit ready-to-receive message (RFC 6581 section 9), so
    /// that the responder may send first.
    pub(crate) fn peer_to_peer(&self) -> bool {
        self.peer_to_peer.load(Ordering::Relaxed) != 0
    }

    //= 5044-7.1.1-14, 6581-10-3
    /// The MPA revision that an initiator begins with: 1 (RFC 5044) or 2 (RFC 6581).
    pub(crate) fn mpa_revision(&self) -> u8 {
        match self.mpa_revision.load(Ordering::Relaxed) {
            1 => 1,
            _ => 2,
        }
    }

    /// Which connections use TLS.
    pub(crate) fn tls(&self) -> TlsPolicy {
        match self.tls.load(Ordering::Relaxed) {
            0 => TlsPolicy::Off,
            1 => TlsPolicy::Allow,
            2 => TlsPolicy::Initiate,
            _ => TlsPolicy::Require,
        }
    }

    /// Whether both ends of a TLS handshake show a pre-shared key, and not certificates. The two
    /// are never tried one after the other: an end that has a setting for one would then be content
    /// with the other.
    pub(crate) fn tls_psk(&self) -> bool {
        self.tls_psk.load(Ordering::Relaxed) != 0
    }

    /// MiB that one end's key encrypts before a connection ends, unless the cipher needs no limit.
    /// RFC 8446 section 5.5 has one, and the kernel has no new keys for the connections of its own.
    pub(crate) fn tls_key_mib(&self) -> u32 {
        self.tls_key_mib.load(Ordering::Relaxed)
    }

    /// Milliseconds that a Send waits for a receive, where a process posts the receives; 0: it does
    /// not wait. At most a minute. It holds for queue pairs that are made after a change.
    pub(crate) fn recv_wait_ms(&self) -> u32 {
        self.recv_wait_ms.load(Ordering::Relaxed)
    }

    /// The TCP port at which the peers of queue pairs listen that their programs connect. All hosts
    /// have to have the same. It holds for queue pairs that go to RTR after a change.
    pub(crate) fn rc_port(&self) -> u16 {
        // CAST: `settings!` has the range, which fits.
        self.rc_port.load(Ordering::Relaxed) as u16
    }

    /// Whether queue pairs that their programs connect call each other from TCP ports below 1024,
    /// which a host gives to no process without privileges: then the names in a call are those that
    /// the peer's driver has, or its root has made up. All hosts have to have the same. It holds
    /// for calls that come or begin after a change.
    pub(crate) fn rc_low_ports(&self) -> bool {
        self.rc_low_ports.load(Ordering::Relaxed) != 0
    }

    /// Whether Writes of queue pairs that their programs connect complete when the peer has placed
    /// them, as such programs expect, or when TCP has taken them, which costs less. It holds for
    /// connections that begin after a change.
    pub(crate) fn rc_confirm(&self) -> bool {
        self.rc_confirm.load(Ordering::Relaxed) != 0
    }

    /// Bytes that one run of the tx worker hands to TCP. Then other work gets the worker: tx of
    /// other QPs, and bulk receive. A change holds for the next run.
    pub(crate) fn tx_budget(&self) -> usize {
        // CAST: `usize` is not smaller than `u32`.
        (self.tx_budget_kib.load(Ordering::Relaxed) as usize) << 10
    }

    /// Whether the port mapper of the host (iwpmd) chooses TCP ports. Consumers may then listen on
    /// a port that a TCP program of the host uses. But they can then connect only to hosts that run
    /// a port mapper, too, or that map no ports. A device outside of the initial network namespace
    /// does without (`cm::PortMapper`). A change holds for the next connection or listener.
    pub(crate) fn port_mapper(&self) -> bool {
        self.port_mapper.load(Ordering::Relaxed) != 0
    }

    /// Milliseconds that a responder stays silent for an initiator that has not agreed to a
    /// ready-to-receive message; 0: until the initiator's first message. Such initiators are of MPA
    /// revision 1, or siw. If the application speaks first at the responder, both ends would
    /// otherwise wait for ever, as RFC 5044 section 7.1.2 has it.
    pub(crate) fn responder_wait_ms(&self) -> u32 {
        self.responder_wait_ms.load(Ordering::Relaxed)
    }

    /// Milliseconds without data from the peer after which an initiator sends an empty RDMA Write
    /// behind its ready-to-receive message; 0: never. siw as the responder does not notice data
    /// that comes right after its MPA Reply, until more comes.
    pub(crate) fn initiator_wait_ms(&self) -> u32 {
        self.initiator_wait_ms.load(Ordering::Relaxed)
    }

    /// TCP's keep-alive: seconds without anything from the peer of an established connection until
    /// TCP probes it; seconds between probes; and the number of unanswered probes that end the
    /// connection. `None`: no probes.
    pub(crate) fn keepalive(&self) -> Option<(u16, u16, u8)> {
        // CAST: `settings!` has the ranges, which fit.
        let idle = self.keepalive_idle_s.load(Ordering::Relaxed) as u16;
        let interval = self.keepalive_interval_s.load(Ordering::Relaxed) as u16;
        let count = self.keepalive_count.load(Ordering::Relaxed) as u8;
        (idle != 0).then_some((idle, interval, count))
    }

    /// Milliseconds that the peer of an established connection may leave data unacknowledged,
    /// probes unanswered or its window shut, before the connection ends; 0: TCP's sysctls apply.
    pub(crate) fn user_timeout_ms(&self) -> u32 {
        self.user_timeout_ms.load(Ordering::Relaxed)
    }
}
