#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes gguf_goldens.json: two small vocabularies, and what llama.cpp makes of texts with them.

Needs: pip install gguf tokenizers sentencepiece xllamacpp. The tests need the first two.

The byte-level vocabulary is trained on text that is not cut into words, so that its merges go across every position
where one of the kinds of tokenizer.ggml.pre cuts. llama.cpp and SentencePiece must agree on the second vocabulary.

gguf_goldens.json: "bpe" {tokens, types, merges}, "spm" {tokens, types, scores}, "texts", "ids" of each text by kind,
for "spm" also without a space before ("spm, no prefix").
"""

from __future__ import annotations

import ctypes
import io
import json
import tempfile
from pathlib import Path

import numpy as np
import sentencepiece
from gguf import GGUFWriter
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

HERE = Path(__file__).resolve().parent
HELDOUT = HERE.parents[1] / "examples" / "glossary" / "heldout.txt"
KINDS = ["default", "gpt-2", "smollm", "llama-bpe", "dbrx", "qwen2", "gpt-4o", "tekken"]
SPECIAL = {"<s>": 3, "</s>": 3, "<|im_start|>": 3, "<|im_end|>": 3, "<tool>": 4, "    ": 4}
TEXTS = [
    "violin (noun): a string instrument",
    "It's what we'll see; they'RE here, I'Ve gone, you'd say SHE'S",
    "1 22 333 4444 55555 3.14159 2026-11-21 0x1F a1b2c3 ١٢٣٤",
    "  leading and   inner    spaces  ",
    "tabs\tand\n\nnew\r\nlines \n  indented\n\n\n",
    "def f(x):\n    return x**2 + {'a': [1, 2]}  # comment\n",
    "ÀÉÎ straße naïve café ﬁne Ǆungla ʰello e\u0301",
    "你好，世界。こんにちは 안녕하세요 Привет мир",
    "🙂👩‍👩‍👧 ✓ → ∑ © ½ ² €5",
    "HTTPServer camelCase XMLHttpRequest iPhone McDonald",
    "path/to/file.txt http://a.b/c?d=e&f#g",
    "<s>already</s> <|im_start|>user\nhello<|im_end|>\n<tool>call</tool>",
    "!!! ... --- ((())) $100 +5% <=> ^~|",
    "",
    " ",
    "\n",
    "a",
    "\u00a0no\u2003break\u3000wide",
    "don't 'quoted' \"double\" `tick` o'clock 'tis",
]


def corpus() -> list[str]:
    lines = HELDOUT.read_text().splitlines()[:300]
    return ["\n".join(lines[i : i + 3]) for i in range(0, 300, 3)] + [text for text in TEXTS if "<s>" not in text] * 6


def train_bpe() -> dict:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=1400, initial_alphabet=alphabet, show_progress=False, max_token_length=9)
    tokenizer.train_from_iterator(corpus(), trainer)
    model = json.loads(tokenizer.to_str())["model"]
    tokens = [*SPECIAL, *sorted(model["vocab"], key=model["vocab"].get)]
    # No merges lead to these.
    tokens += [word for word in ("Ġviolin", "Ġinstrument", "Ġcamel") if word not in tokens]
    types = [*SPECIAL.values(), *[1] * (len(tokens) - len(SPECIAL))]
    assert len(set(tokens)) == len(tokens)
    return {"tokens": tokens, "types": types, "merges": [" ".join(merge) for merge in model["merges"]]}


def train_spm() -> tuple[dict, bytes, bytes]:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(line for text in corpus() for line in text.split("\n")),
        model_writer=model,
        vocab_size=900,
        model_type="bpe",
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        character_coverage=0.999,
        user_defined_symbols=["<tool>"],
        control_symbols=["<|im_start|>", "<|im_end|>"],
        minloglevel=2,
    )
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    ids = range(pieces.get_piece_size())

    def kind(i: int) -> int:
        if pieces.is_byte(i):
            return 6
        return (
            2 if pieces.is_unknown(i) else 3 if pieces.is_control(i) else 4 if pieces.id_to_piece(i) == "<tool>" else 1
        )

    value = {
        "tokens": [pieces.id_to_piece(i) for i in ids],
        "types": [kind(i) for i in ids],
        "scores": [pieces.get_score(i) for i in ids],
    }
    return value, pieces


def write_model(path: Path, vocabulary: dict, settings: dict) -> None:
    """Write a GGUF file with the vocabulary and a model of one layer, which llama.cpp wants to see."""
    writer = GGUFWriter(str(path), "llama")
    add_vocabulary(writer, vocabulary, settings)
    width, count = 32, len(vocabulary["tokens"])
    writer.add_context_length(64)
    writer.add_embedding_length(width)
    writer.add_block_count(1)
    writer.add_feed_forward_length(width)
    writer.add_head_count(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(width)
    shapes = {"token_embd": (count, width), "output_norm": (width,), "output": (count, width)}
    for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        shapes[f"blk.0.{name}"] = (width, width)
    shapes |= {"blk.0.attn_norm": (width,), "blk.0.ffn_norm": (width,)}
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", np.zeros(shape, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_vocabulary(writer: GGUFWriter, vocabulary: dict, settings: dict) -> None:
    writer.add_tokenizer_model("gpt2" if "merges" in vocabulary else "llama")
    writer.add_token_list(vocabulary["tokens"])
    writer.add_token_types(vocabulary["types"])
    if "merges" in vocabulary:
        writer.add_token_merges(vocabulary["merges"])
    else:
        writer.add_token_scores(vocabulary["scores"])
    writer.add_bos_token_id(vocabulary["tokens"].index("<s>"))
    writer.add_eos_token_id(vocabulary["tokens"].index("</s>"))
    for name, value in settings.items():
        if isinstance(value, bool):
            writer.add_bool(f"tokenizer.ggml.{name}", value)
        else:
            writer.add_string(f"tokenizer.ggml.{name}", value)


class LlamaCpp:
    """The C interface of llama.cpp, in the library of the package xllamacpp."""

    class Parameters(ctypes.Structure):  # larger than llama_model_params, which is returned and passed in memory
        _fields_ = (("bytes", ctypes.c_char * 512),)

    def __init__(self) -> None:
        import xllamacpp

        self.library = ctypes.CDLL(xllamacpp.xllamacpp.__file__)
        self.library.llama_model_default_params.restype = self.Parameters
        self.library.llama_model_load_from_file.restype = ctypes.c_void_p
        self.library.llama_model_load_from_file.argtypes = [ctypes.c_char_p, self.Parameters]
        self.library.llama_model_get_vocab.restype = ctypes.c_void_p
        self.library.llama_model_get_vocab.argtypes = [ctypes.c_void_p]
        text = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32]
        self.library.llama_tokenize.argtypes = [*text, ctypes.c_void_p, ctypes.c_int32, ctypes.c_bool, ctypes.c_bool]
        self.library.ggml_backend_load_all()
        self.library.llama_backend_init()

    def encode(self, path: Path, texts: list[str]) -> list[list[int]]:
        parameters = self.library.llama_model_default_params()
        model = self.library.llama_model_load_from_file(str(path).encode(), parameters)
        assert model
        vocabulary = self.library.llama_model_get_vocab(model)
        result = []
        for text in texts:
            ids = (ctypes.c_int32 * 1000)()
            raw = text.encode()
            count = self.library.llama_tokenize(vocabulary, raw, len(raw), ids, 1000, True, True)
            result.append(list(ids[:count]))
        return result


def main() -> None:
    llama_cpp = LlamaCpp()
    bpe, (spm, pieces) = train_bpe(), train_spm()
    ids = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        for kind in KINDS:
            write_model(path, bpe, {"pre": kind})
            ids[kind] = llama_cpp.encode(path, TEXTS)
        for name, settings in (("spm", {}), ("spm, no prefix", {"add_space_prefix": False})):
            write_model(path, spm, settings)
            ids[name] = llama_cpp.encode(path, TEXTS)
    plain = [i for i, text in enumerate(TEXTS) if "<" not in text and text]
    assert [ids["spm"][i] for i in plain] == [[1, *pieces.encode(TEXTS[i])] for i in plain]
    golden = {"bpe": bpe, "spm": spm, "texts": TEXTS, "ids": ids}
    (HERE / "gguf_goldens.json").write_text(json.dumps(golden, ensure_ascii=False) + "\n")
    print({kind: sum(map(len, value)) for kind, value in ids.items()})


if __name__ == "__main__":
    main()
