# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is damaged: models, GGUF files, artifacts, IR of every phase, agents; and what is done with each."""

from __future__ import annotations

import json
import os
import random
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import xxhash
from mutations import join_safetensors, mutate_bytes, mutate_json, mutate_safetensors, mutate_text, split_safetensors

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
sys.path.insert(0, str(SOURCE / "test" / "EndToEnd"))

MODELS = SOURCE / "test" / "EndToEnd" / "models"
DECODERS = SOURCE / "test" / "EndToEnd" / "decoders"
#: Several of each kind, with what differs between them; larger ones take longer and have no other settings.
ENCODERS_USED = ("bert", "bert-token-classification", "distilbert", "roberta", "sentence-all-poolings", "vit")
DECODERS_USED = (
    "gemma2",
    "gemma3",
    "gpt-oss-mxfp4",
    "gpt2",
    "llama",
    "llama-yarn",
    "mixtral",
    "phi3-longrope",
    "qwen3",
)
GGUF_USED = ("gemma2", "gpt2", "llama", "qwen3")
IR_USED = (MODELS / "bert", MODELS / "vit", DECODERS / "llama", DECODERS / "gpt-oss-mxfp4", DECODERS / "gemma2")
#: A phase, and the one that goes on with what it prints.
PHASES = {"import": "quantize", "quantize": "fuse", "fuse": "lower", "lower": "target"}
ROUNDED = (["--quantize=int8"], ["--quantize=int4"], ["--quantize=mxfp4"])


@dataclass
class Job:
    """Commands to run on a mutant, each if the one before it took the mutant; IR, which MLIR's own tool can be asked about."""

    commands: list[list[str]]
    ir: Path | None = None
    model: Path | None = None  # what transformers can run too
    results: Path | None = None


@dataclass
class Bench:
    """The tools of a build, and a folder for what mutants are made from."""

    build: Path
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    def tool(self, name: str) -> str:
        return os.environ.get(name.upper().replace("-", "_"), str(self.build / "bin" / name))

    def make(self, name: str, *arguments: object) -> None:
        subprocess.run([self.tool(name), *map(str, arguments)], check=True, capture_output=True)

    def compile(self, source: Path, folder: Path, *options: str) -> list[str]:
        return [self.tool("intarsia-compile"), str(source), "-o", str(folder / "m.itx"), *options]

    def call(self, artifact: Path, results: Path | None = None) -> list[str]:
        return [sys.executable, str(HERE / "call_artifact.py"), str(artifact), *([str(results)] if results else [])]


#: Makes a mutant in a folder.
Make = Callable[[random.Random, Path], Job]


def _options(dice: random.Random, is_decoder: bool) -> list[str]:
    """Return flags for a quarter of the mutants."""
    if dice.randrange(4):
        return []
    return dice.choice((*ROUNDED, ["--kv=int4"], ["--context=8"]) if is_decoder else ROUNDED)


def models(bench: Bench) -> Make:
    """Return what damages config.json or the weights of a Hugging Face directory."""
    sources = [MODELS / name for name in ENCODERS_USED] + [DECODERS / name for name in DECODERS_USED]

    def make(dice: random.Random, folder: Path) -> Job:
        source = dice.choice(sources)
        model = folder / "model"
        shutil.copytree(source, model, ignore=shutil.ignore_patterns("golden.npz"))
        kinds = ("*.safetensors",) if dice.randrange(2) else ("*.json", "*/*.json")
        path = dice.choice(sorted(file for kind in kinds for file in model.glob(kind)))
        if path.suffix == ".safetensors":
            path.write_bytes(mutate_safetensors(dice, path.read_bytes()))
        elif dice.randrange(4) == 0:
            path.write_bytes(mutate_bytes(dice, path.read_bytes()))
        else:
            path.write_text(json.dumps(mutate_json(dice, json.loads(path.read_text()))), errors="surrogatepass")
        is_decoder = source.parent == DECODERS
        options = _options(dice, is_decoder)
        exact = ["--kv=f32"] if is_decoder and not options else []
        results = folder / "results.npz"
        commands = [bench.compile(model, folder, *options, *exact), bench.call(folder / "m.itx", results)]
        # A pipeline of sentence-transformers is no model of transformers.
        comparable = not options and not (source / "modules.json").exists()
        return Job(commands, model=model if comparable else None, results=results)

    return make


def gguf_files(bench: Bench) -> Make:
    """Return what damages GGUF files: their header, keys, lengths, data."""
    import gguf
    from gguf_models import as_floats, write_gguf

    sources = []
    for name in GGUF_USED:
        for kind in ("F32", "F16"):
            path = bench.folder / f"{name}-{kind}.gguf"
            write_gguf(DECODERS / name, path, as_floats(kind))
            sources.append((path.read_bytes(), gguf.GGUFReader(path).data_offset))

    def make(dice: random.Random, folder: Path) -> Job:
        data, begin = dice.choice(sources)
        path = folder / "m.gguf"
        path.write_bytes(mutate_bytes(dice, data, begin if dice.randrange(4) else None))
        return Job([bench.compile(path, folder, *_options(dice, True)), bench.call(folder / "m.itx")])

    return make


def _sections(elf: bytes) -> dict[str, tuple[int, int]]:
    """Return offset and size of the sections of a 64-bit little-endian ELF file."""
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    entries = [struct.unpack_from("<IIQQQQ", elf, table + i * size) for i in range(count)]
    text = entries[names][4]
    return {elf[text + e[0] : elf.index(b"\0", text + e[0])].decode(): (e[4], e[5]) for e in entries}


def with_hash(artifact: bytes) -> bytes:
    """Return an artifact whose header has the hash of its contents (lib/Formats/ArtifactFormat.h)."""
    at = _sections(artifact)[".itx.header"][0]
    bytes_of_elf = min(struct.unpack_from("<Q", artifact, at + 16)[0], len(artifact))
    changed = bytearray(artifact)
    changed[at + 24 : at + 40] = bytes(16)
    changed[at + 24 : at + 40] = xxhash.xxh3_128_digest(bytes(changed[:bytes_of_elf]))
    return bytes(changed)


def _with_manifest(artifact: bytes, change: Callable[[Any], Any]) -> bytes | None:
    """Return an artifact with another manifest; None where that has no room."""
    at, size = _sections(artifact)[".itx.manifest"]
    manifest = change(json.loads(artifact[at : at + size].rstrip(b"\0 ")))
    text = json.dumps(manifest, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
    return None if len(text) > size else artifact[:at] + text.ljust(size) + artifact[at + size :]


def artifacts(bench: Bench) -> Make:
    """Return what damages manifest, header and weights of artifacts, and makes the hashes right again.

    Code and ELF headers stay as they are: an artifact is a program, and whoever loads it trusts it (docs/artifact.md).
    """
    sources = []
    for name, model in (("bert", MODELS / "bert"), ("vit", MODELS / "vit"), ("llama", DECODERS / "llama")):
        path = bench.folder / name / "m.itx"
        path.parent.mkdir()
        bench.make("intarsia-compile", model, "-o", path)
        sources.append((path.read_bytes(), path.with_suffix(".safetensors").read_bytes()))

    def change_header(dice: random.Random, artifact: bytes) -> bytes:
        at, size = _sections(artifact)[".itx.header"]
        header = bytearray(mutate_bytes(dice, artifact[at : at + size]))[:size].ljust(size, b"\0")
        return artifact[:at] + bytes(header) + artifact[at + size :]

    def change_weights(dice: random.Random, artifact: bytes, weights: bytes) -> tuple[bytes, bytes]:
        header, data = split_safetensors(weights)
        weights = join_safetensors(mutate_json(dice, header), data)
        begin = 8 + struct.unpack_from("<Q", weights)[0]

        def tell(manifest: Any) -> Any:
            hashes = {"header_hash": weights[:begin], "hash": weights[begin:]}
            texts = {name: xxhash.xxh3_128_hexdigest(part) for name, part in hashes.items()}
            manifest["weights"] |= {"bytes": len(weights)} | texts
            return manifest

        return _with_manifest(artifact, tell) or artifact, weights

    def make(dice: random.Random, folder: Path) -> Job:
        artifact, weights = dice.choice(sources)
        kind = dice.randrange(8)
        if kind == 0:
            artifact = change_header(dice, artifact)
        elif kind <= 2:
            artifact, weights = change_weights(dice, artifact, weights)
        else:
            changed = None
            while changed is None:
                changed = _with_manifest(artifact, lambda manifest: mutate_json(dice, manifest))
            artifact = changed
        # A header that was changed may have no hash to be made right.
        (folder / "m.itx").write_bytes(with_hash(artifact) if kind or dice.randrange(2) else artifact)
        (folder / "m.safetensors").write_bytes(weights)
        listing = [bench.tool("intarsia-run"), str(folder / "m.itx"), "--list"]
        return Job([listing, bench.call(folder / "m.itx")])

    return make


def ir(bench: Bench) -> Make:
    """Return what damages IR as text, of every phase."""
    sources = []
    for model in IR_USED:
        for phase, following in PHASES.items():
            path = bench.folder / f"{model.name}-{phase}.mlir"
            options = ["--quantize=int8"] if phase != "import" and model.name == "llama" else []
            bench.make("intarsia-compile", model, f"--stop-after={phase}", "-o", path, *options)
            sources.append((path.read_text(), following, model))

    def make(dice: random.Random, folder: Path) -> Job:
        text, following, model = dice.choice(sources)
        path = folder / "m.mlir"
        path.write_text(mutate_text(dice, text), errors="surrogatepass")
        if dice.randrange(4) == 0:
            opt = [bench.tool("intarsia-opt"), str(path), "--canonicalize", "--cse", "-o", str(folder / "o.mlir")]
            return Job([opt], ir=path)
        compiled = bench.compile(path, folder, f"--start-from={following}", f"--archives={model}")
        return Job([compiled, bench.call(folder / "m.itx")], ir=path)

    return make


def agents(bench: Bench) -> Make:
    """Return what damages agents and the fleet that they are planned for."""
    examples = SOURCE / "examples"
    texts = [path.read_text() for path in sorted((examples / "agents").glob("*.mlir"))]
    fleet = (examples / "fleets" / "dc.mlir").read_text()

    def make(dice: random.Random, folder: Path) -> Job:
        parts = [dice.choice(texts), fleet]
        part = dice.choice((0, 0, 0, 1))
        parts[part] = mutate_text(dice, parts[part])
        agent, other = folder / "agent.mlir", folder / "fleet.mlir"
        agent.write_text(parts[0], errors="surrogatepass")
        other.write_text(parts[1], errors="surrogatepass")
        if dice.randrange(4) == 0:
            opt = [bench.tool("intarsia-opt"), str((agent, other)[part]), "--plan-decompose", "-o", os.devnull]
            return Job([opt], ir=(agent, other)[part])
        plan = [bench.tool("intarsia-plan"), str(agent), f"--fleet={other}", "--why=false", "--time-limit=1"]
        return Job([[*plan, f"--objective={dice.choice(('cost', 'latency'))}"]], ir=(agent, other)[part])

    return make


SOURCES: dict[str, Callable[[Bench], Make]] = {
    "models": models,
    "gguf": gguf_files,
    "artifacts": artifacts,
    "ir": ir,
    "agents": agents,
}
