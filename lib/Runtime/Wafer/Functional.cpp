//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Wafer/Functional.h"

#include "lib/Formats/FloatFormats.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace intarsia::wafer {
namespace {

/// These flags say what is known of the buffer of one core.
enum : uint8_t { isSet = 1, isSent = 2, isReceived = 4 };

/// A message on its way: the buffer that it is read from, or the values that a core added up on the way.
struct Message {
  int buffer = none;
  int64_t core = 0;
  int64_t elements = 0;
  static constexpr int none = -1, onTheWay = -2;
  bool operator==(const Message &) const = default;
};

class Machine {
public:
  Machine(const Program &program, bool hasValues) : program(program), hasValues(hasValues) {}

  std::string error;

  void start(const std::vector<Matrix> &inputs);
  void run(const std::vector<Op> &ops);
  void finish(std::vector<Matrix> &outputs);

private:
  /// This state decides how a check goes on.
  struct Snapshot {
    std::vector<std::vector<uint8_t>> flags;
    std::vector<int> bound;
    bool operator==(const Snapshot &) const = default;
  };

  const Program &program;
  bool hasValues;
  std::vector<int> bound;                    // slot -> buffer
  std::vector<std::vector<float>> values;    // by buffer, of all cores
  std::vector<std::vector<uint8_t>> flags;   // by buffer and core
  std::vector<std::vector<Message>> inboxes; // by route and core
  std::vector<std::vector<float>> payloads;  // of messages on the way, by route
  std::vector<int> transferred;              // buffers that a core may be sending or receiving
  std::vector<int32_t> unreceived;           // messages that a core has sent and nobody received
  std::vector<std::vector<ResolvedRoute>> resolvedRoutes;
  std::vector<char> moving; // routes that a loop sets anew
  int64_t iteration = 0;

  const ResolvedRoute &resolved(int route);
  float *tile(int buffer, int64_t core) {
    return values[size_t(buffer)].data() + core * program.buffers[size_t(buffer)].elements();
  }
  void fail(const Op &op, int64_t core, const std::string &what);
  bool read(const Op &op, int buffer, int64_t core);
  bool write(const Op &op, int buffer, int64_t core);
  void post(const Op &op, int route, int64_t core, int buffer, int64_t elements);
  bool fits(const Op &op, int64_t core, const Message &message, int buffer);
  void send(const Op &op, int64_t core);
  void receive(const Op &op, int64_t core);
  void forward(const Op &op, int64_t core);
  void await(const Op &op, int64_t core);
  void compute(const Op &op, int64_t core);
  void repeat(const Op &op);
  void round(int buffer, int64_t core);
  template <typename Action> void forCores(const Op &op, bool descends, Action action);
};

const char *nameOf(OpKind kind) {
  switch (kind) {
  case OpKind::Send:
    return "send";
  case OpKind::Receive:
    return "receive";
  case OpKind::Forward:
    return "forward";
  case OpKind::Await:
    return "await";
  case OpKind::Compute:
    return "compute";
  case OpKind::Repeat:
    return "repeat";
  }
  return "";
}

void Machine::fail(const Op &op, int64_t core, const std::string &what) {
  if (!error.empty())
    return;
  error = op.where + (op.where.empty() ? "" : ": ") + nameOf(op.kind) + " at core (" +
          std::to_string(core % program.columns) + ", " + std::to_string(core / program.columns) + "), iteration " +
          std::to_string(iteration) + ": " + what;
}

const ResolvedRoute &Machine::resolved(int route) {
  std::vector<ResolvedRoute> &known = resolvedRoutes[size_t(route)];
  size_t wanted = moving[size_t(route)] ? size_t(iteration) : 0;
  while (known.size() <= wanted) {
    std::string problem;
    known.push_back(resolve(program, program.routes[size_t(route)], int64_t(known.size()), problem));
    if (!problem.empty() && error.empty())
      error = problem;
  }
  return known[wanted];
}

/// Calls `action` for the cores of an op's class, in the order of a message that goes up or down an axis.
template <typename Action> void Machine::forCores(const Op &op, bool descends, Action action) {
  auto [columns, rows] = coresOf(program, op, iteration, descends);
  for (int64_t y : rows)
    for (int64_t x : columns) {
      action(op, y * program.columns + x);
      if (!error.empty())
        return;
    }
}

bool Machine::read(const Op &op, int buffer, int64_t core) {
  uint8_t flag = flags[size_t(buffer)][size_t(core)];
  if ((flag & (isSet | isReceived)) == isSet)
    return true;
  const std::string &name = program.buffers[size_t(buffer)].name;
  fail(op, core,
       flag & isReceived ? "race: buffer \"" + name + "\" is read while a message arrives in it; await it before"
                         : "buffer \"" + name + "\" is read before anything was written to it");
  return false;
}

bool Machine::write(const Op &op, int buffer, int64_t core) {
  uint8_t &flag = flags[size_t(buffer)][size_t(core)];
  if (!(flag & (isSent | isReceived))) {
    flag |= isSet;
    return true;
  }
  fail(op, core,
       "race: buffer \"" + program.buffers[size_t(buffer)].name + "\" is written while it is " +
           (flag & isSent ? "sent" : "received") + "; await the transfer before");
  return false;
}

void Machine::round(int buffer, int64_t core) {
  const CoreBuffer &description = program.buffers[size_t(buffer)];
  if (!description.isHalf)
    return;
  float *data = tile(buffer, core);
  for (int64_t i = 0; i < description.elements(); ++i)
    data[i] = decodeF16(encodeF16(data[i]));
}

/// Puts a message into the inboxes of all cores that its paths lead to.
void Machine::post(const Op &op, int route, int64_t core, int buffer, int64_t elements) {
  const Route &description = program.routes[size_t(route)];
  bool alongX = description.axis == MeshAxis::X;
  int64_t position = alongX ? core % program.columns : core / program.columns;
  int64_t stride = alongX ? 1 : program.columns;
  const auto &legs = resolved(route).legs[size_t(position)];
  if (legs.empty())
    return fail(op, core, "route @" + description.name + " has no path that starts here");
  for (const ResolvedRoute::Leg &leg : legs) {
    int64_t side = leg.by > 0 ? 1 : -1;
    for (int64_t hop = leg.multicast ? 1 : std::abs(leg.by); hop <= std::abs(leg.by); ++hop) {
      Message &inbox = inboxes[size_t(route)][size_t(core + side * hop * stride)];
      if (inbox.buffer != Message::none)
        return fail(op, core,
                    "a second message on @" + description.name +
                        " is sent before the first is received; receive it before");
      inbox = {buffer, core, elements};
      ++unreceived[size_t(core)];
    }
  }
}

void Machine::send(const Op &op, int64_t core) {
  int buffer = bound[size_t(op.slots[0])];
  if (!read(op, buffer, core))
    return;
  flags[size_t(buffer)][size_t(core)] |= isSent;
  post(op, op.route, core, buffer, program.buffers[size_t(buffer)].elements());
}

/// Refuses a message of another size than that of the buffer that it is stored in or added to.
bool Machine::fits(const Op &op, int64_t core, const Message &message, int buffer) {
  const CoreBuffer &own = program.buffers[size_t(buffer)];
  if (message.elements == own.elements())
    return true;
  fail(op, core,
       "buffer \"" + own.name + "\" has " + std::to_string(own.elements()) + " elements, the message on @" +
           program.routes[size_t(op.route)].name + " has " + std::to_string(message.elements));
  return false;
}

void Machine::receive(const Op &op, int64_t core) {
  int buffer = bound[size_t(op.slots[0])];
  if (op.add && !read(op, buffer, core))
    return;
  if (!write(op, buffer, core))
    return;
  flags[size_t(buffer)][size_t(core)] |= isReceived;
  Message &message = inboxes[size_t(op.route)][size_t(core)];
  if (message.buffer == Message::none)
    return fail(op, core, "deadlock: no earlier op sends it a message on @" + program.routes[size_t(op.route)].name);
  --unreceived[size_t(message.core)];
  if (!fits(op, core, message, buffer))
    return;
  int64_t elements = message.elements;
  if (hasValues) {
    const float *from = message.buffer >= 0 ? tile(message.buffer, message.core)
                                            : payloads[size_t(op.route)].data() + message.core * elements;
    float *to = tile(buffer, core);
    if (op.add)
      for (int64_t i = 0; i < elements; ++i)
        to[i] += from[i];
    else
      std::copy_n(from, elements, to);
    if (op.add || message.buffer < 0 || !program.buffers[size_t(message.buffer)].isHalf)
      round(buffer, core);
  }
  message.buffer = Message::none;
}

void Machine::forward(const Op &op, int64_t core) {
  int buffer = bound[size_t(op.slots[0])];
  if (!op.add) { // what arrives is stored, and goes on from there
    receive(op, core);
    if (error.empty()) {
      flags[size_t(buffer)][size_t(core)] |= isSent;
      post(op, op.destination, core, buffer, program.buffers[size_t(buffer)].elements());
    }
    return;
  }
  if (!read(op, buffer, core))
    return;
  flags[size_t(buffer)][size_t(core)] |= isSent;
  Message &message = inboxes[size_t(op.route)][size_t(core)];
  if (message.buffer == Message::none)
    return fail(op, core, "deadlock: no earlier op sends it a message on @" + program.routes[size_t(op.route)].name);
  --unreceived[size_t(message.core)];
  if (!fits(op, core, message, buffer))
    return;
  int64_t elements = message.elements;
  if (hasValues) {
    const CoreBuffer &description = program.buffers[size_t(buffer)];
    std::vector<float> &payload = payloads[size_t(op.destination)];
    payload.resize(size_t(std::max<int64_t>(int64_t(payload.size()), program.cores() * elements)));
    const float *from = message.buffer >= 0 ? tile(message.buffer, message.core)
                                            : payloads[size_t(op.route)].data() + message.core * elements;
    float *to = payload.data() + core * elements;
    const float *own = tile(buffer, core);
    for (int64_t i = 0; i < elements; ++i) {
      float sum = from[i] + own[i];
      to[i] = description.isHalf ? decodeF16(encodeF16(sum)) : sum;
    }
  }
  message.buffer = Message::none;
  post(op, op.destination, core, Message::onTheWay, elements);
}

void Machine::await(const Op &op, int64_t core) {
  if (unreceived[size_t(core)] > 0)
    return fail(op, core, "deadlock: it waits for a message that it has sent, which no earlier op receives");
  for (int buffer : transferred)
    flags[size_t(buffer)][size_t(core)] &= isSet;
}

float element(ComputeKind kind, float old, float value) {
  switch (kind) {
  case ComputeKind::Add:
    return old + value;
  case ComputeKind::Multiply:
    return old * value;
  case ComputeKind::Exp:
    return std::exp(value);
  case ComputeKind::Silu:
    return value / (1 + std::exp(-value));
  default:
    return value;
  }
}

void Machine::compute(const Op &op, int64_t core) {
  int target = bound[size_t(op.slots[0])];
  bool accumulates = op.compute == ComputeKind::Add || op.compute == ComputeKind::Multiply || op.slots.size() == 3;
  for (size_t i = accumulates ? 0 : 1; i < op.slots.size(); ++i)
    if (!read(op, bound[size_t(op.slots[i])], core))
      return;
  if (!write(op, target, core) || !hasValues)
    return;
  const CoreBuffer &c = program.buffers[size_t(target)];
  float *to = tile(target, core);
  if (op.compute == ComputeKind::Zero) {
    std::fill_n(to, c.elements(), 0.0f);
    return;
  }
  int source = bound[size_t(op.slots[1])];
  const float *a = tile(source, core);
  if (op.slots.size() == 2) {
    for (int64_t i = 0; i < c.elements(); ++i)
      to[i] = element(op.compute, to[i], a[i]);
    return round(target, core);
  }
  const float *b = tile(bound[size_t(op.slots[2])], core);
  int64_t depth = program.buffers[size_t(source)].columns;
  for (int64_t m = 0; m < c.rows; ++m)
    for (int64_t k = 0; k < depth; ++k) {
      float factor = a[m * depth + k];
      if (op.compute == ComputeKind::GemmTransposed)
        for (int64_t n = 0; n < c.columns; ++n)
          to[m * c.columns + n] += factor * b[n * depth + k];
      else
        for (int64_t n = 0; n < c.columns; ++n)
          to[m * c.columns + n] += factor * b[k * c.columns + n];
    }
  round(target, core);
}

void Machine::repeat(const Op &op) {
  std::vector<Snapshot> earlier; // of a check, which stops as soon as it goes in circles
  bool moves = std::any_of(op.body.begin(), op.body.end(), [&](const Op &inner) {
    return inner.cores.x.moves() || inner.cores.y.moves() ||
           (inner.route >= 0 && program.routes[size_t(inner.route)].moves());
  });
  for (size_t i = 0; i < op.arguments.size(); ++i)
    bound[size_t(op.arguments[i])] = bound[size_t(op.slots[i])];
  for (iteration = 0; iteration < op.count && error.empty(); ++iteration) {
    run(op.body);
    std::vector<int> next;
    for (int slot : op.yields)
      next.push_back(bound[size_t(slot)]);
    for (size_t i = 0; i < next.size(); ++i)
      bound[size_t(op.arguments[i])] = next[i];
    if (hasValues || moves || !std::all_of(inboxes.begin(), inboxes.end(), [](const std::vector<Message> &inbox) {
          return std::all_of(inbox.begin(), inbox.end(), [](const Message &m) { return m.buffer == Message::none; });
        }))
      continue;
    Snapshot now{flags, bound};
    if (std::find(earlier.begin(), earlier.end(), now) != earlier.end())
      break;
    earlier.push_back(std::move(now));
    if (earlier.size() > 4)
      earlier.erase(earlier.begin());
  }
  iteration = 0;
}

void Machine::run(const std::vector<Op> &ops) {
  for (const Op &op : ops) {
    if (!error.empty())
      return;
    if (op.kind == OpKind::Send || op.kind == OpKind::Receive || op.kind == OpKind::Forward)
      if (int buffer = bound[size_t(op.slots[0])];
          std::find(transferred.begin(), transferred.end(), buffer) == transferred.end())
        transferred.push_back(buffer);
    switch (op.kind) {
    case OpKind::Send:
      forCores(op, false, [this](const Op &o, int64_t core) { send(o, core); });
      break;
    case OpKind::Receive:
      forCores(op, false, [this](const Op &o, int64_t core) { receive(o, core); });
      break;
    case OpKind::Forward:
      forCores(op, !resolved(op.route).ascends, [this](const Op &o, int64_t core) { forward(o, core); });
      break;
    case OpKind::Await:
      forCores(op, false, [this](const Op &o, int64_t core) { await(o, core); });
      if (op.cores.x.all && op.cores.y.all)
        transferred.clear();
      break;
    case OpKind::Compute:
      forCores(op, false, [this](const Op &o, int64_t core) { compute(o, core); });
      break;
    case OpKind::Repeat:
      repeat(op);
      break;
    }
  }
}

/// Calls `action` with each element of a core's tile that is in the matrix: its index in the tile, and in the matrix.
template <typename Action>
void forElements(const Program &program, const Binding &binding, int64_t core, Action action) {
  const CoreBuffer &buffer = program.buffers[size_t(binding.slot)];
  auto place = [&](MeshAxis axis) -> int64_t {
    if (axis == MeshAxis::None)
      return 0;
    int64_t extent = axis == MeshAxis::X ? program.columns : program.rows;
    int64_t position = axis == MeshAxis::X ? core % program.columns : core / program.columns;
    return binding.tiles.ring ? ringPlace(position, extent) : position;
  };
  auto extentOf = [&](MeshAxis axis) { return axis == MeshAxis::X ? program.columns : program.rows; };
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

void Machine::start(const std::vector<Matrix> &inputs) {
  size_t cores = size_t(program.cores());
  bound.resize(size_t(program.slots));
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    bound[i] = int(i);
    flags.emplace_back(cores);
    values.emplace_back(hasValues ? cores * size_t(program.buffers[i].elements()) : 0);
  }
  inboxes.assign(program.routes.size(), std::vector<Message>(cores));
  payloads.resize(program.routes.size());
  resolvedRoutes.resize(program.routes.size());
  for (const Route &route : program.routes)
    moving.push_back(route.moves());
  unreceived.resize(cores);
  for (const Binding &input : program.inputs) {
    std::fill(flags[size_t(input.slot)].begin(), flags[size_t(input.slot)].end(), uint8_t(isSet));
    if (!hasValues)
      continue;
    const Matrix &matrix = inputs[size_t(input.argument)];
    for (int64_t core = 0; core < int64_t(cores); ++core) {
      float *to = tile(input.slot, core);
      forElements(program, input, core, [&](int64_t in, int64_t from) { to[in] = matrix.values[size_t(from)]; });
      round(input.slot, core);
    }
  }
}

void Machine::finish(std::vector<Matrix> &outputs) {
  for (size_t buffer = 0; buffer < flags.size(); ++buffer)
    for (size_t core = 0; core < flags[buffer].size() && error.empty(); ++core)
      if (flags[buffer][core] & (isSent | isReceived))
        error = "core (" + std::to_string(int64_t(core) % program.columns) + ", " +
                std::to_string(int64_t(core) / program.columns) + ") ends while buffer \"" +
                program.buffers[buffer].name + "\" is " + (flags[buffer][core] & isSent ? "sent" : "received") +
                "; add an await";
  for (const Binding &output : program.outputs) {
    for (size_t core = 0; core < size_t(program.cores()) && error.empty(); ++core)
      if (!(flags[size_t(output.slot)][core] & isSet))
        error = "output " + std::to_string(output.argument) + ": buffer \"" +
                program.buffers[size_t(output.slot)].name + "\" of core (" +
                std::to_string(int64_t(core) % program.columns) + ", " +
                std::to_string(int64_t(core) / program.columns) + ") was never written";
    if (!hasValues || !error.empty())
      continue;
    if (outputs.size() <= size_t(output.argument))
      outputs.resize(size_t(output.argument) + 1);
    Matrix &matrix = outputs[size_t(output.argument)];
    matrix = {output.rows, output.columns, std::vector<float>(size_t(output.rows * output.columns))};
    for (int64_t core = 0; core < program.cores(); ++core) {
      const float *from = tile(output.slot, core);
      forElements(program, output, core, [&](int64_t in, int64_t to) { matrix.values[size_t(to)] = from[in]; });
    }
  }
}

std::string checkMemory(const Program &program) {
  int64_t bytes = program.bytesPerCore();
  if (bytes <= program.target.sramBytes)
    return "";
  return "needs " + std::to_string(bytes) + " bytes of each core, " + program.target.name + " has " +
         std::to_string(program.target.sramBytes);
}

std::string execute(const Program &program, const std::vector<Matrix> *inputs, std::vector<Matrix> &outputs) {
  if (std::string problem = checkMemory(program); !problem.empty())
    return problem;
  if (std::string problem = checkColors(program); !problem.empty())
    return problem;
  Machine machine(program, inputs != nullptr);
  machine.start(inputs ? *inputs : std::vector<Matrix>());
  machine.run(program.ops);
  if (machine.error.empty())
    machine.finish(outputs);
  return machine.error;
}

} // namespace

std::string run(const Program &program, const std::vector<Matrix> &inputs, std::vector<Matrix> &outputs) {
  return execute(program, &inputs, outputs);
}

std::string check(const Program &program) {
  std::vector<Matrix> none;
  return execute(program, nullptr, none);
}

} // namespace intarsia::wafer
