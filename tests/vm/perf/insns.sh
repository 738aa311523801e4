#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 200
# kernel: stock
# pairs: rsiw,rsiw
#
# The instructions that the driver takes for a message, and for an FPDU of bulk, on either host (of large FPDUs the
# receiver's for each piece of a packet, as time decides how many there are): those in functions of the module, without
# the kernel's (TCP, copies, CRCs). The limits are in perf/insns.tsv. A count above its limit fails; one far below it is
# told, so that whoever made the gain lowers the limit: it may as well be a machine that was slow, and batches that
# were small. Of bulk only functions that run for FPDUs count (perf/insns.py). The emulator counts:
#
#     tools/vm-run test -v --insns perf/insns
#
# The cases of `own` have rsiw's provider: a Read of 8 bytes, atomics, and Writes with immediate data, whose sum
# compares with that of write-large, of as many Writes.
#
# CASES: some of them; with "rc-" before it, over queue pairs that the programs connect themselves, which have the
# same limits. DRIVER: another build of the driver (lib.sh), whose counts are printed and not compared. The
# functions, those with most instructions first, are in the job's output directory.

. /tests/lib.sh
. /tests/perf/lib
. /tests/rc/lib
limits=/tests/perf/insns.tsv
own="read-8 fetch-add-8 cmp-swap-8 write-imm"
has_provider || own=
read -ra cases <<<"${CASES:-write-2 send-2 write-segments write-large $own}"
plan $((3 + 3 * ${#cases[@]}))

begin_counts

# once CASE COUNT: so many messages. One at a time, so that batches are the same in each run; a ping-pong has as many
# each way.
once() {
	local options=(-F -p 18515) program link=(-R -d rsiw0) there
	there=("${link[@]}")
	[[ $1 != rc-* ]] || link=(-d rc0 -x "$(gid_index "$ADDR")") there=(-d rc0 -x "$(peer_gid_index "$PEER")")
	case ${1#rc-} in
	write-2) program=ib_write_lat options+=(-s 2) ;;
	send-2) program=ib_send_lat options+=(-s 2) ;;
	read-8) program=ib_read_lat options+=(-s 8) ;;
	fetch-add-8) program=ib_atomic_lat options+=(-A FETCH_AND_ADD) ;;
	cmp-swap-8) program=ib_atomic_lat options+=(-A CMP_AND_SWAP) ;;
	write-imm) program=ib_write_bw options+=(--write_with_imm -s 65536 -t 1 -Q 1) ;;
	write-*) program=ib_write_bw options+=(-s 65536 -t 1 -Q 1) ;;
	esac
	peer_bg server "$program" "${there[@]}" "${options[@]}" -n "$2"
	server_up 18515 || return
	"$program" "${link[@]}" "${options[@]}" -n "$2" "$PEER" >"$WORK/client" 2>&1 || {
		cat "$WORK/client" "$WORK/server"
		return 1
	}
	peer_end server 20 >"$WORK/ended" || { cat "$WORK/ended"; return 1; }
}
# fpdus CASE
fpdus() {
	local device=rsiw0
	[[ $1 != rc-* ]] || device=rc0
	cat "/sys/class/infiniband/$device/ports/1/hw_counters/tx_fpdus"
}
# measure CASE: $WORK/CASE has the number of messages of a ping-pong, or of FPDUs of bulk. The counts of the shorter
# of two runs are taken off those of the longer one, so what begins and ends a program is in neither.
measure() {
	local few=100 many=400 start middle
	start=$(fpdus "$1")
	mark && once "$1" "$few" && mark || return
	middle=$(fpdus "$1")
	once "$1" "$many" && mark || return
	case $1 in
	*-[28] | write-imm) echo $((many - few)) ;;
	*) echo $(($(fpdus "$1") - 2 * middle + start)) ;;
	esac >"$WORK/$1"
}
# evaluate SIDE CASE:FIRST:KIND...
evaluate() {
	local side=$1
	shift
	grep -F '[rsiw]' /proc/kallsyms | python3 -I -S -B /tests/perf/insns.py "/out/insns-$side" "$RSIW_OUT" "$side" "$@"
}
evaluate_both() {
	peer_sh "$(declare -f evaluate); evaluate b $*" &
	evaluate a "$@" && wait $!
}
# compare CASE HOST COUNT PIECES
compare() {
	local number=0 each limit
	[ ! -s "$WORK/$1" ] || number=$(<"$WORK/$1")
	[ "${1#rc-} $2" != "write-large b" ] || number=$4
	# A case that was not measured has failed above, and fails here as well.
	if [ "$number" -le 0 ] || [ "$3" -le 0 ]; then
		not_ok "$1, host $2: instructions are within the limit" "nothing was counted"
		return
	fi
	each=$((($3 + number / 2) / number))
	note "$1, host $2: $each instructions ($3 for $number)"
	[ -z "${DRIVER:-}" ] || { ok "$1, host $2: the instructions are counted"; return; }
	limit=$(awk -v what="${1#rc-}" -v host="$2" '$1 == what && $2 == host { print $3 }' "$limits")
	# A count that differs too much between runs is told only.
	[ "$limit" != - ] || { ok "$1, host $2: the instructions are counted"; return; }
	if [ -z "$limit" ] || [ "$each" -gt "$limit" ]; then
		not_ok "$1, host $2: instructions are within the limit" "$each, and the limit is ${limit:-missing}"
	else
		[ "$each" -ge $((limit * 9 / 10)) ] || note "a tenth below the limit of $limit: lower it in ${limits#/}"
		ok "$1, host $2: instructions are within the limit"
	fi
}
settings() {
	local each
	for each in /sys/class/infiniband/*/settings/large_fpdu; do
		echo "$1" >"$each"
	done
}

load() {
	load_module "${DRIVER:-rsiw}" && add_device rsiw0 eth0 rsiw || return
	[[ $1 != *rc-* ]] || rc_add rc0 eth0
}
run "load the driver on both hosts" both load "${cases[*]}" || exit 1
# Caches, tables, and what is done once.
warm() {
	once write-2 300 && once write-large 50 || return
	local case
	for case in "${cases[@]}"; do
		[[ $case != *-2 || $case = write-2 ]] || once "$case" 300 || return
	done
}
LIMIT=60 run "programs warm up" warm
parts=()
for case in "${cases[@]}"; do
	large=1 kind=each
	[ "${case#rc-}" != write-segments ] || large=0
	[[ $case = *-[28] ]] || kind=bulk
	both settings "$large"
	[[ " $own " != *" $case "* ]] || both use_provider || exit 1
	# The peer's file has a marker for each of this host's.
	first=$(marks)
	LIMIT=60 run "$case: programs move data" measure "$case" && parts+=("$case:$first:$kind")
done
run "the instructions are told by function" evaluate_both "${parts[@]}"
for case in "${cases[@]}"; do
	for host in a b; do
		count=0 pieces=0
		[ ! -s "$RSIW_OUT/$case-$host" ] || read -r count pieces <"$RSIW_OUT/$case-$host"
		compare "$case" "$host" "$count" "$pieces"
	done
done
