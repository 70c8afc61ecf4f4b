# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The guides for contributors and for programs in C: what they quote is in the tree, what they name exists, their commands run.

In quoted code ``…`` stands for text that is left out; white space counts as one blank.
"""

from __future__ import annotations

import re

import pytest
from pages import SOURCE, Quotation, read_page, run_page

GUIDES = ("adding-an-op", "adding-a-fusion", "adding-a-block-format", "adding-a-target", "c-programs")
LONGEST = 150


def is_quoted(block: str, text: str) -> bool:
    """Find the parts of a block in a text, one after another."""
    words, begin = " ".join(text.split()), 0
    for part in block.split("…"):
        part = " ".join(part.split())
        begin = words.find(part, begin)
        if begin < 0:
            return False
        begin += len(part)
    return True


def text_of(guide: str) -> str:
    return (SOURCE / "docs" / f"{guide}.md").read_text()


def test_quoting():
    assert is_quoted("int  a;\n…\nint c;", "int a;\nint b;\nint c;")
    assert is_quoted("f(…, c)", "f(a, b, c)")
    assert not is_quoted("int c;\n…\nint a;", "int a; int b; int c;")
    assert not is_quoted("int d;", "int a;")


@pytest.mark.parametrize("guide", GUIDES)
def test_quotations(guide):
    quotations = [step for step in read_page(text_of(guide)) if isinstance(step, Quotation)]
    assert len(quotations) >= 3
    for quotation in quotations:
        text = (SOURCE / quotation.name).read_text()
        assert is_quoted(quotation.text, text), f"docs/{guide}.md:{quotation.line}: not in {quotation.name}"


@pytest.mark.parametrize("guide", GUIDES)
def test_files_exist(guide):
    """Paths in code spans, with one * or one {list} of names too."""
    spans = re.findall(r"`([\w./*{},-]+/[\w./*{},-]*)`", text_of(guide))
    assert len(spans) > 5
    missing = []
    for span in spans:
        names = re.search(r"\{(.*)\}", span)
        for name in names[1].split(",") if names else [""]:
            path = span.replace(names[0], name) if names else span
            if not any(SOURCE.glob(path)):
                missing.append(path)
    assert not missing


def virtual_functions(header: str, name: str) -> list[str]:
    """Return the virtual functions of a class."""
    body = re.search(rf"^class {name} \{{(.*?)^\}};", (SOURCE / header).read_text(), re.MULTILINE | re.DOTALL)
    return re.findall(r"^  virtual [^;{]*?\b(\w+)\(", re.sub(r"virtual\s[^;{]*~\w+\(.*", "", body[1]), re.MULTILINE)


@pytest.mark.parametrize(
    ("header", "name", "some"),
    [
        ("include/intarsia/Target/Target.h", "Target", "holdsNorm"),
        ("include/intarsia/Target/Target.h", "KernelCompiler", "compileKernels"),
        ("lib/Runtime/Core/Device.h", "Device", "dispatch"),
    ],
)
def test_what_a_target_answers(header, name, some):
    """The guide of targets names every function that a new one has to write."""
    functions = virtual_functions(header, name)
    assert some in functions
    text = text_of("adding-a-target")
    assert [function for function in functions if f"`{function}`" not in text] == []


@pytest.mark.parametrize("guide", GUIDES)
def test_length(guide):
    assert len(text_of(guide).splitlines()) <= LONGEST


@pytest.mark.parametrize("guide", GUIDES)
def test_commands(build_dir, guide):
    run_page(guide, build_dir)
