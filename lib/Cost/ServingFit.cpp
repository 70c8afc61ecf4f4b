//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Cost/ServingFit.h"
#include "intarsia/Cost/ServingCost.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"
#include <algorithm>
#include <cstring>
#include <vector>

using namespace llvm;
using namespace intarsia;

namespace {

struct Row {
  ServingCost cost;
  itx_serving_row measured;
};

/// Share of experts that tokens touch where operators are measured: see ModelShape::expertsTouched.
constexpr double expertDispersion = 0.5;

ServingEfficiency measuredGenerations(bool operators) {
  ServingEfficiency efficiency{};
  efficiency.generations = {"ampere", "hopper", "blackwell"};
  efficiency.operators = operators;
  efficiency.figures.expertDispersion = expertDispersion;
  return efficiency;
}

Expected<Row> readRow(const itx_serving_row &row) {
  Deployment deployment;
  Expected<const ModelShape *> shape = findShape(row.model);
  if (!shape)
    return shape.takeError();
  deployment.shape = *shape;
  Expected<const CatalogueDevice *> device = findDevice(row.device);
  if (!device)
    return device.takeError();
  deployment.device = *device;
  Expected<ServingEngine> engine = parseServingEngine(row.engine);
  if (!engine)
    return engine.takeError();
  deployment.engine = *engine;
  Expected<NumberFormat> weights = parseNumberFormat(row.weights);
  if (!weights)
    return weights.takeError();
  Expected<NumberFormat> cache = parseNumberFormat(row.cache);
  if (!cache)
    return cache.takeError();
  deployment.precision = usualPrecision(**shape, **device, *weights, *cache);
  deployment.precision.attentionOutput = deployment.precision.attention;
  for (auto [name, into] : {std::pair(row.attention, &deployment.precision.attention),
                            std::pair(row.output, &*deployment.precision.attentionOutput),
                            std::pair(row.compute, &deployment.precision.compute)})
    if (*name) {
      Expected<NumberFormat> format = parseNumberFormat(name);
      if (!format)
        return format.takeError();
      *into = *format;
    }
  deployment.degrees = {row.tensor, row.attention_data, row.expert, 1};
  deployment.onePhase = row.one_phase;
  deployment.slowBuild = row.slow_build;
  deployment.powerCapped = row.power_capped;
  deployment.tokensPerStep = row.tokens_per_step;
  // Does not use the figures of the program, which may belong to an older formula: the fit brings its own.
  static const ServingEfficiency ofShares = measuredGenerations(/*operators=*/false);
  static const ServingEfficiency ofOperators = measuredGenerations(/*operators=*/true);
  Expected<ServingCost> cost = ServingCost::create(deployment, row.operators ? &ofOperators : &ofShares);
  if (!cost)
    return cost.takeError();
  Row read{std::move(*cost), row};
  if (row.kind != ITX_SERVING_FIRST) {
    // The engine runs the batch that fits and queues the rest. As the row was measured, a replica holds at least one
    // request, and weights that do not fit by their format alone were stored otherwise: nothing then bounds the batch.
    Expected<double> most = read.cost.largestBatch(row.input_tokens + row.output_tokens / 2);
    if (most)
      read.measured.batch = std::min(row.batch, std::max<double>(row.attention_data, *most));
    else
      consumeError(most.takeError());
  }
  return read;
}

} // namespace

int32_t itx_serving_figures(void) { return int32_t(ServingFigures::names().size()); }

const char *itx_serving_figure(int32_t index) { return ServingFigures::names()[index]; }

void *itx_serving_table(const itx_serving_row *rows, int64_t count, char *message, int64_t size) {
  auto table = std::make_unique<std::vector<Row>>();
  for (int64_t i = 0; i < count; ++i) {
    Expected<Row> row = readRow(rows[i]);
    if (!row) {
      std::string text = ("row " + Twine(i) + ": " + toString(row.takeError())).str();
      std::strncpy(message, text.c_str(), size_t(size - 1));
      message[size - 1] = 0;
      return nullptr;
    }
    table->push_back(std::move(*row));
  }
  return table.release();
}

void itx_serving_free(void *table) { delete static_cast<std::vector<Row> *>(table); }

void itx_serving_predict(const void *table, const double *given, const int64_t *which, int64_t count,
                         double *milliseconds) {
  ServingFigures figures;
  if (given)
    for (size_t i = 0; i < ServingFigures::names().size(); ++i)
      figures.at(i) = given[i];
  const auto &rows = *static_cast<const std::vector<Row> *>(table);
  for (int64_t i = 0; i < count; ++i) {
    const Row &row = rows[size_t(which[i])];
    const itx_serving_row &asked = row.measured;
    const ServingFigures &used = given ? figures : ServingEfficiency::of(row.cost.deployment().engine).figures;
    switch (asked.kind) {
    case ITX_SERVING_DECODE:
      *milliseconds++ = row.cost.decodeStep(asked.batch, asked.input_tokens + asked.output_tokens / 2, used).totalMs;
      break;
    case ITX_SERVING_SHARED:
      *milliseconds++ =
          row.cost.sharedStep(asked.batch, asked.input_tokens, asked.output_tokens, asked.burst, used).totalMs;
      break;
    default:
      *milliseconds++ =
          row.cost.firstToken(asked.input_tokens, asked.prompts, asked.concurrency, asked.workers, asked.burst, used)
              .totalMs;
    }
  }
}
