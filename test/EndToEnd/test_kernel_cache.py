# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""INTARSIA_KERNEL_CACHE: kernels that were compiled before are not compiled again."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


@pytest.fixture
def compiled(tools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return a function that compiles a model, and returns the artifact's bytes and the names in the cache."""

    def compile_model(model: str, cache: Path | None, *flags: str) -> tuple[bytes, set[str]]:
        monkeypatch.delenv("INTARSIA_KERNEL_CACHE", raising=False)
        if cache:
            monkeypatch.setenv("INTARSIA_KERNEL_CACHE", str(cache))
        artifact = tmp_path / "model.itx"
        tools.run("intarsia-compile", HERE / model, "-o", artifact, *flags)
        names = {path.name for path in cache.iterdir() if path.name.startswith("llvmcache-")} if cache else set()
        return artifact.read_bytes(), names

    return compile_model


@pytest.mark.parametrize("target", ["cpu", "reference", "cuda:sm_90a"])
def test_artifacts_are_the_same(compiled, target: str, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    without, _ = compiled("models/bert", None, f"--target={target}")
    first, made = compiled("models/bert", cache, f"--target={target}")
    second, again = compiled("models/bert", cache, f"--target={target}")
    assert without == first == second
    assert made
    assert made == again


def test_models_share_kernels(compiled, tmp_path: Path) -> None:
    """Kernels have other numbers, and other names, in another model."""
    _, of_llama = compiled("decoders/llama", tmp_path / "a")
    _, of_gpt2 = compiled("decoders/gpt2", tmp_path / "b")
    _, of_both = compiled("decoders/llama", tmp_path / "b")
    assert of_both == of_llama | of_gpt2
    _, of_qwen = compiled("decoders/qwen3", tmp_path / "a")
    _, of_qwen_alone = compiled("decoders/qwen3", tmp_path / "c")
    assert of_qwen == of_llama | of_qwen_alone
    assert of_llama & of_qwen_alone


def test_flags_make_other_code(compiled, tmp_path: Path) -> None:
    one, made = compiled("models/bert", tmp_path / "cache", "--target=cpu:x86-64-v3")
    other, more = compiled("models/bert", tmp_path / "cache", "--target=cpu:x86-64-v4")
    assert one != other
    assert len(more) == 2 * len(made)


def test_bad_folders(tools, compiled, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    _, names = compiled("models/bert", cache)
    damaged = cache / min(names)
    damaged.write_bytes(damaged.read_bytes()[:-1])
    file = tmp_path / "file"
    file.touch()
    for folder, message in ((cache, f"{damaged.name} is damaged"), (file, "name a folder that can be written to")):
        done = tools.run(
            "intarsia-compile",
            HERE / "models" / "bert",
            "-o",
            tmp_path / "none.itx",
            check=False,
            environment={"INTARSIA_KERNEL_CACHE": str(folder)},
        )
        assert done.returncode == 1
        assert f"INTARSIA_KERNEL_CACHE={folder}" in done.stderr
        assert message in done.stderr
        assert not (tmp_path / "none.itx").exists()
