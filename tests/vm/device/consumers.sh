#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 300
# allow: nvme nvme\d: |nvme\dn\d: |I/O error|nfs: server|scsi host\d: |sd \d:\d:\d:\d: |connection\d+:0: |iSCSI|isert: |ib_srpt?
#
# rdma link del and rmmod on either host while a consumer of the kernel's is connected and busy, or idle:
# the device goes in five seconds, as consumers end their connections themselves, and can. SEED: which two of
# the eight combinations. ALL: every one. ONLY: these consumers. ROUND: this combination, "a idle del". The debug kernel is the one that
# has SMB Direct.

. /tests/lib.sh
. /tests/device/lib

# Seconds. (Two thirds of one are common.)
MOST=5

case $RSIW_KERNEL in
debug) : "${ONLY:=smb}" ;;
*) : "${ONLY:=nfs nvme iser srp}" ;;
esac
MOST=$(limit "$MOST")
read -ra consumers <<<"$ONLY"
rounds=("a busy del" "b busy rmmod" "a idle del" "b idle rmmod"
	"b busy del" "a busy rmmod" "b idle del" "a idle rmmod")
if [ -n "${ROUND:-}" ]; then
	rounds=("$ROUND")
elif [ -z "${ALL:-}" ]; then
	rounds=("${rounds[@]:${SEED:-0} % 4 * 2:2}")
fi
plan $((${#consumers[@]} * ${#rounds[@]} + 1))

# --- each consumer: begins, writes for ever (in a file or device), ends, serves, stops ---------------

nfs() {
	. /tests/nfs/lib
	serves() { on_server serve_nfs; }
	begins() { mount_nfs 4.2 soft,retrans=2; }
	target() { echo "$MNT/load"; }
	ends() { umount -f -l "$MNT"; }
	stops() { on_server stop_nfs; }
}
nvme() {
	. /tests/nvme/lib
	serves() { on_target "serve_nvme $PEER"; }
	begins() { connect_nvme -i 1; }
	target() { namespace; }
	ends() { [ -z "$(controller)" ] || command nvme disconnect -n "$NQN" && wait_for 10 gone_nvme; }
	stops() { on_target stop_nvme; }
	# The function has the program's name.
	unset -f nvme
}
iser() {
	. /tests/iser/lib
	serves() { on_target "serve_iser $PEER unshare -n"; }
	begins() { pidof iscsid >/dev/null || start_initiator || return; discover iser && login iser; }
	target() { echo "/dev/$(disk)"; }
	# It is there for as long as a session may be recovered.
	ends() { iscsiadm -m node -T "$IQN" --logout; wait_for 10 no_disk; }
	stops() { on_target "stop_iser $PEER"; }
}
smb() {
	. /tests/smb/lib
	serves() { on_server serve_smb; }
	begins() { mount_smb; }
	target() { echo "$MNT/load"; }
	ends() { umount -f -l "$MNT"; }
	stops() { on_server stop_smb; }
}
srp() {
	. /tests/srp/lib
	serves() { on_target serve_srp; }
	begins() { login; }
	target() { echo "/dev/$(disk)"; }
	ends() { ! rport || echo 1 >"$(rport)/delete"; wait_for 10 no_rport && wait_for 10 rmmod ib_srp; }
	# Its names are those of the device.
	stops() { both there && on_target stop_srp; }
}

# --- a round -------------------------------------------------------------------------------------------

# goes del|rmmod: the device of this host; says how long it takes, and after a while what it waits for.
goes() {
	local began=${EPOCHREALTIME/./} pid took i
	case $1 in
	del) rdma link del "$DEV" & ;;
	rmmod) rmmod "$RSIW_DRIVER" & ;;
	esac
	pid=$!
	for ((i = 0; i < MOST * 10; i++)); do
		if ended "$pid"; then break; fi
		nap 0.1
	done
	if ! ended "$pid"; then
		echo "waits here:"
		cat "/proc/$pid/stack"
		waiters
	fi
	wait "$pid" || return
	took=$(((${EPOCHREALTIME/./} - began) / 1000))
	echo "took $took ms"
	[ "$took" -le $((MOST * 1000)) ]
}
ended() { ! grep -q '^State:.[^Z]' "/proc/$1/status" 2>/dev/null; }
# What waits for something else in the kernel.
waiters() {
	local task
	for task in /proc/[0-9]*; do
		grep -q '^State:.D' "$task/status" 2>/dev/null || continue
		echo "$(<"$task/comm"):"
		cat "$task/stack"
	done
}

# More and more, until it fails.
writes() {
	while dd if=/dev/zero of="$1" bs=256k count=64 oflag=direct conv=nocreat,notrunc status=none; do :; done
}

# The device, on this host.
there() { [ -e "/sys/class/infiniband/$DEV" ] || load_driver; }

# a_round CONSUMER HOST LOAD HOW
a_round() {
	local writer='' result=0
	"$1"
	both there || { echo "no driver"; return 1; }
	serves || { echo "no server"; return 1; }
	begins || { echo "no client"; return 1; }
	local at sent
	at=$(target)
	case $at in *load) head -c 16M /dev/zero >"$at" ;; esac
	if [ "$3" = busy ]; then
		sent=$(tx_messages "$DEV")
		writes "$at" >"$WORK/writes" 2>&1 &
		writer=$!
		wait_for 10 more_than "$DEV" $((sent + 100)) || { echo "not busy"; return 1; }
	fi
	if [ "$2" = a ]; then
		goes "$4" || result=1
	else
		peer_sh "$(declare -f goes ended waiters); MOST=$MOST; goes $4" || result=1
	fi
	ends || { echo "the client does not end"; result=1; }
	[ -z "$writer" ] || { kill "$writer"; wait "$writer"; } 2>/dev/null
	stops || { echo "the server does not end"; result=1; }
	return "$result"
}

run "load the driver" both load_driver || exit 1
for each in "${consumers[@]}"; do
	for round in "${rounds[@]}"; do
		read -r host load how <<<"$round"
		role=client
		[ "$host" = a ] || role=server
		name="$each $role, $load: ${how/del/link del}"
		LIMIT=90 run "$name" a_round "$each" "$host" "$load" "$how"
	done
done
