//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Runs a program with values, or without them to check it.
//
// Ops are done one after another, each for all cores of its class. This order is one that the machine may take, and if
// it comes to its end then so does every other: take the first op, in this order, that some core never ends. All ops
// before it have ended, on all cores; what it waits for is a message that an earlier op sends or, for a message that it
// sends, an earlier op that receives it (both are checked), so it ends. Paths wait for no other path: colors share
// links, but no router has two inputs of one color.
//
// As each core does its own ops in order and messages of a route stay in order, values do not depend on timing either,
// provided that no core uses a buffer between the start and the end of a transfer; such races are reported.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_RUNTIME_WAFER_FUNCTIONAL_H
#define INTARSIA_LIB_RUNTIME_WAFER_FUNCTIONAL_H

#include "lib/Runtime/Wafer/Program.h"

#include <functional>

namespace intarsia::wafer {

/// A row-major matrix.
struct Matrix {
  int64_t rows = 0, columns = 0;
  std::vector<float> values;
};

/// Checks a program without values: colors, memory, and that every receive has an earlier send and the other way round.
std::string check(const Program &program);

/// Is called with each op that is executed, the buffer of each slot, and the iteration of the loop around it.
using OpObserver = std::function<void(const Op &op, const std::vector<int> &bound, int64_t iteration)>;

/// Runs a program that `check` accepts, any number of times.
class Simulator {
public:
  /// The program must outlive the simulator.
  explicit Simulator(const Program &program);

  /// Sets an input, which has the rows and columns that the program says. It stays for further runs unless the program
  /// writes its buffers.
  void load(int64_t argument, const Matrix &matrix);
  void run() { runOps(program.ops); }
  /// Sets how many tokens the caches of the program have, before an append.
  void setTokens(int64_t count) { tokens = count; }
  void setObserver(OpObserver called) { observer = std::move(called); }
  /// Returns an output of the last run; a matrix without rows if the program has no such output.
  Matrix result(int64_t argument);

private:
  /// Cores from `begin` to before `end`.
  struct Run {
    int64_t begin = 0, end = 0;
  };
  /// Messages of a route that have been sent and not received, by the core that receives them: where they are from.
  struct Inbox {
    std::vector<int32_t> sender;
    std::vector<int16_t> buffer;
  };

  /// Where a buffer that travels lies: the core in place x of its row, and row y, has what is in place x + shift and
  /// row rows[y] of the memory of buffer `memory`.
  struct View {
    int memory = 0;
    int64_t shift = 0;
    std::vector<int32_t> rows;
  };

  const Program &program;
  const int64_t cores;
  const int64_t stride;                     // between two elements of a core
  std::vector<int> bound;                   // slot -> buffer
  std::vector<int64_t> firstPlane;          // by buffer
  std::vector<float> values;                // (firstPlane + element) * stride + core
  std::vector<std::vector<float>> payloads; // by route: element * stride + core, of messages added up on the way
  std::vector<Inbox> inboxes;               // by route
  std::vector<char> travels;                // by slot: of a loop whose tiles travel around rings
  std::vector<View> views;                  // by buffer, of those that travel
  std::vector<View> sent;                   // by route, of messages that are views
  std::vector<int32_t> columnOrder;         // in a loop with a ring along x: the column in each place of a row
  std::vector<Run> allRuns[2];              // of all cores; and within rows
  ResolvedRoutes routes;
  int64_t iteration = 0;
  int64_t tokens = 0;
  OpObserver observer;

  std::vector<Run> runsOf(const Op &op, bool descends) const;
  int bufferOf(const Op &op, size_t operand) const { return bound[size_t(op.slots[operand])]; }
  const CoreBuffer &description(int buffer) const { return program.buffers[size_t(buffer)]; }
  /// Returns an element of a buffer, of all cores.
  float *plane(int buffer, int64_t element) { return values.data() + (firstPlane[size_t(buffer)] + element) * stride; }
  void round(int buffer, Run run);
  void post(int route, Run run, int16_t buffer);
  void receive(const Op &op, Run run);
  void forward(const Op &op, int64_t core);
  void compute(const Op &op, Run run);
  void multiply(const Op &op, Run run);
  void findTravelling(const Op &op);
  std::vector<int32_t> sendersOf(int route);
  bool travel(const Op &op);
  bool orderColumns(const Op &op);
  std::vector<int> buffersOf(const Op &op) const;
  void settle(const Op &op);
  bool isTravelling(const Op &op, size_t operand) const {
    return !travels.empty() && travels[size_t(op.slots[operand])] != 0;
  }
  const float *operandOf(const Op &op, size_t operand, Run &run);
  void sumRows(const Op &op, Run run);
  void rotate(const Op &op, Run run);
  void decode(const Op &op, Run run);
  void mask(const Op &op, int64_t core);
  void moveEntry(const Op &op, int64_t core);
  void collect(const Op &op, int64_t core);
  void repeat(const Op &op);
  void runOps(const std::vector<Op> &ops);
};

/// Checks a program and runs it: `inputs` by argument number, outputs likewise. Returns what is wrong with the program
/// (which core, in which op and iteration), or "". `tokens` are those of caches.
std::string run(const Program &program, const std::vector<Matrix> &inputs, std::vector<Matrix> &outputs,
                int64_t tokens = 0, OpObserver observer = nullptr);

} // namespace intarsia::wafer

#endif
