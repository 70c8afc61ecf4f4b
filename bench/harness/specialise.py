# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fixes the sizes of an imported text encoder, to measure the cost of sizes that are known only at the call.

Works on the text that `intarsia-compile --stop-after=import` writes: a straight line of ops with explicit types. A type
with two unknown dimensions is [batch, …, sequence, …]; a single unknown dimension is identified by the sizes and
operands that the op names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

ORDER = ("batch", "sequence")
TYPE = re.compile(r"tensor<([^<>]*\?[^<>]*)>")
TENSOR = re.compile(r"tensor<[^<>]*>")
DIM = re.compile(r"^\s*(%[\w]+) = tensor\.dim (%\w+), (%\w+)")
ARGUMENT = re.compile(r"(%\w+): tensor<[^<>]*>(?: loc\([^)]*\))? \{[^}]*?nn\.sizes = \[([^\]]*)\]")
CONSTANT = re.compile(r"^\s*(%\w+) = arith\.constant (\d+) : index")
VALUE = re.compile(r"%\w+")


def specialise(text: str, sizes: Mapping[str, int]) -> str:
    """Returns the module with batch and sequence fixed.

    Raises
    ------
    ValueError
        An op has an unknown dimension that cannot be identified.
    """
    lines = []
    function = _Function(sizes)
    for line in text.splitlines():
        if "func.func" in line:
            function = _Function(sizes)
            function.declare(line)
        rewritten = function.rewrite(line)
        if rewritten is not None:
            lines.append(rewritten)
    return "\n".join(lines) + "\n"


class _Function:
    """The known sizes of values in the current function."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = sizes
        self.arguments: dict[str, list[str]] = {}
        self.constants: dict[str, int] = {}
        self.dims: dict[str, str] = {}  # the size of a value of type index
        self.single: dict[str, str] = {}  # the size of the one unknown dimension of a tensor
        self.current = ""  # the same for the op that owns the current region

    def declare(self, line: str) -> None:
        for name, names in ARGUMENT.findall(line):
            self.arguments[name] = [entry.strip().strip('"') for entry in names.split(",")]
            unknown = [entry for entry in self.arguments[name] if entry]
            if len(unknown) == 1:
                self.single[name] = unknown[0]

    def rewrite(self, line: str) -> str | None:
        if found := CONSTANT.match(line):
            self.constants[found[1]] = int(found[2])
        if (found := DIM.match(line)) and found[2] in self.arguments:
            self.dims[found[1]] = self.arguments[found[2]][self.constants[found[3]]]
            return None
        if "func.func" in line:
            return self._rewrite_signature(line)
        if not line.strip().startswith("}"):
            self.current = self._single_of(line) or self.current
        line = TYPE.sub(lambda match: f"tensor<{self._fix(match[1], self.current, line)}>", line)
        return self._replace_dims(line)

    def _rewrite_signature(self, line: str) -> str:
        """Reads the sizes of arguments and results, in `nn.sizes` behind the type."""

        def fix(match: re.Match[str]) -> str:
            shape, between, names = match[1], match[2], match[3]
            unknown = iter(entry.strip().strip('"') for entry in names.split(",") if entry.strip() != '""')
            fixed = re.sub(r"\?", lambda _: str(self.sizes[next(unknown)]), shape)
            empty = ", ".join('""' for _ in names.split(","))
            return f"tensor<{fixed}>{between}nn.sizes = [{empty}]"

        line = re.sub(r"tensor<([^<>]*)>((?: loc\([^)]*\))? \{[^}]*?)nn\.sizes = \[([^\]]*)\]", fix, line)
        return re.sub(r"(, )?nn\.size_limits = \{[^}]*\}(?(1)|(, )?)", "", line)

    def _single_of(self, line: str) -> str:
        """Returns the size of the single unknown dimension in this op; "" if there is none."""
        if not any(shape.count("?") == 1 for shape in TYPE.findall(line)):
            return ""
        result, equals, rest = line.partition(" = ")
        values = VALUE.findall(rest if equals else line)
        known = {self.single[value] for value in values if value in self.single}
        known |= {self.dims[value] for value in values if value in self.dims} if not known else set()
        if len(known) != 1:
            raise ValueError(f"which size is the unknown dimension of: {line.strip()}")
        size = known.pop()
        # The last type in a line is that of the result, or of the operand that the result is written to.
        if equals and TENSOR.findall(line)[-1].count("?") == 1:
            self.single[result.strip()] = size
        return size

    def _fix(self, shape: str, single: str, line: str) -> str:
        count = shape.count("?")
        if count > 2:
            raise ValueError(f"more than two unknown dimensions: {line.strip()}")
        names = iter(ORDER if count == 2 else (single,))
        return re.sub(r"\?", lambda _: str(self.sizes[next(names)]), shape)

    def _replace_dims(self, line: str) -> str:
        """Removes the operands of tensor.empty, and replaces sizes in lists by constants."""
        if "tensor.empty(" in line:
            return re.sub(r"tensor\.empty\([^)]*\)", "tensor.empty()", line)
        return VALUE.sub(lambda match: self._number(match[0]), line)

    def _number(self, value: str) -> str:
        return str(self.sizes[self.dims[value]]) if value in self.dims else value
