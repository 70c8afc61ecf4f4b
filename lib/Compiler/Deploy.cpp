//===- Deploy.cpp - Artifacts for all pools of a plan -------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Compiler/Deploy.h"

#include "intarsia/Cost/ModelShape.h"
#include "lib/Support/Hash.h"
#include "lib/Support/PlanPrecision.h"
#include "lib/Support/PlannedModel.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include <optional>

using namespace llvm;

namespace intarsia {
namespace {

constexpr int64_t planVersion = 1, deploymentVersion = 1;
constexpr StringLiteral manifestName = "deployment.json";

/// An artifact, and the pieces of the plan that it runs.
struct PlannedArtifact {
  std::string pool, model, target, precision;
  int64_t tensor = 1, pipeline = 1;
  json::Array pieces;
  std::optional<json::Object> shape; ///< of a language model, as the plan has it

  int64_t world() const { return tensor * pipeline; }
  /// The path below the output folder.
  std::string file() const {
    std::string name = pool + "/" + model + "-" + precision;
    if (tensor > 1)
      name += "-tensor" + std::to_string(tensor);
    if (pipeline > 1)
      name += "-pipeline" + std::to_string(pipeline);
    return name + ".itx";
  }
};

/// The artifacts that a plan asks for.
class Deployment {
public:
  explicit Deployment(const DeployOptions &options) : options(options) {}

  /// Reads the plan and finds out what is to be compiled, or why it cannot be.
  Error read();
  /// Compiles everything into a folder. Returns false after an error that was printed.
  bool compileInto(StringRef folder);
  std::string manifest();
  void printTable() const;

private:
  struct PoolOfPlan {
    std::string device;
    std::optional<std::string> target;
    int64_t devices = 0;
  };
  Error fail(const Twine &why) const { return createStringError(options.plan + ": " + why); }
  Error readPools(const json::Array *pools);
  Error readPiece(const json::Object &piece);
  Error checkPiece(const json::Object &piece, StringRef name, StringRef pool) const;
  Error checkModels() const;
  Error checkShape(const PlannedArtifact &artifact) const;

  const DeployOptions &options;
  std::string hash;
  std::map<std::string, PoolOfPlan> pools;
  std::vector<PlannedArtifact> artifacts;
  json::Array without; ///< pieces that no artifact runs
};

} // namespace

Error Deployment::read() {
  auto buffer = MemoryBuffer::getFile(options.plan, /*IsText=*/true);
  if (!buffer)
    return createStringError("cannot read '" + options.plan + "': " + buffer.getError().message());
  StringRef text = (*buffer)->getBuffer();
  hash = hashTextOf(text.data(), text.size());
  Expected<json::Value> parsed = json::parse(text);
  if (!parsed)
    return fail("is no JSON: " + toString(parsed.takeError()));
  const json::Object *plan = parsed->getAsObject();
  if (!plan || !plan->getString("status") || !plan->getInteger("version"))
    return fail("is no plan: intarsia-plan --json=FILE writes one");
  if (*plan->getInteger("version") != planVersion)
    return fail(formatv("is a plan of version {0}, this compiler reads {1}: plan again", *plan->getInteger("version"),
                        planVersion));
  const json::Array *pieces = plan->getArray("pieces");
  if (!pieces)
    return fail("has no plan, only reasons why there is none (" + *plan->getString("status") + ")");
  if (Error error = readPools(plan->getArray("pools")))
    return error;
  for (const json::Value &piece : *pieces) {
    const json::Object *object = piece.getAsObject();
    if (!object)
      return fail("has a piece that is no object");
    if (Error error = readPiece(*object))
      return error;
  }
  if (artifacts.empty())
    return fail("puts no model onto a device of the fleet: there is nothing to compile");
  return checkModels();
}

Error Deployment::readPools(const json::Array *given) {
  if (!given)
    return fail("does not say what its pools are made of, as plans of earlier versions did not: plan again");
  for (const json::Value &value : *given) {
    const json::Object *pool = value.getAsObject();
    if (!pool || !pool->getString("name") || !pool->getString("device"))
      return fail("has a pool without a name or a device");
    PoolOfPlan &known = pools[pool->getString("name")->str()];
    known.device = pool->getString("device")->str();
    if (std::optional<StringRef> target = pool->getString("target"))
      known.target = target->str();
    known.devices = pool->getInteger("devices").value_or(0);
  }
  return Error::success();
}

/// Refuses what cannot be compiled, by name.
Error Deployment::checkPiece(const json::Object &piece, StringRef name, StringRef pool) const {
  for (StringRef part : {pool, piece.getString("model").value_or("")})
    if (part.empty() || part.contains('/') || part.starts_with("."))
      return fail("'" + name + "': '" + part + "' is no name of a pool or a model that a file can have");
  auto found = pools.find(pool.str());
  if (found == pools.end())
    return fail("'" + name + "' is on the pool @" + pool + ", which is not among its pools");
  PlannedModel model{pool.str(), found->second.device, found->second.target.value_or("")};
  model.precision = piece.getString("precision").value_or("null").str();
  for (auto [degree, key] : {std::pair(&model.tensor, "tensor"),
                             {&model.pipeline, "pipeline"},
                             {&model.expert, "expert"},
                             {&model.data, "data"}})
    *degree = piece.getInteger(key).value_or(1);
  if (std::string why = whyNotCompiled(model); !why.empty())
    return fail("'" + name + "' " + why);
  return Error::success();
}

Error Deployment::readPiece(const json::Object &piece) {
  std::optional<StringRef> name = piece.getString("name"), model = piece.getString("model"),
                           pool = piece.getString("pool");
  if (!name || !piece.get("model"))
    return fail("does not say which model a piece runs, as plans of earlier versions did not: plan again");
  if (!model || !pool) {            // a search, a tool, or a model outside of the fleet
    without.push_back(name->str()); // the plan's text is gone later
    return Error::success();
  }
  if (Error error = checkPiece(piece, *name, *pool))
    return error;
  PlannedArtifact wanted;
  wanted.pool = pool->str();
  wanted.model = model->str();
  wanted.target = *pools[wanted.pool].target;
  wanted.precision = piece.getString("precision")->str();
  wanted.tensor = piece.getInteger("tensor").value_or(1);
  wanted.pipeline = piece.getInteger("pipeline").value_or(1);
  auto known = find_if(artifacts, [&](const PlannedArtifact &each) { return each.file() == wanted.file(); });
  if (known == artifacts.end())
    known = artifacts.insert(artifacts.end(), std::move(wanted));
  if (const json::Object *shape = piece.getObject("shape"))
    known->shape = *shape;
  json::Object kept;
  for (StringRef key : {"name", "kind", "tasks", "aggregated", "batch", "replicas", "parts", "work", "alone_ms",
                        "full_ms", "milliseconds", "token_ms"})
    if (const json::Value *value = piece.get(key))
      kept[key] = *value;
  known->pieces.push_back(std::move(kept));
  return Error::success();
}

/// Refuses the directory of another model than the one that was planned, whose times and memory would be others.
Error Deployment::checkShape(const PlannedArtifact &artifact) const {
  const std::string &directory = options.models.at(artifact.model);
  if (!artifact.shape || !sys::fs::is_directory(directory)) // a GGUF file has no config.json
    return Error::success();
  SmallString<128> path(directory);
  sys::path::append(path, "config.json");
  auto buffer = MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!buffer)
    return createStringError("cannot read '" + path + "': " + buffer.getError().message());
  Expected<ModelShape> shape = ModelShape::parse((*buffer)->getBuffer(), path);
  if (!shape)
    return shape.takeError();
  std::string differences;
  std::pair<StringRef, double> figures[] = {{"hidden", shape->hidden},
                                            {"layers", shape->layers},
                                            {"vocabulary", shape->vocabulary},
                                            {"parameters", shape->parameters()},
                                            {"cached_elements_per_token", shape->cacheBytesPerToken(1)}};
  for (auto [name, has] : figures)
    if (std::optional<double> planned = artifact.shape->getNumber(name); planned && *planned != has)
      differences += formatv("{0}{1} {2:F0}, planned {3:F0}", differences.empty() ? "" : "; ", name, has, *planned);
  if (differences.empty())
    return Error::success();
  return fail("--model=" + artifact.model + "=" + directory + " is another model than '" +
              artifact.shape->getString("name").value_or("") + "', which was planned: it has " + differences);
}

/// Every model of the plan needs a directory, and every directory a model.
Error Deployment::checkModels() const {
  std::map<std::string, bool> wanted;
  for (const PlannedArtifact &artifact : artifacts)
    wanted[artifact.model] = true;
  std::vector<std::string> missing, names;
  for (const auto &[model, isWanted] : wanted) {
    names.push_back(model);
    if (!options.models.count(model))
      missing.push_back("--model=" + model + "=DIRECTORY");
  }
  if (!missing.empty())
    return fail("which models it runs is known by name only: give " + join(missing, " and "));
  for (const auto &[model, directory] : options.models)
    if (!wanted.count(model))
      return fail("--model=" + model + "=" + directory + ": no device of the plan runs a model of this name; it has " +
                  join(names, ", "));
  for (const PlannedArtifact &artifact : artifacts)
    if (Error error = checkShape(artifact))
      return error;
  return Error::success();
}

bool Deployment::compileInto(StringRef folder) {
  for (const auto &[number, artifact] : enumerate(artifacts)) {
    CompileOptions each = options.common;
    const PlanPrecision &precision = *findPlanPrecision(artifact.precision);
    each.model = options.models.at(artifact.model);
    SmallString<128> path(folder);
    sys::path::append(path, artifact.file());
    if (std::error_code error = sys::fs::create_directories(sys::path::parent_path(path))) {
      errs() << "error: " << path << ": cannot make its folder: " << error.message() << "\n";
      return false;
    }
    each.output = path.str().str();
    each.targets = {artifact.target};
    each.quantize.format = std::string(precision.format);
    each.quantize.matmulPrecision = std::string(precision.matmul);
    each.partition.world = artifact.world();
    each.partition.stages = artifact.pipeline;
    errs() << formatv("[{0}/{1}] {2}\n", number + 1, artifacts.size(), artifact.file());
    if (!compile(each))
      return false;
  }
  return true;
}

std::string Deployment::manifest() {
  json::Array all;
  for (const auto &[name, pool] : pools) {
    json::Array list;
    for (const PlannedArtifact &artifact : artifacts)
      if (artifact.pool == name)
        list.push_back(json::Object{{"file", artifact.file()},
                                    {"model", artifact.model},
                                    {"source", options.models.at(artifact.model)},
                                    {"precision", artifact.precision},
                                    {"world", artifact.world()},
                                    {"tensor", artifact.tensor},
                                    {"pipeline", artifact.pipeline},
                                    {"pieces", json::Array(artifact.pieces)}});
    if (!list.empty())
      all.push_back(json::Object{{"name", name},
                                 {"device", pool.device},
                                 {"target", *pool.target},
                                 {"devices", pool.devices},
                                 {"artifacts", std::move(list)}});
  }
  json::Object root{{"version", deploymentVersion},
                    {"plan", json::Object{{"file", options.plan}, {"hash", hash}}},
                    {"pools", std::move(all)},
                    {"without_artifact", json::Array(without)}};
  return formatv("{0:2}\n", json::Value(std::move(root))).str();
}

void Deployment::printTable() const {
  size_t fileWidth = 8, deviceWidth = 6;
  for (const PlannedArtifact &artifact : artifacts) {
    fileWidth = std::max(fileWidth, artifact.file().size());
    deviceWidth = std::max(deviceWidth, artifact.target.size());
  }
  auto row = [&](const Twine &file, const Twine &target, const Twine &ranks, const Twine &runs) {
    outs() << left_justify(file.str(), fileWidth) << "  " << left_justify(target.str(), deviceWidth) << "  "
           << right_justify(ranks.str(), 5) << "  " << runs << "\n";
  };
  row("artifact", "target", "ranks", "runs");
  for (const PlannedArtifact &artifact : artifacts) {
    std::string runs;
    for (const json::Value &piece : artifact.pieces)
      runs += (runs.empty() ? "" : ", ") + piece.getAsObject()->getString("name").value_or("").str() + " x " +
              std::to_string(piece.getAsObject()->getInteger("replicas").value_or(1));
    row(artifact.file(), artifact.target, Twine(artifact.world()), runs);
  }
  for (const json::Value &name : without)
    outs() << name.getAsString().value_or("") << ": runs no artifact\n";
}

/// Removes a folder that a call of deploy has left; refuses others.
static Error removeOwnFolder(StringRef folder) {
  SmallString<128> known(folder);
  sys::path::append(known, manifestName);
  if (!sys::fs::exists(folder))
    return Error::success();
  if (!sys::fs::exists(known))
    return createStringError(folder + ": is there already, and no deployment that could be replaced");
  sys::fs::remove_directories(folder);
  return Error::success();
}

/// Puts a finished folder where another may be; that one is a deployment.
static Error replaceFolder(StringRef finished, StringRef output) {
  std::string old = (output + ".old").str();
  bool isThere = sys::fs::exists(output);
  if (isThere)
    if (Error error = removeOwnFolder(old)) // of a call that was killed
      return error;
  if (isThere)
    if (std::error_code error = sys::fs::rename(output, old))
      return createStringError(error, output + ": cannot be replaced: " + error.message());
  if (std::error_code error = sys::fs::rename(finished, output)) {
    if (isThere)
      sys::fs::rename(old, output);
    return createStringError(error, output + ": cannot be made: " + error.message());
  }
  if (isThere)
    sys::fs::remove_directories(old);
  return Error::success();
}

/// Writes the manifest into a folder. Returns false after an error that was printed.
static bool writeFile(StringRef folder, StringRef text) {
  SmallString<128> path(folder);
  sys::path::append(path, manifestName);
  std::error_code error;
  raw_fd_ostream file(path, error);
  file << text;
  file.close();
  if (error || file.has_error()) {
    errs() << "error: " << path << ": cannot be written: " << (error ? error : file.error()).message() << "\n";
    file.clear_error();
    return false;
  }
  return true;
}

bool deploy(const DeployOptions &given) {
  DeployOptions options = given;
  auto fail = [](Error error) {
    errs() << "error: " << toString(std::move(error)) << "\n";
    return false;
  };
  while (options.output.size() > 1 && options.output.back() == '/')
    options.output.pop_back();
  if (options.output.empty())
    return fail(createStringError("--plan makes a folder: name it with -o"));
  SmallString<128> old(options.output);
  sys::path::append(old, manifestName);
  if (sys::fs::exists(options.output) && !sys::fs::exists(old))
    return fail(createStringError(options.output + ": is there already, and no deployment that could be replaced"));
  Deployment deployment(options);
  if (Error error = deployment.read())
    return fail(std::move(error));
  // Beside the output, on its file system: nobody sees a deployment that is half written.
  std::string partial = options.output + ".partial";
  if (Error error = removeOwnFolder(partial))
    return fail(std::move(error));
  if (std::error_code error = sys::fs::create_directories(partial))
    return fail(createStringError(error, partial + ": cannot be made: " + error.message()));
  // An empty manifest says whose folder it is if this process is killed.
  bool isGood = writeFile(partial, "") && deployment.compileInto(partial) && writeFile(partial, deployment.manifest());
  if (isGood)
    if (Error error = replaceFolder(partial, options.output))
      isGood = fail(std::move(error));
  if (!isGood) {
    sys::fs::remove_directories(partial);
    return false;
  }
  deployment.printTable();
  return true;
}

} // namespace intarsia
