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

/// Makes the module, with a parameter for each setting.
macro_rules! module_with_parameters {
    ($($name:ident: $type:ident = $default:tt, $range:expr, $description:tt;)*) => {
        module! {
            type: Module,
            name: "rsiw",
            authors: ["The rsiw developers"],
            description: "Software RDMA NIC: iWARP over TCP",
            license: "GPL",
            alias: ["rdma-link-rsiw", "rdma-link-rsiw_rc"],
            imports_ns: ["DMA_BUF"],
            params: {
                $($name: $type { default: $default, description: $description, },)*
            },
        }
    };
}

settings::settings_table!(module_with_parameters);

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
