//===- CarriedFiles.cpp - Files that an artifact carries beside its weights --------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Weights/CarriedFiles.h"

#include "lib/Formats/GgufFile.h"
#include "lib/Support/File.h"
#include "lib/Support/FileVersions.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"
#include <cmath>

using namespace mlir;
using llvm::createStringError;

namespace intarsia::weights {

/// Returns true for metadata on which token ids of a text depend. Some families of models are known by their names
/// alone; a name that is no text is none of these.
static bool isAboutText(llvm::StringRef key, const gguf::Value &value) {
  if (key == "general.name")
    return value.string() && llvm::json::isUTF8(*value.string());
  return key.starts_with("tokenizer.ggml.") || key.starts_with("tokenizer.chat_template");
}

/// Returns the metadata about text of a GGUF file as a JSON object with the file's keys. Returns an error if JSON
/// cannot represent a value.
static llvm::Expected<std::string> tokenizerOf(const gguf::File &file) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::json::OStream json(stream);
  std::string problem;
  json.object([&] {
    for (const auto &[name, value] : file.metadata()) {
      llvm::StringRef key(name);
      if (!isAboutText(key, value))
        continue;
      auto write = [&](const gguf::Value &one) {
        std::optional<std::string_view> string = one.string();
        std::optional<double> number = one.number();
        if (string && llvm::json::isUTF8(*string))
          return json.value(llvm::StringRef(*string));
        if (std::optional<bool> boolean = one.boolean())
          return json.value(*boolean);
        if (std::optional<int64_t> integer = one.integer())
          return json.value(*integer);
        if (number && std::isfinite(*number))
          return json.value(*number);
        problem = (file.name() + ": key '" + key + "' holds " +
                   (string ? "a text that is not UTF-8" : "a number that JSON has no form for"))
                      .str();
        json.value(nullptr);
      };
      json.attributeBegin(key);
      if (value.isArray)
        json.array([&, &value = value] { value.forEach(write); });
      else
        write(value);
      json.attributeEnd();
    }
  });
  if (!problem.empty())
    return createStringError(problem);
  return text;
}

llvm::Expected<std::vector<CarriedFile>> readCarriedFiles(ModuleOp module, llvm::StringRef directory) {
  std::vector<CarriedFile> files;
  auto names = module->getAttrOfType<ArrayAttr>("nn.files");
  if (!names)
    return files;
  for (StringRef name : names.getAsValueRange<StringAttr>()) {
    llvm::SmallString<128> path(directory);
    llvm::sys::path::append(path, name);
    if (name.ends_with(".gguf")) {
      std::unique_ptr<gguf::File> file;
      if (Status status = gguf::File::open(path.str().str(), name.str(), file); !status.ok())
        return createStringError(status.message());
      if (auto text = tokenizerOf(*file))
        files.push_back({"tokenizer.gguf.json", {text->begin(), text->end()}});
      else
        emitRemark(module.getLoc()) << "the artifact gets no tokenizer: " << llvm::toString(text.takeError())
                                    << "; texts need another one (intarsia generate --tokenizer)";
      continue;
    }
    FileVersions::note(path.str().str());
    std::unique_ptr<MappedFile> file;
    if (Status status = MappedFile::open(path.str().str(), file); !status.ok())
      return createStringError(status.message() + " (nn.files of the module names it; --archives says where it is)");
    files.push_back({name.str(), {file->data(), file->data() + file->size()}});
  }
  return files;
}

} // namespace intarsia::weights
