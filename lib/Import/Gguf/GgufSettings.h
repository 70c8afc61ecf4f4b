//===- GgufSettings.h - The metadata of a GGUF file as settings of a Hugging Face model ---------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_GGUF_GGUFSETTINGS_H
#define INTARSIA_IMPORT_GGUF_GGUFSETTINGS_H

#include "lib/Import/Gguf/GgufArchive.h"
#include "llvm/ADT/SmallVector.h"

namespace intarsia::importer {

/// Returns the settings that config.json of the model would have. Metadata that change results are translated or
/// refused by name.
llvm::json::Object readGgufSettings(const GgufArchive &archive, const GgufArchitecture &architecture, Errors &errors);

/// Replaces names of config.json in a message by keys of the file: "hidden_size" becomes "llama.embedding_length".
std::string inTermsOfGguf(llvm::StringRef message, const GgufArchitecture &architecture);

/// Ids of tokens that begin and end texts. `unnamed` lists, for a message, the ends that no key names.
struct GgufTokens {
  llvm::SmallVector<int64_t> ends;
  std::optional<int64_t> begin;
  std::string unnamed;
};
GgufTokens readGgufTokens(const GgufArchive &archive, Errors &errors);

} // namespace intarsia::importer

#endif
