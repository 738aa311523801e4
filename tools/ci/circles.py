# SPDX-License-Identifier: GPL-2.0
"""Which files of a crate import each other in a circle.

A file imports another if it names an item of that: in a `use`, or in a path. A re-export is the item's own
file, whoever exports it. Methods need no name. Documentation and tests in a file count for nothing.
"""

import os
import re

WORD = r"[A-Za-z_]\w*"
PATH = re.compile(rf"(?<![\w:.$])({WORD}(?:::{WORD})+)")
USE = re.compile(r"((?:\bpub\b(?:\([^)]*\))?\s+)?)\buse\s+([^;]+);")
ITEM = re.compile(rf"(?<!')\b(?:fn|struct|enum|trait|type|const|static|union|mod|macro_rules!)\s+({WORD})")


def body_end(text, begin):
    """The end of the braces that open before `begin`."""
    depth = 1
    for found in re.finditer(r"[{}]", text[begin:]):
        depth += 1 if found[0] == "{" else -1
        if depth == 0:
            return begin + found.end()
    return len(text)


def code(text):
    """A file without comments, strings and tests; what is in a module within it counts as its own."""
    text = re.sub(r"""//.*|'(?:\\.|[^'\\])'|"(?:\\.|[^"\\])*\"""", "", text)
    text = re.sub(r"#\[cfg\(doc\)\]\s*use\b[^;]*;", "", text)
    while found := re.search(rf"\bmod\s+({WORD})\s*\{{", text):
        end = body_end(text, found.end())
        inner = "" if found[1] == "tests" else text[found.end():end - 1].replace("super::", "self::")
        text = f"{text[:found.start()]} mod {found[1]}; {inner}{text[end:]}"
    return re.sub(r"\bpub\s*\(in [^)]*\)", "pub(in)", text)


def leaves(tree, above=()):
    """The paths of a use: (path, name)."""
    tree = tree.strip()
    brace = tree.find("{")
    if brace < 0:
        path, _, name = tree.partition(" as ")
        path = above + tuple(path.strip().strip(":").split("::"))
        if path[-1] == "self":
            path = path[:-1]
        yield path, name.strip() or path[-1]
        return
    above += tuple(part for part in tree[:brace].strip().split("::") if part)
    depth, part = 0, ""
    for char in tree[brace + 1:tree.rindex("}")]:
        depth += (char == "{") - (char == "}")
        if char == "," and depth == 0:
            if part.strip():
                yield from leaves(part, above)
            part = ""
        else:
            part += char
    if part.strip():
        yield from leaves(part, above)


class File:
    """What a file imports and defines."""

    def __init__(self, path, module, text):
        self.path, self.module = path, module
        text = code(text)
        self.private, self.exported, self.globs, self.names = [], [], [], {}
        for found in USE.finditer(text):
            for path, name in leaves(found[2]):
                if name == "*":
                    self.globs.append(path[:-1])
                    continue
                self.names[name] = path
                (self.exported if found[1] else self.private).append((path, name))
        self.code = USE.sub("", text)
        self.items = set(ITEM.findall(self.code))


class Crate:
    """The files of a crate."""

    def __init__(self, sources):
        """`sources`: path -> text. The root is the folder of main.rs or lib.rs."""
        [root] = {os.path.dirname(path) for path in sources
                  if os.path.basename(path) in ("main.rs", "lib.rs")}
        self.files = {}
        for path, text in sources.items():
            name = os.path.relpath(path, root).removesuffix(".rs")
            parts = () if name in ("main", "lib") else tuple(name.removesuffix("/mod").split(os.sep))
            self.files[parts] = File(path, parts, text)

    def resolve(self, module, path, seen=()):
        """The file with the item that `path` names in a module; None if it is no item of this crate."""
        if (module, path) in seen:
            return None
        seen += ((module, path),)
        here, path = module, list(path)
        if path[0] not in ("crate", "self", "super") and not (
                here + (path[0],) in self.files or path[0] in self.files[here].names):
            return None
        while path and path[0] in ("crate", "self", "super"):
            here = {"crate": (), "self": here, "super": here[:-1]}[path.pop(0)]
        while path:
            if here + (path[0],) in self.files:
                here += (path.pop(0),)
                continue
            file = self.files[here]
            if path[0] in file.names and path[0] not in file.items:
                return self.resolve(here, file.names[path[0]] + tuple(path[1:]), seen)
            if path[0] not in file.items:
                for glob in file.globs:
                    found = self.resolve(here, glob + tuple(path), seen)
                    if found and path[0] in found.items:
                        return found
                if not here:
                    # A macro has made it, as `module!` does.
                    return None
            return file
        # A module alone is nobody's item.
        return None

    def imports(self, module):
        """The files whose items a file names."""
        file = self.files[module]
        paths = [path for path, _ in file.private]
        paths += [path for path, name in file.exported if re.search(rf"\b{name}\b", file.code)]
        paths += [tuple(found.split("::")) for found in PATH.findall(file.code)]
        paths += [path + ("*",) for path in file.globs]
        found = {self.resolve(module, path) for path in paths}
        return {other.module for other in found if other} - {module}

    def circles(self, most):
        """Sets of more than `most` files of which each leads to each other, the largest first."""
        graph = {module: self.imports(module) for module in self.files}
        reach = {}
        for module in graph:
            reached, todo = set(), [module]
            while todo:
                for other in graph[todo.pop()] - reached:
                    reached.add(other)
                    todo.append(other)
            reach[module] = reached
        found = {frozenset(other for other in reach[module] if module in reach[other])
                 for module in graph}
        found = [sorted(self.files[module].path for module in one) for one in found if len(one) > most]
        return sorted(found, key=lambda one: (-len(one), one))
