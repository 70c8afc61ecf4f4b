# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The description of the machine by its properties."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# Features of /proc/cpuinfo that determine which kernels run, spelled as by the vendors.
FEATURES = {
    "avx2": "AVX2",
    "fma": "FMA",
    "avx512f": "AVX-512F",
    "avx512_vnni": "AVX-512 VNNI",
    "avx512_bf16": "AVX-512 BF16",
    "avx512_fp16": "AVX-512 FP16",
    "avx_vnni": "AVX-VNNI",
    "amx_tile": "AMX",
    "asimd": "NEON",
    "asimddp": "DotProd",
    "bf16": "BF16",
    "i8mm": "I8MM",
    "sve": "SVE",
}


def describe() -> dict[str, Any]:
    """Returns vendor, family, features, caches, memory and kernel of this machine."""
    text = Path("/proc/cpuinfo").read_text()
    first = dict(
        (key.strip(), value.strip())
        for key, _, value in (line.partition(":") for line in text.split("\n\n")[0].splitlines())
    )
    flags = set((first.get("flags") or first.get("Features") or "").split())
    memory = re.search(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text())
    return {
        "architecture": platform.machine(),
        "vendor": first.get("vendor_id") or first.get("CPU implementer", "unknown"),
        "family": first.get("cpu family") or first.get("CPU architecture", "unknown"),
        "model": first.get("model") or first.get("CPU part", "unknown"),
        "features": [name for flag, name in FEATURES.items() if flag in flags],
        "virtual": "hypervisor" in flags,
        "cores": os.cpu_count(),
        "caches": _caches(),
        "memory_gib": round(int(memory[1]) / 2**20) if memory else 0,
        "linux": platform.release(),
        "load_at_start": round(os.getloadavg()[0], 2),
    }


def use_cores(threads: int) -> list[int]:
    """Pins this process, and hence all its children, to as many cores as there are threads."""
    cores = sorted(os.sched_getaffinity(0))[:threads]
    os.sched_setaffinity(0, cores)
    return cores


def pin(cores: Sequence[int]) -> None:
    """Moves this process, and children that it starts from now on, to some cores."""
    os.sched_setaffinity(0, cores)


def processor(machine: dict[str, Any]) -> str:
    """Returns vendor and model, for the head of a short report."""
    return f"{machine['vendor']}, family {machine['family']}, model {machine['model']}"


def sentence(machine: dict[str, Any], cores: Sequence[int]) -> str:
    """Returns the description as one line of a report."""
    kind = "virtual machine" if machine["virtual"] else "machine"
    return (
        f"{machine['architecture']} {kind}, {machine['vendor']} family {machine['family']} model {machine['model']}, "
        f"{', '.join(machine['features'])}; {machine['cores']} cores ({len(cores)} used), "
        f"{', '.join(machine['caches'])}, {machine['memory_gib']} GiB of memory, Linux {machine['linux']}"
    )


def _caches() -> list[str]:
    result = []
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            kind = (folder / "type").read_text().strip()
            level, size = (folder / "level").read_text().strip(), (folder / "size").read_text().strip()
        except OSError:
            continue
        if kind != "Instruction":
            kilobytes = int(size.rstrip("K"))
            result.append(f"L{level} {kilobytes // 1024} MiB" if kilobytes >= 1024 else f"L{level} {kilobytes} KiB")
    return result
