# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What importers build of several ops, einsums and norms of images in any layout, against NumPy in double precision."""

from __future__ import annotations

import numpy as np
import pytest
from compositions import built
from programs import build
from random_numbers import RNG, normal

DEVICES = ["cpu", "reference", "emulated:sm_90a", "emulated:gfx942"]

#: Equations with the shapes of operands. A size that is a letter is dynamic.
EQUATIONS = {
    "bhqd,bhkd->bhqk": [(2, 3, 5, 8), (2, 3, 7, 8)],  # matrices as they lie, of several batches
    "ab...,b...c": [(2, 3, 4), (3, 1, 5)],  # an implicit result, a dimension of 1 that is repeated
    "ijk,jil->kl": [(3, 4, 5), (4, 3, 6)],  # two letters are summed, transposed
    "iij->ji": [(4, 4, 3)],  # a diagonal
    "ii": [(6, 6)],
    "ij,jk,kl->il": [(2, 3), (3, 4), (4, 5)],
    "i,j,i->ji": [(3,), (4,), (3,)],  # nothing is summed
    "ij,ij->": [(3, 4), (3, 4)],
    "ij,ji->": [(1, 2), (2, 1)],
    "...->...": [(2, 3)],
    ",ij->j": [(), (3, 4)],
}


def einsums() -> str:
    text = ""
    for number, (equation, shapes) in enumerate(EQUATIONS.items()):
        types = ["tensor<" + "".join(f"{size}x" for size in shape) + "f32>" for shape in shapes]
        result = np.einsum(equation, *(np.zeros(shape) for shape in shapes)).shape
        returned = "tensor<" + "".join(f"{size}x" for size in result) + "f32>"
        arguments = ", ".join(f'%a{i}: {each} {{nn.name = "a{i}"}}' for i, each in enumerate(types))
        names = ", ".join(f"%a{i}" for i in range(len(types)))
        text += f"""func.func @einsum{number}({arguments}) -> {returned} {{
            %r = "build.einsum"({names}) {{equation = "{equation}"}} : ({", ".join(types)}) -> {returned}
            return %r : {returned} }}
            """
    return (
        text
        + """func.func @dynamic(%x: tensor<?x?x6xf32> {nn.name = "x", nn.sizes = ["n", "m", ""]}, %y: tensor<6x5xi32> {nn.name = "y"},
                   %z: tensor<?x5xi32> {nn.name = "z", nn.sizes = ["k", ""]}, %w: tensor<6x2x?xf32> {nn.name = "w", nn.sizes = ["", "", "n"]})
        -> (tensor<?x2x?xf32>, tensor<6x?xi32>) {
      %r = "build.einsum"(%x, %w) {equation = "bmk,kcb->bcm"} : (tensor<?x?x6xf32>, tensor<6x2x?xf32>) -> tensor<?x2x?xf32>
      %s = "build.einsum"(%y, %z) {equation = "ac,bc->ab"} : (tensor<6x5xi32>, tensor<?x5xi32>) -> tensor<6x?xi32>
      return %r, %s : tensor<?x2x?xf32>, tensor<6x?xi32> }
    """
    )


@pytest.mark.parametrize("device", DEVICES)
def test_einsums(tools, tmp_path, device: str) -> None:
    module = built(tools, tmp_path, einsums(), device)
    for number, (equation, shapes) in enumerate(EQUATIONS.items()):
        operands = [normal(*shape) for shape in shapes]
        expected = np.einsum(equation, *(each.astype(float) for each in operands))
        found = getattr(module, f"einsum{number}")(*operands)
        np.testing.assert_allclose(found, expected, 1e-5, 1e-5, err_msg=equation)
    x, w = normal(3, 4, 6), normal(6, 2, 3)
    y, z = RNG.integers(-9, 9, (6, 5)).astype(np.int32), RNG.integers(-9, 9, (7, 5)).astype(np.int32)
    found = module.dynamic(x, y, z, w)
    np.testing.assert_allclose(found[0], np.einsum("bmk,kcb->bcm", x.astype(float), w.astype(float)), 1e-5, 1e-5)
    np.testing.assert_array_equal(found[1], y @ z.T)


@pytest.mark.parametrize(
    ("equation", "shapes", "message"),
    [
        ("ij,jk->ik", ["2x3"], "is of 2 operands, there are 1"),
        ("i.j->ij", ["2x3"], "has the character '.', which is no letter"),
        ("i1->i", ["2x3"], "has the character '1', which is no letter"),
        ("i->i", ["2x3"], "has 1 letters for an operand of rank 2"),
        ("ijk->i", ["2x3"], "has 3 letters for an operand of rank 2"),
        ("ij->iz", ["2x3"], "has 'z' in the result and in no operand"),
        ("ij->ii", ["2x3"], "has 'i' twice in the result"),
        ("...i...->i", ["2x3"], "has '...' twice in one term"),
        ("ij,jk->ik", ["2x3", "4x5"], "gives 'j' to dimensions of 3 and 4 elements"),
        ("ii->i", ["2x3"], "gives 'i' to dimensions of 2 and 3 elements"),
    ],
)
def test_equations_that_are_refused(tools, tmp_path, equation: str, shapes: list[str], message: str) -> None:
    types = [f"tensor<{shape}xf32>" for shape in shapes]
    arguments = ", ".join(f"%a{i}: {each}" for i, each in enumerate(types))
    names = ", ".join(f"%a{i}" for i in range(len(types)))
    file = tmp_path / "refused.mlir"
    file.write_text(f"""func.func @f({arguments}) -> tensor<f32> {{
        %r = "build.einsum"({names}) {{equation = "{equation}"}} : ({", ".join(types)}) -> tensor<f32>
        return %r : tensor<f32> }}""")
    flags = ("--allow-unregistered-dialect", "--test-compositions")
    result = tools.run("intarsia-test-opt", file, *flags, check=False)
    assert result.returncode == 1
    assert f"the equation '{equation}' of an einsum {message}" in result.stderr


#: Images with channels first, last and between others, and how many groups of them.
LAYOUTS = {"first": ("?x6x?x5", 1), "last": ("?x4x?x6", 3), "row": ("?x6", 1), "volume": ("?x6x2x?x3", 1)}


def norms() -> str:
    text = ""
    for name, (shape, axis) in LAYOUTS.items():
        kind = f"tensor<{shape}xf32>"
        sizes = ", ".join(
            '"n"' if i == 0 else f'"d{i}"' if size == "?" else '""' for i, size in enumerate(shape.split("x"))
        )
        vectors = "".join(f', %{v}: tensor<6xf32> {{nn.name = "{v}"}}' for v in "sbmv")
        head = f'(%x: {kind} {{nn.name = "x", nn.sizes = [{sizes}]}}{vectors}) -> {kind}'
        vector = "tensor<6xf32>"
        for groups in (1, 3, 6):
            text += f"""func.func @group{groups}_{name}{head} {{
                %y = "build.image_norm"(%x, %s, %b) {{groups = {groups}, epsilon = 1.0e-5, axis = {axis}}} : ({kind}, {vector}, {vector}) -> {kind}
                return %y : {kind} }}
                """
        text += f"""func.func @batch_{name}{head} {{
            %y = "build.batch_norm"(%x, %s, %b, %m, %v) {{epsilon = 1.0e-3, axis = {axis}}} : ({kind}, {vector}, {vector}, {vector}, {vector}) -> {kind}
            return %y : {kind} }}
        func.func @response_{name}{head} {{
            %y = "build.response_norm"(%x) {{axis = {axis}, size = 4, alpha = 0.5, beta = 0.75, bias = 1.5}} : ({kind}) -> {kind}
            return %y : {kind} }}
            """
    return text


@pytest.mark.parametrize("device", DEVICES)
def test_norms(tools, tmp_path, device: str) -> None:
    module = built(tools, tmp_path, norms(), device)
    scale, bias, mean, variance = normal(6), normal(6), normal(6), np.abs(normal(6))
    for name, (shape, axis) in LAYOUTS.items():
        x = normal(*(4 if size == "?" else int(size) for size in shape.split("x"))) + 1
        first = np.moveaxis(x.astype(float), axis, 1)  # [batch, channels, ...]
        of_channels = (1, 6, *[1] * (x.ndim - 2))

        def check(function: str, expected: np.ndarray) -> None:
            found = getattr(module, f"{function}_{name}")(x, scale, bias, mean, variance)  # noqa: B023
            np.testing.assert_allclose(found, np.moveaxis(expected, 1, axis), 2e-5, 2e-5, err_msg=function + name)  # noqa: B023

        for groups in (1, 3, 6):
            if x[0].size == groups:
                continue  # one element has no deviation
            parts = first.reshape(len(x), groups, -1)
            centred = parts - parts.mean(-1, keepdims=True)
            normal_parts = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
            check(
                f"group{groups}",
                normal_parts.reshape(first.shape) * scale.reshape(of_channels) + bias.reshape(of_channels),
            )
        factor = scale / np.sqrt(variance + 1e-3)
        check("batch", (first - mean.reshape(of_channels)) * factor.reshape(of_channels) + bias.reshape(of_channels))
        # Of 4 elements one is before and two are behind (LRN of ONNX 13).
        padded = np.pad(first**2, ((0, 0), (1, 2), *[(0, 0)] * (x.ndim - 2)))
        sums = sum(padded[:, i : i + 6] for i in range(4))
        check("response", first / (1.5 + 0.5 / 4 * sums) ** 0.75)


def test_scalar_of_a_matrix(tools, tmp_path) -> None:
    """A matrix of one element becomes a scalar, as an einsum that sums everything ends."""
    text = """func.func @f(%x: tensor<1x2xf32> {nn.name = "x"}, %y: tensor<2x1xf32> {nn.name = "y"}) -> tensor<f32> {
      %m = nn.matmul %x, %y : (tensor<1x2xf32>, tensor<2x1xf32>) -> tensor<1x1xf32>
      %s = tensor.collapse_shape %m [] : tensor<1x1xf32> into tensor<f32>
      %z = math.absf %s : tensor<f32>
      return %z : tensor<f32> }"""
    x, y = normal(1, 2), normal(2, 1)
    np.testing.assert_allclose(build(tools, tmp_path, text).f(x, y), abs(x @ y)[0, 0], 1e-6)
