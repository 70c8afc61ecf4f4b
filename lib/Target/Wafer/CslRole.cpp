//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// CSL, as Cerebras' public documentation and examples have it. A core starts its transfers asynchronously and computes
// while they run; where the program awaits them, its steps end, and the last transfer that ends starts the next step.
// Queues and tasks have numbers of hardware: each color that a core sends or receives has a queue, which is a thread of
// its transfers too, so that no queue serves both directions.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/Wafer/CslRole.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace llvm;

namespace intarsia::wafer {
namespace {

// The SDK copies data from and to the host with some queues and tasks of a core. These are left for programs, by its
// public examples.
constexpr int64_t firstQueue = 2, lastInputQueue = 7, lastOutputQueue = 5;
constexpr int64_t tasks[] = {8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 24, 25, 26};

std::string literal(double value) {
  std::string text = formatv("{0:E8}", value).str();
  return value < 0 ? "(" + text + ")" : text;
}

/// The source of the cores of one class.
class RoleWriter {
public:
  RoleWriter(const Program &program, const Roles &roles, int64_t column, int64_t row)
      : program(program), roles(roles), column(column), row(row), buffers(cslNamesOf(program)),
        bound(size_t(program.slots)) {
    for (size_t i = 0; i < program.buffers.size(); ++i)
      bound[i] = int(i);
  }

  Expected<std::string> write();
  /// True if the source has the parameter, which the layout gives.
  bool usesColumn = false, usesRow = false;

private:
  const Program &program;
  const Roles &roles;
  const int64_t column, row; ///< of a core of the class
  std::vector<std::string> buffers;
  std::vector<int> bound;                      ///< slot -> a buffer of its shape
  std::map<int64_t, int64_t> inputs, outputs;  ///< color -> index of its queue
  std::map<std::string, std::string> accesses; ///< DSDs, by name
  std::vector<int> loopSlots;                  ///< of arguments of loops
  int64_t iterations = 1;                      ///< of the loop that ops are in
  std::vector<std::string> steps{""};
  size_t inFlight = 0, mostInFlight = 0;
  bool usesTokens = false, usesMath = false, usesErf = false, usesIteration = false;
  std::string problem;

  void fail(const Op &op, const Twine &what) {
    if (problem.empty())
      problem = (op.where.empty() ? "" : op.where + ": ") + what.str();
  }
  void line(const Twine &text) { steps.back() += ("  " + text + "\n").str(); }

  const CoreBuffer &bufferOf(int slot) const { return program.buffers[size_t(bound[size_t(slot)])]; }
  bool isBuffer(int slot) const { return size_t(slot) < buffers.size(); }
  /// Returns the elements of a slot as an array or a pointer to its first element.
  std::string data(int slot) const { return isBuffer(slot) ? buffers[size_t(slot)] : "slot_" + std::to_string(slot); }
  std::string access(int slot, int64_t count, int64_t stride);
  std::string whole(int slot) { return access(slot, bufferOf(slot).elements(), 1); }
  std::string rowOf(int slot, const Twine &first);
  std::string fabric(bool sends, int64_t color, int64_t count);
  bool isMember(const Op &op, std::string &condition);
  void moveDsd(const Op &op, const std::string &to, bool toHalf, const std::string &from, bool fromHalf);
  std::string combining(const Op &op, bool isHalf) {
    return (op.maximum ? "@fmax" : "@fadd") + std::string(isHalf ? "h" : "s");
  }
  std::optional<int64_t> colorOf(const Op &op, int route, bool sends);
  void transfer(const Op &op);
  void compute(const Op &op);
  void multiply(const Op &op);
  void elements(const Op &op);
  void sumRows(const Op &op);
  void tokensOp(const Op &op);
  void repeat(const Op &op);
  void emit(const std::vector<Op> &ops);
  void endStep(const Twine &last);
  std::string declarations();
};

/// Returns the DSD of elements 0, stride, 2 * stride, … of a slot, which is declared where that is not done yet.
std::string RoleWriter::access(int slot, int64_t count, int64_t stride) {
  std::string name = data(slot) + "_dsd";
  if (stride != 1 || count != bufferOf(slot).elements())
    name += "_" + std::to_string(count) + "_by_" + std::to_string(stride);
  std::string index = stride == 1 ? "i" : "i * " + std::to_string(stride);
  accesses[name] = formatv("{0} {1} = @get_dsd(mem1d_dsd, .{{ .tensor_access = |i|{{{2}} -> {3}[{4}] });\n",
                           isBuffer(slot) ? "const" : "var", name, count, buffers[size_t(bound[size_t(slot)])], index);
  return isBuffer(slot) ? name : "@set_dsd_base_addr(" + name + ", " + data(slot) + ")";
}

/// Returns the DSD of a row of a slot; `first` is the index of its first element.
std::string RoleWriter::rowOf(int slot, const Twine &first) {
  const CoreBuffer &buffer = bufferOf(slot);
  return formatv("@increment_dsd_offset({0}, {1}, {2})", access(slot, buffer.columns, 1), first.str(),
                 cslTypeOf(buffer));
}

std::string RoleWriter::fabric(bool sends, int64_t color, int64_t count) {
  std::map<int64_t, int64_t> &queues = sends ? outputs : inputs;
  queues.try_emplace(color, int64_t(queues.size()));
  std::string way = sends ? "out" : "in", name = formatv("{0}_{1}_{2}", way, color, count);
  accesses[name] = formatv(
      "const {0} = @get_dsd(fab{1}_dsd, .{{ .extent = {2}, .fabric_color = color_{3}, .{4}_queue = {1}_{3} });\n", name,
      way, count, color, sends ? "output" : "input");
  return name;
}

/// Returns true if cores of the class do the op; `condition` is what says so at run time, or empty.
bool RoleWriter::isMember(const Op &op, std::string &condition) {
  auto test = [&](const Range &range, int64_t position, int64_t extent, const char *name, bool &uses) {
    Membership membership = membershipOf(range, position, extent, iterations);
    if (membership != Membership::Sometimes)
      return membership == Membership::Always;
    if (range.ring)
      fail(op, "its cores move along a ring, which cannot be said in CSL");
    uses = usesIteration = true;
    std::string from = formatv("({0} + {1} * iteration)", range.start, range.startMoves);
    if (!condition.empty())
      condition += " and ";
    condition += formatv("{0} >= {1} and {0} < {2} + {3} * iteration", name, from, range.end, range.endMoves);
    if (range.period != 1)
      condition += formatv(" and ({0} - {1}) % {2} < {3}", name, from, range.period, range.width);
    return true;
  };
  return test(op.cores.x, column, program.columns, "column", usesColumn) &&
         test(op.cores.y, row, program.rows, "row", usesRow);
}

void RoleWriter::moveDsd(const Op &op, const std::string &to, bool toHalf, const std::string &from, bool fromHalf) {
  StringRef move = toHalf == fromHalf ? toHalf ? "@fmovh" : "@fmovs" : toHalf ? "@fs2h" : "@fh2s";
  line(move + "(" + to + ", " + from + ");");
}

std::optional<int64_t> RoleWriter::colorOf(const Op &op, int route, bool sends) {
  const Route &of = program.routes[size_t(route)];
  const RouteEnds &ends = roles.ends(route, of.axis == MeshAxis::X ? column : row);
  std::optional<int64_t> color = sends ? ends.sends : ends.receives;
  if (!color)
    fail(op, "a core of column " + Twine(column) + " and row " + Twine(row) + " uses route @" + of.name +
                 ", which has no path for it");
  return color;
}

void RoleWriter::transfer(const Op &op) {
  const CoreBuffer &buffer = bufferOf(op.slots[0]);
  bool sends = op.kind != OpKind::Receive, receives = op.kind != OpKind::Send;
  std::optional<int64_t> from = receives ? colorOf(op, op.route, false) : std::nullopt;
  std::optional<int64_t> to = sends ? colorOf(op, receives ? op.destination : op.route, true) : std::nullopt;
  if ((receives && !from) || (sends && !to))
    return;
  std::string memory = whole(op.slots[0]), move = buffer.isHalf ? "@fmovh" : "@fmovs";
  std::string in = receives ? fabric(false, *from, buffer.elements()) : "";
  std::string out = sends ? fabric(true, *to, buffer.elements()) : "";
  std::string call;
  if (!receives) {
    call = move + "(" + out + ", " + memory;
  } else if (!sends) {
    call = op.add ? combining(op, buffer.isHalf) + "(" + memory + ", " + memory + ", " + in
                  : move + "(" + memory + ", " + in;
  } else if (op.add) {
    call = combining(op, buffer.isHalf) + "(" + out + ", " + memory + ", " + in;
  } else {
    return fail(op, "a message that is stored and passed on at once; receive it, await it and send it in CSL");
  }
  line("pending += 1;");
  line(call + ", .{ .async = true, .activate = done_" + Twine(inFlight) + "_id });");
  mostInFlight = std::max(mostInFlight, ++inFlight);
}

/// C += A B or A B^T: for each element of B, the rows of A; for one row, for each element of A, the columns of C.
void RoleWriter::multiply(const Op &op) {
  int c = op.slots[0], a = op.slots[1], b = op.slots[2];
  const CoreBuffer &of = bufferOf(c), &left = bufferOf(a), &right = bufferOf(b);
  if (left.isHalf != right.isHalf || (of.isHalf && !left.isHalf))
    return fail(op, "a product of " + cslTypeOf(left) + " and " + cslTypeOf(right) + " in " + cslTypeOf(of) +
                        " is no instruction of a core");
  std::string name = of.isHalf ? "@fmach" : left.isHalf ? "@fmachs" : "@fmacs";
  bool transposed = op.compute == ComputeKind::GemmTransposed;
  line(formatv("for (@range(i16, {0})) |k| {{", left.columns));
  if (of.rows == 1 && !transposed) {
    line("  " + name + "(" + whole(c) + ", " + whole(c) + ", " + rowOf(b, "k * " + Twine(of.columns)) + ", " + data(a) +
         "[k]);");
  } else {
    line(formatv("  for (@range(i16, {0})) |n| {{", of.columns));
    std::string to = formatv("@increment_dsd_offset({0}, n, {1})", access(c, of.rows, of.columns), cslTypeOf(of));
    std::string from = formatv("@increment_dsd_offset({0}, k, {1})", access(a, of.rows, left.columns), cslTypeOf(left));
    std::string index =
        transposed ? "n * " + std::to_string(left.columns) + " + k" : "k * " + std::to_string(of.columns) + " + n";
    line("    const to = " + to + ";");
    line("    " + name + "(to, to, " + from + ", " + data(b) + "[" + index + "]);");
    line("  }");
  }
  line("}");
}

void RoleWriter::sumRows(const Op &op) {
  const CoreBuffer &from = bufferOf(op.slots[1]), &to = bufferOf(op.slots[0]);
  std::string value = formatv("@as(f32, {0}[m * {1} + n])", data(op.slots[1]), from.columns);
  line(formatv("for (@range(i16, {0})) |m| {{", from.rows));
  bool largest = op.compute == ComputeKind::Largest;
  line(formatv("  var sum: f32 = {0};",
               largest ? formatv("@as(f32, {0}[m * {1}])", data(op.slots[1]), from.columns).str() : "0.0"));
  line(formatv("  for (@range(i16, {0})) |n| {{", from.columns));
  line("    const value: f32 = " + value + ";");
  line(largest                          ? "    if (value > sum) { sum = value; }"
       : op.compute == ComputeKind::Sum ? "    sum += value;"
                                        : "    sum += value * value;");
  line("  }");
  line(formatv("  {0}[m] = @as({1}, sum);", data(op.slots[0]), cslTypeOf(to)));
  line("}");
}

/// A function of each element, in f32.
void RoleWriter::elements(const Op &op) {
  const CoreBuffer &to = bufferOf(op.slots[0]);
  std::string x = "x", result;
  auto needsMath = [&](const char *text) {
    usesMath = true;
    return text;
  };
  std::string affine = formatv("{0} * x + {1}", literal(op.factor), literal(op.addend));
  std::string index = spreadsOverRows(op.compute) ? "m" : formatv("m * {0} + n", to.columns).str();
  std::string old = formatv("@as(f32, {0}[m * {1} + n])", data(op.slots[0]), to.columns);
  switch (op.compute) {
  case ComputeKind::Add:
  case ComputeKind::Shift:
    result = old + " + x";
    break;
  case ComputeKind::Multiply:
  case ComputeKind::Scale:
    result = old + " * x";
    break;
  case ComputeKind::Affine:
    result = affine;
    break;
  case ComputeKind::Rsqrt:
    result = needsMath("1.0 / math.sqrt_f32(") + affine + ")";
    break;
  case ComputeKind::Reciprocal:
    result = "1.0 / x";
    break;
  case ComputeKind::Exp:
    result = needsMath("math.exp_f32(x)");
    break;
  case ComputeKind::Silu:
    result = needsMath("x / (1.0 + math.exp_f32(-x))");
    break;
  case ComputeKind::Gelu:
    usesErf = true;
    result = needsMath("0.5 * x * (1.0 + erf(x * 0.70710678))");
    break;
  case ComputeKind::GeluTanh:
    result = needsMath("0.5 * x * (1.0 + math.tanh_f32(0.79788456 * (x + 0.044715 * x * x * x)))");
    break;
  case ComputeKind::Relu:
    result = needsMath("math.max_f32(x, 0.0)");
    break;
  case ComputeKind::Tanh:
    result = needsMath("math.tanh_f32(x)");
    break;
  default:
    return fail(op, "its arithmetic cannot be said in CSL");
  }
  line(formatv("for (@range(i16, {0})) |m| {{", to.rows));
  line(formatv("  for (@range(i16, {0})) |n| {{", to.columns));
  line(formatv("    const x: f32 = @as(f32, {0}[{1}]);", data(op.slots[1]), index));
  line(formatv("    {0}[m * {1} + n] = @as({2}, {3});", data(op.slots[0]), to.columns, cslTypeOf(to), result));
  line("  }");
  line("}");
}

/// Writes ops that need the tokens of a cache: they move entries, or hide scores.
void RoleWriter::tokensOp(const Op &op) {
  usesTokens = usesRow = true;
  bool takes = op.compute == ComputeKind::Take;
  if (takes || op.compute == ComputeKind::Put) {
    int cache = op.slots[takes ? 1 : 0], entry = op.slots[takes ? 0 : 1];
    const CoreBuffer &slots = bufferOf(cache);
    std::string token =
        takes ? "tokens_before(tokens[0])" : "(tokens_before(tokens[0] + 1) + tokens_here(tokens[0] + 1) - 1)";
    line("{");
    line(formatv("  const first: i16 = @as(i16, {0} % {1}) * {2};", token, slots.rows, slots.columns));
    std::string stored = rowOf(cache, "first"), moved = whole(entry);
    moveDsd(op, takes ? moved : stored, bufferOf(takes ? entry : cache).isHalf, takes ? stored : moved,
            bufferOf(takes ? cache : entry).isHalf);
    line("}");
    return;
  }
  const CoreBuffer &scores = bufferOf(op.slots[0]);
  std::string position = data(op.slots[1]) + "[m]";
  std::string hidden = "token >= first + tokens_here(tokens[0]) or @as(f32, token) > " + position;
  if (op.factor != 0)
    hidden += " or @as(f32, token) <= " + position + " - " + literal(op.factor);
  line("{");
  line("  const first: i32 = tokens_before(tokens[0]);");
  line(formatv("  for (@range(i16, {0})) |n| {{", scores.columns));
  line(formatv("    const token: i32 = first + (@as(i32, n) - first % {0} + {0}) % {0};", scores.columns));
  line(formatv("    for (@range(i16, {0})) |m| {{", scores.rows));
  line("      if (" + hidden + ") {");
  line(formatv("        {0}[m * {1} + n] = @as({2}, {3});", data(op.slots[0]), scores.columns, cslTypeOf(scores),
               literal(-1e30)));
  line("      }");
  line("    }");
  line("  }");
  line("}");
}

void RoleWriter::compute(const Op &op) {
  const CoreBuffer &to = bufferOf(op.slots[0]);
  std::string suffix = to.isHalf ? "h" : "s";
  switch (op.compute) {
  case ComputeKind::Zero:
    return line("@fmov" + suffix + "(" + whole(op.slots[0]) + ", @as(" + cslTypeOf(to) + ", 0.0));");
  case ComputeKind::Copy:
    return moveDsd(op, whole(op.slots[0]), to.isHalf, whole(op.slots[1]), bufferOf(op.slots[1]).isHalf);
  case ComputeKind::Add:
  case ComputeKind::Multiply:
    if (to.isHalf != bufferOf(op.slots[1]).isHalf)
      return elements(op);
    return line((op.compute == ComputeKind::Add ? "@fadd" : "@fmul") + suffix + "(" + whole(op.slots[0]) + ", " +
                whole(op.slots[0]) + ", " + whole(op.slots[1]) + ");");
  case ComputeKind::Gemm:
  case ComputeKind::GemmTransposed:
  case ComputeKind::Gemv:
    return multiply(op);
  case ComputeKind::Sum:
  case ComputeKind::SumSquares:
  case ComputeKind::Largest:
    return sumRows(op);
  case ComputeKind::Mask:
  case ComputeKind::Take:
  case ComputeKind::Put:
    return tokensOp(op);
  case ComputeKind::Rotate: {
    usesMath = true;
    int64_t half = to.columns / 2;
    std::string x = data(op.slots[0]), type = cslTypeOf(to).str();
    line(formatv("for (@range(i16, {0})) |m| {{", to.rows));
    line(formatv("  for (@range(i16, {0})) |n| {{", half));
    line(formatv("    const angle: f32 = @as(f32, {0}[m]) * @as(f32, {1}[n]);", data(op.slots[1]), data(op.slots[2])));
    line(formatv("    const cosine: f32 = {0} * math.cos_f32(angle);", literal(op.factor)));
    line(formatv("    const sine: f32 = {0} * math.sin_f32(angle);", literal(op.factor)));
    line(formatv("    const low: f32 = @as(f32, {0}[m * {1} + n]);", x, to.columns));
    line(formatv("    const high: f32 = @as(f32, {0}[m * {1} + {2} + n]);", x, to.columns, half));
    line(formatv("    {0}[m * {1} + n] = @as({2}, low * cosine - high * sine);", x, to.columns, type));
    line(formatv("    {0}[m * {1} + {2} + n] = @as({3}, high * cosine + low * sine);", x, to.columns, half, type));
    line("  }");
    line("}");
    return;
  }
  default:
    return elements(op);
  }
}

/// Ends a step with what starts the next one.
void RoleWriter::endStep(const Twine &last) {
  line(last);
  steps.push_back("");
  inFlight = 0;
}

void RoleWriter::repeat(const Op &op) {
  if (inFlight > 0)
    return fail(op, "a loop begins while transfers are under way; await them before");
  for (auto [argument, slot] : zip_equal(op.arguments, op.slots)) {
    bound[size_t(argument)] = bound[size_t(slot)];
    loopSlots.push_back(argument);
    line(data(argument) + " = " + (isBuffer(slot) ? "&" : "") + data(slot) + ";");
  }
  iterations = op.count;
  auto restore = make_scope_exit([&] { iterations = 1; });
  if (op.launches) {
    usesTokens = usesRow = usesIteration = true;
    line(formatv("iteration = @as(i16, tokens[0] % {0});", op.count));
    emit(op.body);
    return;
  }
  usesIteration = true;
  line("iteration = 0;");
  size_t first = steps.size();
  endStep(formatv("go({0});", first));
  emit(op.body);
  if (inFlight > 0)
    return fail(op, "an iteration ends while transfers are under way; await them before");
  for (auto [index, slot] : enumerate(op.yields))
    line(formatv("const next_{0} = {1}{2};", index, isBuffer(slot) ? "&" : "", data(slot)));
  for (auto [index, argument] : enumerate(op.arguments))
    line(formatv("{0} = next_{1};", data(argument), index));
  line("iteration += 1;");
  endStep(formatv("if (iteration < {0}) {{ go({1}); } else {{ go({2}); }", op.count, first, steps.size()));
}

void RoleWriter::emit(const std::vector<Op> &ops) {
  for (const Op &op : ops) {
    std::string condition;
    if (!problem.empty() || !isMember(op, condition))
      continue;
    if (!condition.empty() && (op.kind == OpKind::Await || op.kind == OpKind::Repeat))
      return fail(op, "its cores change while the program runs; only transfers and arithmetic may do so in CSL");
    if (op.kind == OpKind::Await) {
      if (inFlight > 0)
        endStep(formatv("wait({0});", steps.size()));
      continue;
    }
    if (op.kind == OpKind::Repeat) {
      repeat(op);
      continue;
    }
    if (!condition.empty())
      line("if (" + condition + ") {");
    op.kind == OpKind::Compute ? compute(op) : transfer(op);
    if (!condition.empty())
      line("}");
  }
}

/// Returns everything before the steps, once these are written.
std::string RoleWriter::declarations() {
  std::string text;
  raw_string_ostream out(text);
  out << "param memcpy_params: comptime_struct;\n";
  if (usesColumn)
    out << "param column: i16;\n";
  if (usesRow)
    out << "param row: i16;\n";
  out << "\nconst sys_mod = @import_module(\"<memcpy/memcpy>\", memcpy_params);\n";
  if (usesMath)
    out << "const math = @import_module(\"<math>\");\n";
  out << '\n';
  std::set<int64_t> colors;
  for (const auto &queues : {inputs, outputs})
    for (auto [color, index] : queues)
      colors.insert(color);
  for (int64_t color : colors)
    out << formatv("const color_{0}: color = @get_color({0});\n", color);
  for (auto [color, index] : inputs)
    out << formatv("const in_{0}: input_queue = @get_input_queue({1});\n", color, lastInputQueue - index);
  for (auto [color, index] : outputs)
    out << formatv("const out_{0}: output_queue = @get_output_queue({1});\n", color, firstQueue + index);
  SmallVector<int64_t> free;
  for (int64_t task : tasks) // on the WSE-2 colors and tasks have the same numbers
    if (!colors.count(task))
      free.push_back(task);
  if (inputs.size() + outputs.size() > size_t(lastInputQueue - firstQueue + 1) ||
      outputs.size() > size_t(lastOutputQueue - firstQueue + 1) || free.size() < 1 + mostInFlight)
    problem = formatv("a core of column {0} and row {1} receives {2} colors and sends {3}, with {4} transfers at once; "
                      "CSL has {5} queues, {6} of them to send, and {7} tasks for them",
                      column, row, inputs.size(), outputs.size(), mostInFlight, lastInputQueue - firstQueue + 1,
                      lastOutputQueue - firstQueue + 1, free.size());
  else
    for (size_t i = 0; i <= mostInFlight; ++i)
      out << formatv("const {0}_id: local_task_id = @get_local_task_id({1});\n",
                     i == 0 ? "advance" : "done_" + std::to_string(i - 1), free[i]);
  out << '\n';
  for (auto [index, buffer] : enumerate(program.buffers))
    out << formatv("var {0} = @zeros([{1}]{2});\n", buffers[index], buffer.elements(), cslTypeOf(buffer));
  for (int slot : loopSlots)
    out << formatv("var {0}: [*]{1} = &{2};\n", data(slot), cslTypeOf(bufferOf(slot)),
                   buffers[size_t(bound[size_t(slot)])]);
  if (usesTokens)
    out << "var tokens = @zeros([1]i32);\n";
  out << '\n';
  for (const auto &[name, access] : accesses)
    out << access;
  out << "\nvar step: i16 = 0;\n";
  if (mostInFlight > 0)
    out << "var pending: i16 = 0;\nvar waits: bool = false;\n";
  if (usesIteration)
    out << "var iteration: i16 = 0;\n";
  if (usesErf) // Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26: within 1.5e-7
    out << "\nfn erf(x: f32) f32 {\n"
           "  const a: f32 = math.abs_f32(x);\n"
           "  const t: f32 = 1.0 / (1.0 + 0.3275911 * a);\n"
           "  const sum: f32 = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + "
           "0.254829592) * t;\n"
           "  const value: f32 = 1.0 - sum * math.exp_f32(-a * a);\n"
           "  if (x < 0.0) { return -value; }\n"
           "  return value;\n"
           "}\n";
  if (usesTokens)
    out << formatv("\n// Tokens of a cache on the rows of cores before this one, and on this one, of so many.\n"
                   "fn tokens_before(all: i32) i32 {\n"
                   "  var longer: i32 = @as(i32, row) - ({0} - all % {0});\n"
                   "  if (longer < 0) {{ longer = 0; }\n"
                   "  return @as(i32, row) * (all / {0}) + longer;\n"
                   "}\n"
                   "fn tokens_here(all: i32) i32 {\n"
                   "  if (@as(i32, row) >= {0} - all % {0}) {{ return all / {0} + 1; }\n"
                   "  return all / {0};\n"
                   "}\n",
                   program.rows);
  return text;
}

Expected<std::string> RoleWriter::write() {
  emit(program.ops);
  line("sys_mod.unblock_cmd_stream();");
  std::string text = declarations();
  if (!problem.empty())
    return createStringError("@" + program.name + ": " + problem);
  raw_string_ostream out(text);
  out << "\nfn go(next: i16) void {\n  step = next;\n  @activate(advance_id);\n}\n";
  if (mostInFlight > 0)
    out << "fn wait(next: i16) void {\n  step = next;\n  if (pending == 0) { @activate(advance_id); } else { waits = "
           "true; }\n}\n"
           "fn finish() void {\n  pending -= 1;\n  if (pending == 0 and waits) {\n    waits = false;\n    "
           "@activate(advance_id);\n  }\n}\n";
  for (size_t i = 0; i < mostInFlight; ++i)
    out << formatv("task done_{0}() void {{ finish(); }\n", i);
  for (auto [index, step] : enumerate(steps))
    out << formatv("\nfn step_{0}() void {{\n", index) << step << "}\n";
  out << "\ntask advance() void {\n";
  for (size_t i = 0; i < steps.size(); ++i)
    out << formatv("  {0}if (step == {1}) {{ step_{1}(); }\n", i == 0 ? "" : "else ", i);
  out << "}\n\nfn main() void { go(0); }\n\ncomptime {\n  @bind_local_task(advance, advance_id);\n";
  for (size_t i = 0; i < mostInFlight; ++i)
    out << formatv("  @bind_local_task(done_{0}, done_{0}_id);\n", i);
  if (!inputs.empty() || !outputs.empty()) {
    out << "  if (@is_arch(\"wse3\")) {\n";
    for (auto [color, index] : inputs)
      out << formatv("    @initialize_queue(in_{0}, .{{ .color = color_{0} });\n", color);
    for (auto [color, index] : outputs)
      out << formatv("    @initialize_queue(out_{0}, .{{ .color = color_{0} });\n", color);
    out << "  }\n";
  }
  std::set<int> exported;
  for (const std::vector<Binding> &bindings : {program.inputs, program.outputs})
    for (const Binding &binding : bindings)
      if (exported.insert(binding.slot).second)
        out << formatv("  @export_symbol({0}_ptr, \"{0}\");\n", buffers[size_t(binding.slot)]);
  if (usesTokens)
    out << "  @export_symbol(tokens_ptr, \"tokens\");\n";
  out << "  @export_symbol(main);\n}\n";
  std::string pointers = "\n";
  for (int slot : exported)
    pointers +=
        formatv("var {0}_ptr: [*]{1} = &{0};\n", buffers[size_t(slot)], cslTypeOf(program.buffers[size_t(slot)]));
  if (usesTokens)
    pointers += "var tokens_ptr: [*]i32 = &tokens;\n";
  text.insert(text.find("\nfn go("), pointers);
  return text;
}

} // namespace

std::vector<std::string> cslNamesOf(const Program &program) {
  std::vector<std::string> names;
  for (const CoreBuffer &buffer : program.buffers) {
    std::string name = "buffer_";
    for (char c : buffer.name)
      name += isAlnum(c) ? c : '_';
    while (is_contained(names, name))
      name += "_" + std::to_string(names.size());
    names.push_back(name);
  }
  return names;
}

StringRef cslTypeOf(const CoreBuffer &buffer) { return buffer.isHalf ? "f16" : "f32"; }

Expected<CslRole> writeCslRole(const Program &program, const Roles &roles, int64_t column, int64_t row) {
  RoleWriter writer(program, roles, column, row);
  Expected<std::string> text = writer.write();
  if (!text)
    return text.takeError();
  return CslRole{std::move(*text), writer.usesColumn, writer.usesRow};
}

} // namespace intarsia::wafer
