# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models whose linears run on a simulated wafer: logits against those of PyTorch, tokens against the CPU's, refusals."""

from __future__ import annotations

import json
import re
from pathlib import Path

import intarsia
import numpy as np
import pytest

HERE = Path(__file__).resolve().parent
GLOSSARY = HERE.parents[1] / "examples" / "glossary"
PROMPT = [1, 5, 9, 200, 31, 8]
LINEARS = ["--place=*_proj*=@wafer", "--place=*mlp*=@wafer"]


def compile_for(tools, path: Path, model: Path, target: str, *flags: str) -> intarsia.Module:
    place = [] if any(flag.startswith("--place") for flag in flags) else LINEARS
    tools.compile(model, "-o", path, f"--target=cpu,{target}", "--kv=f32", *place, *flags)
    return intarsia.load(path)


def kernels_on(module: intarsia.Module, device: str) -> list[str]:
    number = [one["name"] for one in module.manifest["devices"]].index(device)
    manifest = module.manifest
    return [k for k, of in zip(manifest["kernels"], manifest["kernel_devices"], strict=True) if of == number]


def tokens_of(module: intarsia.Module) -> list[int]:
    (generation,) = intarsia.Generator(module).generate("A compiler is", 20, temperature=0)
    return generation.ids


@pytest.fixture(scope="module")
def glossary_on_cpu(tools, scratch: Path) -> tuple[np.ndarray, list[int]]:
    tools.compile(GLOSSARY, "-o", scratch / "glossary-cpu.itx", "--matmul-precision=f32", "--kv=f32")
    module = intarsia.load(scratch / "glossary-cpu.itx")
    return intarsia.Generator(module).logits([PROMPT])[0], tokens_of(module)


@pytest.mark.cpu_only
@pytest.mark.parametrize("target", ["wafer", "wafer:wse-2+grid=32", "wafer:wse-3+grid=27"])
@pytest.mark.parametrize(("precision", "tolerance"), [("f32", 1e-5), ("f16", 1e-2)])
def test_a_language_model(tools, scratch, glossary_on_cpu, target: str, precision: str, tolerance: float) -> None:
    """On a grid that the compiler chooses, one that divides all sizes, and one that divides none."""
    path = scratch / f"{target.replace(':', '-')}-{precision}.itx"
    module = compile_for(tools, path, GLOSSARY, target, f"--matmul-precision={precision}")
    logits, tokens = glossary_on_cpu
    error = np.abs(intarsia.Generator(module).logits([PROMPT])[0] - logits).max() / np.abs(logits).max()
    assert 0 < error < tolerance
    assert tokens_of(module) == tokens
    assert len(tokens) > 5
    there = [name.replace("_ext", "").replace("_truncf", "") for name in kernels_on(module, "wafer")]
    assert there[:2] == ["linear_256x512", "linear_256x256"]
    assert "linear_silu_mul_256x1536" in there


@pytest.mark.cpu_only
@pytest.mark.parametrize("name", ["llama", "gpt2", "qwen2", "gemma2", "phi3"])
def test_logits_are_those_of_pytorch(tools, scratch, name: str) -> None:
    """Biases, transposed weights, gated layers with silu and gelu, weights that are cut in the middle, both norms."""
    place = [*LINEARS, "--place=model.layers.*norm*=@wafer"]
    if name == "gpt2":
        place = [f"--place=transformer.h.*{part}*=@wafer" for part in (".c_", "mlp", "ln_")]
    elif name == "gemma2":  # whose norms add 1 to their scales
        place = LINEARS
    module = compile_for(tools, scratch / f"wafer-{name}.itx", HERE / "decoders" / name, "wafer:wse-2+grid=8", *place)
    with np.load(HERE / "decoders" / name / "golden.npz") as golden:
        ids, length, logits = golden["input_ids"][0], golden["lengths"][0], golden["logits"][0]
    actual = intarsia.Generator(module).logits([ids[:length].tolist()])[0]
    assert np.abs(actual - logits[:length]).max() < 2e-5
    assert any("_norm_" in kernel for kernel in kernels_on(module, "wafer")) == (name != "gemma2")


@pytest.mark.cpu_only
def test_prompts_are_products_of_matrices(tools, scratch) -> None:
    """Rows by the hundred, more than one product has, with a rest: tiles are padded; norms are of rows."""
    flags = ["--place=model.layers.*norm*=@wafer", *LINEARS]
    module = compile_for(
        tools, scratch / "prompts.itx", GLOSSARY, "wafer:wse-2+grid=27", "--matmul-precision=f32", *flags
    )
    tools.compile(GLOSSARY, "-o", scratch / "prompts-cpu.itx", "--matmul-precision=f32", "--kv=f32")
    ids = np.random.default_rng(5).integers(3, 4000, 300).tolist()
    logits, expected = (
        intarsia.Generator(one).logits([ids])[0] for one in (module, intarsia.load(scratch / "prompts-cpu.itx"))
    )
    assert np.abs(logits - expected).max() < 1e-5 * np.abs(expected).max()


@pytest.fixture(scope="module")
def quantized_on_cpu(tools, scratch: Path) -> dict[str, tuple[np.ndarray, list[int]]]:
    """Give logits and tokens of the CPU with the same quantized weights, by their format."""
    known = {}
    for bits in ("int8", "int4"):
        path = scratch / f"glossary-cpu-{bits}.itx"
        flags = [f"--quantize={bits}", "--quantize-activations=16", "--matmul-precision=f32", "--kv=f32"]
        tools.compile(GLOSSARY, "-o", path, *flags)
        module = intarsia.load(path)
        known[bits] = intarsia.Generator(module).logits([PROMPT])[0], tokens_of(module)
    return known


@pytest.mark.cpu_only
@pytest.mark.parametrize("bits", ["int8", "int4"])
@pytest.mark.parametrize("target", ["wafer", "wafer:wse-2+grid=32", "wafer:wse-2+grid=27"])
@pytest.mark.parametrize(("precision", "tolerance"), [("f32", 1e-5), ("f16", 1e-2)])
def test_quantized_weights(
    tools, scratch, quantized_on_cpu, bits: str, target: str, precision: str, tolerance: float
) -> None:
    """Cores decode what the CPU multiplies; on a grid of 27, tiles have 10 rows, so that a group is in several tiles."""
    path = scratch / f"{target.replace(':', '-')}-{precision}-{bits}.itx"
    module = compile_for(tools, path, GLOSSARY, target, f"--matmul-precision={precision}", f"--quantize={bits}")
    logits, tokens = quantized_on_cpu[bits]
    error = np.abs(intarsia.Generator(module).logits([PROMPT])[0] - logits).max() / np.abs(logits).max()
    assert error < tolerance
    if precision == "f32":
        assert tokens_of(module) == tokens
    assert len(tokens) > 5


@pytest.mark.cpu_only
def test_quantized_weights_need_less_memory(tools, scratch) -> None:
    """Eight bits and scales of 16 for 32 values are 0.27 of f32, four bits 0.14; what is decoded is there once."""
    bytes_of = {}
    for name, flags in {"f32": [], "int8": ["--quantize=int8"], "int4": ["--quantize=int4"]}.items():
        done = tools.compile(
            GLOSSARY, "-o", scratch / f"memory-{name}.itx", "--target=cpu,wafer:wse-2+grid=32", "--kv=f32", *LINEARS,
            "--matmul-precision=f32", *flags,
        )  # fmt: skip
        bytes_of[name] = int(re.search(r"(\d+) of 49152 bytes of a core", done.stderr)[1])
    assert bytes_of["int4"] < bytes_of["int8"] < bytes_of["f32"]
    assert bytes_of["int4"] < 0.5 * bytes_of["f32"]


@pytest.mark.cpu_only
def test_wafers_of_files_have_cores_that_do_not_work(tools, scratch) -> None:
    """A grid leaves out their columns and rows; one that is too large then is refused with the largest."""
    source = (HERE.parents[1] / "catalogue" / "wafers" / "wse-2.yaml").read_text()
    source = source.replace("value: 750,", "value: 40,").replace("value: 994,", "value: 36,")
    (scratch / "small.yaml").write_text(f"{source}defects: [[9, 20], [38, 3]]\n")
    target = f"wafer:{scratch / 'small.yaml'}"
    done = tools.run(
        "intarsia-compile",
        GLOSSARY,
        "-o",
        scratch / "dead.itx",
        f"--target=cpu,{target}+grid=36",
        *LINEARS,
        check=False,
    )
    assert done.returncode == 1
    assert (
        "which has 40 by 36 cores, and at most 35 by 35 on columns and rows without one that does not work"
        in done.stderr
    ), done.stderr
    module = compile_for(tools, scratch / "alive.itx", GLOSSARY, f"{target}+grid=35", "--matmul-precision=f32")
    tools.compile(GLOSSARY, "-o", scratch / "alive-cpu.itx", "--matmul-precision=f32", "--kv=f32")
    assert tokens_of(module) == tokens_of(intarsia.load(scratch / "alive-cpu.itx"))
    assert str(scratch) not in json.dumps(module.manifest["devices"])


@pytest.mark.cpu_only
def test_an_encoder(tools, scratch) -> None:
    """Rows of a batch: their number is a product of two sizes."""
    bert = HERE / "models" / "bert"
    tools.compile(bert, "-o", scratch / "bert-cpu.itx")
    tools.compile(bert, "-o", scratch / "bert-wafer.itx", "--target=cpu,wafer", "--place=encoder.layer*output*=@wafer")
    cpu, wafer = (intarsia.load(scratch / f"bert-{kind}.itx") for kind in ("cpu", "wafer"))
    ids = np.random.default_rng(0).integers(0, 99, (3, 7))
    for x, y in zip(cpu.main(input_ids=ids), wafer.main(input_ids=ids), strict=True):
        np.testing.assert_allclose(x, y, atol=2e-5, rtol=0)
    assert "linear_add_layer_norm_64x32" in kernels_on(wafer, "wafer")


@pytest.mark.cpu_only
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--target=wafer"], "model.embed_tokens"),
        (
            ["--target=wafer"],
            "cannot be computed on a wafer: it selects rows of a weight; put the embedding on another device",
        ),
        (["--target=wafer"], "--target=cpu,wafer --place='PATTERN=@wafer' puts only what a pattern names on the wafer"),
        (["--target=cpu,wafer:wse-9", *LINEARS], "unknown wafer 'wse-9'; known are tensix, wse-2, wse-3"),
        (["--target=cpu,wafer:wse-2+grid=751", *LINEARS], "is larger than wse-2, which has 750 by 994 cores"),
        (["--target=cpu,wafer:wse-2+grid=0", *LINEARS], "'grid=0' behind the + is none of grid=N"),
        (["--target=cpu,wafer:wse-2+grid=1", *LINEARS], "a grid has at least 2 cores along each side"),
        (["--target=cpu,wafer:wse-2+side=8", *LINEARS], "'side=8' behind the + is none of grid=N"),
        (["--target=cpu,wafer:wse-2+grid=200", *LINEARS], "a linear has a side of 128, less than the 200 cores"),
        (
            ["--target=cpu,wafer:wse-2+grid=8", *LINEARS],
            "bytes of each core on a grid of 8 by 8, wse-2 has 49152; take a larger",
        ),
        (["--target=cpu,wafer:wse-2,wafer:wse-3", *LINEARS], "an artifact is for one wafer"),
        (["--target=cpu,wafer:nowhere.yaml", *LINEARS], "nowhere.yaml: cannot be read"),
        (
            ["--target=cpu,wafer", "--quantize=mxfp4", *LINEARS],
            "its weight is quantized to e2m1-e8m0-32; cores decode integers of 4 and 8 bits in groups without zero points",
        ),
    ],
)
def test_what_is_refused(tools, scratch, flags: list[str], message: str) -> None:
    done = tools.run("intarsia-compile", GLOSSARY, "-o", scratch / "refused.itx", *flags, check=False)
    assert done.returncode == 1
    assert message in done.stderr, done.stderr
    assert not (scratch / "refused.itx").exists()
