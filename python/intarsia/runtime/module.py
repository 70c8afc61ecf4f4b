# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules, their functions and signatures."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import os
import threading
import time
from collections import namedtuple
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .. import _runtime
from ..support.checks import whole_number
from ..support.errors import Error, InvalidArgumentError
from .devices import Device, Tensor, bfloat16, exported, from_array, runtime_device

#: NumPy's type for each element type; bf16 needs ml_dtypes and is handled apart.
_NUMPY_TYPES: dict[str, type] = {
    "f32": np.float32,
    "f16": np.float16,
    "f64": np.float64,
    "i64": np.int64,
    "i32": np.int32,
    "i16": np.int16,
    "i8": np.int8,
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "u64": np.uint64,
    "bool": np.bool_,
}


#: Alignment of state in bytes, ITX_BUFFER_ALIGNMENT of module_abi.h.
_ALIGNMENT = 64


@dataclass(frozen=True)
class TensorType:
    """Name, element type and shape of an input or output.

    Attributes
    ----------
    name : str
        Name of the value.
    dtype : str
        Element type: ``"f32"``, ``"i64"``, …
    shape : tuple of int or str
        Sizes; a name is a size that the call chooses. Equal names are equal sizes everywhere.
    maxima : tuple of int or None
        The largest size allowed of each dimension, None where there is no limit.
    default : float or None
        The value that fills an input which the call omits; None: it must be given.
    value_range : tuple of int, or None
        Values must be in ``[low, high)``.
    state : bool
        True if the call updates it in place: an array aligned to 64 bytes, as `make_state` makes it.
    device : str or None
        The device in whose own memory the function reads or makes it: a `Tensor` that is there is used as it is. None:
        memory of the host.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    maxima: tuple[int | None, ...]
    default: float | None = None
    value_range: tuple[int, int] | None = None
    state: bool = False
    device: str | None = None

    def __str__(self) -> str:
        """Return text like ``input_ids: i64[batch, sequence≤512]``."""
        sizes = ", ".join(
            str(size) if maximum is None or not isinstance(size, str) else f"{size}≤{maximum}"
            for size, maximum in zip(self.shape, self.maxima, strict=True)
        )
        default = "" if self.default is None else f" = {self.default:g}"
        return f"{self.name}: {self.dtype}[{sizes}]{default}"


@dataclass(frozen=True)
class Signature:
    """The inputs and outputs of a function.

    Attributes
    ----------
    function : str
        Name of the function.
    inputs, outputs : tuple of TensorType
        In the order of positional arguments and of results.
    metadata : dict
        Metadata of the model that the importer kept, such as class labels.
    """

    function: str
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    metadata: dict[str, Any]

    def __str__(self) -> str:
        """Return text like a function definition."""
        inputs = ", ".join(str(value) for value in self.inputs)
        outputs = ", ".join(str(value) for value in self.outputs)
        return f"{self.function}({inputs}) -> ({outputs})"


class Function:
    """A function of a module, called with arrays.

    Arguments are given by position or by name. They may be arrays with DLPack (NumPy, PyTorch, JAX, …), which are read
    in place (copied if they are not dense), or nested lists of numbers, which must fit the input's type: fractions and
    texts do not become integers. One output is returned as a NumPy array, several as a named tuple of arrays, none as
    ().
    """

    def __init__(self, module: Module, signature: Signature) -> None:
        # The module itself holds its functions; a cycle would keep both until the next garbage collection.
        self._runtime: _runtime.Module | _runtime.Session = module._runtime
        self._keep_alive = module._keep_alive
        self.signature = signature
        self._device: _runtime.Device | None = None  # where results stay; None: in memory of the host
        self._outputs: Any = None
        if len(signature.outputs) > 1:
            names = [value.name for value in signature.outputs]
            self._outputs = namedtuple(f"{signature.function}_outputs", names, rename=True)  # noqa: PYI024

    @property
    def name(self) -> str:
        """Name of the function."""
        return self.signature.function

    def __repr__(self) -> str:
        """Show the signature."""
        return f"<intarsia function {self.signature}>"

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Run the function.

        Returns
        -------
        numpy.ndarray or tuple of numpy.ndarray
            The outputs. They own their memory. Those that stay on a device (`on`) are each a `Tensor`.

        Raises
        ------
        InvalidArgumentError
            A name, rank, dtype, size or value does not fit.
        """
        return self._results(self._runtime.invoke(self.name, self._capsules(arguments, named), self._device))

    def start(self, *arguments: Any, **named: Any) -> Pending:
        """Run the function in the background, with the same arguments; what they hold must not change meanwhile.

        Several calls may run at once, each on a thread of its own.

        Raises
        ------
        InvalidArgumentError
            A name, rank, dtype, size or value does not fit. Other errors are raised by `Pending.result`.
        """
        if isinstance(self._runtime, _runtime.Session):
            raise InvalidArgumentError(
                f"{self.name}: calls of a session are done one after another: call it on a thread of your own",
                "invalid argument",
            )
        return Pending(self._runtime.start(self.name, self._capsules(arguments, named), self._device), self)

    def on(self, device: str | Device) -> Function:
        """Return the same function with results that stay in the memory of a device, each as a `Tensor`."""
        function = copy.copy(self)
        function._device = runtime_device(device)
        return function

    def _capsules(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> list[tuple[Any, bool] | None]:
        """Return each input as a DLPack capsule, and True if it is bfloat16 given as 16-bit integers."""
        inputs = self.signature.inputs
        if len(arguments) > len(inputs):
            raise InvalidArgumentError(
                f"{self.name} has {len(inputs)} inputs ({', '.join(value.name for value in inputs)}), "
                f"{len(arguments)} were given",
                "invalid argument",
            )
        values: list[Any] = list(arguments) + [None] * (len(inputs) - len(arguments))
        for name, value in named.items():
            index = self._runtime.input_index(self.name, name)
            if index < len(arguments):
                raise InvalidArgumentError(
                    f"{self.name}: input '{name}' is given by position and by name", "invalid argument"
                )
            values[index] = value
        return [None if value is None else _capsule(value, info) for value, info in zip(values, inputs, strict=True)]

    def _results(self, outputs: list[Any]) -> Any:
        """Return the outputs of a call in the form in which callers get them."""
        results = tuple(_result(output, info) for output, info in zip(outputs, self.signature.outputs, strict=True))
        if self._outputs is not None:
            return self._outputs(*results)
        return results[0] if results else results


class Session:
    """The states of one caller of a module, made by `Module.session`. The module's functions are attributes.

    Functions may keep tensors from call to call, such as the state of a recurrent network. Each session has a value of
    each of these states, at first the initial one; sessions do not see each other. Calls are done one after another;
    one that fails leaves the states as they were. A state is read and replaced by its name: ``session["h"]``.
    """

    def __init__(self, module: Module) -> None:
        self._module = module
        self._runtime = _runtime.Session(module._runtime)
        self._functions: dict[str, Function] = {}

    def reset(self) -> None:
        """Give all states their initial values."""
        self._runtime.reset()

    def __getitem__(self, state: str) -> np.ndarray:
        """Return a copy of a state.

        Raises
        ------
        NotFoundError
            The module has no such state.
        """
        output = self._runtime.read(state)
        return from_array(output, "bf16" if output.dtype == np.uint16 else "")

    def __setitem__(self, state: str, value: Any) -> None:
        """Replace a state by a copy of an array with its element type and sizes."""
        self._runtime.write(state, *exported(value if hasattr(value, "__dlpack__") else np.asarray(value)))

    def __getattr__(self, name: str) -> Function:
        """Return a function of the module by name, which is called on the states of this session."""
        if name.startswith("_") or name not in self._module.functions:
            raise AttributeError(f"{type(self).__name__} has no attribute '{name}'")
        if name not in self._functions:
            self._functions[name] = copy.copy(self._module[name])
            self._functions[name]._runtime = self._runtime
        return self._functions[name]

    def __repr__(self) -> str:
        """Show the module and the states."""
        return f"<intarsia session of '{self._module.path}': {', '.join(self._module.states)}>"


class Pending:
    """A call in the background, made by `Function.start`; ``await`` it, or ask for its `result`.

    If it is dropped, the call goes on and its results are dropped too.
    """

    def __init__(self, runtime: _runtime.Pending, function: Function) -> None:
        self._runtime = runtime
        self._function = function
        self._lock = threading.Lock()
        self._outcome: tuple[Any, BaseException | None] | None = None

    def done(self) -> bool:
        """Return True if `result` will not block."""
        return self._runtime.done()

    def cancel(self) -> None:
        """Let the call end as soon as the kernels that have begun are done; does not wait.

        `result` raises `CancelledError` then, unless the call was done before. A loop that never ends is left this way.
        """
        with self._lock:
            if self._outcome is None:
                self._runtime.cancel()

    def result(self, timeout: float | None = None) -> Any:
        """Wait, and return what the call returns, each time again.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait at most.

        Raises
        ------
        TimeoutError
            The call is not done by then.
        CancelledError
            The call was cancelled.
        Error
            The call failed.
        """
        # Tenths of a second: Python handles signals in between.
        until = None if timeout is None else time.monotonic() + timeout
        while not self._runtime.done_within(
            100_000 if until is None else int(1e6 * max(0.0, min(0.1, until - time.monotonic())))
        ):
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(f"{self._function.name} is not done after {timeout:g} s")
        with self._lock:
            if self._outcome is None:
                try:
                    self._outcome = (self._function._results(self._runtime.wait()), None)
                except Error as error:
                    self._outcome = (None, error)
        value, error = self._outcome
        if error is not None:
            raise error
        return value

    def __await__(self) -> Generator[Any, None, Any]:
        """Wait without blocking the event loop."""
        return asyncio.get_running_loop().run_in_executor(None, self.result).__await__()

    def __repr__(self) -> str:
        """Show the function, and whether it is done."""
        return f"<intarsia call of {self._function.name}, {'done' if self.done() else 'running'}>"


def _capsule(value: Any, info: TensorType) -> tuple[Any, bool]:
    """Return an argument as `exported` does; what has no DLPack is converted first."""
    try:
        if not hasattr(value, "__dlpack__"):
            if info.state:
                raise TypeError("it is updated in place, and must be an array")
            value = _convert(value, info)
        elif info.state and callable(negative := getattr(value, "is_neg", None)) and negative():
            raise TypeError("it is updated in place, and has torch's negative bit: give its resolve_neg()")
        return exported(value)
    except Exception as error:  # whatever the producer raises
        given = f"{type(value).__name__} of {value.dtype}" if hasattr(value, "dtype") else type(value).__name__
        raise InvalidArgumentError(
            f"input '{info.name}' takes {info.dtype}, this {given} cannot be read: {error}", "invalid argument"
        ) from error


def _convert(value: Any, info: TensorType) -> np.ndarray:
    """Return a value as an array of the input's type; values that the type cannot hold are errors."""
    array = np.asarray(value)
    wanted = np.dtype(_NUMPY_TYPES.get(info.dtype) or bfloat16() or np.float32)
    if array.dtype.kind in "iu" and wanted.kind in "iu" and array.size:
        limits = np.iinfo(wanted)
        if array.min() < limits.min or array.max() > limits.max:
            raise ValueError(f"its values go from {array.min()} to {array.max()}")
    elif array.dtype.kind == "O":
        raise TypeError("it holds something else than numbers, or a number beyond 64 bits")
    elif array.size and not np.can_cast(array.dtype, wanted, "same_kind"):
        raise TypeError(f"its values are of NumPy's type {array.dtype}")
    with np.errstate(over="raise"):
        return array.astype(wanted)


def _result(output: Any, info: TensorType) -> np.ndarray | Tensor:
    """Return an output as callers get it."""
    return Tensor(output) if isinstance(output, _runtime.Tensor) else from_array(output, info.dtype)


class Module:
    """A loaded artifact. Its functions are attributes: ``module.main(…)``, ``module.embed(…)``.

    Parameters
    ----------
    path : path
        The artifact, ``.itx``.
    verify : bool
        Read all weights and check their hash as well. Without it, code and manifest are checked in full, weights by
        their size and the hash of their header.
    variant : str, optional
        Name of the target variant to run; without it, the first that this CPU can run.
    devices : str, Device, or sequence of them
        The devices that the module may use: names of those that `devices` lists, or devices made with `cpu`; without
        any, all that `devices` lists.
    memory : int, optional
        Bytes of memory that this process may use. If the weights do not fit beside all else, as many as do stay in
        memory, and the others are read from the disk in each call. Without a limit this is done if the weights do not
        fit into the memory that is available.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        verify: bool = False,
        variant: str | None = None,
        devices: str | Device | Sequence[str | Device] = (),
        memory: int | None = None,
    ) -> None:
        self._path = os.fsdecode(path)
        given = [devices] if isinstance(devices, str | Device) else list(devices)
        names = [device for device in given if not isinstance(device, Device)]
        made = [device._runtime for device in given if isinstance(device, Device)]
        self._runtime = _runtime.Module(
            self._path,
            verify,
            variant,
            names,
            made,
            whole_number("memory", memory, 1, 2**63) if memory is not None else 0,
        )
        self._keep_alive: Any = None  # a temporary folder that holds the files
        self._functions: dict[str, Function] = {}

    @cached_property
    def functions(self) -> tuple[str, ...]:
        """Names of the functions."""
        return tuple(self._runtime.functions)

    @cached_property
    def states(self) -> tuple[str, ...]:
        """Names of the states that functions keep from call to call."""
        return tuple(self._runtime.states)

    def session(self) -> Session:
        """Return a session: its own value of each of `states`, on which the functions can be called."""
        return Session(self)

    @cached_property
    def files(self) -> tuple[str, ...]:
        """Names of the model's files that the artifact carries, such as ``"tokenizer.json"``."""
        return tuple(self._runtime.files)

    def file(self, name: str) -> bytes:
        """Return one of `files`.

        Raises
        ------
        NotFoundError
            The artifact carries no such file.
        CorruptError
            It does not have the hash that the artifact says.
        """
        return self._runtime.file(name)

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """The manifest: producer, flags, targets, kernels, weights and functions."""
        return json.loads(self._runtime.manifest)

    @property
    def memory(self) -> dict[str, Any] | None:
        """What is known of weights that are read from the disk in each call; None if all weights are in memory.

        ``limit_bytes``, ``weight_bytes``, ``kept_bytes`` (that stay in memory at present), ``expert_bytes`` (experts in
        memory), ``read_bytes`` and ``wait_seconds`` since the load, ``direct`` (whether they are read past the system's
        page cache).
        """
        text = self._runtime.memory
        return None if text is None else json.loads(text)

    @property
    def variant(self) -> str:
        """Name of the target variant that runs, such as ``"x86-64-v4"``."""
        return self._runtime.variant

    @property
    def path(self) -> str:
        """Path of the artifact."""
        return self._path

    def __fspath__(self) -> str:
        """Return the path of the artifact, so that a module can be given where a path is expected."""
        return self._path

    def signature(self, function: str = "main") -> Signature:
        """Return the inputs and outputs of a function."""
        description = self._runtime.signature(function)
        return Signature(
            function,
            tuple(TensorType(**value) for value in description["inputs"]),
            tuple(TensorType(**value) for value in description["outputs"]),
            json.loads(description["metadata"] or "{}"),
        )

    def __getitem__(self, name: str) -> Function:
        """Return a function by name; needed for names that are not Python identifiers."""
        if name not in self._functions:
            self._functions[name] = Function(self, self.signature(name))
        return self._functions[name]

    def __getattr__(self, name: str) -> Function:
        """Return a function by name."""
        # Python looks up many special names, and attributes that __init__ has not set yet.
        if name.startswith("_") or name not in self.functions:
            raise AttributeError(f"{type(self).__name__} has no attribute '{name}'")
        return self[name]

    def __dir__(self) -> list[str]:
        """List the functions too."""
        return [*super().__dir__(), *self.functions]

    def __repr__(self) -> str:
        """Show the file, the variant and the functions."""
        return f"<intarsia module '{self._path}' for {self.variant}: {', '.join(self.functions)}>"


def load(
    path: str | os.PathLike[str],
    *,
    verify: bool = False,
    variant: str | None = None,
    devices: str | Device | Sequence[str | Device] = (),
    memory: int | None = None,
) -> Module:
    """Load an artifact; see `Module` for the parameters.

    Raises
    ------
    NotFoundError
        The file does not exist.
    CorruptError
        The file is truncated, changed, or not an artifact.
    Error
        It has another version, or needs a CPU feature or a device that this machine lacks.
    """
    return Module(path, verify=verify, variant=variant, devices=devices, memory=memory)


def make_state(function: Function, **sizes: int) -> dict[str, np.ndarray]:
    """Return arrays of zeros for the inputs that a function updates in place, by name.

    Parameters
    ----------
    function : Function
        The function that the arrays are for.
    **sizes : int
        The sizes that the inputs' shapes name, such as ``pages=64``.
    """
    state = {}
    for value in function.signature.inputs:
        if value.state:
            shape = tuple(sizes[size] if isinstance(size, str) else size for size in value.shape)
            dtype = np.dtype(_NUMPY_TYPES.get(value.dtype) or bfloat16() or np.uint16)
            raw = np.zeros(int(np.prod(shape)) * dtype.itemsize + _ALIGNMENT, np.uint8)
            offset = -raw.ctypes.data % _ALIGNMENT
            state[value.name] = raw[offset : raw.size - _ALIGNMENT + offset].view(dtype).reshape(shape)
    return state


def set_threads(threads: int) -> None:
    """Set the number of threads that a call uses on the device ``cpu``, its caller included; 0: the default.

    The default is the environment variable ``ITX_THREADS``, or else what the affinity mask and the cgroup allow.
    """
    _runtime.set_threads(whole_number("threads", threads, 0, 1024))


def threads() -> int:
    """Return the number of threads that a call uses."""
    return _runtime.threads()


@contextlib.contextmanager
def profile(path: str | os.PathLike[str]) -> Iterator[None]:
    """Record every kernel launch of the block into a Chrome-trace JSON file.

    Parameters
    ----------
    path : path
        The file to write; open it in chrome://tracing or Perfetto.
    """
    _runtime.profile_start()
    try:
        yield
    except BaseException:
        _runtime.profile_stop(None)
        raise
    _runtime.profile_stop(os.fspath(path))
