# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plans that begin from an earlier one: after other prices, rates and fleets, and from files that have none."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import typing

import jsonschema
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = pathlib.Path(os.environ.get("INTARSIA_BUILD_DIR", ROOT / "build" / "dev")) / "bin" / "intarsia-plan"
AGENT = ROOT / "examples" / "agents" / "rag_chat.mlir"
FLEET = ROOT / "examples" / "fleets" / "dc.mlir"
SCHEMA = json.loads((ROOT / "docs" / "plan.schema.json").read_text())
CHOICE = ("pool", "precision", "tensor", "pipeline", "expert", "data", "batch")

Result = dict[str, typing.Any]


def execute(agent: pathlib.Path, fleet: pathlib.Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """Plan; the plan may fail."""
    command = [str(TOOL), str(agent), f"--fleet={fleet}", "--why=false", "--headroom=0", *flags]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def plan(
    file: pathlib.Path, *flags: str, agent: pathlib.Path = AGENT, fleet: pathlib.Path = FLEET, code: int = 0
) -> tuple[Result, str]:
    """Plan; return the JSON, which fits the schema, and the printed text."""
    done = execute(agent, fleet, f"--json={file}", *flags)
    assert done.returncode == code, done.stdout + done.stderr
    result = json.loads(file.read_text())
    jsonschema.validate(result, SCHEMA, jsonschema.Draft202012Validator)
    return result, done.stdout


def priced(file: pathlib.Path, pool: str, price: float) -> pathlib.Path:
    """Write the example's fleet with another price of a pool's devices."""
    text, count = re.subn(
        rf"(fleet.pool @{pool} of @\w+ count \d+ per_node \d+).*",
        rf"\1 price #fleet.rental<dollars_per_hour = {price}>",
        FLEET.read_text(),
    )
    assert count == 1
    file.write_text(text)
    return file


def asked(file: pathlib.Path, rate: float) -> pathlib.Path:
    """Write the example's agent with another rate."""
    text = AGENT.read_text()
    assert "requests_per_second = 20>" in text
    file.write_text(text.replace("requests_per_second = 20>", f"requests_per_second = {rate}>"))
    return file


def changes(before: Result, after: Result) -> list[Result]:
    """Compare two plans by the definition of a move, independent of the planner's own list of moves."""
    found = []
    for was, now in zip(before["pieces"], after["pieces"], strict=True):
        assert was["name"] == now["name"]
        moves = any(was[key] != now[key] for key in CHOICE)
        if moves or was["replicas"] != now["replicas"]:
            found.append(
                {
                    "piece": was["name"],
                    "moves": moves,
                    "replicas_before": was["replicas"],
                    "replicas_now": now["replicas"],
                }
            )
    return found


def without_labels(replan: Result) -> list[Result]:
    """Return the changes without their labels, which the other list does not have."""
    return [{key: entry[key] for key in entry if key not in {"before", "now"}} for entry in replan["changes"]]


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> tuple[pathlib.Path, Result]:
    """Return the plan to begin from."""
    file = tmp_path_factory.mktemp("old") / "old.json"
    return file, plan(file)[0]


def test_nothing_changes(old: tuple[pathlib.Path, Result], tmp_path: pathlib.Path) -> None:
    """A plan that begins from itself stays, at the same cost."""
    file, before = old
    after, printed = plan(tmp_path / "new.json", f"--previous={file}")
    assert after["pieces"] == before["pieces"]
    replan = after["replan"]
    assert (replan["moves"], replan["changes"], replan["unknown"]) == (0, [], [])
    assert replan["stay"] == {"objective": pytest.approx(before["totals"]["dollars_per_request"]), "breaks": []}
    assert f"0 of {len(before['pieces'])} pieces moved since '{file}'\n" in printed


def test_a_price_moves_one_piece(old: tuple[pathlib.Path, Result], tmp_path: pathlib.Path) -> None:
    """If small devices cost more, the one piece on them moves, and all others stay."""
    file, before = old
    (there,) = [piece["name"] for piece in before["pieces"] if piece["pool"] == "small"]
    fleet = priced(tmp_path / "fleet.mlir", "small", 1.2)
    after, printed = plan(tmp_path / "new.json", f"--previous={file}", fleet=fleet)
    replan = after["replan"]
    assert [entry["piece"] for entry in replan["changes"]] == [there]
    assert without_labels(replan) == changes(before, after)
    assert replan["moves"] == 1
    # One device costs $1.20 an hour now; the old plan has the old price.
    (was,) = [piece for piece in before["pieces"] if piece["name"] == there]
    hourly = before["totals"]["dollars_per_hour"] - was["dollars_per_hour"] + 1.2 * was["devices"]
    assert replan["stay"] == {"objective": pytest.approx(hourly / 3600 / 20), "breaks": []}
    assert replan["objective"] == pytest.approx(after["totals"]["dollars_per_request"])
    assert replan["objective"] < replan["stay"]["objective"]
    assert f"  {there}: from @small" in printed
    more = (replan["stay"]["objective"] - replan["objective"]) / replan["objective"]
    assert f"more ({more:.1%})" in printed


def test_a_small_change_of_a_price_moves_nothing(old: tuple[pathlib.Path, Result], tmp_path: pathlib.Path) -> None:
    """If a fresh plan is better by less than the cost of a move, all pieces stay."""
    file, before = old
    hourly = before["totals"]["dollars_per_hour"]
    (there,) = [piece for piece in before["pieces"] if piece["pool"] == "small"]
    cheap = next(piece for piece in before["pieces"] if piece["pool"] == "cheap")
    # A device of @cheap is as good for it: above the price of one it is better to move, by less than 0.1 % up to here.
    price = cheap["dollars_per_hour"] / cheap["devices"] + 0.0005 * hourly / there["devices"]
    fleet = priced(tmp_path / "fleet.mlir", "small", price)
    fresh, _ = plan(tmp_path / "fresh.json", fleet=fleet)
    assert changes(before, fresh), "the price does not tell: a fresh plan stays as well"
    after, _ = plan(tmp_path / "new.json", f"--previous={file}", fleet=fleet)
    assert after["replan"]["changes"] == [] == changes(before, after)
    assert after["totals"]["dollars_per_hour"] > fresh["totals"]["dollars_per_hour"]


def test_a_rate_changes_replicas_only(old: tuple[pathlib.Path, Result], tmp_path: pathlib.Path) -> None:
    """With more requests the prefill gets replicas, nothing moves, and the old plan is reported as overloaded."""
    file, before = old
    agent = asked(tmp_path / "agent.mlir", 28)
    after, printed = plan(tmp_path / "new.json", f"--previous={file}", agent=agent)
    replan = after["replan"]
    assert replan["moves"] == 0
    assert without_labels(replan) == changes(before, after)
    assert [entry["piece"] for entry in replan["changes"]] == ["answer.prefill"]
    assert replan["changes"][0]["replicas_now"] > replan["changes"][0]["replicas_before"]
    (broken,) = replan["stay"]["breaks"]
    assert re.fullmatch(
        r"piece 'answer.prefill': \d+ replicas sustain [\d.]+ executions/s, 28.00 are asked for", broken
    )
    assert f"it cannot stay as it was: {broken}" in printed


def test_lost_devices(old: tuple[pathlib.Path, Result], tmp_path: pathlib.Path) -> None:
    """From a file and from the plan with all devices the same comes out, and the old plan breaks the pool."""
    file, before = old
    lost = "--without=@cheap:60"
    by_itself, printed = plan(tmp_path / "a.json", lost)
    from_file, _ = plan(tmp_path / "b.json", lost, f"--previous={file}")
    assert by_itself["pieces"] == from_file["pieces"]
    replan = by_itself["replan"]
    assert replan["since"] == "the loss of @cheap:60"
    assert {**replan, "since": "", "text": ""} == {**from_file["replan"], "since": "", "text": ""}
    assert without_labels(replan) == changes(before, by_itself)
    devices = sum(piece["devices"] for piece in before["pieces"] if piece["pool"] == "cheap")
    assert replan["stay"]["breaks"] == [f"pool 'cheap': {devices} devices are needed, 4 exist"]
    assert f"{replan['moves']} of {len(before['pieces'])} pieces moved since the loss of @cheap:60" in printed


def test_what_is_not_known(old: tuple[pathlib.Path, Result], tmp_path: pathlib.Path) -> None:
    """A pool, a batch and pieces that no longer exist, or did not yet, are listed; known pieces stay."""
    _, before = old
    changed = json.loads(json.dumps(before))
    by_name = {piece["name"]: piece for piece in changed["pieces"]}
    by_name["find.embed"]["pool"] = "gone"
    decode = by_name["answer.decode"]
    decode["batch"] = 77
    by_name["find.search"]["name"] = "find.before"
    by_name["find.search"]["tasks"][0]["task"] = "find.before"
    file = tmp_path / "old.json"
    file.write_text(json.dumps(changed))
    after, printed = plan(tmp_path / "new.json", f"--previous={file}")
    replan = after["replan"]
    assert replan["stay"] is None
    # What is not known may be put elsewhere if that costs the same.
    known, was_known = ([piece for piece in of["pieces"] if piece["name"] != "find.embed"] for of in (after, before))
    assert known == was_known
    sums, were = (
        {key: value for key, value in of.items() if isinstance(value, float) and key != "gap"} for of in (after, before)
    )
    assert sums == pytest.approx(were)
    unknown = " | ".join(replan["unknown"])
    for text in (
        "find.embed was @gone bf16 batch 4, and the fleet has no such pool now",
        f"answer.decode was @{decode['pool']} {decode['precision']} tensor {decode['tensor']} batch 77, which is not among its "
        "candidates now",
        "find.search is not in it",
        "find.before is in no agent any more",
    ):
        assert text in unknown
        assert text in printed


BAD = [
    ("{", "is not JSON"),
    ("[]", "says no version of its format"),
    ('{"version": "1"}', "says no version of its format"),
    ('{"version": 2, "pieces": []}', "has version 2 of the format, this intarsia-plan reads version 1"),
    ('{"version": 1, "status": "infeasible"}', "has no plan, the status of its run was 'infeasible'"),
    ('{"version": 1, "pieces": [3]}', "'pieces' has at 0 (from 0) no object"),
    ('{"version": 1, "pieces": [{"name": 3}]}', "no 'name' that is a text"),
    ('{"version": 1, "pieces": [{"name": "a"}]}', "no 'outside' that is true or false"),
    ('{"version": 1, "pieces": [{"name": "a", "outside": false, "pool": null}]}', "no 'pool' that is a text"),
    (
        '{"version": 1, "pieces": [{"name": "a", "outside": true, "tensor": 0}]}',
        "no 'tensor' that is a whole number above zero",
    ),
    (
        '{"version": 1, "pieces": [{"name": "a", "outside": true, "tensor": 1, "pipeline": 1, "expert": 1, "data": 1,'
        ' "parts": 1, "batch": 1, "aggregated": false, "replicas": 99999999999}]}',
        "no 'replicas' that is a whole number above zero",
    ),
]


@pytest.mark.parametrize(("text", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_files(text: str, message: str, tmp_path: pathlib.Path) -> None:
    """A file that is not a plan is refused: the error names the file, its fault, and what to name instead."""
    file = tmp_path / "old.json"
    file.write_text(text)
    done = execute(AGENT, FLEET, f"--previous={file}")
    assert done.returncode == 1
    assert f"'{file}'" in done.stderr
    assert message in done.stderr
    assert "name a file that intarsia-plan --json wrote with a plan in it" in done.stderr


def test_the_plan_of_another_agent(old: tuple[pathlib.Path, Result], tmp_path: pathlib.Path) -> None:
    """A plan without a known piece is ignored, and the names of both are listed; so is a plan without pieces."""
    file, before = old
    other = ROOT / "examples" / "agents" / "text_to_sql.mlir"
    pieces = {piece["name"] for piece in plan(tmp_path / "other.json", agent=other)[0]["pieces"]}
    done = execute(other, FLEET, f"--previous={file}")
    assert done.returncode == 1
    assert f"'{file}' is the plan of another agent: it has '" in done.stderr
    there, here = done.stderr.split(", and here are ")
    assert all(f"'{piece['name']}'" in there for piece in before["pieces"])
    assert all(f"'{name}'" in here for name in pieces)
    # One piece that is known is enough.
    changed = json.loads(json.dumps(before))
    for piece in changed["pieces"][1:]:
        piece["name"] += ".before"
        for task in piece["tasks"]:
            task["task"] += ".before"
    one = tmp_path / "one.json"
    one.write_text(json.dumps(changed))
    assert execute(AGENT, FLEET, f"--previous={one}").returncode == 0
    one.write_text(json.dumps({**before, "pieces": []}))
    done = execute(AGENT, FLEET, f"--previous={one}")
    assert done.returncode == 1
    assert f"'{one}' has a plan of no piece" in done.stderr


LOST = [
    ("@nosuch:3", "the fleet has no pool @nosuch; it has @fast, @cheap, @small"),
    ("@chep:3", "the fleet has no pool @chep; did you mean 'cheap'?"),
    ("@fast:64,@cheap:64,@small:16", "leaves the fleet no device; name fewer of them"),
    ("@fast:-1", "the number of lost devices must be above zero"),
    ("@fast:0", "the number of lost devices must be above zero"),
    ("@other::@cheap:3", "the fleet is @dc, not @other"),
    ("@dc::@nosuch:3", "the fleet has no pool @nosuch; it has @fast, @cheap, @small"),
    ("@fast", "write --without=@pool:3"),
    ("@dc::@fast", "write --without=@pool:3"),
    ("", "write --without=@pool:3"),
]


@pytest.mark.parametrize(("lost", "message"), LOST)
def test_wrong_losses(lost: str, message: str) -> None:
    """The error names the fault, and the pools that exist."""
    done = execute(AGENT, FLEET, "--without", lost)
    assert done.returncode == 1
    assert f"--without={lost}: {message}" in done.stderr


def test_a_pool_as_placements_name_it(tmp_path: pathlib.Path) -> None:
    """@dc::@cheap and @cheap are the same pool."""
    short, _ = plan(tmp_path / "a.json", "--without=@cheap:60")
    long, _ = plan(tmp_path / "b.json", "--without=@dc::@cheap:60")
    assert long["replan"].pop("since") == "the loss of @dc::@cheap:60"
    assert short["replan"].pop("since") == "the loss of @cheap:60"
    for result in (long, short):
        result["replan"].pop("text")  # says since when
        result.pop("confidence")  # as many trials as there was time for
    assert long == short


def test_nested_without_end(tmp_path: pathlib.Path) -> None:
    """A parser that recurses must not be led into depths."""
    deep = tmp_path / "deep.json"
    for text in ("[" * 200000, '{"x": "' + "]" * 200000 + '", "y": ' + "[" * 200000):
        deep.write_text(text)
        compare = [str(TOOL), str(deep), f"--compare={deep}"]
        for done in (
            execute(AGENT, FLEET, f"--previous={deep}"),
            subprocess.run(compare, capture_output=True, text=True, check=False),
        ):
            assert done.returncode == 1
            assert f"'{deep}' is nested deeper than 64 levels" in done.stderr


def test_missing_file(tmp_path: pathlib.Path) -> None:
    """A missing file is named, with the reason."""
    done = execute(AGENT, FLEET, f"--previous={tmp_path}/none.json")
    assert done.returncode == 1
    assert f"cannot read '{tmp_path}/none.json': No such file or directory" in done.stderr


def test_a_move_is_no_dollars(old: tuple[pathlib.Path, Result], tmp_path: pathlib.Path) -> None:
    """After a change of the fleet the next best are compared in dollars that are spent; moves are counted apart."""
    file, _ = old
    result = json.loads(file.read_text())
    done = execute(AGENT, FLEET, f"--previous={file}", f"--json={tmp_path / 'new.json'}", "--why")
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "new.json").read_text())
    now = result["totals"]["dollars_per_request"]
    asked = [entry for entry in result["why_not"] if entry["choice"] and "more dollars" in entry["reason"]]
    assert asked
    for entry in asked:
        spent = float(entry["reason"].split()[0])
        moves = re.search(r", (\d+) more moves?$", entry["reason"])
        # The objective of a plan that moves has a thousandth of the plan's cost for each move.
        penalty = int(moves[1]) * now / 1000 if moves else 0
        # The reason has four digits; what a move without costs is worth is left over from two large sums.
        assert entry["objective"] - now == pytest.approx(spent + penalty, abs=6e-4 * spent + 1e-12 * now)
    assert any("more move" in entry["reason"] for entry in asked)
