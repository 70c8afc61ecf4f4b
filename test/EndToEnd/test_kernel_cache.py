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


def test_files_of_other_kernels_are_made_anew(compiled, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    good, names = compiled("models/bert", cache)
    files = [cache / name for name in sorted(names)]
    contents = [path.read_bytes() for path in files]
    # Two that have changed their names, one that is too short, one without anything, and one with a wrong byte.
    wrong = [contents[1], contents[0], contents[2][:-1], b"", contents[4][:-9] + b"?" + contents[4][-8:], *contents[5:]]
    for path, content in zip(files, wrong, strict=True):
        path.write_bytes(content)
    again, _ = compiled("models/bert", cache)
    assert again == good
    assert [path.read_bytes() for path in files] == contents


@pytest.mark.parametrize("kind", ["file", "open to all"])
def test_folders_that_cannot_be_used_cost_a_warning(tools, tmp_path: Path, kind: str) -> None:
    cache, artifact = tmp_path / "cache", tmp_path / "model.itx"
    if kind == "file":
        cache.touch()
    else:
        cache.mkdir()
    if kind == "open to all":
        cache.chmod(0o777)
    done = tools.run(
        "intarsia-compile",
        HERE / "models" / "bert",
        "-o",
        artifact,
        environment={"INTARSIA_KERNEL_CACHE": str(cache)},
    )
    assert done.stderr.count(f"warning: INTARSIA_KERNEL_CACHE={cache}: ") == 1
    if kind == "open to all":
        assert "every user may write there" in done.stderr
        assert not list(cache.iterdir())
