# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`pip install .` gives a package that works by itself: without the compiler from source, with it from this build."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

SOURCE = Path(__file__).resolve().parents[2]


def run_installed(site: Path, program: str) -> None:
    """Run Python with the package of a folder, as one who has nothing else of Intarsia."""
    environment = {name: value for name, value in os.environ.items() if name not in ("LD_LIBRARY_PATH", "PYTHONPATH")}
    environment = {name: value for name, value in environment.items() if not name.startswith("INTARSIA_")}
    result = subprocess.run(
        [sys.executable, "-c", f"import intarsia\nassert intarsia.__file__.startswith({str(site)!r})\n{program}"],
        env={**environment, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_pip_install(minilm_artifact, minilm, build_dir, tmp_path):
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--target"]
    # Options and a folder as deep as those of the build, so that the compiler cache has all files already.
    folder = build_dir.with_name(f"{build_dir.name}-pip")
    settings = [
        "--config-settings=cmake.define.INTARSIA_COMPILER=OFF",
        "--config-settings=cmake.define.CMAKE_UNITY_BUILD=OFF",
        "--config-settings=cmake.define.CMAKE_C_FLAGS=-O1",
        "--config-settings=cmake.define.CMAKE_CXX_FLAGS=-O1",
        "--config-settings=cmake.build-type=None",
        f"--config-settings=build-dir={folder}",
    ]
    result = subprocess.run(
        [*command, tmp_path / "site", *settings, SOURCE], capture_output=True, text=True, timeout=600
    )
    assert result.returncode == 0, result.stdout + result.stderr
    # As the presets do, whatever compiler Python was built with.
    cache = (folder / "CMakeCache.txt").read_text()
    assert re.search(r"^CMAKE_CXX_COMPILER:\w+=.*/clang\+\+-22$", cache, re.MULTILINE)
    run_installed(
        tmp_path / "site",
        f"""
import numpy
module = intarsia.load({str(minilm_artifact)!r})
numpy.save({str(tmp_path / "out.npy")!r}, module.embed([[101, 7592, 102]]))
""",
    )
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), minilm.embed([[101, 7592, 102]]))
    runner = tmp_path / "site" / "intarsia" / "bin" / "intarsia-run"
    assert subprocess.run([runner, "--version"], capture_output=True).returncode == 0


def test_installed_compiler(build_dir, tmp_path):
    """The component that pip installs, with the compiler of this build: it finds MLIR and LLVM where they are."""
    command = ["cmake", "--install", build_dir, "--component", "python", "--prefix", tmp_path]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stdout + result.stderr
    shutil.copytree(SOURCE / "python" / "intarsia", tmp_path / "intarsia", dirs_exist_ok=True)  # as scikit-build-core
    (tmp_path / "double.mlir").write_text("""
func.func @main(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<4xf32> {nn.name = "y"}) {
  %0 = arith.addf %x, %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
""")
    run_installed(
        tmp_path,
        f"""
from intarsia.support.tools import find_tool
from intarsia.generation.engine import Mock
from intarsia.serve.worker import WorkerEngine
import subprocess
for name in ("intarsia-compile", "intarsia-worker"):
    assert str(find_tool(name)).startswith({str(tmp_path)!r})
WorkerEngine(Mock()).close()
subprocess.run([find_tool("intarsia-compile"), "--version"], check=True)
assert intarsia.compile({str(tmp_path / "double.mlir")!r}).main([1.5] * 4).tolist() == [3.0] * 4
""",
    )


def test_build_of_the_package_has_the_programs_that_it_starts(build_dir):
    """`make demo` builds no more than the package and the compiler, and says how to serve a model."""
    command = ["ninja", "-C", str(build_dir), "-t", "inputs", "IntarsiaPython"]
    inputs = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert {"bin/intarsia-run", "bin/intarsia-worker"} <= set(inputs)
