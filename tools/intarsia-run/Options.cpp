//===- Options.cpp - Command line of intarsia-run -----------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "tools/intarsia-run/Options.h"

#include "intarsia/runtime.h"
#include "lib/Support/Arguments.h"
#include "lib/Support/Status.h"
#include "tools/Sizes.h"

#include <CLI/CLI.hpp>
#include <charconv>

namespace intarsia::run {

/// Returns the description for --help. `command` is the program's name, with the module if it takes one.
static std::string description(bool carriesModule, const std::string &command) {
  return (carriesModule ? "Run the model that this program carries; intarsia-compile --emit=exe made it.\n"
                        : "Run a model that intarsia-compile made.\n") +
         intarsia::format(
             "\n"
             "Arrays are NumPy .npy files. Inputs that the model has a default for may be left out; without\n"
             "--output a short summary of each result is printed.\n"
             "\n"
             "  %s --list\n"
             "  %s --input=input_ids=@ids.npy --output=@hidden.npy\n"
             "  %s --input=input_ids=@ids.npy --benchmark --threads=2\n"
             "\n"
             "A language model continues token ids by the most likely ones, which are printed; --output is then for\n"
             "the logits after each of the given ids.\n"
             "\n"
             "  %s --ids=1,450,7483 --max-tokens=32\n",
             command.c_str(), command.c_str(), command.c_str(), command.c_str());
}

/// Parses "NAME=@FILE", or "@FILE" if a name is not required.
static NamedFile parseNamedFile(const std::string &option, const std::string &text, bool nameRequired) {
  size_t at = text.find('@');
  bool good =
      at != std::string::npos && at + 1 < text.size() && (at == 0 ? !nameRequired : at >= 2 && text[at - 1] == '=');
  if (!good)
    throw CLI::ValidationError(option, "'" + text + "' is not of the form " +
                                           (nameRequired ? "NAME=@FILE.npy" : "@FILE.npy or NAME=@FILE.npy"));
  return {at == 0 ? "" : text.substr(0, at - 1), text.substr(at + 1)};
}

/// Parses "1,450,7483". `what` is what such a list is of.
template <typename T>
static std::vector<T> parseList(const std::string &option, const std::string &text, const char *what) {
  std::vector<T> ids;
  const char *at = text.data(), *end = at + text.size();
  for (bool more = true; more; ++at) {
    auto [after, problem] = std::from_chars(at, end, ids.emplace_back());
    more = after != end;
    if (problem != std::errc() || (more && *after != ','))
      throw CLI::ValidationError(option, "'" + text + "' is no list of " + what);
    at = after;
  }
  return ids;
}

bool parseOptions(int argc, char **argv, bool carriesModule, Options &options, int &exitCode) {
  std::string path = argc ? argv[0] : "intarsia-run", name = path.substr(path.rfind('/') + 1);
  CLI::App app(description(carriesModule, carriesModule ? path : name + " m.itx"), name);
  app.set_version_flag("--version", std::string("intarsia-run ") + itx_version());
  std::vector<std::string> inputs, outputs;
  std::string idsText, memoryText;
  if (!carriesModule)
    app.add_option("MODULE", options.module, "The compiled model (.itx)")->required()->option_text(" ");
  app.add_option("--function", options.function, "Function to call (default: main, with --ids step)")
      ->type_name("NAME");
  CLI::Option *input = app.add_option("--input", inputs, "Array for the input NAME; repeat it for each input");
  input->type_name("NAME=@FILE.npy")->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--output", outputs, "Where to write the first, second, … output, or with NAME=@FILE.npy one by name")
      ->type_name("@FILE.npy")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  CLI::Option *ids = app.add_option("--ids", idsText, "Token ids for a language model to continue")
                         ->type_name("ID,ID,...")
                         ->excludes(input);
  app.add_option("--max-tokens", options.maxTokens, "Tokens to continue --ids by (default: 1)")
      ->check(CLI::Range(0, 1000000000))
      ->type_name("N")
      ->needs(ids);
  app.add_option("--benchmark", options.benchmark, "Time N calls after a warm-up (100 when N is left out)")
      ->check(CLI::Range(1, 1000000000))
      ->excludes(ids)
      ->option_text("[=N]");
  app.add_option("--profile", options.profile, "Write a Chrome trace of the call (for https://ui.perfetto.dev)")
      ->type_name("FILE.json");
  app.add_flag("--timing", options.timing, "Print the cycles of each kernel on a simulated wafer, and tokens a second");
  app.add_flag("--list", options.list, "Show functions, inputs, outputs, targets and weights, and end");
  app.add_option("--dump-code", options.dumpCode,
                 "Write the code for GPUs and other devices to this folder (PTX, cubin, hsaco), and end")
      ->type_name("FOLDER");
  app.add_option("--threads", options.threads, "Threads of a call (default: ITX_THREADS, or what this process may use)")
      ->check(CLI::Range(1, 1024))
      ->option_text("N");
  CLI::Option *memory =
      app.add_option("--memory", memoryText,
                     "Memory that this process may use (6GB): weights that do not fit are read from the disk in each "
                     "call")
          ->option_text("SIZE");
  app.add_option("--world", options.world,
                 "Run the model as N processes of this host, as it was compiled with --world=N; each has its share of "
                 "the processors, the first prints and writes")
      ->check(CLI::Range(1, 256))
      ->option_text("N");
  app.add_option("--rank", options.rankText,
                 "With --world: only these ranks run on this host, 0 or 0,1; the others on other hosts")
      ->option_text("R,...");
  app.add_option("--rendezvous", options.rendezvous, "Where rank 0 of a world of several hosts listens")
      ->option_text("HOST:PORT");
  app.add_option("--token", options.token,
                 "File with a secret that the hosts of a world have in common; openssl rand -hex 32 makes one")
      ->option_text("FILE");
  app.add_option("--variant", options.variant, "Target variant to run (default: the best that this CPU can run)")
      ->type_name("NAME");
  app.add_option("--device", options.devices,
                 "Device that the model may use (default: all); repeat it for each of several")
      ->type_name("NAME")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  // Ends the parsing, so that no MODULE is missed.
  app.add_flag_callback(
      "--list-devices",
      [&options] {
        options.listDevices = true;
        throw CLI::Success();
      },
      "Show the devices of this machine, and end");
  app.add_flag("--verify", options.verify, "Check the hash of all weights before running");
  app.add_option("--verify-kernels", options.verifyKernels,
                 "Run each kernel on the reference device too and compare, up to a tolerance (0.05 when it is left "
                 "out: what one rounding of an 8-bit input to its other neighbour makes, with room)")
      ->check(CLI::Range(1e-12, 1e12))
      ->excludes("--benchmark")
      ->option_text("[=TOLERANCE]");
  try {
    if (std::string problem = flagWithoutValue(argc, argv); !problem.empty())
      throw CLI::ValidationError(problem);
    // A bare --benchmark must not read the next argument as its number, nor a bare --verify-kernels as its tolerance.
    std::vector<std::string> arguments;
    for (int i = argc - 1; i > 0; --i) { // CLI11 expects them in reverse
      std::string argument = argv[i];
      arguments.push_back(argument + (argument == "--benchmark"        ? "=100"
                                      : argument == "--verify-kernels" ? "=0.05"
                                                                       : ""));
    }
    app.parse(arguments);
    for (const std::string &text : inputs)
      options.inputs.push_back(parseNamedFile("--input", text, /*nameRequired=*/true));
    if (*ids)
      options.ids = parseList<int64_t>("--ids", idsText, "token ids such as 1,450,7483");
    if (*memory)
      options.memory = parseSize("--memory", memoryText);
    if (!options.rankText.empty())
      options.ranks = parseList<int>("--rank", options.rankText, "ranks such as 0,1");
    for (int rank : options.ranks)
      if (rank < 0)
        throw CLI::ValidationError("--rank", "'" + options.rankText + "' has a rank below 0");
    for (const std::string &text : outputs)
      options.outputs.push_back(parseNamedFile("--output", text, /*nameRequired=*/false));
    return true;
  } catch (const CLI::Success &success) {
    if (options.listDevices)
      return true;
    app.exit(success);
    exitCode = 0;
  } catch (const CLI::ParseError &problem) {
    std::fprintf(stderr, "error: %s\n%s --help shows what there is\n", problem.what(), path.c_str());
    exitCode = 2;
  }
  return false;
}

} // namespace intarsia::run
