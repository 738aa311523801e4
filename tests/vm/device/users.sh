#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 150
# pairs: rsiw,*
#
# Processes that may not do everything: what they can use, and what they cannot
# take from others.

. /tests/lib.sh
. /tests/device/lib
plan 18

# An ordinary user, and root without the right to configure networks.
ordinary() { setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --bounding-set=-all "$@"; }
less_than_root() { setpriv --bounding-set=-net_admin "$@"; }

# owner NAME connect|accept PORT: holds a queue pair, and says its number.
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
# refused COMMAND...: as if there were no such queue pair.
refused() { says ': Invalid argument' "$@"; }
takes_often() {
	local said
	dmesg -C
	refused ordinary naming connect "$ADDR" 7301 "$(number owner)" 1000 || return
	said=$(dmesg | grep -c "$DEV: QP $(number owner): another process tried to connect it")
	echo "$said messages of 1000"
	[ "$said" -ge 1 ] && [ "$said" -le 100 ]
}
# One that connects to a listener which accepts for the queue pair of another.
accepts() {
	peer_bg accepts ordinary naming accept "$ADDR" 7302 "$(number owner)"
	listens 7302 || return
	naming connect "$ADDR" 7302 </dev/null
	wait_for 10 test -e "$WORK/accepts.status"
	cat "$WORK/accepts"
	grep -q 'accept: Invalid argument' "$WORK/accepts"
}
connects() { go_on owner && peer_end owner 10; }

# pinned EXPECTED COMMAND...: what was said, in one line
pinned() {
	local said
	said=$("${@:2}" 2>&1 | paste -sd' ')
	echo "$said"
	[ "$said" = "$1" ]
}
unlocked() { (ulimit -l 1024 && "$@"); }

# Memory that others had before. (The stock kernel zeroes all that it gives away.)
dirty() {
	mkdir -p "$WORK/dirty" && mount -t tmpfs -o size=200m dirty "$WORK/dirty" || return
	tr '\0' '\377' </dev/zero | head -c 190M >"$WORK/dirty/file"
	umount "$WORK/dirty"
}
zeroed() {
	local said
	said=$(limits "$DEV" "$1" "$2" "$3" </dev/null 2>&1)
	echo "$said"
	[[ $said == "$3 good"* ]] && ! [[ $said == *"mapped 0 "* ]]
}

run "load the driver" load_driver || exit 1
run "memory that was used before" dirty
run "completion queues are zeroed" zeroed cq 200000 10
run "queue pairs are zeroed" zeroed qp 16000 10
run "an ordinary user connects" ordinary_ping
peer_bg server rping -s -P -a "$ADDR" -p 7301
server_up 7301
owner owner connect 7301
run "a process has a queue pair" number owner
run "an ordinary user cannot connect it" refused ordinary naming connect "$ADDR" 7301 "$(number owner)"
run "nor who may not configure networks" refused less_than_root naming connect "$ADDR" 7301 "$(number owner)"
run "nor accept for it" accepts
run "the log is not flooded" takes_often
run "it can connect by itself" connects
owner taken connect 7301
run "another process has one" number taken
run "an administrator can connect it" naming connect "$ADDR" 7301 "$(number taken)"
peer_kill taken
peer_kill server

run "memory is pinned within the limit" pinned "512: good 768: Cannot allocate memory" \
	unlocked ordinary limits "$DEV" pin 512 768
run "what was given back can be used" pinned "768: good 768: Cannot allocate memory back: Success 768: good" \
	unlocked ordinary limits "$DEV" pin 768 768 - 768
run "each process of the user has its own" pinned "768: good" unlocked ordinary limits "$DEV" pin 768
run "root has no limit" pinned "4096: good" unlocked limits "$DEV" pin 4096
run "unload the driver" unload_driver
