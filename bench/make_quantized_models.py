#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes the measured models in 8 bits for the peers, from the ONNX files of make_models.py; existing ones are kept.

OpenVINO's are quantized after training by NNCF with its settings for transformers, ONNX Runtime's statically (QDQ,
weights by channel) and dynamically, after its own optimizer has fused what it knows. Calibration reads MiniLM's texts
(`sentences`), for models of random weights random tokens, and normal values for pixels.

usage: make_quantized_models.py [--cache=build/bench/models] [--models=minilm,bert,vit]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from harness.cases import MODELS, model_directory, onnx_file, quantized_file
from harness.program import some_of

ROOT = Path(__file__).resolve().parent.parent
HELD_OUT = ROOT / "examples/glossary/heldout.txt"
# Lines that are measured on, and those that peers are calibrated with.
MEASURED_SENTENCES = 500
CALIBRATION_SENTENCES = 128
TOKENS = 128
# ONNX Runtime quantizes these ops alone: it is slower where sums, norms and softmax are quantized too.
OPERATORS = ["MatMul", "Gemm", "Conv"]


def sentences(held_out: bool) -> list[str]:
    """Returns sentences to measure on, or others to calibrate with: entries of the example's dictionary."""
    lines = HELD_OUT.read_text().splitlines()
    begin = 0 if held_out else MEASURED_SENTENCES
    return lines[begin : begin + (MEASURED_SENTENCES if held_out else CALIBRATION_SENTENCES)]


def tokenize(directory: Path, texts: list[str]) -> list[dict[str, np.ndarray]]:
    """Returns inputs of a model, [1, tokens], one for each text."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(TOKENS)
    ids = [np.asarray([tokenizer.encode(text).ids], np.int64) for text in texts]
    return [{"input_ids": row, "attention_mask": np.ones_like(row)} for row in ids]


def calibration_inputs(cache: Path, model: str) -> list[dict[str, np.ndarray]]:
    """Returns inputs of a model that peers are calibrated with."""
    directory = model_directory(cache, model)
    if (directory / "tokenizer.json").exists():
        return tokenize(directory, sentences(held_out=False))
    generator, description = np.random.default_rng(1), MODELS[model]
    if description.patches:
        shape = (1, *description.feature_shape)
        return [{"pixel_values": generator.standard_normal(shape).astype(np.float32)} for _ in range(32)]
    rows = [generator.integers(1000, description.vocabulary, (1, TOKENS)) for _ in range(32)]
    return [{"input_ids": row, "attention_mask": np.ones_like(row)} for row in rows]


def make_openvino(cache: Path, model: str, target: Path) -> None:
    import nncf
    import openvino

    inputs = calibration_inputs(cache, model)
    read = openvino.Core().read_model(str(onnx_file(cache, model)))
    made = nncf.quantize(read, nncf.Dataset(inputs), subset_size=len(inputs), model_type=nncf.ModelType.TRANSFORMER)
    openvino.save_model(made, str(target), compress_to_fp16=False)


def optimized(cache: Path, model: str) -> Path:
    """Returns the model as ONNX Runtime's optimizer of transformers fuses it."""
    from onnxruntime.transformers import optimizer

    target = quantized_file(cache, model, "onnxruntime-optimized")
    if not target.exists():
        description = MODELS[model]
        fused = optimizer.optimize_model(
            str(onnx_file(cache, model)),
            model_type="vit" if description.patches else "bert",
            num_heads=description.hidden // (32 if model == "minilm" else 64),
            hidden_size=description.hidden,
            opt_level=1,
        )
        fused.save_model_to_file(str(target))
    return target


def make_dynamic(cache: Path, model: str, target: Path) -> None:
    from onnx import TensorProto
    from onnxruntime.quantization import QuantType, quantize_dynamic

    # Shape inference does not know the types of what the fused ops give.
    options = {"DefaultTensorType": TensorProto.FLOAT}
    quantize_dynamic(
        str(optimized(cache, model)),
        str(target),
        weight_type=QuantType.QInt8,
        per_channel=True,
        extra_options=options,
    )


def make_static(cache: Path, model: str, target: Path) -> None:
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self.rows: Iterator[dict[str, Any]] = iter(calibration_inputs(cache, model))

        def get_next(self) -> dict[str, Any] | None:
            return next(self.rows, None)

    prepared = target.with_suffix(".prepared.onnx")
    quant_pre_process(str(onnx_file(cache, model)), str(prepared), skip_symbolic_shape=True)
    quantize_static(
        str(prepared),
        str(target),
        Reader(),
        quant_format=QuantFormat.QDQ,
        op_types_to_quantize=OPERATORS,
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )
    prepared.unlink()


KINDS = {
    "openvino-int8": make_openvino,
    "onnxruntime-int8-dynamic": make_dynamic,
    "onnxruntime-int8-static": make_static,
}


def make_quantized_models(cache: Path, models: list[str]) -> None:
    """Makes what is missing in `cache`."""
    for model in models:
        for kind, make in KINDS.items():
            target = quantized_file(cache, model, kind)
            if target.exists():
                continue
            print(f"==> Making {target.name}", flush=True)
            partial = target.with_name(f"partial-{target.name}")
            make(cache, model, partial)
            if partial.with_suffix(".bin").exists():
                partial.with_suffix(".bin").rename(target.with_suffix(".bin"))
            partial.rename(target)


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes the measured models in 8 bits for the peers.")
    parser.add_argument("--cache", type=Path, default=ROOT / "build/bench/models", help="folder of make_models.py")
    parser.add_argument("--models", type=some_of(MODELS), default=list(MODELS))
    arguments = parser.parse_args()
    make_quantized_models(arguments.cache, arguments.models)


if __name__ == "__main__":
    main()
