#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 400
# pairs: rsiw,rsiw
#
# rdma link del and rmmod on either host while MANY connections are set up, in each phase of their TLS handshakes.
# The device goes within nine seconds, whatever tlshd does. There are sixteen combinations; a run has six of them, by
# SEED, or two on the debug kernel. ALL: every one. ROUND: this combination, as in "turn a del".

. /tests/lib.sh
. /tests/device/lib
. /tests/tls/lib
: "${MANY:=200}"

# Seconds that the end of a device may take.
MOST=$(limit 9)
# On the host that loses its device:
#   turn     tlshd is stopped: handshakes wait for it, and the other connections for their turn
#   half     the peer says nothing more: tlshd has a process for each handshake
#   killed   as half, and then tlshd and these processes are killed
#   ends     handshakes end all the time, at any moment
phases=(turn half killed ends)
rounds=()
for how in del rmmod; do
	for host in a b; do
		for phase in "${phases[@]}"; do rounds+=("$phase $host $how"); done
	done
done
if [ -n "${ROUND:-}" ]; then
	rounds=("$ROUND")
elif [ -n "${ALL:-}" ]; then
	:
elif [ "$RSIW_KERNEL" = debug ]; then
	# Two that differ in phase and way.
	at=$((${SEED:-0} + ${SEED:-0} / 16))
	rounds=("${rounds[at % 16]}" "${rounds[(at + 9) % 16]}")
else
	# Each phase once, and two of them on the other host, in the other way.
	at=$((${SEED:-0} % 4 * 4))
	rounds=("${rounds[@]:at:4}" "${rounds[@]:(at + 12) % 16:2}")
fi
plan $((${#rounds[@]} + 5))
RANDOM=${SEED:-1}

# Functions that at() takes to the other host.
everywhere=(stop_tlshd kill_tlshd children some_children connected ensure goes ended waiters nothing_left no_sockets
	used_up _used)
# On the host that it is for: stop_tlshd, kill_tlshd, children (how many processes have a handshake).
stop_tlshd() { pkill -STOP -x tlshd; }
kill_tlshd() { pkill -KILL -x tlshd; }
children() {
	local daemon
	if daemon=$(pgrep -o -x tlshd); then pgrep -c -P "$daemon"; else echo 0; fi
}
some_children() { [ "$(children)" -ge "$1" ]; }
connected() { [ "$(ss -Htn state established "( sport = :$1 or dport = :$1 )" | wc -l)" -ge "$2" ]; }
ensure() { [ -e "/sys/class/infiniband/$DEV" ] || load_driver tls=3; }
# at HOST COMMAND...: runs it there.
at() {
	local host=$1
	shift
	if [ "$host" = a ]; then "$@"; else
		there eval "MOST=$MOST; $(declare -f "${everywhere[@]}"); $(printf '%q ' "$@")"
	fi
}

# all_begun: all connections have had a queue pair, and so have begun, and most of them have not failed since.
all_begun() {
	local now failed
	now=$(rdma resource show qp | grep -c 'comm many')
	failed=$(grep -c ', status ' "$WORK/client")
	[ $((now + failed)) -ge "$MANY" ] && [ $((2 * now)) -ge "$MANY" ]
}
# silent: connections of B whose peer begins a handshake and says nothing more, in place of a client's.
silent() {
	local i fd
	for ((i = 0; i < 40; i++)); do
		exec {fd}<>"/dev/tcp/$PEER/$1" && printf '\x16\x03\x01' >&"$fd"
	done
	nap 100
}
# The connections of a round are under way as its phase wants it. begin PHASE HOST PORT
begin() {
	local phase=$1 host=$2 port=$3
	case $phase$host in
	turn*) at "$host" stop_tlshd ;;
	halfa | killeda) at b stop_tlshd ;;
	esac
	peer_bg server sh -c "ulimit -l unlimited; many server $PEER $port $MANY"
	server_up "$port" || return
	case $phase$host in
	halfb | killedb | turnb)
		silent "$port" 2>/dev/null &
		echo $! >"$WORK/silent"
		at b wait_for 20 connected "$port" 30 || { echo "the silent peers do not connect"; return 1; }
		;;
	esac
	ulimit -l unlimited
	nap 1000 | many client "$PEER" "$port" "$MANY" "$MANY" >"$WORK/client" 2>&1 &
	case $phase$host in
	ends*)
		wait_for 60 connected "$port" 2 || { echo "nothing connects"; return 1; }
		nap "$((RANDOM % 3)).$((RANDOM % 10))"
		return
		;;
	esac
	wait_for 60 all_begun || { echo "not all connections begin"; tail -n 5 "$WORK/client"; return 1; }
	case $phase in
	turn) return ;;
	esac
	at "$host" wait_for 30 some_children 4 || { echo "$(at "$host" children) handshakes"; return 1; }
	[ "$phase" != killed ] || at "$host" kill_tlshd
}
# Ends what the round has begun: a consumer of a device that is gone ends at once. finish PORT
finish() {
	local result=0
	pkill -KILL -x many
	wait_for 5 no_many || { echo "the client does not end"; result=1; }
	peer pkill -KILL -x many
	peer_end server 5 >/dev/null || [ $? != 124 ] || { echo "the server does not end"; result=1; }
	[ ! -e "$WORK/silent" ] || { kill "$(<"$WORK/silent")"; rm "$WORK/silent"; } 2>/dev/null
	# The daemons end, and what they still had of sockets.
	if ! there own_tlshd || ! own_tlshd; then
		echo "no tlshd"
		result=1
	fi
	for host in a b; do
		at "$host" wait_for 20 no_sockets "$1" || { at "$host" no_sockets "$1"; echo "on host $host"; result=1; }
		at "$host" wait_for 10 nothing_left || { at "$host" nothing_left; echo "on host $host"; result=1; }
	done
	return "$result"
}
no_many() { ! pgrep -x many; }
# a_round PHASE HOST HOW PORT
a_round() {
	local result=0
	for host in a b; do at "$host" ensure || { echo "no driver on host $host"; return 1; }; done
	if begin "$1" "$2" "$4"; then
		echo "$(ss -Htn state established "dport = :$4" | wc -l) connections, $(at "$2" children) handshakes"
		at "$2" goes "$3" || result=1
	else
		result=1
	fi
	finish "$4" || result=1
	return "$result"
}

# Sockets of this host. A file or socket that stays counts for ever; those of others come and go.
_used() { awk '$1 == "sockets:" { print $3 }' /proc/net/sockstat; }
used_up() { [ "$(_used)" -le "$(($1 + 10))" ]; }
both_used_up() {
	at a wait_for 20 used_up "$used_here" && at b wait_for 20 used_up "$used_there" && return
	echo "here $(_used), before $used_here; there $(at b _used), before $used_there"
	return 1
}
works() { rping_peer "$PEER" 7798 -C 2; }
restored() { both ensure && works; }

run "tlshd starts on both hosts" tls_up || exit 1
run "load the driver on both hosts" both load_driver tls=3 || exit 1
run "a connection works at first" works || exit 1
used_here=$(_used) used_there=$(at b _used)
port=7700
for round in "${rounds[@]}"; do
	port=$((port + 1))
	read -r phase host how <<<"$round"
	name="${how/del/link del} on host $host ends in time, handshakes: $phase"
	# shellcheck disable=SC2086 # words
	LIMIT=90 run "$name" a_round $round $port
done
LIMIT=60 run "a connection works after all" restored
LIMIT=60 run "no socket stays after all" both_used_up
