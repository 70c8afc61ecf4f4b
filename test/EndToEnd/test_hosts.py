# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models that are split over processes of several hosts.

Hosts are processes of this machine with different names in ITX_WORLD_HOST, so that they exchange data by TCP; in one test
they have networks of their own, which are cut. What models give in one piece is compared with transformers elsewhere.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import numpy as np
import pytest
from ranks import address_of_hosts, results_of, run_world
from test_split_models import GLOSSARY, HERE, check, difference, inputs_of

LLAMA = HERE / "decoders" / "llama"


# A letter is a rank's host: one rank on each, several, neighbouring or not.
@pytest.mark.parametrize(
    ("name", "partition", "hosts"),
    [
        ("llama", "tensor", "ab"),
        ("qwen3", "tensor", "aab"),
        ("mixtral", "expert", "abc"),
        ("gemma3", "pipeline:2,tensor:2", "abab"),
        ("llama", "context:2,tensor:2", "abcd"),
        pytest.param("gemma3", "tensor,sequence", "aabb", marks=pytest.mark.slow),
        pytest.param("gpt-oss", "pipeline:2,tensor:4", "aaaabbbb", marks=pytest.mark.slow),
        pytest.param("llama", "context:2,tensor:4,sequence", "abcdefgh", marks=pytest.mark.slow),
    ],
)
def test_models_over_hosts(tools, name: str, partition: str, hosts: str, tmp_path: Path) -> None:
    flags = [f"--partition={partition}", "--kv=f32"]
    check(tools, HERE / "decoders" / name, tmp_path, len(hosts), *flags, hosts=hosts)


def test_encoder_over_hosts(tools, tmp_path: Path) -> None:
    check(tools, HERE / "models" / "bert", tmp_path, 4, "--partition=data:2,tensor:2,sequence", hosts="abba")


def compiled(tools, folder: Path, *flags: str, model: Path = LLAMA) -> Path:
    artifact = folder / "split.itx"
    tools.run("intarsia-compile", model, "-o", artifact, "--kv=f32", *flags)
    return artifact


# With a rank on each host, sums have the order of the ranks, in memory and by TCP.
def test_hosts_change_no_bits(tools, tmp_path: Path) -> None:
    np.savez(tmp_path / "inputs.npz", **inputs_of(LLAMA))
    split = compiled(tools, tmp_path, "--world=3")
    run = (split, tmp_path / "inputs.npz", tmp_path / "results", 3)
    for here, apart in zip(run_world(*run), run_world(*run, "abc"), strict=True):
        np.testing.assert_array_equal(apart["logits"], here["logits"])


# Sums are rounded between hosts, and not on one. The model is a trained one: its tokens stay the likeliest ones.
@pytest.mark.parametrize("partition", ["tensor", "tensor,sequence"])
def test_messages_in_8_bits(tools, partition: str, tmp_path: Path) -> None:
    inputs = inputs_of(GLOSSARY)
    np.savez(tmp_path / "inputs.npz", **inputs)
    flags = ["--world=2", f"--partition={partition}", "--rank-messages=int8"]
    split = compiled(tools, tmp_path, *flags, model=GLOSSARY)
    run = (split, tmp_path / "inputs.npz", tmp_path / "results", 2)
    here, apart = run_world(*run), run_world(*run, "ab")
    whole = tools.artifact(GLOSSARY, "--kv=f32")
    expected = results_of(whole, inputs)
    for results in here:
        assert difference(results, expected) <= 2e-5
    for results in apart:
        error = difference(results, expected)
        print(f"{partition}: off by {error:.2e}")
        assert 1e-4 < error < 2e-2
        np.testing.assert_array_equal(results["logits"], apart[0]["logits"])  # all choose the same tokens
        assert (results["logits"].argmax(-1) == expected["logits"].argmax(-1)).mean() > 0.9


def test_messages_are_for_sums(tools, tmp_path: Path) -> None:
    def refused(*flags: str) -> str:
        failed = tools.run("intarsia-compile", LLAMA, "-o", tmp_path / "m.itx", *flags, check=False)
        assert failed.returncode == 1
        return failed.stderr

    message = "--rank-messages=int8: ranks add up no f32"
    assert message in refused("--world=2", "--partition=pipeline", "--rank-messages=int8")
    assert "give their number, as in --world=2" in refused("--rank-messages=int8")
    assert "--rank-messages=int4: f32 and int8 are possible" in refused("--world=2", "--rank-messages=int4")


def start(tools, artifact: Path, world: dict[str, str], host: str, *flags: str) -> subprocess.Popen:
    """Start the ranks of a host by the command line."""
    address = world["ITX_WORLD_ADDRESS"].removeprefix("tcp:")
    command = [tools.path("intarsia-run"), artifact, "--world=3", f"--rendezvous={address}"]
    command += [f"--token={world['ITX_WORLD_TOKEN_FILE']}", *flags]
    environment = os.environ | {"ITX_WORLD_HOST": host, "ITX_THREADS": "1", "ITX_WORLD_DEADLINE_S": "20"}
    return subprocess.Popen(
        [str(word) for word in command], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_command_line(tools, tmp_path: Path) -> None:
    artifact = compiled(tools, tmp_path, "--world=3")
    flags = ["--ids=5,9,11,7", "--max-tokens=12"]
    expected = tools.run("intarsia-run", artifact, "--world=3", *flags).stdout
    world = address_of_hosts(tmp_path)
    second = start(tools, artifact, world, "b", "--rank=1,2", *flags)
    first = start(tools, artifact, world, "a", "--rank=0", *flags)
    outputs = [process.communicate(timeout=60) for process in (first, second)]
    assert [first.returncode, second.returncode] == [0, 0], outputs
    assert outputs[0][0] == expected
    assert outputs[1] == ("", "")


def test_refused_command_lines(tools, tmp_path: Path) -> None:
    artifact = compiled(tools, tmp_path, "--world=3")

    def refused(*flags: str, code: int = 2) -> str:
        failed = tools.run("intarsia-run", artifact, "--ids=5", *flags, check=False)
        assert failed.returncode == code, failed.stderr
        return failed.stderr

    token = tmp_path / "token"
    token.write_text("short")
    hosts = ["--rendezvous=localhost:29500", f"--token={token}"]
    assert "a world of several hosts has --world=N, and on each host --rank=R" in refused("--world=3", "--rank=1")
    assert "--rank=3 are no different ranks of --world=3" in refused("--world=3", "--rank=3", *hosts)
    assert "--rank=1,1 are no different ranks" in refused("--world=3", "--rank=1,1", *hosts)
    assert "'x' is no list of ranks such as 0,1" in refused("--world=3", "--rank=x", *hosts)
    message = refused("--world=3", "--rank=1", *hosts, code=1)
    assert message.startswith("error: rank 1: ")
    assert "has 5 characters, 16 to 4096 are possible" in message
    message = refused("--world=3", "--rank=1", "--rendezvous=localhost", f"--token={token}")
    assert "'localhost' is not HOST:PORT" in message


def running_ranks(artifact: Path) -> list[int]:
    """Return the processes that run this artifact."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if str(artifact).encode() in words and b"--rank=1,2" in words:
            found.append(int(folder.name))
    return found


def test_killed_rank(tools, tmp_path: Path) -> None:
    artifact = tmp_path / "split.itx"
    tools.run("intarsia-compile", HERE / "models" / "distilbert", "-o", artifact, "--world=3")
    flags = ["--benchmark=1000000"]
    for name, values in inputs_of(HERE / "models" / "distilbert").items():
        np.save(tmp_path / f"{name}.npy", values)
        flags.append(f"--input={name}=@{tmp_path / name}.npy")
    world = address_of_hosts(tmp_path)
    second = start(tools, artifact, world, "b", "--rank=1,2", *flags)
    first = start(tools, artifact, world, "a", "--rank=0", *flags)
    time.sleep(2)
    ranks = [process for process in running_ranks(artifact) if process != second.pid]
    assert len(ranks) == 2
    os.kill(ranks[0], signal.SIGKILL)
    begin = time.monotonic()
    outputs = [process.communicate(timeout=60) for process in (first, second)]
    assert time.monotonic() - begin < 2
    assert first.returncode == 3
    assert second.returncode == 128 + signal.SIGKILL
    assert f"(process {ranks[0]} on b) of the world of 3 has ended: no other rank can go on" in outputs[0][1]
    assert f"(process {ranks[0]}) was ended by signal 9" in outputs[1][1]
    assert all(len(error.splitlines()) == 1 for _, error in outputs)
    assert not running_ranks(artifact)


def test_other_artifacts(tools, tmp_path: Path) -> None:
    artifact = compiled(tools, tmp_path, "--world=3")
    (tmp_path / "other").mkdir()
    other = compiled(tools, tmp_path / "other", "--world=3", model=HERE / "decoders" / "qwen3")
    world = address_of_hosts(tmp_path)
    second = start(tools, other, world, "b", "--rank=1,2", "--ids=5")
    first = start(tools, artifact, world, "a", "--rank=0", "--ids=5")
    for process in (first, second):
        error = process.communicate(timeout=60)[1]
        assert process.returncode != 0
        assert "rank 1 has another artifact" in error, error
        assert len(error.splitlines()) == 1, error


RANK = """
import intarsia, numpy as np, sys, time
world = intarsia.World()
data = np.ones(1000, np.float32)
print("joined", flush=True)
try:
    while True:
        world.all_reduce(data)
except intarsia.Error as error:
    print(error, flush=True)
"""


def has_networks() -> bool:
    """Tell whether this user may make networks."""
    return (
        os.geteuid() == 0
        and shutil.which("ip") is not None
        and subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False).returncode == 0
    )


@pytest.mark.skipif(not has_networks(), reason="networks can be made by root alone, with iproute2")
def test_cut_connection(tmp_path: Path) -> None:
    """Two hosts with networks of their own and a switch, from which one is cut: no system says that a connection ended."""
    name = uuid.uuid4().hex[:6]
    hosts = [f"itx-{name}-{host}" for host in "ab"]
    switch = f"itx-{name}-switch"
    run = lambda words: subprocess.run(words.split(), check=True, capture_output=True)  # noqa: E731
    token = tmp_path / "token"
    token.write_text(uuid.uuid4().hex)
    ranks = []
    try:
        for space in (*hosts, switch):
            run(f"ip netns add {space}")
        run(f"ip -n {switch} link add name switch type bridge")
        run(f"ip -n {switch} link set switch up")
        for number, host in enumerate(hosts):
            port, device = f"p{name}{number}", f"d{name}{number}"
            run(f"ip link add name {device} netns {host} type veth peer name {port} netns {switch}")
            run(f"ip -n {switch} link set {port} master switch")
            run(f"ip -n {switch} link set {port} up")
            run(f"ip -n {host} addr add 10.77.0.{number + 1}/24 dev {device}")
            run(f"ip -n {host} link set {device} up")
        for rank, host in enumerate(hosts):
            environment = os.environ | {
                "ITX_WORLD_SIZE": "2",
                "ITX_WORLD_RANK": str(rank),
                "ITX_WORLD_ADDRESS": "tcp:10.77.0.1:29500",
                "ITX_WORLD_TOKEN_FILE": str(token),
            }
            command = ["ip", "netns", "exec", host, sys.executable, "-c", RANK]
            ranks.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
        for rank in ranks:
            assert rank.stdout.readline() == "joined\n"
        time.sleep(0.5)
        run(f"ip -n {switch} link set p{name}1 nomaster")
        begin = time.monotonic()
        for number, rank in enumerate(ranks):
            message = rank.communicate(timeout=30)[0]
            assert f"rank {1 - number} (process " in message
            assert "cannot be reached any more" in message
        assert time.monotonic() - begin < 2
    finally:
        for rank in ranks:
            rank.kill()
        for space in (*hosts, switch):
            subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)
