# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checkpoints that other tools quantized: every value as their packages dequantize it, and the logits of those.

quantized/NAME is what make_quantized_checkpoints.py wrote with the packages; others are written with NumPy.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path

import intarsia
import ml_dtypes
import numpy as np
import pytest
from quantized_checkpoints import (
    BFLOAT16,
    E4M3,
    Tensors,
    dequantize,
    draw,
    interleave,
    load_tensors,
    pack_words,
    read_matrices,
    save_tensors,
    write_checkpoint,
    write_dequantized,
)
from refusals import refused

QUANTIZED = Path(__file__).resolve().parent / "quantized"
NAMES = sorted(path.name for path in QUANTIZED.iterdir())
DEVICES = ["cpu", "reference", "emulated:sm_80", pytest.param("emulated:gfx942", marks=pytest.mark.slow)]


@pytest.fixture
def checkpoint(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Give a copy of the checkpoint that the test's parameter names."""
    return Path(shutil.copytree(QUANTIZED / request.param, tmp_path / request.param))


def logits_of(tools, checkpoint: Path, output: Path, ids: np.ndarray, *flags: str) -> np.ndarray:
    tools.compile(checkpoint, "-o", output, "--kv=f32", *flags)
    return np.array(intarsia.Generator(output).logits([ids])[0])


# -- What the packages wrote -------------------------------------------------------------------------------------------


@pytest.mark.cpu_only
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("checkpoint", NAMES, indirect=True)
def test_values_are_those_of_the_package(tools, tmp_path, checkpoint, device):
    """Bit for bit, where kernels read them."""
    with np.load(checkpoint / "golden.npz") as golden:
        expected = dict(zip(golden["modules"], golden["hashes"], strict=True))
    matrices = read_matrices(tools, checkpoint, tmp_path / "work", device).values
    assert matrices.keys() == expected.keys()
    stored = load_tensors(checkpoint / "model.safetensors")
    for name, matrix in matrices.items():
        if f"{name}.weight_global_scale" in stored:
            # The package divides by the scale of the tensor; kernels multiply by its reciprocal, in any order.
            divided = dequantize_nvfp4(stored, name)
            np.testing.assert_allclose(matrix, divided, rtol=2.0**-22)
            matrix = divided
        if f"{name}.SCB" in stored:
            # The package multiplies by the scale and then by 1/127; kernels by their quotient.
            values, scales = stored[f"{name}.weight"].astype(np.float32), stored[f"{name}.SCB"][:, None]
            np.testing.assert_allclose(matrix, values * (scales / np.float32(127)), rtol=0)
            matrix = values * scales * np.float32(1 / 127)
        assert hashlib.sha256(np.ascontiguousarray(matrix).tobytes()).hexdigest() == expected[name], name


def dequantize_nvfp4(stored: Tensors, name: str) -> np.ndarray:
    packed, scale = stored[name + ".weight_packed"], stored[name + ".weight_scale"].astype(np.float32)
    whole = stored[name + ".weight_global_scale"]
    elements = np.stack([packed & 15, packed >> 4], axis=-1).reshape(len(packed), -1)
    values = elements.view(ml_dtypes.float4_e2m1fn).astype(np.float32)
    return values * np.repeat(scale / whole, 16, axis=1)


# Devices read the values of all checkpoints, above, and the CPU computes the logits of all. On others, kernels are those
# of --quantize (test_gpu_linears.py), and models of each kind of values show that the two go together.
ON_DEVICES = {"reference": ("gptq", "floats4"), "emulated:sm_80": ("pack-quantized", "floats4", "torchao")}


@pytest.mark.cpu_only
@pytest.mark.parametrize(
    ("checkpoint", "device"),
    [
        pytest.param(name, device, marks=() if name in ON_DEVICES.get(device, NAMES) else pytest.mark.slow)
        for name in NAMES
        for device in ("cpu", "reference", "emulated:sm_80")
    ]
    + [pytest.param(name, "emulated:gfx942", marks=pytest.mark.slow) for name in NAMES],
    indirect=["checkpoint"],
)
def test_logits_are_those_of_the_dequantized_model(tools, tmp_path, checkpoint, device):
    with np.load(checkpoint / "golden.npz") as golden:
        ids, expected = golden["input_ids"], golden["logits"]
    flags = ("--quantize-activations=16", f"--target={device}")
    actual = logits_of(tools, checkpoint, tmp_path / "m.itx", ids, *flags)
    assert np.abs(expected).max() > 1
    # Two layers in float32, as in test_decoders.py; on GPUs what is multiplied has the 11 bits of f16.
    tolerance = 2e-2 if device.startswith("emulated") else 2e-5
    assert np.abs(actual - expected).max() <= tolerance


@pytest.mark.cpu_only
@pytest.mark.parametrize("checkpoint", sorted(set(NAMES) - {"float-quantized", "bitsandbytes-4bit"}), indirect=True)
def test_integers_are_multiplied(tools, tmp_path, checkpoint):
    """As a user gets it: inputs of 8 bits, each off by 0.4 % of the largest of its block, where values are integers."""
    with np.load(checkpoint / "golden.npz") as golden:
        ids, expected = golden["input_ids"], golden["logits"]
    actual = logits_of(tools, checkpoint, tmp_path / "m.itx", ids)
    error = np.abs(actual - expected).max()
    assert 1e-4 < error < 0.05 * np.abs(expected).max()


INPUTS = "has no effect: --quantize-activations says how inputs of linears are multiplied"
REMARKS = {
    "pack-quantized": ["bits, as int4: 8", "bits, as int8-channel: 4", "bits, as int4-asymmetric-g64: 2"],
    "int-quantized": ["bits, as int8-channel: 14", f"input_activations (dynamic int8 by token) {INPUTS}"],
    "float-quantized": [
        "bits, as fp8: 12",
        "dequantized to f32, which --quantize can quantize again: 2, because scales are those of blocks of rows",
        f"input_activations (dynamic float8 by token) {INPUTS}",
    ],
    "floats4": ["bits, as nvfp4: 8", "bits, as mxfp4: 6"],
    "gptq": [
        "bits, as int4-asymmetric: 6",
        "bits, as int4: 1",
        "again: 7, because groups of input features are in the order of",
    ],
    "awq": ["bits, as int4-g64: 2", "bits, as int4-asymmetric-g64: 12"],
    "bitsandbytes-4bit": ["again: 14, because no kernel multiplies values of a codebook"],
    "bitsandbytes-8bit": ["bits, as int8-channel with scales in f32: 14"],
    "torchao": [
        "bits, as int8-channel: 8",
        "bits, as int8: 2",
        "bits, as fp8: 2",
        "again: 2, because zero points of 8 bits make values of 9 bits",
    ],
}


@pytest.mark.parametrize("name", NAMES)
def test_remarks(tools, name):
    remarks = tools.run("intarsia-compile", QUANTIZED / name, "--stop-after=import").stderr
    for remark in REMARKS[name]:
        assert remark in remarks


# -- What NumPy writes -------------------------------------------------------------------------------------------------


def compressed(weights: dict[str, object], format: str = "pack-quantized") -> dict[str, object]:
    return {
        "quant_method": "compressed-tensors",
        "format": format,
        "quantization_status": "compressed",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"type": "int", **weights}}},
        "ignore": ["lm_head"],
    }


def pack(rng, shape, bits, group, dtype, symmetric=True) -> tuple[Tensors, np.ndarray]:
    """Tensors of compressed-tensors' pack-quantized, and the matrix."""
    integers, zeros, scales = draw(rng, shape, bits, group, dtype)
    parts = {
        "weight_packed": pack_words(integers, bits),
        "weight_scale": scales,
        "weight_shape": np.array(shape, np.int64),
    }
    if symmetric:
        return parts, dequantize(integers, 2 ** (bits - 1), scales)
    parts["weight_zero_point"] = pack_words(zeros.T, bits).T
    return parts, dequantize(integers, zeros, scales)


def check_values(tools, folder: Path, expected: dict[str, np.ndarray], work: Path, device: str = "cpu") -> str:
    """Compare with the matrices that kernels read, and return what the import says of them."""
    matrices, remarks = read_matrices(tools, folder, work, device)
    assert matrices.keys() == expected.keys()
    for name, matrix in matrices.items():
        np.testing.assert_array_equal(matrix, expected[name], err_msg=name)
    return remarks


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16, np.float32], ids=["f16", "bf16", "f32"])
@pytest.mark.parametrize("group", [32, 64, 128, 0])
@pytest.mark.parametrize("bits", [4, 8])
def test_packed_integers(tools, tmp_path, bits, group, dtype, symmetric):
    rng = np.random.default_rng(bits + group)
    weights = {"num_bits": bits, "strategy": "group", "group_size": group, "symmetric": symmetric}
    if not group:
        weights |= {"strategy": "channel", "group_size": None}
    expected = write_checkpoint(
        tmp_path / "m", compressed(weights), lambda name, w: pack(rng, w.shape, bits, group, dtype, symmetric)
    )
    remarks = check_values(tools, tmp_path / "m", expected, tmp_path / "work")
    # Zero points times scales of 16 bits are exact in f32.
    keeps_zeros = group and dtype != np.float32
    offset = "int4-asymmetric" if keeps_zeros else "int5"
    name = {(4, True): "int4", (8, True): "int8", (4, False): offset}.get((bits, symmetric))
    suffix = {32: "", 0: "-channel"}.get(group, f"-g{group}")
    if not name:
        assert "again: 7, because zero points of 8 bits make values of 9 bits" in remarks
        return
    scales = {np.float16: "", BFLOAT16: "", np.float32: " with scales in f32"}[dtype]
    assert f"kept at their bits, as {name}{suffix}{scales}: 7\n" in remarks
    # Kernels are those of --quantize.
    element = "u4" if name == "int4-asymmetric" else f"i{name[-1]}"
    block = f"#nn.block_format<{element}, {scales[-3:] or 'f16'}, {group}, axis = 1>"
    lowered = tools.run("intarsia-compile", tmp_path / "m", "--stop-after=lower").stdout
    # Query, key and value are one matrix, and so are gate and up.
    assert lowered.count(f"{block}>) :") == 4


def test_scales_beyond_f16(tools, tmp_path):
    """Scales in bf16 that f16 does not hold stay in bf16, in all matrices of the model."""
    rng = np.random.default_rng(5)

    def quantize(name: str, values: np.ndarray) -> tuple[Tensors, np.ndarray]:
        parts, matrix = pack(rng, values.shape, 4, 32, BFLOAT16)
        if name.endswith("k_proj"):
            parts["weight_scale"][0, 1] = 2.0**-20 * 1.0078125
            matrix[0, 32:64] *= np.float32(0)
            integers = parts["weight_packed"].view(np.uint32)[0, 4:8, None] >> np.arange(0, 32, 4, dtype=np.uint32) & 15
            matrix[0, 32:64] = (integers.reshape(-1).astype(np.float32) - 8) * np.float32(2.0**-20 * 1.0078125)
        return parts, matrix

    weights = {"num_bits": 4, "strategy": "group", "group_size": 32}
    expected = write_checkpoint(tmp_path / "m", compressed(weights), quantize)
    remarks = check_values(tools, tmp_path / "m", expected, tmp_path / "work")
    assert "kept at their bits, as int4 with scales in bf16: 7\n" in remarks


def gptq(rng, shape, bits, group, version=1, order=False, symmetric=False) -> tuple[Tensors, np.ndarray]:
    integers, zeros, scales = draw(rng, shape, bits, group, np.float16)
    if symmetric:
        zeros[...] = 2 ** (bits - 1)
    index = np.arange(shape[1]) // (group or shape[1])
    if order:
        index = rng.permutation(index)
    parts = {
        "qweight": pack_words(integers.T.reshape(-1, 32 // bits, shape[0]).transpose(0, 2, 1), bits)[..., 0],
        "qzeros": pack_words(zeros.T - (version == 1), bits),
        "scales": scales.T,
        "g_idx": index.astype(np.int32),
    }
    return parts, dequantize(integers, zeros, scales, index)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize(("version", "order"), [(1, False), (2, False), (1, True), (2, True)])
@pytest.mark.parametrize("group", [32, 128, 0])
@pytest.mark.parametrize("bits", [4, 8])
def test_gptq(tools, tmp_path, bits, group, version, order, symmetric):
    rng = np.random.default_rng(bits + group + version)
    config = {"quant_method": "gptq", "bits": bits, "group_size": group or -1, "desc_act": order}
    config["checkpoint_format"] = {1: "gptq", 2: "gptq_v2"}[version]
    expected = write_checkpoint(
        tmp_path / "m", config, lambda name, w: gptq(rng, w.shape, bits, group, version, order, symmetric)
    )
    remarks = check_values(tools, tmp_path / "m", expected, tmp_path / "work")
    # Matrices of one group have no order; down_proj has two groups of 128.
    decoded = 7 if bits == 8 and not symmetric else {32: 7, 128: 1, 0: 0}[group] if order else 0
    assert sum(map(int, re.findall(r"quantize again: (\d+), because", remarks))) == decoded
    assert sum(map(int, re.findall(r"kept at their bits, as int[^:]*: (\d+)$", remarks, re.M))) == 7 - decoded


def awq(rng, shape, group, symmetric=False) -> tuple[Tensors, np.ndarray]:
    integers, zeros, scales = draw(rng, shape, 4, group, np.float16)
    if symmetric:
        zeros[...] = 8
    parts = {
        "qweight": pack_words(interleave(integers.T), 4),
        "qzeros": pack_words(interleave(zeros.T), 4),
        "scales": scales.T,
    }
    return parts, dequantize(integers, zeros, scales)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("group", [32, 64, 128, 0])
def test_awq(tools, tmp_path, group, symmetric):
    rng = np.random.default_rng(group)
    config = {"quant_method": "awq", "bits": 4, "group_size": group or -1, "zero_point": True, "version": "gemm"}
    expected = write_checkpoint(tmp_path / "m", config, lambda name, w: awq(rng, w.shape, group, symmetric))
    remarks = check_values(tools, tmp_path / "m", expected, tmp_path / "work")
    assert f"kept at their bits, as {'int4' if symmetric else 'int4-asymmetric' if group else 'int5'}" in remarks


@pytest.mark.parametrize("scale", [np.float32, BFLOAT16], ids=["f32", "bf16"])
def test_fp8_of_blocks(tools, tmp_path, scale):
    """As DeepSeek-V3 stores its weights; the last block of rows and of columns may be smaller."""
    rng = np.random.default_rng(8)

    def quantize(name: str, values: np.ndarray) -> tuple[Tensors, np.ndarray]:
        rows, columns = values.shape
        stored = (values * 100).astype(E4M3)
        scales = rng.uniform(0.005, 0.02, (-(-rows // 48), -(-columns // 80))).astype(scale)
        whole = scales.astype(np.float32)[np.arange(rows)[:, None] // 48, np.arange(columns) // 80]
        return {"weight": stored, "weight_scale_inv": scales}, stored.astype(np.float32) * whole

    config = {"quant_method": "fp8", "weight_block_size": [48, 80], "activation_scheme": "dynamic", "fmt": "e4m3"}
    expected = write_checkpoint(tmp_path / "m", config, quantize)
    check_values(tools, tmp_path / "m", expected, tmp_path / "work")


def test_nvfp4_scale_of_the_tensor(tools, tmp_path):
    """Kernels multiply by the reciprocal of the scale that the package divides by: at most three roundings."""
    rng = np.random.default_rng(9)

    def quantize(name: str, values: np.ndarray) -> tuple[Tensors, np.ndarray]:
        rows, columns = values.shape
        elements = rng.integers(0, 16, values.shape).astype(np.uint8)
        scales = rng.uniform(1, 448, (rows, columns // 16)).astype(E4M3)
        whole = np.float32(rng.uniform(5000, 20000))
        parts = {
            "weight_packed": elements[:, ::2] | elements[:, 1::2] << 4,
            "weight_scale": scales,
            "weight_global_scale": np.array([whole], np.float32),
        }
        wide = elements.view(ml_dtypes.float4_e2m1fn).astype(np.float32)
        return parts, np.repeat(scales.astype(np.float64) / whole, 16, axis=1) * wide

    weights = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}
    expected = write_checkpoint(tmp_path / "m", compressed(weights, "nvfp4-pack-quantized"), quantize)
    matrices = read_matrices(tools, tmp_path / "m", tmp_path / "work").values
    for name, matrix in expected.items():
        np.testing.assert_allclose(matrices[name], matrix, rtol=3 * 2.0**-24)


def test_experts(tools, tmp_path):
    """Experts that are stored one by one, quantized; their router is not."""
    rng = np.random.default_rng(10)
    source = Path(__file__).resolve().parent / "decoders" / "mixtral"
    config = json.loads((source / "config.json").read_text())
    tensors, plain = load_tensors(source / "model.safetensors"), {}
    for name, value in list(tensors.items()):
        plain[name] = value
        if ".experts." not in name and "_proj" not in name:
            continue
        module = name.removesuffix(".weight")
        parts, matrix = pack(rng, value.shape, 4, 0, np.float16)
        del tensors[name]
        tensors |= {f"{module}.{part}": tensor for part, tensor in parts.items()}
        plain[name] = matrix.astype(np.float32)
    settings = compressed({"num_bits": 4, "strategy": "channel"})
    for folder, stored, more in (("m", tensors, {"quantization_config": settings}), ("plain", plain, {})):
        (tmp_path / folder).mkdir()
        save_tensors(stored, tmp_path / folder / "model.safetensors")
        (tmp_path / folder / "config.json").write_text(json.dumps(config | more))
    ids = rng.integers(0, 99, 20)
    flags = ("--quantize-activations=16",)
    actual = logits_of(tools, tmp_path / "m", tmp_path / "m.itx", ids, *flags)
    expected = logits_of(tools, tmp_path / "plain", tmp_path / "plain.itx", ids, *flags)
    assert np.abs(expected).max() > 0.5
    assert np.abs(actual - expected).max() <= 2e-5
    lowered = tools.run("intarsia-compile", tmp_path / "m", "--stop-after=lower").stdout
    assert "#nn.block_format<i4, f16, 0, axis = 1>>) : tensor<5x2x40x48xf32>" in lowered


@pytest.mark.parametrize("checkpoint", ["pack-quantized", "gptq"], indirect=True)
def test_quantized_again(tools, tmp_path, checkpoint):
    """With --quantize, matrices are dequantized and quantized like others."""
    matrices = read_matrices(tools, checkpoint, tmp_path / "work").values
    stored = load_tensors(checkpoint / "model.safetensors")
    write_dequantized(tmp_path / "plain", checkpoint, matrices, stored)
    ids = np.arange(20)
    flags = ("--quantize=int8", "--quantize-parts=linears")
    actual = logits_of(tools, checkpoint, tmp_path / "m.itx", ids, *flags)
    expected = logits_of(tools, tmp_path / "plain", tmp_path / "plain.itx", ids, *flags)
    np.testing.assert_array_equal(actual, expected)


# -- What is refused ---------------------------------------------------------------------------------------------------


def change(folder: Path, tensors: dict[str, np.ndarray | None], **settings: object) -> None:
    """Replace tensors, or leave them out, and settings of quantization_config."""
    stored = load_tensors(folder / "model.safetensors") | tensors
    save_tensors(
        {name: value for name, value in stored.items() if value is not None},
        folder / "model.safetensors",
    )
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] |= settings
    (folder / "config.json").write_text(json.dumps(config))


UP, DOWN, KEY = "model.layers.0.mlp.up_proj", "model.layers.1.mlp.down_proj", "model.layers.0.self_attn.k_proj"
WORDS = np.zeros((64, 8), np.int32)
STATE = ".weight.quant_state.bitsandbytes__nf4"


def text_of(text: bytes) -> np.ndarray:
    return np.frombuffer(text, np.uint8)


DAMAGED_TENSORS = [
    ("pack-quantized", {UP + ".weight_scale": None}, ["has no tensor '" + UP + ".weight_scale'"]),
    ("pack-quantized", {UP + ".weight_shape": None}, ["has no tensor '" + UP + ".weight_shape'"]),
    ("pack-quantized", {DOWN + ".weight_zero_point": None}, ["has no tensor '" + DOWN + ".weight_zero_point'"]),
    (
        "pack-quantized",
        {UP + ".weight_shape": np.array([128, 63])},
        [UP + ".weight_shape' says [128, 63], config.json implies [128, 64] (intermediate_size, hidden_size)"],
    ),
    ("pack-quantized", {UP + ".weight_packed": WORDS}, [UP + ".weight_packed' is [64, 8]", "imply [128, 16]"]),
    ("pack-quantized", {UP + ".weight_packed": WORDS.astype(np.int64)}, ["of dtype I64", "implies I32"]),
    (
        "pack-quantized",
        {UP + ".weight_scale": np.ones((128, 2), np.float32)},
        [UP + ".weight_scale' is [128, 2]", "imply [128, 1]"],
    ),
    ("pack-quantized", {UP + ".weight_scale": np.ones((128, 1))}, ["of dtype F64", "implies F16 or BF16 or F32"]),
    ("gptq", {KEY + ".qzeros": None}, ["has no tensor '" + KEY + ".qzeros'"]),
    ("gptq", {KEY + ".g_idx": None}, ["has no tensor '" + KEY + ".g_idx'"]),
    ("gptq", {KEY + ".scales": np.ones((3, 32), np.float16)}, [KEY + ".scales' is [3, 32]", "imply [2, 32]"]),
    (
        "gptq",
        {KEY + ".g_idx": np.full(64, 2, np.int32)},
        [KEY + ".g_idx' has 2 at [0], the groups of 64 input features are 0 to 1"],
    ),
    ("gptq", {KEY + ".g_idx": np.full(64, -1, np.int32)}, [KEY + ".g_idx' has -1 at [0]"]),
    ("awq", {KEY + ".qweight": WORDS}, [KEY + ".qweight' is [64, 8]", "imply [64, 4]"]),
    ("awq", {KEY + ".scales": np.full((1, 32), np.inf, np.float16)}, ["has a scale that is not finite", KEY]),
    ("floats4", {KEY + ".weight_global_scale": np.zeros(1, np.float32)}, [KEY + ".weight_global_scale' is 0"]),
    ("floats4", {UP + ".weight_scale": np.full((128, 2), 255, np.uint8)}, ["has a scale that is not finite", UP]),
    (
        "floats4",
        {KEY + ".weight_scale": np.full((32, 4), -1, E4M3)},
        ["has a scale -", "that is negative", KEY],
    ),
    (
        "float-quantized",
        {KEY + ".weight": np.full((32, 64), np.nan, E4M3)},
        [KEY + ".weight' has NaN at [0, 0]"],
    ),
    ("int-quantized", {KEY + ".weight_scale": np.ones(32, np.float32)}, [KEY + ".weight_scale' is [32]"]),
    ("bitsandbytes-4bit", {UP + STATE: None}, ["has no tensor '" + UP + STATE + "'"]),
    ("bitsandbytes-4bit", {UP + STATE: text_of(b"{")}, [UP + STATE, "Expected object key"]),
    (
        "bitsandbytes-4bit",
        {UP + STATE: text_of(b'{"blocksize": 64, "shape": [64, 128]}')},
        [UP + STATE, "says another shape than config.json, which implies [128, 64]"],
    ),
    (
        "bitsandbytes-4bit",
        {UP + STATE: text_of(b'{"blocksize": 48, "shape": [128, 64]}')},
        ["'" + UP + "' has 64 features (hidden_size), no multiple of the 48 values that share a scale"],
    ),
    ("bitsandbytes-4bit", {UP + ".weight.nested_absmax": None}, ["has no tensor '" + UP + ".weight.nested_absmax'"]),
    (
        "bitsandbytes-4bit",
        {UP + ".weight.quant_map": np.full(16, np.nan, np.float32)},
        [UP + ".weight.quant_map' has nan at [0]"],
    ),
    (
        "bitsandbytes-4bit",
        {UP + ".weight.nested_absmax": np.full(4, np.inf, np.float32)},
        ["has a scale that is not finite", UP],
    ),
    ("bitsandbytes-8bit", {KEY + ".SCB": np.full(32, np.nan, np.float32)}, ["has a scale that is not finite", KEY]),
    ("torchao", {KEY + "._weight_scale": np.ones((16, 2), BFLOAT16)}, [KEY + "._weight_scale' is [16, 2]"]),
    (
        "torchao",
        {KEY + "._weight_zero_point": np.ones((32, 2), np.float32)},
        [KEY + "._weight_zero_point' has zero points of F32 [32, 2], which are not supported"],
    ),
    (
        "int-quantized",
        {KEY + ".weight_zero_point": np.ones((32, 1), np.int8)},
        ["weight_zero_point' is not 0, but the matrix is symmetric by config.json"],
    ),
]


@pytest.mark.parametrize(("checkpoint", "tensors", "parts"), DAMAGED_TENSORS, indirect=["checkpoint"])
def test_damaged_tensors(tools, checkpoint, tensors, parts):
    change(checkpoint, tensors)
    refused(tools, checkpoint, *parts)


def group(**changes: object) -> dict[str, object]:
    return {"config_groups": {"group_0": {"targets": ["Linear"], "weights": changes}}}


SETTINGS_REFUSED = [
    (
        "pack-quantized",
        {"quant_method": "hqq"},
        ["quant_method 'hqq' is not supported; supported: awq, bitnet, bitsandbytes, compressed-"],
    ),
    ("pack-quantized", {"quant_method": "bitsandbytes"}, ["has neither load_in_4bit nor load_in_8bit"]),
    ("bitsandbytes-4bit", {"bnb_4bit_quant_storage": "bfloat16"}, ["bnb_4bit_quant_storage 'bfloat16' is not supp"]),
    ("pack-quantized", {"quant_method": "torchao"}, ["quant_type has no 'default'"]),
    (
        "torchao",
        {"quant_type": {"default": {"_type": "Int4WeightOnlyConfig"}}},
        ["quant_type: default: _type 'Int4WeightOnlyConfig' is not supported; supported: Int8WeightOnlyConfig, "],
    ),
    ("pack-quantized", {"quant_method": None}, ["has no quant_method"]),
    ("pack-quantized", {"format": "marlin-24"}, ["format 'marlin-24' is not supported", "pack-quantized"]),
    ("pack-quantized", {"quantization_status": "calibration"}, ["quantization_status 'calibration' is not supported"]),
    ("pack-quantized", {"sparsity_config": {"format": "sparse-24-bitmask"}}, ["format 'sparse-24-bitmask'"]),
    ("pack-quantized", {"transform_config": {"config_groups": {"u": {}}}}, ["transform_config", "are not computed"]),
    ("pack-quantized", {"config_groups": None}, ["has no config_groups"]),
    ("pack-quantized", group(num_bits=3, group_size=32), ["weights of int3 by group of 32 are not supported"]),
    ("pack-quantized", group(num_bits=4, group_size=32, hidden=1), ["group_0: weights: the setting 'hidden'"]),
    ("pack-quantized", group(num_bits=4, strategy="row"), ["strategy 'row' is not supported"]),
    ("pack-quantized", group(num_bits=4, group_size=48), ["has 64 features (hidden_size), no multiple of the 48 of a"]),
    ("pack-quantized", group(num_bits=4, type="float", group_size=32), ["weights of float4 by group of 32"]),
    (
        "pack-quantized",
        {"config_groups": {"a": {"targets": ["re:(?!x).*"], "weights": {"num_bits": 4, "group_size": 32}}}},
        ["the pattern 're:(?!x).*' is not supported", "look-ahead"],
    ),
    (
        "pack-quantized",
        {"config_groups": {"a": {"targets": ["re:.*mlp.*"], "weights": {"num_bits": 4, "group_size": 32}}}},
        ["no target of config_groups matches 'model.layers.0.self_attn.q_proj'"],
    ),
    ("pack-quantized", {"ignore": ["re:.*k_proj"]}, ["'ignore' has 'model.layers.0.self_attn.k_proj'"]),
    ("int-quantized", group(num_bits=8, strategy="channel", symmetric=False), ["integers with zero points are not"]),
    ("gptq", {"bits": 3}, ["bits '3' is not supported; supported: 4, 8"]),
    ("gptq", {"bits": 8}, [".qweight' is [8, 64]"]),
    ("gptq", {"group_size": 0}, ["group_size is 0"]),
    (
        "gptq",
        {"checkpoint_format": "marlin"},
        ["checkpoint_format 'marlin' is not supported; supported: gptq, gptq_v2"],
    ),
    ("awq", {"version": "gemv"}, ["version 'gemv' is not supported; supported: gemm"]),
]


@pytest.mark.parametrize(("checkpoint", "settings", "parts"), SETTINGS_REFUSED, indirect=["checkpoint"])
def test_refused_settings(tools, checkpoint, settings, parts):
    change(checkpoint, {}, **settings)
    refused(tools, checkpoint, "config.json" if "bits" not in settings else "", *parts)


def test_settings_without_effect(tools, tmp_path):
    folder = Path(shutil.copytree(QUANTIZED / "pack-quantized", tmp_path / "m"))
    change(folder, {}, kv_cache_scheme={"num_bits": 8, "type": "float"}, surprise=1)
    remarks = tools.run("intarsia-compile", folder, "--stop-after=import").stderr
    assert "kv_cache_scheme has no effect: keys and values are kept as --kv says" in remarks
    assert "the setting 'surprise' is not known and has no effect" in remarks
