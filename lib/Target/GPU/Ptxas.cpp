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

/// Reads the lines that `ptxas -v` prints for each function.
static void readReport(StringRef report, std::vector<GpuFunction> &functions) {
  Regex name("Compiling entry function '([^']*)'"), spills("([0-9]+) bytes spill stores, ([0-9]+) bytes spill loads"),
      registers("Used ([0-9]+) registers"), shared("([0-9]+) bytes smem");
  SmallVector<StringRef> lines;
  report.split(lines, '\n');
  auto numberOf = [](StringRef text) {
    uint64_t number = 0;
    (void)text.getAsInteger(10, number);
    return number;
  };
  for (StringRef line : lines) {
    SmallVector<StringRef> found;
    if (name.match(line, &found)) {
      functions.push_back({found[1].str(), std::nullopt, std::nullopt, std::nullopt});
      continue;
    }
    if (functions.empty())
      continue;
    GpuFunction &function = functions.back();
    if (spills.match(line, &found))
      function.spilledBytes = numberOf(found[1]) + numberOf(found[2]);
    if (registers.match(line, &found))
      function.registers = numberOf(found[1]);
    if (shared.match(line, &found))
      function.sharedBytes = numberOf(found[1]);
  }
}

Expected<std::vector<char>> assemblePtx(StringRef ptx, StringRef architecture, std::vector<GpuFunction> &functions) {
  ErrorOr<std::string> program = sys::findProgramByName("ptxas");
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
  if (status != 0)
    return createStringError("'" + *program + "' failed for " + architecture + ": " + message + text.trim());
  readReport(text, functions);
  auto cubin = MemoryBuffer::getFile(paths[1], /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!cubin)
    return createStringError("ptxas wrote no file for " + architecture);
  StringRef bytes = (*cubin)->getBuffer();
  return std::vector<char>(bytes.begin(), bytes.end());
}

} // namespace intarsia::gpu
