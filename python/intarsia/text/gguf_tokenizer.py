# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Make a tokenizer from the metadata of a GGUF file.

The keys are those of https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, section "Tokenizer".
"""

from __future__ import annotations

import numbers
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..support.checks import panics_as_errors, parse_json
from ..support.errors import CorruptError, Error, InvalidArgumentError, NotFoundError
from .chat import ChatTemplate

#: Characters of the longest token that SentencePiece trains (max_sentencepiece_length in its trainer_interface.cc).
_LONGEST_PIECE = 512

#: Values of tokenizer.ggml.token_type.
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = range(1, 7)


@dataclass(frozen=True)
class _Split:
    """The way text is split before pairs are merged; tokenizer.ggml.pre names it."""

    patterns: tuple[str, ...]
    ignore_merges: bool = False  # a piece that is a token becomes that token
    add_bos: bool = False  # default of tokenizer.ggml.add_bos_token


# Each pattern is the one of the tokenizer that it is named after: GPT-2's encoder.py, tiktoken's cl100k_base and
# o200k_base, tokenizer.json of Llama 3, Qwen2 and Mistral Nemo.
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_SUFFIXES = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_REST = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA3 = _SUFFIXES + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + _REST
_QWEN2 = _SUFFIXES + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + _REST
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_O200K = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_SUFFIXES}?|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_SUFFIXES}?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + _REST
)
_TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + _REST
)

#: Values of tokenizer.ggml.pre, as llama.cpp writes them.
_SPLITS: dict[str, _Split] = {
    **dict.fromkeys(("default",), _Split((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]"))),
    **dict.fromkeys(("gpt-2", "phi-2", "mpt", "olmo"), _Split((_GPT2,))),
    **dict.fromkeys(("smollm", "starcoder", "refact", "command-r", "codeshell"), _Split((r"\p{N}", _GPT2))),
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3", "falcon3"), _Split((_LLAMA3,), True, True)),
    **dict.fromkeys(("dbrx", "smaug-bpe"), _Split((_LLAMA3,))),
    **dict.fromkeys(("qwen2", "stablelm2", "deepseek-r1-qwen"), _Split((_QWEN2,))),
    **dict.fromkeys(("gpt-4o", "llama4"), _Split((_O200K,))),
    **dict.fromkeys(("tekken",), _Split((_TEKKEN,), True, True)),
}


@dataclass(frozen=True)
class _Family:
    """Models whose tokens have attributes that GGUF files do not hold."""

    name: str  # a regular expression for general.name, whatever the case of letters
    plain: frozenset[str]  # tokens that leave the white space behind them; the other special ones take it

    def is_named(self, model: str) -> bool:
        return re.search(self.name, model, re.IGNORECASE) is not None


#: llama.cpp knows these models by their names too (llama_vocab::impl::load); it wants a hyphen or nothing before the 3,
#: while converters write "Phi 3 Mini". The tokens are those with "rstrip" in the tokenizer.json of Phi-3 and Phi-3.5.
_FAMILIES = (_Family("phi[- ]?3", frozenset({"<unk>", "<s>", "<|endoftext|>"})),)


@dataclass(frozen=True)
class GgufText:
    """The tokenizer and template of a GGUF file.

    Attributes
    ----------
    tokenizer : tokenizers.Tokenizer
        Its special tokens are matched in text.
    chat_template : ChatTemplate or None
        From ``tokenizer.chat_template``.
    document_end : int or None
        The token that ends a whole text, which ``tokenizer.ggml.eos_token_id`` names.
    """

    tokenizer: Any
    chat_template: ChatTemplate | None
    document_end: int | None


def read_gguf_text(path: Path) -> GgufText:
    """Return the tokenizer and the chat template of a GGUF file; if it has several parts, give the first.

    Raises
    ------
    InvalidArgumentError
        The file has no tokenizer, or one of an unknown kind.
    CorruptError
        The file is not GGUF, or its metadata contradict each other.
    NotFoundError
        The package gguf or tokenizers is not installed.
    """
    return _text_of(_Metadata(str(path), _fields_of(path)))


def read_gguf_json(where: str, text: str) -> GgufText:
    """Return the same from the metadata that an artifact carries as JSON; `where` is its name in messages."""
    return _text_of(_Metadata(where, parse_json(where, text)))


def _text_of(metadata: _Metadata) -> GgufText:
    kind = metadata.get("tokenizer.ggml.model", str)
    if kind not in ("gpt2", "llama"):
        raise InvalidArgumentError(
            f"{metadata.where}: tokenizer.ggml.model is {kind!r}, known are 'gpt2' (byte-level BPE) and 'llama' "
            "(SentencePiece); give the tokenizer.json of the model",
            "invalid argument",
        )
    tokens = metadata.items("tokenizer.ggml.tokens", str)
    types = metadata.items("tokenizer.ggml.token_type", int, [_NORMAL] * len(tokens))
    if len(types) != len(tokens):
        raise metadata.corrupt(f"{len(tokens)} tokens, {len(types)} token types")
    # llama.cpp has these for SentencePiece where a file names none.
    ids = {"bos": 1, "eos": 2, "unknown": 0} if kind == "llama" and len(tokens) > 2 else {}
    for name in ("bos", "eos", "unknown", "padding"):
        if not metadata.has(f"tokenizer.ggml.{name}_token_id"):
            continue
        token = metadata.get(f"tokenizer.ggml.{name}_token_id", int)
        if not 0 <= token < len(tokens):
            raise metadata.corrupt(f"tokenizer.ggml.{name}_token_id is {token}, there are {len(tokens)} tokens")
        ids[name] = token
    try:
        with panics_as_errors():
            tokenizer, add_bos = (_byte_level if kind == "gpt2" else _sentence_piece)(metadata, tokens, types)
            _add_special_tokens(tokenizer, tokens, types, metadata.get("general.name", str, ""))
            add_bos = metadata.get("tokenizer.ggml.add_bos_token", bool, add_bos)
            add_eos = metadata.get("tokenizer.ggml.add_eos_token", bool, False)
            _put_around(tokenizer, tokens, ids.get("bos") if add_bos else None, ids.get("eos") if add_eos else None)
    except Error:
        raise
    except Exception as error:  # the package tokenizers raises plain Exception
        raise metadata.corrupt(f"its tokenizer cannot be made: {error}") from error
    special = {{"unknown": "unk", "padding": "pad"}.get(name, name) + "_token": tokens[ids[name]] for name in ids}
    return GgufText(tokenizer, _chat_template(metadata, special), ids.get("eos"))


def _fields_of(path: Path) -> Mapping[str, Any]:
    """Return the metadata of a GGUF file, whose values are read as they are asked for."""
    try:
        import gguf
    except ImportError as error:
        raise NotFoundError(
            "tokenizers of GGUF files need the package gguf, which is not installed: pip install 'intarsia[gguf]'",
            "not found",
        ) from error
    try:
        return gguf.GGUFReader(path).fields
    except Exception as error:  # the package may raise anything for an invalid file
        raise CorruptError(f"{path}: is no GGUF file that can be read: {error}", "corrupt") from error


class _Metadata:
    """Key-value pairs of a GGUF file, checked for their types.

    Parameters
    ----------
    where : str
        Its name in messages.
    values : mapping
        The values, or fields of the package gguf that hold them.
    """

    def __init__(self, where: str, values: Mapping[str, Any]) -> None:
        self.where, self._values = where, values

    def has(self, key: str) -> bool:
        """Return True if the key exists."""
        return key in self._values

    def get(self, key: str, kind: type, default: Any = None) -> Any:
        """Return a value; without a default, it must be there."""
        if not self.has(key):
            if default is None:
                raise InvalidArgumentError(
                    f"{self.where}: has no {key}; give the tokenizer.json of the model", "invalid argument"
                )
            return default
        value = self._values[key]
        try:
            value = value.contents() if hasattr(value, "contents") else value
        except (ValueError, IndexError) as error:
            raise self.corrupt(f"{key} cannot be read: {error}") from error
        if not isinstance(value, kind):
            raise self.corrupt(f"{key} is of type {type(value).__name__}, must be {kind.__name__}")
        return value

    def items(self, key: str, kind: type, default: list[Any] | None = None) -> list[Any]:
        """Return a list whose items all have one type."""
        values = self.get(key, list, default)
        for number, value in enumerate(values):
            if not isinstance(value, kind):
                raise self.corrupt(f"item {number} of {key} is of type {type(value).__name__}, must be {kind.__name__}")
        return values

    def corrupt(self, message: str) -> CorruptError:
        """Return the exception for metadata that do not fit together."""
        return CorruptError(f"{self.where}: {message}", "corrupt")


def _byte_level(metadata: _Metadata, tokens: list[str], types: list[int]) -> tuple[Any, bool]:
    """Return a byte-level BPE like GPT-2's, and True if a text begins with a token for that."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    name = metadata.get("tokenizer.ggml.pre", str)
    if name not in _SPLITS:
        raise InvalidArgumentError(
            f"{metadata.where}: tokenizer.ggml.pre is {name!r}, known are {', '.join(sorted(_SPLITS))}; give the "
            "tokenizer.json of the model",
            "invalid argument",
        )
    split = _SPLITS[name]
    merges = []
    for merge in metadata.items("tokenizer.ggml.merges", str):
        at = merge.find(" ", 1)
        if at < 0 or at + 1 == len(merge):
            raise metadata.corrupt(f"the merge {merge!r} is not two tokens with a space between them")
        merges.append((merge[:at], merge[at + 1 :]))
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=split.ignore_merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in split.patterns]
        + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer, split.add_bos


def _sentence_piece(metadata: _Metadata, tokens: list[str], types: list[int]) -> tuple[Any, bool]:
    """Return a SentencePiece BPE: the pair whose token has the highest score is merged first."""
    from tokenizers import Tokenizer, decoders, models, normalizers

    scores = metadata.items("tokenizer.ggml.scores", numbers.Real)
    if len(scores) != len(tokens):
        raise metadata.corrupt(f"{len(tokens)} tokens, {len(scores)} scores")
    if metadata.get("tokenizer.ggml.remove_extra_whitespaces", bool, False):
        raise InvalidArgumentError(
            f"{metadata.where}: tokenizer.ggml.remove_extra_whitespaces is not supported; give the tokenizer.json of "
            "the model",
            "invalid argument",
        )
    vocabulary = {token: number for number, token in enumerate(tokens)}
    # Each token maps to itself, so that all merges share the same str objects.
    mergeable = {token: token for token, kind in zip(tokens, types, strict=True) if kind in (_NORMAL, _UNUSED)}
    merges = []
    for number, token in enumerate(tokens):
        if token not in mergeable or vocabulary[token] != number:
            continue
        # All splits are tried, which takes quadratic time in the length.
        if len(token) > _LONGEST_PIECE:
            raise metadata.corrupt(
                f"token {number} has {len(token)} characters, those of SentencePiece have at most {_LONGEST_PIECE}; "
                "give the tokenizer.json of the model"
            )
        for at in range(1, len(token)):
            left, right = mergeable.get(token[:at]), mergeable.get(token[at:])
            if left is not None and right is not None:
                merges.append((-scores[number], (left, right)))
    merges.sort(key=lambda merge: merge[0])  # stable: equal scores stay in the order of token ids
    unknown = next((token for token, kind in zip(tokens, types, strict=True) if kind == _UNKNOWN), None)
    tokenizer = Tokenizer(
        models.BPE(
            vocabulary, [pair for _, pair in merges], unk_token=unknown, fuse_unk=True, byte_fallback=_BYTE in types
        )
    )
    prefix = metadata.get("tokenizer.ggml.add_space_prefix", bool, True)
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁")] * prefix + [normalizers.Replace(" ", "▁")],
    )
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()] + [decoders.Strip(" ", 1, 0)] * prefix
    )
    return tokenizer, True


def _add_special_tokens(tokenizer: Any, tokens: list[str], types: list[int], model: str) -> None:
    """Add the tokens that are found in a text as they are spelled; `model` is the model's name."""
    from tokenizers import AddedToken

    family = next((family for family in _FAMILIES if family.is_named(model)), None)
    tokenizer.add_tokens(
        [
            AddedToken(
                token,
                special=kind in (_CONTROL, _UNKNOWN),
                normalized=False,
                rstrip=family is not None and token not in family.plain,
            )
            for token, kind in zip(tokens, types, strict=True)
            if kind in (_CONTROL, _USER_DEFINED, _UNKNOWN) and token
        ]
    )


def _put_around(tokenizer: Any, tokens: list[str], begin: int | None, end: int | None) -> None:
    """Let a text begin and end with tokens; None: with none."""
    from tokenizers import processors

    if begin is not None or end is not None:
        ids = {tokens[token]: token for token in (begin, end) if token is not None}
        before, after = ([tokens[token]] if token is not None else [] for token in (begin, end))
        tokenizer.post_processor = processors.TemplateProcessing(
            single=[*before, "$A", *after], special_tokens=list(ids.items())
        )


def _chat_template(metadata: _Metadata, special: dict[str, str]) -> ChatTemplate | None:
    templates = {}
    for name in metadata.items("tokenizer.chat_templates", str, []):
        templates[name] = metadata.get(f"tokenizer.chat_template.{name}", str)
    default = metadata.get("tokenizer.chat_template", str, "")
    if default:
        templates["default"] = default
    return ChatTemplate(templates, special) if templates else None
