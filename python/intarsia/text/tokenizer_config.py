# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Read a tokenizer.json with the settings of the files beside it, as transformers 5 reads them.

tokenizer.json says how text is split and what is put around it, whatever ``add_bos_token`` and ``add_eos_token`` say.
tokenizer_config.json and its older companions add tokens, and have settings that tokenizer.json cannot hold. Source:
`PreTrainedTokenizerBase._from_pretrained` and `TokenizersBackend.__init__` of transformers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ..runtime.files import Files
from ..support.checks import panics_as_errors
from ..support.errors import Error, InvalidArgumentError
from .chat import SPECIAL_TOKENS

_CONFIG = "tokenizer_config.json"

#: Classes whose setting ``add_prefix_space`` counts more than that of a byte-level pre-tokenizer, with their default.
_PREFIX_SPACE_OF_BYTES = {
    **dict.fromkeys(("GPT2Tokenizer", "Qwen2Tokenizer", "RobertaTokenizer", "CodeGenTokenizer"), False),
    **dict.fromkeys(("CohereTokenizer", "GPTNeoXTokenizer", "DebertaTokenizer"), False),
    "BlenderbotTokenizer": True,
}

#: The same for SentencePiece; by default what tokenizer.json says is taken.
_PREFIX_SPACE_OF_PIECES = ("LlamaTokenizer", "CodeLlamaTokenizer", "XLMRobertaTokenizer", "AlbertTokenizer")


def read_tokenizer(tokenizers: Any, files: Files, name: str) -> Any:
    """Return the tokenizer of a file `name` of the package tokenizers and the files beside it.

    Raises
    ------
    InvalidArgumentError
        A file is no tokenizer, or has a setting that cannot be followed.
    """
    try:
        with panics_as_errors():
            tokenizer = tokenizers.Tokenizer.from_buffer(files.read(name))
    except Exception as error:  # the package raises plain Exception
        raise InvalidArgumentError(f"{files.where(name)}: {error}", "invalid argument") from error
    # A saved tokenizer may cut or pad what it encodes; transformers does neither unless it is asked.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    config = files.json(_CONFIG)
    try:
        with panics_as_errors():
            _set_prefix_space(tokenizer, files, config, name)
            tokenizer.add_tokens(list(_added_tokens(tokenizers.AddedToken, files, config, tokenizer)))
            tokenizer.encode_special_tokens = bool(_flag(files, config, "split_special_tokens"))
    except Error:
        raise
    except Exception as error:
        raise _invalid(files, _CONFIG, f"does not fit {name}: {error}") from error
    return tokenizer


def _flag(files: Files, config: Mapping[str, Any], key: str) -> bool | None:
    """Return a setting that is true, false or not there."""
    value = config.get(key)
    if value is not None and not isinstance(value, bool):
        raise _invalid(files, _CONFIG, f"{key} is {value!r}, must be true or false")
    return value


def _invalid(files: Files, name: str, message: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"{files.where(name)}: {message}", "invalid argument")


def _added_tokens(kind: Any, files: Files, config: Mapping[str, Any], tokenizer: Any) -> Iterator[Any]:
    """Yield the tokens that the files beside tokenizer.json add or change, in the order of their numbers.

    Parameters
    ----------
    kind : type
        tokenizers.AddedToken.
    """
    settings, source = dict(config), dict.fromkeys(config, _CONFIG)
    if "additional_special_tokens" in settings and not settings.get("extra_special_tokens"):
        settings["extra_special_tokens"] = settings.pop("additional_special_tokens")
        source["extra_special_tokens"] = _CONFIG

    def token(value: Any, name: str, key: str, **attributes: bool) -> Any:
        """Return one token; `key` of the file `name` is where it is from."""
        if isinstance(value, str):
            return kind(value, **attributes)
        if not isinstance(value, dict) or not isinstance(value.get("content"), str):
            raise _invalid(files, name, f"{key} is neither a token nor an object with the content of one")
        value = {key: item for key, item in value.items() if key != "__type"} | attributes
        try:
            return kind(**value)
        except TypeError as error:
            raise _invalid(files, name, f"{key}: {error}") from error

    by_number: dict[int, Any] = {}
    decoder = settings.pop("added_tokens_decoder", None)
    if decoder is not None:
        if not isinstance(decoder, dict):
            raise _invalid(files, _CONFIG, "added_tokens_decoder is no object")
        for number, value in decoder.items():
            if not number.isdecimal() or len(number) > 18:
                raise _invalid(files, _CONFIG, f"added_tokens_decoder has a key {number!r}, must be a token id")
            by_number[int(number)] = token(value, _CONFIG, f"added_tokens_decoder[{number}]")
    else:
        older = "special_tokens_map.json"
        for key, value in files.json(older).items():
            if key == "extra_special_tokens" and isinstance(value, list):
                before = settings.get(key) or []
                value = [*before, *value] if isinstance(before, list) else value
            elif isinstance(value, dict) and key != "extra_special_tokens":
                value = {**value, "special": True}
            settings[key], source[key] = value, older
        if "additional_special_tokens" in settings and "extra_special_tokens" not in settings:
            source["extra_special_tokens"] = source["additional_special_tokens"]
            settings["extra_special_tokens"] = settings.pop("additional_special_tokens")

    extra = settings.get("extra_special_tokens") or []
    extra_source = source.get("extra_special_tokens", _CONFIG)
    if not isinstance(extra, (list, dict)):
        raise _invalid(files, extra_source, "extra_special_tokens is neither a list of tokens nor an object")
    named = {key: settings[key] for key in SPECIAL_TOKENS if settings.get(key) is not None}
    named |= {
        key: value
        for key, value in settings.items()
        if key not in SPECIAL_TOKENS and key.endswith("_token") and isinstance(value, (str, dict))
    }
    named = {key: token(value, source[key], key, special=True) for key, value in named.items()}
    extras = [token(value, extra_source, "an item of extra_special_tokens", special=True) for value in _items(extra)]

    if decoder is None:
        special = {each.content for each in (*named.values(), *extras)}
        for content, number in files.json("added_tokens.json").items():
            if isinstance(number, bool) or not isinstance(number, int):
                raise _invalid(files, "added_tokens.json", f"{content!r} has the number {number!r}, must be a token id")
            is_special = content in special
            by_number[number] = kind(content, normalized=not is_special, special=is_special)
        for number, each in tokenizer.get_added_tokens_decoder().items():
            by_number[number] = each

    names = {each.content for each in named.values()}
    seen = {each.content for each in tokenizer.get_added_tokens_decoder().values()}
    for _, each in sorted(by_number.items()):
        each.special = each.special or each.content in names
        seen.add(each.content)
        yield each
    for each in (*named.values(), *extras):
        if each.content not in seen:
            seen.add(each.content)
            yield each


def _items(tokens: list[Any] | dict[str, Any]) -> list[Any]:
    return list(tokens.values()) if isinstance(tokens, dict) else tokens


def _set_prefix_space(tokenizer: Any, files: Files, config: Mapping[str, Any], name: str) -> None:
    """Follow the setting ``add_prefix_space`` as far as the tokenizer's class in transformers does.

    Most classes go by tokenizer.json. Those of byte-level BPE change its pre-tokenizer. Those of SentencePiece replace
    it, which is refused unless both say the same.
    """
    setting, kind = _flag(files, config, "add_prefix_space"), config.get("tokenizer_class")
    kind = kind.removesuffix("Fast") if isinstance(kind, str) else None
    pre_tokenizer = _state(tokenizer.pre_tokenizer)
    byte_steps = [step for step in _steps(pre_tokenizer) if step["type"] == "ByteLevel"]
    if kind in _PREFIX_SPACE_OF_BYTES:
        setting = _PREFIX_SPACE_OF_BYTES[kind] if setting is None else setting
        for step in byte_steps:
            step["add_prefix_space"] = setting
        if byte_steps:
            changed = tokenizer.pre_tokenizer
            changed.__setstate__(json.dumps(pre_tokenizer).encode())
            tokenizer.pre_tokenizer = changed
        return
    # Without a class, transformers takes that of the model. A byte-level tokenizer of class Llama it takes as it is.
    counts = kind is None or (kind in _PREFIX_SPACE_OF_PIECES and not byte_steps)
    if setting is None or not counts:
        return
    puts_space = any(
        step["type"] == "Prepend"
        or (step["type"] == "Metaspace" and step.get("prepend_scheme", "always") != "never")
        or (step["type"] == "ByteLevel" and step["add_prefix_space"])
        for step in (*_steps(_state(tokenizer.normalizer)), *_steps(pre_tokenizer))
    )
    if puts_space != setting:
        raise _invalid(
            files,
            _CONFIG,
            f"add_prefix_space is {str(setting).lower()}, but {name} puts {'a' if puts_space else 'no'} space before "
            "a text: save the tokenizer with transformers, so that both say the same, or leave add_prefix_space out",
        )


def _state(component: Any) -> dict[str, Any]:
    """Return a normalizer or pre-tokenizer as tokenizer.json describes it."""
    return {} if component is None else json.loads(component.__getstate__())


def _steps(state: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the steps that a normalizer or pre-tokenizer consists of."""
    if state.get("type") == "Sequence":
        for step in state.get("normalizers") or state.get("pretokenizers") or []:
            yield from _steps(step)
    elif state:
        yield state
