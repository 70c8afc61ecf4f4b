//===- GpuTarget.h - What all kinds of GPUs answer ----------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_GPU_GPUTARGET_H
#define INTARSIA_LIB_TARGET_GPU_GPUTARGET_H

#include "lib/Target/GPU/Codegen.h"

namespace intarsia::gpu {

/// A kind of GPUs: variants are architectures.
class GpuTarget : public target::Target {
public:
  /// `meaning` is said of each variant in lists, before the device whose datasheet it has.
  GpuTarget(llvm::StringRef kind, std::vector<const Architecture *> known, CodeFor codeFor, llvm::StringRef meaning)
      : name(kind), known(std::move(known)), codeFor(codeFor), meaning(meaning) {}

  llvm::StringRef kind() const override { return name; }
  std::vector<target::NamedVariant> listVariants() const override;
  bool usesHostMemory() const override { return false; }
  bool runsHostCode() const override { return false; }
  llvm::StringRef assembler() const override;
  void addDialects(mlir::DialectRegistry &registry) const override { addGpuDialects(registry); }
  llvm::Expected<std::vector<std::unique_ptr<target::KernelCompiler>>>
  compilers(llvm::ArrayRef<llvm::StringRef> variants) const override;
  llvm::Expected<target::FittedModel> model(llvm::StringRef variant) const override;
  llvm::Expected<std::vector<target::KernelFunction>> listFunctions(llvm::ArrayRef<char> code) const override;

  bool hasKernel(mlir::Operation *op) const override;
  /// A block computes a tile of a matmul's columns: none has whole rows.
  bool holdsNorm(const target::KernelCandidate &, std::string &whyNot) const override {
    whyNot = "a block of a GPU computes some of the columns of a matmul";
    return false;
  }
  unsigned largestResultCount() const override { return 1; }
  bool splitsAt(int64_t) const override { return false; }
  bool storesQuantized(BlockFormatAttrInterface format, int64_t elements) const override;
  unsigned activationBits() const override { return 16; }
  bool multipliesIn(mlir::Type precision) const override;
  rt::LayoutAttrInterface layout(mlir::MLIRContext *context, StoredOperand use, BlockFormatAttrInterface format,
                                 int64_t slices) const override;
  llvm::Expected<target::CacheLayout> cacheLayout(nn::CacheFormatAttr format, int64_t page) const override;

private:
  llvm::Expected<const Architecture *> find(llvm::StringRef variant) const;

  std::string name;
  std::vector<const Architecture *> known;
  CodeFor codeFor;
  std::string meaning;
};

/// NVIDIA's GPUs (lib/Target/CUDA), AMD's (lib/Target/HIP), and both emulated by threads of the host.
const target::Target &cudaTarget();
const target::Target &hipTarget();
const target::Target &emulatedTarget();

} // namespace intarsia::gpu

#endif
