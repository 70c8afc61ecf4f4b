//===- CalibratedInputs.h - Linears whose factors are quantized as a text has shown ------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_QUANTIZE_CALIBRATEDINPUTS_H
#define INTARSIA_LIB_QUANTIZE_CALIBRATEDINPUTS_H

#include "dialects/Nn/Nn.h"
#include "lib/Quantize/QuantizedInputs.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"

namespace intarsia::quantize {

/// Returns the nn.quantize that a value is dequantized from; null if there is none.
nn::QuantizeOp quantizeOf(mlir::Value value);

/// Returns the weight of an archive that a linear reads, however it is quantized or transposed; null if there is none.
nn::WeightOp weightOf(ContractionOpInterface linear);

/// Calls `quantize` with each linear or convolution (asProductToQuantize) whose weight one of `inputs` names, with that
/// weight and that input. Fails, with a message, if `inputs` are an error, and if `quantize` does.
template <typename Input>
mlir::LogicalResult quantizeCalibrated(
    mlir::func::FuncOp function, llvm::Expected<std::vector<Input>> inputs,
    llvm::function_ref<mlir::LogicalResult(ContractionOpInterface, nn::WeightOp, const Input &)> quantize) {
  if (!inputs)
    return function.emitError() << llvm::toString(inputs.takeError());
  llvm::StringMap<const Input *> ofWeights;
  for (const Input &input : *inputs)
    for (llvm::StringRef key : input.weights)
      ofWeights[key] = &input;
  mlir::WalkResult result = function.walk([&](mlir::Operation *op) -> mlir::WalkResult {
    ContractionOpInterface linear = asProductToQuantize(op);
    nn::WeightOp weight = linear ? weightOf(linear) : nullptr;
    auto found = weight ? ofWeights.find(weight.getKey()) : ofWeights.end();
    return found == ofWeights.end() ? mlir::WalkResult::advance()
                                    : mlir::WalkResult(quantize(linear, weight, *found->second));
  });
  return mlir::failure(result.wasInterrupted());
}

/// How an operand of a linear is quantized: what nn.quantize has beside its input.
struct OperandQuantization {
  nn::BlockFormatAttr format;
  mlir::Value channels, factors; ///< constants; null if there are none
  mlir::IntegerAttr wideBlocks;
  mlir::UnitAttr unitScale;
};

/// Quantizes operands of linears anew, each source once.
class CalibratedOperands {
public:
  /// Gives a linear another operand, which is `source`, quantized and dequantized to `element`, and erases what it had
  /// if nothing else reads that.
  void replace(mlir::OpOperand &operand, mlir::Value source, const OperandQuantization &how, mlir::Type element);
  /// Returns a constant at the beginning of the function that a linear is in.
  static mlir::Value constant(mlir::Operation *linear, mlir::DenseElementsAttr data);

private:
  using Key = std::tuple<mlir::Value, mlir::Value, mlir::Value, mlir::Attribute>;
  llvm::DenseMap<Key, mlir::Value> made; // (source, channels, factors, wide blocks) → dequantized
};

} // namespace intarsia::quantize

#endif
