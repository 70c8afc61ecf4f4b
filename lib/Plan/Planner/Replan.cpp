//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The previous plan: reads the output of --json, matches it with the present candidates, and compares it with the new
// plan.
//===----------------------------------------------------------------------------------------------------------===//
#include "Parts.h"
#include "Text.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <set>

using namespace llvm;

namespace intarsia::plan {

//===-- Reading -----------------------------------------------------------------------------------------------===//

namespace {
/// Graphs and tasks, by their names.
using Tasks = std::set<std::pair<std::string, std::string>>;

/// A piece of the previous plan.
struct PreviousPiece {
  std::string name, pool; ///< pool: empty if outside
  Tasks tasks;            ///< empty in files of older versions
  ChoiceMeaning meaning;
  int64_t replicas = 0;
};

class PreviousReader {
public:
  PreviousReader(const std::string &file, ArrayRef<workflow::Graph> graphs, const BuiltProblem &built)
      : file(file), built(built), tasksOf(built.problem.pieces.size()) {
    for (auto [graph, pieces] : zip(graphs, built.pieceOfTask))
      for (auto [task, piece] : zip(graph.tasks, pieces))
        if (piece >= 0)
          tasksOf[piece].insert({graph.name, task.name});
  }

  Expected<Replan> read() {
    Expected<JsonFile> read = readJson(file);
    if (!read)
      return refuse(toString(read.takeError()));
    const json::Object *root = read->value.getAsObject();
    std::optional<int64_t> version = root ? root->getInteger("version") : std::nullopt;
    if (!version)
      return refuse("'" + file + "' says no version of its format, so it is no plan");
    if (*version != 1)
      return refuse("'" + file + "' has version " + Twine(*version) +
                    " of the format, this intarsia-plan reads version 1");
    const json::Array *pieces = root->getArray("pieces");
    if (!pieces)
      return refuse("'" + file + "' has no plan, the status of its run was '" +
                    root->getString("status").value_or("missing") + "'");
    std::vector<PreviousPiece> known;
    for (auto [index, entry] : enumerate(*pieces)) {
      Expected<PreviousPiece> piece = readPiece(entry.getAsObject(), index);
      if (!piece)
        return piece.takeError();
      known.push_back(std::move(*piece));
    }
    if (known.empty())
      return refuse("'" + file + "' has a plan of no piece");
    std::vector<int> matches = match(known);
    if (all_of(matches, [](int found) { return found < 0; }))
      return refuse("'" + file + "' is the plan of another agent: it has " +
                    quoted(known, [](const PreviousPiece &piece) { return piece.name; }) + ", and here are " +
                    quoted(built.problem.pieces, [](const Piece &piece) { return piece.name; }));
    Replan replan;
    replan.since = "'" + file + "'";
    for (auto [index, found] : enumerate(matches)) {
      if (found < 0) {
        replan.before.push_back({});
        replan.unknown.push_back(built.problem.pieces[index].name + " is not in it");
        continue;
      }
      replan.before.push_back(placedOf(index, known[found], replan.unknown));
    }
    for (auto [index, piece] : enumerate(known))
      if (!is_contained(matches, int(index)))
        replan.unknown.push_back(piece.name + " is in no agent any more");
    return replan;
  }

private:
  const std::string &file;
  const BuiltProblem &built;
  std::vector<Tasks> tasksOf; ///< by present piece

  /// Returns for each present piece the previous piece with most of its tasks, or -1. For graphs that only one side
  /// has, names decide, as names of pieces depend on their order.
  std::vector<int> match(ArrayRef<PreviousPiece> known) const {
    std::vector<int> matches(built.problem.pieces.size(), -1);
    auto fill = [&](auto score) {
      std::vector<std::tuple<size_t, size_t, size_t>> pairs; // score, present piece, previous piece
      for (size_t now = 0; now < matches.size(); ++now)
        for (size_t before = 0; before < known.size(); ++before)
          if (size_t shared = score(now, known[before]))
            pairs.push_back({shared, now, before});
      llvm::stable_sort(pairs, [](auto &a, auto &b) { return std::get<0>(a) > std::get<0>(b); });
      for (auto [shared, now, before] : pairs)
        if (matches[now] < 0 && !is_contained(matches, int(before)))
          matches[now] = int(before);
    };
    fill([&](size_t now, const PreviousPiece &before) {
      size_t shared = 0;
      for (auto &task : before.tasks)
        shared += tasksOf[now].count(task);
      // Among equal scores prefers the piece of the same name.
      return shared == 0 ? 0 : 2 * shared + (before.name == built.problem.pieces[now].name);
    });
    std::set<std::string> graphsNow, graphsBefore;
    for (const Tasks &tasks : tasksOf)
      for (auto &[graph, task] : tasks)
        graphsNow.insert(graph);
    for (const PreviousPiece &piece : known)
      for (auto &[graph, task] : piece.tasks)
        graphsBefore.insert(graph);
    auto isNew = [](const Tasks &tasks, const std::set<std::string> &graphs) {
      return none_of(tasks, [&](auto &task) { return graphs.count(task.first) > 0; });
    };
    fill([&](size_t now, const PreviousPiece &before) {
      return before.name == built.problem.pieces[now].name &&
             (isNew(tasksOf[now], graphsBefore) || isNew(before.tasks, graphsNow));
    });
    return matches;
  }

  /// Returns the names of pieces, only the first if there are many.
  template <typename Range, typename NameOf> static std::string quoted(const Range &range, NameOf nameOf) {
    constexpr size_t most = 8;
    std::string text;
    size_t count = 0;
    for (const auto &entry : range)
      if (++count <= most)
        text += (count > 1 ? ", '" : "'") + nameOf(entry) + "'";
    return count > most ? text + " and " + std::to_string(count - most) + " more" : text;
  }

  static Error refuse(const Twine &what) {
    return createStringError("--previous: " + what + "; name a file that intarsia-plan --json wrote with a plan in it");
  }

  Expected<PreviousPiece> readPiece(const json::Object *entry, size_t index) const {
    auto wrong = [&](StringRef what) {
      return refuse(formatv("'{0}': 'pieces' has at {1} (from 0) no {2}", file, index, what));
    };
    if (!entry)
      return wrong("object");
    PreviousPiece piece;
    std::optional<StringRef> name = entry->getString("name");
    if (!name)
      return wrong("'name' that is a text");
    piece.name = *name;
    if (const json::Array *tasks = entry->getArray("tasks"))
      for (const json::Value &value : *tasks)
        if (const json::Object *task = value.getAsObject())
          piece.tasks.insert({task->getString("graph").value_or("").str(), task->getString("task").value_or("").str()});
    std::optional<bool> outside = entry->getBoolean("outside");
    if (!outside)
      return wrong("'outside' that is true or false");
    piece.meaning.outside = *outside;
    std::optional<StringRef> pool = entry->getString("pool");
    if (!pool && !*outside)
      return wrong("'pool' that is a text");
    piece.pool = pool.value_or("");
    piece.meaning.precision = entry->getString("precision").value_or("");
    constexpr int64_t most = std::numeric_limits<int>::max();
    for (auto [key, into] : {std::pair("tensor", &piece.meaning.tensor),
                             {"pipeline", &piece.meaning.pipeline},
                             {"expert", &piece.meaning.expert},
                             {"data", &piece.meaning.data},
                             {"parts", &piece.meaning.parts},
                             {"batch", &piece.meaning.batch}}) {
      std::optional<int64_t> number = entry->getInteger(key);
      if (!number || *number < 1 || *number > most)
        return wrong(formatv("'{0}' that is a whole number above zero", key).str());
      *into = int(*number);
    }
    // Older files have no such member: prefill and decode never shared replicas.
    const json::Value *aggregated = entry->get("aggregated");
    if (aggregated && !aggregated->getAsBoolean())
      return wrong("'aggregated' that is true or false");
    piece.meaning.aggregate = aggregated && *aggregated->getAsBoolean();
    std::optional<int64_t> replicas = entry->getInteger("replicas");
    if (!replicas || *replicas < 1 || *replicas > most)
      return wrong("'replicas' that is a whole number above zero");
    piece.replicas = *replicas;
    return piece;
  }

  /// Returns the same choice in the present candidates.
  Placed placedOf(size_t index, const PreviousPiece &before, std::vector<std::string> &unknown) const {
    const Piece &piece = built.problem.pieces[index];
    auto same = [&](const Choice &choice, const ChoiceMeaning &meaning) {
      const ChoiceMeaning &was = before.meaning;
      return meaning.outside == was.outside && (was.outside || built.problem.pools[choice.pool].name == before.pool) &&
             meaning.precision == was.precision && meaning.tensor == was.tensor && meaning.pipeline == was.pipeline &&
             meaning.expert == was.expert && meaning.data == was.data && meaning.parts == was.parts &&
             meaning.batch == was.batch && (meaning.aggregate > 0) == (was.aggregate > 0);
    };
    for (auto [position, choice] : enumerate(piece.candidates))
      if (same(choice, built.meanings[index][position]))
        // The file gives a piece without devices the replicas of its host.
        return {int(position), choice.devicesPerReplica > 0 ? before.replicas : 1};
    Candidates one; // for its label
    one.add({}, before.meaning, before.meaning.outside ? "outside" : before.pool);
    bool poolExists = before.meaning.outside ||
                      any_of(built.problem.pools, [&](const Pool &pool) { return pool.name == before.pool; });
    unknown.push_back(
        piece.name + " was " + one.choices.front().label +
        (poolExists ? ", which is not among its candidates now" : ", and the fleet has no such pool now"));
    return {};
  }
};
} // namespace

Expected<Replan> readPrevious(const std::string &file, ArrayRef<workflow::Graph> graphs, const BuiltProblem &built) {
  return PreviousReader(file, graphs, built).read();
}

//===-- Comparing ---------------------------------------------------------------------------------------------===//

std::vector<PieceChange> changesOf(const PlanReport &report) {
  std::vector<PieceChange> changes;
  for (auto [index, piece] : enumerate(report.problem->pieces)) {
    Placed before = report.replan->before[index], now = report.result.placements[index];
    if (before.choice < 0 || before == now)
      continue;
    PieceChange change{piece.name, piece.candidates[before.choice].label, piece.candidates[now.choice].label};
    change.replicasBefore = before.replicas, change.replicasNow = now.replicas;
    change.moves = before.choice != now.choice;
    changes.push_back(std::move(change));
  }
  return changes;
}

double objectiveWithoutMoves(const PlanReport &report) {
  const Evaluation &evaluation = report.result.evaluation;
  return evaluation.objective - report.problem->moveCost * evaluation.moves;
}

std::string countOfMoves(const PlanReport &report) {
  std::vector<PieceChange> changes = changesOf(report);
  size_t moved = count_if(changes, [](const PieceChange &change) { return change.moves; });
  std::string text =
      formatv("{0} of {1} pieces moved since {2}", moved, report.problem->pieces.size(), report.replan->since);
  if (changes.size() > moved)
    text += formatv(", the replicas of {0} {1}changed", changes.size() - moved, moved ? "more " : "");
  return text;
}

std::string textOfStaying(const PlanReport &report) {
  const Replan &replan = *report.replan;
  if (!replan.stay)
    return "what it costs to stay is not known: not all of that plan can be had now";
  if (!replan.stay->feasible())
    return "it cannot stay as it was: " + join(replan.stay->violations, "; ");
  double stays = replan.stay->objective, more = stays - objectiveWithoutMoves(report);
  std::string text = formatv("to stay as it was would cost {0:e3} {1}", stays, nameOf(report.problem->objective));
  if (std::abs(more) <= 1e-9 * std::abs(stays))
    return text + ", the same";
  return formatv("{0}, {1:e3} {2} ({3:P1})", text, std::abs(more), more > 0 ? "more" : "less",
                 std::abs(more) / std::abs(stays - more));
}

void printReplan(raw_ostream &out, const PlanReport &report) {
  out << '\n' << countOfMoves(report) << '\n';
  std::vector<PieceChange> changes = changesOf(report);
  for (const PieceChange &change : changes) {
    out << "  " << change.piece << ": ";
    if (change.moves)
      out << "from " << change.before << " to " << change.now;
    if (change.moves && change.replicasBefore != change.replicasNow)
      out << ", ";
    if (change.replicasBefore != change.replicasNow)
      out << "replicas from " << change.replicasBefore << " to " << change.replicasNow;
    out << '\n';
  }
  if (!changes.empty() || !report.replan->stay)
    out << "  " << textOfStaying(report) << '\n';
  for (const std::string &unknown : report.replan->unknown)
    out << "  not placed before: " << unknown << '\n';
}

json::Object replanJson(const PlanReport &report) {
  const Replan &replan = *report.replan;
  json::Value stay = nullptr;
  if (replan.stay)
    stay = json::Object{{"objective", asJson(replan.stay->objective)}, {"breaks", asJson(replan.stay->violations)}};
  return json::Object{{"text", asJson(countOfMoves(report))},
                      {"stay_text", asJson(textOfStaying(report))},
                      {"since", asJson(replan.since)},
                      {"moves", report.result.evaluation.moves},
                      {"changes", arrayOf(changesOf(report),
                                          [](const PieceChange &change) {
                                            return json::Object{{"piece", asJson(change.piece)},
                                                                {"moves", change.moves},
                                                                {"before", asJson(change.before)},
                                                                {"now", asJson(change.now)},
                                                                {"replicas_before", change.replicasBefore},
                                                                {"replicas_now", change.replicasNow}};
                                          })},
                      {"objective", asJson(objectiveWithoutMoves(report))},
                      {"stay", std::move(stay)},
                      {"unknown", asJson(replan.unknown)}};
}

} // namespace intarsia::plan
