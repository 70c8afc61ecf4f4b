//===- KernelsToFunctionsTest.cpp - Tests of lib/Reference/KernelsToFunctions ---------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A layout that only this file knows, in a dialect of its own, is stored and read back: a target brings its layouts and
// changes nothing outside of its folder.
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Interfaces/ScalarBuilder.h"
#include "dialects/Rt/Rt.h"
#include "intarsia/Reference/Reference.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace intarsia;

namespace {

class ColumnsStorage : public rt::TensorStorage {
public:
  explicit ColumnsStorage(RankedTensorType type) : columns(type.getDimSize(1)) {
    pieces = 1;
    pieceBytes = type.getNumElements() * sizeof(float);
    shape = {columns, type.getDimSize(0)};
  }
  Rows rowsOf(int64_t) const override { return {0, shape[1]}; }
  void storeRows(ArrayRef<rt::StoredRun> rows, char *piece) const override {
    auto *values = reinterpret_cast<float *>(piece);
    for (auto [row, run] : llvm::enumerate(rows))
      for (int64_t column = 0; column < columns; ++column)
        values[column * shape[1] + row] = reinterpret_cast<const float *>(run.data)[column * run.stride];
  }

private:
  int64_t columns;
};

class ColumnsReader : public rt::TensorReader {
public:
  explicit ColumnsReader(Value storage) : storage(storage) {}
  Value buildElement(ScalarBuilder &b, ArrayRef<Integer> indices) const override {
    return tensor::ExtractOp::create(b, storage, ValueRange{indices[1], indices[0]});
  }

private:
  Value storage;
};

/// `#test.columns`: the columns of a matrix, one after another.
class ColumnsAttr
    : public Attribute::AttrBase<ColumnsAttr, Attribute, AttributeStorage, rt::LayoutAttrInterface::Trait> {
public:
  using Base::Base;
  static constexpr StringLiteral name = "test.columns";

  LogicalResult verifyType(Operation *, const Twine &, ShapedType) const { return success(); }
  BlockFormatAttrInterface getFormat() const { return nullptr; }
  bool isRowMajor() const { return false; }
  StringRef getNameSuffix() const { return ".columns"; }
  llvm::Expected<std::unique_ptr<rt::TensorStorage>> makeStorage(RankedTensorType type, StringRef) const {
    return std::make_unique<ColumnsStorage>(type);
  }
  RankedTensorType getStorageType(RankedTensorType type) const {
    return type.clone({type.getDimSize(1), type.getDimSize(0)});
  }
  std::unique_ptr<rt::TensorReader> makeReader(ScalarBuilder &, Value storage, RankedTensorType) const {
    return std::make_unique<ColumnsReader>(storage);
  }
};

class TestDialect : public Dialect {
public:
  explicit TestDialect(MLIRContext *context) : Dialect(getDialectNamespace(), context, TypeID::get<TestDialect>()) {
    addAttributes<ColumnsAttr>();
  }
  static constexpr StringLiteral getDialectNamespace() { return "test"; }
  Attribute parseAttribute(DialectAsmParser &parser, Type) const override {
    StringRef keyword;
    if (parser.parseKeyword(&keyword) || keyword != "columns")
      return nullptr;
    return ColumnsAttr::get(parser.getContext());
  }
  void printAttribute(Attribute, DialectAsmPrinter &printer) const override { printer << "columns"; }
};

constexpr const char *program = R"(
rt.device @d {target = #rt.target<"reference", ["native"]>}
rt.kernel @linear(%x: tensor<4x8xf32>, %w: tensor<6x8xf32> {rt.layout = #test.columns}) -> tensor<4x6xf32>
    attributes {root = #nn.root<linear>, sizes = []} {
  %r = nn.linear %x, %w : (tensor<4x8xf32>, tensor<6x8xf32>) -> tensor<4x6xf32>
  rt.yield %r : tensor<4x6xf32>
}
)";

TEST(KernelsToFunctions, ReadsALayoutThatOnlyItsTargetKnows) {
  DialectRegistry registry;
  registry.insert<nn::NnDialect, rt::RtDialect, TestDialect, bufferization::BufferizationDialect, func::FuncDialect,
                  LLVM::LLVMDialect, memref::MemRefDialect>();
  reference::registerReferenceModels(registry);
  MLIRContext context(registry);
  context.loadAllAvailableDialects();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(program, &context);
  ASSERT_TRUE(module);
  OwningOpRef<ModuleOp> functions = ModuleOp::create(module->getLoc());
  ASSERT_TRUE(succeeded(reference::buildReferenceFunction(*module->getOps<rt::KernelOp>().begin(), 0, *functions)));
  EXPECT_TRUE(succeeded(verify(*functions)));

  // The weight is a loop over its elements, each of which is read with its indices exchanged.
  SmallVector<tensor::ExtractOp> reads;
  functions->walk([&](tensor::ExtractOp extract) { reads.push_back(extract); });
  ASSERT_EQ(reads.size(), 1u);
  EXPECT_EQ(reads[0].getTensor().getType().getShape(), ArrayRef<int64_t>({8, 6}));
  auto dimensionOf = [](Value index) { return index.getDefiningOp<linalg::IndexOp>().getDim(); };
  EXPECT_EQ(dimensionOf(reads[0].getIndices()[0]), 1u);
  EXPECT_EQ(dimensionOf(reads[0].getIndices()[1]), 0u);
}

TEST(KernelsToFunctions, StorageAndReaderAgreeOnTheShape) {
  MLIRContext context;
  context.loadDialect<nn::NnDialect, rt::RtDialect>();
  auto type = RankedTensorType::get({2, 70, 96}, Float32Type::get(&context));
  auto format = nn::BlockFormatAttr::get(&context, nn::BlockElement::I4, nn::BlockScale::F16, 32, /*axis=*/1);
  for (rt::LayoutAttrInterface layout : {rt::LayoutAttrInterface(rt::RowMajorAttr::get(&context)),
                                         rt::LayoutAttrInterface(rt::PanelsAttr::get(&context, 32, 1, nullptr)),
                                         rt::LayoutAttrInterface(rt::PanelsAttr::get(&context, 16, 1, nullptr)),
                                         rt::LayoutAttrInterface(rt::PanelsAttr::get(&context, 48, 1, format))}) {
    llvm::Expected<std::unique_ptr<rt::TensorStorage>> storage = layout.makeStorage(type, "F32");
    ASSERT_TRUE(bool(storage));
    RankedTensorType memory = layout.getStorageType(type);
    ASSERT_TRUE(memory);
    EXPECT_EQ(memory.getNumElements() * memory.getElementTypeBitWidth() / 8,
              (*storage)->pieces * (*storage)->pieceBytes);
  }
}

} // namespace
