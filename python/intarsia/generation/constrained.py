# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Keep text within a JSON schema, a regular expression or a grammar; llguidance computes the allowed tokens."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

import numpy as np

from ..support.errors import Error, InvalidArgumentError, NotFoundError
from .json_schema import PreparedSchema, prepare

#: White space between the parts of a JSON text: none, a space, or an indented new line. Without a bound a model could
#: write spaces until its tokens are used up. A schema can change this in "x-guidance".
JSON_WHITE_SPACE = r" ?|\n {0,16}"

#: Steps of llguidance when it prepares a lexer. With its default of 1,000,000 the first mask of (a{1000}){1000} takes
#: 1.3 s and the next one fails; with this it takes 0.25 s. An enum of 20,000 values needs 200,000.
_LEXER_FUEL = 300_000
#: The longest regular expression and grammar, in letters: what llguidance needs grows with them.
_MOST_LETTERS = 64 * 1024
#: The longest JSON schema in letters; `prepare` limits what compiling it takes.
_MOST_SCHEMA_LETTERS = 4 * 1024 * 1024
#: The stack on which grammars are compiled. llguidance follows rules by recursion, 4 KB for each, without a check:
#: 3,000 rules that refer to one another would end the process on a stack of 8 MB. A limit of memory may leave no room
#: for the first size.
_STACK_BYTES = (512 * 1024 * 1024, 64 * 1024 * 1024)
#: Masks that are computed before a form is accepted, each after a token that the one before allows. Grammars that are
#: too ambiguous fail at the first choice, which is often behind a bracket or a key.
_TRIED_MASKS = 4
#: Letters of llguidance's messages that are shown: some hold the whole grammar.
_MOST_MESSAGE = 400

_Result = TypeVar("_Result")
_stack_size_lock = threading.Lock()


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
        allowed = self.allowed(logits.size)
        if self._matcher.is_error() or not allowed.any():
            raise _error(f"the grammar cannot go on: {_shown(self._matcher.get_error())}")
        return np.where(allowed, logits, -np.inf)

    def allowed(self, vocabulary: int) -> np.ndarray:
        """Return which tokens may come next, as bool [vocabulary]."""
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        return np.unpackbits(bits, count=vocabulary, bitorder="little").astype(bool)

    @property
    def is_complete(self) -> bool:
        """True if only an end may follow."""
        return bool(self._matcher.is_stopped())

    def fill(self, bits: np.ndarray) -> None:
        """Set the bits of tokens that may come next: bit token % 32 of word token / 32.

        Raises
        ------
        InvalidArgumentError
            No token may come next.
        """
        mask = np.frombuffer(self._matcher.compute_bitmask(), np.uint32)[: bits.size]
        if self._matcher.is_error() or not mask.any():
            raise _error(f"the grammar cannot go on: {_shown(self._matcher.get_error())}")
        bits[: mask.size] = mask

    def check_beginning(self, vocabulary: int) -> str:
        """Return why the first tokens cannot be chosen, on a state that is used for nothing else; "" if they can."""
        for number in range(_TRIED_MASKS):
            tokens = np.flatnonzero(self.allowed(vocabulary))
            if self._matcher.is_error():
                return _shown(self._matcher.get_error())
            if tokens.size == 0:
                return "no text of the model's tokens follows it"
            token = int(tokens[(number * 7919) % tokens.size])
            if token in self.ends or not self._matcher.consume_token(token) or self._matcher.is_stopped():
                break
        return _shown(self._matcher.get_error())

    def accept(self, token: int) -> bool:
        """Advance by a token; return True if the text is complete: only an end may follow."""
        if token in self.ends:
            return True
        if not self._matcher.consume_token(token):
            raise _error(f"the grammar does not allow token {token}: {_shown(self._matcher.get_error())}")
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

    def __init__(self, tokenizer: Any, vocabulary: int, ends: Collection[int]) -> None:
        try:
            import llguidance
        except ImportError as error:
            raise NotFoundError(
                "json_schema, regex and grammar need llguidance, which is not installed: "
                "pip install 'intarsia[constrained]'",
                "not found",
            ) from error
        self._llguidance = llguidance
        self._vocabulary = vocabulary
        count = max(vocabulary, tokenizer.get_vocab_size())
        try:
            self._tokens = llguidance.LLTokenizer(tokenizer.to_str(), n_vocab=count, eos_token=sorted(ends) or None)
        except ValueError as error:
            raise _error(f"llguidance cannot read the tokenizer: {error}") from error
        self._ends = frozenset(self._tokens.eos_tokens)

    def constraint(
        self, json_schema: str | Mapping[str, Any] | bool | None, regex: str | None, grammar: str | None
    ) -> Constraint:
        """Return the initial state for the one description that is given of the three.

        Raises
        ------
        InvalidArgumentError
            There is no such text, or finding the tokens of one would take too long; both are found by computing the
            first masks.
        """
        given = {"json_schema": json_schema, "regex": regex, "grammar": grammar}
        names = [name for name, value in given.items() if value is not None]
        if len(names) != 1:
            raise _error(f"{' and '.join(names)} are given, a text follows one of them")
        (name,) = names
        make = self._llguidance.LLMatcher
        if name == "json_schema":
            return self.compile(name, self._schema_rules(json_schema))
        text = _text(name, given[name], _MOST_LETTERS)
        return self.compile(name, make.grammar_from_regex(text) if name == "regex" else make.grammar_from_lark(text))

    def compile(self, name: str, rules: str) -> Constraint:
        """Return the initial state for rules as llguidance takes them; `name` is what messages call them.

        Raises
        ------
        InvalidArgumentError
            As for `constraint`.
        """
        make = self._llguidance.LLMatcher
        limits = self._llguidance.LLParserLimits(initial_lexer_fuel=_LEXER_FUEL, verbose_errors=False)
        matcher = _on_a_large_stack(lambda: make(self._tokens, rules, log_level=0, limits=limits))
        refused = _shown(matcher.get_error()) if matcher.is_error() else ""
        refused = refused or Constraint(matcher.deep_copy(), self._ends).check_beginning(self._vocabulary)
        if refused:
            raise _error(f"{name}: {refused}")
        return Constraint(matcher, self._ends)

    def _schema_rules(self, schema: Any) -> str:
        prepared = read_schema(schema).schema
        try:
            return self._llguidance.LLMatcher.grammar_from_json_schema(
                json.dumps(prepared), {"whitespace_pattern": JSON_WHITE_SPACE}
            )
        except (ValueError, RecursionError) as error:
            raise _error(f"json_schema: {_shown(str(error))}") from error


def read_schema(schema: Any, *, drops: bool = False, closes: bool = False) -> PreparedSchema:
    """Return a schema, as JSON or as its value, for llguidance; see `prepare` and `close_objects`."""
    try:
        text = schema if isinstance(schema, str) else json.dumps(schema)
    except (TypeError, ValueError, RecursionError) as error:
        raise _error(f"json_schema: {error}") from error
    return prepare(_text("json_schema", text, _MOST_SCHEMA_LETTERS), drops=drops, closes=closes)


def _text(name: str, value: Any, most: int) -> str:
    """Return a text of a user, checked."""
    if not isinstance(value, str):
        raise _error(f"{name} is of type {type(value).__name__}, must be a text")
    if len(value) > most:
        raise _error(f"{name} has {len(value)} letters, may have {most}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise _error(f"{name} has half of a surrogate pair at {error.start}, which is no letter") from error
    return value


def _on_a_large_stack(function: Callable[[], _Result]) -> _Result:
    """Return what a function returns, run on a stack that deep recursion does not exhaust."""
    results: list[_Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(function())
        except BaseException as error:
            errors.append(error)

    _start_thread(run).join()
    if errors:
        raise errors[0]
    return results[0]


def _start_thread(run: Callable[[], None]) -> threading.Thread:
    """Start a thread with the largest stack of `_STACK_BYTES` that there is memory for."""
    with _stack_size_lock:
        before = threading.stack_size()
        try:
            for size in _STACK_BYTES:
                threading.stack_size(size)  # of all threads that start from now on
                thread = threading.Thread(target=run, daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # the system gives none
                    continue
                return thread
        finally:
            threading.stack_size(before)
    raise Error(
        f"no thread starts with a stack of {_STACK_BYTES[-1] >> 20} MiB, on which a grammar is compiled: raise the "
        "limit of memory (ulimit -v) of this process, or that of its threads"
    )


def _shown(message: str) -> str:
    """Return the beginning of one of llguidance's messages, without its marks."""
    message = message.replace("<non-verbose/>", "").strip()
    if message.startswith("Resource '"):
        message = f"$ref leads out of the schema, where nothing is read: {message}"
    if message.startswith("Pointer '"):
        message = f"$ref leads nowhere: {message}"
    if message.startswith("NoExtension"):
        message = "no text follows it: a rule refers to nothing but itself, or its conditions exclude one another"
    return message if len(message) <= _MOST_MESSAGE else f"{message[:_MOST_MESSAGE]} … ({len(message)} letters)"


def _error(message: str) -> InvalidArgumentError:
    return InvalidArgumentError(message, "invalid argument")
