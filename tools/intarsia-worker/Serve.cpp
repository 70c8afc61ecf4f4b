//===- Serve.cpp - Make the engine, and serve it ------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "tools/intarsia-worker/Serve.h"

#include "lib/Formats/Artifact.h"
#include "lib/Runtime/Collectives/Launch.h"
#include "lib/Runtime/Collectives/WorldSettings.h"
#include "lib/Runtime/Worker/Server.h"
#include "lib/Support/File.h"
#include "lib/Support/Hash.h"
#include "lib/Support/Json.h"

#include <climits>
#include <csignal>
#include <cstdlib>
#include <sys/signalfd.h>

namespace intarsia::worker {

/// How long the front end may take to say which tokens may come next, before it counts as gone.
static constexpr double maskSeconds = 30;

/// What itx_engine_options says of 0 sequences.
static constexpr int64_t defaultSequences = 64;

namespace {

struct FreeHandle {
  void operator()(itx_module *module) const { itx_module_free(module); }
  void operator()(itx_engine *engine) const { itx_engine_free(engine); }
  void operator()(itx_cache *cache) const { itx_cache_free(cache); }
};
using ModuleHandle = std::unique_ptr<itx_module, FreeHandle>;
using EngineHandle = std::unique_ptr<itx_engine, FreeHandle>;
using CacheHandle = std::unique_ptr<itx_cache, FreeHandle>;

} // namespace

static Status statusOf(itx_status status) {
  return status == ITX_OK ? Status::success() : Status(status, itx_last_error());
}

bool isLauncher(const Options &options, int &exitCode) {
  runtime::WorldSettings settings;
  Status status = options.world ? runtime::readWorldSettings(settings) : Status::success();
  if (status.ok() && settings.size != 0 && settings.size != options.world)
    status = error(ITX_INVALID_ARGUMENT,
                   "--world=%d, but this process was started as rank %d of a world of %d: give both the same size",
                   options.world, settings.rank, settings.size);
  if (status.ok())
    return options.world != 0 && settings.size == 0;
  std::fprintf(stderr, "error: %s\n", status.message().c_str());
  exitCode = 2;
  return true;
}

int launch(const Options &options, int argc, char **argv) {
  // The path is that of the file, so that ranks have the program's name in lists of processes.
  char path[PATH_MAX] = {};
  ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
  std::vector<std::string> command = {length > 0 && access(path, X_OK) == 0 ? path : "/proc/self/exe"};
  command.insert(command.end(), argv + 1, argv + argc);
  return runtime::launchWorld({options.world, {}, "", ""}, command);
}

static Status loadModule(const std::string &path, const Options &options, ModuleHandle &module) {
  itx_load_options given = {};
  given.struct_bytes = sizeof(given);
  given.variant = options.variant.empty() ? nullptr : options.variant.c_str();
  std::vector<const char *> devices;
  for (const std::string &device : options.devices)
    devices.push_back(device.c_str());
  given.devices = devices.data();
  given.device_count = devices.size();
  given.memory_bytes = options.memory;
  itx_module *loaded = nullptr;
  ITX_RETURN_IF_ERROR(statusOf(itx_module_load(path.c_str(), &given, &loaded)));
  module.reset(loaded);
  return Status::success();
}

/// Makes the engine, of a model or of one that computes nothing.
static Status makeEngine(const Options &options, bool hasFollowers, const itx_module *module,
                         runtime::MaskExchange &masks, EngineHandle &engine) {
  itx_cache_options cache = options.cache;
  cache.spill_folder = options.spillFolder.empty() ? nullptr : options.spillFolder.c_str();
  itx_engine_options given = options.engine;
  given.function = options.function.empty() ? nullptr : options.function.c_str();
  given.cache = &cache;
  given.has_followers = hasFollowers;
  given.mask = runtime::MaskExchange::answerRows;
  given.mask_user = &masks;
  ModuleHandle draft;
  if (!options.draft.empty())
    ITX_RETURN_IF_ERROR(loadModule(options.draft, options, draft));
  given.draft = draft.get();
  itx_engine *made = nullptr;
  ITX_RETURN_IF_ERROR(statusOf(module ? itx_engine_create(module, &given, &made)
                                      : itx_engine_create_mock(&options.mock, &given, &made)));
  engine.reset(made);
  return Status::success();
}

/// Describes the engine to the front end.
static Status describe(const Options &options, const itx_module *module, itx_engine *engine,
                       runtime::ServerSettings &settings) {
  itx_cache_info info = {};
  info.struct_bytes = sizeof(info);
  itx_cache *cache = nullptr;
  ITX_RETURN_IF_ERROR(statusOf(itx_engine_cache(engine, &cache)));
  CacheHandle handle(cache);
  ITX_RETURN_IF_ERROR(statusOf(itx_cache_get_info(cache, &info)));
  Json text = {{"version", itx_version()},
               {"process", getpid()},
               {"module", options.module},
               {"mock", module == nullptr},
               {"draft", options.draft},
               {"vocabulary", info.vocabulary},
               {"context", info.context},
               {"pages", info.pages},
               {"page_tokens", info.page_tokens},
               {"page_bytes", info.page_bytes},
               {"cache_bytes", info.bytes},
               {"sequences", options.cache.sequences ? options.cache.sequences : defaultSequences},
               {"candidates", info.candidates},
               {"threads", itx_threads()}};
  if (module) {
    std::string manifest = itx_module_manifest(module);
    text["hash"] = hashTextOf(manifest.data(), manifest.size());
    text["variant"] = itx_module_variant(module);
  }
  settings.info = jsonText(text);
  settings.vocabulary = info.vocabulary;
  settings.isOnce = options.once;
  return Status::success();
}

/// Returns a descriptor of the signals that end a worker, for this thread and those that it starts.
static int catchSignals() {
  sigset_t ending;
  sigemptyset(&ending);
  for (int signal : {SIGINT, SIGTERM, SIGHUP})
    sigaddset(&ending, signal);
  sigprocmask(SIG_BLOCK, &ending, nullptr);
  return signalfd(-1, &ending, SFD_CLOEXEC | SFD_NONBLOCK);
}

static Status serveEngine(const Options &options) {
  runtime::WorldSettings world;
  ITX_RETURN_IF_ERROR(runtime::readWorldSettings(world));
  // Before there are threads, which would take a signal otherwise.
  int signals = world.rank == 0 ? catchSignals() : -1;
  std::unique_ptr<runtime::Entrance> entrance;
  if (world.rank == 0)
    ITX_RETURN_IF_ERROR(runtime::openEntrance(options.listen, options.token, entrance));
  else
    runtime::closeInherited(options.listen);
  if (options.threads)
    ITX_RETURN_IF_ERROR(statusOf(itx_set_threads(options.threads)));
  ModuleHandle module;
  if (!options.module.empty())
    ITX_RETURN_IF_ERROR(loadModule(options.module, options, module));
  runtime::MaskExchange masks(maskSeconds);
  EngineHandle engine;
  ITX_RETURN_IF_ERROR(makeEngine(options, world.size > 1, module.get(), masks, engine));
  if (world.rank != 0)
    return statusOf(itx_engine_follow(engine.get()));
  runtime::ServerSettings settings;
  ITX_RETURN_IF_ERROR(describe(options, module.get(), engine.get(), settings));
  runtime::Server server(engine.get(), masks, *entrance, signals, settings);
  if (entrance->mayComeAgain())
    std::fprintf(stderr, "ready at %s\n", options.listen.c_str());
  return server.run();
}

int serve(const Options &options) {
  Status status = serveEngine(options);
  if (status.ok())
    return 0;
  std::fprintf(stderr, "error: %s\n", status.message().c_str());
  return status.code() == ITX_RANK_LOST ? runtime::rankLostExit : 1;
}

} // namespace intarsia::worker
