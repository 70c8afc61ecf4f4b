# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models whose inputs and results are sequences and optional values as models of tensors.

Sequences are made of tensors inside of the model, and taken apart there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper


def array_of(value: Any) -> np.ndarray | None:
    """Return a tensor as an array; None for texts and what is no tensor."""
    if isinstance(value, onnx.TensorProto):
        value = onnx.numpy_helper.to_array(value)
    if isinstance(value, (bool, int, float)) or np.isscalar(value):
        value = np.asarray(value)
    return value if isinstance(value, np.ndarray) and value.dtype.kind not in "OUS" else None


def info_of(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
    """Return an input for an array."""
    element = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    return onnx.helper.make_tensor_value_info(name, element, array.shape)


def is_tensor(info: onnx.ValueInfoProto) -> bool:
    return info.type.HasField("tensor_type")


def with_tensors(
    model: onnx.ModelProto, given: list[Any], wanted: list[Any]
) -> tuple[onnx.ModelProto, dict[str, np.ndarray], list[np.ndarray]] | None:
    """Return a model whose inputs and results are tensors, with them; None if one is a text or a map.

    A sequence is constructed of tensors, a result that is one is taken apart, with its length.
    """
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    stored = {tensor.name for tensor in model.graph.initializer}
    infos = [info for info in model.graph.input if info.name not in stored]
    inputs, expected, before, after, kept, results = {}, [], [], [], [], []
    for info, value in zip(infos, given, strict=False):  # tests give fewer than there are
        array = array_of(value)
        if array is not None:
            inputs[info.name] = array
            kept.append(info if is_tensor(info) else info_of(info.name, array))
            continue
        if value is None:
            before.append(onnx.helper.make_node("Optional", [], [info.name]))
            continue
        parts = [array_of(part) for part in value] if isinstance(value, list) else [None]
        if any(part is None for part in parts):
            return None
        names = [f"{info.name}_{number}" for number in range(len(parts))]
        inputs.update(zip(names, parts, strict=True))
        kept.extend(map(info_of, names, parts))
        kind = info.type.optional_type.elem_type if info.type.HasField("optional_type") else info.type
        empty = onnx.helper.make_node(
            "SequenceEmpty", [], [info.name], dtype=kind.sequence_type.elem_type.tensor_type.elem_type
        )
        before.append(onnx.helper.make_node("SequenceConstruct", names, [info.name]) if parts else empty)
    for info, value in zip(model.graph.output, wanted, strict=True):
        array = array_of(value)
        if array is not None:
            expected.append(array)
            results.append(info_of(info.name, array))
            continue
        parts = [array_of(part) for part in value] if isinstance(value, list) else [None]
        if any(part is None for part in parts):
            return None
        length = f"{info.name}_length"
        after.append(onnx.helper.make_node("SequenceLength", [info.name], [length]))
        for number, part in enumerate(parts):
            place, name = f"{info.name}_place{number}", f"{info.name}_{number}"
            after.append(onnx.helper.make_node("Constant", [], [place], value_int=number))
            after.append(onnx.helper.make_node("SequenceAt", [info.name, place], [name]))
            results.append(info_of(name, part))
        results.append(info_of(length, np.asarray(0)))
        expected.extend([*parts, np.asarray(len(parts))])
    nodes = [*before, *model.graph.node, *after]
    del changed.graph.node[:], changed.graph.input[:], changed.graph.output[:]
    changed.graph.node.extend(nodes)
    changed.graph.input.extend([*kept, *(info for info in model.graph.input if info.name in stored)])
    changed.graph.output.extend(results)
    return changed, inputs, expected
