#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 300
# allow: traps: ib_\w+\[\d+\] general protection fault ip:.* in librdmacm
# pairs: rsiw,rsiw
#
# Counters of a device, which count what the programs at both ends have done; and counter sets, to which an
# administrator binds queue pairs.

. /tests/lib.sh
. /tests/device/lib
. /tests/perftest/lib
. /tests/nfs/lib
plan 20

LINK=$DEV/1
# counter NAME: of this host's device.
counter() { rdma statistic show link "$LINK" | grep -oP "\b$1 \K\d+"; }
there_counter() { peer rdma statistic show link "$PEER_DEV/1" | grep -oP "\b$1 \K\d+"; }
# grew NAME NUMBER: by so many since `mark`; NUMBER may begin with + for that or more.
mark() {
	local name
	for name in "$@"; do counter "$name" >"$WORK/$name" || return; done
}
since() { echo $(($(counter "$1") - $(<"$WORK/$1"))); }
grew() {
	local by
	by=$(since "$1") || return
	echo "$1: $by"
	case $2 in
	+*) [ "$by" -ge "${2#+}" ] ;;
	*) [ "$by" = "$2" ] ;;
	esac
}

ops=(tx_op_sends tx_op_writes tx_op_reads tx_op_read_responses rx_op_sends rx_op_writes rx_op_reads
	rx_op_read_responses)
# A round of rping: the client says twice where its buffer is; the server reads it, writes it, and tells each time.
pinged() {
	mark "${ops[@]}" tx_messages rx_messages tx_fpdus rx_fpdus connections connections_initiated connections_closed
	rping_peer "$PEER" 7300 -C 20 || return
	grew tx_op_sends 40 && grew rx_op_sends 40 && grew rx_op_reads 20 && grew tx_op_read_responses 20 &&
		grew rx_op_writes 20 && grew tx_op_writes 0 && grew tx_op_reads 0 && grew rx_op_read_responses 0 &&
		grew connections 1 && grew connections_initiated 1 && wait_for 10 grew connections_closed 1
}
# With an RTR, which is a message and no operation.
messages() {
	grew tx_messages +60 && grew rx_messages +60 && grew tx_fpdus +60 && grew rx_fpdus +60 &&
		[ "$(since tx_fpdus)" = "$(since tx_messages)" ] && [ "$(since rx_fpdus)" = "$(since rx_messages)" ]
}
# One Read at a time, of many that are posted.
reads() {
	mark tx_op_reads rx_op_read_responses tx_stalls_ord
	there_counter rx_stalls_ird >"$WORK/there_ird" || return
	perftest 1 ib_read_bw -s 4096 -n 200 -t 64 -o 1 || return
	grew tx_op_reads 200 && grew rx_op_read_responses 200 && grew tx_stalls_ord +50
}
asked_all() {
	local by
	by=$(($(there_counter rx_stalls_ird) - $(<"$WORK/there_ird")))
	echo "$by"
	[ "$by" -ge 200 ]
}
registered() {
	mark op_registrations op_invalidations
	on_server serve_nfs && mount_nfs 4.2 && dd if=/dev/zero of="$MNT/file" bs=256k count=8 status=none conv=fsync &&
		umount "$MNT" && grew op_registrations +8
}
refused() {
	mark connects_refused connects_failed
	! rping -c -a "$PEER" -p 7309 -C 1 && grew connects_refused 1 && grew connects_failed 0
}
# What the kernel drops on its way out is sent again.
lossy() {
	mark tcp_retransmits
	modprobe sch_netem && tc qdisc replace dev eth0 root netem loss 5% limit 20000
	perftest 1 ib_write_bw -s 65536 -n 300
	local status=$?
	tc qdisc del dev eth0 root
	[ "$status" = 0 ] && grew tcp_retransmits +1
}
disordered() {
	mark tcp_out_of_order
	peer_sh "modprobe sch_netem && tc qdisc replace dev eth0 root netem delay 2ms reorder 60% gap 3 limit 20000"
	perftest 1 ib_read_bw -s 65536 -n 100
	local status=$?
	peer tc qdisc del dev eth0 root
	[ "$status" = 0 ] && grew tcp_out_of_order +1
}

# --- counter sets

# One rping goes on.
begin_rping() {
	peer_bg rping rping -s -a "$PEER" -p 7301
	server_up 7301
	rping -c -a "$PEER" -p 7301 -C 10000000 >"$WORK/client" 2>&1 &
	wait_for 10 connected_qp || { cat "$WORK/client"; rdma resource show qp link "$LINK"; return 1; }
}
connected_qp() { rdma resource show qp link "$LINK" | grep -oP 'lqpn \K\d+(?=.*state RTS.*comm rping)' >"$WORK/lqpn"; }
# in_set NAME: the value of the set.
in_set() { rdma statistic qp show link "$LINK" | tr '\n' ' ' | grep -oP "\b$1 \K\d+"; }
bound() { rdma statistic qp bind link "$LINK" lqpn "$(<"$WORK/lqpn")" && rdma statistic qp show link "$LINK" | grep "LQPN: <$(<"$WORK/lqpn")>"; }
counts_on() {
	local first
	first=$(in_set rx_op_writes) && echo "$first" && wait_for 10 more_than "$first" && [ "$(in_set connections)" = 0 ]
}
more_than() { [ "$(in_set rx_op_writes)" -gt "$1" ]; }
# The device shows what is in a set as well: it stands between two looks at the set plus all that was before.
adds_up() {
	local less more now
	less=$(in_set rx_op_reads)
	now=$(counter rx_op_reads)
	more=$(in_set rx_op_reads)
	echo "set $less to $more, device $now, before $(<"$WORK/rx_op_reads")"
	[ "$now" -ge $(($(<"$WORK/rx_op_reads") + less)) ] && [ "$more" -ge "$less" ]
}
no_less() { grew rx_op_reads +1; }
# Each Read that the peer has sent is counted here, and once: when rping is killed, one or two may be under way.
peer_reads() { there_counter tx_op_reads; }
agrees() {
	local here there
	here=$(since rx_op_reads) there=$(($(peer_reads) - $(<"$WORK/peer_reads")))
	echo "the peer has sent $there Reads, and $here were received"
	[ $((there - here)) -ge 0 ] && [ $((there - here)) -le 2 ]
}
twice() { ! rdma statistic qp bind link "$LINK" lqpn "$(<"$WORK/lqpn")"; }
unbound() {
	local set
	set=$(rdma statistic qp show link "$LINK" | grep -oP 'cntn \K\d+' | head -n 1)
	mark rx_op_reads
	rdma statistic qp unbind link "$LINK" cntn "$set" lqpn "$(<"$WORK/lqpn")" && no_sets && no_less
}
no_sets() { ! rdma statistic qp show link "$LINK" | grep LQPN; }
# By type: each queue pair that is made from then on. rping tells its port, which is when the core looks.
automatic() {
	rdma statistic qp set link "$LINK" auto type on && rdma statistic qp mode link "$LINK" | grep auto &&
		begin_rping && rdma statistic qp show link "$LINK" && counts_on
}
ended() { pkill -x rping; peer_kill rping; wait_for 10 no_sets && grew rx_op_reads +1 && agrees; }
off() { rdma statistic qp set link "$LINK" auto off; }

run "load the driver on both hosts" both load_driver || exit 1
run "operations of rping are counted by kind" pinged
run "each message of rping is one FPDU" messages
LIMIT=60 run "Reads that wait for the ORD are counted" reads
run "Reads that use all of the IRD are counted at the other end" asked_all
LIMIT=90 run "registrations of NFS are counted" registered
on_server stop_nfs >/dev/null 2>&1
run "an attempt to which nobody listens is counted" refused
LIMIT=90 run "TCP's retransmissions are counted" lossy
LIMIT=90 run "segments out of order are counted" disordered

mark rx_op_reads
run "a queue pair is bound to a counter set" begin_rping || exit 1
run "the set names the queue pair" bound
run "the set counts on" counts_on
run "the device's own counters have what the set counts" adds_up
run "a queue pair is in one set at most" twice
run "a queue pair is released from its set, and nothing is lost" unbound
mark rx_op_reads
run "a queue pair in no set counts on" wait_for 10 no_less
pkill -x rping
peer_kill rping
peer_reads >"$WORK/peer_reads"
mark rx_op_reads
run "queue pairs are bound by their type" automatic
run "a set ends with its last queue pair, and nothing is lost" ended
run "binding by type is turned off" off
run "unload the driver" unload_driver
