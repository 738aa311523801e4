// SPDX-License-Identifier: GPL-2.0

//! rsiw: a software RDMA NIC. iWARP over kernel TCP sockets on any Ethernet port.
//!
//! Documentation/design.md describes the parts and their dependencies.

mod abi;
mod cm;
mod counters;
mod cpu_share;
mod cq;
mod device;
mod fifo;
mod link;
mod mem;
mod netdev;
mod pd;
mod qp;
mod queue;
mod quota;
mod ring;
mod rnic;
mod rx;
mod settings;
mod stream;
mod tls_names;
mod transport;
mod tx;
mod verbs;
mod wr;

use device::Workqueues;
use kernel::{prelude::*, sync::Arc};
use kext::Core;
use link::{Link, Links, RcLink};
use net::Keyring;
use netdev::Notifier;
use rdma::{LinkRegistration, NotifierRegistration};

module! {
    type: Module,
    name: "rsiw",
    authors: ["The rsiw developers"],
    description: "Software RDMA NIC: iWARP over TCP",
    license: "GPL",
    alias: ["rdma-link-rsiw", "rdma-link-rsiw_rc"],
    imports_ns: ["DMA_BUF"],
    params: {
        crc: u8 {
            default: 1,
            description: "Require CRC on FPDUs (0: only if the peer requires it)",
        },
        verify_first: u8 {
            default: 0,
            description: "Verify the CRC before placing also of FPDUs that arrive in pieces (64 \
                KiB a connection and a copy)",
        },
        large_fpdu: u8 {
            default: 1,
            description: "Offer FPDUs larger than a TCP segment",
        },
        peer_to_peer: u8 {
            default: 1,
            description: "Send a ready-to-receive message when connecting, so that the acceptor \
                may send first",
        },
        mpa_revision: u8 {
            default: 2,
            description: "MPA revision to connect with (1 or 2)",
        },
        tx_budget_kib: u32 {
            default: 1024,
            description: "KiB that the worker sends for a QP at a time, before others have their \
                turn (64 to 16384)",
        },
        port_mapper: u8 {
            default: 0,
            description: "Let the port mapper (iwpmd) choose TCP ports, so that those of TCP \
                programs can be listened on",
        },
        tls: u8 {
            default: 0,
            description: "TLS 1.3 under MPA, by tlshd (0: none; 1: if the peer begins with it; \
                2: as 1, and connect with it; 3: always)",
        },
        tls_psk: u8 {
            default: 0,
            description: "TLS by pre-shared keys of the keyring .rsiw (0: by certificates)",
        },
        tls_key_mib: u32 {
            default: 368640,
            description: "MiB that one end of a connection encrypts with its key of TLS, before \
                the connection ends (1 to 368640; not for ChaCha20-Poly1305)",
        },
        rc_port: u32 {
            default: 4791,
            description: "TCP port for queue pairs of links of type rsiw_rc; the same on all \
                hosts (1 to 65535)",
        },
        rc_low_ports: u8 {
            default: 0,
            description: "Links of type rsiw_rc call from TCP ports below 1024, and take calls \
                from no others (0: from any; the same on all hosts)",
        },
        rc_confirm: u8 {
            default: 1,
            description: "RDMA Writes on links of type rsiw_rc complete when the peer has placed \
                them (0: when TCP has taken them)",
        },
        recv_wait_ms: u32 {
            default: 1000,
            description: "Milliseconds that a message waits for a receive that a process has not \
                posted yet (0: the stream ends at once; at most 60000)",
        },
        initiator_wait_ms: u32 {
            default: 100,
            description: "Milliseconds without a word from the peer after which an initiator \
                repeats its ready-to-receive message (0: never)",
        },
        responder_wait_ms: u32 {
            default: 200,
            description: "Milliseconds that an acceptor stays silent for a peer that sends no \
                ready-to-receive message (0: until it has sent something)",
        },
        keepalive_idle_s: u32 {
            default: 60,
            description: "Seconds without anything from a connected peer after which TCP asks \
                whether it is there (0: never)",
        },
        keepalive_interval_s: u32 {
            default: 10,
            description: "Seconds after which TCP asks again",
        },
        keepalive_count: u32 {
            default: 6,
            description: "How often TCP asks before the connection is given up, if \
                user_timeout_ms is 0",
        },
        user_timeout_ms: u32 {
            default: 120000,
            description: "Milliseconds that a connected peer may leave data or keep-alive probes \
                unanswered before the connection is given up (0: as TCP's sysctls say)",
        },
    },
}

/// The module. Its fields are dropped in order, which is the teardown. First the link types go, so
/// that no new device comes; then the notifier of network devices. Then all devices are
/// unregistered, which ends every connection. Then the work queues go, on which that teardown ran,
/// and last deferred work.
struct Module {
    _link: Pin<KBox<LinkRegistration<Link>>>,
    _rc_link: Pin<KBox<LinkRegistration<RcLink>>>,
    _notifier: Pin<KBox<NotifierRegistration<Notifier>>>,
    _devices: Unregister,
    _workqueues: Arc<Workqueues>,
    _core: Core,
}

/// Unregisters all devices when dropped, which ends all connections and their handshakes.
struct Unregister(Arc<Links>);

impl Drop for Unregister {
    fn drop(&mut self) {
        self.0.devices.unregister_all();
        net::handshake::wait_for_callbacks();
    }
}

impl kernel::Module for Module {
    fn init(module: &'static ThisModule) -> Result<Self> {
        let core = Core::new()?;
        let workqueues = Arc::new(Workqueues::new()?, GFP_KERNEL)?;
        // Names that begin with a dot are the kernel's: no process makes a keyring of that name.
        let keys = Arc::new(Keyring::new(c".rsiw")?, GFP_KERNEL)?;
        let links = Links::new(module, workqueues.clone(), keys)?;
        let devices = Unregister(links.clone());
        let notifier = NotifierRegistration::new(Notifier(links.clone()))?;
        let link = LinkRegistration::new(Link(links.clone()))?;
        let rc_link = LinkRegistration::new(RcLink(links))?;
        pr_info!("loaded\n");
        Ok(Self {
            _link: link,
            _rc_link: rc_link,
            _notifier: notifier,
            _devices: devices,
            _workqueues: workqueues,
            _core: core,
        })
    }
}
