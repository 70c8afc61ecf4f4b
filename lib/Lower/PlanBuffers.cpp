//===- PlanBuffers.cpp - Buffers of a call get slots in one workspace --------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/module_abi.h"
#include "lib/Lower/EventOrder.h"
#include "lib/Lower/Passes.h"
#include "lib/Lower/SizePolynomial.h"
#include "mlir/Interfaces/ViewLikeInterface.h"
#include <limits>

using namespace mlir;

namespace intarsia::lower {
#define GEN_PASS_DEF_LOWERPLANBUFFERS
#include "lib/Lower/Passes.h.inc"

namespace {

// Figures to choose between slots; any choice is correct, the workspace is only larger or smaller.
constexpr double expectedSize = 64; // of a symbol
// A buffer below a page does not take a slot this many times its size from a later, larger buffer: the worst that a
// slot of its own costs is a page, once a call.
constexpr double smallBufferBytes = 4096, largeSlotRatio = 16;

/// A buffer: when it is first and last used, by position in the block, and by whom.
struct Buffer {
  rt::AllocOp alloc;
  SizePolynomial bytes;
  unsigned firstUse = std::numeric_limits<unsigned>::max(), lastUse = 0;
  SmallVector<Operation *> users;
  unsigned slot = 0;

  Attribute memory() { return cast<MemRefType>(alloc.getType()).getMemorySpace(); }
};

/// A part of the workspace in one memory. Its size is the largest of `bytes`, none of which is known to be at most
/// another.
struct Slot {
  SmallVector<SizePolynomial> bytes;
  unsigned freeAfter = 0;
  Buffer *content = nullptr;
  Attribute memory; // null for the host's

  bool holds(const SizePolynomial &size, const SizeFactors &factors) const {
    return llvm::any_of(bytes, [&](const SizePolynomial &own) { return factors.isAtMost(size, own); });
  }
  double estimate() const {
    double largest = 0;
    for (const SizePolynomial &own : bytes)
      largest = std::max(largest, own.estimate(expectedSize));
    return largest;
  }
  void grow(const SizePolynomial &size, const SizeFactors &factors) {
    if (holds(size, factors))
      return;
    llvm::erase_if(bytes, [&](const SizePolynomial &own) { return factors.isAtMost(own, size); });
    bytes.push_back(size);
  }
};

/// Assigns slots of workspaces to the buffers of one function.
class SlotAssignment {
public:
  explicit SlotAssignment(func::FuncOp function) : block(function.getBody().front()) {}

  LogicalResult make() {
    if (failed(collect()))
      return failure();
    if (buffers.empty())
      return success();
    chooseSlots();
    orderReuse();
    return write();
  }

private:
  LogicalResult collect();
  void chooseSlots();
  void orderReuse();
  static void orderBlock(Block &block, const DenseMap<Operation *, SmallVector<Value>> &extra);
  LogicalResult write();
  LogicalResult writeWorkspace(Attribute memory, Operation *&headEnd);

  Block &block;
  SizeFactors factors;
  std::vector<Buffer> buffers; // by first use
  std::vector<Slot> slots;
  DenseMap<Buffer *, Buffer *> previous; // what lay in the same slot before
};

/// Ops that start work on the memory of `buffer`, through any views of it.
void collectUsers(Value buffer, SmallVectorImpl<Operation *> &users) {
  for (Operation *user : buffer.getUsers()) {
    if (isa<ViewLikeOpInterface>(user))
      collectUsers(user->getResult(0), users);
    else
      users.push_back(user);
  }
}

/// Numbers the ops of a block and of the regions within: where each begins and where it ends.
void numberOps(Block &block, unsigned &next, DenseMap<Operation *, std::pair<unsigned, unsigned>> &positions) {
  for (Operation &op : block) {
    unsigned begin = next++;
    for (Region &region : op.getRegions())
      for (Block &inner : region)
        numberOps(inner, next, positions);
    positions[&op] = {begin, op.getNumRegions() ? next++ : begin};
  }
}

/// Returns the innermost block that all ops are in, themselves or in their regions.
Block *commonBlock(ArrayRef<Operation *> ops) {
  Block *common = ops.front()->getBlock();
  for (Operation *op : ops)
    while (!common->findAncestorOpInBlock(*op))
      common = common->getParentOp()->getBlock();
  return common;
}

LogicalResult SlotAssignment::collect() {
  DenseMap<Operation *, std::pair<unsigned, unsigned>> positions;
  unsigned count = 0;
  numberOps(block, count, positions);
  for (rt::AllocOp alloc : llvm::make_early_inc_range(block.getOps<rt::AllocOp>())) {
    Buffer buffer;
    buffer.alloc = alloc;
    collectUsers(alloc.getResult(), buffer.users);
    // A buffer that only one region uses is written there before it is read, each time that the region runs. Another
    // one is in use for as long as the control flow runs that uses it.
    Block *common = buffer.users.empty() ? nullptr : commonBlock(buffer.users);
    for (Operation *user : buffer.users) {
      auto [begin, end] = positions[common->findAncestorOpInBlock(*user)];
      buffer.firstUse = std::min(buffer.firstUse, begin);
      buffer.lastUse = std::max(buffer.lastUse, end);
    }
    auto type = cast<MemRefType>(alloc.getType());
    buffer.bytes = SizePolynomial(llvm::divideCeil(type.getElementTypeBitWidth(), 8));
    auto dynamicSize = alloc.getSizes().begin();
    for (int64_t size : type.getShape())
      buffer.bytes = buffer.bytes * (ShapedType::isDynamic(size) ? factors.of(*dynamicSize++) : SizePolynomial(size));
    if (buffer.bytes.hasOverflow())
      return alloc.emitOpError() << "of type " << type << " has more bytes than 64 bits hold";
    if (buffer.users.empty())
      alloc.erase();
    else
      buffers.push_back(std::move(buffer));
  }
  llvm::stable_sort(buffers, [](const Buffer &a, const Buffer &b) { return a.firstUse < b.firstUse; });
  return success();
}

void SlotAssignment::chooseSlots() {
  for (Buffer &buffer : buffers) {
    // In this order: the slot that wastes least, the largest of those that must grow, a new one.
    double wanted = buffer.bytes.estimate(expectedSize);
    int best = -1;
    auto isBetter = [&](const Slot &slot) {
      if (best < 0)
        return true;
      const Slot &old = slots[best];
      bool fits = slot.holds(buffer.bytes, factors), oldFits = old.holds(buffer.bytes, factors);
      if (fits != oldFits)
        return fits;
      return fits ? slot.estimate() < old.estimate() : slot.estimate() > old.estimate();
    };
    for (auto [number, slot] : llvm::enumerate(slots))
      if (slot.memory == buffer.memory() && slot.freeAfter < buffer.firstUse && isBetter(slot))
        best = number;
    if (best >= 0 && slots[best].estimate() > largeSlotRatio * wanted && wanted < smallBufferBytes)
      best = -1;
    if (best < 0) {
      best = slots.size();
      slots.emplace_back().memory = buffer.memory();
    }
    Slot &slot = slots[best];
    slot.grow(buffer.bytes, factors);
    if (slot.content)
      previous[&buffer] = slot.content;
    slot.content = &buffer;
    slot.freeAfter = buffer.lastUse;
    buffer.slot = best;
  }
}

/// A kernel that writes into memory that was used before waits for those that used it: a queue starts its work in
/// order, but need not finish it in order.
void SlotAssignment::orderReuse() {
  DenseMap<Operation *, SmallVector<Value>> extra;
  for (Buffer &buffer : buffers) {
    Buffer *before = previous.lookup(&buffer);
    if (!before)
      continue;
    // All work is done where control flow begins and ends.
    for (Operation *writer : buffer.users)
      for (Operation *user : before->users)
        if (isa<rt::DispatchOp, rt::CopyOp, rt::CollectiveOp>(user) && user->getBlock() == writer->getBlock() &&
            user->isBeforeInBlock(writer))
          extra[writer].push_back(user->getResult(0));
  }
  orderBlock(block, extra);
}

/// Lets the work of a block, and of those within, wait for `extra` events, and for none that others imply.
void SlotAssignment::orderBlock(Block &block, const DenseMap<Operation *, SmallVector<Value>> &extra) {
  EventOrder order;
  for (Operation &op : block) {
    for (Region &region : op.getRegions())
      for (Block &inner : region)
        orderBlock(inner, extra);
    if (auto wait = dyn_cast<rt::WaitOp>(op)) {
      wait.getEventsMutable().assign(order.prune(wait.getEvents()));
      continue;
    }
    auto dispatch = dyn_cast<rt::DispatchOp>(op);
    auto copy = dyn_cast<rt::CopyOp>(op);
    auto collective = dyn_cast<rt::CollectiveOp>(op);
    if (!dispatch && !copy && !collective)
      continue;
    MutableOperandRange afterOf = dispatch ? dispatch.getAfterMutable()
                                  : copy   ? copy.getAfterMutable()
                                           : collective.getAfterMutable();
    SmallVector<Value> after = llvm::to_vector(afterOf.getAsOperandRange());
    after.append(extra.lookup(&op));
    after = order.prune(after);
    afterOf.assign(after);
    order.add(op.getResult(0), after);
  }
}

LogicalResult SlotAssignment::write() {
  // Sizes are computed and checked first; the workspaces are made where that ends.
  Operation *headEnd = &*llvm::find_if(block, [](Operation &op) {
    return !isa<rt::SymbolOp, rt::CheckOp>(op) && !isa<arith::ArithDialect>(op.getDialect());
  });
  llvm::SetVector<Attribute> memories;
  for (Slot &slot : slots)
    memories.insert(slot.memory);
  for (Attribute memory : memories)
    if (failed(writeWorkspace(memory, headEnd)))
      return failure();
  return success();
}

/// Makes the workspace of one memory before `headEnd`, which becomes the workspace: the sizes of all workspaces are
/// computed before the first is made.
LogicalResult SlotAssignment::writeWorkspace(Attribute memory, Operation *&headEnd) {
  OpBuilder builder(headEnd);
  Location location = block.getParentOp()->getLoc();
  SmallVector<Value> offsets(slots.size());
  SizePolynomial knownOffset(0); // as long as no size was the larger of two
  Value offset;
  for (auto [number, slot] : llvm::enumerate(slots)) {
    if (slot.memory != memory)
      continue;
    offsets[number] = offset ? offset : factors.materialize(knownOffset, builder, location);
    if (!offset && slot.bytes.size() == 1 && slot.bytes.front().isMultipleOf(ITX_BUFFER_ALIGNMENT)) {
      knownOffset = knownOffset + slot.bytes.front();
      continue;
    }
    Value bytes;
    for (const SizePolynomial &candidate : slot.bytes) {
      Value value = factors.materialize(candidate, builder, location);
      bytes = bytes ? arith::MaxSIOp::create(builder, location, bytes, value).getResult() : value;
    }
    if (!llvm::all_of(slot.bytes, [](const SizePolynomial &size) { return size.isMultipleOf(ITX_BUFFER_ALIGNMENT); })) {
      Value alignment = factors.constant(ITX_BUFFER_ALIGNMENT, builder, location);
      bytes = arith::CeilDivSIOp::create(builder, location, bytes, alignment);
      bytes = arith::MulIOp::create(builder, location, bytes, alignment);
    }
    offset = arith::AddIOp::create(builder, location, offsets[number], bytes);
  }
  if (knownOffset.hasOverflow())
    return block.getParentOp()->emitOpError() << "has buffers of more bytes than 64 bits hold";
  Value total = offset ? offset : factors.materialize(knownOffset, builder, location);
  auto type = MemRefType::get({ShapedType::kDynamic}, builder.getI8Type(), MemRefLayoutAttrInterface(), memory);
  Value workspace = rt::WorkspaceOp::create(builder, location, type, total);
  headEnd = workspace.getDefiningOp();
  for (Buffer &buffer : buffers) {
    if (slots[buffer.slot].memory != memory)
      continue;
    rt::AllocOp alloc = buffer.alloc;
    builder.setInsertionPoint(alloc);
    Value view = memref::ViewOp::create(builder, alloc.getLoc(), cast<MemRefType>(alloc.getType()), workspace,
                                        offsets[buffer.slot], alloc.getSizes());
    alloc.getResult().replaceAllUsesWith(view);
    alloc.erase();
  }
  return success();
}

struct PlanBuffers : impl::LowerPlanBuffersBase<PlanBuffers> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (!function.isExternal() && function.getBody().hasOneBlock() && failed(SlotAssignment(function).make()))
      signalPassFailure();
  }
};

} // namespace
} // namespace intarsia::lower
