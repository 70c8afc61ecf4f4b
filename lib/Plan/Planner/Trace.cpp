//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Writes the planner's decisions in the form of fuse-record-decisions.
//===----------------------------------------------------------------------------------------------------------===//
#include "Parts.h"
#include "Text.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include <cmath>

using namespace llvm;

namespace intarsia::plan {

/// Returns a text for an id: as in ids of the fuse phase, characters with a meaning on a command line become '_'.
static std::string plain(StringRef text) {
  std::string result;
  for (char c : text)
    result += isAlnum(c) || StringRef("_.:/#-").contains(c) ? c : '_';
  return result;
}

static void writeDecision(json::OStream &out, const PlanReport &report, int index, const std::string &id,
                          const workflow::Graph &graph, const workflow::Task &task) {
  const PlacementProblem &problem = *report.problem;
  const Piece &piece = problem.pieces[index];
  const Choice &chosen = piece.candidates[report.result.placements[index].choice];
  double own = report.result.evaluation.objective, least = unlimited;
  int impossible = 0;
  out.object([&] {
    out.attribute("id", id);
    out.attribute("pass", "plan-place");
    out.attribute("function", asJson(graph.name));
    out.attribute("location", asJson(task.location));
    out.attribute("root", asJson(piece.name));
    out.attribute("op", workflow::nameOf(task.kind));
    out.attribute("chosen", asJson(chosen.label));
    out.attribute("cost", own);
    out.attributeArray("alternatives", [&] {
      for (const Alternative &other : report.alternatives) {
        if (other.piece != index)
          continue;
        if (other.possible)
          least = std::min(least, other.objective - own);
        impossible += !other.possible;
        out.object([&] {
          out.attribute("chosen", other.possible ? asJson(piece.candidates[other.placements[index].choice].label)
                                  : other.pool   ? asJson("@" + problem.pools[*other.pool].name)
                                                 : json::Value(nullptr));
          out.attribute("cost", other.possible ? json::Value(other.objective) : json::Value(nullptr));
          out.attribute("reason", asJson(other.reason));
        });
      }
    });
    std::string reason;
    raw_string_ostream why(reason);
    if (least < unlimited)
      why << formatv("the next best costs {0:e3} more", least);
    if (impossible > 0)
      why << (reason.empty() ? "" : "; ") << impossible << (impossible == 1 ? " has" : " have") << " no plan";
    out.attribute("reason", reason);
    out.attribute("forced", piece.pinnedPool.has_value());
  });
}

void printDecisions(raw_ostream &stream, const PlanReport &report) {
  json::OStream out(stream, 2);
  StringMap<unsigned> uses; // equal ids get a number
  out.object([&] {
    out.attribute("format", 1);
    out.attribute("unit", nameOf(report.problem->objective));
    out.attributeArray("decisions", [&] {
      std::vector<bool> written(report.problem->pieces.size());
      for (auto [graph, pieces] : zip(*report.graphs, report.built->pieceOfTask))
        for (auto [task, piece] : zip(graph.tasks, pieces)) {
          bool outside = report.built->meanings[piece][report.result.placements[piece].choice].outside;
          if (outside || written[piece])
            continue;
          written[piece] = true;
          std::string id = plain("plan-place:" + graph.name + ":" + task.name);
          if (unsigned count = ++uses[id]; count > 1)
            id += "#" + std::to_string(count);
          writeDecision(out, report, piece, id, graph, task);
        }
    });
  });
  stream << '\n';
}

} // namespace intarsia::plan
