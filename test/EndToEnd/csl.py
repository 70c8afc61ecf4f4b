# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An interpreter of the part of CSL that intarsia-wafer writes, on a rectangle of cores.

The cores take turns in a random order, so that nothing depends on how fast they are. Whatever it does not know is an error.
"""

from __future__ import annotations

import itertools
import math
import random
import re
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from csl_parser import WORDS, CslError, Node, Parser

MATH = {
    "sqrt_f32": math.sqrt,
    "exp_f32": lambda x: math.exp(x) if x > -700 else 0.0,
    "tanh_f32": math.tanh,
    "sin_f32": math.sin,
    "cos_f32": math.cos,
    "abs_f32": abs,
    "max_f32": max,
}


class Pointer:
    """The memory of an array from an element on."""

    def __init__(self, array: np.ndarray, at: int = 0) -> None:
        self.array, self.at = array, at


class Dsd:
    """Elements of an array, or words of the fabric."""

    def __init__(self, kind: str, extent: int, **more: Any) -> None:
        self.kind, self.extent = kind, extent
        self.pointer: Pointer | None = more.get("pointer")
        self.stride: int = more.get("stride", 0)
        self.color, self.queue = more.get("color"), more.get("queue")

    def place(self, index: int) -> int:
        assert self.pointer is not None
        place = self.pointer.at + index * self.stride
        if not 0 <= place < self.pointer.array.size:
            raise CslError(f"element {place} of an array of {self.pointer.array.size}")
        return place


class Return(Exception):
    """The value of a function."""


OPERATIONS: dict[str, Callable[..., float]] = {
    **dict.fromkeys(["mov", "s2h", "h2s"], lambda a: a),
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "max": max,
    "mac": lambda a, b, c: a + b * c,
}
# The elements of the destination and of each source.
ELEMENTS = {"@fs2h": ("f16", "f32"), "@fh2s": ("f32", "f16"), "@fmachs": ("f32", "f32", "f16", "f16")}
ZEROS = {"f16": np.float16, "f32": np.float32, "i16": np.int16, "i32": np.int32}


class Interpreter:
    """Evaluate declarations; what is special of a core or a layout is in `builtin`."""

    def __init__(self, items: list[Node], parameters: dict[str, Any]) -> None:
        self.items = items
        self.globals: dict[str, Any] = {word: word for word in WORDS - {"true", "false"}}
        self.globals |= {"true": True, "false": False}
        self.functions = {item[1]: item for item in items if item[0] in ("fn", "task")}
        self.tasks = {item[1] for item in items if item[0] == "task"}
        wanted = {item[1] for item in items if item[0] == "param"}
        if wanted != set(parameters):
            raise CslError(f"parameters are {sorted(wanted)}, given are {sorted(parameters)}")
        self.globals |= parameters
        for item in items:
            if item[0] in ("const", "var"):
                self.globals[item[1]] = self.typed(item[2], self.value(item[3], [self.globals]))

    @staticmethod
    def typed(of: str | None, value: Any) -> Any:
        if of in ("f32", "f16"):
            return float(ZEROS[of](value))
        if of in ("i16", "i32"):
            if not isinstance(value, int) or not -(2 ** (int(of[1:]) - 1)) <= value < 2 ** (int(of[1:]) - 1):
                raise CslError(f"{value} is no {of}")
        elif of is not None and of.startswith("[*]"):
            if not isinstance(value, Pointer) or value.array.dtype != ZEROS[of[3:]]:
                raise CslError(f"{value} is no {of}")
        elif of in ("color", "input_queue", "output_queue", "local_task_id") and value[0] != of:
            raise CslError(f"{value} is no {of}")
        return value

    def run(self, statements: list[Node], scopes: list[dict[str, Any]]) -> None:
        scopes = [*scopes, {}]
        for statement in statements:
            kind = statement[0]
            if kind in ("const", "var"):
                scopes[-1][statement[1]] = self.typed(statement[2], self.value(statement[3], scopes))
            elif kind == "block":
                self.run(statement[1], scopes)
            elif kind == "if":
                self.run(statement[2] if self.value(statement[1], scopes) else statement[3], scopes)
            elif kind == "for":
                for index in self.value(statement[1], scopes):
                    self.run(statement[3], [*scopes, {statement[2]: index}])
            elif kind == "return":
                raise Return(self.value(statement[1], scopes))
            elif kind == "assign":
                self.assign(statement[1], statement[2], self.value(statement[3], scopes), scopes)
            else:
                self.value(statement[1], scopes)

    def assign(self, sign: str, target: Node, value: Any, scopes: list[dict[str, Any]]) -> None:
        if sign != "=":
            old = self.value(target, scopes)
            value = old + value if sign == "+=" else old - value
        if target[0] == "index":
            pointer = self.pointer(target[1], scopes)
            pointer.array[pointer.at + self.value(target[2], scopes)] = value
            return
        for scope in reversed(scopes):
            if target[1] in scope:
                scope[target[1]] = float(np.float32(value)) if isinstance(value, float) else value
                return
        raise CslError(f"{target[1]} is not declared")

    def pointer(self, node: Node, scopes: list[dict[str, Any]]) -> Pointer:
        value = self.value(node, scopes)
        return value if isinstance(value, Pointer) else Pointer(value)

    def value(self, node: Node, scopes: list[dict[str, Any]]) -> Any:
        return getattr(self, "on_" + node[0])(node, scopes)

    def on_value(self, node: Node, _: Any) -> Any:
        return node[1]

    on_type = on_value

    def on_name(self, node: Node, scopes: list[dict[str, Any]]) -> Any:
        for scope in reversed(scopes):
            if node[1] in scope:
                return scope[node[1]]
        if node[1] in self.functions:
            return self.functions[node[1]]
        raise CslError(f"{node[1]} is not declared")

    def on_array(self, node: Node, scopes: list[dict[str, Any]]) -> np.ndarray:
        count, element = re.fullmatch(r"\[(\d+)\](\w+)", node[1]).groups()
        values = np.array([self.value(one, scopes) for one in node[2]], ZEROS[element])
        if values.size != int(count):
            raise CslError(f"{values.size} values of an array of {count}")
        return values

    def on_struct(self, node: Node, scopes: list[dict[str, Any]]) -> Any:
        if node[2]:
            return [self.value(one, scopes) for one in node[2]]
        return {name: self.value(one, scopes) for name, one in node[1].items()}

    def on_access(self, node: Node, scopes: list[dict[str, Any]]) -> Dsd:
        extent, of = self.value(node[2], scopes), node[3]
        first, second = (self.value(of[2], [*scopes, {node[1]: index}]) for index in (0, 1))
        return Dsd("mem1d_dsd", extent, pointer=Pointer(self.value(of[1], scopes), first), stride=second - first)

    def on_negative(self, node: Node, scopes: list[dict[str, Any]]) -> Any:
        return -self.value(node[1], scopes)

    def on_address(self, node: Node, scopes: list[dict[str, Any]]) -> Pointer:
        return self.pointer(node[1], scopes)

    def on_index(self, node: Node, scopes: list[dict[str, Any]]) -> Any:
        pointer, index = self.pointer(node[1], scopes), self.value(node[2], scopes)
        if not 0 <= pointer.at + index < pointer.array.size:
            raise CslError(f"element {index} of an array of {pointer.array.size}")
        return pointer.array[pointer.at + index].item()

    def on_member(self, node: Node, scopes: list[dict[str, Any]]) -> Any:
        return self.value(node[1], scopes)[node[2]]

    def on_binary(self, node: Node, scopes: list[dict[str, Any]]) -> Any:
        sign, left = node[1], self.value(node[2], scopes)
        if sign in ("and", "or"):
            return self.value(node[3], scopes) if left == (sign == "and") else left
        right = self.value(node[3], scopes)
        if isinstance(left, float) != isinstance(right, float):
            raise CslError(f"{left} {sign} {right} mixes integers and floats")
        if sign == "/" and isinstance(left, int):
            return int(left / right)
        if sign == "%":
            return int(math.fmod(left, right))  # as in C, of the sign of the left
        simple: dict[str, Callable[[Any, Any], Any]] = {
            "+": lambda a, b: a + b,
            "-": lambda a, b: a - b,
            "*": lambda a, b: a * b,
            "/": lambda a, b: a / b,
            "==": lambda a, b: a == b,
            "!=": lambda a, b: a != b,
            "<": lambda a, b: a < b,
            ">": lambda a, b: a > b,
            "<=": lambda a, b: a <= b,
            ">=": lambda a, b: a >= b,
        }
        return simple[sign](left, right)

    def on_call(self, node: Node, scopes: list[dict[str, Any]]) -> Any:
        arguments = [self.value(one, scopes) for one in node[2]]
        if node[1][0] == "builtin":
            return self.builtin(node[1][1], arguments)
        called = self.value(node[1], scopes)
        if callable(called):
            return called(*arguments)
        return self.call(called[1], arguments)

    def call(self, name: str, arguments: list[Any]) -> Any:
        _, _, parameters, body = self.functions[name]
        try:
            self.run(body, [self.globals, dict(zip(parameters, arguments, strict=True))])
        except Return as result:
            return result.args[0]
        return None

    def builtin(self, name: str, arguments: list[Any]) -> Any:
        if name == "@get_color":
            return ("color", arguments[0])
        if name == "@range":
            return range(arguments[1])
        if name == "@as":
            of, value = arguments
            return self.typed(of, float(value) if of[0] == "f" else value)
        raise CslError(f"{name} is not known here")


class Core(Interpreter):
    """A core of the rectangle: tasks, and transfers that run beside them."""

    def __init__(self, items: list[Node], parameters: dict[str, Any], fabric: Fabric, place: tuple[int, int]) -> None:
        self.fabric, self.place = fabric, place
        self.bound: dict[tuple[str, int], str] = {}
        self.active: set[tuple[str, int]] = set()
        self.threads: list[tuple[Iterator[bool], Any, list[Dsd]]] = []
        self.inboxes: dict[int, deque] = {}
        self.symbols: dict[str, Any] = {}
        self.ends = 0
        super().__init__(items, parameters)
        for item in items:
            if item[0] == "comptime":
                self.run(item[1], [self.globals])

    def end(self) -> None:
        self.ends += 1

    def builtin(self, name: str, arguments: list[Any]) -> Any:
        if name.startswith("@f"):
            return self.operate(name, arguments)
        return getattr(self, "do" + name.replace("@", "_"), lambda *a: Interpreter.builtin(self, name, list(a)))(
            *arguments
        )

    def do_import_module(self, name: str, _: Any = None) -> dict[str, Any]:
        return {"<math>": MATH, "<memcpy/memcpy>": {"unblock_cmd_stream": self.end}}[name]

    def do_get_input_queue(self, number: int) -> tuple[str, int]:
        return self.numbered("input_queue", number, range(2, 8))

    def do_get_output_queue(self, number: int) -> tuple[str, int]:
        return self.numbered("output_queue", number, range(2, 6))

    def do_get_local_task_id(self, number: int) -> tuple[str, int]:
        return self.numbered("local_task_id", number, [*range(8, 21), 24, 25, 26])

    @staticmethod
    def numbered(kind: str, number: int, known: Any) -> tuple[str, int]:
        if number not in known:
            raise CslError(f"there is no {kind} {number}")
        return (kind, number)

    def do_is_arch(self, name: str) -> bool:
        return name == "wse3"

    def do_initialize_queue(self, queue: tuple[str, int], options: dict[str, Any]) -> None:
        self.queues = {**getattr(self, "queues", {}), queue: options["color"]}

    def do_export_symbol(self, value: Any, name: str | None = None) -> None:
        self.symbols[name or value[1]] = value

    def do_bind_local_task(self, task: Node, number: tuple[str, int]) -> None:
        if number in self.bound or task[1] not in self.tasks:
            raise CslError(f"{number} is bound twice, or to no task")
        if any(isinstance(one, tuple) and one == ("color", number[1]) for one in self.globals.values()):
            raise CslError(f"task {number[1]} has the number of a color")
        self.bound[number] = task[1]

    def do_activate(self, number: tuple[str, int]) -> None:
        if number not in self.bound:
            raise CslError(f"{number} is bound to no task")
        self.active.add(number)

    def do_zeros(self, of: str) -> np.ndarray:
        count, element = re.fullmatch(r"\[(\d+)\](\w+)", of).groups()
        return np.zeros(int(count), ZEROS[element])

    def do_get_dsd(self, kind: str, options: dict[str, Any]) -> Dsd:
        if kind == "mem1d_dsd":
            return options["tensor_access"]
        way = "input_queue" if kind == "fabin_dsd" else "output_queue"
        if set(options) != {"extent", "fabric_color", way} or options[way][0] != way:
            raise CslError(f"{kind} has {sorted(options)}")
        return Dsd(kind, options["extent"], color=options["fabric_color"], queue=options[way])

    def do_set_dsd_base_addr(self, dsd: Dsd, pointer: Pointer) -> Dsd:
        return Dsd(dsd.kind, dsd.extent, pointer=pointer, stride=dsd.stride)

    def do_increment_dsd_offset(self, dsd: Dsd, by: int, of: str) -> Dsd:
        if dsd.pointer.array.dtype != ZEROS[of]:
            raise CslError(f"elements of {dsd.pointer.array.dtype} are counted as {of}")
        return Dsd(dsd.kind, dsd.extent, pointer=Pointer(dsd.pointer.array, dsd.pointer.at + by), stride=dsd.stride)

    def operate(self, name: str, arguments: list[Any]) -> None:
        options = arguments.pop() if isinstance(arguments[-1], dict) else {}
        dsds = [one for one in arguments if isinstance(one, Dsd)]
        if len({one.extent for one in dsds}) != 1 or arguments[0].kind == "fabin_dsd":
            raise CslError(f"{name} has extents {[one.extent for one in dsds]}")
        for one in dsds:
            if one.queue and self.queues[one.queue] != one.color:
                raise CslError(f"{one.queue} has color {self.queues[one.queue]}, not {one.color}")
        if not options:
            if any(one.queue for one in dsds):
                raise CslError(f"{name} of the fabric stops the core")
            for _ in self.thread(name, arguments):
                pass
            return
        if set(options) != {"async", "activate"} or not any(one.queue for one in dsds):
            raise CslError(f"{name} has {sorted(options)}")
        numbers = [one.queue[1] for _, _, others in self.threads for one in others if one.queue]
        if any(one.queue and one.queue[1] in numbers for one in dsds):
            raise CslError(f"{name} begins while another transfer has its queue")
        if any(options["activate"] == other for _, other, _ in self.threads):
            raise CslError("two transfers activate one task, which counts only once")
        self.threads.append((self.thread(name, arguments), options["activate"], dsds))

    def thread(self, name: str, arguments: list[Any]) -> Iterator[bool]:
        types = ELEMENTS.get(name, ("f16" if name.endswith("h") else "f32",) * len(arguments))
        for one, of in zip(arguments, types, strict=True):
            if isinstance(one, Dsd) and one.pointer and one.pointer.array.dtype != ZEROS[of]:
                raise CslError(f"{name} has {one.pointer.array.dtype} for {of}")
        to, sources = arguments[0], arguments[1:]
        for index in range(to.extent):
            values = []
            for source in sources:
                if isinstance(source, Dsd) and source.queue:
                    box = self.inboxes.setdefault(source.color[1], deque())
                    while not box:
                        yield False
                    word, of = box.popleft()
                    if of != types[1 + len(values)]:
                        raise CslError(f"{name} receives {of}")
                    values.append(word)
                elif isinstance(source, Dsd):
                    values.append(source.pointer.array[source.place(index)].item())
                else:
                    values.append(source)
            result = OPERATIONS[name[2:5]](*values)
            rounded = ZEROS[types[0]](result)
            if to.queue:
                self.fabric.send(self.place, to.color[1], rounded.item(), types[0])
            else:
                to.pointer.array[to.place(index)] = rounded
            yield True

    def step(self, rng: random.Random) -> bool:
        """Do something of what can be done; return False if there is nothing."""
        moved = False
        for thread in rng.sample(self.threads, len(self.threads)):
            for _ in range(rng.randint(1, 4)):
                state = next(thread[0], None)
                if state is None:
                    self.threads.remove(thread)
                    self.do_activate(thread[1])
                moved |= state is not False
                if state is not True:
                    break
        if self.active and rng.random() < 0.5:
            number = rng.choice(sorted(self.active))
            self.active.remove(number)
            self.call(self.bound[number], [])
            return True
        return moved or bool(self.active)


STEPS = {"EAST": (1, 0), "WEST": (-1, 0), "SOUTH": (0, 1), "NORTH": (0, -1)}
OPPOSITE = {"EAST": "WEST", "WEST": "EAST", "SOUTH": "NORTH", "NORTH": "SOUTH"}


class Fabric(Interpreter):
    """A layout: cores with their sources, and what routers do with colors."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.size = folder, (0, 0)
        self.sources: dict[str, list[Node]] = {}
        self.cores: dict[tuple[int, int], Core] = {}
        self.routes: dict[tuple[int, int, int], tuple[str, set[str]]] = {}
        self.names: set[str] = set()
        items = Parser((folder / "layout.csl").read_text(), "layout.csl").file()
        super().__init__(items, {})
        (layout,) = [item for item in items if item[0] == "layout"]
        self.run(layout[1], [self.globals])
        if set(self.cores) != set(itertools.product(range(self.size[0]), range(self.size[1]))):
            raise CslError("cores have no source")
        for core in self.cores.values():
            if set(core.symbols) - self.names:
                raise CslError(f"{set(core.symbols) - self.names} have no name in the layout")

    def builtin(self, name: str, arguments: list[Any]) -> Any:
        if name == "@import_module":
            return {"get_params": lambda x: ("memcpy", x)}
        if name == "@set_rectangle":
            self.size = (arguments[0], arguments[1])
        elif name == "@set_tile_code":
            x, y, file, parameters = arguments
            if (x, y) in self.cores or not (x < self.size[0] and y < self.size[1]):
                raise CslError(f"core {x}, {y} has two sources, or is outside of the rectangle")
            if file not in self.sources:
                self.sources[file] = Parser((self.folder / file).read_text(), file).file()
            self.cores[x, y] = Core(self.sources[file], parameters, self, (x, y))
        elif name == "@set_color_config":
            x, y, color, options = arguments
            (source,) = options["routes"]["rx"]
            if (x, y, color[1]) in self.routes or color[1] > 20:
                raise CslError(f"color {color[1]} is set twice at {x}, {y}, or is reserved")
            self.routes[x, y, color[1]] = (source, set(options["routes"]["tx"]))
        elif name == "@export_name":
            self.names.add(arguments[0])
        else:
            return super().builtin(name, arguments)
        return None

    def send(self, place: tuple[int, int], color: int, word: float, of: str) -> None:
        """Bring a word to all cores that the color leads to."""
        waiting = [(place, "RAMP")]
        while waiting:
            (x, y), side = waiting.pop()
            source, targets = self.routes.get((x, y, color), ("nothing", set()))
            if source != side:
                raise CslError(f"router {x}, {y} takes color {color} from {source}, not from {side}")
            for target in targets:
                if target == "RAMP":
                    self.cores[x, y].inboxes.setdefault(color, deque()).append((word, of))
                else:
                    step = STEPS[target]
                    waiting.append(((x + step[0], y + step[1]), OPPOSITE[target]))

    def launch(self, seed: int) -> None:
        """Run `main` on all cores until each has ended."""
        rng = random.Random(seed)
        for core in self.cores.values():
            core.call("main", [])
        idle = 0
        while idle < 50:
            order = rng.sample(list(self.cores.values()), len(self.cores))
            idle = 0 if any([core.step(rng) for core in order]) else idle + 1
        for place, core in self.cores.items():
            left = sum(map(len, core.inboxes.values()))
            if core.ends != 1 or core.threads or left:
                raise CslError(
                    f"core {place}: ended {core.ends} times, {len(core.threads)} transfers and {left} words left"
                )


def cores_of_tiles(binding: dict[str, Any], columns: int, rows: int) -> Iterator[tuple[tuple[int, int], slice, slice]]:
    """Yield each core with the rows and columns of the matrix that its tile has, as placement.json says."""
    extents = {"x": columns, "y": rows}

    def place(position: int, extent: int) -> int:  # on the interleaved ring 0, 2, 4, …, 5, 3, 1
        return [*range(0, extent, 2), *reversed(range(1, extent, 2))].index(position) if binding["ring"] else position

    for x, y in itertools.product(range(columns), range(rows)):
        at = {"x": place(x, columns), "y": place(y, rows), "none": 0}
        row, column = at[binding["rows_along"]], at[binding["columns_along"]]
        if binding["skew"] == "columns":
            column = (column + row) % extents[binding["columns_along"]]
        elif binding["skew"] == "rows":
            row = (row + column) % extents[binding["rows_along"]]
        height, width = binding["tile"]
        yield (x, y), slice(row * height, (row + 1) * height), slice(column * width, (column + 1) * width)


def run_csl(
    folder: Path, placement: dict[str, Any], inputs: list[np.ndarray], seed: int, tokens: int | None = None
) -> list[np.ndarray]:
    """Run the sources of a folder with inputs, and return its outputs."""
    fabric = Fabric(folder)
    size = placement["columns"], placement["rows"]
    for binding in placement["inputs"]:
        matrix, (height, width) = inputs[binding["argument"]], binding["tile"]
        for place, rows, columns in cores_of_tiles(binding, *size):
            part = np.zeros((height, width), matrix.dtype)
            cut = matrix[rows, columns]
            part[: cut.shape[0], : cut.shape[1]] = cut
            fabric.cores[place].symbols[binding["symbol"]].array[:] = part.reshape(-1)
    if tokens is not None:
        for core in fabric.cores.values():
            if "tokens" in core.symbols:
                core.symbols["tokens"].array[0] = tokens
    fabric.launch(seed)
    outputs = []
    for binding in placement["outputs"]:
        matrix = np.zeros(binding["matrix"], ZEROS[binding["element"]])
        for place, rows, columns in cores_of_tiles(binding, *size):
            part = fabric.cores[place].symbols[binding["symbol"]].array.reshape(binding["tile"])
            cut = matrix[rows, columns]
            cut[:] = part[: cut.shape[0], : cut.shape[1]]
        outputs.append(matrix)
    return outputs
