# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""IR that is nested deeper than the stack of a parser allows is refused by a message."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLS = pathlib.Path(os.environ.get("INTARSIA_BUILD_DIR", ROOT / "build" / "dev")) / "bin"
DEPTH = 200_000


def aliases(depth: int) -> str:
    """Return a type that is deep by names which stand for each other."""
    chain = "".join(f"!a{i} = tuple<!a{i - 1}>\n" for i in range(1, depth))
    return f"!a0 = tuple<i1>\n{chain}func.func private @f(!a{depth - 1})\n"


# By what is nested; the position is that of the first level that is too deep.
NESTED = {
    "arrays": ("module attributes {x.a = " + "[" * DEPTH + "]" * DEPTH + "} {}", "1:281"),
    "tuples": ("func.func private @f(" + "tuple<" * DEPTH + "i1" + ">" * DEPTH + ")", "1:1557"),
    "call sites": ("module {} loc(" + "callsite(" * DEPTH, "1:2318"),
    "fused locations": ("module {} loc(" + "fused[" * DEPTH, "1:1550"),
    "parentheses": ("#m = affine_map<(d0) -> (" + "(" * DEPTH + "d0" + ")" * DEPTH + ")>", "1:280"),
    "signs": ("#m = affine_map<(d0) -> (" + "-" * DEPTH + "d0)>", "1:280"),
    "sums": ("#m = affine_map<(d0) -> (" + "d0 * 3 + " * DEPTH + "d0)>", "1:1172"),
    "modules": ("module {\n" * 20_000 + "}" * 20_000, "257:8"),
    "names": (aliases(DEPTH), "257:15"),
    "what seems to be a comment": ("module attributes {x.a = #x.y<// > , x.b = " + "[" * DEPTH, "1:298"),
}


def run(tool: str, source: pathlib.Path, tmp_path: pathlib.Path) -> subprocess.CompletedProcess[str]:
    """Let a tool read a file."""
    command = [TOOLS / tool, source, "-o", tmp_path / "out.itx"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("tool", ["intarsia-opt", "intarsia-compile", "intarsia-plan"])
@pytest.mark.parametrize("what", NESTED)
def test_deep_text(what: str, tool: str, tmp_path: pathlib.Path) -> None:
    """Each tool says where the file is too deep, and how deep it may be."""
    text, position = NESTED[what]
    source = tmp_path / "deep.mlir"
    source.write_text(text)
    done = run(tool, source, tmp_path)
    assert done.returncode == 1, done.stderr[-1000:]
    assert f"deep.mlir:{position}: nested deeper than 256 levels" in done.stderr
    assert len(done.stderr) < 1000


def test_deep_standard_input() -> None:
    """Standard input, which is read once, gives the message without a position."""
    for tool in ("intarsia-opt", "intarsia-plan"):
        text = NESTED["modules"][0]
        done = subprocess.run([TOOLS / tool, "-"], input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 1, done.stderr[-1000:]
        assert "nested deeper than 256 levels" in done.stderr


def test_allowed_depth(tmp_path: pathlib.Path) -> None:
    """At the limit everything works."""
    source = tmp_path / "deep.mlir"
    source.write_text("module {" * 256 + "}" * 256)
    done = subprocess.run([TOOLS / "intarsia-opt", source], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("module {") == 256


@pytest.mark.parametrize(
    ("what", "levels"),
    [
        ("modules", 2_000),
        ("modules", 7_000),  # mlir-opt takes apart what it has written in quadratic time: 12 s for 20,000
        ("arrays", 2_000),
        ("arrays", 20_000),
        ("structs", 2_000),
        ("structs", 20_000),
    ],
)
def test_deep_bytecode(what: str, levels: int, tmp_path: pathlib.Path) -> None:
    """Also where the parser survives, and what comes after it would not."""
    writer = shutil.which("mlir-opt-22")
    if not writer:
        pytest.skip("mlir-opt-22, which writes the bytecode, is not installed")
    text = {
        "modules": "module {" * levels + "}" * levels,
        "arrays": "module attributes {x.a = " + "[" * levels + "]" * levels + "} {}",
        "structs": "func.func private @f(!llvm." + "struct<(" * levels + "i1" + ")>" * levels + ")",
    }[what]
    source, binary = tmp_path / "deep.mlir", tmp_path / "deep.mlirbc"
    source.write_text(text)
    command = f"ulimit -s unlimited; {writer} --allow-unregistered-dialect {source} --emit-bytecode -o {binary}"
    subprocess.run(["bash", "-c", command], check=True)
    for tool in ("intarsia-compile", "intarsia-plan"):
        done = run(tool, binary, tmp_path)
        assert done.returncode == 1, done.stderr[-1000:]
        if (what, tool) != ("structs", "intarsia-plan"):  # which knows no dialect of LLVM
            assert "deep.mlirbc: nested deeper than 256 levels" in done.stderr


def test_deep_document_in_an_editor() -> None:
    """The language server ends with a message, which an editor shows in its log."""
    messages = [
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"capabilities": {}, "rootPath": "/"}},
        {
            "jsonrpc": "2.0",
            "method": "textDocument/didOpen",
            "params": {
                "textDocument": {
                    "uri": "file:///deep.mlir",
                    "languageId": "mlir",
                    "version": 1,
                    "text": NESTED["tuples"][0],
                }
            },
        },
    ]
    text = "".join(f"Content-Length: {len(body)}\r\n\r\n{body}" for body in map(json.dumps, messages))
    server = [TOOLS / "intarsia-lsp-server"]
    done = subprocess.run(server, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr[-1000:]
    assert "a document: nested deeper than 256 levels" in done.stderr
