//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Random programs: what the check accepts ends, with the same values, whatever order cores and transfers take.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Wafer/Functional.h"
#include "lib/Runtime/Wafer/MemoryWatch.h"
#include "lib/Runtime/Wafer/Timing.h"

#include <deque>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <random>

using namespace intarsia::wafer;

namespace {

constexpr int64_t elements = 2;

/// A machine of its own for the test: each core does its ops in order, and a message is copied at some time between the
/// start of its transfer and the end of the waiting for it. Which core or transfer goes on is drawn.
class ScrambledMachine {
public:
  ScrambledMachine(const Program &program, const Matrix &input, unsigned seed) : program(program), random(seed) {
    size_t cores = size_t(program.cores());
    memory.assign(cores, std::vector<float>(16, -1)); // nothing that an accepted program reads
    for (int64_t core = 0; core < program.cores(); ++core)
      for (int64_t i = 0; i < elements; ++i)
        word(0, size_t(core), i) = input.values[size_t(core * elements + i)];
    steps.resize(cores);
    next.resize(cores);
    open.resize(cores);
    std::vector<int> bound;
    for (int i = 0; i < program.slots; ++i)
      bound.push_back(i);
    expand(program.ops, bound, 0);
  }

  /// Returns false if no core can go on before all have ended.
  bool run() {
    while (true) {
      std::vector<int64_t> ready;
      std::vector<std::shared_ptr<Transfer>> copies;
      bool ended = true;
      for (size_t core = 0; core < steps.size(); ++core) {
        if (next[core] < steps[core].size()) {
          ended = false;
          if (canGoOn(core))
            ready.push_back(int64_t(core));
        }
      }
      for (auto &transfer : transfers)
        if (transfer->sent && transfer->received && !transfer->done)
          copies.push_back(transfer);
      if (ended && copies.empty())
        return true;
      if (ready.empty() && copies.empty())
        return false;
      size_t choice = random() % (ready.size() + copies.size());
      choice < ready.size() ? step(size_t(ready[choice])) : copy(*copies[choice - ready.size()]);
    }
  }

  /// Returns a word of a buffer: buffers that share bytes have the same words.
  float &word(int buffer, size_t core, int64_t i) {
    int64_t first = program.buffers[size_t(buffer)].offset.value_or(buffer * elements * 4) / 4;
    return memory[core][size_t(first + i)];
  }

private:
  std::vector<std::vector<float>> memory; // by core
  struct Transfer {
    size_t from = 0, to = 0;
    int fromBuffer = 0, toBuffer = 0;
    bool sent = false, received = false, done = false;
  };
  struct Step {
    const Op *op;
    std::vector<int> buffers;
    int64_t iteration;
  };

  const Program &program;
  std::mt19937 random;
  std::vector<std::vector<Step>> steps;
  std::vector<size_t> next;
  std::vector<std::vector<std::shared_ptr<Transfer>>> open; // by core, since its last await
  std::vector<std::shared_ptr<Transfer>> transfers;
  std::map<std::pair<int, size_t>, std::deque<std::shared_ptr<Transfer>>> unsent, unreceived; // by route and receiver

  void expand(const std::vector<Op> &ops, std::vector<int> &bound, int64_t iteration) {
    for (const Op &op : ops) {
      if (op.kind == OpKind::Repeat) {
        for (size_t i = 0; i < op.arguments.size(); ++i)
          bound[size_t(op.arguments[i])] = bound[size_t(op.slots[i])];
        for (int64_t i = 0; i < op.count; ++i) {
          expand(op.body, bound, i);
          std::vector<int> yielded;
          for (int slot : op.yields)
            yielded.push_back(bound[size_t(slot)]);
          for (size_t k = 0; k < yielded.size(); ++k)
            bound[size_t(op.arguments[k])] = yielded[k];
        }
        continue;
      }
      for (int64_t y = 0; y < program.rows; ++y)
        for (int64_t x = 0; x < program.columns; ++x) {
          if (!op.cores.x.contains(x, iteration, program.columns) || !op.cores.y.contains(y, iteration, program.rows))
            continue;
          Step made{&op, {}, iteration};
          for (int slot : op.slots)
            made.buffers.push_back(bound[size_t(slot)]);
          steps[size_t(y * program.columns + x)].push_back(made);
        }
    }
  }

  bool canGoOn(size_t core) {
    const Step &now = steps[core][next[core]];
    if (now.op->kind != OpKind::Await)
      return true;
    for (auto &transfer : open[core])
      if (!transfer->done)
        return false;
    return true;
  }

  void copy(Transfer &transfer) {
    for (int64_t i = 0; i < elements; ++i)
      word(transfer.toBuffer, transfer.to, i) = word(transfer.fromBuffer, transfer.from, i);
    transfer.done = true;
  }

  void step(size_t core) {
    const Step &now = steps[core][next[core]++];
    switch (now.op->kind) {
    case OpKind::Send: {
      const Route &route = program.routes[size_t(now.op->route)];
      int64_t position = route.axis == MeshAxis::X ? int64_t(core) % program.columns : int64_t(core) / program.columns;
      int64_t stride = route.axis == MeshAxis::X ? 1 : program.columns;
      std::string error;
      ResolvedRoute paths = resolve(program, route, 0, error);
      for (const auto &leg : paths.legs[size_t(position)]) {
        size_t to = size_t(int64_t(core) + leg.by * stride);
        auto &waiting = unsent[{now.op->route, to}];
        std::shared_ptr<Transfer> transfer;
        if (waiting.empty()) {
          transfer = transfers.emplace_back(std::make_shared<Transfer>());
          unreceived[{now.op->route, to}].push_back(transfer);
        } else {
          transfer = waiting.front();
          waiting.pop_front();
        }
        transfer->from = core, transfer->to = to, transfer->fromBuffer = now.buffers[0], transfer->sent = true;
        open[core].push_back(transfer);
      }
      break;
    }
    case OpKind::Receive: {
      auto &waiting = unreceived[{now.op->route, core}];
      std::shared_ptr<Transfer> transfer;
      if (waiting.empty()) {
        transfer = transfers.emplace_back(std::make_shared<Transfer>());
        unsent[{now.op->route, core}].push_back(transfer);
      } else {
        transfer = waiting.front();
        waiting.pop_front();
      }
      transfer->to = core, transfer->toBuffer = now.buffers[0], transfer->received = true;
      open[core].push_back(transfer);
      break;
    }
    case OpKind::Await:
      open[core].clear();
      break;
    case OpKind::Compute:
      for (int64_t i = 0; i < elements; ++i) {
        float &to = word(now.buffers[0], core, i);
        to = now.op->compute == ComputeKind::Zero  ? 0
             : now.op->compute == ComputeKind::Add ? to + word(now.buffers[1], core, i)
                                                   : word(now.buffers[1], core, i);
      }
      break;
    default:
      FAIL() << "the generator makes no such op";
    }
  }
};

/// Draws programs that shift messages, and breaks some of them.
class Generator {
public:
  explicit Generator(unsigned seed) : random(seed) {}

  Program make() {
    Program program;
    program.name = "random";
    program.target.name = "test";
    program.target.columns = program.target.rows = 8;
    program.target.sramBytes = 4096;
    program.target.colors = 16;
    program.target.linkBytes = 4, program.target.macs = 2;
    program.target.hop = program.target.ramp = program.target.stage = ticksPerCycle;
    program.columns = draw(2, 4), program.rows = draw(1, 3);
    for (const char *name : {"a", "b", "c"})
      program.buffers.push_back({name, 1, elements, false});
    program.slots = 3;
    int64_t routes = draw(1, 3);
    for (int64_t i = 0; i < routes; ++i)
      program.routes.push_back(route(program, i));
    Binding input{0, 0, {MeshAxis::Y, MeshAxis::X, false, TileSkew::None}, program.rows, program.columns * elements};
    program.inputs = {input};
    shares = draw(0, 1) == 0;
    if (shares) // b and c have the same bytes, or half of them; a has its own
      program.buffers[0].offset = 0, program.buffers[1].offset = 8, program.buffers[2].offset = draw(0, 1) ? 8 : 12;
    for (int slot = shares ? 2 : 1; slot < 3; ++slot)
      program.ops.push_back(compute(ComputeKind::Zero, {slot}));
    bool loops = draw(0, 2) == 0;
    std::vector<Op> body;
    for (int64_t phases = draw(1, 4); phases > 0; --phases)
      phase(program, body);
    for (int64_t faults = draw(0, 2); faults > 0 && !body.empty(); --faults)
      breakSomething(program, body);
    if (loops) {
      Op repeat;
      repeat.kind = OpKind::Repeat;
      repeat.count = draw(1, 4);
      repeat.slots = {0, 1, 2};
      repeat.arguments = {3, 4, 5};
      repeat.yields = draw(0, 1) ? std::vector<int>{4, 3, 5} : std::vector<int>{3, 4, 5};
      program.slots = 6;
      for (Op &op : body)
        for (int &slot : op.slots)
          slot += 3;
      repeat.body = std::move(body);
      program.ops.push_back(std::move(repeat));
    } else {
      program.ops.insert(program.ops.end(), body.begin(), body.end());
    }
    for (int slot : shares ? std::vector<int>{0, int(draw(1, 2))} : std::vector<int>{0, 1, 2}) {
      Binding output = input;
      output.argument = int64_t(program.outputs.size()), output.slot = slot;
      program.outputs.push_back(output);
    }
    return program;
  }

  bool shares = false; ///< whether buffers of the last program share bytes

private:
  std::mt19937 random;

  int64_t draw(int64_t low, int64_t high) { return low + int64_t(random() % unsigned(high - low + 1)); }

  Route route(const Program &program, int64_t index) {
    MeshAxis axis = program.rows > 1 && draw(0, 1) ? MeshAxis::Y : MeshAxis::X;
    int64_t extent = axis == MeshAxis::X ? program.columns : program.rows;
    bool up = draw(0, 1);
    Path path;
    path.start = {false, up ? 0 : 1, up ? extent - 1 : extent};
    path.by = up ? 1 : -1;
    path.color = 2 * index;
    path.alternate = true;
    return {"r" + std::to_string(index), axis, {path}};
  }

  Op compute(ComputeKind kind, std::vector<int> slots) {
    Op op;
    op.kind = OpKind::Compute;
    op.compute = kind;
    op.slots = std::move(slots);
    return op;
  }

  void phase(const Program &program, std::vector<Op> &ops) {
    int index = int(draw(0, int64_t(program.routes.size()) - 1));
    const Route &route = program.routes[size_t(index)];
    int64_t extent = route.axis == MeshAxis::X ? program.columns : program.rows;
    Range from = route.paths[0].start, to = from;
    to.start += route.paths[0].by, to.end += route.paths[0].by;
    if (extent > 2 && draw(0, 3) == 0) // not the whole line
      ++from.start, ++to.start;
    int source = int(draw(0, 2)), target = (source + int(draw(1, 2))) % 3;
    Op send, receive, await;
    send.kind = OpKind::Send, receive.kind = OpKind::Receive, await.kind = OpKind::Await;
    send.route = receive.route = index;
    send.slots = {source}, receive.slots = {target};
    (route.axis == MeshAxis::X ? send.cores.x : send.cores.y) = from;
    (route.axis == MeshAxis::X ? receive.cores.x : receive.cores.y) = to;
    ops.push_back(send);
    if (draw(0, 1))
      ops.push_back(compute(ComputeKind::Add, {3 - source - target, source}));
    ops.push_back(receive);
    ops.push_back(await);
    if (draw(0, 1))
      ops.push_back(compute(draw(0, 1) ? ComputeKind::Add : ComputeKind::Copy, {source, target}));
  }

  void breakSomething(const Program &program, std::vector<Op> &ops) {
    size_t at = size_t(draw(0, int64_t(ops.size()) - 1));
    switch (draw(0, 3)) {
    case 0:
      ops.erase(ops.begin() + int64_t(at));
      break;
    case 1:
      std::swap(ops[at], ops[size_t(draw(0, int64_t(ops.size()) - 1))]);
      break;
    case 2:
      if (!ops[at].slots.empty())
        ops[at].slots[0] = int(draw(0, 2));
      break;
    case 3:
      ops[at].cores.x = {false, 0, draw(1, program.columns)};
      break;
    }
  }
};

TEST(WaferSoundness, AcceptedProgramsEndWithTheSameValuesInEveryOrder) {
  Generator generator(19);
  int accepted = 0, refused = 0, deadlocks = 0, refusedDeadlocks = 0, sharing = 0, reused = 0;
  for (int trial = 0; trial < 6000; ++trial) {
    Program program = generator.make();
    Matrix input{program.rows, program.columns * elements, {}};
    for (int64_t i = 0; i < program.cores() * elements; ++i)
      input.values.push_back(float(i + 1));
    std::string problem = check(program);
    problem.empty() ? ++accepted : ++refused;
    sharing += generator.shares && problem.empty();
    reused += problem.find("was written to its bytes") != std::string::npos;
    std::vector<Matrix> outputs;
    MemoryUse use;
    ASSERT_EQ(runWatched(program, {input}, outputs, 0, use), problem) << "trial " << trial;
    if (problem.empty()) {
      ASSERT_LE(use.end, program.bytesPerCore());
      ASSERT_LE(use.bytes, program.bytesPerCore());
    }
    for (unsigned seed = 0; seed < 4; ++seed) {
      ScrambledMachine machine(program, input, seed);
      if (program.routes.size() && problem.find("no path") != std::string::npos)
        continue; // the machine of this test cannot send it
      bool ends = machine.run();
      if (!ends) {
        ++deadlocks;
        refusedDeadlocks += !problem.empty();
        continue;
      }
      if (!problem.empty())
        continue;
      for (size_t output = 0; output < program.outputs.size(); ++output)
        for (int64_t i = 0; i < program.cores() * elements; ++i)
          ASSERT_EQ(machine.word(program.outputs[output].slot, size_t(i / elements), i % elements),
                    outputs[output].values[size_t(i)])
              << "trial " << trial << ", output " << output;
    }
  }
  EXPECT_EQ(deadlocks, refusedDeadlocks);
  // The test says something only if there are many of each.
  EXPECT_GT(accepted, 300);
  EXPECT_GT(refused, 300);
  EXPECT_GT(deadlocks, 300);
  EXPECT_GT(sharing, 25);
  EXPECT_GT(reused, 50);
}

TEST(WaferTiming, AChainTakesTheSumOfItsParts) {
  Program program;
  program.target.name = "test";
  program.target.columns = program.target.rows = 8;
  program.target.sramBytes = 4096;
  program.target.colors = 4;
  program.target.linkBytes = 4, program.target.macs = 2;
  program.target.hop = ticksPerCycle, program.target.ramp = 2 * ticksPerCycle,
  program.target.stage = 10 * ticksPerCycle;
  program.columns = 5, program.rows = 1;
  program.buffers = {{"a", 1, 8, false}};
  program.slots = 1;
  Path path;
  path.start = {false, 0, 4};
  path.by = 4;
  program.routes = {{"r", MeshAxis::X, {path}}};
  program.routes[0].paths[0].start.end = 1;
  Op send, receive, await;
  send.kind = OpKind::Send, receive.kind = OpKind::Receive, await.kind = OpKind::Await;
  send.route = receive.route = 0;
  send.slots = receive.slots = {0};
  send.cores.x = {false, 0, 1};
  receive.cores.x = {false, 4, 5};
  program.inputs = {{0, 0, {}, 1, 8}};
  program.ops = {send, receive, await};
  ASSERT_EQ(check(program), "");
  // Start of the send, ramp, four hops, ramp, eight words.
  EXPECT_EQ(time(program).cycles, 10 + 2 + 4 + 2 + 8);
  // Two columns of the wafer are left out: two hops more, in both directions.
  program.columnsAt = {0, 1, 3, 5, 6};
  EXPECT_EQ(time(program).cycles, 10 + 2 + 6 + 2 + 8);
  Path &back = program.routes[0].paths[0];
  back.start = {false, 4, 5}, back.by = -4;
  std::swap(program.ops[0].cores, program.ops[1].cores);
  ASSERT_EQ(check(program), "");
  EXPECT_EQ(time(program).cycles, 10 + 2 + 6 + 2 + 8);
}

TEST(WaferMemory, ABufferIsInUseFromItsWriteToItsLastRead) {
  Program program;
  program.target.reservedBytes = 100;
  program.columns = 2, program.rows = 1;
  // The second of 3 halves takes two words; the first two share bytes.
  program.buffers = {{"a", 1, 4, false, 0, 0}, {"b", 1, 3, true, 0, 8}, {"c", 1, 2, false, 0, 16}};
  program.slots = 3;
  program.inputs = {{0, 0, {}, 1, 4}};
  program.outputs = {{0, 2, {}, 1, 2}};
  auto compute = [](std::vector<int> slots, int64_t end) {
    Op op;
    op.kind = OpKind::Compute;
    op.compute = slots.size() > 1 ? ComputeKind::Copy : ComputeKind::Zero;
    op.slots = std::move(slots);
    op.cores.x = {false, 0, end};
    return op;
  };
  auto useOf = [&](const std::vector<Op> &ops) {
    MemoryWatch watch(program);
    for (const Op &op : ops)
      watch.record(op, {0, 1, 2}, 0);
    return watch.result();
  };
  // a, then c from a, then b on core 0 alone: a is no longer needed when b is written.
  MemoryUse use = useOf({compute({2, 0}, 2), compute({1}, 1)});
  EXPECT_EQ(use.overlap, "");
  EXPECT_EQ(use.bytes, 100 + 16 + 8);
  EXPECT_EQ(use.end, 100 + 24);
  use = useOf({compute({1}, 1), compute({2, 0}, 2)});
  EXPECT_EQ(use.overlap, "buffers \"a\" and \"b\" share bytes of core (0, 0) and are in use at the same time");
  // A transfer needs its buffer until the await after it.
  Op send, await;
  send.kind = OpKind::Send;
  send.slots = {0};
  await.kind = OpKind::Await;
  EXPECT_EQ(useOf({send, await, compute({1}, 2)}).overlap, "");
  EXPECT_NE(useOf({send, compute({1}, 2), await}).overlap, "");
}

TEST(WaferTiming, MessagesOnOneLinkWaitForEachOther) {
  Program program;
  program.target.name = "test";
  program.target.columns = program.target.rows = 8;
  program.target.sramBytes = 4096;
  program.target.colors = 4;
  program.target.linkBytes = 4, program.target.macs = 2;
  program.target.hop = ticksPerCycle;
  program.columns = 3, program.rows = 1;
  program.buffers = {{"a", 1, 100, false}, {"b", 1, 100, false}, {"c", 1, 100, false}};
  program.slots = 3;
  Path near, far;
  near.start = {false, 1, 2}, near.by = 1, near.color = 0;
  far.start = {false, 0, 1}, far.by = 2, far.color = 1;
  program.routes = {{"near", MeshAxis::X, {near}}, {"far", MeshAxis::X, {far}}};
  program.inputs = {{0, 0, {}, 1, 100}};
  for (int route : {0, 1}) {
    Op send, receive;
    send.kind = OpKind::Send, receive.kind = OpKind::Receive;
    send.route = receive.route = route;
    send.slots = {0}, receive.slots = {1 + route};
    send.cores.x = {false, 1 - route, 2 - route};
    receive.cores.x = {false, 2, 3};
    program.ops.push_back(send);
    program.ops.push_back(receive);
  }
  program.ops.emplace_back().kind = OpKind::Await;
  ASSERT_EQ(check(program), "");
  // Both cross the link from 1 to 2: the first for 100 cycles, then the second, which has one hop left.
  EXPECT_EQ(time(program).cycles, 100 + 1 + 100);
}

TEST(WaferTiming, ExtrapolatedLoopsTakeWhatAllIterationsTake) {
  // The same loop twice: once with a range that moves, which is never extrapolated, but holds the same cores.
  auto make = [](bool moves) {
    Program program;
    program.target.name = "test";
    program.target.columns = program.target.rows = 8;
    program.target.sramBytes = 4096;
    program.target.colors = 8;
    program.target.linkBytes = 4, program.target.macs = 2;
    program.target.hop = ticksPerCycle, program.target.ramp = 2 * ticksPerCycle,
    program.target.stage = 7 * ticksPerCycle;
    program.columns = 5, program.rows = 2;
    program.buffers = {{"a", 1, 20, false}, {"b", 1, 20, false}};
    program.slots = 4;
    Path down, back;
    down.start = {false, 1, 5}, down.by = -1, down.alternate = true;
    back.start = {false, 0, 1}, back.by = 4, back.color = 2;
    program.routes = {{"ring", MeshAxis::X, {down, back}}};
    program.inputs = {{0, 0, {}, 1, 20}};
    Op repeat, send, receive, await;
    repeat.kind = OpKind::Repeat;
    repeat.count = 50;
    repeat.slots = {0, 1}, repeat.arguments = {2, 3}, repeat.yields = {3, 2};
    send.kind = OpKind::Send, receive.kind = OpKind::Receive, await.kind = OpKind::Await;
    send.route = receive.route = 0;
    send.slots = {2}, receive.slots = {3};
    if (moves)
      await.cores.x = {false, 0, 5, 1, 1, 0, 1};
    repeat.body = {send, receive, await};
    program.ops = {repeat};
    return program;
  };
  Timing extrapolated = time(make(false)), simulated = time(make(true));
  EXPECT_LT(extrapolated.iterations, 50);
  EXPECT_EQ(simulated.iterations, 50);
  EXPECT_EQ(extrapolated.cycles, simulated.cycles);
  EXPECT_EQ(extrapolated.waitCycles, simulated.waitCycles);
  EXPECT_EQ(extrapolated.linkCycles, simulated.linkCycles);
}

TEST(WaferRing, PlacesArePermutedAndNeighboursAreNear) {
  for (int64_t extent = 1; extent <= 999; ++extent)
    for (int64_t place = 0; place < extent; ++place) {
      int64_t position = ringPosition(place, extent);
      ASSERT_EQ(ringPlace(position, extent), place);
      ASSERT_LE(std::abs(position - ringPosition((place + 1) % extent, extent)), 2);
    }
}

} // namespace
