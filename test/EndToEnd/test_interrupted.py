# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A compilation that is killed or fails at any step, or whose input changes, leaves a valid artifact, old or new."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
import subprocess
from pathlib import Path

import intarsia
import numpy as np
import pytest
from gguf_models import as_floats, write_gguf
from safetensors.numpy import save_file

ROOT = Path(__file__).resolve().parents[2]

# Kills the process before its KILL_AT-th call of one of the functions that KILL_CALLS names. With KILL_ERRNO that call
# fails with this number instead, with CHANGE_FILE that file is changed first: CHANGE_BY bytes are cut from its end, or,
# if they are negative, written over with zeros.
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static void change(const char *path, long bytes) {
  int file = open(path, O_RDWR);
  struct stat info;
  fstat(file, &info);
  if (bytes >= 0)
    (void)!ftruncate(file, info.st_size - bytes);
  for (lseek(file, bytes, SEEK_END); bytes < 0; ++bytes)
    (void)!write(file, "", 1);
  close(file);
}

static int holds(const char *names, const char *name) {
  size_t length = strlen(name);
  for (const char *at = names; (at = strstr(at, name)); at += length)
    if ((at == names || at[-1] == ' ') && (at[length] == ' ' || !at[length]))
      return 1;
  return 0;
}

static int fails(const char *name) {
  static int calls;
  const char *at = getenv("KILL_AT"), *names = getenv("KILL_CALLS"), *number = getenv("KILL_ERRNO");
  if (!at || !names || !holds(names, name) || __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST) != atoi(at))
    return 0;
  const char *changed = getenv("CHANGE_FILE");
  if (changed) {
    change(changed, atol(getenv("CHANGE_BY")));
    return 0;
  }
  if (!number)
    kill(getpid(), SIGKILL);
  errno = atoi(number);
  return 1;
}
#define SHIM(result, name, parameters, arguments)                                                                      \
  result name parameters {                                                                                             \
    if (fails(#name))                                                                                                  \
      return -1;                                                                                                       \
    result(*real) parameters = (result(*) parameters)dlsym(RTLD_NEXT, #name);                                          \
    return real arguments;                                                                                             \
  }
SHIM(int, rename, (const char *from, const char *to), (from, to))
SHIM(int, unlink, (const char *path), (path))
SHIM(int, linkat, (int a, const char *from, int b, const char *to, int flags), (a, from, b, to, flags))
SHIM(ssize_t, write, (int file, const void *data, size_t bytes), (file, data, bytes))
SHIM(ssize_t, pwrite, (int file, const void *data, size_t bytes, off_t at), (file, data, bytes, at))
SHIM(ssize_t, pwrite64, (int file, const void *data, size_t bytes, off_t at), (file, data, bytes, at))
"""

PROGRAM = """nn.archive @weights {file = "w.safetensors"}
func.func @main(%x: tensor<300000xf32>) -> tensor<300000xf32> {
  %w = nn.weight @weights["w"] : tensor<300000xf32>
  %r = arith.addf %x, %w : tensor<300000xf32>
  return %r : tensor<300000xf32>
}
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shim")
    (folder / "shim.c").write_text(SHIM)
    subprocess.run(["clang-22", "-shared", "-fPIC", folder / "shim.c", "-o", folder / "shim.so"], check=True)
    return folder / "shim.so"


@pytest.fixture
def model(tools, tmp_path: Path) -> Path:
    """Give the folder of a model that adds 1, compiled, whose weights have changed to 2 since."""
    (tmp_path / "m.mlir").write_text(PROGRAM)
    (tmp_path / "out").mkdir()
    save_file({"w": np.full(300000, 1, np.float32)}, tmp_path / "w.safetensors")
    tools.compile(tmp_path / "m.mlir", "-o", tmp_path / "out" / "m.itx")
    save_file({"w": np.full(300000, 2, np.float32)}, tmp_path / "w.safetensors")
    return tmp_path


def run(shim: Path, *command: object, **variables: object) -> subprocess.CompletedProcess[str]:
    """Run a tool with these environment variables of the shim."""
    environment = os.environ | {"LD_PRELOAD": str(shim)} | {name: str(value) for name, value in variables.items()}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)


def compiled(tools, shim: Path, model: Path, **variables: object) -> subprocess.CompletedProcess[str]:
    """Compile the model with these environment variables of the shim."""
    command = [tools.path("intarsia-compile"), model / "m.mlir", "-o", model / "out" / "m.itx"]
    return run(shim, *command, **variables)


def killed(tools, shim: Path, model: Path, calls: str, at: int) -> bool:
    """Compile the model, killed before a call; False if there were not that many."""
    result = compiled(tools, shim, model, KILL_CALLS=calls, KILL_AT=at)
    assert result.returncode in (0, -signal.SIGKILL), result.stderr
    return result.returncode != 0


def added(folder: Path) -> float:
    sums = intarsia.load(folder / "m.itx").main(np.zeros(300000, np.float32))
    assert (sums == sums[0]).all()
    return float(sums[0])


def has_nameless_files(folder: Path) -> bool:
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_WRONLY))
    except OSError:
        return False
    return True


def test_one_of_two_pairs_is_there_at_each_instant(tools, shim, model):
    # Old pair, the new artifact with weights that wait for their name, new pair.
    seen = set()
    at = 1
    while killed(tools, shim, model, "rename linkat unlink", at):
        seen.add(added(model / "out"))
        at += 1
    assert at > 3, "replacing two files takes some steps"
    assert seen == {1.0, 2.0}
    assert added(model / "out") == 2.0
    # Files left by killed compilations are removed when the artifact is written again.
    left = sorted(path.name for path in (model / "out").iterdir() if path.suffix != ".tmp")
    assert left == ["m.itx", "m.safetensors"]
    for path in (model / "out").glob("*.tmp"):
        assert path.stat().st_size == (model / "out" / "m.itx").stat().st_size, (
            "only an artifact, just before its rename"
        )


def test_nothing_is_left_of_a_process_that_is_killed_while_it_packs(tools, shim, model):
    if not has_nameless_files(model):
        pytest.skip(f"the file system of {model} has no files without a name")
    before = {path.name: path.read_bytes() for path in (model / "out").iterdir()}
    assert killed(tools, shim, model, "pwrite", 2)
    assert {path.name: path.read_bytes() for path in (model / "out").iterdir()} == before
    assert added(model / "out") == 1.0


def waiting(folder: Path) -> list[Path]:
    """Return the weights that have a name with their hash."""
    return [path for path in folder.glob("m.*.safetensors") if path.name != "m.safetensors"]


def leave_weights_waiting(tools, shim: Path, model: Path) -> Path:
    """End a compilation between its last two renames; returns the weights that its artifact uses."""
    at = 1
    while killed(tools, shim, model, "rename linkat", at):
        if waiting(model / "out") and added(model / "out") == 2.0:
            return waiting(model / "out")[0]
        at += 1
    raise AssertionError("no step leaves weights under their longer name")


def test_a_failing_call_keeps_the_pair_that_is_there(tools, shim, model):
    leave_weights_waiting(tools, shim, model)
    failed = 0
    for at in range(1, 20):
        result = compiled(tools, shim, model, KILL_CALLS="rename linkat", KILL_AT=at, KILL_ERRNO=errno.ENOSPC)
        assert added(model / "out") == 2.0
        if result.returncode == 0:
            break
        failed += 1
        assert "No space left on device" in result.stderr
        assert "/proc/" not in result.stderr
    assert failed >= 2


def test_full_disks_are_named_by_the_file(tools, shim, model):
    result = compiled(tools, shim, model, KILL_CALLS="pwrite", KILL_AT=1, KILL_ERRNO=errno.ENOSPC)
    assert result.returncode == 1
    assert "m.safetensors: cannot write the packed weights" in result.stderr
    assert "No space left on device" in result.stderr
    assert "/proc/" not in result.stderr
    assert added(model / "out") == 1.0


def test_waiting_weights_are_not_trusted_by_their_name(tools, shim, model):
    leave_weights_waiting(tools, shim, model).write_bytes(b"")
    assert compiled(tools, shim, model).returncode == 0
    assert added(model / "out") == 2.0


def test_compilations_of_one_artifact_take_turns(tools, model):
    command = [tools.path("intarsia-compile"), model / "m.mlir", "-o", model / "out" / "m.itx"]
    for _ in range(6):
        running = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
        for process in running:
            assert process.wait(timeout=600) == 0, process.stderr.read()
        assert added(model / "out") == 2.0


@pytest.mark.parametrize(
    ("changed", "by", "message"),
    [
        # Behind the new end of a file lies what is left of its page, zeros, and no signal is raised.
        ("w.safetensors", 1, "was written to and has"),
        ("w.safetensors", -4096, "w.safetensors: was written to while it was read"),
        ("m.mlir", -1, "m.mlir: was written to while it was read"),
    ],
)
def test_a_model_that_changes_while_it_is_compiled_makes_no_artifact(tools, shim, model, changed, by, message):
    before = {path.name: path.read_bytes() for path in (model / "out").iterdir()}
    result = compiled(tools, shim, model, KILL_CALLS="pwrite", KILL_AT=1, CHANGE_FILE=model / changed, CHANGE_BY=by)
    assert result.returncode == 1
    assert message in result.stderr
    assert {path.name: path.read_bytes() for path in (model / "out").iterdir()} == before


@pytest.mark.parametrize(
    ("tool", "source", "changed"),
    [
        ("intarsia-compile", "test/EndToEnd/models/bert", "config.json"),
        ("intarsia-compile", "test/EndToEnd/models/bert", "model.safetensors.index.json"),
        ("intarsia-compile", "test/EndToEnd/models/bert", "model-00002-of-00002.safetensors"),
        ("intarsia-compile", "test/EndToEnd/decoders/mistral", "m.gguf"),
        ("intarsia-compile", "examples/glossary", "tokenizer.json"),
        ("intarsia-quantize", "examples/glossary", "model.safetensors"),
        ("intarsia-quantize", "examples/glossary", "config.json"),
    ],
)
def test_each_file_that_is_read_is_watched(tools, shim, tmp_path, tool, source, changed):
    folder = tmp_path / "model"
    if changed.endswith(".gguf"):
        folder.mkdir()
        write_gguf(ROOT / source, folder / changed, as_floats("F32"))
    else:
        shutil.copytree(ROOT / source, folder)
    model = folder / changed if changed.endswith(".gguf") else folder
    calls = "pwrite" if tool == "intarsia-compile" else "write"
    changes = {"KILL_CALLS": calls, "KILL_AT": 1, "CHANGE_FILE": folder / changed, "CHANGE_BY": -1}
    result = run(shim, tools.path(tool), model, "-o", tmp_path / "result", **changes)
    assert result.returncode == 1
    assert f"{folder / changed}: was written to while it was read" in result.stderr
    written = tmp_path / "result"
    assert not (list(written.iterdir()) if written.is_dir() else written.exists())


def test_a_file_that_is_not_read_may_change(tools, shim, model):
    (model / "other.safetensors").write_bytes(b"0123")
    variables = {"CHANGE_FILE": model / "other.safetensors", "CHANGE_BY": 1}
    assert compiled(tools, shim, model, KILL_CALLS="pwrite", KILL_AT=1, **variables).returncode == 0
    assert (model / "other.safetensors").read_bytes() == b"012", "the change took place"
    assert added(model / "out") == 2.0


def test_a_full_disk_under_the_kernel_cache_costs_a_warning(tools, shim, model):
    variables = {"KILL_AT": 1, "KILL_ERRNO": errno.ENOSPC, "INTARSIA_KERNEL_CACHE": model / "kernels"}
    result = compiled(tools, shim, model, KILL_CALLS="rename linkat", **variables)
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("warning: INTARSIA_KERNEL_CACHE=") == 1
    assert "No space left on device" in result.stderr
    assert added(model / "out") == 2.0


def test_a_limit_of_files_is_a_message(tools, model):
    """It is no crash of LLVM, with a trace and where to report a bug."""
    limits = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 10, 64 << 10))}
    result = run_limited(tools, model, limits)
    assert "m.safetensors: cannot write the packed weights (1200" in result.stderr
    assert "File too large" in result.stderr


def test_a_limit_of_memory_is_a_message(tools, model):
    """The artifact would carry a file of 3 GiB, which is mapped and copied."""
    (model / "m.mlir").write_text(f'module attributes {{nn.files = ["tokenizer.json"]}} {{ {PROGRAM} }}')
    with (model / "tokenizer.json").open("wb") as file:
        file.truncate(3 << 30)
    limits = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_AS, (5 << 30, 5 << 30))}
    result = run_limited(tools, model, limits)
    assert "error: out of memory: this process may not take more" in result.stderr


def run_limited(tools, model: Path, limits: dict) -> subprocess.CompletedProcess[str]:
    """Compile the model with limits, which fails and changes nothing."""
    before = {path.name: path.read_bytes() for path in (model / "out").iterdir()}
    command = [tools.path("intarsia-compile"), model / "m.mlir", "-o", model / "out" / "m.itx"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, **limits)
    assert result.returncode == 1, result.stderr
    assert "LLVM" not in result.stderr
    assert {path.name: path.read_bytes() for path in (model / "out").iterdir()} == before
    return result
