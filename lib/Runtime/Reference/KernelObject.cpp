//===- KernelObject.cpp - An object of the reference device, loaded ---------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Reference/KernelObject.h"

#include "lib/Formats/ElfReader.h"

#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace intarsia::runtime {

Status KernelObject::load(const ExecutableSource &source, std::unique_ptr<Executable> &executable) {
  std::string where = source.name + ": its code for the reference device";
  ElfReader reader;
  ITX_RETURN_IF_ERROR(ElfReader::parse(static_cast<const uint8_t *>(source.object), source.bytes, where, reader));
  if (reader.machine() != hostElfMachine())
    return error(ITX_UNSUPPORTED,
                 "%s is for %s, this machine is %s: compile the model on this machine, or with this machine's triple",
                 where.c_str(), elfMachineName(reader.machine()).c_str(), elfMachineName(hostElfMachine()).c_str());
  std::unique_ptr<KernelObject> object(new KernelObject);
  ITX_RETURN_IF_ERROR(object->open(source, where));
  ITX_RETURN_IF_ERROR(object->bindKernels(source, where));
  ITX_RETURN_IF_ERROR(object->bindImports(where));
  executable = std::move(object);
  return Status::success();
}

KernelObject::~KernelObject() {
  if (library_)
    dlclose(library_);
  if (file_ >= 0)
    close(file_);
}

ReferenceKernel KernelObject::kernel(uint32_t index) const {
  auto found = kernels_.find(index);
  return found == kernels_.end() ? nullptr : found->second;
}

/// Loads the object from a copy in memory. The copy's path is unique while its descriptor is open, so that each load
/// has functions and data of its own.
Status KernelObject::open(const ExecutableSource &source, const std::string &where) {
  file_ = int(syscall(SYS_memfd_create, "itx-reference", MFD_CLOEXEC));
  if (file_ < 0)
    return error(ITX_IO_ERROR, "%s: cannot make a file in memory: %s", where.c_str(), std::strerror(errno));
  auto data = static_cast<const uint8_t *>(source.object);
  for (uint64_t done = 0; done < source.bytes;) {
    ssize_t written = write(file_, data + done, source.bytes - done);
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return error(ITX_OUT_OF_MEMORY, "%s: cannot copy its %llu bytes into memory: %s", where.c_str(),
                   (unsigned long long)source.bytes, std::strerror(errno));
    done += written;
  }
  library_ = dlopen(format("/proc/self/fd/%d", file_).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library_) {
    const char *reason = dlerror();
    return error(ITX_CORRUPT, "%s: cannot be loaded: %s", where.c_str(), reason ? reason : "unknown reason");
  }
  return Status::success();
}

Status KernelObject::bindKernels(const ExecutableSource &source, const std::string &where) {
  for (uint32_t index : source.wanted) {
    std::string symbol = format("itx_reference_kernel_%u", index);
    bool isNamed = source.kernels && index < source.kernels->size();
    void *address = dlsym(library_, symbol.c_str());
    if (!address)
      return error(ITX_CORRUPT, "%s: lacks kernel '%s' (it does not export '%s'): compile the model again",
                   where.c_str(), isNamed ? (*source.kernels)[index].c_str() : "?", symbol.c_str());
    kernels_[index] = reinterpret_cast<ReferenceKernel>(address);
  }
  return Status::success();
}

Status KernelObject::bindImports(const std::string &where) {
  auto imports = static_cast<const char *const *>(dlsym(library_, "itx_reference_imports"));
  auto functions = static_cast<void **>(dlsym(library_, "itx_reference_functions"));
  if (!imports || !functions)
    return error(ITX_CORRUPT, "%s: does not export '%s': compile the model again", where.c_str(),
                 imports ? "itx_reference_functions" : "itx_reference_imports");
  for (size_t i = 0; imports[i]; ++i) {
    functions[i] = findImport(imports[i]);
    if (!functions[i])
      return error(ITX_CORRUPT,
                   "%s: calls the function '%s', which the device does not offer: compile the model again with the "
                   "compiler of this version",
                   where.c_str(), imports[i]);
  }
  return Status::success();
}

} // namespace intarsia::runtime
