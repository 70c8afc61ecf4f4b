//===- KernelObject.h - An object of the reference device, loaded -----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_REFERENCE_KERNELOBJECT_H
#define INTARSIA_RUNTIME_REFERENCE_KERNELOBJECT_H

#include "lib/Runtime/Core/Device.h"
#include "lib/Runtime/Hosted/ElfLibrary.h"
#include "lib/Runtime/Reference/KernelMemory.h"

#include <map>

namespace intarsia::runtime {

/// Returns the function that objects import by this name: `malloc`, `free`, or one of C's mathematics library; null if
/// they may not import it.
void *findImport(const std::string &name);

/// An ELF shared object with kernels in code of the host. It exports
///   void itx_reference_kernel_<index>(void *const *buffers, const int64_t *sizes)  for each of its kernels,
///   const char *const itx_reference_imports[n + 1]   the functions that kernels call, the last one null, and
///   void *itx_reference_functions[n]                 which loading fills with them.
/// Apart from those it may only refer to memcpy, memmove and memset.
class KernelObject final : public Executable {
public:
  static Status load(const ExecutableSource &source, std::unique_ptr<Executable> &executable);

  /// Returns the kernel of an index in the artifact; null if the object lacks it.
  ReferenceKernel kernel(uint32_t index) const;

private:
  KernelObject() = default;
  Status bindKernels(const ExecutableSource &source, const std::string &where);

  std::unique_ptr<ElfLibrary> library_;
  std::map<uint32_t, ReferenceKernel> kernels_;
};

} // namespace intarsia::runtime

#endif
