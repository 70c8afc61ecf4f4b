//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Cost/GpuFit.h"
#include "intarsia/Cost/GpuKernels.h"
#include "llvm/ADT/Twine.h"
#include <cstring>
#include <memory>

using namespace llvm;
using namespace intarsia;

namespace {

struct Row {
  GpuKernelShape shape;
  GpuRates rates;
  const CatalogueDevice *device;
  std::string type;
};

Expected<Row> readRow(const itx_gpu_row &row) {
  Expected<const CatalogueDevice *> device = findDevice(row.device);
  if (!device)
    return device.takeError();
  Expected<GpuRates> rates = GpuRates::of(**device, row.peak);
  if (!rates)
    return rates.takeError();
  GpuKernelShape shape;
  shape.kind = GpuKernelKind(row.kind);
  shape.causal = row.causal;
  shape.batch = row.batch;
  shape.rows = row.rows;
  shape.columns = row.columns;
  shape.depth = row.depth;
  shape.heads = row.heads;
  shape.keyHeads = row.key_heads;
  shape.window = row.window;
  shape.experts = row.experts;
  shape.perToken = row.per_token;
  shape.inputBytes = row.input_bytes;
  shape.weightBytes = row.weight_bytes;
  shape.outputBytes = row.output_bytes;
  shape.warmWeights = row.warm_weights;
  shape.cachedDepth = row.cached_depth;
  return Row{shape, *rates, *device, row.type};
}

} // namespace

int32_t itx_gpu_figures(void) { return int32_t(GpuKernelFigures::names().size()); }

const char *itx_gpu_figure(int32_t index) { return GpuKernelFigures::names()[size_t(index)].data(); }

void *itx_gpu_table(const itx_gpu_row *rows, int64_t count, char *message, int64_t size) {
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

void itx_gpu_free(void *table) { delete static_cast<std::vector<Row> *>(table); }

void itx_gpu_predict(const void *table, const int64_t *rows, int64_t count, const double *given, double *microseconds) {
  const auto &all = *static_cast<const std::vector<Row> *>(table);
  GpuKernelFigures figures;
  if (given)
    for (size_t i = 0; i < GpuKernelFigures::names().size(); ++i)
      figures.at(i) = given[i];
  for (int64_t i = 0; i < count; ++i) {
    const Row &row = all[size_t(rows[i])];
    const GpuKernelFigures &used =
        given ? figures : GpuKernelTable::get().find(row.shape.kind, row.type, *row.device).first->figures;
    microseconds[i] = gpuKernelUs(row.shape, row.rates, used);
  }
}

void itx_gpu_roofline(const void *table, double *microseconds) {
  for (const Row &row : *static_cast<const std::vector<Row> *>(table))
    *microseconds++ = gpuRooflineUs(row.shape, row.rates);
}

int32_t itx_gpu_all_reduce(const char *device, const double *devices, const double *bytes, int64_t count,
                           const double *given, double *microseconds) {
  Expected<const CatalogueDevice *> found = findDevice(device);
  if (!found) {
    consumeError(found.takeError());
    return 1;
  }
  Expected<double> link = (*found)->linkOneWayGBps();
  if (!link) {
    consumeError(link.takeError());
    return 1;
  }
  AllReduceFigures figures = GpuKernelTable::get().allReduce(**found);
  if (given)
    for (size_t i = 0; i < AllReduceFigures::names().size(); ++i)
      figures.at(i) = given[i];
  for (int64_t i = 0; i < count; ++i)
    microseconds[i] = allReduceUs(devices[i], bytes[i], *link, figures);
  return 0;
}
