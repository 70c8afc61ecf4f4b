//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The cost model against figures that are worked out by hand from its formula and from the shapes.
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Nn.h"
#include "intarsia/Cost/Cost.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include <gtest/gtest.h>

using namespace intarsia;

namespace {

constexpr const char *model = R"(
name: cpu-test
kind: cpu
variants: [test-cpu, other-cpu]
machine: made up
peak_gflops: 100
memory_gbps: 10
cache_gbps: 50
launch_us: 2
transcendental_ns: 0.5
finish_ns: 0.25
roots:
  linear: {compute: 0.5, bandwidth: 1}
  matmul: {compute: 0.5, bandwidth: 1}
  attention: {compute: 0.5, bandwidth: 1}
  rows: {compute: 0.1, bandwidth: 0.5}
  generic: {compute: 0.1, bandwidth: 0.5}
  cached_attention: {like: attention}
  cache_append: {like: rows}
  route: {like: rows}
  candidates: {like: rows}
  experts: {like: linear}
  conv: {like: linear}
  recurrent: {like: linear}
)";

DeviceModel parsed() {
  llvm::Expected<DeviceModel> result = DeviceModel::parse(model, "test.yaml");
  EXPECT_TRUE(bool(result));
  return *result;
}

std::string errorOf(std::string text) {
  llvm::Expected<DeviceModel> result = DeviceModel::parse(text, "test.yaml");
  return result ? "" : llvm::toString(result.takeError());
}

std::string without(llvm::StringRef line) {
  std::string text = model;
  size_t begin = text.find(line.str());
  return text.erase(begin, text.find('\n', begin) - begin + 1);
}

TEST(DeviceModel, ReadsYaml) {
  DeviceModel device = parsed();
  EXPECT_EQ(device.name, "cpu-test");
  EXPECT_EQ(device.kind, "cpu");
  EXPECT_EQ(device.variants, (std::vector<std::string>{"test-cpu", "other-cpu"}));
  EXPECT_EQ(device.peakGflops, 100);
  EXPECT_EQ(device.roots.at(KernelRoot::Rows).bandwidth, 0.5);
  EXPECT_EQ(device.roots.at(KernelRoot::CacheAppend).compute, 0.1) << "as rows";
}

TEST(DeviceModel, RefusesWhatIsWrong) {
  EXPECT_NE(errorOf(without("launch_us")).find("missing required key 'launch_us'"), std::string::npos);
  EXPECT_NE(errorOf(without("  route:")).find("roots lacks 'route'"), std::string::npos);
  EXPECT_NE(errorOf(without("  linear:")).find("like 'linear' is no kind of kernel with figures"), std::string::npos);
  EXPECT_NE(errorOf(std::string(model) + "  pool: {like: linear}\n").find("'pool' is no kind of kernel"),
            std::string::npos);
  EXPECT_NE(errorOf(without("  matmul:")).find("roots lacks 'matmul'"), std::string::npos);
  EXPECT_NE(errorOf(std::string(model) + "volts: 3\n").find("unknown key 'volts'"), std::string::npos);
  EXPECT_NE(errorOf(without("peak_gflops") + "peak_gflops: 0\n").find("must be above zero"), std::string::npos);
  EXPECT_FALSE(errorOf("{").empty());
}

TEST(DeviceModel, TimeIsLaunchPlusTheSlowerSide) {
  DeviceModel device = parsed();
  KernelWork work;
  work.root = KernelRoot::Linear;
  EXPECT_DOUBLE_EQ(device.microseconds(work), 2);
  work.flops = 1e6; // 1e6 / (100e9 * 0.5) = 20 us
  EXPECT_DOUBLE_EQ(device.microseconds(work), 22);
  work.weightBytes = 1e5;     // 10 us
  work.activationBytes = 1e5; // 2 us: together still below the computation
  EXPECT_DOUBLE_EQ(device.microseconds(work), 22);
  work.weightBytes = 3e5; // 32 us
  EXPECT_DOUBLE_EQ(device.microseconds(work), 34);
  work.transcendentals = 2000; // 1 us
  work.finishElements = 4000;  // 1 us
  EXPECT_DOUBLE_EQ(device.microseconds(work), 36);
  work.root = KernelRoot::Rows; // the bandwidth of rows is half of it, their computation a fifth of linear's
  EXPECT_DOUBLE_EQ(device.microseconds(work), 2 + 100 + 2);
}

TEST(DeviceModel, CatalogueNamesCpus) {
  ASSERT_TRUE(DeviceModel::find("cpu", "znver5"));
  EXPECT_EQ(DeviceModel::find("cpu", "znver5")->name, "cpu-x86-64-v4");
  EXPECT_EQ(DeviceModel::find("cpu", "haswell")->name, "cpu-x86-64-v3");
  EXPECT_EQ(DeviceModel::find("cpu", "cpu-x86-64-v3")->name, "cpu-x86-64-v3");
  EXPECT_FALSE(DeviceModel::find("cpu", "a-cpu-of-next-year"));
  EXPECT_FALSE(DeviceModel::find("cpu", ""));
}

TEST(DeviceModel, CatalogueNamesTheReferenceDevice) {
  const DeviceModel *reference = DeviceModel::find("reference", "");
  ASSERT_TRUE(reference);
  EXPECT_EQ(reference->name, "reference");
  EXPECT_EQ(reference->machine.find("not measured"), 0u);
  EXPECT_FALSE(DeviceModel::find("cpu", "reference")) << "no kind takes the figures of another one";
  EXPECT_FALSE(DeviceModel::find("reference", "znver5"));
}

TEST(DeviceModel, CatalogueIsPlausible) {
  ASSERT_FALSE(DeviceModel::all().empty());
  for (const DeviceModel &device : DeviceModel::all()) {
    KernelWork small{KernelRoot::Linear, 1e6, 0, 1e5, 1e5, 0}, large{KernelRoot::Linear, 1e9, 0, 1e6, 1e6, 0};
    EXPECT_GT(device.microseconds(small), device.launchUs) << device.name;
    EXPECT_GT(device.microseconds(large), 10 * device.microseconds(small)) << device.name;
    for (const auto &[kind, root] : device.roots) {
      EXPECT_LE(root.compute, 1.0) << device.name << " " << stringifyKernelRoot(kind).str();
      // Nearer caches than the one of the bandwidth figure may be faster.
      EXPECT_LE(root.bandwidth, 4.0) << device.name << " " << stringifyKernelRoot(kind).str();
    }
  }
}

class WorkModelTest : public testing::Test {
protected:
  WorkModelTest() {
    context.loadDialect<nn::NnDialect, mlir::func::FuncDialect, mlir::arith::ArithDialect, mlir::math::MathDialect,
                        mlir::linalg::LinalgDialect, mlir::tensor::TensorDialect>();
  }

  mlir::func::FuncOp parse(const char *text) {
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    EXPECT_TRUE(module);
    return *module->getOps<mlir::func::FuncOp>().begin();
  }

  template <typename Op> static llvm::SmallVector<mlir::Operation *> opsOf(mlir::func::FuncOp function) {
    llvm::SmallVector<mlir::Operation *> ops;
    function.walk([&](Op op) { ops.push_back(op); });
    return ops;
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

TEST_F(WorkModelTest, LinearWithEpilogue) {
  auto function = parse(R"(
    nn.archive @weights {file = "model.safetensors"}
    func.func @main(%x: tensor<?x?x384xf32> {nn.sizes = ["batch", "sequence", ""]}) -> tensor<?x?x1536xf32> {
      %w = nn.weight @weights["w"] : tensor<1536x384xf32>
      %h = nn.linear %x, %w : (tensor<?x?x384xf32>, tensor<1536x384xf32>) -> tensor<?x?x1536xf32>
      %g = nn.gelu %h {form = #nn.gelu_form<erf>} : tensor<?x?x1536xf32>
      return %g : tensor<?x?x1536xf32>
    })");
  WorkModel work(function);
  EXPECT_EQ(llvm::ArrayRef<int64_t>(work.expected()), (llvm::ArrayRef<int64_t>{1, 128}));
  auto linear = opsOf<nn::LinearOp>(function), gelu = opsOf<nn::GeluOp>(function);
  KernelWork apart = work.work(KernelRoot::Linear, linear);
  EXPECT_DOUBLE_EQ(apart.flops, 2.0 * 128 * 1536 * 384);
  EXPECT_DOUBLE_EQ(apart.weightBytes, 4.0 * 1536 * 384);
  EXPECT_DOUBLE_EQ(apart.activationBytes, 4.0 * 128 * (384 + 1536));
  EXPECT_DOUBLE_EQ(apart.transcendentals, 0);

  // Together nothing between them is written or read.
  KernelWork together = work.work(KernelRoot::Linear, {linear[0], gelu[0]});
  EXPECT_DOUBLE_EQ(together.transcendentals, 128.0 * 1536);
  EXPECT_DOUBLE_EQ(together.activationBytes, apart.activationBytes);
}

TEST_F(WorkModelTest, ExpectedSizesOfTheFunction) {
  auto function = parse(R"(
    func.func @main(%x: tensor<?x?x8xf32> {nn.sizes = ["batch", "sequence", ""]}, %y: tensor<?xf32> {nn.sizes = ["other"]})
        -> tensor<?x?x8xf32> attributes {nn.expected_sizes = {batch = 3 : i64}, nn.size_limits = {sequence = 64 : i64}} {
      %r = nn.relu %x : tensor<?x?x8xf32>
      return %r : tensor<?x?x8xf32>
    })");
  WorkModel work(function);
  EXPECT_EQ(llvm::ArrayRef<int64_t>(work.expected()), (llvm::ArrayRef<int64_t>{3, 64, 1}));
  EXPECT_EQ(work.elements(function.getArgument(0)), 3 * 64 * 8);
}

TEST_F(WorkModelTest, ShapesOfContractions) {
  auto function = parse(R"(
    func.func @f(%x: tensor<3x5x8xf32>, %w: tensor<6x8xf32>, %a: tensor<2x7x8x4xf32>, %b: tensor<2x7x9x8xf32>) {
      %linear = nn.linear %x, %w : (tensor<3x5x8xf32>, tensor<6x8xf32>) -> tensor<3x5x6xf32>
      %matmul = nn.matmul %a, %b {precision = f16, transpose_lhs, transpose_rhs}
          : (tensor<2x7x8x4xf32>, tensor<2x7x9x8xf32>) -> tensor<2x7x4x9xf32>
      return
    })");
  WorkModel work(function);
  MatrixWork linear = *work.work(KernelRoot::Linear, opsOf<nn::LinearOp>(function)).matrix;
  EXPECT_EQ(linear.shape.batch, 1);
  EXPECT_EQ(linear.shape.rows, 15);
  EXPECT_EQ(linear.shape.columns, 6);
  EXPECT_EQ(linear.shape.depth, 8);
  EXPECT_EQ(linear.shape.warmWeights, 0);
  EXPECT_EQ(linear.elementType, "f32");
  MatrixWork matmul = *work.work(KernelRoot::Matmul, opsOf<nn::MatmulOp>(function)).matrix;
  EXPECT_EQ(matmul.shape.batch, 14);
  EXPECT_EQ(matmul.shape.rows, 4);
  EXPECT_EQ(matmul.shape.columns, 9);
  EXPECT_EQ(matmul.shape.depth, 8);
  EXPECT_EQ(matmul.shape.warmWeights, 1);
  EXPECT_EQ(matmul.elementType, "bf16");
}

TEST_F(WorkModelTest, EmbeddingReadsOnlyItsRows) {
  auto function = parse(R"(
    nn.archive @weights {file = "model.safetensors"}
    func.func @main(%ids: tensor<2x16xi64>) -> tensor<2x16x64xf32> {
      %t = nn.weight @weights["t"] : tensor<30000x64xf32>
      %e = nn.embedding %t, %ids : (tensor<30000x64xf32>, tensor<2x16xi64>) -> tensor<2x16x64xf32>
      return %e : tensor<2x16x64xf32>
    })");
  KernelWork work = WorkModel(function).work(KernelRoot::Rows, opsOf<nn::EmbeddingOp>(function));
  EXPECT_DOUBLE_EQ(work.weightBytes, 2.0 * 16 * 64 * 4);
  EXPECT_DOUBLE_EQ(work.activationBytes, 2.0 * 16 * 64 * 4 + 2.0 * 16 * 8);
}

TEST_F(WorkModelTest, FourBitElementsAreHalfAByte) {
  auto function = parse(R"(
    func.func @main(%c: tensor<4x64xi4>, %s: tensor<4x2xf16>, %m: tensor<3xi1>) -> tensor<4x64xf32> {
      %x = nn.dequantize %c, %s {format = #nn.block_format<i4, f16, 32, axis = 1>}
          : (tensor<4x64xi4>, tensor<4x2xf16>) -> tensor<4x64xf32>
      return %x : tensor<4x64xf32>
    })");
  WorkModel model(function);
  EXPECT_DOUBLE_EQ(model.bytes(function.getArgument(2)), 3);
  KernelWork work = model.work(KernelRoot::Rows, opsOf<nn::DequantizeOp>(function));
  EXPECT_DOUBLE_EQ(work.activationBytes, 4.0 * 64 / 2 + 4.0 * 2 * 2 + 4.0 * 64 * 4);
}

TEST_F(WorkModelTest, ConcatenatedWeightsAreReadQuantized) {
  auto function = parse(R"(
    nn.archive @weights {file = "model.gguf"}
    func.func @main(%x: tensor<1x64xf32>) -> tensor<1x64xf32> {
      %a = nn.weight @weights["a"] : tensor<1152xi8>
      %b = nn.weight @weights["b"] : tensor<1152xi8>
      %c = nn.dequantize %a {format = #nn.ggml_type<q4_0>} : (tensor<1152xi8>) -> tensor<2048xf32>
      %d = nn.dequantize %b {format = #nn.ggml_type<q4_0>} : (tensor<1152xi8>) -> tensor<2048xf32>
      %e = tensor.expand_shape %c [[0, 1]] output_shape [32, 64] : tensor<2048xf32> into tensor<32x64xf32>
      %f = tensor.expand_shape %d [[0, 1]] output_shape [32, 64] : tensor<2048xf32> into tensor<32x64xf32>
      %w = tensor.concat dim(0) %e, %f : (tensor<32x64xf32>, tensor<32x64xf32>) -> tensor<64x64xf32>
      %y = nn.linear %x, %w : (tensor<1x64xf32>, tensor<64x64xf32>) -> tensor<1x64xf32>
      return %y : tensor<1x64xf32>
    })");
  EXPECT_DOUBLE_EQ(WorkModel(function).work(KernelRoot::Linear, opsOf<nn::LinearOp>(function)).weightBytes, 2.0 * 1152);
}

TEST_F(WorkModelTest, NormAfterMatmulIsAFinish) {
  auto function = parse(R"(
    func.func @main(%x: tensor<16x64xf32>, %w: tensor<64x64xf32>, %g: tensor<64xf32>) -> tensor<16x64xf32> {
      %h = nn.linear %x, %w : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32>
      %n = nn.rms_norm %h, %g {epsilon = 1.0e-6 : f32} : (tensor<16x64xf32>, tensor<64xf32>) -> tensor<16x64xf32>
      return %n : tensor<16x64xf32>
    })");
  WorkModel model(function);
  auto linear = opsOf<nn::LinearOp>(function), norm = opsOf<nn::RmsNormOp>(function);
  EXPECT_DOUBLE_EQ(model.work(KernelRoot::Linear, {linear[0], norm[0]}).finishElements, 16.0 * 64);
  EXPECT_DOUBLE_EQ(model.work(KernelRoot::Rows, norm).finishElements, 0);
}

TEST_F(WorkModelTest, GenericCountsItsIterationSpace) {
  auto function = parse(R"(
    func.func @main(%x: tensor<4x8x16xf32>, %init: tensor<4x16xf32>) -> tensor<4x16xf32> {
      %s = linalg.generic {indexing_maps = [affine_map<(b, s, h) -> (b, s, h)>, affine_map<(b, s, h) -> (b, h)>],
                           iterator_types = ["parallel", "reduction", "parallel"]}
          ins(%x : tensor<4x8x16xf32>) outs(%init : tensor<4x16xf32>) {
      ^bb0(%a: f32, %sum: f32):
        %e = math.exp %a : f32
        %r = arith.addf %sum, %e : f32
        linalg.yield %r : f32
      } -> tensor<4x16xf32>
      return %s : tensor<4x16xf32>
    })");
  KernelWork work = WorkModel(function).work(KernelRoot::Generic, opsOf<mlir::linalg::GenericOp>(function));
  EXPECT_DOUBLE_EQ(work.flops, 4.0 * 8 * 16);
  EXPECT_DOUBLE_EQ(work.transcendentals, 4.0 * 8 * 16);
}

} // namespace
