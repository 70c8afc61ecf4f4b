#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finds speech in a recording with the ONNX model of the package silero-vad, chunk by chunk as a microphone would.

Steps: compile the model, put a recording together (or open one), hand it over in chunks of 32 ms while the state of the
network is carried from each to the next, find where speech begins and ends, and draw it.
"""

from __future__ import annotations

import argparse
import os
import time
import wave
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import intarsia
import numpy as np
from PIL import Image, ImageDraw, ImageFont

#: Samples of a chunk, and of the chunk before it that the network reads too, by the rate.
CHUNKS = {16000: (512, 64), 8000: (256, 32)}
#: Probability at which speech begins, and at which it ends once it was below for so many seconds; the least seconds of
#: speech, and those that are added to both sides.
BEGIN, END, PAUSE, LEAST, MARGIN = 0.5, 0.35, 0.1, 0.2, 0.03


def folder_of(package: str) -> Path:
    """Return the folder of a package."""
    spec = find_spec(package)
    if not spec or not spec.origin:
        raise SystemExit(f"the package {package} is missing: scripts/setup-python.sh installs it")
    return Path(spec.origin).parent


def read_wave(path: Path) -> tuple[np.ndarray, int]:
    """Return the samples of a file, from -1 to 1, and their rate."""
    with wave.open(str(path)) as file:
        if file.getsampwidth() != 2:
            raise SystemExit(f"{path}: samples have {8 * file.getsampwidth()} bits, must have 16")
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2").reshape(-1, file.getnchannels())
        return samples.mean(1).astype(np.float32) / 32768, file.getframerate()


def make_recording() -> tuple[np.ndarray, int, list[float]]:
    """Return a recording, its rate, and the seconds at which a word begins: beside it are noise, keys and a chord.

    The word ("ready") and the tones of keys are files of pipecat-ai.
    """
    rate = 16000
    random = np.random.default_rng(0)
    pipecat = folder_of("pipecat")
    word, _ = read_wave(pipecat / "services/aws/nova_sonic/ready.wav")
    sound = random.normal(0, 0.003, 10 * rate).astype(np.float32)

    def add(seconds: float, samples: np.ndarray) -> None:
        begin = int(seconds * rate)
        sound[begin : begin + len(samples)] += samples

    words = [0.8, 4.6, 8.2]
    for seconds, volume in zip(words, (1.0, 0.5, 0.8), strict=True):
        add(seconds, volume * word)
    for number, seconds in enumerate((2.2, 2.8, 3.4)):
        tone, _ = read_wave(pipecat / f"audio/dtmf/dtmf-{number + 1}.wav")  # at 8 kHz
        add(seconds, 0.5 * tone.repeat(2))
    at = np.arange(int(1.6 * rate)) / rate
    chord = sum(np.sin(2 * np.pi * pitch * at) for pitch in (220, 277.2, 329.6))
    add(6.0, (0.08 * chord * np.exp(-2 * at)).astype(np.float32))
    return sound, rate, words


@dataclass
class Listener:
    """The network with what it remembers of the chunks so far."""

    module: intarsia.Module
    rate: int
    state: np.ndarray = field(init=False)
    before: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.state = np.zeros((2, 1, 128), np.float32)
        self.before = np.zeros((1, CHUNKS[self.rate][1]), np.float32)

    def __call__(self, chunk: np.ndarray) -> float:
        """Return the probability that a chunk has speech."""
        samples = np.concatenate([self.before, chunk[None]], 1)
        probability, self.state = self.module.main(input=samples, state=self.state, sr=np.array(self.rate))
        self.before = samples[:, -self.before.shape[1] :]
        return float(probability[0, 0])


def segments_of(probabilities: np.ndarray, step: float) -> list[tuple[float, float]]:
    """Return begins and ends of speech in seconds, of probabilities of chunks that are `step` seconds long."""
    segments: list[tuple[float, float]] = []
    begin = quiet = None
    for number, probability in enumerate([*probabilities, *[0.0] * (2 + round(PAUSE / step))]):
        now = number * step
        if probability >= BEGIN:
            begin, quiet = (now if begin is None else begin), None
        elif begin is not None and probability < END:
            quiet = now if quiet is None else quiet
            if now - quiet >= PAUSE:
                if quiet - begin >= LEAST:
                    segments.append((max(0.0, begin - MARGIN), quiet + MARGIN))
                begin = quiet = None
    return segments


def illustrate(
    sound: np.ndarray, rate: int, probabilities: np.ndarray, segments: list[tuple[float, float]]
) -> Image.Image:
    """Return the sound with its speech marked, and the probabilities below it."""
    width, height, low = 1200, 220, 120
    seconds = len(sound) / rate
    result = Image.new("RGB", (width, height + low + 30), "white")
    draw = ImageDraw.Draw(result)
    for begin, end in segments:
        draw.rectangle((begin / seconds * width, 0, end / seconds * width, height + low), fill=(225, 240, 222))
    parts = np.array_split(sound, width)
    scale = 0.48 * height / max(1e-9, float(abs(sound).max()))
    for x, part in enumerate(parts):
        draw.line(
            (x, height / 2 - scale * float(part.max()), x, height / 2 - scale * float(part.min())), fill=(60, 80, 140)
        )
    points = [
        ((n + 0.5) / len(probabilities) * width, height + (low - 10) * (1 - p)) for n, p in enumerate(probabilities)
    ]
    draw.line(points, fill=(200, 60, 50), width=2)
    for second in range(int(seconds) + 1):
        draw.text(
            (second / seconds * width + 2, height + low + 8), f"{second} s", (90, 90, 90), ImageFont.load_default(14)
        )
    return result


def main() -> None:
    """Run the demo."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recording", type=Path, nargs="?", help="a WAV file of 8 or 16 kHz instead of the made one")
    parser.add_argument("--output", type=Path, default=Path("build/demo/listening.png"), help="the picture to write")
    options = parser.parse_args()

    options.output.parent.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    module = intarsia.compile(
        folder_of("silero_vad") / "data/silero_vad.onnx", output=options.output.with_name("speech.itx")
    )
    print(f"Compiled in {time.perf_counter() - started:.2f} s: an ONNX model that knows speech, for 8 and 16 kHz")
    words: list[float] = []
    if options.recording:
        sound, rate = read_wave(options.recording)
        if rate not in CHUNKS:
            raise SystemExit(f"{options.recording}: the rate is {rate} Hz, must be 8000 or 16000")
    else:
        sound, rate, words = make_recording()
    size = CHUNKS[rate][0]
    chunks = np.resize(np.pad(sound, (0, -len(sound) % size)), (-(-len(sound) // size), size))
    listener = Listener(module, rate)
    listener(chunks[0])  # for the clock: memory is there then
    listener = Listener(module, rate)
    started = time.perf_counter()
    probabilities = np.array([listener(chunk) for chunk in chunks])
    elapsed = time.perf_counter() - started
    print(
        f"{len(sound) / rate:.1f} s of sound in {1e3 * elapsed:.0f} ms, {1e6 * elapsed / len(chunks):.0f} µs a chunk "
        f"of {1e3 * size / rate:.0f} ms ({intarsia.threads()} threads)"
    )
    segments = segments_of(probabilities, size / rate)
    for begin, end in segments:
        print(f"  speech from {begin:5.2f} to {end:5.2f} s")
    if words:
        found = sum(any(begin - 0.2 < word < end for begin, end in segments) for word in words)
        print(f"{found} of {len(words)} words found, {len(segments) - found} other sounds taken for speech")
    illustrate(sound, rate, probabilities, segments).save(options.output)
    print(f"Look at {os.path.relpath(options.output)}: the sound, its speech, and the probability of speech")


if __name__ == "__main__":
    main()
