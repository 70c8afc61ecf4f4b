#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes gguf_goldens.json: two small vocabularies, and what llama.cpp makes of texts with them.

Needs: pip install gguf tokenizers sentencepiece xllamacpp. The tests need the first two.

The byte-level vocabulary is trained on text that is not cut into words, so that its merges go across every position
where one of the kinds of tokenizer.ggml.pre cuts. llama.cpp and SentencePiece must agree on the second vocabulary.

gguf_goldens.json: "bpe" {tokens, types, merges}, "spm" {tokens, types, scores}, "texts", "ids" of each text by kind,
"settings" by kind: metadata other than these ("pre" is tokenizer.ggml.pre), null for one that is left out; "chat_tokens":
control tokens that the kinds with "chat" have too; "ends": other vocabularies {tokens, types, settings} with the "ids" of
the tokens at which llama.cpp ends an answer.
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
    "<unk>x <unk>\n<s> y </s>\n\n z<|im_end|> \t<tool>\n w<s>\n<|im_start|>",
    "<s><|user|>\nhello world<|end|>\n<|assistant|>\n yes<|end|> <|endoftext|>\n\n<|user|> \n what <|end|>  ",
]
SETTINGS = {kind: {"pre": kind} for kind in KINDS} | {
    "gpt-2, begin and end": {"pre": "gpt-2", "add_bos_token": True, "add_eos_token": True},
    "llama-bpe, no begin": {"pre": "llama-bpe", "add_bos_token": False},
    "spm": {},
    "spm, no prefix": {"add_space_prefix": False},
    "spm, no begin, but an end": {"add_bos_token": False, "add_eos_token": True},
    "spm, no tokens": {"bos_token_id": None, "eos_token_id": None},
    "spm, chat": {"general.name": "Phi 2"},
    "spm, chat of Phi-3": {"general.name": "My PHI3 mini"},
    "spm, chat of Phi-3.5": {"general.name": "phi-3.5"},
}
CHAT_TOKENS = ["<|endoftext|>", "<|assistant|>", "<|end|>", "<|user|>"]  # more tokens of the kinds with "chat"
# Names of tokens, those that are not control tokens with their type; the first is what eos_token_id says.
ENDS = {
    "llama 3": (["<|end_of_text|>", "<|begin_of_text|>", "<|eot_id|>", "<|eom_id|>", "<|start_header_id|>"], {}),
    "llama 3 with keys": (["<|end_of_text|>", "<|eot_id|>", "<|eom_id|>"], {"eot_token_id": 1, "eom_token_id": 2}),
    "ChatML": (["<|endoftext|>", "<|im_start|>", "<|im_end|>"], {}),
    "another eot": (["<|im_end|>", "<|im_start|>", "<|endoftext|>"], {"eot_token_id": 1}),
    "Phi-3": (["<|endoftext|>", "<|assistant|>", "<|end|>", "<|user|>", "</s>"], {}),
    "Gemma": (["<eos>", "<bos>", "<start_of_turn>", "<end_of_turn>", ("</s>", 4)], {}),
    "gpt-oss": (["<|return|>", "<|end|>", "<|call|>", "<|start|>", "<|channel|>", "<|endoftext|>"], {}),
    "half of gpt-oss": (["<|return|>", "<|end|>", "<|start|>"], {}),
    "Solar": (["<|flush|>", "<|end|>", "<|calls|>"], {}),
    "end is the eot": (["<|return|>", "<|end|>", "<|call|>"], {"eot_token_id": 1}),
    "Qwen coder": (["<|im_end|>", "<|fim_pad|>", "<|fim_prefix|>", "<|repo_name|>", "<|file_sep|>"], {}),
    "named fim tokens": (
        ["</s>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "<a>", "<b>", "<c>"],
        {"fim_pad_token_id": 4, "fim_rep_token_id": 5, "fim_sep_token_id": 6},
    ),
    "Kimi": (["[EOS]", "[EOT]", "[PAD]", "[BOS]"], {}),
    "DeepSeek": (["<｜end▁of▁sentence｜>", "<｜begin▁of▁sentence｜>", ("<EOT>", 4), ("_<EOT>", 4)], {}),
    "Gemma 4": (["<eos>", "<turn|>", "<|tool_response>", ("</s>", 4)], {}),
    "PLaMo": (["<|plamo:eos|>", "</s>"], {}),
    "others": (["<end_of_utterance>", "[e~[", "<fim-pad>", "<fim-repo>"], {}),
    "of other types": (["<x>", ("<|im_end|>", 1), ("<|eot_id|>", 5), ("<EOT>", 6), ("<|file_sep|>", 1)], {}),
    "no tokens of this kind": (["<x>", "<|eot|>", "<|endofprompt|>", "<|EOT|>"], {}),
}


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
    if "<s>" in vocabulary["tokens"]:
        usual = {"bos_token_id": vocabulary["tokens"].index("<s>"), "eos_token_id": vocabulary["tokens"].index("</s>")}
        settings = usual | settings
    for name, value in settings.items():
        key = name if "." in name else f"tokenizer.ggml.{name}"
        if isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, int):
            writer.add_uint32(key, value)
        elif value is not None:
            writer.add_string(key, value)


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
        self.library.llama_vocab_is_eog.argtypes = [ctypes.c_void_p, ctypes.c_int32]
        self.library.llama_vocab_is_eog.restype = ctypes.c_bool
        self.library.ggml_backend_load_all()
        self.library.llama_backend_init()

    def vocabulary(self, path: Path) -> int:
        parameters = self.library.llama_model_default_params()
        model = self.library.llama_model_load_from_file(str(path).encode(), parameters)
        assert model
        return self.library.llama_model_get_vocab(model)

    def ends(self, path: Path, tokens: int) -> list[int]:
        vocabulary = self.vocabulary(path)
        return [token for token in range(tokens) if self.library.llama_vocab_is_eog(vocabulary, token)]

    def encode(self, path: Path, texts: list[str]) -> list[list[int]]:
        vocabulary = self.vocabulary(path)
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
    ids, ends = {}, []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        for kind, settings in SETTINGS.items():
            vocabulary = spm if kind.startswith("spm") else bpe
            if "chat" in kind:
                more = {"tokens": CHAT_TOKENS, "types": [3] * len(CHAT_TOKENS), "scores": [0.0] * len(CHAT_TOKENS)}
                vocabulary = {key: vocabulary[key] + more[key] for key in more}
            write_model(path, vocabulary, settings)
            ids[kind] = llama_cpp.encode(path, TEXTS)
        for name, (special, settings) in ENDS.items():
            pairs = [(token, 3) if isinstance(token, str) else token for token in special]
            pairs += [(token, 1) for token in "abc"]
            value = {"tokens": [token for token, _ in pairs], "types": [kind for _, kind in pairs]}
            settings = {"pre": "gpt-2", "eos_token_id": 0, **settings}
            write_model(path, value | {"merges": ["a b"]}, settings)
            ends.append({"name": name, **value, "settings": settings, "ids": llama_cpp.ends(path, len(pairs))})
    plain = [i for i, text in enumerate(TEXTS) if "<" not in text and text]
    assert [ids["spm"][i] for i in plain] == [[1, *pieces.encode(TEXTS[i])] for i in plain]
    golden = {
        "bpe": bpe,
        "spm": spm,
        "texts": TEXTS,
        "settings": SETTINGS,
        "chat_tokens": CHAT_TOKENS,
        "ids": ids,
        "ends": ends,
    }
    (HERE / "gguf_goldens.json").write_text(json.dumps(golden, ensure_ascii=False) + "\n")
    print({kind: sum(map(len, value)) for kind, value in ids.items()})


if __name__ == "__main__":
    main()
