# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tokenizers from the metadata of GGUF files, against llama.cpp, SentencePiece and the tokenizer that they are from."""

from __future__ import annotations

import json
import random
import re
import sys
from pathlib import Path

import intarsia
import pytest
import tokenizers
from gguf import GGUFWriter
from intarsia.text.gguf_tokenizer import read_gguf_json, read_gguf_text

HERE = Path(__file__).resolve().parent
MODEL = HERE.parents[1] / "examples" / "glossary"
GOLDEN = json.loads((HERE / "gguf_goldens.json").read_text())


def write(path: Path, **values: object) -> Path:
    """Write a file with metadata; names stand for tokenizer.ggml.NAME, with a dot for themselves; None: left out."""
    writer = GGUFWriter(str(path), "llama")
    for name, value in values.items():
        key = name if "." in name else f"tokenizer.ggml.{name}"
        if isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, int):
            (writer.add_int32 if value < 0 else writer.add_uint32)(key, value)
        elif isinstance(value, str):
            writer.add_string(key, value)
        elif value is not None:
            writer.add_array(key, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


def golden_values(kind: str) -> dict[str, object]:
    vocabulary = GOLDEN["spm" if kind.startswith("spm") else "bpe"]
    more = GOLDEN["chat_tokens"] if "chat" in kind else []
    tokens = vocabulary["tokens"] + more
    values = {
        "model": "llama" if kind.startswith("spm") else "gpt2",
        "tokens": tokens,
        "token_type": vocabulary["types"] + [3] * len(more),
        "bos_token_id": tokens.index("<s>"),
        "eos_token_id": tokens.index("</s>"),
    }
    if kind.startswith("spm"):
        values["scores"] = vocabulary["scores"] + [0.0] * len(more)
    else:
        values["merges"] = vocabulary["merges"]
    return values | GOLDEN["settings"][kind]


@pytest.mark.parametrize("kind", GOLDEN["ids"])
def test_as_llama_cpp(kind, tmp_path):
    tokenizer = read_gguf_text(write(tmp_path / "m.gguf", **golden_values(kind))).tokenizer
    for text, ids in zip(GOLDEN["texts"], GOLDEN["ids"][kind], strict=True):
        assert tokenizer.encode(text).ids == ids, text
        # Decoding returns the encoded text, special tokens included.
        again = tokenizer.encode(text, add_special_tokens=False).ids
        assert tokenizer.decode(again, skip_special_tokens=False) == text or "<" in text


def test_the_texts_tell_the_kinds_apart():
    kinds = {kind: tuple(map(tuple, ids)) for kind, ids in GOLDEN["ids"].items()}
    same = [("spm", "spm, no tokens"), ("spm, chat of Phi-3", "spm, chat of Phi-3.5")]
    assert all(kinds[one] == kinds[other] for one, other in same)
    assert len(set(kinds.values())) == len(kinds) - len(same)


def test_names_of_phi_3():
    """llama.cpp does not know the name that today's converters write, Phi-3's own tokenizer.json is the same."""
    values = golden_values("spm, chat of Phi-3")
    metadata = {name if "." in name else f"tokenizer.ggml.{name}": value for name, value in values.items()}
    for name, kind in (("Phi 3 Mini 4k Instruct", "spm, chat of Phi-3"), ("Dolphin", "spm, chat"), ("", "spm, chat")):
        tokenizer = read_gguf_json("m.gguf", json.dumps(metadata | {"general.name": name})).tokenizer
        for text, ids in zip(GOLDEN["texts"], GOLDEN["ids"][kind], strict=True):
            assert tokenizer.encode(text).ids == ids


def glossary_values() -> dict[str, object]:
    description = json.loads((MODEL / "tokenizer.json").read_text())
    vocabulary = description["model"]["vocab"]
    tokens = sorted(vocabulary, key=vocabulary.get)
    special = {token["content"] for token in description["added_tokens"]}
    return {
        "model": "gpt2",
        "pre": "gpt-2",
        "tokens": tokens,
        "token_type": [3 if token in special else 1 for token in tokens],
        "merges": [" ".join(merge) for merge in description["model"]["merges"]],
        "bos_token_id": 0,
        "eos_token_id": 1,
        "add_bos_token": True,
    }


def random_texts(count: int) -> list[str]:
    choose = random.Random(1)
    words = (MODEL / "heldout.txt").read_text().split()
    words += ["<s>", "</s>", "é", "你好", "🙂", "\n\n", "\t", "  ", "I'll", "12"] * 100
    return [
        "".join(choose.choice(words) + choose.choice(["", " ", " ", "  ", "\n"]) for _ in range(12))
        for _ in range(count)
    ]


def test_merges_of_sentence_piece_are_all_cuts_by_score(monkeypatch):
    """Also for tokens as long as SentencePiece's may be, each of which begins and ends with all shorter ones."""
    made = []
    bpe = tokenizers.models.BPE

    def remember(vocabulary, merges, **options):
        made[:] = merges
        return bpe(vocabulary, merges, **options)

    monkeypatch.setattr(tokenizers.models, "BPE", remember)
    longest = [letter * length for letter in "ab" for length in range(1, 513)]
    for tokens, types, scores in (
        (GOLDEN["spm"]["tokens"], GOLDEN["spm"]["types"], GOLDEN["spm"]["scores"]),
        (longest, [1] * 1024, [-float(number % 7) for number in range(1024)]),
    ):
        values = {"model": "llama", "tokens": tokens, "token_type": types, "scores": scores}
        metadata = {f"tokenizer.ggml.{name}": value for name, value in values.items()}
        read_gguf_json("m.gguf", json.dumps(metadata))
        mergeable = {token for token, kind in zip(tokens, types, strict=True) if kind in (1, 5)}
        cuts = [
            (-scores[number], number, at)
            for number, token in enumerate(tokens)
            for at in range(1, len(token))
            if token in mergeable and token[:at] in mergeable and token[at:] in mergeable
        ]
        assert made == [(tokens[number][:at], tokens[number][at:]) for _, number, at in sorted(cuts)]


def test_metadata_that_are_no_json():
    for text, message in (("[" * 100000, "nested too deep"), ("{", "Expecting"), ("[]", "must be an object")):
        with pytest.raises(intarsia.InvalidArgumentError, match=f"m.gguf: .*{message}"):
            read_gguf_json("m.gguf", text)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokens": ["a", 5]}, "item 1 of tokenizer.ggml.tokens is of type int, must be str"),
        ({"token_type": [1, "x"]}, "item 1 of tokenizer.ggml.token_type is of type str, must be int"),
        ({"merges": [["a", "b"]]}, "item 0 of tokenizer.ggml.merges is of type list, must be str"),
    ],
)
def test_items_of_metadata(changes, message):
    """JSON of an artifact can hold what lists of GGUF cannot."""
    values = {"model": "gpt2", "pre": "gpt-2", "tokens": ["a", "b"], "merges": [], **changes}
    with pytest.raises(intarsia.CorruptError, match=re.escape(message)):
        read_gguf_json("m.itx", json.dumps({f"tokenizer.ggml.{key}": value for key, value in values.items()}))


def test_as_the_original_tokenizer(glossary_artifact, tmp_path):
    path = write(tmp_path / "glossary.gguf", **glossary_values())
    text = read_gguf_text(path)
    original = tokenizers.Tokenizer.from_file(str(MODEL / "tokenizer.json"))
    assert text.tokenizer.get_vocab() == original.get_vocab()
    for line in [*(MODEL / "heldout.txt").read_text().splitlines(), *random_texts(500)]:
        ids = original.encode(line).ids
        assert ids[0] == 0
        assert text.tokenizer.encode(line).ids == ids
        assert text.tokenizer.encode(line, add_special_tokens=False).ids == ids[1:]
        assert text.tokenizer.decode(ids) == original.decode(ids)
    ours = intarsia.Generator(glossary_artifact, tokenizer=path)
    theirs = intarsia.Generator(glossary_artifact, tokenizer=MODEL)
    assert ours.generate("violin (noun):", 20) == theirs.generate("violin (noun):", 20)
    assert ours.encode_document("a b") == theirs.encode_document("a b")


def test_texts_begin_and_end_as_the_file_says(glossary_artifact, tmp_path):
    for add_bos, add_eos in ((True, False), (False, False), (None, None), (True, True)):
        changes = {"add_bos_token": add_bos, "add_eos_token": add_eos}
        path = write(tmp_path / f"{add_bos}{add_eos}.gguf", **(glossary_values() | changes))
        generator = intarsia.Generator(glossary_artifact, tokenizer=path)
        plain = generator.tokenizer.encode("violin", add_special_tokens=False).ids
        first, last = [0] * bool(add_bos), [1] * bool(add_eos)
        assert generator.encode("violin") == [*first, *plain, *last]
        assert generator.encode_document("violin") == [*first, *plain, 1]


def test_documents_end_with_the_end_of_a_text(glossary_artifact, tmp_path):
    """The end of a turn may be a smaller number."""
    path = write(tmp_path / "m.gguf", **(glossary_values() | {"eos_token_id": 3}))
    assert intarsia.Generator(glossary_artifact, tokenizer=path).encode_document("violin")[-1] == 3


def test_chat_template(tmp_path):
    hello = [{"role": "user", "content": "hello"}]
    assert read_gguf_text(write(tmp_path / "none.gguf", **glossary_values())).chat_template is None
    values = glossary_values() | {
        "tokenizer.chat_template": "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}",
        "tokenizer.chat_templates": ["tool_use"],
        "tokenizer.chat_template.tool_use": "tools",
    }
    template = read_gguf_text(write(tmp_path / "some.gguf", **values)).chat_template
    assert template.render(hello) == "<s>hello</s>"
    assert template.render(hello, tools=[{}]) == "tools"


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"model": "bert"}, intarsia.InvalidArgumentError, r"tokenizer\.ggml\.model is 'bert', known are 'gpt2'"),
        ({"model": None}, intarsia.InvalidArgumentError, r"has no tokenizer\.ggml\.model; give the tokenizer\.json"),
        ({"pre": "martian"}, intarsia.InvalidArgumentError, r"tokenizer\.ggml\.pre is 'martian', known are .*qwen2"),
        ({"pre": None}, intarsia.InvalidArgumentError, r"has no tokenizer\.ggml\.pre"),
        ({"token_type": [1, 1]}, intarsia.CorruptError, "4096 tokens, 2 token types"),
        ({"merges": ["ab"]}, intarsia.CorruptError, "the merge 'ab' is not two tokens with a space"),
        ({"merges": ["zzz yyy"]}, intarsia.CorruptError, "its tokenizer cannot be made"),
        ({"tokens": "none"}, intarsia.CorruptError, r"tokenizer\.ggml\.tokens is of type str, must be list"),
        ({"bos_token_id": 5000}, intarsia.CorruptError, "bos_token_id is 5000, there are 4096 tokens"),
        (
            {"merges": ["a b"] * 3, "eos_token_id": -1},
            intarsia.CorruptError,
            "eos_token_id is -1, there are 4096 tokens",
        ),
        (
            {"model": "llama", "tokens": ["a", "a" * 513], "token_type": [1, 1], "scores": [0.0, -1.0]},
            intarsia.CorruptError,
            "token 1 has 513 characters, those of SentencePiece have at most 512; give the tokenizer.json",
        ),
        ({"model": "llama", "scores": [0.0]}, intarsia.CorruptError, "4096 tokens, 1 scores"),
        (
            {"model": "llama", "scores": [0.0] * 4096, "remove_extra_whitespaces": True},
            intarsia.InvalidArgumentError,
            "remove_extra_whitespaces is not supported",
        ),
    ],
)
def test_files_that_are_refused(changes, kind, message, tmp_path):
    path = write(tmp_path / "m.gguf", **(glossary_values() | changes))
    with pytest.raises(kind, match=rf"m\.gguf: .*{message}"):
        read_gguf_text(path)


def test_no_gguf(tmp_path, monkeypatch):
    path = tmp_path / "m.gguf"
    path.write_bytes(write(tmp_path / "whole.gguf", **glossary_values()).read_bytes()[:5000])
    with pytest.raises(intarsia.CorruptError, match="is no GGUF file that can be read"):
        read_gguf_text(path)
    path.write_text("{}")
    with pytest.raises(intarsia.CorruptError, match="is no GGUF file that can be read"):
        read_gguf_text(path)
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(intarsia.NotFoundError, match=r"pip install 'intarsia\[gguf\]'"):
        read_gguf_text(path)
