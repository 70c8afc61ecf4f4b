//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Wafer/Functional.h"

#include <algorithm>
#include <cstdlib>

namespace intarsia::wafer {
namespace {

/// These flags say what is known of the buffer of one core. A buffer is reused where another one that shares bytes with
/// it was written after it.
enum : uint8_t { isSet = 1, isSent = 2, isReceived = 4, isReused = 8 };

/// A message on its way.
struct Message {
  bool isThere = false;
  int64_t core = 0; ///< that sent it
  int64_t elements = 0;
};

class Machine {
public:
  explicit Machine(const Program &program);

  std::string error;

  void run(const std::vector<Op> &ops);
  void finish();

private:
  /// This state decides how a check goes on.
  struct Snapshot {
    std::vector<std::vector<uint8_t>> flags;
    std::vector<int> bound;
    bool operator==(const Snapshot &) const = default;
  };

  const Program &program;
  std::vector<int> bound;                    // slot -> buffer
  std::vector<std::vector<uint8_t>> flags;   // by buffer and core
  std::vector<std::vector<int>> sharing;     // buffers that share bytes with a buffer
  std::vector<std::vector<Message>> inboxes; // by route and core
  std::vector<int> transferred;              // buffers that a core may be sending or receiving
  std::vector<int32_t> unreceived;           // messages that a core has sent and nobody received
  ResolvedRoutes routes;
  std::vector<char> isChecked; // by column: an append walks through as many iterations as there are rows
  int64_t iteration = 0;

  const ResolvedRoute &resolved(int route);
  void fail(const Op &op, int64_t core, const std::string &what);
  bool read(const Op &op, int buffer, int64_t core);
  std::string overwriterOf(int buffer, int64_t core) const;
  bool write(const Op &op, int buffer, int64_t core);
  void post(const Op &op, int route, int64_t core, int64_t elements);
  void take(const Op &op, int64_t core, int buffer);
  void send(const Op &op, int64_t core);
  void receive(const Op &op, int64_t core);
  void forward(const Op &op, int64_t core);
  void await(const Op &op, int64_t core);
  void compute(const Op &op, int64_t core);
  void repeat(const Op &op);
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
  const ResolvedRoute &found = routes.at(route, iteration);
  if (error.empty())
    error = routes.error;
  return found;
}

/// Calls `action` for the cores of an op's class, in the order of a message that goes up or down an axis.
template <typename Action> void Machine::forCores(const Op &op, bool descends, Action action) {
  auto [columns, rows] = coresOf(program, op, iteration, descends);
  for (int64_t y : rows)
    for (int64_t x : columns) {
      if (!isChecked[size_t(x)])
        continue;
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
       : flag & isReused
           ? "buffer \"" + name + "\" is read after " + overwriterOf(buffer, core) + " was written to its bytes"
           : "buffer \"" + name + "\" is read before anything was written to it");
  return false;
}

/// Returns the name of the buffer that was written to the bytes of another one.
std::string Machine::overwriterOf(int buffer, int64_t core) const {
  for (int other : sharing[size_t(buffer)])
    if (flags[size_t(other)][size_t(core)] & isSet)
      return "buffer \"" + program.buffers[size_t(other)].name + "\"";
  return "another one";
}

bool Machine::write(const Op &op, int buffer, int64_t core) {
  uint8_t &flag = flags[size_t(buffer)][size_t(core)];
  for (int other : sharing[size_t(buffer)]) {
    uint8_t &shared = flags[size_t(other)][size_t(core)];
    if (shared & (isSent | isReceived)) {
      fail(op, core,
           "race: buffer \"" + program.buffers[size_t(buffer)].name + "\" is written while buffer \"" +
               program.buffers[size_t(other)].name + "\", which shares bytes with it, is " +
               (shared & isSent ? "sent" : "received") + "; await the transfer before");
      return false;
    }
    if (shared & isSet)
      shared = isReused;
  }
  if (!(flag & (isSent | isReceived))) {
    flag = isSet;
    return true;
  }
  fail(op, core,
       "race: buffer \"" + program.buffers[size_t(buffer)].name + "\" is written while it is " +
           (flag & isSent ? "sent" : "received") + "; await the transfer before");
  return false;
}

/// Puts a message into the inboxes of all cores that its paths lead to.
void Machine::post(const Op &op, int route, int64_t core, int64_t elements) {
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
      if (inbox.isThere)
        return fail(op, core,
                    "a second message on @" + description.name +
                        " is sent before the first is received; receive it before");
      inbox = {true, core, elements};
      ++unreceived[size_t(core)];
    }
  }
}

void Machine::send(const Op &op, int64_t core) {
  int buffer = bound[size_t(op.slots[0])];
  if (!read(op, buffer, core))
    return;
  flags[size_t(buffer)][size_t(core)] |= isSent;
  post(op, op.route, core, program.buffers[size_t(buffer)].elements());
}

/// Takes the message of a route, which is stored in a buffer or added to it and so must have its size.
void Machine::take(const Op &op, int64_t core, int buffer) {
  Message &message = inboxes[size_t(op.route)][size_t(core)];
  const std::string &route = program.routes[size_t(op.route)].name;
  if (!message.isThere)
    return fail(op, core, "deadlock: no earlier op sends it a message on @" + route);
  --unreceived[size_t(message.core)];
  message.isThere = false;
  const CoreBuffer &own = program.buffers[size_t(buffer)];
  if (message.elements != own.elements())
    fail(op, core,
         "buffer \"" + own.name + "\" has " + std::to_string(own.elements()) + " elements, the message on @" + route +
             " has " + std::to_string(message.elements));
}

void Machine::receive(const Op &op, int64_t core) {
  int buffer = bound[size_t(op.slots[0])];
  if ((op.add && !read(op, buffer, core)) || !write(op, buffer, core))
    return;
  flags[size_t(buffer)][size_t(core)] |= isReceived;
  take(op, core, buffer);
}

/// Stores a message and sends it on from the buffer, or adds the buffer to it and sends the sum on.
void Machine::forward(const Op &op, int64_t core) {
  int buffer = bound[size_t(op.slots[0])];
  if (!op.add)
    receive(op, core);
  else if (read(op, buffer, core))
    take(op, core, buffer);
  if (!error.empty())
    return;
  flags[size_t(buffer)][size_t(core)] |= isSent;
  post(op, op.destination, core, program.buffers[size_t(buffer)].elements());
}

void Machine::await(const Op &op, int64_t core) {
  if (unreceived[size_t(core)] > 0)
    return fail(op, core, "deadlock: it waits for a message that it has sent, which no earlier op receives");
  for (int buffer : transferred)
    flags[size_t(buffer)][size_t(core)] &= isSet | isReused;
}

void Machine::compute(const Op &op, int64_t core) {
  int target = bound[size_t(op.slots[0])];
  for (size_t i = accumulates(op.compute) ? 0 : 1; i < op.slots.size(); ++i)
    if (!read(op, bound[size_t(op.slots[i])], core))
      return;
  for (size_t i = 1; i < op.slots.size() && !sharing[size_t(target)].empty(); ++i)
    if (int source = bound[size_t(op.slots[i])];
        program.buffers[size_t(source)].sharesBytesWith(program.buffers[size_t(target)]) && source != target)
      return fail(op, core,
                  "buffer \"" + program.buffers[size_t(target)].name + "\" is computed from buffer \"" +
                      program.buffers[size_t(source)].name + "\", which shares bytes with it");
  write(op, target, core);
}

void Machine::repeat(const Op &op) {
  std::vector<Snapshot> earlier; // it stops as soon as it goes in circles
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
    if (moves || !std::all_of(inboxes.begin(), inboxes.end(), [](const std::vector<Message> &inbox) {
          return std::none_of(inbox.begin(), inbox.end(), [](const Message &message) { return message.isThere; });
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

Machine::Machine(const Program &program) : program(program), routes(program), isChecked(distinctColumns(program)) {
  size_t cores = size_t(program.cores());
  bound.resize(size_t(program.slots));
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    bound[i] = int(i);
    flags.emplace_back(cores);
  }
  for (const CoreBuffer &buffer : program.buffers) {
    std::vector<int> &others = sharing.emplace_back();
    for (size_t i = 0; i < program.buffers.size(); ++i)
      if (&program.buffers[i] != &buffer && program.buffers[i].sharesBytesWith(buffer))
        others.push_back(int(i));
  }
  inboxes.assign(program.routes.size(), std::vector<Message>(cores));
  unreceived.resize(cores);
  for (const Binding &input : program.inputs) {
    std::fill(flags[size_t(input.slot)].begin(), flags[size_t(input.slot)].end(), uint8_t(isSet));
    for (const Binding &other : program.inputs)
      if (other.slot != input.slot && error.empty() &&
          program.buffers[size_t(other.slot)].sharesBytesWith(program.buffers[size_t(input.slot)]))
        error = "buffers \"" + program.buffers[size_t(input.slot)].name + "\" and \"" +
                program.buffers[size_t(other.slot)].name + "\" are both loaded, and share bytes";
  }
}

void Machine::finish() {
  auto nameOfCore = [this](size_t core) {
    return "core (" + std::to_string(int64_t(core) % program.columns) + ", " +
           std::to_string(int64_t(core) / program.columns) + ")";
  };
  for (size_t buffer = 0; buffer < flags.size(); ++buffer)
    for (size_t core = 0; core < flags[buffer].size() && error.empty(); ++core)
      if (flags[buffer][core] & (isSent | isReceived))
        error = nameOfCore(core) + " ends while buffer \"" + program.buffers[buffer].name + "\" is " +
                (flags[buffer][core] & isSent ? "sent" : "received") + "; add an await";
  for (const Binding &output : program.outputs)
    for (size_t core = 0; core < size_t(program.cores()) && error.empty(); ++core)
      if (isChecked[core % size_t(program.columns)] && !(flags[size_t(output.slot)][core] & isSet))
        error = "output " + std::to_string(output.argument) + ": buffer \"" +
                program.buffers[size_t(output.slot)].name + "\" of " + nameOfCore(core) +
                (flags[size_t(output.slot)][core] & isReused
                     ? " has bytes to which " + overwriterOf(output.slot, int64_t(core)) + " was written"
                     : " was never written");
}

std::string checkMemory(const Program &program) {
  int64_t bytes = program.bytesPerCore();
  if (bytes <= program.target.sramBytes)
    return "";
  return "needs " + std::to_string(bytes) + " bytes of each core, " + program.target.name + " has " +
         std::to_string(program.target.sramBytes);
}

} // namespace

std::string check(const Program &program) {
  if (std::string problem = checkMemory(program); !problem.empty())
    return problem;
  if (std::string problem = checkColors(program); !problem.empty())
    return problem;
  Machine machine(program);
  machine.run(program.ops);
  if (machine.error.empty())
    machine.finish();
  return machine.error;
}

} // namespace intarsia::wafer
