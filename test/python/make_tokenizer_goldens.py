#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes tokenizer_goldens.json: what transformers makes of texts with each setting of a tokenizer's files.

Needs: pip install 'transformers>=5' tokenizers. The tests need the last one. Written with transformers 5.24.

A case has a name, "changes" of the keys of tokenizer.json of examples/glossary, the other files of the folder by name
("files"), texts, their token ids, and these decoded without special tokens.
"""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import transformers

HERE = Path(__file__).resolve().parent
MODEL = HERE.parents[1] / "examples" / "glossary"
TEXTS = [
    "violin (noun): an instrument",
    "<s>violin</s> <|im_start|>user\n a violin <|im_end|>\n<|im_start|> <pad> x<tool> y",
    "a<mask> b <TOOL> xtool tool <image>.",
]
FIXED = {"strategy": {"Fixed": 40}, "direction": "Left", "pad_id": 1, "pad_type_id": 0, "pad_token": "</s>"}
TRUNCATION = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
CLASSES = (
    *("PreTrainedTokenizerFast", "GPT2Tokenizer", "GPT2TokenizerFast", "Qwen2Tokenizer", "LlamaTokenizerFast"),
    *("LlamaTokenizer", None),
)


def template(single: list[str]) -> dict[str, Any]:
    """Return a post processor; $A stands for the text."""
    tokens = {"<s>": 0, "</s>": 1}
    items = [
        {"Sequence": {"id": "A", "type_id": 0}} if item == "$A" else {"SpecialToken": {"id": item, "type_id": 0}}
        for item in single
    ]
    return {
        "type": "TemplateProcessing",
        "single": items,
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {name: {"id": name, "ids": [token], "tokens": [name]} for name, token in tokens.items()},
    }


def added(content: str, **attributes: bool) -> dict[str, Any]:
    """Return a token as added_tokens_decoder holds it."""
    usual = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
    return {"content": content, **usual, **attributes}


def cases() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield names, changes of tokenizer.json, and the other files."""

    def config(**settings: Any) -> dict[str, Any]:
        return {"tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", **settings}}

    for kind, add, begins in itertools.product(CLASSES, (None, True, False), (False, True)):
        settings = {"bos_token": "<s>", "eos_token": "</s>"}
        settings |= {} if kind is None else {"tokenizer_class": kind}
        settings |= {} if add is None else {"add_bos_token": add}
        name = f"begin: class {kind}, add_bos_token {add}, post processor {begins}"
        post = template(["<s>", "$A"]) if begins else None
        yield name, {"post_processor": post}, {"tokenizer_config.json": settings}
    for ends in (["$A", "</s>"], ["<s>", "$A", "</s>"]):
        yield f"post processor {ends}", {"post_processor": template(ends)}, config(add_eos_token=False)
    yield "add_eos_token", {}, config(add_eos_token=True, eos_token="</s>")

    for name, truncation, padding in (
        ("truncation", TRUNCATION, None),
        ("truncation at the left", TRUNCATION | {"direction": "Left"}, None),
        ("padding to the longest", None, FIXED | {"strategy": "BatchLongest"}),
        ("padding to 40", None, FIXED),
        ("padding to a multiple", None, FIXED | {"strategy": "BatchLongest", "pad_to_multiple_of": 8}),
        ("truncation and padding", TRUNCATION, FIXED),
    ):
        for length in ({}, {"model_max_length": 6}):
            yield f"{name} {length}", {"truncation": truncation, "padding": padding}, config(**length)

    chat = {"4096": added("<|im_start|>"), "4097": added("<|im_end|>")}
    yield "no settings", {}, {}
    yield "added_tokens_decoder", {}, config(added_tokens_decoder=chat)
    yield (
        "added_tokens_decoder has other numbers and another order",
        {},
        config(added_tokens_decoder={"5001": chat["4097"], "5000": chat["4096"]}),
    )
    for attributes in (
        {"lstrip": True},
        {"rstrip": True},
        {"lstrip": True, "rstrip": True},
        {"special": False},
        {"special": False, "normalized": True},
        {"single_word": True},
    ):
        tokens = {"4096": added("<|im_start|>", **attributes), "4097": added("tool", **attributes)}
        yield f"an added token with {attributes}", {}, config(added_tokens_decoder=tokens)
        tokens = {"0": added("<s>", **attributes), "1": added("</s>")}
        yield f"a token of tokenizer.json with {attributes}", {}, config(added_tokens_decoder=tokens)
        named = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<|im_start|>"}
        tokens = {**tokens, "4096": added("<|im_start|>", **attributes)}
        yield f"special tokens with {attributes}", {}, config(added_tokens_decoder=tokens, **named)
    yield "a token of the vocabulary", {}, config(added_tokens_decoder={"87": added("v")})

    for key in ("additional_special_tokens", "extra_special_tokens"):
        yield key, {}, config(**{key: ["<|im_start|>", "<|im_end|>"]})
        yield (
            f"{key} beside added_tokens_decoder",
            {},
            config(**{key: ["<mask>", "<|im_end|>"]}, added_tokens_decoder=chat),
        )
        token = {**added("<|im_start|>", rstrip=True), "__type": "AddedToken"}
        yield f"{key} with attributes", {}, config(**{key: [token]})
    both = {"additional_special_tokens": ["<|im_start|>"], "extra_special_tokens": ["<|im_end|>"]}
    yield "additional_special_tokens and extra_special_tokens", {}, config(**both)
    yield "no extra_special_tokens", {}, config(**(both | {"extra_special_tokens": []}))
    yield "named extra_special_tokens", {}, config(extra_special_tokens={"image_token": "<image>", "tool": "<tool>"})
    yield "a token of the model's own name", {}, config(image_token="<image>", mask_token="<mask>")
    yield "names in their order", {}, config(mask_token="<mask>", pad_token="<pad>", image_token="<image>")
    token = {**added("<|im_start|>", lstrip=True, rstrip=True), "__type": "AddedToken"}
    yield "a named token with attributes", {}, config(pad_token=token, eos_token="<|im_end|>")
    yield "a name without a token", {}, config(pad_token=None, eos_token="<|im_end|>")

    names = {
        "bos_token": added("<s>", rstrip=True),
        "eos_token": "<|im_end|>",
        "pad_token": added("<pad>", lstrip=True),
    }
    yield "special_tokens_map.json", {}, {"special_tokens_map.json": names}
    yield "special_tokens_map.json first", {}, config(eos_token="<mask>") | {"special_tokens_map.json": names}
    yield (
        "special_tokens_map.json beside added_tokens_decoder",
        {},
        config(added_tokens_decoder=chat) | {"special_tokens_map.json": names},
    )
    more = {"additional_special_tokens": ["<tool>", "<|im_end|>"]}
    yield "additional_special_tokens of special_tokens_map.json", {}, {"special_tokens_map.json": more}
    both = config(extra_special_tokens=["<mask>"]) | {"special_tokens_map.json": {"extra_special_tokens": ["<tool>"]}}
    yield "extra_special_tokens of both files", {}, both
    numbers = {"<|im_end|>": 4097, "<|im_start|>": 4096, "<tool>": 4098}
    yield "added_tokens.json", {}, config(eos_token="<|im_end|>") | {"added_tokens.json": numbers}
    yield (
        "added_tokens.json beside added_tokens_decoder",
        {},
        config(added_tokens_decoder=chat) | {"added_tokens.json": numbers | {"<mask>": 4099}},
    )

    for split in (True, False):
        settings = {"split_special_tokens": split, "added_tokens_decoder": chat}
        yield f"split_special_tokens {split}", {"post_processor": template(["<s>", "$A"])}, config(**settings)

    pattern = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    for kind, stored, setting in itertools.product(CLASSES[:-1], (False, True), (None, False, True)):
        settings = {"tokenizer_class": kind, "bos_token": "<s>", "eos_token": "</s>"}
        settings |= {} if setting is None else {"add_prefix_space": setting}
        name = f"add_prefix_space {setting}, class {kind}, {stored} in tokenizer.json"
        steps = {"type": "ByteLevel", "add_prefix_space": stored, "trim_offsets": True, "use_regex": True}
        if kind == "Qwen2Tokenizer":  # transformers replaces the pre-tokenizer by this
            steps = {"type": "Sequence", "pretokenizers": [split, steps | {"use_regex": False}]}
        yield name, {"pre_tokenizer": steps}, config(**settings)


def main() -> None:
    transformers.logging.set_verbosity_error()
    description = json.loads((MODEL / "tokenizer.json").read_text()) | {"post_processor": None}
    goldens = []
    for name, changes, files in cases():
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "config.json").symlink_to(MODEL / "config.json")
            (Path(folder) / "tokenizer.json").write_text(json.dumps(description | changes))
            for file, content in files.items():
                (Path(folder) / file).write_text(json.dumps(content))
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        # Some classes have a regular expression and tokens of their own.
        texts = (
            TEXTS
            if files.get("tokenizer_config.json", {}).get("tokenizer_class", CLASSES[0]) == CLASSES[0]
            else TEXTS[:1]
        )
        ids = [tokenizer(text).input_ids for text in texts]
        decoded = [tokenizer.decode(each, skip_special_tokens=True) for each in ids]
        goldens.append(
            {"name": name, "changes": changes, "files": files, "texts": texts, "ids": ids, "decoded": decoded}
        )
    lines = ",\n".join(json.dumps(golden, ensure_ascii=False) for golden in goldens)
    (HERE / "tokenizer_goldens.json").write_text(f"[\n{lines}\n]\n")
    print(len(goldens))


if __name__ == "__main__":
    main()
