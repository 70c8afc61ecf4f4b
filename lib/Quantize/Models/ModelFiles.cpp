//===- ModelFiles.cpp - The files of a model directory that is written ------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Quantize/Models/ModelFiles.h"

#include "intarsia/Quantize/PrecisionFile.h"
#include "lib/Support/FileVersions.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using llvm::createStringError;
using llvm::Expected;
using llvm::SmallString;
using llvm::StringLiteral;
using llvm::StringRef;

namespace intarsia::quantize {

static std::string joined(StringRef folder, StringRef name) {
  SmallString<128> path(folder);
  llvm::sys::path::append(path, name);
  return path.str().str();
}

std::string ModelFiles::pathOf(StringRef name) const { return joined(output, name); }

Expected<std::unique_ptr<OutputFile>> ModelFiles::create(const std::string &final, const Json &header) {
  auto path = files.make(final);
  if (!path)
    return path.takeError();
  written.emplace_back(*path, final);
  std::string text = header.dump();
  text.resize(llvm::alignTo(text.size(), 8), ' ');
  uint64_t length = text.size(); // little-endian, as every host of the compiler is
  std::unique_ptr<OutputFile> file;
  Status status = OutputFile::create(*path, file);
  if (status.ok())
    status = file->write(&length, sizeof(length));
  if (status.ok())
    status = file->write(text.data(), text.size());
  if (!status.ok())
    return createStringError(status.message());
  return std::move(file);
}

Expected<Json> ModelFiles::readJson(const std::string &name) const {
  std::string path = joined(model, name);
  FileVersions::note(path);
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return createStringError(path + ": cannot be read: " + buffer.getError().message());
  Json value;
  Status status = parseJson((*buffer)->getBuffer(), path, value);
  if (!status.ok())
    return createStringError(status.message());
  return value;
}

llvm::Error ModelFiles::writeText(const std::string &final, const std::string &text) {
  auto path = files.make(final);
  if (!path)
    return path.takeError();
  written.emplace_back(*path, final);
  std::unique_ptr<OutputFile> file;
  Status status = OutputFile::create(*path, file);
  if (status.ok())
    status = file->write(text.data(), text.size());
  if (status.ok())
    status = file->close();
  return status.ok() ? llvm::Error::success() : createStringError(status.message());
}

llvm::Error ModelFiles::copyFolder(const std::string &folder) {
  static constexpr StringLiteral kinds[] = {".json", ".jinja", ".model", ".txt", ".md", ".tiktoken"};
  std::error_code code;
  for (llvm::sys::fs::directory_iterator entry(joined(model, folder), code), end; entry != end && !code;
       entry.increment(code)) {
    std::string path = entry->path(), name = llvm::sys::path::filename(path).str();
    std::string relative = folder.empty() ? name : joined(folder, name);
    if (llvm::sys::fs::is_directory(path)) {
      // A folder in a folder is no part of a model.
      if (folder.empty() && name.front() != '.')
        if (llvm::Error error = copyFolder(name))
          return error;
      continue;
    }
    bool isCopied = StringRef(name).starts_with("LICENSE") ||
                    llvm::any_of(kinds, [&](StringRef extension) { return StringRef(name).ends_with(extension); });
    if (!isCopied || relative == "config.json" || relative == precisionFileName ||
        StringRef(name).ends_with(".index.json"))
      continue;
    FileVersions::note(path);
    auto buffer = llvm::MemoryBuffer::getFile(path);
    if (!buffer)
      return createStringError(path + ": cannot be read: " + buffer.getError().message());
    if (!folder.empty())
      if (std::error_code made = llvm::sys::fs::create_directories(joined(output, folder)))
        return createStringError(joined(output, folder) + ": cannot be made: " + made.message());
    if (llvm::Error error = writeText(joined(output, relative), (*buffer)->getBuffer().str()))
      return error;
  }
  return code ? createStringError(joined(model, folder) + ": cannot be listed: " + code.message())
              : llvm::Error::success();
}

llvm::Error ModelFiles::keep() {
  if (Status status = FileVersions::check(); !status.ok())
    return createStringError(status.message());
  for (const auto &[path, final] : written)
    if (llvm::Error error = files.keep(path, final))
      return error;
  return llvm::Error::success();
}

} // namespace intarsia::quantize
