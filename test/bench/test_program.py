# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the programs about language models share."""

from __future__ import annotations

import argparse

import pytest
from harness import llama
from harness.program import compile_model, report, some_of


def test_lists():
    assert some_of({"a", "b"})("b,a") == ["b", "a"]
    assert some_of({"a"})("") == []
    with pytest.raises(argparse.ArgumentTypeError, match="unknown: c; known: a, b"):
        some_of(["a", "b"])("a,c")


def test_pages(tmp_path, capsys):
    described = {"vendor": "V", "family": "1", "model": "2"}
    arguments = argparse.Namespace(output=tmp_path / "out", threads=2)
    report(arguments, described, "name", "Title", "body\n", {"rows": [1]})
    page = (tmp_path / "out/name.md").read_text()
    assert page == "## Title\n\nV, family 1, model 2; 2 threads.\n\nbody\n"
    assert capsys.readouterr().out == page + "\n"
    assert '"rows"' in (tmp_path / "out/name.json").read_text()


def test_compiles_when_something_is_newer(build_dir, tmp_path, small_config):
    folder = tmp_path / "small"
    llama.write_directory(folder, small_config, llama.random_weights(small_config))
    artifact = tmp_path / "work" / "small.itx"
    compile_model(build_dir, folder, artifact)
    first = artifact.stat().st_mtime_ns
    compile_model(build_dir, folder, artifact)
    assert artifact.stat().st_mtime_ns == first
    (folder / "config.json").touch()
    compile_model(build_dir, folder, artifact)
    assert artifact.stat().st_mtime_ns > first
    (folder / "config.json").write_text("{}")
    with pytest.raises(RuntimeError, match="model_type"):
        compile_model(build_dir, folder, artifact)
