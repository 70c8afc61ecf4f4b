//===- ListOps.cpp - The ops of a model, as tables and JSON -------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Compiler/ListOps.h"

#include "lib/Compiler/Flags.h"
#include "lib/Support/File.h"
#include "lib/Support/FileVersions.h"
#include "lib/Support/WeightsDirectory.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace intarsia {

using importer::ImportReport;

static Error refuseToReplace(const std::string &file) {
  return createStringError("--json=" + file + ": is read, and the report would replace it; choose another name for it");
}

/// Refuses a report in place of a file that will be read.
static Error checkNotReplaced(const CompileOptions &options, const std::string &input) {
  return isSameFile(options.reportFile, input) ? refuseToReplace(options.reportFile) : Error::success();
}

Error compiler::writeReport(const ModelReport &report, const CompileOptions &options) {
  const std::string &file = options.reportFile;
  std::string text;
  raw_string_ostream stream(text);
  json::OStream json(stream, 2);
  json.object([&] {
    json.attribute("model", json::fixUTF8(options.model));
    json.attribute("imported", report.isImported);
    if (!report.import.problem.empty())
      json.attribute("problem", json::fixUTF8(report.import.problem));
    json.attributeArray("ops", [&] {
      for (const ImportReport::Op &op : report.import.ops)
        json.object([&] {
          json.attribute("op", json::fixUTF8(op.name));
          json.attribute("domain", json::fixUTF8(op.domain));
          json.attribute("version", op.version);
          json.attribute("count", op.count);
          json.attribute("first_node", json::fixUTF8(op.firstNode));
          json.attribute("imported", op.refused == 0);
          if (op.refused) {
            json.attribute("refused", op.refused);
            json.attribute("reason", json::fixUTF8(op.reason));
          }
        });
    });
    json.attributeArray("devices", [&] {
      for (const FollowedDevices &each : report.devices)
        json.object([&] {
          json.attribute("node", json::fixUTF8(each.node));
          json.attribute("configuration", json::fixUTF8(each.configuration));
          json.attribute("followed", each.isFollowed);
          json.attribute("reason", json::fixUTF8(each.why));
        });
    });
  });
  stream << '\n';
  if (file == "-") {
    outs() << text;
    return Error::success();
  }
  if (FileVersions::isNoted(file)) // data beside the model
    return refuseToReplace(file);
  std::unique_ptr<AtomicFile> output;
  Status status = AtomicFile::create(file, output);
  if (status.ok())
    status = output->write(text.data(), text.size());
  if (status.ok())
    status = output->commit();
  return status.ok() ? Error::success() : createStringError(status.message());
}

/// Prints rows in columns, the first one as their titles; the last column is as wide as it is.
static void printTable(raw_ostream &stream, ArrayRef<std::vector<std::string>> rows) {
  std::vector<size_t> widths(rows.front().size());
  for (const std::vector<std::string> &row : rows)
    for (auto [width, cell] : zip_equal(widths, row))
      width = std::max(width, cell.size());
  for (const std::vector<std::string> &row : rows) {
    std::string line;
    for (auto [width, cell] : zip_equal(widths, row))
      line += cell + std::string(width - cell.size() + 2, ' ');
    stream << StringRef(line).rtrim() << '\n';
  }
}

/// Returns the rows of a table of ops. Without a model they are those that are imported, from their versions on.
static std::vector<std::vector<std::string>> rowsOf(const ImportReport &report, bool isOfModel) {
  std::vector<std::vector<std::string>> rows;
  if (isOfModel)
    rows.push_back({"op", "domain", "version", "count", "first node", "imported", ""});
  else
    rows.push_back({"op", "domain", "from version"});
  for (const ImportReport::Op &op : report.ops) {
    std::string domain = op.domain.empty() ? "ai.onnx" : op.domain;
    std::string imported = op.refused == 0          ? "yes"
                           : op.refused == op.count ? "no"
                                                    : "no: " + std::to_string(op.refused) + " of them";
    if (isOfModel)
      rows.push_back({op.name, domain, std::to_string(op.version), std::to_string(op.count), op.firstNode, imported,
                      op.refused ? op.reason : ""});
    else
      rows.push_back({op.name, domain, std::to_string(op.version)});
  }
  return rows;
}

static Error list(const CompileOptions &options) {
  raw_ostream &stream = options.reportFile == "-" ? errs() : outs();
  FileVersions inputs;
  compiler::ModelReport all;
  all.isImported = true;
  ImportReport &report = all.import;
  for (const std::string &file : compiler::filesOfValues(options))
    if (Error error = checkNotReplaced(options, file))
      return error;
  if (options.model.empty()) {
    for (const importer::Importer &kind : importer::importers())
      if (kind.knownOps)
        append_range(report.ops, kind.knownOps());
  } else {
    WeightsDirectory weights(options.weightsDirectory);
    Expected<const importer::Importer *> kind = importer::findImporter(options.model);
    if (!kind)
      return kind.takeError();
    if (!(*kind)->knownOps)
      return createStringError("--list-ops: " + options.model + ": is " + (*kind)->titleWithArticle() +
                               ", whose ops are not listed; --stop-after=import shows them");
    mlir::DialectRegistry registry;
    registerCompilerDialects(registry);
    mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
    SourceMgr sources;
    for (const std::string &file : (*kind)->filesOf(options.model))
      if (Error error = checkNotReplaced(options, file))
        return error;
    auto module = (*kind)->import({options.model, options.import, &context, sources, &report});
    all.isImported = bool(module);
    std::string message;
    if (!module)
      message = toString(module.takeError());
    // A file that cannot be read has no ops.
    if (report.ops.empty() && !all.isImported)
      return createStringError(message);
  }
  printTable(stream, rowsOf(report, !options.model.empty()));
  if (!report.problem.empty())
    stream << "\nnot imported: " << report.problem << '\n';
  return options.reportFile.empty() ? Error::success() : compiler::writeReport(all, options);
}

bool listOps(const CompileOptions &options) {
  Error error = list(options);
  if (!error)
    return true;
  logAllUnhandledErrors(std::move(error), errs(), "error: ");
  return false;
}

} // namespace intarsia
