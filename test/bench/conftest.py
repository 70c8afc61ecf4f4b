# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The programs of bench/ are modules of one folder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))


@pytest.fixture
def small_config() -> dict[str, Any]:
    """Give the model of the measurements in a size that compiles at once."""
    from harness.llama import BILLION

    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4}
    return BILLION | sizes | {"num_key_value_heads": 2, "vocab_size": 100, "max_position_embeddings": 64}
