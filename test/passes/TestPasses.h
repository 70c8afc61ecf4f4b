//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_TEST_PASSES_TESTPASSES_H
#define INTARSIA_TEST_PASSES_TESTPASSES_H

namespace intarsia::testing {

/// --test-symbolic-sizes
void registerSymbolicSizes();
/// --test-agent-graph
void registerAgentGraph();
/// --test-placement-model
void registerPlacementModel();
/// --test-reference-models, --test-reference-object
void registerReference();
/// --test-compositions
void registerCompositions();

} // namespace intarsia::testing

#endif
