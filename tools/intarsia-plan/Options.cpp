//===- Options.cpp - The command line of intarsia-plan -----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "Options.h"

#include "intarsia/Cost/Catalogue.h"
#include "intarsia/Plan/Confidence.h"
#include "intarsia/Plan/Simulation.h"
#include "intarsia/Version.h"
#include "lib/Support/Arguments.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/WithColor.h"
#include <cmath>

namespace cl = llvm::cl;
using llvm::StringRef, llvm::Twine;

namespace intarsia {
namespace {

/// Flags, made as in intarsia-compile, after LLVM's own flags have been removed.
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
                                  cl::desc("A .yaml like catalogue/efficiency/serving.yaml instead of these figures")};
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
  cl::opt<std::string> headroom{
      "headroom", cl::value_desc("share"), cl::cat(category),
      cl::desc("Share of what replicas sustain that the plan leaves free (default: enough for times that one in ten "
               "exceeds, where there is such a plan; none with --confidence=P)")};
  cl::opt<std::string> latencyRoom{
      "latency-room", cl::value_desc("share"), cl::cat(category),
      cl::desc("With --objective=latency: by how much a cheaper plan may be slower than the fastest (default 0.001)")};
  cl::opt<bool> why{"why", cl::init(true), cl::cat(category),
                    cl::desc("For each piece, what the next best choice would cost (default; --why=false is faster)")};
  cl::opt<bool> sensitivity{"sensitivity", cl::cat(category),
                            cl::desc("Which price, promise, speed or rate would change the plan")};
  cl::opt<std::string> timeLimit{"time-limit", cl::value_desc("seconds"), cl::cat(category),
                                 cl::desc("Stop looking for better plans (default 60)")};
  cl::opt<std::string> budget{"budget", cl::value_desc("$/h"), cl::cat(category), cl::desc("Spend no more an hour")};
  cl::opt<std::string> probe{"probe", cl::ValueOptional, cl::value_desc("file"), cl::cat(category),
                             cl::desc("Measure this machine and write it as a device of a fleet (default: print it)")};
  cl::opt<std::string> probeSeconds{
      "probe-seconds", cl::value_desc("seconds"), cl::cat(category),
      cl::desc("With --probe: for about how long models of random weights are measured, for plans with language models "
               "(default 120; compiling them takes as long again; 0: none)")};
  cl::opt<std::string> parallel{
      "parallel", cl::value_desc("file.yaml"), cl::cat(category),
      cl::desc("Cost training configurations of one model over many devices, or find the fastest (docs/parallel.md)")};
  cl::opt<std::string> compare{
      "compare", cl::value_desc("profile.json"), cl::cat(category),
      cl::desc(
          "Print the times of a plan.json, given in place of the agents, beside those that intarsia bench deployment "
          "measured")};
  cl::list<std::string> without{"without", cl::CommaSeparated, cl::value_desc("@pool:N"), cl::cat(category),
                                cl::desc("Plan again after N devices of a pool are lost, keeping what can stay")};
  cl::opt<std::string> previous{
      "previous", cl::value_desc("plan.json"), cl::cat(category),
      cl::desc("Begin from the plan that --json wrote, keep what can stay, and say what moves and why")};
};

constexpr int standardRequests = 100000;

[[noreturn]] void refuse(const Twine &what) {
  llvm::WithColor::error(llvm::errs(), "intarsia-plan") << what << '\n';
  exit(1);
}

[[noreturn]] void refuse(const cl::opt<std::string> &flag, const Twine &what) {
  refuse((flag.ArgStr.size() > 1 ? "--" : "-") + flag.ArgStr + "=" + flag.getValue() + ": " + what);
}

/// Returns nothing if the flag is not given, 0 if it is given without a value.
std::optional<double> probabilityOf(const cl::opt<std::string> &flag) {
  double probability = 0;
  if (!flag.getNumOccurrences())
    return std::nullopt;
  if (!flag.getValue().empty() &&
      (StringRef(flag.getValue()).getAsDouble(probability) || !(probability > 0 && probability < 1)))
    refuse(flag, "a probability between 0 and 1 is expected");
  if (probability > plan::highestConfidence)
    refuse(flag,
           "0.999 at most: of the thousands of trials that there is time for, less could not be told from nothing");
  return probability;
}

/// Parses a whole number, also in the form 1e6.
int numberOf(const cl::opt<std::string> &flag, int standard, int most, StringRef why) {
  if (!flag.getNumOccurrences())
    return 0;
  if (flag.getValue().empty())
    return standard;
  double number = 0;
  if (StringRef(flag.getValue()).getAsDouble(number) || !(number >= 1) || number != std::floor(number))
    refuse(flag, "a whole number above zero is expected");
  if (number > most)
    refuse(flag, Twine(most) + " at most: " + why);
  return int(number);
}

/// Parses a finite number from `least` on.
double amountOf(const cl::opt<std::string> &flag, double standard, bool allowsZero, StringRef unit) {
  if (!flag.getNumOccurrences())
    return standard;
  double amount = 0;
  if (StringRef(flag.getValue()).getAsDouble(amount) || !std::isfinite(amount) || amount < 0 ||
      (amount == 0 && !allowsZero))
    refuse(flag, unit + (allowsZero ? " are expected, zero or more" : " above zero are expected"));
  return amount;
}

/// Returns nothing if the flag is not given.
std::optional<double> shareOf(const cl::opt<std::string> &flag, StringRef meaning) {
  double share = 0;
  if (!flag.getNumOccurrences())
    return std::nullopt;
  if (StringRef(flag.getValue()).getAsDouble(share) || !(share >= 0 && share <= 0.9))
    refuse(flag, "a share from 0 to 0.9 is expected, " + meaning);
  return share;
}

/// Refuses flags that are not known, before LLVM takes them for groups of flags of one letter.
void refuseUnknown(int argc, char **argv) {
  std::vector<std::string> names{"help", "help-hidden", "version"};
  for (auto &[name, option] : cl::getRegisteredOptions())
    names.push_back(name.str());
  for (int index = 1; index < argc && StringRef(argv[index]) != "--"; ++index) {
    StringRef name = argv[index];
    if (!name.consume_front("--") || is_contained(names, name.split('=').first))
      continue;
    std::string near = nearestNames(name.split('=').first, names);
    refuse("unknown flag '--" + name.split('=').first + "'" + (near.empty() ? "; --help lists all" : near));
  }
}

void checkFileNames(const Flags &flags) {
  for (const cl::opt<std::string> *flag :
       {&flags.fleet, &flags.output, &flags.json, &flags.report, &flags.explain, &flags.efficiency, &flags.arrivals,
        &flags.previous, &flags.parallel, &flags.compare})
    if (flag->getNumOccurrences() && flag->getValue().empty())
      refuse(*flag, "names no file");
}

/// Refuses other flags beside --probe, --parallel and --compare, which would be ignored.
void checkAlone(const Flags &flags, const cl::opt<std::string> &flag, StringRef does, bool takesInput = false) {
  if (!flag.getNumOccurrences())
    return;
  std::string other = flags.input.getNumOccurrences() && !takesInput ? flags.input.getValue() : "";
  for (auto &[name, option] : cl::getRegisteredOptions())
    if (option->getNumOccurrences() && option != &flag && option != &flags.input &&
        (option != &flags.probeSeconds || &flag != &flags.probe))
      other = (name.size() > 1 ? "--" : "-") + name.str();
  if (!other.empty())
    refuse("--" + flag.ArgStr + " " + does + "; leave '" + other + "' away");
}

} // namespace

PlannerOptions parsePlannerOptions(int argc, char **argv) {
  cl::ResetCommandLineParser();
  static Flags flags;
  cl::SetVersionPrinter(
      [](llvm::raw_ostream &stream) { stream << "intarsia-plan " INTARSIA_VERSION " (" INTARSIA_COMMIT ")\n"; });
  refuseUnknown(argc, argv);
  if (std::string problem = flagWithoutValue(argc, argv); !problem.empty())
    refuse(problem);
  cl::ParseCommandLineOptions(
      argc, argv,
      "Places the tasks of agents on a fleet: which pool, precision, degrees, batch and how many "
      "replicas\nhold the service level at the least cost.\n\n"
      "  intarsia-plan support.mlir\n"
      "  intarsia-plan support.mlir --fleet=dc.mlir --json=plan.json -o placed.mlir\n"
      "  intarsia-plan support.mlir --fleet=new.mlir --previous=plan.json\n"
      "  intarsia-plan --probe=here.yaml\n"
      "  intarsia-plan --parallel=training.yaml\n"
      "  intarsia-plan plan.json --compare=profile.json\n\n"
      "One result may go to standard output, by the name '-' (--json=-); what is printed otherwise then goes to "
      "standard\nerror.\n");
  checkFileNames(flags);
  checkAlone(flags, flags.probe, "measures this machine and plans nothing");
  if (flags.probeSeconds.getNumOccurrences() && !flags.probe.getNumOccurrences())
    refuse("--probe-seconds says how long --probe measures; give --probe=FILE too");
  checkAlone(flags, flags.parallel, "costs one model and plans no agents");
  checkAlone(flags, flags.compare, "compares a plan and plans nothing", /*takesInput=*/true);
  if (flags.compare.getNumOccurrences() && flags.input == "-")
    refuse("--compare takes the plan as its input: intarsia-plan plan.json --compare=profile.json");
  if (flags.failures.getNumOccurrences() && flags.failures.empty())
    refuse(flags.failures, "hours are expected: --failures=5000, or --failures=5000:0.5");
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
  options.paretoPoints = numberOf(flags.pareto, 8, plan::mostParetoPoints, "each is a plan of its own");
  options.simulatedRequests = numberOf(flags.simulate, standardRequests, plan::mostSimulatedRequests,
                                       "the times of all requests are kept in memory");
  options.arrivals = flags.arrivals;
  options.deviceFailures = flags.failures;
  options.tightens = flags.tighten;
  bool asksForSimulation = options.tightens || !options.arrivals.empty() || !options.deviceFailures.empty();
  if (options.simulatedRequests == 0 && asksForSimulation)
    options.simulatedRequests = standardRequests;
  options.confidence = probabilityOf(flags.confidence);
  options.headroom = shareOf(flags.headroom, "such as 0.2: replicas are then busy for 0.8 of what they sustain");
  if (flags.latencyRoom.getNumOccurrences()) {
    if (flags.objective != plan::Objective::Latency)
      refuse(flags.latencyRoom, "is about --objective=latency; leave it out");
    options.latencyRoom = *shareOf(flags.latencyRoom, "such as 0.001: a plan may be 0.1 % slower than the fastest");
  }
  if (!options.headroom && options.confidence.value_or(0) > 0)
    options.headroom = 0; // the probability says how much is needed
  options.explains = flags.why;
  options.asksSensitivity = flags.sensitivity.getNumOccurrences() ? flags.sensitivity : !options.report.empty();
  options.timeLimitSeconds = amountOf(flags.timeLimit, 60, /*allowsZero=*/false, "seconds");
  options.dollarsPerHourCap = amountOf(flags.budget, plan::unlimited, /*allowsZero=*/true, "dollars an hour");
  options.parallel = flags.parallel;
  options.compare = flags.compare;
  options.probes = flags.probe.getNumOccurrences();
  options.probeFile = flags.probe;
  options.probeSeconds = amountOf(flags.probeSeconds, options.probeSeconds, /*allowsZero=*/true, "seconds");
  options.previous = flags.previous;
  options.lost.assign(flags.without.begin(), flags.without.end());
  return options;
}

} // namespace intarsia
