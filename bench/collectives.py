#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times all-reduces of f32 between processes of this host against OpenMPI, in alternating rounds.

``scripts/setup-packages.sh scripts/packages-bench.txt`` installs OpenMPI. Prints a table: microseconds of a call
(median of rounds of their medians), OpenMPI's time over ours with its 95 % interval, and the same for the fastest call of
each round, which other work on the machine disturbs least.

With ``--gbps`` there are two hosts instead, with networks of their own and a link of so many Gbit/s between them (root and
iproute2 are needed): messages in f32 against those that are rounded to 8 bits.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from harness.ratios import Comparison

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "bench/collectives/all_reduce.c"
SIZES = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20]


class World:
    """The ranks of one engine; rank 0 answers requests."""

    def __init__(self, commands: list[tuple[list[str], dict[str, str], int | None]]) -> None:
        self.ranks = []
        for index, (command, environment, processor) in enumerate(commands):
            self.ranks.append(
                subprocess.Popen(
                    command,
                    env={**os.environ, **environment},
                    stdin=subprocess.PIPE if index == 0 else subprocess.DEVNULL,
                    stdout=subprocess.PIPE if index == 0 else subprocess.DEVNULL,
                    text=True,
                )
            )
            if processor is not None:
                os.sched_setaffinity(self.ranks[-1].pid, {processor})

    def time_us(self, size: int, calls: int) -> tuple[float, float]:
        """Return the microseconds of a call: the median and the fastest."""
        first = self.ranks[0]
        first.stdin.write(f"{size} {calls}\n")
        first.stdin.flush()
        answer = first.stdout.readline()
        if not answer:
            raise RuntimeError("a rank has ended: see its message")
        median, fastest = map(float, answer.split())
        return median, fastest

    def close(self) -> None:
        """End the ranks."""
        self.ranks[0].stdin.write("0 0\n")
        self.ranks[0].stdin.close()
        for rank in self.ranks:
            rank.wait(timeout=20)


def ours(program: Path, ranks: int) -> World:
    """Start ranks of this runtime, each on its processor."""
    processors = sorted(os.sched_getaffinity(0))
    address = f"local:bench-{secrets.token_hex(8)}"
    return World(
        [
            (
                [str(program)],
                {"ITX_WORLD_SIZE": str(ranks), "ITX_WORLD_RANK": str(rank), "ITX_WORLD_ADDRESS": address},
                processors[rank % len(processors)],
            )
            for rank in range(ranks)
        ]
    )


@contextlib.contextmanager
def networks(gbps: float) -> Iterator[list[str]]:
    """Make two hosts with a link of a given speed, and give their names; the first one is 10.78.0.1."""
    tag = secrets.token_hex(3)
    hosts = [f"bench-{tag}-{name}" for name in "ab"]

    def run(words: str) -> None:
        subprocess.run(words.split(), check=True)

    try:
        for host in hosts:
            run(f"ip netns add {host}")
        run(f"ip link add name v{tag}0 netns {hosts[0]} type veth peer name v{tag}1 netns {hosts[1]}")
        for number, host in enumerate(hosts):
            run(f"ip -n {host} addr add 10.78.0.{number + 1}/24 dev v{tag}{number}")
            run(f"ip -n {host} link set v{tag}{number} up")
            run(f"tc -n {host} qdisc add dev v{tag}{number} root tbf rate {gbps}gbit burst 512kb latency 50ms")
        yield hosts
    finally:
        for host in hosts:
            subprocess.run(["ip", "netns", "del", host], check=False)


def apart(program: Path, hosts: list[str], token: Path, port: int, more: dict[str, str]) -> World:
    """Start a rank of this runtime on each host."""
    processors = sorted(os.sched_getaffinity(0))
    return World(
        [
            (
                ["ip", "netns", "exec", host, str(program)],
                {
                    "ITX_WORLD_SIZE": str(len(hosts)),
                    "ITX_WORLD_RANK": str(rank),
                    "ITX_WORLD_ADDRESS": f"tcp:10.78.0.1:{port}",
                    "ITX_WORLD_TOKEN_FILE": str(token),
                    **more,
                },
                processors[rank % len(processors)],
            )
            for rank, host in enumerate(hosts)
        ]
    )


def mpi(program: Path, ranks: int) -> World:
    """Start ranks of OpenMPI, which binds them if there are enough processors."""
    command = ["mpirun", "-n", str(ranks), "--allow-run-as-root", "--oversubscribe"]
    command += ["--bind-to", "core" if ranks <= len(os.sched_getaffinity(0)) else "none"]
    return World([([*command, str(program)], {}, None)])


def build(folder: Path, runtime: Path, *, with_peer: bool) -> tuple[Path, Path]:
    """Compile the program for this runtime, and for OpenMPI."""
    own, peer = folder / "ours", folder / "mpi"
    flags = ["-O2", f"-I{ROOT / 'include'}", str(SOURCE)]
    subprocess.run(["cc", *flags, "-o", own, f"-L{runtime}", "-lintarsia_runtime", f"-Wl,-rpath,{runtime}"], check=True)
    if with_peer:
        subprocess.run(["mpicc", *flags, "-DUSE_MPI", "-o", peer], check=True)
    return own, peer


def size_text(size: int) -> str:
    """Return "4 KiB" or "16 MiB"."""
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def measure(worlds: dict[str, World], what: str, pairs: int, round_ms: float) -> None:
    """Print the rows of two worlds, the second one against the first, which are about something."""
    own, peer = worlds
    for size in SIZES:
        first = {name: world.time_us(size, 5)[0] for name, world in worlds.items()}
        calls = {name: max(5, min(2000, int(round_ms * 1000 / us))) for name, us in first.items()}
        results = [Comparison(own, peer) for _ in ("median", "fastest")]
        for index in range(pairs):
            for name in list(worlds)[:: 1 if index % 2 == 0 else -1]:
                for result, us in zip(results, worlds[name].time_us(size, calls[name]), strict=True):
                    (result.ours_ms if name == own else result.peer_ms).append(us / 1000)
        cells = [what, size_text(size)]
        for result in results:
            low, high = result.interval()
            cells += [f"{1000 * statistics.median(times):.1f}" for times in (result.ours_ms, result.peer_ms)]
            cells.append(f"{result.ratio:.2f} [{low:.2f}, {high:.2f}]")
        print(f"| {' | '.join(cells)} |", flush=True)
    for world in worlds.values():
        world.close()


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build/dev", help="build folder with the runtime")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--pairs", type=int, default=15, help="alternating rounds a size")
    parser.add_argument("--round-ms", type=float, default=30, help="length of a round")
    parser.add_argument("--gbps", type=float, nargs="+", help="speeds of a link between two hosts")
    arguments = parser.parse_args()
    what, own, peer = ("Gbit/s", "int8", "f32") if arguments.gbps else ("ranks", "ours", "OpenMPI")
    print(f"| {what} | size | {own} (µs) | {peer} (µs) | ratio | {own}, fastest | {peer}, fastest | ratio of these |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        programs = build(Path(folder), arguments.build.resolve() / "lib", with_peer=not arguments.gbps)
        token = Path(folder) / "token"
        token.write_text(secrets.token_hex(32))
        for gbps in arguments.gbps or []:
            with networks(gbps) as hosts:
                kinds = [("int8", {"ITX_BENCH_INT8": "1"}), ("f32", {})]
                worlds = {
                    name: apart(programs[0], hosts, token, 29500 + number, more)
                    for number, (name, more) in enumerate(kinds)
                }
                measure(worlds, f"{gbps:g}", arguments.pairs, arguments.round_ms)
        for ranks in [] if arguments.gbps else arguments.ranks:
            worlds = {"ours": ours(programs[0], ranks), "OpenMPI": mpi(programs[1], ranks)}
            measure(worlds, str(ranks), arguments.pairs, arguments.round_ms)


if __name__ == "__main__":
    main()
