//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "WriteFile.h"
#include "lib/Support/File.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace intarsia::plan {

Error writeFile(StringRef path, StringRef text) {
  if (path == "-") {
    outs() << text;
    outs().flush();
    if (!outs().has_error())
      return Error::success();
    std::string why = outs().error().message();
    // Otherwise LLVM ends the program with an error of its own.
    outs().clear_error();
    return createStringError("standard output cannot be written: " + why);
  }
  std::unique_ptr<AtomicFile> file;
  Status status = AtomicFile::create(path.str(), file);
  if (status.ok())
    status = file->write(text.data(), text.size());
  if (status.ok())
    status = file->commit();
  return status.ok() ? Error::success() : createStringError(status.message());
}

} // namespace intarsia::plan
