# SPDX-License-Identifier: GPL-2.0
"""Check the layers: which names a crate's source may contain, and which modules of rsiw may import which.
The compiler enforces the rest, as the layers below rsiw are separate crates."""

import os
import re
import sys

# Directory -> patterns that its code must not match, and why.
FORBIDDEN = {
    "rust/iwarp": [
        (r"\bkernel::|\bbindings\b|\brdma::|\bnet::\w+::", "the engine knows no kernel"),
        (r"\bunsafe\b(?!_code)", "the engine has no unsafe code"),
        (r"\bextern crate alloc\b|\balloc::|\bKVec\b|\bKBox\b", "the engine does not allocate"),
    ],
    "rust/net": [(r"\brsiw::|\biwarp::", "a reusable crate knows nothing of the driver")],
    "rust/rdma": [(r"\brsiw::|\biwarp::", "a reusable crate knows nothing of the driver")],
    "rust/trace": [(r"\brsiw::|\biwarp::|\bnet::|\brdma::|\bkext::", "it knows the events alone")],
    "rust/kext": [(r"\brsiw::|\biwarp::|\bnet::|\brdma::|\bib_|\bsock", "it knows neither RDMA nor sockets")],
    "rsiw": [
        (r"\brdma_bindings\b|\bkernel::bindings\b", "raw C is named in rust/ only"),
        (r"\bunsafe\b", "the driver has no unsafe code"),
    ],
}

# rsiw's modules, lowest first, each with the modules that it may import. A module may import only modules
# that stand above it in this table, so there is no cycle. tx and rx know the queues and the transport, but
# neither each other nor cm. cm knows the user of a stream by a trait (cm::User), and no queue. No module
# imports verbs.
USES = {
    "abi": "",
    "fifo": "",
    "counters": "",
    "module_parameters": "",
    "names": "",
    "settings": "module_parameters names",
    "limit": "",
    "cpu_share": "",
    "transport": "",
    "ring": "abi",
    "pd": "limit",
    "mem": "abi pd",
    "wr": "abi mem",
    "device": "counters cpu_share limit mem settings",
    "cq": "abi ring wr",
    "queue": "abi counters cq device fifo mem pd ring wr",
    "tx": "abi counters cq mem queue transport wr",
    "rx": "abi cq mem pd queue wr",
    "cm": "device limit pd settings transport",
    "stream": "cm counters cq device limit mem pd queue rx transport tx wr",
    "qp": "counters cq device limit mem pd queue stream",
    "rnic": "cm device qp stream",
    "verbs": "abi cm counters cq device limit mem pd qp queue ring rnic settings stream wr",
    "link": "cm device rnic",
    # main declares the other modules, and so names them without "crate::".
    "main": "",
}
USES = {name: set(used.split()) for name, used in USES.items()}


def imports(source):
    """The modules of this crate that a file names: crate::a, use crate::{a::b, c}."""
    source = re.sub(r"//.*", "", source)
    for found in re.finditer(r"\bcrate::(?:(\w+)|\{)", source):
        if found[1]:
            yield found[1]
            continue
        depth, name = 1, ""
        for char in source[found.end():]:
            if char == "{":
                depth += 1
            elif char == "}":
                depth -= 1
            if depth == 1 and char == "," or depth == 0:
                yield re.match(r"\s*(\w*)", name)[1]
                name = ""
                if depth == 0:
                    break
            else:
                name += char


def code_lines(source):
    """(number, line) without comments and strings."""
    for number, line in enumerate(source.splitlines(), 1):
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


def findings(path, source):
    """Violations in a file with this path and text."""
    for directory, rules in FORBIDDEN.items():
        if not path.startswith(directory + "/"):
            continue
        for number, line in code_lines(source):
            yield from (f"{path}:{number}: {why}: {line.strip()}"
                        for pattern, why in rules if re.search(pattern, line))
    if not path.startswith("rsiw/"):
        return
    module = module_of(path)
    if module not in USES:
        yield f"{path}: tell in {sys.argv[0]} which modules {module} may import"
        return
    # Names that are no modules belong to items of main, such as macros.
    for name in sorted(set(imports(source)) & set(USES) - {module}):
        if name not in USES[module]:
            yield f"{path}: {module} must not import {name}"


def cycles():
    """Entries of the table that import a module which does not stand above them."""
    above = set()
    for module, used in USES.items():
        yield from (f"{module} may import {name}, which does not stand above it"
                    for name in sorted(used - above))
        above.add(module)


def unused(found):
    """Imports that the table allows and no file makes; `found` has the pairs (importer, imported)."""
    for module, used in USES.items():
        yield from (f"{module} may import {name}, and does not" for name in sorted(used)
                    if (module, name) not in found)


# A violation of each kind, and code that is no violation: the check is tried on both.
BAD = [
    ("rsiw/mem/region.rs", "use crate::{abi::Sge, qp::Qp};"),
    ("rsiw/cq.rs", "fn f() {\n    crate::verbs::g();\n}"),
    ("rsiw/tx/mod.rs", "    let n = unsafe { *p };"),
    ("rsiw/main.rs", "unsafe impl Send for X {}"),
    ("rsiw/pd.rs", "use kernel::bindings;"),
    ("rsiw/newcomer.rs", ""),
    ("rsiw/tx/mod.rs", "use crate::{abi::Sge, rx::Rx};"),
    ("rsiw/cm/mod.rs", "use crate::queue::Queues;"),
    ("rust/iwarp/lib.rs", "use kernel::prelude::*;"),
    ("rust/net/socket.rs", "use iwarp::mpa;"),
]
GOOD = [
    ("rsiw/qp/mod.rs", "use crate::{mem::Region, stream};"),
    ("rsiw/cq.rs", '// crate::verbs is unsafe.\npr_info!("unsafe\\n"); let unsafely = 1;'),
    ("rust/rdma/lib.rs", "unsafe { bindings::f() }"),
]


def test_itself():
    for path, source in BAD:
        if len(list(findings(path, source))) != 1:
            yield f"this check does not work: {path} may say {source!r}"
    for path, source in GOOD:
        yield from (f"this check does not work: {found}" for found in findings(path, source))


def main():
    bad = list(test_itself()) + list(cycles())
    found = set()
    for top in ("rust", "rsiw"):
        for path in rust_files(top):
            with open(path, encoding="utf-8") as source:
                text = source.read()
            bad += findings(path, text)
            if top == "rsiw":
                found |= {(module_of(path), name) for name in imports(text)}
    bad += unused(found)
    engine = "rust/iwarp/lib.rs"
    if os.path.exists(engine):
        with open(engine, encoding="utf-8") as source:
            if "#![forbid(unsafe_code)]" not in source.read():
                bad.append(f"{engine}: no #![forbid(unsafe_code)]")
    print("\n".join(bad) or "imports go one way")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
