# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Keep what a user writes from becoming control tokens, which only the chat template may write (decision 101)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from typing import Any

from ..support.errors import InvalidArgumentError
from .encoding import encode, encoding_of, import_tokenizers

#: Letters that no text has: Unicode's noncharacters for use within a program, and planes for private use.
_MARKS = (*range(0xFDD0, 0xFDF0), *range(0xF0000, 0xFFFFE))

#: Roles whose text is the program's own, or the model's: words that are markup for the template alone, such as
#: <tool_call>, stay what they are. Special tokens are spelled in no role.
_TRUSTED_ROLES = ("system", "developer", "assistant")

#: Rounds until no control token is left: a broken token may have hidden one that overlaps it.
_MOST_ROUNDS = 8
_UNWRITABLE = "a text of the chat spells a control token that the tokenizer cannot write as letters"


class ControlTokens:
    """The tokens of a tokenizer that structure a chat.

    These are the special tokens, and the other added tokens that the template writes and that look like markup: some
    models have tokens such as ``<｜User｜>`` that are not special. A token of one letter is a letter.

    Parameters
    ----------
    tokenizer : tokenizers.Tokenizer
        The model's tokenizer.
    template : str
        The text of the chat template.
    """

    def __init__(self, tokenizer: Any, template: str) -> None:
        self._tokenizer = tokenizer
        added = tokenizer.get_added_tokens_decoder()
        self._ids = {token.content: ident for ident, token in added.items()}
        long = [token for token in added.values() if len(token.content.strip()) > 1]
        # A tokenizer may be set to take special tokens for text wherever they are.
        is_special = not tokenizer.encode_special_tokens
        self._special = frozenset(token.content for token in long if token.special and is_special)
        self._all = self._special | {
            token.content
            for token in long
            if not token.special
            and token.content[0] in "<[{|"
            and token.content[-1] in ">]}|"
            and token.content in template
        }
        self._finder = _finder(tokenizer, list(added.values()))
        # A template may write what a user writes in small letters, or in capitals.
        folded = {_folded(token.content): token for token in long if token.content in self._all}
        special = set(map(_folded, self._special))
        self._folded = {content: content in special for content in folded}
        self._folded_finder = _finder(tokenizer, [_named(token, content) for content, token in folded.items()])
        self._prefixes = {content[:end] for content in folded for end in range(1, len(content))}
        self._longest = max(map(len, self._all), default=0)

    def marks(self, *values: Any) -> Marks:
        """Return marks for the texts of a chat."""
        return Marks(self, values)

    def find(self, text: str, special_only: bool = False) -> list[tuple[int, int, str]]:
        """Return where a text has control tokens: begin, end, content."""
        if not self._all:
            return []
        wanted = self._special if special_only else self._all
        found = encode_spans(self._finder, text)
        return [(begin, end, content) for begin, end, content in found if content in wanted]

    def find_folded(self, text: str, special_only: bool = False) -> list[tuple[int, int, str]]:
        """Return where a text has what would be control tokens in small letters or in capitals."""
        if not self._all:
            return []
        found = encode_spans(self._folded_finder, _folded(text))
        return [
            one for one in found if self._folded.get(one[2], False) or (not special_only and one[2] in self._folded)
        ]

    def broken(self, text: str, mark: str, special_only: bool = False) -> str:
        """Return a text with marks, so that neither it nor what it begins has control tokens, in whatever case."""
        for _ in range(_MOST_ROUNDS):
            found = self.find(text, special_only) or self.find_folded(text, special_only)
            if not found:
                break
            pieces, last = [], 0
            for begin, end, _ in found:
                # A token may take the white space around it.
                begin += len(text[begin:end]) - len(text[begin:end].lstrip())
                pieces += [text[last : begin + 1], mark]
                last = begin + 1
            text = "".join([*pieces, text[last:]])
        else:
            raise _error(_UNWRITABLE)
        # The template may put another text behind this one.
        last = _folded(text[max(0, len(text) - self._longest) :])
        return text + mark if any(last[begin:] in self._prefixes for begin in range(len(last))) else text

    def encode(self, text: str, mark: str) -> list[int]:
        """Return the token ids of a rendered text: control tokens are those that have no mark within."""
        ids: list[int] = []
        last = 0
        for begin, end, content in [*self.find(text), (len(text), len(text), "")]:
            ids += self._encode_text(text[last:begin], mark, is_first=last == 0)
            ids += [self._ids[content]] if content else []
            last = end
        return ids

    def _encode_text(self, text: str, mark: str, is_first: bool) -> list[int]:
        """Return the token ids of a text without control tokens."""
        tokenizer = self._plain[0 if is_first else 1]
        controls = {self._ids[content] for content in self._all}
        ids = encode(tokenizer, text.replace(mark, ""), add_special_tokens=False) if text.replace(mark, "") else []
        if controls.isdisjoint(ids):
            return ids
        # The model of this tokenizer finds the token by itself; each half of its text is something else.
        ids = [i for piece in text.split(mark) if piece for i in encode(tokenizer, piece, add_special_tokens=False)]
        if controls.isdisjoint(ids):
            return ids
        raise _error(_UNWRITABLE)

    @cached_property
    def _plain(self) -> tuple[Any, Any]:
        """Tokenizers that take control tokens for text: for the beginning of a text, and for the rest of one."""
        settings = json.loads(self._tokenizer.to_str())
        settings.update(truncation=None, padding=None)
        for token in settings["added_tokens"]:
            # Where special tokens are text anyway, they stay that.
            is_text = token["special"] and self._tokenizer.encode_special_tokens
            token["special"] = is_text or token["content"] in self._all
        first = self._from_settings(settings)
        pre_tokenizer = settings.get("pre_tokenizer") or {}
        is_changed = False
        for part in [pre_tokenizer, *pre_tokenizer.get("pretokenizers", ())]:
            if part.get("type") == "Metaspace" and part.get("prepend_scheme") == "first":
                part["prepend_scheme"] = "never"
                is_changed = True
        return first, self._from_settings(settings) if is_changed else first

    @staticmethod
    def _from_settings(settings: dict[str, Any]) -> Any:
        tokenizer = import_tokenizers().Tokenizer.from_str(json.dumps(settings))
        tokenizer.encode_special_tokens = True
        return tokenizer


class Marks:
    """Marks in the texts of one chat.

    Attributes
    ----------
    mark : str
        A letter that occurs in none of the texts.
    tokens : dict of str to str
        Control tokens that occur in the texts, and the same with a mark.
    """

    def __init__(self, controls: ControlTokens, everything: Any) -> None:
        self._controls = controls
        self.tokens: dict[str, str] = {}
        # Neither the letter may occur, nor what JSON in ASCII writes for it.
        letters = {letter for text in _texts(everything) for letter in text}
        escapes = {code.lower() for text in _texts(everything) for code in re.findall(r"\\u[0-9A-Fa-f]{4}", text)}
        marks = (chr(code) for code in _MARKS)
        free = (mark for mark in marks if mark not in letters and json.dumps(mark)[1:7] not in escapes)
        self.mark = next(free, "")
        if not self.mark:
            raise _error("the messages of a chat have all of Unicode's letters for private use")

    def chat(
        self, messages: list[dict[str, Any]], arguments: list[tuple[int, int, str]], values: dict[str, Any]
    ) -> tuple[list[dict[str, Any]], list[tuple[int, int, str]], dict[str, Any]]:
        """Return messages, arguments of calls as JSON, and other values with marks in what users have written."""
        trusted = [message.get("role") in _TRUSTED_ROLES for message in messages]
        marked = [self._marked(message, special_only) for message, special_only in zip(messages, trusted, strict=True)]
        calls = [(number, call, self._marked(text, trusted[number])) for number, call, text in arguments]
        return marked, calls, {n: self._marked(value, n != "documents") for n, value in values.items()}

    def _marked(self, value: Any, special_only: bool) -> Any:
        if isinstance(value, str):
            broken = self._controls.broken(value, self.mark, special_only)
            if broken != value:
                find, find_folded = self._controls.find, self._controls.find_folded
                for begin, end, _ in [*find(value, special_only), *find_folded(value, special_only)]:
                    token = value[begin:end].strip()
                    if token not in self.tokens:
                        self.tokens[token] = self._controls.broken(token, self.mark, special_only)
            return broken
        if isinstance(value, Mapping):
            marked = (
                (self._marked(key, special_only), self._marked(item, special_only)) for key, item in value.items()
            )
            return dict(marked)
        if isinstance(value, (list, tuple)):
            return type(value)([self._marked(item, special_only) for item in value])
        return value


def encode_spans(finder: Any, text: str) -> list[tuple[int, int, str]]:
    """Return begin, end and content of each added token that a tokenizer of nothing else finds in a text."""
    encoding = encoding_of(finder, text, add_special_tokens=False)
    spans = zip(encoding.ids, encoding.offsets, strict=True)
    # The token as the encoding shows it includes the white space that it takes.
    return [(begin, end, finder.id_to_token(ident)) for ident, (begin, end) in spans if ident]


def _finder(tokenizer: Any, added: list[Any]) -> Any:
    """Return a tokenizer that finds the same added tokens in a text, and takes what is between for one token."""
    tokenizers = import_tokenizers()
    rest = "".join(map(chr, _MARKS[:32]))
    finder = tokenizers.Tokenizer(tokenizers.models.WordLevel({rest: 0}, unk_token=rest))
    if tokenizer.normalizer is not None:
        finder.normalizer = tokenizer.normalizer
    finder.add_tokens(added)
    return finder


def _named(token: Any, content: str) -> Any:
    """Return an added token with another content."""
    same = ("single_word", "lstrip", "rstrip", "normalized", "special")
    return import_tokenizers().AddedToken(content, **{name: getattr(token, name) for name in same})


def _folded(text: str) -> str:
    """Return a text that is the same whatever the case of its letters is, with as many letters."""
    return text.lower() if text.isascii() else "".join(map(_folded_letter, text))


@cache
def _folded_letter(letter: str) -> str:
    upper = letter.upper() if len(letter.upper()) == 1 else letter
    return upper.lower() if len(upper.lower()) == 1 else upper


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts of a value of JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(key)
            yield from _texts(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)


def _error(message: str) -> InvalidArgumentError:
    return InvalidArgumentError(message, "invalid argument")
