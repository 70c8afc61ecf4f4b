//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Fuse/Rows.h"

namespace intarsia::fuse {
#define GEN_PASS_DEF_FUSEEMBEDDINGS
#include "lib/Fuse/Passes.h.inc"
} // namespace intarsia::fuse

using namespace mlir;
using namespace intarsia;
using namespace intarsia::fuse;

namespace {
struct FuseEmbeddings : fuse::impl::FuseEmbeddingsBase<FuseEmbeddings> {
  using FuseEmbeddingsBase::FuseEmbeddingsBase;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (!isStraightLine(function))
      return;
    FailureOr<Devices> devices = devicesOf(function);
    if (failed(devices))
      return signalPassFailure();
    Fuser fuser(function, getArgument(), std::move(*devices), flip);
    llvm::SmallPtrSet<Operation *, 8> done;
    for (nn::EmbeddingOp embedding : llvm::to_vector(fuser.body().getOps<nn::EmbeddingOp>())) {
      if (done.contains(embedding))
        continue;
      Candidate candidate(embedding, KernelRoot::Rows);
      growRows(fuser, candidate);
      done.insert(candidate.ops.begin(), candidate.ops.end());
      if (candidate.why.empty())
        candidate.why = "nothing that follows joins it";
      fuser.makeGroup(candidate);
    }
    if (failed(fuser.finish()))
      return signalPassFailure();
  }
};
} // namespace
