# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The C API through ctypes: the measurements need no installed package."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path

import numpy as np

# itx_dtype of include/intarsia/runtime.h.
DTYPES = {"float32": 0, "float16": 1, "float64": 3, "int64": 4, "int32": 5}
DTYPES |= {"int16": 6, "int8": 7, "uint8": 8, "bool": 9}
NAMES = {value: name for name, value in DTYPES.items()}


class Runtime:
    """libintarsia_runtime.so."""

    def __init__(self, library: Path) -> None:
        self.c = ctypes.CDLL(str(library))
        for name in ("itx_last_error", "itx_version"):
            getattr(self.c, name).restype = ctypes.c_char_p
        for name in ("itx_tensor_data", "itx_tensor_shape"):
            getattr(self.c, name).restype = ctypes.c_void_p
            getattr(self.c, name).argtypes = [ctypes.c_void_p]
        self.c.itx_tensor_free.argtypes = [ctypes.c_void_p]
        self.c.itx_tensor_free.restype = None
        for name in ("itx_function_input_count", "itx_function_output_count"):
            getattr(self.c, name).restype = ctypes.c_size_t
            getattr(self.c, name).argtypes = [ctypes.c_void_p]

    def version(self) -> str:
        return self.c.itx_version().decode()

    def set_threads(self, threads: int) -> None:
        self.check(self.c.itx_set_threads(ctypes.c_int32(threads)))

    def load(self, artifact: Path) -> Module:
        handle = ctypes.c_void_p()
        self.check(self.c.itx_module_load(str(artifact).encode(), None, ctypes.byref(handle)))
        return Module(self, handle)

    def check(self, status: int) -> None:
        if status != 0:
            raise RuntimeError(self.c.itx_last_error().decode())


class Module:
    """A loaded artifact; it is kept until the process ends."""

    def __init__(self, runtime: Runtime, handle: ctypes.c_void_p) -> None:
        self.runtime = runtime
        self.handle = handle

    def function(self, name: str) -> Function:
        handle = ctypes.c_void_p()
        self.runtime.check(self.runtime.c.itx_module_function(self.handle, name.encode(), ctypes.byref(handle)))
        return Function(self.runtime, handle)


class Function:
    """A function of a module: `wrap` the inputs once, then call."""

    def __init__(self, runtime: Runtime, handle: ctypes.c_void_p) -> None:
        self.runtime = runtime
        self.handle = handle
        self.inputs = int(runtime.c.itx_function_input_count(handle))
        self.outputs = int(runtime.c.itx_function_output_count(handle))

    def wrap(self, arrays: Mapping[str, np.ndarray]) -> ctypes.Array[ctypes.c_void_p]:
        """Returns handles of the inputs in the function's order; inputs not in `arrays` have their defaults."""
        c = self.runtime.c
        handles = (ctypes.c_void_p * self.inputs)()
        for name, array in arrays.items():
            index = ctypes.c_size_t()
            self.runtime.check(c.itx_function_input_index(self.handle, name.encode(), ctypes.byref(index)))
            shape = (ctypes.c_int64 * array.ndim)(*array.shape)
            handle = ctypes.c_void_p()
            self.runtime.check(
                c.itx_tensor_create(
                    DTYPES[array.dtype.name],
                    ctypes.c_uint32(array.ndim),
                    shape,
                    ctypes.c_void_p(np.ascontiguousarray(array).ctypes.data),
                    ctypes.byref(handle),
                )
            )
            handles[index.value] = handle.value
        return handles

    def __call__(self, handles: ctypes.Array[ctypes.c_void_p]) -> list[np.ndarray]:
        c = self.runtime.c
        outputs = (ctypes.c_void_p * self.outputs)()
        self.runtime.check(
            c.itx_invoke(self.handle, handles, ctypes.c_size_t(self.inputs), outputs, ctypes.c_size_t(self.outputs))
        )
        return [self._take(ctypes.c_void_p(output)) for output in outputs]

    def _take(self, handle: ctypes.c_void_p) -> np.ndarray:
        """Copies an output and frees it."""
        c = self.runtime.c
        rank = c.itx_tensor_rank(handle)
        shape = (ctypes.c_int64 * rank).from_address(c.itx_tensor_shape(handle)) if rank else ()
        dtype = np.dtype(NAMES[c.itx_tensor_dtype(handle)])
        count = int(np.prod(list(shape), dtype=np.int64))
        data = (ctypes.c_char * (count * dtype.itemsize)).from_address(c.itx_tensor_data(handle))
        array = np.frombuffer(bytes(data), dtype).reshape(list(shape))
        c.itx_tensor_free(handle)
        return array
