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
  KernelRoot root = group.getRoot();
  unsigned count = llvm::count_if(group.getBodyBlock(), [&](Operation &op) {
    return root == KernelRoot::Rows ? isRowWise(&op) : kernelRootOf(&op) == root;
  });
  if (root == KernelRoot::Rows) {
    if (count > 1)
      return group.emitError() << "'rows' group has " << count << " norms or softmaxes, one is possible";
  } else if (root == KernelRoot::Generic) {
    if (count == 0 && llvm::none_of(group.getBodyBlock(), llvm::IsaPred<linalg::GenericOp>))
      return group.emitError("'generic' group has no linalg.generic");
  } else if (count != 1) {
    return group.emitError() << "'" << stringifyKernelRoot(root) << "' group has " << count
                             << " of its root op, must have one";
  }
  return success();
}

LogicalResult verifyBlock(Block &block) {
  bool wrong = false;
  for (Operation &op : block) {
    if (!mayStayOutside(&op)) {
      op.emitError() << "'" << op.getName() << "' is in no group after the fuse phase";
      wrong = true;
    }
    if (auto group = dyn_cast<nn::GroupOp>(op))
      wrong |= failed(verifyGroup(group));
    if (isControlFlow(&op))
      for (Region &region : op.getRegions())
        for (Block &inner : region)
          wrong |= failed(verifyBlock(inner));
  }
  return failure(wrong);
}

struct FuseVerify : fuse::impl::FuseVerifyBase<FuseVerify> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function.isExternal())
      return;
    if (!function.getBody().hasOneBlock()) {
      function.emitError("a function that leaves the fuse phase must be one block, without control flow but scf.if, "
                         "scf.for and scf.while");
      return signalPassFailure();
    }
    if (failed(verifyBlock(function.getBody().front())))
      signalPassFailure();
  }
};
} // namespace
