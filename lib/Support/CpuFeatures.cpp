//===- CpuFeatures.cpp - What the processor can do ----------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table of features is CpuFeatures.def, the tables of processors are here.
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Support/CpuFeatures.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace intarsia {

/// Processors by vendor, family and models, with LLVM's names (llvm::sys::getHostCPUName gives the same). Families and
/// models: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 4, table 2-1; AMD's processor
/// programming references; Linux, arch/x86/include/asm/intel-family.h.
static const struct {
  bool amd;
  uint32_t family, firstModel, lastModel;
  const char *name;
} x86Processors[] = {
    {false, 6, 0x3c, 0x3c, "haswell"},        {false, 6, 0x3f, 0x3f, "haswell"},
    {false, 6, 0x45, 0x46, "haswell"},        {false, 6, 0x3d, 0x3d, "broadwell"},
    {false, 6, 0x47, 0x47, "broadwell"},      {false, 6, 0x4f, 0x4f, "broadwell"},
    {false, 6, 0x56, 0x56, "broadwell"},      {false, 6, 0x4e, 0x4e, "skylake"},
    {false, 6, 0x5e, 0x5e, "skylake"},        {false, 6, 0x8e, 0x8e, "skylake"},
    {false, 6, 0x9e, 0x9e, "skylake"},        {false, 6, 0xa5, 0xa6, "skylake"},
    {false, 6, 0xa7, 0xa7, "rocketlake"},     {false, 6, 0x55, 0x55, "skylake-avx512"},
    {false, 6, 0x7d, 0x7e, "icelake-client"}, {false, 6, 0x6a, 0x6a, "icelake-server"},
    {false, 6, 0x6c, 0x6c, "icelake-server"}, {false, 6, 0x8c, 0x8d, "tigerlake"},
    {false, 6, 0x97, 0x97, "alderlake"},      {false, 6, 0x9a, 0x9a, "alderlake"},
    {false, 6, 0xb7, 0xb7, "raptorlake"},     {false, 6, 0xba, 0xba, "raptorlake"},
    {false, 6, 0xbf, 0xbf, "raptorlake"},     {false, 6, 0xaa, 0xaa, "meteorlake"},
    {false, 6, 0xac, 0xac, "meteorlake"},     {false, 6, 0xbe, 0xbe, "gracemont"},
    {false, 6, 0x8f, 0x8f, "sapphirerapids"}, {false, 6, 0xcf, 0xcf, "emeraldrapids"},
    {false, 6, 0xad, 0xad, "graniterapids"},  {false, 6, 0xae, 0xae, "graniterapids-d"},
    {false, 6, 0xaf, 0xaf, "sierraforest"},   {false, 6, 0xb6, 0xb6, "grandridge"},
    {false, 6, 0xb5, 0xb5, "arrowlake"},      {false, 6, 0xc5, 0xc5, "arrowlake"},
    {false, 6, 0xc6, 0xc6, "arrowlake-s"},    {false, 6, 0xbd, 0xbd, "lunarlake"},
    {false, 6, 0xcc, 0xcc, "pantherlake"},    {false, 6, 0xdd, 0xdd, "clearwaterforest"},
    {true, 0x17, 0x00, 0x2f, "znver1"},       {true, 0x17, 0x30, 0x3f, "znver2"},
    {true, 0x17, 0x47, 0x47, "znver2"},       {true, 0x17, 0x60, 0x7f, "znver2"},
    {true, 0x17, 0x84, 0x87, "znver2"},       {true, 0x17, 0x90, 0xaf, "znver2"},
    {true, 0x19, 0x00, 0x0f, "znver3"},       {true, 0x19, 0x10, 0x1f, "znver4"},
    {true, 0x19, 0x20, 0x5f, "znver3"},       {true, 0x19, 0x60, 0x7f, "znver4"},
    {true, 0x19, 0xa0, 0xaf, "znver4"},       {true, 0x1a, 0x00, 0x4f, "znver5"},
    {true, 0x1a, 0x60, 0x77, "znver5"},       {true, 0x1a, 0xd0, 0xd7, "znver5"},
};

/// Arm processors by implementer and part (the Main ID Register, in /proc/cpuinfo) with LLVM's names.
static const struct {
  uint32_t implementer, part;
  const char *name;
} armProcessors[] = {
    {0x41, 0xd08, "cortex-a72"},  {0x41, 0xd0b, "cortex-a76"},  {0x41, 0xd0c, "neoverse-n1"},
    {0x41, 0xd40, "neoverse-v1"}, {0x41, 0xd49, "neoverse-n2"}, {0x41, 0xd4f, "neoverse-v2"},
    {0x41, 0xd84, "neoverse-v3"}, {0x41, 0xd8e, "neoverse-n3"}, {0x46, 0x001, "a64fx"},
    {0xc0, 0xac3, "ampere1"},     {0xc0, 0xac4, "ampere1a"},
};

std::string x86ProcessorName(std::string_view vendor, uint32_t family, uint32_t model,
                             const std::vector<std::string> &features) {
  bool amd = vendor == "AuthenticAMD";
  if (!amd && vendor != "GenuineIntel")
    return {};
  auto has = [&](const char *feature) {
    return std::find(features.begin(), features.end(), feature) != features.end();
  };
  // Three generations of Xeons have one model number.
  if (!amd && family == 6 && model == 0x55 && has("avx512vnni"))
    return has("avx512bf16") ? "cooperlake" : "cascadelake";
  for (const auto &entry : x86Processors)
    if (entry.amd == amd && entry.family == family && model >= entry.firstModel && model <= entry.lastModel)
      return entry.name;
  return {};
}

std::string armProcessorName(uint32_t implementer, uint32_t part) {
  for (const auto &entry : armProcessors)
    if (entry.implementer == implementer && entry.part == part)
      return entry.name;
  return {};
}

/// Returns a field of /proc/cpuinfo, from the first processor that has it.
static std::string cpuinfo(std::string_view key) {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    size_t colon = line.find(": ");
    if (line.compare(0, key.size(), key) == 0 && colon != std::string::npos)
      return line.substr(colon + 2);
  }
  return {};
}

#if defined(__x86_64__)

namespace {
enum Register { eax, ebx, ecx, edx };
/// Bits of XCR0.
enum State : uint64_t { none = 0, ymm = 0x6, zmm = 0xe6, tiles = 0x60000 };
struct Bit {
  const char *name;
  uint32_t leaf, subleaf;
  Register reg;
  int bit;
  State state;
};
} // namespace

static const Bit bits[] = {
#define X86_FEATURE(...) {__VA_ARGS__},
#define X86_TILE_FEATURE(...) {__VA_ARGS__},
#include "lib/Support/CpuFeatures.def"
};

static bool readBit(const Bit &bit) {
  uint32_t registers[4];
  uint32_t base = bit.leaf & 0x80000000;
  if (__get_cpuid_max(base, nullptr) < bit.leaf)
    return false;
  if (bit.subleaf != 0 && bit.leaf == 7) {
    __cpuid_count(7, 0, registers[0], registers[1], registers[2], registers[3]);
    if (registers[0] < bit.subleaf)
      return false;
  }
  __cpuid_count(bit.leaf, bit.subleaf, registers[0], registers[1], registers[2], registers[3]);
  return registers[bit.reg] >> bit.bit & 1;
}

static std::vector<std::string> detect() {
  uint64_t saved = 0;
  if (readBit({"osxsave", 1, 0, ecx, 27, none})) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    saved = uint64_t(high) << 32 | low;
  }
  std::vector<std::string> result;
  for (const Bit &bit : bits)
    if ((saved & bit.state) == bit.state && readBit(bit))
      result.push_back(bit.name);
  return result;
}

static std::string detectModel() {
  uint32_t registers[4];
  char vendor[12];
  __cpuid(0, registers[0], registers[1], registers[2], registers[3]);
  std::memcpy(vendor, &registers[1], 4);
  std::memcpy(vendor + 4, &registers[3], 4);
  std::memcpy(vendor + 8, &registers[2], 4);
  __cpuid(1, registers[0], registers[1], registers[2], registers[3]);
  uint32_t family = registers[0] >> 8 & 0xf, model = registers[0] >> 4 & 0xf;
  if (family == 6 || family == 15)
    model += (registers[0] >> 16 & 0xf) << 4;
  if (family == 15)
    family += registers[0] >> 20 & 0xff;
  return x86ProcessorName(std::string_view(vendor, sizeof(vendor)), family, model, hostFeatures());
}

#elif defined(__aarch64__)

static const struct {
  const char *name;
  int word, bit;
} bits[] = {
#define AARCH64_FEATURE(...) {__VA_ARGS__},
#include "lib/Support/CpuFeatures.def"
};

static std::vector<std::string> detect() {
  uint64_t words[3] = {0, getauxval(AT_HWCAP), getauxval(AT_HWCAP2)};
  std::vector<std::string> result;
  for (const auto &bit : bits)
    if (words[bit.word] >> bit.bit & 1)
      result.push_back(bit.name);
  return result;
}

static std::string detectModel() {
  std::string implementer = cpuinfo("CPU implementer"), part = cpuinfo("CPU part");
  return armProcessorName(uint32_t(std::strtoul(implementer.c_str(), nullptr, 0)),
                          uint32_t(std::strtoul(part.c_str(), nullptr, 0)));
}

#else

static std::vector<std::string> detect() { return {}; }
static std::string detectModel() { return {}; }

#endif

const std::vector<std::string> &hostFeatures() {
  static const std::vector<std::string> features = detect();
  return features;
}

const std::string &hostProcessorName() {
  static const std::string name = detectModel();
  return name;
}

std::string suggestedTarget() {
#if defined(__x86_64__)
  auto all = [](std::initializer_list<const char *> names) {
    const std::vector<std::string> &features = hostFeatures();
    return std::all_of(names.begin(), names.end(), [&](const char *name) {
      return std::find(features.begin(), features.end(), name) != features.end();
    });
  };
  if (!all({"avx2", "fma", "bmi", "bmi2", "f16c", "lzcnt", "movbe"}))
    return "cpu:x86-64";
  return all({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}) ? "cpu:x86-64-v4" : "cpu:x86-64-v3";
#elif defined(__aarch64__)
  return "cpu:aarch64";
#else
  return "cpu";
#endif
}

std::string hostDescription() {
  std::string text = cpuinfo("model name");
  return text.empty() ? "unknown processor" : text;
}

} // namespace intarsia
