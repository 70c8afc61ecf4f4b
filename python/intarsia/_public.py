# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The public names of the package, which `intarsia` imports when the first of them is used."""

from .generation.cache import Cache
from .generation.generator import Generator
from .generation.sampling import SamplingOptions
from .generation.writer import Generation, Writer
from .quantization.mixed import quantize_mixed
from .quantization.quantize import quantize
from .quantization.static import quantize_static
from .runtime.compile import compile
from .runtime.devices import Device, Tensor, cpu, devices, to_device
from .runtime.module import (
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
from .runtime.worlds import World
from .support.errors import (
    CacheFullError,
    CancelledError,
    CompileError,
    CorruptError,
    Error,
    InvalidArgumentError,
    NotFoundError,
)
from .text.chat import ChatTemplate

Sampling = SamplingOptions

__all__ = [
    "Cache",
    "CacheFullError",
    "CancelledError",
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
    "SamplingOptions",
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
    globals()[_name].__module__ = __package__
