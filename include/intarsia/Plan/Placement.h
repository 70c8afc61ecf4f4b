//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The placement problem: which choice of its menu each piece takes and in how many replicas, so that all agents hold
// their service levels on one fleet. Nothing here knows of MLIR. lib/Plan/Solver/README.md states the model.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PLAN_PLACEMENT_H
#define INTARSIA_PLAN_PLACEMENT_H

#include "intarsia/Plan/Distribution.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace intarsia::plan {

constexpr double unlimited = std::numeric_limits<double>::infinity();
/// A device is cut into so many parts at most.
constexpr int mostSharesOfDevice = 8;

/// Interchangeable devices. A replica of fewer devices than a node has stays inside one node: its devices are counted
/// as the next divisor of `devicesPerNode`; a larger one takes whole nodes.
struct Pool {
  std::string name;
  int64_t devices = 0;
  int64_t devicesPerNode = 1;
  /// Only whole nodes are paid for: devices are charged as nodes times `devicesPerNode`.
  bool wholeNodes = false;
  double dollarsPerDeviceHour = 0;
  /// Of one device: busy while its replica executes anything. A node that is paid for draws at least the idle power of
  /// all its devices.
  double idleWatts = 0, busyWatts = 0;
  double gramsPerKilowattHour = 0;
  /// Nothing is rounded up in what is paid, only in what there must be: a bound for those who share it.
  bool paidByPart = false;
};

/// What connects pools. All listed pairs share its bandwidth; a full-duplex connection is two links.
/// A pair that no link lists cannot exchange data; inside a pool transfers are free unless a link lists (pool, pool).
struct Link {
  std::string name;
  std::vector<std::pair<int, int>> pairs; ///< (from, to), directed, indices of pools
  double gigabytesPerSecond = 0;
  double microseconds = 0;
  double dollarsPerGigabyte = 0;
  double joulesPerGigabyte = 0;
};

/// One way to run a piece. What it means (precision, degrees, batch) is the label's business.
struct Choice {
  std::string label;
  int pool = 0;
  int devicesPerReplica = 0;
  /// Of its one device, what a replica has to itself: 1/2, 1/4, … Others take the rest; what is paid for is their sum,
  /// rounded up to whole devices. Such shares, sorted, leave no gap, so that any sum fits on so many devices.
  double deviceShare = 1;
  /// Mean time of one execution with all slots of the replica busy, and alone in it (unset: the same).
  double milliseconds = 0;
  std::optional<double> millisecondsAlone;
  /// Executions that a replica serves at once (the batch).
  int slots = 1;
  /// What one replica sustains; unset: slots / milliseconds.
  std::optional<double> executionsPerSecond;
  double dollarsPerExecution = 0;
  double joulesPerExecution = 0;
  /// From the start of service to the first output, at most `milliseconds`; unset: all of it.
  std::optional<double> firstOutputMs;
  /// Time between tokens with all slots busy; scales with occupancy as `milliseconds` does.
  double tokenMs = 0;
  /// Of one without devices, in the replicas of the piece that an edge's `sameReplicas` join it to: for how long an
  /// execution keeps the next one there from its start, with which probability one waits for that at most, and the mean
  /// wait of all then, which is in proportion to p / (1 - p) (Pollaczek and Khinchine). Plans take these, or what the
  /// load makes in one replica if that is less; a simulation follows each.
  double turnMs = 0, turnProbability = 0, turnWaitMs = 0;
  /// What the caches of one replica hold. The plan has slots for a mean execution; the simulation admits by this.
  double cacheTokens = unlimited;
};

struct Piece {
  std::string name;
  std::string location; ///< in the user's file, for messages
  std::vector<Choice> menu;
  /// Spread of what follows the first output; of all the time where that is the first output.
  Shape shape;
  /// Of the cache, an execution of scale s whose time is drawn as x times the mean holds heldTokens + x s
  /// writtenTokens.
  double heldTokens = 0, writtenTokens = 0;
  /// Set by hand: only choices on this pool, or with this label.
  std::optional<int> pinnedPool;
  std::optional<std::string> pinnedLabel;
  /// Set by hand: so many, whatever they sustain.
  std::optional<int64_t> pinnedReplicas;
  /// Each execution of this other piece is one of this one, too, within its time: this one has no leaf in an agent, no
  /// wait of its own, and no bound on time. -1: none.
  int calledBy = -1;
  /// Replicas above the smallest number that sustains the load may shorten queues: how many are considered.
  int extraReplicas = 6;
};

/// What an edge costs between two choices, where it is not the links' figure.
struct EdgeException {
  int fromChoice = 0, toChoice = 0;
  double milliseconds = 0, dollars = 0, joules = 0;
  bool forbidden = false;
};

/// Data from one piece to another: time, dollars, joules and bandwidth follow from the pools of both ends.
struct Edge {
  std::string name;
  int from = 0, to = 0;
  double bytes = 0;
  std::vector<EdgeException> exceptions;
  /// By choice of each end, unless both are empty: only choices of equal kinds go together (a cache is read in the
  /// precision that wrote it).
  std::vector<int> fromKinds, toKinds;
  /// Kinds whose both ends are the same replicas: nothing flows.
  std::vector<int> sameReplicas;
  /// Flows all through an execution, whose time has it in: takes bandwidth, dollars and joules, and no time of its own.
  bool duringExecution = false;
};

/// Part of an agent: a tree whose leaves are executions of pieces.
struct Region {
  enum class Kind { Leaf, Dag, Branch, Loop, Map };
  /// To `to` (a position in `children`, after `from`) may start when `from` has ended and the edges have arrived;
  /// streaming: when `from`, a leaf, gives its first output, and `to` ends no sooner than the end of `from` and its own
  /// first output after it.
  struct Arc {
    int from = 0, to = 0;
    std::vector<int> edges;
    bool streaming = false;
  };
  Kind kind = Kind::Leaf;
  std::vector<int> children; ///< indices of regions of the agent

  int piece = -1;              ///< Leaf
  double timeScale = 1;        ///< Leaf: time of an execution here over the menu's
  double laterTurnScale = 1;   ///< Leaf: further factor in all turns but the first of the innermost loop (kept prefix)
  std::vector<int> entryEdges; ///< Leaf: must arrive before each execution
  std::vector<Arc> arcs;       ///< Dag
  std::vector<double> probabilities; ///< Branch: of each child; sum 1
  /// Loop: (turns, probability); Map: (copies at once, probability).
  std::vector<std::pair<int, double>> counts;
  std::vector<int> backEdges; ///< Loop: between two turns

  static Region leaf(int piece, double timeScale = 1, std::vector<int> entryEdges = {});
  static Region dag(std::vector<int> children, std::vector<Arc> arcs);
  static Region branch(std::vector<int> children, std::vector<double> probabilities);
  static Region loop(int child, std::vector<std::pair<int, double>> counts, std::vector<int> backEdges = {});
  static Region map(int child, std::vector<std::pair<int, double>> counts);
};

/// Bounds; infinity where there is none. `percentile` (0.95) is of the end-to-end time and of the first output; unset:
/// the nominal time, in which each execution takes its mean and branches and loops their expectation.
struct ServiceLevel {
  double endToEndMs = unlimited;
  double firstOutputMs = unlimited;
  double tokenMs = unlimited;
  std::optional<double> percentile;
};

struct Agent {
  std::string name;
  double requestsPerSecond = 0;
  std::vector<Region> regions;
  int root = 0;
  ServiceLevel level;
};

enum class Objective { DollarsPerRequest, DollarsPerHour, Latency, JoulesPerRequest, GramsPerRequest };
llvm::StringRef nameOf(Objective objective);

/// A choice of each piece and its replicas.
struct Placed {
  int choice = -1;
  int64_t replicas = 0;
  bool operator==(const Placed &) const = default;
};
using Placements = std::vector<Placed>;

struct PlacementProblem {
  std::vector<Pool> pools;
  std::vector<Link> links;
  std::vector<Piece> pieces;
  std::vector<Edge> edges;
  std::vector<Agent> agents;
  std::vector<std::vector<int>> together; ///< pieces that must share a pool
  std::vector<std::vector<int>> apart;    ///< pieces no two of which may share a pool
  double dollarsPerHourCap = unlimited;
  double wattsCap = unlimited; ///< on power if all placed devices are busy
  double gramsPerHourCap = unlimited;
  /// Whether waits in queues count in latencies (the formula is in Queueing.h).
  bool queueing = true;
  Objective objective = Objective::DollarsPerRequest;
  /// Objective::Latency: of this agent alone; -1: the mean over the requests of all.
  int latencyAgent = -1;
  /// A plan to start from (empty: none): each piece that changes its choice costs `dollarsPerMove`, in the unit of the
  /// objective.
  Placements previous;
  double moveCost = 0;

  /// Names what is wrong, where, and what to try; checks everything that the other functions rely on.
  llvm::Error validate() const;
};

/// What a plan does. Figures are of all agents together unless they are listed by agent.
struct Evaluation {
  struct OfAgent {
    double endToEndMs = 0, firstOutputMs = 0, tokenMs = 0; ///< at the agent's percentile, or nominal
    double meanMs = 0;
    /// Whether the percentile is exact up to the grid; otherwise an upper bound (see Evaluate.cpp).
    bool exact = true;
    std::vector<int> criticalRegions; ///< leaves on the nominal critical path, in order
  };
  std::vector<OfAgent> agents;
  double dollarsPerHour = 0, watts = 0, gramsPerHour = 0;
  double dollarsPerRequest = 0, joulesPerRequest = 0, gramsPerRequest = 0;
  double peakWatts = 0;
  double latencyMs = 0; ///< end-to-end figure of the agent that the objective names, or mean over all requests
  int moves = 0;        ///< against `previous`
  double objective = 0; ///< with what moves cost
  std::vector<int64_t> devices, nodes;     ///< by pool; devices as counted inside nodes, those shared as whole ones
  std::vector<double> linkGBps;            ///< by link
  std::vector<double> waitMs, utilization; ///< by piece
  /// Empty if the plan holds all that is asked.
  std::vector<std::string> violations;
  bool feasible() const { return violations.empty(); }
};

/// Evaluates a plan exactly: percentiles by convolution, queues by the formula of Queueing.h. The problem is valid and
/// every placement names a choice of its piece. Where waits count and the load saturates replicas, times of the agents
/// that need them are infinite.
Evaluation evaluate(const PlacementProblem &problem, const Placements &placements);

/// What solves the mixed-integer programs; `mixedIntegerSolver` gives one.
class MixedIntegerSolver;
enum class MixedIntegerLibrary { Cbc, Highs };
/// HiGHS (1.x) is the shared library that the environment's INTARSIA_HIGHS names, else libhighs.so.1 where the loader
/// looks. Fails where that is not found or cannot be used.
llvm::Expected<std::shared_ptr<const MixedIntegerSolver>> mixedIntegerSolver(MixedIntegerLibrary library);

struct SolveOptions {
  /// The heuristic of `solve` has three tenths of a second for its first plan in any case.
  double timeLimitSeconds = 60;
  /// A plan is called optimal when no other is better by more than this share of its objective.
  double relativeGap = 1e-6;
  int percentileRounds = 400; ///< plans tried that hold all but percentiles
  bool prune = true;          ///< dominance pruning of menus
  bool bound = true;          ///< bounds, branch and price; else the MILP alone
  std::string exportLp;       ///< file for the model as the MILP solver first sees it
  unsigned seed = 1;
  std::shared_ptr<const MixedIntegerSolver> mixedInteger; ///< null: CBC
};

/// Something that limits: taken out of its set, a plan holds the others of the set.
struct Conflict {
  enum class Kind {
    EndToEnd,
    FirstOutput,
    Token,
    PoolDevices,
    Dollars,
    Watts,
    Grams,
    LinkBandwidth,
    Pin,
    Together,
    Apart,
    Kinds,
    Route
  };
  Kind kind;
  int index = -1; ///< agent, pool, link, piece, group, or edge; -1 where there is only one
  std::string text;
  double given = 0;
  /// The smallest change that makes a plan possible with all else as it is, also what is not in the set: the bound's
  /// value; unset where taking this one away is not enough or where it is no number. The text says it with its unit,
  /// rounded up, and what was not settled in time.
  std::optional<double> relaxed;
  bool settled = true; ///< whether nothing smaller does or, if it is unset, nothing at all
};

struct SolveResult {
  enum class Status { Optimal, TimeLimit, Infeasible, NoPlanInTime };
  Status status = Status::NoPlanInTime;
  Placements placements; ///< if a plan was found
  Evaluation evaluation;
  double bound = 0;       ///< no plan is better
  double gap = unlimited; ///< (objective - bound) / objective
  /// Agents that share nothing but resources are each where they would be by themselves: none gives way to another.
  bool eachBestAlone = false;
  struct Statistics {
    int options = 0, optionsAfterPruning = 0, optionsAfterBound = 0;
    int parts = 0; ///< agents that meet in resources alone, each solved by itself first
    int nodes = 0, milpSolves = 0, percentileCuts = 0, latencyRows = 0;
    std::string mixedIntegerSolver; ///< its name and version
    int mixedIntegerPrograms = 0;   ///< solved by it; `milpSolves` are those of the whole problem
    double heuristicObjective = unlimited, lagrangianBound = -unlimited, rootBound = -unlimited;
    double heuristicSeconds = 0, boundSeconds = 0, rootSeconds = 0, branchAndPriceSeconds = 0, milpSeconds = 0,
           seconds = 0;
  } statistics;
  bool hasPlan() const { return status == Status::Optimal || status == Status::TimeLimit; }
};

/// Solves the problem. Fails on an invalid one; an infeasible one is a result.
llvm::Expected<SolveResult> solve(const PlacementProblem &problem, const SolveOptions &options = {});

/// A minimal set of constraints that no plan holds together (a plan holds all of the set but any one, were nothing else
/// asked), and for each the value that would do. Empty if a plan is found. The time limit is of all questions
/// together; the set is larger than minimal where they stay open.
llvm::Expected<std::vector<Conflict>> explainInfeasibility(const PlacementProblem &problem,
                                                           const SolveOptions &options = {});

/// What happens to the objective if a piece does not do what the plan says.
struct Alternative {
  int piece = -1;
  /// Forced there; unset: the plan's choice is forbidden, or, where the piece may be in the replicas of another, all
  /// choices that are, or all that are not.
  std::optional<int> pool;
  bool possible = false;
  Placements placements;
  double objective = 0;
  double bound = 0; ///< no plan of this kind is better
  bool exact = false;
  std::string reason; ///< in words: what it costs more, or what it breaks
};

/// For each piece the best plan without its choice, and on each other pool if `everyPool`.
llvm::Expected<std::vector<Alternative>> explainChoices(const PlacementProblem &problem, const SolveResult &result,
                                                        bool everyPool, const SolveOptions &options = {});

/// What would have to change for another plan to be best, all else equal.
struct Sensitivity {
  enum class Kind {
    Price,    ///< dollars per device-hour of a pool
    EndToEnd, ///< bound of an agent, milliseconds
    Slowness, ///< of a pool's devices: the factor on all their times, given as 1
    Rate      ///< requests per second of an agent
  };
  std::string text; ///< the figure
  double given = 0;
  std::optional<double> below, above;        ///< the nearest values at which another plan is better or this one breaks
  std::vector<int> piecesBelow, piecesAbove; ///< that change there
  Kind kind = Kind::Price;
  int index = -1;     ///< pool or agent
  std::string breaks; ///< what this plan violates above `above`, where that is why
  /// Whether an unset value means that nothing changes: false where the solver did not settle it in time, and
  /// below a slowness or a rate, where only this plan is looked at.
  bool belowIsKnown = true, aboveIsKnown = true;
};
/// Whether the objective is dollars that hours of devices are part of. Of a request they are not if no agent has
/// requests per second: it costs what its executions do.
bool dependsOnPrices(const PlacementProblem &problem);

/// By price of each pool (between a tenth and ten times the price; up only if it is used), by end-to-end bound of each
/// agent, and up to ten times by slowness of each used pool and by rate of each agent. Where the objective does not
/// depend on prices nothing is asked of them, and of bounds only which this plan breaks. Where `previous` is given,
/// another plan is better if it is so with what moves cost. The time limit is of all questions together.
llvm::Expected<std::vector<Sensitivity>> explainSensitivity(const PlacementProblem &problem, const SolveResult &result,
                                                            const SolveOptions &options = {});

struct ParetoPoint {
  Placements placements;
  Evaluation evaluation;
  bool proven = false; ///< that no plan is both cheaper and faster
};
constexpr int mostParetoPoints = 100;
/// Plans none of which is better in latency and in dollars per request than another, cheapest first; at most `points`
/// and the cheapest, fewer where the time limit, which is of all together, ends. `best` is what solve() gave for the
/// problem, if that is known.
llvm::Expected<std::vector<ParetoPoint>> paretoFront(const PlacementProblem &problem, int points,
                                                     const SolveOptions &options = {},
                                                     const SolveResult *best = nullptr);

/// The problem after devices were lost: (pool, devices) are taken away, and `previous` is what keeps its place.
llvm::Expected<PlacementProblem> withoutDevices(const PlacementProblem &problem, const Placements &previous,
                                                const std::vector<std::pair<int, int64_t>> &lost, double moveCost);

} // namespace intarsia::plan

#endif
