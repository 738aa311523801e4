#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""no_reads.py server|client ADDRESS PORT: a connection whose ends agree on no RDMA Reads. The client posts a
Read, prints its status, and both keep the connection until they are killed."""

import sys
import time

from pyverbs.cmid import CMID, AddrInfo, ConnParam
from pyverbs.qp import QPCap, QPInitAttr
import pyverbs.cm_enums as ce
import pyverbs.enums as e


def main():
    role, address, port = sys.argv[1:]
    passive = role == "server"
    cap = QPCap(max_recv_wr=4, max_send_wr=4)
    # Source and destination, the ports of both, port space, flags.
    info = AddrInfo(address, None, port, None, ce.RDMA_PS_TCP, ce.RAI_PASSIVE) if passive else \
        AddrInfo(None, address, None, port, ce.RDMA_PS_TCP, 0)
    cmid = CMID(creator=info, qp_init_attr=QPInitAttr(cap=cap, qp_type=e.IBV_QPT_RC, sq_sig_all=1))
    param = ConnParam(resources=0, depth=0)
    if passive:
        cmid.listen()
        peer = cmid.get_request()
        peer.accept(param)
    else:
        cmid.connect(param)
        region = cmid.reg_msgs(64)
        cmid.post_read(region, 64, region.buf, region.rkey)
        print("status", cmid.get_send_comp().status, flush=True)
    time.sleep(1000)


main()
