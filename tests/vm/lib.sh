# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# What every job begins with: `. /tests/lib.sh`. A job runs on host A, as root,
# under bash; the other host is reached by `peer COMMAND...`. What a job starts,
# on either host, is killed at its end, and drivers are unloaded for it.
#
# Set by the runner: RSIW_SIDE (a, b), RSIW_DRIVER and RSIW_DRIVER_PEER (rsiw,
# siw, rxe), RSIW_GUESTS (1, 2), RSIW_KERNEL (stock, debug), RSIW_LINK (tap,
# socket), RSIW_OUT (a directory both hosts and the machine see), RSIW_SLOW
# (by what to multiply time limits). RSIW_PARAMS: module parameters, if any.

export PATH=/tests/guest:/build/bin:$PATH

# The hosts' addresses; ADDR is ours, PEER the other's.
A4=10.7.0.1 B4=10.7.0.2 A6=fd07::1 B6=fd07::2
# shellcheck disable=SC2034 # these are for the jobs
if [ "${RSIW_SIDE:-a}" = a ]; then
	ADDR=$A4 ADDR6=$A6 PEER=$B4 PEER6=$B6
else
	ADDR=$B4 ADDR6=$B6 PEER=$A4 PEER6=$A6
fi
# Alone, a host is its own peer.
# shellcheck disable=SC2034
[ "${RSIW_GUESTS:-2}" = 2 ] || PEER=$ADDR PEER6=$ADDR6

# RDMA devices are named by their driver: rsiw0.
DEV=${RSIW_DRIVER:-rsiw}0
# shellcheck disable=SC2034
PEER_DEV=${RSIW_DRIVER_PEER:-rsiw}0

WORK=${WORK:-$(mktemp -d /tmp/job.XXXXXX)}
# Nothing ever comes out of it: to wait for a time without a process.
exec {_never}<>/run/rsiw/never
_count=0 _failed=0 _planned=

# --- saying what happened (KTAP) -------------------------------------------

plan() {
	echo "KTAP version 1"
	echo "1..$1"
	_planned=$1
}

# The whole job cannot run here: skip_all REASON
skip_all() {
	echo "KTAP version 1"
	echo "1..0 # SKIP $*"
	_planned=0
	exit 0
}

ok() { _count=$((_count + 1)); echo "ok $_count - $1"; }
not_ok() {
	_count=$((_count + 1)) _failed=$((_failed + 1))
	echo "not ok $_count - $1"
	[ -z "${2:-}" ] || echo "# $2"
}
skip() { _count=$((_count + 1)); echo "ok $_count - $1 # SKIP $2"; }
note() { printf '# %s\n' "${*//$'\n'/$'\n# '}"; }

# What starts a process takes ten milliseconds of emulation; what all jobs do all the time is done
# by the shell itself.
nap() { read -rt "$1" -u "$_never" || true; }
# show FILE [PREFIX]: as notes, or behind another prefix.
show() {
	local lines
	mapfile -t lines <"$1"
	[ ${#lines[@]} = 0 ] || printf "${2:-# }%s\n" "${lines[@]}"
}

# run NAME COMMAND...: one test, passed if the command succeeds in time.
# LIMIT=seconds before it sets another time limit. The command may be a
# function of this shell; its output is kept in $OUTPUT for a closer look.
run() {
	local name=$1 began=$SECONDS status=0 limit
	shift
	_limit limit "${LIMIT:-30}"
	OUTPUT=$WORK/output
	_within "$limit" "$@" >"$OUTPUT" 2>&1 || status=$?
	show "$OUTPUT"
	if [ "$status" = 0 ]; then
		ok "$name"
	elif [ "$status" = 124 ]; then
		not_ok "$name" "time limit of $limit s"
	else
		not_ok "$name" "status $status after $((SECONDS - began)) s: $*"
	fi
	return "$status"
}

# fails NAME COMMAND...: passed if the command fails, but in time.
fails() {
	local name=$1 status=0 limit
	shift
	_limit limit "${LIMIT:-30}"
	_within "$limit" "$@" >"$WORK/output" 2>&1 || status=$?
	show "$WORK/output"
	case $status in
	0) not_ok "$name" "succeeded, and must not: $*" ;;
	124) not_ok "$name" "time limit" ;;
	*) ok "$name" ;;
	esac
}

# told_by COMMAND...: tests that the command runs by itself, a line "ok NAME" or "not ok NAME"
# each, among notes; and one more, that it came to its end: status 0,
# or 3 if some failed.
told_by() {
	local line
	while read -r line; do
		case $line in
		"ok "*) ok "${line#ok }" ;;
		"not ok "*) not_ok "${line#not ok }" ;;
		*) note "${line#\# }" ;;
		esac
	done < <("$@" 2>&1 </dev/null)
	wait $!
	case $? in
	0 | 3) ok "to the end" ;;
	*) not_ok "to the end" ;;
	esac
}

# Seconds on the stock kernel, as many as this kernel needs. _limit puts them in a variable.
limit() {
	local seconds
	_limit seconds "$1"
	echo "$seconds"
}
_limit() {
	# In tenths: the runner says it so.
	local tenths=${RSIW_SLOW:-1}.0
	tenths=${tenths%%.*}${tenths#*.}
	tenths=${tenths%.0}
	printf -v "$1" '%d' $(($2 * 10#$tenths / 10))
}

# within SECONDS COMMAND...: like timeout, for functions too. Status 124. Seconds as for limit.
within() {
	local seconds
	_limit seconds "$1"
	shift
	_within "$seconds" "$@"
}
# As "type -t" would say, in a process of its own.
_is_program() {
	case $1 in */*) return 0 ;; esac
	! declare -F "$1" >/dev/null && hash "$1" 2>/dev/null && [ -n "${BASH_CMDS[$1]:-}" ]
}
_within() {
	local seconds=$1 pid timer status
	shift
	if _is_program "$1"; then
		timeout -k 5 "$seconds" "$@"
		return
	fi
	("$@") &
	pid=$!
	(nap "$seconds"; kill -9 "$pid") >/dev/null 2>&1 &
	timer=$!
	wait "$pid" 2>/dev/null
	status=$?
	kill "$timer" 2>/dev/null || status=124
	return "$status"
}

# wait_for SECONDS COMMAND...: until the command succeeds.
wait_for() {
	local end
	_limit end "$1"
	end=$((SECONDS + end))
	shift
	until "$@" >/dev/null 2>&1; do
		[ "$SECONDS" -lt "$end" ] || return 1
		nap 0.1
	done
}

# retry FAULT WHAT...: tells that something is tried again, and which fault of others excuses that. The
# runner counts these in the job's line and in its summary, also of what `run` runs.
retry() {
	local fault=$1
	shift
	echo "# RETRY $fault: $*"
}

# patiently COMMAND...: again, three times at the most, but only beside siw, and only where one of its
# faults shows (siw_fault). The command starts its own server and has a time limit (within).
patiently() {
	local try crc fault status said
	if ! beside_siw; then
		"$@"
		return
	fi
	said=$(mktemp "$WORK/said.XXXXXX")
	for ((try = 1; ; try++)); do
		crc=$(on_rsiw crc_errors)
		status=0
		"$@" >"$said" 2>&1 || status=$?
		cat "$said"
		[ "$status" != 0 ] || break
		[ "$try" -lt 4 ] || break
		fault=$(siw_fault "$said" "$crc") || break
		retry "$fault" "$*"
	done
	rm "$said"
	return "$status"
}
beside_siw() { [[ " ${RSIW_DRIVER_PEER:-} $RSIW_DRIVER " = *" siw "* ]]; }
# On the host that has the driver, the other one if both have.
on_rsiw() { if [ "$RSIW_DRIVER" = rsiw ]; then "$@"; else peer_sh "$*"; fi; }
on_siw() { if [ "$RSIW_DRIVER" = siw ]; then "$@"; else peer_sh "$*"; fi; }
crc_errors() { cat /sys/class/infiniband/rsiw0/ports/1/hw_counters/rx_crc_errors 2>/dev/null || echo 0; }
# Octets in TCP sockets of open connections that are the kernel's own: no process has them.
unread() { ss -Htnp | awk '$2 > 0 && !/users:/ { n += $2 } END { print n + 0 }'; }

# siw_fault OUTPUT CRC-ERRORS: which known fault of siw's is behind a failure with that output, before which
# rsiw had counted so many errors. On a busy machine siw sends FPDUs with a wrong CRC (of 40 rcopies
# one; captures show it on the wire): rsiw counts them. And it misses a first FPDU that comes while
# siw_accept() still sets up its socket: what was sent stays unread there. Wrong data are nobody's excuse.
siw_fault() {
	local errors octets
	! grep -qiE 'mismatch|verif.* fail|verify:|bad |differ' "$1" || return
	errors=$(($(on_rsiw crc_errors) - $2))
	[ "$errors" -le 0 ] || { echo siw-crc; return; }
	octets=$(on_siw unread)
	[ "$octets" -eq 0 ] || { echo siw-unread; return; }
	return 1
}

_at_exit() {
	local status=$?
	[ -n "$_planned" ] || echo "1..$_count"
	[ "$_failed" = 0 ] || exit 1
	exit "$status"
}
trap _at_exit EXIT

# --- drivers ----------------------------------------------------------------

# load_driver [NETDEV] [PARAMETER=VALUE...]: this host's driver, with a device.
# Jobs that want it on both hosts say `both load_driver`.
load_driver() {
	local netdev=eth0
	if [ $# -gt 0 ] && [[ $1 != *=* ]]; then
		netdev=$1
		shift
	fi
	load_module "$RSIW_DRIVER" "$@" && add_device "$DEV" "$netdev"
}

# A driver may have builds to compare: rsiw-NAME is /build/rsiw-NAME.ko, and one of
# them is loaded at a time.
driver_of() { echo "${1%%-*}"; }
module_of() { driver_of "${1/#rxe/rdma_rxe}"; }

load_module() {
	local build=${1/#rxe/rdma_rxe} file dep
	shift
	[ ! -e "/sys/module/$(module_of "$build")" ] || return 0
	file=/build/$build.ko
	if [ ! -e "$file" ]; then
		modprobe "$build" "$@"
		return
	fi
	for dep in $(modinfo -F depends "$file" | tr , ' '); do
		modprobe "$dep" || return
	done
	# shellcheck disable=SC2086 # parameters are words
	insmod "$file" ${RSIW_PARAMS:-} "$@"
}

# add_device NAME NETDEV [TYPE]
add_device() {
	rdma link add "$1" type "$(driver_of "${3:-$RSIW_DRIVER}")" netdev "$2" &&
		wait_for 10 device_active "$1"
}
# with DRIVER [PARAMETER...]: it, and a device of it, "bench", on eth0; TCP needs neither.
with() { [ "$1" = tcp ] || { RSIW_PARAMS='' load_module "$@" && add_device bench eth0 "$1"; }; }

device_active() { rdma link show "$1/1" | grep -q 'state ACTIVE'; }

# A device on lo. Its address is one that the connection manager takes for it:
# for 127.0.0.1 it asks for a partition key, which iWARP has not.
# shellcheck disable=SC2034
LO=10.7.9.1 LO6=fd07:9::1
load_on_lo() {
	# siw makes its GID of lo's address, and the core drops one of zeros.
	[ "$RSIW_DRIVER" != siw ] || ip link set lo address 02:00:00:00:00:01
	ip addr add "$LO/32" dev lo
	ip addr add "$LO6/128" dev lo nodad
	load_driver lo "$@"
}

unload_driver() {
	local module=$RSIW_DRIVER
	[ "$module" != rxe ] || module=rdma_rxe
	rdma link del "$DEV" 2>/dev/null
	rmmod "$module"
}

# gone SECONDS MODULE: unload it, where it is one; the debug kernel has much built in.
gone() { [ ! -e "/sys/module/${2//-/_}/initstate" ] || wait_for "$1" rmmod "$2"; }

# huge_pages COUNT: so many, where the kernel has them; the debug kernel has not.
huge_pages() { [ ! -e /proc/sys/vm/nr_hugepages ] || sysctl -q "vm.nr_hugepages=$1"; }

# fio_verified OPTION...: random writes and reads past the cache, read back and
# compared. The options say where, and how large.
fio_verified() {
	fio --name=job "$@" --rw=randrw --direct=1 --verify=crc32c --verify_fatal=1 --do_verify=1 \
		--output="$WORK/fio" >"$WORK/fio.err" 2>&1 ||
		{ cat "$WORK/fio" "$WORK/fio.err"; return 1; }
	! grep -i 'verify:\|bad ' "$WORK/fio" "$WORK/fio.err"
}

# disk_verified DEVICE SIZE: that, of so much of a disk.
disk_verified() {
	fio_verified --filename="$1" --bsrange=512-128k --size="$2" --ioengine=libaio --iodepth=16
}

# disk_data DEVICE MEGABYTES: random bytes go there past all caches, and come back.
disk_data() {
	head -c "${2}M" /dev/urandom >"$WORK/data"
	dd if="$WORK/data" of="$1" bs=1M oflag=direct status=none || return
	blockdev --flushbufs "$1"
	dd if="$1" bs=256k count=$((4 * $2)) iflag=direct status=none | cmp - "$WORK/data"
}

# amid_data MEGABYTES COMMAND...: the command while the job's `data` is under way, which
# gets there all the same; and again afterwards. Not under way where siw (Linux 7.2) is
# the target's: now and then work requests of its QP in error never complete, and the
# target waits for ever for their commands.
amid_data() {
	local megabytes=$1 writer=
	shift
	if [ "$RSIW_DRIVER_PEER" != siw ]; then
		data "$megabytes" &
		writer=$!
		sleep 0.5
	fi
	"$@" || return
	# shellcheck disable=SC2086 # one or none
	wait $writer && data 4
}

# Nothing of a file is cached any more.
forget() { sync && echo 3 >/proc/sys/vm/drop_caches; }

# files_data MOUNT DIRECTORY SIZE...: files of random bytes go to a mount, and come
# back the same when nothing of them is cached; the peer has the same in DIRECTORY.
files_data() {
	local mnt=$1 there=$2 size here=$WORK/data
	shift 2
	mkdir -p "$here"
	for size; do
		head -c "$size" /dev/urandom >"$here/$size"
		cp "$here/$size" "$mnt/$size" || return
	done
	forget
	for size; do
		cmp "$here/$size" "$mnt/$size" || return
	done
	(cd "$here" && sha256sum -- "$@") >"$WORK/here"
	peer_sh "cd $there && sha256sum -- $*" >"$WORK/there" || return
	diff "$WORK/here" "$WORK/there" && rm "${@/#/$mnt/}"
}

# --- the other host ---------------------------------------------------------

# peer COMMAND... is a program (tests/vm/prog/peer.c). For functions of this
# file and for shell syntax: peer_sh 'load_driver && ulimit -a'
peer_sh() { peer bash -c ". /tests/lib.sh; _planned=-; $1"; }

# both FUNCTION-OR-COMMAND...: here and on the peer at once, if there is one. The
# job's functions are known there, its variables are not.
both() {
	local pid
	if [ "${RSIW_GUESTS:-2}" = 1 ]; then
		"$@"
		return
	fi
	peer_sh "$(declare -f); $(printf '%q ' "$@")" &
	pid=$!
	"$@" && wait "$pid"
}

# peer_bg NAME COMMAND...: in the background on the peer (or here, when alone),
# with its output in $WORK/NAME. peer_end NAME [SECONDS] waits for its end,
# shows the output and returns the status; peer_kill NAME ends it. State is in
# files, because `run` calls functions in a shell of their own.
peer_bg() {
	local name=$1
	shift
	[ "${RSIW_GUESTS:-2}" = 1 ] || set -- peer "$@"
	if [ -e "$WORK/$name.pid" ] || [ -e "$WORK/$name.status" ]; then
		rm -f "$WORK/$name.status" "$WORK/$name.pid"
	fi
	(
		"$@" >"$WORK/$name" 2>&1 </dev/null &
		echo $! >"$WORK/$name.pid"
		wait $!
		# It is not empty once it is there to be read.
		echo $? >"$WORK/$name.status"
	) 2>/dev/null &
	wait_for 5 test -s "$WORK/$name.pid"
}
peer_end() {
	local status=124
	if wait_for "${2:-30}" test -s "$WORK/$1.status"; then
		status=$(<"$WORK/$1.status")
	else
		echo "$1 does not end"
	fi
	show "$WORK/$1" "$1: "
	return "$status"
}
peer_kill() {
	kill "$(<"$WORK/$1.pid")" 2>/dev/null
	wait_for 5 test -s "$WORK/$1.status"
}

# On the peer, wait until something listens on a port, TCP or RDMA.
peer_listens() { peer /tests/guest/listens "$1" "$(limit "${2:-10}")"; }
listens() { /tests/guest/listens "$1" "$(limit "${2:-10}")"; }
# server_up PORT: what peer_bg started is ready, wherever it runs.
server_up() {
	if [ "${RSIW_GUESTS:-2}" = 1 ]; then listens "$@"; else peer_listens "$@"; fi
}
