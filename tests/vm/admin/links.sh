#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 150
# pairs: rsiw,*
#
# Links of /etc/rsiw/links.d, by rsiw-link, as systemd's services call it.

. /tests/lib.sh
plan 28

links=/etc/rsiw/links.d
mkdir -p "$links"
# link NAME LINE...: writes its file.
link() {
	local name=$1
	shift
	printf '%s\n' "$@" >"$links/$name.conf"
}
setting() { cat "/sys/class/infiniband/$1/settings/$2"; }
no_links() { rdma link; [ -z "$(rdma link)" ]; }
# refused TEXT COMMAND...: it fails, and its last line has the text.
refused() {
	local text=$1
	shift
	! "$@" >"$WORK/said" 2>&1 || return
	cat "$WORK/said"
	[[ $(tail -n 1 "$WORK/said") == "rsiw-link: $text" ]]
}

# It loads the module itself where that is installed; the tests' own is not.
run "load the module" load_module rsiw || exit 1
ip link add dummy1 type dummy
ip link set dummy1 up
ip addr add 10.8.6.1/24 dev dummy1

# Of the others the driver needs some itself.
run "unload the module that librdmacm needs" unload_module 10 rdma_ucm

# --- up, reload, down ---------------------------------------------------------
made() {
	rsiw-link up storage && device_active bulk &&
		[ "$(setting bulk crc) $(setting bulk large_fpdu) $(setting bulk tx_budget_kib)" = "0 1 64" ]
}
link storage "# The storage network" "" netdev=dummy1 name=bulk crc=0 "large_fpdu = 1" tx_budget_kib=64
run "up makes a link with its name and settings" made
run "up loads the module that librdmacm needs" test -e /sys/class/misc/rdma_cm
over() { peer_bg ping rping -s -a 10.8.6.1 -p 7501 -C 10 -v && server_up 7501 && rping -c -a 10.8.6.1 -p 7501 -C 10 && peer_end ping; }
run "rping moves data over a link" over
index=$(rdma dev show bulk)
again() { rsiw-link up storage && [ "$(rdma dev show bulk)" = "$index" ]; }
run "up leaves a link that is there" again
link storage netdev=dummy1 name=bulk crc=1 "tls_names = hosta,20049=host b"
changed() { again && [ "$(setting bulk crc) $(setting bulk large_fpdu)" = "1 1" ]; }
run "up changes the settings of a link that is there" changed
run "up names the peers that may connect" test "$(setting bulk tls_names)" = "hosta, 20049=host b"
link other netdev=dummy1
run "up refuses a second link on a network device" \
	refused "$links/other.conf: dummy1 has the RDMA device bulk already" rsiw-link up other
# What the file says now does not matter: the link that `up` has made goes.
gone() { link storage nonsense && rsiw-link down storage && device_gone bulk && [ ! -e /run/rsiw/storage ]; }
run "down removes a link whose file was changed" gone
run "down of a link that is gone succeeds" rsiw-link down storage
link default netdev=dummy1
named() { rsiw-link up default && device_active default; }
run "a link has the name of its file" named
with_netdev() { ip link del dummy1 && wait_for 5 device_gone default && rsiw-link down default; }
run "down succeeds after the network device has gone" with_netdev
ip link add dummy1 type dummy

# --- renaming -------------------------------------------------------------------
link default netdev=dummy1
kept() { rsiw-link up default && "/usr/lib/udev/rdma_rename" default NAME_GUID && [ -e /sys/class/infiniband/default ]; }
run "rdma-core's program for udev leaves the name of a link" kept
by_hand() { rdma dev set default name other && rsiw-link up default && [ -e /sys/class/infiniband/other ]; }
run "up finds a link that was renamed" by_hand
moved() { ip link set dummy1 name dummy7 && rsiw-link down default && no_links; }
run "down finds a link that was renamed, as its network device was" moved
ip link set dummy7 name dummy1

# --- what is refused ---------------------------------------------------------------
link bad netdev=nonesuch
run "a missing network device is named" \
	refused "$links/bad.conf: there is no network device nonesuch" rsiw-link up bad
link bad netdev=dummy1 crcc=0
run "an unknown setting is refused" refused "$links/bad.conf:2: there is no setting crcc" rsiw-link up bad
link bad "" "# A number" netdev=dummy1 crc=2
run "a value out of range is refused" refused "$links/bad.conf:4: crc must be a number from 0 to 1" rsiw-link up bad
link bad netdev=dummy1 crc=yes
run "a value that is no number is refused" refused "$links/bad.conf:2: crc must be a number from 0 to 1" rsiw-link up bad
link bad netdev=dummy1 name=a%d
run "a bad name is refused" \
	refused "$links/bad.conf:2: the name may have 63 letters, digits, '.', '_' and '-'" rsiw-link up bad
link bad crc=0
run "a file without a network device is refused" refused "$links/bad.conf: there is no line netdev=..." rsiw-link up bad
run "a missing file is named" refused "$links/none.conf: there is no such file" rsiw-link up none
run "files in error leave no link" no_links
# A GRE tunnel's hardware address is an IP address.
if ip link add gre1 type gre local 10.9.9.1 remote 10.9.9.2; then
	link bad netdev=gre1
	run "an unsuitable network device is named" \
		refused "$links/bad.conf: cannot make an RDMA device on gre1" rsiw-link up bad
else
	skip "an unsuitable network device is named" "this kernel has none"
fi

# The module may be older, or have other ranges, than rsiw-link believes.
liberal() {
	sed 's/\[crc\]="0 1"/[crc]="0 9" [colour]="0 9"/' "$(command -v rsiw-link)" >"$WORK/rsiw-link"
	chmod +x "$WORK/rsiw-link"
	link bad netdev=dummy1 large_fpdu=1 "$1"
	refused "$links/bad.conf:3: $2" "$WORK/rsiw-link" up bad && no_links && [ ! -e /run/rsiw/bad ]
}
run "a value that the module refuses leaves no link" liberal crc=7 "the module refuses crc=7"
run "a setting that the module lacks leaves no link" liberal colour=7 "the module that is loaded has no setting colour"
busy() {
	link good netdev=dummy1 large_fpdu=1 && rsiw-link up good || return
	link good netdev=dummy1 large_fpdu=0 crc=7
	refused "$links/good.conf:3: the module refuses crc=7" "$WORK/rsiw-link" up good && rdma link show good/1
}
run "a link that was there stays when the module refuses a setting" busy
