//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Registration/Registration.h"

#include "dialects/Agent/Agent.h"
#include "dialects/Fleet/Fleet.h"
#include "dialects/Nn/Nn.h"
#include "dialects/Rt/Rt.h"
#include "dialects/TmTensor/TmTensor.h"
#include "dialects/Wafer/Wafer.h"
#include "intarsia/Fuse/Fuse.h"
#include "intarsia/Legalize/Legalize.h"
#include "intarsia/Lower/Lower.h"
#include "intarsia/Partition/Partition.h"
#include "intarsia/Plan/Plan.h"
#include "intarsia/Quantize/Quantize.h"
#include "intarsia/Reference/Reference.h"
#include "intarsia/Target/Target.h"
#include "lib/Target/Wafer/Programs.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "llvm/Support/CommandLine.h"

void intarsia::registerAllIntarsia(mlir::DialectRegistry &registry) {
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  registry.insert<agent::AgentDialect, fleet::FleetDialect, nn::NnDialect, rt::RtDialect, tm_tensor::TmTensorDialect,
                  wafer::WaferDialect>();
  reference::registerReferenceModels(registry);
}

void intarsia::registerIntarsiaPasses() {
  registerPlanPasses();
  registerLegalizePasses();
  registerQuantizePasses();
  registerReferencePasses();
  registerPartitionPasses();
  registerFusePasses();
  registerLowerPasses();
  registerTargetPasses();
  registerWaferPasses();
}

void intarsia::hideLibraryFlags() {
  for (auto &entry : llvm::cl::getRegisteredOptions()) {
    llvm::cl::Option &flag = *entry.second;
    bool generic = llvm::any_of(flag.Categories, [](llvm::cl::OptionCategory *category) {
      return category->getName() == "Generic Options"; // --help, --version
    });
    if (!generic && flag.getOptionHiddenFlag() == llvm::cl::NotHidden)
      flag.setHiddenFlag(llvm::cl::Hidden);
  }
}
