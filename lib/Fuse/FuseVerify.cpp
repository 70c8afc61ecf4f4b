//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Fuse/Outside.h"

namespace intarsia::fuse {
#define GEN_PASS_DEF_FUSEVERIFY
#include "lib/Fuse/Passes.h.inc"
} // namespace intarsia::fuse

using namespace mlir;
using namespace intarsia;
using namespace intarsia::fuse;

namespace {
/// A group's own verifier knows the roots; here is how many of its root op each kernel is built around.
LogicalResult verifyGroup(nn::GroupOp group) {
  StringRef root = group.getRoot();
  unsigned count = llvm::count_if(group.getBodyBlock(), [&](Operation &op) {
    if (root == "linear")
      return isa<nn::LinearOp>(op);
    if (root == "matmul")
      return isa<nn::MatmulOp>(op);
    if (root == "attention")
      return isa<nn::AttentionOp>(op);
    if (root == "cache_append")
      return isa<nn::CacheAppendOp, nn::CacheAppendQuantizedOp, nn::TailAppendOp>(op);
    if (root == "cached_attention")
      return isa<nn::CachedAttentionOp>(op);
    if (root == "route")
      return isa<nn::RouteOp>(op);
    if (root == "experts")
      return isa<nn::ExpertsOp>(op);
    return root == "rows" ? isRowWise(&op) : isa<linalg::GenericOp>(op);
  });
  if (root == "rows" && count > 1)
    return group.emitError() << "'rows' group has " << count << " norms or softmaxes, one is possible";
  if (root == "generic" && count == 0)
    return group.emitError("'generic' group has no linalg.generic");
  if (root != "rows" && root != "generic" && count != 1)
    return group.emitError() << "'" << root << "' group has " << count << " of its root op, must have one";
  return success();
}

struct FuseVerify : fuse::impl::FuseVerifyBase<FuseVerify> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function.isExternal())
      return;
    bool wrong = false;
    if (!function.getBody().hasOneBlock()) {
      function.emitError("a function that leaves the fuse phase must be one block, without control flow");
      return signalPassFailure();
    }
    for (Operation &op : function.getBody().front()) {
      if (!mayStayOutside(&op)) {
        op.emitError() << "'" << op.getName() << "' is in no group after the fuse phase";
        wrong = true;
      }
      if (auto group = dyn_cast<nn::GroupOp>(op))
        wrong |= failed(verifyGroup(group));
    }
    if (wrong)
      signalPassFailure();
  }
};
} // namespace
