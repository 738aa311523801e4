#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 120
# pairs: rsiw,rsiw
#
# The settings of a device in use, in sysfs: what they show, what they refuse, and that connections which are set
# up after a change have it on the wire.

. /tests/lib.sh
. /tests/apps/lib
. /tests/wire/lib
plan 21

run "load the driver" both load_driver || exit 1
settings=/sys/class/infiniband/$DEV/settings

# Names and defaults are those of the module's parameters; the list of names is a device's alone.
shown() {
	# The debug kernel's module has parameters of tests/faults as well.
	{ modinfo -F parm "/build/$RSIW_DRIVER.ko" | sed -E 's/:.*//; /^(fail|late)_/d'; echo tls_names; } |
		sort >"$WORK/parameters"
	(cd "$settings" && printf '%s\n' *) | diff "$WORK/parameters" - || return
	[ "$(<"$settings/large_fpdu")" = 1 ] && [ "$(<"$settings/crc")" = 1 ] &&
		[ "$(<"$settings/user_timeout_ms")" = 120000 ]
}
run "the settings are the module's parameters" shown
# set_to NAME VALUE: fails if the kernel refuses it.
set_to() { echo "$2" 2>/dev/null >"$settings/$1"; }
# refuses NAME VALUE: it stays as it is, and the error is "Invalid argument".
refuses() {
	local before
	before=$(<"$settings/$1")
	! LC_ALL=C bash -c "echo '$2' >'$settings/$1'" 2>"$WORK/said" || return
	cat "$WORK/said"
	# The default error is EINVAL's.
	grep -q "${3:-Invalid argument}" "$WORK/said" && [ "$(<"$settings/$1")" = "$before" ]
}
run "a flag takes 0 and 1 only" refuses crc 2
run "an MPA revision of 3 is refused" refuses mpa_revision 3
run "a budget below 64 KiB is refused" refuses tx_budget_kib 63
run "a word is refused" refuses recv_wait_ms soon
run "a number that fits no 32 bits is refused" refuses user_timeout_ms 4294967296 "out of range"
run "an empty line is refused" refuses keepalive_count ""
hexadecimal() { set_to keepalive_count 0x10 && [ "$(<"$settings/keepalive_count")" = 16 ] && set_to keepalive_count 6; }
run "a number may be hexadecimal" hexadecimal
unprivileged() {
	! setpriv --reuid=nobody --clear-groups bash -c "echo 0 >$settings/crc" 2>/dev/null &&
		! setpriv --bounding-set=-net_admin --inh-caps=-net_admin bash -c "echo 0 >$settings/crc" &&
		[ "$(<"$settings/crc")" = 1 ]
}
run "a change needs the right to administer networks" unprivileged

# exchange PORT WHAT: two tests: rping moves data, and the capture of it is complete; it is decoded.
exchange() {
	begin_capture "$WORK/$1.pcap" "tcp and port $1"
	run "rping moves data with $2" try_rping "$PEER" 4000 3 "$1"
	end_capture "rping with $2"
	decode
}
# frames LINE OTHER: whether the Request and the Reply have such a line, and neither has the other. (If the
# first FPDU comes in the same segment as the Reply, tshark sees no Reply.)
frames() {
	grep -E '^ .*(flag|Revision|Reserved)' "$DUMP"
	[ "$(count "$1")" -ge 1 ] && [ "$(count "$2")" = 0 ]
}
exchange 7401 "the parameters"
run "MPA frames ask for CRCs" frames 'CRC flag: True' 'CRC flag: False'
# The other of the two is that of enhanced connection setup.
run "MPA frames have the reserved bit of large FPDUs" frames '1 1000 = Reserved' '0 0000 = Reserved'
changes() { set_to crc 0 && set_to large_fpdu 0 && set_to mpa_revision 1; }
run "change CRC, large FPDUs and the MPA revision on both hosts" both eval "$(declare -p settings); $(declare -f set_to changes); changes"
exchange 7402 "the changes"
run "MPA frames ask for no CRCs" frames 'CRC flag: False' 'CRC flag: True'
run "MPA frames have revision 1" frames 'Revision: 1$' 'Revision: 2$'
run "MPA frames have no reserved bit" frames '0 0000 = Reserved' '1 1000 = Reserved'

again() {
	rdma link del "$DEV" && rdma link add "$DEV" type rsiw netdev eth0 && [ "$(<"$settings/crc")" = 1 ] &&
		[ "$(<"$settings/large_fpdu")" = 1 ]
}
run "a new device has the module's parameters" again
