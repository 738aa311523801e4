# SPDX-License-Identifier: GPL-2.0
"""Lays the provider out as a series of patches for rdma-core.

    series.py SOURCE KERNEL OUT AUTHOR EMAIL DATE

SOURCE is rdma-core's source and KERNEL the kernel's; both are only read. OUT gets the patches, a cover letter, and in
OUT/tree a repository: its first commit is rdma-core, each other one a patch.

Where files come from:

- the checkout's own sources, provider/ and the manual page, with what REPLACED says;
- tree/, for what only rdma-core has;
- INSERTED, lines in files that rdma-core has, maintainers, an entry of MAINTAINERS, and the functions of this file.

NN-NAME.msg are the messages, cover.msg that of the cover letter."""

import pathlib
import re
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "tools/series"))

from patches import (ENUM, IDS, Series, TOP, fail, inserted, maintained, replaced, text_of,  # noqa: E402
                     tracked, with_own_id)

HERE = pathlib.Path(__file__).parent
HEADERS, SPARSE, PROVIDER, MAN, LISTS, TESTS = range(1, 7)
PAGE = "providers/rsiw/man/rsiw.7.md"

# File of the provider, what it has here, what it has there. Here it is for several releases of rdma-core, and has the
# identity that the kernel module has as long as distributions' kernels do not know its own.
REPLACED = [
    ("rsiw.c", """\
 * The user-space provider of rsiw. It serves what has the driver_id of siw, so devices of the
 * kernel's siw as well. What siw's library cannot do is there only if the kernel grants it, for
 * each context.
""", """\
 * The user-space provider of rsiw, software iWARP. Rings and most commands are those of siw; what
 * rsiw has beside them the kernel grants for each context.
"""),
    ("rsiw.c", "siw, and an rsiw without the feature, do not read the request and answer 0.",
     "An rsiw without the feature does not read the request and answers 0."),
    ("rsiw.c", "ctx, base, RDMA_DRIVER_SIW)", "ctx, base, RDMA_DRIVER_RSIW)"),
    ("rsiw.c", "VERBS_DRIVER_ID(RDMA_DRIVER_SIW)", "VERBS_DRIVER_ID(RDMA_DRIVER_RSIW)"),
    ("verbs.c", "The kernel tells what siw's library can do.",
     "The kernel tells what contexts without the feature have."),
    ("rsiw.h", '\n#include "rsiw-abi.h"\n', ""),
    ("rsiw.h", "#include <rdma/siw-abi.h>\n", "#include <rdma/rsiw-abi.h>\n#include <rdma/siw-abi.h>\n"),
    ("rsiw-cmd.h", '\n#include "rsiw-abi.h"\n', ""),
    ("rsiw-cmd.h", "#include <rdma/siw-abi.h>\n", "#include <rdma/rsiw-abi.h>\n#include <rdma/siw-abi.h>\n"),
]
# Arguments that functions have in some versions: file, what stands for it, the function, the argument's type.
ARGUMENTS = [
    ("rsiw.c", "RSIW_GET_CONTEXT_FDS", "ibv_cmd_get_context", "struct ibv_fd_arr"),
    ("cq.c", "RSIW_CREATE_CQ_BUFFER", "ibv_cmd_create_cq_ex", "struct verbs_create_cq_prov_attr"),
    ("verbs.c", "RSIW_DMABUF_DRIVER", "ibv_cmd_reg_dmabuf_mr", "struct ibv_command_buffer"),
]
# Patch, file, line after which the lines come, the lines. {name} is the author's.
INSERTED = [
    (HEADERS, "kernel-headers/CMakeLists.txt", "  rdma/rdma_user_ioctl_cmds.h\n  rdma/rdma_user_rxe.h\n",
     "  rdma/rsiw-abi.h\n"),
    (HEADERS, "kernel-headers/CMakeLists.txt", "  rdma/qedr-abi.h\n  rdma/rdma_user_rxe.h\n", "  rdma/rsiw-abi.h\n"),
    (PROVIDER, "CMakeLists.txt", "add_subdirectory(providers/ipathverbs)\n", "add_subdirectory(providers/rsiw)\n"),
    (PROVIDER, "libibverbs/verbs.h", "extern const struct verbs_device_ops verbs_provider_qedr;\n",
     "extern const struct verbs_device_ops verbs_provider_rsiw;\n"),
    (MAN, "CMakeLists.txt", "add_subdirectory(providers/rsiw)\n", "add_subdirectory(providers/rsiw/man)\n"),
    (MAN, "debian/rdma-core.install", "usr/share/man/man5/iwpmd.conf.5\n", "usr/share/man/man7/rsiw.7\n"),
    (MAN, "redhat/rdma-core.spec", "%{_unitdir}/rdma-ndd.service\n", "%{_mandir}/man7/rsiw*\n"),
    (MAN, "suse/rdma-core.spec", "%doc %{_docdir}/%{name}-%{version}/tag_matching.md\n",
     "%{_mandir}/man7/rsiw*\n"),
    (LISTS, "README.md", " - rdma_rxe.ko\n", " - rsiw.ko\n"),
    (LISTS, "debian/control", "  - qedr: QLogic QL4xxx RoCE HCAs\n",
     "  - rsiw: A software implementation of iWARP, in Rust\n"),
    (LISTS, "debian/copyright", "Files: providers/qedr/*\nCopyright: 2015-2016, QLogic Corporation.\n"
     "License: BSD-MIT or GPL-2\n",
     "\nFiles: providers/rsiw/*\nCopyright: {year}, {name}\nLicense: BSD-MIT or GPL-2\n"),
    (LISTS, "redhat/rdma-core.spec", "- libqedr: QLogic QL4xxx RoCE HCA\n",
     "- librsiw: A software implementation of iWARP, in Rust\n"),
    (LISTS, "suse/rdma-core.spec", "- libqedr: QLogic QL4xxx RoCE HCA\n",
     "- librsiw: A software implementation of iWARP, in Rust\n"),
]


def headers(source, kernel):
    """The kernel's ABI, as kernel-headers/update would copy it from a kernel with rsiw. Of the kernel's header only the
    driver_ids: rdma-core may have it in an older state."""
    path = "kernel-headers/rdma/ib_user_ioctl_verbs.h"
    ids = ENUM.search(with_own_id((kernel / IDS).read_text()))[0]
    new = ENUM.sub(lambda _: ids, (source / path).read_text())
    return {path: new, "kernel-headers/rdma/rsiw-abi.h": (TOP / "provider/rsiw-abi.h").read_text()}


def provider(source):
    """providers/rsiw. Every source of provider/ is in it."""
    driver = (source / "libibverbs/driver.h").read_text()
    files, compiled = {}, []
    for path in tracked("provider/*.[ch]"):
        name = path.removeprefix("provider/")
        if "/" in name:
            fail(f"in no patch: {path}")
        if name == "rsiw-abi.h":
            continue
        text = (TOP / path).read_text()
        for where, old, new in REPLACED:
            if where == name:
                text = replaced(text, path, old, new)
        for where, macro, function, kind in ARGUMENTS:
            if where == name:
                has = f"{kind} " in re.search(rf"^int {function}\(.*?;", driver, re.M | re.S)[0]
                # The last argument, or one before others.
                if f" {macro})" in text:
                    text = replaced(text, path, f" {macro})", ", NULL)" if has else ")")
                else:
                    text = replaced(text, path, f" {macro}\n", " NULL,\n" if has else "\n")
        files[f"providers/rsiw/{name}"] = text
        if name.endswith(".c"):
            compiled.append(name)
    for path, text in files.items():
        if "RDMA_DRIVER_SIW" in text:
            fail(f"{path} has the driver_id of siw")
    lists = "providers/rsiw/CMakeLists.txt"
    files[lists] = replaced(text_of(HERE / "tree" / lists), lists, "  @SOURCES@\n",
                            "".join(f"  {name}\n" for name in sorted(compiled)))
    return files


def page(date, name, email):
    """The manual page. What it says of the package here is not so there."""
    sections = {}
    for section in re.split(r"^## ", (TOP / "Documentation/rsiw-provider.7.md").read_text(), flags=re.M)[1:]:
        title, body = section.split("\n", 1)
        sections[title] = body
    text = (HERE / "tree" / PAGE).read_text()
    for title in re.findall(r"^@([^@]+)@$", text, re.M):
        if title not in sections:
            fail(f"the manual page has no section {title!r}")
        text = text.replace(f"@{title}@\n", f"# {title.upper()}\n{sections[title]}\n".rstrip("\n") + "\n")
    text = text.replace("@@DATE@@", date).replace("@@AUTHOR@@", f"{name} <{email}>")
    lists = "providers/rsiw/man/CMakeLists.txt"
    return {PAGE: text, lists: text_of(HERE / "tree" / lists)}


def sparse(source):
    """The header that sparse has for atomics."""
    path = "buildlib/sparse-include/stdatomic.h"
    found = re.search(r"^#define atomic_exchange_explicit\(object, desired, order\).*?\}\)\n",
                      (text := (source / path).read_text()), re.M | re.S)[0]
    return {path: text.replace(found, replaced(found, path, "(operand)", "(desired)"))}


def tests(source):
    """test_mr.py: what a re-registration answers is told to the peer."""
    path = "tests/test_mr.py"
    text = (source / path).read_text()
    # Both ends re-register; or the server alone, before accesses that have to fail for want of the right.
    text, both = re.subn(r"^( +)self\.client\.rereg_mr\(.*\)\n", r"\g<0>\1self.sync_remote_attr()\n", text, flags=re.M)
    text, one = re.subn(r"^( +)self\.server\.rereg_mr\(.*\)\n(?= +with self\.assertRaisesRegex\(PyverbsRDMAError, "
                        r"'Remote access error'\))", r"\g<0>\1self.sync_remote_attr()\n", text, flags=re.M)
    if (both, one) != (3, 1):
        fail(f"{path} re-registers at {both} and {one} places")
    return {path: text}


def main(source, kernel, out, author, email, date):
    source, kernel = pathlib.Path(source), pathlib.Path(kernel)
    day = date[:10]
    own = {
        HEADERS: headers(source, kernel),
        SPARSE: sparse(source),
        PROVIDER: provider(source),
        MAN: page(day, author, email),
        LISTS: {"MAINTAINERS": maintained((source / "MAINTAINERS").read_text(), text_of(HERE / "maintainers").replace(
            "AUTHOR", f"{author} <{email}>"), "BNXT_RE")},
        TESTS: tests(source),
    }
    readme = (source / "README.md").read_text()
    readme = replaced(readme, "README.md", """\
the driver of your choice (`rdma_rxe` or `siw`) and `<TYPE>` with the type
corresponding to the driver (`rxe` or `siw`).
""", """\
the driver of your choice (`rdma_rxe`, `rsiw` or `siw`) and `<TYPE>` with the
type corresponding to the driver (`rxe`, `rsiw` or `siw`).
""")
    own[LISTS]["README.md"] = readme
    series = Series(out, author, email, date)
    shutil.copytree(source, series.tree, symlinks=True, dirs_exist_ok=True)
    series.begin("rdma-core")

    def more(number):
        for patch, path, after, lines in INSERTED:
            if patch == number:
                lines = lines.format(year=day[:4], name=author) if "{name}" in lines else lines
                series.put(path, inserted((series.tree / path).read_text(), path, after, lines))

    series.lay_out(HERE, own, more)


if __name__ == "__main__":
    main(*sys.argv[1:])
