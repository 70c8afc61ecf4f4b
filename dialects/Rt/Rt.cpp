//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Rt/Rt.h"

#include "dialects/Nn/Nn.h"
#include "dialects/Nn/Prepacking.h"
#include "dialects/Rt/DeviceConfigurations.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "mlir/Interfaces/FunctionImplementation.h"
#include "mlir/Interfaces/ViewLikeInterface.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace intarsia;
using namespace intarsia::rt;

#include "dialects/Rt/LayoutInterface.cpp.inc"
#include "dialects/Rt/RtDialect.cpp.inc"
#include "dialects/Rt/RtEnums.cpp.inc"
#include "dialects/Rt/RtInterfaces.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Rt/RtAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/Rt/RtTypes.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/Rt/RtOps.cpp.inc"

void RtDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Rt/RtAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/Rt/RtTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Rt/RtOps.cpp.inc"
      >();
}

LogicalResult TargetAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, StringRef kind,
                                 ArrayRef<StringAttr> variants) {
  if (kind.empty())
    return emitError() << "target has no kind of device";
  if (variants.empty())
    return emitError() << "target '" << kind << "' has no variants, needs one or more";
  for (StringAttr variant : variants)
    if (variant.getValue().empty())
      return emitError() << "target '" << kind << "' has a variant without a name; this machine is \"native\"";
  return success();
}

LogicalResult RtDialect::verifyRegionArgAttribute(Operation *op, unsigned regionIndex, unsigned argIndex,
                                                  NamedAttribute attribute) {
  std::string where = "argument " + std::to_string(argIndex);
  if (attribute.getName() != "rt.layout" && attribute.getName() != "rt.gathered")
    return op->emitOpError() << "argument attribute " << attribute.getName().getValue() << " of " << where
                             << " is unknown; known are rt.layout, rt.gathered";
  auto kernel = dyn_cast<KernelOp>(op);
  if (!kernel)
    return op->emitOpError() << attribute.getName().getValue() << " of " << where << " stands on a '" << op->getName()
                             << "', must be on an 'rt.kernel'";
  if (attribute.getName() == "rt.gathered") {
    auto indices = dyn_cast<IntegerAttr>(attribute.getValue());
    if (indices && indices.getInt() >= -1 && indices.getInt() < int64_t(kernel.getArgumentTypes().size()) &&
        kernel.getArgAttr(argIndex, "rt.layout"))
      return success();
    return op->emitOpError()
           << "rt.gathered of " << where
           << " must be the number of the argument with the indices, or -1, beside the rt.layout of a "
              "weight";
  }
  auto layout = dyn_cast<LayoutAttrInterface>(attribute.getValue());
  if (!layout)
    return op->emitOpError() << "rt.layout of " << where << " is " << attribute.getValue()
                             << ", must be a layout such as #rt.row_major or #rt.panels<…>";
  auto type = dyn_cast<ShapedType>(kernel.getArgumentTypes()[argIndex]);
  if (!type)
    return op->emitOpError() << "layout of " << where << " stands on " << kernel.getArgumentTypes()[argIndex]
                             << ", which has no dimensions";
  return layout.verifyType(op, where, type);
}

SmallVector<int64_t> rt::rowOfRanks(int64_t rank, ArrayRef<int64_t> shape, int64_t axis) {
  int64_t stride = 1;
  for (int64_t size : shape.drop_front(axis + 1))
    stride *= size;
  int64_t first = rank - rank / stride % shape[axis] * stride;
  SmallVector<int64_t> row;
  for (int64_t place = 0; place < shape[axis]; ++place)
    row.push_back(first + place * stride);
  return row;
}

FlatSymbolRefAttr rt::memoryDeviceOf(Type memref) {
  auto memory = dyn_cast_if_present<MemoryAttr>(cast<MemRefType>(memref).getMemorySpace());
  return memory ? memory.getDevice() : FlatSymbolRefAttr();
}

bool rt::runsOnDevice(Operation *op) {
  return !isa<nn::WeightOp, tensor::DimOp, tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::CastOp,
              tensor::EmptyOp>(op) &&
         !op->hasTrait<OpTrait::ConstantLike>() && llvm::any_of(op->getResultTypes(), llvm::IsaPred<TensorType>);
}

std::optional<Lifetime> rt::lifetimeOf(Value buffer) {
  while (auto view = buffer.getDefiningOp<ViewLikeOpInterface>())
    buffer = view.getViewSource();
  if (auto op = buffer.getDefiningOp<BufferOpInterface>())
    return op.getLifetime();
  auto argument = dyn_cast<BlockArgument>(buffer);
  auto function = argument ? dyn_cast<FunctionOpInterface>(argument.getOwner()->getParentOp()) : FunctionOpInterface();
  if (!function)
    return std::nullopt;
  return function.getArgAttr(argument.getArgNumber(), "nn.state") ? Lifetime::State : Lifetime::External;
}

LogicalResult RtDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  for (auto [name, isExpected, expected] : {std::tuple(formAttr, isa<IntegerAttr>(attribute.getValue()), "an integer"),
                                            {producerAttr, isa<StringAttr>(attribute.getValue()), "a string"}})
    if (attribute.getName() == name) {
      if (!isa<ModuleOp>(op))
        return op->emitOpError() << name << " stands on a '" << op->getName() << "', must be on a 'builtin.module'";
      if (!isExpected)
        return op->emitOpError() << name << " is " << attribute.getValue() << ", must be " << expected;
    }
  if (attribute.getName() == deviceConfigurationsAttr)
    return verifyDeviceConfigurations(op, attribute.getValue());
  if (attribute.getName() == wantedStageAttr) {
    auto stage = dyn_cast<IntegerAttr>(attribute.getValue());
    if (!stage || !stage.getType().isSignlessInteger(64))
      return op->emitOpError() << wantedStageAttr << " is " << attribute.getValue() << ", must be an i64";
  }
  if (attribute.getName() != deviceAttr)
    return success();
  auto name = dyn_cast<FlatSymbolRefAttr>(attribute.getValue());
  if (!name)
    return op->emitOpError() << "rt.device is " << attribute.getValue() << ", must be the name of an rt.device";
  if (!SymbolTable::lookupNearestSymbolFrom<DeviceOp>(op, name))
    return op->emitOpError() << "runs on " << name << ", which is no rt.device of the module";
  return success();
}

//===-- Kernels and constants ---------------------------------------------------------------------------------===//

ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  auto buildType = [](Builder &builder, ArrayRef<Type> inputs, ArrayRef<Type> results,
                      function_interface_impl::VariadicFlag,
                      std::string &) { return builder.getFunctionType(inputs, results); };
  return function_interface_impl::parseFunctionOp(parser, result, /*allowVariadic=*/false,
                                                  getFunctionTypeAttrName(result.name), buildType,
                                                  getArgAttrsAttrName(result.name), getResAttrsAttrName(result.name));
}

void KernelOp::print(OpAsmPrinter &printer) {
  function_interface_impl::printFunctionOp(printer, *this, /*isVariadic=*/false, getFunctionTypeAttrName(),
                                           getArgAttrsAttrName(), getResAttrsAttrName());
}

AffineExpr KernelOp::parseSize(StringRef text) {
  SmallVector<StringRef> names(getSizes().getAsValueRange<StringAttr>());
  if (auto found = llvm::find(names, text); found != names.end())
    return getAffineSymbolExpr(found - names.begin(), getContext());
  std::string map = ("affine_map<()[" + llvm::join(names, ", ") + "] -> (" + text + ")>").str();
  auto parsed = dyn_cast_if_present<AffineMapAttr>(parseAttribute(map, getContext()));
  return parsed && parsed.getValue().getNumResults() == 1 ? parsed.getValue().getResult(0) : AffineExpr();
}

/// Words of an expression that must be names of sizes.
static SmallVector<StringRef> namesIn(StringRef text) {
  SmallVector<StringRef> words, names;
  llvm::SplitString(text, words, " ()+-*,");
  llvm::copy_if(words, std::back_inserter(names), [](StringRef word) {
    return word != "floordiv" && word != "ceildiv" && word != "mod" && !llvm::all_of(word, llvm::isDigit);
  });
  return names;
}

LogicalResult KernelOp::verify() {
  if (!isExternal()) {
    Block &body = getBody().front();
    if (body.empty())
      return emitOpError("body is empty, must end with 'rt.yield'");
    if (!isa<YieldOp>(body.back()))
      return emitOpError() << "body ends with '" << body.back().getName() << "', must end with 'rt.yield'";
  }
  llvm::StringSet<> known;
  for (StringRef name : getSizes().getAsValueRange<StringAttr>())
    if (!known.insert(name).second)
      return emitOpError() << "sizes names '" << name << "' twice";
  auto verifyNames = [&](const Twine &where, Attribute attribute) -> LogicalResult {
    auto names = dyn_cast_if_present<ArrayAttr>(attribute);
    for (Attribute element : names ? names.getValue() : ArrayRef<Attribute>()) {
      auto text = dyn_cast<StringAttr>(element);
      if (!text || text.empty() || known.contains(text.getValue()))
        continue;
      for (StringRef name : namesIn(text))
        if (!known.contains(name))
          return emitOpError() << "nn.sizes of " << where << " names '" << name << "', sizes does not";
      if (!parseSize(text))
        return emitOpError() << "nn.sizes of " << where << " is '" << text.getValue()
                             << "', which is no expression in sizes";
    }
    return success();
  };
  for (unsigned index = 0; index != getNumArguments(); ++index)
    if (failed(verifyNames("argument " + Twine(index), getArgAttr(index, "nn.sizes"))))
      return failure();
  for (unsigned index = 0; index != getNumResults(); ++index)
    if (failed(verifyNames("result " + Twine(index), getResultAttr(index, "nn.sizes"))))
      return failure();
  return success();
}

LogicalResult YieldOp::verify() {
  if (auto constant = dyn_cast<ConstantOp>((*this)->getParentOp())) {
    if (getValues()[0].getType() != constant.getType())
      return emitOpError() << "gives " << getValues()[0].getType() << ", constant @" << constant.getSymName() << " is "
                           << constant.getType();
    return success();
  }
  auto kernel = cast<KernelOp>((*this)->getParentOp());
  if (getValues().size() != kernel.getNumResults())
    return emitOpError() << "gives " << getValues().size() << " values, kernel @" << kernel.getSymName() << " has "
                         << kernel.getNumResults() << " results";
  for (auto [index, value, type] : llvm::enumerate(getValues(), kernel.getResultTypes()))
    if (value.getType() != type)
      return emitOpError() << "value " << index << " is " << value.getType() << ", the kernel's result is " << type;
  return success();
}

LogicalResult ObjectOp::verify() {
  if (getKernels().size() != getNumbers().size())
    return emitOpError() << "has " << getKernels().size() << " kernels and " << getNumbers().size()
                         << " indices of them";
  if (static_cast<int64_t>(getNumber()) < 0)
    return emitOpError() << "has variant number " << static_cast<int64_t>(getNumber()) << ", must not be negative";
  for (auto [index, piece] : llvm::enumerate(getCode())) {
    auto resource = dyn_cast<DenseResourceElementsAttr>(piece);
    if (!resource || resource.getType().getRank() != 1 || !resource.getElementType().isInteger(8))
      return emitOpError() << "code " << index << " is not a dense_resource of bytes, tensor<…xi8>";
    const AsmResourceBlob *blob = resource.getRawHandle().getBlob();
    if (blob && static_cast<int64_t>(blob->getData().size()) != resource.getNumElements())
      return emitOpError() << "code " << index << " has " << blob->getData().size() << " bytes, its type is "
                           << resource.getType();
  }
  return success();
}

std::optional<SmallVector<ArrayRef<char>>> ObjectOp::getBytes() {
  SmallVector<ArrayRef<char>> bytes;
  for (auto piece : getCode().getAsRange<DenseResourceElementsAttr>()) {
    const AsmResourceBlob *blob = piece.getRawHandle().getBlob();
    if (!blob)
      return std::nullopt;
    bytes.push_back(blob->getData());
  }
  return bytes;
}

LogicalResult ConstantOp::verify() {
  auto type = cast<RankedTensorType>(getType());
  if (!type.hasStaticShape())
    return emitOpError() << "has type " << type << ", a constant has a static shape";
  Block &body = getRecipe().front();
  if (body.getNumArguments())
    return emitOpError() << "has a recipe with arguments, which nothing gives a value";
  if (body.empty() || !isa<YieldOp>(body.back()) || body.back().getNumOperands() != 1)
    return emitOpError() << "has a recipe that does not end with 'rt.yield' of one tensor";
  for (Operation &op : body.without_terminator())
    if (std::optional<std::string> why = nn::whyNotPrepacked(&op))
      return op.emitOpError() << "cannot be in the recipe of constant @" << getSymName() << ": " << *why;
  std::string reason;
  if (!nn::isPrepacked(getTensor(), &reason))
    return emitOpError() << "has a recipe that makes no tensor: " << reason;
  if (Attribute stored = getLayout().getFormat()) {
    Attribute format = nn::quantizedFormatOf(getTensor());
    if (stored != format)
      return emitOpError() << "is laid out as " << stored << ", its recipe gives values quantized to "
                           << (format ? format : Attribute(UnitAttr::get(getContext())));
  }
  return getLayout().verifyType(*this, "the constant", type);
}

//===-- Host program ------------------------------------------------------------------------------------------===//

LogicalResult ConstantDataOp::verifySymbolUses(SymbolTableCollection &symbolTable) {
  auto constant = symbolTable.lookupNearestSymbolFrom<ConstantOp>(*this, getConstantAttr());
  if (!constant)
    return emitOpError() << "constant " << getConstantAttr() << " is not defined by an 'rt.constant'";
  auto type = cast<MemRefType>(getType());
  auto expected = cast<RankedTensorType>(constant.getType());
  if (type.getShape() != expected.getShape() || type.getElementType() != expected.getElementType())
    return emitOpError() << "has type " << type << ", constant " << getConstantAttr() << " is " << expected;
  return success();
}

static LogicalResult verifySizeCount(Operation *op, Type type, size_t count) {
  int64_t dynamic = cast<MemRefType>(type).getNumDynamicDims();
  if (dynamic == static_cast<int64_t>(count))
    return success();
  return op->emitOpError() << "is given " << count << " sizes, " << type << " has " << dynamic << " dynamic dimensions";
}

LogicalResult AllocOp::verify() { return verifySizeCount(*this, getType(), getSizes().size()); }

LogicalResult OutputOp::verify() {
  if (static_cast<int64_t>(getIndex()) < 0)
    return emitOpError() << "index is " << static_cast<int64_t>(getIndex()) << ", must not be negative";
  return verifySizeCount(*this, getType(), getSizes().size());
}

LogicalResult CheckIndicesOp::verify() {
  auto type = cast<MemRefType>(getIndices().getType());
  bool isInteger = llvm::any_of(std::array{8u, 16u, 32u, 64u},
                                [&](unsigned bits) { return type.getElementType().isSignlessInteger(bits); });
  if (!isInteger || type.getMemorySpace())
    return emitOpError() << "reads " << type << "; the host reads integers of 8, 16, 32 or 64 bits in its own memory";
  return verifySizeCount(*this, type, getSizes().size());
}

/// Checks that a buffer is in the memory of the host or of the queue's device.
static LogicalResult verifyMemory(Operation *op, const Twine &what, QueueType queue, Type buffer) {
  FlatSymbolRefAttr device = memoryDeviceOf(buffer);
  if (!device || device == queue.getDevice())
    return success();
  return op->emitOpError() << what << " is " << buffer << ", in the memory of " << device << "; the queue is of "
                           << queue.getDevice();
}

LogicalResult CopyOp::verify() {
  auto source = cast<MemRefType>(getSource().getType()), destination = cast<MemRefType>(getDestination().getType());
  if (source.getElementType() != destination.getElementType() || failed(verifyCompatibleShape(source, destination)))
    return emitOpError() << "source is " << source << ", destination " << destination;
  if (failed(verifyMemory(*this, "source", getQueue().getType(), source)) ||
      failed(verifyMemory(*this, "destination", getQueue().getType(), destination)))
    return failure();
  return verifySizeCount(*this, source, getSizes().size());
}

LogicalResult CollectiveOp::verify() {
  CollectiveKind kind = getKind();
  bool isPair = kind == CollectiveKind::Send || kind == CollectiveKind::Receive;
  DenseSet<int64_t> ranks(getRanks().begin(), getRanks().end());
  if (ranks.size() != getRanks().size() || (isPair ? ranks.size() != 2 : ranks.empty()) ||
      llvm::any_of(ranks, [](int64_t rank) { return rank < 0; }))
    return emitOpError() << "is done by ranks [" << getRanks() << "]; "
                         << (isPair ? "two are needed" : "each is at least 0 and named once");
  bool hasSource = getSource() != nullptr, hasDestination = getDestination() != nullptr;
  bool isFromOne =
      kind == CollectiveKind::Broadcast || kind == CollectiveKind::BroadcastResult || kind == CollectiveKind::Receive;
  if ((!hasSource && !isFromOne) || (hasSource && kind == CollectiveKind::Receive) ||
      hasDestination == (kind == CollectiveKind::Send))
    return emitOpError() << stringifyCollectiveKind(kind) << " with" << (hasSource ? "" : "out") << " a source and with"
                         << (hasDestination ? "" : "out") << " a destination";
  FlatSymbolRefAttr device = getQueue() ? cast<QueueType>(getQueue().getType()).getDevice() : FlatSymbolRefAttr();
  for (Value buffer : {getSource(), getDestination()})
    if (buffer && memoryDeviceOf(buffer.getType()) != device) {
      InFlightDiagnostic error = emitOpError() << "uses " << buffer.getType() << "; buffers must be in the ";
      return device ? error << "memory of " << device << ", whose queue it is on" : error << "host's memory";
    }
  if (hasSource && hasDestination) {
    auto source = cast<MemRefType>(getSource().getType()), destination = cast<MemRefType>(getDestination().getType());
    ArrayRef<int64_t> from = source.getShape(), to = destination.getShape();
    if (isOfRows() && from.empty())
      return emitOpError() << "is about rows, which " << source << " has none of";
    if ((kind == CollectiveKind::AllGather || isOfRows()) && !from.empty() && !to.empty()) {
      int64_t all = scattersRows() ? from.front() : to.front();
      int64_t part = scattersRows() ? to.front() : from.front();
      if (isOfRows() && !ShapedType::isDynamic(all) && !ShapedType::isDynamic(part) &&
          part != int64_t(llvm::divideCeil(all, getRanks().size())))
        return emitOpError() << part << " rows of a rank, " << all << " rows of " << getRanks().size() << " ranks";
      from = from.drop_front();
      to = to.drop_front();
    }
    if (source.getElementType() != destination.getElementType() || failed(verifyCompatibleShape(from, to)))
      return emitOpError() << "source is " << source << ", destination " << destination;
    int64_t count = getRanks().size();
    if (kind == CollectiveKind::AllToAll &&
        (from.empty() || (!ShapedType::isDynamic(from.front()) && from.front() % count != 0)))
      return emitOpError() << "source is " << source << ", which has no " << count << " equal parts along its first "
                           << "dimension";
  }
  bool isRounded = kind == CollectiveKind::AllReduceInt8 || kind == CollectiveKind::ReduceScatterRowsInt8;
  if (auto type = cast<MemRefType>(getSized().getType()); isRounded && !type.getElementType().isF32())
    return emitOpError() << "rounds messages of f32 to 8 bits, not of " << type.getElementType();
  return verifySizeCount(*this, cast<MemRefType>(getSized().getType()), getSizes().size());
}

static LogicalResult verifyBuffers(DispatchOp op, StringRef what, ValueRange buffers, ArrayRef<Type> expected) {
  if (buffers.size() != expected.size())
    return op.emitOpError() << "is given " << buffers.size() << " " << what << "s, kernel " << op.getKernelAttr()
                            << " has " << expected.size();
  for (auto [index, buffer, type] : llvm::enumerate(buffers, expected)) {
    auto memref = cast<MemRefType>(buffer.getType());
    auto shaped = dyn_cast<ShapedType>(type);
    if (!shaped || memref.getElementType() != shaped.getElementType() ||
        failed(verifyCompatibleShape(memref.getShape(), shaped.getShape())))
      return op.emitOpError() << what << " " << index << " is " << memref << ", kernel " << op.getKernelAttr()
                              << " takes " << type;
    if (failed(verifyMemory(op, what + " " + Twine(index), op.getQueue().getType(), memref)))
      return failure();
  }
  return success();
}

LogicalResult DispatchOp::verifySymbolUses(SymbolTableCollection &symbolTable) {
  auto kernel = symbolTable.lookupNearestSymbolFrom<KernelOp>(*this, getKernelAttr());
  if (!kernel)
    return emitOpError() << "kernel " << getKernelAttr() << " is not defined by an 'rt.kernel'";
  if (FlatSymbolRefAttr device = kernel.getDeviceAttr(); device && device != getQueue().getType().getDevice())
    return emitOpError() << "puts kernel " << getKernelAttr() << " of device " << device << " on a queue of "
                         << getQueue().getType().getDevice();
  if (getSizes().size() != kernel.getSizes().size())
    return emitOpError() << "is given " << getSizes().size() << " sizes, kernel " << getKernelAttr() << " has "
                         << kernel.getSizes().size();
  if (failed(verifyBuffers(*this, "input", getInputs(), kernel.getArgumentTypes())))
    return failure();
  return verifyBuffers(*this, "output", getOutputs(), kernel.getResultTypes());
}
