#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 120
# pairs: rsiw,rsiw
#
# Kernel verbs between two hosts: a consumer in each kernel (tests/kverbs) connects once and serves once.

. /tests/lib.sh
plan 10

# results ROLE: the module's results, from the kernel's log, as lines for `tell`, with the role in each name.
results() { sed -n 's/.*kverbs: //p' | sed -n -E "s/^(ok|not ok) [0-9]+ - (.*)/\1 $1: \2/p; s/^#/#/p; s/^done$/# done/p"; }
# insmod returns when the module has run all tests.
serve_here() { modprobe rdma_cm && dmesg -C && insmod /build/kverbs.ko addr="$ADDR" serve=1; }
connect_here() { modprobe rdma_cm && dmesg -C && insmod /build/kverbs.ko addr="$ADDR" peer="$PEER"; }

both load_driver || exit 1
peer_bg server bash -c ". /tests/lib.sh; _planned=-; $(declare -f serve_here); serve_here"
server_up 7720 || exit 1
within 60 connect_here || _failed=1
tell < <(dmesg | results "this host connects")
peer_end server 30 || { peer_sh dmesg | grep kverbs; not_ok "the peer serves this host without an error"; }
rmmod kverbs
peer rmmod kverbs

serve_here >"$WORK/served" 2>&1 &
server=$!
listens 7720 || exit 1
within 60 peer_sh "$(declare -f connect_here); connect_here" || _failed=1
tell < <(peer_sh dmesg | results "the peer connects")
wait "$server" || { cat "$WORK/served"; dmesg | grep kverbs; not_ok "this host serves the peer without an error"; }
rmmod kverbs
peer rmmod kverbs
exit
