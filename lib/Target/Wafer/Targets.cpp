//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Cost/WaferCatalogue.h"
#include "lib/Target/Wafer/Programs.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;

llvm::Expected<intarsia::CatalogueWafer> intarsia::wafer::waferNamed(StringRef nameOrFile) {
  if (!nameOrFile.ends_with(".yaml"))
    return findWafer(nameOrFile);
  auto buffer = llvm::MemoryBuffer::getFile(nameOrFile);
  if (!buffer)
    return llvm::createStringError(nameOrFile + ": cannot be read: " + buffer.getError().message());
  return CatalogueWafer::parse((*buffer)->getBuffer(), nameOrFile);
}

llvm::Expected<intarsia::wafer::TargetAttr> intarsia::wafer::targetNamed(MLIRContext *context, StringRef nameOrFile) {
  llvm::Expected<CatalogueWafer> wafer = waferNamed(nameOrFile);
  if (!wafer)
    return wafer.takeError();
  auto whole = [&](const char *name) { return int64_t(wafer->figures[name].value); };
  auto real = [&](const char *name) { return FloatAttr::get(Float64Type::get(context), wafer->figures[name].value); };
  return TargetAttr::get(context, StringAttr::get(context, wafer->name), whole("columns"), whole("rows"),
                         whole("sram_bytes"), whole("reserved_bytes"), whole("colors"), real("clock_ghz"),
                         real("hop_cycles"), real("ramp_cycles"), real("link_bytes"), real("macs"), real("loop_cycles"),
                         real("product_cycles"), real("stage_cycles"), real("add_cycles"), real("element_cycles"),
                         wafer->defects.empty() ? DenseI64ArrayAttr() : DenseI64ArrayAttr::get(context, wafer->defects),
                         wafer->figures.count("watts") ? real("watts") : FloatAttr());
}
