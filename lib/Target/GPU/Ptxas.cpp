//===- Ptxas.cpp - PTX to machine code of NVIDIA GPUs ------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/GPU/Ptxas.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Regex.h"

using namespace llvm;

namespace intarsia::gpu {

void readPtxasReport(StringRef report, std::vector<GpuFunction> &functions) {
  Regex name("Compiling entry function '([^']*)'"), registers("Used ([0-9]+) registers"), shared("([0-9]+) bytes smem"),
      memory("([0-9]+) bytes stack frame, ([0-9]+) bytes spill stores, ([0-9]+) bytes spill loads");
  SmallVector<StringRef> lines;
  report.split(lines, '\n');
  auto numberOf = [](StringRef text) {
    uint64_t number = 0;
    (void)text.getAsInteger(10, number);
    return number;
  };
  GpuFunction *function = nullptr; // the last one that the report began with
  for (StringRef line : lines) {
    SmallVector<StringRef> found;
    if (name.match(line, &found)) {
      function = &functions.emplace_back(GpuFunction{found[1].str()});
      continue;
    }
    if (!function)
      continue;
    if (memory.match(line, &found)) {
      function->localBytes = function->localBytes.value_or(0) + numberOf(found[1]);
      function->spilledBytes = function->spilledBytes.value_or(0) + numberOf(found[2]) + numberOf(found[3]);
    }
    if (registers.match(line, &found)) {
      function->registers = numberOf(found[1]);
      // Nothing is said of shared memory that a function lacks.
      function->sharedBytes = shared.match(line, &found) ? numberOf(found[1]) : 0;
    }
  }
}

Expected<std::vector<char>> assemblePtx(StringRef ptx, StringRef architecture, std::vector<GpuFunction> &functions) {
  ErrorOr<std::string> program = sys::findProgramByName(ptxasName);
  if (!program)
    return std::vector<char>();
  SmallVector<SmallString<128>> paths(3);
  auto removeAll = scope_exit([&] {
    for (const SmallString<128> &path : paths)
      if (!path.empty())
        sys::fs::remove(path);
  });
  for (auto [path, suffix] : zip_equal(paths, ArrayRef<StringRef>{"ptx", "cubin", "txt"}))
    if (std::error_code code = sys::fs::createTemporaryFile("intarsia", suffix, path))
      return createStringError("cannot make a temporary file for ptxas: " + code.message());
  std::error_code code;
  raw_fd_ostream source(paths[0], code);
  source << ptx;
  source.close();
  if (code || source.has_error())
    return createStringError("cannot write '" + paths[0] + "' for ptxas");
  std::string target = "-arch=" + architecture.str();
  std::optional<StringRef> redirects[] = {StringRef(""), StringRef(paths[2]), StringRef(paths[2])};
  std::string message;
  int status = sys::ExecuteAndWait(*program, {*program, target, "-O3", "-v", "-o", paths[1], paths[0]}, std::nullopt,
                                   redirects, /*SecondsToWait=*/0, /*MemoryLimit=*/0, &message);
  auto report = MemoryBuffer::getFile(paths[2]);
  StringRef text = report ? (*report)->getBuffer() : StringRef();
  if (status != 0) {
    // Older versions know neither newer architectures nor the PTX that these need.
    bool isOld = text.contains("is not defined for option 'gpu-name'") || text.contains("Unsupported .version");
    return createStringError("'" + *program + "' failed for " + architecture + ": " + message + text.trim() +
                             (isOld ? "; update the CUDA toolkit, or compile without it in PATH: the GPU's driver then "
                                      "compiles the PTX"
                                    : ""));
  }
  readPtxasReport(text, functions);
  auto cubin = MemoryBuffer::getFile(paths[1], /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!cubin)
    return createStringError("ptxas wrote no file for " + architecture);
  StringRef bytes = (*cubin)->getBuffer();
  return std::vector<char>(bytes.begin(), bytes.end());
}

} // namespace intarsia::gpu
