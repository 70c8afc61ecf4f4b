//===- KernelsToFunctions.cpp - Kernels as functions over buffers ---------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Interfaces/ReferenceBuilder.h"
#include "dialects/Rt/KernelBodies.h"
#include "intarsia/Reference/Reference.h"
#include "mlir/Dialect/Affine/Utils.h"
#include "mlir/Dialect/Bufferization/IR/BufferizableOpInterface.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace intarsia::reference {
#define GEN_PASS_DEF_REFERENCEKERNELSTOFUNCTIONS
#include "lib/Reference/Passes.h.inc"

namespace {
/// Booleans take a byte each in buffers. Any other than 0 is true.
Type storedElement(Type element) { return element.isInteger(1) ? IntegerType::get(element.getContext(), 8) : element; }

class FunctionBuilder {
public:
  FunctionBuilder(rt::KernelOp kernel, OpBuilder &builder) : kernel(kernel), builder(kernel.getLoc(), builder) {}

  LogicalResult build(StringRef name) {
    if (failed(checkOps()))
      return failure();
    Type pointer = LLVM::LLVMPointerType::get(builder.getContext());
    function = func::FuncOp::create(builder, name, builder.getFunctionType({pointer, pointer}, {}));
    builder.setInsertionPointToStart(function.addEntryBlock());
    loadSizes();
    IRMapping mapping;
    for (auto [index, argument] : llvm::enumerate(kernel.getBody().getArguments())) {
      FailureOr<Value> value = buildInput(index, cast<RankedTensorType>(argument.getType()));
      if (failed(value))
        return failure();
      mapping.map(argument, *value);
    }
    for (Operation &op : kernel.getBody().front().without_terminator())
      builder.clone(op, mapping)->walk([&](tensor::ExtractOp extract) { guard(extract); });
    SmallVector<Value> results;
    for (Value value : kernel.getBody().front().getTerminator()->getOperands())
      results.push_back(mapping.lookup(value));
    storeResults(results);
    func::ReturnOp::create(builder, ValueRange());
    return success();
  }

private:
  /// Refuses ops that no pass behind this one lowers.
  LogicalResult checkOps() {
    for (Operation &op : kernel.getBody().front().without_terminator()) {
      bool isTensor = llvm::any_of(op.getResultTypes(), llvm::IsaPred<TensorType>);
      if (isTensor && !isa<ReferenceOpInterface, bufferization::BufferizableOpInterface>(op) &&
          !OpTrait::hasElementwiseMappableTraits(&op))
        return op.emitOpError() << "has no reference (kernel '" << kernel.getSymName() << "')";
    }
    return success();
  }

  Value loadAt(Value pointer, int64_t index, Type type) {
    Value address = LLVM::GEPOp::create(builder, pointer.getType(), type, pointer, LLVM::GEPArg(int32_t(index)));
    return LLVM::LoadOp::create(builder, type, address);
  }

  void loadSizes() {
    for (unsigned index = 0; index != kernel.getSizes().size(); ++index) {
      Value size = loadAt(function.getArgument(1), index, builder.getI64Type());
      sizes.push_back(arith::IndexCastOp::create(builder, builder.getIndexType(), size));
    }
  }

  /// Returns the sizes of a tensor, from the names and expressions of its `nn.sizes`.
  MixedSizes sizesOf(RankedTensorType type, Attribute names) {
    MixedSizes result;
    for (auto [dimension, size] : llvm::enumerate(type.getShape())) {
      if (!ShapedType::isDynamic(size)) {
        result.push_back(builder.getIndexAttr(size));
        continue;
      }
      AffineExpr expression = kernel.parseSize(cast<StringAttr>(cast<ArrayAttr>(names)[dimension]).getValue());
      result.push_back(affine::expandAffineExpr(builder, builder.getLoc(), expression, /*dimValues=*/{}, sizes));
    }
    return result;
  }

  /// Returns a buffer as a dense memref.
  Value bufferAt(int64_t index, ArrayRef<OpFoldResult> sizes, RankedTensorType type) {
    Value pointer = loadAt(function.getArgument(0), index, LLVM::LLVMPointerType::get(builder.getContext()));
    Type i64 = builder.getI64Type(), address = pointer.getType(), element = storedElement(type.getElementType());
    auto descriptorType = LLVM::LLVMStructType::getLiteral(builder.getContext(), {address, address, i64});
    Value descriptor = LLVM::PoisonOp::create(builder, descriptorType);
    for (int64_t field : {0, 1})
      descriptor = LLVM::InsertValueOp::create(builder, descriptor, pointer, field);
    Value offset = LLVM::ConstantOp::create(builder, i64, builder.getI64IntegerAttr(0));
    descriptor = LLVM::InsertValueOp::create(builder, descriptor, offset, 2);
    auto whole = UnrealizedConversionCastOp::create(builder, MemRefType::get({}, element), descriptor);
    auto memref = MemRefType::get(type.getShape(), element);
    MixedSizes strides(sizes.size());
    OpFoldResult stride = builder.getIndexAttr(1);
    for (unsigned dimension = sizes.size(); dimension-- != 0;) {
      strides[dimension] = stride;
      if (dimension != 0)
        stride = product(stride, sizes[dimension]);
    }
    return memref::ReinterpretCastOp::create(builder, memref, whole.getResult(0), builder.getIndexAttr(0), sizes,
                                             strides);
  }

  OpFoldResult product(OpFoldResult a, OpFoldResult b) {
    auto left = getConstantIntValue(a), right = getConstantIntValue(b);
    if (left && right)
      return builder.getIndexAttr(*left * *right);
    Value x = getValueOrCreateConstantIndexOp(builder, builder.getLoc(), a);
    Value y = getValueOrCreateConstantIndexOp(builder, builder.getLoc(), b);
    return arith::MulIOp::create(builder, x, y).getResult();
  }

  FailureOr<Value> buildInput(unsigned index, RankedTensorType type) {
    auto layout = dyn_cast_if_present<rt::LayoutAttrInterface>(kernel.getArgAttr(index, "rt.layout"));
    bool isArray = !layout || layout.isRowMajor();
    RankedTensorType stored = isArray ? type : type.hasStaticShape() ? layout.getStorageType(type) : RankedTensorType();
    if (!stored)
      return kernel.emitOpError() << "argument " << index << " of type " << type << " is laid out as " << layout
                                  << ", which the reference cannot read";
    Value buffer = bufferAt(index, sizesOf(stored, kernel.getArgAttr(index, "nn.sizes")), stored);
    auto memory = cast<MemRefType>(buffer.getType());
    Value value = bufferization::ToTensorOp::create(
        builder, RankedTensorType::get(memory.getShape(), memory.getElementType()), buffer, /*restrict=*/true);
    if (type.getElementType().isInteger(1))
      value =
          builder.parallel(builder.sizesOf(value), type.getElementType(), {{value, builder.identity(stored.getRank())}},
                           [](ScalarBuilder &b, ValueRange v) -> Value {
                             Value zero = arith::ConstantOp::create(b, b.getI8IntegerAttr(0));
                             return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, v[0], zero);
                           });
    return isArray ? value : buildStoredWeight(layout, value, type);
  }

  /// Builds loops that read a weight from the memory in which its layout stores it.
  Value buildStoredWeight(rt::LayoutAttrInterface layout, Value storage, RankedTensorType type) {
    ScalarBuilder outside(builder.getLoc(), builder);
    std::unique_ptr<rt::TensorReader> reader = layout.makeReader(outside, storage, type);
    MixedSizes sizes;
    for (int64_t size : type.getShape())
      sizes.push_back(builder.getIndexAttr(size));
    return builder.parallel(sizes, type.getElementType(), {}, [&](ScalarBuilder &b, ValueRange) {
      SmallVector<Integer> indices;
      for (unsigned dimension = 0; dimension != sizes.size(); ++dimension)
        indices.push_back(b.indexOf(dimension));
      return reader->buildElement(b, indices);
    });
  }

  /// Gives what a kernel extracts outside of a tensor a value: NaN, or the least integer.
  static void guard(tensor::ExtractOp extract) {
    OpBuilder before(extract);
    ScalarBuilder b(extract.getLoc(), before);
    Type type = extract.getType();
    SmallVector<Value> indices;
    Value isInside;
    for (auto [dimension, index] : llvm::enumerate(extract.getIndices())) {
      Value size = tensor::DimOp::create(b, extract.getTensor(), dimension);
      Value isBelow = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, index, size);
      isInside = isInside ? arith::AndIOp::create(b, isInside, isBelow).getResult() : isBelow;
      indices.push_back(index);
    }
    if (!isInside)
      return;
    TypedAttr outside;
    if (auto element = dyn_cast<FloatType>(type))
      outside = b.getFloatAttr(element, APFloat::getNaN(element.getFloatSemantics()));
    else
      outside = b.getIntegerAttr(type, APInt::getSignedMinValue(type.isIndex() ? 64 : type.getIntOrFloatBitWidth()));
    // A tensor without elements has none to read instead of those outside.
    auto branch = scf::IfOp::create(
        b, isInside,
        [&](OpBuilder &inner, Location location) {
          Value element = tensor::ExtractOp::create(inner, location, extract.getTensor(), indices);
          scf::YieldOp::create(inner, location, element);
        },
        [&](OpBuilder &inner, Location location) {
          scf::YieldOp::create(inner, location, arith::ConstantOp::create(inner, location, outside).getResult());
        });
    extract.replaceAllUsesWith(branch.getResult(0));
    extract.erase();
  }

  /// Writes results when all of them are known: an output may be the memory of an input, whose next value it is.
  void storeResults(ArrayRef<Value> results) {
    SmallVector<Value> copies;
    for (Value value : results) {
      auto type = cast<RankedTensorType>(value.getType());
      if (type.getElementType().isInteger(1))
        value = builder.parallel(
            builder.sizesOf(value), builder.getI8Type(), {{value, builder.identity(type.getRank())}},
            [](ScalarBuilder &b, ValueRange v) -> Value { return arith::ExtUIOp::create(b, b.getI8Type(), v[0]); });
      copies.push_back(bufferization::AllocTensorOp::create(builder, cast<RankedTensorType>(value.getType()),
                                                            /*dynamicSizes=*/ValueRange(), /*copy=*/value,
                                                            /*sizeHint=*/Value(), /*memorySpace=*/Attribute()));
    }
    for (auto [index, copy, type] : llvm::enumerate(copies, kernel.getResultTypes())) {
      auto tensor = cast<RankedTensorType>(type);
      Value buffer =
          bufferAt(kernel.getNumArguments() + index, sizesOf(tensor, kernel.getResultAttr(index, "nn.sizes")), tensor);
      bufferization::MaterializeInDestinationOp::create(builder, /*result=*/Type(), copy, buffer, /*restrict=*/true,
                                                        /*writable=*/true);
    }
  }

  rt::KernelOp kernel;
  ReferenceBuilder builder;
  func::FuncOp function;
  SmallVector<Value> sizes;
};

struct KernelsToFunctions : impl::ReferenceKernelsToFunctionsBase<KernelsToFunctions> {
  void getDependentDialects(DialectRegistry &registry) const override {
    ReferenceKernelsToFunctionsBase::getDependentDialects(registry);
    registerReferenceModels(registry);
  }

  void runOnOperation() override {
    if (failed(rt::checkBodies(getOperation())))
      return signalPassFailure();
    SmallVector<rt::KernelOp> kernels(getOperation().getOps<rt::KernelOp>());
    for (auto [index, kernel] : llvm::enumerate(kernels)) {
      if (failed(buildReferenceFunction(kernel, index, getOperation())))
        return signalPassFailure();
      kernel.erase();
    }
  }
};
} // namespace

std::string functionNameOf(unsigned kernel) { return "itx_reference_kernel_" + std::to_string(kernel); }

LogicalResult buildReferenceFunction(rt::KernelOp kernel, unsigned index, ModuleOp into) {
  OpBuilder builder = OpBuilder::atBlockEnd(into.getBody());
  return FunctionBuilder(kernel, builder).build(functionNameOf(index));
}

} // namespace intarsia::reference
