//===- ElfReader.cpp - Sections of an ELF file, checked -----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Formats/ElfReader.h"

#include <cstring>
#include <elf.h>

namespace intarsia {

std::string elfMachineName(uint32_t machine) {
  switch (machine) {
  case EM_X86_64:
    return "x86-64";
  case EM_AARCH64:
    return "aarch64";
  case EM_RISCV:
    return "riscv64";
  default:
    return "machine " + std::to_string(machine);
  }
}

uint16_t hostElfMachine() {
#if defined(__x86_64__)
  return EM_X86_64;
#elif defined(__aarch64__)
  return EM_AARCH64;
#elif defined(__riscv)
  return EM_RISCV;
#else
  return EM_NONE;
#endif
}

const ElfSection *ElfReader::find(std::string_view name) const {
  for (const ElfSection &section : sections_)
    if (section.name == name)
      return &section;
  return nullptr;
}

Status ElfReader::parse(const uint8_t *data, uint64_t bytes, const std::string &name, ElfReader &reader) {
  const char *where = name.c_str();
  Elf64_Ehdr header;
  if (bytes < SELFMAG || std::memcmp(data, ELFMAG, SELFMAG) != 0)
    return error(ITX_CORRUPT, "%s: is not a compiled module (.itx): it does not begin as an ELF file does", where);
  if (bytes < sizeof(header))
    return error(ITX_CORRUPT, "%s: is truncated: %llu bytes, its ELF header alone has %zu", where,
                 (unsigned long long)bytes, sizeof(header));
  std::memcpy(&header, data, sizeof(header));
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB)
    return error(ITX_CORRUPT, "%s: is not a 64-bit little-endian ELF file", where);
  if (header.e_shoff == 0 || header.e_shnum == 0 || header.e_shentsize != sizeof(Elf64_Shdr))
    return error(ITX_CORRUPT, "%s: has no ELF section headers: it is damaged or was stripped of them", where);
  uint64_t tableBytes = uint64_t(header.e_shnum) * sizeof(Elf64_Shdr);
  if (header.e_shoff > bytes || tableBytes > bytes - header.e_shoff)
    return error(ITX_CORRUPT,
                 "%s: is truncated: its section headers (%llu bytes from %llu on) go beyond its %llu bytes", where,
                 (unsigned long long)tableBytes, (unsigned long long)header.e_shoff, (unsigned long long)bytes);

  auto readSection = [&](uint64_t index) {
    Elf64_Shdr section;
    std::memcpy(&section, data + header.e_shoff + index * sizeof(section), sizeof(section));
    return section;
  };
  auto inside = [&](const Elf64_Shdr &section) {
    return section.sh_offset <= bytes && section.sh_size <= bytes - section.sh_offset;
  };
  if (header.e_shstrndx >= header.e_shnum)
    return error(ITX_CORRUPT, "%s: damaged: the index of its section names is %u of %u", where, header.e_shstrndx,
                 header.e_shnum);
  Elf64_Shdr names = readSection(header.e_shstrndx);
  if (names.sh_type == SHT_NOBITS || !inside(names))
    return error(ITX_CORRUPT, "%s: is truncated or damaged: its section names go beyond the file", where);

  ElfReader result;
  result.machine_ = header.e_machine;
  for (uint64_t i = 1; i < header.e_shnum; ++i) {
    Elf64_Shdr section = readSection(i);
    if (section.sh_type == SHT_NOBITS || section.sh_type == SHT_NULL)
      continue;
    if (!inside(section) || section.sh_name >= names.sh_size)
      return error(ITX_CORRUPT, "%s: is truncated or damaged: section %llu goes beyond the file", where,
                   (unsigned long long)i);
    const char *text = reinterpret_cast<const char *>(data + names.sh_offset + section.sh_name);
    size_t length = strnlen(text, names.sh_size - section.sh_name);
    result.sections_.push_back({std::string_view(text, length), section.sh_offset, section.sh_size});
  }
  reader = std::move(result);
  return Status::success();
}

} // namespace intarsia
