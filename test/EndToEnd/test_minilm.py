# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""MiniLM-L6-v2 with its real weights, from directory to results."""

from __future__ import annotations

import json
import subprocess

import intarsia
import numpy as np
import pytest
from bert_reference import BertReference

# Largest absolute error against PyTorch in float32. Its own rounding is about 2e-6 here; an error of meaning (a mask,
# an epsilon, the other GELU) is above 1e-4.
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def reference(minilm_dir) -> BertReference:
    return BertReference(minilm_dir)


def hidden(result) -> np.ndarray:
    return result if isinstance(result, np.ndarray) else result.last_hidden_state


def largest_error(actual: np.ndarray, expected: np.ndarray, mask: np.ndarray) -> float:
    assert actual.shape == expected.shape
    assert np.isfinite(actual[mask != 0]).all()
    return float(np.abs(actual - expected)[mask != 0].max())


def random_ids(batch: int, sequence: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(999, 30522, (batch, sequence))


def test_reference_is_right(reference, minilm_golden):
    ids, mask = minilm_golden["input_ids"], minilm_golden["attention_mask"]
    assert largest_error(reference.last_hidden_state(ids, mask), minilm_golden["last_hidden_state"], mask) < TOLERANCE


def test_golden(minilm, minilm_golden):
    ids, mask = minilm_golden["input_ids"], minilm_golden["attention_mask"]
    error = largest_error(
        hidden(minilm.main(input_ids=ids, attention_mask=mask)), minilm_golden["last_hidden_state"], mask
    )
    print(f"largest error of last_hidden_state: {error:.2e}")
    assert error <= TOLERANCE


def test_golden_embedding(minilm, minilm_golden):
    result = minilm.embed(input_ids=minilm_golden["input_ids"], attention_mask=minilm_golden["attention_mask"])
    np.testing.assert_allclose(result, minilm_golden["embedding"], rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(np.linalg.norm(result, axis=1), 1, rtol=0, atol=1e-6)


def test_batch_rows_equal_single_rows(minilm, minilm_golden):
    """Padding and neighbours do not change a row."""
    ids, mask = minilm_golden["input_ids"], minilm_golden["attention_mask"]
    batch = minilm.embed(ids, mask)
    for row in range(len(ids)):
        length = int(mask[row].sum())
        single = minilm.embed(np.ascontiguousarray(ids[row : row + 1, :length]))
        np.testing.assert_allclose(single[0], batch[row], rtol=0, atol=TOLERANCE, err_msg=f"row {row}")


@pytest.mark.parametrize(("batch", "sequence"), [(1, 1), (1, 7), (3, 33), (2, 512)])
def test_shapes(minilm, reference, batch, sequence):
    ids = random_ids(batch, sequence, seed=sequence)
    mask = np.ones_like(ids)
    mask[-1, max(1, sequence - sequence // 3) :] = 0
    error = largest_error(hidden(minilm.main(ids, mask)), reference.last_hidden_state(ids, mask), mask)
    assert error <= TOLERANCE


@pytest.mark.parametrize("sequence", [2, 15, 16, 17, 31, 32, 48, 63, 64, 65, 100, 127, 128, 129])
def test_sizes_around_the_tiles(minilm, reference, sequence):
    ids = random_ids(1, sequence, seed=sequence)
    np.testing.assert_allclose(minilm.embed(ids), reference.embedding(ids), rtol=0, atol=TOLERANCE)


def test_defaults_of_mask_and_types(minilm, reference):
    ids = random_ids(2, 9)
    mask, types = np.ones_like(ids), np.zeros_like(ids)
    left_out = hidden(minilm.main(input_ids=ids))
    np.testing.assert_array_equal(
        left_out, hidden(minilm.main(input_ids=ids, attention_mask=mask, token_type_ids=types))
    )
    types[:, 4:] = 1
    error = largest_error(
        hidden(minilm.main(input_ids=ids, token_type_ids=types)), reference.last_hidden_state(ids, mask, types), mask
    )
    assert error <= TOLERANCE


def test_same_bits_again_and_with_any_number_of_threads(minilm):
    ids = random_ids(2, 70)
    first = hidden(minilm.main(ids))
    try:
        for threads in (1, 2, 3, 5):
            intarsia.set_threads(threads)
            np.testing.assert_array_equal(hidden(minilm.main(ids)), first, err_msg=f"{threads} threads")
    finally:
        intarsia.set_threads(0)


@pytest.mark.cpu_only
def test_every_variant_that_this_cpu_runs(tools, minilm_dir, minilm_golden, scratch):
    """One artifact, one archive of weights, several variants; the best for this machine is chosen."""
    artifact = scratch / "minilm-variants" / "minilm.itx"
    artifact.parent.mkdir()
    levels = ["x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-v4+avx512vnni+avx512bf16"]
    tools.compile(minilm_dir, "-o", artifact, "--target=cpu", *(f"--target=cpu:{level}" for level in levels))
    assert sorted(path.name for path in artifact.parent.iterdir()) == ["minilm.itx", "minilm.safetensors"]
    best = intarsia.load(artifact)
    variants = best.manifest["target"]["variants"]
    assert len(variants) == len(levels) + 1
    ids, mask = minilm_golden["input_ids"], minilm_golden["attention_mask"]
    ran = []
    for variant in variants:
        try:
            module = intarsia.load(artifact, variant=variant["name"])
        except intarsia.Error as error:
            assert variant["name"] in str(error)  # noqa: PT017
            continue
        assert module.variant == variant["name"]
        error = largest_error(hidden(module.main(ids, mask)), minilm_golden["last_hidden_state"], mask)
        assert error <= TOLERANCE, variant["name"]
        ran.append(variant["name"])
    (own,) = {variant["name"] for variant in variants} - set(levels)
    assert own in ran
    assert "x86-64-v2" in ran
    # The variant for this machine uses all its features, also those of the other variants.
    assert best.variant == own


def save_inputs(folder, golden) -> list[str]:
    for name in ("input_ids", "attention_mask"):
        np.save(folder / f"{name}.npy", golden[name])
    return [f"--input={name}=@{folder}/{name}.npy" for name in ("input_ids", "attention_mask")]


def test_intarsia_run(tools, minilm_artifact, minilm, minilm_golden, tmp_path):
    inputs = save_inputs(tmp_path, minilm_golden)
    tools.run("intarsia-run", minilm_artifact, "--function=embed", *inputs, f"--output=@{tmp_path}/out.npy")
    expected = minilm.embed(minilm_golden["input_ids"], minilm_golden["attention_mask"])
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), expected)


def test_intarsia_run_list(tools, minilm_artifact):
    text = tools.run("intarsia-run", minilm_artifact, "--list").stdout
    for part in ("main", "embed", "input_ids", "last_hidden_state", "batch", "sequence"):
        assert part in text


def test_intarsia_run_benchmark_and_profile(tools, minilm_artifact, minilm_golden, tmp_path):
    inputs = save_inputs(tmp_path, minilm_golden)
    text = tools.run(
        "intarsia-run", minilm_artifact, *inputs, "--benchmark=3", f"--profile={tmp_path}/trace.json"
    ).stdout
    assert "ms" in text
    assert json.loads((tmp_path / "trace.json").read_text())


def test_same_input_same_bytes(tools, minilm_dir, minilm_artifact, scratch):
    """Nothing of the machine, the time or the thread schedule gets into an artifact."""
    folder = scratch / "again"
    folder.mkdir()
    tools.compile(minilm_dir, "-o", folder / "minilm.itx", "--threads=1")
    assert (folder / "minilm.itx").read_bytes() == minilm_artifact.read_bytes()
    weights = "minilm.safetensors"
    assert (folder / weights).read_bytes() == minilm_artifact.with_name(weights).read_bytes()


def test_code_is_small(minilm_artifact):
    assert minilm_artifact.stat().st_size <= 1_000_000


def test_embedded_weights(tools, minilm_dir, minilm, scratch):
    artifact = scratch / "embedded" / "minilm.itx"
    artifact.parent.mkdir()
    tools.compile(minilm_dir, "-o", artifact, "--embed-weights")
    assert [path.name for path in artifact.parent.iterdir()] == ["minilm.itx"]
    ids = random_ids(1, 8)
    np.testing.assert_array_equal(intarsia.load(artifact, verify=True).embed(ids), minilm.embed(ids))


def test_executable(tools, minilm_dir, minilm, minilm_golden, scratch):
    program = scratch / "minilm-program"
    tools.compile(minilm_dir, "-o", program, "--emit=exe")
    inputs = save_inputs(scratch, minilm_golden)
    output = scratch / "exe.npy"
    result = subprocess.run(
        [program, "--function=embed", *inputs, f"--output=@{output}"], capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 0, result.stderr
    expected = minilm.embed(minilm_golden["input_ids"], minilm_golden["attention_mask"])
    np.testing.assert_array_equal(np.load(output), expected)


def test_pipeline_in_pieces(tools, minilm_dir, minilm, scratch):
    """Stopping after a phase and starting again from its IR gives the same artifact."""
    phases = (("import", "fuse"), ("fuse", "lower"), ("lower", "target"), ("target", "assemble"))
    for phase, following in phases:
        stopped = scratch / (f"{phase}.mlirbc" if phase == "target" else f"{phase}.mlir")
        tools.compile(minilm_dir, "-o", stopped, f"--stop-after={phase}")
        artifact = scratch / f"from-{following}.itx"
        tools.compile(stopped, "-o", artifact, f"--start-from={following}", f"--archives={minilm_dir}")
        ids = random_ids(1, 12)
        np.testing.assert_array_equal(
            intarsia.load(artifact).embed(ids), minilm.embed(ids), err_msg=f"stopped after {phase}"
        )


def test_dump_after_each(tools, minilm_dir, tmp_path):
    tools.compile(minilm_dir, "-o", tmp_path / "m.itx", f"--dump-after-each={tmp_path}/dump")
    names = " ".join(sorted(path.name for path in (tmp_path / "dump").iterdir()))
    for phase in ("import", "fuse", "lower"):
        assert phase in names


def test_explain(tools, minilm_dir, tmp_path):
    tools.compile(minilm_dir, "-o", tmp_path / "m.itx", f"--explain={tmp_path}/why.json")
    assert json.loads((tmp_path / "why.json").read_text())


@pytest.mark.parametrize(("name", "cosine"), [("int8", 0.995), ("nvfp4", 0.9)])
def test_quantized_weights(tools, scratch, minilm_dir, minilm_golden, name, cosine):
    """Sentences of a model that was not trained for it keep their directions, with inputs in blocks of 32 features.

    What `int8` means by default is in test_encoder_precision.py.
    """
    flags = (f"--quantize={name}", "--quantize-activations=8")
    tools.compile(minilm_dir, "-o", scratch / f"minilm-{name}.itx", *flags)
    module = intarsia.load(scratch / f"minilm-{name}.itx")
    actual = module.embed(input_ids=minilm_golden["input_ids"], attention_mask=minilm_golden["attention_mask"])
    expected = minilm_golden["embedding"]
    cosines = (actual * expected).sum(-1) / np.linalg.norm(actual, axis=-1) / np.linalg.norm(expected, axis=-1)
    assert cosine < cosines.min() < 1 - 1e-6
