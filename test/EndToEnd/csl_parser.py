# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A strict parser of the part of CSL that intarsia-wafer writes.

Written from Cerebras' public documentation. Whatever it does not know is an error: tokens, types, builtins, names that
are not declared.
"""

from __future__ import annotations

import re

TOKENS = re.compile(
    r"(?P<space>\s+|//[^\n]*)|(?P<number>\d+\.\d+(?:[eE][+-]?\d+)?|\d+)|(?P<string>\"[^\"]*\")|(?P<name>@?[A-Za-z_]\w*)"
    r"|(?P<symbol>->|==|!=|<=|>=|\+=|-=|\[\*\]|[-+*/%<>=(){}\[\].,:;|&])"
)
SCALARS = {"f16", "f32", "i16", "i32", "bool", "void"}
TYPES = SCALARS | {"color", "input_queue", "output_queue", "local_task_id", "comptime_struct"}
# Builtins with how many arguments they have.
BUILTINS = {
    **{"@fmovs": (2, 3), "@fmovh": (2, 3), "@fs2h": (2, 3), "@fh2s": (2, 3)},
    **dict.fromkeys(["@fadds", "@faddh", "@fmuls", "@fmulh", "@fmaxs", "@fmaxh"], (3, 4)),
    **dict.fromkeys(["@fmacs", "@fmach", "@fmachs"], (4, 4)),
    **{"@get_color": (1, 1), "@get_input_queue": (1, 1), "@get_output_queue": (1, 1), "@get_local_task_id": (1, 1)},
    **{"@get_dsd": (2, 2), "@set_dsd_base_addr": (2, 2), "@increment_dsd_offset": (3, 3)},
    **{"@zeros": (1, 1), "@as": (2, 2), "@range": (2, 2), "@activate": (1, 1), "@bind_local_task": (2, 2)},
    **{"@import_module": (1, 2), "@export_symbol": (1, 2), "@export_name": (2, 3), "@is_arch": (1, 1)},
    **{"@initialize_queue": (2, 2), "@set_rectangle": (2, 2), "@set_tile_code": (4, 4), "@set_color_config": (4, 4)},
}
WORDS = {"mem1d_dsd", "fabin_dsd", "fabout_dsd", "RAMP", "EAST", "WEST", "NORTH", "SOUTH", "true", "false"}
Node = tuple


class CslError(Exception):
    """A source that is not CSL, or does what a core cannot do."""


class Parser:
    """Turn a source into declarations."""

    def __init__(self, text: str, name: str) -> None:
        self.tokens, position = [], 0
        self.name = name
        while position < len(text):
            found = TOKENS.match(text, position)
            if not found:
                raise CslError(f"{name}: unknown token at {text[position : position + 20]!r}")
            if found.lastgroup != "space":
                self.tokens.append((found.lastgroup, found.group()))
            position = found.end()
        self.tokens.append(("end", ""))
        self.at = 0
        self.scopes: list[set[str]] = [set(WORDS) | TYPES]
        self.used_late: list[str] = []  # names in functions, which may be declared further down

    def peek(self, *texts: str) -> bool:
        return self.tokens[self.at][1] in texts

    def take(self, text: str | None = None, kind: str | None = None) -> str:
        got = self.tokens[self.at]
        if (text is not None and got[1] != text) or (kind is not None and got[0] != kind):
            around = " ".join(token[1] for token in self.tokens[max(self.at - 8, 0) : self.at + 4])
            raise CslError(f"{self.name}: {text or kind} is expected, not {got[1]!r}, in: {around}")
        self.at += 1
        return got[1]

    def accept(self, text: str) -> bool:
        if self.peek(text):
            self.at += 1
            return True
        return False

    def declare(self, name: str) -> str:
        if any(name in scope for scope in self.scopes):
            raise CslError(f"{self.name}: {name} is declared twice")
        self.scopes[-1].add(name)
        return name

    def file(self) -> list[Node]:
        """Return all declarations of a file; names that are used are declared in it."""
        items = []
        while not self.peek(""):
            items.append(self.declaration())
        for name in self.used_late:
            if name not in self.scopes[0]:
                raise CslError(f"{self.name}: {name} is not declared")
        return items

    def declaration(self) -> Node:
        word = self.take(kind="name")
        if word in ("const", "var", "param"):
            return self.variable(word)
        if word in ("fn", "task"):
            name = self.declare(self.take(kind="name"))
            self.scopes.append(set())
            self.take("(")
            parameters = []
            while not self.accept(")"):
                parameters.append(self.declare(self.take(kind="name")))
                self.take(":")
                self.type()
                if not self.peek(")"):
                    self.take(",")
            self.type()
            body = self.block()
            self.scopes.pop()
            return (word, name, parameters, body)
        if word in ("comptime", "layout"):
            return (word, self.block())
        raise CslError(f"{self.name}: {word} begins no declaration")

    def variable(self, word: str) -> Node:
        name = self.take(kind="name")
        of = self.type() if self.accept(":") else None
        value = None
        if word != "param":
            self.take("=")
            value = self.expression()
        self.take(";")
        self.declare(name)
        return (word, name, of, value)

    def type(self) -> str:
        if self.accept("[*]"):
            return "[*]" + self.scalar()
        if self.accept("["):
            count = self.take(kind="number")
            self.take("]")
            return f"[{count}]{self.scalar()}"
        if self.accept("fn"):
            self.take("(")
            self.take(")")
            return "fn()" + self.type()
        name = self.take(kind="name")
        if name not in TYPES:
            raise CslError(f"{self.name}: {name} is no type")
        return name

    def scalar(self) -> str:
        name = self.type()
        if name not in SCALARS:
            raise CslError(f"{self.name}: elements are {name}")
        return name

    def block(self) -> list[Node]:
        self.take("{")
        self.scopes.append(set())
        statements = []
        while not self.accept("}"):
            statements.append(self.statement())
        self.scopes.pop()
        return statements

    def statement(self) -> Node:
        if self.peek("const", "var"):
            return self.variable(self.take())
        if self.peek("{"):
            return ("block", self.block())
        if self.accept("if"):
            self.take("(")
            condition = self.expression()
            self.take(")")
            then, other = self.block(), []
            if self.accept("else"):
                other = [self.statement()] if self.peek("if") else self.block()
            return ("if", condition, then, other)
        if self.accept("for"):
            self.take("(")
            over = self.expression()
            self.take(")")
            self.take("|")
            self.scopes.append(set())
            name = self.declare(self.take(kind="name"))
            self.take("|")
            body = self.block()
            self.scopes.pop()
            return ("for", over, name, body)
        if self.accept("return"):
            value = self.expression()
            self.take(";")
            return ("return", value)
        target = self.expression()
        for sign in ("=", "+=", "-="):
            if self.accept(sign):
                if target[0] not in ("name", "index"):
                    raise CslError(f"{self.name}: {target} cannot be assigned to")
                value = self.expression()
                self.take(";")
                return ("assign", sign, target, value)
        self.take(";")
        if target[0] != "call":
            raise CslError(f"{self.name}: {target} does nothing")
        return ("do", target)

    LEVELS = (("or",), ("and",), ("==", "!=", "<=", ">=", "<", ">"), ("+", "-"), ("*", "/", "%"))

    def expression(self, level: int = 0) -> Node:
        if level == len(self.LEVELS):
            return self.unary()
        left = self.expression(level + 1)
        while self.peek(*self.LEVELS[level]):
            sign = self.take()
            left = ("binary", sign, left, self.expression(level + 1))
        return left

    def unary(self) -> Node:
        if self.accept("-"):
            return ("negative", self.unary())
        if self.accept("&"):
            return ("address", self.postfix())
        return self.postfix()

    def postfix(self) -> Node:
        value = self.primary()
        while True:
            if self.accept("["):
                value = ("index", value, self.expression())
                self.take("]")
            elif self.peek(".") and self.tokens[self.at + 1][0] == "name":
                self.take(".")
                value = ("member", value, self.take(kind="name"))
            elif self.peek("("):
                value = ("call", value, self.arguments())
            else:
                return value

    def arguments(self) -> list[Node]:
        self.take("(")
        values = []
        while not self.accept(")"):
            values.append(self.expression())
            if not self.peek(")"):
                self.take(",")
        return values

    def primary(self) -> Node:
        kind, text = self.tokens[self.at]
        if self.accept("("):
            value = self.expression()
            self.take(")")
            return value
        if self.accept("."):
            return self.structure()
        if self.accept("|"):  # |i|{extent} -> array[i]
            self.scopes.append(set())
            name = self.declare(self.take(kind="name"))
            self.take("|")
            self.take("{")
            extent = self.expression()
            self.take("}")
            self.take("->")
            of = self.expression()
            self.scopes.pop()
            return ("access", name, extent, of)
        if text in ("[", "[*]", "fn"):
            of = self.type()
            if not self.accept("{"):
                return ("type", of)
            values = []
            while not self.accept("}"):
                values.append(self.expression())
                if not self.peek("}"):
                    self.take(",")
            return ("array", of, values)
        self.at += 1
        if kind == "number":
            return ("value", float(text) if "." in text else int(text))
        if kind == "string":
            return ("value", text[1:-1])
        if kind != "name":
            raise CslError(f"{self.name}: {text!r} begins no value")
        if text in SCALARS:
            return ("type", text)
        if text.startswith("@"):
            if text not in BUILTINS:
                raise CslError(f"{self.name}: {text} is no builtin")
            values, (least, most) = self.arguments(), BUILTINS[text]
            if not least <= len(values) <= most:
                raise CslError(f"{self.name}: {text} has {len(values)} arguments")
            return ("call", ("builtin", text), values)
        if not any(text in scope for scope in self.scopes):
            if len(self.scopes) == 1:
                raise CslError(f"{self.name}: {text} is not declared")
            self.used_late.append(text)
        return ("name", text)

    def structure(self) -> Node:
        self.take("{")
        fields, values = {}, []
        while not self.accept("}"):
            if self.accept("."):
                name = self.take(kind="name")
                self.take("=")
                fields[name] = self.expression()
            else:
                values.append(self.expression())
            if not self.peek("}"):
                self.take(",")
        return ("struct", fields, values)
