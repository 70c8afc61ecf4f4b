//===- Continue.h - Continue token ids with a language model ------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_TOOLS_RUN_CONTINUE_H
#define INTARSIA_TOOLS_RUN_CONTINUE_H

#include "tools/intarsia-run/Handles.h"
#include "tools/intarsia-run/Options.h"
#include "tools/intarsia-run/Timing.h"

namespace intarsia::run {

/// Continues options.ids by the model's most likely tokens, and prints their ids as they come. With `withLogits`
/// returns the logits after each of options.ids, f32 [ids, vocabulary], else null. Counts its calls of the function.
TensorHandle continueIds(const itx_module *module, const itx_function *step, const Options &options, bool withLogits,
                         StepCalls &calls);

} // namespace intarsia::run

#endif
