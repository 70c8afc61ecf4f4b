//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Plan/Parallel.h"
#include "intarsia/Cost/ParallelConfig.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"
#include <limits>

using namespace llvm;
using namespace intarsia;

static void printHeader(const ParallelConfig &config, raw_ostream &stream) {
  stream << config.shape->name << " on " << config.cluster.devices << " devices, " << int64_t(config.run.globalBatch)
         << " sequences of " << int64_t(config.run.sequence) << " tokens a step\n"
         << format("%9s %10s %6s %8s %9s %7s %6s %8s  %s\n", "step", "tokens/s", "MFU", "compute", "exchanges",
                   "bubble", "other", "memory", "configuration");
}

static void printRow(const ParallelConfig &config, const ParallelChoice &choice, const std::string &note,
                     raw_ostream &stream) {
  const StepTime &time = choice.time;
  double compute = time.linearMs + time.attentionMs + time.elementwiseMs + time.launchMs;
  double exchanges = time.tensorMs + time.contextMs + time.expertMs + time.sendMs + time.dataMs;
  double seconds = time.totalMs / 1e3, tokens = config.run.globalBatch * config.run.sequence;
  double flops = modelFlops(*config.shape, config.run.sequence, config.run.globalBatch, false);
  double mfu = flops / (seconds * config.cluster.devices * config.cluster.peakTflops * 1e12);
  auto share = [&](double part) { return 100 * part / time.totalMs; };
  stream << format("%7.3f s %10.0f %5.1f%% %7.1f%% %8.1f%% %6.1f%% %5.1f%% %5.1f GB  ", seconds, tokens / seconds,
                   100 * mfu, share(compute), share(exchanges), share(time.bubbleMs), share(time.optimizerMs),
                   choice.memory.total() / 1e9)
         << choice.text() << (note.empty() ? "" : ": ") << note << "\n";
}

static void printConfigurations(const ParallelConfig &config, raw_ostream &stream) {
  printHeader(config, stream);
  for (ParallelChoice choice : config.configurations) {
    TrainingRun run = choice.of(config.run);
    choice.time = trainingStep(run, config.cluster, choice.mapping, ParallelFigures::get());
    choice.memory = trainingMemory(run, choice.mapping);
    double most = config.cluster.memoryGB * 1e9;
    printRow(config, choice, choice.memory.total() > most ? "does not fit" : "", stream);
  }
}

static void printStages(const ParallelChoice &choice, raw_ostream &stream) {
  if (choice.mapping.stageLayers.empty())
    return;
  stream << "layers of the stages:";
  for (int layers : choice.mapping.stageLayers)
    stream << " " << layers;
  stream << "\n";
}

/// Prints where layers are placed; returns false if the fleet cannot hold the model.
static bool printFleet(const ParallelConfig &config, raw_ostream &stream) {
  const FleetFigures &figures = ParallelFigures::get().fleet;
  const FleetModel &model = config.fleetModel;
  std::vector<int> layers = placeLayers(config.fleet, model, config.objective, figures);
  if (layers.empty())
    return false;
  stream << config.shape->name << format(", %d layers of %.3f GB", model.layers, model.layerBytes / 1e9);
  if (model.expertBytes > 0)
    stream << format(", of which a token reads %.3f GB", model.readBytes() / 1e9);
  stream << "\n" << format("%7s %10s %10s  %s\n", "layers", "a token", "alone", "device");
  for (size_t i = 0; i < layers.size(); ++i) {
    double alone = deviceUs(config.fleet[i], model, model.layers, figures);
    stream << format("%7d %7.1f ms ", layers[i], deviceUs(config.fleet[i], model, layers[i], figures) / 1e3);
    if (alone < std::numeric_limits<double>::infinity())
      stream << format("%7.1f ms", alone / 1e3);
    else
      stream << format("%10s", "-");
    stream << "  " << config.fleet[i].name << "\n";
  }
  stream << format("a token in %.1f ms, messages between devices included\n",
                   tokenUs(config.fleet, model, layers, figures) / 1e3);
  ListSeparator comma;
  std::string unbounded;
  for (const FleetDevice &device : config.fleet)
    if ((device.acceleratorGBps > 0 && device.acceleratorTflops <= 0) ||
        (device.hostGBps > 0 && device.hostTflops <= 0))
      unbounded += (StringRef(comma) + device.name).str();
  if (!unbounded.empty())
    stream << "the arithmetic of some processors is not known and bounds nothing: give accelerator_tflops and "
              "host_tflops of "
           << unbounded << "\n";
  return true;
}

int intarsia::runParallel(const std::string &file) {
  auto fail = [](const Twine &message) {
    WithColor::error(errs(), "intarsia-plan") << message << "\n";
    return 1;
  };
  ErrorOr<std::unique_ptr<MemoryBuffer>> text = MemoryBuffer::getFileOrSTDIN(file, /*IsText=*/true);
  if (!text)
    return fail("--parallel=" + file + ": " + text.getError().message());
  Expected<ParallelConfig> config = ParallelConfig::parse((*text)->getBuffer(), file);
  if (!config)
    return fail(toString(config.takeError()));
  if (!config->fleet.empty()) {
    if (printFleet(*config, outs()))
      return 0;
    return fail(file + ": the devices cannot hold the model, " +
                Twine(int64_t(config->fleetModel.layerBytes * config->fleetModel.layers / 1e9) + 1) +
                " GB: add a device, its disk (disk_gbps), or fewer weight_bits");
  }
  if (!config->configurations.empty()) {
    printConfigurations(*config, outs());
    return 0;
  }
  ParallelSearchResult result = searchParallel(config->run, config->cluster, ParallelFigures::get(), config->search);
  if (result.alternatives.empty())
    return fail(file + ": no degrees divide the model and the batch over " + Twine(config->cluster.devices) +
                " devices; try another number of devices, or a global_batch that they divide");
  printHeader(*config, outs());
  for (const ParallelAlternative &alternative : result.alternatives)
    printRow(*config, alternative.choice, alternative.why, outs());
  outs() << result.considered << " configurations, " << result.costed
         << " of them costed; each row is the best of its kind\n";
  if (result.found) {
    printStages(result.best, outs());
    return 0;
  }
  outs().flush();
  return fail(file + ": no configuration fits; the smallest needs " +
              Twine(int64_t(result.smallest.memory.total() / 1e9) + 1) + " GB of each device (" +
              result.smallest.text() + "): give more devices, a smaller global_batch, or offloads_states in 'run'");
}
