//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Registration.h"

#include "dialects/Nn/Nn.h"
#include "dialects/Rt/Rt.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"

#ifdef INTARSIA_HAS_FUSE
#include "intarsia/Fuse.h"
#endif
#ifdef INTARSIA_HAS_LOWER
#include "intarsia/Lower.h"
#endif
#ifdef INTARSIA_HAS_TARGET
#include "intarsia/Target.h"
#endif
#ifdef INTARSIA_HAS_ASSEMBLE
#include "intarsia/Assemble.h"
#endif

void intarsia::registerAllIntarsia(mlir::DialectRegistry &registry) {
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  registry.insert<nn::NnDialect, rt::RtDialect>();
}

void intarsia::registerIntarsiaPasses() {
  registerAnalysisTestPasses();
#ifdef INTARSIA_HAS_FUSE
  registerFusePasses();
#endif
#ifdef INTARSIA_HAS_LOWER
  registerLowerPasses();
#endif
#ifdef INTARSIA_HAS_TARGET
  registerTargetPasses();
#endif
#ifdef INTARSIA_HAS_ASSEMBLE
  registerAssemblePasses();
#endif
}
