# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ONNX files of Python packages, and inputs of several sizes for each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

Feed = dict[str, np.ndarray]


@dataclass
class OnnxFile:
    """A file of a package, and the sizes that it is called with."""

    package: str
    name: str  #: below the folder of the package
    sizes: list[tuple[int, ...]]
    kind: str  #: of its inputs

    def path(self) -> Path:
        """Return where the package is installed."""
        spec = find_spec(self.package)
        if not spec or not spec.origin:
            raise FileNotFoundError(f"the package {self.package} is missing: scripts/setup-python.sh installs it")
        return Path(spec.origin).parent / self.name

    def feeds(self) -> Iterator[Feed]:
        """Return inputs of each size."""
        for sizes in self.sizes:
            yield MAKERS[self.kind](*sizes)


def _pictures(batch: int, height: int, width: int) -> Feed:
    """Return pictures of bars on noise, whose elements are between -1 and 1."""
    pictures = 0.1 * np.random.default_rng(0).standard_normal((batch, 3, height, width)) + 0.6
    for left in range(8, width - 8, 12):
        pictures[:, :, height // 4 : height * 3 // 4, left : left + 3 + left % 5] -= 1.2
    return {"x": pictures.clip(-1, 1).astype(np.float32)}


def _sound(batch: int, samples: int, rate: int = 16000) -> np.ndarray:
    """Return harmonics of a voice, each row a little higher, swelling and fading five times a second."""
    time = np.arange(samples) / rate
    pitch = 110 * (1 + 0.1 * np.arange(batch))[:, None]
    whole = sum(np.sin(2 * np.pi * n * pitch * time) / n for n in range(1, 20))
    noise = np.random.default_rng(0).standard_normal((batch, samples))
    return (0.1 * whole * (1 + np.sin(2 * np.pi * 5 * time)) + 0.005 * noise).astype(np.float32)


def _state(batch: int) -> np.ndarray:
    return (0.1 * np.random.default_rng(1).standard_normal((2, batch, 128))).astype(np.float32)


def _speech(batch: int, samples: int, rate: int) -> Feed:
    return {"input": _sound(batch, samples, rate), "state": _state(batch), "sr": np.array(rate)}


def _speech_of_one_rate(batch: int, samples: int) -> Feed:
    return {"input": _sound(batch, samples), "state": _state(batch)}


def _speech_in_a_row(chunks: int) -> Feed:
    state = _state(1)
    return {"input": _sound(1, 576 * chunks).reshape(chunks, 576), "h": state[:1], "c": state[1:]}


def _bytes(batch: int) -> Feed:
    return {"bytes": np.random.default_rng(0).integers(0, 257, (batch, 2048)).astype(np.int32)}


def _music(batch: int) -> Feed:
    return {"serving_default_input_2:0": _sound(batch, 43844, 22050)[:, :, None]}


def _spectrum(batch: int) -> Feed:
    return {"input_features": np.random.default_rng(0).standard_normal((batch, 80, 800)).astype(np.float32)}


MAKERS = {
    "pictures": _pictures,
    "speech": _speech,
    "speech of one rate": _speech_of_one_rate,
    "speech in a row": _speech_in_a_row,
    "bytes": _bytes,
    "music": _music,
    "spectrum": _spectrum,
}

BOTH_RATES = [(1, 576, 16000), (1, 288, 8000), (3, 576, 16000), (2, 256, 8000), (1, 512, 16000)]
#: Files by names of their own.
FILES = {
    "text-detection": OnnxFile(
        "rapidocr_onnxruntime", "models/ch_PP-OCRv4_det_infer.onnx",
        [(1, 64, 64), (1, 96, 320), (2, 160, 96)], "pictures",
    ),
    "text-recognition": OnnxFile(
        "rapidocr_onnxruntime", "models/ch_PP-OCRv4_rec_infer.onnx",
        [(1, 48, 320), (3, 48, 100), (1, 48, 211)], "pictures",
    ),
    "text-direction": OnnxFile(
        "rapidocr_onnxruntime", "models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        [(1, 48, 192), (3, 64, 100)], "pictures",
    ),
    "file-types": OnnxFile("magika", "models/standard_v3_3/model.onnx", [(1,), (3,)], "bytes"),
    "notes": OnnxFile("basic_pitch", "saved_models/icassp_2022/nmp.onnx", [(1,), (2,)], "music"),
    "turns": OnnxFile("pipecat", "audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx", [(1,), (3,)], "spectrum"),
    "speech": OnnxFile("silero_vad", "data/silero_vad.onnx", BOTH_RATES, "speech"),
    "speech-ifless": OnnxFile("silero_vad", "data/silero_vad_op18_ifless.onnx", [*BOTH_RATES, (1, 1600, 8000)], "speech"),
    "speech-16k": OnnxFile(
        "silero_vad", "data/silero_vad_16k_op15.onnx", [(1, 576, 16000), (4, 512, 16000), (2, 200, 16000)], "speech",
    ),
    "speech-half": OnnxFile("silero_vad", "data/silero_vad_half.onnx", [(1, 576), (4, 512)], "speech of one rate"),
    "speech-fixed": OnnxFile("silero_vad", "data/silero_vad_openvino_16k.onnx", [(1, 576)], "speech of one rate"),
    "speech-sequence": OnnxFile("silero_vad", "data/silero_vad_16k_sequence.onnx", [(1,), (7,), (40,)], "speech in a row"),
}  # fmt: skip


def thinned(values: np.ndarray) -> np.ndarray:
    """Return at most 200 elements of an array, evenly spread."""
    return values.ravel()[:: max(1, -(-values.size // 200))]
