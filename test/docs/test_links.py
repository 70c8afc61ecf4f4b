# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Links between the repository's pages lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2]
FOLDERS = ("bench", "catalogue", "dialects", "docs", "examples", "lib", "python", "test", "tools")
PAGES = sorted([*SOURCE.glob("*.md"), *(page for folder in FOLDERS for page in (SOURCE / folder).rglob("*.md"))])
PAGES = [page for page in PAGES if "EndToEnd/models" not in str(page) and "docs/reference" not in str(page)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(SOURCE)))
def test_links(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    targets = [target.split("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text)]
    broken = [
        target for target in targets if target and not re.match(r"\w+:", target) and not (page.parent / target).exists()
    ]
    assert not broken
