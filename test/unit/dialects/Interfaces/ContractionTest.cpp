//===- ContractionTest.cpp - Tests of dialects/Interfaces/ContractionOpInterface ------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What nn.linear, nn.matmul, nn.experts and nn.conv answer, and a product that only this file knows.
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Nn.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace intarsia;

namespace {

/// `test.columns`: rows [n, k] by a stored matrix [k, m].
class ColumnsOp
    : public Op<ColumnsOp, OpTrait::ZeroRegions, OpTrait::OneResult, OpTrait::ZeroSuccessors,
                OpTrait::NOperands<2>::Impl, ContractionOpInterface::Trait, StoredOperandOpInterface::Trait> {
public:
  using Op::Op;
  static StringRef getOperationName() { return "test.columns"; }
  static ArrayRef<StringRef> getAttributeNames() { return {}; }
  OpOperand &getLeftOperand() { return getOperation()->getOpOperand(0); }
  SmallVector<OpOperand *> getRightOperands() { return {&getOperation()->getOpOperand(1)}; }
  MutableOperandRange getBiasOperand() { return MutableOperandRange(getOperation(), 2, 0); }
  std::optional<Type> getPrecision() { return std::nullopt; }
  void setPrecision(Type) {}
  StoredOperand getStoredOperand(unsigned operand) { return operand ? StoredOperand::Matrix : StoredOperand::None; }
  ContractionMaps getMaps() {
    auto map = [&](ArrayRef<unsigned> loops) { return AffineMap::getMultiDimMapWithTargets(3, loops, getContext()); };
    return {map({0, 2}), map({2, 1}), map({0, 1})};
  }
};

class TestDialect : public Dialect {
public:
  explicit TestDialect(MLIRContext *context) : Dialect("test", context, TypeID::get<TestDialect>()) {
    addOperations<ColumnsOp>();
  }
  static StringRef getDialectNamespace() { return "test"; }
};

const char ops[] = R"(
func.func @ops(%x: tensor<?x5x8xf32>, %w: tensor<6x8xf32>, %b: tensor<6xf32>, %l: tensor<3x8x4xf32>,
               %r: tensor<3x6x8xf32>, %t: tensor<?x16xf32>, %indices: tensor<?x2xi32>, %weights: tensor<?x2xf32>,
               %gateUp: tensor<4x2x32x16xf32>, %gateUpBias: tensor<4x2x32xf32>, %down: tensor<4x16x32xf32>,
               %image: tensor<2x9x9x3xf32>, %filter: tensor<4x27xf32>, %matrix: tensor<16x4xf32>) {
  %linear = nn.linear %x, %w, %b {precision = bf16}
      : (tensor<?x5x8xf32>, tensor<6x8xf32>, tensor<6xf32>) -> tensor<?x5x6xf32>
  %matmul = nn.matmul %l, %r {transpose_lhs, transpose_rhs} : (tensor<3x8x4xf32>, tensor<3x6x8xf32>) -> tensor<3x4x6xf32>
  %experts = nn.experts %t, %indices, %weights, %gateUp, %down gate_up_bias %gateUpBias
      {activation = #nn.gated_activation<silu>} : (tensor<?x16xf32>, tensor<?x2xi32>, tensor<?x2xf32>,
      tensor<4x2x32x16xf32>, tensor<4x16x32xf32>, tensor<4x2x32xf32>) -> tensor<?x16xf32>
  %convolution = nn.conv %image, %filter {window = array<i64: 3, 3>, strides = array<i64: 2, 2>}
      : (tensor<2x9x9x3xf32>, tensor<4x27xf32>) -> tensor<2x4x4x4xf32>
  %columns = "test.columns"(%t, %matrix) : (tensor<?x16xf32>, tensor<16x4xf32>) -> tensor<?x4xf32>
  return
}
)";

class Contraction : public testing::Test {
protected:
  Contraction() {
    context.loadDialect<nn::NnDialect, func::FuncDialect, TestDialect>();
    module = parseSourceString<ModuleOp>(ops, &context);
    function = *module->getOps<func::FuncOp>().begin();
  }

  ContractionOpInterface find(StringRef name) {
    for (Operation &op : function.front())
      if (op.getName().getStringRef() == name)
        return cast<ContractionOpInterface>(op);
    return nullptr;
  }
  /// "left right result", each with the loops of its dimensions: "014 34 013".
  static std::string text(AffineMap map) {
    std::string loops;
    for (int64_t dimension = 0; map && dimension < int64_t(map.getNumResults()); ++dimension)
      loops += loopOf(map, dimension) ? std::to_string(*loopOf(map, dimension)) : "?";
    return loops;
  }
  static std::string text(const ContractionMaps &maps) {
    return text(maps.left) + " " + text(maps.right) + " " + text(maps.result);
  }
  static std::vector<unsigned> loops(ContractionOpInterface op, ContractionLoop kind) {
    auto found = op.getMaps().loops(kind);
    return {found.begin(), found.end()};
  }
  Value argument(unsigned number) { return function.getArgument(number); }

  using Loops = std::vector<unsigned>;
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  func::FuncOp function;
};

TEST_F(Contraction, LinearMultipliesRowsByAStoredMatrix) {
  ContractionOpInterface op = find("nn.linear");
  EXPECT_EQ(text(op.getMaps()), "013 23 012");
  EXPECT_EQ(loops(op, ContractionLoop::Batch), Loops());
  EXPECT_EQ(loops(op, ContractionLoop::Row), Loops({0, 1}));
  EXPECT_EQ(loops(op, ContractionLoop::Column), Loops({2}));
  EXPECT_EQ(loops(op, ContractionLoop::Depth), Loops({3}));
  EXPECT_EQ(op.getLeft(), argument(0));
  ASSERT_EQ(op.getRightOperands().size(), 1u);
  EXPECT_EQ(op.getRight(), argument(1));
  EXPECT_EQ(op.getBias(), argument(2));
  EXPECT_EQ(op.getLeftRead(), LeftRead::Rows);
  EXPECT_TRUE(op.hasStoredRight());
  EXPECT_TRUE(op.givesSums());
  EXPECT_EQ(asProductWithWeight(op), op);
  EXPECT_EQ(op.getPrecision(), Type(BFloat16Type::get(&context)));
}

TEST_F(Contraction, MatmulMultipliesTwoComputedTensors) {
  ContractionOpInterface op = find("nn.matmul");
  EXPECT_EQ(text(op.getMaps()), "031 023 012");
  EXPECT_EQ(loops(op, ContractionLoop::Batch), Loops({0}));
  EXPECT_EQ(loops(op, ContractionLoop::Row), Loops({1}));
  EXPECT_EQ(loops(op, ContractionLoop::Column), Loops({2}));
  EXPECT_EQ(loops(op, ContractionLoop::Depth), Loops({3}));
  EXPECT_EQ(op.getLeft(), argument(3));
  EXPECT_EQ(op.getRight(), argument(4));
  EXPECT_EQ(op.getBias(), Value());
  EXPECT_EQ(op.getLeftRead(), LeftRead::Rows);
  EXPECT_FALSE(op.hasStoredRight());
  EXPECT_TRUE(op.givesSums());
  EXPECT_EQ(asProductWithWeight(op), nullptr);
  EXPECT_EQ(op.getPrecision(), std::nullopt);
  op.setPrecision(Float16Type::get(&context));
  EXPECT_EQ(cast<nn::MatmulOp>(op.getOperation()).getPrecision(), Type(Float16Type::get(&context)));
  auto plain = cast<nn::MatmulOp>(op.getOperation());
  plain.setTransposeLhs(false);
  plain.setTransposeRhs(false);
  EXPECT_EQ(text(op.getMaps()), "013 032 012");
}

TEST_F(Contraction, ExpertsGatherRowsAndGiveNoSums) {
  ContractionOpInterface op = find("nn.experts");
  EXPECT_EQ(text(op.getMaps()), "04 1234 ");
  EXPECT_EQ(loops(op, ContractionLoop::Batch), Loops());
  EXPECT_EQ(loops(op, ContractionLoop::Row), Loops({0}));
  EXPECT_EQ(loops(op, ContractionLoop::Column), Loops({1, 2, 3}));
  EXPECT_EQ(loops(op, ContractionLoop::Depth), Loops({4}));
  EXPECT_EQ(op.getLeft(), argument(5));
  ASSERT_EQ(op.getRightOperands().size(), 2u);
  EXPECT_EQ(op.getRightOperands()[0]->get(), argument(8));
  EXPECT_EQ(op.getRightOperands()[1]->get(), argument(10));
  EXPECT_EQ(op.getBias(), argument(9));
  EXPECT_EQ(op.getLeftRead(), LeftRead::Gathered);
  EXPECT_TRUE(op.hasStoredRight());
  EXPECT_FALSE(op.givesSums());
  EXPECT_EQ(asProductWithWeight(op), nullptr);
}

TEST_F(Contraction, ConvolutionReadsWindows) {
  ContractionOpInterface op = find("nn.conv");
  EXPECT_EQ(text(op.getMaps()), "0??? 34 0123");
  EXPECT_EQ(loops(op, ContractionLoop::Row), Loops({0, 1, 2}));
  EXPECT_EQ(loops(op, ContractionLoop::Column), Loops({3}));
  EXPECT_EQ(loops(op, ContractionLoop::Depth), Loops({4}));
  EXPECT_EQ(op.getLeftRead(), LeftRead::Window);
  EXPECT_TRUE(op.hasStoredRight());
  EXPECT_TRUE(op.givesSums());
  // Passes that take rows for what they are leave it alone.
  EXPECT_EQ(asProductWithWeight(op), nullptr);
  // The window at [1, 2] reads its position [2, 0] of the second channel, of 27 columns the 19th, at [4, 4].
  ContractionMaps maps = op.getMaps();
  SmallVector<int64_t> at = maps.left.compose(ArrayRef<int64_t>({0, 1, 2, 3, 19}));
  EXPECT_EQ(at, (SmallVector<int64_t>{0, 4, 4, 1}));
}

TEST_F(Contraction, MatricesByColumnsAreLeftAlone) {
  ContractionOpInterface op = find("test.columns");
  EXPECT_EQ(op.getLeftRead(), LeftRead::Rows);
  EXPECT_TRUE(op.hasStoredRight());
  EXPECT_TRUE(op.givesSums());
  // Its rows are not what is summed: blocks of a format and parts of ranks would be of the wrong dimension.
  EXPECT_EQ(asProductWithWeight(op), nullptr);
}

TEST_F(Contraction, DimensionsAreSharedByALoopThatCountsThemAlone) {
  ContractionMaps linear = find("nn.linear").getMaps(), convolution = find("nn.conv").getMaps();
  EXPECT_EQ(sharedDimension(linear.left, 2, linear.right), 1);
  EXPECT_EQ(sharedDimension(linear.result, 2, linear.right), 0);
  EXPECT_EQ(sharedDimension(linear.left, 0, linear.right), std::nullopt);
  EXPECT_EQ(sharedDimension(convolution.result, 1, convolution.left), std::nullopt);
  EXPECT_EQ(sharedDimension(convolution.left, 1, convolution.right), std::nullopt);
  EXPECT_EQ(sharedDimension(convolution.result, 3, convolution.right), 0);
}

TEST_F(Contraction, ClonesHaveOtherTensors) {
  ContractionOpInterface op = find("nn.linear");
  op->setAttr("test.kept", UnitAttr::get(&context));
  OpBuilder builder(op);
  auto narrow = RankedTensorType::get({ShapedType::kDynamic, 5, 2}, builder.getF32Type());
  Location location = NameLoc::get(builder.getStringAttr("part"));
  Block block;
  Value left = block.addArgument(op.getLeft().getType(), location);
  Value right = block.addArgument(RankedTensorType::get({2, 8}, builder.getF32Type()), location);
  ContractionOpInterface without = op.cloneWith(builder, location, narrow, left, right, Value());
  EXPECT_EQ(without->getName(), op->getName());
  EXPECT_EQ(without.getLoc(), location);
  EXPECT_EQ(without->getResult(0).getType(), narrow);
  EXPECT_EQ(without.getLeft(), left);
  EXPECT_EQ(without.getRight(), right);
  EXPECT_EQ(without->getNumOperands(), 2u);
  EXPECT_EQ(without.getPrecision(), op.getPrecision());
  EXPECT_TRUE(without->hasAttr("test.kept"));
  Value bias = block.addArgument(RankedTensorType::get({2}, builder.getF32Type()), location);
  ContractionOpInterface with = without.cloneWith(builder, location, narrow, left, right, bias);
  EXPECT_EQ(with.getBias(), bias);
  EXPECT_EQ(op.getBias(), argument(2));
  with->erase();
  without->erase();
}

} // namespace
