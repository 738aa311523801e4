#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 900
# kernel: stock
# pairs: rsiw,rsiw
#
# The instructions that the kernel and its modules take on either host for a read over NFS, for a MiB of bulk (or one
# message of less than 4 KiB), or for a connection that comes and goes: the sum, that of each module, and the functions
# that have most of them. Other than time they do not depend on what the machine does besides (but for the clock's
# ticks); but a copy of a word and a switch of tasks count as one instruction and as a few. The emulator counts:
#
#     tools/vm-run test -v --insns --env "KINDS=tcp,rsiw crc=0" --env "CASES=nfs-16384 bulk-65536" perf/kernel
#
# KINDS: tcp, siw, or rsiw with its parameters; this processor has no instructions for CRCs, so with crc=1 the kernel
# takes them byte by byte; "KIND own" has rsiw's provider; of "KIND rc" programs connect their queue pairs by
# themselves (bulk and imm only). CASES: nfs-SIZE, DEPTH direct reads at a time; bulk-SIZE, RDMA Writes or what iperf3 sends; imm-SIZE,
# Writes with immediate data; churn-1, connections one after the other, which each send a message. TOP: so many
# functions. It asserts only that everything runs.

. /tests/lib.sh
. /tests/perf/lib
. /tests/nfs/lib
. /tests/rc/lib
: "${KINDS:=tcp,rsiw crc=0}" "${CASES:=nfs-16384 nfs-262144 bulk-65536}" "${DEPTH:=4}" "${TOP:=40}"
IFS=, read -ra kinds <<<"$KINDS"
read -ra cases <<<"$CASES"
plan $((${#kinds[@]} * (1 + 2 * ${#cases[@]})))

[[ "$KINDS," != *" rc,"* || "$CASES" != *@(nfs|churn)* ]] || { echo "Bail out! the RDMA CM connects nfs and churn"; exit 1; }
begin_counts

# once KIND WHAT SIZE COUNT: so many reads or messages.
once() {
	local program=(iperf3 -c "$PEER" -p 18515 -l "$3" -n "$(($3 * $4))") options=()
	local here=(-R -d bench) there=(-R -d bench)
	if [ "$1" != "${1% rc}" ]; then
		here=(-d rc0 -x "$(<"$WORK/here")") there=(-d rc0 -x "$(<"$WORK/there")")
	fi
	[ "$2" != imm ] || options=(--write_with_imm)
	if [ "$2" = nfs ]; then
		fio --name=read --filename="$MNT/file" --readonly --rw=read --bs="$3" --direct=1 --ioengine=libaio \
			--iodepth="$DEPTH" --size=16M --io_size="$(($3 * $4))" --output="$WORK/client" ||
			{ cat "$WORK/client"; return 1; }
		return
	fi
	if [ "$2" = churn ]; then
		peer_bg server many sink "$PEER" 18515 "$4"
		program=(many churn "$PEER" 18515 "$4")
	elif [ "$1" = tcp ]; then
		peer_bg server iperf3 -s -1 -p 18515
	else
		options+=(-F -p 18515 -s "$3" -n "$4")
		program=(ib_write_bw "${here[@]}" "${options[@]}" "$PEER")
		peer_bg server ib_write_bw "${there[@]}" "${options[@]}"
	fi
	server_up 18515 || return
	"${program[@]}" >"$WORK/client" 2>&1 || { cat "$WORK/client" "$WORK/server"; return 1; }
	peer_end server 20 >"$WORK/ended" || { cat "$WORK/ended"; return 1; }
}
# measure KIND WHAT SIZE: the counts of the shorter of two runs are taken off those of the longer one, so what begins
# and ends a program is in neither. $WORK/first has the number of the marker before, $WORK/units what to divide by.
measure() {
	local few=64 many=512
	[ "$3" -lt 65536 ] || [ "$2" = nfs ] || few=256 many=2048
	# What the machine does besides counts for little beside many short messages.
	[ "$3" -ge 4096 ] || [ "$2" = nfs ] || few=1000 many=11000
	[ "$2" != churn ] || few=20 many=120
	once "$1" "$2" "$3" "$few" || return
	marks >"$WORK/first"
	mark && once "$1" "$2" "$3" "$few" && mark && once "$1" "$2" "$3" "$many" && mark || return
	if [[ $2 = @(nfs|churn) ]] || [ "$3" -lt 4096 ]; then echo $((many - few)); else echo $(((many - few) * $3 / 1048576)); fi >"$WORK/units"
}
# evaluate SIDE FIRST UNITS TOP: what kernel.py prints of that host.
evaluate() { python3 -S -B /tests/perf/kernel.py "/out/insns-$1" "$2" "$3" "$4"; }
evaluate_both() {
	local first units
	first=$(<"$WORK/first") units=$(<"$WORK/units")
	echo "--- this host"
	evaluate a "$first" "$units" "$TOP"
	echo "--- the peer"
	peer_sh "$(declare -f evaluate); evaluate b $first $units $TOP"
}
# with_rc: a second link, and where the hosts' addresses are in its tables.
with_rc() {
	both rc_add rc0 eth0 && gid_index "$ADDR" >"$WORK/here" && peer_gid_index "$PEER" >"$WORK/there"
}
up() {
	local driver=${1% own}
	beneath up "$1" || return
	# shellcheck disable=SC2086 # a module and its parameters
	[ "$1" = tcp ] || both with ${driver% rc} || return
	[ "$1" = "${1% rc}" ] || with_rc || return
	[[ " ${cases[*]}" = *" nfs"* ]] || return 0
	on_server "serve_nfs ${1%% *} && head -c 16M /dev/zero >\$EXPORT/file" || return
	if [ "$1" = tcp ]; then mount_nfs_tcp 4.2; else mount_nfs 4.2; fi || return
	# A server that has just begun lets no file be opened for some seconds.
	cat "$MNT/file" >/dev/null
}
down() {
	[[ " ${cases[*]}" != *" nfs"* ]] || { umount_nfs && on_server stop_nfs; } || return
	[ "$1" = "${1% rc}" ] || both rdma link del rc0 || return
	[ "$1" = tcp ] || both eval "rdma link del bench && rmmod $(driver_of "${1%% *}")" || return
	beneath down "$1"
}
for kind in "${kinds[@]}"; do
	LIMIT=60 run "$kind: a server" up "$kind" || exit 1
	for case in "${cases[@]}"; do
		LIMIT=120 run "$kind: $case" measure "$kind" "${case%-*}" "${case#*-}"
		LIMIT=60 run "$kind: $case: the kernel's instructions" evaluate_both
	done
	down "$kind"
done
