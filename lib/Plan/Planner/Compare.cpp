//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Planned times beside measured ones.
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Plan/Compare.h"
#include "Text.h"
#include "lib/Support/Hash.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"
#include <algorithm>
#include <cmath>
#include <vector>

using namespace llvm;

namespace intarsia {
namespace {

constexpr int64_t planVersion = 1, profileVersion = 1;

struct File {
  std::string name;
  plan::JsonFile json;
  Error fail(const Twine &why) const { return createStringError(name + ": " + why); }
};

struct Row {
  std::string what, pool, figure;
  double planned = 0, measured = 0;
  double error() const { return planned / measured - 1; }
};

const json::Object *findNamed(const json::Array *all, StringRef key, StringRef name) {
  if (!all)
    return nullptr;
  for (const json::Value &value : *all)
    if (const json::Object *object = value.getAsObject(); object && object->getString(key) == name)
      return object;
  return nullptr;
}

/// Returns the planned time that a measured one is to be compared with; none if the plan has no such time.
std::optional<double> plannedOf(const json::Object &plan, const json::Object &piece, StringRef figure, int64_t batch) {
  if (figure == "hand_over") {
    const json::Object *transfer = findNamed(plan.getArray("transfers"), "from", piece.getString("name").value_or(""));
    return transfer ? transfer->getNumber("milliseconds") : std::nullopt;
  }
  StringRef key = batch == 1 ? "alone_ms" : "full_ms";
  if (batch != 1 && piece.getInteger("batch") != batch)
    return std::nullopt;
  std::optional<double> time = piece.getNumber(key);
  if (figure != "next_token")
    return time;
  const json::Object *work = piece.getObject("work");
  // The first token is the prefill's.
  if (!time || !work)
    return std::nullopt;
  return *time / std::max(work->getNumber("written_tokens").value_or(0) - 1, 1.0);
}

Expected<std::vector<Row>> rowsOf(const File &planFile, const File &profileFile) {
  const json::Object *plan = planFile.json.value.getAsObject(), *profile = profileFile.json.value.getAsObject();
  if (!plan || plan->getInteger("version") != planVersion || !plan->getArray("pieces"))
    return planFile.fail("is no plan of this version: intarsia-plan --json=FILE writes one");
  if (!profile || profile->getInteger("version") != profileVersion || !profile->getArray("entries"))
    return profileFile.fail("is no profile of this version: intarsia bench deployment FOLDER -o FILE writes one");
  const json::Object *of = profile->getObject("plan");
  if (!of || of->getString("hash") != StringRef(hashTextOf(planFile.json.text.data(), planFile.json.text.size())))
    return profileFile.fail("was measured for another plan than " + planFile.name +
                            ": its deployment was compiled from " +
                            (of ? of->getString("file").value_or("none") : "none"));
  std::vector<Row> rows;
  for (const json::Value &value : *profile->getArray("entries")) {
    const json::Object *entry = value.getAsObject();
    std::optional<StringRef> name = entry ? entry->getString("piece") : std::nullopt,
                             figure = entry ? entry->getString("figure") : std::nullopt;
    std::optional<double> measured = entry ? entry->getNumber("milliseconds") : std::nullopt;
    int64_t batch = entry ? entry->getInteger("batch").value_or(1) : 1;
    if (!name || !figure || !measured || !(*measured > 0))
      return profileFile.fail("has an entry without a piece, a figure or its milliseconds");
    const json::Object *piece = findNamed(plan->getArray("pieces"), "name", *name);
    std::optional<double> planned = piece ? plannedOf(*plan, *piece, *figure, batch) : std::nullopt;
    if (!planned)
      return planFile.fail("has no time for '" + *name + "', " + *figure + " with a batch of " + Twine(batch));
    std::string text = figure->str();
    std::replace(text.begin(), text.end(), '_', ' ');
    if (*figure == "next_token" || *figure == "execution")
      text += ", batch " + std::to_string(batch);
    rows.push_back({name->str(), "@" + piece->getString("pool").value_or("").str(), text, *planned, *measured});
  }
  if (rows.empty())
    return profileFile.fail("has no entries");
  return rows;
}

void print(ArrayRef<Row> rows) {
  std::vector<std::vector<std::string>> table{{"piece", "pool", "figure", "planned ms", "measured ms", "error"}};
  double largest = 0;
  for (const Row &row : rows) {
    table.push_back({row.what, row.pool, row.figure, formatv("{0:F3}", row.planned), formatv("{0:F3}", row.measured),
                     formatv("{0}{1:F1}%", row.error() < 0 ? "-" : "+", std::abs(row.error()) * 100)});
    largest = std::max(largest, std::abs(row.error()));
  }
  plan::printTable(outs(), table, 3);
  outs() << formatv("largest error: {0:F1}%\n", largest * 100);
}

} // namespace

int runCompare(const std::string &planName, const std::string &profileName) {
  auto fail = [](Error error) {
    WithColor::error(errs(), "intarsia-plan") << toString(std::move(error)) << '\n';
    return 1;
  };
  std::vector<File> files;
  for (const std::string &name : {planName, profileName}) {
    Expected<plan::JsonFile> read = plan::readJson(name);
    if (!read)
      return fail(read.takeError());
    files.push_back({name, std::move(*read)});
  }
  Expected<std::vector<Row>> rows = rowsOf(files[0], files[1]);
  if (!rows)
    return fail(rows.takeError());
  print(*rows);
  return 0;
}

} // namespace intarsia
