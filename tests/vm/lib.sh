# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Every job begins with `. /tests/lib.sh`. A job runs on host A, as root, under
# bash; `peer COMMAND...` runs a command on the other host. At the end of a job the
# runner kills the job's processes on both hosts and unloads the drivers.
#
# The runner sets RSIW_SIDE (a, b), RSIW_DRIVER and RSIW_DRIVER_PEER (rsiw, siw,
# rxe), RSIW_GUESTS (1, 2), RSIW_KERNEL (stock, debug), RSIW_LINK (tap, socket),
# RSIW_NETNS (yes: the hosts are namespaces of one guest), RSIW_OUT (a directory
# that both hosts and the machine see), RSIW_SLOW (the factor of time limits) and, if
# there are any, RSIW_PARAMS (module parameters).

export PATH=/tests/guest:/build/bin:$PATH

# The hosts' addresses. ADDR is this host's, PEER the other one's.
A4=10.7.0.1 B4=10.7.0.2 A6=fd07::1 B6=fd07::2
# shellcheck disable=SC2034 # these are for the jobs
if [ "${RSIW_SIDE:-a}" = a ]; then
	ADDR=$A4 ADDR6=$A6 PEER=$B4 PEER6=$B6
else
	ADDR=$B4 ADDR6=$B6 PEER=$A4 PEER6=$A6
fi
# A host that is alone is its own peer.
# shellcheck disable=SC2034
[ "${RSIW_GUESTS:-2}" = 2 ] || PEER=$ADDR PEER6=$ADDR6

# RDMA devices are named by their driver: rsiw0. If both hosts are namespaces of one guest, host B has rsiw1.
DEV=${RSIW_DRIVER:-rsiw}0
# shellcheck disable=SC2034
PEER_DEV=${RSIW_DRIVER_PEER:-rsiw}0
if [ -n "${RSIW_NETNS:-}" ]; then
	PATH=/tests/guest/netns:$PATH
	if [ "$RSIW_SIDE" = b ]; then DEV=${DEV%0}1; else PEER_DEV=${PEER_DEV%0}1; fi
fi

WORK=${WORK:-$(mktemp -d /tmp/job.XXXXXX)}
# A pipe that nobody writes to: nap() reads it to wait without a process.
exec {_never}<>/run/rsiw/never
_count=0 _failed=0 _planned=

# --- results (KTAP) ---------------------------------------------------------

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
	# What tells more about a test stands before its result.
	[ -z "${2:-}" ] || note "$2"
	echo "not ok $_count - $1"
}
skip() { _count=$((_count + 1)); echo "ok $_count - $1 # SKIP $2"; }
note() { printf '# %s\n' "${*//$'\n'/$'\n# '}"; }

# To start a process takes ten milliseconds in an emulated guest. So the shell itself does what all
# jobs do all the time. nap SECONDS waits.
nap() { read -rt "$1" -u "$_never" || true; }
# show FILE [PREFIX]: prints its lines as notes, or behind another prefix.
show() {
	local lines
	mapfile -t lines <"$1"
	[ ${#lines[@]} = 0 ] || printf "${2:-# }%s\n" "${lines[@]}"
}

# run NAME COMMAND...: one test, which passes if the command succeeds in time. A
# report shows the name alone: it says what passes or fails. LIMIT=seconds before
# `run` sets another time limit. The command may be a function of this shell; its
# output is kept in $OUTPUT.
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

# fails NAME COMMAND...: one test, which passes if the command fails, but in time.
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

# tell: makes a result of each line "ok NAME" and "not ok NAME" of its input, and notes of all others.
tell() {
	local line
	while read -r line; do
		case $line in
		"ok "*) ok "${line#ok }" ;;
		"not ok "*) not_ok "${line#not ok }" ;;
		*) note "${line#\# }" ;;
		esac
	done
}

# told_by NAME COMMAND...: the tests that the command runs and prints (see tell), and one more: that the
# command NAME ends with status 0, or with 3, which says that some of its tests failed.
told_by() {
	local name="$1: the program runs to its end"
	shift
	tell < <("$@" 2>&1 </dev/null)
	wait $!
	case $? in
	0 | 3) ok "$name" ;;
	*) not_ok "$name" ;;
	esac
}

# limit SECONDS: prints the time that this kernel gets where the stock kernel gets so many seconds.
# _limit VARIABLE SECONDS sets a variable to it.
limit() {
	local seconds
	_limit seconds "$1"
	echo "$seconds"
}
_limit() {
	# RSIW_SLOW has one decimal, and bash has integers: count in tenths.
	local tenths=${RSIW_SLOW:-1}.0
	tenths=${tenths%%.*}${tenths#*.}
	tenths=${tenths%.0}
	printf -v "$1" '%d' $(($2 * 10#$tenths / 10))
}

# within SECONDS COMMAND...: like timeout, but for functions, too, and in seconds as for limit. Its status
# is 124 when the time is over.
within() {
	local seconds
	_limit seconds "$1"
	shift
	_within "$seconds" "$@"
}
# Whether a word is the name of a program. `type -t` in a subshell would take longer.
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

# wait_for SECONDS COMMAND...: runs the command again and again until it succeeds, at most for so long. Ten times in
# a second, but seldom enough that a slow kernel does not only that.
wait_for() {
	local end pause
	_limit end "$1"
	_limit pause 1
	pause=0.$((pause < 5 ? pause : 5))
	end=$((SECONDS + end))
	shift
	until "$@" >/dev/null 2>&1; do
		[ "$SECONDS" -lt "$end" ] || return 1
		nap "$pause"
	done
}

# retry FAULT WHAT...: tells the runner that the job tries something again, and which known fault of other
# software excuses that. The runner counts these lines, those in the output of a test included.
retry() {
	local fault=$1
	shift
	echo "# RETRY $fault: $*"
}

# patiently COMMAND...: runs the command, and runs it again where it fails beside siw and a fault of siw's
# shows (siw_fault): three times at most. The command starts its own server and has a time limit (within).
# CAPTURE_SIW: rsiw's host captures what siw sends.
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
		[ -z "${CAPTURE_SIW:-}" ] || begin_capture_received
		begin_watch siw watch_unread >"$said.unread"
		"$@" >"$said" 2>&1 || status=$?
		# What came last may not be in the capture yet.
		[ "$status" = 0 ] || [ -z "${CAPTURE_SIW:-}" ] || sleep 1
		end_watches
		cat "$said"
		[ "$status" != 0 ] || break
		[ "$try" -lt 4 ] || break
		fault=$(siw_fault "$said" "$crc") || break
		[ ! -s "$said.stream" ] || cat "$said.stream"
		retry "$fault" "$*"
	done
	rm -f "$said" "$said.unread" "$said.stream"
	return "$status"
}
# begin_watch DRIVER FUNCTION: runs a function of this file beside a command, on the host that has that driver.
begin_watch() {
	if [ "$RSIW_DRIVER" = "$1" ]; then
		"$2" &
	else
		# The program itself, not peer_sh, as it is to be ended.
		peer bash -c ". /tests/lib.sh; _planned=-; $2" 2>/dev/null &
	fi
	_watches+=("$!")
}
end_watches() {
	{ kill "${_watches[@]}" && wait "${_watches[@]}"; } 2>/dev/null
	_watches=()
}
_watches=()
# What comes in on eth0 by TCP; and what in it is no stream of FPDUs, a line for each.
begin_capture_received() {
	on_rsiw rm -f /tmp/received.pcap
	begin_watch rsiw capture_received
	on_rsiw wait_for 10 test -s /tmp/received.pcap
}
capture_received() { exec tcpdump --immediate-mode -q -n -U -s 0 -B 32768 -Q in -i eth0 -w /tmp/received.pcap tcp 2>/dev/null; }
not_streams() { python3 -B /tests/wire/pcap.py streams /tmp/received.pcap; }
beside_siw() { [[ " ${RSIW_DRIVER_PEER:-} $RSIW_DRIVER " = *" siw "* ]]; }
# on_rsiw, on_siw COMMAND...: run it on the host that has that driver: on this one, if both have it.
on_rsiw() { if [ "$RSIW_DRIVER" = rsiw ]; then "$@"; else peer_sh "$*"; fi; }
on_siw() { if [ "$RSIW_DRIVER" = siw ]; then "$@"; else peer_sh "$*"; fi; }
crc_errors() { cat /sys/class/infiniband/rsiw0/ports/1/hw_counters/rx_crc_errors 2>/dev/null || echo 0; }
# show_optional COUNTER: the device has it shown. optional COUNTER: prints its value.
show_optional() { rdma statistic set link "$DEV/1" optional-counters "$1"; }
optional() { rdma statistic show link "$DEV/1" | grep -oP "(?<= $1 )\d+"; }
# The TCP sockets of the kernel, which no process has, with bytes that wait unread: a line for each.
unread() { ss -Htnp | awk '$2 > 0 && !/users:/ { print $2, $4, $5 }'; }
# Prints the sockets in which the same bytes have waited for three seconds, whenever there are any. A consumer
# that gives up takes its socket with it, so this looks before the end.
watch_unread() {
	local before='' now
	while nap 3; do
		now=$(unread)
		[ -z "$now" ] || grep -Fx -- "$now" <<<"$before"
		before=$now
	done
}

# siw_fault OUTPUT CRC-ERRORS: prints which known fault of siw's explains a failure. OUTPUT is a file with what
# the command printed, and OUTPUT.unread has what watch_unread printed; CRC-ERRORS is the number that rsiw had
# counted before. There are two faults. On a busy machine siw sends FPDUs whose header or CRC is not that of their
# payload (in one of 40 rcopies; captures show it on the wire). rsiw counts them; without CRCs a capture has to show
# that an FPDU does not follow the one before it (CAPTURE_SIW). And siw misses a first FPDU that arrives while
# siw_accept() still sets up its socket: its bytes stay unread in the socket. Wrong data are never excused otherwise.
siw_fault() {
	local errors
	if [ -n "${CAPTURE_SIW:-}" ]; then
		on_rsiw not_streams >"$1.stream"
		[ ! -s "$1.stream" ] || { echo siw-stream; return; }
	fi
	# Wrong data. (perftest says "Bad wc status" of any completion in error.)
	! grep -viF 'bad wc status' "$1" | grep -qiE 'mismatch|verif.* fail|verify:|bad |differ' || return
	errors=$(($(on_rsiw crc_errors) - $2))
	[ "$errors" -le 0 ] || { echo siw-crc; return; }
	if [ -s "$1.unread" ] || [ -n "$(on_siw unread)" ]; then
		echo siw-unread
		return
	fi
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

# load_driver [NETDEV] [PARAMETER=VALUE...]: loads this host's driver and makes a
# device on NETDEV (eth0). `both load_driver` does so on both hosts.
load_driver() {
	local netdev=eth0
	if [ $# -gt 0 ] && [[ $1 != *=* ]]; then
		netdev=$1
		shift
	fi
	load_module "$RSIW_DRIVER" "$@" && add_device "$DEV" "$netdev"
}

# A driver may have several builds, to be compared: rsiw-NAME is /build/rsiw-NAME.ko.
# Only one of them can be loaded at a time.
driver_of() { echo "${1%%-*}"; }
module_of() { driver_of "${1/#rxe/rdma_rxe}"; }

load_module() {
	local build=${1/#rxe/rdma_rxe} file dep
	shift
	[ "${RSIW_PROVIDER:-}" != rsiw ] || use_provider || return
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

# The file that is rsiw's own provider for this guest's release; fails if it is not built.
own_provider() { ls "/build/provider/$(. /etc/os-release; echo "$VERSION_CODENAME")"/librsiw-rdmav*.so; }
has_provider() { own_provider >/dev/null 2>&1; }
NO_PROVIDER="rsiw's provider is not built: no mirror has rdma-core's source"
# use_provider: from now on this host's programs have provider/ for devices of rsiw and siw, as where the package
# rsiw-provider is installed: in the place of libsiw. RSIW_PROVIDER=rsiw does so whenever a driver is loaded. In
# namespaces of one guest the mount would be seen by one program only.
use_provider() {
	local own place
	own=$(own_provider) || return
	place=$(echo /usr/lib/*/libibverbs/"${own/#*librsiw/libsiw}")
	grep -q " $place " /proc/mounts || mount --bind "$own" "$place"
}
# need_provider: the same, for a job that needs it on this host; the job is skipped where it is not built.
need_provider() {
	has_provider || skip_all "$NO_PROVIDER"
	use_provider || exit 1
}
without_provider() { umount /usr/lib/*/libibverbs/libsiw-rdmav*.so; }
# provider_is OWN COMMAND...: whether the library that the command loads for devices of rsiw and siw is rsiw's own (yes)
# or siw's (no).
provider_is() {
	local loaded own=no
	loaded=$(LD_DEBUG=libs "${@:2}" 2>&1 >/dev/null | sed -n 's|.*calling init: \(/.*/libsiw-rdmav[0-9]*\.so\)$|\1|p')
	echo "loaded: $loaded"
	[ -n "$loaded" ] || return
	! cmp -s "$loaded" /build/provider/*/"$(basename "${loaded/libsiw/librsiw}")" || own=yes
	[ "$own" = "$1" ]
}

# add_device NAME NETDEV [TYPE]
add_device() {
	rdma link add "$1" type "$(driver_of "${3:-$RSIW_DRIVER}")" netdev "$2" &&
		wait_for 10 device_active "$1"
}
# with DRIVER [PARAMETER...]: loads it and makes a device "bench" on eth0. For "tcp" there is nothing to do.
with() { [ "$1" = tcp ] || { RSIW_PARAMS='' load_module "$@" && add_device bench eth0 "$1"; }; }

device_active() { rdma link show "$1/1" | grep -q 'state ACTIVE'; }
device_gone() { [ ! -e "/sys/class/infiniband/$1" ]; }

# load_on_lo [PARAMETER=VALUE...]: loads the driver and makes a device on lo, with
# addresses of its own. For 127.0.0.1 the connection manager looks for a partition
# key, which siw does not have.
# shellcheck disable=SC2034
LO=10.7.9.1 LO6=fd07:9::1
load_on_lo() {
	# siw makes the device's GID of lo's hardware address. The RDMA core drops a GID of zeros.
	[ "$RSIW_DRIVER" != siw ] || ip link set lo address 02:00:00:00:00:01
	ip addr add "$LO/32" dev lo
	ip addr add "$LO6/128" dev lo nodad
	load_driver lo "$@"
}

unload_driver() {
	local module=$RSIW_DRIVER
	[ "$module" != rxe ] || module=rdma_rxe
	rdma link del "$DEV" 2>/dev/null
	# A host in the same guest may have unloaded it.
	[ -z "${RSIW_NETNS:-}" ] || [ -e "/sys/module/$module" ] || return 0
	rmmod "$module"
}

# unload_module SECONDS MODULE: waits until it can be unloaded. What is built in, as much is in the debug
# kernel, stays.
unload_module() { [ ! -e "/sys/module/${2//-/_}/initstate" ] || wait_for "$1" rmmod "$2"; }

# huge_pages COUNT: reserves so many. The debug kernel has none.
huge_pages() { [ ! -e /proc/sys/vm/nr_hugepages ] || sysctl -q "vm.nr_hugepages=$1"; }

# Drops everything that is cached of files.
forget() { sync && echo 3 >/proc/sys/vm/drop_caches; }

# --- the other host ---------------------------------------------------------

# peer COMMAND... is a program (tests/vm/prog/peer.c). peer_sh runs shell code with
# the functions of this file on the peer: peer_sh 'load_driver && ulimit -a'
peer_sh() { peer bash -c ". /tests/lib.sh; _planned=-; $1"; }

# both FUNCTION-OR-COMMAND...: runs it here and, if there is a peer, there at the
# same time. The peer's shell gets the job's functions, but not its variables.
both() {
	local pid
	if [ "${RSIW_GUESTS:-2}" = 1 ]; then
		"$@"
		return
	fi
	peer_sh "$(declare -f); $(printf '%q ' "$@")" &
	pid=$!
	# Two namespaces have one kernel, in which one host loads a driver for both.
	[ -z "${RSIW_NETNS:-}" ] || wait "$pid" || return
	"$@" && wait "$pid"
}

# peer_bg NAME COMMAND...: starts the command in the background on the peer (or
# here, if this host is alone), with its output in $WORK/NAME. peer_end NAME
# [SECONDS] waits until it ends, shows the output and returns the status; peer_kill
# NAME ends it. The state is in files, as `run` calls functions in a subshell.
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
		# Those who wait look for a file with something in it: an empty one may still be written.
		echo $? >"$WORK/$name.status"
	) 2>/dev/null &
	wait_for 30 test -s "$WORK/$name.pid"
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
	wait_for 30 test -s "$WORK/$1.status"
}

# peer_listens, listens PORT [SECONDS]: wait until something listens on a port of the peer, or of this
# host, for TCP or RDMA. server_up waits for what peer_bg has started, on whichever host that is.
peer_listens() { peer /tests/guest/listens "$1" "$(limit "${2:-10}")"; }
listens() { /tests/guest/listens "$1" "$(limit "${2:-10}")"; }
server_up() {
	if [ "${RSIW_GUESTS:-2}" = 1 ]; then listens "$@"; else peer_listens "$@"; fi
}

# rping_peer ADDRESS PORT OPTION...: rping on this host pings one on the peer, which listens at ADDRESS; both get
# the options. Both have to end well.
rping_peer() {
	local address=$1 port=$2
	shift 2
	peer_bg rping rping -s -a "$address" -p "$port" "$@"
	server_up "$port" || return
	rping -c -a "$address" -p "$port" "$@" && peer_end rping
}

# ordinary COMMAND...: runs it as a user without any rights.
ordinary() { setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --bounding-set=-all "$@"; }
