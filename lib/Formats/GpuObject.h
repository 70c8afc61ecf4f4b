//===- GpuObject.h - Kernels of a GPU, as artifacts hold them -----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The compiler writes one object for each variant of a GPU, the runtime's devices read it. An object is 8 bytes of
// magic, two 64-bit little-endian numbers (bytes of the JSON text, bytes of the code), the JSON text, and the pieces of
// code one after another, each compressed by zstd. This is the JSON text:
//
//   {"format": 1, "architecture": "sm_80",
//    "code": [{"kind": "cubin", "architecture": "sm_80", "bytes": 9216, "packed_bytes": 3012}],
//    "kernels": [{"index": 0, "buffers": 3, "sizes": 1, "scratch": "s0 4 *",
//                 "launches": [{"function": "linear_0", "grid": ["s0 64 ceildiv", "1", "1"], "block": [128, 1, 1],
//                               "shared": "49152",
//                               "tensor_maps": [{"buffer": 0, "element_bytes": 2, "rows": "s0", "columns": "768",
//                                                "box_rows": 128, "box_columns": 64, "swizzle_bytes": 128}]}]}],
//    "functions": [{"name": "linear_0", "registers": 96, "spilled_bytes": 0, "local_bytes": 0, "shared_bytes": 16384}]}
//
// "scratch" and "shared" may be left out: "0". So may "tensor_maps", and what is not known of a function.
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_FORMATS_GPUOBJECT_H
#define INTARSIA_LIB_FORMATS_GPUOBJECT_H

#include "lib/Formats/SizeExpression.h"
#include "lib/Support/Status.h"

#include <array>
#include <string_view>

namespace intarsia {

inline constexpr char gpuObjectMagic[8] = {'I', 'T', 'X', 'G', 'P', 'U', 0, 1};
/// The latest format of the text. Objects without tensor maps have format 1, which earlier runtimes read, too.
inline constexpr uint32_t gpuObjectFormatVersion = 2;
/// Bytes of the largest piece of code that is unpacked.
inline constexpr uint64_t largestGpuCode = uint64_t(1) << 28;
/// Threads of the largest block; both CUDA and HIP allow as many on each of their devices.
inline constexpr uint32_t largestGpuBlock = 1024;

enum class GpuCodeKind {
  Cubin, ///< machine code for an NVIDIA GPU
  Ptx,   ///< text that the driver compiles for an NVIDIA GPU, without a zero byte at its end
  Hsaco, ///< machine code for an AMD GPU
  Host   ///< an ELF shared object that runs kernels on the host, for the emulated GPU
};

/// Returns the kind's name: "cubin", "ptx", "hsaco" or "host".
const char *gpuCodeKindName(GpuCodeKind kind);

/// A piece of code. It has the functions of all launches.
struct GpuCode {
  GpuCodeKind kind = GpuCodeKind::Cubin;
  std::string architecture; ///< the device needs at least this one
  uint64_t bytes = 0;       ///< when unpacked
  std::string_view packed;  ///< inside the object that was read
};

/// A matrix in a buffer, with rows one after the other, as the tensor copies of a function read it: boxes of it go to
/// shared memory (CUDA driver API, cuTensorMapEncodeTiled()). Elements of a box behind the last row or column are zero.
struct GpuTensorMap {
  uint32_t buffer = 0;          ///< of the kernel
  uint32_t elementBytes = 0;    ///< 1, 2 or 4
  SizeExpression rows, columns; ///< bytes of a row are a multiple of 16
  uint32_t boxRows = 0, boxColumns = 0;
  uint32_t swizzleBytes = 0; ///< 32, 64 or 128: bytes of a row of the box, whose chunks of 16 bytes change places
};

/// One start of a function on the device. It begins when the launch before it has ended. A dimension of the grid that
/// is 0 means that there is nothing to do: the launch is left out.
struct GpuLaunch {
  std::string function;
  std::array<SizeExpression, 3> grid;                    ///< blocks
  std::array<uint32_t, 3> block = {};                    ///< threads
  SizeExpression shared = {{SizeStep::Kind::Number, 0}}; ///< bytes of shared memory beside the function's own
  std::vector<GpuTensorMap> tensorMaps = {};             ///< each an argument behind those of the kernel
};

/// A kernel. All its functions take the same arguments: a pointer for each buffer (inputs, then outputs, in the
/// artifact's order), each size as a 64-bit integer, and a pointer to the scratch, null if there is none. Behind them a
/// function takes its tensor maps, each by value.
struct GpuKernel {
  uint32_t index = 0;                                     ///< in the artifact
  uint32_t buffers = 0;                                   ///< number of them
  uint32_t sizes = 0;                                     ///< number of them
  SizeExpression scratch = {{SizeStep::Kind::Number, 0}}; ///< bytes of device memory, with any contents
  std::vector<GpuLaunch> launches;                        ///< in order, at least one
};

/// The resources of the device that a function takes, for people. A member is none where the compiler does not know it.
struct GpuFunction {
  std::string name;
  std::optional<uint64_t> registers = {};       ///< of a thread, of 32 bits; on AMD's GPUs the vector registers
  std::optional<uint64_t> spilledBytes = {};    ///< of a thread: registers that go to local memory and come back
  std::optional<uint64_t> sharedBytes = {};     ///< of a block, beside what a launch adds
  std::optional<uint64_t> localBytes = {};      ///< of a thread: its part of local memory, with spilled registers
  std::optional<uint64_t> scalarRegisters = {}; ///< of a wave; only AMD's GPUs count them
  std::optional<uint64_t> spilledScalars =
      {}; ///< of a wave: scalar registers kept elsewhere, in vector registers first
};

struct GpuObject {
  std::string architecture;  ///< the variant: "sm_80", "gfx942"
  std::vector<GpuCode> code; ///< best first
  std::vector<GpuKernel> kernels;
  std::vector<GpuFunction> functions;

  /// Returns the kernel of an index in the artifact; null if the object lacks it.
  const GpuKernel *find(uint32_t index) const;
};

/// Returns an object's bytes. `code` are the unpacked pieces, one for each of `object.code`, whose `bytes` and `packed`
/// are not read. Equal objects give equal bytes. ITX_INVALID_ARGUMENT says which part of the object parseGpuObject
/// would refuse.
Status writeGpuObject(const GpuObject &object, const std::vector<std::string_view> &code, std::string &bytes);

/// Reads and checks an object. Its pieces of code stay packed and refer to `data`. `name` starts each message.
Status parseGpuObject(const void *data, uint64_t bytes, const std::string &name, GpuObject &object);

/// Unpacks a piece of code. Its size is checked before memory is taken.
Status unpackGpuCode(const GpuCode &code, const std::string &name, std::string &unpacked);

} // namespace intarsia

#endif
