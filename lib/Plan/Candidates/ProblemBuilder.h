//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Construction of a placement problem: Problem.cpp has pools and groups, Pieces.cpp candidates, Agents.cpp flows and
// their order.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_PLAN_PROBLEMBUILDER_H
#define INTARSIA_LIB_PLAN_PROBLEMBUILDER_H

#include "Candidates.h"
#include <map>
#include <set>

namespace intarsia::plan {
namespace wf = workflow;
using wf::Kind;

class ProblemBuilder {
public:
  ProblemBuilder(const std::vector<wf::Graph> &graphs, const Fleet &fleet, const CandidateOptions &options)
      : graphs(graphs), fleet(fleet), options(options) {}

  llvm::Expected<BuiltProblem> run();

private:
  struct Member {
    int graph, task;
    double executionsPerSecond; ///< rate; without rates, executions in a request
    double scale = 1, laterScale = 1;
  };
  /// Tasks that share a piece.
  struct Group {
    std::string key;
    std::vector<Member> members;
    int piece = -1;
    PieceWork work;
  };

  const std::vector<wf::Graph> &graphs;
  const Fleet &fleet;
  const CandidateOptions &options;
  BuiltProblem result;
  std::vector<Group> groups;
  std::map<std::pair<int, int>, std::pair<int, int>> memberOf; ///< (graph, task) to (group, member)
  std::set<std::string> unsure, notes;
  bool anyRate = false;
  int outsidePool = -1, nothingPiece = -1;
  const wf::Task &taskOf(const Member &member) const { return graphs[member.graph].tasks[member.task]; }

  //===-- Pools -----------------------------------------------------------------------------------------------===//

  llvm::Error addPools();
  /// Sets the power of a pool. A device without a figure adds no power to the plan, unless power is bounded.
  llvm::Error addWatts(Pool &pool, const CatalogueDevice &device);
  /// Returns the pool's own price, else rental by the catalogue, else ownership with the usual terms.
  llvm::Expected<double> priceOf(const FleetPool &pool);
  int outside();
  int addOutsidePool(const std::string &name, int64_t devices);

  //===-- Groups ----------------------------------------------------------------------------------------------===//

  static bool isOutside(const wf::Task &task) { return task.latencyMs.has_value(); }

  /// Returns the user's tasks that a task is a piece of, each by its first piece: a decode belongs to its prefill, an
  /// encoder to all its consumers.
  static std::set<int> usersTasks(const wf::Graph &graph, int task);
  static std::string textOf(const std::optional<wf::FixedPlacement> &placement);
  std::string keyOf(const wf::Graph &graph, const wf::Task &task, int unique) const;
  void groupTasks();
  /// Returns the mean over the executions of all members.
  template <typename Function> double mean(const Group &group, Function figure) const {
    double sum = 0, weight = 0;
    for (const Member &member : group.members) {
      double of = std::max(member.executionsPerSecond, 1e-12);
      sum += of * figure(member);
      weight += of;
    }
    return sum / weight;
  }

  //===-- Pieces ----------------------------------------------------------------------------------------------===//

  llvm::Error addPiece(Group &group);
  /// Keeps the choices that a placement by hand allows.
  llvm::Error pin(Piece &piece, Candidates &candidates, const wf::Task &task, const wf::Graph &graph);
  /// Refuses placements by hand, and with others, of work outside the fleet.
  static llvm::Error refusePlacement(const wf::Task &task, const wf::Graph &graph);
  llvm::Expected<Candidates> outsideCandidates(Group &group);
  llvm::Expected<Candidates> deviceCandidates(Group &group);
  llvm::Expected<Candidates> languageModelCandidates(Group &group);
  llvm::Expected<DecoderWork> decoderWorkOf(const Group &group) const;
  /// Derives the shapes of language models that have none from their parameters and caches.
  llvm::Error deriveShapes();
  /// Returns the shape of a language model, derived or found.
  llvm::Expected<const ModelShape *> modelShapeOf(const wf::Model &model) const;
  static llvm::Expected<NumberFormat> cacheOf(const wf::Model &model);
  /// Returns the decode that each execution of a prefill goes to, one to one, or the prefill of a decode. Null if there
  /// is none.
  const Group *partnerOf(const Group &group) const;
  /// Scales each member by its time over that of the mean, on the first candidate.
  llvm::Expected<Candidates> scaleMembers(Group &group, const DecoderWork &work, Candidates candidates);
  const wf::Region *loopAround(const Member &member) const;
  llvm::Expected<Candidates> otherCandidates(Group &group);
  /// Makes a candidate set by the roofline, and notes the assumption behind shares of devices.
  llvm::Expected<Candidates> sharedCandidates(const RooflineWork &work);
  /// Drops each precision for which another is no worse on each pool for all pieces of the model: mostly the one with
  /// more bits. The pieces of a model must agree on a precision, which is expensive to solve.
  void dropPrecisions();
  /// Returns true if for each candidate of these pieces with weights of `worse` one with `better` is no worse.
  bool replaces(const std::vector<int> &pieces, const std::string &better, const std::string &worse) const;
  void dropPrecision(int piece, const std::string &precision);

  //===-- Links and edges -------------------------------------------------------------------------------------===//

  void addLinks();
  double bytesOf(const wf::Graph &graph, const wf::Edge &edge);
  static constexpr double bytesOf16 = 2; ///< features
  /// Returns how many values of `from` flow at once: those of all its executions in loops and maps that `to` is not in.
  /// A value flows once into a loop, a map or a case, however often it is read there.
  static double valuesTogether(const wf::Graph &graph, llvm::ArrayRef<int> regionOfTask, const wf::Edge &edge);

  /// Keeps caches with the weights that wrote them (weights of another precision are another model), and with the
  /// decode that shares the prefill's replicas.
  void keepKinds(Edge &flow) const;

  //===-- Agents ----------------------------------------------------------------------------------------------===//

  int nothing();
  void addAgent(size_t index);
  /// Turns a map of which only `most` items run at once into a loop over full rounds: at most one round too much work.
  static void inRounds(Agent &agent, int map, int64_t most);

  //===-- Groups of placement -----------------------------------------------------------------------------------===//

  void addGroups();
};

} // namespace intarsia::plan

#endif
