//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/Wafer/Programs.h"

#include "dialects/Wafer/WorkingGrid.h"

#include <cmath>

using namespace mlir;

namespace intarsia::wafer {
namespace {

MeshTarget dataOf(TargetAttr target) {
  auto ticks = [](FloatAttr cycles) { return Time(std::llround(cycles.getValueAsDouble() * ticksPerCycle)); };
  MeshTarget data;
  data.name = target.getName().str();
  data.columns = target.getColumns();
  data.rows = target.getRows();
  data.sramBytes = target.getSramBytes();
  data.reservedBytes = target.getReservedBytes();
  data.colors = target.getColors();
  data.clockGHz = target.getClockGhz().getValueAsDouble();
  data.linkBytes = target.getLinkBytes().getValueAsDouble();
  data.macs = target.getMacs().getValueAsDouble();
  data.hop = ticks(target.getHopCycles());
  data.ramp = ticks(target.getRampCycles());
  data.loop = ticks(target.getLoopCycles());
  data.product = ticks(target.getProductCycles());
  data.stage = ticks(target.getStageCycles());
  data.addElement = ticks(target.getAddCycles());
  data.element = ticks(target.getElementCycles());
  data.watts = target.getWatts() ? target.getWatts().getValueAsDouble() : 0;
  return data;
}

MeshAxis dataOf(Axis axis) { return axis == Axis::X ? MeshAxis::X : axis == Axis::Y ? MeshAxis::Y : MeshAxis::None; }

Range dataOf(RangeAttr range) {
  Range data;
  if (range)
    data = {/*all=*/false,    range.getStart(),      range.getEnd(),      range.getPeriod(),
            range.getWidth(), range.getStartMoves(), range.getEndMoves(), range.getRing()};
  return data;
}

RoleClass dataOf(CoresAttr cores) {
  return cores ? RoleClass{dataOf(cores.getX()), dataOf(cores.getY())} : RoleClass();
}

ComputeKind dataOf(Arithmetic arithmetic) {
  switch (arithmetic) {
  case Arithmetic::Zero:
    return ComputeKind::Zero;
  case Arithmetic::Copy:
    return ComputeKind::Copy;
  case Arithmetic::Add:
    return ComputeKind::Add;
  case Arithmetic::Multiply:
    return ComputeKind::Multiply;
  case Arithmetic::Exp:
    return ComputeKind::Exp;
  case Arithmetic::Silu:
    return ComputeKind::Silu;
  case Arithmetic::Gelu:
    return ComputeKind::Gelu;
  case Arithmetic::GeluTanh:
    return ComputeKind::GeluTanh;
  case Arithmetic::Relu:
    return ComputeKind::Relu;
  case Arithmetic::Tanh:
    return ComputeKind::Tanh;
  case Arithmetic::Sum:
    return ComputeKind::Sum;
  case Arithmetic::SumSquares:
    return ComputeKind::SumSquares;
  case Arithmetic::Scale:
    return ComputeKind::Scale;
  case Arithmetic::Shift:
    return ComputeKind::Shift;
  case Arithmetic::Affine:
    return ComputeKind::Affine;
  case Arithmetic::Rsqrt:
    return ComputeKind::Rsqrt;
  case Arithmetic::Largest:
    return ComputeKind::Largest;
  case Arithmetic::Reciprocal:
    return ComputeKind::Reciprocal;
  case Arithmetic::Mask:
    return ComputeKind::Mask;
  case Arithmetic::Take:
    return ComputeKind::Take;
  case Arithmetic::Put:
    return ComputeKind::Put;
  case Arithmetic::Rotate:
    return ComputeKind::Rotate;
  case Arithmetic::Decode:
    return ComputeKind::Decode;
  case Arithmetic::Collect:
    return ComputeKind::Collect;
  case Arithmetic::Gemm:
    return ComputeKind::Gemm;
  case Arithmetic::GemmTransposed:
    return ComputeKind::GemmTransposed;
  case Arithmetic::Gemv:
    return ComputeKind::Gemv;
  }
  llvm_unreachable("all cases are above");
}

class Extractor {
public:
  Program program;

  explicit Extractor(ProgramOp op) {
    program.name = op.getSymName().str();
    program.target = dataOf(op.getTarget());
    program.columns = int64_t(op.getColumns());
    program.rows = int64_t(op.getRows());
    if (op.getOrigin()) {
      program.firstColumn = (*op.getOrigin())[0];
      program.firstRow = (*op.getOrigin())[1];
    }
    if (auto defects = op.getTarget().getDefects()) {
      std::optional<WorkingGrid> grid =
          workingGridFrom({op.getTarget().getColumns(), op.getTarget().getRows(), defects.asArrayRef()},
                          program.firstColumn, program.firstRow, program.columns, program.rows);
      if (grid && grid->skipped() > 0) { // the verifier has refused programs without a grid
        program.columnsAt = std::move(grid->columns);
        program.rowsAt = std::move(grid->rows);
      }
    }
    for (BufferOp buffer : op.getBody().getOps<BufferOp>()) {
      auto type = cast<MemRefType>(buffer.getBuffer().getType());
      slots[buffer.getBuffer()] = program.slots++;
      program.buffers.push_back({buffer.getName().str(), type.getDimSize(0), type.getDimSize(1),
                                 type.getElementType().isF16(),
                                 type.getElementType().isInteger() ? type.getElementTypeBitWidth() : 0,
                                 buffer.getOffset() ? std::optional(int64_t(*buffer.getOffset())) : std::nullopt});
    }
    for (RouteOp route : op.getBody().getOps<RouteOp>()) {
      routes[route.getSymName()] = int(program.routes.size());
      Route &data = program.routes.emplace_back();
      data.name = route.getSymName().str();
      data.axis = dataOf(route.getAxis());
      for (PathAttr path : route.getPaths().getAsRange<PathAttr>())
        data.paths.push_back(
            {dataOf(path.getStart()), path.getBy(), path.getColor(), path.getAlternate(), path.getMulticast()});
    }
    for (Operation &inner : op.getBody().front())
      add(inner, program.ops);
  }

private:
  DenseMap<Value, int> slots;
  llvm::StringMap<int> routes;

  Binding binding(Value buffer, uint64_t argument, TilesAttr tiles, Type matrix) {
    auto type = cast<RankedTensorType>(matrix);
    TileSkew skew = tiles.getSkew() == Skew::Rows      ? TileSkew::Rows
                    : tiles.getSkew() == Skew::Columns ? TileSkew::Columns
                                                       : TileSkew::None;
    return {int64_t(argument),
            slots[buffer],
            {dataOf(tiles.getRows()), dataOf(tiles.getColumns()), tiles.getRing(), skew, tiles.getExtent()},
            type.getDimSize(0),
            type.getDimSize(1)};
  }

  void add(Operation &op, std::vector<Op> &ops) {
    if (auto load = dyn_cast<LoadOp>(op)) {
      program.inputs.push_back(binding(load.getBuffer(), load.getArgument(), load.getTiles(), load.getMatrix()));
      return;
    }
    if (auto store = dyn_cast<StoreOp>(op)) {
      program.outputs.push_back(binding(store.getBuffer(), store.getArgument(), store.getTiles(), store.getMatrix()));
      return;
    }
    Op data;
    for (Value buffer : op.getOperands())
      data.slots.push_back(slots[buffer]);
    if (auto cores = op.getAttrOfType<CoresAttr>("cores"))
      data.cores = dataOf(cores);
    if (auto location = op.getLoc()->findInstanceOf<FileLineColLoc>())
      data.where = (location.getFilename().getValue() + ":" + Twine(location.getLine())).str();
    if (auto send = dyn_cast<SendOp>(op)) {
      data.kind = OpKind::Send;
      data.route = routes[send.getRoute()];
    } else if (auto receive = dyn_cast<ReceiveOp>(op)) {
      data.kind = OpKind::Receive;
      data.route = routes[receive.getRoute()];
      data.add = receive.getAdd();
      data.maximum = receive.getMaximum();
    } else if (auto forward = dyn_cast<ForwardOp>(op)) {
      data.kind = OpKind::Forward;
      data.route = routes[forward.getSource()];
      data.destination = routes[forward.getDestination()];
      data.add = forward.getAdd();
      data.maximum = forward.getMaximum();
    } else if (isa<AwaitOp>(op)) {
      data.kind = OpKind::Await;
    } else if (auto compute = dyn_cast<ComputeOp>(op)) {
      data.kind = OpKind::Compute;
      data.compute = dataOf(compute.getArithmetic());
      data.factor = compute.getFactor()                 ? compute.getFactor()->convertToFloat()
                    : data.compute == ComputeKind::Mask ? 0.0f
                                                        : 1.0f;
      if (std::optional<RelayoutAttr> relayout = compute.getRelayout())
        data.relayout = RelayoutStep{dataOf(relayout->getAlong()), relayout->getFrom(),  relayout->getTo(),
                                     relayout->getHeight(),        relayout->getWidth(), relayout->getSecond()};
      data.addend = compute.getAddend() ? compute.getAddend()->convertToFloat() : 0.0f;
    } else if (auto repeat = dyn_cast<RepeatOp>(op)) {
      data.kind = OpKind::Repeat;
      data.count = int64_t(repeat.getCount());
      data.launches = repeat.getLaunches();
      Block &body = repeat.getBody().front();
      for (BlockArgument argument : body.getArguments()) {
        slots[argument] = program.slots;
        data.arguments.push_back(program.slots++);
      }
      for (Operation &inner : body.without_terminator())
        add(inner, data.body);
      for (Value buffer : body.getTerminator()->getOperands())
        data.yields.push_back(slots[buffer]);
    } else {
      return; // buffers and routes
    }
    ops.push_back(std::move(data));
  }
};

} // namespace

Program extractProgram(ProgramOp op) { return Extractor(op).program; }

} // namespace intarsia::wafer
