//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The formula of GPU kernels against times that are worked out by hand, and the table of its figures.
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Nn.h"
#include "intarsia/Cost/Cost.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include <gtest/gtest.h>

using namespace intarsia;

namespace {

/// A GPU of 100 multiprocessors, 10^6 flops a microsecond each, and 10^6 bytes a microsecond.
constexpr GpuRates rates{100, 100, 1000, 10};

/// Figures that leave only waves of tiles and a memory: half of both peaks, a launch of 2 us, no splits, the larger of
/// two times instead of a blend.
GpuKernelFigures plainFigures() {
  GpuKernelFigures figures;
  figures.launchUs = 2;
  figures.compute = figures.memory = 0.5;
  figures.processor = 1e9;
  figures.quantization = 1;
  figures.blend = 1e3;
  figures.splitUs = 1e9;
  return figures;
}

GpuKernelShape linearOf(double rows, double columns, double depth) {
  GpuKernelShape shape;
  shape.rows = rows;
  shape.columns = columns;
  shape.depth = depth;
  return shape;
}

TEST(GpuKernels, TilesFillWaves) {
  // 100 tiles of 128 × 128 are one wave: 2 · 128 · 128 · 1000 / (10^6 · 0.5) us. Reading and writing takes 58 us.
  EXPECT_NEAR(gpuKernelUs(linearOf(12800, 128, 1000), rates, plainFigures()), 2 + 65.536, 1e-3);
  // One row more: 1602 tiles of 16 × 64 are 17 waves of 4.096 us, and no other tile is faster.
  EXPECT_NEAR(gpuKernelUs(linearOf(12801, 128, 1000), rates, plainFigures()), 2 + 17 * 4.096, 1e-3);
  GpuKernelFigures figures = plainFigures();
  figures.quantization = 0; // the last wave takes its share, so that padding of rows alone remains: 16 are the least
  EXPECT_NEAR(gpuKernelUs(linearOf(12801, 128, 1000), rates, figures), 2 + 65.536 * 12816 / 12800, 1e-3);
}

TEST(GpuKernels, FewRowsReadTheWeights) {
  GpuKernelShape shape = linearOf(1, 1 << 14, 1 << 12);
  double bytes = 2 * (double(1 << 26) + (1 << 12) + (1 << 14));
  EXPECT_NEAR(gpuKernelUs(shape, rates, plainFigures()), 2 + bytes / 0.5e6, 1e-3);
  shape.weightBytes = 0.5;
  EXPECT_NEAR(gpuKernelUs(shape, rates, plainFigures()), 2 + (bytes - 1.5 * (1 << 26)) / 0.5e6, 1e-3);
}

TEST(GpuKernels, ACacheKeepsWhatIsWarm) {
  GpuKernelShape shape = linearOf(1, 1 << 14, 64); // 2 MB of weights in a cache of 10 MB
  GpuKernelFigures figures = plainFigures();
  figures.resident = 1;
  figures.cache = 4;
  double warm = 2 * (64 + (1 << 14)), bytes = 2 * double(1 << 20) + warm;
  EXPECT_NEAR(gpuKernelUs(shape, rates, figures), 2 + (bytes - warm * 0.75) / 0.5e6, 1e-3);
  shape.warmWeights = 1;
  EXPECT_NEAR(gpuKernelUs(shape, rates, figures), 2 + bytes / 4 / 0.5e6, 1e-3);
}

TEST(GpuKernels, SplitsHelpFewTiles) {
  GpuKernelShape shape = linearOf(16, 64, 1 << 16); // one tile of 16 × 64
  GpuKernelFigures figures = plainFigures();
  double whole = gpuKernelUs(shape, rates, figures);
  EXPECT_NEAR(whole, 2 + 2 * 16 * 64 * 65536.0 / 0.5e6, 1e-2);
  figures.splitUs = 3;
  // In 16 parts it computes for 17 us and reads for 21 us; sums of 4 bytes of each part are written and read.
  double bytes = 2.0 * (16 * 65536 + 64 * 65536 + 16 * 64);
  EXPECT_NEAR(gpuKernelUs(shape, rates, figures), 2 + bytes / 0.5e6 + 3 + 8.0 * 16 * 64 * 16 / 1e6, 1e-3);
}

TEST(GpuKernels, TilesOfOneSizeAreTimed) {
  GpuKernelShape shape = linearOf(100, 150, 1 << 16); // two tiles of rows, three of columns
  GpuKernelFigures figures = plainFigures();
  EXPECT_NEAR(gpuTiledUs(shape, {64, 64, 1}, rates, figures), 2 + 2 * 64 * 64 * 65536.0 / 0.5e6, 1e-2);
  figures.splitUs = 3;
  // 96 blocks on 100 multiprocessors; in 32 parts they would be two waves.
  double sum = 3 + 8.0 * 100 * 150 * 16 / 1e6;
  EXPECT_NEAR(gpuTiledUs(shape, {64, 64, 16}, rates, figures), 2 + 2 * 64 * 64 * 4096.0 / 0.5e6 + sum, 1e-2);
  EXPECT_GT(gpuTiledUs(shape, {64, 64, 32}, rates, figures), gpuTiledUs(shape, {64, 64, 16}, rates, figures));
}

TEST(GpuKernels, TheBusiestBlockCounts) {
  GpuKernelShape shape = linearOf(128, 128 * 120, 1 << 14);
  GpuKernelFigures figures = plainFigures();
  double depth = 1 << 14, ofDepth = 2 * 128.0 * 128 / 0.5e6; // 120 tiles on 100 multiprocessors
  EXPECT_NEAR(gpuSharedUs(shape, {128, 128, 2, 2 * depth}, rates, figures), 2 + 2 * depth * ofDepth, 1e-2);
  figures.splitUs = 3;
  figures.prologue = 100;
  figures.tileUs = 0.5;
  // 100 blocks compute a tile each, and a fifth of the depth of one of 20 tiles, whose sums are 100 partial ones.
  double sum = 3 + 8.0 * 128 * 128 * 100 / 1e6;
  EXPECT_NEAR(gpuSharedUs(shape, {128, 128, 2, 1.2 * depth, 100}, rates, figures),
              2 + (1.2 * depth + 2 * 100) * ofDepth + 2 * 0.5 + sum, 1e-2);
}

TEST(GpuKernels, DecodingReadsTheCache) {
  GpuKernelShape shape;
  shape.kind = GpuKernelKind::Decode;
  shape.batch = 64;
  shape.columns = 4096;
  shape.depth = 128;
  shape.heads = 32;
  shape.keyHeads = 8;
  double cache = 2.0 * 64 * 4096 * 8 * 128 * 2, queries = 2.0 * 64 * 32 * 128 * 2;
  EXPECT_NEAR(gpuKernelUs(shape, rates, plainFigures()), 2 + (cache + queries) / 0.5e6, 1e-2);
  shape.window = 1024;
  EXPECT_NEAR(gpuKernelUs(shape, rates, plainFigures()), 2 + (cache / 4 + queries) / 0.5e6, 1e-2);
}

TEST(GpuKernels, CausalPromptsSeeHalfOfTheKeys) {
  GpuKernelShape shape;
  shape.kind = GpuKernelKind::Prefill;
  shape.batch = 100;
  shape.rows = shape.columns = 1 << 14;
  shape.depth = 128;
  shape.causal = false;
  double all = gpuKernelUs(shape, rates, plainFigures()) - 2, flops = 4.0 * (1 << 14) * (1 << 14) * 128;
  EXPECT_NEAR(all, flops / 0.5e6, 1e-6 * all);
  shape.causal = true;
  // Tiles of 16 queries see one tile of keys more than half.
  EXPECT_NEAR((gpuKernelUs(shape, rates, plainFigures()) - 2) / all, 0.5 * (1 + 16.0 / (1 << 14)), 1e-6);
}

TEST(GpuKernels, ExpertsReadThoseThatAreSentTo) {
  GpuKernelShape shape;
  shape.kind = GpuKernelKind::Experts;
  shape.columns = 1024;
  shape.depth = 2048;
  shape.experts = 64;
  shape.perToken = 4;
  double expert = 3.0 * 1024 * 2048 * 2 / 0.5e6;
  double few = gpuKernelUs(shape, rates, plainFigures()) - 2;
  EXPECT_NEAR(few / (4 * expert), 1, 0.02) << "one token passes four experts";
  shape.rows = 64;
  EXPECT_NEAR((gpuKernelUs(shape, rates, plainFigures()) - 2) / (64 * expert), 1, 0.05) << "each has four rows";
}

TEST(GpuKernels, AllReducesTakeTheFasterWay) {
  AllReduceFigures figures;
  figures.startUs = 2;
  figures.stageUs = 0.5;
  figures.secondUs = 5;
  figures.oneShot = 0.5;
  figures.twoShots = 0.8;
  // 8 devices: three stages; 450 GB/s; 7 times 100 kB in one shot, or twice 7/8 of 100 MB.
  EXPECT_NEAR(allReduceUs(8, 1e5, 450, figures), 3.5 + 7 * 1e5 / (0.5 * 450e3), 1e-9);
  EXPECT_NEAR(allReduceUs(8, 1e8, 450, figures), 3.5 + 5 + 2 * 7.0 / 8 * 1e8 / (0.8 * 450e3), 1e-6);
  EXPECT_EQ(allReduceUs(1, 1e8, 450, figures), 0);
}

TEST(GpuKernels, LatentCachesAreReadOnce) {
  GpuKernelShape shape;
  shape.kind = GpuKernelKind::Decode;
  shape.batch = 4096;
  shape.columns = 4096;
  shape.depth = 544;
  double plain = gpuKernelUs(shape, rates, plainFigures()) - 2;
  shape.cachedDepth = 576;
  // Keys and values are 2 · 544 elements, the compressed vector 576; queries and results are little beside them.
  EXPECT_NEAR((gpuKernelUs(shape, rates, plainFigures()) - 2) / plain, 576.0 / (2 * 544), 1e-3);
}

TEST(GpuKernels, TheNearestFiguresAreTaken) {
  const GpuKernelTable &table = GpuKernelTable::get();
  auto nearest = [&](const char *name) {
    llvm::Expected<const CatalogueDevice *> device = findDevice(name);
    EXPECT_TRUE(bool(device));
    return table.find(GpuKernelKind::Linear, "bf16", **device);
  };
  EXPECT_EQ(nearest("nvidia/h100-sxm").first->of, "nvidia/h100-sxm");
  EXPECT_EQ(nearest("nvidia/h100-sxm").second, GpuFitSource::Device);
  EXPECT_EQ(nearest("nvidia/a10").first->of, "ampere");
  EXPECT_EQ(nearest("nvidia/rtx-4090").second, GpuFitSource::Family);
  EXPECT_EQ(nearest("amd/mi300x").first->of, "any");
  auto device = findDevice("nvidia/a100-sxm");
  ASSERT_TRUE(bool(device));
  EXPECT_EQ(table.find(GpuKernelKind::Linear, "int4", **device).first->type, "bf16") << "not measured";
}

TEST(GpuKernels, RefusesWhatIsWrong) {
  auto errorOf = [](const std::string &text) {
    llvm::Expected<GpuKernelTable> table = GpuKernelTable::parse(text, "table.yaml");
    return table ? std::string() : llvm::toString(table.takeError());
  };
  std::string reduce = "all_reduce:\n  - {of: any, rows: 1, error: 0.1";
  for (llvm::StringRef name : AllReduceFigures::names())
    reduce += (", " + name + ": 1").str();
  std::string reduces = reduce + "}\n";
  EXPECT_NE(errorOf("families: {}\nfigures: []\nall_reduce: []\n").find("all_reduce lacks the figures of any device"),
            std::string::npos);
  EXPECT_NE(errorOf("families: {}\nfigures: []\n" + reduce + ", stages: 2}\n").find("unknown key 'stages'"),
            std::string::npos);
  EXPECT_NE(errorOf("families: {}\nfigures: []\n" + reduces).find("figures of linear in bf16 lack those of any device"),
            std::string::npos);
  EXPECT_NE(errorOf("families: {}\n").find("missing required key 'figures'"), std::string::npos);
  std::string line = "families: {}\nfigures:\n  - {kind: linear, type: bf16, of: any, rows: 1, error: 0.1";
  for (llvm::StringRef name : GpuKernelFigures::names())
    line += (", " + name + ": 1").str();
  EXPECT_NE(errorOf(line + "}\n" + reduces).find("figures of prefill"), std::string::npos);
  EXPECT_NE(errorOf(line + ", volts: 1}\n" + reduces).find("table.yaml:3: unknown key 'volts'"), std::string::npos);
  size_t at = line.find("compute: 1");
  EXPECT_NE(errorOf(line.substr(0, at) + "compute: 0" + line.substr(at + 10) + "}\n" + reduces)
                .find("compute must be above zero"),
            std::string::npos);
  at = line.find("kind: linear");
  EXPECT_NE(errorOf(line.substr(0, at) + "kind: conv" + line.substr(at + 12) + "}\n" + reduces)
                .find("'conv' is no kind of kernel"),
            std::string::npos);
}

/// Returns the matrix product of the only op of its kind in a function.
std::optional<MatrixWork> matrixOf(const char *text, llvm::StringRef opName, KernelRoot root) {
  mlir::MLIRContext context;
  context.loadDialect<nn::NnDialect, mlir::func::FuncDialect>();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  EXPECT_TRUE(module);
  auto function = *module->getOps<mlir::func::FuncOp>().begin();
  llvm::SmallVector<mlir::Operation *> ops;
  for (mlir::Operation &op : function.getBody().front())
    if (op.getName().getStringRef() == opName)
      ops.push_back(&op);
  std::optional<MatrixWork> found = WorkModel(function).work(root, ops).matrix;
  if (found)
    found->elementType = found->elementType.str() == "bf16"  ? "bf16" // outlives the context
                         : found->elementType.str() == "fp8" ? "fp8"
                         : found->elementType.str() == "fp4" ? "fp4"
                                                             : "f32";
  return found;
}

TEST(GpuKernels, QuantizedInputsHaveTheirType) {
  auto linear = matrixOf(R"mlir(
nn.archive @weights {file = "model.safetensors"}
func.func @main(%x: tensor<64x384xf32>) -> tensor<64x1536xf32> {
  %w = nn.weight @weights["w"] : tensor<1536x384xf32>
  %q, %s = nn.quantize %x {format = #nn.block_format<e4m3, f32, 0, axis = 1>} : (tensor<64x384xf32>) -> (tensor<64x384xi8>, tensor<64x1xf32>)
  %d = nn.dequantize %q, %s {format = #nn.block_format<e4m3, f32, 0, axis = 1>} : (tensor<64x384xi8>, tensor<64x1xf32>) -> tensor<64x384xf32>
  %h = nn.linear %d, %w : (tensor<64x384xf32>, tensor<1536x384xf32>) -> tensor<64x1536xf32>
  return %h : tensor<64x1536xf32>
})mlir",
                         "nn.linear", KernelRoot::Linear);
  ASSERT_TRUE(linear);
  EXPECT_EQ(linear->elementType, "fp8");
}

TEST(GpuKernels, InputsOfFourBitsHaveTheirType) {
  auto linear = matrixOf(R"mlir(
nn.archive @weights {file = "model.safetensors"}
func.func @main(%x: tensor<64x384xf32>) -> tensor<64x1536xf32> {
  %w = nn.weight @weights["w"] : tensor<1536x384xf32>
  %q, %s, %t = nn.quantize %x {format = #nn.block_format<e2m1, e4m3, 16, axis = 1>} : (tensor<64x384xf32>) -> (tensor<64x384xi4>, tensor<64x24xi8>, tensor<64x1xf32>)
  %d = nn.dequantize %q, %s tensor_scale %t {format = #nn.block_format<e2m1, e4m3, 16, axis = 1>} : (tensor<64x384xi4>, tensor<64x24xi8>, tensor<64x1xf32>) -> tensor<64x384xf32>
  %h = nn.linear %d, %w : (tensor<64x384xf32>, tensor<1536x384xf32>) -> tensor<64x1536xf32>
  return %h : tensor<64x1536xf32>
})mlir",
                         "nn.linear", KernelRoot::Linear);
  ASSERT_TRUE(linear);
  EXPECT_EQ(linear->elementType, "fp4");
}

TEST(GpuKernels, OpsHaveShapes) {
  auto linear = matrixOf(R"mlir(
nn.archive @weights {file = "model.safetensors"}
func.func @main(%x: tensor<?x?x384xf16> {nn.sizes = ["batch", "sequence", ""]}) -> tensor<?x?x1536xf16>
    attributes {nn.expected_sizes = {batch = 4 : i64}} {
  %w = nn.weight @weights["w"] : tensor<1536x384xf16>
  %h = nn.linear %x, %w : (tensor<?x?x384xf16>, tensor<1536x384xf16>) -> tensor<?x?x1536xf16>
  return %h : tensor<?x?x1536xf16>
})mlir",
                         "nn.linear", KernelRoot::Linear);
  ASSERT_TRUE(linear);
  EXPECT_EQ(linear->elementType, "bf16");
  EXPECT_EQ(linear->shape.rows, 4 * 128);
  EXPECT_EQ(linear->shape.columns, 1536);
  EXPECT_EQ(linear->shape.depth, 384);
  EXPECT_EQ(linear->shape.weightBytes, 2);
  EXPECT_EQ(linear->bytes, 2 * (512 * 384 + 1536 * 384 + 512 * 1536));
  auto attention = matrixOf(R"mlir(
func.func @main(%q: tensor<?x?x12x64xf32> {nn.sizes = ["batch", "sequence", "", ""]},
    %k: tensor<?x?x4x64xf32> {nn.sizes = ["batch", "sequence", "", ""]}) -> tensor<?x?x12x64xf32> {
  %a = nn.attention %q, %k, %k {scale = 0.125 : f32, causal} : (tensor<?x?x12x64xf32>, tensor<?x?x4x64xf32>,
      tensor<?x?x4x64xf32>) -> tensor<?x?x12x64xf32>
  return %a : tensor<?x?x12x64xf32>
})mlir",
                            "nn.attention", KernelRoot::Attention);
  ASSERT_TRUE(attention);
  EXPECT_EQ(attention->shape.kind, GpuKernelKind::Prefill);
  EXPECT_EQ(attention->shape.rows, 128);
  EXPECT_EQ(attention->shape.heads, 12);
  EXPECT_EQ(attention->shape.keyHeads, 4);
  EXPECT_TRUE(attention->shape.causal);
}

TEST(GpuKernels, ExchangesBetweenDevices) {
  GpuCosts h100 = llvm::cantFail(GpuCosts::create(*llvm::cantFail(findDevice("nvidia/h100-sxm"))));
  const AllReduceFigures &figures = GpuKernelTable::get().allReduce(*llvm::cantFail(findDevice("nvidia/h100-sxm")));
  EXPECT_EQ(h100.allReduceUs(4, 1 << 20), std::optional(allReduceUs(4, 1 << 20, 450, figures)));
  // Large ones are bound by the link: a gather is one of the two passes of a sum.
  double large = double(1 << 30);
  EXPECT_NEAR(*h100.gatherUs(8, large) / *h100.allReduceUs(8, large), 0.5, 0.01);
  EXPECT_NEAR(*h100.messageUs(large), large / (figures.twoShots * 450e3), 0.01 * *h100.messageUs(large));
  EXPECT_EQ(h100.gatherUs(1, large), std::optional(0.0));
  GpuCosts card = llvm::cantFail(GpuCosts::create(*llvm::cantFail(findDevice("nvidia/rtx-pro-6000-server"))));
  EXPECT_FALSE(card.allReduceUs(2, large) || card.gatherUs(2, large) || card.messageUs(large)) << "it has no link";
}

} // namespace
