//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Wafer/Wafer.h"

#include "dialects/Fleet/Figures.h"
#include "dialects/Wafer/WorkingGrid.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

#include <set>

using namespace mlir;
using namespace intarsia;
using namespace intarsia::wafer;

#include "dialects/Wafer/WaferDialect.cpp.inc"
#include "dialects/Wafer/WaferEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Wafer/WaferAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/Wafer/WaferOps.cpp.inc"

void WaferDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Wafer/WaferAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Wafer/WaferOps.cpp.inc"
      >();
}

int64_t wafer::bytesOf(MemRefType buffer) {
  return llvm::alignTo(llvm::divideCeil(buffer.getNumElements() * buffer.getElementTypeBitWidth(), 8), 4);
}

//===-- Attributes --------------------------------------------------------------------------------------------===//

LogicalResult TargetAttr::verify(EmitError emitError, StringAttr name, int64_t columns, int64_t rows, int64_t sram,
                                 int64_t reserved, int64_t colors, FloatAttr clock, FloatAttr hop, FloatAttr ramp,
                                 FloatAttr link, FloatAttr macs, FloatAttr loop, FloatAttr product, FloatAttr stage,
                                 FloatAttr add, FloatAttr element, DenseI64ArrayAttr defects, FloatAttr watts) {
  // From the smallest grid that is one to ten times the largest wafer; from a few KB a core to the 1.5 MB of large
  // cores, with an order of magnitude of room.
  struct Whole {
    const char *name;
    int64_t value, least, most;
  } wholes[] = {{"columns", columns, 1, 10'000},
                {"rows", rows, 1, 10'000},
                {"sram_bytes", sram, 1024, 16 << 20},
                {"reserved_bytes", reserved, 0, sram - 1},
                {"colors", colors, 1, 1024}};
  for (const Whole &figure : wholes)
    if (figure.value < figure.least || figure.value > figure.most)
      return emitError() << figure.name << " is " << figure.value << ", must be between " << figure.least << " and "
                         << figure.most;
  struct Real {
    const char *name;
    FloatAttr value;
    double least, most;
  } reals[] = {{"clock_ghz", clock, 0.01, 10},      {"hop_cycles", hop, 0.1, 100},   {"ramp_cycles", ramp, 0, 1000},
               {"link_bytes", link, 0.1, 4096},     {"macs", macs, 0.1, 1e5},        {"loop_cycles", loop, 0, 1e4},
               {"product_cycles", product, 0, 1e5}, {"stage_cycles", stage, 0, 1e5}, {"add_cycles", add, 0, 1000},
               {"element_cycles", element, 0, 1e4}};
  for (const Real &figure : reals)
    if (double value = figure.value.getValueAsDouble(); !(value >= figure.least && value <= figure.most))
      return emitError() << figure.name << " is " << figureText(value) << ", must be between "
                         << figureText(figure.least) << " and " << figureText(figure.most);
  if (watts && !(watts.getValueAsDouble() >= 1 && watts.getValueAsDouble() <= 200'000))
    return emitError() << "watts are " << figureText(watts.getValueAsDouble()) << ", must be between 1 and 200000";
  ArrayRef<int64_t> places = defects ? defects.asArrayRef() : ArrayRef<int64_t>();
  if (places.size() % 2 != 0)
    return emitError() << "defects are " << places.size() << " numbers, must be a column and a row each";
  for (size_t i = 0; i < places.size(); i += 2)
    if (places[i] < 0 || places[i] >= columns || places[i + 1] < 0 || places[i + 1] >= rows)
      return emitError() << "defect (" << places[i] << ", " << places[i + 1] << ") is not on a wafer of " << columns
                         << " by " << rows << " cores";
  return success();
}

LogicalResult RangeAttr::verify(EmitError emitError, int64_t start, int64_t end, int64_t period, int64_t width,
                                int64_t startMoves, int64_t endMoves, bool ring) {
  if (period < 1 || width < 1 || width > period)
    return emitError() << "range has width " << width << " and period " << period
                       << ", the width must be between 1 and the period";
  if (start < 0 || (end <= start && startMoves == 0 && endMoves == 0))
    return emitError() << "range from " << start << " to " << end << " holds no position";
  return success();
}

LogicalResult PathAttr::verify(EmitError emitError, RangeAttr start, int64_t by, int64_t color, bool alternate,
                               bool multicast) {
  if (by == 0)
    return emitError() << "path leads to where it starts";
  if (color < 0)
    return emitError() << "color is " << color << ", must not be negative";
  if (multicast && alternate)
    return emitError() << "multicast path cannot alternate colors";
  return success();
}

LogicalResult TilesAttr::verify(EmitError emitError, Axis rows, Axis columns, bool ring, Skew skew, int64_t extent) {
  if (rows == columns && rows != Axis::None)
    return emitError() << "rows and columns are both split along " << stringifyAxis(rows);
  if (skew != Skew::None && (rows == Axis::None || columns == Axis::None))
    return emitError() << "skew needs rows and columns that are split";
  if (extent < 0)
    return emitError() << "tiles are on " << extent << " cores of each axis";
  return success();
}

LogicalResult RelayoutAttr::verify(EmitError emitError, Axis along, int64_t from, int64_t to, int64_t height,
                                   int64_t width, bool) {
  if (along == Axis::None)
    return emitError() << "rows of the matrix lie along no axis";
  if (from < 1 || to < 1 || height < 1 || width < 1)
    return emitError() << "a matrix of " << height << " by " << width << " cannot go from " << from << " to " << to
                       << " cores of each axis";
  return success();
}

//===-- Tensor level ------------------------------------------------------------------------------------------===//

static LogicalResult verifySizes(Operation *op, ArrayRef<RankedTensorType> types, int64_t grid) {
  for (RankedTensorType type : types)
    if (!type.hasStaticShape())
      return op->emitOpError() << "has a dynamic size in " << type << ", tiles of cores have fixed sizes";
  if (grid < 2)
    return op->emitOpError() << "is on a grid of " << grid << ", must be 2 or more";
  return success();
}

LogicalResult DistGemmOp::verify() {
  RankedTensorType a = getA().getType(), b = getB().getType(), c = getC().getType();
  if (failed(verifySizes(*this, {a, b, c}, getGrid())))
    return failure();
  int64_t depth = b.getDimSize(getTransposed() ? 1 : 0), columns = b.getDimSize(getTransposed() ? 0 : 1);
  if (a.getDimSize(1) != depth)
    return emitOpError() << "multiplies " << a.getDimSize(1) << " columns of A with " << depth << " of B";
  if (c.getDimSize(0) != a.getDimSize(0) || c.getDimSize(1) != columns)
    return emitOpError() << "result is " << c << ", operands give " << a.getDimSize(0) << "x" << columns;
  if (getTransposed() && getAlgorithm() == GemmAlgorithm::Summa)
    return emitOpError() << "has no transposed form of summa; mesh and cannon have one";
  return success();
}

LogicalResult DistGemvOp::verify() {
  RankedTensorType x = getX().getType(), w = getW().getType(), y = getY().getType();
  if (failed(verifySizes(*this, {x, w, y}, getGrid())))
    return failure();
  if (x.getDimSize(0) != 1 || y.getDimSize(0) != 1)
    return emitOpError() << "multiplies " << x << " to " << y << ", both must be one row";
  if (x.getDimSize(1) != w.getDimSize(0) || y.getDimSize(1) != w.getDimSize(1))
    return emitOpError() << "vector " << x << ", matrix " << w << " and result " << y << " disagree in their sizes";
  if (getReduction() != Reduction::Tree && getGroups())
    return emitOpError() << "has groups, but " << stringifyReduction(getReduction()) << " has none";
  if (auto groups = getGroups(); groups && (*groups < 1 || int64_t(*groups) > int64_t(getGrid())))
    return emitOpError() << "has " << *groups << " groups, must be between 1 and the grid's " << getGrid();
  return success();
}

bool DistMapOp::isFunction(Arithmetic function) {
  return llvm::is_contained({Arithmetic::Add, Arithmetic::Multiply, Arithmetic::Exp, Arithmetic::Silu, Arithmetic::Gelu,
                             Arithmetic::GeluTanh, Arithmetic::Relu, Arithmetic::Tanh},
                            function);
}

LogicalResult DistMapOp::verify() {
  if (!isFunction(getFunction()))
    return emitOpError() << stringifyArithmetic(getFunction())
                         << " is no function of elements: add, multiply, exp, silu, gelu, gelu_tanh, relu, tanh";
  size_t expected = getFunction() == Arithmetic::Add || getFunction() == Arithmetic::Multiply ? 2 : 1;
  if (getInputs().size() != expected)
    return emitOpError() << stringifyArithmetic(getFunction()) << " has " << getInputs().size() << " inputs, must have "
                         << expected;
  return verifySizes(*this, {getResult().getType()}, getGrid());
}

LogicalResult DistNormOp::verify() {
  size_t least = 2, most = getNorm() == Norm::Layer ? 3 : 2;
  if (getInputs().size() < least || getInputs().size() > most)
    return emitOpError() << "has " << getInputs().size() << " inputs, must have a vector, a scale"
                         << (most == 3 ? " and perhaps a bias" : "");
  return verifySizes(*this, {getResult().getType()}, getGrid());
}

LogicalResult DistAttentionOp::verify() {
  RankedTensorType query = getQuery().getType(), keys = getKeys().getType();
  int64_t grid = int64_t(getGrid());
  if (failed(verifySizes(*this, {query, keys, getValues().getType(), getPositions().getType()}, grid)))
    return failure();
  if (getHeads() < 1 || getColumns() < 1 || int64_t(getHeads() * getColumns()) > grid)
    return emitOpError() << "has " << getHeads() << " heads on " << getColumns() << " columns each, the grid has "
                         << grid;
  if (keys.getShape() != getValues().getType().getShape() || keys.getDimSize(1) != query.getDimSize(1) ||
      query.getShape() != getResult().getType().getShape())
    return emitOpError() << "query " << query << ", keys " << keys << ", values " << getValues().getType()
                         << " and result " << getResult().getType() << " disagree in their sizes";
  if (keys.getDimSize(0) % grid != 0 || keys.getDimSize(1) % (2 * grid) != 0)
    return emitOpError() << "keys " << keys << " are no slots and pairs of features for each of " << grid << " cores";
  if (getPositions().getType().getShape() != ArrayRef<int64_t>{query.getDimSize(0), 1})
    return emitOpError() << "has positions " << getPositions().getType() << ", must be one for each row of " << query;
  if (Value frequencies = getFrequencies();
      frequencies && getFrequencies().getType().getShape() != ArrayRef<int64_t>{1, query.getDimSize(1) / 2})
    return emitOpError() << "has frequencies " << frequencies.getType() << ", must be one for each pair of features of "
                         << query;
  return success();
}

LogicalResult DistAppendOp::verify() {
  RankedTensorType cache = getCache().getType(), row = getRow().getType();
  int64_t grid = int64_t(getGrid());
  if (failed(verifySizes(*this, {cache, row, getResult().getType()}, grid)))
    return failure();
  if (cache != getResult().getType() || row.getDimSize(0) != 1 || row.getDimSize(1) != cache.getDimSize(1))
    return emitOpError() << "puts " << row << " into " << cache << " and gives " << getResult().getType();
  if (cache.getDimSize(0) % grid != 0 || cache.getDimSize(1) % (2 * grid) != 0)
    return emitOpError() << "cache " << cache << " has no slots and pairs of features for each of " << grid << " cores";
  if (!getPositions() != !getFrequencies())
    return emitOpError() << "must have both positions and frequencies, or none";
  if (getPositions() && (getPositions().getType().getShape() != ArrayRef<int64_t>{1, 1} ||
                         getFrequencies().getType().getShape() != ArrayRef<int64_t>{1, row.getDimSize(1) / 2}))
    return emitOpError() << "has positions " << getPositions().getType() << " and frequencies "
                         << getFrequencies().getType() << ", must be one and one for each pair of features of " << row;
  return success();
}

LogicalResult DistDecodeOp::verify() {
  RankedTensorType codes = getCodes().getType(), scales = getScales().getType(), w = getW().getType();
  int64_t grid = int64_t(getGrid());
  if (failed(verifySizes(*this, {codes, scales, w}, grid)))
    return failure();
  if (codes.getShape() != w.getShape() || scales.getDimSize(1) != codes.getDimSize(1))
    return emitOpError() << "codes " << codes << ", scales " << scales << " and result " << w
                         << " disagree in their sizes";
  int64_t rows = llvm::divideCeil(codes.getDimSize(0), grid), shared = llvm::divideCeil(scales.getDimSize(0), grid);
  if (rows % shared != 0 || int64_t(llvm::divideCeil(codes.getDimSize(0), rows / shared)) != scales.getDimSize(0))
    return emitOpError() << "has " << scales.getDimSize(0) << " rows of scales for " << codes.getDimSize(0)
                         << ": a tile of " << rows << " rows on a grid of " << grid
                         << " is no whole number of groups of one scale";
  return success();
}

LogicalResult DistRelayoutOp::verify() {
  int64_t grid = int64_t(getGrid());
  if (failed(verifySizes(*this, {getSource().getType()}, grid)))
    return failure();
  if (getAlong() == Axis::None)
    return emitOpError() << "has a matrix whose rows lie along no axis; they lie along x or y";
  for (int64_t side : {int64_t(getFrom()), int64_t(getTo())})
    if (side < 2 || side > grid)
      return emitOpError() << "moves a matrix between grids of " << getFrom() << " and " << getTo()
                           << ", both must be between 2 and the " << grid << " cores along each axis that take part";
  return success();
}

//===-- Core level --------------------------------------------------------------------------------------------===//

LogicalResult ProgramOp::verify() {
  TargetAttr target = getTarget();
  if (getColumns() < 1 || getRows() < 1 || int64_t(getColumns()) > target.getColumns() ||
      int64_t(getRows()) > target.getRows())
    return emitOpError() << "has a grid of " << getColumns() << " by " << getRows() << ", "
                         << target.getName().getValue() << " has " << target.getColumns() << " by " << target.getRows()
                         << " cores";
  if (getOrigin() && getOrigin()->size() != 2)
    return emitOpError() << "begins at " << getOrigin()->size() << " numbers, must be a column and a row";
  int64_t column = getOrigin() ? (*getOrigin())[0] : 0, row = getOrigin() ? (*getOrigin())[1] : 0;
  int64_t columns = int64_t(getColumns()), rows = int64_t(getRows());
  WaferCores wafer{target.getColumns(), target.getRows(),
                   target.getDefects() ? target.getDefects().asArrayRef() : ArrayRef<int64_t>()};
  if (!workingGridFrom(wafer, column, row, columns, rows))
    return emitOpError() << "has a grid of " << columns << " by " << rows << " from core (" << column << ", " << row
                         << ") on, which is not on " << target.getName().getValue() << " with its "
                         << target.getColumns() << " by " << target.getRows() << " cores"
                         << (wafer.defects.empty() ? ""
                                                   : "; it leaves out columns and rows with cores that do not work");
  return success();
}

LogicalResult ProgramOp::verifyRegions() {
  auto buffers = llvm::to_vector(getBody().getOps<BufferOp>());
  bool arePlaced = llvm::any_of(buffers, [](BufferOp buffer) { return buffer.getOffset().has_value(); });
  int64_t bytes = getTarget().getReservedBytes(), end = bytes;
  for (BufferOp buffer : buffers) {
    if (arePlaced && !buffer.getOffset())
      return buffer.emitOpError() << "\"" << buffer.getName()
                                  << "\" says not where it begins, but others of the program do";
    int64_t offset = arePlaced ? int64_t(*buffer.getOffset()) : 0;
    if (offset < 0 || offset % 4 != 0)
      return buffer.emitOpError() << "\"" << buffer.getName() << "\" begins at byte " << offset
                                  << ", must be a multiple of 4";
    int64_t size = bytesOf(cast<MemRefType>(buffer.getBuffer().getType()));
    bytes += size;
    end = std::max(end, int64_t(getTarget().getReservedBytes()) + offset + size);
  }
  if (arePlaced)
    bytes = end;
  if (bytes <= getTarget().getSramBytes())
    return success();
  InFlightDiagnostic error = emitOpError() << "needs " << bytes << " bytes of each core, "
                                           << getTarget().getName().getValue() << " has " << getTarget().getSramBytes();
  error.attachNote() << "the runtime reserves " << getTarget().getReservedBytes() << " bytes";
  for (BufferOp buffer : buffers) {
    Diagnostic &note = error.attachNote(buffer.getLoc())
                       << "buffer \"" << buffer.getName() << "\" has "
                       << bytesOf(cast<MemRefType>(buffer.getBuffer().getType())) << " bytes";
    if (arePlaced)
      note << " from byte " << *buffer.getOffset() << " on";
  }
  return error;
}

LogicalResult RouteOp::verify() {
  if (getAxis() == Axis::None)
    return emitOpError() << "must be along x or y";
  int64_t colors = (*this)->getParentOfType<ProgramOp>().getTarget().getColors();
  auto last = [](PathAttr path) { return path.getColor() + (path.getAlternate() ? 1 : 0); };
  for (PathAttr path : getPaths().getAsRange<PathAttr>())
    if (last(path) >= colors) {
      InFlightDiagnostic error = emitOpError()
                                 << "has color " << last(path) << ", the target has colors 0 to " << colors - 1;
      for (RouteOp other : (*this)->getParentOfType<ProgramOp>().getBody().getOps<RouteOp>()) {
        std::set<int64_t> used;
        for (PathAttr of : other.getPaths().getAsRange<PathAttr>())
          used.insert({of.getColor(), last(of)});
        Diagnostic &note = error.attachNote(other.getLoc()) << "route @" << other.getSymName() << " uses colors ";
        llvm::interleaveComma(used, note);
      }
      return error;
    }
  return success();
}

static LogicalResult verifyTiles(Operation *op, Value buffer, TilesAttr tiles, Type matrix) {
  auto type = dyn_cast<RankedTensorType>(matrix);
  if (!type || type.getRank() != 2 || !type.hasStaticShape())
    return op->emitOpError() << "names the matrix " << matrix << ", must be a tensor of two fixed sizes";
  auto program = op->getParentOfType<ProgramOp>();
  auto core = cast<MemRefType>(buffer.getType());
  for (auto [index, axis] : llvm::enumerate(std::array{tiles.getRows(), tiles.getColumns()})) {
    int64_t all = axis == Axis::None ? 1 : axis == Axis::X ? program.getColumns() : program.getRows();
    if (axis != Axis::None && tiles.getExtent() > all)
      return op->emitOpError() << "has tiles on " << tiles.getExtent() << " cores along " << stringifyAxis(axis)
                               << ", the program has " << all;
    int64_t cores = axis == Axis::None || tiles.getExtent() == 0 ? all : tiles.getExtent();
    if (core.getDimSize(index) * cores < type.getDimSize(index))
      return op->emitOpError() << cores << " tiles of " << core << " do not hold dimension " << index << " of "
                               << matrix;
  }
  return success();
}

LogicalResult LoadOp::verify() { return verifyTiles(*this, getBuffer(), getTiles(), getMatrix()); }
LogicalResult StoreOp::verify() { return verifyTiles(*this, getBuffer(), getTiles(), getMatrix()); }

static LogicalResult verifyRoute(Operation *op, FlatSymbolRefAttr name) {
  auto program = op->getParentOfType<ProgramOp>();
  if (program && program.lookupSymbol<RouteOp>(name.getValue()))
    return success();
  return op->emitOpError() << "names " << name << ", but the program has no such route";
}

LogicalResult SendOp::verify() { return verifyRoute(*this, getRouteAttr()); }
LogicalResult ReceiveOp::verify() {
  if (getMaximum() && !getAdd())
    return emitOpError() << "has maximum without add";
  return verifyRoute(*this, getRouteAttr());
}
LogicalResult ForwardOp::verify() {
  if (getMaximum() && !getAdd())
    return emitOpError() << "has maximum without add";
  return failed(verifyRoute(*this, getSourceAttr())) ? failure() : verifyRoute(*this, getDestinationAttr());
}

/// Checks the tiles of a half of a relayout.
static LogicalResult verifyCollect(ComputeOp op) {
  RelayoutAttr relayout = *op.getRelayout();
  auto program = op->getParentOfType<ProgramOp>();
  if (!op->getParentOfType<RepeatOp>())
    return op.emitOpError() << "collects outside of a repeat, in which tiles pass by";
  for (int64_t side : {relayout.getFrom(), relayout.getTo()})
    if (side > int64_t(program.getColumns()) || side > int64_t(program.getRows()))
      return op.emitOpError() << "collects on " << side << " cores of each axis, the program has "
                              << program.getColumns() << " by " << program.getRows();
  int64_t sourceRows = llvm::divideCeil(relayout.getHeight(), relayout.getFrom()),
          sourceColumns = llvm::divideCeil(relayout.getWidth(), relayout.getFrom()),
          rows = llvm::divideCeil(relayout.getHeight(), relayout.getTo()),
          columns = llvm::divideCeil(relayout.getWidth(), relayout.getTo());
  // The first half passes on tiles of the source, the second half passes on what the first one has kept.
  int64_t kept[] = {relayout.getSecond() ? rows : sourceRows, columns};
  int64_t passing[] = {sourceRows, relayout.getSecond() ? columns : sourceColumns};
  auto shape = [&](unsigned operand) { return cast<MemRefType>(op.getBuffers()[operand].getType()).getShape(); };
  if (shape(0) != ArrayRef<int64_t>(kept) || shape(1) != ArrayRef<int64_t>(passing))
    return op.emitOpError() << "collects " << op.getBuffers()[0].getType() << " from " << op.getBuffers()[1].getType()
                            << ", tiles have " << kept[0] << "x" << kept[1] << " and " << passing[0] << "x"
                            << passing[1] << " elements";
  return success();
}

LogicalResult ComputeOp::verify() {
  using A = Arithmetic;
  A kind = getArithmetic();
  auto isOneOf = [&](ArrayRef<A> kinds) { return llvm::is_contained(kinds, kind); };
  bool isProduct = isOneOf({A::Gemm, A::GemmTransposed, A::Gemv});
  size_t expected = kind == A::Zero ? 1 : isProduct || kind == A::Rotate || kind == A::Decode ? 3 : 2;
  if (getBuffers().size() != expected)
    return emitOpError() << stringifyArithmetic(kind) << " has " << getBuffers().size() << " buffers, must have "
                         << expected;
  auto size = [&](unsigned operand, unsigned dimension) {
    return cast<MemRefType>(getBuffers()[operand].getType()).getDimSize(dimension);
  };
  auto isQuantized = [&](unsigned operand) {
    return cast<MemRefType>(getBuffers()[operand].getType()).getElementType().isInteger();
  };
  bool moves = isOneOf({A::Zero, A::Copy, A::Collect});
  for (auto [index, buffer] : llvm::enumerate(getBuffers()))
    if (isQuantized(unsigned(index)) != (moves ? isQuantized(0) : kind == A::Decode && index == 1))
      return emitOpError() << stringifyArithmetic(kind) << " has buffer " << index << " of " << buffer.getType()
                           << "; decode reads quantized values, and nothing else computes with them";
  if (getRelayout().has_value() != (kind == A::Collect))
    return emitOpError() << stringifyArithmetic(kind)
                         << (getRelayout() ? " has a relayout, which collect has" : " has no relayout");
  if (kind == A::Collect)
    return verifyCollect(*this);
  if (getFactor() && !isOneOf({A::Affine, A::Rsqrt, A::Mask, A::Rotate}))
    return emitOpError() << stringifyArithmetic(kind) << " has a factor, which affine, rsqrt, mask and rotate have";
  if (getAddend() && !isOneOf({A::Affine, A::Rsqrt}))
    return emitOpError() << stringifyArithmetic(kind) << " has an addend, which affine and rsqrt have";
  auto isSumOf = [&](unsigned sum, unsigned rows) { return size(sum, 0) == size(rows, 0) && size(sum, 1) == 1; };
  bool sums = isOneOf({A::Sum, A::SumSquares, A::Largest});
  bool spreads = isOneOf({A::Scale, A::Shift, A::Mask, A::Rotate});
  if ((sums && !isSumOf(0, 1)) || (spreads && !isSumOf(1, 0)))
    return emitOpError() << stringifyArithmetic(kind) << (sums ? " gives " : " reads ")
                         << getBuffers()[sums ? 0 : 1].getType() << ", must be one element for each row of "
                         << getBuffers()[sums ? 1 : 0].getType();
  if (kind == A::Rotate && (size(2, 0) != 1 || 2 * size(2, 1) != size(0, 1)))
    return emitOpError() << "rotate reads frequencies " << getBuffers()[2].getType()
                         << ", must be one for each pair of features of " << getBuffers()[0].getType();
  if (kind == A::Decode && (size(0, 0) != size(1, 0) || size(0, 1) != size(1, 1) || size(2, 1) != size(0, 1) ||
                            size(0, 0) % size(2, 0) != 0))
    return emitOpError() << "decodes " << getBuffers()[1].getType() << " with scales " << getBuffers()[2].getType()
                         << " to " << getBuffers()[0].getType();
  bool movesEntry = isOneOf({A::Take, A::Put});
  unsigned entry = kind == A::Take ? 0 : 1;
  if (movesEntry ? size(entry, 0) != 1 || size(0, 1) != size(1, 1)
                 : expected == 2 && !sums && !spreads && (size(0, 0) != size(1, 0) || size(0, 1) != size(1, 1)))
    return emitOpError() << stringifyArithmetic(kind) << " of " << getBuffers()[1].getType() << " to "
                         << getBuffers()[0].getType();
  if (!isProduct)
    return success();
  bool transposed = kind == A::GemmTransposed;
  if (size(0, 0) != size(1, 0) || size(0, 1) != size(2, transposed ? 0 : 1) ||
      size(1, 1) != size(2, transposed ? 1 : 0))
    return emitOpError() << "tiles " << getBuffers()[0].getType() << ", " << getBuffers()[1].getType() << " and "
                         << getBuffers()[2].getType() << " disagree in their sizes";
  return success();
}

LogicalResult RepeatOp::verify() {
  if (getCount() < 1)
    return emitOpError() << "repeats " << getCount() << " times, must be once or more";
  Block &block = getBody().front();
  auto yield = block.empty() ? YieldOp() : dyn_cast<YieldOp>(block.back());
  if (!yield)
    return emitOpError() << "must end with wafer.yield";
  if (block.getArgumentTypes() != getBuffers().getTypes() || yield.getBuffers().getTypes() != getBuffers().getTypes())
    return emitOpError() << "operands, arguments of its body and what it yields must have the same types";
  for (Operation &op : block)
    if (isa<RepeatOp>(op))
      return op.emitOpError() << "is in another repeat; only one level is supported";
  return success();
}
