#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# time: virtual
# timeout: 180
# kernel: stock
# pairs: rsiw,rsiw
#
# Fairness: queue pairs of one process, and of two processes, share the link. No queue pair gets less
# than a quarter of what another with the same load gets, and none waits long for a completion, nor do
# small messages beside large ones. TIME: seconds of a measurement; with two processes it takes four times
# as long. SHAPE=1: packets of some connections are slowed down, and the job has to fail.
#
# On a busy machine a whole guest may stand still for 0.5 to 4 s, although the driver is fair. So the time in
# which connections of one process are compared does not run while none of them completes anything (fair.c).
# A process that another one starves completes nothing either. So two processes are compared in real time, and
# for so long that a stall takes only a part of it.

. /tests/lib.sh
: "${TIME:=$(limit 3)}" "${SHAPE:=}"
plan 8

# Milliseconds that a connection may wait while others of its process do not. All connections together have
# 64 Writes of 16 KiB under way, which take a tenth of this time on a machine that emulates both hosts.
GAP=$(limit 2)000
# The same in real time, stalls of a guest included: only for what hangs.
WAIT=$(limit 10)000
# Seconds of a measurement in real time, of which stalls may take a half.
LONG=$((4 * TIME))

# shares NAME PORT NUMBER SIZE WINDOW [mixed|real]: a measurement; its figures are in $WORK/NAME.figures.
shares() {
	local name=$1 port=$2 seconds=$TIME
	shift 2
	[ "${4:-}" != real ] || seconds=$LONG
	peer_bg "$name" fair server "$PEER" "$port" "$1"
	server_up "$port" || return
	fair client "$PEER" "$port" "$1" "$2" "$3" "$seconds" "${@:4}" >"$WORK/$name.figures" 2>&1 ||
		{ cat "$WORK/$name.figures" "$WORK/$name"; return 1; }
	cat "$WORK/$name.figures"
	peer_end "$name" 10 || { echo "the server ends with status $?"; return 1; }
}
# figure NAME WORD: the number after the word.
figure() { sed -n "s/.*\b$2 \([0-9]*\).*/\1/p" "$WORK/$1.figures"; }
# so WHAT CONDITION...: whether it holds; if not, says what does not.
so() { local what=$1; shift; [ "$@" ] || { echo "not so: $what ($*)"; return 1; }; }
alike() {
	so "all get something" "$(figure "$1" least)" -gt 0 &&
		so "none gets four times as much" "$(figure "$1" most)" -le $((4 * $(figure "$1" least)))
}
no_hang() { so "none hangs" "$(figure "$1" wait)" -le "$WAIT"; }
in_time() { so "none waits long beside others" "$(figure "$1" gap)" -le "$GAP" && no_hang "$1"; }
one_process() { shares "$@" && alike "$1" && in_time "$1"; }
# The small messages get a turn at least five times a second.
small_one() { shares "$@" mixed && so "five a second" "$(figure "$1" first)" -ge $((5 * TIME)) && in_time "$1"; }
# Both begin at about the same time and take equally long. A stall of the guest or of the peer takes as much
# from both. One that only one of them has, because it begins earlier or does not get the processor, takes a
# third of its time, and the factor of four leaves room for that.
two_alike() {
	local one two pid
	shares one 7711 8 16384 8 real >"$WORK/one.said" 2>&1 &
	pid=$!
	shares two 7712 8 16384 8 real || return
	wait "$pid" || { cat "$WORK/one.said"; return 1; }
	cat "$WORK/one.figures"
	one=$(figure one total) two=$(figure two total)
	so "both get something" "$one" -gt 0 && so "the first gets no more" "$one" -le $((4 * two)) &&
		so "nor the second" "$two" -le $((4 * one)) && in_time one && in_time two
}
# One connection alone in its process: only real time shows that it waits. A stall makes one long wait or, with
# another stall, two; if the greedy process starves it, there are more. The number alone would not do, as
# the modest process connects sooner and has the link to itself until the greedy one has connected.
modest_beside_greedy() {
	local pid
	shares greedy 7713 32 65536 16 real >"$WORK/greedy.said" 2>&1 &
	pid=$!
	shares modest 7714 1 64 1 real || return
	wait "$pid" || { cat "$WORK/greedy.said"; return 1; }
	cat "$WORK/greedy.figures"
	so "five a second in half of the time" "$(figure modest least)" -ge $((5 * LONG / 2)) &&
		so "it waits long twice at most" "$(figure modest third)" -le "$GAP" && no_hang modest
}
# Some connections get a hundredth of the link.
slow_down() {
	modprobe -a sch_htb sch_fq_codel cls_u32 &&
		tc qdisc add dev eth0 root handle 1: htb default 1 &&
		tc class add dev eth0 parent 1: classid 1:1 htb rate 10gbit &&
		tc class add dev eth0 parent 1: classid 1:2 htb rate 1mbit || return
	local port
	for port in 7704 7712 7714; do
		tc filter add dev eth0 parent 1: protocol ip u32 match ip dport "$port" 0xffff flowid 1:2 || return
	done
}

run "load the driver on both hosts" both load_driver || exit 1
[ -z "$SHAPE" ] || slow_down || exit 1
LIMIT=$((10 * TIME + 40)) run "8 queue pairs of a process share alike" one_process eight 7701 8 16384 8
LIMIT=$((10 * TIME + 40)) run "64 queue pairs of a process share alike" one_process many 7702 64 4096 4
LIMIT=$((10 * TIME + 40)) run "queue pairs with messages of 64 KiB share alike" one_process large 7703 4 65536 4
LIMIT=$((10 * TIME + 40)) run "small messages get turns beside large ones of a process" small_one mixed 7704 9 65536 8
LIMIT=$((LONG + 60)) run "two processes share alike" two_alike
LIMIT=$((LONG + 60)) run "a small message gets its turn beside a greedy process" modest_beside_greedy
run "unload the drivers" both unload_driver
