//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Reads, decomposes, builds the problem, solves, explains, writes.
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Plan/Planner.h"
#include "Parts.h"
#include "Text.h"
#include "dialects/Agent/Agent.h"
#include "intarsia/Plan/Plan.h"
#include "lib/Import/Mlir/MlirFile.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/WithColor.h"
#include <chrono>
#include <cmath>

using namespace mlir;
using llvm::Error;

namespace intarsia {
using namespace plan;

namespace {
/// Time limit of all questions of one kind together (alternatives, sensitivities), each of which solves the problem
/// again.
constexpr double explanationSeconds = 10;
/// Without a plan nothing is on the screen before the reason is.
constexpr double conflictSeconds = 4;
/// Shares of the time limit for questions, relative to the share of the plan, which is 1.
constexpr double weightWithoutHeadroom = 0.5, weightOfWafers = 0.5, weightOfProbability = 0.05, weightOfChecks = 1,
                 weightOfFront = 1, weightOfExplanation = 0.25;

/// Limit of the question what a plan costs without headroom.
constexpr double secondsWithoutHeadroom = 1;

enum ExitCode { Planned = 0, Failed = 1, Infeasible = 2, OutOfTime = 3 };

class Planner {
public:
  explicit Planner(const PlannerOptions &options) : options(options), handler(sources, &context) {
    context.printOpOnDiagnostic(false);
    context.loadDialect<agent::AgentDialect, fleet::FleetDialect>();
  }

  int run() {
    if (Error error = checkOutputs(options))
      return fail(std::move(error));
    if (failed(load()) || failed(decompose()) || failed(readFleet()) || failed(readEfficiency()))
      return Failed;
    report.graphs = &graphs;
    report.built = &built;
    triesWithoutWafers = mayDoWithoutWafers();
    if (Error error = build()) {
      if (!triesWithoutWafers)
        return fail(std::move(error));
      llvm::consumeError(std::move(error));
      triesWithoutWafers = false;
      if (Error withWafers = build())
        return fail(std::move(withWafers));
    }
    llvm::Expected<std::optional<SimulationOptions>> asked = simulationOf(options, built.problem, built.fleetPools);
    if (!asked)
      return fail(asked.takeError());
    simulation = std::move(*asked);
    if (Error error = solveAndExplain())
      return fail(std::move(error));
    if (!report.result.hasPlan())
      if (Error error = show(printPlanOf))
        return fail(std::move(error));
    if (Error error = show(printExplanations))
      return fail(std::move(error));
    if (Error error = writeFiles())
      return fail(std::move(error));
    switch (report.result.status) {
    case SolveResult::Status::Infeasible:
      return Infeasible;
    case SolveResult::Status::NoPlanInTime:
      return OutOfTime;
    default:
      return report.checks.hold() ? Planned : Infeasible;
    }
  }

private:
  const PlannerOptions &options;
  MLIRContext context;
  llvm::SourceMgr sources;
  SourceMgrDiagnosticHandler handler;
  OwningOpRef<ModuleOp> module, fleetModule;
  std::vector<workflow::Graph> graphs;
  Fleet fleet;
  std::optional<ServingEfficiency> efficiency;
  BuiltProblem built;
  PlacementProblem reduced;  ///< without lost devices
  PlacementProblem hardened; ///< the problem with the bounds and times that the plan was made for
  PlanReport report;
  SolveOptions solveOptions;
  std::optional<SimulationOptions> simulation;
  Headroom headroom;

  /// Stands for programs of wafers where the plan needs none.
  class NoPrograms final : public WaferTimes {
  public:
    std::string reason;
    llvm::Expected<const WaferDecoder *> decoder(const WaferDecoderRequest &) override {
      return llvm::createStringError(reason);
    }
  } noPrograms;
  bool triesWithoutWafers = false;

  /// Sum of the shares of the questions after the plan.
  double weightOfQuestions = (options.tightens || options.confidence ? weightOfChecks : weightOfProbability) +
                             weightOfExplanation * (options.explains + options.asksSensitivity) +
                             weightOfFront * (options.paretoPoints > 0);
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();

  /// Returns options with the time limit of one question. The time limit covers all questions; each gets a part of the
  /// time left, by its weight relative to the following ones.
  SolveOptions timed(double weight, double weightOfFollowing, double most = unlimited) const {
    SolveOptions own = solveOptions;
    double left =
        options.timeLimitSeconds - std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    own.timeLimitSeconds = std::min(most, std::max(0.0, left) * weight / (weight + weightOfFollowing));
    return own;
  }
  SolveOptions timedQuestion(double weight, double most = unlimited) {
    weightOfQuestions -= weight;
    return timed(weight, weightOfQuestions, most);
  }

  Error build() {
    llvm::Expected<BuiltProblem> problem =
        buildProblem(graphs, fleet,
                     {options.engine, options.objective, efficiency ? &*efficiency : nullptr,
                      triesWithoutWafers ? &noPrograms : options.wafers});
    if (!problem)
      return problem.takeError();
    built = std::move(*problem);
    built.problem.dollarsPerHourCap = options.dollarsPerHourCap;
    report.problem = &built.problem;
    return Error::success();
  }

  //===-- Wafers ----------------------------------------------------------------------------------------------===//

  static bool isWafer(const FleetPool &pool) { return !pool.device.wafer.empty(); }

  /// Returns true if a plan without wafers can show that none with them is better. Programs of wafers take many times
  /// longer to make than all else, and wafers cost more than other devices: a plan has them where a promise asks for
  /// their tokens, or where they are cheap. What asks for other plans than the cheapest may ask for wafers.
  bool mayDoWithoutWafers() {
    bool isOfDollars =
        options.objective == Objective::DollarsPerRequest || options.objective == Objective::DollarsPerHour;
    bool hasLoad = llvm::any_of(graphs, [](const workflow::Graph &graph) { return graph.sla.requestsPerSecond > 0; });
    bool asksForMore = options.tightens || options.confidence.value_or(0) > 0 || options.paretoPoints > 0 ||
                       options.asksSensitivity || !options.previous.empty() || !options.lost.empty();
    if (!options.wafers || !isOfDollars || !hasLoad || asksForMore || llvm::none_of(fleet.pools, isWafer))
      return false;
    noPrograms.reason = "no programs were made for it: one of its devices costs more than the whole plan";
    return true;
  }

  /// Returns true if the plan costs no more than any device with a wafer alone.
  bool isCheaperThanWafers() const {
    if (!report.result.hasPlan() || headroom.left)
      return false;
    for (auto [pool, priced] : llvm::zip(fleet.pools, built.problem.pools))
      if (isWafer(pool) && report.result.evaluation.dollarsPerHour > priced.dollarsPerDeviceHour)
        return false;
    return true;
  }

  int fail(Error error) {
    llvm::WithColor::error(llvm::errs(), "intarsia-plan")
        << printable(llvm::toString(std::move(error)), /*keepsLines=*/true) << '\n';
    return Failed;
  }

  OwningOpRef<ModuleOp> parse(const std::string &file) {
    auto buffer = llvm::MemoryBuffer::getFileOrSTDIN(file);
    if (!buffer) {
      fail(llvm::createStringError("cannot read '" + file + "': " + buffer.getError().message()));
      return nullptr;
    }
    return parse(std::move(*buffer), sources, /*verifies=*/false);
  }

  OwningOpRef<ModuleOp> parse(std::unique_ptr<llvm::MemoryBuffer> buffer, llvm::SourceMgr &into, bool verifies) {
    auto parsed = parseMlir(std::move(buffer), into, ParserConfig(&context, verifies));
    if (parsed)
      return std::move(*parsed);
    fail(parsed.takeError());
    return nullptr;
  }

  /// Makes the paths of shapes, which are relative to the file with the agents, absolute.
  void resolveShapes() {
    StringRef directory = options.input == "-" ? StringRef() : llvm::sys::path::parent_path(options.input);
    for (auto model : module->getOps<agent::ModelOp>()) {
      llvm::SmallString<128> path(directory);
      llvm::sys::path::append(path, model.getShape().value_or(""));
      llvm::sys::fs::make_absolute(path);
      if (model.getShape() && (isPathOfShape(*model.getShape()) || llvm::sys::fs::is_directory(path)))
        model.setShape(llvm::sys::path::is_absolute(*model.getShape()) ? *model.getShape() : StringRef(path));
    }
  }

  LogicalResult load() {
    // A placement names pools that may be in the other file: verification waits for both.
    module = parse(options.input);
    if (!module)
      return failure();
    resolveShapes();
    if (options.fleetFile.empty())
      return mlir::verify(*module);
    // The source manager's first buffer is parsed.
    auto buffer = llvm::MemoryBuffer::getFile(options.fleetFile);
    if (!buffer)
      return failure(
          fail(llvm::createStringError("cannot read '" + options.fleetFile + "': " + buffer.getError().message())));
    llvm::SourceMgr fleetSources;
    SourceMgrDiagnosticHandler fleetHandler(fleetSources, &context);
    fleetModule = parse(std::move(*buffer), fleetSources, /*verifies=*/true);
    if (!fleetModule)
      return failure();
    if (!module->getOps<fleet::SystemOp>().empty())
      return failure(fail(llvm::createStringError("'" + options.input + "' and '" + options.fleetFile +
                                                  "' both have a fleet.system; leave one away")));
    // Placements by hand name pools, so the plan's file must contain them.
    for (auto system : llvm::make_early_inc_range(fleetModule->getOps<fleet::SystemOp>()))
      system->moveBefore(module->getBody(), module->getBody()->begin());
    return mlir::verify(*module);
  }

  LogicalResult decompose() {
    PassManager passes(&context);
    buildDecomposePipeline(passes);
    if (failed(passes.run(*module)))
      return failure();
    SymbolTableCollection tables;
    for (auto graph : module->getOps<agent::GraphOp>()) {
      FailureOr<workflow::Graph> extracted = extractAgentGraph(graph, tables);
      if (failed(extracted))
        return failure();
      if (extracted->tasks.empty())
        return graph.emitError("agent @") << graph.getSymName() << " has no task: nothing to plan";
      graphs.push_back(std::move(*extracted));
    }
    if (graphs.empty())
      return failure(fail(llvm::createStringError("'" + options.input + "' has no agent.graph to plan")));
    return success();
  }

  LogicalResult readFleet() {
    auto systems = llvm::to_vector(module->getOps<fleet::SystemOp>());
    if (systems.empty())
      return failure(fail(llvm::createStringError(
          "'" + options.input + "' has no fleet.system: write one there, or name its file with --fleet")));
    if (systems.size() > 1)
      return systems[1].emitError("a plan is for one fleet.system, and '")
             << systems[0].getSymName() << "' stands before; leave one away";
    StringRef file = options.fleetFile.empty() ? StringRef(options.input) : StringRef(options.fleetFile);
    StringRef directory = llvm::sys::path::parent_path(file);
    FailureOr<Fleet> read = fleetOf(systems.front(), directory);
    if (failed(read))
      return failure();
    fleet = std::move(*read);
    for (auto device : systems.front().getBody().getOps<fleet::DeviceOp>())
      if (std::optional<StringRef> name = device.getFile())
        if (Error error = checkIsKept(options, pathOfDeviceFile(*name, directory), "the file of a device"))
          return failure(fail(std::move(error)));
    return success();
  }

  LogicalResult readEfficiency() {
    const std::string &file = options.efficiencyFile;
    if (file.empty())
      return success();
    auto buffer = llvm::MemoryBuffer::getFile(file);
    if (!buffer)
      return failure(fail(llvm::createStringError("cannot read '" + file + "': " + buffer.getError().message())));
    llvm::Expected<ServingEfficiency> read = ServingEfficiency::parse((*buffer)->getBuffer(), file);
    if (!read)
      return failure(fail(read.takeError()));
    if (!llvm::is_contained(read->engines, options.engine))
      return failure(fail(llvm::createStringError("'" + file + "' has no figures of the engine " +
                                                  servingEngineName(options.engine) + ", which --engine asks for")));
    efficiency = std::move(*read);
    return success();
  }

  /// Prints a part of the report at once: reasons take longer than the plan, and are read after it.
  Error show(void (*print)(llvm::raw_ostream &, const PlanReport &)) {
    if (!writesToStandardOutput(options))
      return writeOutput("-", [&](llvm::raw_ostream &out) { print(out, report); });
    print(llvm::errs(), report);
    return Error::success();
  }

  Error solveAndExplain() {
    if (Error error = makePlanWithHeadroom())
      return error;
    if (triesWithoutWafers && !isCheaperThanWafers()) {
      triesWithoutWafers = false;
      if (Error error = build())
        return error;
      headroom = Headroom();
      if (Error error = makePlanWithHeadroom())
        return error;
    }
    if (report.result.status == SolveResult::Status::Infeasible) {
      llvm::Expected<std::vector<Conflict>> conflicts =
          explainInfeasibility(*report.problem, timed(1, 0, conflictSeconds));
      if (!conflicts)
        return conflicts.takeError();
      report.conflicts = std::move(*conflicts);
    }
    if (!report.result.hasPlan())
      return Error::success();
    if (Error error = askWithoutHeadroom())
      return error;
    report.headroom = headroom;
    const PlacementProblem *asked = report.problem;
    Placements before = report.result.placements;
    hardened = *asked;
    // The front may have a plan that is faster and costs the same: that one is then checked and explained.
    bool plansAgain = options.tightens || options.confidence.value_or(0) > 0;
    if (!plansAgain)
      if (Error error = findFront(hardened))
        return error;
    before = report.result.placements;
    bool isChecked = options.tightens || options.confidence;
    if (Error error = check(options, errorModelOf(graphs, built, options.engine), simulation,
                            timedQuestion(isChecked ? weightOfChecks : weightOfProbability), hardened, report.result,
                            report.checks))
      return error;
    // Explains the plan under the problem that it was made for, but prints its figures under the given problem.
    report.hardened = report.result.placements != before;
    Evaluation asHardened = report.result.evaluation;
    report.result.evaluation = evaluate(*asked, report.result.placements);
    if (Error error = show(printPlanOf))
      return error;
    report.result.evaluation = std::move(asHardened);
    report.problem = &hardened;
    if (options.explains) {
      llvm::Expected<std::vector<Alternative>> why = explainChoices(
          *report.problem, report.result, built.fleetPools > 1, timedQuestion(weightOfExplanation, explanationSeconds));
      if (!why)
        return why.takeError();
      for (Alternative &alternative : *why) {
        if (!tellsSomething(alternative))
          continue;
        if (triesWithoutWafers && alternative.pool && isWafer(fleet.pools[*alternative.pool]))
          alternative.reason = llvm::formatv("one of its devices costs ${0:f2} an hour, the whole plan ${1:f2}",
                                             built.problem.pools[*alternative.pool].dollarsPerDeviceHour,
                                             report.result.evaluation.dollarsPerHour);
        report.alternatives.push_back(std::move(alternative));
      }
    }
    if (options.asksSensitivity) {
      llvm::Expected<std::vector<Sensitivity>> sensitivity =
          explainSensitivity(*report.problem, report.result, timedQuestion(weightOfExplanation, explanationSeconds));
      if (!sensitivity)
        return sensitivity.takeError();
      report.sensitivity = std::move(*sensitivity);
    }
    if (plansAgain)
      if (Error error = findFront(hardened))
        return error;
    report.problem = asked;
    report.result.evaluation = evaluate(*asked, report.result.placements);
    for (ParetoPoint &point : report.front)
      point.evaluation = evaluate(*asked, point.placements);
    return Error::success();
  }

  Error findFront(const PlacementProblem &problem) {
    if (options.paretoPoints == 0)
      return Error::success();
    llvm::Expected<std::vector<ParetoPoint>> front = paretoFront(
        problem, options.paretoPoints, timedQuestion(weightOfFront), &report.result, &report.frontIsComplete);
    if (!front)
      return front.takeError();
    report.front = std::move(*front);
    Evaluation &planned = report.result.evaluation;
    constexpr double room = 1 + 1e-6;
    for (const ParetoPoint &point : report.front)
      if (point.evaluation.latencyMs < planned.latencyMs / room &&
          point.evaluation.dollarsPerRequest <= planned.dollarsPerRequest * room) {
        Evaluation better = evaluate(problem, point.placements);
        if (better.objective > planned.objective + (room - 1) * std::abs(planned.objective))
          continue;
        report.result.placements = point.placements;
        planned = std::move(better);
      }
    return Error::success();
  }

  /// Among plans that are slower than the fastest by no more than the room, takes the cheapest.
  Error breakTies(const PlacementProblem &problem) {
    if (problem.objective != Objective::Latency || problem.moveCost > 0 || options.latencyRoom <= 0)
      return Error::success();
    PlacementProblem cheaper = problem;
    bool hasLoad = llvm::any_of(problem.agents, [](const Agent &agent) { return agent.requestsPerSecond > 0; });
    cheaper.objective = hasLoad ? Objective::DollarsPerHour : Objective::DollarsPerRequest;
    cheaper.previous = report.result.placements; // where the search begins
    for (auto [agent, of] : llvm::zip(cheaper.agents, report.result.evaluation.agents))
      agent.level.endToEndMs = std::min(agent.level.endToEndMs, of.endToEndMs * (1 + options.latencyRoom));
    llvm::Expected<SolveResult> result = solve(cheaper, timed(1, 1 + weightOfQuestions));
    if (!result)
      return result.takeError();
    if (!result->hasPlan())
      return Error::success();
    report.result.placements = result->placements;
    report.result.evaluation = evaluate(problem, result->placements);
    report.latencyRoom = options.latencyRoom;
    return Error::success();
  }

  /// Returns true if an alternative is worth printing: not for pieces outside the fleet, nor if another batch of the
  /// same pool costs no more.
  bool tellsSomething(const Alternative &alternative) const {
    const PlacementProblem &problem = *report.problem;
    int placed = report.result.placements[alternative.piece].choice;
    const Piece &piece = problem.pieces[alternative.piece];
    if (built.meanings[alternative.piece][placed].outside)
      return false;
    if (alternative.pool)
      return *alternative.pool < int(built.fleetPools);
    if (!alternative.possible)
      return built.fleetPools == 1;
    double more = alternative.objective - report.result.evaluation.objective;
    bool samePool =
        piece.candidates[alternative.placements[alternative.piece].choice].pool == piece.candidates[placed].pool;
    return samePool && more > 1e-6 * std::abs(report.result.evaluation.objective);
  }

  /// Solves a problem; `plansToCome` is the largest number of plans after this one.
  Error solveNext(const PlacementProblem &problem, int plansToCome = 0) {
    bool ties = problem.objective == Objective::Latency && options.latencyRoom > 0;
    llvm::Expected<SolveResult> result =
        solve(problem, timed(1, plansToCome + ties + triesWithoutWafers * weightOfWafers + weightOfQuestions));
    if (!result)
      return result.takeError();
    report.result = std::move(*result);
    return report.result.hasPlan() ? breakTies(problem) : Error::success();
  }

  /// Sets the headroom of all pieces on the fleet: a share, or what slower times need.
  void setHeadroom(PlacementProblem &problem, std::optional<double> share) {
    ErrorModel errors = errorModelOf(graphs, built, options.engine);
    headroom.any = false;
    for (auto [piece, meanings, of] : llvm::zip(problem.pieces, built.meanings, errors.pieces)) {
      double slower = of.kind < 0 ? 1 : std::max(1.0, errors.kinds[of.kind].factorAt(usualLevel));
      piece.headroom = meanings.front().outside ? 0 : share.value_or(1 - 1 / slower);
      headroom.any |= piece.headroom > 0;
    }
    headroom.factors.clear();
    for (const TimeErrors &kind : errors.kinds)
      headroom.factors +=
          llvm::formatv("{0}{1} × {2:f2}", headroom.factors.empty() ? "" : ", ", kind.kind, kind.factorAt(usualLevel));
  }
  static void removeHeadroom(PlacementProblem &problem) {
    for (Piece &piece : problem.pieces)
      piece.headroom = 0;
  }

  /// Plans with headroom. If there is no such plan and the user did not ask for it, plans without.
  Error makePlanWithHeadroom() {
    bool hasLoad = llvm::any_of(built.problem.agents, [](const Agent &agent) { return agent.requestsPerSecond > 0; });
    headroom.share = hasLoad ? options.headroom : 0;
    setHeadroom(built.problem, headroom.share);
    bool mayLeave = headroom.any && !headroom.share;
    weightOfQuestions += mayLeave ? weightWithoutHeadroom : 0;
    Error error = makePlan();
    weightOfQuestions -= mayLeave ? weightWithoutHeadroom : 0;
    if (error || !mayLeave || report.result.hasPlan())
      return error;
    headroom.left = true;
    removeHeadroom(built.problem);
    report.replan.reset();
    report.problem = &built.problem;
    return makePlan();
  }

  /// Finds what the plan would cost without headroom.
  Error askWithoutHeadroom() {
    // Plans with latency as the objective have room for cheaper ones, so that a difference would say nothing.
    if (!headroom.any || headroom.left || report.problem->objective == Objective::Latency)
      return Error::success();
    PlacementProblem without = *report.problem;
    removeHeadroom(without);
    without.previous = report.result.placements; // where the search begins
    without.moveCost = 0;
    SolveOptions own = timed(1, weightOfQuestions + 1, secondsWithoutHeadroom);
    headroom.settled = false;
    if (own.timeLimitSeconds < secondsWithoutHeadroom / 10)
      return Error::success();
    llvm::Expected<SolveResult> result = solve(without, own);
    if (!result)
      return result.takeError();
    if (result->hasPlan())
      headroom.without = result->evaluation.objective;
    headroom.settled = result->status == SolveResult::Status::Optimal;
    return Error::success();
  }

  Error makePlan() {
    llvm::Expected<std::vector<std::pair<int, int64_t>>> lost = lostDevices();
    if (!lost)
      return lost.takeError();
    if (!options.previous.empty()) {
      llvm::Expected<Replan> previous = readPrevious(options.previous, graphs, built);
      if (!previous)
        return previous.takeError();
      report.replan = std::move(*previous);
      return replan(*lost);
    }
    if (Error error = solveNext(built.problem, lost->empty() ? 0 : 1))
      return error;
    if (lost->empty() || !report.result.hasPlan())
      return Error::success();
    report.replan.emplace();
    report.replan->since = "the loss of " + llvm::join(options.lost, ", ");
    report.replan->before = report.result.placements;
    return replan(*lost);
  }

  llvm::Expected<std::vector<std::pair<int, int64_t>>> lostDevices() const {
    std::vector<std::pair<int, int64_t>> lost;
    for (StringRef text : options.lost) {
      auto [name, count] = text.rsplit(':');
      int64_t devices = 0;
      if (count.empty() || count.getAsInteger(10, devices))
        return llvm::createStringError("--without=" + text + ": write --without=@pool:3");
      if (devices < 1)
        return llvm::createStringError("--without=" + text + ": the number of lost devices must be above zero");
      // Accepts the form of placements: @system::@pool.
      if (auto [system, pool] = name.split("::"); !pool.empty()) {
        system.consume_front("@");
        if (system != fleet.name)
          return llvm::createStringError("--without=" + text + ": the fleet is @" + fleet.name + ", not @" + system);
        name = pool;
      }
      name.consume_front("@");
      std::vector<std::string> names;
      int found = -1;
      for (size_t pool = 0; pool < built.fleetPools; ++pool) {
        names.push_back(built.problem.pools[pool].name);
        if (names.back() == name)
          found = int(pool);
      }
      if (found < 0) {
        std::string near = nearestNames(name, names);
        return llvm::createStringError("--without=" + text + ": the fleet has no pool @" + name +
                                       (near.empty() ? "; it has @" + llvm::join(names, ", @") : near));
      }
      lost.push_back({found, devices});
    }
    return lost;
  }

  /// Returns the share of the hourly cost of the plan before, or else of the present one, that is not that of tools; 1
  /// if the objective is not in dollars.
  double shareOfDevices() const {
    const Placements &placements = report.replan->stay ? report.replan->before : report.result.placements;
    Objective objective = reduced.objective;
    if ((objective != Objective::DollarsPerRequest && objective != Objective::DollarsPerHour) || placements.empty())
      return 1;
    double all = 0, onDevices = 0;
    for (const PieceRow &row : rowsOf(report, placements)) {
      all += row.dollarsPerHour;
      onDevices += row.outside ? 0 : row.dollarsPerHour;
    }
    return all > 0 && onDevices > 0 ? onDevices / all : 1;
  }

  Error replan(const std::vector<std::pair<int, int64_t>> &lost) {
    Replan &since = *report.replan;
    reduced = built.problem;
    reduced.previous = since.before;
    for (auto [pool, devices] : lost)
      if ((reduced.pools[pool].devices -= devices) < 0)
        return llvm::createStringError(
            "--without=" + llvm::join(options.lost, ",") + ": pool @" + reduced.pools[pool].name + " has " +
            llvm::Twine(built.problem.pools[pool].devices) + " devices, " +
            llvm::Twine(built.problem.pools[pool].devices - reduced.pools[pool].devices) + " cannot be lost");
    auto hasDevices = [](const Pool &pool) { return pool.devices > 0; };
    if (llvm::none_of(llvm::ArrayRef(reduced.pools).take_front(built.fleetPools), hasDevices))
      return llvm::createStringError("--without=" + llvm::join(options.lost, ",") +
                                     ": leaves the fleet no device; name fewer of them");
    report.problem = &reduced;
    if (llvm::all_of(since.before, [](const Placed &placed) { return placed.choice >= 0; }))
      since.stay = evaluate(reduced, since.before);
    double worth = since.stay ? since.stay->objective : unlimited;
    if (!std::isfinite(worth)) {
      if (Error error = solveNext(reduced, /*plansToCome=*/1))
        return error;
      if (!report.result.hasPlan())
        return Error::success();
      worth = report.result.evaluation.objective;
    }
    // A move costs a thousandth of what the devices cost: among plans of nearly equal cost the one with fewest moves
    // wins. Tools, and people, who cost the same in every plan, do not count.
    reduced.moveCost = 1e-3 * shareOfDevices() * std::abs(worth);
    return solveNext(reduced);
  }

  Error writeFiles() {
    if (Error error = writeOutput(options.json, [&](llvm::raw_ostream &out) { printJson(out, report); }))
      return error;
    if (Error error = writeOutput(options.report, [&](llvm::raw_ostream &out) { printPage(out, report); }))
      return error;
    if (!report.result.hasPlan()) {
      // Files of an earlier run stay, and could be taken for this plan.
      for (auto [flag, file] : {std::pair("--explain", &options.explain), {"-o", &options.output}})
        if (!file->empty())
          llvm::WithColor::warning(llvm::errs(), "intarsia-plan")
              << flag << "=" << printable(*file) << ": not written: there is no plan\n";
      return Error::success();
    }
    if (Error error = writeOutput(options.explain, [&](llvm::raw_ostream &out) { printDecisions(out, report); }))
      return error;
    writePlacements(*module, fleet.name, built, report.result.placements);
    return writeOutput(options.output, [&](llvm::raw_ostream &out) { module->print(out); });
  }
};
} // namespace

int runPlanner(const PlannerOptions &options) { return Planner(options).run(); }

} // namespace intarsia
