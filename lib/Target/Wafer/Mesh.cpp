//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Target/Wafer/Mesh.h"

#include "lib/Target/Wafer/Programs.h"

using namespace llvm;

namespace intarsia::wafer {
namespace {

constexpr StringRef defaultWafer = "wse-2";

} // namespace

int64_t Mesh::reachOf(int64_t side, int64_t regions) const {
  int64_t abreast = std::max<int64_t>(figure("columns") / side, 1);
  regions = std::min(regions, regionsOfWafer(side));
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int64_t columns = 1; columns <= abreast; ++columns)
    least = std::min(least, std::max(columns, int64_t(divideCeil(regions, columns))) * side);
  return least;
}

std::string Mesh::options() const {
  std::string text;
  auto add = [&](StringRef name, int64_t value) { text += ("+" + name + "=" + Twine(value)).str(); };
  if (grid)
    add("grid", *grid);
  if (regions.value_or(1) > 1)
    add("regions", *regions);
  if (rowsGrid && *rowsGrid != *grid)
    add("prefill", *rowsGrid);
  if (wafers > 1)
    add("wafers", wafers);
  return text;
}

Expected<Mesh> meshOf(StringRef variant) {
  auto [name, options] = variant.split('+');
  std::string source = name.empty() ? defaultWafer.str() : name.str();
  Expected<CatalogueWafer> wafer = waferNamed(source);
  if (!wafer)
    return wafer.takeError();
  Mesh mesh;
  mesh.wafer = std::move(*wafer);
  mesh.source = source;
  auto refuse = [&](const Twine &why) { return createStringError("target 'wafer:" + variant + "': " + why); };
  std::optional<int64_t> wafers;
  SmallVector<StringRef> parts;
  options.split(parts, '+', /*MaxSplit=*/-1, /*KeepEmpty=*/true);
  for (StringRef part : parts) {
    if (options.empty() && !variant.contains('+'))
      break;
    auto [key, text] = part.split('=');
    std::optional<int64_t> *value = StringSwitch<std::optional<int64_t> *>(key)
                                        .Case("grid", &mesh.grid)
                                        .Case("regions", &mesh.regions)
                                        .Case("prefill", &mesh.rowsGrid)
                                        .Case("wafers", &wafers)
                                        .Default(nullptr);
    int64_t number = 0;
    if (!value || text.getAsInteger(10, number) || number < 1)
      return refuse("'" + part +
                    "' behind the + is none of grid=N, regions=N, prefill=N and wafers=N: cores along each "
                    "side of a grid, such grids that share the layers, cores along each side of the grid "
                    "for prompts, wafers that share the layers");
    if (*value)
      return refuse("'" + key + "' is there twice");
    *value = number;
  }
  if (wafers.value_or(1) > mostWafers)
    return refuse("layers are shared by " + Twine(mostWafers) + " wafers at most");
  mesh.wafers = wafers.value_or(1);
  for (const std::optional<int64_t> &grid : {mesh.grid, mesh.rowsGrid}) {
    if (!grid)
      continue;
    if (*grid < smallestGrid)
      return refuse("a grid has at least " + Twine(smallestGrid) + " cores along each side");
    if (*grid > mesh.largestGrid())
      return refuse("a grid of " + Twine(*grid) + " by " + Twine(*grid) + " is larger than " + mesh.wafer.name +
                    ", which has " + Twine(mesh.figure("columns")) + " by " + Twine(mesh.figure("rows")) + " cores" +
                    (mesh.wafer.defects.empty()
                         ? ""
                         : ", and at most " + Twine(mesh.largestGrid()) + " by " + Twine(mesh.largestGrid()) +
                               " on columns and rows without one that does not work"));
  }
  if (!mesh.grid) {
    if (mesh.regions || mesh.rowsGrid)
      return refuse(Twine(mesh.regions ? "regions" : "prefill") + " needs a grid before it: +grid=N+" +
                    (mesh.regions ? "regions" : "prefill") + "=M; without a grid the compiler chooses all of them");
    return mesh;
  }
  if (!mesh.regions)
    mesh.regions = 1;
  if (!mesh.rowsGrid)
    mesh.rowsGrid = mesh.grid;
  if (*mesh.regions > mesh.mostRegions(*mesh.grid))
    return refuse("there are " + Twine(mesh.mostRegions(*mesh.grid)) + " regions of " + Twine(*mesh.grid) + " by " +
                  Twine(*mesh.grid) + " cores on " +
                  (mesh.wafers > 1 ? std::to_string(mesh.wafers) + " wafers of " : "") + mesh.wafer.name);
  if (*mesh.rowsGrid != *mesh.grid && !mesh.wafer.defects.empty())
    return refuse("beside cores that do not work all programs are on one grid: leave out +prefill");
  if (int64_t reach = mesh.reachOf(*mesh.grid, *mesh.regions);
      *mesh.rowsGrid != *mesh.grid && reach > mesh.largestGrid())
    return refuse(Twine(*mesh.regions) + " regions reach over " + Twine(reach) +
                  " cores, from which weights do not come "
                  "to another grid; take fewer regions, or leave out +prefill");
  return mesh;
}

} // namespace intarsia::wafer
