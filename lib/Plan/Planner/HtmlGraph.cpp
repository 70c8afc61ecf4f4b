//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Draws an agent's tasks: layers from top to bottom (Sugiyama, Tagawa and Toda, 1981), parts inside parts.
//===----------------------------------------------------------------------------------------------------------===//
#include "Html.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <numeric>

using namespace llvm;
namespace wf = intarsia::workflow;

namespace intarsia::plan::html {

namespace {
constexpr double cardWidth = 214, padding = 10, rowGap = 38, columnGap = 22, headerHeight = 24;
constexpr double nameSize = 12.5, textSize = 11, lineHeight = 15;
constexpr double backArrow = 22; ///< space at the right of a loop for its back arrow

/// A region with its size; `x` and `y` are relative to the enclosing part.
struct Box {
  double x = 0, y = 0, width = 0, height = 0;
  int region = -1;
  std::vector<Box> children;                    ///< as in the region
  std::vector<std::string> arrows;              ///< paths of a dag's arrows
  std::vector<bool> streams;                    ///< for each arrow, whether it streams
  std::vector<std::pair<double, double>> cases; ///< x and width of each case of a branch
  std::vector<std::string> name, where;         ///< lines of text of a task
};

/// An element of a layer: a child, or a point that a longer arrow passes (`child` is -1 then).
struct Slot {
  int child = -1;
  double width = 0, center = 0;
  std::vector<int> above, below; ///< slots
};

class Drawing {
public:
  Drawing(const PlanReport &report, const std::vector<PieceRow> &rows, int agent)
      : report(report), rows(rows), agent(agent), graph((*report.graphs)[agent]) {}

  void write(raw_ostream &page) {
    Box all = measure(graph.root);
    draw(all, padding, padding);
    svg.write(page, all.width + 2 * padding, all.height + 2 * padding,
              "Tasks of " + graph.name + " with the pool and choice of each");
  }

private:
  const PlanReport &report;
  const std::vector<PieceRow> &rows;
  int agent;
  const wf::Graph &graph;
  Svg svg;

  Box measure(int index) {
    const wf::Region &region = graph.regions[index];
    Box box;
    switch (region.kind) {
    case wf::Region::Kind::Task:
      box = measureTask(region);
      break;
    case wf::Region::Kind::Dag:
      box = measureDag(region);
      break;
    case wf::Region::Kind::Branch:
      box = measureBranch(region);
      break;
    default:
      box = measureAround(region);
    }
    box.region = index;
    return box;
  }

  //===-- Tasks -----------------------------------------------------------------------------------------------===//

  Box measureTask(const wf::Region &region) {
    const wf::Task &task = graph.tasks[region.task];
    const PieceRow &row = rows[pieceOf(region)];
    Box box;
    box.name = wrapped(task.name, nameSize, cardWidth - 24, 3);
    auto add = [&](const std::string &text) {
      if (!text.empty())
        append_range(box.where, wrapped(text, textSize, cardWidth - 24, 2));
    };
    std::string named = poolName(report, choiceOf(pieceOf(region)).pool);
    add(row.outside && named != row.pool ? row.pool + " · " + named : placeOf(row));
    if (!row.outside && row.devices == 0)
      add("in the decode's replicas");
    else if (!row.outside)
      add(formatv("batch {0}, {1} {2}", row.batch, row.replicas, row.replicas == 1 ? "replica" : "replicas"));
    std::string time = duration(taskMs(report, row, agent, region.task));
    if (row.waitMs >= 0.05)
      time += " + " + duration(row.waitMs) + " wait";
    add(time);
    if (std::abs(task.executions - 1) > 1e-6)
      add(number(task.executions) + " times a request");
    box.width = cardWidth;
    box.height = 14 + double(box.name.size() + box.where.size()) * lineHeight;
    return box;
  }

  const Choice &choiceOf(int piece) const {
    return report.problem->pieces[piece].candidates[report.result.placements[piece].choice];
  }
  int pieceOf(const wf::Region &region) const { return report.built->pieceOfTask[agent][region.task]; }

  //===-- Dags ------------------------------------------------------------------------------------------------===//

  /// Returns the transitive reduction of the arcs: [from][to].
  std::vector<std::vector<bool>> reduced(const wf::Region &region) const {
    size_t count = region.children.size();
    std::vector<std::vector<bool>> reaches(count, std::vector<bool>(count)), direct = reaches;
    for (const wf::Region::Arc &arc : region.arcs)
      direct[arc.from][arc.to] = true;
    // Arcs lead to later positions, so the reach of later ones is known.
    for (size_t from = count; from-- > 0;)
      for (size_t to = from + 1; to < count; ++to) {
        if (!direct[from][to] || reaches[from][to])
          continue;
        reaches[from][to] = true;
        for (size_t beyond = to + 1; beyond < count; ++beyond)
          if (reaches[to][beyond])
            reaches[from][beyond] = true;
      }
    auto kept = direct;
    for (size_t from = 0; from < count; ++from)
      for (size_t to = from + 1; to < count; ++to)
        for (size_t between = from + 1; between < to; ++between)
          if (direct[from][between] && reaches[between][to])
            kept[from][to] = false;
    return kept;
  }

  Box measureDag(const wf::Region &region) {
    Box box;
    int count = int(region.children.size());
    for (int child : region.children)
      box.children.push_back(measure(child));
    if (count == 0) {
      box.width = 90, box.height = 24;
      return box;
    }
    auto arcs = reduced(region);
    std::vector<int> layerOf(count);
    for (int from = 0; from < count; ++from)
      for (int to = from + 1; to < count; ++to)
        if (arcs[from][to])
          layerOf[to] = std::max(layerOf[to], layerOf[from] + 1);
    std::vector<Slot> slots;
    std::vector<std::vector<int>> layers(1 + *std::max_element(layerOf.begin(), layerOf.end()));
    auto addSlot = [&](int layer, int child, double width) {
      layers[layer].push_back(int(slots.size()));
      slots.push_back({child, width});
      return int(slots.size()) - 1;
    };
    for (int child = 0; child < count; ++child)
      addSlot(layerOf[child], child, box.children[child].width);
    std::vector<std::vector<int>> routes; // slots of each arrow
    for (int from = 0; from < count; ++from)
      for (int to = from + 1; to < count; ++to) {
        if (!arcs[from][to])
          continue;
        std::vector<int> route{from};
        for (int layer = layerOf[from] + 1; layer < layerOf[to]; ++layer)
          route.push_back(addSlot(layer, -1, 4));
        route.push_back(to);
        for (size_t step = 1; step < route.size(); ++step) {
          slots[route[step - 1]].below.push_back(route[step]);
          slots[route[step]].above.push_back(route[step - 1]);
        }
        routes.push_back(std::move(route));
        box.streams.push_back(any_of(region.arcs, [&](const wf::Region::Arc &arc) {
          return arc.from == from && arc.to == to && arc.streaming;
        }));
      }
    place(slots, layers);
    finish(box, slots, layers, routes);
    return box;
  }

  /// Orders layers by the means of their neighbours, then moves each slot as near to its mean as the others let it.
  static void place(std::vector<Slot> &slots, std::vector<std::vector<int>> &layers) {
    auto meanOf = [&](const Slot &slot, const std::vector<int> &others) {
      double sum = 0;
      for (int other : others)
        sum += slots[other].center;
      return others.empty() ? slot.center : sum / double(others.size());
    };
    auto pack = [&](const std::vector<int> &layer) {
      double x = 0;
      for (int slot : layer) {
        slots[slot].center = x + slots[slot].width / 2;
        x += slots[slot].width + columnGap;
      }
      for (int slot : layer)
        slots[slot].center -= (x - columnGap) / 2;
    };
    for (auto &layer : layers)
      pack(layer);
    for (int sweep = 0; sweep < 12; ++sweep) {
      bool down = sweep % 2 == 0;
      for (size_t step = 0; step < layers.size(); ++step) {
        auto &layer = layers[down ? step : layers.size() - 1 - step];
        std::vector<double> wanted;
        if (sweep < 6) {
          stable_sort(layer, [&](int a, int b) {
            return meanOf(slots[a], down ? slots[a].above : slots[a].below) <
                   meanOf(slots[b], down ? slots[b].above : slots[b].below) - 1e-6;
          });
          pack(layer);
          continue;
        }
        for (int slot : layer)
          wanted.push_back(meanOf(slots[slot], down ? slots[slot].above : slots[slot].below));
        spread(slots, layer, wanted);
      }
    }
  }

  /// Returns the positions nearest in squares to the wanted ones, in this order and without overlap: neighbours that
  /// want to overlap become a block at the mean of their wishes (pool adjacent violators).
  static void spread(std::vector<Slot> &slots, const std::vector<int> &layer, const std::vector<double> &wanted) {
    struct Block {
      double sum;
      int count;
      double mean() const { return sum / count; }
    };
    std::vector<Block> blocks;
    std::vector<double> offsets; // from the first slot's center, packed
    for (auto [index, slot] : enumerate(layer)) {
      double offset =
          index == 0 ? 0 : offsets.back() + (slots[layer[index - 1]].width + slots[slot].width) / 2 + columnGap;
      offsets.push_back(offset);
      blocks.push_back({wanted[index] - offset, 1});
      while (blocks.size() > 1 && blocks[blocks.size() - 2].mean() > blocks.back().mean()) {
        blocks[blocks.size() - 2].sum += blocks.back().sum;
        blocks[blocks.size() - 2].count += blocks.back().count;
        blocks.pop_back();
      }
    }
    size_t index = 0;
    for (const Block &block : blocks)
      for (int member = 0; member < block.count; ++member, ++index)
        slots[layer[index]].center = block.mean() + offsets[index];
  }

  /// Computes heights of layers, positions of children and paths of arrows.
  static void finish(Box &box, const std::vector<Slot> &slots, const std::vector<std::vector<int>> &layers,
                     const std::vector<std::vector<int>> &routes) {
    double left = 0, right = 0;
    for (auto [index, slot] : enumerate(slots)) {
      left = index ? std::min(left, slot.center - slot.width / 2) : slot.center - slot.width / 2;
      right = index ? std::max(right, slot.center + slot.width / 2) : slot.center + slot.width / 2;
    }
    box.width = right - left;
    std::vector<std::pair<double, double>> span(slots.size()); // top and bottom
    double y = 0;
    for (auto &layer : layers) {
      double height = 0;
      for (int slot : layer)
        if (slots[slot].child >= 0)
          height = std::max(height, box.children[slots[slot].child].height);
      for (int slot : layer) {
        span[slot] = {y, y + height};
        if (slots[slot].child < 0)
          continue;
        Box &child = box.children[slots[slot].child];
        child.x = slots[slot].center - child.width / 2 - left;
        child.y = y + (height - child.height) / 2;
        span[slot] = {child.y, child.y + child.height};
      }
      y += height + rowGap;
    }
    box.height = y - rowGap;
    for (auto &route : routes) {
      std::string path;
      raw_string_ostream out(path);
      for (size_t step = 0; step < route.size(); ++step) {
        double x = slots[route[step]].center - left;
        auto [top, bottom] = span[route[step]];
        if (step == 0) {
          out << formatv("M{0:f1},{1:f1}", x, bottom);
          continue;
        }
        double before = slots[route[step - 1]].center - left, from = span[route[step - 1]].second;
        double to = top - (step + 1 == route.size() ? 5 : 0); // the arrow's head
        out << formatv(" C{0:f1},{1:f1} {2:f1},{3:f1} {2:f1},{4:f1}", before, from + rowGap * 0.6, x, to - rowGap * 0.5,
                       to);
        if (step + 1 < route.size())
          out << formatv(" L{0:f1},{1:f1}", x, bottom);
      }
      box.arrows.push_back(std::move(path));
    }
  }

  //===-- Parts around parts ----------------------------------------------------------------------------------===//

  /// Returns the width for a label: its text width, but at most twice that of a card.
  static double labelWidth(StringRef label) { return std::min(textWidth(label, textSize), 2 * cardWidth); }

  Box measureBranch(const wf::Region &region) {
    Box box;
    double x = padding;
    for (auto [index, child] : enumerate(region.children)) {
      Box one = measure(child);
      double width = std::max(one.width, labelWidth(caseLabel(region, index))) + 2 * padding;
      box.cases.push_back({x, width});
      one.x = x + (width - one.width) / 2, one.y = 2 * headerHeight + padding;
      x += width + padding;
      box.height = std::max(box.height, one.height);
      box.children.push_back(std::move(one));
    }
    box.height += 2 * headerHeight + 3 * padding;
    box.width = std::max(x, labelWidth(headerOf(region)) + 2 * padding);
    return box;
  }

  Box measureAround(const wf::Region &region) {
    Box box;
    Box inside = measure(region.children[0]);
    bool loops = region.kind == wf::Region::Kind::Loop;
    box.width =
        std::max(inside.width + 2 * padding + (loops ? 2 * backArrow : 0), labelWidth(headerOf(region)) + 2 * padding);
    inside.x = (box.width - inside.width) / 2;
    inside.y = headerHeight + padding;
    box.height = inside.y + inside.height + padding + (loops ? 8 : 0);
    box.children.push_back(std::move(inside));
    return box;
  }

  std::string caseLabel(const wf::Region &region, size_t index) const {
    const std::string &name = graph.regions[region.children[index]].name;
    std::string share = formatv("{0:f0} %", 100 * region.probabilities[index]);
    return name.empty() ? share : name + ", " + share;
  }

  static std::string headerOf(const wf::Region &region) {
    double mean = 0;
    int64_t most = 0;
    for (auto [count, probability] : region.counts)
      mean += double(count) * probability, most = std::max(most, count);
    std::string named = region.name.empty() ? "" : " " + region.name;
    switch (region.kind) {
    case wf::Region::Kind::Loop:
      return "loop, " + number(mean) + " turns of at most " + std::to_string(most) +
             (region.name.empty() ? "" : ", until " + region.name);
    case wf::Region::Kind::Map:
      return "for each" + named + ", " + number(mean) + " at once" +
             (region.concurrency ? ", at most " + std::to_string(*region.concurrency) : "");
    default:
      return "one of" + (named.empty() ? " these" : named);
    }
  }

  //===-- Drawing ---------------------------------------------------------------------------------------------===//

  void draw(const Box &box, double x, double y) {
    const wf::Region &region = graph.regions[box.region];
    switch (region.kind) {
    case wf::Region::Kind::Task:
      return drawTask(box, x, y);
    case wf::Region::Kind::Dag:
      if (box.children.empty())
        svg.text(x + box.width / 2, y + 16, "nothing", "small", "middle");
      for (auto [arrow, streams] : zip(box.arrows, box.streams))
        svg.path(arrow, streams ? "arrow streams" : "arrow",
                 formatv("transform=\"translate({0:f1},{1:f1})\" marker-end=\"url(#head)\"", x, y).str());
      break;
    default:
      svg.rectangle(x, y, box.width, box.height, "part", 8);
      drawLabel(headerOf(region), x + padding, y + 17, box.width - 2 * padding);
    }
    for (auto [index, at] : enumerate(box.cases)) {
      auto [left, width] = at;
      svg.rectangle(x + left, y + headerHeight + padding / 2, width, box.height - headerHeight - 1.5 * padding, "part",
                    6);
      drawLabel(caseLabel(region, index), x + left + padding, y + headerHeight + padding / 2 + 17, width - 2 * padding);
    }
    if (region.kind == wf::Region::Kind::Loop) {
      const Box &inside = box.children.front();
      double right = x + inside.x + inside.width, middle = x + inside.x + inside.width / 2;
      double top = y + inside.y, bottom = top + inside.height;
      svg.path(formatv("M{0:f1},{1:f1} v8 H{2:f1} V{3:f1} H{4:f1} v3", middle, bottom, right + backArrow * 0.75,
                       top - 8, middle)
                   .str(),
               "arrow", "marker-end=\"url(#head)\"");
    }
    for (const Box &child : box.children)
      draw(child, x + child.x, y + child.y);
  }

  void drawLabel(StringRef label, double x, double y, double width) {
    svg.text(x, y, wrapped(label, textSize, width + 1e-6, 1).front(), "small");
  }

  void drawTask(const Box &box, double x, double y) {
    const wf::Region &region = graph.regions[box.region];
    const wf::Task &task = graph.tasks[region.task];
    const Choice &choice = choiceOf(pieceOf(region));
    svg.beginGroup(task.name + (task.location.empty() ? "" : ", " + task.location) + "\n" + choice.label,
                   poolClass(report, choice.pool));
    svg.rectangle(x, y, box.width, box.height, "card", 6);
    svg.rectangle(x, y + 6, 5, box.height - 12, "swatch");
    double line = y + 18;
    for (const std::string &text : box.name) {
      svg.text(x + 14, line, text, "name");
      line += lineHeight;
    }
    for (const std::string &text : box.where) {
      svg.text(x + 14, line, text, "small");
      line += lineHeight;
    }
    svg.endGroup();
  }
};
} // namespace

void writeGraph(raw_ostream &page, const PlanReport &report, const std::vector<PieceRow> &rows, int agent) {
  Drawing(report, rows, agent).write(page);
}

} // namespace intarsia::plan::html
