# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The reference of nn.conv against its formula, in NumPy and double precision."""

from __future__ import annotations

import numpy as np
import pytest
from random_numbers import normal
from reference import nearest
from windows import Conv

CONVS = {
    "1d": Conv((9,), (3,)),
    "1d_all": Conv((11,), (3,), strides=(2,), dilations=(2,), low=(1,), high=(3,)),
    "2d": Conv((5, 6), (3, 2)),
    "pads": Conv((5, 6), (3, 3), low=(1, 0), high=(2, 1)),
    "strides": Conv((7, 8), (3, 3), strides=(2, 3), low=(1, 1), high=(1, 1)),
    "dilations": Conv((9, 9), (3, 3), dilations=(2, 3), low=(2, 3), high=(2, 3)),
    "groups": Conv((4, 5), (3, 3), channels=(6, 4), groups=2, low=(1, 1), high=(1, 1)),
    "depthwise": Conv((6, 5), (3, 3), channels=(4, 4), groups=4, strides=(2, 1)),
    "multiplier": Conv((4, 4), (2, 2), channels=(3, 6), groups=3),
    "3d": Conv((4, 5, 3), (2, 3, 2), strides=(1, 2, 1), low=(0, 1, 1), high=(1, 1, 0)),
    "point": Conv((1, 1), (1, 1)),
    "window_in_pads": Conv((1, 1), (3, 3), low=(3, 3), high=(3, 3)),
    "transposed": Conv((3, 4), (3, 2), transposed=True),
    "transposed_strides": Conv((3, 4), (3, 3), strides=(2, 3), transposed=True, low=(1, 1), high=(1, 0)),
    "transposed_all": Conv(
        (3, 2), (3, 2), channels=(4, 6), groups=2, strides=(3, 2), dilations=(2, 3), low=(1, 0), high=(0, 2),
        transposed=True, output_pads=(2, 1),
    ),
    "transposed_1d": Conv((5,), (4,), strides=(2,), low=(1,), high=(1,), transposed=True),
}  # fmt: skip


@pytest.mark.parametrize("bias", [False, True], ids=["", "bias"])
@pytest.mark.parametrize("name", CONVS)
def test_conv(evaluate, name: str, bias: bool) -> None:
    conv = CONVS[name]
    x = normal(2, *conv.size, conv.channels[0])
    w = normal(conv.channels[1], int(np.prod(conv.window)) * conv.channels[0] // conv.groups)
    arrays = [x, w] + ([normal(conv.channels[1])] if bias else [])
    text = "nn.conv " + ", ".join(f"{{{i}}}" for i in range(len(arrays))) + f" {{{conv.attributes()}}} : {{types}}"
    nearest(evaluate(text, arrays, (2, *conv.result, conv.channels[1])), conv.compute(*arrays))
