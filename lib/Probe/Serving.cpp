//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Times of this compiler's kernels on the processor: models of random weights are compiled by the intarsia-compile that
// lies beside this program and run by the runtime.
//===----------------------------------------------------------------------------------------------------------===//
#include "RandomModel.h"
#include "Reading.h"
#include "Turns.h"
#include "intarsia/Cost/ModelShape.h"
#include "intarsia/Probe/Probe.h"
#include "intarsia/runtime.h"
#include "lib/Support/PlanPrecision.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/WithColor.h"
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <limits>
#include <memory>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

using namespace llvm;

namespace intarsia {
namespace {

using probe::Pass;

/// Precisions that decoders and encoders are measured in, with the types that the random weights of both are stored in,
/// none for an encoder that is not measured, and the bytes of a weight of the compiled decoder.
struct Measured {
  StringLiteral precision, decoder, encoder;
  double weightBytes;
};
constexpr Measured measuredPrecisions[] = {
    {"f32", "F32", "F32", 4}, {"bf16", "BF16", "BF16", 2}, {"int8", "BF16", "F32", 1}, {"int4", "BF16", "", 0.5}};

/// Sizes of decoders, with the fewest layers: layers so small that launches matter, those of a model of 100 million
/// weights, and of one of a billion.
const probe::DecoderSize decoderSizes[] = {
    {256, 768, 4, 2, 8, 512}, {576, 1536, 9, 3, 8, 512}, {2048, 5632, 32, 4, 3, 16384}};
/// A hurried probe measures this decoder instead of the largest one in f32, bf16 and f16, which take longest. It has a
/// quarter of the weights: as many bytes in f32 as the largest one in int8, so that they do not fit into a cache.
const probe::DecoderSize insteadOfLargest = {1024, 2816, 16, 4, 2, 8192};
/// Bytes that all layers of the larger two have at least, so that weights come from memory as those of whole models do:
/// on a server whose processors share 480 MB of last cache, one sequence's step takes 23 ps a weight in int4 where the
/// model has 42 MB, and 53 ps where it has 100 MB. This is somewhat more than the latter.
constexpr double leastModelBytes = 128e6;
const probe::EncoderSize encoderSize = {384, 1536, 12, 6, 1024};

const std::vector<double> measuredRows = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512};
constexpr int64_t contexts[] = {512, 1536}; ///< behind which steps and parts of prompts are measured
constexpr int64_t promptPart = 512;         ///< tokens of a prompt that are computed together
constexpr int64_t sequencesOfContext = 4;
constexpr int64_t handedOver[] = {128, 1024}; ///< tokens of the caches that are handed over
/// Seconds of measuring that all of this is meant for; with fewer, models are smaller and passes have fewer turns.
constexpr double usualSeconds = 120;
/// Share of them below which a probe is hurried: passes have one turn, and one more where they contradict each other.
constexpr double hurriedShare = 0.1;
/// Bytes of the fixed work that tells whether others use the machine.
constexpr double yardstickBytes = 128e6;
constexpr double handOverTimeout = 60;

template <typename T, void (*release)(T *)> struct Release {
  void operator()(T *handle) const { release(handle); }
};
using ModuleHandle = std::unique_ptr<itx_module, Release<itx_module, itx_module_free>>;
using CacheHandle = std::unique_ptr<itx_cache, Release<itx_cache, itx_cache_free>>;
using SequenceHandle = std::unique_ptr<itx_sequence, Release<itx_sequence, itx_sequence_free>>;
using TensorHandle = std::unique_ptr<itx_tensor, Release<itx_tensor, itx_tensor_free>>;

Error check(itx_status status) {
  return status == ITX_OK ? Error::success() : createStringError(StringRef(itx_last_error()));
}

/// Times passes for a whole probe.
class Timer {
public:
  explicit Timer(double seconds)
      : thoroughness(std::min(1.0, seconds / usualSeconds)), reading(probe::threadsAllowed(""), yardstickBytes) {
    patience.seconds = seconds / 2;
    options.warmSeconds *= thoroughness;
    options.enoughSeconds *= thoroughness;
    if (thoroughness < 0.5)
      options.fewest = options.most = 2;
    if (isHurried())
      options.fewest = options.most = options.again = 1;
    options.clock = [] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
    };
    options.slowdown = [this] {
      double now = std::min(reading.seconds(), reading.seconds());
      best = std::min(best, now);
      return now / best;
    };
    for (int round = 0; round < 5; ++round)
      options.slowdown();
  }
  Timer(const Timer &) = delete;

  /// 1 where a probe has its usual time, less where it has less.
  const double thoroughness;
  bool isHurried() const { return thoroughness < hurriedShare; }

  Expected<std::vector<double>> time(ArrayRef<Pass> passes) { return probe::timeInTurns(passes, options, patience); }
  /// Says how much of what was measured others disturbed, or "".
  std::string disturbance() const {
    if (!patience.disturbedTurns)
      return "";
    return formatv("{0} of {1} turns ran beside other work that took the machine", patience.disturbedTurns,
                   patience.turns);
  }

private:
  probe::Reading reading;
  probe::TurnOptions options;
  probe::Patience patience;
  double best = std::numeric_limits<double>::infinity();
};

/// A decoder that is loaded, and sequences of it.
class Decoder {
public:
  static Expected<std::unique_ptr<Decoder>> load(const std::string &artifact, int64_t sequences, int64_t tokens) {
    auto decoder = std::make_unique<Decoder>();
    itx_module *module = nullptr;
    if (Error error = check(itx_module_load(artifact.c_str(), nullptr, &module)))
      return std::move(error);
    decoder->module.reset(module);
    itx_cache_options options = {sizeof(options), sequences, 0, 0};
    itx_cache *cache = nullptr;
    // The first cache gives the tokens of a page.
    for (int pass = 0; pass < 2; ++pass) {
      options.sequences = std::max<int64_t>(sequences, 1);
      options.pages = pass ? options.sequences * ((tokens + decoder->pageTokens - 1) / decoder->pageTokens) : 1;
      if (Error error = check(itx_cache_create(module, nullptr, &options, &cache)))
        return std::move(error);
      decoder->cache.reset(cache);
      itx_cache_info info = {};
      info.struct_bytes = sizeof(info);
      if (Error error = check(itx_cache_get_info(cache, &info)))
        return std::move(error);
      decoder->pageTokens = info.page_tokens;
    }
    for (int64_t i = 0; i < sequences; ++i) {
      itx_sequence *sequence = nullptr;
      if (Error error = check(itx_sequence_create(cache, &sequence)))
        return std::move(error);
      decoder->sequences.emplace_back(sequence);
    }
    decoder->tokens.assign(size_t(tokens), 0);
    for (size_t i = 0; i < decoder->tokens.size(); ++i)
      decoder->tokens[i] = int64_t(i * 7919 % 251);
    return decoder;
  }

  /// Appends `tokensOfEach` tokens to each of `count` sequences from `first` on; logits are computed for the last
  /// `outputs` of each.
  Error append(int64_t first, int64_t count, int64_t tokensOfEach, int64_t outputs) {
    std::vector<itx_chunk> chunks;
    for (int64_t i = first; i < first + count; ++i)
      chunks.push_back({sequences[size_t(i)].get(), tokens.data(), tokensOfEach, outputs});
    itx_tensor *logits = nullptr;
    Error error = check(itx_cache_step(cache.get(), chunks.data(), chunks.size(), &logits));
    TensorHandle(logits).reset();
    return error;
  }

  /// Appends `length` tokens to each of `count` sequences from `first` on, in parts.
  Error fill(int64_t first, int64_t count, int64_t length) {
    for (int64_t filled = 0; filled < length; filled += promptPart)
      if (Error error = append(first, count, std::min(promptPart, length - filled), 0))
        return error;
    return Error::success();
  }

  /// A pass of `tokensOfEach` more tokens for each of `count` sequences from `first` on that have `context` already.
  Pass step(int64_t first, int64_t count, int64_t tokensOfEach, int64_t context, int64_t outputs) {
    auto reset = [=, this]() -> Error {
      for (int64_t i = first; i < first + count; ++i)
        if (Error error = check(itx_sequence_truncate(sequences[size_t(i)].get(), context, nullptr)))
          return error;
      return Error::success();
    };
    Pass pass;
    pass.round = [=, this] { return append(first, count, tokensOfEach, outputs); };
    pass.reset = reset;
    return pass;
  }

  /// Returns the time of a hand-over to a child process, which has the other decoder.
  Expected<double> handOverUs(Decoder &other, Timer &timer) {
    int sockets[2];
    pid_t child = -1;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0)
      return createStringError(std::error_code(errno, std::generic_category()), "no socket for a hand-over");
    if ((child = fork()) < 0) {
      std::error_code code(errno, std::generic_category());
      for (int socket : sockets)
        close(socket);
      return createStringError(code, "no process for a hand-over");
    }
    if (child == 0) { // until the connection ends
      close(sockets[0]);
      itx_sequence *received = nullptr;
      while (itx_sequence_receive(other.cache.get(), sockets[1], handOverTimeout, &received) == ITX_OK)
        itx_sequence_free(received);
      _exit(0);
    }
    close(sockets[1]);
    Pass send;
    send.round = [&] { return check(itx_sequence_send(sequences.front().get(), sockets[0], handOverTimeout)); };
    Expected<std::vector<double>> us = timer.time(send);
    close(sockets[0]);
    if (!us) // it may wait for something else
      kill(child, SIGKILL);
    while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
    return us ? Expected<double>(us->front()) : us.takeError();
  }

private:
  ModuleHandle module;
  CacheHandle cache;
  std::vector<SequenceHandle> sequences;
  std::vector<int64_t> tokens;
  int64_t pageTokens = 1;
};

class ServingProbe {
public:
  ServingProbe(StringRef compiler, StringRef folder, Timer &timer) : compiler(compiler), folder(folder), timer(timer) {}

  Expected<MeasuredTimes> run() {
    times.rows = measuredRows;
    for (auto [index, size] : enumerate(decoderSizes))
      for (const Measured &measured : measuredPrecisions)
        if (Error error = measureDecoder(size, measured, /*isSmallest=*/index == 0,
                                         /*isLargest=*/index + 1 == std::size(decoderSizes)))
          return std::move(error);
    for (StringRef stored : {"F32", "BF16"}) {
      std::string model = path("encoder");
      if (Error error = probe::writeEncoder(model, encoderSize, stored))
        return std::move(error);
      for (const Measured &measured : measuredPrecisions)
        if (measured.encoder == stored)
          if (Error error = measureEncoder(model, measured.precision))
            return std::move(error);
      sys::fs::remove_directories(model);
    }
    if (isTerminal)
      errs() << "\r\x1b[K";
    return std::move(times);
  }

private:
  std::string compiler, folder;
  Timer &timer;
  MeasuredTimes times;
  bool isTerminal = sys::Process::StandardErrIsDisplayed();
  int done = 0;

  std::string path(const Twine &name) const { return folder + "/" + name.str(); }

  /// Shows how far it is: a bar on a terminal, else a line for each model.
  void advance(const Twine &what) {
    constexpr int all = int(std::size(decoderSizes) * std::size(measuredPrecisions)) + 3;
    constexpr int width = 30;
    if (isTerminal)
      errs() << "\r\x1b[K[" << std::string(size_t(width * done / all), '#')
             << std::string(size_t(width - width * done / all), '.') << "] " << what;
    else
      errs() << formatv("[{0}/{1}] ", done + 1, all) << what << '\n';
    ++done;
  }

  Expected<ModelShape> shapeOf(StringRef model) {
    auto config = MemoryBuffer::getFile(model + "/config.json");
    if (!config)
      return createStringError(config.getError(), model + "/config.json: cannot be read");
    return ModelShape::parse((*config)->getBuffer(), "the probe's decoder");
  }

  /// Compiles a model for this machine, as intarsia-compile --plan does for a precision.
  Expected<std::string> compile(StringRef model, StringRef precision) {
    const PlanPrecision *options = findPlanPrecision(precision);
    std::string output = path("model.itx"), log = path("compile.log");
    std::string quantize = ("--quantize=" + Twine(options->format)).str(),
                matmul = ("--matmul-precision=" + Twine(options->matmul)).str();
    StringRef arguments[] = {compiler, model, "-o", output, quantize, matmul};
    std::optional<StringRef> redirects[] = {StringRef(""), StringRef(log), StringRef(log)};
    std::string message;
    if (sys::ExecuteAndWait(compiler, arguments, std::nullopt, redirects, 0, 0, &message) == 0)
      return output;
    auto printed = MemoryBuffer::getFile(log);
    return createStringError(compiler + " failed on a model of the probe: " + message +
                             (printed ? (*printed)->getBuffer().trim().str() : ""));
  }

  Error measureDecoder(probe::DecoderSize size, const Measured &measured, bool isSmallest, bool isLargest) {
    StringRef precision = measured.precision;
    if (isLargest && timer.isHurried() && measured.weightBytes > 1)
      size = insteadOfLargest;
    double layerWeights = probe::layerWeights(size);
    if (!isSmallest) {
      size.layers = std::max(size.layers, int64_t(std::ceil(leastModelBytes / (layerWeights * measured.weightBytes))));
      size.layers = std::max<int64_t>(1, std::llround(double(size.layers) * timer.thoroughness));
    }
    advance(
        formatv("decoder of {0} layers of {1:F1} million weights, {2}", size.layers, layerWeights * 1e-6, precision));
    std::string model = path("decoder");
    if (Error error = probe::writeDecoder(model, size, measured.decoder))
      return error;
    Expected<ModelShape> read = shapeOf(model);
    if (!read)
      return read.takeError();
    const ModelShape &shape = *read;
    Expected<std::string> artifact = compile(model, precision);
    sys::fs::remove_directories(model);
    if (!artifact)
      return artifact.takeError();
    auto decoder = Decoder::load(*artifact, int64_t(measuredRows.back()), 2);
    if (!decoder)
      return decoder.takeError();
    // With one token in each sequence, pages are there already.
    if (Error error = (*decoder)->fill(0, int64_t(measuredRows.back()), 1))
      return error;
    std::vector<Pass> passes;
    for (double rows : measuredRows)
      for (int64_t outputs = 0; outputs <= int64_t(isLargest); ++outputs)
        passes.push_back((*decoder)->step(0, int64_t(rows), 1, 1, outputs));
    noSlowerThanMoreRows(passes, 1 + isLargest);
    Expected<std::vector<double>> us = timer.time(passes);
    if (!us)
      return us.takeError();
    MeasuredTimes::Layer layer{layerWeights, {}};
    std::vector<double> &head = times.head[precision.str()];
    for (size_t pass = 0; pass < passes.size(); ++pass) {
      layer.ns.push_back((*us)[pass] * 1e6 / shape.multipliedParameters());
      if (!isLargest)
        continue;
      // The head reads at least as many weights for its size as a layer at its best: noise may hide a small head.
      double least = 0.2 * layer.ns.back() * shape.headParameters() * 1e-6;
      head.push_back(std::max((*us)[pass + 1] - (*us)[pass], least) * 1e6 / shape.headParameters());
      ++pass;
    }
    times.layers[precision.str()].push_back(layer);
    if (precision != "int8" || times.layers["int8"].size() != 2)
      return Error::success();
    return joinErrors(measureHandOver(*artifact, shape), measureScores(*artifact, shape));
  }

  /// Measures what attention adds: parts of prompts and steps behind a context less those behind none, or a short one.
  /// A model with small layers shows it best.
  Error measureScores(const std::string &artifact, const ModelShape &shape) {
    const AttentionLayers &attention = shape.attention.front();
    constexpr int64_t longest = contexts[std::size(contexts) - 1];
    // A group of sequences with a token, and one behind each context; a prompt of its own is behind none.
    auto loaded =
        Decoder::load(artifact, sequencesOfContext * int64_t(1 + std::size(contexts)) + 1, longest + promptPart);
    if (!loaded)
      return loaded.takeError();
    Decoder &decoder = **loaded;
    if (Error error = decoder.fill(0, sequencesOfContext, 1))
      return error;
    std::vector<Pass> passes = {decoder.step(0, sequencesOfContext, 1, 1, 0)};
    int64_t first = sequencesOfContext;
    for (int64_t context : contexts) {
      if (Error error = decoder.fill(first, sequencesOfContext, context))
        return error;
      passes.push_back(decoder.step(first, sequencesOfContext, 1, context, 0));
      passes.push_back(decoder.step(first, 1, promptPart, context, 0));
      first += sequencesOfContext;
    }
    passes.push_back(decoder.step(first, 1, promptPart, 0, 0));
    Expected<std::vector<double>> us = timer.time(passes);
    if (!us)
      return us.takeError();
    for (auto [index, context] : enumerate(contexts)) {
      size_t step = 1 + 2 * index, part = step + 1;
      double of = shape.layers * attention.scoreFlops(double(context), /*prefill=*/true) * double(promptPart);
      addScores(times.prompts, context + promptPart, (*us)[part] - us->back(), (*us)[part], of);
      of = shape.layers * attention.scoreFlops(double(context - 1), /*prefill=*/false) * double(sequencesOfContext);
      addScores(times.steps, context, (*us)[step] - us->front(), (*us)[step], of);
    }
    return Error::success();
  }

  /// Measures the way of a cache from one process to another: a time for each, and a rate.
  Error measureHandOver(const std::string &artifact, const ModelShape &shape) {
    auto from = Decoder::load(artifact, 1, handedOver[1]);
    if (!from)
      return from.takeError();
    auto to = Decoder::load(artifact, 0, handedOver[1]);
    if (!to)
      return to.takeError();
    double us[2], bytes[2];
    for (int i = 0; i < 2; ++i) {
      if (Error error = (*from)->fill(0, 1, handedOver[i] - (i ? handedOver[0] : 0)))
        return error;
      Expected<double> time = (*from)->handOverUs(**to, timer);
      if (!time)
        return time.takeError();
      us[i] = *time;
      bytes[i] = shape.cachedElements(double(handedOver[i])) * 2;
    }
    double perByte = std::max(us[1] - us[0], 0.1 * us[1]) / (bytes[1] - bytes[0]);
    times.handOverGBps = 1e-3 / perByte;
    times.handOverUs = std::max(us[0] - perByte * bytes[0], 1.0);
    return Error::success();
  }

  /// Links passes of rising rows, `stride` apart.
  static void noSlowerThanMoreRows(std::vector<Pass> &passes, size_t stride) {
    for (size_t pass = 0; pass + stride < passes.size(); ++pass)
      passes[pass].more = int(pass + stride);
  }

  /// Noise may hide what attention adds; 1 % of the time is taken then.
  static void addScores(MeasuredTimes::Scores &scores, int64_t tokens, double us, double allUs, double flops) {
    scores.tokens.push_back(double(tokens));
    scores.ps.push_back(std::max(us, 0.01 * allUs) * 1e6 / flops);
  }

  Error measureEncoder(StringRef model, StringRef precision) {
    advance("encoder, " + precision);
    Expected<std::string> artifact = compile(model, precision);
    if (!artifact)
      return artifact.takeError();
    itx_module *loaded = nullptr;
    if (Error error = check(itx_module_load(artifact->c_str(), nullptr, &loaded)))
      return error;
    ModuleHandle module(loaded);
    const itx_function *function = nullptr;
    size_t ids = 0;
    if (Error error = check(itx_module_function(loaded, nullptr, &function)))
      return error;
    if (Error error = check(itx_function_input_index(function, "input_ids", &ids)))
      return error;
    double weights = probe::multipliedWeights(encoderSize);
    std::vector<TensorHandle> texts;
    std::vector<itx_tensor *> outputs(itx_function_output_count(function), nullptr);
    std::vector<Pass> passes;
    for (double rows : measuredRows) {
      int64_t shape[] = {std::max<int64_t>(1, int64_t(rows) / 128), std::min<int64_t>(int64_t(rows), 128)};
      std::vector<int64_t> values(size_t(rows), 5);
      itx_tensor *tensor = nullptr;
      if (Error error = check(itx_tensor_create(ITX_I64, 2, shape, values.data(), &tensor)))
        return error;
      texts.emplace_back(tensor);
      std::vector<itx_tensor *> inputs(itx_function_input_count(function), nullptr);
      inputs[ids] = tensor;
      auto invoke = [=, &outputs] {
        return check(itx_invoke(function, inputs.data(), inputs.size(), outputs.data(), outputs.size()));
      };
      auto release = [&outputs] {
        for (itx_tensor *&output : outputs)
          TensorHandle(std::exchange(output, nullptr)).reset();
        return Error::success();
      };
      passes.emplace_back().round = invoke;
      passes.back().reset = release;
    }
    noSlowerThanMoreRows(passes, 1);
    Expected<std::vector<double>> us = timer.time(passes);
    if (!us)
      return us.takeError();
    for (double time : *us)
      times.encoder[precision.str()].push_back(time * 1e6 / weights);
    return Error::success();
  }
};

} // namespace

Expected<MeasuredTimes> probeServing(StringRef compiler, double seconds) {
  if (!sys::fs::can_execute(compiler))
    return createStringError(compiler + " is not there: it compiles the models that are measured");
  SmallString<128> folder;
  if (std::error_code error = sys::fs::createUniqueDirectory("intarsia-probe", folder))
    return createStringError(error, "no temporary folder for the models that are measured: " + error.message());
  Timer timer(seconds);
  Expected<MeasuredTimes> times = ServingProbe(compiler, folder, timer).run();
  sys::fs::remove_directories(folder);
  if (times) {
    times->source = formatv("measured by intarsia-plan --probe: models of random weights, {0} threads", itx_threads());
    if (std::string text = timer.disturbance(); !text.empty())
      times->source += "; " + text;
  }
  return times;
}

} // namespace intarsia
