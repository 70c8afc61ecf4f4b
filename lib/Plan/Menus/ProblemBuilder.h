//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// How a placement problem is built: Problem.cpp has pools and groups, Pieces.cpp menus, Agents.cpp what flows and in
// what order.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_PLAN_PROBLEMBUILDER_H
#define INTARSIA_LIB_PLAN_PROBLEMBUILDER_H

#include "Menus.h"
#include <map>
#include <set>

namespace intarsia::plan {
namespace wf = workflow;
using wf::Kind;

class ProblemBuilder {
public:
  ProblemBuilder(const std::vector<wf::Graph> &graphs, const Fleet &fleet, const MenuOptions &options)
      : graphs(graphs), fleet(fleet), options(options) {}

  llvm::Expected<BuiltProblem> run();

private:
  struct Member {
    int graph, task;
    double executionsPerSecond; ///< or, without rates, in a request
    double scale = 1, laterScale = 1;
  };
  /// Tasks that share a piece.
  struct Group {
    std::string key;
    std::vector<Member> members;
    int piece = -1;
  };

  const std::vector<wf::Graph> &graphs;
  const Fleet &fleet;
  const MenuOptions &options;
  BuiltProblem result;
  std::vector<Group> groups;
  std::map<std::pair<int, int>, std::pair<int, int>> memberOf; ///< (graph, task) to (group, member)
  std::set<std::string> unsure, notes;
  bool anyRate = false;
  int outsidePool = -1, nothingPiece = -1;
  const wf::Task &taskOf(const Member &member) const { return graphs[member.graph].tasks[member.task]; }

  //===-- Pools -----------------------------------------------------------------------------------------------===//

  llvm::Error addPools();
  /// A device without a figure has no part in the plan's power, where nothing is asked of that.
  llvm::Error addWatts(Pool &pool, const CatalogueDevice &device);
  /// Of the pool, else rental by the catalogue, else owned with the usual terms.
  llvm::Expected<double> priceOf(const FleetPool &pool);
  int outside();
  int addOutsidePool(const std::string &name, int64_t devices);

  //===-- Groups ----------------------------------------------------------------------------------------------===//

  static bool isOutside(const wf::Task &task) { return task.latencyMs.has_value(); }

  /// The tasks that the user wrote which a task is a piece of, each by its first piece: experts belong to their decode,
  /// that to its prefill, an encoder to all that read it.
  static std::set<int> usersTasks(const wf::Graph &graph, int task);
  static std::string textOf(const std::optional<wf::Place> &place);
  std::string keyOf(const wf::Graph &graph, const wf::Task &task, int unique) const;
  void groupTasks();
  /// Mean over the executions of all members.
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
  /// Leaves on the menu what a placement by hand allows.
  llvm::Error pin(Piece &piece, Menu &menu, const wf::Task &task, const wf::Graph &graph);
  /// What runs outside the fleet has no place in it, by hand or with others.
  static llvm::Error refusePlace(const wf::Task &task, const wf::Graph &graph);
  llvm::Expected<Menu> outsideMenu(Group &group);
  llvm::Expected<Menu> deviceMenu(Group &group);
  llvm::Expected<Menu> languageModelMenu(Group &group);
  llvm::Expected<Menu> expertsMenu(const Group &group);
  llvm::Expected<DecoderWork> decoderWorkOf(const Group &group) const;
  /// The decode that each execution of a prefill goes to, one to one; and the other way round. Null if there is none.
  const Group *partnerOf(const Group &group) const;
  const Group *groupOf(int graph, int task) const { return &groups[memberOf.at({graph, task}).first]; }
  /// The experts that a decode calls, or null.
  const Group *expertsOf(const Group &group) const {
    const Member &first = group.members.front();
    return taskOf(first).experts < 0 ? nullptr : groupOf(first.graph, taskOf(first).experts);
  }
  /// Time of each member over that of the mean, on the first choice of the menu.
  llvm::Expected<Menu> scaleMembers(Group &group, const DecoderWork &work, Menu menu);
  const wf::Region *loopAround(const Member &member) const;
  llvm::Expected<Menu> otherMenu(Group &group);
  /// By the roofline; says on what shares of devices rest.
  llvm::Expected<Menu> sharedMenu(const RooflineWork &work);
  /// A precision goes where another is no worse on each pool for all pieces of the model: fewer bits, mostly. What is
  /// left must agree between the pieces of a model, which is costly to solve.
  void dropPrecisions();
  /// Whether for each way to run these pieces with weights of `worse` there is one with `better` that is no worse.
  bool replaces(const std::vector<int> &pieces, const std::string &better, const std::string &worse) const;
  void dropPrecision(int piece, const std::string &precision);

  //===-- Links and edges -------------------------------------------------------------------------------------===//

  void addLinks();
  double bytesOf(const wf::Graph &graph, const wf::Edge &edge);
  static constexpr double bytesOf16 = 2;
  /// How many values of `from` flow at once: of all its executions in loops and maps that `to` is not in. What goes
  /// into a loop, a map or a case goes there once, however often, or rarely, it is read.
  static double valuesTogether(const wf::Graph &graph, const wf::Edge &edge);

  /// A cache is read by the weights that wrote it (those of another precision are another model), and by the decode
  /// that shares its replicas.
  void keepKinds(Edge &flow) const;
  /// What a decode and its experts send each other; returns both edges.
  std::vector<int> addCalls(int decode, int experts, double steps);

  //===-- Agents ----------------------------------------------------------------------------------------------===//

  int nothing();
  void addAgent(size_t index);
  /// A map of which only `most` items run at once is a loop over full rounds of them: at most one round too much work.
  static void inRounds(Agent &agent, int map, int64_t most);

  //===-- Groups of placement -----------------------------------------------------------------------------------===//

  void addGroups();
};

} // namespace intarsia::plan

#endif
