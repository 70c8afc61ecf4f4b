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

#include <algorithm>
#include <array>

namespace intarsia::wafer {
namespace {

// Texts of enumerators, by their number.
constexpr const char *axes[] = {"none", "x", "y"};
constexpr const char *skews[] = {"none", "rows", "columns"};
constexpr const char *viewKinds[] = {"strided",     "gathered", "heads", "positions",
                                     "frequencies", "cache",    "codes", "scales"};
constexpr const char *ops[] = {"send", "receive", "forward", "await", "compute", "repeat"};
constexpr const char *computations[] = {"zero",
                                        "copy",
                                        "add",
                                        "multiply",
                                        "exp",
                                        "silu",
                                        "gelu",
                                        "gelu_tanh",
                                        "relu",
                                        "tanh",
                                        "sum",
                                        "sum_squares",
                                        "scale",
                                        "shift",
                                        "affine",
                                        "rsqrt",
                                        "largest",
                                        "reciprocal",
                                        "mask",
                                        "take",
                                        "put",
                                        "gemm",
                                        "gemm_transposed",
                                        "gemv",
                                        "rotate",
                                        "decode"};

// The largest numbers of a file; whatever is larger is an error of the file, and sums of them stay exact.
constexpr int64_t mostCores = 1 << 12;     // along an axis
constexpr int64_t mostElements = 1 << 28;  // along an axis of a matrix, of a buffer
constexpr int64_t mostItems = 1 << 20;     // of a list
constexpr int64_t mostBuffers = INT16_MAX; // of a program: the simulator numbers them with 16 bits
constexpr double mostGHz = 1000;
constexpr double mostWatts = 1e6;
constexpr int64_t mostOffset = int64_t(1) << 48; // of a view, in elements

Json json(const Range &range) {
  if (range.all)
    return nullptr;
  return Json::array(
      {range.start, range.end, range.period, range.width, range.startMoves, range.endMoves, int64_t(range.ring)});
}

Json json(const std::vector<Op> &list) {
  Json result = Json::array();
  for (const Op &op : list) {
    Json item = {{"op", ops[size_t(op.kind)]}, {"x", json(op.cores.x)}, {"y", json(op.cores.y)}, {"slots", op.slots}};
    if (op.route >= 0)
      item["route"] = op.route;
    if (op.destination >= 0)
      item["destination"] = op.destination;
    if (op.add)
      item["add"] = true;
    if (op.maximum)
      item["maximum"] = true;
    if (op.kind == OpKind::Compute)
      item["compute"] = computations[size_t(op.compute)];
    if (op.factor != 1)
      item["factor"] = op.factor;
    if (op.addend != 0)
      item["addend"] = op.addend;
    if (op.kind == OpKind::Repeat) {
      item["count"] = op.count;
      if (op.launches)
        item["launches"] = true;
      item["arguments"] = op.arguments;
      item["yields"] = op.yields;
      item["body"] = json(op.body);
    }
    result.push_back(std::move(item));
  }
  return result;
}

Json json(const std::vector<Binding> &bindings) {
  Json result = Json::array();
  for (const Binding &b : bindings)
    result.push_back({{"argument", b.argument},
                      {"slot", b.slot},
                      {"row_axis", axes[size_t(b.tiles.rows)]},
                      {"column_axis", axes[size_t(b.tiles.columns)]},
                      {"ring", b.tiles.ring},
                      {"skew", skews[size_t(b.tiles.skew)]},
                      {"rows", b.rows},
                      {"columns", b.columns}});
  return result;
}

Json json(const Program &program) {
  const MeshTarget &t = program.target;
  Json buffers = Json::array(), routes = Json::array();
  for (const CoreBuffer &buffer : program.buffers) {
    buffers.push_back(
        {{"name", buffer.name}, {"rows", buffer.rows}, {"columns", buffer.columns}, {"half", buffer.isHalf}});
    if (buffer.codeBits)
      buffers.back()["bits"] = buffer.codeBits;
    if (buffer.offset)
      buffers.back()["offset"] = *buffer.offset;
  }
  for (const Route &route : program.routes) {
    Json paths = Json::array();
    for (const Path &path : route.paths)
      paths.push_back({{"start", json(path.start)},
                       {"by", path.by},
                       {"color", path.color},
                       {"alternate", path.alternate},
                       {"multicast", path.multicast}});
    routes.push_back({{"name", route.name}, {"axis", axes[size_t(route.axis)]}, {"paths", std::move(paths)}});
  }
  // An artifact has the figures that checks need. Times are the compiler's: it has only the clock that they count, and
  // the power for that time.
  return {{"name", program.name},
          {"mesh", t.name},
          {"clock_ghz", t.clockGHz},
          {"watts", t.watts},
          {"sram_bytes", t.sramBytes},
          {"reserved_bytes", t.reservedBytes},
          {"colors", t.colors},
          {"columns", program.columns},
          {"rows", program.rows},
          {"slots", program.slots},
          {"buffers", std::move(buffers)},
          {"routes", std::move(routes)},
          {"inputs", json(program.inputs)},
          {"outputs", json(program.outputs)},
          {"ops", json(program.ops)}};
}

Json json(const std::vector<MatrixView> &views) {
  Json result = Json::array();
  for (const MatrixView &view : views) {
    Json item = {{"kind", viewKinds[size_t(view.kind)]},
                 {"operand", view.operand},
                 {"type", dtypeInfo(view.type)->name},
                 {"has_rows", view.hasRows}};
    if (view.kind == ViewKind::Strided || view.kind == ViewKind::Gathered) {
      item["offset"] = view.offset;
      item["row_stride"] = view.rowStride;
      item["column_stride"] = view.columnStride;
      if (view.kind == ViewKind::Gathered)
        item["indices"] = view.indices;
    } else if (view.isQuantized()) {
      const QuantizedPanels &p = view.panels;
      item["offset"] = view.offset;
      item["panels"] = {p.bits,      p.integerOffset,  p.depth,     p.block,
                        p.unitDepth, p.unitScaleBytes, p.unitBytes, p.shared};
    } else {
      const PackedHeads &heads = view.heads;
      item["heads"] = {heads.heads, heads.group, heads.features, heads.parts, heads.part, heads.columns, heads.tile};
    }
    result.push_back(std::move(item));
  }
  return result;
}

Json json(const std::optional<CacheOperands> &cache) {
  if (!cache)
    return nullptr;
  return {{"positions", cache->positions},  {"sequences", cache->sequences}, {"table", cache->table},
          {"table_size", cache->tableSize}, {"page", cache->page},           {"appends", cache->appends}};
}

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
      program.relayoutCycles = real(one, "relayout_cycles", 0);
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

std::optional<PackedHeads::Place> PackedHeads::at(int64_t column) const {
  int64_t core = column / tile, in = column % tile, pairs = tile / 2;
  int64_t pair = core % columns * pairs + in % pairs, head = core / columns * parts + part;
  if (head >= heads || pair >= features / 2)
    return std::nullopt;
  return Place{head, pair + (in < pairs ? 0 : features / 2)};
}

float QuantizedPanels::code(const uint8_t *data, int64_t output, int64_t input) const {
  int64_t inUnit = input % unitDepth, inStep = inUnit % 32, word = inStep / 4, lines = bits;
  const uint8_t *step =
      data + output / 32 * panelBytes() + input / unitDepth * unitBytes + unitScaleBytes + inUnit / 32 * 32 * 4 * bits;
  uint8_t byte = step[output % 32 / 16 * lines * 64 + word % lines * 64 + output % 16 * 4 + inStep % 4];
  int64_t pattern = bits == 8 ? byte : word < lines ? byte & 15 : byte >> 4;
  return float(pattern - integerOffset);
}

int64_t QuantizedPanels::scaleAt(int64_t output, int64_t input, int64_t scaleBytes) const {
  return output / 32 * panelBytes() + input / unitDepth * unitBytes +
         (input % unitDepth / block * 32 + output % 32) * scaleBytes;
}

std::optional<int64_t> MatrixView::elements(int64_t launchRows, int64_t rows, int64_t columns) const {
  if (launchRows == 0)
    return 0;
  if (kind != ViewKind::Strided) { // products of four numbers of at most 2^20, 2^14, 2^14 and 2^14
    switch (kind) {
    case ViewKind::Heads:
      return launchRows < int64_t(1) << 20
                 ? std::optional<int64_t>(launchRows * heads.heads * heads.group * heads.features)
                 : std::nullopt;
    case ViewKind::Frequencies:
      return heads.features / 2;
    case ViewKind::Codes:
    case ViewKind::Scales: {
      int64_t bytes = 0;
      if (__builtin_mul_overflow((offset + columns - 1) / 32 + 1, panels.panelBytes(), &bytes) || bytes >= int64_t(1)
                                                                                                               << 62)
        return std::nullopt;
      return bytes;
    }
    default:
      return 0;
    }
  }
  int64_t last = offset;
  for (auto [count, stride] : {std::pair{hasRows ? launchRows : rows, rowStride}, std::pair{columns, columnStride}}) {
    int64_t more = 0;
    if (__builtin_mul_overflow(count - 1, stride, &more) || __builtin_add_overflow(last, more, &last))
      return std::nullopt;
  }
  if (last >= int64_t(1) << 62)
    return std::nullopt;
  return last + 1;
}

const RowsProgram &WaferKernel::programFor(int64_t left) const {
  for (const RowsProgram &program : programs)
    if (left >= program.rows || double(left) * programs.back().cycles > program.cycles)
      return program;
  return programs.back();
}

std::string writeObject(const std::vector<WaferKernel> &kernels) {
  Json list = Json::array();
  for (const WaferKernel &kernel : kernels) {
    Json programs = Json::array();
    for (const RowsProgram &program : kernel.programs)
      programs.push_back({{"rows", program.rows},
                          {"cycles", program.cycles},
                          {"relayout_cycles", program.relayoutCycles},
                          {"program", json(program.program)},
                          {"inputs", json(program.inputs)},
                          {"outputs", json(program.outputs)}});
    list.push_back({{"kernel", kernel.index},
                    {"operands", kernel.operands},
                    {"rows", sizeExpressionText(kernel.rows)},
                    {"cache", json(kernel.cache)},
                    {"programs", std::move(programs)}});
  }
  return jsonText({{"kernels", std::move(list)}});
}

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
    kernels.push_back(std::move(kernel));
  }
  return reader.status;
}

} // namespace intarsia::wafer
