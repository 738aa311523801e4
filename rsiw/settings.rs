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

/// Gives `$then` the settings: a name, the type of the module parameter, its default, the range,
/// and what `modinfo` says. The functions that read a setting tell what it means.
macro_rules! settings_table {
    ($then:ident) => {
        $then! {
            crc: u8 = 1, 0..=1,
                "Require CRC on FPDUs (0: only if the peer requires it)";
            verify_first: u8 = 0, 0..=1,
                "Verify the CRC before placing also of FPDUs that arrive in pieces (64 KiB a \
connection and a copy)";
            large_fpdu: u8 = 1, 0..=1,
                "Offer FPDUs larger than a TCP segment";
            zerocopy: u8 = 0, 0..=1,
                "Send long messages of kernel consumers from their memory, where there are large \
FPDUs without CRCs";
            peer_to_peer: u8 = 1, 0..=1,
                "Send a ready-to-receive message when connecting, so that the acceptor may send \
first";
            mpa_revision: u8 = 2, 1..=2,
                "MPA revision to connect with (1 or 2)";
            tx_budget_kib: u32 = 1024, 64..=16384,
                "KiB that the worker sends for a QP at a time, before others have their turn (64 \
to 16384)";
            port_mapper: u8 = 0, 0..=1,
                "Let the port mapper (iwpmd) choose TCP ports, so that those of TCP programs can \
be listened on";
            tls: u8 = 0, 0..=3,
                "TLS 1.3 under MPA, by tlshd (0: none; 1: if the peer begins with it; 2: as 1, \
and connect with it; 3: always)";
            tls_psk: u8 = 0, 0..=1,
                "TLS by pre-shared keys of the keyring .rsiw (0: by certificates)";
            tls_key_mib: u32 = 368640, 1..=368_640,
                "MiB that one end of a connection encrypts with its key of TLS, before the \
connection ends (1 to 368640; not for ChaCha20-Poly1305)";
            rc_port: u32 = 4791, 1..=65_535,
                "TCP port for queue pairs of links of type rsiw_rc; the same on all hosts (1 to \
65535)";
            rc_low_ports: u8 = 0, 0..=1,
                "Links of type rsiw_rc call from TCP ports below 1024, and take calls from no \
others (0: from any; the same on all hosts)";
            rc_confirm: u8 = 1, 0..=1,
                "RDMA Writes on links of type rsiw_rc complete when the peer has placed them (0: \
when TCP has taken them)";
            recv_wait_ms: u32 = 1000, 0..=60_000,
                "Milliseconds that a message waits for a receive that a process has not posted \
yet (0: the stream ends at once; at most 60000)";
            initiator_wait_ms: u32 = 100, 0..=3_600_000,
                "Milliseconds without a word from the peer after which an initiator repeats its \
ready-to-receive message (0: never)";
            responder_wait_ms: u32 = 200, 0..=3_600_000,
                "Milliseconds that an acceptor stays silent for a peer that sends no \
ready-to-receive message (0: until it has sent something)";
            // The bounds of these four are TCP's.
            keepalive_idle_s: u32 = 60, 0..=32767,
                "Seconds without anything from a connected peer after which TCP asks whether it \
is there (0: never)";
            keepalive_interval_s: u32 = 10, 1..=32767,
                "Seconds after which TCP asks again";
            keepalive_count: u32 = 6, 1..=127,
                "How often TCP asks before the connection is given up, if user_timeout_ms is 0 or \
the link of type rsiw_rc";
            user_timeout_ms: u32 = 120000, 0..=0x7fff_ffff,
                "Milliseconds that a connected peer may leave data or keep-alive probes \
unanswered before the connection is given up (0: as TCP's sysctls say)";
        }
    };
}
pub(crate) use settings_table;

/// Makes the settings of a device.
macro_rules! settings {
    ($($name:ident: $type:ident = $default:tt, $range:expr, $description:tt;)*) => {
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

settings_table!(settings);

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

    /// Whether long messages of kernel consumers are sent from their memory. Such requests complete
    /// when the peer has acknowledged them. It holds for connections that begin after a change.
    pub(crate) fn zerocopy(&self) -> bool {
        self.zerocopy.load(Ordering::Relaxed) != 0
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
