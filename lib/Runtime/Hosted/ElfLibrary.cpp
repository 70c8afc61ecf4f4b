//===- ElfLibrary.cpp - A shared object from memory, loaded ----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Hosted/ElfLibrary.h"

#include "lib/Formats/ElfReader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace intarsia::runtime {

Status ElfLibrary::load(const void *data, uint64_t bytes, const std::string &where,
                        std::unique_ptr<ElfLibrary> &library) {
  ElfReader reader;
  ITX_RETURN_IF_ERROR(ElfReader::parse(static_cast<const uint8_t *>(data), bytes, where, reader));
  if (reader.machine() != hostElfMachine())
    return error(ITX_UNSUPPORTED,
                 "%s is for %s, this machine is %s: compile the model on this machine, or with this machine's triple",
                 where.c_str(), elfMachineName(reader.machine()).c_str(), elfMachineName(hostElfMachine()).c_str());
  std::unique_ptr<ElfLibrary> result(new ElfLibrary(where));
  ITX_RETURN_IF_ERROR(result->open(data, bytes));
  library = std::move(result);
  return Status::success();
}

ElfLibrary::~ElfLibrary() {
  if (library_)
    dlclose(library_);
  if (file_ >= 0)
    close(file_);
}

/// Loads the object from a copy in memory. The copy's path is unique while its descriptor is open, so that each load
/// has functions and data of its own.
Status ElfLibrary::open(const void *data, uint64_t bytes) {
  file_ = int(syscall(SYS_memfd_create, "itx-object", MFD_CLOEXEC));
  if (file_ < 0)
    return error(ITX_IO_ERROR, "%s: cannot make a file in memory: %s", where_.c_str(), std::strerror(errno));
  for (uint64_t done = 0; done < bytes;) {
    ssize_t written = write(file_, static_cast<const uint8_t *>(data) + done, bytes - done);
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return error(ITX_OUT_OF_MEMORY, "%s: cannot copy its %llu bytes into memory: %s", where_.c_str(),
                   (unsigned long long)bytes, std::strerror(errno));
    done += written;
  }
  library_ = dlopen(format("/proc/self/fd/%d", file_).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library_) {
    const char *reason = dlerror();
    return error(ITX_CORRUPT, "%s: cannot be loaded: %s", where_.c_str(), reason ? reason : "unknown reason");
  }
  return Status::success();
}

void *ElfLibrary::find(const std::string &symbol) const { return dlsym(library_, symbol.c_str()); }

Status ElfLibrary::bindImports(const char *imports, const char *functions, FindFunction findFunction) const {
  auto names = static_cast<const char *const *>(find(imports));
  auto addresses = static_cast<void **>(find(functions));
  if (!names || !addresses)
    return error(ITX_CORRUPT, "%s: does not export '%s': compile the model again", where_.c_str(),
                 names ? functions : imports);
  for (size_t i = 0; names[i]; ++i) {
    addresses[i] = findFunction(names[i]);
    if (!addresses[i])
      return error(ITX_CORRUPT,
                   "%s: calls the function '%s', which the device does not offer: compile the model again with the "
                   "compiler of this version",
                   where_.c_str(), names[i]);
  }
  return Status::success();
}

const void *ElfLibrary::begin(uint64_t &bytes) const {
  link_map *map = nullptr;
  bytes = 0;
  if (dlinfo(library_, RTLD_DI_LINKMAP, &map) != 0)
    return nullptr;
  struct Search {
    uintptr_t base; ///< what the addresses of the object's segments are relative to
    uint64_t bytes;
  } search = {map->l_addr, 0};
  dl_iterate_phdr(
      [](dl_phdr_info *info, size_t, void *data) {
        auto &search = *static_cast<Search *>(data);
        if (info->dlpi_addr != search.base)
          return 0;
        for (int i = 0; i < info->dlpi_phnum; ++i)
          if (info->dlpi_phdr[i].p_type == PT_LOAD)
            search.bytes = std::max<uint64_t>(search.bytes, info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz);
        return 1;
      },
      &search);
  bytes = search.bytes;
  return reinterpret_cast<const void *>(search.base);
}

bool ElfLibrary::imports(const char *array, const std::string &name) const {
  auto names = static_cast<const char *const *>(find(array));
  for (size_t i = 0; names && names[i]; ++i)
    if (name == names[i])
      return true;
  return false;
}

} // namespace intarsia::runtime
