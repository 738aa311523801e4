# SPDX-License-Identifier: GPL-2.0
"""The network link between guests.

"tap": taps with vnet_hdr on a bridge, in the runner's own network namespace
(in-root --net), so that segmentation offload and GRO work as on a real NIC.
"socket": a Unix socket between the two QEMUs, without offloads, for machines
that do not allow taps.
"""

import os
import subprocess


def ip(*args):
    subprocess.run(["ip", *args], check=True, capture_output=True, text=True)


class TapLink:
    name = "tap"

    def __init__(self, _rundir, tag):
        self.tag = tag
        bridge = f"br{tag}"
        with open("/proc/sys/net/ipv6/conf/default/disable_ipv6", "w") as knob:
            knob.write("1")
        ip("link", "add", bridge, "type", "bridge", "forward_delay", "0", "mcast_snooping", "0")
        # The largest MTU that a job may give its guests' interfaces.
        ip("link", "set", bridge, "mtu", "9000", "up")
        for side in "ab":
            ip("tuntap", "add", f"tap{tag}{side}", "mode", "tap", "vnet_hdr")
            ip("link", "set", f"tap{tag}{side}", "mtu", "9000", "master", bridge, "up")

    def arguments(self, side):
        tap = f"tap{self.tag}{side}"
        return ["-netdev", f"tap,id=data,ifname={tap},script=no,downscript=no,vhost=off",
                "-device", f"virtio-net-pci,netdev=data,romfile=,mac={mac(side)}"]


class SocketLink:
    name = "socket"

    def __init__(self, rundir, _tag):
        self.rundir = rundir

    def arguments(self, side):
        mine, other = (f"{self.rundir}/link-{s}" for s in (side, "b" if side == "a" else "a"))
        if os.path.exists(mine):
            os.unlink(mine)
        # Datagrams: either guest may end and start again.
        return ["-netdev", "dgram,id=data"
                f",local.type=unix,local.path={mine},remote.type=unix,remote.path={other}",
                "-device", f"virtio-net-pci,netdev=data,romfile=,mac={mac(side)}"]


def mac(side):
    return f"52:54:00:07:00:0{1 if side == 'a' else 2}"


def make_link(kind, rundir, tag=0):
    """A link of this kind; "auto" prefers taps, and prints why if there are none.
    Links that exist at the same time need different tags."""
    if kind == "socket":
        return SocketLink(rundir, tag)
    try:
        return TapLink(rundir, tag)
    except (OSError, subprocess.CalledProcessError) as error:
        if kind == "tap":
            raise SystemExit(f"vm: no tap link here: {reason(error)}") from None
        print(f"vm: no tap link here ({reason(error)}); using a socket", flush=True)
        return SocketLink(rundir, tag)


def reason(error):
    return (getattr(error, "stderr", None) or str(error)).strip()
