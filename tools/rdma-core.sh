# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# rdma-core's source as releases of Debian have it, for tools that are run in the build root. Sourced, never run.

# no_sources DIR: what apt said is in the log. The caller tells by this file that nothing else is wrong.
no_sources() { touch "$1/no-sources"; exit 1; }

# private_apt DIR SUITE ARCH: sets APT to a command that knows that release only, and has its state in DIR/apt.
private_apt() {
	local dir=$1 suite=$2 arch=$3 apt=$1/apt valid=''
	case $suite in forky | sid) valid=false ;; esac
	mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial"
	: >"$apt/status"
	printf '%s %s %s main\n' deb "$DEBIAN_MIRROR" "$suite" deb-src "$DEBIAN_MIRROR" "$suite" >"$apt/sources.list"
	APT=(apt-get -q -o "Dir::State=$apt/state" -o "Dir::Cache=$apt/cache" -o "Dir::State::status=$apt/status"
		-o "Dir::Etc::SourceList=$apt/sources.list" -o Dir::Etc::SourceParts=/dev/null
		-o "APT::Architecture=$arch" -o "APT::Architectures::=$arch" -o APT::Sandbox::User=root
		-o Debug::NoLocking=1 -o Acquire::Retries=3 -o Acquire::Languages=none
		${valid:+-o Acquire::Check-Valid-Until="$valid"})
	"${APT[@]}" -o APT::Update::Error-Mode=any update || no_sources "$dir"
}

# unpack_source DIR [VERSION]: rdma-core's source, the newest if not named, with Debian's patches, to ./tree. Without
# them, as mirrors of part of the archive may lack them, there is a file DIR/unpatched: they are of other providers.
unpack_source() {
	local dir=$1 source=rdma-core${2:+=$2} file
	# apt verifies both parts by the list of sources, which is signed.
	"${APT[@]}" --tar-only --download-only source "$source" || no_sources "$dir"
	mkdir tree
	tar -xf rdma-core_*.orig.tar.* -C tree --strip-components=1
	if "${APT[@]}" --diff-only --download-only source "$source"; then
		tar -xf rdma-core_*.debian.tar.* -C tree
		while read -r file _; do
			case $file in '' | '#'*) ;; *) patch -d tree -sp1 <"tree/debian/patches/$file" ;; esac
		done < <(cat tree/debian/patches/series 2>/dev/null)
	else
		touch "$dir/unpatched"
	fi
}
