//===- GpuLibrary.cpp - A vendor's library, found while the program runs ----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/GPU/GpuLibrary.h"

#include <algorithm>
#include <dlfcn.h>
#include <link.h>
#include <memory>

namespace intarsia::runtime {

/// Returns the folders in which the dynamic linker looks for libraries, beside those of its cache.
static std::vector<std::string> searchedFolders() {
  std::vector<std::string> folders;
  void *self = dlopen(nullptr, RTLD_LAZY);
  Dl_serinfo size;
  if (!self || dlinfo(self, RTLD_DI_SERINFOSIZE, &size) != 0)
    return folders;
  std::unique_ptr<char[]> memory(new char[size.dls_size]);
  auto *info = reinterpret_cast<Dl_serinfo *>(memory.get());
  if (dlinfo(self, RTLD_DI_SERINFOSIZE, info) != 0 || dlinfo(self, RTLD_DI_SERINFO, info) != 0)
    return folders;
  for (unsigned i = 0; i < info->dls_cnt; ++i)
    folders.push_back(info->dls_serpath[i].dls_name);
  return folders;
}

Status GpuLibrary::open(const std::vector<std::string> &names, const std::string &what, GpuLibrary &library) {
  std::vector<std::string> reasons;
  for (const std::string &name : names) {
    if (void *handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) {
      library.handle_ = handle;
      library.name_ = name;
      library.what_ = what;
      return Status::success();
    }
    // A library that is there but cannot be loaded has a reason of its own, such as one that it needs.
    const char *text = dlerror();
    std::string reason = text ? text : "";
    if (!reason.starts_with(name + ": cannot open shared object file: No such file"))
      reasons.push_back(reason);
  }
  std::vector<std::string> folders = searchedFolders();
  return error(ITX_NOT_FOUND, "there is no %s: looked for %s%s%s%s", what.c_str(), join(names).c_str(),
               folders.empty() ? "" : (" in " + join(folders) + " and the linker's cache").c_str(),
               reasons.empty() ? "" : "; ", join(reasons).c_str());
}

void *GpuLibrary::find(const char *symbol, bool isRequired) {
  void *found = dlsym(handle_, symbol);
  if (!found && isRequired)
    missing_.push_back(symbol);
  return found;
}

Status GpuLibrary::check() const {
  if (missing_.empty())
    return Status::success();
  return error(ITX_UNSUPPORTED, "the %s %s lacks %s: it is too old, update it", what_.c_str(), name_.c_str(),
               join(missing_).c_str());
}

} // namespace intarsia::runtime
