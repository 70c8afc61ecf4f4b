//===- Options.cpp - The command line of intarsia-plan -----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "Options.h"

#include "intarsia/Version.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/WithColor.h"
#include <limits>

namespace cl = llvm::cl;

namespace intarsia {
namespace {

/// As intarsia-compile makes its own: LLVM's flags are gone by then.
struct Flags {
  cl::OptionCategory category{"Options of intarsia-plan"};

  cl::opt<std::string> input{cl::Positional, cl::init("-"), cl::value_desc("AGENTS"),
                             cl::desc("<.mlir with agent graphs, and a fleet.system unless --fleet names one>"),
                             cl::cat(category)};
  cl::opt<std::string> fleet{"fleet", cl::value_desc("file"), cl::cat(category),
                             cl::desc("A .mlir with the fleet.system, if the agents' file has none")};
  cl::opt<std::string> output{"o", cl::value_desc("file"), cl::cat(category),
                              cl::desc("Write the pieces with their placements as IR")};
  cl::opt<std::string> json{"json", cl::value_desc("file"), cl::cat(category),
                            cl::desc("Write the plan as JSON (schema: docs/plan.schema.json)")};
  cl::opt<std::string> report{"report", cl::value_desc("file"), cl::cat(category),
                              cl::desc("Write all that is known of the plan as one HTML page; implies --sensitivity")};
  cl::opt<std::string> explain{"explain", cl::value_desc("file.json"), cl::cat(category),
                               cl::desc("Write every decision as JSON, as intarsia-compile does")};
  cl::opt<plan::Objective> objective{
      "objective", cl::init(plan::Objective::DollarsPerRequest), cl::cat(category), cl::desc("What is made small:"),
      cl::values(clEnumValN(plan::Objective::DollarsPerRequest, "cost", "dollars of a request (default)"),
                 clEnumValN(plan::Objective::DollarsPerHour, "hourly", "dollars of an hour at the agents' rates"),
                 clEnumValN(plan::Objective::Latency, "latency", "end-to-end time at the agents' percentile"),
                 clEnumValN(plan::Objective::JoulesPerRequest, "energy", "energy of a request"),
                 clEnumValN(plan::Objective::GramsPerRequest, "carbon", "carbon dioxide of a request"))};
  cl::opt<ServingEngine> engine{"engine", cl::init(ServingEngine::VLLM), cl::cat(category),
                                cl::desc("Whose measured figures language models have:"),
                                cl::values(clEnumValN(ServingEngine::VLLM, "vllm", "(default)"),
                                           clEnumValN(ServingEngine::TensorRTLLM, "trtllm", ""),
                                           clEnumValN(ServingEngine::SGLang, "sglang", ""))};
  cl::opt<std::string> efficiency{"efficiency", cl::value_desc("file"), cl::cat(category),
                                  cl::desc("A .yaml like catalogue/efficiency/serving.yaml in place of these figures")};
  cl::opt<std::string> pareto{"pareto", cl::ValueOptional, cl::value_desc("N"), cl::cat(category),
                              cl::desc("Also plans between the cheapest and the fastest, at most N (default 8)")};
  cl::opt<std::string> simulate{"simulate", cl::ValueOptional, cl::value_desc("N"), cl::cat(category),
                                cl::desc("Simulate the plan with N requests (default 100000)")};
  cl::opt<std::string> arrivals{
      "arrivals", cl::value_desc("file"), cl::cat(category),
      cl::desc("Simulate the requests of a .csv with the columns agent and seconds or milliseconds")};
  cl::opt<std::string> failures{"failures", cl::value_desc("hours[:hours]"), cl::cat(category),
                                cl::desc("Simulate devices that fail so seldom, and are back after (default 1)")};
  cl::opt<bool> tighten{"tighten", cl::cat(category),
                        cl::desc("Simulate, and plan again while a promise is broken there")};
  cl::opt<std::string> confidence{
      "confidence", cl::ValueOptional, cl::value_desc("P"), cl::cat(category),
      cl::desc("Draw the cost model's measured errors: how probably all promises hold; with P, plan until they do so "
               "with this probability")};
  cl::opt<bool> why{"why", cl::init(true), cl::cat(category),
                    cl::desc("For each piece, what the next best choice would cost (default; --why=false is faster)")};
  cl::opt<bool> sensitivity{"sensitivity", cl::cat(category),
                            cl::desc("Which price, promise, speed or rate would change the plan")};
  cl::opt<double> timeLimit{"time-limit", cl::init(60), cl::value_desc("seconds"), cl::cat(category),
                            cl::desc("Stop looking for better plans (default 60)")};
  cl::opt<plan::MixedIntegerLibrary> solver{
      "solver", cl::init(plan::MixedIntegerLibrary::Cbc), cl::cat(category),
      cl::desc("What solves mixed-integer programs:"),
      cl::values(clEnumValN(plan::MixedIntegerLibrary::Cbc, "cbc", "CBC (default)"),
                 clEnumValN(plan::MixedIntegerLibrary::Highs, "highs",
                            "HiGHS: the libhighs.so.1 that INTARSIA_HIGHS names, or where the loader looks"))};
  cl::opt<double> budget{"budget", cl::init(plan::unlimited), cl::value_desc("$/h"), cl::cat(category),
                         cl::desc("Spend no more an hour")};
  cl::opt<std::string> probe{"probe", cl::ValueOptional, cl::value_desc("file"), cl::cat(category),
                             cl::desc("Measure this machine and write it as a device of a fleet (default: print it)")};
  cl::opt<std::string> exportLp{"export-lp", cl::value_desc("file"), cl::cat(category),
                                cl::desc("Write the model as the solver sees it")};
  cl::list<std::string> without{"without", cl::CommaSeparated, cl::value_desc("@pool:N"), cl::cat(category),
                                cl::desc("Plan again after N devices of a pool are lost, keeping what can stay")};
  cl::opt<std::string> previous{
      "previous", cl::value_desc("plan.json"), cl::cat(category),
      cl::desc("Begin from the plan that --json wrote, keep what can stay, and say what moves and why")};
};

constexpr int standardRequests = 100000;

/// Unset: not asked for; 0: asked for without a value.
std::optional<double> probabilityOf(const cl::opt<std::string> &flag) {
  double probability = 0;
  if (!flag.getNumOccurrences())
    return std::nullopt;
  if (!flag.getValue().empty() &&
      (llvm::StringRef(flag.getValue()).getAsDouble(probability) || !(probability > 0 && probability < 1))) {
    llvm::WithColor::error(llvm::errs(), "intarsia-plan")
        << "--" << flag.ArgStr << "=" << flag.getValue() << ": a probability between 0 and 1 is expected\n";
    exit(1);
  }
  return probability;
}

int numberOf(const cl::opt<std::string> &flag, int standard, int most = std::numeric_limits<int>::max()) {
  if (!flag.getNumOccurrences())
    return 0;
  int number = standard;
  if (!flag.getValue().empty() && (llvm::StringRef(flag.getValue()).getAsInteger(10, number) || number < 1)) {
    llvm::WithColor::error(llvm::errs(), "intarsia-plan")
        << "--" << flag.ArgStr << "=" << flag.getValue() << ": a number above zero is expected\n";
    exit(1);
  }
  if (number > most) {
    llvm::WithColor::error(llvm::errs(), "intarsia-plan")
        << "--" << flag.ArgStr << "=" << number << ": at most " << most << " are possible\n";
    exit(1);
  }
  return number;
}

} // namespace

PlannerOptions parsePlannerOptions(int argc, char **argv) {
  cl::ResetCommandLineParser();
  static Flags flags;
  cl::SetVersionPrinter(
      [](llvm::raw_ostream &stream) { stream << "intarsia-plan " INTARSIA_VERSION " (" INTARSIA_COMMIT ")\n"; });
  cl::ParseCommandLineOptions(
      argc, argv,
      "Places the tasks of agents on a fleet: which pool, precision, degrees, batch and how many "
      "replicas\nhold the service level at the least cost.\n\n"
      "  intarsia-plan support.mlir\n"
      "  intarsia-plan support.mlir --fleet=dc.mlir --json=plan.json -o placed.mlir\n"
      "  intarsia-plan support.mlir --fleet=new.mlir --previous=plan.json\n"
      "  intarsia-plan --probe=here.yaml\n");
  PlannerOptions options;
  options.input = flags.input;
  options.fleetFile = flags.fleet;
  options.output = flags.output;
  options.json = flags.json;
  options.report = flags.report;
  options.explain = flags.explain;
  options.objective = flags.objective;
  options.engine = flags.engine;
  options.efficiencyFile = flags.efficiency;
  options.paretoPoints = numberOf(flags.pareto, 8, plan::mostParetoPoints);
  options.simulatedRequests = numberOf(flags.simulate, standardRequests);
  options.arrivals = flags.arrivals;
  options.deviceFailures = flags.failures;
  options.tightens = flags.tighten;
  bool asksForSimulation = options.tightens || !options.arrivals.empty() || !options.deviceFailures.empty();
  if (options.simulatedRequests == 0 && asksForSimulation)
    options.simulatedRequests = standardRequests;
  options.confidence = probabilityOf(flags.confidence);
  options.explains = flags.why;
  options.asksSensitivity = flags.sensitivity.getNumOccurrences() ? flags.sensitivity : !options.report.empty();
  options.timeLimitSeconds = flags.timeLimit;
  options.dollarsPerHourCap = flags.budget;
  options.solver = flags.solver;
  options.exportLp = flags.exportLp;
  options.probes = flags.probe.getNumOccurrences();
  options.probeFile = flags.probe;
  options.previous = flags.previous;
  options.lost.assign(flags.without.begin(), flags.without.end());
  return options;
}

} // namespace intarsia
