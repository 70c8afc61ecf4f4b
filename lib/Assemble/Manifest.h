//===- Manifest.h - What an artifact says about itself -----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_ASSEMBLE_MANIFEST_H
#define INTARSIA_LIB_ASSEMBLE_MANIFEST_H

#include "intarsia/Target/Target.h"
#include "lib/Assemble/HostCode.h"
#include "lib/Weights/PackWeights.h"

namespace intarsia::assemble {

/// Returns the name of an element type in manifests; empty if the runtime lacks it.
llvm::StringRef dtypeName(mlir::Type type);

/// Returns the JSON text of the manifest. `weightsFile` is the name of the weights file beside the artifact, empty if
/// the weights are embedded. The error names an argument or result whose element type the runtime lacks.
llvm::Expected<std::string> makeManifest(mlir::ModuleOp module, const ModuleTables &tables,
                                         const target::ArtifactObjects &artifact, llvm::ArrayRef<std::string> flags,
                                         const weights::PackedWeights &weights, llvm::StringRef weightsFile);

/// Returns the variants of the code that runs on the host: those of the device whose kernels are host code, else one
/// that every host of the triple can run.
std::vector<target::Variant> hostVariants(const target::ArtifactObjects &artifact);

} // namespace intarsia::assemble

#endif
