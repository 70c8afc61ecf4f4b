//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// A builder of IR without a kind of model: the weights are an archive in memory, as an importer of another format has
// one. Views are evaluated element by element and compared with what strides mean.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Builder/ModuleBuilder.h"
#include "dialects/Nn/Prepacking.h"
#include "intarsia/Analysis/SymbolicSizes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Verifier.h"
#include "gmock/gmock.h"
#include <deque>
#include <numeric>
#include <random>

using namespace mlir;
using namespace intarsia;
using namespace intarsia::importer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {

/// Weights that have names, types and shapes, and no bytes.
class TestArchive : public WeightArchive {
public:
  TestArchive() { displayName = "m.weights"; }
  void add(const std::string &key, const std::string &dtype, std::vector<int64_t> shape) {
    ArchiveTensor &entry = entries.emplace_back();
    entry.name = key;
    entry.dtype = dtype;
    entry.shape = std::move(shape);
    tensors[key] = {&file, &entry};
  }

private:
  File file = {"m.weights", "weights"};
  std::deque<ArchiveTensor> entries;
};

class ModuleBuilderTest : public ::testing::Test {
protected:
  ModuleBuilderTest() {
    context.loadDialect<nn::NnDialect, func::FuncDialect, arith::ArithDialect, tensor::TensorDialect,
                        linalg::LinalgDialect>();
    module = ModuleOp::create(UnknownLoc::get(&context));
    builder.emplace(*module, errors);
  }
  Type f32() { return Float32Type::get(&context); }
  std::string text() {
    std::string result;
    llvm::raw_string_ostream stream(result);
    module->print(stream, OpPrintingFlags().enableDebugInfo(true, /*prettyForm=*/true).useLocalScope());
    return result;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  TestArchive archive;
  Errors errors;
  std::optional<ModuleBuilder> builder;
};

TEST_F(ModuleBuilderTest, OpsHaveTheLocationOfTheUsersNode) {
  archive.add("fc.weight", "F32", {3, 4});
  archive.add("fc.bias", "F32", {3});
  builder->beginFunction("main", {{"x", f32(), {"batch", 4}, {}, {}}});
  Location at = builder->nodeLocation("/fc/Gemm", "model.py", 12);
  Value weight = builder->weight(builder->nodeLocation("fc.weight"), archive, "fc.weight");
  Value bias = builder->weight(builder->nodeLocation("fc.bias"), archive, "fc.bias");
  Value result = builder->linear(at, builder->input("x"), weight, bias);
  builder->output(builder->activation(builder->nodeLocation("/act/Relu"), result, Activation::Relu), "y", {"batch", 3});
  builder->endFunction({{"batch", 64}}, builder->getBuilder().getDictionaryAttr({}));
  ASSERT_FALSE(errors.any()) << errors.message();
  ASSERT_TRUE(succeeded(verify(*module)));
  std::string printed = text();
  EXPECT_THAT(printed, HasSubstr("nn.archive @weights {file = \"m.weights\"}"));
  EXPECT_THAT(printed, HasSubstr("\"/fc/Gemm\"(model.py:12:0)"));
  EXPECT_THAT(printed, HasSubstr("\"/act/Relu\""));
  EXPECT_THAT(printed, HasSubstr("nn.sizes = [\"batch\", \"\"]"));
  EXPECT_THAT(printed, HasSubstr("nn.size_limits = {batch = 64 : i64}"));
}

TEST_F(ModuleBuilderTest, SizesAreComputedFromSizes) {
  builder->beginFunction("main", {{"x", f32(), {"rows", 6}, {}, {}}, {"y", f32(), {"more", 6}, {}, {}}});
  Location at = builder->nodeLocation("Reshape_3");
  Size rows = builder->sizeOf(at, builder->input("x"), 0), both = builder->compute(at, SizeOp::Add, rows, "more");
  EXPECT_EQ(builder->sizeOf(at, builder->input("x"), 1).value, 6);
  Value joined = builder->concat(at, {builder->input("x"), builder->input("y")}, 0);
  Size halves = builder->compute(at, SizeOp::Multiply, both, 2);
  Value split = builder->expandShape(at, joined, {both, 2, 3}, {{0}, {1, 2}});
  Value flat = builder->collapseShape(at, split, {{0, 1}, {2}});
  Value one = builder->part(at, flat, {0, 0}, {builder->compute(at, SizeOp::Subtract, halves, 1), 3},
                            {builder->compute(at, SizeOp::Subtract, halves, 1), 3});
  builder->output(one, "z", {Size(halves), 3});
  builder->endFunction({}, builder->getBuilder().getDictionaryAttr({}));
  ASSERT_TRUE(succeeded(verify(*module)));
  SymbolicSizes sizes(*module->getOps<func::FuncOp>().begin());
  EXPECT_EQ(sizes.toString(sizes.of(flat)[0]), "rows * 2 + more * 2");
  EXPECT_EQ(sizes.toString(sizes.of(one)[0]), "rows * 2 + more * 2 - 1");
}

TEST_F(ModuleBuilderTest, NumbersAreComputedAtOnce) {
  builder->beginFunction("main", {});
  Location at = builder->nodeLocation("Div_7");
  auto compute = [&](SizeOp op, int64_t left, int64_t right) { return builder->compute(at, op, left, right).value; };
  EXPECT_EQ(compute(SizeOp::Add, 7, 2), 9);
  EXPECT_EQ(compute(SizeOp::Subtract, 7, 2), 5);
  EXPECT_EQ(compute(SizeOp::Multiply, 7, 2), 14);
  EXPECT_EQ(compute(SizeOp::Divide, 7, 2), 3);
  EXPECT_EQ(compute(SizeOp::DivideUp, 7, 2), 4);
  EXPECT_EQ(compute(SizeOp::Remainder, 7, 2), 1);
  EXPECT_FALSE(errors.any());
  builder->compute(at, SizeOp::Divide, 7, 0);
  EXPECT_EQ(errors.message(), "'Div_7': the size 7 / 0 is no number of 64 bits");
}

TEST_F(ModuleBuilderTest, ProductsThatOverflowAreReported) {
  builder->beginFunction("main", {});
  builder->compute(builder->nodeLocation(""), SizeOp::Multiply, int64_t(1) << 62, 4);
  EXPECT_EQ(errors.message(), "the size 4611686018427387904 * 4 is no number of 64 bits");
}

TEST_F(ModuleBuilderTest, RecurrentLayersAreALinearAndTheSteps) {
  builder->beginFunction("main", {{"x", f32(), {"batch", "time", 5}, {}, {}}});
  Location at = builder->nodeLocation("encoder");
  RecurrentLayer layer{nn::RecurrentKind::Lstm, nn::Direction::Bidirectional};
  for (const std::string direction : {"", "_reverse"}) {
    auto weight = [&](const std::string &name, std::vector<int64_t> shape) {
      archive.add(name + direction, "F32", std::move(shape));
      return builder->weight(at, archive, name + direction);
    };
    layer.inputWeights.push_back(weight("weight_ih", {12, 5}));
    layer.recurrentWeights.push_back(weight("weight_hh", {12, 3}));
    layer.inputBiases.push_back(weight("bias_ih", {12}));
  }
  layer.gateOrder = {0, 3, 1, 2};
  layer.clip = 2;
  llvm::SmallVector<Value> results = builder->recurrent(at, builder->input("x"), layer);
  ASSERT_EQ(results.size(), 3u);
  builder->output(results[0], "y", {"batch", "time", 6});
  builder->endFunction({}, DictionaryAttr::get(&context));
  EXPECT_FALSE(errors.any());
  EXPECT_TRUE(succeeded(verify(*module)));
  auto recurrent = results[0].getDefiningOp<nn::RecurrentOp>();
  auto linear = recurrent.getGates().getDefiningOp<nn::LinearOp>();
  EXPECT_TRUE(nn::isPrepacked(recurrent.getRecurrent(), nullptr));
  EXPECT_EQ(cast<RankedTensorType>(linear.getType()).getDimSize(2), 24);
  EXPECT_FALSE(recurrent.getBias());
  EXPECT_THAT(text(), HasSubstr("{clip = 2.000000e+00 : f32, gate_order = array<i64: 0, 3, 1, 2>}"));
}

TEST_F(ModuleBuilderTest, NormsOfImagesAreReductionsOverPositions) {
  context.loadDialect<math::MathDialect>();
  Shape shape = {"n", "height", 5, 6};
  builder->beginFunction("main", {{"x", f32(), shape, {}, {}}, {"scale", f32(), {6}, {}, {}}});
  Value norm = builder->imageNorm(builder->nodeLocation("norm"), builder->input("x"), shape, builder->input("scale"),
                                  Value(), 3, 1e-5);
  builder->output(norm, "y", shape);
  builder->endFunction({}, DictionaryAttr::get(&context));
  EXPECT_FALSE(errors.any());
  EXPECT_TRUE(succeeded(verify(*module)));
  // Sums and squares keep the batch and the group; one loop over all elements finishes.
  SmallVector<std::pair<unsigned, unsigned>> loops;
  module->walk([&](linalg::GenericOp op) { loops.push_back({op.getNumParallelLoops(), op.getNumReductionLoops()}); });
  EXPECT_THAT(loops, ElementsAre(std::pair(2u, 3u), std::pair(2u, 0u), std::pair(2u, 3u), std::pair(2u, 0u),
                                 std::pair(5u, 0u)));
}

TEST_F(ModuleBuilderTest, GroupsThatDoNotDivideChannelsAreReported) {
  Shape shape = {2, 4, 5, 6};
  builder->beginFunction("main", {{"x", f32(), shape, {}, {}}});
  builder->imageNorm(builder->nodeLocation("norm"), builder->input("x"), shape, Value(), Value(), 4, 1e-5);
  EXPECT_THAT(errors.message(), HasSubstr("a norm of 4 groups is not possible of 6 channels"));
}

TEST_F(ModuleBuilderTest, NamesOfSizesAreNamesInIR) {
  EXPECT_EQ(builder->sizeName("batch"), "batch");
  EXPECT_EQ(builder->sizeName("p2o.DynamicDimension.0"), "p2o.DynamicDimension.0");
  EXPECT_EQ(builder->sizeName("N/2"), "N_2");
  EXPECT_EQ(builder->sizeName("N-2"), "N_2_1");
  EXPECT_EQ(builder->sizeName("N/2"), "N_2");
  EXPECT_EQ(builder->sizeName("0"), "_0");
  EXPECT_EQ(builder->sizeName("?"), "_");
  EXPECT_EQ(builder->sizeName(""), "__1");
}

TEST_F(ModuleBuilderTest, WeightsHaveTheTypesThatTheyAreStoredIn) {
  const std::pair<const char *, Type> types[] = {{"F32", f32()},
                                                 {"F16", Float16Type::get(&context)},
                                                 {"BF16", BFloat16Type::get(&context)},
                                                 {"F64", Float64Type::get(&context)},
                                                 {"F8_E5M2", Float8E5M2Type::get(&context)},
                                                 {"BOOL", IntegerType::get(&context, 1)},
                                                 {"U8", IntegerType::get(&context, 8)},
                                                 {"I64", IntegerType::get(&context, 64)}};
  for (auto [dtype, type] : types)
    archive.add(dtype, dtype, {2, 3});
  builder->beginFunction("main", {});
  for (auto [dtype, type] : types) {
    Value weight = builder->weight(builder->nodeLocation(dtype), archive, dtype);
    EXPECT_EQ(weight.getType(), RankedTensorType::get({2, 3}, type)) << dtype;
    EXPECT_EQ(weight, builder->weight(builder->nodeLocation("again"), archive, dtype));
  }
  EXPECT_FALSE(errors.any());
}

TEST_F(ModuleBuilderTest, MissingWeightsAreReported) {
  builder->beginFunction("main", {});
  EXPECT_TRUE(builder->weight(builder->nodeLocation("w"), archive, "w"));
  EXPECT_EQ(errors.message(), "m.weights: has no tensor 'w'");
}

TEST_F(ModuleBuilderTest, TypesThatIRDoesNotHaveAreReported) {
  archive.add("w", "C64", {2});
  builder->beginFunction("main", {});
  EXPECT_TRUE(builder->weight(builder->nodeLocation("w"), archive, "w"));
  EXPECT_EQ(errors.message(), "m.weights: tensor 'w' is of dtype C64, whose elements are not imported");
}

//===-- Views -------------------------------------------------------------------------------------------------===//

/// Returns the numbers of the weight's elements that a chain of views has, in order.
std::vector<int64_t> elementsOf(Value value) {
  Operation *op = value.getDefiningOp();
  auto type = cast<RankedTensorType>(value.getType());
  if (isa<nn::WeightOp>(op)) {
    std::vector<int64_t> all(type.getNumElements());
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  std::vector<int64_t> source = elementsOf(op->getOperand(0)), result;
  if (isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(op))
    return source;
  ArrayRef<int64_t> shape = type.getShape();
  ArrayRef<int64_t> before = cast<RankedTensorType>(op->getOperand(0).getType()).getShape();
  for (int64_t number = 0; number < type.getNumElements(); ++number) {
    SmallVector<int64_t> index(shape.size()), from(before.size());
    int64_t rest = number;
    for (int64_t i = shape.size() - 1; i >= 0; --i) {
      index[i] = rest % shape[i];
      rest /= shape[i];
    }
    if (auto transpose = dyn_cast<linalg::TransposeOp>(op))
      for (auto [to, dimension] : llvm::enumerate(transpose.getPermutation()))
        from[dimension] = index[to];
    else
      for (auto [dimension, offset] : llvm::enumerate(cast<tensor::ExtractSliceOp>(op).getStaticOffsets()))
        from[dimension] = offset + index[dimension];
    int64_t at = 0;
    for (auto [dimension, size] : llvm::zip_equal(from, before))
      at = at * size + dimension;
    result.push_back(source[at]);
  }
  return result;
}

struct Strided {
  int64_t elements, offset;
  std::vector<int64_t> sizes, strides;

  /// The elements by what strides mean.
  std::vector<int64_t> expected() const {
    std::vector<int64_t> result = {offset};
    for (auto [size, stride] : llvm::zip_equal(sizes, strides)) {
      std::vector<int64_t> next;
      for (int64_t before : result)
        for (int64_t i = 0; i < size; ++i)
          next.push_back(before + i * stride);
      result = next;
    }
    return result;
  }
};

class StridedViews : public ModuleBuilderTest {
protected:
  Value view(const Strided &strided) {
    std::string key = "w" + std::to_string(number++);
    archive.add(key, "F32", {strided.elements});
    Location at = builder->nodeLocation(key);
    return builder->stridedView(at, key, builder->weight(at, archive, key), strided.offset, strided.sizes,
                                strided.strides);
  }
  void expectRight(const Strided &strided) {
    Value result = view(strided);
    ASSERT_FALSE(errors.any()) << errors.message();
    EXPECT_EQ(cast<RankedTensorType>(result.getType()).getShape(), ArrayRef(strided.sizes));
    EXPECT_EQ(elementsOf(result), strided.expected());
  }
  unsigned number = 0;
};

TEST_F(StridedViews, AreChainsOfSlicesTransposesAndReshapes) {
  builder->beginFunction("main", {});
  expectRight({12, 0, {3, 4}, {4, 1}});                // the whole
  expectRight({12, 0, {4, 3}, {1, 4}});                // transposed
  expectRight({12, 1, {3, 2}, {4, 1}});                // columns
  expectRight({12, 4, {2, 4}, {4, 1}});                // rows
  expectRight({40, 7, {3, 4}, {4, 1}});                // one of several tensors in a storage
  expectRight({24, 2, {2, 3}, {12, 4}});               // of a last dimension one element
  expectRight({12, 0, {3, 2}, {4, 2}});                // every other column
  expectRight({12, 5, {}, {}});                        // one element
  expectRight({12, 3, {1, 3, 1}, {99, 1, 99}});        // strides of one element say nothing
  expectRight({12, 0, {3, 0}, {4, 1}});                // nothing
  expectRight({120, 0, {4, 2, 5, 3}, {1, 60, 12, 4}}); // all dimensions move
}

/// What narrow, select and permute make of a tensor.
TEST_F(StridedViews, OfAnyTensor) {
  builder->beginFunction("main", {});
  std::mt19937 random(1);
  auto below = [&](int64_t bound) { return int64_t(random() % bound); };
  for (int run = 0; run < 300; ++run) {
    int64_t rank = 1 + below(4);
    Strided strided = {1, 0, {}, {}};
    for (int64_t i = 0; i < rank; ++i) {
      strided.sizes.insert(strided.sizes.begin(), 1 + below(5));
      strided.strides.insert(strided.strides.begin(), strided.elements);
      strided.elements *= strided.sizes.front();
    }
    for (int64_t i = 0; i < rank; ++i) {
      int64_t begin = below(strided.sizes[i]);
      strided.offset += begin * strided.strides[i];
      strided.sizes[i] = 1 + below(strided.sizes[i] - begin);
    }
    for (int64_t i = rank - 1; i > 0; --i) {
      int64_t other = below(i + 1);
      std::swap(strided.sizes[i], strided.sizes[other]);
      std::swap(strided.strides[i], strided.strides[other]);
    }
    if (below(3) == 0) { // one of several tensors of a storage
      strided.offset += below(7);
      strided.elements += 6 + below(7);
    }
    SCOPED_TRACE(run);
    ASSERT_NO_FATAL_FAILURE(expectRight(strided));
  }
}

TEST_F(StridedViews, OfWeightsCostNothingAtRunTime) {
  builder->beginFunction("main", {});
  for (const Strided &strided : {Strided{12, 0, {4, 3}, {1, 4}}, Strided{12, 1, {3, 2}, {4, 1}},
                                 Strided{40, 7, {3, 4}, {4, 1}}, Strided{12, 0, {1, 4, 3}, {12, 1, 4}}}) {
    std::string why;
    EXPECT_TRUE(nn::isPrepacked(view(strided), &why)) << why;
  }
}

TEST_F(StridedViews, OutsideAreReported) {
  builder->beginFunction("main", {});
  view({12, 1, {3, 4}, {4, 1}});
  EXPECT_EQ(errors.message(), "'w0': a view of sizes [3, 4], strides [4, 1], offset 1 of a tensor of 12 elements "
                              "reaches outside of it");
}

TEST_F(StridedViews, ThatOverflowAreReported) {
  builder->beginFunction("main", {});
  view({12, 0, {int64_t(1) << 40, 2}, {int64_t(1) << 40, 1}});
  EXPECT_THAT(errors.message(), HasSubstr("reaches outside of it"));
}

TEST_F(StridedViews, OfNegativeNumbersAreReported) {
  builder->beginFunction("main", {});
  view({12, 11, {12}, {-1}});
  EXPECT_THAT(errors.message(), HasSubstr("has a negative number or not a stride for each size"));
}

TEST_F(StridedViews, ThatRepeatElementsAreReported) {
  builder->beginFunction("main", {});
  view({12, 0, {3, 4}, {0, 1}});
  EXPECT_THAT(errors.message(), HasSubstr("strides [0, 1], offset 0 of a tensor of 12 elements is none that slices, "
                                          "transposes and reshapes make; store a copy of the view"));
}

TEST_F(StridedViews, ThatOverlapAreReported) {
  builder->beginFunction("main", {});
  view({12, 0, {3, 4}, {2, 1}});
  EXPECT_THAT(errors.message(), HasSubstr("store a copy of the view"));
}

} // namespace
