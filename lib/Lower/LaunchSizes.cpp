//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Lower/LaunchSizes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;

namespace intarsia::lower {

using Relation = SizeConstraint::Relation;

namespace {

/// The sizes of one host program, and the checks that it makes of them.
class HostSizes {
public:
  explicit HostSizes(func::FuncOp host) : sizes(host) {
    host.walk([&](rt::CheckOp check) {
      if (AffineExpr left = sizes.ofIndex(check.getLeft()), right = sizes.ofIndex(check.getRight()); left && right)
        checks.push_back({check.getRelation() == rt::Relation::Equal, SymbolicSizes::normalize(right - left), check});
    });
  }

  /// Returns true if every call that passes the checks before an op meets this.
  bool holds(Relation relation, AffineExpr left, AffineExpr right, Operation *at) const {
    if (!sizes.isKnown(left) || !sizes.isKnown(right))
      return left && left == right;
    AffineExpr difference = SymbolicSizes::normalize(right - left);
    if (difference == 0)
      return true;
    if (relation == Relation::Equal)
      return llvm::any_of(checks, [&](const Check &check) {
        return check.isEqual && check.isMadeFor(at) &&
               (check.difference == difference || SymbolicSizes::normalize(check.difference + difference) == 0);
      });
    // A check implies every weaker need.
    return isNeverNegative(difference) || llvm::any_of(checks, [&](const Check &check) {
             return check.isMadeFor(at) &&
                    (isNeverNegative(SymbolicSizes::normalize(difference - check.difference)) ||
                     (check.isEqual && isNeverNegative(SymbolicSizes::normalize(difference + check.difference))));
           });
  }

  std::string toString(AffineExpr size) const { return size ? sizes.toString(size) : "a size that is not known"; }

  SymbolicSizes sizes;

private:
  struct Check {
    bool isEqual;
    AffineExpr difference; // 0, or at least 0
    Operation *op;

    /// True for a check that a call has made where an op runs: those of a region stand at its beginning.
    bool isMadeFor(Operation *at) const { return op->getBlock()->findAncestorOpInBlock(*at); }
  };

  bool isNeverNegative(AffineExpr size) const { return sizes.range(size).low >= 0; }

  SmallVector<Check> checks;
};

/// One launch: its kernel's sizes in those of the host program.
class Launch {
public:
  Launch(rt::DispatchOp dispatch, rt::KernelOp kernel, const SymbolicSizes &inKernel, const HostSizes &host)
      : dispatch(dispatch), kernel(kernel), inKernel(inKernel), host(host) {}

  LogicalResult verify() {
    for (auto [number, size] : llvm::enumerate(dispatch.getSizes())) {
      given.push_back(host.sizes.ofIndex(size));
      if (!host.sizes.isKnown(given.back()))
        return dispatch.emitOpError() << "size " << number << " is not a function of the sizes of a call";
    }
    if (failed(verifyNeeds()))
      return failure();
    for (auto [number, input] : llvm::enumerate(dispatch.getInputs()))
      if (failed(verifyBuffer("input " + Twine(number), input,
                              declaredSizes(kernel.getArgumentTypes()[number], kernel.getArgAttr(number, "nn.sizes")))))
        return failure();
    for (auto [number, output] : llvm::enumerate(dispatch.getOutputs()))
      if (failed(
              verifyBuffer("output " + Twine(number), output,
                           declaredSizes(kernel.getResultTypes()[number], kernel.getResultAttr(number, "nn.sizes")))))
        return failure();
    return kernel.isExternal() ? success() : verifyResults();
  }

private:
  LogicalResult verifyBuffer(const Twine &name, Value buffer, ArrayRef<AffineExpr> taken) {
    ArrayRef<AffineExpr> sizes = host.sizes.of(buffer);
    if (sizes.size() != taken.size())
      return dispatch.emitOpError() << name << " has rank " << sizes.size() << ", kernel @" << kernel.getSymName()
                                    << " takes rank " << taken.size();
    for (auto [dimension, size, other] : llvm::enumerate(sizes, taken)) {
      AffineExpr wanted = inHost(other);
      if (!host.holds(Relation::Equal, size, wanted, dispatch))
        return dispatch.emitOpError() << name << " has " << host.toString(size) << " at dimension " << dimension
                                      << ", kernel @" << kernel.getSymName() << " is launched for "
                                      << host.toString(wanted);
    }
    return success();
  }

  /// Verifies that the kernel's results are as large as it says. Of a declared kernel the compiled code knows.
  LogicalResult verifyResults() {
    Operation *yield = kernel.getBody().front().getTerminator();
    for (auto [number, output] : llvm::enumerate(dispatch.getOutputs()))
      if (failed(verifyBuffer("output " + Twine(number), output, inKernel.of(yield->getOperand(number)))))
        return failure();
    return success();
  }

  /// Verifies that the launch meets what the ops in its kernel need of sizes.
  LogicalResult verifyNeeds() {
    for (const SizeConstraint &need : inKernel.constraints())
      if (failed(verifyNeed(need.relation, need.left, need.right, need.op)))
        return failure();
    return success();
  }

  LogicalResult verifyNeed(Relation relation, AffineExpr left, AffineExpr right, Operation *op) {
    AffineExpr leftHere = inHost(left), rightHere = inHost(right);
    if (host.holds(relation, leftHere, rightHere, dispatch))
      return success();
    InFlightDiagnostic error = dispatch.emitOpError()
                               << "launches kernel @" << kernel.getSymName() << ", where '" << op->getName()
                               << "' needs " << host.toString(leftHere)
                               << (relation == Relation::Equal ? " to be equal to " : " to be at most ")
                               << host.toString(rightHere) << "; no rt.check says so";
    error.attachNote(op->getLoc()) << "needed here";
    return error;
  }

  /// A size in the kernel by the sizes of a call; null if it is not known.
  AffineExpr inHost(AffineExpr size) const {
    return inKernel.isKnown(size) ? SymbolicSizes::normalize(size.replaceSymbols(given)) : AffineExpr();
  }

  Sizes declaredSizes(Type type, Attribute names) {
    Sizes sizes;
    for (auto [dimension, size] : llvm::enumerate(cast<ShapedType>(type).getShape()))
      sizes.push_back(ShapedType::isDynamic(size)
                          ? kernel.parseSize(cast<StringAttr>(cast<ArrayAttr>(names)[dimension]).getValue())
                          : getAffineConstantExpr(size, kernel.getContext()));
    return sizes;
  }

  rt::DispatchOp dispatch;
  rt::KernelOp kernel;
  const SymbolicSizes &inKernel;
  const HostSizes &host;
  SmallVector<AffineExpr> given; // by the kernel's symbols
};

LogicalResult verifyCopy(rt::CopyOp copy, const HostSizes &host) {
  ValueRange given = copy.getSizes();
  auto type = cast<ShapedType>(copy.getSource().getType());
  for (auto [dimension, from, to] :
       llvm::enumerate(host.sizes.of(copy.getSource()), host.sizes.of(copy.getDestination()))) {
    if (!host.holds(Relation::Equal, from, to, copy))
      return copy.emitOpError() << "copies " << host.toString(from) << " at dimension " << dimension
                                << " to a buffer with " << host.toString(to);
    if (!type.isDynamicDim(dimension))
      continue;
    AffineExpr size = host.sizes.ofIndex(given.front());
    given = given.drop_front();
    if (!host.holds(Relation::Equal, from, size, copy))
      return copy.emitOpError() << "is given " << host.toString(size) << " for dimension " << dimension << ", which is "
                                << host.toString(from);
  }
  return success();
}

/// A collective reads and writes buffers of the same sizes; what is gathered has a multiple of them in front, and a
/// part of rows has its share of them.
LogicalResult verifyCollective(rt::CollectiveOp collective, const HostSizes &host) {
  rt::CollectiveKind kind = collective.getKind();
  auto shareOf = [&](AffineExpr rows) { return rows.ceilDiv(int64_t(collective.getRanks().size())); };
  if (collective.getSource() && collective.getDestination())
    for (auto [dimension, from, to] :
         llvm::enumerate(host.sizes.of(collective.getSource()), host.sizes.of(collective.getDestination()))) {
      if (dimension == 0 && kind == rt::CollectiveKind::AllGather)
        continue;
      bool scatters = dimension == 0 && collective.scattersRows();
      bool gathers = dimension == 0 && kind == rt::CollectiveKind::AllGatherRows;
      if (!host.holds(Relation::Equal, scatters ? shareOf(from) : from, gathers ? shareOf(to) : to, collective))
        return collective.emitOpError() << "takes " << host.toString(from) << " at dimension " << dimension
                                        << " to a buffer with " << host.toString(to);
    }
  ValueRange given = collective.getSizes();
  auto type = cast<ShapedType>(collective.getSized().getType());
  for (auto [dimension, from] : llvm::enumerate(host.sizes.of(collective.getSized()))) {
    if (!type.isDynamicDim(dimension))
      continue;
    AffineExpr size = host.sizes.ofIndex(given.front());
    given = given.drop_front();
    if (!host.holds(Relation::Equal, from, size, collective))
      return collective.emitOpError() << "is given " << host.toString(size) << " for dimension " << dimension
                                      << ", which is " << host.toString(from);
  }
  return success();
}

/// Views of buffers have as many elements as these. Host code itself tests that sizes and dividends are not
/// negative and divisors positive.
LogicalResult verifyViews(const HostSizes &host) {
  auto verify = [&](Relation relation, AffineExpr left, AffineExpr right, Operation *op) -> LogicalResult {
    if (isa<arith::ArithDialect>(op->getDialect()) || (relation == Relation::AtMost && left == 0) ||
        host.holds(relation, left, right, op))
      return success();
    return op->emitOpError() << "needs " << host.toString(left)
                             << (relation == Relation::Equal ? " to be equal to " : " to be at most ")
                             << host.toString(right) << "; no rt.check says so";
  };
  for (const SymbolicSizes::Replacement &replacement : host.sizes.replacements())
    if (failed(verify(Relation::Equal, getAffineSymbolExpr(replacement.symbol, replacement.op->getContext()),
                      replacement.by, replacement.op)))
      return failure();
  for (const SizeConstraint &need : host.sizes.constraints())
    if (failed(verify(need.relation, need.left, need.right, need.op)))
      return failure();
  return success();
}

/// The element that the host reads is in the buffer, whatever the sizes of the call.
LogicalResult verifyLoad(memref::LoadOp load, const HostSizes &host) {
  bool isFirst = true; // all indices so far are 0
  for (auto [dimension, index, size] : llvm::enumerate(load.getIndices(), host.sizes.of(load.getMemRef()))) {
    std::optional<int64_t> number = getConstantIntValue(index);
    if (!isFirst && load.getMemRefType().isDynamicDim(dimension))
      return load.emitOpError() << "reads behind a dynamic dimension of " << load.getMemRefType();
    isFirst &= number == 0;
    if (!number || *number < 0)
      return load.emitOpError() << "reads at an index that is no constant of at least 0";
    AffineExpr least = getAffineConstantExpr(*number + 1, load.getContext());
    if (!host.holds(Relation::AtMost, least, size, load))
      return load.emitOpError() << "reads index " << *number << " of " << host.toString(size)
                                << " elements; no rt.check says that there are so many";
  }
  return success();
}

} // namespace

LaunchSizes::LaunchSizes(ModuleOp module) {
  for (auto kernel : module.getOps<rt::KernelOp>())
    kernels[kernel.getSymNameAttr()] = kernel;
}

const SymbolicSizes &LaunchSizes::sizesIn(rt::KernelOp kernel) {
  std::unique_ptr<SymbolicSizes> &sizes = sizesOfKernels[kernel];
  if (!sizes)
    sizes = std::make_unique<SymbolicSizes>(kernel, SymbolicSizes::SizesOf::Launch);
  return *sizes;
}

LogicalResult LaunchSizes::verify(func::FuncOp function) {
  HostSizes host(function);
  if (failed(verifyViews(host)))
    return failure();
  WalkResult walked = function.walk([&](Operation *op) -> WalkResult {
    if (auto dispatch = dyn_cast<rt::DispatchOp>(op)) {
      rt::KernelOp kernel = kernels.lookup(dispatch.getKernelAttr().getAttr());
      return Launch(dispatch, kernel, sizesIn(kernel), host).verify();
    }
    if (auto copy = dyn_cast<rt::CopyOp>(op))
      return verifyCopy(copy, host);
    if (auto collective = dyn_cast<rt::CollectiveOp>(op))
      return verifyCollective(collective, host);
    if (auto load = dyn_cast<memref::LoadOp>(op))
      return verifyLoad(load, host);
    return WalkResult::advance();
  });
  return failure(walked.wasInterrupted());
}

} // namespace intarsia::lower
