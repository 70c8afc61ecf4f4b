//===- KernelObject.cpp - An object of the reference device, loaded --------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Reference/KernelObject.h"

#include "lib/Runtime/Hosted/MathImports.h"

namespace intarsia::runtime {

void *findImport(const std::string &name) {
  if (name == "malloc")
    return reinterpret_cast<void *>(allocateTemporary);
  if (name == "free")
    return reinterpret_cast<void *>(freeTemporary);
  return findMathFunction(name);
}

Status KernelObject::load(const ExecutableSource &source, std::unique_ptr<Executable> &executable) {
  std::string where = source.name + ": its code for the reference device";
  std::unique_ptr<KernelObject> object(new KernelObject);
  ITX_RETURN_IF_ERROR(ElfLibrary::load(source.object, source.bytes, where, object->library_));
  ITX_RETURN_IF_ERROR(object->bindKernels(source, where));
  ITX_RETURN_IF_ERROR(object->library_->bindImports("itx_reference_imports", "itx_reference_functions", findImport));
  executable = std::move(object);
  return Status::success();
}

ReferenceKernel KernelObject::kernel(uint32_t index) const {
  auto found = kernels_.find(index);
  return found == kernels_.end() ? nullptr : found->second;
}

Status KernelObject::bindKernels(const ExecutableSource &source, const std::string &where) {
  for (uint32_t index : source.wanted) {
    std::string symbol = format("itx_reference_kernel_%u", index);
    bool isNamed = source.kernels && index < source.kernels->size();
    void *address = library_->find(symbol);
    if (!address)
      return error(ITX_CORRUPT, "%s: lacks kernel '%s' (it does not export '%s'): compile the model again",
                   where.c_str(), isNamed ? (*source.kernels)[index].c_str() : "?", symbol.c_str());
    kernels_[index] = reinterpret_cast<ReferenceKernel>(address);
  }
  return Status::success();
}

} // namespace intarsia::runtime
