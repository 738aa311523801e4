#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 120
# pairs: rsiw,rsiw
#
# Kernel verbs between two hosts, by a kernel consumer on either (tests/kverbs), each of which
# connects once and serves once.

. /tests/lib.sh
plan 10

# The module's results have numbers of their own; here they are told again, with the role.
results() { sed -n 's/.*kverbs: //p' | sed -n -E "s/^(ok|not ok) [0-9]+ - (.*)/\1 $1: \2/p; s/^#/#/p; s/^done$/# done/p"; }
serving() { ss -Htln 'sport = :7720' | grep .; }
# insmod comes back when all is over.
serve_here() { modprobe rdma_cm && dmesg -C && insmod /build/kverbs.ko addr="$ADDR" serve=1; }
connect_here() { modprobe rdma_cm && dmesg -C && insmod /build/kverbs.ko addr="$ADDR" peer="$PEER"; }
tell() {
	local line
	while read -r line; do
		case $line in
		"ok "*) ok "${line#ok }" ;;
		"not ok "*) not_ok "${line#not ok }" ;;
		*) note "${line#\# }" ;;
		esac
	done
}

both load_driver || exit 1
peer_bg server bash -c ". /tests/lib.sh; _planned=-; $(declare -f serve_here); serve_here"
server_up 7720 || exit 1
within 60 connect_here || _failed=1
tell < <(dmesg | results "this host connects")
peer_end server 30 || { peer_sh dmesg | grep kverbs; not_ok "the peer's end serves well"; }
rmmod kverbs
peer rmmod kverbs

serve_here >"$WORK/served" 2>&1 &
server=$!
wait_for 10 serving || exit 1
within 60 peer_sh "$(declare -f connect_here); connect_here" || _failed=1
tell < <(peer_sh dmesg | results "the peer connects")
wait "$server" || { cat "$WORK/served"; dmesg | grep kverbs; not_ok "this host's end serves well"; }
rmmod kverbs
peer rmmod kverbs
exit
