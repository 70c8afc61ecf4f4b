//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Objects of the simulated wafer: what is written is read, and what is damaged is refused with its name.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Wafer/WaferObject.h"
#include "lib/Runtime/Wafer/Functional.h"

#include <gtest/gtest.h>
#include <limits>

using namespace intarsia;
using namespace intarsia::wafer;

namespace {

/// Each of four cores doubles its element and hands it to the next one.
WaferKernel sample() {
  WaferKernel kernel;
  kernel.index = 3;
  kernel.operands = 2;
  kernel.rows = parseSizeExpression("s0 s1 *");
  RowsProgram &one = kernel.programs.emplace_back();
  one.cycles = 100;
  Program &program = one.program;
  program.name = "shift";
  program.target.name = "small";
  program.target.sramBytes = 1024;
  program.target.colors = 4;
  program.target.clockGHz = 1.1;
  program.columns = 4, program.rows = 1, program.slots = 2;
  program.buffers = {{"a", 1, 1, false}, {"b", 1, 1, true}};
  Range senders{/*all=*/false, 0, 3}, receivers{/*all=*/false, 1, 4};
  program.routes = {{"east", MeshAxis::X, {{senders, 1, 0, /*alternate=*/true}}}};
  TilePlacement tiles{MeshAxis::None, MeshAxis::X};
  program.inputs = {{0, 0, tiles, 1, 4}, {1, 1, tiles, 1, 4}};
  program.outputs = {{0, 1, tiles, 1, 4}};
  Op doubled{.kind = OpKind::Compute, .slots = {0, 0}, .compute = ComputeKind::Add};
  Op send{.kind = OpKind::Send, .cores = {senders, {}}, .slots = {0}, .route = 0};
  Op receive{.kind = OpKind::Receive, .cores = {receivers, {}}, .slots = {1}, .route = 0};
  program.ops = {doubled, send, receive, Op{.kind = OpKind::Await}};
  one.inputs = {{ViewKind::Strided, 0, ITX_F32, true, 0, 4, 1}, {ViewKind::Strided, 0, ITX_BF16, false, 2, 4, 1}};
  one.outputs = {{ViewKind::Strided, 1, ITX_F16, true, 0, 4, 1}};
  return kernel;
}

TEST(WaferObject, IsReadAsItWasWritten) {
  std::vector<WaferKernel> kernels;
  std::string text = writeObject({sample()});
  ASSERT_TRUE(readObject(text, "x", kernels).ok());
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].index, 3u);
  EXPECT_EQ(kernels[0].rows, sample().rows);
  const RowsProgram &one = kernels[0].programs.at(0);
  EXPECT_EQ(one.inputs[1].type, ITX_BF16);
  EXPECT_EQ(one.inputs[1].offset, 2);
  EXPECT_TRUE(one.inputs[0].hasRows);
  EXPECT_EQ(writeObject(kernels), text);
  std::vector<Matrix> outputs;
  ASSERT_EQ(run(one.program, {{1, 4, {1, 2, 3, 4}}, {1, 4, {9, 9, 9, 9}}}, outputs), "");
  EXPECT_EQ(outputs[0].values, (std::vector<float>{9, 2, 4, 6}));
}

TEST(WaferObject, ThatIsDamagedIsRefused) {
  std::string good = writeObject({sample()});
  for (auto [before, after, message] : std::vector<std::array<const char *, 3>>{
           {"{\"kernels\"", "{\"kernel\"", "'kernels' is missing"},
           {"s0 s1 *", "s0 *", "'rows' is no expression in sizes"},
           {"\"op\":\"send\"", "\"op\":\"shout\"", "'op' is 'shout', which is not known"},
           {"\"slots\":[1]", "\"slots\":[2]", "'slots' has 2, must be less than 2"},
           {"\"slots\":[1]", "\"slots\":[1,0]", "an op has 2 buffers, must have 1"},
           {"\"slots\":[0,0]", "\"slots\":[0]", "an op has 1 buffers, must have 2"},
           {"\"route\":0", "\"route\":1", "'route' is 1, must be from 0 to 0"},
           {"\"by\":1", "\"by\":0", "a path that leads nowhere"},
           {"\"type\":\"bf16\"", "\"type\":\"i64\"", "another type than f32, f16 and bf16"},
           {"\"operand\":1", "\"operand\":2", "'operand' is 2, must be from 0 to 1"},
           {"\"argument\":1", "\"argument\":2", "an input of the program is in no operand of the kernel"},
           {"\"clock_ghz\":1.1", "\"clock_ghz\":0", "'clock_ghz' is no clock"},
           {"\"kind\":\"strided\"", "\"kind\":\"gathered\"", "'indices' is missing"},
           {"\"kind\":\"strided\"", "\"kind\":\"heads\"", "'heads' is missing"},
           {"\"kind\":\"strided\"", "\"heads\":[2,1,8,1,0,1,6],\"kind\":\"heads\"",
            "'heads' do not lie on the columns of a grid"},
           {"\"kind\":\"strided\"", "\"heads\":[2,1,8,1,0,1,8],\"kind\":\"cache\"",
            "an input of the program is of a cache, which the kernel does not have"},
           {"\"kind\":\"strided\"", "\"kind\":\"codes\"", "'panels' is missing"},
           {"\"kind\":\"strided\"", "\"panels\":[4,8,4,32,32,128,600,1],\"kind\":\"codes\"",
            "'panels' do not hold their values"},
           {"\"kind\":\"strided\"", "\"panels\":[5,8,4,32,32,128,800,1],\"kind\":\"scales\"",
            "'panels' do not hold their values"},
           {"\"kind\":\"strided\"", "\"panels\":[4,8,4,32,32,128,640,1],\"kind\":\"codes\"",
            "an input of the program is of quantized values that its operand does not have"},
           {"\"half\":false", "\"bits\":5,\"half\":false", "quantized values have 5 bits"},
           {"\"columns\":4", "\"columns\":0", "'columns' is 0"},
           {"\"op\":\"await\"", "\"op\":\"receive\",\"route\":0", "an op has 0 buffers, must have 1"},
           {"\"sram_bytes\":1024", "\"sram_bytes\":7", "needs 8 bytes of each core, small has 7"},
           {"\"x\":[0,3,1,1,0,0,0]", "\"x\":[0,2,1,1,0,0,0]", "deadlock: no earlier op sends it a message on @east"},
       }) {
    std::string bad = good;
    size_t at = bad.find(before);
    ASSERT_NE(at, std::string::npos) << before;
    bad.replace(at, std::string(before).size(), after);
    std::vector<WaferKernel> kernels;
    Status status = readObject(bad, "m.itx", kernels);
    EXPECT_EQ(status.code(), ITX_CORRUPT) << before;
    EXPECT_NE(status.message().find(message), std::string::npos) << status.message();
    EXPECT_EQ(status.message().rfind("m.itx", 0), 0u) << status.message();
  }
  std::vector<WaferKernel> kernels;
  for (size_t length = 0; length < good.size(); length += 7)
    EXPECT_FALSE(readObject(std::string_view(good).substr(0, length), "m.itx", kernels).ok());
}

TEST(WaferObject, ViewsSayHowManyElementsTheyNeed) {
  MatrixView view{ViewKind::Strided, 0, ITX_F32, true, 5, 10, 1};
  EXPECT_EQ(view.elements(0, 3, 4), 0);
  EXPECT_EQ(view.elements(7, 3, 4), 5 + 6 * 10 + 3 + 1);
  view.hasRows = false;
  EXPECT_EQ(view.elements(7, 3, 4), 5 + 2 * 10 + 3 + 1);
  view.rowStride = int64_t(1) << 48;
  EXPECT_EQ(view.elements(7, int64_t(1) << 20, 4), std::nullopt);
}

TEST(WaferObject, PanelsHaveQuantizedValuesAndScales) {
  // As dialects/Rt/BlockPanels.h says: of each 32 input features, scales of 32 output features, then lines of 16 of
  // them.
  constexpr int64_t outputs = 40, depth = 70;
  for (int64_t bits : {4, 8}) {
    QuantizedPanels panels;
    panels.bits = bits, panels.integerOffset = bits == 4 ? 8 : 128, panels.depth = depth;
    panels.unitScaleBytes = 64, panels.unitBytes = 64 + 32 * 32 * bits / 8;
    std::vector<uint8_t> data(size_t(2 * 3 * panels.unitBytes));
    auto valueOf = [&](int64_t n, int64_t k) { return (n * 7 + k * 5 + n * k) % (int64_t(1) << bits); };
    for (int64_t n = 0; n < outputs; ++n)
      for (int64_t k = 0; k < depth; ++k) {
        int64_t unit = (n / 32 * 3 + k / 32) * panels.unitBytes, word = k % 32 / 4;
        int64_t lines = unit + 64 + n % 32 / 16 * 64 * bits, inLine = n % 16 * 4 + k % 4;
        if (bits == 8)
          data[size_t(lines + word * 64 + inLine)] = uint8_t(valueOf(n, k));
        else
          data[size_t(lines + word % 4 * 64 + inLine)] |= uint8_t(valueOf(n, k) << (word < 4 ? 0 : 4));
        EXPECT_EQ(panels.scaleAt(n, k, 2), unit + n % 32 * 2);
      }
    for (int64_t n = 0; n < outputs; ++n)
      for (int64_t k = 0; k < depth; ++k)
        ASSERT_EQ(panels.code(data.data(), n, k), float(valueOf(n, k) - panels.integerOffset)) << n << ", " << k;
    MatrixView view;
    view.kind = ViewKind::Codes, view.panels = panels, view.offset = 30;
    EXPECT_EQ(view.elements(1, depth, 2), 3 * panels.unitBytes);
    EXPECT_EQ(view.elements(1, depth, 3), 6 * panels.unitBytes);
  }
}

TEST(WaferObject, HeadsLieInPairsOfFeatures) {
  // Three heads of six features, each on two columns of cores with two pairs; the second has one pair.
  PackedHeads heads{/*heads=*/3, /*group=*/2,   /*features=*/6, /*parts=*/1,
                    /*part=*/0,  /*columns=*/2, /*tile=*/4};
  std::vector<std::pair<int64_t, int64_t>> places;
  for (int64_t column = 0; column < 7 * 4; ++column)
    if (auto place = heads.at(column))
      places.push_back({place->head, place->feature});
    else
      places.push_back({-1, -1});
  std::vector<std::pair<int64_t, int64_t>> expected;
  for (int64_t head = 0; head < 3; ++head)
    for (int64_t feature : {0, 1, 3, 4, 2, -1, 5, -1})
      expected.push_back({feature < 0 ? -1 : head, feature});
  expected.resize(28, {-1, -1});
  EXPECT_EQ(places, expected);
  heads.parts = 2, heads.part = 1; // the second, and one that does not exist
  EXPECT_EQ(heads.at(0)->head, 1);
  EXPECT_FALSE(heads.at(8));
}

TEST(WaferObject, RowsGoWhereTheyTakeTheLeastTime) {
  WaferKernel kernel;
  kernel.programs.resize(3);
  kernel.programs[0].rows = 64, kernel.programs[0].cycles = 1000;
  kernel.programs[1].rows = 8, kernel.programs[1].cycles = 600;
  kernel.programs[2].rows = 1, kernel.programs[2].cycles = 100;
  auto stepsOf = [&](int64_t rows) {
    std::vector<std::pair<int64_t, int64_t>> steps;
    for (auto [program, times] : kernel.stepsFor(rows))
      steps.push_back({program->rows, times});
    return steps;
  };
  using Steps = std::vector<std::pair<int64_t, int64_t>>;
  EXPECT_EQ(stepsOf(0), Steps());
  EXPECT_EQ(stepsOf(1), (Steps{{1, 1}}));
  EXPECT_EQ(stepsOf(7), (Steps{{8, 1}})); // with padding
  EXPECT_EQ(stepsOf(5), (Steps{{1, 5}}));
  EXPECT_EQ(stepsOf(9), (Steps{{8, 1}, {1, 1}}));
  EXPECT_EQ(stepsOf(100), (Steps{{64, 2}}));
  EXPECT_EQ(stepsOf(132), (Steps{{64, 2}, {1, 4}}));
  EXPECT_EQ(kernel.cyclesFor(132), 2400);
  // Of every number of rows, no other order of executions is faster.
  std::vector<double> best{0};
  for (int64_t rows = 1; rows < 300; ++rows) {
    double least = std::numeric_limits<double>::infinity();
    for (const RowsProgram &program : kernel.programs)
      least = std::min(least, program.cycles + best[size_t(std::max<int64_t>(rows - program.rows, 0))]);
    best.push_back(least);
    EXPECT_EQ(kernel.cyclesFor(rows), least) << rows;
  }
  kernel.relayouts.resize(2);
  kernel.relayouts[0].cycles = kernel.relayouts[1].cycles = 150;
  EXPECT_EQ(stepsOf(8), (Steps{{1, 8}})); // weights would have to move first
  EXPECT_EQ(stepsOf(12), (Steps{{1, 12}}));
  EXPECT_EQ(stepsOf(16), (Steps{{64, 1}}));
  EXPECT_EQ(kernel.cyclesFor(16), 1300);
}

/// A kernel with a program for one row, one for several, and the way of its weight from one to the other.
WaferKernel movedWeight() {
  WaferKernel kernel = sample();
  kernel.programs.front().inputs[1].kind = ViewKind::Strided;
  auto programWith = [](int64_t rows, int64_t side, TilePlacement tiles, int64_t tileRows, int64_t tileColumns) {
    RowsProgram one;
    one.rows = rows;
    Program &program = one.program;
    program.target = sample().programs[0].program.target;
    program.columns = program.rows = side, program.slots = 1;
    program.buffers = {{"w", tileRows, tileColumns, false}};
    program.inputs = {{0, 0, tiles, 6, 4}};
    one.inputs = {{ViewKind::Strided, 0, ITX_F32, false, 0, 4, 1}};
    return one;
  };
  TilePlacement start{MeshAxis::Y, MeshAxis::X}, end{MeshAxis::Y, MeshAxis::X, /*ring=*/true, TileSkew::Rows};
  kernel.programs = {programWith(3, 2, end, 3, 2), programWith(1, 3, start, 2, 2)};
  Relayout &way = kernel.relayouts.emplace_back();
  way.cycles = 70;
  start.extent = 3, end.extent = 2;
  way.program = programWith(1, 3, start, 2, 2).program;
  Program &moves = way.program;
  moves.target.sramBytes = 4096, moves.target.colors = 16;
  auto ring = [](MeshAxis axis, int64_t color) {
    Range two{/*all=*/false, 2, 3}, one{/*all=*/false, 1, 2}, none{/*all=*/false, 0, 1};
    return Route{axis == MeshAxis::X ? "x" : "y", axis, {{two, -2, color}, {none, 1, color + 1}, {one, 1, color + 2}}};
  };
  moves.routes = {ring(MeshAxis::X, 0), ring(MeshAxis::Y, 3)};
  moves.buffers = {{"w", 2, 2}, {"next", 2, 2}, {"columns", 2, 2}, {"nextColumns", 2, 2}, {"kept", 3, 2}};
  moves.slots = 9;
  moves.outputs = {{0, 4, end, 6, 4}};
  for (bool second : {false, true}) {
    Op zero{.kind = OpKind::Compute, .slots = {second ? 4 : 2}, .compute = ComputeKind::Zero};
    Op around{.kind = OpKind::Repeat};
    around.count = 3;
    around.slots = second ? std::vector<int>{2, 3} : std::vector<int>{0, 1};
    around.arguments = second ? std::vector<int>{7, 8} : std::vector<int>{5, 6};
    around.yields = {around.arguments[1], around.arguments[0]};
    Op collect{.kind = OpKind::Compute, .slots = {zero.slots[0], around.arguments[0]}, .compute = ComputeKind::Collect};
    collect.relayout = RelayoutStep{MeshAxis::Y, 3, 2, 6, 4, second};
    around.body = {Op{.kind = OpKind::Send, .slots = {around.arguments[0]}, .route = second},
                   Op{.kind = OpKind::Receive, .slots = {around.arguments[1]}, .route = second}, collect,
                   Op{.kind = OpKind::Await}};
    moves.ops.push_back(zero);
    moves.ops.push_back(around);
  }
  return kernel;
}

TEST(WaferObject, WeightsMoveToWhereProgramsForSeveralRowsHaveThem) {
  std::string good = writeObject({movedWeight()});
  std::vector<WaferKernel> kernels;
  Status status = readObject(good, "m.itx", kernels);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(writeObject(kernels), good);
  EXPECT_EQ(kernels[0].relayoutCycles(), 70);
  EXPECT_EQ(kernels[0].relayoutOf(kernels[0].programs[1], 0), nullptr);
  const Relayout *way = kernels[0].relayoutOf(kernels[0].programs[0], 0);
  ASSERT_NE(way, nullptr);
  Matrix matrix{6, 4, {}};
  for (int i = 0; i < 24; ++i)
    matrix.values.push_back(float(i + 1));
  Simulator moves(way->program);
  moves.load(0, matrix);
  moves.run();
  EXPECT_EQ(moves.result(0).values, matrix.values);

  for (auto [before, after, message] : std::vector<std::array<const char *, 3>>{
           {"\"from\":3,\"height\":6", "\"from\":2,\"height\":6", "computes with buffers whose sizes disagree"},
           {"\"height\":6,\"second\":false", "\"height\":6,\"second\":3", "'second' is neither true nor false"},
           {"\"relayout\":{\"along\":\"y\"", "\"relayout\":{\"along\":\"none\"", "lie along no axis"},
           {"\"relayout\":", "\"relay\":", "'relayout' is missing"},
           {"\"extent\":2", "\"extent\":3", "the way of a weight ends where its program does not have it"},
           {"\"extent\":3,\"ring\":false", "\"extent\":2,\"ring\":false",
            "the way of a weight begins where its program does not have it"},
           {"\"extent\":2", "\"extent\":4", "'extent' is 4, must be from 1 to 3"},
           {"\"relayouts\"", "\"relays\"", "'relayouts' is missing"},
       }) {
    std::string bad = good;
    size_t at = bad.find(before);
    ASSERT_NE(at, std::string::npos) << before << " in " << good;
    bad.replace(at, std::string(before).size(), after);
    status = readObject(bad, "m.itx", kernels);
    EXPECT_EQ(status.code(), ITX_CORRUPT) << before;
    EXPECT_NE(status.message().find(message), std::string::npos) << status.message();
  }
}

} // namespace
