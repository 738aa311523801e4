# SPDX-License-Identifier: GPL-2.0
#
# Reads the kernel crate's generated bindings. For each struct or union that
# they define completely, prints options for bindgen not to define it again
# (blocklist), nor types that only it contains (opaque). Our own bindings define
# those that the kernel crate's only declare (`_unused: [u8; 0]`).

/^pub (struct|union) [A-Za-z0-9_]+/ {
	name = $3
	sub(/[^A-Za-z0-9_].*/, "", name)
	next
}

name != "" {
	if ($0 !~ /_unused: \[u8; 0\]/ && name !~ /^(__Bindgen|__Incomplete)/)
		print "--blocklist-type ^" name "$ --opaque-type ^" name "$"
	name = ""
}
