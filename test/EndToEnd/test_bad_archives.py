# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Damaged safetensors files: a clear message, and nothing half written."""

from __future__ import annotations

import json
import os
import struct
import subprocess
from pathlib import Path

import pytest
from refusals import DENSE, LAYER, refused, write_model


@pytest.fixture
def model(tmp_path) -> Path:
    return write_model(tmp_path / "model")


def read_archive(model: Path) -> tuple[dict, bytes]:
    data = (model / "model.safetensors").read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def write_archive(model: Path, header: dict, data: bytes) -> None:
    text = json.dumps(header).encode()
    (model / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)


@pytest.mark.parametrize("kept", [0, 7, 8, 100, -1, -1000])
def test_truncated_archive(tools, model, kept):
    path = model / "model.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    refused(tools, model, "model.safetensors")


@pytest.mark.parametrize("length", [10**7, 2**63, 2**64 - 8, 0, 3])
def test_header_length(tools, model, length):
    path = model / "model.safetensors"
    path.write_bytes(struct.pack("<Q", length) + path.read_bytes()[8:])
    refused(tools, model, "model.safetensors")


def test_overlapping_tensors(tools, model):
    header, data = read_archive(model)
    other = LAYER + "output.dense.weight"
    header[other]["data_offsets"] = header[DENSE]["data_offsets"]
    write_archive(model, header, data)
    refused(tools, model, "model.safetensors", "dense.weight")


@pytest.mark.parametrize(
    "offsets",
    [[0, 2**62], [-4, 8188], [8192, 0], [2**64 - 8192, 2**64], [0, 100], [0.5, 8192.5], ["0", "8192"], [0], None],
)
def test_offsets_out_of_bounds(tools, model, offsets):
    header, data = read_archive(model)
    header[DENSE]["data_offsets"] = offsets
    write_archive(model, header, data)
    refused(tools, model, "model.safetensors", DENSE)


@pytest.mark.parametrize("shape", [[2**32, 2**32], [-64, -32], [64, 33], "64x32", [64.0, 32.5]])
def test_archive_shape(tools, model, shape):
    header, data = read_archive(model)
    header[DENSE]["shape"] = shape
    write_archive(model, header, data)
    refused(tools, model, DENSE)


def test_archive_dtype(tools, model):
    header, data = read_archive(model)
    header[DENSE]["dtype"] = "Q3"
    write_archive(model, header, data)
    refused(tools, model, DENSE, "Q3")


def test_bytes_that_belong_to_no_tensor(tools, model):
    """Each of these would shift weights, or hide that the file is another than its header says."""
    path = model / "model.safetensors"
    whole = path.read_bytes()
    header, data = read_archive(model)
    refused_with = "belong to no tensor"
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"    " + data)  # the header's length is 4 too small
    refused(tools, model, "model.safetensors", "the last 4 of", refused_with)
    write_archive(model, header, b"8 before" + data)
    refused(tools, model, "model.safetensors", "the last 8 of", refused_with)
    path.write_bytes(whole + bytes(1 << 20))
    refused(tools, model, "model.safetensors", "the last 1048576 of", refused_with)
    end = header[DENSE]["data_offsets"][1]
    for entry in header.values():
        if "data_offsets" in entry and entry["data_offsets"][0] >= end:
            entry["data_offsets"] = [offset + 64 for offset in entry["data_offsets"]]
    write_archive(model, header, data[:end] + bytes(64) + data[end:])
    refused(tools, model, "model.safetensors", f"bytes {end} to {end + 64} of the data", refused_with)


def test_bytes_that_belong_to_no_tensor_of_several_files(tools, model):
    header, data = read_archive(model)
    header.pop("__metadata__", None)
    write_archive(model, header, data + bytes(8))
    (model / "model.safetensors").rename(model / "model-00001-of-00001.safetensors")
    index = {"weight_map": dict.fromkeys(header, "model-00001-of-00001.safetensors")}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    refused(tools, model, "model-00001-of-00001.safetensors", "the last 8 of", "belong to no tensor")


SHIM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
typedef void *(*mmap_function)(void *, size_t, int, int, int, off_t);
static int count;
void *mmap(void *at, size_t bytes, int protection, int flags, int descriptor, off_t offset) {
  void *result = ((mmap_function)dlsym(RTLD_NEXT, "mmap"))(at, bytes, protection, flags, descriptor, offset);
  char link[64], path[PATH_MAX + 1] = {0};
  snprintf(link, sizeof(link), "/proc/self/fd/%d", descriptor);
  if (descriptor >= 0 && readlink(link, path, PATH_MAX) > 0 && !strcmp(path, getenv("SHORTEN")) &&
      ++count == atoi(getenv("SHORTEN_AT")) && truncate(path, 4096) != 0)
    abort();
  return result;
}
void *mmap64(void *at, size_t bytes, int protection, int flags, int descriptor, off_t offset) {
  return mmap(at, bytes, protection, flags, descriptor, offset);
}
"""


def test_archive_that_is_shortened_while_it_is_read(tools, model, tmp_path):
    """A file that shrinks after it was mapped: a message, exit status 1 and no new file, whenever that happens."""
    (tmp_path / "shim.c").write_text(SHIM)
    shim = tmp_path / "shim.so"
    subprocess.run(["clang-22", "-shared", "-fPIC", "-o", shim, tmp_path / "shim.c", "-ldl"], check=True)
    archive = model / "model.safetensors"
    whole = archive.read_bytes()
    at, ends = 0, []
    while not ends or ends[-1] != 0:
        at += 1
        archive.write_bytes(whole)
        (tmp_path / "out").mkdir(exist_ok=True)
        ended = subprocess.run(
            [tools.path("intarsia-compile"), model, "-o", tmp_path / "out" / "m.itx"],
            env={**os.environ, "LD_PRELOAD": str(shim), "SHORTEN": str(archive), "SHORTEN_AT": str(at)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        ends.append(ended.returncode)
        if ended.returncode != 0:
            assert ended.returncode == 1, ended.stderr
            assert "error: " in ended.stderr
            assert str(archive) in ended.stderr
            assert "PLEASE submit" not in ended.stderr
            assert list((tmp_path / "out").iterdir()) == []
    # The file is mapped for import and for packing, and each of them met its new end.
    assert len(ends) >= 3, ends


@pytest.mark.parametrize("text", [b"{", b"[]", b"null", b'{"a": 1}', b'{"a": {"dtype": "F32"}}', b"\xff\xfe{}"])
def test_archive_header_that_is_no_header(tools, model, text):
    (model / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text)
    refused(tools, model, "model.safetensors")
