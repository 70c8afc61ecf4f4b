//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The layout of a program in CSL, with the routes of its colors; CslRole.cpp writes what each core does.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/Wafer/CslRole.h"
#include "lib/Target/Wafer/Emit.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

using namespace llvm;

namespace intarsia::wafer {
namespace {

constexpr int64_t colorsOfLayouts = 21;  ///< 0 to 20; the SDK's copies have others
constexpr int64_t longestVector = 32767; ///< indices are i16

/// Refuses routes on which buffers of both types meet: the words of a message have the type of its instruction.
Error checkTypes(const Program &program, const std::vector<Op> &ops, std::vector<int> &bound,
                 std::map<int, bool> &halves) {
  for (const Op &op : ops) {
    for (auto [argument, slot] : zip(op.arguments, op.slots))
      bound[size_t(argument)] = bound[size_t(slot)];
    if (Error error = checkTypes(program, op.body, bound, halves))
      return error;
    for (int route : {op.route, op.destination}) {
      if (route < 0)
        continue;
      bool isHalf = program.buffers[size_t(bound[size_t(op.slots[0])])].isHalf;
      if (halves.try_emplace(route, isHalf).first->second != isHalf)
        return createStringError("@" + program.name + ": route @" + program.routes[size_t(route)].name +
                                 " has messages of f16 and of f32");
    }
  }
  return Error::success();
}

std::string arrayOf(StringRef name, ArrayRef<int64_t> values) {
  return formatv("const {0} = [{1}]i16 {{ {2} };\n", name, values.size(),
                 join(map_range(values, [](int64_t value) { return std::to_string(value); }), ", "));
}

std::string routeOf(const RouterSetting &setting, MeshAxis axis) {
  auto side = [&](int64_t step) -> StringRef {
    if (step == 0)
      return "RAMP";
    return axis == MeshAxis::X ? step > 0 ? "EAST" : "WEST" : step > 0 ? "SOUTH" : "NORTH";
  };
  return formatv(".{{ .routes = .{{ .rx = .{{ {0} }, .tx = .{{ {1} } } }", side(setting.from),
                 join(map_range(setting.to, side), ", "));
}

/// Writes what the routers do with each color, by position along its axis.
void writeRoutes(raw_ostream &out, const std::map<int64_t, ColorSettings> &colors, const Program &program,
                 std::string &arrays) {
  for (const auto &[color, settings] : colors) {
    bool alongX = settings.axis == MeshAxis::X;
    std::vector<RouterSetting> kinds;
    std::vector<int64_t> numbers(size_t(alongX ? program.columns : program.rows), 0); // 0: does not see the color
    for (const auto &[position, setting] : settings.at) {
      auto found = std::find(kinds.begin(), kinds.end(), setting);
      numbers[size_t(position)] = found - kinds.begin() + 1;
      if (found == kinds.end())
        kinds.push_back(setting);
    }
    std::string name = "color_" + std::to_string(color) + (alongX ? "_of_column" : "_of_row");
    arrays += arrayOf(name, numbers);
    for (auto [index, kind] : enumerate(kinds))
      out << formatv("      if ({0}[{1}] == {2}) {{ @set_color_config(x, y, @get_color({3}), {4}); }\n", name,
                     alongX ? "x" : "y", index + 1, color, routeOf(kind, settings.axis));
  }
}

/// Where the tiles of inputs and outputs are, for who copies them.
std::string placementOf(const Program &program) {
  std::vector<std::string> names = cslNamesOf(program);
  json::Object all;
  for (auto [key, bindings] : {std::pair("inputs", &program.inputs), std::pair("outputs", &program.outputs)}) {
    json::Array list;
    for (const Binding &b : *bindings) {
      const CoreBuffer &buffer = program.buffers[size_t(b.slot)];
      json::Object operand = tilesOfOperand(b, buffer);
      operand["symbol"] = names[size_t(b.slot)];
      operand["element"] = cslTypeOf(buffer);
      list.push_back(std::move(operand));
    }
    all[key] = std::move(list);
  }
  all["columns"] = program.columns;
  all["rows"] = program.rows;
  return formatv("{0:2}\n", json::Value(std::move(all)));
}

} // namespace

Expected<std::vector<EmittedFile>> emitCsl(const Program &program) {
  if (!program.columnsAt.empty())
    return createStringError("@" + program.name +
                             ": its grid leaves out columns or rows of the wafer, which the sources that are written "
                             "here do not; take a smaller grid, or let the host map around cores that do not work");
  for (const std::vector<Binding> &bindings : {program.inputs, program.outputs})
    for (const Binding &binding : bindings)
      if (binding.tiles.extent != 0)
        return createStringError("@" + program.name +
                                 ": moves a matrix between grids, which the CSL that is written here does not");
  for (const CoreBuffer &buffer : program.buffers)
    if (buffer.codeBits)
      return createStringError("@" + program.name + ": buffer \"" + buffer.name + "\" has quantized values of " +
                               Twine(buffer.codeBits) + " bits, which the CSL that is written here does not decode");
  for (const CoreBuffer &buffer : program.buffers)
    if (buffer.elements() > longestVector)
      return createStringError("@" + program.name + ": buffer \"" + buffer.name + "\" has " + Twine(buffer.elements()) +
                               " elements, indices of CSL count " + Twine(longestVector));
  if (program.bytesUnshared() > program.target.sramBytes)
    return createStringError("@" + program.name + ": needs " + Twine(program.bytesUnshared()) +
                             " bytes of each core where no buffers share bytes, as in the CSL that is written here; " +
                             program.target.name + " has " + Twine(program.target.sramBytes));
  std::vector<int> bound(size_t(program.slots));
  for (size_t i = 0; i < program.buffers.size(); ++i)
    bound[i] = int(i);
  std::map<int, bool> halves;
  if (Error error = checkTypes(program, program.ops, bound, halves))
    return std::move(error);
  Expected<Roles> roles = Roles::of(program);
  if (!roles)
    return roles.takeError();
  Expected<std::map<int64_t, ColorSettings>> colors = routerSettings(program);
  if (!colors)
    return colors.takeError();
  if (!colors->empty() && colors->rbegin()->first >= colorsOfLayouts)
    return createStringError("@" + program.name + " has color " + Twine(colors->rbegin()->first) +
                             ", programs in CSL have colors 0 to " + Twine(colorsOfLayouts - 1) +
                             ", and the SDK's copies the others");

  std::vector<EmittedFile> files(1);
  std::map<std::string, size_t> known; // text of a role -> its number
  std::string tiles, arrays;
  std::vector<int64_t> columns = roles->firsts(MeshAxis::X), rows = roles->firsts(MeshAxis::Y);
  auto numbersOf = [](const std::vector<int> &classes) { return SmallVector<int64_t>(classes.begin(), classes.end()); };
  arrays += arrayOf("class_of_column", numbersOf(roles->classes(MeshAxis::X)));
  arrays += arrayOf("class_of_row", numbersOf(roles->classes(MeshAxis::Y)));
  for (auto [i, column] : enumerate(columns))
    for (auto [j, row] : enumerate(rows)) {
      Expected<CslRole> role = writeCslRole(program, *roles, column, row);
      if (!role)
        return role.takeError();
      auto [found, isNew] = known.try_emplace(role->text, known.size());
      std::string name = "role_" + std::to_string(found->second) + ".csl";
      if (isNew)
        files.push_back({name, "// What the cores of a class do in @" + program.name +
                                   ": layout.csl says which cores these are.\n" + role->text});
      tiles +=
          formatv("      if (class_of_column[x] == {0} and class_of_row[y] == {1}) {{ @set_tile_code(x, y, \"{2}\", "
                  ".{{ .memcpy_params = memcpy.get_params(x){3}{4} }); }\n",
                  i, j, name, role->usesColumn ? ", .column = x" : "", role->usesRow ? ", .row = y" : "");
    }
  std::string routes;
  raw_string_ostream routesOut(routes);
  writeRoutes(routesOut, *colors, program, arrays);
  raw_string_ostream out(files[0].text);
  out << formatv("// @{0}: {1} columns and {2} rows of cores. placement.json says where inputs and outputs are.\n"
                 "const memcpy = @import_module(\"<memcpy/get_params>\", .{{ .width = {1}, .height = {2} });\n\n",
                 program.name, program.columns, program.rows)
      << arrays
      << formatv(
             "\nlayout {{\n  @set_rectangle({0}, {1});\n  for (@range(i16, {0})) |x| {{\n    for (@range(i16, {1})) "
             "|y| {{\n",
             program.columns, program.rows)
      << tiles << routes << "    }\n  }\n";
  std::vector<std::string> names = cslNamesOf(program);
  std::set<int> exported;
  for (const std::vector<Binding> &bindings : {program.inputs, program.outputs})
    for (const Binding &binding : bindings)
      if (exported.insert(binding.slot).second)
        out << formatv("  @export_name(\"{0}\", [*]{1}, true);\n", names[size_t(binding.slot)],
                       cslTypeOf(program.buffers[size_t(binding.slot)]));
  if (StringRef(files.back().text).contains("var tokens "))
    out << "  @export_name(\"tokens\", [*]i32, true);\n";
  out << "  @export_name(\"main\", fn()void);\n}\n";
  files[0].name = "layout.csl";
  files.push_back({"placement.json", placementOf(program)});
  return files;
}

} // namespace intarsia::wafer
