#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# interop: yes
# pairs: siw,rsiw
# timeout: 150
# kernel: stock
#
# iSER from siw's host to a target on rsiw's. siw has no part in port mapping, so
# the target's host redirects a port of its own choice to the one that was mapped.
# (The other way round cannot be: siw's listener would need the TCP portal's port.)

. /tests/lib.sh
. /tests/iser/lib
# iw_cm (Linux 7.2) may crash the host at the first word of iwpmd.
[ -n "${RSIW_PORT_MAPPER:-}" ] || skip_all "iw_cm crashes now and then with iwpmd; --env RSIW_PORT_MAPPER=1 runs it"
plan 8

ALIAS=3261
# On the target's host: the port that iSER has got is the one besides the portal's.
redirect() {
	local mapped
	mapped=$(ss -Hltn src "$ADDR" | awk '{ print $4 }' | sed 's/.*://' | grep -vx 3260) || return
	modprobe -a nft_chain_nat nft_redir || return
	nft add table ip iser
	nft add chain ip iser in '{ type nat hook prerouting priority dstnat; }' &&
		nft add rule ip iser in tcp dport "$ALIAS" redirect to ":$mapped"
}
login_alias() {
	iscsiadm -m node -o new -T "$IQN" -p "$PEER:$ALIAS" -I iser &&
		iscsiadm -m node -T "$IQN" -p "$PEER:$ALIAS" --login && wait_for 10 disk
}

run "load the drivers" both eval \
	'if [ "$RSIW_DRIVER" = rsiw ]; then load_driver port_mapper=1; else load_driver; fi' || exit 1
run "the port mapper there" on_target start_mapper
run "the target listens, by TCP and by RDMA" on_target "serve_iser $PEER" || exit 1
run "and by another port" peer_sh ". /tests/iser/lib; $(declare -f redirect); ALIAS=$ALIAS; redirect"
run "the initiator's daemon" start_initiator
LIMIT=60 run "login" login_alias || exit 1
LIMIT=60 run "data" data 24
run "logout" logout
