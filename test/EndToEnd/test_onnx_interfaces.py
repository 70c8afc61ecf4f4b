# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What users say of ONNX files beside their path: shapes and values of inputs, directories of data, devices; and what
the compiler says of their ops."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import intarsia
import numpy as np
import pytest
from onnx_runs import compiler, peak
from onnx_wire import FLOAT, INT64, Tensor, field, fields, graph, model, node, tensor, value

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import onnx_ops

UNRANKED = field(1, "x") + field(2, field(1, field(1, FLOAT)))


def sums(*inputs: bytes) -> bytes:
    """Return a model that adds up x over the axes that the call gives."""
    return model(graph([node("ReduceSum", "x axes", keepdims=0)], list(inputs)))


AXES = value("axes", ["count"], INT64)


# ---- Shapes and values ------------------------------------------------------------------------------------------


def test_shapes_and_values(tmp_path):
    """Sizes are fixed and named, an input without a shape gets one, and axes are known to the compiler."""
    path = tmp_path / "m.onnx"
    path.write_bytes(sums(UNRANKED, AXES))
    given = np.random.default_rng(1).standard_normal((2, 3, 4)).astype(np.float32)
    for axes in ([1], np.array([-1, 0])):
        module = intarsia.compile(path, shapes={"x": ["batch", 3, "width"]}, values={"axes": axes})
        assert str(module.main.signature.inputs[0]) == "x: f32[batch, 3, width]"
        assert len(module.main.signature.inputs) == 1
        np.testing.assert_allclose(module.main(given), given.sum(tuple(axes)), rtol=1e-5)


def test_sizes_of_one_name(tmp_path):
    """What one input fixes holds for the others; --set fixes sizes too."""
    path = tmp_path / "m.onnx"
    path.write_bytes(model(graph([node("Add", "x w", "s"), node("Mul", "s v")],
                                 [value(name, ["n", "max_x"]) for name in "xwv"])))  # fmt: skip
    table = np.arange(6, dtype=np.float32).reshape(2, 3)
    module = intarsia.compile(path, shapes={"x": ["n", 3]}, values={"v": table})
    assert [str(each) for each in module.main.signature.inputs] == ["x: f32[2, 3]", "w: f32[2, 3]"]
    np.testing.assert_array_equal(module.main(table, table), 2 * table * table)


def test_default_becomes_constant(tmp_path):
    """An input with a value of its own gets another one."""
    path = tmp_path / "m.onnx"
    path.write_bytes(
        model(graph([node("Mul", "x s")], [value("x", [2]), value("s", [])], stored={"s": tensor(3, "s", "f4")}))
    )
    one = np.ones(2, np.float32)
    np.testing.assert_array_equal(intarsia.compile(path).main(one), [3, 3])
    np.testing.assert_array_equal(intarsia.compile(path, values={"s": 0.5}).main(one), [0.5, 0.5])


def test_not_a_number(tmp_path):
    """Text has no NaN: a number of NumPy is given by a file, and one of Python is refused."""
    path = tmp_path / "m.onnx"
    path.write_bytes(model(graph([node("Mul", "x s")], [value("x", [2]), value("s", [])])))
    one = np.ones(2, np.float32)
    assert np.isnan(intarsia.compile(path, values={"s": np.float32("nan")}).main(one)).all()
    with pytest.raises(intarsia.Error, match="an array of the input's type"):
        intarsia.compile(path, values={"s": float("nan")})


def test_large_value(tmp_path):
    """An array with more elements than are followed one by one is a constant of the artifact."""
    path = tmp_path / "m.onnx"
    path.write_bytes(model(graph([node("Add", "x w")], [value("x", [100, 50]), value("w", [100, 50])])))
    table = np.asfortranarray(np.random.default_rng(2).standard_normal((100, 50)).astype(np.float32))
    np.testing.assert_array_equal(intarsia.compile(path, values={"w": table}).main(np.ones_like(table)), table + 1)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--shape=y=2"], "--shape=y=2: the model has no input of this name; its inputs are 'x', 'axes'"),
        (["--shape=x=2x2"], "the input is float [n, 3, 4], which has 3 dimensions, not 2"),
        (["--shape=x=2x3x5"], "the input is float [n, 3, 4], whose dimension 2 is a number"),
        (["--shape=x=2xHx4"], "whose dimension 1 is a number"),
        (["--shape=x=-1x3x4"], "a size is -1"),
        (["--shape=x=2,,4"], "'' is no size"),
        (["--shape=x=2x3x4", "--shape=x=2x3x4"], "--shape=x=2x3x4: the shape of the input is given twice"),
        (["--set=axes"], "is not of the form NAME=…"),
        (["--set=axes=[1,[2]]"], "lists in the value have different lengths"),
        (["--set=axes=[[2],1]"], "lists in the value have different lengths"),
        (["--set=axes=[0.5]"], "the input has elements of type int64, which '0.5' is not"),
        (["--set=axes=[[1]]"], "the input is int64 [count], the value has the shape [1, 1]"),
        (["--set=axes=" + "[" * 100], "lists are more than 64 deep"),
        (["--set=axes=one"], "a value is a number, lists of numbers as [1,2], or @file.npy"),
        (["--set=axes=@none.npy"], "none.npy"),
        (["--set=axes=@floats.npy"], "the input has elements of type int64, which are i64 in files, and the array has f32"),
        (["--set=axes=[1]", "--set=axes=[1]"], "is set twice"),
        (["--weights-dir=none"], "is no directory"),
        ([], "input 'axes' is computed by the call, and must be known to the compiler: --set=axes=… makes it a constant"),
    ],
)  # fmt: skip
def test_refused(tools, tmp_path, monkeypatch, flags, message):
    monkeypatch.chdir(tmp_path)
    np.save("floats.npy", np.ones(1, np.float32))
    Path("m.onnx").write_bytes(sums(value("x", ["n", 3, 4]), AXES))
    done = compiler(tools, "m.onnx", "--stop-after=import", "-o", "m.mlir", *flags)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done.stderr
    assert message in done.stderr


def test_other_models(tools, tmp_path):
    """Models that are no graphs of ops have no such inputs."""
    (tmp_path / "m.mlir").write_text("module {}")
    for flag in ["--shape=x=1", "--set=x=1", "--json=report.json", "--list-ops"]:
        done = compiler(tools, tmp_path / "m.mlir", flag)
        assert done.returncode == 1
        assert flag.split("=")[0] in done.stderr


# ---- Data in other directories ----------------------------------------------------------------------------------


def external(location: str) -> bytes:
    """Return a model whose weight lies in a file."""
    entry = field(13, field(1, "location") + field(2, location))
    stored = Tensor(field(1, 300) + field(2, FLOAT) + field(8, "w") + entry + field(14, 1))
    return model(graph([node("Add", "x w")], [value("x", [300])], stored={"w": stored}))


def test_weights_directory(tmp_path):
    """Links are followed to files below the directory that the user names, and to no others."""
    numbers = np.arange(300, dtype=np.float32)
    for folder in ("blobs", "model", "other"):
        (tmp_path / folder).mkdir()
    (tmp_path / "blobs" / "data").write_bytes(numbers.tobytes())
    (tmp_path / "other" / "data").write_bytes(numbers.tobytes())
    path = tmp_path / "model" / "m.onnx"
    places = {
        "link": lambda file: file.symlink_to("../blobs/data"),
        "hard": lambda file: file.hardlink_to(tmp_path / "blobs" / "data"),
        "data": lambda file: None,
        "../blobs/data": lambda file: None,
        "out": lambda file: file.symlink_to("../other/data"),
    }
    for name, make in places.items():
        make(path.parent / name)
        path.write_bytes(external(name))
        with pytest.raises(intarsia.CompileError, match="--weights-dir"):
            intarsia.compile(path)
        if name in ("link", "data", "../blobs/data"):
            module = intarsia.compile(path, weights_dir=tmp_path / "blobs")
            np.testing.assert_array_equal(module.main(np.zeros(300, np.float32)), numbers)
    for directory in ("blobs", "model"):
        with pytest.raises(intarsia.CompileError, match="is not below"):
            intarsia.compile(path, weights_dir=tmp_path / directory)


# ---- Reports ----------------------------------------------------------------------------------------------------


def test_list_of_ops(tools, tmp_path):
    """All ops of a model are listed, with what is refused and why; compiling it writes the same as JSON."""
    path, report = tmp_path / "m.onnx", tmp_path / "report.json"
    nodes = [node("Relu", "x", "a"), node("Mystery", "a", "b"), node("Mystery", "b", "c"), node("ReduceSum", "x axes")]
    path.write_bytes(model(graph(nodes, [value("x", [2, 3]), AXES])))
    done = compiler(tools, "--list-ops", path, f"--json={report}")
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0] == ["op", "domain", "version", "count", "first", "node", "imported"]
    assert lines[1] == ["Relu", "ai.onnx", "21", "1", "a", "yes"]
    assert lines[2] == ["Mystery", "ai.onnx", "21", "2", "b", "no", "is", "not", "imported"]
    listed = json.loads(report.read_text())
    assert [(op["op"], op["imported"], op.get("refused", 0)) for op in listed["ops"]] == [
        ("Relu", True, 0), ("Mystery", False, 2), ("ReduceSum", False, 1)
    ]  # fmt: skip
    assert not listed["imported"]
    report.unlink()
    assert compiler(tools, path, "-o", tmp_path / "m.itx", f"--json={report}").returncode == 1
    assert json.loads(report.read_text()) == listed
    path.write_bytes(b"no model")
    assert compiler(tools, path, "-o", tmp_path / "m.itx", f"--json={report}").returncode == 1
    assert "m.onnx" in json.loads(report.read_text())["problem"]


def test_report_replaces_nothing(tools, tmp_path, monkeypatch):
    """What is read stays as it is, and standard output has the report or IR."""
    monkeypatch.chdir(tmp_path)
    stored = external("data")
    np.arange(300, dtype=np.float32).tofile("data")
    np.save("x.npy", np.ones(300, np.float32))
    Path("m.onnx").write_bytes(stored)
    for flags in (["--list-ops"], ["--stop-after=import", "-o", "m.mlir"]):
        for file in ("m.onnx", "./m.onnx", "data", "x.npy"):
            before = Path(file).read_bytes()
            done = compiler(tools, "m.onnx", f"--json={file}", "--set=x=@x.npy", *flags)
            assert done.returncode == 1, (flags, file)
            assert file in done.stderr
            assert Path(file).read_bytes() == before
    for flags in (["--stop-after=import"], ["--stop-after=import", "-o", "-"]):
        done = compiler(tools, "m.onnx", "--json=-", *flags)
        assert (done.returncode, done.stdout) == (1, "")
        assert "-o - and --json=-" in done.stderr
    done = compiler(tools, "m.onnx", "--json=-", "--stop-after=import", "-o", "m.mlir")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["imported"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["m.onnx", "-o", "m.itx"], "--list-ops does not use -o"),
        (["m.onnx", "--target=cpu"], "--list-ops does not use --target"),
        (["m.onnx", "--stop-after=import"], "--list-ops does not use --stop-after"),
        (["--shape=x=2"], "--list-ops without MODEL does not use --shape"),
        (["--weights-dir=."], "--list-ops without MODEL does not use --weights-dir"),
    ],
)
def test_flags_that_lists_do_not_use(tools, tmp_path, monkeypatch, flags, message):
    monkeypatch.chdir(tmp_path)
    Path("m.onnx").write_bytes(model(graph([node("Relu", "x")], [value("x", [2])])))
    done = compiler(tools, "--list-ops", *flags)
    assert (done.returncode, done.stdout) == (1, "")
    assert message in done.stderr


def test_report_of_a_phase_that_fails(tools, tmp_path):
    """The report of a model that is imported and not compiled says what failed."""
    path, report = tmp_path / "m.onnx", tmp_path / "report.json"
    path.write_bytes(model(graph([node("Relu", "x")], [value("x", [2])])))
    done = compiler(tools, path, "-o", tmp_path / "m.itx", f"--json={report}", "--place=none=@cpu")
    assert done.returncode == 1
    said = json.loads(report.read_text())
    assert said["imported"]
    assert said["problem"] == "phase 'partition' failed"
    assert [op["op"] for op in said["ops"]] == ["Relu"]
    done = compiler(tools, path, "-o", tmp_path / "m.itx", f"--json={report}")
    assert done.returncode == 0, done.stderr
    assert "problem" not in json.loads(report.read_text())


def test_table_of_ops(tools):
    """docs/onnx.md has the ops that the compiler has."""
    text = onnx_ops.PAGE.read_text()
    assert onnx_ops.page(text, Path(tools.path("intarsia-compile"))) == text, "run scripts/onnx_ops.py"


# ---- Devices of the model ---------------------------------------------------------------------------------------


def on(
    configuration: str, tensors: str, devices: list[int], axis: int | None = None, stage: int | None = None
) -> bytes:
    """Return the field of a node that says where a configuration has it."""
    dimension = b"" if axis is None else field(4, field(1, axis) + field(2, field(3, len(devices))))
    specs = b"".join(field(2, field(1, name) + fields(2, devices) + dimension) for name in tensors.split() if devices)
    return field(10, field(1, configuration) + specs + (b"" if stage is None else field(3, stage)))


def configured(nodes: list[bytes], configurations: dict[str, list[str]]) -> bytes:
    """Return a model of named nodes over matrices, with configurations of devices."""
    rng = np.random.default_rng(3)
    stored = {f"w{number}": tensor(rng.standard_normal((32, 32)), f"w{number}", "f4") for number in range(4)}
    made = model(graph(nodes, [value("x", ["n", 32])], stored=stored))
    return made + b"".join(
        field(26, field(1, name) + field(2, len(devices)) + fields(3, devices))
        for name, devices in configurations.items()
    )


def chain(*places: bytes) -> list[bytes]:
    """Return products one after another, each with where it is."""
    count = len(places)
    return [
        node("MatMul", f"{'x' if i == 0 else f'v{i}'} w{i}", "y" if i + 1 == count else f"v{i + 1}")
        + field(3, f"layers.{i}.dense") + place
        for i, place in enumerate(places)
    ]  # fmt: skip


def compiled(tools: Any, folder: Path, data: bytes, *flags: str) -> tuple[list[Any], str]:
    """Return what the report says of the devices of a model, and the IR with them."""
    (folder / "m.onnx").write_bytes(data)
    done = compiler(tools, folder / "m.onnx", "--stop-after=partition", "-o", folder / "m.mlir",
                    f"--json={folder / 'report.json'}", *flags)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "devices that the model names" in done.stderr
    return json.loads((folder / "report.json").read_text())["devices"], (folder / "m.mlir").read_text()


def test_devices_by_name(tools, tmp_path):
    """A node is on the device of the target that its configuration names; --place holds against that."""
    data = configured(chain(on("two", "v1", [0]), on("two", "v2", [1]), on("two", "y", [0, 1], axis=0)),
                      {"two": ["cpu", "reference"]})  # fmt: skip
    devices, ir = compiled(tools, tmp_path, data, "--target=cpu,reference")
    assert [(each["node"], each["followed"]) for each in devices] == [
        ("layers.0.dense", True), ("layers.1.dense", True), ("layers.2.dense", False)
    ]  # fmt: skip
    assert "--world=2" in devices[2]["reason"]
    assert len(re.findall("nn.linear.*rt.device = @reference", ir)) == 1
    devices, _ = compiled(tools, tmp_path, data)
    assert [each["followed"] for each in devices] == [True, False, False]
    assert "--target" in devices[1]["reason"]
    # Nothing is on the reference device then, so that it gets a function of its own for all.
    assert "rt.alternative" not in ir
    _, ir = compiled(tools, tmp_path, data, "--target=cpu,reference", "--place=layers.1.dense=@cpu")
    assert "rt.alternative" in ir


def test_stages_of_a_pipeline(tools, tmp_path):
    """Stages are cut as the model says, not where the cost model would; others are overruled with the reason."""
    stages = [on("pipe", "y", [], stage=stage) for stage in (0, 0, 0, 1)]
    devices, ir = compiled(tools, tmp_path, configured(chain(*stages), {"pipe": ["a", "b"]}), "--world=2")
    assert all(each["followed"] for each in devices)
    functions = ir.split("func.func")[1:]
    assert [function.count("nn.linear") for function in functions] == [3, 1]
    mixed = [on("pipe", "y", [], stage=stage) for stage in (0, 1, 0, 1)]
    devices, _ = compiled(tools, tmp_path, configured(chain(*mixed), {"pipe": ["a", "b"]}), "--world=2")
    assert not any(each["followed"] for each in devices)
    assert "layers before it" in devices[0]["reason"]
    devices, _ = compiled(tools, tmp_path, configured(chain(*stages), {"pipe": ["a", "b"]}), "--world=2",
                          "--partition=tensor")  # fmt: skip
    assert {each["reason"] for each in devices} == {"--partition=tensor has no stages"}


# ---- Limits -----------------------------------------------------------------------------------------------------


def doubling(depth: int) -> bytes:
    """Return functions that each call the next one twice."""

    def function(number: int) -> bytes:
        calls = [node(f"F{number + 1}", "x", "z") + field(7, "f"), node(f"F{number + 1}", "z") + field(7, "f")]
        nodes = calls if number < depth else [node("Neg", "x")]
        sets = field(9, field(2, 21)) + field(9, field(1, "f") + field(2, 1))
        return field(1, f"F{number}") + field(4, "x") + field(5, "y") + fields(7, nodes) + sets + field(10, "f")

    whole = graph([node("F0", "x") + field(7, "f")], [value("x", [4])])
    return model(whole, functions=[function(number) for number in range(depth + 1)])


def of_many_values(inputs: list[bytes], outputs: str) -> bytes:
    """Return a model with many inputs or outputs, which are one value of one name each."""
    names = outputs.split()
    return model(graph([node("Relu", "x0", "v"), *(node("Identity", "v", name) for name in names)], inputs, outputs))


HOSTILE = {
    "too many inputs": of_many_values([value(f"x{i}", [4]) for i in range(100_000)], "y"),
    "too many outputs": of_many_values([value("x0", [4])], " ".join(f"y{i}" for i in range(50_000))),
    "attributes": field(1, 10) + field(7, field(1, field(5, b"") * 2_000_000)),
    "nodes": field(1, 10) + field(7, field(1, b"") * 2_000_000),
    "names": field(1, 10) + field(7, field(1, field(1, b"") * 2_000_000)),
    "tensors": field(1, 10) + field(7, field(5, field(1, 0) + field(2, 1)) * 500_000),
    "integers": field(1, 10) + field(7, field(1, field(5, field(8, bytes(20_000_000))))),
    "elements": field(1, 10) + field(7, field(5, field(1, 20_000_000) + field(2, INT64) + field(7, bytes(20_000_000)))),
    "calls": doubling(40),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_memory_of_hostile_files(tools, tmp_path, name):
    """A file of a few megabytes takes 64 MiB more than a small model at most."""
    (tmp_path / "small.onnx").write_bytes(model(graph([node("Relu", "x")], [value("x", [4])])))
    (tmp_path / "hostile.onnx").write_bytes(HOSTILE[name])
    small, small_peak = peak(tools, tmp_path / "small.onnx", "--stop-after=import", "-o", tmp_path / "m.mlir")
    hostile, hostile_peak = peak(tools, tmp_path / "hostile.onnx", "--stop-after=import", "-o", tmp_path / "m.mlir")
    assert (small, hostile) == (0, 1)
    assert hostile_peak <= small_peak + 64


@pytest.mark.parametrize("kind", ["inputs", "outputs", "sizes"])
def test_memory_of_many_values(tools, tmp_path, kind):
    """Functions with 10,000 inputs or outputs are imported; inputs have a size each, whose names differ in signs."""
    names = [f"{i:016b}".replace("0", "!").replace("1", "?") for i in range(10_000 if kind == "sizes" else 1)]
    inputs = [value(f"x{i}", [names[i % len(names)]]) for i in range(1 if kind == "outputs" else 10_000)]
    outputs = "y" if kind != "outputs" else " ".join(f"y{i}" for i in range(10_000))
    (tmp_path / "small.onnx").write_bytes(model(graph([node("Relu", "x")], [value("x", [4])])))
    (tmp_path / "large.onnx").write_bytes(of_many_values(inputs, outputs))
    _, small = peak(tools, tmp_path / "small.onnx", "--stop-after=import", "-o", tmp_path / "m.mlir")
    status, large = peak(tools, tmp_path / "large.onnx", "--stop-after=import", "-o", tmp_path / "m.mlir")
    assert status == 0
    assert large <= small + 64


def test_large_external_data(tools, tmp_path):
    """Two GiB of data in a file of their own are not read to import the model."""
    with open(tmp_path / "data", "wb") as file:
        file.truncate(2 << 30)
    entry = field(13, field(1, "location") + field(2, "data"))
    stored = Tensor(fields(1, [1 << 15, 1 << 14]) + field(2, FLOAT) + field(8, "w") + entry + field(14, 1))
    (tmp_path / "m.onnx").write_bytes(
        model(graph([node("MatMul", "x w")], [value("x", [1, 1 << 15])], stored={"w": stored}))
    )
    (tmp_path / "small.onnx").write_bytes(model(graph([node("Relu", "x")], [value("x", [4])])))
    _, small = peak(tools, tmp_path / "small.onnx", "--stop-after=import", "-o", tmp_path / "m.mlir")
    status, large = peak(tools, tmp_path / "m.onnx", "--stop-after=import", "-o", tmp_path / "m.mlir")
    assert status == 0
    assert large <= small + 64


def test_many_nodes(tools, tmp_path):
    """A chain of 3,000 elementwise nodes becomes several kernels, of as many ops as a stack holds."""
    nodes = [node(("Relu", "Sigmoid", "Neg")[i % 3], f"v{i}" if i else "x", f"v{i + 1}" if i < 2999 else "y")
             for i in range(3000)]  # fmt: skip
    (tmp_path / "m.onnx").write_bytes(model(graph(nodes, [value("x", ["n", 64])])))
    done = compiler(tools, tmp_path / "m.onnx", "--stop-after=fuse", "-o", tmp_path / "m.mlir")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "m.mlir").read_text().count("nn.group") >= 10
