#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An engine that runs the workloads of bench/serve.py in its own process, without HTTP (protocol: bench/common/Worker.h).

`run {"workload": NAME, "options": {…}, "round": N}` answers with the records of each phase.

usage: in_process.py openvino|generate MODEL [--threads=2] [--cache=4] [--step-tokens=256]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from serving.requests import Record, Request
from serving.workloads import make_workload, send


class OpenVino:
    """OpenVINO GenAI's continuous batching; a step computes parts of prompts and one token of each other request."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        import openvino
        import openvino_genai

        self.genai, self.tensor = openvino_genai, openvino.Tensor
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.cache_size = arguments.cache
        scheduler.max_num_batched_tokens = arguments.step_tokens
        scheduler.enable_prefix_caching = True
        options = {"INFERENCE_NUM_THREADS": arguments.threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY"}
        self.pipeline = openvino_genai.ContinuousBatchingPipeline(
            arguments.model, scheduler_config=scheduler, device="CPU", properties=options
        )
        self.version = f"openvino-genai {openvino_genai.__version__.split('-')[0]}"
        self.settings = options | {
            "cache_size": arguments.cache,
            "max_num_batched_tokens": arguments.step_tokens,
            "enable_prefix_caching": True,
        }
        self.number = 0
        self.active: dict[int, tuple[Any, Record, asyncio.Future[None]]] = {}
        self.stepping: asyncio.Task[None] | None = None

    async def generate(self, request: Request, record: Record) -> None:
        config = self.genai.GenerationConfig()
        config.max_new_tokens = request.max_tokens
        config.ignore_eos, config.do_sample = True, False
        self.number += 1
        number = self.number
        handle = self.pipeline.add_request(number, self.tensor(np.array([request.prompt], np.int64)), config)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.active[number] = (handle, record, done)
        if self.stepping is None or self.stepping.done():
            self.stepping = asyncio.create_task(self._steps())
        try:
            await done
        except asyncio.CancelledError:
            record.cancelled = True
            handle.cancel()
            raise
        finally:
            del self.active[number]

    async def _steps(self) -> None:
        # Cancelled requests are cleared by a step, too.
        while self.active or self.pipeline.has_non_finished_requests():
            self.pipeline.step()
            now = time.perf_counter()
            for handle, record, done in list(self.active.values()):
                if handle.can_read():
                    count = sum(len(output.generated_ids) for output in handle.read().values())
                    record.times += [now] * bool(count)
                    record.tokens += count
                elif handle.get_status() != self.genai.GenerationStatus.RUNNING and not done.done():
                    done.set_result(None)
            await asyncio.sleep(0)


class Generate:
    """`Generator.generate`: requests that are there together are one call, which takes as long as its longest answer."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        import intarsia

        intarsia.set_threads(arguments.threads)
        self.generator = intarsia.Generator(arguments.model)
        self.version = f"Intarsia {intarsia.__version__}"
        self.settings = {"threads": arguments.threads}
        self.waiting: list[tuple[Request, Record]] = []
        # Texts do not end before their time, as in a server that is told `ignore_eos`; older builds cannot be told so.
        self.holds_on = hasattr(intarsia, "SamplingOptions")

    async def generate(self, request: Request, record: Record) -> None:
        self.waiting.append((request, record))
        await asyncio.sleep(0)
        together, self.waiting = self.waiting, []
        if not together:
            return  # part of the call of another request
        longest = max(one.max_tokens for one, _ in together)
        options = {"min_tokens": longest} if self.holds_on else {}
        results = self.generator.generate([one.prompt for one, _ in together], longest, **options)
        now = time.perf_counter()
        for (one, its), result in zip(together, results, strict=True):
            its.tokens = min(one.max_tokens, len(result.ids))
            its.times = [now]


ENGINES = {"openvino": OpenVino, "generate": Generate}


async def run(engine: Any, task: dict[str, Any]) -> dict[str, Any]:
    if task["workload"] == "schemas":
        raise ValueError("engines without HTTP are not asked for schemas")
    await send(engine, [Request(list(range(100, 132)), 4)])
    phases = await make_workload(task["workload"], task["options"]).run(engine, task["round"])
    return {name: [vars(record) for record in records] for name, records in phases.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description="An engine that runs the workloads of bench/serve.py without HTTP.")
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cache", type=int, default=4, help="gigabytes for keys and values")
    parser.add_argument("--step-tokens", type=int, default=256)
    arguments = parser.parse_args()
    # Libraries may print to standard output, which is for answers.
    answers = os.dup(1)
    os.dup2(2, 1)

    def answer(value: dict[str, Any]) -> None:
        os.write(answers, json.dumps(value).encode() + b"\n")

    engine = ENGINES[arguments.engine](arguments)
    answer({"ready": True, "version": engine.version, "settings": engine.settings})
    for line in sys.stdin:
        command, _, rest = line.strip().partition(" ")
        if command != "run":
            answer({"error": f"unknown command '{command}'"})
            continue
        try:
            answer({"phases": asyncio.run(run(engine, json.loads(rest)))})
        except Exception as error:
            answer({"error": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    main()
