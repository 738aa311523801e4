#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 300
# allow: nvme nvme\d: |nvme\dn\d: |I/O error|nfs: server|scsi host\d: |sd \d:\d:\d:\d: |connection\d+:0: |iSCSI|isert: |ib_srpt?
#
# rdma link del and rmmod on either host while a consumer in the kernel is connected, and busy or idle. The
# device goes within nine seconds: consumers end their connections themselves, and are able to. There are
# eight combinations; a run has two of them, by SEED. ALL: every one. ONLY: these consumers. ROUND: this
# combination, as in "a idle del". The debug kernel has SMB Direct, and no other consumer.

. /tests/lib.sh
. /tests/device/lib

# Seconds that the end of a device may take. (Two thirds of a second are common.)
MOST=9

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

# --- consumers -----------------------------------------------------------------------------------------
#
# The function of a consumer defines start_server, start_client, target (the file or device that the client
# can write to), stop_client, gone_client (nothing is left of it, once nobody writes) and stop_server.

gone_client() { :; }

nfs() {
	. /tests/nfs/lib
	start_server() { on_server serve_nfs; }
	start_client() { mount_nfs 4.2 soft,retrans=2; }
	target() { echo "$MNT/load"; }
	stop_client() { umount -f -l "$MNT"; }
	stop_server() { on_server stop_nfs; }
}
nvme() {
	. /tests/nvme/lib
	start_server() { on_target "serve_nvme $PEER"; }
	start_client() { connect_nvme -i 1; }
	target() { namespace; }
	stop_client() { [ -z "$(controller)" ] || command nvme disconnect -n "$NQN" && wait_for 10 gone_nvme; }
	stop_server() { on_target stop_nvme; }
	# This function hides the program nvme.
	unset -f nvme
}
iser() {
	. /tests/iser/lib
	start_server() { on_target "serve_iser $PEER unshare -n"; }
	start_client() { pidof iscsid >/dev/null || start_initiator || return; discover iser && login iser; }
	target() { echo "/dev/$(disk)"; }
	# The kernel keeps the disk for as long as the session may be recovered.
	stop_client() { iscsiadm -m node -T "$IQN" --logout; wait_for 10 no_disk; }
	stop_server() { on_target "stop_iser $PEER"; }
}
smb() {
	. /tests/smb/lib
	start_server() { on_server serve_smb; }
	start_client() { mount_smb; }
	target() { echo "$MNT/load"; }
	stop_client() { umount -f -l "$MNT"; }
	# The client goes on trying to reach the server until the last process has left the mount, and a
	# connection that is set up meanwhile disturbs the next round.
	gone_client() { ! pgrep -x cifsd; }
	stop_server() { on_server stop_smb; }
}
srp() {
	. /tests/srp/lib
	start_server() { on_target serve_srp; }
	start_client() { login; }
	target() { echo "/dev/$(disk)"; }
	stop_client() { ! rport || echo 1 >"$(rport)/delete"; wait_for 10 no_rport && wait_for 10 rmmod ib_srp; }
	# The target's name is made of the device's GID, so the device has to exist.
	stop_server() { both ensure_driver && on_target stop_srp; }
}

# --- a round -------------------------------------------------------------------------------------------

# writes FILE: goes on until a write fails.
writes() {
	while dd if=/dev/zero of="$1" bs=256k count=64 oflag=direct conv=nocreat,notrunc status=none; do :; done
}

# This host has the driver and its device.
ensure_driver() { [ -e "/sys/class/infiniband/$DEV" ] || load_driver; }

# a_round CONSUMER HOST LOAD HOW
a_round() {
	local writer='' result=0
	"$1"
	both ensure_driver || { echo "no driver"; return 1; }
	start_server || { echo "no server"; return 1; }
	start_client || { echo "no client"; return 1; }
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
	stop_client || { echo "the client does not end"; result=1; }
	[ -z "$writer" ] || { kill "$writer"; wait "$writer"; } 2>/dev/null
	wait_for 20 gone_client || { echo "the client stays"; result=1; }
	stop_server || { echo "the server does not end"; result=1; }
	return "$result"
}

run "load the driver" both load_driver || exit 1
for each in "${consumers[@]}"; do
	for round in "${rounds[@]}"; do
		read -r host load how <<<"$round"
		role=client
		[ "$host" = a ] || role=server
		name="${how/del/link del} under the $load $each $role ends in time"
		LIMIT=90 run "$name" a_round "$each" "$host" "$load" "$how"
	done
done
