# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Write grammars in llguidance's dialect of Lark: free text, markers of a model, and schemas within them."""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from ..generation.constrained import JSON_WHITE_SPACE

if TYPE_CHECKING:
    from ..generation.constrained import Constraint, Grammars

#: Grammars that are kept compiled: clients send the same tools with each request.
_MOST_KEPT = 64
#: Letters of kept grammars in all.
_MOST_KEPT_LETTERS = 8 * 1024 * 1024

ANY_TEXT = "(?s:.*)"


class FormCompiler:
    """Compiles grammars for one model, and keeps those that were used last.

    Parameters
    ----------
    grammars : Grammars
        Makes the constraints.
    tokenizer : tokenizers.Tokenizer
        The model's tokenizer.
    vocabulary : int
        Number of logits.
    """

    def __init__(self, grammars: Grammars, tokenizer: Any, vocabulary: int) -> None:
        self._grammars = grammars
        self._kept: OrderedDict[str, Constraint] = OrderedDict()
        self._letters = 0
        self._lock = Lock()
        tokens = tokenizer.get_added_tokens_decoder()
        #: The texts of special tokens, which are not shown unless a reader needs them.
        self.hidden = [token.content for token in tokens.values() if token.special]
        added = {token.content: number for number, token in tokens.items()}
        free = grammars.compile("text", f"start: /{ANY_TEXT}/").allowed(vocabulary)
        #: Tokens that no text consists of: markers by their content.
        self.special = {
            content: number for content, number in added.items() if number < vocabulary and not np.take(free, number)
        }

    def compile(self, name: str, rules: str) -> Constraint:
        """Return the initial state for rules; `name` is what messages call them."""
        with self._lock:
            kept = self._kept.get(rules)
            if kept is not None:
                self._kept.move_to_end(rules)
                return kept.copy()
        made = self._grammars.compile(name, rules)
        with self._lock:
            if rules not in self._kept and len(rules) <= _MOST_KEPT_LETTERS:
                self._kept[rules] = made.copy()
                self._letters += len(rules)
                while len(self._kept) > _MOST_KEPT or self._letters > _MOST_KEPT_LETTERS:
                    self._letters -= len(self._kept.popitem(last=False)[0])
        return made


class Grammar:
    """A grammar that is being written; its methods return expressions, which are joined by spaces and ``|``.

    Parameters
    ----------
    special : mapping of str to int
        Markers that are tokens; other markers are spelled by letters.
    """

    def __init__(self, special: dict[str, int]) -> None:
        self._special = special
        self._rules: dict[str, str] = {}
        self._others: list[dict[str, Any]] = []

    def literal(self, text: str) -> str:
        """Return an expression for a text."""
        return json.dumps(text, ensure_ascii=False) if text else '""'

    def regex(self, pattern: str) -> str:
        """Return an expression for what follows a pattern, as one lexeme."""
        return self._named("T", f"/{slashed(pattern)}/", upper=True)

    def rule(self, body: str) -> str:
        """Return the name of a rule."""
        return self._named("r", body)

    def reserve(self) -> str:
        """Return the name of a rule whose body follows with `fill`."""
        name = f"r{len(self._rules)}"
        self._rules[f"reserved {name}"] = f"{name}: "
        return name

    def fill(self, name: str, body: str) -> None:
        """Give a reserved rule its body."""
        self._rules[f"reserved {name}"] = f"{name}: {body}"

    def marker(self, text: str) -> str:
        """Return an expression for a marker: its token, where there is one."""
        return f"<[{self._special[text]}]>" if text in self._special else self.literal(text)

    def is_token(self, marker: str) -> bool:
        """Return True if a marker is one token, which no text has."""
        return marker in self._special

    def text(self, *without: str) -> str:
        """Return an expression for any text in which some markers are not spelled."""
        if not without:
            return self.regex(ANY_TEXT)
        spelled = "|".join(map(escaped, without))
        return self._named("T", f"/{ANY_TEXT}/ & ~/{slashed(f'{ANY_TEXT}({spelled}){ANY_TEXT}')}/", upper=True)

    def until(self, marker: str) -> str:
        """Return an expression for any text and the marker at its end."""
        if self.is_token(marker):
            return f"{self.text(marker)} {self.marker(marker)}"
        # A lazy lexeme ends at the first occurrence.
        return self._named("r", f"/{slashed(ANY_TEXT + escaped(marker))}/", lazy=True)

    def json(self, schema: dict[str, Any]) -> str:
        """Return an expression for JSON that is valid by a prepared schema."""
        guidance = schema.get("x-guidance")
        guidance = {"whitespace_pattern": JSON_WHITE_SPACE, **(guidance if isinstance(guidance, dict) else {})}
        return self._other({"json_schema": {**schema, "x-guidance": guidance}})

    def lark(self, text: str) -> str:
        """Return an expression for what another grammar allows."""
        return self._other({"lark_grammar": text})

    def finish(self, start: str) -> str:
        """Return the rules for llguidance, in which `start` is the whole text."""
        lines = [f"start: {start}", *self._rules.values()]
        return json.dumps({"grammars": [{"lark_grammar": "\n".join(lines)}, *self._others]})

    def _other(self, grammar: dict[str, Any]) -> str:
        for known in self._others:
            if all(known.get(key) == value for key, value in grammar.items()):
                return f"@{known['name']}"
        self._others.append({"name": f"g{len(self._others)}", **grammar})
        return f"@{self._others[-1]['name']}"

    def _named(self, letter: str, body: str, *, upper: bool = False, lazy: bool = False) -> str:
        key = f"{letter}{lazy}{body}"
        if key not in self._rules:
            name = f"{letter}{len(self._rules)}" if not upper else f"{letter.upper()}{len(self._rules)}"
            self._rules[key] = f"{name}{'[lazy]' if lazy else ''}: {body}"
        return self._rules[key].partition(":")[0].removesuffix("[lazy]")


def escaped(text: str) -> str:
    r"""Return a pattern for a text, as Rust's regex has it: there ``\<`` is the beginning of a word."""
    return re.sub(r"[\\.+*?()|\[\]{}^$#&~\-]", r"\\\g<0>", text).replace("\n", "\\n")


def slashed(pattern: str) -> str:
    """Return a pattern for use between slashes."""
    pattern = re.sub(r"\\.|/", lambda found: "\\/" if found[0] == "/" else found[0], pattern, flags=re.DOTALL)
    return pattern.replace("\n", "\\n").replace("\r", "\\r")


def alternatives(expressions: Sequence[str]) -> str:
    """Return an expression for one of several."""
    return expressions[0] if len(expressions) == 1 else f"({' | '.join(expressions)})"
