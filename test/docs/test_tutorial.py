# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs docs/tutorial.md, docs/generate.md and docs/wafer-product.md."""

from __future__ import annotations

import pytest
from pages import SOURCE, matches, read_page, run_page

PAGES = ("tutorial", "generate", "wafer-product")


def test_matching():
    assert matches(["a  b", "..."], "a b\nc d")
    assert matches([], "anything")
    assert not matches(["a"], "a b")
    assert matches(["x = ... ms"], "x = 3.25 ms")


@pytest.mark.parametrize("page", PAGES)
def test_page(build_dir, page):
    assert len(read_page((SOURCE / "docs" / f"{page}.md").read_text())) >= 10
    run_page(page, build_dir)
