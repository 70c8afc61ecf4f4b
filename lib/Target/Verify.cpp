//===- Verify.cpp - What may leave the target phase -------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Target/Target.h"
#include "lib/Support/Hash.h"
#include "mlir/Pass/Pass.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace intarsia::target {
#define GEN_PASS_DEF_TARGETVERIFY
#include "lib/Target/Passes.h.inc"

namespace {

/// The bytes are there, and are those that were compiled.
LogicalResult verifyBytes(rt::ObjectOp object) {
  auto bytes = object.getBytes();
  if (!bytes)
    return object.emitOpError() << "@" << object.getSymName()
                                << " has no code: its bytes were left out when the IR was written as text. Write it to "
                                   "a file named .mlirbc, or as text with --elide-resource-strings=false";
  Hasher hasher;
  for (ArrayRef<char> piece : *bytes)
    hasher.update(piece.data(), piece.size());
  if (std::string hash = hashText(hasher.finish()); hash != object.getHash())
    return object.emitOpError() << "@" << object.getSymName() << " has code with the hash " << hash
                                << ", it was compiled to code with the hash " << object.getHash();
  return success();
}

/// The object has the kernels that its device needs, under the numbers that the module counts them by.
LogicalResult verifyKernels(rt::ObjectOp object, ArrayRef<NumberedKernel> wanted) {
  llvm::DenseMap<Attribute, int64_t> numbers;
  for (auto [name, number] : llvm::zip_equal(object.getKernels(), object.getNumbers()))
    numbers.try_emplace(cast<FlatSymbolRefAttr>(name).getAttr(), number);
  for (auto [index, kernel] : wanted) {
    auto found = numbers.find(kernel.getSymNameAttr());
    if (found == numbers.end())
      return object.emitOpError() << "@" << object.getSymName() << " has no code of kernel @" << kernel.getSymName();
    if (found->second != index)
      return object.emitOpError() << "@" << object.getSymName() << " has kernel @" << kernel.getSymName()
                                  << " as number " << found->second << ", in the module it is number " << index
                                  << ": kernels stay in the order in which they were compiled";
  }
  return success();
}

struct Verify : impl::TargetVerifyBase<Verify> {
  void runOnOperation() override {
    if (failed(verify(getOperation())))
      signalPassFailure();
    markAllAnalysesPreserved();
  }

private:
  static LogicalResult verify(ModuleOp module) {
    for (auto kernel : module.getOps<rt::KernelOp>())
      if (!kernel.isExternal())
        return kernel.emitOpError() << "is not compiled: run the target phase before (--start-from=target)";
    llvm::StringSet<> devices;
    for (auto device : module.getOps<rt::DeviceOp>()) {
      if (!Target::find(device.getTarget().getKind()))
        return device.emitOpError() << "is of the unknown kind '" << device.getTarget().getKind() << "'";
      devices.insert(device.getSymName());
    }
    for (auto object : module.getOps<rt::ObjectOp>()) {
      if (!devices.contains(object.getDevice()))
        return object.emitOpError() << "is of " << object.getDeviceAttr() << ", which is no rt.device of the module";
      if (failed(verifyBytes(object)))
        return failure();
    }
    std::vector<ArtifactObjects> artifacts = objectsOf(module);
    if (artifacts.empty())
      return module.emitOpError() << "has no rt.object with the code of its kernels";
    for (const ArtifactObjects &artifact : artifacts)
      if (failed(verifyArtifact(module, artifact)))
        return failure();
    return success();
  }

  static LogicalResult verifyArtifact(ModuleOp module, const ArtifactObjects &artifact) {
    for (const DeviceObjects &device : artifact.devices) {
      rt::DeviceOp op = device.device;
      if (device.objects.empty())
        return op.emitOpError() << "@" << op.getSymName() << " has no rt.object for the host " << artifact.hostTriple;
      std::vector<NumberedKernel> wanted = kernelsIn(module, *device.target, op.getSymName());
      for (auto [number, each] : llvm::enumerate(device.objects)) {
        rt::ObjectOp object = each;
        if (object.getNumber() != number)
          return object.emitOpError() << "@" << object.getSymName() << " was compiled as variant number "
                                      << object.getNumber() << " of " << object.getDeviceAttr() << ", and is number "
                                      << number << " for the host " << artifact.hostTriple;
        if (failed(verifyKernels(object, wanted)))
          return failure();
        if (size_t pieces = object.getCode().size(); !device.target->runsHostCode() && pieces != 1)
          return object.emitOpError() << "@" << object.getSymName() << " has " << pieces
                                      << " pieces of code, its device loads one";
      }
    }
    return success();
  }
};

} // namespace
} // namespace intarsia::target
