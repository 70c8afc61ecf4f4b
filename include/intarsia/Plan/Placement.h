//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The placement problem: the choice and the number of replicas of each piece, such that all agents hold their service
// levels on one fleet. Independent of MLIR. lib/Plan/Solver/README.md states the model.
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
/// Largest number of parts that a device is divided into.
constexpr int mostSharesOfDevice = 8;

/// Interchangeable devices. A replica of fewer devices than a node has stays inside one node: its devices are counted
/// as the next divisor of `devicesPerNode`. A larger one takes whole nodes.
struct Pool {
  std::string name;
  int64_t devices = 0;
  int64_t devicesPerNode = 1;
  /// True if only whole nodes are paid for: devices are charged as nodes times `devicesPerNode`.
  bool wholeNodes = false;
  double dollarsPerDeviceHour = 0;
  /// Power of one device, idle, or busy while its replica executes anything. A paid node draws at least the idle power
  /// of all its devices.
  double idleWatts = 0, busyWatts = 0;
  double gramsPerKilowattHour = 0;
  /// True if payment is not rounded up, only the number of devices needed: a lower bound for parts that share the pool.
  bool paidByPart = false;
  /// True for a service outside of the fleet: it has one replica, whose slots are the calls that it takes at once.
  bool isService = false;
  std::string device, target; ///< name in the catalogue, and what to compile for; empty outside of the fleet
};

/// A connection between pools. All listed pairs share its bandwidth; a full-duplex connection is two links. A pair that
/// no link lists cannot exchange data; inside a pool transfers are free unless a link lists (pool, pool).
struct Link {
  std::string name;
  std::vector<std::pair<int, int>> pairs; ///< (from, to), directed, indices of pools
  double gigabytesPerSecond = 0;
  double microseconds = 0;
  double dollarsPerGigabyte = 0;
  double joulesPerGigabyte = 0;
};

/// One way to run a piece. Only the label says what it means (precision, degrees, batch).
struct Choice {
  std::string label;
  int pool = 0;
  int devicesPerReplica = 0;
  /// A replica's share of its one device: 1/2, 1/4, … Others take the rest; the sum, rounded up to whole devices, is
  /// paid for. Such shares, sorted, leave no gap, so any sum fits on that many devices.
  double deviceShare = 1;
  /// Mean time of one execution with all slots of the replica busy, and alone in it (unset: the same).
  double milliseconds = 0;
  std::optional<double> millisecondsAlone;
  /// Number of executions that a replica serves at once (the batch).
  int slots = 1;
  /// Rate that one replica sustains; unset: slots / milliseconds.
  std::optional<double> executionsPerSecond;
  double dollarsPerExecution = 0;
  double joulesPerExecution = 0;
  /// Time from the start of service to the first output, at most `milliseconds`; unset: all of it.
  std::optional<double> firstOutputMs;
  /// Time between tokens with all slots busy; scales with occupancy as `milliseconds` does.
  double tokenMs = 0;
  /// For a choice without devices, which runs in the replicas of the piece that an edge's `sameReplicas` ties it to:
  /// the time for which an execution delays the next one of its replica from its start, the largest probability of such
  /// a wait, and the mean wait at that probability, which is proportional to p / (1 - p) (Pollaczek and Khinchine).
  /// Plans take what the load causes in the fewest replicas that sustain it; a simulation follows each execution, in
  /// the replicas that there are.
  double turnMs = 0, turnProbability = 0, turnWaitMs = 0;
  /// Capacity of one replica's caches. The plan has slots for a mean execution; the simulation admits by this.
  double cacheTokens = unlimited;
};

struct Piece {
  std::string name;
  std::string location; ///< position in the user's file, for messages
  std::vector<Choice> candidates;
  /// Distribution of the time after the first output (of the whole time if there is only one).
  Shape shape;
  /// Cached tokens: an execution of scale s, with a time of x times the mean, holds heldTokens + x s writtenTokens.
  double heldTokens = 0, writtenTokens = 0;
  /// Pool set by hand.
  std::optional<int> pinnedPool;
  /// Number of replicas set by hand, whatever they sustain.
  std::optional<int64_t> pinnedReplicas;
  /// Share of what the replicas sustain that the plan leaves free, unless their number is set by hand. Waits and times
  /// do not depend on it.
  double headroom = 0;
  /// Number of replicas to consider above the smallest number that sustains the load: they may shorten queues.
  int extraReplicas = 6;
};

/// A flow of data from one piece to another: time, dollars, joules and bandwidth follow from the pools of both ends.
struct Edge {
  std::string name;
  int from = 0, to = 0;
  double bytes = 0;
  /// Kinds by choice of each end, or both empty: only choices of equal kinds go together (a cache is read in the
  /// precision that wrote it).
  std::vector<int> fromKinds, toKinds;
  /// True if choices of unequal kinds go together too: the question what would be possible then.
  bool mixesKinds = false;
  /// Kinds for which both ends are the same replicas: nothing flows.
  std::vector<int> sameReplicas;
};

/// Part of an agent: a tree whose smallest parts are executions of pieces.
struct Region {
  enum class Kind { Piece, Dag, Branch, Loop, Map };
  /// Child `to` (a position in `children`, after `from`) may start when `from` has ended and the edges have arrived.
  /// Streaming: it may start at the first output of `from`, an execution; it ends no sooner than its own first output
  /// after the end of `from`.
  struct Arc {
    int from = 0, to = 0;
    std::vector<int> edges;
    bool streaming = false;
  };
  Kind kind = Kind::Piece;
  std::vector<int> children; ///< indices of regions of the agent

  int piece = -1;              ///< Piece
  double timeScale = 1;        ///< Piece: time of an execution here over that of the choice
  double laterTurnScale = 1;   ///< Piece: further factor in all turns but the first of the innermost loop (kept prefix)
  std::vector<int> entryEdges; ///< Piece: edges that must arrive before each execution
  std::vector<Arc> arcs;       ///< Dag
  std::vector<double> probabilities; ///< Branch: probability of each child; sum 1
  /// Loop: (turns, probability); Map: (copies at once, probability).
  std::vector<std::pair<int, double>> counts;
  std::vector<int> backEdges; ///< Loop: edges between two turns

  static Region execution(int piece, double timeScale = 1, std::vector<int> entryEdges = {});
  static Region dag(std::vector<int> children, std::vector<Arc> arcs);
  static Region branch(std::vector<int> children, std::vector<double> probabilities);
  static Region loop(int child, std::vector<std::pair<int, double>> counts, std::vector<int> backEdges = {});
  static Region map(int child, std::vector<std::pair<int, double>> counts);
};

/// Bounds; infinity where there is none. `percentile` (0.95) applies to the end-to-end time and the first output;
/// unset: the nominal time, in which each execution takes its mean, and branches and loops their expectation.
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

/// The choice of a piece and its replicas.
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
  double wattsCap = unlimited; ///< limit of the power if all placed devices are busy
  double gramsPerHourCap = unlimited;
  /// True if queueing waits count in latencies (the formula is in Queueing.h).
  bool queueing = true;
  Objective objective = Objective::DollarsPerRequest;
  /// Objective::Latency: the agent whose latency counts; -1: the mean over the requests of all.
  int latencyAgent = -1;
  /// A plan to start from (empty: none). Each piece that changes its choice adds `moveCost`, in the unit of the
  /// objective.
  Placements previous;
  double moveCost = 0;

  /// Checks everything that the other functions rely on. Errors name what is wrong, where, and what to try.
  llvm::Error validate() const;
};

/// Figures of a plan, for all agents together unless they are listed by agent.
struct Evaluation {
  struct OfAgent {
    double endToEndMs = 0, firstOutputMs = 0, tokenMs = 0; ///< at the agent's percentile, or nominal
    double meanMs = 0;
    /// True if the percentile is exact up to the grid; otherwise it is an upper bound (see Evaluate.cpp).
    bool exact = true;
    std::vector<int> criticalRegions; ///< executions on the nominal critical path, in order
    /// A percentile between two kinds of requests, of which one takes much longer: what it is if the probability of
    /// one is a little higher or lower.
    struct Jump {
      double levelBelow, levelAbove; ///< around the agent's percentile
      double below, above;           ///< milliseconds at these
    };
    std::optional<Jump> endToEndJump, firstOutputJump;
  };
  std::vector<OfAgent> agents;
  double dollarsPerHour = 0, watts = 0, gramsPerHour = 0;
  double dollarsPerRequest = 0, joulesPerRequest = 0, gramsPerRequest = 0;
  double peakWatts = 0;
  double latencyMs = 0; ///< end-to-end figure of the agent that the objective names, or mean over all requests
  int moves = 0;        ///< number of pieces that differ from `previous`
  double objective = 0; ///< includes the cost of moves
  std::vector<int64_t> devices, nodes;     ///< by pool; devices as counted inside nodes, shared ones as whole devices
  std::vector<double> linkGBps;            ///< by link
  std::vector<double> waitMs, utilization; ///< by piece
  /// Violated constraints; empty if the plan is feasible.
  std::vector<std::string> violations;
  bool feasible() const { return violations.empty(); }
};

/// Evaluates a plan exactly: percentiles by convolution, queues by the formula of Queueing.h. The problem must be
/// valid, and every placement must name a choice of its piece. Where waits count and the load saturates replicas, the
/// times of the agents that need them are infinite.
Evaluation evaluate(const PlacementProblem &problem, const Placements &placements);

struct SolveOptions {
  /// Time limit; the heuristic of `solve` has three tenths of a second for its first plan in any case.
  double timeLimitSeconds = 60;
  /// A plan counts as optimal if no other is better by more than this share of its objective.
  double relativeGap = 1e-6;
  bool prune = true; ///< dominance pruning of candidates
  unsigned seed = 1;
};

/// A constraint of a conflict: without it, a plan satisfies the others of the set.
struct Conflict {
  enum class Kind {
    EndToEnd,
    FirstOutput,
    Token,
    PoolDevices,
    Dollars,
    Watts,
    Grams,
    Calls, ///< of a service; the index is the piece's
    Busy,  ///< largest utilization of pieces with headroom
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
  /// The value of the bound that makes a plan possible with all else as it is, including constraints outside the set;
  /// unset if removing this constraint alone is not enough, or if it is not a number. The text gives the value with its
  /// unit, rounded up, and says what was not settled in time.
  std::optional<double> relaxed;
  bool settled = true; ///< it is proven that no smaller change is enough (if unset: that no change is)
};

struct SolveResult {
  enum class Status { Optimal, TimeLimit, Infeasible, NoPlanInTime };
  Status status = Status::NoPlanInTime;
  Placements placements; ///< set if a plan was found
  Evaluation evaluation;
  double bound = 0;       ///< lower bound of the objective of all plans
  double gap = unlimited; ///< (objective - bound) / objective
  /// If there is no plan: the limits of resources by which that was proven. Others rarely conflict, by leaving out
  /// choices that need more of them than there is.
  std::vector<std::pair<Conflict::Kind, int>> scarce;
  struct Statistics {
    int options = 0, optionsAfterPruning = 0, optionsAfterBound = 0;
    int nodes = 0;
    double heuristicObjective = unlimited, rootBound = -unlimited;
    double heuristicSeconds = 0, rootSeconds = 0, branchAndPriceSeconds = 0, seconds = 0;
  } statistics;
  bool hasPlan() const { return status == Status::Optimal || status == Status::TimeLimit; }
};

/// Solves the problem. Fails if it is invalid; infeasibility is a result.
llvm::Expected<SolveResult> solve(const PlacementProblem &problem, const SolveOptions &options = {});

/// Returns a minimal set of constraints that no plan satisfies together (without any one of them, and without all
/// constraints outside the set, a plan exists), and for each the value that would be enough. Empty if a plan is found.
/// The time limit covers all questions together; the set is larger than minimal if some stay open.
llvm::Expected<std::vector<Conflict>> explainInfeasibility(const PlacementProblem &problem,
                                                           const SolveOptions &options = {});

/// Best plan if a piece deviates from the plan.
struct Alternative {
  int piece = -1;
  /// Pool that the piece is forced to. Unset: the plan's choice is forbidden; for a piece that may be in the replicas
  /// of another, all choices that are, or all that are not.
  std::optional<int> pool;
  bool possible = false;
  Placements placements;
  double objective = 0;
  double bound = 0; ///< lower bound of the objective of such plans
  bool exact = false;
  std::string reason; ///< in words: the additional cost, or the violation
};

/// Returns for each piece the best plan without its choice, and the best one on each other pool if `everyPool`.
llvm::Expected<std::vector<Alternative>> explainChoices(const PlacementProblem &problem, const SolveResult &result,
                                                        bool everyPool, const SolveOptions &options = {});

/// A change that would make another plan best, all else equal.
struct Sensitivity {
  enum class Kind {
    Price,    ///< dollars per device-hour of a pool
    EndToEnd, ///< bound of an agent, milliseconds
    Slowness, ///< factor on all times of a pool's devices, given as 1
    Rate      ///< requests per second of an agent
  };
  std::string text; ///< name of the figure
  double given = 0;
  std::optional<double> below, above;        ///< the nearest values at which another plan is better or this one breaks
  std::vector<int> piecesBelow, piecesAbove; ///< pieces that change there
  Kind kind = Kind::Price;
  int index = -1;     ///< pool or agent
  std::string breaks; ///< violation of this plan above `above`, if that is the reason
  /// True if an unset value means that nothing changes. False if the solver did not settle it in time, and below a
  /// slowness or a rate, where only this plan is examined.
  bool belowIsKnown = true, aboveIsKnown = true;
};
/// Returns true if the objective is in dollars and includes hours of devices. The cost of a request does not include
/// them if no agent has a request rate: it is then only the cost of its executions.
bool dependsOnPrices(const PlacementProblem &problem);

/// Computes sensitivities to the price of each pool (between a tenth and ten times the price; upwards only if it is
/// used), to the end-to-end bound of each agent, and up to ten times to the slowness of each used pool and to the rate
/// of each agent. If the objective does not depend on prices, leaves these out, and for bounds only finds where this
/// plan breaks. If `previous` is given, the cost of moves counts for other plans. The time limit covers all questions
/// together.
llvm::Expected<std::vector<Sensitivity>> explainSensitivity(const PlacementProblem &problem, const SolveResult &result,
                                                            const SolveOptions &options = {});

struct ParetoPoint {
  Placements placements;
  Evaluation evaluation;
  bool proven = false; ///< no plan is both cheaper and faster
};
constexpr int mostParetoPoints = 100;
/// Returns plans none of which is better in both latency and dollars per request than another, cheapest first: at most
/// `points` and the cheapest, fewer if the time limit for all together ends. `best` is the result of solve() for the
/// problem, if known. `isComplete` (optional) is false if time ended before all points were found, or before the
/// fastest plan was proven to be that.
llvm::Expected<std::vector<ParetoPoint>> paretoFront(const PlacementProblem &problem, int points,
                                                     const SolveOptions &options = {},
                                                     const SolveResult *best = nullptr, bool *isComplete = nullptr);

} // namespace intarsia::plan

#endif
