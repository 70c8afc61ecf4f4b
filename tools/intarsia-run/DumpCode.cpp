//===- DumpCode.cpp - Code of devices, out of an artifact ---------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "tools/intarsia-run/DumpCode.h"

#include "lib/Formats/Artifact.h"
#include "lib/Formats/ElfReader.h"
#include "lib/Formats/GpuObject.h"
#include "lib/Support/File.h"
#include "tools/intarsia-run/Handles.h"

#include <cstring>
#include <filesystem>

namespace intarsia::run {

namespace {

/// Writes files of one folder, whose names are made of what an artifact says.
class Folder {
public:
  explicit Folder(const std::string &path) : path(path) {
    std::error_code problem;
    std::filesystem::create_directories(path, problem);
    if (problem)
      throw Failure{path + ": cannot be made: " + problem.message()};
  }

  void write(const std::string &name, std::string_view bytes) {
    if (name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+-") != name.npos)
      throw Failure{"'" + name + "' is no name for a file: the names of devices and variants have other characters"};
    std::unique_ptr<AtomicFile> file;
    check(AtomicFile::create(path + "/" + name, file));
    check(file->write(bytes.data(), bytes.size()));
    check(file->commit());
    names += name + "\n";
  }
  const std::string &written() const { return names; }

private:
  std::string path, names;
};

/// Writes the pieces of an object of a GPU, or the whole object of another device.
void dumpObject(std::string_view object, const std::string &where, const std::string &name, Folder &folder) {
  bool isGpu = object.size() > sizeof(gpuObjectMagic) &&
               std::memcmp(object.data(), gpuObjectMagic, sizeof(gpuObjectMagic) - 1) == 0;
  if (!isGpu)
    return folder.write(name + ".object", object);
  GpuObject parsed;
  check(parseGpuObject(object.data(), object.size(), where, parsed));
  for (const GpuCode &code : parsed.code) {
    std::string unpacked;
    check(unpackGpuCode(code, where, unpacked));
    folder.write(name + "." + gpuCodeKindName(code.kind), unpacked);
  }
}

} // namespace

std::string dumpCode(const std::string &module, const std::string &folderPath) {
  std::string path = module.empty() ? "/proc/self/exe" : module;
  std::unique_ptr<MappedFile> file;
  check(MappedFile::open(path, file));
  ArtifactExtent payload = {0, file->size()}, extent;
  if (module.empty())
    check(findPayload(file->data(), file->size(), path, payload));
  const uint8_t *begin = file->data() + payload.offset;
  check(findArtifact(begin, payload.bytes, path, extent));
  begin += extent.offset;
  ArtifactHeader header;
  Manifest manifest;
  ElfReader elf;
  check(checkArtifactHeader(begin, extent.bytes, path, header));
  check(checkArtifactContents(begin, header.fileBytes, path, manifest));
  check(ElfReader::parse(begin, header.fileBytes, path, elf));
  Folder folder(folderPath);
  for (const DeviceInfo &device : manifest.devices)
    for (const ObjectInfo &object : device.objects) {
      std::string sectionName = artifactObjectSection(object.object);
      const ElfSection *section = elf.find(sectionName);
      if (!section)
        throw Failure{path + ": has no section " + sectionName + " for the code of '" + device.name +
                      "': compile the model again"};
      dumpObject({reinterpret_cast<const char *>(begin + section->offset), section->bytes}, path,
                 device.name + "." + object.variant, folder);
    }
  if (folder.written().empty())
    throw Failure{path + ": has code for the host's CPU alone, which tools for ELF files show (objdump -d)"};
  return folder.written();
}

} // namespace intarsia::run
