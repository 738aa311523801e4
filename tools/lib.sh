# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Shared by the tools: paths, messages, packages of the machine, and cached stages. Sourced, never run.
#
# With RSIW_ONLY_CACHED=yes in its environment a tool makes nothing: its exit status says whether the cache has
# its product.

set -euo pipefail

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
die() { say "$*"; exit 1; }

# What root makes for a caller, the mount points in the build root for one, is for the caller to use.
umask 022

# chroot and mount: an ordinary user's PATH lacks their directories.
PATH=$PATH:/usr/sbin:/sbin

# shellcheck disable=SC2034 # used by scripts that source this
TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
CACHE=${RSIW_CACHE:-${XDG_CACHE_HOME:-${HOME:?set HOME, or RSIW_CACHE}/.cache}/rsiw}
# shellcheck disable=SC2034
DEBIAN_MIRROR=${RSIW_MIRROR:-http://deb.debian.org/debian}

mkdir -p "$CACHE" 2>/dev/null || die "cannot make $CACHE, the cache: RSIW_CACHE names another directory"
CACHE=$(cd "$CACHE" && pwd -P)

# In seconds.
now() { date +%s; }

# settings: the environment's settings of the tools, and its proxies, NAME=VALUE a line.
settings() { env | grep -E '^(RSIW_[A-Z_]*|(https?|no)_proxy|(HTTPS?|NO)_PROXY)=' || true; }

as_root() {
	local kept
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		# sudo clears the environment.
		mapfile -t kept < <(settings)
		sudo env "${kept[@]}" "$@"
	else
		die "root is needed for '$1', and there is no sudo"
	fi
}

# need_host COMMAND|FILE=PACKAGE...: install the packages whose command, or file (a path, or a pattern of
# paths), this machine lacks. README names each package; CI's stage "scripts" checks that it does.
need_host() {
	local pair missing=()
	for pair; do
		case $pair in
		/*) compgen -G "${pair%%=*}" >/dev/null ;;
		*) command -v "${pair%%=*}" >/dev/null ;;
		esac || missing+=("${pair#*=}")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	command -v apt-get >/dev/null ||
		die "please install: ${missing[*]} (this is not a Debian machine)"
	as_root apt-get -q update >/dev/null || say "apt-get update failed; trying on"
	# The list includes the dependencies that the machine lacks.
	say "installing on this machine: $(apt-get -s --no-install-recommends install "${missing[@]}" |
		sed -n 's/^Inst \([^ ]*\).*/\1/p' | tr '\n' ' ')"
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y \
		--no-install-recommends "${missing[@]}" >/dev/null ||
		die "could not install: ${missing[*]}"
}

# unfinished_suite SUITE: what mmdebstrap is told, an argument a line, of a release that is not finished yet. A mirror's
# state of it expires within a week, and a copy of an archive keeps the state that it has.
unfinished_suite() {
	case $1 in forky | sid) echo "--aptopt=Acquire::Check-Valid-Until \"false\"" ;; esac
}

# key_of INPUT...: a short hash of everything that a stage is made from.
key_of() { printf '%s\n' "$@" | sha256sum | cut -c1-12; }

only_cached() { [ -n "${RSIW_ONLY_CACHED:-}" ]; }

# begin TITLE: say that something long begins, and each half minute that it goes on, until `finished` says how long
# it took. The process that counts waits for the end of a pipe, which comes however this one ends.
begin() {
	TITLE=$1 BEGAN=$(now)
	say "$TITLE ..."
	exec {BUSY}> >(
		exec >&2
		while true; do
			status=0
			read -rt 30 || status=$?
			[ "$status" -gt 128 ] || exit 0		# not a timeout
			say "$TITLE: $(($(now) - BEGAN)) s so far"
		done
	)
}
finished() {
	exec {BUSY}>&-
	say "$TITLE: $(($(now) - BEGAN)) s"
}

# alone DIR: wait until no other process makes this part of the checkout's build/. The lock lasts until the
# caller ends, and what it has become by exec.
alone() {
	local lock
	mkdir -p "${1%/*}"
	exec {lock}>"$1.lock"
	flock -n "$lock" || { say "waiting for another process in ${1#"$TOP"/}"; flock "$lock"; }
}

# stage DIR TITLE FUNCTION: run FUNCTION, which fills DIR, unless an earlier run has filled it.
# The stamp is written last, so an interrupted stage is made again. DIR is filled in place and not renamed,
# because a kernel tree records its own path. Each stage has its own lock: another process that wants the
# same stage waits, and then finds it made.
stage() {
	local dir=$1 title=$2 fill=$3 lock status
	[ ! -e "$dir/.stamp" ] || return 0
	! only_cached || exit 1
	mkdir -p "$CACHE/lock"
	exec {lock}>"$CACHE/lock/${dir##*/}"
	if ! flock -n "$lock"; then
		begin "waiting for another process: $title"
		flock "$lock"
		finished
	fi
	if [ ! -e "$dir/.stamp" ]; then
		begin "$title"
		[ ! -e "$dir" ] || as_root rm -rf --one-file-system "$dir"
		mkdir -p "$dir"
		# Not `(...) || die`: a command before || runs without set -e, so half a build root would pass
		# for a whole one.
		set +e
		(set -e; "$fill" "$dir" {lock}>&- {BUSY}>&-)
		status=$?
		set -e
		[ "$status" = 0 ] || die "failed: $title"
		touch "$dir/.stamp"
		finished
	fi
	exec {lock}>&-
}

# ident NAME|EMAIL: of git's configuration, or of the last commit, where there is none.
ident() {
	local format=%an
	[ "$1" = NAME ] || format=%ae
	git -C "$TOP" config "user.${1,,}" || git -C "$TOP" log -1 --format="$format"
}

# quiet LOG COMMAND...: run a command with its output in LOG; if it fails, show the end of LOG.
quiet() {
	local log=$1
	shift
	if ! "$@" >"$log" 2>&1; then
		say "'$*' failed; the end of $log:"
		tail -n 30 "$log" >&2
		return 1
	fi
}
