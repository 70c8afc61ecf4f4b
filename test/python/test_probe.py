# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`intarsia-plan --probe`: its file, its figures against NumPy's, a plan on it, and GPUs through a driver that simulates one."""

from __future__ import annotations

import fcntl
import json
import os
import pathlib
import re
import shutil
import subprocess
import threading
import time
import typing

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = pathlib.Path(os.environ.get("INTARSIA_BUILD_DIR", ROOT / "build" / "dev")) / "bin" / "intarsia-plan"
# No models, and models that are measured for as short as it takes to find wrong units and counts.
QUICK, SHORT = "--probe-seconds=0", "--probe-seconds=5"
FIGURE = re.compile(
    r'^ *(\w+): \{value: ([\d.e+]+), source: "measured by intarsia-plan --probe: ([^"]+)", date: "\d{4}-'
)


def probe(*flags: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Measure this machine."""
    command = [str(TOOL), "--probe" + flags[0], *flags[1:]]
    return subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, **(environment or {})}
    )


def figures(text: str) -> dict[str, float]:
    """Read the figures of a file, each of which has a source and a date."""
    found = {}
    for line in text.partition("\nserving:")[0].splitlines():
        if "{" in line and not line.startswith("#"):
            match = FIGURE.match(line)
            assert match, line
            found[match[1]] = float(match[2])
    return found


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Write the file of this machine, once for all processes of a test run: two that measure slow each other down."""
    folder = tmp_path_factory.mktemp("probe")
    root = tmp_path_factory.getbasetemp()
    shared = (root.parent if "PYTEST_XDIST_WORKER" in os.environ else root) / "here-of-this-run.yaml"
    with shared.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not shared.exists():
            done = probe(f"={folder / 'first.yaml'}", SHORT)
            assert f"wrote {folder / 'first.yaml'}" in done.stderr
            (folder / "first.yaml").rename(shared)
    return pathlib.Path(shutil.copy(shared, folder / "here.yaml"))


def best_seconds(work: typing.Callable[[], object], rounds: int = 7) -> float:
    """Take the shortest of some rounds."""
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def test_says_what_it_is(here: pathlib.Path) -> None:
    """The name is the processor's, the memory is what the system has at most; what has no figure is named."""
    text = here.read_text()
    assert re.search(r"^name: here/[a-z0-9-]+$", text, re.M)
    assert re.search(r"^set: measured$", text, re.M)
    found = figures(text)
    system = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 1e-9
    assert 0.05 * system < found["memory_gb"] <= system * 1.001
    for name in ("watts", "bf16", "int8", "f16"):
        assert (name in found) != bool(re.search(rf"^# Not measured: (peak_tflops\.)?{name}: .+", text, re.M)), name


def test_bandwidth_is_numpys(here: pathlib.Path) -> None:
    """NumPy, summing an array on as many threads, reads as fast within a factor of 4: machines are shared."""
    array = np.ones(1 << 27, np.uint64)
    parts = np.array_split(array, len(os.sched_getaffinity(0)))

    def together() -> None:
        threads = [threading.Thread(target=part.sum) for part in parts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    gbps = array.nbytes / best_seconds(together) * 1e-9
    assert gbps / 4 < figures(here.read_text())["memory_gbps"] < gbps * 4


def test_multiply_adds_are_as_fast_as_a_librarys(here: pathlib.Path) -> None:
    """No library exceeds the peak of f32, and a good one gets a fair share of it; narrower types are no slower."""
    found = figures(here.read_text())
    a = np.ones((1536, 1536), np.float32)
    # In the threads' own time, as the probe counts: whoever else is on the machine takes nothing away.
    start = time.process_time()
    for _ in range(8):
        a @ a
    own = (time.process_time() - start) / 8
    threads = len(os.sched_getaffinity(0))
    tflops = 2 * 1536**3 / own * threads * 1e-12
    assert 0.9 * tflops < found["f32"] < 8 * tflops
    assert found.get("f16", found["f32"]) > 0.9 * found["f32"]
    # AVX-512's bf16 is at half the rate of f32 on some processors.
    assert found.get("bf16", found["f32"]) > 0.4 * found["f32"]
    assert found.get("int8", found["f32"]) > 0.9 * found["f32"]


def test_its_threads_may_be_shared(here: pathlib.Path) -> None:
    """A program may have any number of the threads, so that several have some each."""
    assert figures(here.read_text())["clients"] == len(os.sched_getaffinity(0))


def test_times_do_not_fall_with_more_rows(here: pathlib.Path) -> None:
    """More rows are more work: a time that falls was taken beside other work."""
    serving = here.read_text().partition("\nserving:")[2]
    layers, _, rest = serving.partition("\n  head:")
    encoders = rest.partition("\n  encoder:")[2].partition("\n  prompts:")[0]
    series = re.findall(r"ns: \[([^]]+)\]", layers) + re.findall(r": \[([^]]+)\]", encoders)
    assert len(series) == 3 * 4 + 3
    for numbers in series:
        times = [float(number) for number in numbers.split(",")]
        assert len(times) == 10
        assert times == sorted(times)


def test_how_long_it_measures_is_a_number(tmp_path: pathlib.Path) -> None:
    """Wrong seconds, and seconds without a probe, are refused."""
    for flags, message in (
        (["--probe", "--probe-seconds=-1"], "--probe-seconds=-1: seconds are expected, zero or more"),
        (["--probe-seconds=5"], "--probe-seconds says how long --probe measures; give --probe=FILE too"),
    ):
        done = subprocess.run([str(TOOL), *flags], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert message in done.stderr


AGENT = """
fleet.system @mine {
  fleet.device @here {file = "here.yaml"}
  fleet.pool @all of @here count 1 price #fleet.rental<dollars_per_hour = 0.1>
}
agent.model @minilm {parameters = 22700000.0}
agent.graph @embed(%text: !agent.text {agent.size = #agent.amount<100 tokens>}) -> !agent.text
    attributes {sla = #agent.sla<p95_ms = 2000, requests_per_second = 1>} {
  %vector = agent.infer @minilm(%text) produces <1 tokens> {label = "embed"} : (!agent.text) -> !agent.text
  agent.return %vector : !agent.text
}
"""


def test_plans_on_this_machine(here: pathlib.Path) -> None:
    """A fleet of the file: a small embedder goes there, and takes no less time than its weights and flops do."""
    agent = here.parent / "agent.mlir"
    agent.write_text(AGENT)
    out = here.parent / "plan.json"
    command = [str(TOOL), str(agent), f"--json={out}", "--why=false"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(out.read_text())
    (piece,) = [piece for piece in result["pieces"] if not piece["outside"]]
    assert piece["pool"] == "all"
    found = figures(here.read_text())
    bytes_of, peak = (
        (2, found["bf16"]) if "bf16" in found else (2, found["f16"]) if "f16" in found else (4, found["f32"])
    )
    least = max(22.7e6 * bytes_of / (found["memory_gbps"] * 1e6), 2 * 22.7e6 * 100 / (peak * 1e9))
    # No kernel is faster than the peaks, up to the noise of the machine. Encoders do not reach those of AMX tiles.
    in_f32 = max(22.7e6 * 4 / (found["memory_gbps"] * 1e6), 2 * 22.7e6 * 100 / (found["f32"] * 1e9))
    assert 0.7 * least < piece["milliseconds"] < 10 * max(least, in_f32) + 2
    assert ("watts" in found) != any("no figure of its watts" in line for line in result["unsure"])
    # Where power is asked for, it is not taken as none.
    done = subprocess.run([*command, "--objective=energy"], capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == ("watts" in found)
    assert "watts" in found or "has no figure 'watts'" in done.stderr


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Compile the driver that simulates a GPU."""
    compiler = shutil.which("clang-22") or shutil.which("cc")
    assert compiler, "no C compiler"
    folder = tmp_path_factory.mktemp("driver")
    source = pathlib.Path(__file__).parent / "drivers" / "libcuda.c"
    subprocess.run([compiler, "-shared", "-fPIC", str(source), "-o", str(folder / "libcuda.so.1")], check=True)
    return folder


def test_gpu_of_a_driver(driver: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Times and sizes become figures: 64 MB a millisecond is 128 GB/s read and written."""
    done = probe(f"={tmp_path / 'here.yaml'}", QUICK, environment={"LD_LIBRARY_PATH": str(driver)})
    assert "no GPU" not in done.stderr
    text = (tmp_path / "here-gpu0.yaml").read_text()
    assert "name: here/simulated-x1-8gb\n" in text
    assert "generation: hopper\n" in text
    found = figures(text)
    assert found["memory_gb"] == 8
    # The driver sleeps, and sleeps are never shorter than asked for.
    assert 40 < found["memory_gbps"] <= 128
    multiply_adds = 8 * 16 * 2000 * 80 * 256
    assert 0.3 * 2 * multiply_adds / 2e-3 < found["f32"] * 1e12 <= 2 * multiply_adds / 2e-3 * 1.001
    assert "# Not measured: peak_tflops.bf16: tensor cores" in text


@pytest.mark.parametrize(
    ("function", "message"),
    [("cuInit", "returned 999"), ("cuMemAlloc", "GPU 0: cuMemAlloc returned 999")],
)
def test_gpu_that_fails(driver: pathlib.Path, tmp_path: pathlib.Path, function: str, message: str) -> None:
    """A failing driver is reported, and the processor's file is still written."""
    environment = {"LD_LIBRARY_PATH": str(driver), "INTARSIA_DRIVER_FAILS": function}
    done = probe(f"={tmp_path / 'here.yaml'}", QUICK, environment=environment)
    assert message in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here.yaml"]


def test_where_it_cannot_write(tmp_path: pathlib.Path) -> None:
    """The file that cannot be written is named."""
    command = [str(TOOL), f"--probe={tmp_path / 'none' / 'here.yaml'}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"{tmp_path / 'none' / 'here.yaml'}: cannot be written" in done.stderr


LANGUAGE_MODEL = """
fleet.system @mine {
  fleet.device @here {file = "here.yaml"}
  fleet.pool @all of @here count 1 price #fleet.rental<dollars_per_hour = 0.1>
}
agent.model @writer {context_tokens = 2048, precisions = ["PRECISION"], shape = "tinyllama-1.1b"}
agent.graph @chat(%text: !agent.text {agent.size = #agent.amount<200 tokens>}) -> !agent.text
    attributes {sla = #agent.sla<p95_ms = 600000, ttft_ms = 60000, tbt_ms = 2000, requests_per_second = 0.001>} {
  %answer = agent.llm @writer(%text) produces <100 tokens> {label = "answer"} : (!agent.text) -> !agent.text
  agent.return %answer : !agent.text
}
"""


def plan_of(folder: pathlib.Path, precision: str) -> subprocess.CompletedProcess[str]:
    """Plan a language model of a billion weights on this machine."""
    (folder / "writer.mlir").write_text(LANGUAGE_MODEL.replace("PRECISION", precision))
    command = [str(TOOL), "writer.mlir", "--json=writer.json", "--why=false"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_plans_language_models_on_this_machine(here: pathlib.Path) -> None:
    """A token takes about as long as reading the weights does, a prompt as its flops.

    Other tests run beside the probe, whose threads then wait for each other: the bounds find wrong units and counts.
    """
    found = figures(here.read_text())
    for precision, stored, element in (("int8", 1, "int8"), ("f32", 4, "f32")):
        done = plan_of(here.parent, precision)
        assert done.returncode == 0, done.stderr
        pieces = {piece["kind"]: piece for piece in json.loads((here.parent / "writer.json").read_text())["pieces"]}
        weights = 22 * (2 * 2048 * 2048 + 2 * 2048 * 256 + 3 * 2048 * 5632)
        step = pieces["decode"]["alone_ms"] / (pieces["decode"]["work"]["written_tokens"] - 1)
        least = weights * stored / (found["memory_gbps"] * 1e6)
        assert 0.3 * least < step < 30 * least
        compute = 2 * weights * 200 / (found.get(element, found["f32"]) * 1e9)
        assert 0.3 * compute < pieces["prefill"]["alone_ms"] < 60 * compute
    done = plan_of(here.parent, "fp8")
    assert done.returncode == 1
    assert "decoders in fp8 were not measured on it, only in bf16, f32, int4, int8" in done.stderr


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("  rows: [1, 2,", "  rows: [2, 1,"), "rows 1 does not rise"),
        (("  rows: [1, 2,", "  rows: [1, 2, 3,"), "numbers, 11 expected"),
        (("  layers:\n    bf16:", "  layers:\n    fp7:"), "unknown precision 'fp7'"),
        (("  head:\n    bf16:", "  head:\n    f16:"), "'layers' has the precision bf16, 'head' has not"),
        (("  prompts: {tokens: [1024,", "  prompts: {tokens: [-1024,"), "is not above zero"),
        (("  source:", "  sauce:"), "unknown key 'sauce'"),
    ],
)
def test_measured_times_that_are_damaged(tmp_path: pathlib.Path, change: tuple[str, str], message: str) -> None:
    """What is wrong in a file is named."""
    good = pathlib.Path(__file__).with_name("probed.yaml").read_text()
    assert change[0] in good
    (tmp_path / "here.yaml").write_text(good.replace(*change, 1))
    done = plan_of(tmp_path, "int8")
    assert done.returncode == 1
    assert message in done.stderr, done.stderr
