#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How deep the classes that emit kernels inherit, and how many methods a line of the largest one can name.

``scripts/emitters.py`` prints both for each class of lib/Kernel, lib/Target/CPU and lib/Target/GPU, the largest first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHARED = "lib/Kernel"
TARGETS = ("lib/Target/CPU", "lib/Target/GPU")

CLASS = re.compile(r"\b(?:class|struct)\s+(\w+)(?:\s+final)?\s*(?::([^;{]*))?\{")
METHOD = re.compile(r"(~?\w+|operator\S+)\s*\(")


@dataclass
class Class:
    """A class as it is written.

    Attributes
    ----------
    bases : list of str
        Names of its bases, without namespaces and template arguments.
    methods : list of str
        Names of the methods that it declares, one for each overload; constructors are among them.
    """

    bases: list[str] = field(default_factory=list)
    methods: list[str] = field(default_factory=list)


def without_comments(text: str) -> str:
    """Return C++ without comments, literals and preprocessor lines."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r'"(?:\\.|[^"\\\n])*"' + r"|'(?:\\.|[^'\\\n])'", "0", text)
    return re.sub(r"^\s*#[^\n]*", "", text, flags=re.M)


def end_of(text: str, begin: int) -> int:
    """Return the index behind the bracket that closes the one at ``begin``."""
    depth = 0
    for index in range(begin, len(text)):
        depth += (text[index] in "({[") - (text[index] in ")}]")
        if depth == 0:
            return index + 1
    raise ValueError(f"nothing closes {text[begin : begin + 40]!r}")


def flattened(text: str, opening: str) -> str:
    """Return a text with what stands in outermost brackets that begin with ``opening`` left out."""
    result, index = "", 0
    while index < len(text):
        result += text[index]
        index = end_of(text, index) if text[index] == opening else index + 1
        if result.endswith(opening):
            result += {"{": "};", "(": ")"}[opening]
    return result


def without_templates(text: str) -> str:
    """Return a text without template arguments."""
    previous = None
    while previous != text:
        previous, text = text, re.sub(r"<[^<>;{}]*>", "", text)
    return text


def methods_of(body: str) -> list[str]:
    """Return the names of the methods that stand in the body of a class."""
    found = []
    for statement in flattened(flattened(body, "("), "{").split(";"):
        words = without_templates(re.sub(r"\b(?:public|protected|private)\s*:", "", statement)).split("=")[0].strip()
        if re.match(r"using\b|friend\b|static_assert\b|enum\b|class\b|struct\b|union\b", words):
            continue
        if match := METHOD.search(words):
            found.append(match.group(1))
    return found


def classes_of(folder: str) -> dict[str, Class]:
    """Return the classes that the files of a folder define, by name."""
    found: dict[str, Class] = {}
    for path in sorted((ROOT / folder).iterdir()):
        if path.suffix not in {".h", ".cpp"}:
            continue
        text = without_comments(path.read_text())
        for match in CLASS.finditer(text):
            begin = match.end() - 1
            bases = [
                base.split()[-1].split("::")[-1]
                for base in without_templates(match.group(2) or "").split(",")
                if base.strip()
            ]
            # A template that derives from its argument has what that one has.
            bases += [base for base in re.findall(r"<(\w+)>", match.group(2) or "") if base != match.group(1)]
            found[match.group(1)] = Class(bases, methods_of(text[begin + 1 : end_of(text, begin) - 1]))
    return found


def depth_of(name: str, classes: dict[str, Class]) -> int:
    """Return how many classes stand one on the other, from a class down to the last of its bases."""
    return 1 + max((depth_of(base, classes) for base in classes[name].bases if base in classes), default=0)


def reachable(name: str, classes: dict[str, Class]) -> int:
    """Return how many methods a line of a class can name without saying whose they are."""
    return len(classes[name].methods) + sum(reachable(base, classes) for base in classes[name].bases if base in classes)


def measure(target: str) -> list[tuple[str, int, int]]:
    """Return name, depth and reachable methods of the classes that a target's kernels are emitted by."""
    classes = classes_of(SHARED) | classes_of(target)
    return [(name, depth_of(name, classes), reachable(name, classes)) for name in classes]


if __name__ == "__main__":
    for target in TARGETS:
        print(target)
        for name, depth, methods in sorted(measure(target), key=lambda row: (-row[1], -row[2]))[:12]:
            print(f"  {name:32} depth {depth}, {methods} methods")
