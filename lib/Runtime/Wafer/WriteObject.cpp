//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Formats/Dtype.h"
#include "lib/Runtime/Wafer/ObjectTexts.h"
#include "lib/Runtime/Wafer/WaferObject.h"
#include "lib/Support/Json.h"

namespace intarsia::wafer {
namespace {

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
    if (const auto &way = op.relayout)
      item["relayout"] = {{"along", axes[size_t(way->along)]},
                          {"from", way->from},
                          {"to", way->to},
                          {"height", way->height},
                          {"width", way->width},
                          {"second", way->second}};
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
  for (const Binding &b : bindings) {
    result.push_back({{"argument", b.argument},
                      {"slot", b.slot},
                      {"row_axis", axes[size_t(b.tiles.rows)]},
                      {"column_axis", axes[size_t(b.tiles.columns)]},
                      {"ring", b.tiles.ring},
                      {"skew", skews[size_t(b.tiles.skew)]},
                      {"rows", b.rows},
                      {"columns", b.columns}});
    if (b.tiles.extent != 0)
      result.back()["extent"] = b.tiles.extent;
  }
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

} // namespace

std::string writeObject(const std::vector<WaferKernel> &kernels) {
  Json list = Json::array();
  for (const WaferKernel &kernel : kernels) {
    Json programs = Json::array();
    for (const RowsProgram &program : kernel.programs)
      programs.push_back({{"rows", program.rows},
                          {"cycles", program.cycles},
                          {"program", json(program.program)},
                          {"inputs", json(program.inputs)},
                          {"outputs", json(program.outputs)}});
    Json relayouts = Json::array();
    for (const Relayout &way : kernel.relayouts)
      relayouts.push_back({{"argument", way.argument}, {"cycles", way.cycles}, {"program", json(way.program)}});
    list.push_back({{"kernel", kernel.index},
                    {"operands", kernel.operands},
                    {"rows", sizeExpressionText(kernel.rows)},
                    {"cache", json(kernel.cache)},
                    {"programs", std::move(programs)},
                    {"relayouts", std::move(relayouts)}});
  }
  return jsonText({{"kernels", std::move(list)}});
}

} // namespace intarsia::wafer
