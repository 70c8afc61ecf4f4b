#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One engine with one model and one input, as a worker of the harness (protocol: bench/common/Worker.h).

usage: engine_worker.py ENGINE CASE --cache=DIRECTORY --threads=N [--artifact=m.itx] [--runtime=LIBRARY]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
from harness.capi import Runtime
from harness.cases import CASES, make_inputs, model_directory, onnx_file, quantized_file


class Engine(ABC):
    """An engine under measurement: `load` once, `call` again and again."""

    version = ""
    settings: dict[str, Any]

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.case = CASES[arguments.case]
        self.inputs = make_inputs(self.case)
        self.settings = {}
        self.prepare()

    def prepare(self) -> None:  # noqa: B027 - most engines have nothing to do here
        """Does imports and other work that the time to the first answer does not include."""

    @abstractmethod
    def load(self) -> None:
        """Loads the model's file, so that it can be called."""

    @abstractmethod
    def call(self) -> Any:
        """Runs one call; the result is complete when it returns."""

    def last_hidden_state(self, result: Any) -> np.ndarray:
        """Returns the first output of a result."""
        return np.asarray(result[0])


class Intarsia(Engine):
    """The C API through ctypes."""

    def prepare(self) -> None:
        self.runtime = Runtime(self.arguments.runtime)
        self.runtime.set_threads(self.arguments.threads)
        self.version = f"Intarsia {self.runtime.version()}"
        self.settings = {
            "called through": "C API",
            "artifact": "one for all sizes",
            "threads": self.arguments.threads,
        }

    def load(self) -> None:
        self.function = self.runtime.load(self.arguments.artifact).function("main")
        self.tensors = self.function.wrap(self.inputs)

    def call(self) -> Any:
        return self.function(self.tensors)


class OnnxRuntime(Engine):
    """The CPU provider with all graph optimisations, its shapes fixed to the case."""

    def prepare(self) -> None:
        import onnxruntime

        self.module = onnxruntime
        self.version = f"onnxruntime {onnxruntime.__version__}"
        self.settings = {
            "graph optimisation": "all",
            "intra_op_num_threads": self.arguments.threads,
            "inter_op_num_threads": 1,
            "shapes": "fixed to the case",
            "precision": "f32",
        }

    def load(self) -> None:
        options = self.module.SessionOptions()
        options.intra_op_num_threads = self.arguments.threads
        options.inter_op_num_threads = 1
        options.graph_optimization_level = self.module.GraphOptimizationLevel.ORT_ENABLE_ALL
        for name, size in zip(("batch", "sequence"), self.case.sizes, strict=False):
            options.add_free_dimension_override_by_name(name, size)
        self.session = self.module.InferenceSession(str(self.file()), options, providers=["CPUExecutionProvider"])

    def file(self) -> Path:
        return onnx_file(self.arguments.cache, self.case.model)

    def call(self) -> Any:
        return self.session.run(None, self.inputs)


class OnnxRuntimeDynamic(OnnxRuntime):
    """The same with weights and inputs of matrix multiplications in 8 bits, scales of inputs found at the call."""

    kind = "onnxruntime-int8-dynamic"

    def prepare(self) -> None:
        super().prepare()
        self.settings["precision"] = self.kind.removeprefix("onnxruntime-")

    def file(self) -> Path:
        return quantized_file(self.arguments.cache, self.case.model, self.kind)


class OnnxRuntimeStatic(OnnxRuntimeDynamic):
    """The same with calibrated scales."""

    kind = "onnxruntime-int8-static"


class OpenVino(Engine):
    """Latency hint, f32 forced (its default on this kind of CPU is bf16), shapes fixed to the case."""

    def prepare(self) -> None:
        import openvino

        self.module = openvino
        self.version = f"openvino {openvino.__version__.split('-')[0]}"
        self.configuration = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "f32",
            "INFERENCE_NUM_THREADS": self.arguments.threads,
            "NUM_STREAMS": 1,
        }
        self.settings = {**self.configuration, "shapes": "fixed to the case"}

    def file(self) -> Path:
        return onnx_file(self.arguments.cache, self.case.model)

    def load(self) -> None:
        core = self.module.Core()
        model = core.read_model(str(self.file()))
        model.reshape({name: list(array.shape) for name, array in self.inputs.items()})
        self.request = core.compile_model(model, "CPU", self.configuration).create_infer_request()

    def call(self) -> Any:
        return self.request.infer(self.inputs, share_inputs=True, share_outputs=True)

    def last_hidden_state(self, result: Any) -> np.ndarray:
        return np.array(result[0])


class OpenVinoInt8(OpenVino):
    """The same with the model that NNCF quantizes to 8 bits; what is not quantized is in f32."""

    def file(self) -> Path:
        return quantized_file(self.arguments.cache, self.case.model, "openvino-int8")


class OpenVinoInt8Default(OpenVinoInt8):
    """The same in the precision that OpenVINO chooses for what is not quantized: bf16 on processors that have it."""

    def prepare(self) -> None:
        super().prepare()
        del self.configuration["INFERENCE_PRECISION_HINT"]
        self.settings["INFERENCE_PRECISION_HINT"] = "default"


class Torch(Engine):
    """PyTorch as it runs by default: eager, fused attention, inference mode."""

    def prepare(self) -> None:
        os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
        import torch
        import transformers  # noqa: F401 - imported here, so that loading is not charged for it
        from make_models import load_torch

        self.module = torch
        self.load_torch = load_torch
        torch.set_num_threads(self.arguments.threads)
        torch.set_float32_matmul_precision("highest")
        self.tensors = {name: torch.from_numpy(array) for name, array in self.inputs.items()}
        self.version = f"torch {torch.__version__}"
        self.settings = {
            "attention": "sdpa",
            "set_num_threads": self.arguments.threads,
            "float32_matmul_precision": "highest",
        }

    def load(self) -> None:
        self.model = self.load_torch(model_directory(self.arguments.cache, self.case.model))

    def call(self) -> Any:
        with self.module.inference_mode():
            return self.model(**self.tensors)

    def last_hidden_state(self, result: Any) -> np.ndarray:
        return result.last_hidden_state.numpy()


class TorchCompile(Torch):
    """torch.compile with frozen weights, which lets Inductor pack them for oneDNN: the faster of its settings."""

    def prepare(self) -> None:
        os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
        super().prepare()
        self.settings |= {"backend": "inductor", "freezing": True, "dynamic": False}

    def load(self) -> None:
        import torch._inductor.config as inductor

        inductor.freezing = True
        super().load()
        self.model = self.module.compile(self.model, dynamic=False)

    def call(self) -> Any:
        # Freezing asks for no_grad; it does not apply under inference_mode.
        with self.module.no_grad():
            return self.model(**self.tensors)


ENGINES: dict[str, type[Engine]] = {
    "intarsia": Intarsia,
    "onnxruntime": OnnxRuntime,
    "onnxruntime-int8-dynamic": OnnxRuntimeDynamic,
    "onnxruntime-int8-static": OnnxRuntimeStatic,
    "openvino": OpenVino,
    "openvino-int8": OpenVinoInt8,
    "openvino-int8-default": OpenVinoInt8Default,
    "torch": Torch,
    "torch.compile": TorchCompile,
}


def serve(engine: Engine, answers: int) -> None:
    """Loads, calls once, and then answers the harness."""

    def answer(value: dict[str, Any]) -> None:
        os.write(answers, json.dumps(value).encode() + b"\n")

    start = time.perf_counter()
    engine.load()
    loaded = time.perf_counter()
    result = engine.call()
    first = time.perf_counter()
    answer(
        {
            "ready": True,
            "version": engine.version,
            "settings": engine.settings,
            "load_ms": (loaded - start) * 1e3,
            "first_answer_ms": (first - start) * 1e3,
        }
    )
    for line in sys.stdin:
        command, _, rest = line.strip().partition(" ")
        if command == "time":
            calls, warmup = (int(word) for word in rest.split())
            for _ in range(warmup):
                engine.call()
            ms = []
            for _ in range(calls):
                start = time.perf_counter()
                result = engine.call()
                ms.append((time.perf_counter() - start) * 1e3)
            answer({"ms": ms})
        elif command == "save":
            engine.last_hidden_state(result).astype("<f4").tofile(rest)
            answer({"saved": True})
        else:
            answer({"error": f"unknown command '{command}'"})


def main() -> None:
    parser = argparse.ArgumentParser(description="One engine as a worker of the harness.")
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--cache", type=Path, required=True, help="folder of make_models.py")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--artifact", type=Path, help="compiled model, for the engine intarsia")
    parser.add_argument("--runtime", type=Path, help="libintarsia_runtime.so, for the engine intarsia")
    arguments = parser.parse_args()
    # Output of libraries on standard output must not be mistaken for an answer.
    answers = os.dup(1)
    os.dup2(2, 1)
    serve(ENGINES[arguments.engine](arguments), answers)


if __name__ == "__main__":
    main()
