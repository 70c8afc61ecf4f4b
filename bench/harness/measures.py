# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The measurements, one function each; all return JSON values."""

from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness import artifact as artifacts
from harness import gemm
from harness.cases import CASES, MODELS, Case, model_directory
from harness.ratios import Comparison, alternate, geomean
from harness.specialise import specialise
from harness.workers import Worker, WorkerError

ROOT = Path(__file__).resolve().parent.parent.parent
OURS = "intarsia"


@dataclass
class Session:
    """Paths, and how thoroughly to measure."""

    build: Path
    cache: Path
    work: Path
    pairs: int
    threads: int
    engines: Sequence[str]
    cases: Sequence[str]
    shapes: Sequence[str]
    baseline: str

    @property
    def compiler(self) -> Path:
        return self.build / "bin/intarsia-compile"

    def program(self, name: str) -> Path:
        """Returns a program of bench/CMakeLists.txt."""
        path = self.build / "bin" / name
        if not path.exists():
            raise FileNotFoundError(f"{path} is missing: configure with -DINTARSIA_BENCHMARKS=ON and build {name}")
        return path

    def compile(self, source: Path, target: Path, *flags: str) -> Path:
        """Compiles with the compiler under measurement; its output goes into the error."""
        target.parent.mkdir(parents=True, exist_ok=True)
        command = [str(self.compiler), str(source), "-o", str(target), *flags]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()[-500:]}")
        return target

    def artifact(self, model: str) -> Path:
        """Returns the compiled model, which is compiled once a run."""
        target = self.work / model / "model.itx"
        if target not in self._compiled:
            self.compile(model_directory(self.cache, model), target)
            self._compiled.add(target)
        return target

    def engine(self, engine: str, case: Case, artifact: Path | None = None, name: str | None = None) -> Worker:
        """Starts an engine with a case, and waits until it has loaded and answered once."""
        command = [sys.executable, ROOT / "bench/engine_worker.py", engine, case.key]
        command += [f"--cache={self.cache}", f"--threads={self.threads}"]
        if engine == OURS:
            command.append(f"--artifact={artifact or self.artifact(case.model)}")
            command.append(f"--runtime={self.build / 'lib/libintarsia_runtime.so'}")
        name = name or engine
        environment = {"TORCHINDUCTOR_CACHE_DIR": str(self.work / "inductor")}
        return Worker(name, command, self.work / "log" / f"{case.key}-{name}.log", self.threads, environment)

    def __post_init__(self) -> None:
        self._compiled: set[Path] = set()


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# ---- Whole models ------------------------------------------------------------------------------------------------


def measure_models(session: Session) -> dict[str, Any]:
    """Measures for each case ours and every peer, in alternating rounds."""
    rows = []
    best: list[Comparison] = []
    for key in session.cases:
        case = CASES[key]
        say(f"==> {case.title}")
        row, comparisons = _measure_case(session, case)
        rows.append(row)
        if comparisons:
            strongest = min(comparisons, key=lambda one: one.ratio)
            row["best_peer"] = strongest.peer
            if case.in_bar:
                best.append(strongest)
    result: dict[str, Any] = {"cases": rows, "baseline": session.baseline}
    if best:
        value, low, high = geomean(best)
        titles = [row["title"] for row in rows if row.get("best_peer") and CASES[row["key"]].in_bar]
        result["geomean"] = {"of": titles, "value": value, "low": low, "high": high}
    return result


def _measure_case(session: Session, case: Case) -> tuple[dict[str, Any], list[Comparison]]:
    row: dict[str, Any] = {"key": case.key, "title": case.title, "engines": {}, "missing": {}, "comparisons": []}
    with contextlib.ExitStack() as stack:
        workers = {}
        for engine in (session.baseline, *session.engines):
            if engine in workers:
                continue
            try:
                workers[engine] = stack.enter_context(session.engine(engine, case))
            except WorkerError as error:
                if engine == session.baseline:
                    raise
                say(f"  not measured: {error}")
                row["missing"][engine] = str(error)
                continue
            ready = workers[engine].ready
            row["engines"][engine] = {key: value for key, value in ready.items() if key != "ready"}
            say(f"  {ready['version']}: {json.dumps(ready['settings'])}")
        row["max_abs_difference"] = _differences(session, case, workers)
        say("  differences: " + ", ".join(f"{name} {value:.1e}" for name, value in row["max_abs_difference"].items()))
        ours = workers.pop(session.baseline)
        comparisons = alternate(ours, list(workers.values()), session.pairs)
    row["comparisons"] = [one.to_json() for one in comparisons]
    for one in comparisons:
        say("  " + comparison_text(one))
    return row, comparisons


def comparison_text(one: Comparison) -> str:
    low, high = one.interval()
    ours, peer = statistics.median(one.ours_ms), statistics.median(one.peer_ms)
    return f"{one.ours} {ours:.3f} ms, {one.peer} {peer:.3f} ms: ratio {one.ratio:.3f} [{low:.3f}, {high:.3f}]"


def _differences(session: Session, case: Case, workers: dict[str, Worker]) -> dict[str, float]:
    """Returns each engine's largest difference of last_hidden_state from PyTorch's (without it, the baseline's)."""
    results = {}
    for name, worker in workers.items():
        path = session.work / "results" / f"{case.key}-{name}.f32"
        path.parent.mkdir(parents=True, exist_ok=True)
        worker.save(path)
        results[name] = np.fromfile(path, "<f4")
    reference = results.get("torch", results[session.baseline])
    differences = {}
    for name, values in results.items():
        if values.shape != reference.shape:
            raise RuntimeError(f"{name} gives {values.size} values, expected {reference.size}")
        differences[name] = float(np.max(np.abs(values - reference)))
        # An engine that computes something else is not comparable. Values are of order 1; f32 engines differ by some
        # 1e-6 a layer.
        if not differences[name] < 1e-3:
            raise RuntimeError(f"{case.title}: {name} differs from the others by {differences[name]:.3g}")
    return differences


def measure_dynamic(session: Session) -> dict[str, Any]:
    """Measures MiniLM 1×128: the artifact for all sizes against one with fixed sizes."""
    case = CASES["minilm-1x128"]
    say("==> MiniLM 1×128, sizes known at the call against fixed sizes")
    directory = model_directory(session.cache, case.model)
    imported = session.compile(directory, session.work / "minilm/imported.mlir", "--stop-after=import")
    # The file must lie beside the weights: archives are named relative to the module.
    fixed = directory / "specialised.mlir"
    fixed.write_text(specialise(imported.read_text(), dict(zip(("batch", "sequence"), case.sizes, strict=True))))
    static = session.compile(fixed, session.work / "minilm-1x128/model.itx")
    with (
        session.engine(OURS, case, name="intarsia dynamic") as ours,
        session.engine(OURS, case, static, name="intarsia 1x128") as other,
    ):
        comparison = alternate(ours, [other], session.pairs)[0]
    say("  " + comparison_text(comparison))
    return comparison.to_json()


# ---- Compiling, loading, sizes -------------------------------------------------------------------------------------


def measure_compile(session: Session) -> dict[str, Any]:
    """Measures the seconds from directory to artifact, each in a new process, with files in the page cache."""
    say("==> Compile time")
    result = {}
    for model in dict.fromkeys(CASES[key].model for key in session.cases):
        seconds = []
        for _ in range(7 if model == "minilm" else 3):
            target = session.work / "compile-time/model.itx"
            start = time.perf_counter()
            session.compile(model_directory(session.cache, model), target, f"--threads={session.threads}")
            seconds.append(time.perf_counter() - start)
        result[model] = {"title": MODELS[model].title, "seconds": statistics.median(seconds), "all": seconds}
        say(f"  {MODELS[model].title}: {result[model]['seconds']:.2f} s")
    return result


def measure_first_answer(session: Session) -> dict[str, Any]:
    """Measures the milliseconds from loading to the first answer of MiniLM 1×128, each in a new process.

    The time begins at the call that loads, after imports: importing torch alone takes seconds.
    """
    say("==> Load to first answer, MiniLM 1×128")
    case = CASES["minilm-1x128"]
    result: dict[str, Any] = {}
    for engine in dict.fromkeys((session.baseline, *session.engines)):
        samples: list[dict[str, float]] = []
        for _ in range(11 if engine == OURS else 3 if engine != "torch.compile" else 1):
            try:
                with session.engine(engine, case, name=f"{engine}-first") as worker:
                    samples.append({key: worker.ready[key] for key in ("load_ms", "first_answer_ms")})
            except WorkerError as error:
                say(f"  not measured: {error}")
                break
        if samples:
            result[engine] = {
                key: statistics.median(sample[key] for sample in samples) for key in ("load_ms", "first_answer_ms")
            }
            result[engine]["processes"] = len(samples)
            row = result[engine]
            say(f"  {engine}: load {row['load_ms']:.1f} ms, answer {row['first_answer_ms']:.1f} ms")
    return result


def measure_size(session: Session) -> dict[str, Any]:
    """Returns the bytes of each model's artifact without its weights."""
    say("==> Size of the artifacts without weights")
    result = {}
    for model in dict.fromkeys(CASES[key].model for key in session.cases):
        sizes = artifacts.measure(session.artifact(model))
        result[model] = {
            "title": MODELS[model].title,
            "file_bytes": sizes.file,
            "code_bytes": sizes.code,
            "manifest_bytes": sizes.manifest,
        }
        say(f"  {MODELS[model].title}: {sizes.file / 1024:.0f} KiB, of which machine code {sizes.code / 1024:.0f} KiB")
    return result


# ---- GEMMs and peaks -------------------------------------------------------------------------------------------------


def measure_peak(session: Session) -> list[dict[str, Any]]:
    """Measures the FMA, dot-product and read-bandwidth loops."""
    say("==> Peaks of the machine")
    done = subprocess.run([session.program("intarsia-bench-peak")], capture_output=True, text=True, check=True)
    rows = json.loads(done.stdout)
    for row in rows:
        say(f"  {row['what']}, {row['threads']} threads: {row['value']} {row['unit']}")
    return rows


def measure_gemm(session: Session) -> dict[str, Any]:
    """Measures f32 GEMMs against the system's oneDNN (both its primitives) and the one inside torch."""
    rows = []
    for shape in gemm.SHAPES:
        if session.shapes and shape.key not in session.shapes:
            continue
        say(f"==> GEMM {shape.title}")
        rows.append(_measure_shape(session, shape))
    return {"shapes": rows, "baseline": session.baseline}


def _measure_shape(session: Session, shape: gemm.Shape) -> dict[str, Any]:
    row: dict[str, Any] = {"key": shape.key, "title": shape.title, "flops": shape.flops, "engines": {}, "missing": {}}
    with contextlib.ExitStack() as stack:
        workers = []
        for start in _gemm_starters(session, shape):
            try:
                worker = stack.enter_context(start())
            except (WorkerError, FileNotFoundError) as error:
                if not workers:
                    raise
                say(f"  not measured: {error}")
                row["missing"][str(error).split(" ")[0]] = str(error)
                continue
            workers.append(worker)
            row["engines"][worker.name] = {key: worker.ready[key] for key in ("version", "settings")}
            _check_gemm(session, shape, worker)
        comparisons = alternate(workers[0], workers[1:], session.pairs, round_ms=30)
    row["comparisons"] = [one.to_json() for one in comparisons]
    if comparisons:
        row["best_peer"] = min(comparisons, key=lambda one: one.ratio).peer
    for one in comparisons:
        say("  " + comparison_text(one))
    return row


def _gemm_starters(session: Session, shape: gemm.Shape) -> list[Callable[[], Worker]]:
    """Returns functions that start each engine of a GEMM, ours first."""
    log = session.work / "log"
    sizes = [str(size) for size in (shape.m, shape.n, shape.k)]

    def ours() -> Worker:
        return start_gemm(session, shape)

    def system(primitive: str) -> Callable[[], Worker]:
        def start() -> Worker:
            command = [session.program("intarsia-bench-gemm-onednn"), *sizes, primitive, str(shape.copies)]
            name = f"oneDNN {primitive}"
            return Worker(name, command, log / f"{shape.key}-onednn-{primitive}.log", shape.threads)

        return start

    def torch() -> Worker:
        script = ROOT / "bench/gemm_torch.py"
        command = [sys.executable, script, *sizes, str(shape.threads), str(shape.copies)]
        return Worker("oneDNN in torch", command, log / f"{shape.key}-torch.log", shape.threads)

    peers = [system("matmul"), system("inner_product"), torch]
    return [ours, *peers] if session.baseline == OURS else peers


def start_gemm(session: Session, shape: gemm.Shape) -> Worker:
    """Compiles a module with one nn.linear and starts it."""
    folder = session.work / "gemm" / shape.key
    artifact = session.compile(gemm.write_source(shape, folder), folder / "linear.itx")
    paths = gemm.copy_artifact(artifact, shape.copies)
    command = [session.program("intarsia-bench-gemm"), str(shape.m), str(shape.k), *paths]
    return Worker(OURS, command, session.work / "log" / f"{shape.key}-intarsia.log", shape.threads)


def _check_gemm(session: Session, shape: gemm.Shape, worker: Worker) -> None:
    worker.time(1, 0)
    path = session.work / "results" / f"gemm-{shape.key}.f32"
    path.parent.mkdir(parents=True, exist_ok=True)
    worker.save(path)
    reference = gemm.expected(shape)
    error = float(np.max(np.abs(np.fromfile(path, "<f4").reshape(reference.shape) - reference)))
    # Sums of K products of values in [-1, 1]: each addition rounds by at most 2^-24 of a partial sum, and few partial
    # sums exceed 2 * sqrt(K); errors of different signs add up like sqrt(K).
    if not error < 4 * shape.k * 2.0**-24:
        raise RuntimeError(f"{worker.name}: GEMM {shape.title} is off by {error:.3g}")


def measure_peak_share(session: Session) -> dict[str, Any]:
    """Measures the GEMM of 1024³ on one thread, in rounds that alternate with the FMA loop's."""
    shape = gemm.PEAK_SHAPE
    say(f"==> GEMM {shape.title}, against the FMA loop")
    starters = _gemm_starters(session, shape)
    log = session.work / "log/peak.log"
    loop = [session.program("intarsia-bench-peak"), "f32", "1"]
    with starters[0]() as ours, Worker("FMA loop", loop, log, 1) as peak:
        comparison = alternate(ours, [peak], session.pairs, round_ms=30)[0]
        operations = float(peak.ready["operations"])
    # The ratio of operations a second, ours / the loop's.
    scale = shape.flops / operations
    low, high = comparison.interval()
    result = {
        "title": shape.title,
        "engine": ours.name,
        "share": comparison.ratio * scale,
        "low": low * scale,
        "high": high * scale,
        "gflops": shape.flops / statistics.median(comparison.ours_ms) / 1e6,
        "peak_gflops": operations / statistics.median(comparison.peer_ms) / 1e6,
    }
    say(f"  {result['gflops']:.1f} of {result['peak_gflops']:.1f} GFLOP/s: {100 * result['share']:.1f} %")
    return result
