//===- CpuFeatures.cpp - What the processor can do ----------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Bits: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, CPUID; AMD64 Architecture Programmer's
// Manual, volume 3, appendix E; Linux, arch/arm64/include/uapi/asm/hwcap.h. Names: LLVM's subtarget features.
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/CPU/CpuFeatures.h"

#include <algorithm>
#include <cstdint>
#include <fstream>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace intarsia::runtime {

#if defined(__x86_64__)

namespace {
enum Register { eax, ebx, ecx, edx };
/// What of the state the operating system must save for the feature to be usable (bits of XCR0).
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
    {"sse3", 1, 0, ecx, 0, none},
    {"pclmul", 1, 0, ecx, 1, none},
    {"ssse3", 1, 0, ecx, 9, none},
    {"fma", 1, 0, ecx, 12, ymm},
    {"cx16", 1, 0, ecx, 13, none},
    {"sse4.1", 1, 0, ecx, 19, none},
    {"sse4.2", 1, 0, ecx, 20, none},
    {"crc32", 1, 0, ecx, 20, none},
    {"movbe", 1, 0, ecx, 22, none},
    {"popcnt", 1, 0, ecx, 23, none},
    {"aes", 1, 0, ecx, 25, none},
    {"xsave", 1, 0, ecx, 27, none},
    {"avx", 1, 0, ecx, 28, ymm},
    {"f16c", 1, 0, ecx, 29, ymm},
    {"rdrnd", 1, 0, ecx, 30, none},
    {"fsgsbase", 7, 0, ebx, 0, none},
    {"bmi", 7, 0, ebx, 3, none},
    {"avx2", 7, 0, ebx, 5, ymm},
    {"bmi2", 7, 0, ebx, 8, none},
    {"invpcid", 7, 0, ebx, 10, none},
    {"rtm", 7, 0, ebx, 11, none},
    {"avx512f", 7, 0, ebx, 16, zmm},
    {"avx512dq", 7, 0, ebx, 17, zmm},
    {"rdseed", 7, 0, ebx, 18, none},
    {"adx", 7, 0, ebx, 19, none},
    {"avx512ifma", 7, 0, ebx, 21, zmm},
    {"clflushopt", 7, 0, ebx, 23, none},
    {"clwb", 7, 0, ebx, 24, none},
    {"avx512cd", 7, 0, ebx, 28, zmm},
    {"sha", 7, 0, ebx, 29, none},
    {"avx512bw", 7, 0, ebx, 30, zmm},
    {"avx512vl", 7, 0, ebx, 31, zmm},
    {"prefetchwt1", 7, 0, ecx, 0, none},
    {"avx512vbmi", 7, 0, ecx, 1, zmm},
    {"pku", 7, 0, ecx, 4, none},
    {"waitpkg", 7, 0, ecx, 5, none},
    {"avx512vbmi2", 7, 0, ecx, 6, zmm},
    {"shstk", 7, 0, ecx, 7, none},
    {"gfni", 7, 0, ecx, 8, none},
    {"vaes", 7, 0, ecx, 9, ymm},
    {"vpclmulqdq", 7, 0, ecx, 10, ymm},
    {"avx512vnni", 7, 0, ecx, 11, zmm},
    {"avx512bitalg", 7, 0, ecx, 12, zmm},
    {"avx512vpopcntdq", 7, 0, ecx, 14, zmm},
    {"rdpid", 7, 0, ecx, 22, none},
    {"cldemote", 7, 0, ecx, 25, none},
    {"movdiri", 7, 0, ecx, 27, none},
    {"movdir64b", 7, 0, ecx, 28, none},
    {"enqcmd", 7, 0, ecx, 29, none},
    {"uintr", 7, 0, edx, 5, none},
    {"avx512vp2intersect", 7, 0, edx, 8, zmm},
    {"serialize", 7, 0, edx, 14, none},
    {"tsxldtrk", 7, 0, edx, 16, none},
    {"pconfig", 7, 0, edx, 18, none},
    {"amx-bf16", 7, 0, edx, 22, tiles},
    {"avx512fp16", 7, 0, edx, 23, zmm},
    {"amx-tile", 7, 0, edx, 24, tiles},
    {"amx-int8", 7, 0, edx, 25, tiles},
    {"sha512", 7, 1, eax, 0, ymm},
    {"sm3", 7, 1, eax, 1, ymm},
    {"sm4", 7, 1, eax, 2, ymm},
    {"avxvnni", 7, 1, eax, 4, ymm},
    {"avx512bf16", 7, 1, eax, 5, zmm},
    {"cmpccxadd", 7, 1, eax, 7, none},
    {"amx-fp16", 7, 1, eax, 21, tiles},
    {"hreset", 7, 1, eax, 22, none},
    {"avxifma", 7, 1, eax, 23, ymm},
    {"avxvnniint8", 7, 1, edx, 4, ymm},
    {"avxneconvert", 7, 1, edx, 5, ymm},
    {"amx-complex", 7, 1, edx, 8, tiles},
    {"avxvnniint16", 7, 1, edx, 10, ymm},
    {"prefetchi", 7, 1, edx, 14, none},
    {"avx10.1-512", 7, 1, edx, 19, zmm},
    {"xsaveopt", 0xd, 1, eax, 0, none},
    {"xsavec", 0xd, 1, eax, 1, none},
    {"xsaves", 0xd, 1, eax, 3, none},
    {"ptwrite", 0x14, 0, ebx, 4, none},
    {"sahf", 0x80000001, 0, ecx, 0, none},
    {"lzcnt", 0x80000001, 0, ecx, 5, none},
    {"sse4a", 0x80000001, 0, ecx, 6, none},
    {"prfchw", 0x80000001, 0, ecx, 8, none},
    {"mwaitx", 0x80000001, 0, ecx, 29, none},
    {"clzero", 0x80000008, 0, ebx, 0, none},
    {"rdpru", 0x80000008, 0, ebx, 4, none},
    {"wbnoinvd", 0x80000008, 0, ebx, 9, none},
};

static const char *const always[] = {"64bit", "cmov", "cx8", "fxsr", "mmx", "sse", "sse2", "x87", "evex512"};

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

#elif defined(__aarch64__)

static const struct {
  const char *name;
  int word; // 1: AT_HWCAP, 2: AT_HWCAP2
  int bit;
} bits[] = {{"aes", 1, 3},   {"sha2", 1, 6},     {"crc", 1, 7},          {"lse", 1, 8},     {"fullfp16", 1, 10},
            {"rdm", 1, 12},  {"jsconv", 1, 13},  {"complxnum", 1, 14},   {"rcpc", 1, 15},   {"ccpp", 1, 16},
            {"sha3", 1, 17}, {"sm4", 1, 19},     {"dotprod", 1, 20},     {"sve", 1, 22},    {"fp16fml", 1, 23},
            {"dit", 1, 24},  {"flagm", 1, 27},   {"ssbs", 1, 28},        {"sb", 1, 29},     {"pauth", 1, 30},
            {"sve2", 2, 1},  {"sve2-aes", 2, 2}, {"sve2-bitperm", 2, 4}, {"altnzcv", 2, 7}, {"fptoint", 2, 8},
            {"i8mm", 2, 13}, {"bf16", 2, 14},    {"rand", 2, 16},        {"bti", 2, 17},    {"mte", 2, 18},
            {"sme", 2, 23}};

static const char *const always[] = {"neon", "fp-armv8", "v8a", "v8.1a", "v8.2a", "v8.3a", "v8.4a",   "v8.5a", "v8.6a",
                                     "v9a",  "perfmon",  "ras", "lor",   "pan",   "vh",    "predres", "am",    "sel2"};

static std::vector<std::string> detect() {
  uint64_t words[3] = {0, getauxval(AT_HWCAP), getauxval(AT_HWCAP2)};
  std::vector<std::string> result = {"neon", "fp-armv8"};
  for (const auto &bit : bits)
    if (words[bit.word] >> bit.bit & 1)
      result.push_back(bit.name);
  return result;
}

#else

static const char *const always[] = {""};
static std::vector<std::string> detect() { return {}; }

#endif

const std::vector<std::string> &hostFeatures() {
  static const std::vector<std::string> features = detect();
  return features;
}

bool hostHasFeature(std::string_view feature) {
  if (!feature.empty() && feature.front() == '+')
    feature.remove_prefix(1);
  for (const char *name : always)
    if (feature == name)
      return true;
  if (feature.substr(0, 7) == "prefer-" || feature.substr(0, 5) == "tune-" || feature.substr(0, 5) == "fast-")
    return true;
  const std::vector<std::string> &features = hostFeatures();
  return std::find(features.begin(), features.end(), feature) != features.end();
}

std::string suggestedTarget() {
#if defined(__x86_64__)
  auto all = [](std::initializer_list<const char *> names) {
    return std::all_of(names.begin(), names.end(), [](const char *name) { return hostHasFeature(name); });
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

std::string hostCpuName() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos)
      return line.substr(colon + 2);
  }
  return "unknown processor";
}

} // namespace intarsia::runtime
