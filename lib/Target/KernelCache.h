//===- KernelCache.h - Code of kernels that were compiled before ----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_KERNELCACHE_H
#define INTARSIA_LIB_TARGET_KERNELCACHE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>
#include <vector>

namespace intarsia::target {

/// Keeps the code of kernels in the folder that the environment variable INTARSIA_KERNEL_CACHE names, up to 1 GiB. Code
/// is found again if the same compiler makes it of the same source. Damaged files count as missing. If the folder
/// cannot be used, or other users may write to it, a warning is printed once and nothing is kept.
class KernelCache {
public:
  KernelCache();

  /// Returns true if there is a folder to look into.
  explicit operator bool() const { return !folder.empty(); }

  /// Returns the key of what this compiler makes of a source, which says all that the code depends on.
  std::string keyOf(llvm::StringRef source) const;

  /// Returns the code that keep() has stored for a key; none if there is no such file, or if it is damaged.
  std::optional<std::vector<char>> find(llvm::StringRef key) const;
  void keep(llvm::StringRef key, llvm::ArrayRef<char> code) const;

  /// Returns the code for a source, which is made and kept if it was not kept before. Without a folder it is made.
  llvm::Expected<std::vector<char>> findOrMake(llvm::function_ref<std::string()> source,
                                               llvm::function_ref<llvm::Expected<std::vector<char>>()> make) const;

private:
  std::string pathOf(llvm::StringRef key) const;

  std::string folder; ///< empty: there is none
  std::string made;   ///< what tells this compiler from others
};

} // namespace intarsia::target

#endif
