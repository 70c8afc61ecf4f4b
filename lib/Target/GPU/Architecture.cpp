//===- Architecture.cpp - The table of GPU architectures
//-----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/GPU/Architecture.h"

using namespace llvm;

namespace intarsia::gpu {

// Shared memory and registers: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability". PTX
// versions: the first that knows the architecture (PTX ISA, "Release Notes"). Clocks, multiprocessors, throughputs and
// bandwidths: NVIDIA's datasheets and architecture papers of the named devices.
static constexpr Architecture nvidia[] = {
    {"sm_80", Vendor::Nvidia, "+ptx70", 32, 163 << 10, 108, 255, AsyncCopy::CpAsync, "A100 SXM 80 GB", 1.41, 19.5, 312,
     2039},
    {"sm_86", Vendor::Nvidia, "+ptx71", 32, 99 << 10, 72, 255, AsyncCopy::CpAsync, "A10", 1.695, 31.2, 125, 600},
    {"sm_89", Vendor::Nvidia, "+ptx78", 32, 99 << 10, 142, 255, AsyncCopy::CpAsync, "L40S", 2.52, 91.6, 362, 864},
    {"sm_90a", Vendor::Nvidia, "+ptx80", 32, 227 << 10, 132, 255, AsyncCopy::Tma, "H100 SXM", 1.98, 66.9, 989, 3350},
    {"sm_100a", Vendor::Nvidia, "+ptx86", 32, 227 << 10, 148, 255, AsyncCopy::Tma, "B200", 1.965, 74.4, 2250, 8000},
    {"sm_120a", Vendor::Nvidia, "+ptx87", 32, 99 << 10, 170, 255, AsyncCopy::Tma, "RTX 5090", 2.41, 104.8, 209.5, 1792},
};

// Local data share, registers and wave sizes: AMD's ISA documents (CDNA 2, 3, 4; RDNA 3, 4). Clocks, compute units,
// throughputs and bandwidths: AMD's datasheets of the named devices; of the MI250X one of its two dies.
static constexpr Architecture amd[] = {
    {"gfx90a", Vendor::Amd, "", 64, 64 << 10, 110, 512, AsyncCopy::None, "MI250X, one die", 1.7, 23.95, 191.5, 1638},
    {"gfx942", Vendor::Amd, "", 64, 64 << 10, 304, 512, AsyncCopy::BufferToLds, "MI300X", 2.1, 163.4, 1307, 5300},
    {"gfx950", Vendor::Amd, "", 64, 160 << 10, 256, 512, AsyncCopy::BufferToLds, "MI355X", 2.4, 157.3, 2500, 8000},
    {"gfx1100", Vendor::Amd, "", 32, 64 << 10, 96, 256, AsyncCopy::None, "RX 7900 XTX", 2.5, 61.4, 122.8, 960},
    {"gfx1201", Vendor::Amd, "", 32, 64 << 10, 64, 256, AsyncCopy::None, "RX 9070 XT", 2.97, 48.7, 195, 640},
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
