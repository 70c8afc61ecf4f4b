//===- Architecture.cpp - The table of GPU architectures -------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/GPU/Architecture.h"

using namespace llvm;

namespace intarsia::gpu {

// Shared memory: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability". PTX
// versions: the first that knows the architecture and its matrix instructions (PTX ISA, "Release Notes": 8.4 has those
// of sm_89 for floats of 8 bits). Multiprocessors are those of the named devices; a test compares them with the
// catalogue, which has the devices' other figures.
static constexpr Architecture nvidia[] = {
    {"sm_80", Vendor::Nvidia, "+ptx70", 32, 163 << 10, 108, AsyncCopy::CpAsync, MatrixFamily::Mma, "nvidia/a100-sxm"},
    {"sm_86", Vendor::Nvidia, "+ptx71", 32, 99 << 10, 72, AsyncCopy::CpAsync, MatrixFamily::Mma, "nvidia/a10"},
    {"sm_89", Vendor::Nvidia, "+ptx84", 32, 99 << 10, 142, AsyncCopy::CpAsync, MatrixFamily::Mma, "nvidia/l40s"},
    {"sm_90a", Vendor::Nvidia, "+ptx80", 32, 227 << 10, 132, AsyncCopy::Tma, MatrixFamily::Wgmma, "nvidia/h100-sxm"},
    {"sm_100a", Vendor::Nvidia, "+ptx86", 32, 227 << 10, 148, AsyncCopy::Tma, MatrixFamily::Mma, "nvidia/b200-sxm"},
    {"sm_120a", Vendor::Nvidia, "+ptx87", 32, 99 << 10, 188, AsyncCopy::Tma, MatrixFamily::Mma,
     "nvidia/rtx-pro-6000-server"},
};

// Local data share and wave sizes: AMD's ISA documents (CDNA 2, 3, 4; RDNA 3, 4). The MI210 has one die of
// those that the MI250X has two of.
static constexpr Architecture amd[] = {
    {"gfx90a", Vendor::Amd, "", 64, 64 << 10, 104, AsyncCopy::None, MatrixFamily::Mfma, "amd/mi210"},
    {"gfx942", Vendor::Amd, "", 64, 64 << 10, 304, AsyncCopy::BufferToLds, MatrixFamily::Mfma, "amd/mi300x"},
    {"gfx950", Vendor::Amd, "", 64, 160 << 10, 256, AsyncCopy::BufferToLds, MatrixFamily::Mfma, "amd/mi355x"},
    {"gfx1100", Vendor::Amd, "", 32, 64 << 10, 96, AsyncCopy::None, MatrixFamily::WmmaRdna3, "amd/rx-7900-xtx"},
    {"gfx1201", Vendor::Amd, "", 32, 64 << 10, 64, AsyncCopy::None, MatrixFamily::WmmaRdna4, "amd/rx-9070-xt"},
};

ArrayRef<Architecture> architectures(Vendor vendor) {
  return vendor == Vendor::Nvidia ? ArrayRef<Architecture>(nvidia) : ArrayRef<Architecture>(amd);
}

const Architecture *findArchitecture(Vendor vendor, StringRef name) {
  for (const Architecture &architecture : architectures(vendor))
    if (architecture.name == name)
      return &architecture;
  return nullptr;
}

} // namespace intarsia::gpu
