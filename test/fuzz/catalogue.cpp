//===- catalogue.cpp - Fuzz the reader of devices -----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "intarsia/Cost/Catalogue.h"
#include <cmath>

using namespace intarsia;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  llvm::StringRef text(reinterpret_cast<const char *>(data), bytes);
  llvm::Expected<CatalogueDevice> device = CatalogueDevice::parse(text, "fuzz");
  if (!device) {
    if (llvm::toString(device.takeError()).empty())
      __builtin_trap();
    return 0;
  }
  // Parsed figures are valid.
  if (device->peakTflops.empty() || device->devicesOnLink() < 1)
    __builtin_trap();
  for (const auto &[element, figure] : device->peakTflops)
    if (!std::isfinite(figure.value) || figure.value <= 0 || figure.source.empty() || figure.date.empty())
      __builtin_trap();
  (void)device->unsureFigures();
  if (llvm::Expected<double> hour = device->ownedPerHour(); !hour)
    consumeError(hour.takeError());
  else if (!std::isfinite(*hour) || *hour <= 0)
    __builtin_trap();
  return 0;
}
