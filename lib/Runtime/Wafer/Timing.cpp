//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Wafer/Timing.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace intarsia::wafer {
namespace {

struct TimedMessage {
  bool there = false;
  int64_t sender = 0;
  Time head = 0;   ///< when the first word is at the receiving core
  Time length = 0; ///< from the first word to the last
};

class Clocks {
public:
  /// Times one column for all that are alike, unless `allCores` are wanted.
  Clocks(const Program &program, bool allCores)
      : program(program), target(program.target), routes(program),
        isTimed(allCores ? std::vector<char>(size_t(program.columns), true) : distinctColumns(program)) {
    size_t cores = size_t(program.cores());
    for (size_t i = 0; i < program.buffers.size(); ++i)
      bound.push_back(int(i));
    bound.resize(size_t(program.slots));
    clock.resize(cores);
    done.resize(cores);
    computed.resize(cores);
    waited.resize(cores);
    inboxes.assign(program.routes.size(), std::vector<TimedMessage>(cores));
    for (std::vector<Time> &direction : busy)
      direction.resize(cores);
    for (std::vector<Time> &direction : carried)
      direction.resize(cores);
    hops[0] = hopsOf(program.columnsAt, program.columns);
    hops[1] = hopsOf(program.rowsAt, program.rows);
  }

  void run(const std::vector<Op> &ops) {
    for (const Op &op : ops)
      op.kind == OpKind::Repeat ? repeat(op) : runOp(op);
  }
  Timing result() const;
  TimingOfCores ofCores() const;

private:
  const Program &program;
  const MeshTarget &target;
  std::vector<int> bound;
  std::vector<Time> clock, done, computed, waited;
  std::vector<std::vector<TimedMessage>> inboxes;
  ResolvedRoutes routes;     // which the check has accepted
  std::vector<char> isTimed; // by column
  // By direction (to larger x, smaller x, larger y, smaller y) and the core whose router the link leaves.
  std::vector<Time> busy[4], carried[4];
  std::vector<Time> hops[2]; // along x and y: from each position to the next one, through what the grid leaves out
  int64_t iteration = 0, simulated = 0, all = 0;

  std::vector<Time> hopsOf(const std::vector<int64_t> &places, int64_t extent) const {
    std::vector<Time> result(size_t(extent), target.hop);
    for (size_t position = 1; position < places.size(); ++position)
      result[position - 1] = target.hop * (places[position] - places[position - 1]);
    return result;
  }
  void runOp(const Op &op);
  void repeat(const Op &op);
  void post(int route, int64_t core, Time ready, Time length);
  void accept(const Op &op, int64_t core, Time start, Time length, bool stores);
  Time cyclesOf(const Op &op) const;
  const CoreBuffer &bufferOf(const Op &op, size_t operand) const {
    return program.buffers[size_t(bound[size_t(op.slots[operand])])];
  }
  /// Time in which a message of a buffer passes a link; adding may be slower.
  Time lengthOf(const CoreBuffer &buffer, bool add) const {
    Time link = Time(std::ceil(double(buffer.bytes()) / target.linkBytes)) * ticksPerCycle;
    return add ? std::max(link, buffer.elements() * target.addElement) : link;
  }
};

Time Clocks::cyclesOf(const Op &op) const {
  const CoreBuffer &c = bufferOf(op, 0);
  auto vector = [&](int64_t elements) {
    return target.loop + Time(std::ceil(double(elements) / target.macs)) * ticksPerCycle;
  };
  switch (op.compute) {
  case ComputeKind::Zero:
  case ComputeKind::Copy:
  case ComputeKind::Add:
  case ComputeKind::Multiply:
  case ComputeKind::Scale:
  case ComputeKind::Shift:
  case ComputeKind::Affine:
  case ComputeKind::Mask:
    return vector(c.elements());
  case ComputeKind::Take:
  case ComputeKind::Put:
    return vector(c.columns);
  case ComputeKind::Sum:
  case ComputeKind::SumSquares:
  case ComputeKind::Largest:
    return vector(bufferOf(op, 1).elements());
  case ComputeKind::Exp:
  case ComputeKind::Silu:
  case ComputeKind::Gelu:
  case ComputeKind::GeluTanh:
  case ComputeKind::Relu:
  case ComputeKind::Tanh:
  case ComputeKind::Rsqrt:
  case ComputeKind::Reciprocal:
    return c.elements() * target.element;
  case ComputeKind::Rotate: // a sine and a cosine for each pair, the angle and four products
    return c.elements() * target.element + 3 * vector(c.elements());
  case ComputeKind::Decode: // a conversion and a product for each element
    return 2 * vector(c.elements());
  case ComputeKind::Gemv: // for each row of W, its columns
    return bufferOf(op, 1).columns * vector(c.columns);
  case ComputeKind::Gemm: // for each element of B, the rows of A
  case ComputeKind::GemmTransposed:
    return target.product + bufferOf(op, 1).columns * c.columns * vector(c.rows);
  }
  return 0;
}

/// Sends a message whose first word leaves the core at `ready`.
void Clocks::post(int route, int64_t core, Time ready, Time length) {
  const Route &description = program.routes[size_t(route)];
  bool alongX = description.axis == MeshAxis::X;
  int64_t position = alongX ? core % program.columns : core / program.columns;
  int64_t stride = alongX ? 1 : program.columns;
  for (const ResolvedRoute::Leg &leg : routes.at(route, iteration).legs[size_t(position)]) {
    int64_t side = leg.by > 0 ? 1 : -1;
    size_t direction = (alongX ? 0 : 2) + (side > 0 ? 0 : 1);
    Time head = ready + target.ramp;
    for (int64_t hop = 1; hop <= std::abs(leg.by); ++hop) {
      size_t link = size_t(core + side * (hop - 1) * stride);
      head = std::max(head, busy[direction][link]);
      busy[direction][link] = head + length;
      carried[direction][link] += length;
      head += hops[alongX ? 0 : 1][size_t(position + side * hop - (side > 0 ? 1 : 0))];
      if (leg.multicast || hop == std::abs(leg.by))
        inboxes[size_t(route)][size_t(core + side * hop * stride)] = {true, core, head + target.ramp, length};
    }
  }
}

/// Receives the message of a route: it and its sender's transfer end at the same time.
void Clocks::accept(const Op &op, int64_t core, Time start, Time length, bool stores) {
  TimedMessage &message = inboxes[size_t(op.route)][size_t(core)];
  Time end = std::max(start, message.head) + std::max(length, message.length);
  if (stores)
    done[size_t(core)] = std::max(done[size_t(core)], end);
  done[size_t(message.sender)] = std::max(done[size_t(message.sender)], end);
  message.there = false;
}

void Clocks::runOp(const Op &op) {
  auto [columns, rows] =
      coresOf(program, op, iteration, op.kind == OpKind::Forward && !routes.at(op.route, iteration).ascends);
  Time length = op.slots.empty() || op.kind == OpKind::Compute ? 0 : lengthOf(bufferOf(op, 0), op.add);
  Time cycles = op.kind == OpKind::Compute ? cyclesOf(op) : 0;
  // A route that moves is set anew by software.
  bool isSet = op.route >= 0 && program.routes[size_t(op.route)].moves();
  for (int64_t y : rows)
    for (int64_t x : columns) {
      if (!isTimed[size_t(x)])
        continue;
      size_t core = size_t(y * program.columns + x);
      Time &now = clock[core];
      switch (op.kind) {
      case OpKind::Send:
        now += isSet ? 2 * target.stage : target.stage;
        post(op.route, int64_t(core), now, length);
        break;
      case OpKind::Receive: {
        now += isSet ? 2 * target.stage : target.stage;
        accept(op, int64_t(core), now, length, true);
        break;
      }
      case OpKind::Forward: {
        Time head = inboxes[size_t(op.route)][core].head;
        if (head > now) {
          waited[core] += head - now;
          now = head;
        }
        now += target.stage;
        length = std::max(length, inboxes[size_t(op.route)][core].length);
        accept(op, int64_t(core), now, length, true);
        post(op.destination, int64_t(core), now, length);
        break;
      }
      case OpKind::Await:
        if (done[core] > now) {
          waited[core] += done[core] - now;
          now = done[core];
        }
        break;
      case OpKind::Compute:
        now += cycles;
        computed[core] += cycles;
        break;
      case OpKind::Repeat:
        break;
      }
    }
}

/// Runs a loop. If an iteration adds the same time to all that the next one depends on, then so do all that are left:
/// times are sums and maxima, which a common offset leaves as they are.
void Clocks::repeat(const Op &op) {
  for (size_t i = 0; i < op.arguments.size(); ++i)
    bound[size_t(op.arguments[i])] = bound[size_t(op.slots[i])];
  bool moves = std::any_of(op.body.begin(), op.body.end(), [&](const Op &inner) {
    return inner.cores.x.moves() || inner.cores.y.moves() ||
           (inner.route >= 0 && program.routes[size_t(inner.route)].moves());
  });
  if (op.launches) { // the iteration with the most cores
    iteration = op.count - 1;
    run(op.body);
    iteration = 0;
    return;
  }
  all += op.count;
  for (iteration = 0; iteration < op.count; ++iteration) {
    std::vector<Time> oldClock, oldDone, oldComputed, oldWaited, oldBusy[4], oldCarried[4];
    bool compares = !moves && iteration + 1 < op.count;
    if (compares) {
      oldClock = clock, oldDone = done, oldComputed = computed, oldWaited = waited;
      for (int i = 0; i < 4; ++i)
        oldBusy[i] = busy[i], oldCarried[i] = carried[i];
    }
    run(op.body);
    ++simulated;
    std::vector<int> next;
    for (int slot : op.yields)
      next.push_back(bound[size_t(slot)]);
    for (size_t i = 0; i < next.size(); ++i)
      bound[size_t(op.arguments[i])] = next[i];
    if (!compares)
      continue;
    auto isTimedCore = [&](size_t core) { return isTimed[core % size_t(program.columns)] != 0; };
    Time step = clock[0] - oldClock[0];
    Time earliest = clock[0];
    for (size_t i = 0; i < clock.size(); ++i)
      earliest = isTimedCore(i) ? std::min(earliest, clock[i]) : earliest;
    // Times before that of every clock have no more effect.
    auto repeats = [&](const std::vector<Time> &now, const std::vector<Time> &old) {
      for (size_t i = 0; i < now.size(); ++i)
        if (now[i] - old[i] != step && !(now[i] <= earliest && now[i] == old[i]))
          return false;
      return true;
    };
    bool isPeriodic = repeats(done, oldDone);
    for (const std::vector<TimedMessage> &inbox : inboxes)
      isPeriodic &= std::none_of(inbox.begin(), inbox.end(), [](const TimedMessage &message) { return message.there; });
    for (size_t i = 0; i < clock.size() && isPeriodic; ++i)
      isPeriodic = !isTimedCore(i) || clock[i] - oldClock[i] == step;
    for (int i = 0; i < 4 && isPeriodic; ++i)
      isPeriodic = repeats(busy[i], oldBusy[i]);
    if (!isPeriodic)
      continue;
    int64_t left = op.count - iteration - 1;
    auto advance = [&](std::vector<Time> &now, const std::vector<Time> &old) {
      for (size_t i = 0; i < now.size(); ++i)
        now[i] += left * (now[i] - old[i]);
    };
    advance(clock, oldClock), advance(done, oldDone), advance(computed, oldComputed), advance(waited, oldWaited);
    for (int i = 0; i < 4; ++i)
      advance(busy[i], oldBusy[i]), advance(carried[i], oldCarried[i]);
    break;
  }
  iteration = 0;
}

Timing Clocks::result() const {
  auto largest = [](const std::vector<Time> &times) {
    return double(*std::max_element(times.begin(), times.end())) / ticksPerCycle;
  };
  Timing timing;
  timing.cycles = largest(clock);
  timing.computeCycles = largest(computed);
  timing.waitCycles = largest(waited);
  for (const std::vector<Time> &direction : carried)
    timing.linkCycles = std::max(timing.linkCycles, largest(direction));
  timing.lastCore = std::max_element(clock.begin(), clock.end()) - clock.begin();
  timing.iterations = simulated;
  timing.allIterations = all;
  return timing;
}

TimingOfCores Clocks::ofCores() const {
  auto cycles = [](const std::vector<Time> &times) {
    std::vector<double> result;
    for (Time time : times)
      result.push_back(double(time) / ticksPerCycle);
    return result;
  };
  TimingOfCores cores{cycles(computed), cycles(waited), cycles(carried[0])};
  for (int direction = 1; direction < 4; ++direction)
    for (size_t core = 0; core < cores.carried.size(); ++core)
      cores.carried[core] = std::max(cores.carried[core], double(carried[direction][core]) / ticksPerCycle);
  return cores;
}

} // namespace

Timing time(const Program &program, TimingOfCores *cores) {
  Clocks clocks(program, cores != nullptr);
  clocks.run(program.ops);
  if (cores)
    *cores = clocks.ofCores();
  return clocks.result();
}

} // namespace intarsia::wafer
