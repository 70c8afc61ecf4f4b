# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""intarsia.compile: the compiler run from Python."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import intarsia
import numpy as np
import pytest
from intarsia.runtime.compile import _kernels
from intarsia.support.tools import find_tool

MODULE = """
func.func @main(%a: tensor<?xf32> {nn.name = "a", nn.sizes = ["n"]},
                %b: tensor<?xf32> {nn.name = "b", nn.sizes = ["n"]})
    -> (tensor<?xf32> {nn.name = "sum", nn.sizes = ["n"]}, tensor<?xf32> {nn.name = "product", nn.sizes = ["n"]}) {
  %0 = arith.addf %a, %b : tensor<?xf32>
  %1 = arith.mulf %a, %b : tensor<?xf32>
  return %0, %1 : tensor<?xf32>, tensor<?xf32>
}
"""


@pytest.fixture
def source(tmp_path) -> Path:
    path = tmp_path / "two.mlir"
    path.write_text(MODULE)
    return path


def test_several_outputs(source, tmp_path):
    module = intarsia.compile(source, output=tmp_path / "two.itx")
    assert (tmp_path / "two.itx").exists()
    a = np.arange(5, dtype=np.float32)
    b = np.full(5, 0.5, dtype=np.float32)
    result = module.main(a, b)
    np.testing.assert_array_equal(result.sum, a + b)
    total, product = result
    np.testing.assert_array_equal(total, a + b)
    np.testing.assert_array_equal(product, a * b)


def test_no_outputs(tmp_path):
    (tmp_path / "none.mlir").write_text('func.func @main(%x: tensor<4xf32> {nn.name = "x"}) {\n  return\n}\n')
    assert intarsia.compile(tmp_path / "none.mlir").main(np.zeros(4, np.float32)) == ()


def test_progress_is_shown_on_a_terminal(source):
    program = f"import intarsia; intarsia.compile({str(source)!r})"
    master, terminal = pty.openpty()
    result = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=terminal, timeout=60)
    os.close(terminal)
    shown = os.read(master, 65536).decode()
    os.close(master)
    assert result.returncode == 0, shown
    assert result.stdout == b""
    for part in (r"import +[\d.]+ s", r"target +[\d.]+ s", r"wrote .*module\.itx"):
        assert re.search(part, shown), shown


def test_quiet_without_a_terminal(source, capfd):
    intarsia.compile(source)
    assert capfd.readouterr() == ("", "")
    intarsia.compile(source, options=["--verbose"])
    assert "target" in capfd.readouterr().err


def test_without_output_the_artifact_lives_with_the_module(source):
    module = intarsia.compile(source)
    folder = Path(module.path).parent
    assert folder.exists()
    x = np.ones(3, dtype=np.float32)
    np.testing.assert_array_equal(module.main(x, x).product, x)
    del module
    assert not folder.exists()


def test_the_compilers_message_is_the_exceptions(tmp_path):
    with pytest.raises(intarsia.CompileError) as caught:
        intarsia.compile(tmp_path)
    assert "config.json" in str(caught.value)


@pytest.fixture
def flags(source, tmp_path, monkeypatch):
    """Return what a compiler is called with by given arguments."""
    tool = tmp_path / "tool"
    tool.write_text(f'#!/bin/sh\necho "$@" >{tmp_path}/flags\necho "no such thing: $@" >&2\nexit 1\n')
    tool.chmod(0o755)
    monkeypatch.setenv("INTARSIA_COMPILE", str(tool))

    def call(**arguments: object) -> list[str]:
        with pytest.raises(intarsia.CompileError, match="no such thing: "):
            intarsia.compile(source, output=tmp_path / "m.itx", **arguments)
        return (tmp_path / "flags").read_text().split()[3:]

    return call


def test_flags(flags):
    assert flags() == ["--target=cpu"]
    assert flags(target="cpu:x86-64-v3", quantize="int4", kv="bf16", options=["--threads=1"]) == [
        "--target=cpu:x86-64-v3",
        "--quantize=int4",
        "--kv=bf16",
        "--threads=1",
    ]
    assert flags(quantize="none", kv="f16") == ["--target=cpu", "--quantize=none", "--kv=f16"]


def test_formats_of_weights(tmp_path):
    model = Path(__file__).resolve().parents[2] / "examples" / "glossary"
    path = tmp_path / "glossary.itx"
    intarsia.compile(model, quantize="int4", output=path)
    # 4.5 bits instead of 16, the table 8.5, and the tokenizer.
    assert path.with_suffix(".safetensors").stat().st_size < 0.36 * (model / "model.safetensors").stat().st_size
    assert intarsia.Generator(path).logits([[5, 6, 7]])[0].shape == (3, 4096)
    with pytest.raises(intarsia.CompileError, match="unknown weight format 'int7'"):
        intarsia.compile(model, quantize="int7")


def test_type_of_caches(tmp_path):
    model = Path(__file__).resolve().parents[2] / "examples" / "glossary"
    module = intarsia.compile(model, kv="f32", output=tmp_path / "glossary.itx")
    assert {value.dtype for value in module.step.signature.inputs if value.state} == {"f32"}
    with pytest.raises(intarsia.CompileError, match="--kv=int9: caches can be f32"):
        intarsia.compile(model, kv="int9")


def test_a_module_stands_for_its_path(source, tmp_path, tools):
    module = intarsia.compile(source, output=tmp_path / "two.itx")
    assert os.fspath(module) == module.path == str(tmp_path / "two.itx")
    assert "product" in tools.run("intarsia-run", os.fspath(module), "--list").stdout
    assert intarsia.load(module).functions == module.functions


def test_an_interrupted_compiler_cleans_up(source, tmp_path, monkeypatch, interruptible):
    tool = tmp_path / "tool"
    tool.write_text(f"""#!{sys.executable}
import pathlib, sys, time
half = pathlib.Path(sys.argv[sys.argv.index("-o") + 1] + ".tmp")
try:
    half.write_text("half")
    time.sleep(60)
except KeyboardInterrupt:
    time.sleep(0.2)
    half.unlink()
    sys.exit(130)
""")
    tool.chmod(0o755)
    monkeypatch.setenv("INTARSIA_COMPILE", str(tool))
    program = f"import intarsia; intarsia.compile({str(source)!r}, output={str(tmp_path / 'm.itx')!r})"
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **interruptible) as process:
        while not (tmp_path / "m.itx.tmp").exists() and process.poll() is None:
            time.sleep(0.01)
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        errors = process.communicate(timeout=30)[1]
    assert "KeyboardInterrupt" in errors
    assert not (tmp_path / "m.itx.tmp").exists()


def test_unknown_target(source):
    with pytest.raises(intarsia.CompileError, match="quantum"):
        intarsia.compile(source, target="cpu:quantum")


def test_tool_from_the_environment(source, monkeypatch, tmp_path):
    monkeypatch.setenv("INTARSIA_COMPILE", str(tmp_path / "elsewhere"))
    with pytest.raises(intarsia.NotFoundError, match="elsewhere"):
        intarsia.compile(source)


def test_tool_of_the_build_tree(tools, monkeypatch):
    monkeypatch.delenv("INTARSIA_COMPILE", raising=False)
    assert find_tool("intarsia-compile").samefile(tools.path("intarsia-compile"))


def test_fork(minilm_artifact):
    """A child made by fork goes on using what its parent loaded."""
    program = f"""
import os, sys
import numpy as np
import intarsia
module = intarsia.load({str(minilm_artifact)!r})
expected = module.embed([[101, 7592, 102]])
child = os.fork()
if child == 0:
    os._exit(0 if np.array_equal(module.embed([[101, 7592, 102]]), expected) else 3)
_, status = os.waitpid(child, 0)
again = module.embed([[101, 7592, 102]])
sys.exit(os.waitstatus_to_exitcode(status) or (0 if np.array_equal(again, expected) else 4))
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr


def test_clean_end_with_results_alive(minilm_artifact):
    """Arrays that live until the interpreter ends do no harm."""
    program = f"""
import intarsia
module = intarsia.load({str(minilm_artifact)!r})
result = module.main([[101, 7592, 102]])
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""


def test_a_process_compiles_a_kernel_once(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INTARSIA_KERNEL_CACHE", raising=False)
    intarsia.compile(source)
    kernels = set(os.listdir(_kernels().name))
    assert kernels
    intarsia.compile(source)
    assert set(os.listdir(_kernels().name)) == kernels
    monkeypatch.setenv("INTARSIA_KERNEL_CACHE", str(tmp_path / "kernels"))
    intarsia.compile(source)
    assert len(os.listdir(tmp_path / "kernels")) > 0
    monkeypatch.setenv("INTARSIA_KERNEL_CACHE", "")
    intarsia.compile(source)
