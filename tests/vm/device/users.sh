#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 150
# pairs: rsiw,*
#
# Processes without some rights: what they can use, and that they cannot take the
# objects of others.

. /tests/lib.sh
. /tests/device/lib
plan 18

# Root without the right to configure networks.
less_than_root() { setpriv --bounding-set=-net_admin "$@"; }

# owner NAME connect|accept PORT: starts a process that makes a queue pair and prints its number.
owner() {
	mkfifo "$WORK/$1.in"
	sleep 300 >"$WORK/$1.in" &
	peer_bg "$1" sh -c "naming $2 $ADDR $3 <$WORK/$1.in"
}
number() {
	wait_for 10 grep -q '^qp ' "$WORK/$1" || return
	sed -n 's/^qp //p' "$WORK/$1"
}
go_on() { echo >"$WORK/$1.in"; }
ordinary_ping() {
	ordinary rping -s -a "$ADDR" -p 7300 -C 5 -V &
	listens 7300 && ordinary rping -c -a "$ADDR" -p 7300 -C 5 -V && wait "$!"
}
# no_such_qp COMMAND...: it is refused as if there were no such queue pair.
no_such_qp() { says ': Invalid argument' "$@"; }
takes_often() {
	local said
	dmesg -C
	no_such_qp ordinary naming connect "$ADDR" 7301 "$(number owner)" 1000 || return
	said=$(dmesg | grep -c "$DEV: QP $(number owner): another process tried to connect it")
	echo "$said messages of 1000"
	[ "$said" -ge 1 ] && [ "$said" -le 100 ]
}
# A process listens, and accepts a connection for the queue pair of another process.
accepts() {
	peer_bg accepts ordinary naming accept "$ADDR" 7302 "$(number owner)"
	listens 7302 || return
	naming connect "$ADDR" 7302 </dev/null
	wait_for 10 test -e "$WORK/accepts.status"
	cat "$WORK/accepts"
	grep -q 'accept: Invalid argument' "$WORK/accepts"
}
connects() { go_on owner && peer_end owner 10; }

# pinned EXPECTED COMMAND...: what the command prints, as one line
pinned() {
	local said
	said=$("${@:2}" 2>&1 | paste -sd' ')
	echo "$said"
	[ "$said" = "$1" ]
}
unlocked() { (ulimit -l 1024 && "$@"); }

# Others have written to the memory that is free. (The stock kernel zeroes all memory that it gives to
# processes.)
dirty() {
	mkdir -p "$WORK/dirty" && mount -t tmpfs -o size=200m dirty "$WORK/dirty" || return
	tr '\0' '\377' </dev/zero | head -c 190M >"$WORK/dirty/file"
	umount "$WORK/dirty"
}
# zeroed OBJECT SIZE COUNT: the process finds only zeros in what it maps of its objects.
zeroed() {
	local said
	said=$(limits "$DEV" "$1" "$2" "$3" </dev/null 2>&1)
	echo "$said"
	[[ $said == "$3 good"* ]] && ! [[ $said == *"mapped 0 "* ]]
}

run "load the driver" load_driver || exit 1
run "fill free memory with ones" dirty
run "memory of completion queues is zeroed" zeroed cq 200000 10
run "memory of queue pairs is zeroed" zeroed qp 16000 10
run "an ordinary user connects" ordinary_ping
peer_bg server rping -s -P -a "$ADDR" -p 7301
server_up 7301
owner owner connect 7301
run "a process makes a queue pair" number owner
run "an ordinary user cannot connect a queue pair of others" no_such_qp ordinary naming connect "$ADDR" 7301 "$(number owner)"
run "root without CAP_NET_ADMIN cannot connect one of others" no_such_qp less_than_root naming connect "$ADDR" 7301 "$(number owner)"
run "an ordinary user cannot accept for a queue pair of others" accepts
run "refused attempts do not flood the log" takes_often
run "the owner can connect its queue pair afterwards" connects
owner taken connect 7301
run "a second process makes a queue pair" number taken
run "an administrator connects a queue pair of others" naming connect "$ADDR" 7301 "$(number taken)"
peer_kill taken
peer_kill server

run "a user pins memory up to the limit, and no more" pinned "512: good 768: Cannot allocate memory" \
	unlocked ordinary limits "$DEV" pin 512 768
run "a user can pin again what it has given back" pinned "768: good 768: Cannot allocate memory back: Success 768: good" \
	unlocked ordinary limits "$DEV" pin 768 768 - 768
run "each process of a user has a pin limit of its own" pinned "768: good" unlocked ordinary limits "$DEV" pin 768
run "root pins memory without a limit" pinned "4096: good" unlocked limits "$DEV" pin 4096
run "unload the driver" unload_driver
