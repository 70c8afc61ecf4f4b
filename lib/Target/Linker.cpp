//===- Linker.cpp - lld, in this process -------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/Linker.h"

#include "lld/Common/CommonLinkerContext.h"
#include "lld/Common/Driver.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Errno.h"
#include <fcntl.h>
#include <mutex>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

LLD_HAS_DRIVER(elf)

using namespace llvm;

namespace intarsia::target {

/// Returns true if kernels may refer to this symbol: a few functions of the C library. Others would be missing when the
/// artifact is loaded.
static bool isAllowedReference(StringRef name) {
  return name == "memcpy" || name == "memset" || name == "memmove" || name == "memcmp";
}

static Error checkReferences(const std::vector<char> &linked, bool relocatable) {
  auto file = object::ObjectFile::createObjectFile(MemoryBufferRef({linked.data(), linked.size()}, "linked module"));
  if (!file)
    return file.takeError();
  auto *elf = dyn_cast<object::ELFObjectFileBase>(file->get());
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
    // The linker that turns an object into a module provides this table.
    bool isLinkers = relocatable && *name == "_GLOBAL_OFFSET_TABLE_";
    if ((*flags & object::SymbolRef::SF_Undefined) && !name->empty() && !isLinkers && !isAllowedReference(*name))
      return createStringError("compiled code refers to '" + *name + "', which artifacts do not contain");
  }
  return Error::success();
}

namespace {
/// A pipe, and a thread that collects its contents. lld writes a regular file under a temporary name beside it, which a
/// killed process leaves behind; it writes a pipe directly.
class Collector {
public:
  ~Collector() { finish(); }

  Error start() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
      return createStringError("cannot make a pipe for the linker's output: " + sys::StrError(errno));
    writeEnd = ends[1];
    reader = std::thread([this, readEnd = ends[0]] {
      char buffer[65536];
      for (ssize_t count; (count = ::read(readEnd, buffer, sizeof(buffer))) != 0;)
        if (count > 0)
          bytes.insert(bytes.end(), buffer, buffer + count);
        else if (errno != EINTR)
          break;
      ::close(readEnd);
    });
    return Error::success();
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(writeEnd); }
  std::vector<char> finish() {
    if (writeEnd >= 0) {
      ::close(std::exchange(writeEnd, -1));
      reader.join();
    }
    return std::move(bytes);
  }

private:
  int writeEnd = -1;
  std::thread reader;
  std::vector<char> bytes;
};
} // namespace

namespace {
/// Hides the flags of this program: lld resets all that it finds to their defaults.
class HiddenFlags {
public:
  HiddenFlags() {
    for (const auto &entry : cl::getRegisteredOptions())
      flags.insert(entry.second);
    for (cl::Option *flag : flags)
      flag->removeArgument();
  }
  ~HiddenFlags() {
    for (cl::Option *flag : flags)
      flag->addArgument();
  }

private:
  SetVector<cl::Option *> flags;
};
} // namespace

Expected<std::vector<char>> link(ArrayRef<CompiledObject> objects, StringRef elfEmulation, bool relocatable) {
  static std::mutex mutex; // lld keeps its state in globals
  std::lock_guard lock(mutex);
  SmallVector<int> descriptors;
  auto closeAll = scope_exit([&] {
    for (int descriptor : descriptors)
      ::close(descriptor);
  });
  Collector output;
  if (Error error = output.start())
    return error;
  std::vector<std::string> arguments = {"ld.lld", "-m", elfEmulation.str(), "-o", output.path(), "--build-id=none"};
  if (relocatable)
    arguments.push_back("-r");
  else
    for (const char *argument :
         {"-shared", "--gc-sections", "--hash-style=gnu", "-s", "-znoexecstack", "-zrelro", "-znow"})
      arguments.push_back(argument);
  for (const CompiledObject &object : objects) {
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
  std::optional<HiddenFlags> hidden(std::in_place);
  bool linked = lld::elf::link(pointers, stream, stream, /*exitEarly=*/false, /*disableOutput=*/false);
  lld::CommonLinkerContext::destroy();
  hidden.reset();
  if (!linked)
    return createStringError("the linker failed: " + messages);
  std::vector<char> bytes = output.finish();
  if (Error error = checkReferences(bytes, relocatable))
    return error;
  return bytes;
}

} // namespace intarsia::target
