# SPDX-License-Identifier: GPL-2.0
"""Who may import what. Separate crates let the compiler enforce most of it;
this is the rest: what crates may name, and the order of rsiw's modules."""

import os
import re
import sys

# Directory -> what its code must not name, and why. The longest match counts.
FORBIDDEN = {
    "rust/iwarp": [
        (r"\bkernel::|\bbindings\b|\brdma::|\bnet::\w+::", "the engine knows no kernel"),
        (r"\bunsafe\b(?!_code)", "the engine has no unsafe code"),
        (r"\bextern crate alloc\b|\balloc::|\bKVec\b|\bKBox\b", "the engine does not allocate"),
    ],
    "rust/net": [(r"\brsiw::|\biwarp::", "a reusable crate knows nothing of the driver")],
    "rust/rdma": [(r"\brsiw::|\biwarp::", "a reusable crate knows nothing of the driver")],
    "rsiw": [(r"\brdma_bindings\b|\bkernel::bindings\b", "raw C is named in rust/ only")],
}

# rsiw's modules: what each may import. Those not named may import anything.
MAY = {
    "abi": set(),
    "mem": {"abi", "counters", "trace"},
    "cq": {"abi", "counters", "trace"},
    "qp": {"abi", "mem", "cq", "wr", "counters", "trace"},
}
# Nobody but the top imports verbs; tx and rx do not know who calls them.
NEVER = {"verbs": {"main", "link", "verbs"}, "cm": {"main", "link", "verbs", "cm"}}


ORDERED = MAY.keys() | NEVER.keys() | {"tx", "rx"}


def code_lines(path):
    """(number, line) without comments, strings and test modules' ends."""
    with open(path, encoding="utf-8") as source:
        for number, line in enumerate(source, 1):
            line = re.sub(r'"(\\.|[^"\\])*"', '""', line)
            yield number, re.sub(r"//.*", "", line)


def rust_files(top):
    for root, dirs, names in os.walk(top):
        dirs[:] = sorted(d for d in dirs if d != "target")
        for name in sorted(names):
            if name.endswith(".rs") and "generated" not in name:
                yield os.path.join(root, name)


def module_of(path):
    """The module of rsiw that a file belongs to."""
    return os.path.relpath(path, "rsiw").split(os.sep)[0].removesuffix(".rs")


def main():
    bad = []
    for directory, rules in FORBIDDEN.items():
        for path in rust_files(directory):
            for number, line in code_lines(path):
                bad += [f"{path}:{number}: {why}: {line.strip()}"
                        for pattern, why in rules if re.search(pattern, line)]
    for path in rust_files("rsiw"):
        module = module_of(path)
        for number, line in code_lines(path):
            for used in re.findall(r"\bcrate::(\w+)", line):
                if module in MAY and used != module and used in ORDERED \
                        and used not in MAY[module]:
                    bad.append(f"{path}:{number}: {module} must not import {used}")
                if used in NEVER and module not in NEVER[used]:
                    bad.append(f"{path}:{number}: {module} must not import {used}")
    engine = "rust/iwarp/lib.rs"
    if os.path.exists(engine):
        with open(engine, encoding="utf-8") as source:
            if "#![forbid(unsafe_code)]" not in source.read():
                bad.append(f"{engine}: no #![forbid(unsafe_code)]")
    print("\n".join(bad) or "imports go one way")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
