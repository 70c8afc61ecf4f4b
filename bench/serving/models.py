# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The served model for each engine: the 1.1B shape of language_models.py with a longer context and a tokenizer.

Servers send texts, so that every engine needs the same tokenizer. It is a byte-level BPE of 32,000 tokens, trained on
the ASCII text of this repository, and has no other letters: a random model chooses any token, and one that is a part of a
letter is held back until the letter is whole, which would hide the time between tokens.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from harness import llama
from harness.program import ROOT, compile_model

NAME = "llama-1.1b-8k"
CONTEXT = 8192
BEGIN, END = 0, 1  # ids of the special tokens
SPECIAL = ["<s>", "</s>"]
# The bytes of ASCII as byte-level tokenizers write them: those that are not shown stand from U+0100 on, in their order.
ASCII = [chr(byte) for byte in range(33, 127)] + [chr(0x100 + index) for index in range(34)]
CORPUS = ("docs", "include", "lib", "dialects", "python", "tools", "test")
SUFFIXES = {".md", ".h", ".cpp", ".py", ".td", ".mlir"}


def make_directory(cache: Path) -> Path:
    """Makes the Hugging Face directory that every other form is made of; random weights."""
    folder = cache / NAME
    if (folder / "model.safetensors").exists() and (folder / "tokenizer.json").exists():
        return folder
    _say(f"Making {folder.name}")
    config = llama.BILLION | {"max_position_embeddings": CONTEXT, "bos_token_id": BEGIN, "eos_token_id": END}
    folder.mkdir(parents=True, exist_ok=True)
    write_tokenizer(folder, config["vocab_size"], corpus())
    llama.write_directory(folder, config, llama.random_weights(config))
    return folder


def train_tokenizer(size: int, texts: Iterable[str]) -> Any:
    """Returns a tokenizer, of the package `tokenizers`, that is trained on texts."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=SPECIAL,
        initial_alphabet=ASCII,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    if tokenizer.get_vocab_size() != size:
        raise RuntimeError(f"the texts give {tokenizer.get_vocab_size()} tokens, {size} are needed")
    return tokenizer


def write_tokenizer(folder: Path, size: int, texts: Iterable[str]) -> None:
    """Writes tokenizer.json and its configuration."""
    tokenizer = train_tokenizer(size, texts)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": SPECIAL[BEGIN],
        "eos_token": SPECIAL[END],
        "clean_up_tokenization_spaces": False,
        "model_max_length": CONTEXT,
        "chat_template": "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=1))


def make_gguf(cache: Path, format: str, llama_bin: Path) -> Path:
    """Makes a GGUF file with the `llama-quantize` beside the server that will read it."""
    target = cache / f"{NAME}-{format}.gguf"
    if target.exists():
        return target
    from safetensors.numpy import load_file

    folder = make_directory(cache)
    _say(f"Making {target.name}")
    plain, partial = cache / f"{NAME}-f16.gguf", target.with_suffix(".partial")
    config = llama.read_config(folder)
    llama.write_gguf(plain, config, load_file(folder / "model.safetensors"), folder / "tokenizer.json")
    command = [str(llama_bin / "llama-quantize"), str(plain), str(partial), format.upper(), "2"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    partial.rename(target)
    plain.unlink()
    return target


def make_openvino(cache: Path, python: Path) -> Path:
    """Makes OpenVINO's directory with `optimum-cli`, as its documentation does; scales for 32 weights, as in Q4_0."""
    target = cache / f"{NAME}-openvino-int4"
    if target.exists():
        return target
    folder = make_directory(cache)
    _say(f"Making {target.name}")
    partial = target.with_name(f"{target.name}.partial")
    command = [str(python.parent / "optimum-cli"), "export", "openvino", "--model", str(folder)]
    command += ["--task", "text-generation-with-past", "--weight-format", "int4", "--sym", "--group-size", "32"]
    subprocess.run([*command, str(partial)], check=True, env=os.environ | {"HF_HUB_OFFLINE": "1"})
    partial.rename(target)
    return target


def make_artifact(cache: Path, work: Path, build: Path, quantize: str) -> Path:
    """Compiles ours."""
    artifact = work / f"{NAME}-{quantize}.itx"
    compile_model(build, make_directory(cache), artifact, f"--quantize={quantize}")
    return artifact


def corpus() -> Iterator[str]:
    for top in CORPUS:
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix in SUFFIXES and path.is_file():
                yield path.read_bytes().decode("ascii", "ignore")


def _say(text: str) -> None:
    print(f"==> {text}", file=sys.stderr, flush=True)
