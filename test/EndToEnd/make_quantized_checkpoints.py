#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes quantized/NAME: a small Llama, quantized by the packages that others quantize with, and what they make of it.

Needs: pip install torch transformers compressed-tensors safetensors numpy, and beside them, for their formulas alone,
pip install --no-deps --target FOLDER auto-gptq==0.7.1 autoawq==0.2.7.post3, with FOLDER in PYTHONPATH; for the last
checkpoints pip install bitsandbytes==0.50.2 torchao==0.18.0 alone. The tests need none of these: what this script writes is committed.

golden.npz: input_ids int64 [tokens], logits float32 [tokens, vocabulary] of transformers with the dequantized weights in
float32, modules [matrices], and hashes: SHA-256 of each matrix as the package dequantizes it in float32, row-major. The
script checks that these, rounded to the type of the scales, are what the package gives by itself.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import re
import shutil
import sys
import types
import typing
from pathlib import Path

import numpy as np
import safetensors.torch
import torch
import transformers
from make_decoders import randomize

HERE = Path(__file__).resolve().parent
SETTINGS = {
    "vocab_size": 99,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "max_position_embeddings": 64,
    "head_dim": 16,
    "tie_word_embeddings": True,
    "attn_implementation": "eager",
}
Tensors = dict[str, torch.Tensor]
if typing.TYPE_CHECKING:
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme


def make_model(seed: int) -> transformers.PreTrainedModel:
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SETTINGS))
    randomize(model, seed)
    return model.eval()


def matrices_of(model: transformers.PreTrainedModel) -> dict[str, torch.nn.Linear]:
    return {name: module for name, module in model.named_modules() if name.endswith("_proj")}


def write(name: str, seed: int, config: dict[str, object], dtype: torch.dtype, quantize) -> None:
    """Writes one checkpoint; `quantize(module, weight)` gives its tensors and its matrix in float32."""
    if sys.argv[1:] and name not in sys.argv[1:]:
        return
    model = make_model(seed).to(dtype)
    folder = HERE / "quantized" / name
    shutil.rmtree(folder, ignore_errors=True)
    tensors = {key: value for key, value in model.state_dict().items() if key != "lm_head.weight"}
    dequantized: Tensors = {}
    for module, linear in matrices_of(model).items():
        parts, dequantized[module] = quantize(module, linear.weight.detach())
        del tensors[module + ".weight"]
        tensors |= {f"{module}.{part}": value.detach().contiguous() for part, value in parts.items()}
    folder.mkdir(parents=True)
    safetensors.torch.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)
    settings = model.config.to_dict() | {"architectures": ["LlamaForCausalLM"], "quantization_config": config}
    settings = {key: value for key, value in settings.items() if key in SETTINGS or key in KEPT}
    settings["dtype"] = str(dtype).removeprefix("torch.")
    (folder / "config.json").write_text(json.dumps(settings, indent=2) + "\n")

    # Tables that a model computes of its settings are in float32, whatever it is stored in.
    stored, model = model.state_dict(), make_model(seed)
    model.load_state_dict({key: value.float() for key, value in stored.items()})
    for module, linear in matrices_of(model).items():
        linear.weight.data.copy_(dequantized[module])
    ids = np.random.default_rng(seed).integers(0, 99, 20)
    with torch.no_grad():
        logits = model(torch.from_numpy(ids)[None]).logits[0].numpy()
    hashes = [hashlib.sha256(value.contiguous().numpy().tobytes()).hexdigest() for value in dequantized.values()]
    np.savez_compressed(folder / "golden.npz", input_ids=ids, logits=logits, modules=list(dequantized), hashes=hashes)
    print(name, "largest logit", np.abs(logits).max())


KEPT = ("architectures", "model_type", "rms_norm_eps", "rope_parameters", "quantization_config", "hidden_act")


# -- compressed-tensors ------------------------------------------------------------------------------------------------


def scales_of(weight: torch.Tensor, args: QuantizationArgs, global_scale: torch.Tensor | None) -> tuple:
    """Scales and zero points of the strategy of `args`, as the package's observers find them."""
    from compressed_tensors.quantization.utils import calculate_qparams

    rows, columns = weight.shape
    if args.strategy == "tensor":
        low, high = weight.min().reshape(1), weight.max().reshape(1)
    elif args.strategy == "channel":
        low, high = weight.amin(1, keepdim=True), weight.amax(1, keepdim=True)
    elif args.strategy == "block":
        height, width = args.block_structure
        blocks = weight.reshape(rows // height, height, columns // width, width)
        low, high = blocks.amin((1, 3)), blocks.amax((1, 3))
    else:
        groups = weight.reshape(rows, -1, args.group_size)
        low, high = groups.amin(2), groups.amax(2)
    return calculate_qparams(low, high, args, global_scale)


def compress(scheme: QuantizationScheme, weight: torch.Tensor) -> tuple[Tensors, torch.Tensor]:
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization.utils import generate_gparam

    args, compressor = scheme.weights, BaseCompressor.get_value_from_registry(scheme.format)
    global_scale = None
    if args.strategy == "tensor_group":
        global_scale = generate_gparam(weight.min(), weight.max())
    scale, zero = scales_of(weight.float() if global_scale is not None else weight, args, global_scale)
    state = {"weight": weight, "weight_scale": scale, "weight_zero_point": zero}
    if global_scale is not None:
        state["weight_global_scale"] = global_scale
    stored = compressor.compress(state, scheme)
    own = compressor.decompress(stored, scheme)["weight"]
    wide = dict(stored)
    if "weight_global_scale" in stored or scheme.format.startswith("mxfp4"):
        exact = decompress_floats4(stored, args)
    else:
        wide["weight_scale"] = stored["weight_scale"].float()
        exact = compressor.decompress(wide, scheme)["weight"]
    assert exact.dtype == torch.float32
    if args.strategy != "tensor_group":  # of which the package rounds the product with a scale that it has rounded
        assert torch.equal(exact.to(own.dtype), own), scheme.format
    return stored, exact


def decompress_floats4(stored: Tensors, args: QuantizationArgs) -> torch.Tensor:
    """Dequantizes in float32, by the package's functions, where it would in bfloat16."""
    from compressed_tensors.compressors.mx_utils import decompress_mx_scale
    from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
    from compressed_tensors.quantization.lifecycle.forward import dequantize

    packed, scale = stored["weight_packed"], stored["weight_scale"]
    values = unpack_fp4_from_uint8(packed, packed.shape[0], packed.shape[1] * 2, dtype=torch.float32)
    scale = decompress_mx_scale(scale).float() if scale.dtype == torch.uint8 else scale.float()
    return dequantize(values, scale, args=args, global_scale=stored.get("weight_global_scale"), dtype=torch.float32)


def write_compressed(name: str, seed: int, format: str, groups: list[dict[str, object]]) -> None:
    from compressed_tensors.quantization import QuantizationConfig, QuantizationScheme

    schemes = [QuantizationScheme(**group) for group in groups]
    config = QuantizationConfig(
        config_groups={f"group_{number}": scheme for number, scheme in enumerate(schemes)},
        format=format,
        quantization_status="compressed",
        ignore=["lm_head"],
    )

    def quantize(module: str, weight: torch.Tensor) -> tuple[Tensors, torch.Tensor]:
        for scheme in schemes:
            if any(re.match(target.removeprefix("re:"), module) for target in scheme.targets if "re:" in target):
                return compress(scheme.model_copy(update={"format": scheme.format or format}), weight)
        (scheme,) = (scheme for scheme in schemes if "Linear" in scheme.targets)
        return compress(scheme.model_copy(update={"format": scheme.format or format}), weight)

    write(name, seed, json.loads(config.model_dump_json()), torch.bfloat16, quantize)


# -- GPTQ and AWQ ------------------------------------------------------------------------------------------------------


def import_file(package: str, module: str) -> types.ModuleType:
    """Imports one module of a package without running those that contain it, which need other versions of others."""
    if package not in sys.modules:
        path = importlib.util.find_spec(package).submodule_search_locations
        sys.modules[package] = types.ModuleType(package)
        sys.modules[package].__path__ = list(path)
    *parents, _ = module.split(".")
    folder, name = Path(sys.modules[package].__path__[0]), package
    for parent in parents:
        folder, name = folder / parent, f"{name}.{parent}"
        if name not in sys.modules:
            sys.modules[name] = types.ModuleType(name)
            sys.modules[name].__path__ = [str(folder)]
    return importlib.import_module(f"{package}.{module}")


def groups_of(weight: torch.Tensor, group: int, bits: int, symmetric: bool, order: np.ndarray) -> tuple:
    """Scales, zero points [rows, groups] and the group of each column, of columns in an order."""
    rows, columns = weight.shape
    index = torch.zeros(columns, dtype=torch.int32)
    index[torch.from_numpy(order)] = torch.arange(columns, dtype=torch.int32) // group
    blocks = weight.float()[:, torch.from_numpy(order)].reshape(rows, -1, group)
    low, high = blocks.amin(2).clamp(max=0), blocks.amax(2).clamp(min=0)
    if symmetric:
        high = torch.maximum(-low, high)
        low = -high
    scale = ((high - low) / (2**bits - 1)).half()
    zero = torch.full_like(scale, 2 ** (bits - 1)) if symmetric else torch.round(-low / scale).half()
    # AutoGPTQ stores zero points minus one, and spoils the neighbours of those that are zero.
    return scale, zero.clamp(min=1), index


def quantize_gptq(module: str, weight: torch.Tensor, bits: int, group: int) -> tuple[Tensors, torch.Tensor]:
    qlinear = import_file("auto_gptq", "nn_modules.qlinear.qlinear_cuda")
    rows, columns = weight.shape
    rng = np.random.default_rng(sum(module.encode()))
    # Layer 1 has its columns in order; there are layers without zero points too.
    order = rng.permutation(columns) if "layers.0" in module else np.arange(columns)
    scale, zero, index = groups_of(weight, group, bits, "k_proj" in module, order)
    linear = torch.nn.Linear(columns, rows, bias=False)
    linear.weight.data = weight.float()
    layer = qlinear.QuantLinear(bits, group, columns, rows, False, weight_dtype=torch.float16)
    layer.pack(linear, scale.float(), zero.float(), index)
    layer.scales = layer.scales.half()
    stored = {part: getattr(layer, part) for part in ("qweight", "qzeros", "scales", "g_idx")}
    own = layer(torch.eye(columns, dtype=torch.float16)).T
    layer.scales = layer.scales.float()
    exact = layer(torch.eye(columns)).T
    assert torch.equal(exact.half(), own)
    return stored, exact


def quantize_awq(module: str, weight: torch.Tensor, group: int) -> tuple[Tensors, torch.Tensor]:
    gemm = import_file("awq", "modules.linear.gemm")
    packing = import_file("awq", "utils.packing_utils")
    rows, columns = weight.shape
    scale, zero, _ = groups_of(weight, group, 4, "k_proj" in module, np.arange(columns))
    linear = torch.nn.Linear(columns, rows, bias=False)
    linear.weight.data = weight.float()
    gemm.get_best_device = lambda: "cpu"
    layer = gemm.WQLinear_GEMM.from_linear(
        linear, 4, group, scales=scale.T.contiguous().float(), zeros=zero.T.contiguous().float()
    )
    stored = {part: getattr(layer, part) for part in ("qweight", "qzeros", "scales")}
    own = packing.dequantize_gemm(layer.qweight, layer.qzeros, layer.scales, 4, group).T
    exact = packing.dequantize_gemm(layer.qweight, layer.qzeros, layer.scales.float(), 4, group).T
    assert torch.equal(exact.half(), own)
    return stored, exact


# -- bitsandbytes and torchao ------------------------------------------------------------------------------------------


def quantize_4bit(module: str, weight: torch.Tensor) -> tuple[Tensors, torch.Tensor]:
    """NF4 with scales that are quantized, in blocks of 64 as in larger models; FP4 with scales in float32."""
    from bitsandbytes import functional

    is_nested = "mlp" in module
    values, state = functional.quantize_4bit(weight.float(), blocksize=32, quant_type="nf4" if is_nested else "fp4")
    if is_nested:
        state.offset = state.absmax.mean()
        state.absmax, state.state2 = functional.quantize_blockwise(state.absmax - state.offset, blocksize=64)
        state.nested = True
    exact = functional.dequantize_4bit(values, state)
    return {"weight": values} | {f"weight.{k}": v for k, v in state.as_dict(packed=True).items()}, exact


def quantize_8bit(module: str, weight: torch.Tensor) -> tuple[Tensors, torch.Tensor]:
    from bitsandbytes import functional

    values, scales, _ = functional.int8_vectorwise_quant(weight.half())
    return {"weight": values, "SCB": scales}, functional.int8_vectorwise_dequant(values, scales)


def quantize_torchao(module: str, weight: torch.Tensor) -> tuple[Tensors, torch.Tensor]:
    """Ways in turn: bytes by row, integers of 4 bits in groups with zero points and without, floats by row."""
    import torchao.quantization as ao
    from torchao.quantization.granularity import PerGroup

    kinds = {
        "q_proj": ao.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32)),
        "k_proj": ao.IntxWeightOnlyConfig(
            weight_dtype=torch.int4, granularity=PerGroup(32), mapping_type=ao.MappingType.ASYMMETRIC
        ),
        "o_proj": ao.Float8WeightOnlyConfig(),
    }
    linear = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False, dtype=weight.dtype)
    linear.weight.data = weight
    ao.quantize_(linear, kinds.get(module.split(".")[-1], ao.Int8WeightOnlyConfig(version=2)))
    quantized = linear.weight
    parts = {name: getattr(quantized, name, None) for name in ("qdata", "scale", "zero_point")}
    if isinstance(quantized, ao.IntxUnpackedToInt8Tensor):
        wide = (quantized.qdata, quantized.scale, quantized.zero_point, quantized.target_dtype, quantized.block_size)
        exact = ao.IntxUnpackedToInt8Tensor(*wide, torch.float32, None).dequantize()
    else:
        exact = quantized.dequantize(output_dtype=torch.float32)
    assert torch.equal(exact.to(weight.dtype), quantized.dequantize())
    return {f"_weight_{name}": value for name, value in parts.items() if value is not None}, exact


def main() -> None:
    integers = {"type": "int", "symmetric": True, "dynamic": False}
    floats = integers | {"type": "float"}
    tokens = {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "token", "dynamic": True}
    asymmetric = integers | {"num_bits": 4, "strategy": "group", "group_size": 64, "symmetric": False}
    write_compressed(
        "pack-quantized",
        1,
        "pack-quantized",
        [
            {"targets": ["Linear"], "weights": integers | {"num_bits": 4, "strategy": "group", "group_size": 32}},
            {"targets": [r"re:.*mlp\.(gate|up)_proj$"], "weights": integers | {"num_bits": 8, "strategy": "channel"}},
            {"targets": [r"re:.*\.\d+\.mlp\.down_proj"], "weights": asymmetric},
        ],
    )
    write_compressed(
        "int-quantized",
        2,
        "int-quantized",
        [
            {
                "targets": ["Linear"],
                "weights": integers | {"num_bits": 8, "strategy": "channel"},
                "input_activations": tokens,
            }
        ],
    )
    write_compressed(
        "float-quantized",
        3,
        "float-quantized",
        [
            {
                "targets": ["Linear"],
                "weights": floats | {"num_bits": 8, "strategy": "channel"},
                "input_activations": tokens | {"type": "float"},
            },
            {"targets": ["re:.*o_proj"], "weights": floats | {"num_bits": 8, "strategy": "tensor"}},
            {
                "targets": ["re:.*down_proj"],
                "weights": floats | {"num_bits": 8, "strategy": "block", "block_structure": [32, 64]},
            },
        ],
    )
    write_compressed(
        "floats4",
        4,
        "mixed-precision",
        [
            {
                "targets": ["Linear"],
                "format": "nvfp4-pack-quantized",
                "weights": floats
                | {"num_bits": 4, "strategy": "tensor_group", "group_size": 16, "scale_dtype": "torch.float8_e4m3fn"},
            },
            {
                "targets": ["re:.*mlp.*"],
                "format": "mxfp4-pack-quantized",
                "weights": floats
                | {"num_bits": 4, "strategy": "group", "group_size": 32, "scale_dtype": "torch.uint8"},
            },
        ],
    )
    gptq = {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": True, "sym": False}
    gptq |= {"checkpoint_format": "gptq", "damp_percent": 0.01, "true_sequential": True}
    write("gptq", 5, gptq, torch.float16, lambda module, weight: quantize_gptq(module, weight, 4, 32))
    awq = {"quant_method": "awq", "bits": 4, "group_size": 64, "zero_point": True, "version": "gemm"}
    awq |= {"modules_to_not_convert": None}
    write("awq", 6, awq, torch.float16, lambda module, weight: quantize_awq(module, weight, 64))
    write("bitsandbytes-4bit", 7, {"quant_method": "bitsandbytes", "load_in_4bit": True}, torch.bfloat16, quantize_4bit)
    write("bitsandbytes-8bit", 8, {"quant_method": "bitsandbytes", "load_in_8bit": True}, torch.float16, quantize_8bit)
    integers = {"_type": "IntxWeightOnlyConfig", "_version": 2, "_data": {}}
    torchao = {"quant_method": "torchao", "quant_type": {"default": integers}}
    write("torchao", 9, torchao, torch.bfloat16, quantize_torchao)


if __name__ == "__main__":
    sys.exit(main())
