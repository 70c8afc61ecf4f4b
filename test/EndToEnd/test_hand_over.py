# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A prompt is computed in one process and continued in another, whose artifact may be laid out in another way."""

from __future__ import annotations

import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import threading
import uuid
from pathlib import Path

import intarsia
import numpy as np
import pytest

pytestmark = pytest.mark.cpu_only

GLOSSARY = Path(__file__).resolve().parents[2] / "examples" / "glossary"
PROMPT = [int(token) for token in np.random.default_rng(5).integers(5, 4000, 75)]
DECODED = 12

SENDER = """
import socket, sys
import intarsia
connection = socket.socket(fileno=int(sys.argv[2]))
generator = intarsia.Generator(sys.argv[1])
generator.send(connection, [int(token) for token in sys.argv[3].split()], 20)
"""


@pytest.fixture(scope="module")
def artifacts(tools) -> dict[str, Path]:
    flags = {
        "f16": [],
        "f32": ["--kv=f32"],
        "bf16": ["--kv=bf16"],
        "int8": ["--kv=int8"],
        "int4 weights": ["--quantize=int4"],
        "int8 and int4 weights": ["--kv=int8", "--quantize=int4"],
        "reference": ["--target=reference"],
        "int4": ["--kv=int4"],
        "int4-unrotated": ["--kv=int4-unrotated"],
        "fp8": ["--kv=fp8"],
        "int8 reference": ["--target=reference", "--kv=int8"],
    }
    return {name: tools.artifact(GLOSSARY, *more) for name, more in flags.items()}


def decode(artifact: Path, tokens: list[int] = PROMPT, sequence_of=None) -> list[int]:
    """Continue a prompt by the likeliest tokens, alone or with the sequence that another process computed."""
    module = intarsia.load(artifact)
    cache = intarsia.Cache(module)
    if sequence_of is None:
        sequence = cache.sequence()
        logits = cache.step([(sequence, tokens, 1)])
    else:
        sequence = sequence_of(cache)
        assert sequence.tokens == tokens
        sequence.truncate(len(tokens) - 1)
        logits = cache.step([(sequence, tokens[-1:], 1)])
    result = []
    for _ in range(DECODED):
        result.append(int(logits[-1].argmax()))
        logits = cache.step([(sequence, result[-1:], 1)])
    return result


def handed_over(sender: Path, receiver: Path) -> list[int]:
    """Return what the receiver writes after the prompt that another process computes with the sender's artifact."""
    ours, theirs = socket.socketpair()
    ids = " ".join(str(token) for token in PROMPT)
    command = [sys.executable, "-c", SENDER, str(sender), str(theirs.fileno()), ids]
    with subprocess.Popen(command, pass_fds=[theirs.fileno()], stderr=subprocess.PIPE, text=True) as process:
        theirs.close()
        try:
            return decode(receiver, sequence_of=lambda cache: cache.receive(ours, 60))
        finally:
            ours.close()
            _, errors = process.communicate(timeout=60)
            assert process.returncode == 0, errors


@pytest.mark.parametrize("name", ["f16", "f32", "int8", "int4-unrotated"])
def test_tokens_are_those_of_one_process(artifacts: dict[str, Path], name: str) -> None:
    assert handed_over(artifacts[name], artifacts[name]) == decode(artifacts[name])


@pytest.mark.parametrize(
    ("sender", "receiver"),
    [("f32", "f16"), ("f16", "f32"), ("f16", "bf16"), ("reference", "f16"), ("f16", "reference")],
)
def test_layouts_differ(artifacts: dict[str, Path], sender: str, receiver: str) -> None:
    """Elements and, with the reference device's 16 untransposed tokens, pages are others; the tokens stay."""
    assert handed_over(artifacts[sender], artifacts[receiver]) == decode(artifacts["f32"])


def test_weights_differ(artifacts: dict[str, Path]) -> None:
    """Prefill in int4, decode as the model is stored: the cache is of the same model."""
    assert len(handed_over(artifacts["int4 weights"], artifacts["f16"])) == DECODED
    assert len(handed_over(artifacts["int8 and int4 weights"], artifacts["int8"])) == DECODED


def both(sender: Path, receiver: Path) -> tuple[str, str]:
    """Return the errors of both sides in one process."""
    ours, theirs = socket.socketpair()
    errors = ["", ""]

    def send() -> None:
        try:
            intarsia.Generator(sender).send(theirs, PROMPT, 20)
        except intarsia.Error as error:
            errors[0] = str(error)
        theirs.close()

    thread = threading.Thread(target=send)
    thread.start()
    cache = intarsia.Cache(intarsia.load(receiver))
    try:
        cache.receive(ours, 20)
    except intarsia.Error as error:
        errors[1] = str(error)
    ours.close()
    thread.join()
    assert cache.info["free_sequences"] == cache.info["sequences"]
    assert cache.info["free_pages"] == cache.info["pages"]
    return errors[0], errors[1]


def test_another_model(tools, artifacts: dict[str, Path], tmp_path: Path) -> None:
    """One weight of another value makes another model."""
    other = tmp_path / "other"
    shutil.copytree(GLOSSARY, other)
    file = other / "model.safetensors"
    data = bytearray(file.read_bytes())
    (header,) = struct.unpack("<Q", data[:8])
    begin = json.loads(data[8 : 8 + header])["model.layers.3.mlp.up_proj.weight"]["data_offsets"][0]
    data[8 + header + begin] ^= 1
    file.chmod(0o644)
    file.write_bytes(data)
    tools.compile(other, "-o", tmp_path / "other.itx")
    sent, received = both(artifacts["f16"], tmp_path / "other.itx")
    assert "sends a sequence of another model" in received
    assert "did not import the sequence" in sent


@pytest.mark.parametrize(
    ("sender", "receiver"),
    [("int8", "f16"), ("f32", "int8"), ("f16", "int4"), ("int4", "int8"), ("int8", "int8 reference")],
)
def test_quantized_caches_are_converted(artifacts: dict[str, Path], sender: str, receiver: str) -> None:
    """Both processes decode the prompt with one of the two caches; what 4 bits change is not small."""
    found = handed_over(artifacts[sender], artifacts[receiver])
    close = [decode(artifacts[name]) for name in {sender, receiver, "f32"} if "int4" not in name]
    same = max(sum(one == other for one, other in zip(found, tokens, strict=True)) for tokens in close)
    assert same >= (DECODED if "int4" not in (sender, receiver) else 3)


def test_caches_that_are_not_converted(artifacts: dict[str, Path]) -> None:
    _, received = both(artifacts["fp8"], artifacts["f16"])
    assert "has elements of f8E4M3FN, here of f16: compile both with the same --kv" in received
    _, received = both(artifacts["int4-unrotated"], artifacts["int4"])
    assert "has elements of ui4 unrotated, here of ui4: compile both with the same --kv" in received
    _, received = both(artifacts["int8"], artifacts["fp8"])
    assert "--kv" in received


RANK = """
import socket, sys
import intarsia
import numpy as np
role, artifact, numbers, tokens, decoded, under_way = sys.argv[1:]
connections = [socket.socket(fileno=int(number)) for number in numbers.split(",")]
tokens = [int(token) for token in tokens.split()]
cache = intarsia.Cache(intarsia.load(artifact), sequences=1 + int(under_way))
if role == "send":
    sequence = cache.sequence()
    cache.step([(sequence, tokens, 1)])
# Steps of other sequences are under way while one is handed over.
texts = [tokens[begin : begin + 7] for begin in range(int(under_way))]
others = [cache.sequence() for _ in texts]
steps = [cache.start_step([(other, text, 1)]) for other, text in zip(others, texts)]
if role == "send":
    for connection in connections:
        sequence.send(connection, 20)
else:
    sequence = cache.receive(connections, 60)
for step, other, text in zip(steps, others, texts):
    logits = step.wait()
    other.truncate(0)
    np.testing.assert_array_equal(logits, cache.step([(other, text, 1)]))
if role == "receive":
    assert sequence.tokens == tokens
    sequence.truncate(len(tokens) - 1)
    logits = cache.step([(sequence, tokens[-1:], 1)])
    for _ in range(int(decoded)):
        print(int(logits[-1].argmax()), end=" ")
        logits = cache.step([(sequence, [int(logits[-1].argmax())], 1)])
"""


def start_world(
    role: str, artifact: Path, connections: list[list[socket.socket]], under_way: int = 0
) -> list[subprocess.Popen]:
    """Start the ranks of a world, each with its connections to all ranks of the other one."""
    address = f"local:test-{uuid.uuid4().hex}"
    ranks = []
    for rank, own in enumerate(connections):
        numbers = [connection.fileno() for connection in own]
        environment = os.environ | {"ITX_THREADS": "1"}
        if len(connections) > 1:
            environment |= {
                "ITX_WORLD_SIZE": str(len(connections)),
                "ITX_WORLD_RANK": str(rank),
                "ITX_WORLD_ADDRESS": address,
                "ITX_WORLD_DEADLINE_S": "60",
            }
        words = [role, str(artifact), ",".join(map(str, numbers)), " ".join(map(str, PROMPT)), str(DECODED)]
        words.append(str(under_way))
        ranks.append(
            subprocess.Popen(
                [sys.executable, "-c", RANK, *words],
                env=environment,
                pass_fds=numbers,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    return ranks


def handed_over_by_ranks(
    sender: Path, receiver: Path, senders: int, receivers: int, under_way: int = 0
) -> list[tuple[int, str, str]]:
    """Return how the receiving ranks ended: status, tokens and errors."""
    pairs = [[socket.socketpair() for _ in range(receivers)] for _ in range(senders)]
    sending = start_world("send", sender, [[pair[0] for pair in row] for row in pairs], under_way)
    to_receivers = [[row[rank][1] for row in pairs] for rank in range(receivers)]
    receiving = start_world("receive", receiver, to_receivers, under_way)
    for pair in (pair for row in pairs for pair in row):
        for end in pair:
            end.close()
    results = []
    for process in [*receiving, *sending]:
        output, errors = process.communicate(timeout=90)
        results.append((process.returncode, output, errors))
    return results


# Parts of the heads, all of them, and layers. The model has two heads of keys, which three ranks share. Pages of quantized
# caches are copied by heads.
@pytest.mark.parametrize(
    ("caches", "sender", "receiver"),
    [
        ("f32", "tensor:2", "tensor:3"),
        ("f32", "tensor:3", "tensor:2"),
        ("int8", "tensor:2", ""),
        ("int4", "", "tensor:2"),
        ("int8", "tensor:2", "tensor:3"),
        ("f32", "pipeline:2", "tensor:2"),
        ("f32", "tensor:2", "pipeline:2"),
        ("int4", "context,heads:2", "tensor:2"),
        ("f32", "", "context,heads:2"),
        ("f32", "interleaved:2", "tensor:2"),
        ("int8", "", "breadth-first:2"),
    ],
)
def test_ranks_hand_over_their_parts(tools, caches: str, sender: str, receiver: str, tmp_path: Path) -> None:
    def made(partition: str) -> tuple[Path, int]:
        kind, _, ranks = partition.partition(":")
        artifact = tmp_path / f"{kind}{ranks}.itx"
        flags = [f"--world={ranks}", f"--partition={kind}"] if partition else []
        tools.compile(GLOSSARY, "-o", artifact, f"--kv={caches}", *flags)
        return artifact, int(ranks or 1)

    (first, senders), (second, receivers) = made(sender), made(receiver)
    whole, _ = made("")
    results = handed_over_by_ranks(first, second, senders, receivers)
    expected = decode(whole)
    for rank, (code, output, errors) in enumerate(results):
        assert code == 0, errors
        if rank < receivers:
            assert [int(token) for token in output.split()] == expected


# A stage computes one of these steps, or waits with its results, when its sequence is handed over.
@pytest.mark.parametrize(("sender", "receiver"), [("pipeline", "tensor"), ("tensor", "pipeline")])
def test_hand_over_while_steps_are_under_way(tools, sender: str, receiver: str, tmp_path: Path) -> None:
    artifacts = []
    for partition in (sender, receiver):
        artifacts.append(tmp_path / f"{partition}.itx")
        tools.compile(GLOSSARY, "-o", artifacts[-1], "--kv=f32", "--world=2", f"--partition={partition}")
    expected = decode(tools.artifact(GLOSSARY, "--kv=f32"))
    for rank, (code, output, errors) in enumerate(handed_over_by_ranks(*artifacts, 2, 2, under_way=3)):
        assert code == 0, errors
        if rank < 2:
            assert [int(token) for token in output.split()] == expected


def test_ranks_that_are_missing(tools, tmp_path: Path) -> None:
    """One of two ranks sends its part alone."""
    half, whole = tmp_path / "half.itx", tools.artifact(GLOSSARY, "--kv=f32")
    tools.compile(GLOSSARY, "-o", half, "--kv=f32", "--world=2")
    pairs = [socket.socketpair() for _ in range(2)]
    sending = start_world("send", half, [[pair[0]] for pair in pairs])
    cache = intarsia.Cache(intarsia.load(whole))
    with pytest.raises(intarsia.Error, match=r"head \d of \d of 'cache.0.keys' is in none of the 1 parts"):
        cache.receive([pairs[1][1]], 60)
    with pytest.raises(intarsia.Error, match="in parts from no process at all"):
        cache.receive([], 60)
    assert cache.info["free_sequences"] == cache.info["sequences"]
    for pair in pairs:
        for end in pair:
            end.close()
    for process in sending:
        errors = process.communicate(timeout=60)[1]
        # The part that was read has no answer, the other one no reader.
        assert "did not import the sequence" in errors or "the connection ended after" in errors


class Recorder:
    """What a sender sends."""

    def __init__(self, artifact: Path) -> None:
        ours, theirs = socket.socketpair()
        received = bytearray()

        def read() -> None:
            while part := ours.recv(1 << 20):
                received.extend(part)

        thread = threading.Thread(target=read)
        thread.start()
        with pytest.raises(intarsia.Error, match="did not import"):
            intarsia.Generator(artifact).send(theirs, PROMPT, 1)
        theirs.close()
        thread.join()
        ours.close()
        self.data = bytes(received)


@pytest.fixture(scope="module")
def sent(artifacts: dict[str, Path]) -> bytes:
    return Recorder(artifacts["f16"]).data


def receive(artifact: Path, data: bytes) -> str:
    """Return the error of a cache that gets these bytes, after which the connection ends; "" if it takes them."""
    ours, theirs = socket.socketpair()

    def write() -> None:
        try:
            theirs.sendall(data)
            theirs.shutdown(socket.SHUT_WR)
        except BrokenPipeError:
            pass

    thread = threading.Thread(target=write)
    thread.start()
    cache = intarsia.Cache(intarsia.load(artifact))
    error = ""
    try:
        cache.receive(ours, 10)
    except intarsia.Error as refused:
        error = str(refused)
        assert cache.info["free_sequences"] == cache.info["sequences"]
        assert cache.info["free_pages"] == cache.info["pages"]
    ours.close()
    thread.join()
    theirs.close()
    return error


def test_connections_that_are_cut(artifacts: dict[str, Path], sent: bytes) -> None:
    assert receive(artifacts["f16"], sent) == ""
    for length in (0, 20, 56, 200, len(sent) // 2, len(sent) - 1):
        assert f"the connection ended after {length} bytes" in receive(artifacts["f16"], sent[:length])


def test_bytes_that_are_damaged(artifacts: dict[str, Path], sent: bytes) -> None:
    def changed(at: int, value: bytes) -> str:
        return receive(artifacts["f16"], sent[:at] + value + sent[at + len(value) :])

    assert "is no sequence" in changed(0, b"X")
    assert "in version 7, this runtime in version 2" in changed(8, struct.pack("<I", 7))
    assert "another model" in changed(16, b"\0" * 16) or "hash" in changed(16, b"\0" * 16)
    for at, size in ((12, 4), (32, 8), (40, 8), (48, 8)):
        for value in (0, 1 << 20, (1 << 8 * size) - 1):
            assert changed(at, value.to_bytes(size, "little"))
    assert "does not have the hash" in changed(len(sent) - 100, bytes([sent[-100] ^ 1]))


def test_commands(artifacts: dict[str, Path], tmp_path: Path) -> None:
    """`intarsia decode` waits for `intarsia prefill`, over a socket of the file system and over TCP."""
    generator = intarsia.Generator(artifacts["f16"])
    expected = generator.generate("violin (noun):", max_tokens=8)[0].text
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "token").write_text("a token for tests\n")
    token = f"--token={tmp_path / 'token'}"
    command = [sys.executable, "-m", "intarsia"]
    for address, *more in ((f"unix:{tmp_path / 'socket'}",), (f"tcp:127.0.0.1:{port}", token)):
        waiting = [*command, "decode", str(artifacts["f16"]), f"--from={address}", "--max-tokens=8", *more]
        with subprocess.Popen(waiting, stdout=subprocess.PIPE, text=True) as decoder:
            prefill = [*command, "prefill", str(artifacts["f32"]), "violin (noun):", f"--to={address}", *more]
            subprocess.run(prefill, check=True)
            text, _ = decoder.communicate(timeout=60)
        assert text.strip() == expected.strip()


def test_timeouts_that_are_no_time(artifacts: dict[str, Path]) -> None:
    generator = intarsia.Generator(artifacts["f16"])
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for timeout in (float("nan"), -1.0):
            with pytest.raises(
                intarsia.InvalidArgumentError, match=r"a timeout of (nan|-1) s; 0 and more are possible"
            ):
                generator.receive(ours, timeout)
            with pytest.raises(intarsia.InvalidArgumentError, match=r"a timeout of (nan|-1) s"):
                generator.send(ours, PROMPT, timeout)
