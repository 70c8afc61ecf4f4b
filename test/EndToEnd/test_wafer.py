# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs of wafers: values against NumPy, times against each other and what the paper says of them."""

from __future__ import annotations

import itertools
import json
import math
import re
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

Figures = dict[str, float]
GRIDS = [2, 3, 4, 5, 7, 8, 16, 31, 64]


def tensor(shape: tuple[int, int], element: str = "f16") -> str:
    """Return the type of a matrix."""
    return f"tensor<{shape[0]}x{shape[1]}x{element}>"


def gemm(m: int, k: int, n: int, grid: int, algorithm: str, result: str = "f32") -> str:
    """Return a function that multiplies matrices `[m, k]` and `[k, n]`, or `[n, k]` transposed."""
    types = f"{tensor((m, k))}, {tensor((n, k) if 'transposed' in algorithm else (k, n))}"
    a, b = types.split(", ")
    c = tensor((m, n), result)
    return (
        f"func.func @main(%a: {a}, %b: {b}) -> {c} {{\n"
        f"  %c = wafer.dist_gemm {algorithm} %a, %b on {grid} : {types} -> {c}\n"
        f"  return %c : {c}\n}}\n"
    )


def gemv(k: int, n: int, grid: int, reduction: str, groups: str = "", result: str = "f32") -> str:
    """Return a function that multiplies a vector with a matrix `[k, n]`."""
    x, w, y = tensor((1, k)), tensor((k, n)), tensor((1, n), result)
    return (
        f"func.func @main(%x: {x}, %w: {w}) -> {y} {{\n"
        f"  %y = wafer.dist_gemv {reduction} %x, %w on {grid} {groups} : {x}, {w} -> {y}\n"
        f"  return %y : {y}\n}}\n"
    )


@pytest.fixture(scope="module")
def simulate(tools, folder: Path) -> Callable[..., tuple[np.ndarray, Figures]]:
    """Give a function that runs a program with inputs, and returns its output and figures.

    Each run is watched: the tool refuses a program that uses a byte which was not counted, or two buffers at once that share
    bytes.
    """

    def run(text: str, *inputs: np.ndarray, arguments: Sequence[str] = ()) -> tuple[np.ndarray, Figures]:
        (folder / "program.mlir").write_text(text)
        arguments = list(arguments)
        for index, value in enumerate(inputs):
            np.save(folder / f"{index}.npy", value)
            arguments.append(f"--input=@{folder / f'{index}.npy'}")
        tools.run(
            "intarsia-wafer",
            folder / "program.mlir",
            *arguments,
            f"--output=@{folder / 'out.npy'}",
            f"--json={folder / 'figures.json'}",
            "--memory",
        )
        (figures,) = json.loads((folder / "figures.json").read_text())
        assert figures["reserved_bytes"] < figures["bytes_in_use"] <= figures["bytes_per_core"]
        return np.load(folder / "out.npy"), figures

    return run


@pytest.fixture(scope="module")
def cycles(tools, folder: Path) -> Callable[[str], float]:
    """Give a function that returns the cycles of a program."""

    def run(text: str) -> float:
        (folder / "timed.mlir").write_text(text)
        tools.run("intarsia-wafer", folder / "timed.mlir", f"--json={folder / 'timed.json'}")
        return json.loads((folder / "timed.json").read_text())[0]["cycles"]

    return run


def matrices(seed: int, *shapes: tuple[int, int]) -> list[np.ndarray]:
    """Return random f16 matrices with values of both signs."""
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(np.float16) for shape in shapes]


def check(got: np.ndarray, left: np.ndarray, right: np.ndarray, roundings: int, unit: float) -> None:
    """Compare a product with that in f64: an error of `unit` for each rounding of a sum of absolute values."""
    left, right = left.astype(np.float64), right.astype(np.float64)
    error = np.abs(got - left @ right)
    bound = roundings * unit * (np.abs(left) @ np.abs(right))
    assert got.shape == bound.shape
    assert np.all(error <= bound + 1e-30), f"{(error / bound).max()} of the bound"


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("algorithm", ["mesh", "cannon", "summa", "mesh transposed", "cannon transposed"])
def test_gemm_has_the_values_of_numpy(simulate, grid: int, algorithm: str) -> None:
    """Sizes that the grid divides, that it does not, and one that is smaller than the grid."""
    for m, k, n in [(2 * grid, grid, 3 * grid), (2 * grid + 1, 3 * grid - 1, grid + 1), (1, grid + 1, 2)]:
        transposed = "transposed" in algorithm
        a, b = matrices(grid, (m, k), (n, k) if transposed else (k, n))
        got, _ = simulate(gemm(m, k, n, grid, algorithm), a, b)
        check(got, a, b.T if transposed else b, roundings=k + 1, unit=2.0**-24)


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("reduction", ["tree", "pipeline", "ring"])
def test_gemv_has_the_values_of_numpy(simulate, grid: int, reduction: str) -> None:
    """Each reduction, on sizes that the grid divides and that it does not."""
    for k, n in [(3 * grid, 2 * grid), (2 * grid + 1, 3 * grid - 1)]:
        x, w = matrices(grid, (1, k), (k, n))
        got, _ = simulate(gemv(k, n, grid, reduction), x, w)
        check(got, x, w, roundings=k + 1, unit=2.0**-24)


@pytest.mark.parametrize(
    ("start", "end", "grid"), [(2, 2, 2), (3, 5, 5), (5, 3, 5), (4, 7, 9), (8, 6, 8), (31, 16, 31), (20, 33, 64)]
)
@pytest.mark.parametrize("along", ["x", "y"])
@pytest.mark.parametrize("element", ["f16", "f32"])
def test_matrices_move_between_grids(simulate, start: int, end: int, grid: int, along: str, element: str) -> None:
    """Each element comes to the core that a product of matrices finds it on, from where a product of vectors has it, on sizes
    that the grids divide and that they do not."""
    for k, n in [(3 * start, 2 * end), (2 * start + 1, 3 * end - 1), (1, grid + 1), (2 * grid + 3, 1)]:
        (w,) = matrices(grid, (k, n))
        matrix = tensor((k, n), element)
        text = (
            f"func.func @main(%w: {matrix}) -> {matrix} {{\n"
            f"  %v = wafer.dist_relayout %w along {along} from {start} to {end} on {grid} : {matrix}\n"
            f"  return %v : {matrix}\n}}\n"
        )
        got, _ = simulate(text, w)
        assert np.array_equal(got, w.astype(np.float32))


@pytest.mark.parametrize("grid", [6, 11, 12])
def test_trees_of_all_groups_add_everything_once(simulate, grid: int) -> None:
    """Also where the groups do not divide the grid: the last group is shorter then."""
    x, w = matrices(1, (1, 2 * grid), (2 * grid, grid))
    for groups in range(1, grid + 1):
        got, _ = simulate(gemv(2 * grid, grid, grid, "tree", f"groups {groups}"), x, w)
        check(got, x, w, roundings=2 * grid + 1, unit=2.0**-24)


def test_results_in_f16_are_rounded_where_they_are_stored(simulate) -> None:
    """Once for each step of the grid: sums of one step are in f32."""
    a, b = matrices(2, (24, 16), (16, 24))
    got, _ = simulate(gemm(24, 16, 24, 8, "mesh", "f16"), a, b)
    assert np.array_equal(got, got.astype(np.float16).astype(np.float32))
    check(got, a, b, roundings=8 + 1, unit=2.0**-11)


def test_a_chain_of_products_exchanges_the_axes(simulate) -> None:
    """Vectors stay where they are; weights are placed so that the next product finds them."""
    shapes = [(1, 20), (20, 30), (30, 10), (10, 12)]
    x, first, second, third = matrices(3, *shapes)
    types = [tensor(shape, "f32") for shape in [(1, 20), (20, 30), (30, 10), (10, 12), (1, 30), (1, 10), (1, 12)]]
    text = f"""
    func.func @main(%x: {types[0]}, %u: {types[1]}, %v: {types[2]}, %w: {types[3]}) -> {types[6]} {{
      %a = wafer.dist_gemv tree %x, %u on 5 groups 2 : {types[0]}, {types[1]} -> {types[4]}
      %b = wafer.dist_map silu %a on 5 : {types[4]}
      %c = wafer.dist_gemv pipeline %b, %v on 5 : {types[4]}, {types[2]} -> {types[5]}
      %d = wafer.dist_gemv ring %c, %w on 5 : {types[5]}, {types[3]} -> {types[6]}
      return %d : {types[6]}
    }}"""
    got, _ = simulate(text, x, first, second, third)
    hidden = x.astype(np.float64) @ first
    expected = (hidden / (1 + np.exp(-hidden))) @ second.astype(np.float64) @ third.astype(np.float64)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("kind", ["rms", "layer"])
def test_norms_have_the_values_of_numpy(simulate, grid: int, kind: str) -> None:
    """On sizes that the grid divides and that it does not: what pads the tiles is in no sum."""
    for size in (3 * grid, 3 * grid - 1, 2 * grid + 1):
        x, scale, bias = (value.astype(np.float32) + 2 for value in matrices(grid, *[(1, size)] * 3))
        vector, biased = tensor((1, size), "f32"), kind == "layer"
        inputs = ", ".join(["%x", "%s", "%b"][: 3 if biased else 2])
        text = f"""
        func.func @main(%x: {vector}, %s: {vector}, %b: {vector}) -> {vector} {{
          %n = wafer.dist_norm {kind} {inputs} on {grid} {{epsilon = 1.0e-5 : f32}} : {vector}
          %y = wafer.dist_map add %n, %b on {grid} : {vector}
          return %y : {vector}
        }}"""
        exact = x.astype(np.float64) - (x.mean() if biased else 0)
        expected = exact / np.sqrt((exact**2).mean() + 1e-5) * scale + bias * (2 if biased else 1)
        np.testing.assert_allclose(simulate(text, x, scale, bias)[0], expected, rtol=1e-5, atol=1e-5)


FUNCTIONS = {
    "exp": np.exp,
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: x * (1 + np.vectorize(math.erf)(x / np.sqrt(2))) / 2,
    "gelu_tanh": lambda x: x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2,
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("rows", [1, 7])
def test_functions_have_the_values_of_numpy(simulate, name: str, rows: int) -> None:
    """Of vectors and of matrices."""
    x = np.random.default_rng(1).normal(size=(rows, 13)).astype(np.float32) * 2
    text = f"""
    func.func @main(%x: {tensor((rows, 13), "f32")}) -> {tensor((rows, 13), "f32")} {{
      %y = wafer.dist_map {name} %x on 4 : {tensor((rows, 13), "f32")}
      return %y : {tensor((rows, 13), "f32")}
    }}"""
    np.testing.assert_allclose(simulate(text, x)[0], FUNCTIONS[name](x.astype(np.float64)), rtol=1e-5, atol=1e-6)


def refusal(tools, folder: Path, text: str, *arguments: str) -> str:
    """Return what intarsia-wafer says of a program that it refuses."""
    (folder / "refused.mlir").write_text(text)
    result = tools.run("intarsia-wafer", folder / "refused.mlir", *arguments, check=False)
    assert result.returncode == 1
    return result.stderr


def test_what_does_not_fit_is_refused_with_the_buffers(tools, folder: Path) -> None:
    """A program that needs more than the memory of a core names each buffer."""
    text = refusal(tools, folder, gemm(4096, 4096, 4096, 32, "mesh"))
    assert "needs 198656 bytes of each core, wse-2 has 49152" in text
    assert 'buffer "a_next" has 32768 bytes' in text
    assert "the runtime reserves 2048 bytes" in text


def test_inputs_that_do_not_match_are_refused(tools, folder: Path) -> None:
    """Missing inputs, other sizes, and element types that no core has."""
    np.save(folder / "small.npy", np.zeros((3, 4), np.float16))
    np.save(folder / "integers.npy", np.zeros((8, 8), np.int32))
    text = gemm(8, 8, 8, 4, "mesh")
    small, integers = f"--input=@{folder / 'small.npy'}", f"--input=@{folder / 'integers.npy'}"
    assert "is 3x4, input" in refusal(tools, folder, text, small, small)
    assert "has an input 1, but there are 1 of --input" in refusal(tools, folder, text, small)
    assert "must be a row-major matrix of float16 or float32" in refusal(tools, folder, text, integers)
    assert "--output needs the inputs" in refusal(tools, folder, text, f"--output=@{folder / 'out.npy'}")


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("clock_ghz", "clock_mhz", "unknown key 'clock_mhz'; a wafer has name, columns"),
        ("value: 1.1,", "value: 1100,", "clock_ghz: 1100 must be between"),
        ("columns: {value: 750", "columns: {value: 750.5", "columns: 750.5 must be a whole number"),
        ('date: "2026-11"', 'year: "2026"', "unknown key 'year'"),
        ("macs: ", "# macs: ", "'macs' is missing"),
        ("value: 2048", "value: 49152", "reserved_bytes leave nothing of sram_bytes"),
    ],
)
def test_implausible_wafers_are_refused(tools, folder: Path, before: str, after: str, message: str) -> None:
    """Each with the line of the file."""
    source = (Path(__file__).parents[2] / "catalogue" / "wafers" / "wse-2.yaml").read_text()
    assert before in source
    (folder / "mine.yaml").write_text(source.replace(before, after))
    text = refusal(tools, folder, gemm(8, 8, 8, 4, "mesh"), f"--target={folder / 'mine.yaml'}")
    assert message in text
    assert f"{folder / 'mine.yaml'}:" in text


def test_unknown_wafers_are_refused_with_those_that_are_known(tools, folder: Path) -> None:
    """The names of the catalogue are in the message."""
    text = refusal(tools, folder, gemm(8, 8, 8, 4, "mesh"), "--target=wse-1")
    assert "unknown wafer 'wse-1'; known are tensix, wse-2, wse-3, or a .yaml file" in text


def wafer_file(folder: Path, columns: int, rows: int, defects: list[list[int]]) -> Path:
    """Write a wafer with these cores, some of which do not work."""
    text = (Path(__file__).parents[2] / "catalogue" / "wafers" / "wse-2.yaml").read_text()
    text = text.replace("value: 750,", f"value: {columns},").replace("value: 994,", f"value: {rows},")
    (folder / "mine.yaml").write_text(f"{text}defects: {defects}\n" if defects else text)
    return folder / "mine.yaml"


def hops_of(path: Path, hops: float) -> Path:
    """Change the cycles of a hop in a wafer's file."""
    path.write_text(re.sub(r"^(hop_cycles: {value: )[^,]+", rf"\g<1>{hops}", path.read_text(), flags=re.M))
    return path


def fewest_left_out(columns: int, rows: int, defects: list[list[int]], side: int) -> int | None:
    """Return how few columns and rows a square grid can leave out, from all windows of the wafer; None if none holds it.

    A window has the grid if enough columns and rows are left without those in which a core of the window does not work.
    """
    fewest = None
    for x, y in itertools.product(range(columns), range(rows)):
        for width, height in itertools.product(range(side, columns - x + 1), range(side, rows - y + 1)):
            inside = [(c, r) for c, r in defects if x <= c < x + width and y <= r < y + height]
            left = width - len({c for c, _ in inside}), height - len({r for _, r in inside})
            if min(left) >= side:
                fewest = min(width + height - 2 * side, fewest if fewest is not None else width + height)
    return fewest


@pytest.mark.parametrize("seed", range(16))
def test_grids_go_around_cores_that_do_not_work(simulate, tools, folder: Path, seed: int) -> None:
    """As few columns and rows are left out as possible, and the largest grid is in the message; values are NumPy's."""
    rng = np.random.default_rng(seed)
    columns, rows = rng.integers(4, 11, 2).tolist()
    cores = rng.permutation(columns * rows)[: rng.integers(1, 7)]
    defects = [[int(core) % columns, int(core) // columns] for core in cores]
    sides = range(1, min(columns, rows) + 1)
    fewest = {side: fewest_left_out(columns, rows, defects, side) for side in sides}
    largest = max(side for side in sides if fewest[side] is not None)
    target = f"--target={wafer_file(folder, columns, rows, defects)}"
    for side in {2, 3, largest - 1, largest, largest + 1} & set(sides) - {1}:
        text = gemm(2 * side, side, side + 1, side, "mesh")
        if side > largest:
            message = refusal(tools, folder, text, target)
            assert f"on columns and rows in which all cores work has {largest} by {largest}; take" in message
            continue
        a, b = matrices(seed, (2 * side, side), (side, side + 1))
        got, figures = simulate(text, a, b, arguments=[target])
        check(got, a, b, roundings=side + 1, unit=2.0**-24)
        first = figures["first_column"], figures["first_row"]
        skipped = figures["skipped_columns"], figures["skipped_rows"]
        assert len(skipped[0]) + len(skipped[1]) == fewest[side]
        ours = [
            [c for c in range(at, at + side + len(out)) if c not in out] for at, out in zip(first, skipped, strict=True)
        ]
        for c, r in defects:  # neither a core of the grid, nor one whose router its messages pass
            assert not (c in ours[0] and ours[1][0] <= r <= ours[1][-1])
            assert not (r in ours[1] and ours[0][0] <= c <= ours[0][-1])


def test_a_hop_more_for_each_row_that_is_left_out(tools, folder: Path) -> None:
    """Sums of a pipeline go along all rows to the first one, and back: twice over each row that is left out."""
    (folder / "chain.mlir").write_text(gemv(24, 12, 12, "pipeline"))
    cycles = {}
    for hop, defects in itertools.product((1.0, 5.0), ([], [[6, 7]], [[6, 7], [2, 3]])):
        path = hops_of(wafer_file(folder, 12 + len(defects), 12 + len(defects), defects), hop)
        tools.run("intarsia-wafer", folder / "chain.mlir", f"--target={path}", f"--json={folder / 'chain.json'}")
        (figures,) = json.loads((folder / "chain.json").read_text())
        assert len(figures["skipped_rows"]) == len(defects)
        cycles[hop, len(defects)] = figures["cycles"]
    for hop, count in itertools.product((1.0, 5.0), (1, 2)):
        assert cycles[hop, count] - cycles[hop, 0] == pytest.approx(2 * count * hop)


def test_sources_do_not_leave_out_rows(tools, folder: Path) -> None:
    """They are refused, with what to do."""
    path = wafer_file(folder, 5, 5, [[2, 2]])
    for flag in ("csl", "metalium"):
        message = refusal(tools, folder, gemm(8, 8, 8, 4, "mesh"), f"--target={path}", f"--{flag}={folder / flag}")
        assert "its grid leaves out columns or rows of the wafer" in message


@pytest.mark.parametrize(
    ("defects", "message"),
    [
        ("3", "defects: is no list of cores, each [column, row]"),
        ("[[1, 2, 3]]", "defects: has something else than a core, [column, row]"),
        ("[[750, 1]]", "defects: core (750, 1) is not among the 750 by 994 cores of the wafer"),
        ("[[1, 1.5]]", "defects: core (1, 1.5) is not among"),
        ("[[1, -1]]", "defects: core (1, -1) is not among"),
        ("[[4, 5], [4, 5]]", "defects: core (4, 5) is there twice"),
        ("[[a, 5]]", "mine.yaml:"),
    ],
)
def test_implausible_defects_are_refused(tools, folder: Path, defects: str, message: str) -> None:
    """Each with the line of the file."""
    source = (Path(__file__).parents[2] / "catalogue" / "wafers" / "wse-2.yaml").read_text()
    (folder / "mine.yaml").write_text(f"{source}defects: {defects}\n")
    text = refusal(tools, folder, gemm(8, 8, 8, 4, "mesh"), f"--target={folder / 'mine.yaml'}")
    assert message in text
    assert f"{folder / 'mine.yaml'}:20" in text


def test_quantized_matrices_have_the_values_of_numpy(simulate) -> None:
    """Codes of 4 and 8 bits with a scale for several rows: for products of vectors and of matrices, on several grids."""
    rng = np.random.default_rng(7)
    for bits, grid, (k, n) in ((4, 4, (32, 20)), (8, 4, (32, 20)), (4, 3, (22, 9)), (8, 5, (15, 7))):
        shared = math.gcd(-(-k // grid), 8)
        codes = rng.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), (k, n)).astype(np.float32)
        scales = rng.uniform(0.1, 1, (-(-k // shared), n)).astype(np.float16)
        w = codes.astype(np.float64) * np.repeat(scales.astype(np.float64), shared, axis=0)[:k]
        for rows in (1, 6):
            types = [tensor((rows, k), "f32"), tensor((k, n), f"i{bits}"), tensor(scales.shape, "f16")]
            product = "dist_gemv tree" if rows == 1 else "dist_gemm mesh"
            y, whole = tensor((rows, n), "f32"), tensor((k, n), "f32")
            text = f"""
            func.func @main(%x: {types[0]}, %c: {types[1]}, %s: {types[2]}) -> {y} {{
              %w = wafer.dist_decode %c, %s on {grid} : {types[1]}, {types[2]} -> {whole}
              %y = wafer.{product} %x, %w on {grid} : {types[0]}, {whole} -> {y}
              return %y : {y}
            }}"""
            x = rng.standard_normal((rows, k)).astype(np.float32)
            got, figures = simulate(text, x, codes, scales)
            np.testing.assert_allclose(got, x.astype(np.float64) @ w, rtol=1e-5, atol=1e-5)
            (buffer,) = [one for one in figures["buffers"] if one["name"].endswith("_codes")]
            assert buffer["bytes"] == math.ceil(math.ceil(k / grid) * math.ceil(n / grid) * bits / 8)


def test_pictures_show_every_core(tools, folder: Path) -> None:
    """Three maps with a square for each core of a small grid, and squares of several cores of a large one."""
    for grid, squares in ((8, 64), (130, 44 * 44)):
        (folder / "drawn.mlir").write_text(gemv(2 * grid, grid, grid, "tree"))
        tools.run("intarsia-wafer", folder / "drawn.mlir", f"--picture={folder / 'drawn.svg'}")
        root = ElementTree.parse(folder / "drawn.svg").getroot()
        colored = [one for one in root.iter() if one.get("fill", "").startswith("rgb(")]
        assert len(colored) == 3 * squares
        assert len({one.get("fill") for one in colored}) > 5
        assert "memory of each core" in "".join(root.itertext())


def test_cycles_of_a_decode_layer_are_those_that_were_published(tools) -> None:
    """Two of the 24 points that bench/wafer.py prints; the program of a layer does not grow with the grid."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
    import wafer_layers

    ops = set()
    for point in wafer_layers.points():
        if point.model == "LLaMA2-13B" and point.phase == "decode" and point.grid < 600:
            (figures,) = wafer_layers.figures(tools.path("intarsia-wafer"), wafer_layers.layer_of(point))
            assert figures["cycles"] == pytest.approx(point.cycles_per_layer(), rel=0.05)
            ops.add(figures["ops"])
    assert len(ops) == 1


def test_trees_are_faster_than_pipelines_and_fall_longer(cycles) -> None:
    """The pipeline is fastest on fewer cores than the tree, and is four to eight times as slow (arXiv 2502.04563, §7.3)."""
    grids = [60, 120, 240, 480]
    trees = [cycles(gemv(8192, 8192, grid, "tree", result="f16")) for grid in grids]
    pipelines = [cycles(gemv(8192, 8192, grid, "pipeline", result="f16")) for grid in grids]
    assert np.argmin(pipelines) < np.argmin(trees)
    assert 4 <= pipelines[2] / trees[2] <= 8


def buffers_meet(one: Figures, other: Figures) -> bool:
    """Return whether two buffers are in use during one op."""
    return one["first_op"] <= other["last_op"] and other["first_op"] <= one["last_op"]


@pytest.mark.parametrize("grid", [4, 7])
def test_buffers_share_bytes_only_if_they_do_not_meet(simulate, tools, folder: Path, grid: int) -> None:
    """The figures of the verifier are those of the map; values are those of NumPy."""
    sizes = [3 * grid, 4 * grid, 2 * grid, 5 * grid, 2 * grid]
    x, *weights = matrices(4, (1, sizes[0]), *itertools.pairwise(sizes))
    vectors = [tensor((1, size), "f16") for size in sizes]
    types = [tensor(weight.shape) for weight in weights]
    body = "".join(
        f"      %y{i + 1} = wafer.dist_gemv tree %y{i}, %w{i} on {grid} : {vectors[i]}, {types[i]} -> {vectors[i + 1]}\n"
        for i in range(4)
    )
    arguments = ", ".join(f"%w{i}: {types[i]}" for i in range(4))
    text = f"func.func @main(%y0: {vectors[0]}, {arguments}) -> {vectors[4]} {{\n{body}return %y4 : {vectors[4]}\n}}"
    got, figures = simulate(text, x, *weights)
    expected = x.astype(np.float64)
    for weight in weights:
        expected = expected @ weight
    np.testing.assert_allclose(got, expected, rtol=0.02, atol=0.02 * np.abs(expected).max())
    buffers = figures["buffers"]
    words = [-(-one["bytes"] // 4) * 4 for one in buffers]
    end = max(one["offset"] + size for one, size in zip(buffers, words, strict=True))
    assert figures["bytes_per_core"] == figures["reserved_bytes"] + end
    assert figures["bytes_unshared"] == figures["reserved_bytes"] + sum(words)
    assert figures["bytes_per_core"] < figures["bytes_unshared"]
    shared = 0
    for i, one in enumerate(buffers):
        for j, other in enumerate(buffers[:i]):
            if one["offset"] < other["offset"] + words[j] and other["offset"] < one["offset"] + words[i]:
                assert not buffers_meet(one, other), (one, other)
                shared += 1
    assert shared > 0
    text = tools.run("intarsia-wafer", folder / "program.mlir", "--memory").stdout
    rows = {line.split()[-1]: line.split() for line in text.splitlines() if line[:3] == "   " and "#" in line}
    assert {name: int(row[0]) for name, row in rows.items()} == {
        one["name"]: one["offset"] + figures["reserved_bytes"] for one in buffers
    }


def test_bytes_in_use_are_those_of_the_buffers_that_live_together(simulate) -> None:
    """In MeshGEMM all five buffers at once, with both tiles that travel; in a chain of products less than their sum."""
    a, b = matrices(6, (12, 8), (8, 20))
    _, figures = simulate(gemm(12, 8, 20, 4, "mesh"), a, b)
    tiles = 4 * math.ceil(3 * 2 / 2), 4 * math.ceil(2 * 5 / 2), 4 * 3 * 5
    assert figures["bytes_in_use"] == figures["reserved_bytes"] + 2 * tiles[0] + 2 * tiles[1] + tiles[2]
    assert figures["bytes_in_use"] == figures["bytes_per_core"]


def test_a_buffer_that_is_read_after_its_bytes_were_reused(simulate, tools, folder: Path) -> None:
    """Sums that another buffer is moved onto by hand: the program is refused, with the core and both buffers."""
    text = gemv(16, 16, 4, "tree")
    simulate(text, *matrices(5, (1, 16), (16, 16)))
    program = folder / "placed.mlir"
    tools.run("intarsia-wafer", folder / "program.mlir", f"--emit={program}")
    placed = program.read_text()
    assert placed.count('"y" at ') == 1
    start = placed.index('"y" at ') + len('"y" at ')
    end = placed.index(" ", start)
    program.write_text(f"{placed[:start]}0{placed[end:]}")
    done = tools.run("intarsia-wafer", program, check=False)
    assert done.returncode == 1
    assert 'is read after buffer "y" was written to its bytes' in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("model", "grid", "kilobytes"), [("LLaMA3-8B", 360, 36.0), ("LLaMA2-13B", 375, 51.7)], ids=["8B", "13B"]
)
def test_bytes_of_the_paper(tools, folder: Path, model: str, grid: int, kilobytes: float) -> None:
    """Weights and caches of all layers, over four regions of a wafer, beside what one layer works with.

    The count by hand is of unpadded tiles; a tile here has 12 rows of 4096 on 360 cores, where 11.4 would do.
    """
    sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
    from wafer_layers import MODELS, decode_layer

    (folder / "layer.mlir").write_text(decode_layer(model, grid, "tree"))
    tools.run("intarsia-wafer", folder / "layer.mlir", f"--json={folder / 'layer.json'}")
    (figures,) = json.loads((folder / "layer.json").read_text())
    stays = sum(one["bytes"] for one in figures["buffers"] if one["first_op"] < 0 and one["name"].startswith("w"))
    assert (750 // grid) * (994 // grid) == 4
    bytes_of_all = stays * MODELS[model][2] // 4 + figures["bytes_per_core"] - stays
    assert 1024 * kilobytes < bytes_of_all < 1.1 * 1024 * kilobytes
    assert (bytes_of_all <= figures["sram_bytes"]) == (model == "LLaMA3-8B")


def test_padding_is_stated(simulate) -> None:
    """Matrices of 7 x 6, 6 x 9 and 7 x 9 on 4 x 4 cores have tiles of 2 x 2, 2 x 3 and 2 x 3."""
    _, figures = simulate(gemm(7, 6, 9, 4, "mesh"), *matrices(5, (7, 6), (6, 9)))
    assert figures["padding_share"] == pytest.approx(1 - (42 + 54 + 63) / (16 * (4 + 6 + 6)))
    _, figures = simulate(gemm(8, 4, 4, 4, "mesh"), *matrices(5, (8, 4), (4, 4)))
    assert figures["padding_share"] == 0


def test_energy_is_time_at_the_most_power(simulate) -> None:
    """Power of the whole system, by the catalogue; a wafer without that figure has no energy."""
    _, figures = simulate(gemv(16, 16, 4, "tree"), *matrices(5, (1, 16), (16, 16)))
    assert figures["joules_at_most"] == pytest.approx(23000 * figures["microseconds"] * 1e-6, rel=1e-9)
