#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One engine with one language model and one task, as a worker of the harness (protocol: bench/common/Worker.h).

A call of "prefill" computes the prompts in an empty context and gives the logits after the last token of each. A call
of "decode" appends a token to each sequence, whose prompts were computed before. The context is reset when a sequence
is full.

"save PATH" writes the logits of the last call, [batch, vocabulary] as raw f32. "memory" gives what ours says of weights
that are read from the disk in each call.

usage: language_model_worker.py intarsia|llama.cpp|openvino|openvino-bf16 MODEL prefill|decode --tokens=512 --batch=1
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from harness.llama import load_llama_cpp

ROOM = 256  # tokens that are decoded before a prompt is computed again


class Engine(ABC):
    """Sequences of one model."""

    version = ""
    settings: dict[str, Any]

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.tokens, self.batch, self.threads = arguments.tokens, arguments.batch, arguments.threads
        self.memory = arguments.memory
        self.length = 0
        self.load(arguments.model)

    @abstractmethod
    def load(self, model: str) -> None:
        """Opens the model."""

    @abstractmethod
    def restart(self) -> None:
        """Forgets all sequences."""

    @abstractmethod
    def append(self, ids: list[list[int]]) -> None:
        """Appends tokens to each sequence, and computes the logits after the last of each."""

    @abstractmethod
    def logits(self) -> np.ndarray:
        """Returns the logits of the last call, [batch, vocabulary]."""

    def prefill(self) -> None:
        """Computes the prompts."""
        self.restart()
        self.append([[(7 * i + sequence) % 1000 + 3 for i in range(self.tokens)] for sequence in range(self.batch)])
        self.length = self.tokens

    def decode(self) -> None:
        """Appends one token."""
        self.append([[(7 * self.length + sequence) % 1000 + 3] for sequence in range(self.batch)])
        self.length += 1

    def prepare(self, task: str) -> None:
        """Prepares the state for a task; this is not timed."""
        if task == "decode" and (self.length == 0 or self.length >= self.tokens + ROOM):
            self.prefill()


class Intarsia(Engine):
    """The runtime's cache, through Python."""

    def load(self, model: str) -> None:
        import intarsia

        intarsia.set_threads(self.threads)
        self.module = intarsia.load(model, memory=self.memory or None)
        pages = self.batch * (-(-(self.tokens + ROOM) // 32) + 1)
        self.cache = intarsia.Cache(self.module, sequences=self.batch, pages=pages)
        self.version = f"Intarsia {intarsia.__version__}"
        self.settings = {"called through": "Python", "threads": self.threads}

    def restart(self) -> None:
        self.sequences: list[Any] = []
        self.sequences = [self.cache.sequence() for _ in range(self.batch)]

    def append(self, ids: list[list[int]]) -> None:
        chunks = [(sequence, tokens, 1) for sequence, tokens in zip(self.sequences, ids, strict=True)]
        self.result = self.cache.step(chunks)

    def logits(self) -> np.ndarray:
        return self.result


class LlamaCpp(Engine):
    """llama.cpp's C interface, through the ctypes binding."""

    def load(self, model: str) -> None:
        self.api = api = load_llama_cpp()
        parameters = api.llama_model_default_params()
        parameters.n_gpu_layers = 0
        if self.memory:
            parameters.use_extra_bufts = False  # weights that it lays out anew are in memory of the process, unmapped
        self.model = api.llama_model_load_from_file(model.encode(), parameters)
        context = api.llama_context_default_params()
        context.n_ctx = (self.tokens + ROOM + 1) * self.batch
        context.n_batch = self.tokens * self.batch
        context.n_ubatch = 512
        context.n_seq_max = self.batch
        context.n_threads = context.n_threads_batch = self.threads
        self.context = api.llama_init_from_model(self.model, context)
        self.tokens_of_call = api.llama_batch_init(self.tokens * self.batch, 0, 1)
        self.version = f"llama.cpp in llama-cpp-python {api.__version__}"
        self.settings = {"n_ubatch": 512, "threads": self.threads, "cache": "f16"}

    def restart(self) -> None:
        self.api.llama_memory_clear(self.api.llama_get_memory(self.context), True)
        self.length = 0

    def append(self, ids: list[list[int]], every_token: bool = False) -> None:
        batch, count = self.tokens_of_call, 0
        for sequence, tokens in enumerate(ids):
            for offset, token in enumerate(tokens):
                batch.token[count], batch.pos[count] = token, self.length + offset
                batch.n_seq_id[count], batch.seq_id[count][0] = 1, sequence
                batch.logits[count] = every_token or offset + 1 == len(tokens)
                count += 1
        batch.n_tokens = count
        if self.api.llama_decode(self.context, batch) != 0:
            raise RuntimeError("llama_decode failed")
        self.api.llama_synchronize(self.context)
        self.outputs = range(count) if every_token else np.cumsum([len(tokens) for tokens in ids]) - 1

    def logits(self) -> np.ndarray:
        size = self.api.llama_vocab_n_tokens(self.api.llama_model_get_vocab(self.model))
        rows = [self.api.llama_get_logits_ith(self.context, int(index)) for index in self.outputs]
        return np.stack([np.ctypeslib.as_array(row, shape=(size,)) for row in rows])


class OpenVino(Engine):
    """Matmuls in eight bits: the linears' inputs are quantized in groups of 32, attention is computed in f32."""

    precision = "f32"

    def load(self, model: str) -> None:
        import openvino

        configuration = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": self.threads,
            "NUM_STREAMS": 1,
            "INFERENCE_PRECISION_HINT": self.precision,
            "DYNAMIC_QUANTIZATION_GROUP_SIZE": 32,
            "KV_CACHE_PRECISION": "f16",
        }
        compiled = openvino.Core().compile_model(model, "CPU", configuration)
        self.request = compiled.create_infer_request()
        self.version = f"openvino {openvino.__version__.split('-')[0]}"
        self.settings = {"head": "int8", **{name: str(compiled.get_property(name)) for name in configuration}}

    def restart(self) -> None:
        self.request.reset_state()
        self.length = 0

    def append(self, ids: list[list[int]]) -> None:
        tokens = np.array(ids, np.int64)
        positions = np.tile(np.arange(self.length, self.length + tokens.shape[1]), (self.batch, 1))
        inputs = {"input_ids": tokens, "position_ids": positions, "beam_idx": np.arange(self.batch, dtype=np.int32)}
        self.result = self.request.infer(inputs, share_inputs=True, share_outputs=True)

    def logits(self) -> np.ndarray:
        return np.array(self.result["logits"])[:, -1]


class OpenVinoBf16(OpenVino):
    """OpenVINO's default on a CPU with bf16 matmuls: it widens weights to bf16, and quantizes no inputs."""

    precision = "bf16"


ENGINES: dict[str, type[Engine]] = {
    "intarsia": Intarsia,
    "llama.cpp": LlamaCpp,
    "openvino": OpenVino,
    "openvino-bf16": OpenVinoBf16,
}


def main() -> None:
    parser = argparse.ArgumentParser(description="One engine with a language model, as a worker of the harness.")
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("model")
    parser.add_argument("task", choices=("prefill", "decode"))
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--memory", type=int, default=0, help="bytes that the engine may use (default: no limit)")
    arguments = parser.parse_args()
    # Libraries may print to standard output, which is for answers.
    answers = os.dup(1)
    os.dup2(2, 1)

    def answer(value: dict[str, Any]) -> None:
        os.write(answers, json.dumps(value).encode() + b"\n")

    engine = ENGINES[arguments.engine](arguments)
    call = getattr(engine, arguments.task)
    engine.prepare(arguments.task)
    call()
    answer({"ready": True, "version": engine.version, "settings": engine.settings})
    for line in sys.stdin:
        command, _, rest = line.strip().partition(" ")
        if command == "save":
            engine.logits().astype("<f4").tofile(rest)
            answer({"saved": True})
            continue
        if command == "memory":
            answer({"memory": engine.module.memory})
            continue
        if command != "time":
            answer({"error": f"unknown command '{command}'"})
            continue
        calls, warmup = (int(word) for word in rest.split())
        ms = []
        for number in range(warmup + calls):
            engine.prepare(arguments.task)
            start = time.perf_counter()
            call()
            if number >= warmup:
                ms.append((time.perf_counter() - start) * 1e3)
        answer({"ms": ms})


if __name__ == "__main__":
    main()
