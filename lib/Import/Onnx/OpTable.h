//===- OpTable.h - The ops of ONNX that are imported --------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_IMPORT_ONNX_OPTABLE_H
#define INTARSIA_IMPORT_ONNX_OPTABLE_H

#include "lib/Import/Onnx/NodeContext.h"

namespace intarsia::onnx {

/// What the inputs of an op may be, and its results: tensors of numbers and bools, tensors of small types too, and
/// sequences and optional values too.
enum class Takes { Numbers, Elements, Sequences };

/// An op: the function reads the node's version where meanings differ.
struct OpRow {
  llvm::StringLiteral domain; ///< "" for ai.onnx
  llvm::StringLiteral name;
  int64_t since; ///< the least version that it is imported in
  BuildFunction build;
  Takes takes = Takes::Numbers;
  bool inSingle = false;  ///< elements of f64 are computed in f32
  bool isRefused = false; ///< in all its forms: the function says why
};

// A group of ops is a file in Ops/, which has its rows.
llvm::ArrayRef<OpRow> elementwiseOps();
llvm::ArrayRef<OpRow> castOps();
llvm::ArrayRef<OpRow> activationOps();
llvm::ArrayRef<OpRow> shapeOps();
llvm::ArrayRef<OpRow> constantOps();
llvm::ArrayRef<OpRow> linearOps();
llvm::ArrayRef<OpRow> convOps();
llvm::ArrayRef<OpRow> poolOps();
llvm::ArrayRef<OpRow> normOps();
llvm::ArrayRef<OpRow> reductionOps();
llvm::ArrayRef<OpRow> indexingOps();
llvm::ArrayRef<OpRow> imageOps();
llvm::ArrayRef<OpRow> lossOps();
llvm::ArrayRef<OpRow> controlFlowOps();
llvm::ArrayRef<OpRow> attentionOps();
llvm::ArrayRef<OpRow> quantizeOps();
llvm::ArrayRef<OpRow> quantizedOps();
llvm::ArrayRef<OpRow> loopOps();
llvm::ArrayRef<OpRow> sequenceOps();
llvm::ArrayRef<OpRow> recurrenceOps();
llvm::ArrayRef<OpRow> deformedOps();
llvm::ArrayRef<OpRow> randomOps();
llvm::ArrayRef<OpRow> determinantOps();
llvm::ArrayRef<OpRow> gramOps();
llvm::ArrayRef<OpRow> recurrentOps();
llvm::ArrayRef<OpRow> regionOps();
llvm::ArrayRef<OpRow> selectionOps();
llvm::ArrayRef<OpRow> signalOps();
llvm::ArrayRef<OpRow> quantizedConvOps();
llvm::ArrayRef<OpRow> microsoftActivationOps();
llvm::ArrayRef<OpRow> microsoftAttentionOps();
llvm::ArrayRef<OpRow> microsoftBlockOps();
llvm::ArrayRef<OpRow> microsoftExpertOps();
llvm::ArrayRef<OpRow> microsoftLinearOps();
llvm::ArrayRef<OpRow> microsoftNormOps();
llvm::ArrayRef<OpRow> microsoftQuantizedOps();

/// Builds a node with f32 in place of f64.
void buildInSingle(NodeContext &node, const OpRow &row);

/// Returns the op of a name, null if it is not imported.
const OpRow *findOp(llvm::StringRef domain, llvm::StringRef name);

/// Returns all ops that are imported, by domain and name.
std::vector<const OpRow *> allOps();

/// Lists the ops of a model, its nested graphs and functions included, with what is refused of them.
void countOps(const Model &model, const Refusals &refusals, importer::ImportReport &report);

/// Notes the devices that a model names for its nodes on the module (dialects/Rt/DeviceConfigurations.h).
void noteDeviceConfigurations(const Model &model, mlir::ModuleOp module);

/// Builds a node whose inputs are known as elements, if it is one of those that shapes are computed by. Returns false
/// if it is not, or if they are not known.
bool foldNode(NodeContext &node);

/// Remembers what the result of a node that was built says of a size of the call (GraphValue::condition), if it does.
void followCondition(NodeContext &node);

/// The newest version of the operator set of ai.onnx that is known.
constexpr int64_t newestVersion = 28;

} // namespace intarsia::onnx

#endif
