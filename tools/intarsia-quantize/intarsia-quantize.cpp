//===- intarsia-quantize.cpp - Quantizes a model and keeps the result as a model directory -----------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Compiler/Compiler.h"
#include "intarsia/Version.h"
#include "lib/Support/Arguments.h"
#include "tools/Limits.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/raw_ostream.h"
#include <cmath>

using namespace intarsia;
namespace cl = llvm::cl;

namespace {

/// The flags. They are made during parsing and are not globals: LLVM's code generator has flags of the same name, which
/// must be removed before.
struct Flags {
  cl::OptionCategory category{"Options of intarsia-quantize"};
  cl::opt<std::string> model{cl::Positional, cl::Required, cl::value_desc("MODEL"),
                             cl::desc("<model: Hugging Face directory>"), cl::cat(category)};
  cl::opt<std::string> output{"o", cl::Required, cl::value_desc("directory"), cl::cat(category),
                              cl::desc("The model directory to write")};
  cl::opt<std::string> format{"quantize", cl::init("int4"), cl::value_desc("format"), cl::cat(category),
                              cl::desc("The format of the weights: int4 (default), int4-g128, int8, mxfp4, nvfp4, fp8, "
                                       "…: those of intarsia-compile; ternary, int5 and int6 lie in wider integers")};
  cl::list<std::string> parts{
      "quantize-parts", cl::CommaSeparated, cl::value_desc("part"), cl::cat(category),
      cl::desc(
          "What is quantized: linears (default), lm_head where it is not the embedding, each alone or with a format "
          "of its own: linears,lm_head=int8. What is left intarsia-compile can quantize: "
          "--quantize-parts=embedding")};
  cl::opt<std::string> secondMoments{
      "second-moments", cl::value_desc("file.safetensors"), cl::cat(category),
      cl::desc("What the linears multiply on a calibration text, as `intarsia quantize` writes it: weights are rounded "
               "so that errors cancel in their outputs (GPTQ). Without it they are rounded to nearest")};
  cl::opt<bool> searchScales{
      "search-scales", cl::cat(category),
      cl::desc("Without --second-moments: try some 50 scales for each block and take that with the least squared error "
               "of its weights")};
  cl::opt<std::string> linears{
      "linears", cl::value_desc("glob"), cl::cat(category),
      cl::desc("Write only the weights of the linears whose names match, to a file of safetensors that -o names")};
  cl::opt<std::string> decoded{"decoded", cl::value_desc("file.safetensors"), cl::cat(category),
                               cl::desc("With --linears: write what the quantized weights mean, in F32, too")};
  cl::list<std::string> errors{
      "errors", cl::CommaSeparated, cl::value_desc("format"), cl::cat(category),
      cl::desc(
          "With --linears and --second-moments: write to -o, as JSON, what the outputs of the linears would err by "
          "in each of these formats, estimated from every eighth group of rows, and no weights")};
  cl::list<std::string> takenParts{
      "part", cl::value_desc("file.safetensors"), cl::cat(category),
      cl::desc("A file that --linears wrote: its weights are taken as they are; may be repeated")};
  cl::opt<std::string> precision{
      "precision", cl::value_desc("file.json"), cl::cat(category),
      cl::desc("A file that names the formats of tensors and caches, as `intarsia quantize --quantize=auto` writes it, "
               "instead of --quantize. What the layout of the directory does not hold stands in a file of this kind "
               "there, which intarsia-compile reads")};
  cl::list<std::string> candidates{
      "candidates", cl::CommaSeparated, cl::value_desc("format"), cl::cat(category),
      cl::desc("Write to -o, as JSON, the matrices of the model with their bytes and predicted microseconds in each of "
               "these formats")};
  cl::list<std::string> targets{"target", cl::CommaSeparated, cl::value_desc("name"), cl::cat(category),
                                cl::desc("With --candidates: what is compiled for later, as intarsia-compile has it")};
  cl::list<std::string> nearest{
      "nearest", cl::CommaSeparated, cl::value_desc("key"), cl::cat(category),
      cl::desc("Write to -o, a file of safetensors, what the values of the matrices with these keys mean in F32 when "
               "they are rounded to the nearest of --quantize")};
  cl::opt<unsigned> threads{"threads", cl::init(0), cl::value_desc("N"), cl::cat(category),
                            cl::desc("Threads to compute with (default: all that this process may use)")};
  cl::opt<bool> verbose{"verbose", cl::cat(category), cl::desc("Print each matrix with its time and error")};
  cl::alias verboseShort{"v", cl::aliasopt(verbose), cl::desc("Alias for --verbose"), cl::cat(category)};
};

/// The sums of sizes and errors over the matrices of one format.
struct Total {
  uint64_t matrices = 0, elements = 0, bytes = 0;
  double squares = 0, nearestSquares = 0;
};

void print(llvm::raw_ostream &out, llvm::StringRef name, const Total &total) {
  out << llvm::formatv("{0,-32} {1,8} {2,14} {3,9:F2}", name, total.matrices, total.elements,
                       8.0 * double(total.bytes) / double(total.elements));
  if (total.nearestSquares > 0)
    out << llvm::formatv(" {0,9:F3} % {1,9:F3} %", 100 * std::sqrt(total.squares / double(total.matrices)),
                         100 * std::sqrt(total.nearestSquares / double(total.matrices)));
  out << '\n';
}

void printTable(const std::vector<QuantizedMatrix> &matrices, bool each) {
  llvm::raw_ostream &out = llvm::outs();
  bool isMeasured = llvm::any_of(matrices, [](const QuantizedMatrix &matrix) { return matrix.nearest > 0; });
  out << llvm::formatv("{0,-32} {1,8} {2,14} {3,9}", "", "matrices", "weights", "bits each");
  if (isMeasured)
    out << llvm::formatv(" {0,11} {1,11}", "error", "to nearest");
  out << '\n';
  llvm::MapVector<llvm::StringRef, Total> totals;
  for (const QuantizedMatrix &matrix : matrices) {
    Total one{1, matrix.elements, matrix.bytes, matrix.error * matrix.error, matrix.nearest * matrix.nearest};
    if (each)
      print(out, matrix.name, one);
    Total &total = totals[matrix.format];
    total.matrices += 1;
    total.elements += one.elements;
    total.bytes += one.bytes;
    total.squares += one.squares;
    total.nearestSquares += one.nearestSquares;
  }
  for (const auto &[format, total] : totals)
    print(out, format, total);
  if (isMeasured)
    out << "The error is that of a linear's outputs on the calibration text, relative to the outputs (root mean "
           "square over matrices).\n";
}

/// Writes what --candidates or --nearest ask for.
bool inspect(const Flags &flags, const CompileOptions &options) {
  return inspectModel(options, [&](mlir::ModuleOp module) -> llvm::Error {
    if (!flags.nearest.empty())
      return writeNearest(module, options.model, {flags.nearest.begin(), flags.nearest.end()}, flags.format,
                          flags.output);
    auto list = listPrecisionCandidates(module, options.model, {flags.candidates.begin(), flags.candidates.end()});
    if (!list)
      return list.takeError();
    std::error_code code;
    llvm::raw_fd_ostream file(flags.output, code);
    if (!code) {
      file << *list;
      file.close();
      code = file.error();
    }
    return code ? llvm::createStringError(flags.output + ": cannot be written: " + code.message())
                : llvm::Error::success();
  });
}

bool quantize(const Flags &flags, CompileOptions options) {
  options.quantize.format = flags.precision.empty() ? flags.format.getValue() : "none";
  options.precisionFile = flags.precision;
  if (flags.precision.empty())
    options.quantize.parts = {"linears"};
  if (!flags.parts.empty())
    options.quantize.parts.assign(flags.parts.begin(), flags.parts.end());
  QuantizedModelOptions written;
  written.output = flags.output;
  written.secondMoments = flags.secondMoments;
  written.searchScales = flags.searchScales;
  written.linears = flags.linears;
  written.decoded = flags.decoded;
  written.errorFormats.assign(flags.errors.begin(), flags.errors.end());
  written.parts.assign(flags.takenParts.begin(), flags.takenParts.end());
  auto matrices = quantizeModel(std::move(options), written);
  if (matrices && written.errorFormats.empty())
    printTable(*matrices, flags.verbose);
  return matrices.has_value();
}

} // namespace

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  explainLimits();
  explainTruncatedFiles();
  cl::ResetCommandLineParser();
  static Flags flags;
  cl::SetVersionPrinter(
      [](llvm::raw_ostream &stream) { stream << "intarsia-quantize " INTARSIA_VERSION " (" INTARSIA_COMMIT ")\n"; });
  if (std::string problem = flagWithoutValue(argc, argv); !problem.empty()) {
    llvm::errs() << "error: " << problem << "\n";
    return 1;
  }
  cl::ParseCommandLineOptions(argc, argv,
                              "Quantizes the weights of a model and writes a model directory that intarsia-compile and "
                              "other tools read.\n\n"
                              "  intarsia-quantize ./Llama-3.2-1B -o ./Llama-3.2-1B-int4 --quantize=int4\n"
                              "  intarsia-compile ./Llama-3.2-1B-int4 -o llama.itx\n\n"
                              "With a calibration text less is lost; `python -m intarsia quantize` makes the file of "
                              "--second-moments of it.\n");
  CompileOptions options;
  options.model = flags.model;
  options.targets.assign(flags.targets.begin(), flags.targets.end());
  options.threads = flags.threads;
  options.verbose = flags.verbose;
  bool inspects = !flags.candidates.empty() || !flags.nearest.empty();
  return (inspects ? inspect(flags, options) : quantize(flags, options)) ? 0 : 1;
}
