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
  Time head = 0;       ///< when the first word is at the receiving core
  Time length = 0;     ///< from the first word to the last
  int32_t sender = -1; ///< -1: there is no message
};

class Clocks {
public:
  /// Times one column for all that are alike, unless `allCores` are wanted.
  Clocks(const Program &program, bool allCores)
      : program(program), target(program.target), routes(program), place(size_t(program.columns), -1) {
    std::vector<char> isTimed = allCores ? std::vector<char>(size_t(program.columns), true) : distinctColumns(program);
    for (int64_t x = 0; x < program.columns; ++x)
      if (isTimed[size_t(x)]) {
        place[size_t(x)] = int64_t(columnAt.size());
        columnAt.push_back(x);
      }
    stride = int64_t(columnAt.size());
    auto cores = size_t(stride * program.rows);
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
  // Of the cores in columns that are timed, those of a row side by side.
  std::vector<Time> clock, done, computed, waited;
  std::vector<std::vector<TimedMessage>> inboxes;
  ResolvedRoutes routes;                // which the check has accepted
  std::vector<int64_t> place, columnAt; // of each column among those that are timed, or -1; and the other way round
  int64_t stride = 0;                   // columns that are timed
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
  /// A route in an iteration.
  struct Way {
    bool alongX = false;
    const std::vector<std::vector<ResolvedRoute::Leg>> *legs = nullptr; ///< by position
    std::vector<TimedMessage> *inbox = nullptr;
  };
  Way wayOf(int route);
  void post(const Way &way, int64_t core, Time ready, Time length);
  void accept(TimedMessage &message, size_t core, Time start, Time length);
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
  case ComputeKind::Collect: // in each step the bounds of each row are compared, and in all steps each element is
                             // copied once
    return c.rows * target.loop + Time(std::ceil(double(c.elements()) / double(program.columns))) * ticksPerCycle;
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
void Clocks::post(const Way &way, int64_t core, Time ready, Time length) {
  // Columns between which messages pass lie side by side.
  int64_t position = way.alongX ? columnAt[size_t(core % stride)] : core / stride;
  for (const ResolvedRoute::Leg &leg : (*way.legs)[size_t(position)]) {
    int64_t side = leg.by > 0 ? 1 : -1, count = std::abs(leg.by), step = side * (way.alongX ? 1 : stride);
    size_t direction = (way.alongX ? 0 : 2) + (side > 0 ? 0 : 1);
    const Time *hop = &hops[way.alongX ? 0 : 1][size_t(side > 0 ? position : position - 1)];
    Time *linkBusy = &busy[direction][size_t(core)], *linkCarried = &carried[direction][size_t(core)];
    TimedMessage *inbox = &(*way.inbox)[size_t(core)];
    Time head = ready + target.ramp;
    for (int64_t i = 0; i < count; ++i, hop += side, linkBusy += step, linkCarried += step) {
      head = std::max(head, *linkBusy);
      *linkBusy = head + length;
      *linkCarried += length;
      head += *hop;
      inbox += step;
      if (leg.multicast || i + 1 == count)
        *inbox = {head + target.ramp, length, int32_t(core)};
    }
  }
}

/// Receives a message: it and its sender's transfer end at the same time.
void Clocks::accept(TimedMessage &message, size_t core, Time start, Time length) {
  Time end = std::max(start, message.head) + std::max(length, message.length);
  done[core] = std::max(done[core], end);
  done[size_t(message.sender)] = std::max(done[size_t(message.sender)], end);
  message.sender = -1;
}

Clocks::Way Clocks::wayOf(int route) {
  return {program.routes[size_t(route)].axis == MeshAxis::X, &routes.at(route, iteration).legs,
          &inboxes[size_t(route)]};
}

void Clocks::runOp(const Op &op) {
  auto [columns, rows] =
      coresOf(program, op, iteration, op.kind == OpKind::Forward && !routes.at(op.route, iteration).ascends);
  std::vector<int64_t> timed; // places of the columns
  for (int64_t x : columns)
    if (place[size_t(x)] >= 0)
      timed.push_back(place[size_t(x)]);
  const Time length = op.slots.empty() || op.kind == OpKind::Compute ? 0 : lengthOf(bufferOf(op, 0), op.add);
  // A route that moves is set anew by software.
  const Time stage = op.route >= 0 && program.routes[size_t(op.route)].moves() ? 2 * target.stage : target.stage;
  const Way source = op.route >= 0 ? wayOf(op.route) : Way();
  auto forCores = [&](auto action) {
    for (int64_t y : rows)
      for (int64_t x : timed)
        action(size_t(y * stride + x));
  };
  switch (op.kind) {
  case OpKind::Send:
    return forCores([&](size_t core) {
      clock[core] += stage;
      post(source, int64_t(core), clock[core], length);
    });
  case OpKind::Receive:
    return forCores([&](size_t core) {
      clock[core] += stage;
      accept((*source.inbox)[core], core, clock[core], length);
    });
  case OpKind::Forward: {
    const Way destination = wayOf(op.destination);
    return forCores([&](size_t core) {
      TimedMessage &message = (*source.inbox)[core];
      Time &now = clock[core];
      if (message.head > now) {
        waited[core] += message.head - now;
        now = message.head;
      }
      now += target.stage;
      Time whole = std::max(length, message.length);
      accept(message, core, now, whole);
      post(destination, int64_t(core), now, whole);
    });
  }
  case OpKind::Await:
    return forCores([&](size_t core) {
      if (done[core] > clock[core]) {
        waited[core] += done[core] - clock[core];
        clock[core] = done[core];
      }
    });
  case OpKind::Compute: {
    const Time cycles = cyclesOf(op);
    return forCores([&](size_t core) {
      clock[core] += cycles;
      computed[core] += cycles;
    });
  }
  case OpKind::Repeat:
    return;
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
  std::vector<Time> oldClock, oldDone, oldComputed, oldWaited, oldBusy[4], oldCarried[4];
  for (iteration = 0; iteration < op.count; ++iteration) {
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
    Time step = clock[0] - oldClock[0];
    Time earliest = *std::min_element(clock.begin(), clock.end());
    // Times before that of every clock have no more effect.
    auto repeats = [&](const std::vector<Time> &now, const std::vector<Time> &old) {
      for (size_t i = 0; i < now.size(); ++i)
        if (now[i] - old[i] != step && !(now[i] <= earliest && now[i] == old[i]))
          return false;
      return true;
    };
    bool isPeriodic = repeats(done, oldDone);
    for (const std::vector<TimedMessage> &inbox : inboxes)
      isPeriodic &=
          std::none_of(inbox.begin(), inbox.end(), [](const TimedMessage &message) { return message.sender >= 0; });
    for (size_t i = 0; i < clock.size() && isPeriodic; ++i)
      isPeriodic = clock[i] - oldClock[i] == step;
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
  int64_t last = std::max_element(clock.begin(), clock.end()) - clock.begin();
  timing.lastCore = last / stride * program.columns + columnAt[size_t(last % stride)];
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
