//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Kernels for grids as Tenstorrent's are, by the public documentation of TT-Metalium. A core has three: the reader
// takes inputs from DRAM and receives, the writer sends and puts outputs into DRAM, and the third computes. Buffers are
// circular buffers that stay full, so that each has one address on all cores. A receiver tells the sender when its
// memory is free, the sender writes over the network and tells the receiver when it is done: two semaphores for each
// route.
//
// Each kernel does its part of the program in order. All three meet where the program awaits; between, reader and
// writer wait for what was computed before a transfer, and sums wait for what arrives, by tokens in circular buffers.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/Wafer/Emit.h"
#include "lib/Target/Wafer/MetaliumTiles.h"
#include "lib/Target/Wafer/Roles.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

using namespace llvm;

namespace intarsia::wafer {
namespace {

constexpr int64_t tileSide = 32;
constexpr int64_t mostCircularBuffers = 32, mostSemaphores = 16; ///< of a core
/// Circular buffers of tokens: something for the third kernel to go on with, what it has computed for the others, and
/// results that it reads again.
enum Token { Go, DoneForReader, DoneForWriter, Stored, tokenCount };
constexpr StringRef tokenNames[] = {"GO", "DONE_FOR_READER", "DONE_FOR_WRITER", "STORED"};
constexpr int64_t tokenPages = 32, tokenBytes = 32; ///< waiting at once, and of one
/// Semaphores: how often reader and writer have met, then two for each route.
constexpr int64_t firstRouteSemaphore = 2;

int64_t tilesOf(const CoreBuffer &buffer) {
  return divideCeil(buffer.rows, tileSide) * divideCeil(buffer.columns, tileSide);
}
int64_t tileBytes(const CoreBuffer &buffer) { return tileSide * tileSide * (buffer.isHalf ? 2 : 4); }

/// Memory of a core: buffers of the program, then for each route what is combined when it arrives.
struct Memory {
  std::vector<CoreBuffer> buffers;
  std::map<int, int> inboxes; ///< route -> buffer

  int64_t bytes() const {
    int64_t sum = tokenCount * tokenPages * tokenBytes;
    for (const CoreBuffer &buffer : buffers)
      sum += tilesOf(buffer) * tileBytes(buffer);
    return sum;
  }
};

/// Where messages of a send go: the buffer of a slot, or the inbox of the route.
struct Target {
  bool isInbox = false;
  int slot = -1;
  bool operator==(const Target &) const = default;
};

bool receivesOn(const Op &op, int route) {
  return (op.kind == OpKind::Receive || op.kind == OpKind::Forward) && op.route == route;
}

/// The three kernels of one core.
class CoreWriter {
public:
  CoreWriter(const Program &program, const Memory &memory, int64_t column, int64_t row)
      : program(program), memory(memory), column(column), row(row) {}

  /// Returns the reader, the writer and the kernel that computes.
  Expected<std::array<std::string, 3>> write();

private:
  const Program &program;
  const Memory &memory;
  const int64_t column, row;
  std::string texts[3];
  std::string indent = "  ";
  int64_t computedForReader = 0, computedForWriter = 0; ///< groups of arithmetic that the kernel has not waited for
  bool computes = false;                                ///< in a group of arithmetic
  std::set<int> combined;                               ///< routes whose inboxes are in use until the next await
  int64_t iterations = 1;
  std::string problem;

  enum Kernel { Reader, Writer, Compute };
  void line(Kernel kernel, const Twine &text) { texts[kernel] += (indent + text + "\n").str(); }
  void lines(const Twine &text) {
    for (Kernel kernel : {Reader, Writer, Compute})
      line(kernel, text);
  }
  void fail(const Op &op, const Twine &what) {
    if (problem.empty())
      problem = ("@" + program.name + ": " + (op.where.empty() ? "" : op.where + ": ") + what).str();
  }
  static std::string nameOf(int slot) { return "slot_" + std::to_string(slot); }
  std::string inboxOf(int route) const { return nameOf(program.slots + memory.inboxes.at(route)); }
  bool isMember(const Op &op);
  std::vector<int64_t> senderOn(const Op &op, int route);
  void endGroup();
  void waitForResults(Kernel kernel);
  void meet();
  void receive(const Op &op);
  void send(const Op &op, int route, const std::string &source, Target target, const CoreBuffer &buffer);
  std::optional<Target> targetOf(const std::vector<Op> &ops, size_t at, int route);
  void combine(const Op &op, const std::string &to, const std::string &with, const CoreBuffer &buffer);
  void arithmetic(const Op &op);
  void gemm(const Op &op);
  void repeat(const Op &op);
  void emit(const std::vector<Op> &ops);
  const CoreBuffer &bufferOf(int slot) const { return memory.buffers[size_t(bound.at(slot))]; }
  std::map<int, int> bound; ///< slot -> a buffer of its shape
  std::string pages(const Binding &binding, size_t operand, bool loads);
  std::string constants(const std::map<int, int> &slots, StringRef kernel) const;
};

bool CoreWriter::isMember(const Op &op) {
  Membership x = membershipOf(op.cores.x, column, program.columns, iterations);
  Membership y = membershipOf(op.cores.y, row, program.rows, iterations);
  if (x == Membership::Never || y == Membership::Never)
    return false;
  if (x == Membership::Sometimes || y == Membership::Sometimes)
    fail(op, "its cores change from one iteration to the next, which kernels of TT-Metalium are not written for");
  return true;
}

/// Ends a group of arithmetic: tells the other kernels that it is done.
void CoreWriter::endGroup() {
  if (!computes)
    return;
  computes = false;
  for (Token token : {DoneForReader, DoneForWriter}) {
    line(Compute, "cb_reserve_back(" + tokenNames[token] + ", 1);");
    line(Compute, "cb_push_back(" + tokenNames[token] + ", 1);");
  }
  ++computedForReader, ++computedForWriter;
}

/// Lets the reader or the writer wait for all arithmetic before this place.
void CoreWriter::waitForResults(Kernel kernel) {
  int64_t &count = kernel == Reader ? computedForReader : computedForWriter;
  StringRef token = tokenNames[kernel == Reader ? DoneForReader : DoneForWriter];
  if (count > tokenPages && problem.empty())
    problem = "@" + program.name + ": more than " + std::to_string(tokenPages) +
              " groups of arithmetic lie between two transfers of a core";
  if (count > 0) {
    line(kernel, formatv("cb_wait_front({0}, {1});", token, count));
    line(kernel, formatv("cb_pop_front({0}, {1});", token, count));
  }
  count = 0;
}

/// All kernels wait until the transfers of the reader and the writer are done.
void CoreWriter::meet() {
  endGroup();
  combined.clear();
  for (Kernel kernel : {Reader, Writer}) {
    line(kernel, formatv("noc_semaphore_set(semaphore({0}), ++met);", kernel == Reader ? 0 : 1));
    line(kernel, formatv("noc_semaphore_wait_min(semaphore({0}), met);", kernel == Reader ? 1 : 0));
  }
  line(Reader, "cb_reserve_back(GO, 1);");
  line(Reader, "cb_push_back(GO, 1);");
  line(Compute, "cb_wait_front(GO, 1);");
  line(Compute, "cb_pop_front(GO, 1);");
}

/// Returns the column and row of the core that sends to this one.
std::vector<int64_t> CoreWriter::senderOn(const Op &op, int route) {
  const Route &of = program.routes[size_t(route)];
  bool alongX = of.axis == MeshAxis::X;
  std::string error;
  ResolvedRoute resolved = resolve(program, of, 0, error);
  int64_t own = alongX ? column : row;
  std::set<int64_t> senders;
  for (auto [start, legs] : enumerate(resolved.legs))
    for (const ResolvedRoute::Leg &leg : legs) {
      int64_t hops = leg.by > 0 ? own - int64_t(start) : int64_t(start) - own;
      if (leg.multicast ? hops > 0 && hops <= std::abs(leg.by) : int64_t(start) + leg.by == own)
        senders.insert(int64_t(start));
    }
  if (senders.size() != 1) {
    fail(op, "core (" + Twine(column) + ", " + Twine(row) + ") has " + Twine(senders.size()) + " senders on route @" +
                 of.name + ", must have one");
    return {0, 0};
  }
  return alongX ? std::vector<int64_t>{*senders.begin(), row} : std::vector<int64_t>{column, *senders.begin()};
}

void CoreWriter::receive(const Op &op) {
  std::vector<int64_t> sender = senderOn(op, op.route);
  int64_t ready = firstRouteSemaphore + 2 * op.route;
  endGroup();
  waitForResults(Reader);
  line(Reader, formatv("noc_semaphore_inc(at({0}, {1}, get_semaphore({2})), 1); // free for @{3}", sender[0], sender[1],
                       ready, program.routes[size_t(op.route)].name));
  line(Reader, formatv("noc_semaphore_wait(semaphore({0}), 1);", ready + 1));
  line(Reader, formatv("noc_semaphore_set(semaphore({0}), 0);", ready + 1));
  if (!op.add)
    return;
  if (!combined.insert(op.route).second)
    fail(op, "a second message that is combined arrives on route @" + program.routes[size_t(op.route)].name +
                 " before the first is awaited");
  line(Reader, "cb_reserve_back(GO, 1);");
  line(Reader, "cb_push_back(GO, 1);");
  line(Compute, "cb_wait_front(GO, 1);");
  line(Compute, "cb_pop_front(GO, 1);");
}

void CoreWriter::send(const Op &op, int route, const std::string &source, Target target, const CoreBuffer &buffer) {
  const Route &of = program.routes[size_t(route)];
  bool alongX = of.axis == MeshAxis::X;
  std::string error;
  ResolvedRoute resolved = resolve(program, of, 0, error);
  const auto &legs = resolved.legs[size_t(alongX ? column : row)];
  int64_t ready = firstRouteSemaphore + 2 * route, receivers = 0;
  std::string destination = target.isInbox ? inboxOf(route) : nameOf(target.slot);
  if (legs.empty())
    return fail(op,
                "route @" + of.name + " has no path that starts at core (" + Twine(column) + ", " + Twine(row) + ")");
  endGroup();
  waitForResults(Writer);
  for (const ResolvedRoute::Leg &leg : legs)
    receivers += leg.multicast ? std::abs(leg.by) : 1;
  line(Writer,
       formatv("noc_semaphore_wait(semaphore({0}), {1}); // all that receive on @{2}", ready, receivers, of.name));
  line(Writer, formatv("noc_semaphore_set(semaphore({0}), 0);", ready));
  auto forReceivers = [&](const Twine &call) {
    for (const ResolvedRoute::Leg &leg : legs) {
      int64_t own = alongX ? column : row, side = leg.by > 0 ? 1 : -1;
      int64_t first = leg.multicast ? own + side : own + leg.by, last = own + leg.by;
      std::string x = alongX ? "to" : std::to_string(column), y = alongX ? std::to_string(row) : "to";
      line(Writer, formatv("for (uint32_t to = {0}; to <= {1}; ++to)", std::min(first, last), std::max(first, last)));
      line(Writer, "  " + formatv(call.str().c_str(), x, y).str());
    }
  };
  forReceivers("noc_async_write(get_read_ptr(" + source + "), at({0}, {1}, get_read_ptr(" + destination + ")), " +
               Twine(tilesOf(buffer) * tileBytes(buffer)) + ");");
  line(Writer, "noc_async_write_barrier();");
  forReceivers("noc_semaphore_inc(at({0}, {1}, get_semaphore(" + Twine(ready + 1) + ")), 1);");
}

/// Returns where the message that op `at` sends on a route arrives: as the ops say that receive it.
std::optional<Target> CoreWriter::targetOf(const std::vector<Op> &ops, size_t at, int route) {
  std::optional<Target> target;
  for (size_t i = at; i < ops.size(); ++i) {
    if (i > at && ops[i].kind == OpKind::Send && ops[i].route == route)
      break;
    if (!receivesOn(ops[i], route))
      continue;
    Target one{ops[i].add, ops[i].add ? -1 : ops[i].slots[0]};
    if (target && *target != one) {
      fail(ops[i], "messages on route @" + program.routes[size_t(route)].name + " arrive in several buffers");
      return std::nullopt;
    }
    target = one;
  }
  if (!target)
    fail(ops[at], "nothing receives its message on route @" + program.routes[size_t(route)].name + " behind it");
  return target;
}

/// Adds a buffer to another one.
void CoreWriter::combine(const Op &op, const std::string &to, const std::string &with, const CoreBuffer &buffer) {
  if (op.maximum)
    return fail(op, "the larger of two messages is not computed by kernels of TT-Metalium; sums are");
  computes = true;
  line(Compute, formatv("add({0}, {1}, {2});", to, with, tilesOf(buffer)));
}

void CoreWriter::gemm(const Op &op) {
  const CoreBuffer &c = bufferOf(op.slots[0]), &a = bufferOf(op.slots[1]);
  line(Compute, formatv("multiply_tiles<{0}>({1}, {2}, {3}, {4}, {5}, {6});",
                        op.compute == ComputeKind::GemmTransposed ? "true" : "false", nameOf(op.slots[0]),
                        nameOf(op.slots[1]), nameOf(op.slots[2]), divideCeil(c.rows, tileSide),
                        divideCeil(c.columns, tileSide), divideCeil(a.columns, tileSide)));
}

void CoreWriter::arithmetic(const Op &op) {
  computes = true;
  const CoreBuffer &to = bufferOf(op.slots[0]);
  auto elements = [&](const char *name) {
    std::string other = op.slots.size() > 1 ? ", " + nameOf(op.slots[1]) : "";
    line(Compute, formatv("{0}({1}{2}, {3});", name, nameOf(op.slots[0]), other, tilesOf(to)));
  };
  switch (op.compute) {
  case ComputeKind::Zero:
    return elements("zero");
  case ComputeKind::Copy:
    return elements("copy");
  case ComputeKind::Add:
    return elements("add");
  case ComputeKind::Multiply:
    return elements("multiply");
  case ComputeKind::Silu:
    return elements("silu");
  case ComputeKind::Gelu:
    return elements("gelu");
  case ComputeKind::Relu:
    return elements("relu");
  case ComputeKind::Tanh:
    return elements("tanh");
  case ComputeKind::Gemm:
  case ComputeKind::GemmTransposed:
  case ComputeKind::Gemv:
    return gemm(op);
  default: // what does not keep the zeros that pad tiles, and sums of parts of tiles
    return fail(op, "its arithmetic is none of those that kernels of TT-Metalium have here: zero, copy, add, multiply, "
                    "silu, gelu, relu, tanh and products");
  }
}

void CoreWriter::repeat(const Op &op) {
  if (op.launches)
    return fail(op, "its iteration follows from the tokens of a cache, which kernels of TT-Metalium do not know");
  endGroup();
  waitForResults(Reader), waitForResults(Writer);
  for (auto [argument, slot] : zip_equal(op.arguments, op.slots)) {
    bound[argument] = bound[slot];
    lines("uint32_t " + nameOf(argument) + " = " + nameOf(slot) + ";");
  }
  lines(formatv("for (uint32_t iteration = 0; iteration < {0}; ++iteration) {{", op.count));
  iterations = op.count;
  indent += "  ";
  emit(op.body);
  endGroup();
  waitForResults(Reader), waitForResults(Writer);
  if (!combined.empty())
    fail(op, "an iteration ends before what arrives is awaited");
  for (auto [index, slot] : enumerate(op.yields))
    lines(formatv("const uint32_t next_{0} = {1};", index, nameOf(slot)));
  for (auto [index, argument] : enumerate(op.arguments))
    lines(formatv("{0} = next_{1};", nameOf(argument), index));
  iterations = 1;
  indent.resize(indent.size() - 2);
  lines("}");
}

void CoreWriter::emit(const std::vector<Op> &ops) {
  for (size_t i = 0; i < ops.size() && problem.empty(); ++i) {
    const Op &op = ops[i];
    if (!isMember(op))
      continue;
    switch (op.kind) {
    case OpKind::Await:
      meet();
      break;
    case OpKind::Compute:
      arithmetic(op);
      break;
    case OpKind::Repeat:
      repeat(op);
      break;
    case OpKind::Send:
      if (auto target = targetOf(ops, i, op.route))
        send(op, op.route, nameOf(op.slots[0]), *target, bufferOf(op.slots[0]));
      break;
    case OpKind::Receive:
      receive(op);
      if (op.add)
        combine(op, nameOf(op.slots[0]), inboxOf(op.route), bufferOf(op.slots[0]));
      break;
    case OpKind::Forward: {
      if (!op.add) {
        fail(op, "a message that is stored and passed on at once; receive it, await it and send it");
        break;
      }
      receive(op);
      combine(op, inboxOf(op.route), nameOf(op.slots[0]), bufferOf(op.slots[0]));
      if (auto target = targetOf(ops, i, op.destination))
        send(op, op.destination, inboxOf(op.route), *target, bufferOf(op.slots[0]));
      break;
    }
    }
  }
}

/// Returns the lines that copy the tiles of an input or output from or to the pages of its operand in DRAM; operands
/// are in the order of plan.json.
std::string CoreWriter::pages(const Binding &binding, size_t operand, bool loads) {
  const CoreBuffer &buffer = memory.buffers[size_t(binding.slot)];
  std::string name = (loads ? "input_" : "output_") + std::to_string(binding.argument);
  std::string text = formatv("  const InterleavedAddrGen<true> {0} = {{.bank_base_address = "
                             "get_common_arg_val<uint32_t>(COLUMNS + ROWS + {1}), .page_size = {2}};\n",
                             name, operand, tileBytes(buffer));
  text += formatv("  for (uint32_t tile = 0; tile < {0}; ++tile)\n", tilesOf(buffer));
  std::string page = formatv("get_noc_addr(first_core * {0} + tile, {1})", tilesOf(buffer), name);
  std::string memoryOf =
      formatv("get_{0}_ptr({1}) + tile * {2}", loads ? "write" : "read", nameOf(binding.slot), tileBytes(buffer));
  text += loads ? formatv("    noc_async_read({0}, {1}, {2});\n", page, memoryOf, tileBytes(buffer)).str()
                : formatv("    noc_async_write({0}, {1}, {2});\n", memoryOf, page, tileBytes(buffer)).str();
  return text;
}

/// Returns the numbers of circular buffers, and the place of the core, as far as a kernel has them.
std::string CoreWriter::constants(const std::map<int, int> &slots, StringRef kernel) const {
  std::string text;
  auto has = [&](StringRef name) {
    auto ofName = [](char c) { return isAlnum(c) || c == '_'; };
    for (size_t at = kernel.find(name); at != StringRef::npos; at = kernel.find(name, at + 1))
      if (StringRef rest = kernel.substr(at + name.size()); !ofName(kernel[at - 1]) && !ofName(rest.front()))
        return true;
    return false;
  };
  for (auto [slot, buffer] : slots)
    if (has(nameOf(slot)))
      text += formatv("  constexpr uint32_t {0} = {1}; // {2}\n", nameOf(slot), buffer,
                      memory.buffers[size_t(buffer)].name);
  for (int token = 0; token < tokenCount; ++token)
    if (has(tokenNames[token]))
      text += formatv("  constexpr uint32_t {0} = {1};\n", tokenNames[token], memory.buffers.size() + size_t(token));
  if (has("first_core"))
    text += "  const uint32_t first_core = get_arg_val<uint32_t>(1) * COLUMNS + get_arg_val<uint32_t>(0);\n";
  return text;
}

Expected<std::array<std::string, 3>> CoreWriter::write() {
  for (size_t i = 0; i < memory.buffers.size(); ++i)
    bound[i < program.buffers.size() ? int(i) : program.slots + int(i)] = int(i);
  const std::map<int, int> fixed = bound; // before loops have arguments
  std::string data =
      formatv("#include <stdint.h>\n\n#include \"dataflow_api.h\"\n\nconstexpr uint32_t COLUMNS = {0}, ROWS "
              "= {1};\n\n"
              "// The address on another core of the grid; arguments have the places of columns and rows.\n"
              "inline uint64_t at(uint32_t x, uint32_t y, uint32_t address) {{\n"
              "  return get_noc_addr(get_common_arg_val<uint32_t>(x), get_common_arg_val<uint32_t>(COLUMNS "
              "+ y), address);\n}\n"
              "inline volatile tt_l1_ptr uint32_t *semaphore(uint32_t number) {{\n"
              "  return reinterpret_cast<volatile tt_l1_ptr uint32_t *>(get_semaphore(number));\n}\n\n"
              "void kernel_main() {{\n",
              program.columns, program.rows);
  for (Kernel kernel : {Reader, Writer})
    line(kernel, "uint32_t met = 0;");
  for (auto [operand, input] : enumerate(program.inputs))
    texts[Reader] += pages(input, operand, true);
  line(Reader, "noc_async_read_barrier();");
  for (auto [slot, buffer] : bound) { // they stay full
    int64_t tiles = tilesOf(memory.buffers[size_t(buffer)]);
    line(Reader, formatv("cb_reserve_back({0}, {1});", nameOf(slot), tiles));
    line(Reader, formatv("cb_push_back({0}, {1});", nameOf(slot), tiles));
    line(Compute, formatv("cb_wait_front({0}, {1});", nameOf(slot), tiles));
  }
  line(Compute, "begin(" + nameOf(0) + ", STORED);");
  meet();
  emit(program.ops);
  endGroup();
  waitForResults(Reader), waitForResults(Writer);
  for (auto [index, output] : enumerate(program.outputs))
    texts[Writer] += pages(output, program.inputs.size() + index, false);
  line(Writer, "noc_async_write_barrier();");
  if (!problem.empty())
    return createStringError(problem);
  std::string compute = "#include <cstdint>\n\n#include \"intarsia_tiles.h\"\n\nnamespace NAMESPACE {\nvoid MAIN {\n";
  return std::array<std::string, 3>{data + constants(fixed, texts[Reader]) + texts[Reader] + "}\n",
                                    data + constants(fixed, texts[Writer]) + texts[Writer] + "}\n",
                                    compute + constants(fixed, texts[Compute]) + texts[Compute] +
                                        "}\n} // namespace NAMESPACE\n"};
}

/// Returns plan.json: the circular buffers, semaphores and kernels of each core, and where operands lie. A host sets
/// these up.
json::Object planOf(const Program &program, const Memory &memory, int64_t semaphores, json::Array cores) {
  json::Array buffers, operands;
  for (const CoreBuffer &buffer : memory.buffers)
    buffers.push_back(json::Object{{"name", buffer.name},
                                   {"format", buffer.isHalf ? "Float16" : "Float32"},
                                   {"pages", tilesOf(buffer)},
                                   {"page_bytes", tileBytes(buffer)}});
  for (StringRef name : tokenNames)
    buffers.push_back(
        json::Object{{"name", name}, {"format", "Float32"}, {"pages", tokenPages}, {"page_bytes", tokenBytes}});
  for (bool isInput : {true, false})
    for (const Binding &b : isInput ? program.inputs : program.outputs) {
      const CoreBuffer &buffer = program.buffers[size_t(b.slot)];
      json::Object operand = tilesOfOperand(b, buffer);
      operand["input"] = isInput;
      operand["element"] = buffer.isHalf ? "f16" : "f32";
      operands.push_back(std::move(operand));
    }
  return json::Object{{"columns", program.columns},      {"rows", program.rows},
                      {"semaphores", semaphores},        {"circular_buffers", std::move(buffers)},
                      {"operands", std::move(operands)}, {"cores", std::move(cores)}};
}

void findInboxes(const Program &program, const std::vector<Op> &ops, std::vector<int> &bound, Memory &memory) {
  for (const Op &op : ops) {
    for (auto [argument, slot] : zip(op.arguments, op.slots))
      bound[size_t(argument)] = bound[size_t(slot)];
    findInboxes(program, op.body, bound, memory);
    if (!op.add)
      continue;
    CoreBuffer buffer = program.buffers[size_t(bound[size_t(op.slots[0])])];
    auto [found, isNew] = memory.inboxes.try_emplace(op.route, int(memory.buffers.size()));
    buffer.name = "inbox of @" + program.routes[size_t(op.route)].name;
    if (isNew)
      memory.buffers.push_back(buffer);
    else if (CoreBuffer &known = memory.buffers[size_t(found->second)]; tilesOf(known) < tilesOf(buffer))
      known = buffer;
  }
}

/// Refuses programs for which a core has too little.
Error checkResources(const Program &program, const Memory &memory, int64_t semaphores) {
  auto refuse = [&](const Twine &what) { return createStringError("@" + program.name + " " + what); };
  for (const std::vector<Binding> &bindings : {program.inputs, program.outputs})
    for (const Binding &binding : bindings)
      if (binding.tiles.extent != 0)
        return refuse("moves a matrix between grids, which its kernels do not");
  for (const CoreBuffer &buffer : memory.buffers) {
    if (buffer.codeBits)
      return refuse("has quantized values in buffer \"" + buffer.name + "\", which its kernels do not decode");
    if (buffer.isHalf != memory.buffers[0].isHalf)
      for (const auto &[route, inbox] : memory.inboxes)
        if (memory.buffers[size_t(inbox)].name == buffer.name && buffer.isHalf)
          return refuse("adds messages of f16 beside buffers of f32, which kernels of TT-Metalium do not");
  }
  if (int64_t count = int64_t(memory.buffers.size()) + tokenCount; count > mostCircularBuffers)
    return refuse("needs " + Twine(count) + " circular buffers, a core has " + Twine(mostCircularBuffers));
  if (semaphores > mostSemaphores)
    return refuse("has " + Twine(program.routes.size()) + " routes with two semaphores each, a core has " +
                  Twine(mostSemaphores) + " semaphores, two of them for its kernels");
  if (memory.bytes() + program.target.reservedBytes > program.target.sramBytes)
    return refuse("needs " + Twine(memory.bytes() + program.target.reservedBytes) + " bytes of each core in tiles of " +
                  Twine(tileSide) + " by " + Twine(tileSide) + ", " + program.target.name + " has " +
                  Twine(program.target.sramBytes));
  return Error::success();
}

} // namespace

Expected<std::vector<EmittedFile>> emitMetalium(const Program &program) {
  if (!program.columnsAt.empty())
    return createStringError("@" + program.name +
                             ": its grid leaves out columns or rows of the wafer, which the sources that are written "
                             "here do not; take a smaller grid, or let the host map around cores that do not work");
  if (Expected<Roles> roles = Roles::of(program); !roles) // routes that move
    return roles.takeError();
  Memory memory{program.buffers, {}};
  std::vector<int> bound(size_t(program.slots));
  for (size_t i = 0; i < program.buffers.size(); ++i)
    bound[i] = int(i);
  findInboxes(program, program.ops, bound, memory);
  int64_t semaphores = firstRouteSemaphore + 2 * int64_t(program.routes.size());
  if (Error error = checkResources(program, memory, semaphores))
    return std::move(error);
  std::vector<EmittedFile> files{{"intarsia_tiles.h", metaliumTiles}};
  std::map<std::string, std::string> known; // text -> name of the file
  json::Array cores;
  for (int64_t row = 0; row < program.rows; ++row)
    for (int64_t column = 0; column < program.columns; ++column) {
      Expected<std::array<std::string, 3>> texts = CoreWriter(program, memory, column, row).write();
      if (!texts)
        return texts.takeError();
      json::Object core{{"column", column}, {"row", row}};
      constexpr StringRef kinds[] = {"reader", "writer", "compute"};
      for (auto [index, kind] : enumerate(kinds)) {
        std::string name = formatv("{0}_{1}.cpp", kind, known.size());
        auto [found, isNew] = known.try_emplace((*texts)[index], name);
        if (isNew)
          files.push_back({name, (*texts)[index]});
        core[kind] = found->second;
      }
      cores.push_back(std::move(core));
    }
  files.push_back(
      {"plan.json", formatv("{0:2}\n", json::Value(planOf(program, memory, semaphores, std::move(cores))))});
  return files;
}

} // namespace intarsia::wafer
