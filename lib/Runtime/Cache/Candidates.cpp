//===- Candidates.cpp - The likeliest next tokens, where logits are ----------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Cache/Candidates.h"

#include "lib/Runtime/Core/Call.h"

#include <cmath>

namespace intarsia::runtime {

/// Temperatures of a row: that of the model's own probabilities, and that of the caller.
static constexpr int64_t temperaturesOfRow = 2;

/// True if a value is [rows, columns] of a type; columns -1 are any.
static bool isRows(const ValueInfo &value, itx_dtype dtype, int64_t columns) {
  return value.dtype == dtype && value.shape.size() == 2 && value.symbols[0] >= 0 && value.symbols[1] < 0 &&
         (columns < 0 || value.shape[1] == columns);
}

Status findCandidates(const Module &module, size_t step, CandidatesFunction &function) {
  function = {};
  const FunctionInfo &stepInfo = *module.functions()[step].info;
  const ValueInfo &logits = stepInfo.outputs[0];
  Device *memory = module.memoryOf(logits.device);
  std::string name = stepInfo.name + "_candidates";
  for (size_t i = 0; i < module.functions().size() && memory; ++i) {
    const FunctionInfo &info = *module.functions()[i].info;
    if (info.name != name)
      continue;
    bool isKnown = info.inputs.size() == 2 && info.outputs.size() == 3 &&
                   isRows(info.inputs[0], ITX_F32, logits.shape[1]) &&
                   isRows(info.inputs[1], ITX_F32, temperaturesOfRow) && isRows(info.outputs[0], ITX_F32, -1) &&
                   isRows(info.outputs[1], ITX_I32, info.outputs[0].shape[1]) &&
                   isRows(info.outputs[2], ITX_F32, temperaturesOfRow) && info.outputs[0].shape[1] >= 1;
    if (!isKnown)
      return error(ITX_INVALID_ARGUMENT,
                   "%s: function '%s' does not find the candidates of '%s': it must take logits and temperatures, f32 "
                   "[outputs, %lld] and [outputs, %lld], and give values, tokens and sums; give it another name",
                   module.name().c_str(), name.c_str(), stepInfo.name.c_str(), (long long)logits.shape[1],
                   (long long)temperaturesOfRow);
    // A copy to another memory would cost what the function is to save.
    if (module.memoryOf(info.inputs[0].device) == memory)
      function = {i, info.outputs[0].shape[1], memory};
  }
  return Status::success();
}

Status computeCandidates(Module &module, const CandidatesFunction &function, const Tensor &logits,
                         const float *temperatures, Candidates &candidates) {
  if (logits.shape.size() != 2)
    return error(ITX_INVALID_ARGUMENT, "%s: logits have rank %zu, must be [rows, vocabulary]", module.name().c_str(),
                 logits.shape.size());
  int64_t rows = logits.shape[0];
  const int64_t shape[] = {rows, temperaturesOfRow};
  Tensor both;
  ITX_RETURN_IF_ERROR(makeTensor(ITX_F32, shape, 2, both));
  float *values = static_cast<float *>(both.data.get());
  for (int64_t row = 0; row < rows; ++row) {
    if (!(temperatures[row] > 0) || !std::isfinite(temperatures[row]))
      return error(ITX_INVALID_ARGUMENT, "%s: the temperature of row %lld is %g, must be above 0",
                   module.name().c_str(), (long long)row, temperatures[row]);
    values[temperaturesOfRow * row] = 1;
    values[temperaturesOfRow * row + 1] = temperatures[row];
  }
  const Tensor *inputs[] = {&logits, &both};
  std::unique_ptr<itx_call> call = module.takeCall();
  Status status = prepareCall(module, function.index, inputs, 2, *call);
  if (status.ok())
    status = runCall(*call);
  for (size_t i = 0; status.ok() && i < candidates.size(); ++i)
    candidates[i] = std::move(call->outputs[i]);
  call->outputs.clear();
  module.giveCall(std::move(call));
  return status;
}

} // namespace intarsia::runtime
