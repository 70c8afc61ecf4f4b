# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What load tests send, read and compute; the server sleeps instead of computing (fake_openai_server.py)."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import math
import sys
import time
import types
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import serve
from fake_openai_server import STEP
from harness.program import NotMeasuredError
from serving import in_process, measures, pages, rounds, workloads
from serving.measures import Promise
from serving.requests import Record, Request, Target
from serving.sides import Server, SideError
from serving.workloads import Chunks, Guard, Mixed, Phases, Prefix, Schemas, Together, Trace, Users, Workload

FAKE = Path(__file__).with_name("fake_openai_server.py")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    log = tmp_path_factory.mktemp("log") / "fake.log"
    made = Server("fake", [sys.executable, FAKE, "{port}"], log, start_s=20)
    yield made
    made.close()


def is_stopped(server: Server) -> bool:
    """Wait up to a second: a signal arrives when the system runs the process."""
    for _ in range(100):
        if Path(f"/proc/{server._process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T":
            return True
        time.sleep(0.01)
    return False


@dataclasses.dataclass(frozen=True)
class Left(Workload):
    """Asks the server how many clients left."""

    async def run(self, target: Target, round: int) -> Phases:
        url = f"http://127.0.0.1:{target.port}/cancelled"
        left = await asyncio.to_thread(lambda: json.load(urllib.request.urlopen(url, timeout=5)))
        return {"left": left}


@dataclasses.dataclass(frozen=True)
class These(Workload):
    """Prompts that begin with a given token."""

    kinds: tuple[int, ...] = ()

    def requests(self, round: int) -> list[Request]:
        return [Request([kind] + [50] * 9, 5) for kind in self.kinds]


def test_streams_are_read_however_they_are_cut(server):
    records = server.run(These(kinds=(50, 5)), 0)["all"]
    for record in records:
        assert record.failure is None
        assert (record.tokens, len(record.times), record.cached, record.prompt_tokens) == (5, 5, 5, 10)
        assert record.first_s >= 10 * 50e-6
        assert record.whole_s >= 10 * 50e-6 + 4 * STEP
        assert record.token_s == pytest.approx(np.mean(record.gaps_s))
    assert is_stopped(server)  # a side that is not measured takes no time from the others
    assert server.bytes > 5e6


def test_what_goes_wrong_is_said(server):
    records = server.run(These(kinds=(1, 2, 3, 4)), 0)["all"]
    refused, broken, error, short = (record.failure for record in records)
    assert refused == 'status 400: {"error": {"message": "too long"}}'
    assert broken == "the connection ended: before the answer did"
    assert error == '{"message": "out of pages"}'
    assert short == "4 tokens instead of 5"
    assert measures.failures({"all": records})[0] == f"1 requests failed: {refused}"


def test_a_server_that_does_not_start(tmp_path):
    with pytest.raises(SideError, match="fake has ended: no model"):
        Server("fake", [sys.executable, "-c", "raise SystemExit('no model')"], tmp_path / "log")


def test_what_others_are_compared_with_must_start(monkeypatch):
    started = []

    def start(name: str, arguments: Any, cores: Any) -> Any:
        if name == "vllm":
            raise NotMeasuredError("there is no vllm")
        started.append(name)
        return Clock(name, [], [])

    monkeypatch.setattr(serve.peers, "start", start)
    monkeypatch.setattr(serve.machine, "use_cores", lambda threads: [0, 1])
    missing: list[str] = []
    arguments = argparse.Namespace(sides=["ours", "vllm", "openvino"], threads=2, one_core=False)
    assert [side.name for side in serve.start_sides(arguments, missing)] == started == ["ours", "openvino"]
    assert missing == ["vllm is not measured: there is no vllm"]
    arguments.sides = ["vllm", "ours"]
    with pytest.raises(SystemExit, match="there is no vllm"):
        serve.start_sides(arguments, [])


def test_long_prompt_beside_streams(server):
    guard, left = Guard(streams=2, prompt=10, output=16, long=2000), server.run(Left(), 0)["left"]
    phases = server.run(guard, 0)
    assert {name: len(records) for name, records in phases.items()} == {
        "alone": 1,
        "without": 2,
        "with": 2,
        "beside": 1,
    }
    assert phases["beside"][0].prompt_tokens == phases["alone"][0].prompt_tokens == 2000
    assert all(record.cancelled and record.failure is None for record in phases["with"])
    assert not measures.failures(phases)
    assert server.run(Left(), 0)["left"] == left + 2


def test_texts_of_a_schema_are_compared_with_others(server):
    for round in range(2):
        phases = server.run(Schemas(output=8), round)
        assert list(phases) == [["formed", "free"], ["free", "formed"]][round]
        assert not measures.failures(phases)
        figures = measures.of_round(Schemas(), phases, Promise())
        assert figures["formed_over_free"] > 1.1  # 2 on a machine that does nothing else


def test_gaps_while_the_prompt_is_computed():
    record = Record(1, 9, 0.0, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    assert workloads._between(record, 2.5, 4.5).times == [2.0, 3.0, 4.0, 5.0]
    assert workloads._between(record, 0.5, 9.0).times == record.times


def test_figures_of_a_long_prompt_beside_streams():
    alone, beside = Record(2000, 4, 0.0, [2.0], 4), Record(2000, 4, 10.0, [13.0], 4)
    without = Record(10, 4, 5.0, [6.0, 6.1, 6.2, 6.4], 4)
    during = Record(10, 99, 8.0, [9.9, 10.2, 10.5, 11.1, 13.1], cancelled=True)
    phases = {"alone": [alone], "without": [without], "with": [during], "beside": [beside]}
    figures = measures.of_round(Guard(), phases, Promise())
    assert figures["itl_without_p99_ms"] == pytest.approx(np.percentile([100, 100, 200], 99))
    assert figures["itl_with_p50_ms"] == pytest.approx(450)
    assert figures["itl_p99_with_over_without"] == pytest.approx(np.percentile([300, 300, 600, 2000], 99) / 198)
    assert figures["ttft_beside_over_alone"] == pytest.approx(1.5)
    assert figures["tokens_meanwhile_per_s"] == pytest.approx(4 / 3)


def test_figures_of_requests():
    steady = Record(512, 5, 10.0, [11.0, 11.1, 11.2, 11.3, 11.4], 5, cached=256)
    slow = Record(512, 3, 10.0, [16.0, 16.5, 17.0], 3, cached=0)
    refused = Record(512, 3, 12.0, error="status 400")
    figures = measures.of_requests([steady, slow, refused], Promise(first_s=4, token_s=0.25))
    assert figures["seconds"] == pytest.approx(7.0)
    assert figures["tokens_per_s"] == pytest.approx(8 / 7)
    assert (figures["requests"], figures["failed"], figures["cached"]) == (3, 1, 0.25)
    assert figures["goodput"] == pytest.approx(1 / 3)
    assert figures["ttft_p50_ms"] == pytest.approx(3500)
    assert figures["itl_p50_ms"] == pytest.approx(100)
    assert figures["itl_p99_ms"] == pytest.approx(500)
    assert figures["tpot_p95_ms"] == pytest.approx(480)
    assert figures["e2e_p50_ms"] == pytest.approx(4200)
    assert Promise(first_s=6, token_s=0.5).holds(slow)
    assert not Promise(first_s=6, token_s=0.4).holds(slow)
    assert measures.of_requests([refused], Promise()) == {"requests": 1, "failed": 1}


def test_pieces_while_all_streams_run():
    step = 0.05
    streams = [Record(16, 40, 0.0, [0.1 + delay + 0.06 * i for i in range(40)], 40) for delay in (0.0, 0.3)]
    streams[0].times[0] -= 1.0  # a gap before all of them run
    figures = measures.of_round(Chunks(streams=2), {"all": streams}, Promise())
    assert figures["pieces_per_s"] == pytest.approx(2 / 0.06, rel=0.03)
    assert figures["added_p99_ms"] == pytest.approx(60 - 1e3 * step)


def test_time_is_measured_from_when_a_request_was_due():
    class Slow:
        async def generate(self, request: Request, record: Record) -> None:
            record.times = [record.sent + 0.5]

    sent = asyncio.run(workloads.send(Slow(), [Request([1], 1)] * 3, [0.0, 0.01, 0.03]))
    assert np.diff([record.sent for record in sent]) == pytest.approx([0.01, 0.02])


def test_prompts_are_new_each_round_and_the_same_for_each_side():
    prefix = Prefix(count=3, system=100, own=10)
    first, again, other = prefix.requests(0), prefix.requests(0), prefix.requests(1)
    assert first == again
    assert all(request.prompt[:100] == first[0].prompt[:100] for request in first)
    assert len({tuple(request.prompt[100:]) for request in first}) == 3
    assert first[0].prompt[:100] != other[0].prompt[:100]
    assert {len(request.prompt) for request in first} == {110}
    assert sorted(request.max_tokens for request in Mixed().requests(0))[::31] == [8, 256]
    assert len({tuple(request.prompt) for request in Together().requests(0) + Together().requests(1)}) == 16


def test_trace_keeps_lengths_and_comes_at_the_rate():
    trace = Trace(rate=2.0, count=200, divisor=8)

    def lengths(trace: Trace, round: int) -> list[tuple[int, int]]:
        return [(len(request.prompt), request.max_tokens) for request in trace.requests(round)]

    assert {(47, 6), (50, 14), (110, 7)} <= set(lengths(dataclasses.replace(trace, count=1200), 0))  # 374 and 44, …
    # Each round has the same lengths in another order, and they are those of the whole trace in the mean.
    assert lengths(trace, 0) != lengths(trace, 1000)
    assert sorted(lengths(trace, 0)) == sorted(lengths(trace, 1000))
    few, all_of_them = (np.mean(lengths(dataclasses.replace(trace, count=count), 0), 0) for count in (60, 1200))
    assert few == pytest.approx(all_of_them, rel=0.25)
    arrivals = np.array(trace.arrivals_s(0))
    assert np.diff(arrivals).min() > 0
    assert 200 / arrivals[-1] == pytest.approx(2.0, rel=0.2)
    # At twice the rate the same requests come in the same order, at half the times.
    assert dataclasses.replace(trace, rate=4.0).arrivals_s(0) == pytest.approx(arrivals / 2)
    assert dataclasses.replace(trace, bursts=True).arrivals_s(0)[-1] == pytest.approx(199 / 2)
    assert dataclasses.replace(trace, rate=0.0).arrivals_s(0) is None
    assert trace.requests(1)[0] != trace.requests(0)[0]


def test_conversations_grow(server):
    records = server.run(Users(users=2, turns=3, prompt=20, more=5, output=3), 0)["all"]
    assert sorted(record.prompt_tokens for record in records) == [20, 20, 28, 28, 36, 36]
    by_user = sorted(records, key=lambda record: record.sent)
    assert all(record.failure is None for record in records)
    assert by_user[2].sent > min(record.times[-1] for record in by_user[:2])


def test_rate_of_half_the_goodput():
    found = rounds.bisect(lambda rate: min(1.0, 3.0 / rate**2), 1.5, 4.5, 0.5)
    assert found == pytest.approx(math.sqrt(6), rel=0.07)


def test_prompts_of_a_search_are_none_of_the_measured_ones():
    seen: list[int] = []

    class Side:
        name = description = "side"

        def run(self, workload: Workload, round: int) -> Phases:
            seen.append(round)
            return {"all": [Record(1, 10, 0.0, [1.0, 2.0], 10)]}

    rounds.find_rate(Side(), Trace(count=4), 0.5, Promise())
    assert len(set(seen)) == len(seen) == rounds.PROBES + 1
    assert min(seen) >= 1000


class Clock:
    """A side whose rounds take the next of some times."""

    def __init__(self, name: str, seconds: list[float], order: list[str]) -> None:
        self.name, self.description, self.seconds, self.order = name, name, iter(seconds), order

    def run(self, workload: Workload, round: int) -> Phases:
        self.order.append(self.name)
        return {"all": [Record(1, 10, 0.0, [1.0, 1.0 + next(self.seconds)], 10)]}

    def close(self) -> None:
        pass


def test_rounds_alternate_and_are_compared_in_pairs():
    order: list[str] = []
    sides = [Clock("ours", [1.0, 1.0, 3.0], order), Clock("peer", [3.0, 3.0, 9.0], order)]
    figures = rounds.alternate(sides, Together(), 3, Promise())
    assert order == ["ours", "peer", "peer", "ours", "ours", "peer"]
    ratios = measures.ratios(figures["ours"], figures["peer"])
    assert ratios["tokens_per_s"]["ratio"] == pytest.approx(2.0)  # 10 tokens in 2 s, 2 s, 4 s against 4 s, 4 s, 10 s
    assert ratios["tokens_per_s"]["low"] == pytest.approx(2.0)
    assert ratios["tokens_per_s"]["high"] == pytest.approx(2.5)
    assert ratios["itl_p50_ms"]["ratio"] == pytest.approx(1 / 3)
    result = {"workload": "together", "options": {"streams": 8}, "rounds": figures, "ratios": {"peer": ratios}}
    page = pages.render([result], {"ours": "intarsia serve"}, ["vllm is not measured: …"], 0.1)
    assert "|  | ours | peer | ratio to peer |" in page
    assert "| tokens/s | 5.0 | 2.5 | 2.00 [2.00, 2.50] |" in page
    assert "- ours: `intarsia serve`" in page
    assert "- vllm is not measured: …" in page


def test_requests_that_are_there_together_are_one_call():
    calls = []

    def generate(prompts: list[list[int]], max_tokens: int, min_tokens: int) -> list[Any]:
        assert min_tokens == max_tokens, "no text ends before its time"
        calls.append((prompts, max_tokens))
        return [types.SimpleNamespace(ids=list(range(max_tokens))) for _ in prompts]

    engine = in_process.Generate.__new__(in_process.Generate)
    engine.generator, engine.waiting, engine.holds_on = types.SimpleNamespace(generate=generate), [], True
    task = {"workload": "mixed", "options": {"count": 4, "prompt": 3}, "round": 0}
    phases = measures.from_json(json.loads(json.dumps(asyncio.run(in_process.run(engine, task)))))
    assert [(len(prompts), most) for prompts, most in calls] == [(1, 4), (4, 256)]
    assert sorted(record.tokens for record in phases["all"]) == [8, 25, 81, 256]
    assert not any(record.failure for record in phases["all"])


def test_fields_are_set_by_their_types():
    assert serve.set_fields("trace", ["rate=1.5", "bursts=true", "count=7"]) == Trace(rate=1.5, bursts=True, count=7)
    with pytest.raises(SystemExit, match="together has no field 'turns'; it has seed, vocabulary, streams"):
        serve.set_fields("together", ["turns=3"])
    with pytest.raises(SystemExit, match="'many' is no int"):
        serve.set_fields("together", ["streams=many"])
