# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Wrong kernels are found and named by `intarsia-run --verify-kernels`: one of each kind of kernel, and more.

Each program is compiled twice, the second time with a fault in the body of one kernel of the CPU. The faulty code then
replaces the right one among the objects of the first: the host program and the reference device's kernels are right,
as if the compiler's code for that kernel were wrong.
"""

from __future__ import annotations

import re
import subprocess
from itertools import zip_longest
from pathlib import Path

import intarsia
import numpy as np
import pytest
from kernel_faults import CASES, SUSPECT, Case, normal
from safetensors.numpy import save_file

SOURCE = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.cpu_only
FOUND = re.compile(
    r"kernel '(?P<kernel>[^']+)' \((?P<op>[^)]+)\) on cpu: output (?P<output>\d+) is (?P<computed>\S+) at element "
    r"(?P<index>\d+), reference computes (?P<expected>\S+) \(tolerance"
)


def replace_in_kernel(text: str, root: str, right: str, wrong: str) -> tuple[str, str]:
    """Put a fault into the one kernel of the CPU that it fits; give the text and the kernel's name."""
    kernels = re.findall(r"^  rt\.kernel @.*?^  \}", text, re.MULTILINE | re.DOTALL)
    fit = [kernel for kernel in kernels if "device = @cpu" in kernel and re.search(right, kernel.split("\n", 1)[1])]
    assert len(fit) == 1, f"{len(fit)} kernels have {right}"
    head, body = fit[0].split("\n", 1)
    assert f"root = #nn.root<{root}>" in head
    faulty, count = re.subn(right, wrong, body)
    assert count == 1
    assert text.count(fit[0]) == 1
    return text.replace(fit[0], f"{head}\n{faulty}"), re.match(r"  rt\.kernel @([\w.]+)", head)[1]


def merge_objects(right: str, faulty: str) -> str:
    """Take the CPU's object from a faulty module, and everything else from the right one."""
    variant = re.search(r"^  rt\.object @cpu\.(\S+) ", right, re.MULTILINE)[1]
    of_cpu = re.compile(rf"  rt\.object @cpu\.|      \w+\.{re.escape(variant)}: \"0x")
    of_reference = re.compile(r"  rt\.object @\"reference\.|      \"x86_64[^\"]*\": \"0x|      \"aarch64[^\"]*\": \"0x")
    merged, pieces = [], 0
    for ours, theirs in zip_longest(right.splitlines(), faulty.splitlines()):
        if ours != theirs:
            assert of_cpu.match(ours) or of_reference.match(ours), f"the modules differ in {ours[:200]}"
            pieces += bool(of_cpu.match(ours)) and "rt.object" not in ours
        merged.append(theirs if of_cpu.match(ours) else ours)
    assert pieces == 1, "one kernel is faulty"
    return "\n".join(merged)


def compile_both(tools, folder: Path, case_text: str, fault: tuple[str, str, str], flags=()) -> tuple[Path, Path, str]:
    """Compile a program right, and with a fault; give both artifacts and the name of the faulty kernel."""
    (folder / "m.mlir").write_text(case_text)
    tools.compile(
        folder / "m.mlir", "-o", folder / "right.mlir", "--target=cpu,reference", "--stop-after=lower", *flags
    )
    lowered = (folder / "right.mlir").read_text()
    faulty, kernel = replace_in_kernel(lowered, *fault)
    (folder / "faulty.mlir").write_text(faulty)
    objects = []
    for name in ("right", "faulty"):
        compiled = folder / f"{name}.target.mlir"
        tools.compile(folder / f"{name}.mlir", "--start-from=target", "--stop-after=target",
                      "--elide-resource-strings=false", "-o", compiled)  # fmt: skip
        objects.append(compiled.read_text())
    (folder / "faulty.target.mlir").write_text(merge_objects(*objects))
    for name in ("right", "faulty"):
        tools.compile(folder / f"{name}.target.mlir", "--start-from=assemble", "-o", folder / f"{name}.itx")
    return folder / "right.itx", folder / "faulty.itx", kernel


def verify(tools, artifact: Path, inputs: dict[str, np.ndarray], tolerance: float) -> subprocess.CompletedProcess[str]:
    """Run an artifact on the CPU, and each of its kernels on the reference device too."""
    arguments = []
    for name, value in inputs.items():
        np.save(artifact.parent / f"{name}.npy", value)
        arguments.append(f"--input={name}=@{artifact.parent / name}.npy")
    return tools.run("intarsia-run", artifact, "--device=cpu", f"--verify-kernels={tolerance}", *arguments, check=False)


def result_of(artifact: Path, device: str, case: Case) -> np.ndarray:
    """Compute the result that the fault makes wrong, all of it on one device."""
    function = intarsia.load(artifact, devices=[device]).main
    given = case.given()
    if case.states:
        pages = len(given[next(iter(case.states.values()))])
        for name, array in intarsia.make_state(function, pages=pages).items():
            array[...] = given[name]
            given[name] = array
    results = function(**given)
    return given[case.states[case.output]] if case.output in case.states else getattr(results, case.output)


def roots() -> set[str]:
    text = (SOURCE / "dialects" / "Interfaces" / "KernelRoot.td").read_text()
    return set(re.findall(r'I32EnumAttrCase<"\w+", \d+, "(\w+)">', text))


def test_each_root_has_a_case() -> None:
    assert len(roots()) > 5
    assert {case.root for case in CASES.values()} == roots()


@pytest.mark.parametrize("name", CASES)
def test_faults_are_found(tools, tmp_path: Path, name: str) -> None:
    case = CASES[name]
    if case.weights:
        save_file(case.weights, tmp_path / "w.safetensors")
    right, faulty, kernel = compile_both(tools, tmp_path, case.text(), (case.root, case.right, case.wrong), case.flags)

    result = verify(tools, right, case.given(), case.tolerance)
    assert result.returncode == 0, result.stderr
    assert "verified" in result.stdout + result.stderr

    result = verify(tools, faulty, case.given(), case.tolerance)
    assert result.returncode == 1, result.stdout
    found = FOUND.search(result.stderr)
    assert found, result.stderr
    assert found["kernel"] == kernel
    assert found["op"] == SUSPECT
    # Both values are those that the devices compute where they run the whole program.
    index = int(found["index"])
    for device, value in (("cpu", found["computed"]), ("reference", found["expected"])):
        computed = result_of(faulty, device, case)
        assert float(value) == pytest.approx(float(computed.reshape(-1)[index]), rel=1e-8)
    assert found["computed"] != found["expected"]


def test_the_launch_is_named(tools, tmp_path: Path) -> None:
    """A kernel that two ops share is wrong for negative numbers, which the second op alone is given."""
    right, faulty, kernel = compile_both(
        tools,
        tmp_path,
        """func.func @main(%a: tensor<?x8xf32> {nn.name = "a", nn.sizes = ["n", ""]},
                           %b: tensor<?x8xf32> {nn.name = "b", nn.sizes = ["m", ""]})
          -> (tensor<?x8xf32> {nn.name = "c"}, tensor<?x8xf32> {nn.name = "d"}) {
          %c = nn.relu %a : tensor<?x8xf32> loc("layer.0")
          %d = nn.relu %b : tensor<?x8xf32> loc("layer.1")
          return %c, %d : tensor<?x8xf32>, tensor<?x8xf32> }""",
        ("rows", r"nn\.relu", "math.absf"),
    )
    positive = np.abs(normal(3, 8))
    for artifact, second, status in ((right, -positive, 0), (faulty, positive, 0), (faulty, -positive, 1)):
        result = verify(tools, artifact, {"a": positive, "b": second}, 1e-5)
        assert result.returncode == status, result.stderr
    found = FOUND.search(result.stderr)
    assert (found["kernel"], found["op"], found["index"]) == (kernel, "layer.1", "0")
    assert float(found["computed"]) == pytest.approx(positive[0, 0], rel=1e-8)
    assert float(found["expected"]) == 0
