//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Values of programs that the check has accepted: races, unset memory and missing messages are not looked for again.
//
// A buffer lies element by element, each of all cores. The cores of an op are then runs of consecutive memory, which
// are swept with vector instructions, for tiles of a few elements as for large ones.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Wafer/Functional.h"

#include "lib/Formats/FloatFormats.h"
#include "lib/Runtime/Wafer/Relayout.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace intarsia::wafer {
namespace {

/// The most cores that are swept at once: their tiles of a product stay in the first-level cache if they are small.
constexpr int64_t longestRun = 512;
/// Added to the distance of two elements of a core: 37 of a first-level cache's 64 sets of 16 floats, without which the
/// elements of a core would be in the same set on a grid of 512 x 512.
constexpr int64_t padding = 37 * 16;

/// Softmax gives exactly 0 for it; it is finite, so that differences of such scores are 0 and not NaN.
constexpr float hiddenScore = -1e30f;

/// The buffer of messages that were added up on the way.
constexpr int16_t onTheWay = -1;

} // namespace

/// Returns the cores of an op's class as runs of at most longestRun cores; single ones, in the order of a message that
/// goes down an axis, if it `descends`. Runs are within rows while operands travel, which are read row by row.
std::vector<Simulator::Run> Simulator::runsOf(const Op &op, bool descends) const {
  bool isAll = op.cores.x.all && op.cores.y.all && !descends, inRows = !travels.empty();
  if (isAll && !allRuns[inRows].empty())
    return allRuns[inRows];
  auto [columns, rows] = coresOf(program, op, iteration, descends);
  std::vector<Run> runs;
  for (int64_t y : rows)
    for (int64_t x : columns) {
      int64_t core = y * program.columns + x;
      if (!runs.empty() && runs.back().end == core && core - runs.back().begin < longestRun && !(inRows && x == 0))
        ++runs.back().end;
      else
        runs.push_back({core, core + 1});
    }
  return runs;
}

void Simulator::round(int buffer, Run run) {
  if (!description(buffer).isHalf)
    return;
  for (int64_t i = 0; i < description(buffer).elements(); ++i) {
    float *of = plane(buffer, i);
    for (int64_t core = run.begin; core < run.end; ++core)
      of[core] = roundToF16(of[core]);
  }
}

/// Puts messages into the inboxes of all cores that their paths lead to.
void Simulator::post(int route, Run run, int16_t buffer) {
  Inbox &inbox = inboxes[size_t(route)];
  const auto &legs = routes.at(route, iteration).legs; // by position on the axis
  auto postTo = [&](const ResolvedRoute::Leg &leg, int64_t stride, int64_t begin, int64_t end) {
    int64_t step = leg.by > 0 ? stride : -stride, hops = std::abs(leg.by);
    for (int64_t hop = leg.multicast ? 1 : hops; hop <= hops; ++hop)
      for (int64_t core = begin; core < end; ++core) {
        inbox.sender[size_t(core + hop * step)] = int32_t(core);
        inbox.buffer[size_t(core + hop * step)] = buffer;
      }
  };
  while (run.begin < run.end) {
    int64_t row = run.begin / program.columns, first = row * program.columns;
    int64_t end = std::min(run.end, first + program.columns);
    if (program.routes[size_t(route)].axis == MeshAxis::Y)
      for (const ResolvedRoute::Leg &leg : legs[size_t(row)])
        postTo(leg, program.columns, run.begin, end);
    else
      for (int64_t core = run.begin; core < end; ++core)
        for (const ResolvedRoute::Leg &leg : legs[size_t(core - first)])
          postTo(leg, 1, core, core + 1);
    run.begin = end;
  }
}

void Simulator::receive(const Op &op, Run run) {
  const Inbox &inbox = inboxes[size_t(op.route)];
  int buffer = bufferOf(op, 0);
  int64_t elements = description(buffer).elements();
  while (run.begin < run.end) {
    // Almost always all come from one buffer.
    int16_t source = inbox.buffer[size_t(run.begin)];
    Run alike{run.begin, run.begin + 1};
    while (alike.end < run.end && inbox.buffer[size_t(alike.end)] == source)
      ++alike.end;
    const float *from = source == onTheWay ? payloads[size_t(op.route)].data() : plane(source, 0);
    float *to = plane(buffer, 0);
    const int32_t *sender = inbox.sender.data();
    for (int64_t i = 0; i < elements; ++i, from += stride, to += stride)
      if (op.maximum)
        for (int64_t core = alike.begin; core < alike.end; ++core)
          to[core] = std::max(to[core], from[sender[core]]);
      else if (op.add)
        for (int64_t core = alike.begin; core < alike.end; ++core)
          to[core] += from[sender[core]];
      else
        for (int64_t core = alike.begin; core < alike.end; ++core)
          to[core] = from[sender[core]];
    if (op.add || source == onTheWay || !description(source).isHalf)
      round(buffer, alike);
    run.begin = alike.end;
  }
}

/// A message may run through several cores of the op, so these are taken one by one.
void Simulator::forward(const Op &op, int64_t core) {
  Run one{core, core + 1};
  int buffer = bufferOf(op, 0);
  if (!op.add) { // what arrives is stored, and goes on from there
    receive(op, one);
    return post(op.destination, one, int16_t(buffer));
  }
  const CoreBuffer &own = description(buffer);
  int64_t source = inboxes[size_t(op.route)].sender[size_t(core)];
  int16_t kind = inboxes[size_t(op.route)].buffer[size_t(core)];
  std::vector<float> &payload = payloads[size_t(op.destination)];
  payload.resize(std::max(payload.size(), size_t(stride * own.elements())));
  const float *from = kind == onTheWay ? payloads[size_t(op.route)].data() : plane(kind, 0);
  for (int64_t i = 0; i < own.elements(); ++i) {
    float other = from[i * stride + source], mine = plane(buffer, i)[core];
    float sum = op.maximum ? std::max(other, mine) : other + mine;
    payload[size_t(i * stride + core)] = own.isHalf ? roundToF16(sum) : sum;
  }
  post(op.destination, one, onTheWay);
}

static float element(const Op &op, float old, float value) {
  switch (op.compute) {
  case ComputeKind::Add:
  case ComputeKind::Shift:
    return old + value;
  case ComputeKind::Multiply:
  case ComputeKind::Scale:
    return old * value;
  case ComputeKind::Affine:
    return op.factor * value + op.addend;
  case ComputeKind::Rsqrt:
    return 1 / std::sqrt(op.factor * value + op.addend);
  case ComputeKind::Reciprocal:
    return 1 / value;
  case ComputeKind::Exp:
    return std::exp(value);
  case ComputeKind::Silu:
    return value / (1 + std::exp(-value));
  case ComputeKind::Gelu:
    return 0.5f * value * (1 + std::erf(value * 0.70710678f));
  case ComputeKind::GeluTanh:
    return 0.5f * value * (1 + std::tanh(0.79788456f * (value + 0.044715f * value * value * value)));
  case ComputeKind::Relu:
    return std::max(value, 0.0f);
  case ComputeKind::Tanh:
    return std::tanh(value);
  default:
    return value;
  }
}

/// Sums of each row, or its largest element.
void Simulator::sumRows(const Op &op, Run run) {
  int target = bufferOf(op, 0), source = bufferOf(op, 1);
  const CoreBuffer &rows = description(source);
  for (int64_t m = 0; m < rows.rows; ++m) {
    const float *first = plane(source, m * rows.columns) + run.begin;
    std::vector<float> sums(size_t(run.end - run.begin));
    if (op.compute == ComputeKind::Largest)
      std::copy(first, first + sums.size(), sums.begin());
    for (int64_t n = 0; n < rows.columns; ++n) {
      const float *from = plane(source, m * rows.columns + n) + run.begin;
      for (size_t core = 0; core < sums.size(); ++core)
        if (op.compute == ComputeKind::Largest)
          sums[core] = std::max(sums[core], from[core]);
        else
          sums[core] += op.compute == ComputeKind::Sum ? from[core] : from[core] * from[core];
    }
    std::copy(sums.begin(), sums.end(), plane(target, m) + run.begin);
  }
  round(target, run);
}

/// Turns the pairs of features (i, i + half) of each row by its position times the pair's frequency.
void Simulator::rotate(const Op &op, Run run) {
  int target = bufferOf(op, 0);
  const CoreBuffer &x = description(target);
  int64_t half = x.columns / 2;
  for (int64_t m = 0; m < x.rows; ++m)
    for (int64_t i = 0; i < half; ++i)
      for (int64_t core = run.begin; core < run.end; ++core) {
        float angle = plane(bufferOf(op, 1), m)[core] * plane(bufferOf(op, 2), i)[core];
        float cosine = op.factor * std::cos(angle), sine = op.factor * std::sin(angle);
        float &a = plane(target, m * x.columns + i)[core], &b = plane(target, m * x.columns + half + i)[core];
        float turned = a * cosine - b * sine;
        b = b * cosine + a * sine;
        a = turned;
      }
  round(target, run);
}

/// Quantized values times the scales of their rows.
void Simulator::decode(const Op &op, Run run) {
  int target = bufferOf(op, 0), codes = bufferOf(op, 1), scales = bufferOf(op, 2);
  const CoreBuffer &w = description(target);
  int64_t shared = w.rows / description(scales).rows;
  for (int64_t k = 0; k < w.rows; ++k)
    for (int64_t n = 0; n < w.columns; ++n) {
      float *to = plane(target, k * w.columns + n);
      const float *code = plane(codes, k * w.columns + n), *scale = plane(scales, k / shared * w.columns + n);
      for (int64_t core = run.begin; core < run.end; ++core)
        to[core] = code[core] * scale[core];
    }
  round(target, run);
}

/// Hides the scores of slots without a token that the row may see.
void Simulator::mask(const Op &op, int64_t core) {
  int target = bufferOf(op, 0);
  const CoreBuffer &scores = description(target);
  int64_t slots = scores.columns;
  auto [first, count] = tokensOfRow(tokens, core / program.columns, program.rows);
  for (int64_t slot = 0; slot < slots; ++slot) {
    int64_t token = first + (slot - first % slots + slots) % slots; // the only one of this slot that the row may have
    for (int64_t m = 0; m < scores.rows; ++m) {
      float position = plane(bufferOf(op, 1), m)[core];
      bool isSeen =
          token < first + count && float(token) <= position && (op.factor == 0 || float(token) > position - op.factor);
      if (!isSeen)
        plane(target, m * slots + slot)[core] = hiddenScore;
    }
  }
}

/// Takes the oldest token of a core's row before an append, or puts its latest one after it.
void Simulator::moveEntry(const Op &op, int64_t core) {
  bool takes = op.compute == ComputeKind::Take;
  int cache = bufferOf(op, takes ? 1 : 0), entry = bufferOf(op, takes ? 0 : 1);
  int64_t row = core / program.columns, slots = description(cache).rows, columns = description(cache).columns;
  TokensOfRow after = tokensOfRow(tokens + 1, row, program.rows);
  int64_t token = takes ? tokensOfRow(tokens, row, program.rows).first : after.first + after.count - 1;
  for (int64_t i = 0; i < columns; ++i) {
    float &stored = plane(cache, token % slots * columns + i)[core], &moved = plane(entry, i)[core];
    (takes ? moved : stored) = takes ? stored : moved;
  }
  round(takes ? entry : cache, {core, core + 1});
}

/// Copies what a core keeps of a tile that passes it.
void Simulator::collect(const Op &op, int64_t core) {
  int kept = bufferOf(op, 0), passing = bufferOf(op, 1);
  forCollected(*op.relayout, program, core % program.columns, core / program.columns, iteration,
               [&](const CollectedElements &elements) {
                 for (int64_t i = 0; i < elements.count; ++i)
                   plane(kept, elements.to + i)[core] = plane(passing, elements.from + i)[core];
               });
}

void Simulator::compute(const Op &op, Run run) {
  int target = bufferOf(op, 0);
  switch (op.compute) {
  case ComputeKind::Collect:
    for (int64_t core = run.begin; core < run.end; ++core)
      collect(op, core);
    return;
  case ComputeKind::Gemm:
  case ComputeKind::GemmTransposed:
  case ComputeKind::Gemv:
    return multiply(op, run);
  case ComputeKind::Rotate:
    return rotate(op, run);
  case ComputeKind::Decode:
    return decode(op, run);
  case ComputeKind::Sum:
  case ComputeKind::SumSquares:
  case ComputeKind::Largest:
    return sumRows(op, run);
  case ComputeKind::Mask:
  case ComputeKind::Take:
  case ComputeKind::Put:
    for (int64_t core = run.begin; core < run.end; ++core)
      op.compute == ComputeKind::Mask ? mask(op, core) : moveEntry(op, core);
    return;
  default:
    break;
  }
  bool spreads = spreadsOverRows(op.compute);
  for (int64_t i = 0; i < description(target).elements(); ++i) {
    float *to = plane(target, i);
    if (op.compute == ComputeKind::Zero) {
      std::fill(to + run.begin, to + run.end, 0.0f);
      continue;
    }
    const float *from = plane(bufferOf(op, 1), spreads ? i / description(target).columns : i);
    for (int64_t core = run.begin; core < run.end; ++core)
      to[core] = element(op, to[core], from[core]);
  }
  if (op.compute != ComputeKind::Zero)
    round(target, run);
}

/// Returns where the first element of an operand begins for a run of cores, the next ones in steps of the stride. Of a
/// buffer that travels the run is in one row of cores, and is shortened to where its tiles lie side by side.
const float *Simulator::operandOf(const Op &op, size_t operand, Run &run) {
  int buffer = bufferOf(op, operand);
  if (!isTravelling(op, operand))
    return plane(buffer, 0) + run.begin;
  const View &view = views[size_t(buffer)];
  int64_t row = run.begin / program.columns, place = (run.begin % program.columns + view.shift) % program.columns;
  run.end = std::min(run.end, run.begin + program.columns - place);
  return plane(view.memory, 0) + view.rows[size_t(row)] * program.columns + place;
}

/// C += A B or A B^T.
void Simulator::multiply(const Op &op, Run run) {
  int target = bufferOf(op, 0);
  const CoreBuffer &c = description(target);
  int64_t depth = description(bufferOf(op, 1)).columns;
  bool transposed = op.compute == ComputeKind::GemmTransposed;
  for (Run part = run; part.begin < run.end; part = {part.end, run.end}) {
    const float *left = operandOf(op, 1, part), *right = operandOf(op, 2, part);
    int64_t count = part.end - part.begin;
    for (int64_t m = 0; m < c.rows; ++m)
      for (int64_t n = 0; n < c.columns; ++n) {
        float *sum = plane(target, m * c.columns + n) + part.begin;
        for (int64_t k = 0; k < depth; ++k) {
          const float *a = left + (m * depth + k) * stride;
          const float *b = right + (transposed ? n * depth + k : k * c.columns + n) * stride;
          for (int64_t i = 0; i < count; ++i)
            sum[i] += a[i] * b[i];
        }
      }
  }
  round(target, run);
}

void Simulator::repeat(const Op &op) {
  for (size_t i = 0; i < op.arguments.size(); ++i)
    bound[size_t(op.arguments[i])] = bufferOf(op, i);
  findTravelling(op);
  int64_t end = op.launches ? tokens % op.count + 1 : op.count;
  for (iteration = op.launches ? end - 1 : 0; iteration < end; ++iteration) {
    runOps(op.body);
    std::vector<int> next;
    for (int slot : op.yields)
      next.push_back(bound[size_t(slot)]);
    for (size_t i = 0; i < next.size(); ++i)
      bound[size_t(op.arguments[i])] = next[i];
  }
  settle(op);
  iteration = 0;
}

void Simulator::runOps(const std::vector<Op> &ops) {
  for (const Op &op : ops) {
    if (op.kind == OpKind::Repeat) {
      repeat(op);
      continue;
    }
    if (observer)
      observer(op, bound, iteration);
    if (op.kind == OpKind::Await || travel(op))
      continue;
    for (Run run : runsOf(op, op.kind == OpKind::Forward && !routes.at(op.route, iteration).ascends)) {
      if (op.kind == OpKind::Send)
        post(op.route, run, int16_t(bufferOf(op, 0)));
      else if (op.kind == OpKind::Receive)
        receive(op, run);
      else if (op.kind == OpKind::Compute)
        compute(op, run);
      else
        for (int64_t core = run.begin; core < run.end; ++core)
          forward(op, core);
    }
  }
}

/// Calls `action` with each element of a core's tile that is in the matrix: its index in the tile, and in the matrix.
template <typename Action>
static void forElements(const Program &program, const Binding &binding, int64_t core, Action action) {
  const CoreBuffer &buffer = program.buffers[size_t(binding.slot)];
  int64_t x = core % program.columns, y = core / program.columns, extent = binding.tiles.extent;
  if (extent != 0 && (x >= extent || y >= extent))
    return;
  auto extentOf = [&](MeshAxis axis) {
    return extent != 0 ? extent : axis == MeshAxis::X ? program.columns : program.rows;
  };
  auto place = [&](MeshAxis axis) -> int64_t {
    if (axis == MeshAxis::None)
      return 0;
    int64_t position = axis == MeshAxis::X ? x : y;
    return binding.tiles.ring ? ringPlace(position, extentOf(axis)) : position;
  };
  int64_t row = place(binding.tiles.rows), column = place(binding.tiles.columns);
  if (binding.tiles.skew == TileSkew::Columns)
    column = (column + row) % extentOf(binding.tiles.columns);
  else if (binding.tiles.skew == TileSkew::Rows)
    row = (row + column) % extentOf(binding.tiles.rows);
  for (int64_t r = 0; r < buffer.rows; ++r)
    for (int64_t c = 0; c < buffer.columns; ++c) {
      int64_t matrixRow = row * buffer.rows + r, matrixColumn = column * buffer.columns + c;
      if (matrixRow < binding.rows && matrixColumn < binding.columns)
        action(r * buffer.columns + c, matrixRow * binding.columns + matrixColumn);
    }
}

Simulator::Simulator(const Program &program)
    : program(program), cores(program.cores()), stride((cores + 15) / 16 * 16 + padding), bound(size_t(program.slots)),
      payloads(program.routes.size()),
      inboxes(program.routes.size(), Inbox{std::vector<int32_t>(size_t(cores)), std::vector<int16_t>(size_t(cores))}),
      routes(program) {
  int64_t planes = 0;
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    bound[i] = int(i);
    firstPlane.push_back(planes);
    planes += program.buffers[i].elements();
  }
  values.resize(size_t(planes * stride));
  for (bool inRows : {false, true}) {
    travels.assign(inRows ? 1 : 0, false);
    allRuns[inRows] = runsOf(Op(), false);
  }
  travels.clear();
}

void Simulator::load(int64_t argument, const Matrix &matrix) {
  for (const Binding &input : program.inputs) {
    if (input.argument != argument)
      continue;
    // The padding of a tile is not 0 after a run in which tiles have travelled.
    int64_t elements = description(input.slot).elements();
    std::fill(plane(input.slot, 0), plane(input.slot, 0) + elements * stride, 0.0f);
    for (int64_t core = 0; core < cores; ++core)
      forElements(program, input, core,
                  [&](int64_t in, int64_t from) { plane(input.slot, in)[core] = matrix.values[size_t(from)]; });
    round(input.slot, {0, cores});
  }
}

Matrix Simulator::result(int64_t argument) {
  Matrix matrix;
  for (const Binding &output : program.outputs) {
    if (output.argument != argument)
      continue;
    matrix = {output.rows, output.columns, std::vector<float>(size_t(output.rows * output.columns))};
    for (int64_t core = 0; core < cores; ++core)
      forElements(program, output, core,
                  [&](int64_t in, int64_t to) { matrix.values[size_t(to)] = plane(output.slot, in)[core]; });
  }
  return matrix;
}

std::string run(const Program &program, const std::vector<Matrix> &inputs, std::vector<Matrix> &outputs, int64_t tokens,
                OpObserver observer) {
  if (std::string problem = check(program); !problem.empty())
    return problem;
  Simulator simulator(program);
  for (size_t i = 0; i < inputs.size(); ++i)
    simulator.load(int64_t(i), inputs[i]);
  simulator.setTokens(tokens);
  simulator.setObserver(std::move(observer));
  simulator.run();
  outputs.clear();
  for (size_t i = 0; i < program.outputs.size(); ++i)
    outputs.push_back(simulator.result(int64_t(i)));
  return "";
}

} // namespace intarsia::wafer
