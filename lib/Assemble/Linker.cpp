//===- Linker.cpp - lld, in this process -------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Assemble/Linker.h"

#include "lld/Common/CommonLinkerContext.h"
#include "lld/Common/Driver.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/Errno.h"
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>

LLD_HAS_DRIVER(elf)

using namespace llvm;

namespace intarsia::assemble {

/// Kernels may call these of the C library, and nothing else: everything more would be missing when the artifact is
/// loaded.
static bool isAllowedReference(StringRef name) {
  return name == "memcpy" || name == "memset" || name == "memmove" || name == "memcmp";
}

static Error checkReferences(const std::string &path, bool relocatable) {
  auto file = object::ObjectFile::createObjectFile(path);
  if (!file)
    return file.takeError();
  auto *elf = dyn_cast<object::ELFObjectFileBase>(file->getBinary());
  if (!elf)
    return createStringError("the linker wrote no ELF file");
  auto symbols = relocatable ? elf->symbols() : elf->getDynamicSymbolIterators();
  for (object::ELFSymbolRef symbol : symbols) {
    Expected<uint32_t> flags = symbol.getFlags();
    if (!flags)
      return flags.takeError();
    Expected<StringRef> name = symbol.getName();
    if (!name)
      return name.takeError();
    // The linker that makes a module of an object provides its own table of offsets.
    bool isLinkers = relocatable && *name == "_GLOBAL_OFFSET_TABLE_";
    if ((*flags & object::SymbolRef::SF_Undefined) && !name->empty() && !isLinkers && !isAllowedReference(*name))
      return createStringError("compiled code refers to '" + *name + "', which artifacts do not contain");
  }
  return Error::success();
}

Error link(ArrayRef<target::CompiledObject> objects, StringRef elfEmulation, bool relocatable,
           const std::string &output) {
  static std::mutex mutex; // lld keeps its state in globals
  std::lock_guard lock(mutex);
  SmallVector<int> descriptors;
  auto closeAll = scope_exit([&] {
    for (int descriptor : descriptors)
      ::close(descriptor);
  });
  std::vector<std::string> arguments = {"ld.lld", "-m", elfEmulation.str(), "-o", output, "--build-id=none"};
  if (relocatable)
    arguments.push_back("-r");
  else
    for (const char *argument :
         {"-shared", "--gc-sections", "--hash-style=gnu", "-s", "-znoexecstack", "-zrelro", "-znow"})
      arguments.push_back(argument);
  for (const target::CompiledObject &object : objects) {
    int descriptor = ::memfd_create(object.name.c_str(), MFD_CLOEXEC);
    if (descriptor < 0)
      return createStringError("cannot hand objects to the linker: " + sys::StrError(errno));
    descriptors.push_back(descriptor);
    for (size_t done = 0; done < object.object.size();) {
      ssize_t written = ::write(descriptor, object.object.data() + done, object.object.size() - done);
      if (written < 0 && errno != EINTR)
        return createStringError("cannot hand objects to the linker: " + sys::StrError(errno));
      done += std::max<ssize_t>(written, 0);
    }
    arguments.push_back("/proc/self/fd/" + std::to_string(descriptor));
  }
  SmallVector<const char *> pointers;
  for (const std::string &argument : arguments)
    pointers.push_back(argument.c_str());
  std::string messages;
  raw_string_ostream stream(messages);
  bool linked = lld::elf::link(pointers, stream, stream, /*exitEarly=*/false, /*disableOutput=*/false);
  lld::CommonLinkerContext::destroy();
  if (!linked)
    return createStringError("the linker failed: " + messages);
  return checkReferences(output, relocatable);
}

} // namespace intarsia::assemble
