# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A small language model that decodes several tokens in one call: loops that carry caches.

The same forward step is a function of its own, which is called once for each token, and is written down in NumPy.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import intarsia
import numpy as np
import pytest
from programs import build

VOCABULARY, FEATURES, HEADS, HEAD_DIM, PAGE, PAGES = 48, 32, 2, 32, 32, 7

ID, IDS, TABLE = "tensor<1xi64>", "tensor<?xi64>", "tensor<?x?xi64>"
ROW, LOGITS = f"tensor<1x{FEATURES}xf32>", f"tensor<1x{VOCABULARY}xf32>"
QUERY, KEY = f"tensor<1x{HEADS}x{HEAD_DIM}xf32>", f"tensor<1x1x{HEAD_DIM}xf32>"
WEIGHTS = {
    "table": (VOCABULARY, FEATURES),
    "wq": (HEADS * HEAD_DIM, FEATURES),
    "wk": (HEAD_DIM, FEATURES),
    "wv": (HEAD_DIM, FEATURES),
    "wo": (FEATURES, HEADS * HEAD_DIM),
    "head": (VOCABULARY, FEATURES),
}


def weight_type(name: str) -> str:
    return f"tensor<{WEIGHTS[name][0]}x{WEIGHTS[name][1]}xf32>"


class Caches:
    """The IR of a cache of keys and one of values, of floats or of quantized elements."""

    def __init__(self, element: str, is_open: bool = False) -> None:
        self.is_quantized = element.startswith("ui")
        self.keys, self.values = f"<keys, {element}, page = {PAGE}, transposed>", f"<values, {element}, page = {PAGE}>"
        if is_open:
            self.keys, self.values = f"<keys, {element}>", f"<values, {element}>"
            self.types = dict.fromkeys(("k", "v"), f"tensor<?x1x?x{HEAD_DIM}x{element}>")
        elif self.is_quantized:
            bits = int(element[2:])
            self.types = {
                "k": f"tensor<?x1x{HEAD_DIM}x{PAGE * bits // 8}xi8>",
                "kp": f"tensor<?x1x2x{HEAD_DIM}xi8>",
                "kt": f"tensor<?x1x{HEAD_DIM}x{PAGE}xf16>",
                "v": f"tensor<?x1x{PAGE}x{HEAD_DIM * bits // 8}xi8>",
                "vp": f"tensor<?x1x2x{PAGE}xi8>",
            }
        else:
            self.types = {
                "k": f"tensor<?x1x{HEAD_DIM}x{PAGE}x{element}>",
                "v": f"tensor<?x1x{PAGE}x{HEAD_DIM}x{element}>",
            }

    def list_types(self) -> str:
        return ", ".join(self.types.values())

    def arguments(self) -> str:
        return ", ".join(
            f'%in_{name}: {type} {{nn.name = "{name}", nn.sizes = '
            f'["{"sequences" if name == "kt" else "pages"}", "", "", ""], nn.state}}'
            for name, type in self.types.items()
        )

    def results(self, first: int) -> str:
        return ", ".join(f"{type} {{nn.state = {first + i} : i64}}" for i, type in enumerate(self.types.values()))

    def update(self) -> str:
        """Give the ops from the states %k0, … to the states %k1, … and the attention %a3."""
        k, v = self.types["k"], self.types["v"]
        indices = f"{ID}, {ID}, {TABLE}"
        if not self.is_quantized:
            return f"""
            %k1 = nn.cache_append(%k0) {self.keys}, %k3, %pos, %sequence, %t : ({k}, {KEY}, {indices}) -> {k} loc("cache.k")
            %v1 = nn.cache_append(%v0) {self.values}, %v3, %pos, %sequence, %t : ({v}, {KEY}, {indices}) -> {v} loc("cache.v")
            %a3 = nn.cached_attention %q3, (%k1) {self.keys}, (%v1) {self.values}, %pos, %sequence, %t
                {{scale = 0.25 : f32}} : ({QUERY}, {k}, {v}, {indices}) -> {QUERY} loc("cache.a")"""
        kp, kt, vp = (self.types[name] for name in ("kp", "kt", "vp"))
        return f"""
            %k1, %kp1 = nn.cache_append(%k0, %kp0, %kt0) {self.keys}, %k3, %pos, %sequence, %t
                : ({k}, {kp}, {kt}, {KEY}, {indices}) -> ({k}, {kp}) loc("cache.k")
            %v1, %vp1 = nn.cache_append(%v0, %vp0) {self.values}, %v3, %pos, %sequence, %t
                : ({v}, {vp}, {KEY}, {indices}) -> ({v}, {vp}) loc("cache.v")
            %a3 = nn.cached_attention %q3, (%k1, %kp1, %kt0) {self.keys}, (%v1, %vp1) {self.values}, %pos, %sequence, %t
                rows %k3 {{scale = 0.25 : f32}} : ({QUERY}, {k}, {kp}, {kt}, {v}, {vp}, {indices}, {KEY}) -> {QUERY} loc("cache.a")
            %kt1 = nn.cache_append(%kt0) {self.keys}, %k3, %pos, %sequence {{tail}}
                : ({kt}, {KEY}, {ID}, {ID}) -> {kt} loc("cache.t")"""


def forward(caches: Caches) -> str:
    """Give the ops from the token %tok at %pos to the most likely next one, %next: the first of equal ones."""
    linears = "\n".join(
        f"%{name} = nn.linear %e, %w{name} : ({ROW}, {weight_type('w' + name)}) -> tensor<1x{size}xf32>\n"
        f"%{name}3 = tensor.expand_shape %{name} [[0], [1, 2]] output_shape [1, {heads}, {HEAD_DIM}]"
        f" : tensor<1x{size}xf32> into tensor<1x{heads}x{HEAD_DIM}xf32>"
        for name, heads, size in (("q", HEADS, HEADS * HEAD_DIM), ("k", 1, HEAD_DIM), ("v", 1, HEAD_DIM))
    )
    flat = f"tensor<1x{HEADS * HEAD_DIM}xf32>"
    reduce = (
        "indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, {}affine_map<(d0, d1) -> (d0)>], "
        'iterator_types = ["parallel", "reduction"]'
    )
    return f"""
        %e = nn.embedding %table, %tok : ({weight_type("table")}, {ID}) -> {ROW}
        {linears}
        {caches.update()}
        %a = tensor.collapse_shape %a3 [[0], [1, 2]] : {QUERY} into {flat}
        %o = nn.linear %a, %wo : ({flat}, {weight_type("wo")}) -> {ROW}
        %h = arith.addf %o, %e : {ROW}
        %logits = nn.linear %h, %head : ({ROW}, {weight_type("head")}) -> {LOGITS}
        %lowest = arith.constant 0xFF800000 : f32
        %end = arith.constant {VOCABULARY} : i64
        %fe = tensor.empty() : tensor<1xf32>
        %fi = linalg.fill ins(%lowest : f32) outs(%fe : tensor<1xf32>) -> tensor<1xf32>
        %best = linalg.generic {{{reduce.format("")}}} ins(%logits : {LOGITS}) outs(%fi : tensor<1xf32>) {{
          ^bb0(%x: f32, %m: f32):
            %l = arith.maximumf %x, %m : f32
            linalg.yield %l : f32
        }} -> tensor<1xf32>
        %ie = tensor.empty() : {ID}
        %ii = linalg.fill ins(%end : i64) outs(%ie : {ID}) -> {ID}
        %next = linalg.generic {{{reduce.format("affine_map<(d0, d1) -> (d0)>, ")}}}
            ins(%logits, %best : {LOGITS}, tensor<1xf32>) outs(%ii : {ID}) {{
          ^bb0(%x: f32, %m: f32, %i: i64):
            %j = linalg.index 1 : index
            %j64 = arith.index_cast %j : index to i64
            %isBest = arith.cmpf oeq, %x, %m : f32
            %one_j = arith.select %isBest, %j64, %end : i64
            %l = arith.minsi %one_j, %i : i64
            linalg.yield %l : i64
        }} -> {ID}"""


def parameters() -> str:
    return ", ".join(f'%{name}: {weight_type(name)} {{nn.name = "{name}"}}' for name in WEIGHTS)


def step_function(caches: Caches) -> str:
    body = forward(caches)
    for name in caches.types:
        body = body.replace(f"%{name}0", f"%in_{name}")
    return f"""func.func @step(%tok: {ID} {{nn.name = "token"}}, %pos: {ID} {{nn.name = "position"}},
        %sequence: {ID} {{nn.name = "sequence"}}, %t: {TABLE} {{nn.name = "t", nn.sizes = ["sequences", "entries"]}},
        {parameters()}, {caches.arguments()}) -> ({ID}, {caches.results(10)}) {{
      {body}
      return %next, {", ".join(f"%{name}1" for name in caches.types)} : {ID}, {caches.list_types()}
    }}"""


WHILE = """
    %r:COUNT = scf.while (CARRIED_FROM) : (TYPES) -> (TYPES) {
      %done = tensor.extract %count[%c0] : ID
      %at = arith.index_cast %done : i64 to index
      %isLeft = arith.cmpi slt, %at, %size : index
      %token = tensor.extract %tok[%c0] : ID
      %last = tensor.extract %stop[%c0] : ID
      %goesOn = arith.cmpi ne, %token, %last : i64
      %more = arith.andi %isLeft, %goesOn : i1
      scf.condition(%more) CARRIED : TYPES
    } do {
    ^bb0(ARGUMENTS):
      FORWARD
      NEXT
      scf.yield YIELDED : TYPES
    }"""

# Every iteration decides by itself whether the states are updated.
FOR = """
    %r:COUNT = scf.for %iteration = %c0 to %size step %c1 iter_args(CARRIED_FROM) -> (TYPES) {
      %token = tensor.extract %tok[%c0] : ID
      %last = tensor.extract %stop[%c0] : ID
      %goesOn = arith.cmpi ne, %token, %last : i64
      %b:COUNT = scf.if %goesOn -> (TYPES) {
        FORWARD
        NEXT
        scf.yield YIELDED : TYPES
      } else {
        scf.yield CARRIED : TYPES
      }
      scf.yield BRANCHED : TYPES
    }"""

NEXT = f"""
      %oe = tensor.empty(%size) : {IDS}
      %out1 = linalg.generic {{indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (0)>, affine_map<(d0) -> (0)>,
                                                affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}}
          ins(%out, %count, %next : {IDS}, {ID}, {ID}) outs(%oe : {IDS}) {{
        ^bb0(%x: i64, %n: i64, %new: i64, %old: i64):
          %j = linalg.index 0 : index
          %j64 = arith.index_cast %j : index to i64
          %isHere = arith.cmpi eq, %j64, %n : i64
          %y = arith.select %isHere, %new, %x : i64
          linalg.yield %y : i64
      }} -> {IDS}
      %pos1 = arith.addi %pos, %one : {ID}
      %count1 = arith.addi %count, %one : {ID}"""


def decode_function(caches: Caches, loop: str) -> str:
    carried = {"tok": ID, "pos": ID, "count": ID, "out": IDS} | {f"{name}0": t for name, t in caches.types.items()}
    first = {"tok": "%first", "pos": "%start", "count": "%none", "out": "%space"}
    first |= {f"{name}0": f"%in_{name}" for name in caches.types}
    following = ["%next", "%pos1", "%count1", "%out1"] + [f"%{name}1" for name in caches.types]
    parts = {
        "CARRIED_FROM": ", ".join(f"%{name} = {first[name]}" for name in carried),
        "ARGUMENTS": ", ".join(f"%{name}: {type}" for name, type in carried.items()),
        "CARRIED": ", ".join(f"%{name}" for name in carried),
        "YIELDED": ", ".join(following),
        "BRANCHED": ", ".join(f"%b#{i}" for i in range(len(carried))),
        "TYPES": ", ".join(carried.values()),
        "COUNT": str(len(carried)),
        "FORWARD": forward(caches),
        "NEXT": NEXT,
        "ID": ID,
    }
    for word, text in parts.items():
        loop = loop.replace(word, text)
    states = ", ".join(f"%r#{4 + i}" for i in range(len(caches.types)))
    return f"""func.func @decode(%first: {ID} {{nn.name = "first"}}, %start: {ID} {{nn.name = "start"}},
        %sequence: {ID} {{nn.name = "sequence"}}, %t: {TABLE} {{nn.name = "t", nn.sizes = ["sequences", "entries"]}},
        {parameters()}, {caches.arguments()}, %space: {IDS} {{nn.name = "space", nn.sizes = ["n"]}},
        %stop: {ID} {{nn.name = "stop"}})
        -> ({IDS} {{nn.name = "tokens"}}, {ID} {{nn.name = "count"}}, {caches.results(10)}) {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %none = arith.constant dense<0> : {ID}
      %one = arith.constant dense<1> : {ID}
      %size = tensor.dim %space, %c0 : {IDS}
      {loop}
      return %r#3, %r#2, {states} : {IDS}, {ID}, {caches.list_types()}
    }}"""


def program(element: str, loop: str = WHILE, is_open: bool = False) -> str:
    caches = Caches(element, is_open)
    return step_function(caches) + "\n" + decode_function(caches, loop)


RANDOM = np.random.default_rng(11)
VALUES = {name: (RANDOM.standard_normal(shape) * 0.4).astype(np.float32) for name, shape in WEIGHTS.items()}
PAGE_TABLE = np.array([[6, 0, 3], [2, 5, 1]])


def expected(first: int, count: int, stop: int) -> list[int]:
    """Give the tokens that follow a first one, in float64, and check that none is chosen by a rounding error."""
    table, wq, wk, wv, wo, head = (VALUES[name].astype(np.float64) for name in WEIGHTS)
    keys, values, tokens, token = [], [], [], first
    while len(tokens) < count and token != stop:
        e = table[token]
        keys.append(wk @ e)
        values.append(wv @ e)
        scores = (wq @ e).reshape(HEADS, HEAD_DIM) @ np.stack(keys).T * 0.25
        weights = np.exp(scores - scores.max(1, keepdims=True))
        attended = (weights / weights.sum(1, keepdims=True)) @ np.stack(values)
        logits = head @ (wo @ attended.reshape(-1) + e)
        second, best = np.sort(logits)[-2:]
        assert best - second > 1e-4
        token = int(np.argmax(logits))
        tokens.append(token)
    return tokens


def new_state(function) -> dict[str, np.ndarray]:
    """Give states in which nothing may be read before it is written: floats are NaN, quantized values random."""
    state = intarsia.make_state(function, pages=PAGES, sequences=2)
    for name, array in state.items():
        if array.dtype == np.int8:
            array[...] = np.random.default_rng(len(name)).integers(-128, 128, array.shape)
        else:
            array[...] = np.nan
    return state


def decode(module, first: int, count: int, stop: int = -1, start: int = 0, state: dict | None = None):
    state = new_state(module.decode) if state is None else state
    tokens, done = module.decode(
        first=np.array([first]),
        start=np.array([start]),
        sequence=np.array([1]),
        t=PAGE_TABLE,
        space=np.full(count, -7),
        stop=np.array([stop]),
        **VALUES,
        **state,
    )
    assert (tokens[done[0] :] == -7).all()
    return tokens[: done[0]].tolist(), state


def step_by_step(module, first: int, count: int, stop: int = -1):
    state, tokens, token = new_state(module.step), [], first
    while len(tokens) < count and token != stop:
        [token] = module.step(
            token=np.array([token]),
            position=np.array([len(tokens)]),
            sequence=np.array([1]),
            t=PAGE_TABLE,
            **VALUES,
            **state,
        )
        tokens.append(int(token))
    return tokens, state


def bytes_of(state: dict[str, np.ndarray]) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in state.items()}


@pytest.mark.parametrize("loop", [WHILE, FOR], ids=["while", "for-if"])
@pytest.mark.parametrize("element", ["f32", "f16", "ui8", "ui4"])
def test_greedy_decoding(tools, tmp_path, element, loop):
    """Caches are updated where they are, beyond the end of a page, until the space is full."""
    module = build(tools, tmp_path, program(element, loop))
    for first, count in ((36, 1), (30, 70), (15, 96)):
        tokens, state = decode(module, first, count)
        singly, other = step_by_step(module, first, count)
        assert tokens == singly
        assert bytes_of(state) == bytes_of(other)
        if element == "f32":
            assert tokens == expected(first, count, -1)


@pytest.mark.parametrize("loop", [WHILE, FOR], ids=["while", "for-if"])
def test_stop_token(tools, tmp_path, loop):
    module = build(tools, tmp_path, program("f32", loop))
    tokens = expected(30, 70, -1)
    stop = max(tokens, key=tokens.index)
    assert tokens.index(stop) > PAGE
    assert decode(module, 30, 96, stop)[0] == tokens[: tokens.index(stop) + 1] == expected(30, 96, stop)
    tokens, state = decode(module, stop, 96, stop)
    assert tokens == []
    assert bytes_of(state) == bytes_of(new_state(module.decode))


def test_goes_on_in_a_second_call(tools, tmp_path):
    module = build(tools, tmp_path, program("f32"))
    tokens, state = decode(module, 30, 40)
    more, _ = decode(module, tokens[-1], 30, start=40, state=state)
    assert tokens + more == expected(30, 70, -1)


def test_layout_that_the_target_decides(tools, tmp_path):
    """Importers leave pages and their order open; loops pass on what the partition phase makes of them."""
    module = build(tools, tmp_path, program("f32", WHILE, is_open=True))
    assert decode(module, 30, 40)[0] == expected(30, 40, -1)


def test_places(tools, tmp_path):
    """Caches are on a device with a memory of its own, everything else on the CPU."""
    (tmp_path / "m.mlir").write_text(program("f32"))
    places = ["--target=cpu,reference", "--place=cache*=@reference"]
    tools.compile(tmp_path / "m.mlir", *places, "-o", tmp_path / "m.itx")
    module = intarsia.load(tmp_path / "m.itx")
    tokens, state = decode(module, 30, 70)
    assert tokens == expected(30, 70, -1)
    assert bytes_of(state) == bytes_of(step_by_step(module, 30, 70)[1])


def run(artifact: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Decode 40 tokens in a process of its own, and print them."""
    code = f"import intarsia, test_decoding_loops as t; print(t.decode(intarsia.load({str(artifact)!r}), 30, 40)[0])"
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=os.environ | environment | {"PYTHONPATH": path},
    )


@pytest.fixture(scope="module")
def on_reference(tools, tmp_path_factory):
    folder = tmp_path_factory.mktemp("decoding")
    (folder / "m.mlir").write_text(program("f32"))
    tools.compile(folder / "m.mlir", "--target=reference", "-o", folder / "m.itx")
    return folder / "m.itx"


def test_device_with_delays(on_reference):
    done = run(on_reference, {"ITX_REFERENCE_DELAY_MICROSECONDS": "200", "ITX_REFERENCE_SEED": "3"})
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(expected(30, 40, -1))


@pytest.mark.parametrize("piece", [1, 40, 101, 102, 103, 104, 105, 106, 107, 108])
def test_device_that_fails_in_the_loop(on_reference, piece):
    done = run(on_reference, {"ITX_REFERENCE_FAIL": f"lost:{piece}"})
    assert done.returncode == 1
    assert "the reference device is lost" in done.stderr


def test_positions_beyond_the_pages(tools, tmp_path):
    """The check comes before the kernels that would write elsewhere, in the iteration that would."""
    module = build(tools, tmp_path, program("f32"))
    state = new_state(module.decode)
    before = {name: array.copy() for name, array in state.items()}
    others = [page for page in range(PAGES) if page not in PAGE_TABLE[1]]
    for start, count, position in ((0, 97, 96), (90, 7, 96), (96, 1, 96), (-1, 1, -1), (2**62, 3, 2**62)):
        message = rf"the computed positions is {position}, must be in \[0, 96\), below entries \* 32: 'nn.cache_append'"
        with pytest.raises(intarsia.InvalidArgumentError, match=message):
            decode(module, 15, count, start=start, state=state)
        for name, array in state.items():
            assert np.array_equal(array[others], before[name][others], equal_nan=True)
    assert decode(module, 15, 96, state=new_state(module.decode))[0] == expected(15, 96, -1)


def test_indices_of_the_call(tools, tmp_path):
    """What is the same in all iterations is checked before the first one."""
    module = build(tools, tmp_path, program("f32"))
    inputs = {
        "first": np.array([30]),
        "start": np.array([0]),
        "sequence": np.array([1]),
        "t": PAGE_TABLE,
        "space": np.zeros(3, np.int64),
        "stop": np.array([-1]),
    }
    for name, wrong, message in (
        ("first", np.array([VOCABULARY]), f"input 'first' is {VOCABULARY} at"),
        ("sequence", np.array([2]), "input 'sequence' is 2 at"),
        ("t", np.array([[0, 1, 2], [3, PAGES, 4]]), f"input 't' is {PAGES} at"),
    ):
        with pytest.raises(intarsia.InvalidArgumentError, match=message):
            module.decode(**(inputs | {name: wrong}), **VALUES, **new_state(module.decode))


@pytest.mark.parametrize(
    ("old", "new", "flags", "message"),
    [
        (
            "%out1, %k1, %v1",
            "%out1, %v1, %k1",
            [],
            "begins with the state 'k' and goes on with the state 'v' as value 4",
        ),
        ("%out1, %k1, %v1", "%out1, %k0, %v1", [], "'scf.while' updates the state 'k' and does not carry it"),
        ("", "", ["--kv=int8"], "the cache 'k' is used in control flow"),
    ],
)
def test_refused(tools, tmp_path, old, new, flags, message):
    text = program("f32", WHILE, is_open=bool(flags))
    assert old in text
    (tmp_path / "m.mlir").write_text(text.replace(old, new) if old else text)
    done = tools.run("intarsia-compile", tmp_path / "m.mlir", "-o", tmp_path / "m.itx", *flags, check=False)
    assert done.returncode == 1
    assert message in done.stderr
    assert not (tmp_path / "m.itx").exists()
