# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Load and call models that Intarsia has compiled, and compile them.

>>> import intarsia
>>> module = intarsia.compile("path/of/a/model", output="model.itx")
>>> result = module.main(input_ids=[[101, 7592, 102]])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._public import *  # noqa: F403
    from ._public import __all__ as __all__

    __version__: str
else:  # type checkers read the names above, and refuse others

    def __getattr__(name: str) -> Any:
        """Import the public names when the first of them is used: the command line answers without them."""
        if name == "__version__":
            from ._runtime import version

            return version().split()[0]
        if name.startswith("_") and name != "__all__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from . import _public

        globals().update({each: getattr(_public, each) for each in _public.__all__}, __all__=_public.__all__)
        if name not in globals():
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return globals()[name]


def __dir__() -> list[str]:
    from . import _public

    return sorted({*globals(), *_public.__all__, "__version__"})
