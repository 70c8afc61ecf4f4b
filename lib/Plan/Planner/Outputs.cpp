//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Output files of the planner: checks that no input is overwritten, and atomic writing.
//===----------------------------------------------------------------------------------------------------------===//
#include "Parts.h"
#include "lib/Support/File.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace intarsia::plan {

/// Returns the output files with their flags.
static std::vector<std::pair<StringRef, const std::string *>> outputsOf(const PlannerOptions &options) {
  std::vector<std::pair<StringRef, const std::string *>> outputs{{"--json", &options.json},
                                                                 {"--report", &options.report},
                                                                 {"--explain", &options.explain},
                                                                 {"-o", &options.output}};
  erase_if(outputs, [](auto &output) { return output.second->empty(); });
  return outputs;
}

bool writesToStandardOutput(const PlannerOptions &options) {
  return any_of(outputsOf(options), [](auto &output) { return *output.second == "-"; });
}

Error checkIsKept(const PlannerOptions &options, const std::string &input, StringRef what) {
  if (input.empty() || input == "-")
    return Error::success();
  for (auto [flag, file] : outputsOf(options))
    if (*file != "-" && isSameFile(*file, input))
      return createStringError(flag + "=" + *file + ": " + what + " '" + input +
                               "' would be overwritten; choose another name");
  return Error::success();
}

Error checkOutputs(const PlannerOptions &options) {
  auto outputs = outputsOf(options);
  for (auto [index, output] : enumerate(outputs)) {
    const std::string &file = *output.second;
    if (file != "-")
      if (Status status = checkWritable(file); !status.ok())
        return createStringError(status.message());
    for (auto [flag, other] : ArrayRef(outputs).take_front(index))
      if (file == "-" ? *other == "-" : *other != "-" && isSameFile(file, *other))
        return createStringError(file + ": two results would be written to this file, by " + flag + " and " +
                                 output.first + "; choose another name for one");
  }
  for (auto [what, file] : {std::pair("the agents' file", &options.input),
                            {"the fleet's file", &options.fleetFile},
                            {"the file of --efficiency", &options.efficiencyFile},
                            {"the file of --arrivals", &options.arrivals},
                            {"the file of --previous", &options.previous}})
    if (Error error = checkIsKept(options, *file, what))
      return error;
  return Error::success();
}

/// Writes a file atomically; "-" is standard output. Errors name the path.
static Error writeFile(StringRef path, StringRef text) {
  if (path == "-") {
    outs() << text;
    outs().flush();
    if (!outs().has_error())
      return Error::success();
    std::string why = outs().error().message();
    // Otherwise LLVM ends the program with an error of its own.
    outs().clear_error();
    return createStringError("standard output cannot be written: " + why);
  }
  std::unique_ptr<AtomicFile> file;
  Status status = AtomicFile::create(path.str(), file);
  if (status.ok())
    status = file->write(text.data(), text.size());
  if (status.ok())
    status = file->commit();
  return status.ok() ? Error::success() : createStringError(status.message());
}

Error writeOutput(const std::string &file, function_ref<void(raw_ostream &)> print) {
  if (file.empty())
    return Error::success();
  std::string text;
  raw_string_ostream out(text);
  print(out);
  return writeFile(file, text);
}

} // namespace intarsia::plan
