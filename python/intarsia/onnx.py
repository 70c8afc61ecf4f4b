# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ONNX models as the `onnx` package has them in memory: the backend that its tests and other programs call.

>>> import onnx
>>> from intarsia.onnx import Backend
>>> prepared = Backend.prepare(onnx.load("model.onnx"))  # doctest: +SKIP
>>> outputs = prepared.run([image])  # doctest: +SKIP

`onnx.backend.test.BackendTest(Backend)` makes the tests of the standard. A model that is a file needs none of this:
``intarsia.compile("model.onnx")`` compiles it, and neither that nor its calls need the `onnx` package.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
from onnx.backend import base

from .runtime.compile import compile
from .runtime.devices import devices
from .runtime.module import Module
from .support.errors import CompileError, InvalidArgumentError

__all__ = ["Backend", "PreparedModel"]

#: What the compiler says of an input of an op that it has to know.
_MUST_BE_KNOWN = "must be known to the compiler"
#: The most elements of integers and bools that become constants where the message does not name an input.
_MOST_ELEMENTS = 64
#: How the message says it of an input that the call itself gives, which may become a constant.
_INPUT_THAT_MUST_BE_KNOWN = re.compile(r"must be known to the compiler: --set=(.+?)=…")
#: Compiled models for values of such inputs that are kept; of more the one that was used longest ago goes.
_MOST_SPECIALISED = 32
#: Types of ml_dtypes that calls pass as bytes: integers by their values, floats by their bits.
_SMALL_INTEGERS = ("int4", "uint4", "int2", "uint2")
_SMALL_FLOATS = ("float8_", "float6_", "float4_")
#: Targets that every machine runs.
_ON_CPU = ("cpu", "reference", "emulated")
#: Keywords of `Backend.prepare` that are those of `intarsia.compile`.
_OPTIONS = ("shapes", "values", "weights_dir", "options")


def _compile(model: onnx.ModelProto, target: str, options: Mapping[str, Any]) -> Module:
    """Compile a model in memory."""
    with tempfile.TemporaryDirectory(prefix="intarsia-onnx-") as folder:
        path = Path(folder) / "model.onnx"
        try:
            path.write_bytes(model.SerializeToString())
        except ValueError:  # messages have 2 GiB at most
            onnx.save_model(model, path, save_as_external_data=True, location="model.onnx.data")
        return compile(path, target, **options)


def _array(value: Any) -> np.ndarray:
    """Return an argument as an array."""
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    if isinstance(value, (np.ndarray, np.generic, bool, int, float)) or hasattr(value, "__array__"):
        return np.asarray(value)
    if value is None or isinstance(value, (Sequence, Mapping)):
        raise InvalidArgumentError("sequences, maps and missing values are not passed: give arrays", "invalid argument")
    return np.from_dlpack(value)


def _bytes_of(array: np.ndarray) -> np.ndarray:
    """Return an array as calls take it: narrow numbers that NumPy has no type of its own for are bytes."""
    if array.dtype.name in _SMALL_INTEGERS:
        return array.astype(np.int8 if array.dtype.name.startswith("int") else np.uint8)
    return array.view(np.uint8) if array.dtype.name.startswith(_SMALL_FLOATS) else array


class PreparedModel(base.BackendRep):
    """A model that is compiled.

    Where an op has to know an input that calls give, such as axes, `run` compiles the model with the value of that
    input as a constant, and keeps that for calls with the same value.
    """

    def __init__(self, model: onnx.ModelProto, target: str, options: Mapping[str, Any]) -> None:
        stored = {tensor.name for tensor in model.graph.initializer}
        values = options.get("values") or {}
        self._inputs = [info.name for info in model.graph.input if info.name not in stored and info.name not in values]
        self._outputs = [info.name for info in model.graph.output]
        # Numbers that calls pass as bytes get their type back.
        self._types = [info.type.tensor_type.elem_type for info in model.graph.output]
        self._target, self._options = target, options
        self._model: onnx.ModelProto | None = None  # that is compiled for the inputs of calls
        self._specialised: dict[tuple[Any, ...], Module] = {}  # the one that was used last is at the end
        self._constants: list[str] = []  # inputs that the compiler has to know
        self._module: Module | None = None
        try:
            self._module = _compile(model, target, options)
        except CompileError as error:
            if _MUST_BE_KNOWN not in str(error) or not self._inputs:
                raise
            self._model = onnx.ModelProto()
            self._model.CopyFrom(model)
            self._constants = self._named_in(error)

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Return the outputs for inputs in the order of the graph, or by name; they are also attributes by name."""
        if isinstance(inputs, Mapping):
            given = {name: _array(value) for name, value in inputs.items()}
        elif isinstance(inputs, (list, tuple)):
            if len(inputs) > len(self._inputs):
                raise InvalidArgumentError(
                    f"the model has {len(self._inputs)} inputs, {len(inputs)} were given", "invalid argument"
                )
            given = dict(zip(self._inputs, map(_array, inputs), strict=False))
        else:
            given = dict(zip(self._inputs, [_array(inputs)], strict=False))
        module, left = self._for(given)
        results = module.main(**{name: _bytes_of(array) for name, array in left.items()})
        results = results if isinstance(results, tuple) else (results,)
        typed = [_with_type(value, kind) for value, kind in zip(results, self._types, strict=True)]
        return base.namedtupledict("Outputs", self._outputs)(*typed)

    def _for(self, given: dict[str, np.ndarray]) -> tuple[Module, dict[str, np.ndarray]]:
        """Return the compiled model for inputs, and those of them that it takes."""
        if self._module is not None:
            return self._module, given
        assert self._model is not None
        while True:
            values = {name: given[name] for name in self._constants if name in given}
            key = tuple((name, array.dtype.str, array.shape, array.tobytes()) for name, array in values.items())
            module = self._specialised.pop(key, None)
            try:
                options = {**self._options, "values": {**(self._options.get("values") or {}), **values}}
                module = module or _compile(self._model, self._target, options)
            except CompileError as error:
                if _MUST_BE_KNOWN not in str(error) or not (more := self._more_constants(error, given)):
                    raise
                self._constants += more
                continue
            self._specialised[key] = module
            if len(self._specialised) > _MOST_SPECIALISED:
                del self._specialised[next(iter(self._specialised))]
            return module, {name: array for name, array in given.items() if name not in values}

    def _named_in(self, error: CompileError) -> list[str]:
        """Return the inputs that a message asks for."""
        named = set(_INPUT_THAT_MUST_BE_KNOWN.findall(str(error)))
        return [name for name in self._inputs if name in named and name not in self._constants]

    def _more_constants(self, error: CompileError, given: Mapping[str, np.ndarray]) -> list[str]:
        """Return the inputs that become constants too after an error.

        A message names no input if an op reads something that is computed from inputs. All small integers and bools,
        and single numbers of any type, become constants then.
        """
        return self._named_in(error) or [
            name
            for name, array in given.items()
            if name not in self._constants
            and array.ndim <= 1
            and array.size <= _MOST_ELEMENTS
            and (array.dtype.kind in "biu" or array.ndim == 0)
        ]


def _with_type(value: np.ndarray, kind: int) -> np.ndarray:
    """Return an output with its own type, where it is bytes."""
    if kind == onnx.TensorProto.UNDEFINED:
        return value
    wanted = onnx.helper.tensor_dtype_to_np_dtype(kind)
    if value.dtype == wanted or value.dtype.itemsize != 1:
        return value
    if wanted.name in _SMALL_INTEGERS:
        return value.astype(wanted)
    return value.view(wanted) if wanted.name.startswith(_SMALL_FLOATS) else value


class Backend(base.Backend):
    """Intarsia behind the interface of `onnx.backend.base`.

    Each model is compiled by a process of its own, so that no model ends or grows this one.
    """

    @classmethod
    def _target(cls, device: str) -> str:
        """Return the target of the compiler for a device of ONNX: "CPU", "CUDA:0", or a target's own name."""
        kind = device.split(":")[0]
        if kind == "CPU":
            return "cpu"
        if kind != "CUDA":
            return device
        for each in devices():
            if each["name"].startswith("cuda"):
                return f"cuda:{each['variant']}"
        raise InvalidArgumentError("this machine has no device CUDA", "invalid argument")

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Return True for the devices that this machine has: "CPU", "CUDA" with an NVIDIA GPU, and targets by name."""
        try:
            kind = cls._target(device).split(":")[0]
        except InvalidArgumentError:
            return False
        if kind in _ON_CPU:
            return True
        return any(re.fullmatch(re.escape(kind) + r"\d*", each["name"]) for each in devices())

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> PreparedModel:
        """Compile a model.

        Parameters
        ----------
        model : onnx.ModelProto
            The model. Tensors that it keeps in other files must have been loaded, as `onnx.load` does.
        device : str
            ``"CPU"``, ``"CUDA"``, or a target of `intarsia.compile`.
        **kwargs
            ``shapes``, ``values``, ``weights_dir`` and ``options`` as `intarsia.compile` takes them, and ``target`` in
            place of that of the device; ``rtol`` and ``atol``, which tests of the standard give, are ignored.

        Raises
        ------
        CompileError
            The compiler refused the model; the message names all that it does not import.
        """
        if unknown := kwargs.keys() - {*_OPTIONS, "target", "rtol", "atol"}:
            raise InvalidArgumentError(f"there is no option '{min(unknown)}'", "invalid argument")
        options = {name: kwargs[name] for name in _OPTIONS if name in kwargs}
        return PreparedModel(model, kwargs.get("target") or cls._target(device), options)

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """Compile a model and run it once."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Compile one node for the types and shapes of its inputs, and run it.

        ``opset_version`` is the version of the operator set of its domain, by default the newest that is known.
        """
        arrays = [_array(value) for value in inputs]
        names = [name for name in node.input if name]
        if len(arrays) != len(names):
            raise InvalidArgumentError(
                f"the node has {len(names)} inputs, {len(arrays)} were given", "invalid argument"
            )
        by_name = dict(zip(names, arrays, strict=True))
        given = [
            onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in by_name.items()
        ]
        results = [onnx.helper.make_empty_tensor_value_info(name) for name in node.output if name]
        graph = onnx.helper.make_graph([node], "node", given, results)
        version = kwargs.pop("opset_version", None)
        if version is None:
            version = onnx.defs.onnx_opset_version() if node.domain in ("", "ai.onnx") else 1
        sets = [onnx.helper.make_opsetid(node.domain, version)]
        model = onnx.helper.make_model(graph, opset_imports=sets)
        return cls.prepare(model, device, **kwargs).run(by_name)
