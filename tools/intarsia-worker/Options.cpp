//===- Options.cpp - Command line of intarsia-worker --------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "tools/intarsia-worker/Options.h"

#include "lib/Support/Arguments.h"
#include "tools/Sizes.h"

#include <sstream>

namespace intarsia::worker {

static const char *description =
    "Serve requests with a language model to one front end at a time, by a connection: the engine of intarsia serve\n"
    "in a process of its own.\n"
    "\n"
    "  intarsia-worker m.itx --listen=unix:/run/user/1000/m.socket\n"
    "  intarsia-worker --mock=vocabulary=4096,token-seconds=1e-5 --listen=unix:mock.socket\n";

/// Reads a number that is all of the text.
template <typename Value> static void readNumber(const std::string &key, const std::string &text, Value &value) {
  auto [after, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || after != text.data() + text.size())
    throw CLI::ValidationError("--mock", "'" + text + "' is no value of " + key);
}

/// Parses "vocabulary=4096,step-seconds=0.01".
static void parseMock(const std::string &text, itx_mock_options &mock) {
  mock.struct_bytes = sizeof(mock);
  mock.vocabulary = 4096;
  mock.context = 4096;
  mock.page_tokens = 16;
  mock.stop_token = -1;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    size_t equals = part.find('=');
    std::string key = part.substr(0, equals), value = equals == std::string::npos ? "" : part.substr(equals + 1);
    if (key == "vocabulary")
      readNumber(key, value, mock.vocabulary);
    else if (key == "context")
      readNumber(key, value, mock.context);
    else if (key == "page-tokens")
      readNumber(key, value, mock.page_tokens);
    else if (key == "stop-token")
      readNumber(key, value, mock.stop_token);
    else if (key == "step-seconds")
      readNumber(key, value, mock.step_seconds);
    else if (key == "token-seconds")
      readNumber(key, value, mock.token_seconds);
    else if (key == "seed")
      readNumber(key, value, mock.seed);
    else
      throw CLI::ValidationError("--mock", "'" + part +
                                               "' is none of vocabulary=N, context=N, page-tokens=N, "
                                               "stop-token=N, step-seconds=S, token-seconds=S and seed=N");
  }
}

bool parseOptions(int argc, char **argv, Options &options, int &exitCode) {
  CLI::App app(description, "intarsia-worker");
  app.set_version_flag("--version", std::string("intarsia-worker ") + itx_version());
  options.cache.struct_bytes = sizeof(options.cache);
  options.engine.struct_bytes = sizeof(options.engine);
  std::string mock, cacheBytes, spillMemory, spillFiles, memory;

  CLI::Option *module = app.add_option("MODULE", options.module, "The compiled model (.itx)")->option_text(" ");
  CLI::Option *mockOption =
      app.add_option("--mock", mock,
                     "Instead of a model, one that computes nothing, for measurements of what is around a model: "
                     "vocabulary=N, context=N, page-tokens=N, stop-token=N, step-seconds=S, token-seconds=S, seed=N")
          ->option_text("KEY=VALUE,...")
          ->excludes(module);
  app.add_option("--listen", options.listen,
                 "Where the front end comes from: unix:PATH, fd:N (a connected socket that this process has "
                 "inherited), or tcp:HOST:PORT with --token")
      ->required()
      ->option_text("ADDRESS");
  app.add_option("--token", options.token,
                 "File with a secret of 16 to 4096 characters that both ends of a tcp connection have in common; "
                 "openssl rand -hex 32 makes one. What they send is not encrypted")
      ->option_text("FILE");
  app.add_flag("--once", options.once, "End when the first front end is gone (with fd:N always so)");
  app.add_option("--world", options.world,
                 "Run the model as N processes of this host, as it was compiled with --world=N; the first serves")
      ->check(CLI::Range(1, 256))
      ->option_text("N");

  const int64_t most = int64_t(1) << 53;
  auto count = [&](const char *name, int64_t &value, const char *text) {
    app.add_option(name, value, text)->check(CLI::Range(int64_t(0), most))->option_text("N");
  };
  app.add_option("--function", options.function, "The model's function for a forward step (default: step)")
      ->option_text("NAME");
  count("--sequences", options.cache.sequences, "The most texts that are generated at a time (default: 64)");
  count("--pages", options.cache.pages, "Pages of the cache (default: as many as --cache has room for)");
  app.add_option("--cache", cacheBytes, "Memory of the cache (6GB; default: half of what is available)")
      ->option_text("SIZE");
  app.add_option("--spill-memory", spillMemory, "Memory for the state of texts that have to leave the cache")
      ->option_text("SIZE");
  app.add_option("--spill-folder", options.spillFolder, "Folder for files with such state")->option_text("FOLDER");
  app.add_option("--spill-files", spillFiles, "The most bytes of these files (default: as many as the disk has)")
      ->option_text("SIZE");
  count("--waiting", options.engine.waiting, "The most texts that wait (default: any number)");
  count("--step-tokens", options.engine.step_tokens, "The most tokens of a forward step");
  app.add_option("--token-seconds", options.engine.token_seconds,
                 "Time between two tokens of a text that prompts of others should leave")
      ->check(CLI::Range(0.0, 1e6))
      ->option_text("S");
  CLI::Option *kept =
      app.add_option("--kept-tokens", options.engine.kept_tokens,
                     "The most tokens of ended texts whose state is kept for prompts that begin alike (default: any)")
          ->check(CLI::Range(int64_t(0), most))
          ->option_text("N");
  app.add_option("--draft", options.draft, "A smaller model of the same tokens (.itx) that proposes tokens")
      ->option_text("FILE");

  app.add_option("--threads", options.threads, "Threads of a step (default: ITX_THREADS, or what this process may use)")
      ->check(CLI::Range(1, 1024))
      ->option_text("N");
  app.add_option("--memory", memory,
                 "Memory that this process may use (6GB): weights that do not fit are read from the disk in each step")
      ->option_text("SIZE");
  app.add_option("--variant", options.variant, "Target variant to run (default: the best that this CPU can run)")
      ->option_text("NAME");
  app.add_option("--device", options.devices, "Device that the model may use (default: all); repeat it for several")
      ->option_text("NAME")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  try {
    if (std::string problem = flagWithoutValue(argc, argv); !problem.empty())
      throw CLI::ValidationError(problem);
    app.parse(argc, argv);
    if (options.module.empty() && !*mockOption)
      throw CLI::ValidationError("MODULE", "the compiled model is missing; --mock=... serves without one");
    if (*kept && options.engine.kept_tokens == 0)
      options.engine.kept_tokens = -1; // none; 0 means any number
    if (*mockOption) {
      parseMock(mock, options.mock);
      if (options.world || !options.draft.empty())
        throw CLI::ValidationError("--mock", "has neither ranks nor a draft: leave --world and --draft out");
    }
    for (auto [name, text, value] : {std::tuple("--cache", &cacheBytes, &options.cache.bytes),
                                     std::tuple("--spill-memory", &spillMemory, &options.cache.spill_memory_bytes),
                                     std::tuple("--spill-files", &spillFiles, &options.cache.spill_file_bytes),
                                     std::tuple("--memory", &memory, &options.memory)})
      if (!text->empty())
        *value = parseSize(name, *text);
    return true;
  } catch (const CLI::Success &success) {
    app.exit(success);
    exitCode = 0;
  } catch (const CLI::ParseError &problem) {
    std::fprintf(stderr, "error: %s\n%s --help shows what there is\n", problem.what(), argc ? argv[0] : "");
    exitCode = 2;
  }
  return false;
}

} // namespace intarsia::worker
