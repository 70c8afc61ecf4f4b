# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Linears and embeddings of quantized weights through the whole compiler, against NumPy with the same quantized
values."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from block_formats import activation_block, quantize_activations, quantize_to_e2m1, quantize_weight
from programs import build, by_turns, close, matmul_error
from random_numbers import normal

PROGRAM = """
func.func @main(%x: tensor<?xKxf32> {nn.name = "x", nn.sizes = ["rows", ""]}) -> (tensor<?xNxf32> {nn.name = "y"}) {
  %w = nn.weight @weights["w"] : tensor<NxKxELEMENT>
  %b = nn.weight @weights["b"] : tensor<Nxf32>
  %y = nn.linear %x, %w, %b : (tensor<?xKxf32>, tensor<NxKxELEMENT>, tensor<Nxf32>) -> tensor<?xNxf32>
  return %y : tensor<?xNxf32>
}
"""
FORMATS = [
    "int4",
    "int5",
    "int6",
    "int8",
    "mxfp4",
    "nvfp4",
    "int4-g64",
    "int4-g128",
    "int4-channel",
    "int4-asymmetric",
    "int4-asymmetric-g128",
    "int5-g128",
    "int5-channel",
    "int8-g128",
    "int8-channel",
    "ternary",
    "ternary-g128",
    "ternary-channel",
]
# Row counts that take the different ways through the kernels: each number of rows that is unpacked in registers, two
# passes of those, whole and partial tiles of many, several blocks of those.
ROWS = [1, 2, 3, 5, 8, 9, 16, 17, 33, 600]


def program(features: int, depth: int, element: str = "f32") -> str:
    text = PROGRAM.replace("ELEMENT", element)
    return text.replace("xKx", f"x{depth}x").replace("<Nx", f"<{features}x").replace("?xNx", f"?x{features}x")


def weight_of(features: int, depth: int) -> np.ndarray:
    """Give rows of different magnitudes, among them zeros."""
    weight = normal(features, depth) * np.exp2(normal(features, 1)).astype(np.float32)
    weight[1, : depth // 2] = 0
    weight[:, 3] *= 20
    return weight


def activations(rows: int, depth: int, block: int = 32) -> np.ndarray:
    """Give activations no quotient of which lies so near a half that its rounding would decide the quantized value."""
    x = normal(rows, depth)
    padded = np.pad(x, ((0, 0), (0, -depth % block))).reshape(rows, -1, block)
    quotients = 127 * padded / np.abs(padded).max(-1, keepdims=True)
    near = np.abs(np.abs(quotients - np.trunc(quotients)) - 0.5) < 1e-3
    return np.where(near, 0, padded).reshape(rows, -1)[:, :depth].astype(np.float32)


def check(run, x: np.ndarray, weight: np.ndarray, bias: np.ndarray, block: int = 32) -> np.ndarray:
    """Compare with a matmul in float64 of the dequantized values."""
    dequantized = quantize_activations(x, block)
    expected = dequantized.astype(np.float64) @ weight.T.astype(np.float64) + bias
    y = run(x)
    close(y, expected, matmul_error(dequantized, weight.T, 64))
    return y


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(("features", "depth"), [(64, 256), (70, 200), (33, 2400)])
def test_formats(tools, scratch, name, features, depth):
    weight, bias = weight_of(features, depth), normal(features)
    module = build(tools, scratch / f"{name}-{features}-{depth}", program(features, depth), {"w": weight, "b": bias},
                   "cpu", f"--quantize={name}", "--quantize-activations=8")  # fmt: skip
    dequantized, block = quantize_weight(name, weight), activation_block(name)
    rows = [activations(count, depth, block) for count in ROWS]
    results = [check(module["main"], x, dequantized, bias, block) for x in rows]
    assert np.abs(results[-1]).max() > 1
    # A row has the same results whatever else is computed with it.
    for x, y in zip(rows, results, strict=True):
        np.testing.assert_array_equal(module["main"](x[-1:])[0], y[-1])


@pytest.mark.parametrize(
    "name", ["int4", "int4-asymmetric-g64", "int5", "int6", "int8", "mxfp4", "nvfp4", "int4-channel", "ternary"]
)
@pytest.mark.parametrize("target", ["x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-v3+avxvnni"])
def test_targets(tools, scratch, name, target):
    features, depth = 40, 160
    weight, bias = weight_of(features, depth), normal(features)
    module = build(tools, scratch / f"{name}-{target}", program(features, depth), {"w": weight, "b": bias},
                   f"cpu:{target}", f"--quantize={name}", "--quantize-activations=8")  # fmt: skip
    for count in (1, 2, 4, 7, 40):
        block = activation_block(name)
        check(module["main"], activations(count, depth, block), quantize_weight(name, weight), bias, block)


@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64-v3", "cpu:x86-64"])
@pytest.mark.parametrize(
    ("name", "lowest", "highest"), [("int4", -8, 7), ("int5", -16, 15), ("int6", -32, 31), ("int8", -127, 127)]
)
def test_sums_are_exact(tools, scratch, name, lowest, highest, target):
    """Quantized values at the ends of their range, scales that are powers of two: not one bit may be lost."""
    features, depth = 32, 64
    rng = np.random.default_rng(3)
    weight = rng.choice([lowest, highest - 1, highest, 0], (features, depth)).astype(np.float32)
    weight[:, ::32] = lowest
    weight[1::2] *= -1
    x = rng.choice([-127, 127, 126, 0, -1], (40, depth)).astype(np.float32)
    x[:, ::32] = 127
    module = build(tools, scratch / f"exact-{name}-{target.replace(':', '-')}", program(features, depth),
                   {"w": weight, "b": np.zeros(features, np.float32)}, target, f"--quantize={name}", "--quantize-activations=8")  # fmt: skip
    for count in (1, 2, 40):
        np.testing.assert_array_equal(module["main"](x[:count]), x[:count] @ weight.T)


def finite_elements() -> np.ndarray:
    patterns = np.arange(256, dtype=np.uint8)
    return patterns[patterns & 0x7F != 0x7F].view(ml_dtypes.float8_e4m3fn).astype(np.float32)


E4M3_VALUES = finite_elements()


def quantize_to_e4m3(x: np.ndarray) -> np.ndarray:
    """Give the dequantized values of rows that are quantized to E4M3 as they are computed."""
    scales = np.abs(x).max(-1, keepdims=True) / np.float32(448)
    ratios = np.divide(x, scales, out=np.zeros_like(x), where=scales != 0)
    return ratios.clip(-448, 448).astype(ml_dtypes.float8_e4m3fn).astype(np.float32) * scales


@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64", "cpu:x86-64-v2", "cpu:x86-64-v3", "cpu:x86-64-v4"])
def test_every_element_of_fp8(tools, scratch, target):
    """All finite bit patterns of E4M3, with scales that are powers of two: not one bit may be lost."""
    depth = len(E4M3_VALUES)
    weight = np.stack([E4M3_VALUES, E4M3_VALUES[::-1] * 2.0**-20, np.roll(E4M3_VALUES, 7) * 2.0**30])
    weight = weight.astype(np.float32)
    text = program(len(weight), depth)
    module = build(tools, scratch / f"elements-{target.replace(':', '-')}", text,
                   {"w": weight, "b": np.zeros(len(weight), np.float32)}, target, "--quantize=fp8")  # fmt: skip
    np.testing.assert_array_equal(module["main"](np.eye(depth, dtype=np.float32)), weight.T)
    # As few rows as are multiplied at a time.
    np.testing.assert_array_equal(module["main"](np.eye(depth, dtype=np.float32)[254 - 3 :]), weight.T[254 - 3 :])


@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64", "cpu:x86-64-v2", "cpu:x86-64-v3", "cpu:x86-64-v4"])
@pytest.mark.parametrize(("features", "depth"), [(70, 200), (33, 288)])
def test_activations_of_fp8(tools, scratch, target, features, depth):
    """Inputs of E4M3, a scale for each row, multiplied as floats."""
    weight, bias = weight_of(features, depth), normal(features)
    module = build(tools, scratch / f"e4m3-{target.replace(':', '-')}-{depth}", program(features, depth),
                   {"w": weight, "b": bias}, target, "--quantize=fp8", "--quantize-activations=fp8")  # fmt: skip
    dequantized = quantize_weight("fp8", weight)
    for count in (1, 9, 40):
        x = normal(count, depth) * np.exp2(np.arange(count)[:, None] % 7).astype(np.float32)
        x[0, 3] = -0.0
        if count > 9:
            x[1], x[2, 5] = 0, 1e-30
        inputs = quantize_to_e4m3(x)
        expected = inputs.astype(np.float64) @ dequantized.T.astype(np.float64) + bias
        close(module["main"](x), expected, matmul_error(inputs, dequantized.T, 64))
        # It is quantized: the result is not that of inputs as they are.
        assert np.abs(expected - (x.astype(np.float64) @ dequantized.T + bias)).max() > 0.01


@pytest.mark.parametrize("name", ["mxfp4", "nvfp4"])
@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64", "cpu:x86-64-v3", "cpu:x86-64-v4"])
@pytest.mark.parametrize(("features", "depth"), [(70, 200), (33, 288)])
def test_activations_of_4_bits(tools, scratch, target, name, features, depth):
    """Inputs of E2M1, a scale for each block, multiplied as floats; the last block may be short."""
    weight, bias = weight_of(features, depth), normal(features)
    module = build(tools, scratch / f"{name}-{target.replace(':', '-')}-{depth}", program(features, depth),
                   {"w": weight, "b": bias}, target, f"--quantize={name}", f"--quantize-activations={name}")  # fmt: skip
    dequantized = quantize_weight(name, weight)
    for count in (1, 9, 40):
        x = normal(count, depth) * np.exp2(np.arange(count)[:, None] % 7).astype(np.float32)
        x[0, 3] = -0.0
        if count > 9:
            x[1], x[2, 5] = 0, 1e-30
        inputs = quantize_to_e2m1(name, x)
        expected = inputs.astype(np.float64) @ dequantized.T.astype(np.float64) + bias
        close(module["main"](x), expected, matmul_error(inputs, dequantized.T, 64))
        # It is quantized: the result is not that of inputs as they are.
        assert np.abs(expected - (x.astype(np.float64) @ dequantized.T + bias)).max() > 0.1


@pytest.mark.parametrize(
    "name",
    [
        "int4",
        "int5",
        "int6",
        "int8",
        "fp8",
        "mxfp4",
        "nvfp4",
        "int4-channel",
        "int4-g128",
        "int4-asymmetric",
        "ternary",
        "ternary-channel",
    ],
)
def test_activations_as_they_are(tools, scratch, name):
    features, depth = 70, 200
    weight, bias = weight_of(features, depth), normal(features)
    module = build(tools, scratch / f"{name}-16", program(features, depth), {"w": weight, "b": bias}, "cpu",
                   f"--quantize={name}", "--quantize-activations=16")  # fmt: skip
    dequantized = quantize_weight(name, weight)
    for count in (1, 9, 40):
        x = normal(count, depth)
        expected = x.astype(np.float64) @ dequantized.T.astype(np.float64) + bias
        close(module["main"](x), expected, matmul_error(x, dequantized.T, 64))


BLOCK_PROGRAM = """
func.func @main(%x: tensor<?xKxf32> {nn.name = "x", nn.sizes = ["rows", ""]},
    %i: tensor<?xi64> {nn.name = "i", nn.sizes = ["rows"]})
    -> (tensor<?xNxf32> {nn.name = "y"}, tensor<?xKxf32> {nn.name = "e"}) {
  %s = nn.weight @weights["w"] : tensor<NxBYTESxi8>
  %w = nn.dequantize %s {format = #nn.ggml_type<TYPE>} : (tensor<NxBYTESxi8>) -> tensor<NxKxf32>
  %y = nn.linear %x, %w : (tensor<?xKxf32>, tensor<NxKxf32>) -> tensor<?xNxf32>
  %e = nn.embedding %w, %i : (tensor<NxKxf32>, tensor<?xi64>) -> tensor<?xKxf32>
  return %y, %e : tensor<?xNxf32>, tensor<?xKxf32>
}
"""
# Where a block has its scales in f16, by bytes; MXFP4 has an exponent.
BLOCK_TYPES = {
    "q4_0": (0,), "q4_1": (0, 2), "q8_0": (0,), "q4_k": (0, 2), "q5_k": (0, 2), "q6_k": (208,), "tq1_0": (52,),
    "tq2_0": (64,), "mxfp4": (),
}  # fmt: skip


def blocks_of(name: str, features: int, depth: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Give random blocks with every bit pattern and scales of parts, their dequantized values, and how many a block
    holds."""
    import gguf

    kind = gguf.GGMLQuantizationType[name.upper()]
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = np.random.default_rng(len(name) + features).integers(0, 256, (features, depth // elements, size), np.uint8)
    for offset in BLOCK_TYPES[name]:
        scales = (0.01 * normal(features, depth // elements)).astype(np.float16)
        blocks[:, :, offset : offset + 2] = scales[..., None].view(np.uint8)
    if name == "mxfp4":
        blocks[:, :, 0] = 120 + blocks[:, :, 0] % 8
    blocks[1] = 0
    blocks = blocks.reshape(features, -1)
    return blocks, gguf.dequantize(blocks, kind), elements


def build_blocks(
    tools, folder, name: str, features: int, depth: int, blocks: np.ndarray, target: str = "cpu", *flags: str
):
    """Compile a linear and an embedding of one table in blocks."""
    text = BLOCK_PROGRAM.replace("BYTES", str(blocks.shape[1])).replace("TYPE", name)
    text = text.replace("xKx", f"x{depth}x").replace("<Nx", f"<{features}x").replace("?xNx", f"?x{features}x")
    return build(tools, folder, text, {"w": blocks.view(np.int8)}, target, *flags)


@pytest.mark.parametrize("name", BLOCK_TYPES)
@pytest.mark.parametrize(("features", "depth"), [(64, 256), (70, 768), (33, 2560)])
def test_blocks(tools, scratch, name, features, depth):
    blocks, weight, block = blocks_of(name, features, depth)
    folder = scratch / f"{name}-{features}-{depth}"
    main = build_blocks(tools, folder, name, features, depth, blocks)["main"]
    rows = [activations(count, depth, block) for count in ROWS]
    ids = [np.arange(count) % features for count in ROWS]
    results = [check(lambda x, i=i: main(x, i)[0], x, weight, 0, block) for x, i in zip(rows, ids, strict=True)]
    for x, y in zip(rows, results, strict=True):
        np.testing.assert_array_equal(main(x[-1:], ids[0])[0][0], y[-1])
    # A scaled element is rounded before the minimum is added, or not at all.
    close(main(rows[-1], ids[-1])[1], weight[ids[-1]], 1e-6 * float(np.abs(weight).max()))
    # Stored once, at its bits.
    width = 1 if name == "mxfp4" else 2
    padded = -(-features // 32) * 32 * blocks.shape[1] // (2 if name == "mxfp4" and depth % 64 else 1)
    if name == "tq1_0":
        padded = padded * 66 // 54  # in the panels of tq2_0
    assert (folder / "m.safetensors").stat().st_size < padded + 32 * width + 1024


@pytest.mark.parametrize("name", ["q4_1", "q4_k", "q5_k", "q6_k", "tq2_0"])
@pytest.mark.parametrize("target", ["x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-v3+avxvnni"])
def test_targets_of_blocks(tools, scratch, name, target):
    features, depth = 40, 512
    blocks, weight, block = blocks_of(name, features, depth)
    main = build_blocks(tools, scratch / f"{name}-{target}", name, features, depth, blocks, f"cpu:{target}")["main"]
    for count in (1, 2, 4, 7, 40):
        ids = np.arange(count)
        check(lambda x, i=ids: main(x, i)[0], activations(count, depth, block), weight, 0, block)
        close(main(normal(count, depth), ids)[1], weight[ids], 1e-6 * float(np.abs(weight).max()))


@pytest.mark.parametrize("name", BLOCK_TYPES)
def test_blocks_by_activations_as_they_are(tools, scratch, name):
    features, depth = 70, 512
    blocks, weight, _ = blocks_of(name, features, depth)
    main = build_blocks(tools, scratch / f"{name}-16", name, features, depth, blocks, "cpu",
                        "--quantize-activations=16")["main"]  # fmt: skip
    for count in (1, 9, 40):
        x = normal(count, depth)
        expected = x.astype(np.float64) @ weight.T.astype(np.float64)
        close(main(x, np.zeros(count, np.int64))[0], expected, matmul_error(x, weight.T, 64))


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_stored_types(tools, scratch, dtype):
    import ml_dtypes

    features, depth = 40, 96
    stored = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}[dtype]
    weight, bias = weight_of(features, depth).astype(stored), normal(features)
    module = build(tools, scratch / f"stored-{dtype}", program(features, depth, dtype), {"w": weight, "b": bias}, "cpu",
                   "--quantize=int8", "--quantize-activations=8")  # fmt: skip
    check(module["main"], activations(5, depth), quantize_weight("int8", weight.astype(np.float32)), bias)


def test_norm_before_and_ops_after(tools, scratch):
    features, depth = 64, 96
    text = program(features, depth).replace(
        "  %y = nn.linear %x",
        f'  %g = nn.weight @weights["g"] : tensor<{depth}xf32>\n'
        f"  %n = nn.rms_norm %x, %g {{epsilon = 1.0e-5 : f32}} : (tensor<?x{depth}xf32>, tensor<{depth}xf32>) -> "
        f"tensor<?x{depth}xf32>\n  %z = nn.linear %n",
    )
    text = text.replace("  return", f"  %y = nn.silu %z : tensor<?x{features}xf32>\n  return")
    weight, bias, gain = weight_of(features, depth), normal(features), normal(depth)
    module = build(
        tools,
        scratch / "norm",
        text,
        {"w": weight, "b": bias, "g": gain},
        "cpu",
        "--quantize=int4",
        "--quantize-activations=8",
    )
    for count in (1, 33):
        x = normal(count, depth)
        normed = (x / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-5) * gain).astype(np.float32)
        dequantized = quantize_activations(normed, activation_block("int4")).astype(np.float64)
        z = dequantized @ quantize_weight("int4", weight).T.astype(np.float64) + bias
        close(module["main"](x), z * (0.5 + 0.5 * np.tanh(z / 2)), 2e-4)


def shared_input_program(gate: int, depth: int, element: str) -> str:
    """Gate and up, whose elementwise product is stored, and three linears of different widths beside them."""
    text = f'func.func @main(%x: tensor<?x{depth}xf32> {{nn.name = "x", nn.sizes = ["rows", ""]}}) -> (RESULTS) {{\n'
    widths = {"gate": gate, "up": gate, "q": 96, "k": 32, "v": 40}
    for name, width in widths.items():
        text += f"""
  %w_{name} = nn.weight @weights["{name}"] : tensor<{width}x{depth}x{element}>
  %b_{name} = nn.weight @weights["{name}.bias"] : tensor<{width}xf32>
  %{name} = nn.linear %x, %w_{name}, %b_{name} : (tensor<?x{depth}xf32>, tensor<{width}x{depth}x{element}>,
    tensor<{width}xf32>) -> tensor<?x{width}xf32>"""
    text += f"""
  %s = nn.silu %gate : tensor<?x{gate}xf32>
  %m = arith.mulf %s, %up : tensor<?x{gate}xf32>
  %r = nn.relu %k : tensor<?x32xf32>
  return %m, %q, %r, %v : TYPES
}}"""
    types = [f"tensor<?x{width}xf32>" for width in (gate, 96, 32, 40)]
    results = ", ".join(f'{type} {{nn.name = "y{i}"}}' for i, type in enumerate(types))
    return text.replace("RESULTS", results).replace("TYPES", ", ".join(types))


SHARING = [
    *((name, ()) for name in ("int4", "int8", "fp8", "mxfp4", "nvfp4", "int4-channel")),
    ("int4", ("--quantize-activations=16",)),
    ("none", ()),
]


# Each format in one size, and either size with half of them: what a format does with each depth is tested above.
@pytest.mark.parametrize(
    ("gate", "depth", "element", "name", "flags"),
    by_turns([(160, 96, "f32"), (64, 2400, "f16")], SHARING),
)
def test_linears_of_one_input(tools, scratch, name, flags, gate, depth, element):
    """Linears that are fused give what those apart give, bit for bit."""
    widths = {"gate": gate, "up": gate, "q": 96, "k": 32, "v": 40}
    dtype = {"f32": np.float32, "f16": np.float16}[element]
    weights = {key: weight_of(width, depth).astype(dtype) for key, width in widths.items()}
    biases = {f"{key}.bias": normal(width) for key, width in widths.items()}
    text = shared_input_program(gate, depth, element)
    inputs = [normal(count, depth) for count in ROWS]
    results = []
    for flip in ((), ("--flip=fuse-shared-input-linears:*",)):
        folder = scratch / f"fused-{name}-{gate}-{len(flags)}-{len(flip)}"
        module = build(tools, folder, text, weights | biases, "cpu", f"--quantize={name}", *flags, *flip)
        stop = tools.compile(folder / "m.mlir", f"--quantize={name}", *flags, *flip, "--stop-after=lower")
        assert stop.stdout.count("rt.dispatch") == (5 if flip else 2)
        results.append([module["main"](x) for x in inputs])
    for fused, apart in zip(*results, strict=True):
        for one, other in zip(fused, apart, strict=True):
            assert np.isfinite(one).all()
            assert np.abs(one).max() > 1
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", ["int4", "int5", "int6", "int8", "fp8", "mxfp4", "nvfp4", "int4-channel"])
def test_embedding_and_head_share_a_table(tools, scratch, name):
    rows, features = 70, 72
    text = f"""
    func.func @main(%i: tensor<?xi64> {{nn.name = "i", nn.sizes = ["n"]}},
        %x: tensor<?x{features}xf32> {{nn.name = "x", nn.sizes = ["n", ""]}})
        -> (tensor<?x{features}xf32> {{nn.name = "e"}}, tensor<?x{rows}xf32> {{nn.name = "logits"}}) {{
      %w = nn.weight @weights["w"] : tensor<{rows}x{features}xf32>
      %e = nn.embedding %w, %i : (tensor<{rows}x{features}xf32>, tensor<?xi64>) -> tensor<?x{features}xf32>
      %l = nn.linear %x, %w : (tensor<?x{features}xf32>, tensor<{rows}x{features}xf32>) -> tensor<?x{rows}xf32>
      return %e, %l : tensor<?x{features}xf32>, tensor<?x{rows}xf32>
    }}"""
    weight = weight_of(rows, features)
    folder = scratch / f"table-{name}"
    module = build(
        tools,
        folder,
        text,
        {"w": weight},
        "cpu",
        f"--quantize={name}",
        f"--quantize-parts=lm_head={name}",
        f"--quantize-activations={16 if name == 'fp8' else 8}",
    )
    table = quantize_weight(name, weight)
    ids = np.array([0, 69, 31, 32, 7, 7])
    block = activation_block(name)
    x = activations(len(ids), features, block)
    embedded, logits = module["main"](ids, x)
    close(embedded, table[ids], 2e-7 * float(np.abs(table).max()))
    inputs = x if name == "fp8" else quantize_activations(x, block)
    close(logits, inputs.astype(np.float64) @ table.T, matmul_error(x, table.T, 64))
    # Stored once, as quantized values alone.
    bits = {"int4": 4.5, "int5": 5.5, "int6": 6.5, "int8": 8.5, "fp8": 8.0, "mxfp4": 4.25, "nvfp4": 4.5}.get(name, 4.0)
    assert (folder / "m.safetensors").stat().st_size < 96 * 128 * bits / 8 + 1024


@pytest.mark.parametrize("name", ["int4", "nvfp4-and-int4", "int8", "fp8-and-int8"])
def test_each_part_in_its_own_format(tools, scratch, name):
    """Two linears after one embedding; the head has a table of its own."""
    rows, features = 70, 64
    text = f"""
    func.func @main(%i: tensor<?xi64> {{nn.name = "i", nn.sizes = ["n"]}})
        -> (tensor<?x{features}xf32> {{nn.name = "e"}}, tensor<?x{features}xf32> {{nn.name = "y"}},
            tensor<?x{rows}xf32> {{nn.name = "logits"}}) {{
      %t = nn.weight @weights["t"] : tensor<{rows}x{features}xf32>
      %w = nn.weight @weights["w"] : tensor<{features}x{features}xf32>
      %h = nn.weight @weights["h"] : tensor<{rows}x{features}xf32>
      %e = nn.embedding %t, %i : (tensor<{rows}x{features}xf32>, tensor<?xi64>) -> tensor<?x{features}xf32>
      %y = nn.linear %e, %w : (tensor<?x{features}xf32>, tensor<{features}x{features}xf32>) -> tensor<?x{features}xf32>
      %l = nn.linear %y, %h : (tensor<?x{features}xf32>, tensor<{rows}x{features}xf32>) -> tensor<?x{rows}xf32>
      return %e, %y, %l : tensor<?x{features}xf32>, tensor<?x{features}xf32>, tensor<?x{rows}xf32>
    }}"""
    flags, formats = {
        "int4": (["--quantize=int4"], ("int6", "int4", "int6")),
        "nvfp4-and-int4": (
            ["--quantize=nvfp4", "--quantize-parts=embedding,linears,lm_head=int4-g64"],
            ("int6", "nvfp4", "int4-g64"),
        ),
        "int8": (["--quantize=int8", "--quantize-parts=linears=int4,lm_head,embedding"], ("int8", "int4", "int8")),
        # Inputs of 8 bits are multiplied by the head, whose values are integers.
        "fp8-and-int8": (
            ["--quantize=fp8", "--quantize-parts=linears,lm_head=int8,embedding", "--quantize-activations=8"],
            ("fp8", "fp8", "int8"),
        ),
    }[name]
    table, weight, head = weight_of(rows, features), weight_of(features, features), weight_of(rows, features)
    module = build(tools, scratch / name, text, {"t": table, "w": weight, "h": head}, "cpu", *flags)
    ids = np.arange(rows)
    embedded, y, logits = module["main"](ids)
    blocks = [activation_block(kind) for kind in formats]
    table, weight, head = (
        quantize_weight(kind, value) for kind, value in zip(formats, (table, weight, head), strict=True)
    )
    close(embedded, table, 2e-7 * float(np.abs(table).max()))
    # Later linears read what the earlier ones computed: quantized values on an edge may differ by one.
    inputs = embedded if formats[1] == "fp8" else quantize_activations(embedded, blocks[1])
    expected = inputs.astype(np.float64) @ weight.T
    close(y, expected, 0.02 * float(np.abs(expected).max()))
    expected = quantize_activations(y, blocks[2]).astype(np.float64) @ head.T
    close(logits, expected, 0.02 * float(np.abs(expected).max()))


def test_one_matrix_in_two_formats_is_refused(tools, tmp_path):
    text = """
    nn.archive @weights {file = "w.safetensors"}
    func.func @main(%i: tensor<?xi64> {nn.name = "i"}) -> (tensor<?x64xf32> {nn.name = "logits"}) {
      %w = nn.weight @weights["w"] : tensor<64x64xf32>
      %e = nn.embedding %w, %i : (tensor<64x64xf32>, tensor<?xi64>) -> tensor<?x64xf32>
      %l = nn.linear %e, %w : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
      return %l : tensor<?x64xf32>
    }"""
    (tmp_path / "m.mlir").write_text(text)
    arguments = (
        "intarsia-compile",
        tmp_path / "m.mlir",
        "--quantize=int4",
        "--stop-after=quantize",
        "-o",
        tmp_path / "o",
    )
    result = tools.run(*arguments, "--quantize-parts=lm_head=int4,embedding=int8", check=False)
    assert result.returncode != 0
    assert "one matrix is embedding and lm_head, and has the formats int8 and int4: it is stored once" in result.stderr
    # One of them may say it for both, whatever the default of the other is.
    for parts in ("lm_head=int4,embedding", "embedding=int4,lm_head", "embedding=int4"):
        tools.run(*arguments, f"--quantize-parts={parts}")
        assert "#nn.block_format<i4, f16, 32, axis = 1>" in (tmp_path / "o").read_text()
        assert "i6, f16" not in (tmp_path / "o").read_text()
    tools.run(*arguments)
    assert "i4, f16" not in (tmp_path / "o").read_text()


@pytest.mark.parametrize(("value", "text"), [(np.nan, "nan"), (np.inf, "inf")])
@pytest.mark.parametrize("name", ["int4", "nvfp4", "fp8"])
def test_weights_that_are_not_finite(tools, tmp_path, name, value, text):
    weight = normal(40, 64)
    weight[33, 5] = value
    from safetensors.numpy import save_file

    save_file({"w": weight, "b": normal(40)}, tmp_path / "w.safetensors")
    (tmp_path / "m.mlir").write_text('nn.archive @weights {file = "w.safetensors"}\n' + program(40, 64))
    result = tools.run("intarsia-compile", tmp_path / "m.mlir", f"--quantize={name}", check=False, cwd=tmp_path)
    assert result.returncode != 0
    assert "tensor 'w' has " in result.stderr
    assert "at [33, 5]" in result.stderr
    assert text in result.stderr.lower()
    assert not (tmp_path / "m.itx").exists()
    assert not (tmp_path / "m.safetensors").exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            ["--quantize=int7"],
            "unknown weight format 'int7': the formats are int4, int4-asymmetric, int5, int6, int8, ternary (also with groups: "
            "int4-g64, int4-g128, int4-channel), fp8, mxfp4, nvfp4 and none",
        ),
        (["--quantize=int4-asymmetric-channel"], "zero points are those of groups of 32, 64 or 128"),
        (["--quantize=int4-asymmetricg64"], "unknown weight format 'int4-asymmetricg64'"),
        (["--quantize=mxfp4-g64"], "mxfp4 has blocks of 32"),
        (["--quantize=fp8-g64"], "fp8 has a scale for each row"),
        (["--quantize=fp8", "--quantize-activations=8"], "integers of 8 bits, which do not hold the values of weights"),
        (["--quantize=int8", "--quantize-activations=fp8"], "is for linears whose weights are in fp8, and none are"),
        (["--quantize-activations=fp8"], "is for linears whose weights are in fp8, and none are: give --quantize=fp8"),
        (
            ["--quantize=fp8", "--quantize-parts=experts,linears=int8", "--quantize-activations=fp8"],
            "is for linears whose weights are in fp8, and none are",
        ),
        (["--quantize-activations=mxfp4"], "is for linears whose weights are in mxfp4, and none are: give --quantize="),
        (
            ["--quantize=mxfp4", "--quantize-activations=nvfp4"],
            "is for linears whose weights are in nvfp4, and none are: give --quantize=nvfp4",
        ),
        (
            ["--quantize=int8", "--quantize-parts=linears=fp8,embedding", "--quantize-activations=8"],
            "leave it out, or quantize weights to int8",
        ),
        (["--quantize=int4-g48"], "unknown weight format 'int4-g48'"),
        (
            ["--quantize=int4", "--quantize-activations=4"],
            "unknown activations '4': they are 8 (integers of 8 bits), 8-wide, 8-token (",
        ),
        (
            ["--matmul-precision=f8"],
            "unknown precision of matrix multiplications 'f8': f32, tf32, bf16, f16 and stored",
        ),
        (["--quantize=int4", "--quantize-parts=heads"], "unknown part 'heads' to quantize: the parts are linears"),
        (
            ["--quantize-activations=7"],
            "unknown activations '7': they are 8 (integers of 8 bits), 8-wide, 8-token (",
        ),
        (["--quantize-activations=16", "--start-from=fuse"], "are about the quantize phase, which does not run"),
        (["--quantize=int4", "--quantize-parts=lm_head=int7"], "part 'lm_head': unknown weight format 'int7': the"),
        (["--quantize=int4", "--quantize-parts=lm_head="], "part 'lm_head': unknown weight format '': the formats"),
        (["--quantize=int4", "--quantize-parts=lm_head=none"], "leave it out of --quantize-parts to keep it as it is"),
        (["--quantize=int4", "--quantize-parts=lm_head,linears,lm_head=int8"], "'lm_head' to quantize is named twice"),
        (["--quantize-parts=linears"], "no format: give --quantize"),
        (["--quantize=none", "--quantize-parts=lm_head=int8"], "no format: give --quantize"),
        (
            ["--quantize=int4", "--start-from=fuse"],
            "--quantize, --quantize-activations, --quantize-attention, --segment and --matmul-precision are about the",
        ),
    ],
)
def test_wrong_flags(tools, tmp_path, flags, message):
    (tmp_path / "m.mlir").write_text('nn.archive @weights {file = "w.safetensors"}\n' + program(40, 64))
    result = tools.run("intarsia-compile", tmp_path / "m.mlir", *flags, check=False, cwd=tmp_path)
    assert result.returncode != 0
    assert message in result.stderr
