# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Load and call models that Intarsia has compiled, and compile them.

>>> import intarsia
>>> module = intarsia.compile("path/of/a/model", output="model.itx")
>>> result = module.main(input_ids=[[101, 7592, 102]])
"""

from ._cache import Cache
from ._chat import ChatTemplate
from ._compile import compile
from ._devices import Device, Tensor, cpu, devices, to_device
from ._errors import CacheFullError, CompileError, CorruptError, Error, InvalidArgumentError, NotFoundError
from ._generator import Generator
from ._mixed import quantize_mixed
from ._module import (
    Function,
    Module,
    Pending,
    Signature,
    TensorType,
    load,
    make_state,
    profile,
    set_threads,
    threads,
)
from ._quantize import quantize
from ._runtime import version as _version
from ._sampling import Sampling
from ._static import quantize_static
from ._worlds import World
from ._writer import Generation, Writer

__version__ = _version().split()[0]

__all__ = [
    "Cache",
    "CacheFullError",
    "ChatTemplate",
    "CompileError",
    "CorruptError",
    "Device",
    "Error",
    "Function",
    "Generation",
    "Generator",
    "InvalidArgumentError",
    "Module",
    "NotFoundError",
    "Pending",
    "Sampling",
    "Signature",
    "Tensor",
    "TensorType",
    "World",
    "Writer",
    "compile",
    "cpu",
    "devices",
    "load",
    "make_state",
    "profile",
    "quantize",
    "quantize_mixed",
    "quantize_static",
    "set_threads",
    "threads",
    "to_device",
]

# Messages and help() show the public names.
for _name in __all__:
    globals()[_name].__module__ = __name__
