# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The planner's HTML report as a browser shows it, its decisions and its sensitivities."""

from __future__ import annotations

import html.parser
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import typing

import jsonschema
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = pathlib.Path(os.environ.get("INTARSIA_BUILD_DIR", ROOT / "build" / "dev")) / "bin" / "intarsia-plan"
AGENTS = ROOT / "examples" / "agents"
FLEET = ROOT / "examples" / "fleets" / "dc.mlir"
SCHEMA = json.loads((ROOT / "docs" / "plan.schema.json").read_text())
BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome")

# Runs in a copy of the page: which texts leave their image, their card or each other's way. Widths of text are those of
# the machine's fonts.
MEASURE = """<script>
const faults = [];
window.onerror = message => faults.push('script: ' + message);
const box = node => node.getBoundingClientRect();
const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
  && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3;
let texts = 0, cards = 0;
for (const svg of document.querySelectorAll('svg[role=img]')) {
  const around = box(svg), all = [...svg.querySelectorAll('text')];
  texts += all.length;
  all.forEach((text, index) => {
    const own = box(text);
    if (own.left < around.left - 1 || own.right > around.right + 1 || own.top < around.top - 1
        || own.bottom > around.bottom + 1)
      faults.push('outside of its image: ' + text.textContent);
    for (const other of all.slice(index + 1))
      if (meet(own, box(other)))
        faults.push('over each other: ' + text.textContent + ' | ' + other.textContent);
    const card = text.parentNode.querySelector(':scope > rect.card');
    if (card && (++cards, own.right > box(card).right - 1 || own.bottom > box(card).bottom))
      faults.push('outside of its card: ' + text.textContent);
  });
  const boxes = [...svg.querySelectorAll('rect.card')];
  boxes.forEach((card, index) => boxes.slice(index + 1).forEach(other => {
    if (meet(box(card), box(other)))
      faults.push('cards over each other');
  }));
}
for (const section of document.querySelectorAll('section'))
  if (section.scrollWidth > section.clientWidth)
    faults.push('too wide: ' + section.id);
const result = document.createElement('pre');
result.id = 'measured';
result.textContent = JSON.stringify({texts, cards, faults});
document.body.append(result);
</script>"""


class Page(html.parser.HTMLParser):
    """Tags with their attributes, texts, sections, and the cells of tables by section."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.rows: dict[str, list[list[str]]] = {}
        self.section = ""
        self.in_cell = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the tag."""
        values = dict(attrs)
        self.tags.append((tag, values))
        if tag == "section":
            self.section = values["id"] or ""
            self.rows[self.section] = []
        elif tag == "tr" and self.section:
            self.rows[self.section].append([])
        elif tag in {"td", "th"} and self.section:
            self.rows[self.section][-1].append("")
            self.in_cell = True

    def handle_endtag(self, tag: str) -> None:
        """Leave a cell."""
        if tag in {"td", "th"}:
            self.in_cell = False

    def handle_data(self, data: str) -> None:
        """Keep the text."""
        self.texts.append(data)
        if self.in_cell:
            self.rows[self.section][-1][-1] += data


def run(agent: pathlib.Path, *flags: str, fleet: pathlib.Path | None = FLEET, code: int = 0) -> str:
    """Plan an agent and return the printed text."""
    command = [str(TOOL), str(agent), *flags, *([f"--fleet={fleet}"] if fleet else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def plan_json(path: pathlib.Path) -> dict[str, typing.Any]:
    """Read a plan that fits the schema."""
    result = json.loads(path.read_text())
    jsonschema.validate(result, SCHEMA, jsonschema.Draft202012Validator)
    return result


def measured(report: pathlib.Path, width: int) -> dict[str, typing.Any]:
    """Open the report in a headless browser and measure its drawings."""
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    assert browser, f"none of {', '.join(BROWSERS)} is installed; run scripts/setup-packages.sh"
    page = report.with_name(f"measured{width}.html")
    page.write_text(report.read_text().replace("</body>", MEASURE + "</body>"))
    done = subprocess.run(
        [browser, "--no-sandbox", "--disable-gpu", f"--window-size={width},2000", "--dump-dom", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found = re.search(r'<pre id="measured">(.*?)</pre>', done.stdout, re.S)
    assert found, done.stdout[-2000:] + done.stderr
    return json.loads(html.unescape(found.group(1)))


def check(report: pathlib.Path, sections: set[str]) -> Page:
    """Check every report: it fetches nothing and runs nothing, and its texts neither overflow nor overlap."""
    text = report.read_text()
    page = Page(text)
    assert sections == set(page.rows)
    tags = {tag for tag, _ in page.tags}
    assert not tags & {"script", "link", "img", "iframe", "object", "embed", "base", "form"}
    for tag, attributes in page.tags:
        for name, value in attributes.items():
            assert not name.startswith("on"), (tag, name)
            assert name not in {"src", "srcset", "xlink:href", "data"}, (tag, name)
            assert name != "href" or (value or "").startswith("#"), (tag, value)
    assert not re.search(r"https?:|@import|url\((?!#)", text)
    for width in (1200, 900):
        result = measured(report, width)
        assert result["texts"] > 0 or "graph" not in sections
        assert not result["faults"], result["faults"]
    return page


PLANNED = {"checks", "summary", "placements", "graph", "request", "utilization", "why-not", "sensitivity", "notes"}


@pytest.mark.parametrize("agent", ["react", "coding_agent", "debate", "long_document_qa", "speech_assistant"])
def test_reports_of_examples(agent: str, tmp_path: pathlib.Path) -> None:
    """The page has all sections with all pieces, and their figures are those of the JSON."""
    report, plan = tmp_path / "plan.html", tmp_path / "plan.json"
    run(AGENTS / f"{agent}.mlir", f"--report={report}", f"--json={plan}", "--time-limit=5")
    page, pieces = check(report, PLANNED), plan_json(plan)["pieces"]
    placements = {row[0]: row for row in page.rows["placements"][1:]}
    assert set(placements) == {piece["name"] for piece in pieces}
    for piece in pieces:
        row = placements[piece["name"]]
        if not piece["outside"]:
            assert row[1] == f"@{piece['pool']}"
            assert row[2] == (piece["precision"] or "")
            assert [cell.replace(",", "") for cell in row[4:7]] == [
                str(piece[key]) for key in ("batch", "replicas", "devices")
            ]
    # Each task is drawn once in the graph: names are broken over lines, so words are compared.
    drawn = "".join("".join(page.texts).split())
    for piece in pieces:
        for task in piece["tasks"]:
            assert "".join(task["task"].split()) in drawn


def test_report_with_everything(tmp_path: pathlib.Path) -> None:
    """The page shows a front, a simulation and sensitivities; a chain takes the sum of its parts."""
    report, plan = tmp_path / "plan.html", tmp_path / "plan.json"
    printed = run(
        AGENTS / "rag_chat.mlir",
        f"--report={report}",
        f"--json={plan}",
        "--pareto=3",
        "--simulate=2000",
        "--sensitivity",
        "--time-limit=20",
    )
    page, result = check(report, PLANNED | {"pareto"}), plan_json(plan)
    assert "what would change the plan:" in printed
    assert len(page.rows["pareto"]) == 1 + len(result["pareto"])
    assert len(page.rows["sensitivity"]) == 1 + len(result["sensitivity"])
    assert [row[0] for row in page.rows["why-not"][1:] if row[0]] == list(
        dict.fromkeys(entry["piece"] for entry in result["why_not"])
    )
    assert any("simulated" in cell for row in page.rows["summary"] for cell in row)
    # task, turn, transfer, in the queue, served from, first output, end, critical
    steps = page.rows["request"][1:]
    assert [row[0] for row in steps] == [piece["name"] for piece in result["pieces"]]
    assert all(row[7] == "yes" for row in steps)
    assert steps[-1][6].endswith(" s")
    sums = sum(piece["milliseconds"] + piece["wait_ms"] for piece in result["pieces"])
    assert float(steps[-1][6].removesuffix(" s")) * 1000 == pytest.approx(sums, rel=0.01)


def test_report_of_checks(tmp_path: pathlib.Path) -> None:
    """Confidence, rounds and promises that the simulation breaks stand on the page as they are in the JSON."""
    report, plan = tmp_path / "plan.html", tmp_path / "plan.json"
    agent = AGENTS / "rag_chat.mlir"
    flags = (f"--report={report}", f"--json={plan}", "--why=false", "--sensitivity=false")
    run(agent, *flags, "--confidence=0.9")
    sections = PLANNED - {"why-not", "sensitivity"}
    page, confidence = check(report, sections), plan_json(plan)["confidence"]
    assert len(confidence["rounds"]) > 1
    assert set(confidence["rounds"]) <= set(page.texts)
    (of,) = confidence["agents"]
    head, row = page.rows["checks"]
    assert head == ["agent", "holds with", "broken in"]
    assert row[:2] == ["@chat", f"{of['probability']:.3f} ± {of['standard_error']:.3f}"]
    assert f"first token {of['broken']['first_token']:.1%}" in row[2]
    assert any("at least the 0.9 that was asked for" in text for text in page.texts)

    # The planner's own figure just keeps the promise; the simulated one exceeds it. Headroom would have kept it.
    tight, flags = tmp_path / "agent.mlir", (*flags, "--headroom=0")
    run(agent, *flags)
    bound = math.ceil(plan_json(plan)["agents"][0]["first_token_ms"])
    tight.write_text(agent.read_text().replace("ttft_ms = 1000", f"ttft_ms = {bound}"))
    run(tight, *flags, "--simulate=20000")
    page, (broken,) = check(report, sections), plan_json(plan)["simulation"]["broken"]
    text = f"@chat breaks its promise: first token {broken['simulated_ms']:.1f} of {bound:.1f} ms; --tighten plans until it holds"
    assert text in page.texts
    assert "not all promises hold." in page.texts
    run(tight, *flags, "--tighten", "--simulate=20000")
    page, rounds = check(report, sections), plan_json(plan)["simulation"]["rounds"]
    assert len(rounds) > 1
    assert set(rounds) <= set(page.texts)
    assert any("all promises hold." in text for text in page.texts)


def test_report_of_changes(tmp_path: pathlib.Path) -> None:
    """The moves since an earlier plan, and the cost of staying, are as in the JSON."""
    report, old, plan = tmp_path / "plan.html", tmp_path / "old.json", tmp_path / "plan.json"
    flags = ("--why=false", "--sensitivity=false", f"--report={report}")
    run(AGENTS / "rag_chat.mlir", *flags, f"--json={old}")
    run(AGENTS / "rag_chat.mlir", *flags, f"--json={plan}", f"--previous={old}", "--without=@cheap:60")
    page, replan = check(report, PLANNED - {"why-not", "sensitivity"} | {"changes"}), plan_json(plan)["replan"]
    assert page.rows["changes"][1:] == [
        [
            entry["piece"],
            entry["before"],
            entry["now"] if entry["moves"] else "",
            str(entry["replicas_before"]),
            str(entry["replicas_now"]),
        ]
        for entry in replan["changes"]
    ]
    assert replan["changes"]
    (broken,) = replan["stay"]["breaks"]
    assert any(f"it cannot stay as it was: {broken}" in text for text in page.texts)


def test_names_are_escaped(tmp_path: pathlib.Path) -> None:
    """Names that look like markup are text."""
    agent, report = tmp_path / "agent.mlir", tmp_path / "plan.html"
    fleet = tmp_path / "fleet.mlir"
    label = "a<script>&amp;\"'</title>"
    quoted = label.replace('"', '\\"')
    text = (AGENTS / "rag_chat.mlir").read_text()
    agent.write_text(text.replace('"answer"', f'"{quoted}"').replace("@chat(", f'@"{quoted}"('))
    fleet.write_text(FLEET.read_text().replace("@cheap", '@"<b>&\\""'))
    run(agent, f"--report={report}", "--time-limit=5", fleet=fleet)
    page = check(report, PLANNED)
    assert f"Plan of {label}" in page.texts
    assert [row[0] for row in page.rows["placements"]][-1] == f"{label}.decode"
    assert page.rows["placements"][-1][1] == '@<b>&"'
    assert "<b>&" not in report.read_text()


def test_report_of_conflicts(tmp_path: pathlib.Path) -> None:
    """If the request is infeasible, the page lists the conflicts and the values that would be enough."""
    agent, report, plan = tmp_path / "agent.mlir", tmp_path / "plan.html", tmp_path / "plan.json"
    agent.write_text((AGENTS / "rag_chat.mlir").read_text().replace("tbt_ms = 50", "tbt_ms = 1"))
    run(agent, f"--report={report}", f"--json={plan}", code=2)
    page = check(report, {"conflicts", "notes"})
    (conflict,) = plan_json(plan)["conflicts"]
    _, (asked, given, would_do) = page.rows["conflicts"]
    assert asked == conflict["text"]
    assert float(given) == conflict["given"]
    assert float(would_do) == pytest.approx(conflict["would_do"], rel=5e-3)


def test_prices_change_the_plan_where_it_says(tmp_path: pathlib.Path) -> None:
    """Planned again at a price just before the named one the choices stay, just beyond it they move."""
    plan, fleet = tmp_path / "plan.json", tmp_path / "fleet.mlir"
    agent = AGENTS / "rag_chat.mlir"

    def choices(pool: str = "", price: float = 0) -> dict[str, tuple[typing.Any, ...]]:
        text, count = re.subn(
            rf"(fleet.pool @{pool} of @\w+ count \d+ per_node \d+).*",
            rf"\1 price #fleet.rental<dollars_per_hour = {price}>",
            FLEET.read_text(),
        )
        assert count == bool(pool)
        fleet.write_text(text)
        run(agent, "--why=false", f"--json={plan}", *([] if pool else ["--sensitivity"]), fleet=fleet)
        # Batches are left out: two of them may cost the same, and either is the best plan.
        keys = ("pool", "precision", "tensor", "expert", "data")
        return {piece["name"]: tuple(piece[key] for key in keys) for piece in plan_json(plan)["pieces"]}

    before = choices()
    # A busy machine may leave some questions open.
    values = [
        (entry["of"], entry[side], outwards, entry[f"moves_{side}"])
        for entry in plan_json(plan)["sensitivity"]
        for side, outwards in (("above", 1), ("below", -1))
        if entry["figure"] == "price" and entry[side]
    ]
    assert values
    for pool, value, outwards, moves in values[:3]:
        assert moves
        assert choices(pool, value * (1 - outwards * 0.003)) == before
        after = choices(pool, value * (1 + outwards * 0.003))
        assert {name for name in before if before[name] != after[name]} >= set(moves)


def test_decisions_have_the_form_of_the_compiler(tmp_path: pathlib.Path) -> None:
    """The fields that all phases' decisions have, and the alternatives that the plan's JSON has."""
    trace, plan = tmp_path / "why.json", tmp_path / "plan.json"
    agent = tmp_path / "agent.mlir"
    text = (AGENTS / "rag_chat.mlir").read_text()
    pinned = text.replace('{label = "find"', '{label = "find", place = #fleet.placement<@dc::@small>')
    assert pinned != text
    agent.write_text(FLEET.read_text() + pinned)
    run(agent, f"--explain={trace}", f"--json={plan}", "--time-limit=10", fleet=None)
    decisions = json.loads(trace.read_text())
    result = plan_json(plan)
    assert decisions["format"] == 1
    assert decisions["unit"] == result["objective"]
    by_piece = {decision["root"]: decision for decision in decisions["decisions"]}
    assert set(by_piece) == {piece["name"] for piece in result["pieces"] if not piece["outside"]}
    assert len({decision["id"] for decision in by_piece.values()}) == len(by_piece)
    shared = {"id", "pass", "function", "location", "root", "op", "chosen", "reason", "forced"}
    for piece in result["pieces"]:
        decision = by_piece[piece["name"]]
        assert shared <= set(decision)
        assert decision["location"] == piece["tasks"][0]["location"]
        assert decision["chosen"].split()[0] == f"@{piece['pool']}"
        assert decision["forced"] == piece["name"].startswith("find.")
        assert [other["cost"] for other in decision["alternatives"]] == pytest.approx(
            [entry["objective"] for entry in result["why_not"] if entry["piece"] == piece["name"]]
        )


def test_agent_of_the_page(tmp_path: pathlib.Path) -> None:
    """The Python of docs/plan.md makes the agent of the example, from which the page's figures are."""
    block = re.search(r"```python\n(.*?)```", (ROOT / "docs" / "plan.md").read_text(), re.S)
    assert block
    (tmp_path / "chat.py").write_text(block.group(1))
    done = subprocess.run([sys.executable, tmp_path / "chat.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (
        re.sub(r" loc\(.*?\)", "", done.stdout).strip()
        == re.sub(r" loc\(.*?\)", "", (AGENTS / "rag_chat.mlir").read_text()).strip()
    )


def test_outputs_are_checked_first(tmp_path: pathlib.Path) -> None:
    """A result that cannot be written, or would replace another, is an error before the work, not after."""
    for flags, message in [
        ([f"--report={tmp_path}/missing/plan.html"], "cannot be written"),
        ([f"--report={tmp_path}/a", f"--json={tmp_path}/a"], "two results would be written to this file"),
    ]:
        done = subprocess.run(
            [str(TOOL), str(AGENTS / "rag_chat.mlir"), f"--fleet={FLEET}", *flags],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1
        assert message in done.stderr
        assert not done.stdout
