//===- Flags.cpp - Which flags go together, and what an artifact says of them -------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Compiler/Flags.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

namespace intarsia::compiler {

std::vector<std::string> flagsOf(const CompileOptions &options) {
  std::vector<std::string> flags;
  if (options.quantize.format != "none")
    flags.push_back("--quantize=" + options.quantize.format);
  if (options.quantize.activations != QuantizeOptions().activations)
    flags.push_back("--quantize-activations=" + options.quantize.activations);
  if (options.quantize.matmulPrecision != QuantizeOptions().matmulPrecision)
    flags.push_back("--matmul-precision=" + options.quantize.matmulPrecision);
  if (options.quantize.attention != QuantizeOptions().attention)
    flags.push_back("--quantize-attention=" + options.quantize.attention);
  if (!options.quantize.parts.empty())
    flags.push_back("--quantize-parts=" + llvm::join(options.quantize.parts, ","));
  if (options.quantize.segment)
    flags.push_back("--segment=" + std::to_string(*options.quantize.segment));
  if (!options.quantize.caches.empty())
    flags.push_back("--kv=" + llvm::join(options.quantize.caches, ","));
  for (const std::string &placement : options.partition.placements)
    flags.push_back("--place=" + placement);
  if (!options.partition.gpuMemory.empty())
    flags.push_back("--gpu-memory=" + options.partition.gpuMemory);
  if (options.partition.world > 1)
    flags.push_back("--world=" + std::to_string(options.partition.world));
  if (std::string text = partitionText(options.partition); options.partition.world > 1 && text != "tensor")
    flags.push_back("--partition=" + text);
  if (!options.partition.rankMemory.empty())
    flags.push_back("--rank-memory=" + options.partition.rankMemory);
  for (auto [number, ranks] : llvm::enumerate(options.partition.hosts)) {
    if (number == 0)
      flags.push_back("--rank-hosts=");
    flags.back() += (number ? "," : "") + std::to_string(ranks);
  }
  if (!options.partition.network.empty())
    flags.push_back("--rank-network=" + options.partition.network);
  for (auto [number, speed] : llvm::enumerate(options.partition.speeds)) {
    if (number == 0)
      flags.push_back("--rank-speeds=");
    flags.back() += (number ? "," : "") + llvm::formatv("{0}", speed).str();
  }
  if (!options.partition.figures.empty())
    flags.push_back("--rank-figures=" + options.partition.figures);
  if (options.partition.roundsMessages)
    flags.push_back("--rank-messages=int8");
  if (!options.partition.rankLoad.empty())
    flags.push_back("--rank-load=" + options.partition.rankLoad);
  for (const std::string &decision : options.flip)
    flags.push_back("--flip=" + decision);
  for (const std::string &shape : options.import.shapes)
    flags.push_back("--shape=" + shape);
  for (const std::string &value : options.import.values)
    flags.push_back("--set=" + value);
  return flags;
}

llvm::Error checkGraphFlags(const CompileOptions &options, llvm::StringRef kind) {
  llvm::StringRef flag = !options.import.shapes.empty()   ? "--shape"
                         : !options.import.values.empty() ? "--set"
                         : !options.reportFile.empty()    ? "--json"
                                                          : "";
  return flag.empty() ? llvm::Error::success()
                      : llvm::createStringError(flag + " is for ONNX files; '" + options.model + "' is " + kind);
}

std::vector<std::string> filesOfValues(const CompileOptions &options) {
  std::vector<std::string> files;
  for (llvm::StringRef given : options.import.values)
    if (llvm::StringRef text = given.split('=').second; text.consume_front("@"))
      files.push_back(text.str());
  return files;
}

llvm::Error checkFlags(const CompileOptions &options, Phase firstPhase) {
  const PartitionOptions &partition = options.partition;
  llvm::StringRef first = phaseNames[unsigned(firstPhase)], last = phaseNames[unsigned(options.stopAfter)];
  if (options.stopAfter < firstPhase)
    return llvm::createStringError("nothing to do: --stop-after=" + last + " comes before --start-from=" + first);
  if (options.stopAfter != Phase::Assemble && (options.emit != Emit::Shared || options.embedWeights))
    return llvm::createStringError(
        "--emit and --embed-weights are about the artifact, which is not made with --stop-after=" + last);
  if (firstPhase > Phase::Import && options.import.context.has_value())
    return llvm::createStringError("--context is about the import of a model, which does not run with --start-from=" +
                                   first);
  if (!options.weightsDirectory.empty() && !llvm::sys::fs::is_directory(options.weightsDirectory))
    return llvm::createStringError("--weights-dir=" + options.weightsDirectory + ": is no directory");
  if (llvm::Error error = checkQuantizeOptions(options.quantize))
    return error;
  if (!options.quantize.segment && !options.quantize.segmentWeights.empty())
    return llvm::createStringError("--segment-weights are those of one layer: give --segment too");
  bool quantizes = firstPhase <= Phase::Quantize && options.stopAfter >= Phase::Quantize;
  bool asks = options.quantize.format != "none" || options.quantize.activations != QuantizeOptions().activations ||
              options.quantize.matmulPrecision != QuantizeOptions().matmulPrecision ||
              options.quantize.attention != QuantizeOptions().attention || options.quantize.segment.has_value();
  if (!quantizes && asks)
    return llvm::createStringError(
        "--quantize, --quantize-activations, --quantize-attention, --segment and --matmul-precision are about the "
        "quantize phase, which does not run with " +
        (firstPhase > Phase::Quantize ? "--start-from=" + first : "--stop-after=" + last));
  if (!quantizes && !options.quantize.caches.empty())
    return llvm::createStringError("--kv is about the quantize phase, which does not run with " +
                                   (firstPhase > Phase::Quantize ? "--start-from=" + first : "--stop-after=" + last));
  bool partitions = firstPhase <= Phase::Partition && options.stopAfter >= Phase::Partition;
  if (!partitions && !partition.placements.empty())
    return llvm::createStringError("--place is about the partition phase, which does not run with " +
                                   (firstPhase > Phase::Partition ? "--start-from=" + first : "--stop-after=" + last));
  if (partition.world < 1 || partition.world > mostRanks)
    return llvm::createStringError("--world=" + std::to_string(partition.world) + ": a world has 1 to " +
                                   std::to_string(mostRanks) + " ranks");
  if (!partition.rankMemory.empty() && partition.stages != 0)
    return llvm::createStringError("--rank-memory is a limit for --partition=auto, which chooses by it: add that");
  if (!partition.rankLoad.empty())
    if (llvm::Expected<RankLoad> load = parseRankLoad(partition.rankLoad); !load)
      return load.takeError();
  const std::vector<int64_t> &hosts = partition.hosts;
  if ((!hosts.empty() || !partition.network.empty()) && partition.stages != 0 && partition.rankLoad.empty())
    return llvm::createStringError(
        "--rank-hosts and --rank-network are for --partition=auto and for --rank-load, which reckon "
        "with what exchanges take: add one of them");
  if (hosts.size() > 1 && partition.network.empty())
    return llvm::createStringError(
        "--rank-hosts: say what is between the hosts too, as in --rank-network=10Gbit/s,50us");
  if (hosts.size() < 2 && !partition.network.empty())
    return llvm::createStringError(
        "--rank-network is between hosts: say how many ranks each has, as in --rank-hosts=2,2");
  const std::vector<double> &speeds = partition.speeds;
  if (!speeds.empty() && int64_t(speeds.size()) != partition.world)
    return llvm::createStringError("--rank-speeds has " + std::to_string(speeds.size()) +
                                   " speeds, --world=" + std::to_string(partition.world) + " needs as many");
  if (!speeds.empty() && partition.context * partition.data > 1)
    return llvm::createStringError("--rank-speeds: rows of a call are shared evenly; leave it out with --partition=" +
                                   partitionText(partition));
  if (llvm::any_of(speeds, [](double speed) { return !(speed > 0) || !std::isfinite(speed); }))
    return llvm::createStringError("--rank-speeds: a speed is a positive number, as in --rank-speeds=1,0.35");
  bool isPipeline = partition.world > 1 && partition.stages != 1;
  if (!partition.figures.empty() && !isPipeline && partition.rankLoad.empty())
    return llvm::createStringError(
        "--rank-figures is for --rank-load, --partition=pipeline and --partition=auto, which reckon "
        "with times: add one of them, or leave it out");
  if (!partition.figures.empty())
    if (llvm::Expected<CatalogueDevice> read = readRankFigures(partition.figures); !read)
      return read.takeError();
  if (partition.roundsMessages && partition.world < 2)
    return llvm::createStringError(
        "--rank-messages says what ranks send each other: give their number, as in --world=2");
  if (!partitions && partition.world > 1)
    return llvm::createStringError("--world is about the partition phase, which does not run with " +
                                   (firstPhase > Phase::Partition ? "--start-from=" + first : "--stop-after=" + last));
  if (!partition.gpuMemory.empty()) {
    if (!partitions)
      return llvm::createStringError(
          "--gpu-memory is about the partition phase, which does not run with " +
          (firstPhase > Phase::Partition ? "--start-from=" + first : "--stop-after=" + last));
    if (!partition.placements.empty())
      return llvm::createStringError("--gpu-memory decides where layers run, and so does --place: give one of them");
    if (llvm::Expected<uint64_t> bytes = parseMemorySize(partition.gpuMemory); !bytes)
      return bytes.takeError();
  }
  if (firstPhase > Phase::Target && !options.targets.empty())
    return llvm::createStringError("--target is about the target phase, which does not run with --start-from=" + first +
                                   ": the kernels are compiled already");
  if (options.requireCubin && (firstPhase > Phase::Target || options.stopAfter < Phase::Target))
    return llvm::createStringError("--require-cubin is about the target phase, which does not run with " +
                                   (firstPhase > Phase::Target ? "--start-from=" + first : "--stop-after=" + last));
  bool fuses = firstPhase <= Phase::Fuse && options.stopAfter >= Phase::Fuse;
  if (!fuses && (!options.explainFile.empty() || !options.flip.empty()))
    return llvm::createStringError("--explain and --flip are about the fuse phase, which does not run with " +
                                   (firstPhase > Phase::Fuse ? "--start-from=" + first : "--stop-after=" + last));
  return llvm::Error::success();
}

} // namespace intarsia::compiler
