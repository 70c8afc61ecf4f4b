//===- Session.cpp - One run: load, call, write -------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "tools/intarsia-run/Session.h"

#include "lib/Formats/Artifact.h"
#include "lib/Formats/Manifest.h"
#include "lib/Runtime/Core/Profile.h"
#include "lib/Runtime/Core/Tensor.h"
#include "lib/Support/File.h"
#include "lib/Support/Json.h"
#include "tools/intarsia-run/Continue.h"
#include "tools/intarsia-run/DumpCode.h"
#include "tools/intarsia-run/Handles.h"
#include "tools/intarsia-run/Listing.h"
#include "tools/intarsia-run/Ranks.h"
#include "tools/intarsia-run/Timing.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>

namespace intarsia::run {

bool carriesModule() {
  std::unique_ptr<MappedFile> file;
  ArtifactExtent extent;
  return MappedFile::open("/proc/self/exe", file).ok() &&
         findPayload(file->data(), file->size(), "", extent).code() != ITX_NOT_FOUND;
}

static ModuleHandle load(const Options &options) {
  itx_load_options given = {};
  given.struct_bytes = sizeof(given);
  given.verify = options.verify;
  given.variant = options.variant.empty() ? nullptr : options.variant.c_str();
  std::vector<const char *> devices;
  for (const std::string &device : options.devices)
    devices.push_back(device.c_str());
  given.devices = devices.data();
  given.device_count = devices.size();
  given.verify_kernels = options.verifyKernels;
  given.memory_bytes = options.memory;
  itx_module *module = nullptr;
  check(options.module.empty() ? itx_module_load_embedded(nullptr, &given, &module)
                               : itx_module_load(options.module.c_str(), &given, &module));
  return ModuleHandle(module);
}

/// Says how much of the weights stays in memory, if it is not all of them. Of several ranks the first says it.
static void sayMemory(const itx_module *module, const Options &options) {
  const char *text = itx_module_memory(module);
  if (!text || !isFirstRank())
    return;
  Json figures = Json::parse(text);
  auto megabytes = [&](const char *key) { return double(figures[key].get<uint64_t>()) * 1e-6; };
  std::string asked;
  if (options.memory > figures["limit_bytes"].get<uint64_t>())
    asked = format(", all that this process can have (--memory is %.0f MB)", double(options.memory) * 1e-6);
  std::fprintf(stderr,
               "memory: %.0f MB%s; of %.0f MB of weights that all calls use %.0f MB stay in it, the others and experts "
               "are read from disk\n",
               megabytes("limit_bytes"), asked.c_str(), megabytes("weight_bytes"), megabytes("kept_bytes"));
}

static std::vector<TensorHandle> readInputs(const itx_function *function, const Options &options) {
  std::vector<TensorHandle> inputs(itx_function_input_count(function));
  for (const NamedFile &file : options.inputs) {
    size_t index = 0;
    check(itx_function_input_index(function, file.name.c_str(), &index));
    if (inputs[index])
      throw Failure{"input '" + file.name + "' is given twice"};
    itx_tensor *tensor = nullptr;
    check(itx_tensor_load_npy(file.path.c_str(), &tensor));
    inputs[index].reset(tensor);
    // Files say '<u2' of integers and of the bits of bf16: the input knows which it takes.
    if (itx_tensor_dtype(tensor) == ITX_BF16 && itx_function_input(function, index)->dtype == ITX_U16) {
      check(itx_tensor_create(ITX_U16, itx_tensor_rank(tensor), itx_tensor_shape(tensor), itx_tensor_data(tensor),
                              &tensor));
      inputs[index].reset(tensor);
    }
  }
  return inputs;
}

/// Returns the files that a result must not replace.
static std::vector<std::string> readFiles(const itx_module *module, const Options &options) {
  std::string artifact = options.module.empty() ? "/proc/self/exe" : options.module;
  Manifest manifest;
  // Cannot fail: it was parsed when the module was loaded.
  (void)parseManifest(itx_module_manifest(module), "manifest", manifest);
  if (manifest.weights.file.empty())
    return {artifact};
  return {artifact, folderOf(artifact) + "/" + manifest.weights.file};
}

/// Fails before the model runs if a result cannot be written to a file; appends the file to `taken`.
static void checkResultFile(const std::string &path, std::vector<std::string> &taken,
                            const std::vector<std::string> &read) {
  check(checkWritable(path));
  for (const std::string &file : read)
    if (isSameFile(path, file))
      throw Failure{path + ": is a part of the model, which a result would replace; choose another name"};
  for (const std::string &file : taken)
    if (isSameFile(path, file))
      throw Failure{path + ": two results would be written to this file; choose another name for one"};
  taken.push_back(path);
}

/// Returns the file of each output, "" if none is wanted.
static std::vector<std::string> outputFiles(const itx_function *function, const Options &options) {
  std::vector<std::string> files(itx_function_output_count(function));
  size_t next = 0;
  for (const NamedFile &file : options.outputs) {
    size_t index = next;
    if (!file.name.empty())
      check(itx_function_output_index(function, file.name.c_str(), &index));
    else
      ++next;
    if (index >= files.size())
      throw Failure{intarsia::format("function '%s' has %zu outputs, --output was given more often",
                                     itx_function_name(function), files.size())};
    if (!files[index].empty())
      throw Failure{std::string("output '") + itx_function_output(function, index)->name + "' is written twice"};
    files[index] = file.path;
  }
  return files;
}

/// Writes all outputs or none: files get their names when all are written. Of several ranks the first writes.
static void writeOutputs(const std::vector<TensorHandle> &outputs, const std::vector<std::string> &paths) {
  if (!isFirstRank())
    return;
  std::vector<std::unique_ptr<AtomicFile>> files;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (paths[i].empty())
      continue;
    files.emplace_back();
    check(AtomicFile::create(paths[i], files.back()));
    check(runtime::writeNpy(*outputs[i], *files.back()));
  }
  for (const auto &file : files)
    check(file->commit());
}

static std::vector<TensorHandle> call(const itx_function *function, const std::vector<TensorHandle> &inputs) {
  std::vector<itx_tensor *> given, made(itx_function_output_count(function));
  for (const TensorHandle &input : inputs)
    given.push_back(input.get());
  check(itx_invoke(function, given.data(), given.size(), made.data(), made.size()));
  return std::vector<TensorHandle>(made.begin(), made.end());
}

/// Returns the kilobytes in a line of /proc/self/status, e.g. "VmHWM".
static double statusKilobytes(const std::string &key) {
  std::ifstream file("/proc/self/status");
  std::string word;
  double value = 0;
  while (file >> word)
    if (word == key + ":" && file >> value)
      return value;
  return 0;
}

static void benchmark(const itx_function *function, const std::vector<TensorHandle> &inputs, int count) {
  using Clock = std::chrono::steady_clock;
  auto milliseconds = [](Clock::time_point from) {
    return std::chrono::duration<double, std::milli>(Clock::now() - from).count();
  };
  // Warm-up: at least 3 calls and 0.3 s, so that clocks and caches have settled.
  auto start = Clock::now();
  for (int i = 0; i < 3 || (milliseconds(start) < 300 && i < count); ++i)
    call(function, inputs);
  std::vector<double> times(count);
  for (double &time : times) {
    auto from = Clock::now();
    call(function, inputs);
    time = milliseconds(from);
  }
  std::sort(times.begin(), times.end());
  auto quantile = [&](double q) { return times[size_t(q * double(times.size() - 1) + 0.5)]; };
  std::printf("%s: median %.3f ms, p10 %.3f ms, p90 %.3f ms (%d calls, %d threads, peak memory %.1f MB)\n",
              itx_function_name(function), quantile(0.5), quantile(0.1), quantile(0.9), count, itx_threads(),
              statusKilobytes("VmHWM") / 1024);
}

static const itx_function *findFunction(const itx_module *module, const Options &options) {
  std::string name = !options.function.empty() ? options.function : options.ids.empty() ? "main" : "step";
  const itx_function *function = nullptr, *step = nullptr;
  itx_status status = itx_module_function(module, name.c_str(), &function);
  std::string message = itx_last_error();
  if (status == ITX_NOT_FOUND && options.function.empty() && itx_module_function(module, "step", &step) == ITX_OK)
    throw Failure{message + ": it is a language model, which continues token ids with --ids=1,2,3"};
  if (status != ITX_OK)
    throw Failure{message};
  return function;
}

static void startProfile(const Options &options) {
  if (!options.profile.empty() || options.timing)
    check(itx_profile_start());
}

/// Writes the profile, if one is wanted, and returns the lines of --timing.
static std::string endProfile(const Options &options, const StepCalls &calls) {
  if (options.profile.empty() && !options.timing)
    return "";
  std::string text;
  check(runtime::takeProfile(text));
  if (!options.profile.empty() && isFirstRank()) {
    std::unique_ptr<AtomicFile> file;
    check(AtomicFile::create(options.profile, file));
    check(file->write(text.data(), text.size()));
    check(file->commit());
  }
  return options.timing ? simulatedTimes(text, calls) : "";
}

/// Runs a language model on token ids, instead of a call.
static void runIds(const itx_module *module, const itx_function *step, const Options &options,
                   const std::vector<std::string> &files) {
  bool withLogits = std::any_of(files.begin(), files.end(), [](const std::string &file) { return !file.empty(); });
  startProfile(options);
  StepCalls calls;
  std::vector<TensorHandle> outputs;
  outputs.push_back(continueIds(module, step, options, withLogits, calls));
  std::string times = endProfile(options, calls);
  writeOutputs(outputs, files);
  if (isFirstRank())
    std::fputs(times.c_str(), stdout);
}

/// Runs a function on arrays.
static void runArrays(const itx_function *function, const Options &options, const std::vector<std::string> &files) {
  std::vector<TensorHandle> inputs = readInputs(function, options);
  if (options.benchmark)
    benchmark(function, inputs, options.benchmark);
  startProfile(options);
  std::vector<TensorHandle> outputs = call(function, inputs);
  std::string times = endProfile(options, {});
  writeOutputs(outputs, files);
  if (options.outputs.empty() && !options.benchmark)
    for (size_t i = 0; i < outputs.size(); ++i)
      std::printf("%s\n", summary(itx_function_output(function, i)->name, outputs[i].get()).c_str());
  if (isFirstRank())
    std::fputs(times.c_str(), stdout);
}

static void run(const Options &options) {
  if (options.listDevices) {
    std::fputs(deviceTable().c_str(), stdout);
    return;
  }
  if (!options.dumpCode.empty()) {
    std::fputs(dumpCode(options.module, options.dumpCode).c_str(), stdout);
    return;
  }
  if (options.threads)
    check(itx_set_threads(options.threads));
  ModuleHandle module = load(options);
  checkWorld(module.get(), options);
  if (options.list) {
    std::fputs(listing(module.get()).c_str(), stdout);
    return;
  }
  sayMemory(module.get(), options);
  const itx_function *function = findFunction(module.get(), options);
  std::vector<std::string> files = outputFiles(function, options);
  std::vector<std::string> taken, read = readFiles(module.get(), options);
  for (const std::string &file : files)
    if (!file.empty())
      checkResultFile(file, taken, read);
  if (!options.profile.empty())
    checkResultFile(options.profile, taken, read);
  if (!options.ids.empty())
    runIds(module.get(), function, options, files);
  else
    runArrays(function, options, files);
  std::fputs(verification(module.get()).c_str(), stdout);
}

int runSession(const Options &options) {
  try {
    beginRank();
    run(options);
    if (std::fflush(stdout) != 0 || std::ferror(stdout))
      throw Failure{std::string("standard output cannot be written: ") + std::strerror(errno)};
    return 0;
  } catch (const Failure &failure) {
    std::fprintf(stderr, "error: %s\n", failure.message.c_str());
    return failure.exitCode;
  } catch (const std::exception &exception) {
    std::fprintf(stderr, "error: %s\n", exception.what());
  }
  return 1;
}

} // namespace intarsia::run
