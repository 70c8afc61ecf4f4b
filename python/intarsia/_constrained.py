# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Keep text within a JSON schema, a regular expression or a grammar; llguidance computes the allowed tokens."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ._errors import InvalidArgumentError, NotFoundError

#: White space between the parts of a JSON text: none, a space, or an indented new line. Without a bound a model could
#: write spaces until its tokens are used up. A schema can change this in "x-guidance".
_JSON_WHITE_SPACE = r" ?|\n {0,16}"


class Constraint:
    """The state of a text in its grammar.

    Parameters
    ----------
    matcher : llguidance.LLMatcher
        The grammar and the state in it.
    ends : frozenset of int
        Tokens that end a text.
    """

    def __init__(self, matcher: Any, ends: frozenset[int]) -> None:
        self._matcher = matcher
        self.ends = ends

    def copy(self) -> Constraint:
        """Return an independent copy of the state."""
        return Constraint(self._matcher.deep_copy(), self.ends)

    def restrict(self, logits: np.ndarray) -> np.ndarray:
        """Return logits [vocabulary] with -∞ for tokens that may not come next."""
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        allowed = np.unpackbits(bits, count=logits.size, bitorder="little").astype(bool)
        if self._matcher.is_error() or not allowed.any():
            raise _error(f"the grammar cannot go on: {self._matcher.get_error()}")
        return np.where(allowed, logits, -np.inf)

    def accept(self, token: int) -> bool:
        """Advance by a token; return True if the text is complete: only an end may follow."""
        if token in self.ends:
            return True
        if not self._matcher.consume_token(token):
            raise _error(f"the grammar does not allow token {token}: {self._matcher.get_error()}")
        return self._matcher.is_stopped()


class Grammars:
    """Makes constraints for one tokenizer.

    Parameters
    ----------
    tokenizer : tokenizers.Tokenizer
        The tokenizer of the model.
    vocabulary : int
        Number of logits; it may exceed the tokenizer's tokens, or be less if tokens were added to the tokenizer.
    ends : collection of int
        Tokens that end a text; if empty, the tokenizer's own end token.
    """

    def __init__(self, tokenizer: Any, vocabulary: int, ends: Sequence[int]) -> None:
        try:
            import llguidance
        except ImportError as error:
            raise NotFoundError(
                "json_schema, regex and grammar need llguidance, which is not installed: "
                "pip install 'intarsia[constrained]'",
                "not found",
            ) from error
        self._matcher = llguidance.LLMatcher
        count = max(vocabulary, tokenizer.get_vocab_size())
        try:
            self._tokens = llguidance.LLTokenizer(tokenizer.to_str(), n_vocab=count, eos_token=sorted(ends) or None)
        except ValueError as error:
            raise _error(f"llguidance cannot read the tokenizer: {error}") from error
        self._ends = frozenset(self._tokens.eos_tokens)

    def constraint(
        self, json_schema: str | Mapping[str, Any] | None, regex: str | None, grammar: str | None
    ) -> Constraint:
        """Return the initial state for the one description that is given of the three."""
        given = {"json_schema": json_schema, "regex": regex, "grammar": grammar}
        names = [name for name, value in given.items() if value is not None]
        if len(names) != 1:
            raise _error(f"{' and '.join(names)} are given, a text follows one of them")
        if json_schema is not None:
            try:
                text = json_schema if isinstance(json_schema, str) else json.dumps(json_schema)
                rules = self._matcher.grammar_from_json_schema(text, {"whitespace_pattern": _JSON_WHITE_SPACE})
            except (TypeError, ValueError, RecursionError) as error:
                raise _error(f"json_schema: {error}") from error
        elif regex is not None:
            rules = self._matcher.grammar_from_regex(regex)
        else:
            rules = self._matcher.grammar_from_lark(grammar)
        refused, messages = self._matcher.validate_grammar_with_warnings(rules, self._tokens)
        if refused:
            raise _error(f"{names[0]}: {messages[0].strip()}")
        return Constraint(self._matcher(self._tokens, rules), self._ends)


def _error(message: str) -> InvalidArgumentError:
    return InvalidArgumentError(message, "invalid argument")
