# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which device should prefill and which decode? The experiment of arXiv 2507.19635, planned by intarsia-plan.

For each model, precision and size of a request, prefill is put on one of the six devices of the paper's Table 5 and
decode on another, and the planner chooses the rest (degrees, batches, replicas) so that the first token comes within
250 ms and the next ones within 20 ms. What an hour costs over how many tokens it gives makes the tables. See README.md.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import csv
import dataclasses
import itertools
import json
import math
import os
import pathlib
import re
import subprocess
import tempfile
import typing

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CATALOGUE = ROOT / "catalogue" / "devices" / "paper"
ROOFLINE = HERE / "roofline.yaml"

#: Enough that whole replicas and queues matter little; no pool runs out, and no link between pools is a limit.
REQUESTS_PER_SECOND = 1000
DEVICES_IN_POOL = 1_000_000
LINK_GBPS = 20000.0

#: The terms that Table 5's operating costs follow from: intarsia/Cost/Catalogue.h, OwnershipTerms.
YEARS, INTEREST, DOLLARS_PER_KWH = 4.0, 0.08, 0.40


@dataclasses.dataclass(frozen=True)
class Case:
    """A model and the size of its requests, in tokens."""

    model: str
    precision: str
    prompt: int
    output: int

    def __str__(self) -> str:
        return f"{self.model}, {self.precision}, {self.prompt} tokens in, {self.output} out"

    @property
    def is_decode_heavy(self) -> bool:
        """Return True if the output is longer than the prompt."""
        return self.output > self.prompt


CASES = [
    Case(model, precision, prompt, output)
    for model in ("llama-3.1-8b", "llama-3.1-70b")
    for precision in ("bf16", "fp8")
    for prompt, output in ((512, 4096), (4096, 512))
]


def _table5() -> dict[str, dict[str, float]]:
    with (CATALOGUE / "table5.csv").open() as file:
        return {
            row["device"].lower(): {name: float(value) for name, value in row.items() if name != "device"}
            for row in csv.DictReader(file)
        }


TABLE5 = _table5()
NAMES = {"a40": "A40", "a100": "A100", "gaudi3": "Gaudi3", "mi300x": "MI300X", "h100": "H100", "b200": "B200"}
WATTS = {
    name: float(re.search(r"^watts: \{value: ([\d.]+)", (CATALOGUE / f"{name}.yaml").read_text(), re.M)[1])  # type: ignore[index]
    for name in TABLE5
}


@dataclasses.dataclass(frozen=True)
class Inputs:
    """The assumptions of the tables, by default the paper's. `price` ($) and `bandwidth` (GB/s) override a device's."""

    first_token_ms: float = 250
    next_token_ms: float = 20
    dollars_per_kwh: float = DOLLARS_PER_KWH
    years: float = YEARS
    price: tuple[tuple[str, float], ...] = ()
    bandwidth: tuple[tuple[str, float], ...] = ()

    def dollars_per_hour(self, device: str) -> float:
        """Return a device's price spread over the hours of its years, plus Table 5's operating cost (interest, power).

        Inputs that differ from the table's change the table's cost by the formula that it follows.
        """
        row = TABLE5[device]

        def by_formula(price: float, years: float, dollars_per_kwh: float) -> float:
            return price * math.exp(INTEREST * years) / (8760 * years) + WATTS[device] / 1000 * dollars_per_kwh

        printed = row["price_usd"] / (8760 * YEARS) + row["operating_usd_per_hour"]
        price = dict(self.price).get(device, row["price_usd"])
        moved = by_formula(price, self.years, self.dollars_per_kwh)
        return printed + moved - by_formula(row["price_usd"], YEARS, DOLLARS_PER_KWH)


@dataclasses.dataclass(frozen=True)
class Plan:
    """The planner's result for a pair; if there is no plan, only `refusal` is set."""

    dollars_per_million_tokens: float = math.inf
    prefill: str = ""
    decode: str = ""
    first_token_ms: float = math.nan
    next_token_ms: float = math.nan
    refusal: str = ""


class Planner:
    """Asks intarsia-plan, and remembers."""

    def __init__(self, tool: pathlib.Path, efficiency: pathlib.Path | None = None) -> None:
        self.tool = tool
        self.flags = [f"--efficiency={efficiency}"] if efficiency else []
        self.known: dict[tuple[str, str], Plan] = {}

    def pair(self, case: Case, prefill: str, decode: str, inputs: Inputs = Inputs()) -> Plan:
        """Find the cheapest plan with prefill and decode on these devices."""
        pools = {"prefill": prefill, "decode": decode}
        return self._plan(case, pools, inputs, pinned=True)

    def freely(self, case: Case, inputs: Inputs = Inputs()) -> Plan:
        """Find the cheapest plan if the planner may choose among all six devices."""
        return self._plan(case, {name: name for name in TABLE5}, inputs, pinned=False)

    def grid(self, case: Case, inputs: Inputs = Inputs()) -> dict[tuple[str, str], Plan]:
        """Plan all 36 pairs.

        A device that cannot prefill beside a decoding B200 cannot beside any other device, and vice versa: each service
        level concerns one phase. Such pairs are skipped, because the planner takes longest to explain conflicts.
        """
        refusals: dict[tuple[int, str], str] = {}

        def plan(pair: tuple[str, str]) -> Plan:
            refusal = refusals.get((0, pair[0])) or refusals.get((1, pair[1]))
            return Plan(refusal=refusal) if refusal else self.pair(case, *pair, inputs)

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for phase in (0, 1):
                beside = [(device, "b200") if phase == 0 else ("b200", device) for device in TABLE5]
                for device, of in zip(
                    TABLE5, pool.map(lambda pair: self.pair(case, *pair, inputs), beside), strict=True
                ):
                    if of.refusal:
                        refusals[phase, device] = of.refusal
            pairs = list(itertools.product(TABLE5, TABLE5))
            return dict(zip(pairs, pool.map(plan, pairs), strict=True))

    def _plan(self, case: Case, pools: dict[str, str], inputs: Inputs, pinned: bool) -> Plan:
        with tempfile.TemporaryDirectory() as name:
            directory = pathlib.Path(name)
            files = {}
            for device, gbps in inputs.bandwidth:
                text, count = re.subn(
                    r"^memory_gbps: \{value: [\d.]+", f"memory_gbps: {{value: {gbps}", _yaml(device), flags=re.M
                )
                assert count == 1, device
                files[device] = text
            text = _program(case, pools, inputs, pinned, files)
            key = (text, repr(files))
            if key not in self.known:
                for device, content in files.items():
                    (directory / f"{device}.yaml").write_text(content)
                (directory / "pair.mlir").write_text(text)
                self.known[key] = self._run(directory)
            return self.known[key]

    def _run(self, directory: pathlib.Path) -> Plan:
        command = [
            self.tool,
            directory / "pair.mlir",
            f"--json={directory / 'plan.json'}",
            "--why=false",
            "--headroom=0",
            *self.flags,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 1 and "has no pool that computes in its precisions" in done.stderr:
            return Plan(refusal="precision")
        if done.returncode not in (0, 2):
            raise RuntimeError(f"intarsia-plan ended with {done.returncode}:\n{done.stderr}")
        result = json.loads((directory / "plan.json").read_text())
        if done.returncode == 2:
            return Plan(refusal=_refusal(result))
        if result["status"] != "optimal":
            raise RuntimeError(f"no proven plan in time: {result['status']}")
        pieces = {piece["name"].rsplit(".", 1)[-1]: piece for piece in result["pieces"]}
        (agent,) = result["agents"]
        output = int(re.search(r"produces <(\d+) tokens>", (directory / "pair.mlir").read_text())[1])  # type: ignore[index]
        return Plan(
            result["totals"]["dollars_per_request"] / output * 1e6,
            _choice(pieces["prefill"]),
            _choice(pieces["decode"]),
            agent["first_token_ms"],
            agent["next_token_ms"],
        )


def _yaml(device: str) -> str:
    return (CATALOGUE / f"{device}.yaml").read_text()


def _choice(piece: dict[str, typing.Any]) -> str:
    stages = f" x {piece['pipeline']} stages" if piece["pipeline"] > 1 else ""
    return f"tensor {piece['tensor']}{stages}, batch {piece['batch']}"


def _refusal(result: dict[str, typing.Any]) -> str:
    texts = " ".join(conflict["text"] for conflict in result["conflicts"])
    for words, short in (("first output", "TTFT"), ("between tokens", "TBT")):
        if words in texts:
            return short
    if any("peak_tflops" in line for line in result["not_offered"]):
        return "precision"
    if any("fits nowhere" in line or "weights take" in line for line in result["not_offered"]):
        return "memory"
    raise RuntimeError(f"a conflict that the experiment does not expect: {texts}")


def _program(case: Case, pools: dict[str, str], inputs: Inputs, pinned: bool, files: dict[str, str]) -> str:
    """Write the fleet and the agent as intarsia-plan reads them."""
    lines = ["fleet.system @dc {"]
    for device in sorted(set(pools.values())):
        where = f'file = "{device}.yaml"' if device in files else f'catalogue = "paper/{device}"'
        lines.append(f"  fleet.device @{device} {{{where}}}")
    for pool, device in pools.items():
        price = f"price #fleet.rental<dollars_per_hour = {inputs.dollars_per_hour(device):.9f}>"
        lines.append(f"  fleet.pool @{pool}_pool of @{device} count {DEVICES_IN_POOL} per_node 8 {price}")
    for one, other in itertools.combinations_with_replacement(pools, 2):
        figures = f"{{gigabytes_per_second = {LINK_GBPS}, microseconds = 10.0}}"
        lines.append(f"  fleet.link @{one}_pool to @{other}_pool {figures}")

    def placement(phase: str) -> str:
        return f", place = #fleet.placement<@dc::@{phase}_pool>" if pinned else ""

    sla = (
        f"#agent.sla<ttft_ms = {inputs.first_token_ms}, tbt_ms = {inputs.next_token_ms}, "
        f"requests_per_second = {REQUESTS_PER_SECOND}>"
    )
    size = f"{{agent.size = #agent.amount<{case.prompt} tokens>}}"
    lines += [
        "}",
        f'agent.model @model {{shape = "{case.model}", precisions = ["{case.precision}"], context_tokens = 131072}}',
        f"agent.graph @ask(%question: !agent.text {size}) -> !agent.text attributes {{sla = {sla}}} {{",
        f'  %cache, %first = agent.prefill @model(%question) {{label = "ask"{placement("prefill")}}}'
        " : (!agent.text) -> (!agent.kv, !agent.text)",
        "  %there = agent.kv_transfer %cache : !agent.kv",
        f"  %answer = agent.decode @model(%there, %first) produces <{case.output} tokens>"
        f' {{label = "ask"{placement("decode")}}} : (!agent.kv, !agent.text) -> !agent.text',
        "  agent.return %answer : !agent.text",
        "}",
    ]
    return "\n".join(lines) + "\n"


# -- The paper's finding ---------------------------------------------------------------------------------------------


def advantage(planner: Planner, case: Case, inputs: Inputs) -> float:
    """Say what Gaudi3 saves behind B200s, as a share of the cost with the best other decoder; negative if it loses."""
    # Prices do not change which plans are possible, and the planner takes longest to explain why none is.
    possible = [device for device in TABLE5 if not planner.pair(case, "b200", device).refusal]
    costs = {device: planner.pair(case, "b200", device, inputs).dollars_per_million_tokens for device in possible}
    gaudi3 = costs.pop("gaudi3")
    other = min(costs.values())
    return 1 - gaudi3 / other


#: Inputs that alone may decide between Gaudi3 and its best rival: the name, the effect, the paper's value, and the
#: farthest value to try.
INPUTS: dict[str, tuple[str, typing.Callable[[float], Inputs], float, float]] = {
    "price": ("price of an MI300X, $", lambda x: Inputs(price=(("mi300x", x),)), 20000, 60000),
    "bandwidth": (
        "memory bandwidth of an MI300X, GB/s",
        lambda x: Inputs(bandwidth=(("mi300x", x),)),
        5300,
        2650,
    ),
    "electricity": ("price of a kWh, $", lambda x: Inputs(dollars_per_kwh=x), DOLLARS_PER_KWH, 0.0),
    "years": ("years of writing off", lambda x: Inputs(years=x), YEARS, 0.5),
}


def flip(planner: Planner, case: Case, name: str, tolerance: float = 0.004) -> float | None:
    """Find the value of one input, starting from the paper's, where Gaudi3 becomes the best decoder; None if nowhere.

    By bisection: Gaudi3 is best at the result, and another device at `tolerance` of the paper's value before it.
    """
    _, inputs, loses, wins = INPUTS[name]
    if advantage(planner, case, inputs(loses)) > 0:
        raise ValueError(f"{case}: Gaudi3 is the best decoder with the paper's {name}")
    if advantage(planner, case, inputs(wins)) <= 0:
        return None
    step = tolerance * loses
    while abs(wins - loses) > step:
        middle = (wins + loses) / 2
        if advantage(planner, case, inputs(middle)) > 0:
            wins = middle
        else:
            loses = middle
    return wins


def print_table(case: Case, grid: dict[tuple[str, str], Plan]) -> None:
    """Print dollars per million tokens written: prefill in rows, decode in columns; the best is marked."""
    best = min(grid, key=lambda pair: grid[pair].dollars_per_million_tokens)
    print(f"\n{case}: dollars per million tokens written\n")
    print("| prefill \\ decode | " + " | ".join(NAMES[name] for name in TABLE5) + " |")
    print("|---" * (len(TABLE5) + 1) + "|")
    for prefill in TABLE5:
        cells = []
        for decode in TABLE5:
            plan = grid[prefill, decode]
            text = plan.refusal or f"{plan.dollars_per_million_tokens:.4f}"
            cells.append(f"**{text}**" if (prefill, decode) == best else text)
        print(f"| {NAMES[prefill]} | " + " | ".join(cells) + " |", flush=True)


def print_finding(planner: Planner, case: Case, grid: dict[tuple[str, str], Plan], flips: list[str]) -> None:
    """Print how the paper's finding holds in one table."""

    def cost(prefill: str, decode: str) -> float:
        return grid[prefill, decode].dollars_per_million_tokens

    pair = min(grid, key=lambda pair: cost(*pair))
    plan = grid[pair]
    print(f"\nbest: {NAMES[pair[0]]}::{NAMES[pair[1]]} (prefill {plan.prefill}; decode {plan.decode};", end=" ")
    print(f"{plan.first_token_ms:.0f} and {plan.next_token_ms:.1f} ms)", flush=True)
    behind = min(cost(prefill, "gaudi3") for prefill in TABLE5)
    above = cost("b200", "gaudi3") / cost(*pair) - 1
    by_prefill = cost("b200", "gaudi3") / behind - 1
    print(f"B200::Gaudi3 is {above:.1%} above it: decode {behind / cost(*pair) - 1:.1%}, prefill {by_prefill:.1%}")
    print(f"H100::Gaudi3 is {cost('h100', 'gaudi3') / cost('b200', 'b200') - 1:+.1%} against B200::B200")
    if not flips or not case.is_decode_heavy or advantage(planner, case, Inputs()) > 0:
        return
    for name in flips:
        what, _, paper, _ = INPUTS[name]
        value = flip(planner, case, name)
        print(f"  Gaudi3 is the best decoder from {what}: ", end="")
        print(f"{value:.4g} on (the paper: {paper:g})" if value is not None else "nowhere that was looked", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tool", type=pathlib.Path, default=ROOT / "build" / "dev" / "bin" / "intarsia-plan")
    parser.add_argument("--roofline", action="store_true", help="data sheets alone, instead of measured efficiencies")
    parser.add_argument("--models", nargs="*", choices={case.model for case in CASES}, help="of the two, these alone")
    parser.add_argument("--electricity", type=float, default=DOLLARS_PER_KWH, help="$ a kWh (default: the paper's)")
    parser.add_argument("--first-token-ms", type=float, default=Inputs.first_token_ms, help="default: the paper's 250")
    parser.add_argument("--flips", nargs="*", choices=INPUTS, default=[], help="look for the value that decides")
    arguments = parser.parse_args()
    planner = Planner(arguments.tool, ROOFLINE if arguments.roofline else None)
    for case in CASES:
        if arguments.models and case.model not in arguments.models:
            continue
        inputs = Inputs(first_token_ms=arguments.first_token_ms, dollars_per_kwh=arguments.electricity)
        grid = planner.grid(case, inputs)
        print_table(case, grid)
        print_finding(planner, case, grid, arguments.flips)


if __name__ == "__main__":
    main()
