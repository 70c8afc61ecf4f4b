//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Wafer/WaferObject.h"

#include "lib/Formats/Dtype.h"
#include "lib/Formats/MemberReader.h"
#include "lib/Runtime/Wafer/Functional.h"
#include "lib/Runtime/Wafer/ObjectTexts.h"

#include <algorithm>
#include <array>

namespace intarsia::wafer {
namespace {

// The largest numbers of a file; whatever is larger is an error of the file, and sums of them stay exact.
constexpr int64_t mostCores = 1 << 12;     // along an axis
constexpr int64_t mostElements = 1 << 28;  // along an axis of a matrix, of a buffer
constexpr int64_t mostItems = 1 << 20;     // of a list
constexpr int64_t mostBuffers = INT16_MAX; // of a program: the simulator numbers them with 16 bits
constexpr double mostGHz = 1000;
constexpr double mostWatts = 1e6;
constexpr int64_t mostOffset = int64_t(1) << 48; // of a view, in elements

/// Reads the parts of an object and checks them; nothing that a program names is missing afterwards.
class Reader : public MemberReader {
public:
  using MemberReader::MemberReader;

  WaferKernel kernel(const Json &item) {
    WaferKernel kernel;
    kernel.index = uint32_t(number(item, "kernel", 0, UINT32_MAX));
    kernel.operands = number(item, "operands", 0, mostItems);
    kernel.rows = parseSizeExpression(text(item, "rows"));
    if (kernel.rows.empty())
      fail("'rows' is no expression in sizes");
    if (const Json *found = member(item, "cache", /*required=*/false))
      kernel.cache = cache(*found, kernel.operands);
    for (const Json &one : array(item, "programs")) {
      RowsProgram &program = kernel.programs.emplace_back();
      program.rows = number(one, "rows", 1, mostItems);
      program.cycles = real(one, "cycles", 0);
      if (const Json *value = member(one, "program"))
        program.program = this->program(*value);
      program.inputs = views(one, "inputs", kernel.operands);
      program.outputs = views(one, "outputs", kernel.operands);
      checkViews(program, program.program.inputs, program.inputs, kernel.cache.has_value(), "an input");
      checkViews(program, program.program.outputs, program.outputs, kernel.cache.has_value(), "an output");
      if (kernel.cache && kernel.cache->appends && program.rows != 1)
        fail("a program puts several tokens into a cache");
    }
    for (size_t i = 1; i < kernel.programs.size(); ++i)
      if (kernel.programs[i].rows >= kernel.programs[i - 1].rows)
        fail("programs are not in the order of their rows");
    if (kernel.programs.empty() || kernel.programs.back().rows != 1)
      fail("no program computes one row");
    for (const Json &one : array(item, "relayouts")) {
      Relayout &way = kernel.relayouts.emplace_back();
      way.argument = number(one, "argument", 0, mostItems);
      way.cycles = real(one, "cycles", 0);
      if (const Json *value = member(one, "program"))
        way.program = this->program(*value);
      for (const RowsProgram &program : kernel.programs)
        checkRelayout(way, program);
    }
    return kernel;
  }

private:
  int64_t number(const Json &object, const char *key, int64_t least, int64_t most) {
    int64_t value = least;
    const Json *found = member(object, key);
    if (!found || !integer(*found, key, value))
      return least;
    if (value >= least && value <= most)
      return value;
    fail("'" + std::string(key) + "' is " + std::to_string(value) + ", must be from " + std::to_string(least) + " to " +
         std::to_string(most));
    return least;
  }

  double real(const Json &object, const char *key, double otherwise) {
    const Json *value = member(object, key, /*required=*/false);
    if (value && !value->is_number())
      fail("'" + std::string(key) + "' is not a number");
    return value && value->is_number() ? value->get<double>() : otherwise;
  }

  bool flag(const Json &object, const char *key) {
    const Json *value = member(object, key, /*required=*/false);
    if (value && !value->is_boolean())
      fail("'" + std::string(key) + "' is neither true nor false");
    return value && value->is_boolean() && value->get<bool>();
  }

  template <size_t count> size_t choice(const Json &object, const char *key, const char *const (&names)[count]) {
    std::string wanted = text(object, key);
    for (size_t i = 0; i < count; ++i)
      if (wanted == names[i])
        return i;
    fail("'" + std::string(key) + "' is '" + wanted + "', which is not known");
    return 0;
  }

  std::vector<int> indices(const Json &object, const char *key, int64_t count) {
    std::vector<int> result;
    for (const Json &item : array(object, key)) {
      int64_t value = 0;
      if (integer(item, key, value) && (value < 0 || value >= count))
        fail("'" + std::string(key) + "' has " + std::to_string(value) + ", must be less than " +
             std::to_string(count));
      result.push_back(int(value));
    }
    return result;
  }

  Range range(const Json &object, const char *key) {
    const Json *value = member(object, key, /*required=*/false);
    if (!value)
      return {};
    std::array<int64_t, 7> n{};
    if (!value->is_array() || value->size() != n.size()) {
      fail("'" + std::string(key) + "' is no range of seven numbers");
      return {};
    }
    for (size_t i = 0; i < n.size(); ++i)
      if (integer((*value)[i], key, n[i]) && std::abs(n[i]) > mostCores)
        fail("'" + std::string(key) + "' has " + std::to_string(n[i]) + ", which is no position");
    if (n[2] < 1)
      fail("'" + std::string(key) + "' has a period of " + std::to_string(n[2]));
    return {/*all=*/false, n[0], n[1], std::max<int64_t>(n[2], 1), n[3], n[4], n[5], n[6] != 0};
  }

  std::vector<Op> readOps(const Json &list, const Program &program, bool isBody) {
    std::vector<Op> result;
    for (const Json &item : list) {
      Op op;
      op.kind = OpKind(choice(item, "op", ops));
      op.cores = {range(item, "x"), range(item, "y")};
      op.slots = indices(item, "slots", program.slots);
      op.add = flag(item, "add");
      op.maximum = flag(item, "maximum");
      if (op.maximum && !op.add)
        fail("an op keeps the larger of what it does not combine");
      size_t wanted = op.kind == OpKind::Await ? 0 : 1;
      if (op.kind == OpKind::Send || op.kind == OpKind::Receive || op.kind == OpKind::Forward)
        op.route = int(number(item, "route", 0, int64_t(program.routes.size()) - 1));
      if (op.kind == OpKind::Forward)
        op.destination = int(number(item, "destination", 0, int64_t(program.routes.size()) - 1));
      if (op.kind == OpKind::Compute) {
        op.compute = ComputeKind(choice(item, "compute", computations));
        wanted = op.compute == ComputeKind::Zero ? 1 : op.compute >= ComputeKind::Gemm ? 3 : 2;
        if (op.compute == ComputeKind::Collect) {
          const Json *way = member(item, "relayout");
          op.relayout = way ? relayoutStep(*way) : RelayoutStep();
        }
        op.factor = float(real(item, "factor", 1));
        op.addend = float(real(item, "addend", 0));
      }
      if (op.kind == OpKind::Repeat) {
        if (isBody)
          fail("a repeat is in another one");
        op.count = number(item, "count", 1, mostItems);
        op.launches = flag(item, "launches");
        op.arguments = indices(item, "arguments", program.slots);
        op.yields = indices(item, "yields", program.slots);
        wanted = op.arguments.size();
        if (op.yields.size() != wanted)
          fail("a repeat yields another number of buffers than it has arguments");
        op.body = isBody ? std::vector<Op>() : readOps(array(item, "body"), program, /*isBody=*/true);
      }
      if (op.slots.size() != wanted)
        fail("an op has " + std::to_string(op.slots.size()) + " buffers, must have " + std::to_string(wanted));
      result.push_back(std::move(op));
    }
    return result;
  }

  std::vector<Binding> bindings(const Json &object, const char *key, const Program &program) {
    std::vector<Binding> result;
    for (const Json &item : array(object, key)) {
      Binding b;
      b.argument = number(item, "argument", 0, mostItems);
      b.slot = int(number(item, "slot", 0, int64_t(program.buffers.size()) - 1));
      b.tiles.rows = MeshAxis(choice(item, "row_axis", axes));
      b.tiles.columns = MeshAxis(choice(item, "column_axis", axes));
      b.tiles.ring = flag(item, "ring");
      b.tiles.skew = TileSkew(choice(item, "skew", skews));
      if (member(item, "extent", /*required=*/false))
        b.tiles.extent = number(item, "extent", 1, std::min(program.columns, program.rows));
      b.rows = number(item, "rows", 1, mostElements);
      b.columns = number(item, "columns", 1, mostElements);
      MeshAxis shifted = b.tiles.skew == TileSkew::Rows ? b.tiles.rows : b.tiles.columns;
      if (b.tiles.skew != TileSkew::None && shifted == MeshAxis::None)
        fail("a matrix is shifted along no axis");
      result.push_back(b);
    }
    return result;
  }

  Program program(const Json &item) {
    Program p;
    p.name = text(item, "name");
    p.target.name = text(item, "mesh");
    p.target.sramBytes = number(item, "sram_bytes", 1, mostElements);
    p.target.reservedBytes = number(item, "reserved_bytes", 0, mostElements);
    p.target.colors = number(item, "colors", 0, mostCores);
    p.target.clockGHz = real(item, "clock_ghz", 0);
    if (!(p.target.clockGHz > 0 && p.target.clockGHz <= mostGHz))
      fail("'clock_ghz' is no clock");
    p.target.watts = real(item, "watts", 0);
    if (!(p.target.watts >= 0 && p.target.watts <= mostWatts))
      fail("'watts' is no power");
    p.columns = number(item, "columns", 1, mostCores);
    p.rows = number(item, "rows", 1, mostCores);
    p.slots = int(number(item, "slots", 0, mostItems));
    for (const Json &one : array(item, "buffers")) {
      CoreBuffer &buffer = p.buffers.emplace_back();
      buffer = {text(one, "name"), number(one, "rows", 1, 1 << 14), number(one, "columns", 1, 1 << 14),
                flag(one, "half")};
      if (member(one, "bits", /*required=*/false) && (buffer.codeBits = number(one, "bits", 4, 8)) % 4 != 0)
        fail("quantized values have " + std::to_string(buffer.codeBits) + " bits");
      if (member(one, "offset", /*required=*/false) &&
          (buffer.offset = number(one, "offset", 0, mostElements)).value_or(0) % 4 != 0)
        fail("buffer '" + buffer.name + "' begins within a word");
      if (buffer.offset.has_value() != p.buffers.front().offset.has_value())
        fail("some buffers say where they begin, and others do not");
    }
    if (int64_t(p.buffers.size()) > mostBuffers)
      fail("there are more than " + std::to_string(mostBuffers) + " buffers");
    if (int64_t(p.buffers.size()) > p.slots)
      fail("there are more buffers than slots");
    for (const Json &one : array(item, "routes")) {
      Route &route = p.routes.emplace_back();
      route.name = text(one, "name");
      route.axis = MeshAxis(choice(one, "axis", axes));
      if (route.axis == MeshAxis::None)
        fail("route '" + route.name + "' is along no axis");
      for (const Json &path : array(one, "paths"))
        route.paths.push_back({range(path, "start"), number(path, "by", -mostCores, mostCores),
                               number(path, "color", 0, mostCores), flag(path, "alternate"), flag(path, "multicast")});
      for (const Path &path : route.paths)
        if (path.by == 0)
          fail("route '" + route.name + "' has a path that leads nowhere");
    }
    p.inputs = bindings(item, "inputs", p);
    p.outputs = bindings(item, "outputs", p);
    p.ops = readOps(array(item, "ops"), p, /*isBody=*/false);
    return p;
  }

  std::vector<MatrixView> views(const Json &object, const char *key, int64_t operands) {
    std::vector<MatrixView> result;
    for (const Json &item : array(object, key)) {
      MatrixView view;
      view.operand = number(item, "operand", 0, operands - 1);
      const DtypeInfo *type = dtypeInfo(text(item, "type"));
      if (!type || (type->dtype != ITX_F32 && type->dtype != ITX_F16 && type->dtype != ITX_BF16))
        fail("a matrix has another type than f32, f16 and bf16");
      else
        view.type = type->dtype;
      view.kind = ViewKind(choice(item, "kind", viewKinds));
      view.hasRows = flag(item, "has_rows");
      if (view.kind == ViewKind::Strided || view.kind == ViewKind::Gathered) {
        view.offset = number(item, "offset", 0, mostOffset);
        view.rowStride = number(item, "row_stride", 0, mostOffset);
        view.columnStride = number(item, "column_stride", 0, mostOffset);
        if (view.kind == ViewKind::Gathered)
          view.indices = number(item, "indices", 0, operands - 1);
      } else if (view.isQuantized()) {
        view.offset = number(item, "offset", 0, mostElements);
        view.panels = panels(item, view.type);
      } else {
        view.heads = heads(item);
      }
      result.push_back(view);
    }
    return result;
  }

  QuantizedPanels panels(const Json &item, itx_dtype scale) {
    std::array<int64_t, 8> n{};
    const Json &list = array(item, "panels");
    if (list.size() != n.size())
      fail("'panels' is no list of eight numbers");
    for (size_t i = 0; i < n.size() && i < list.size(); ++i)
      if (integer(list[i], "panels", n[i]) && (n[i] < (i == 1 ? 0 : 1) || n[i] > mostElements))
        fail("'panels' has " + std::to_string(n[i]));
    QuantizedPanels p{n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7]};
    // 32 values of 32 features are a step.
    if (status.ok() && ((p.bits != 4 && p.bits != 8) || p.unitDepth % 32 != 0 || p.unitDepth % p.block != 0 ||
                        p.unitScaleBytes < p.unitDepth / p.block * 32 * int64_t(dtypeInfo(scale)->bytes) ||
                        p.unitBytes < p.unitScaleBytes + p.unitDepth * 4 * p.bits))
      fail("'panels' do not hold their values");
    return status.ok() ? p : QuantizedPanels();
  }

  PackedHeads heads(const Json &item) {
    std::array<int64_t, 7> n{};
    const Json &list = array(item, "heads");
    if (list.size() != n.size())
      fail("'heads' is no list of seven numbers");
    for (size_t i = 0; i < n.size() && i < list.size(); ++i)
      if (integer(list[i], "heads", n[i]) && (n[i] < (i == 4 ? 0 : 1) || n[i] > 1 << 14))
        fail("'heads' has " + std::to_string(n[i]));
    PackedHeads heads{n[0], n[1], n[2], n[3], n[4], n[5], n[6]};
    if (status.ok() && (heads.features % 2 != 0 || heads.tile % 2 != 0 || heads.part >= heads.parts ||
                        heads.columns * heads.tile < heads.features))
      fail("'heads' do not lie on the columns of a grid");
    return status.ok() ? heads : PackedHeads();
  }

  CacheOperands cache(const Json &item, int64_t operands) {
    return {number(item, "positions", 0, operands - 1), number(item, "sequences", 0, operands - 1),
            number(item, "table", 0, operands - 1),     number(item, "table_size", 0, mostItems),
            number(item, "page", 1, mostElements),      flag(item, "appends")};
  }

  RelayoutStep relayoutStep(const Json &item) {
    RelayoutStep step;
    step.along = MeshAxis(choice(item, "along", axes));
    if (step.along == MeshAxis::None)
      fail("rows of a matrix that moves lie along no axis");
    step.from = number(item, "from", 1, mostCores);
    step.to = number(item, "to", 1, mostCores);
    step.height = number(item, "height", 1, mostElements);
    step.width = number(item, "width", 1, mostElements);
    step.second = flag(item, "second");
    return step;
  }

  /// Checks that a weight moves from where the program for one row has it to where one for several rows does.
  void checkRelayout(const Relayout &way, const RowsProgram &program) {
    if (!status.ok())
      return;
    const Program &moves = way.program;
    if (moves.inputs.size() != 1 || moves.outputs.size() != 1 || moves.inputs[0].argument != 0 ||
        moves.outputs[0].argument != 0)
      return fail("the way of a weight has another input and output than its matrix");
    const Binding &end = program.rows > 1 ? moves.outputs[0] : moves.inputs[0];
    const CoreBuffer &moved = moves.buffers[size_t(end.slot)];
    auto extentOf = [](const TilePlacement &tiles, const Program &of) {
      return tiles.extent != 0 ? tiles.extent : std::max(of.columns, of.rows);
    };
    for (const Binding &input : program.program.inputs) {
      if (input.argument != way.argument)
        continue;
      const CoreBuffer &tile = program.program.buffers[size_t(input.slot)];
      if (input.tiles.rows == end.tiles.rows && input.tiles.columns == end.tiles.columns &&
          input.tiles.ring == end.tiles.ring && input.tiles.skew == end.tiles.skew && input.rows == end.rows &&
          input.columns == end.columns && tile.rows == moved.rows && tile.columns == moved.columns &&
          tile.isHalf == moved.isHalf && tile.codeBits == moved.codeBits &&
          extentOf(input.tiles, program.program) == extentOf(end.tiles, moves))
        return;
    }
    fail("the way of a weight " + std::string(program.rows > 1 ? "ends" : "begins") +
         " where its program does not have it");
  }

  void checkViews(const RowsProgram &program, const std::vector<Binding> &bindings,
                  const std::vector<MatrixView> &views, bool hasCache, const char *what) {
    auto refuse = [&](const char *why) { fail(std::string(what) + " of the program " + why); };
    for (const Binding &binding : bindings) {
      if (size_t(binding.argument) >= views.size()) {
        refuse("is in no operand of the kernel");
        continue;
      }
      const MatrixView &view = views[size_t(binding.argument)];
      if (view.hasRows && binding.rows != program.rows * view.rowsEach())
        refuse("has other rows than the program");
      if ((view.kind == ViewKind::Cache || view.kind == ViewKind::Positions) && !hasCache)
        refuse("is of a cache, which the kernel does not have");
      if (view.isQuantized() &&
          (view.hasRows || &bindings == &program.program.outputs ||
           (binding.rows - 1) * (view.kind == ViewKind::Scales ? view.panels.shared : 1) >= view.panels.depth))
        refuse("is of quantized values that its operand does not have");
      if (view.kind == ViewKind::Cache &&
          (binding.tiles.rows != MeshAxis::Y || binding.rows % program.program.rows != 0))
        refuse("is a cache that is not split over the rows of the grid");
      if ((view.kind == ViewKind::Heads || view.kind == ViewKind::Positions || view.kind == ViewKind::Gathered) &&
          !view.hasRows)
        refuse("has rows of tokens, but none of the launch");
    }
  }
};

/// Returns true if the buffers of a computation have the shapes that it needs; `bound` are the buffers of slots.
bool fits(const Program &program, const Op &op, const std::vector<int> &bound) {
  auto buffer = [&](size_t i) -> const CoreBuffer & { return program.buffers[size_t(bound[size_t(op.slots[i])])]; };
  if (op.slots.size() == 1)
    return true;
  const CoreBuffer &c = buffer(0), &a = buffer(1);
  auto isSumOf = [](const CoreBuffer &sum, const CoreBuffer &rows) {
    return sum.columns == 1 && sum.rows == rows.rows;
  };
  if (sumsRows(op.compute))
    return isSumOf(c, a);
  if (spreadsOverRows(op.compute))
    return isSumOf(a, c);
  if (const auto &way = op.relayout) {
    auto tile = [](int64_t size, int64_t cores) { return (size + cores - 1) / cores; };
    int64_t columns = tile(way->width, way->to);
    return std::max(way->from, way->to) <= std::min(program.columns, program.rows) &&
           c.rows == tile(way->height, way->second ? way->to : way->from) && c.columns == columns &&
           a.rows == tile(way->height, way->from) && a.columns == (way->second ? columns : tile(way->width, way->from));
  }
  if (op.compute == ComputeKind::Take || op.compute == ComputeKind::Put)
    return a.columns == c.columns && (op.compute == ComputeKind::Take ? c : a).rows == 1;
  if (op.slots.size() == 2)
    return c.rows == a.rows && c.columns == a.columns;
  const CoreBuffer &b = buffer(2);
  if (op.compute == ComputeKind::Rotate)
    return isSumOf(a, c) && b.rows == 1 && 2 * b.columns == c.columns;
  if (op.compute == ComputeKind::Decode)
    return c.rows == a.rows && c.columns == a.columns && b.columns == c.columns && c.rows % b.rows == 0;
  bool transposed = op.compute == ComputeKind::GemmTransposed;
  return c.rows == a.rows && c.columns == (transposed ? b.rows : b.columns) &&
         a.columns == (transposed ? b.columns : b.rows);
}

/// Returns true if the buffers of all ops have the shapes that the ops need; `bound` are the buffers of slots.
bool fits(const Program &program, const std::vector<Op> &list, std::vector<int> &bound) {
  auto same = [&](int a, int b) {
    const CoreBuffer &first = program.buffers[size_t(a)], &second = program.buffers[size_t(b)];
    return first.rows == second.rows && first.columns == second.columns;
  };
  auto of = [&](int slot) { return bound[size_t(slot)]; };
  for (const Op &op : list) {
    if (std::any_of(op.slots.begin(), op.slots.end(), [&](int slot) { return of(slot) < 0; }))
      return false;
    if (op.kind == OpKind::Compute && !fits(program, op, bound))
      return false;
    if (op.kind != OpKind::Repeat)
      continue;
    // Arguments have the shape of what they are at first, and so has what is yielded.
    for (size_t i = 0; i < op.arguments.size(); ++i)
      bound[size_t(op.arguments[i])] = of(op.slots[i]);
    if (!fits(program, op.body, bound))
      return false;
    for (size_t i = 0; i < op.yields.size(); ++i)
      if (of(op.yields[i]) < 0 || !same(of(op.yields[i]), of(op.arguments[i])) ||
          program.buffers[size_t(of(op.yields[i]))].isHalf != program.buffers[size_t(of(op.arguments[i]))].isHalf)
        return false;
  }
  return true;
}

Status checkProgram(const Program &program, const std::string &name) {
  std::vector<int> bound(size_t(program.slots), -1);
  for (size_t i = 0; i < program.buffers.size(); ++i)
    bound[i] = int(i);
  if (!fits(program, program.ops, bound))
    return error(ITX_CORRUPT, "%s: program '%s' computes with buffers whose sizes disagree", name.c_str(),
                 program.name.c_str());
  if (std::string problem = check(program); !problem.empty())
    return error(ITX_CORRUPT, "%s: program '%s' %s", name.c_str(), program.name.c_str(), problem.c_str());
  return Status::success();
}

} // namespace

Status readObject(std::string_view text, const std::string &name, std::vector<WaferKernel> &kernels) {
  Json object;
  ITX_RETURN_IF_ERROR(parseJson(text, name, object));
  Reader reader(name);
  for (const Json &item : reader.array(object, "kernels")) {
    WaferKernel kernel = reader.kernel(item);
    if (!reader.status.ok())
      return reader.status;
    for (const RowsProgram &one : kernel.programs)
      ITX_RETURN_IF_ERROR(checkProgram(one.program, name));
    for (const Relayout &way : kernel.relayouts)
      ITX_RETURN_IF_ERROR(checkProgram(way.program, name));
    kernels.push_back(std::move(kernel));
  }
  return reader.status;
}

} // namespace intarsia::wafer
