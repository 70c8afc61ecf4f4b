# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``intarsia quantize``."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from .. import quantization
from ..quantization.pictures import PREPROCESSOR, read_pictures
from ..quantization.quantize import WINDOW, encode_documents, quantize, read_windows, usual_window
from ..support.errors import InvalidArgumentError
from . import quantize_auto, quantize_inputs
from .arguments import add_threads, at_least, progress, read_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.description = (
        "Quantize the linears of a model and write a model directory, which intarsia-compile and other tools read. "
        "With a calibration text, weights are rounded so that their errors cancel in the outputs. The program "
        "intarsia-quantize needs no Python, and knows no texts."
    )
    parser.add_argument("model", type=Path, metavar="MODEL", help="a Hugging Face directory")
    parser.add_argument(
        "-o", dest="output", type=Path, required=True, metavar="DIRECTORY", help="the directory to write"
    )
    parser.add_argument(
        "--quantize", default="int4", metavar="FORMAT", help="int4 (default), int4-g128, mxfp4, nvfp4, …; auto"
    )
    parser.add_argument(
        "--quantize-parts",
        metavar="PARTS",
        help="linears (default), lm_head, each alone or with a format of its own: linears,lm_head=int8; with auto "
        "linears, lm_head and embedding (default: all)",
    )
    parser.add_argument(
        "--rotate",
        metavar="KINDS",
        help="residual, values: multiply what layers pass on, or values of attention, by Hadamard matrices, so that "
        "weights have fewer outliers; the embedding and the head are then written in f32",
    )
    parser.add_argument(
        "--search-scales",
        action="store_true",
        help="without a text: take for each block of weights the scale with the least squared error",
    )
    parser.add_argument(
        "--calibration",
        type=_calibration_file,
        metavar="FILE",
        help="UTF-8 text; or .npy: token ids, pixel_values; or a folder of pictures; or builtin: English prose that "
        "the package carries (the documentation of Intarsia, under its licence)",
    )
    parser.add_argument("--lines", action="store_true", help="each line of the text is a text of its own")
    parser.add_argument("--tokenizer", type=Path, help="tokenizer.json, or the folder that holds it (default: MODEL)")
    parser.add_argument(
        "--window",
        type=at_least(2),
        help=f"tokens of a window (default: {WINDOW}; for encoders with --lines the mean length of lines)",
    )
    parser.add_argument("--tokens", type=at_least(0), default=0, help="the most tokens of the text (default: all)")
    parser.add_argument(
        "--work",
        type=Path,
        metavar="FOLDER",
        help="what is between layers lies here, so that a run that was ended goes on (default: DIRECTORY.work)",
    )
    add_threads(parser)
    quantize_inputs.add_flags(parser)
    quantize_auto.add_flags(parser)


def _calibration_file(name: str) -> Path:
    """Return the file that ``--calibration`` names; ``./builtin`` is one of the user's."""
    return Path(quantization.__file__).with_name("calibration.txt") if name == "builtin" else Path(name)


def _load_array(file: Path) -> np.ndarray:
    """Read an array of NumPy."""
    try:
        array = np.load(file)
    except OSError:
        raise
    except Exception as error:  # EOFError, BadZipFile, SyntaxError, …: whatever is no array
        raise InvalidArgumentError(f"{file}: is no array of NumPy: {error}", "invalid argument") from error
    if not isinstance(array, np.ndarray):
        raise InvalidArgumentError(f"{file}: has several arrays, must be one: .npy", "invalid argument")
    return array


def _check_kind(model: Path, calibration: Path) -> None:
    """Refuse a text for a model of images, and pictures for a model of texts, before any of them is read."""
    config = model / "config.json"
    reads_text = (model / "tokenizer.json").exists() or (config.is_file() and b'"vocab_size"' in config.read_bytes())
    reads_images = (model / PREPROCESSOR).exists() or not reads_text
    if calibration.is_dir() and not reads_images:
        raise InvalidArgumentError(
            f"{calibration}: is a folder, of pictures, and {model} reads token ids: give --calibration a text in UTF-8 "
            "or an array of token ids (.npy)",
            "invalid argument",
        )
    if config.exists() and calibration.suffix != ".npy" and calibration.is_file() and not reads_text:
        raise InvalidArgumentError(
            f"{calibration}: is taken for a text, and {model} has no tokenizer.json and no vocabulary, as models of "
            "images: give --calibration a folder of pictures or an array of pixel_values (.npy)",
            "invalid argument",
        )


def _calibration_windows(options: argparse.Namespace) -> np.ndarray:
    """Return the calibration text as windows of token ids, of a text or of an array of ids; or images."""
    if options.tokenizer is None:
        _check_kind(options.model, options.calibration)
    if options.calibration.is_dir():
        return read_pictures(options.model, options.calibration)
    if options.calibration.suffix == ".npy":
        ids = _load_array(options.calibration)
        if ids.dtype.kind == "f" and ids.ndim == 4:
            return ids
        if ids.dtype.kind not in "iu" or ids.ndim not in (1, 2):
            raise InvalidArgumentError(
                f"{options.calibration}: is {ids.dtype} of rank {ids.ndim}, token ids are integers [tokens] or "
                "[texts, tokens], images floats [images, channels, height, width]",
                "invalid argument",
            )
        if ids.ndim == 2:
            return np.asarray(ids, np.int64)
    else:
        text = read_text(options.calibration)
        documents = text.removesuffix("\n").split("\n") if options.lines else [text]
        ids = encode_documents(options.model, documents, options.tokenizer)
        if options.window is None:
            return read_windows(ids, usual_window(options.model, len(ids), len(documents)), options.tokens or None)
    return read_windows(ids, options.window or WINDOW, options.tokens or None)


def run(options: argparse.Namespace) -> None:
    """Quantize a model, and print what it lost."""
    quantize_inputs.check_flags(options)
    quantize_auto.check_flags(options)
    windows = None if options.calibration is None else _calibration_windows(options)
    with progress() as show:
        if options.quantize_activations:
            table = quantize_inputs.run(options, windows, show)
        elif options.quantize == "auto":
            table = quantize_auto.run(options, windows, show)
        else:
            table = quantize(
                options.model,
                options.output,
                options.quantize,
                windows,
                parts=(options.quantize_parts or "linears").split(","),
                rotations=options.rotate.split(",") if options.rotate else (),
                search_scales=options.search_scales,
                work=options.work,
                progress=show,
            )
    print(table, end="")
    print(f"wrote {options.output}: intarsia-compile {options.output} compiles it")
