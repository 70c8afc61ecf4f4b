//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Shared by the passes of this phase: candidates grow around a root, the cost model is asked, groups are made.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_FUSE_FUSER_H
#define INTARSIA_LIB_FUSE_FUSER_H

#include "intarsia/Cost/Cost.h"
#include "intarsia/Target/Target.h"
#include "lib/Fuse/Decisions.h"
#include "lib/Fuse/KernelShapes.h"
#include "lib/Fuse/Passes.h"
#include "llvm/ADT/SetVector.h"

namespace intarsia::fuse {

/// On an op whose layout was chosen: the reason, for the `why` of the group that the op joins.
inline constexpr llvm::StringLiteral layoutAttr = "layout_why";

/// A kernel-to-be while it grows.
struct Candidate {
  mlir::Operation *root;
  KernelRoot rootKind;
  llvm::SetVector<mlir::Operation *> ops;   ///< move into the group
  llvm::SetVector<mlir::Operation *> views; ///< of its inputs: copied into it, others may read them too
  llvm::SmallVector<mlir::Operation *>
      parts; ///< of ops: slices of the root's last dimension, if those are stored apart
  std::string why;

  Candidate(mlir::Operation *root, KernelRoot rootKind) : root(root), rootKind(rootKind) { ops.insert(root); }
  bool has(mlir::Operation *op) const { return op && (ops.contains(op) || views.contains(op)); }
  bool computes(mlir::Value value) const { return ops.contains(value.getDefiningOp()); }
};

/// True if a function has a body of one block. Passes leave others alone; fuse-verify refuses those that have more.
inline bool isStraightLine(mlir::func::FuncOp function) {
  return !function.isExternal() && function.getBody().hasOneBlock();
}

/// The devices that ops of a function run on, by their attribute rt.device; the null one is of ops without it.
using Devices = llvm::DenseMap<mlir::Attribute, target::Device>;
/// Finds the devices of a function's ops. Emits an error if one has no target or no figures.
mlir::FailureOr<Devices> devicesOf(mlir::func::FuncOp function);

/// Groups ops of one function's body. The body is one block of ops in a straight line.
class Fuser {
public:
  Fuser(mlir::func::FuncOp function, llvm::StringRef pass, Devices devices, llvm::ArrayRef<std::string> flip);

  mlir::Block &body() { return function.getBody().front(); }
  const WorkModel &work() const { return model; }
  const target::Target &targetOf(mlir::Operation *op) const { return *deviceOf(op).target; }
  /// Tells the analysis that a new value has the sizes of an old one.
  void replaced(mlir::Value before, mlir::Value after) { model.replaced(before, after); }

  /// Values of the candidate that others read.
  llvm::SmallVector<mlir::Value> results(const Candidate &candidate) const;
  /// Ops outside that read what the candidate computes, themselves or in their regions, in block order.
  llvm::SmallVector<mlir::Operation *> consumers(const Candidate &candidate) const;
  /// True if the candidate with these ops is still one kernel: all are on one device, no way leads out of it and in
  /// again, and others read no more values than a kernel may yield.
  bool staysWhole(const Candidate &candidate, llvm::ArrayRef<mlir::Operation *> more) const;

  /// Asks the cost model whether ops should join a candidate, as against a kernel of their own of the given kind;
  /// records the answer.
  bool shouldJoin(Candidate &candidate, llvm::ArrayRef<mlir::Operation *> more, KernelRoot apartKind);
  /// As above with views of the inputs, which would each be a copying kernel if they stayed apart.
  bool shouldView(Candidate &candidate, llvm::ArrayRef<mlir::Operation *> views, llvm::StringRef subject);
  /// For choices that are not about joining a candidate.
  bool decide(const Choice &choice, std::string &why) { return decisions.joins(choice, why); }
  const DeviceModel &modelOf(mlir::Operation *op) const { return *deviceOf(op).model; }
  double microseconds(KernelRoot rootKind, llvm::ArrayRef<mlir::Operation *> ops) const {
    return deviceOf(ops.front()).model->microseconds(model.work(rootKind, ops));
  }

  /// Moves the candidate's ops into a new group.
  nn::GroupOp makeGroup(const Candidate &candidate);
  /// Erases what nothing reads any more, restores the order of definitions before uses, records decisions. An error if
  /// ranks could not exchange tensors in their order.
  mlir::LogicalResult finish();

private:
  const target::Device &deviceOf(mlir::Operation *op) const {
    return devices.find(op->getAttr(rt::deviceAttr))->second;
  }

  mlir::func::FuncOp function;
  WorkModel model;
  Devices devices;
  Decisions decisions;
};

/// Erases ops of a block whose results nothing reads.
void eraseDeadOps(mlir::Block &block);

} // namespace intarsia::fuse

#endif
