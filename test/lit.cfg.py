# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How lit runs the .mlir tests; the build tree's lit.site.cfg.py loads it with the paths of that build."""

import os
import platform
import sys

import lit.formats

# lit puts these names into the file's scope.
config = globals()["config"]

# One suite for each tree that holds tests: test, and dialects, where those of an op lie beside it.
config.name = "intarsia" if config.folder == "test" else f"intarsia-{config.folder}"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["EndToEnd", "docs", "fuzz", "passes", "python", "unit", "Inputs"]
config.test_source_root = os.path.join(config.source_dir, config.folder)
config.test_exec_root = os.path.join(config.build_dir, config.folder)

# Ours first, then FileCheck, not, mlir-opt and the rest of LLVM's.
config.environment["PATH"] = os.pathsep.join(
    [os.path.join(config.build_dir, "bin"), config.llvm_tools_dir, os.environ.get("PATH", "")]
)
config.environment["FILECHECK_OPTS"] = "--enable-var-scope --allow-unused-prefixes=false"
for variable in ("HOME", "CCACHE_DIR", "ITX_THREADS", "ASAN_OPTIONS", "UBSAN_OPTIONS"):
    if variable in os.environ:
        config.environment[variable] = os.environ[variable]

# lit runs in the environment that has what the tests import.
config.substitutions.append(("%python", sys.executable))
config.substitutions.append(("%source_dir", config.source_dir))

config.available_features.add(platform.machine())
with open("/proc/cpuinfo") as file:
    for line in file:
        if line.startswith("flags"):
            config.available_features.update(flag for flag in line.split() if flag.startswith(("avx", "amx", "fma")))
            break
