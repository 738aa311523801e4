#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 240
# pairs: rsiw,rsiw
#
# A kernel consumer's memory is sent without a copy, and is the consumer's again when its request completes, while
# the network delays packets and loses some: tests/kverbs/lend.c. DELAY: milliseconds in each direction; LOSS.

. /tests/lib.sh
: "${DELAY:=30}" "${LOSS:=3%}"
plan 6

# results: the module's results, from the kernel's log, as lines for `tell`.
results() { sed -n 's/.*kverbs: //p' | sed -n -E "s/^(ok|not ok) [0-9]+ - (.*)/\1 \2/p; s/^#/#/p; s/^done$/# done/p"; }
serve_here() { modprobe rdma_cm && dmesg -C && insmod /build/kverbs.ko addr="$ADDR" serve=1 lend=1; }
connect_here() { modprobe rdma_cm && dmesg -C && insmod /build/kverbs.ko addr="$ADDR" peer="$PEER" lend=1; }
disturb() { modprobe sch_netem && tc qdisc replace dev eth0 root netem limit 20000 "$@"; }
resent() { nstat -asz TcpRetransSegs | awk '/^Tcp/ { n = $2 } END { print n; exit !n }'; }

run "load the driver without CRCs" both load_driver crc=0 zerocopy=1 || exit 1
run "the network delays and loses packets" both disturb delay "$DELAY"ms loss "$LOSS" || exit 1
peer_bg server bash -c ". /tests/lib.sh; _planned=-; $(declare -f serve_here); serve_here"
server_up 7720 || exit 1
within 200 connect_here || _failed=1
tell < <(dmesg | results)
peer_end server 30 || { peer_sh dmesg | grep kverbs; not_ok "the peer serves this host without an error"; }
rmmod kverbs
peer rmmod kverbs
run "some segments were sent again" resent
both tc qdisc del dev eth0 root
exit
