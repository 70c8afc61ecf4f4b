# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Counters and histograms in Prometheus' text format, with the names and buckets of vLLM."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

# vllm/v1/metrics/loggers.py
_FIRST = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
    *(160.0, 640.0, 2560.0),
)
_BETWEEN = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)
_REQUEST = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0),
    *(1920.0, 7680.0),
)
_ITERATION = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)


def _tokens(most: int) -> tuple[int, ...]:
    """Return 1, 2, 5, 10, … up to the context (build_1_2_5_buckets of vLLM)."""
    values = (factor * 10**power for power in range(10) for factor in (1, 2, 5))
    return tuple(value for value in values if value <= most)


class Histogram:
    """Counts of values by bucket."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def quantile(self, share: float) -> float:
        """Return the bound below which so large a share of the values lies; 0 without values."""
        wanted, seen = share * sum(self.counts), 0
        for bound, count in zip(self.bounds, self.counts, strict=False):
            seen += count
            if seen and seen >= wanted:
                return bound
        return self.bounds[-1] if seen else 0.0

    def lines(self, name: str, labels: str) -> Iterable[str]:
        """Yield the lines of the text format."""
        seen = 0
        for bound, count in zip(self.bounds, self.counts, strict=False):
            seen += count
            yield f'{name}_bucket{{{labels},le="{float(bound)}"}} {seen}'
        seen += self.counts[-1]
        yield f'{name}_bucket{{{labels},le="+Inf"}} {seen}'
        yield f"{name}_sum{{{labels}}} {self.total}"
        yield f"{name}_count{{{labels}}} {seen}"


class ModelMetrics:
    """What is counted of one model by the server; the engine counts the rest.

    Attributes
    ----------
    slow_clients : int
        Streams that were cut, because their clients did not read.
    """

    def __init__(self, context: int) -> None:
        self.first_token = Histogram(_FIRST)
        self.between_tokens = Histogram(_BETWEEN)
        self.end_to_end, self.queue = Histogram(_REQUEST), Histogram(_REQUEST)
        self.prefill, self.decode = Histogram(_REQUEST), Histogram(_REQUEST)
        self.iteration = Histogram(_ITERATION)
        self.request_prompt, self.request_generated = Histogram(_tokens(context)), Histogram(_tokens(context))
        self.reasons: Counter[str] = Counter({"stop": 0, "length": 0, "abort": 0, "error": 0})
        self.slow_clients = 0

    def first(self, seconds: float, waited: float, prefill: float) -> None:
        """Count the first token of a request."""
        self.first_token.add(seconds)
        self.queue.add(waited)
        self.prefill.add(prefill)

    def ended(self, seconds: float, decode: float, prompt_tokens: int, generated_tokens: int) -> None:
        """Count a request that has ended by itself."""
        self.end_to_end.add(seconds)
        self.decode.add(decode)
        self.request_prompt.add(prompt_tokens)
        self.request_generated.add(generated_tokens)

    def finished(self, reason: str, samples: int) -> None:
        """Count samples that have ended."""
        self.reasons[reason] += samples


#: Gauges and counters that the engine has: name, kind, and what is computed of its counters.
_OF_ENGINE: tuple[tuple[str, str, str, Any], ...] = (
    ("num_requests_running", "gauge", "Samples that are computed.", lambda s: s["running"]),
    ("num_requests_waiting", "gauge", "Samples that wait.", lambda s: s["waiting"]),
    (
        "kv_cache_usage_perc",
        "gauge",
        "Share of the cache's pages that are in use; 1 is all.",
        lambda s: 1 - s["free_pages"] / s["pages"] if s["pages"] else 0.0,
    ),
    ("prefix_cache_queries_total", "counter", "Prompt tokens that were looked for.", lambda s: s["prompt_tokens"]),
    ("prefix_cache_hits_total", "counter", "Prompt tokens that were there.", lambda s: s["cached_tokens"]),
    (
        "num_preemptions_total",
        "counter",
        "Samples that had to leave the cache for others.",
        lambda s: s["preemptions"],
    ),
    ("prompt_tokens_total", "counter", "Prompt tokens.", lambda s: s["prompt_tokens"]),
    ("generation_tokens_total", "counter", "Generated tokens.", lambda s: s["generated_tokens"]),
    ("kept_tokens", "gauge", "Tokens of ended requests whose state is kept.", lambda s: s["kept_tokens"]),
    (
        "moved_sequences_total",
        "counter",
        "Texts whose state was moved out of the cache.",
        lambda s: s["moved_sequences"],
    ),
    ("lost_sequences_total", "counter", "Texts that had no room where they move to.", lambda s: s["lost_sequences"]),
    (
        "recomputed_sequences_total",
        "counter",
        "Samples that were computed again.",
        lambda s: s["recomputed_sequences"],
    ),
    ("draft_tokens_total", "counter", "Tokens that the draft model proposed.", lambda s: s["draft_tokens"]),
    ("accepted_tokens_total", "counter", "Of these, those that were taken.", lambda s: s["accepted_tokens"]),
    ("steps_total", "counter", "Forward steps.", lambda s: s["steps"]),
    ("step_seconds_total", "counter", "Time of all forward steps.", lambda s: s["step_seconds"]),
    ("engine_seconds_total", "counter", "The engine's own time between them.", lambda s: s["engine_seconds"]),
)

_OF_SERVER: tuple[tuple[str, str, str], ...] = (
    ("time_to_first_token_seconds", "first_token", "Time to the first token."),
    ("inter_token_latency_seconds", "between_tokens", "Time between two tokens."),
    ("e2e_request_latency_seconds", "end_to_end", "Time of a whole request."),
    ("request_queue_time_seconds", "queue", "Time until the prompt was begun."),
    ("request_prefill_time_seconds", "prefill", "Time of the prompt."),
    ("request_decode_time_seconds", "decode", "Time from the first token to the last."),
    ("iteration_tokens_total", "iteration", "Tokens that a step has generated."),
    ("request_prompt_tokens", "request_prompt", "Prompt tokens of a request."),
    ("request_generation_tokens", "request_generated", "Generated tokens of a request."),
)


def exposition(
    models: Mapping[str, tuple[ModelMetrics, Mapping[str, Any]]],
    server: Mapping[str, tuple[str, str, float]],
    prefix: str,
) -> str:
    """Return all metrics as text.

    Parameters
    ----------
    models : mapping
        By name: the server's counters and the engine's, which are empty while there is no engine.
    server : mapping
        Metrics of no model: kind, description and value.
    prefix : str
        What names begin with: ``"intarsia_"`` or ``"vllm:"``.
    """
    lines: list[str] = []

    def head(name: str, kind: str, text: str) -> None:
        lines.extend((f"# HELP {prefix}{name} {text}", f"# TYPE {prefix}{name} {kind}"))

    labels = {name: f'model_name="{_escaped(name)}",engine="0"' for name in models}
    for name, kind, text, value in _OF_ENGINE:
        head(name, kind, text)
        lines.extend(
            f"{prefix}{name}{{{labels[model]}}} {value(stats)}" for model, (_, stats) in models.items() if stats
        )
    head("request_success_total", "counter", "Samples that have ended, by reason.")
    for model, (metrics, _) in models.items():
        for reason, count in sorted(metrics.reasons.items()):
            lines.append(f'{prefix}request_success_total{{{labels[model]},finished_reason="{reason}"}} {count}')
    for name, attribute, text in _OF_SERVER:
        head(name, "histogram", text)
        for model, (metrics, _) in models.items():
            lines.extend(getattr(metrics, attribute).lines(prefix + name, labels[model]))
    head("slow_clients_total", "counter", "Streams that were cut, because nobody read them.")
    lines.extend(f"{prefix}slow_clients_total{{{labels[model]}}} {m.slow_clients}" for model, (m, _) in models.items())
    for name, (kind, text, value) in server.items():
        head(name, kind, text)
        lines.append(f"{prefix}{name} {value}")
    return "\n".join(lines) + "\n"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
