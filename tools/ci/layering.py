# SPDX-License-Identifier: GPL-2.0
"""Check the layers: which names a crate's source may contain, which modules of rsiw may import which, and
that no more than two files import each other in a circle. The compiler enforces the rest, as the layers below
rsiw are separate crates."""

import os
import re
import sys

from circles import USE, Crate, leaves

DRIVER = [
    (r"\brdma_bindings\b|\bkernel::bindings\b", "raw C is named in rust/ only"),
    (r"\bunsafe\b", "a driver has no unsafe code"),
]
# Directory -> patterns that its code must not match, and why.
FORBIDDEN = {
    "rust/iwarp": [
        (r"\bkernel::|\bbindings\b|\brdma::|\bnet::\w+::", "the engine knows no kernel"),
        (r"\bunsafe\b(?!_code)", "the engine has no unsafe code"),
        (r"\bextern crate alloc\b|\balloc::|\bKVec\b|\bKBox\b", "the engine does not allocate"),
    ],
    "rust/net": [(r"\brsiw::|\biwarp::", "a reusable crate knows nothing of the driver")],
    "rust/rdma": [(r"\brsiw::|\biwarp::", "a reusable crate knows nothing of the driver")],
    "rust/kext": [(r"\brsiw::|\biwarp::|\bnet::|\brdma::|\bib_|\bsock", "it knows neither RDMA nor sockets")],
    "rsiw": DRIVER,
    "samples": DRIVER,
    "rsiw/trace": [(r"\brsiw::|\biwarp::|\bnet::|\brdma::|\bkext::", "it knows the events alone")],
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
    "tls_names": "",
    "settings": "module_parameters tls_names",
    "quota": "",
    "cpu_share": "",
    "transport": "",
    "ring": "abi",
    "pd": "quota",
    "mem": "abi pd",
    "wr": "abi mem",
    "device": "counters cpu_share mem quota settings",
    "cq": "abi ring wr",
    "queue": "abi counters cq device fifo mem pd ring wr",
    "tx": "abi counters cq mem queue transport wr",
    "rx": "abi cq mem pd queue wr",
    "cm": "device pd quota settings transport",
    "stream": "cm counters cq device mem pd queue quota rx transport tx wr",
    "qp": "counters device mem queue quota stream",
    "rnic": "cm device qp stream",
    "verbs": "abi cm counters cq device mem pd qp queue quota ring rnic settings stream wr",
    "link": "cm device rnic",
    "netdev": "cm link",
    # main declares the other modules, and so names them without "crate::".
    "main": "",
}
USES = {name: set(used.split()) for name, used in USES.items()}


def imports(source):
    """The modules of this crate that a file names: crate::a, use crate::{a::b, c}."""
    source = re.sub(r"//.*", "", source)
    for found in USE.finditer(source):
        yield from (path[1] for path, _ in leaves(found[2]) if path[0] == "crate")
    yield from re.findall(r"\bcrate::(\w+)", USE.sub("", source))


def crate_of(path):
    """The folder of the crate that a file belongs to."""
    parts = path.split("/")
    return "/".join(parts[:2 if parts[0] == "rust" or parts[:2] == ["rsiw", "trace"] else 1])


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
    for number, line in code_lines(source):
        yield from (f"{path}:{number}: {why}: {line.strip()}"
                    for pattern, why in FORBIDDEN.get(crate_of(path), []) if re.search(pattern, line))
    if crate_of(path) != "rsiw":
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


def circles(sources):
    """Circles of more than two files."""
    crates = {}
    for path, text in sources.items():
        crates.setdefault(crate_of(path), {})[path] = text
    yield from (f"{len(one)} files import each other in a circle: {' '.join(one)}"
                for crate in crates.values() for one in Crate(crate).circles(2))


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
    ("rsiw/trace/lib.rs", "use iwarp::mpa;"),
    ("samples/rdma/rust_rdma_sample.rs", "unsafe { f() }"),
]
GOOD = [
    ("rsiw/qp/mod.rs", "use crate::{mem::Region, stream};"),
    ("rsiw/cq.rs", '// crate::verbs is unsafe.\npr_info!("unsafe\\n"); let unsafely = 1;'),
    ("rust/rdma/lib.rs", "unsafe { bindings::f() }"),
    ("rsiw/trace/lib.rs", "unsafe { f() }"),
]

# Files of a crate that are a circle, and what makes it none.
CIRCLE = {
    "x/lib.rs": "mod a; mod b; mod c; pub use b::B; fn f(_: &'static B) {}",
    "x/a.rs": "use crate::B;\npub struct A;",
    "x/b.rs": "use super::c::{self, D};\npub struct B(c::C);",
    "x/c/mod.rs": "use super::a;\npub struct C(a::A); pub struct D;",
}
NO_CIRCLES = [
    ("x/a.rs", "// crate::B\npub struct A; #[test] mod tests { use super::*; use crate::B; }"),
    ("x/a.rs", "#[cfg(doc)]\nuse crate::B;\npub struct A;"),
    ("x/b.rs", "pub struct B; impl B { fn c(self) { ::c::D; kernel::c::D; c::D } }"),
    ("x/c/mod.rs", "use super::a;\npub struct C; pub struct D;"),
]


def test_itself():
    for path, source in BAD:
        if len(list(findings(path, source))) != 1:
            yield f"this check does not work: {path} may say {source!r}"
    for path, source in GOOD:
        yield from (f"this check does not work: {found}" for found in findings(path, source))
    if [len(one) for one in Crate(CIRCLE).circles(2)] != [3]:
        yield "this check does not work: it does not see a circle"
    yield from (f"this check does not work: it sees a circle with {path} of {source!r}"
                for path, source in NO_CIRCLES if Crate({**CIRCLE, path: source}).circles(2))


def main():
    bad = list(test_itself()) + list(cycles())
    found, sources = set(), {}
    for top in ("rust", "rsiw"):
        for path in rust_files(top):
            with open(path, encoding="utf-8") as source:
                text = sources[path] = source.read()
            bad += findings(path, text)
            if crate_of(path) == "rsiw":
                found |= {(module_of(path), name) for name in imports(text)}
    for path in rust_files("samples"):
        with open(path, encoding="utf-8") as source:
            bad += findings(path, source.read())
    bad += unused(found)
    bad += circles(sources)
    engine = "rust/iwarp/lib.rs"
    if os.path.exists(engine):
        with open(engine, encoding="utf-8") as source:
            if "#![forbid(unsafe_code)]" not in source.read():
                bad.append(f"{engine}: no #![forbid(unsafe_code)]")
    print("\n".join(bad) or "imports go one way")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
