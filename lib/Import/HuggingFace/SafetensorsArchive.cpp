//===- SafetensorsArchive.cpp - The weights of a model folder ----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/HuggingFace/SafetensorsArchive.h"

#include "dialects/Nn/FileNames.h"
#include "lib/Support/File.h"
#include "lib/Support/FileVersions.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <map>
#include <set>

namespace intarsia::importer {

/// The names of weights of transformers and of diffusers.
static constexpr llvm::StringLiteral stems[] = {"model", "diffusion_pytorch_model"};
static std::string singleFile(llvm::StringRef stem) { return (stem + ".safetensors").str(); }
static std::string indexFile(llvm::StringRef stem) { return (stem + ".safetensors.index.json").str(); }

static std::string pathOf(llvm::StringRef directory, llvm::StringRef folder, llvm::StringRef file) {
  llvm::SmallString<256> path(directory);
  llvm::sys::path::append(path, folder, file);
  return std::string(path);
}

/// Returns a symbol, "weights" or "weights_2_dense": letters, digits and underscores, so that it prints without quotes.
static std::string symbolFor(llvm::StringRef folder) {
  std::string symbol = "weights";
  if (!folder.empty())
    symbol += '_';
  for (char c : folder)
    symbol += llvm::isAlnum(c) ? llvm::toLower(c) : '_';
  return symbol;
}

bool SafetensorsArchive::openFile(llvm::StringRef directory, llvm::StringRef folder, llvm::StringRef file,
                                  llvm::StringRef symbol, Errors &errors) {
  auto opened = std::make_unique<OpenFile>();
  opened->name = pathOf("", folder, file);
  opened->symbol = symbol.str();
  std::string path = pathOf(directory, folder, file);
  if (!hasFile(directory, opened->name, errors)) {
    errors.report(opened->name + ": no such file in " + directory + ", but " + displayName + " names it");
    return false;
  }
  FileVersions::note(path);
  Status status = SafetensorsFile::openPart(path, 0, MappedFile::toTheEnd, opened->name, opened->contents);
  if (!status.ok()) {
    errors.report(status.message());
    return false;
  }
  files.push_back(std::move(opened));
  return true;
}

bool SafetensorsArchive::openIndex(llvm::StringRef directory, llvm::StringRef folder, llvm::StringRef symbol,
                                   Errors &errors) {
  std::optional<Config> index = Config::read(directory, displayName, errors);
  if (!index)
    return false;
  const llvm::json::Value *value = index->find("weight_map");
  const llvm::json::Object *weightMap = value ? value->getAsObject() : nullptr;
  if (!weightMap) {
    index->report("has no weight_map from tensors to files");
    return false;
  }
  std::map<std::string, std::string> fileOfKey;
  std::map<std::string, const OpenFile *> named;
  for (const auto &[key, file] : *weightMap) {
    std::optional<llvm::StringRef> name = file.getAsString();
    if (!name || name->empty() || !nn::isBelowDirectory(*name)) {
      index->report("weight_map names no proper file for tensor '" + llvm::StringRef(key) + "'");
      return false;
    }
    fileOfKey[llvm::StringRef(key).str()] = name->str();
    named.try_emplace(name->str(), nullptr);
  }
  unsigned number = 0;
  for (auto &[file, opened] : named) {
    if (!openFile(directory, folder, file, (symbol + "_" + llvm::Twine(number++)).str(), errors))
      return false;
    opened = files.back().get();
  }
  // As in transformers the files count: tensors may be there that the index lacks, or lie in another file than it says.
  for (const auto &[key, file] : fileOfKey)
    if (const ArchiveTensor *entry = named[file]->contents->find(key))
      tensors.try_emplace(key, Tensor{named[file], entry});
  for (const auto &opened : files)
    for (const ArchiveTensor &entry : opened->contents->tensors()) {
      auto [known, isNew] = tensors.try_emplace(entry.name, Tensor{opened.get(), &entry});
      auto stated = fileOfKey.find(entry.name);
      bool isStated = stated != fileOfKey.end() && named[stated->second] == known->second.file;
      if (isNew || isStated || known->second.file == opened.get())
        continue;
      index->report("tensor '" + entry.name + "' is in " + known->second.file->name + " and in " + opened->name +
                    ", and weight_map does not say which is meant");
      return false;
    }
  for (const auto &[key, file] : fileOfKey)
    if (!tensors.contains(key))
      lacking[key] = named[file]->name;
  return true;
}

std::unique_ptr<SafetensorsArchive> SafetensorsArchive::open(llvm::StringRef directory, llvm::StringRef folder,
                                                             Errors &errors) {
  auto archive = std::make_unique<SafetensorsArchive>();
  std::string symbol = symbolFor(folder);
  for (llvm::StringRef stem : stems) {
    std::string single = singleFile(stem);
    archive->displayName = pathOf("", folder, single);
    if (hasFile(directory, archive->displayName, errors)) {
      if (!archive->openFile(directory, folder, single, symbol, errors))
        return nullptr;
      const OpenFile *file = archive->files.back().get();
      for (const ArchiveTensor &entry : file->contents->tensors())
        archive->tensors.try_emplace(entry.name, Tensor{file, &entry});
      return archive;
    }
    archive->displayName = pathOf("", folder, indexFile(stem));
    if (hasFile(directory, archive->displayName, errors))
      return archive->openIndex(directory, folder, symbol, errors) ? std::move(archive) : nullptr;
  }
  llvm::SmallString<256> where(directory);
  if (!folder.empty())
    llvm::sys::path::append(where, folder);
  std::string hint;
  for (llvm::StringRef pickle : {"pytorch_model.bin", "diffusion_pytorch_model.bin"})
    if (hint.empty() && llvm::sys::fs::exists(pathOf(directory, folder, pickle)))
      hint = ("; " + pickle + " is a pickle, which is never read: save the model with safe_serialization=True").str();
  errors.report(where + ": has no " + singleFile(stems[0]) + ", no " + singleFile(stems[1]) + ", and no index (*" +
                ".safetensors.index.json) of one" + hint);
  return nullptr;
}

} // namespace intarsia::importer
