//===- KernelCache.h - Code of kernels that were compiled before ----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_KERNELCACHE_H
#define INTARSIA_LIB_TARGET_KERNELCACHE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>
#include <vector>

namespace intarsia::target {

/// The folder that the environment variable INTARSIA_KERNEL_CACHE names: code is taken from there that the same
/// compiler has made of the same source, and put there if there is none. Files that hold something else are made anew.
/// A folder that cannot be used, or that others may write to, is left alone after one warning. It is kept below 1 GiB.
class KernelCache {
public:
  KernelCache();

  /// Returns true if there is a folder to look into.
  explicit operator bool() const { return !folder.empty(); }

  /// Returns the key of what this compiler makes of a source, which says all that the code depends on.
  std::string keyOf(llvm::StringRef source) const;

  /// Returns the code. None if there is no file of the key, or if it is not one that keep() has written for it.
  std::optional<std::vector<char>> find(llvm::StringRef key) const;
  void keep(llvm::StringRef key, llvm::ArrayRef<char> code) const;

private:
  std::string pathOf(llvm::StringRef key) const;

  std::string folder; ///< empty: there is none
  std::string made;   ///< what tells this compiler from others
};

} // namespace intarsia::target

#endif
