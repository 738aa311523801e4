# SPDX-License-Identifier: GPL-2.0
#
# From the kernel crate's generated bindings: options for each struct or union
# that is defined completely there, not to define it again (blocklist), nor what
# is found only inside of it (opaque). Those it has only declared
# (`_unused: [u8; 0]`) are left to be defined by our own bindings.

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
