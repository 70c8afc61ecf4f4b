//===- Importers.cpp - The kinds of models that are imported ------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Import/Import.h"
#include "lib/Formats/Archive.h"
#include "lib/Import/Gguf/GgufImport.h"
#include "lib/Import/HuggingFace/HuggingFace.h"
#include "lib/Import/MlirImport.h"
#include "lib/Import/Onnx/OnnxImport.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using llvm::createStringError;

namespace intarsia::importer {

// A kind of model is a row here; its importer lies in a folder of its own.
llvm::ArrayRef<Importer> importers() {
  static const Importer table[] = {
      {"Hugging Face",
       "a Hugging Face directory (config.json and *.safetensors)",
       {},
       {"config.json", "modules.json"},
       /*isIR=*/false,
       importHuggingFace},
      {"GGUF file", "a file named .gguf", {".gguf"}, {}, /*isIR=*/false, importGguf},
      {"ONNX file",
       "a file named .onnx",
       {".onnx"},
       {},
       /*isIR=*/false,
       importOnnx,
       /*needsLegalize=*/true,
       knownOnnxOps},
      {"IR", "IR in a file named .mlir or .mlirbc", {".mlir", ".mlirbc"}, {}, /*isIR=*/true, importMlir},
  };
  return table;
}

static std::string inDirectory(llvm::StringRef directory, llvm::StringRef file) {
  llvm::SmallString<256> path(directory);
  llvm::sys::path::append(path, file);
  return path.str().str();
}

std::string Importer::titleWithArticle() const {
  return (llvm::StringRef("AEIOU").contains(name.front()) ? "an " : "a ") + title();
}

bool Importer::recognizes(llvm::StringRef path) const {
  if (llvm::sys::fs::is_directory(path) != isDirectory())
    return false;
  if (!isDirectory())
    return llvm::is_contained(extensions, llvm::sys::path::extension(path));
  // A file that cannot be looked at, or a link that leads nowhere, is there: its importer says what is wrong with it.
  return llvm::any_of(marks, [&](llvm::StringRef mark) {
    llvm::sys::fs::file_status status;
    return llvm::sys::fs::status(inDirectory(path, mark), status, /*follow=*/false) !=
           std::errc::no_such_file_or_directory;
  });
}

std::vector<std::string> Importer::filesOf(llvm::StringRef path) const {
  if (!isDirectory())
    return {path.str()};
  std::vector<std::string> files;
  for (llvm::StringRef mark : marks)
    files.push_back(inDirectory(path, mark));
  return files;
}

/// Returns the first file of a directory, by name, that is a model by itself; empty if there is none.
static std::string modelFileIn(llvm::StringRef directory, llvm::ArrayRef<Importer> among) {
  std::string first;
  std::error_code error;
  for (llvm::sys::fs::directory_iterator file(directory, error), end; file != end && !error; file.increment(error))
    if (llvm::any_of(among, [&](const Importer &importer) {
          return !importer.isDirectory() && importer.recognizes(file->path());
        }))
      first = first.empty() ? file->path() : std::min(first, file->path());
  return first;
}

llvm::Expected<const Importer *> findImporter(llvm::StringRef path, llvm::ArrayRef<Importer> among) {
  llvm::SmallVector<const Importer *> found;
  for (const Importer &importer : among)
    if (importer.recognizes(path))
      found.push_back(&importer);
  if (found.size() == 1)
    return found.front();
  if (found.size() > 1) {
    std::string kinds;
    for (const Importer *importer : found)
      kinds += (kinds.empty() ? "" : " and ") + importer->titleWithArticle();
    return createStringError(path + ": is " + kinds + ": move the files of each kind to a directory of its own");
  }
  if (!llvm::sys::fs::is_directory(path))
    return createStringError(path + ": a model is " + listKinds(among) +
                             (findArchiveKind(path.str()) ? "; give the directory that this archive is in" : ""));
  std::string why;
  for (const Importer &importer : among)
    if (importer.isDirectory())
      why += (why.empty() ? "" : "; ") + ("has no " + importer.marks.front() + ": not a " + importer.title()).str();
  std::string inside = modelFileIn(path, among);
  return createStringError(path + ": " + why +
                           (inside.empty() ? "" : "; is the model " + inside + "? Give that file then"));
}

/// Joins texts by ", ", the last one by " or ".
static std::string alternatives(llvm::ArrayRef<std::string> texts) {
  std::string result;
  for (auto [number, text] : llvm::enumerate(texts))
    result += (number == 0 ? "" : number + 1 == texts.size() ? " or " : ", ") + text;
  return result;
}

std::string listKinds(llvm::ArrayRef<Importer> among) {
  llvm::SmallVector<std::string> texts;
  for (const Importer &importer : among)
    texts.push_back(importer.described.str());
  return alternatives(texts);
}

std::string listKindsBriefly(llvm::ArrayRef<Importer> among) {
  std::string directories;
  llvm::SmallVector<std::string> extensions;
  for (const Importer &importer : among) {
    if (importer.isDirectory())
      directories += ("a " + importer.name + " directory, ").str();
    for (llvm::StringRef extension : importer.extensions)
      extensions.push_back(extension.str());
  }
  return directories + "a " + alternatives(extensions) + " file";
}

std::string listImported(llvm::ArrayRef<Importer> among) {
  llvm::SmallVector<std::string> texts;
  for (const Importer &importer : among) {
    if (importer.isIR)
      continue;
    std::string text = importer.isDirectory() ? "a model directory" : importer.titleWithArticle();
    if (!llvm::is_contained(texts, text))
      texts.push_back(text);
  }
  return alternatives(texts);
}

} // namespace intarsia::importer
