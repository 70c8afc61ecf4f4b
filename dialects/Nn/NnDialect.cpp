//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "dialects/Nn/Nn.h"
#include "dialects/Nn/RowScales.h"

#include "dialects/Nn/FileNames.h"
#include "dialects/Nn/Ops/Constants/Constants.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Transforms/InliningUtils.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace intarsia;
using namespace intarsia::nn;

static ParseResult parseGgmlKeyword(AsmParser &parser, std::string &keyword) {
  return parser.parseKeywordOrString(&keyword);
}
static void printGgmlKeyword(AsmPrinter &printer, StringRef keyword) { printer.printKeywordOrString(keyword); }

#include "dialects/Nn/NnDialect.cpp.inc"
#include "dialects/Nn/NnEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Nn/NnAttrs.cpp.inc"

namespace {
/// Functions may be inlined: ops have no effects but their results, and states are arguments and results.
struct NnInliner : DialectInlinerInterface {
  using DialectInlinerInterface::DialectInlinerInterface;
  bool isLegalToInline(Operation *, Region *, bool, IRMapping &) const override { return true; }
  bool isLegalToInline(Region *, Region *, bool, IRMapping &) const override { return true; }
};
} // namespace

void NnDialect::initialize() {
  addInterfaces<NnInliner>();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Nn/NnAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Nn/NnOps.cpp.inc"
      >();
  addOperations<ConstantsOp>();
}

Operation *NnDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type, Location loc) {
  return arith::ConstantOp::materialize(builder, value, type, loc);
}

//===-- Attributes of functions, arguments and results --------------------------------------------------------===//

static LogicalResult verifyName(Operation *op, const Twine &where, NamedAttribute attribute) {
  auto name = dyn_cast<StringAttr>(attribute.getValue());
  if (!name || name.empty())
    return op->emitOpError() << "nn.name of " << where << " is " << attribute.getValue()
                             << ", must be a string that is not empty";
  return success();
}

int64_t nn::numberOf(IntegerAttr number) {
  bool isUnsigned = number.getType().isUnsignedInteger() || number.getType().isInteger(1);
  return isUnsigned ? number.getValue().getZExtValue() : number.getValue().getSExtValue();
}

/// Names stand in expressions and in messages beside numbers.
static bool isSizeName(StringRef name) {
  return (llvm::isAlpha(name.front()) || name.front() == '_') &&
         llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '_' || c == '.'; });
}

static LogicalResult verifySizes(Operation *op, const Twine &where, Type type, NamedAttribute attribute) {
  auto names = dyn_cast<ArrayAttr>(attribute.getValue());
  if (!names || !llvm::all_of(names, [](Attribute name) { return isa<StringAttr>(name); }))
    return op->emitOpError() << "nn.sizes of " << where << " is " << attribute.getValue()
                             << ", must be a list of strings";
  auto shaped = dyn_cast<ShapedType>(type);
  if (!shaped || !shaped.hasRank())
    return op->emitOpError() << "nn.sizes of " << where << " stands on " << type << ", which has no dimensions";
  if (static_cast<int64_t>(names.size()) != shaped.getRank())
    return op->emitOpError() << "nn.sizes of " << where << " has " << names.size() << " names, " << type << " has "
                             << shaped.getRank() << " dimensions";
  for (auto [dimension, name] : llvm::enumerate(names.getAsRange<StringAttr>())) {
    if (name.empty())
      continue;
    if (!shaped.isDynamicDim(dimension))
      return op->emitOpError() << "nn.sizes of " << where << " names dimension " << dimension << " '" << name.getValue()
                               << "', the type says " << shaped.getDimSize(dimension);
    if (isa<func::FuncOp>(op) && !isSizeName(name)) // kernels have expressions
      return op->emitOpError() << "nn.sizes of " << where << " names dimension " << dimension << " '" << name.getValue()
                               << "'; names are letters, digits, '_' and '.', and begin with a letter or '_'";
  }
  return success();
}

/// Names of the sizes that arguments carry, as SymbolicSizes gives them.
static llvm::SetVector<StringAttr> sizeNames(FunctionOpInterface function) {
  llvm::SetVector<StringAttr> all;
  for (auto [index, type] : llvm::enumerate(function.getArgumentTypes())) {
    auto shaped = dyn_cast<ShapedType>(type);
    auto names = function.getArgAttrOfType<ArrayAttr>(index, "nn.sizes");
    for (int64_t dimension = 0; shaped && shaped.hasRank() && dimension != shaped.getRank(); ++dimension) {
      auto name = names && dimension < static_cast<int64_t>(names.size()) ? dyn_cast<StringAttr>(names[dimension])
                                                                          : StringAttr();
      if (name && !name.empty())
        all.insert(name);
      else if (shaped.isDynamicDim(dimension))
        all.insert(StringAttr::get(function.getContext(), "arg" + Twine(index) + "." + Twine(dimension)));
    }
  }
  return all;
}

static std::string listed(const llvm::SetVector<StringAttr> &names) {
  if (names.empty())
    return "they have none";
  return "they have " + llvm::join(llvm::map_range(names, [](StringAttr name) { return name.str(); }), ", ");
}

/// A dictionary of positive integers for sizes of the function.
static LogicalResult verifySizeValues(FunctionOpInterface function, NamedAttribute attribute) {
  StringRef what = attribute.getName();
  auto values = dyn_cast<DictionaryAttr>(attribute.getValue());
  if (!values)
    return function->emitOpError() << what << " is " << attribute.getValue() << ", must be a dictionary";
  llvm::SetVector<StringAttr> names = sizeNames(function);
  for (NamedAttribute entry : values) {
    auto value = dyn_cast<IntegerAttr>(entry.getValue());
    if (!value || value.getValue().getBitWidth() > 64 || !value.getType().isSignlessIntOrIndex() || value.getInt() <= 0)
      return function->emitOpError() << what << " gives " << entry.getName().getValue() << " = " << entry.getValue()
                                     << ", must be a positive integer";
    if (!names.contains(entry.getName()))
      return function->emitOpError() << what << " gives " << entry.getName().getValue()
                                     << ", and the arguments have no such size: " << listed(names);
  }
  return success();
}

static LogicalResult verifyDefault(FunctionOpInterface function, unsigned index, Type element, Attribute attribute) {
  auto error = [&] { return function->emitOpError() << "nn.default of argument " << index << " is " << attribute; };
  auto given = dyn_cast<IntegerAttr>(attribute);
  if (!given || given.getValue().getBitWidth() > 64)
    return error() << ", must be an integer";
  if (!element.isIntOrFloat())
    return function->emitOpError() << "nn.default of argument " << index << " stands on "
                                   << function.getArgumentTypes()[index] << ", which holds no numbers";
  int64_t number = numberOf(given);
  if (number > (int64_t(1) << 53) || number < -(int64_t(1) << 53))
    return error() << ", must be at most 2^53 (exact as f64)";
  if (auto integer = dyn_cast<IntegerType>(element)) {
    bool isSigned = !integer.isUnsigned() && integer.getWidth() > 1;
    bool fits =
        isSigned ? llvm::isIntN(integer.getWidth(), number) : number >= 0 && llvm::isUIntN(integer.getWidth(), number);
    if (!fits)
      return error() << ", elements are " << element;
  }
  auto range = function.getArgAttrOfType<DenseI64ArrayAttr>(index, "nn.range");
  if (range && range.size() == 2 && (number < range[0] || number >= range[1]))
    return error() << ", not in its nn.range [" << range[0] << ", " << range[1] << ")";
  return success();
}

/// Verifies that names differ, for all arguments or results at the first one that has a name.
static LogicalResult verifyUniqueNames(FunctionOpInterface function, unsigned index, bool isResult) {
  ArrayAttr all = isResult ? function.getAllResultAttrs() : function.getAllArgAttrs();
  DenseMap<Attribute, unsigned> seen;
  for (auto [number, attributes] : llvm::enumerate(all.getAsRange<DictionaryAttr>()))
    if (Attribute name = attributes ? attributes.get("nn.name") : Attribute()) {
      if (seen.empty() && number != index)
        return success();
      auto [before, isNew] = seen.try_emplace(name, number);
      if (!isNew)
        return function->emitOpError() << (isResult ? "results " : "arguments ") << before->second << " and " << number
                                       << " are both named " << name;
    }
  return success();
}

static LogicalResult verifyGlobal(Operation *op, const Twine &where, Type type, NamedAttribute attribute) {
  auto name = dyn_cast<StringAttr>(attribute.getValue());
  if (!name || name.empty() || !isa<RankedTensorType>(type))
    return op->emitOpError() << "nn.global of " << where << " is " << attribute.getValue() << " on " << type
                             << ", must be a name on a tensor";
  return success();
}

static LogicalResult verifyUnsigned(Operation *op, const Twine &where, Type type, NamedAttribute attribute) {
  Type element = getElementTypeOrSelf(type);
  if (!isa<UnitAttr>(attribute.getValue()) || !element.isSignlessInteger() || element.isInteger(1))
    return op->emitOpError() << "nn.unsigned of " << where << " is " << attribute.getValue() << " on " << type
                             << ", must be a unit attribute on integers";
  return success();
}

LogicalResult NnDialect::verifyRegionArgAttribute(Operation *op, unsigned regionIndex, unsigned argIndex,
                                                  NamedAttribute attribute) {
  auto function = cast<FunctionOpInterface>(op);
  std::string where = "argument " + std::to_string(argIndex);
  Type type = function.getArgumentTypes()[argIndex];
  auto shaped = dyn_cast<ShapedType>(type);
  Type element = shaped ? shaped.getElementType() : type;
  StringRef name = attribute.getName();
  if (name == "nn.name") {
    if (failed(verifyName(op, where, attribute)))
      return failure();
    return verifyUniqueNames(function, argIndex, /*isResult=*/false);
  }
  if (name == "nn.sizes")
    return verifySizes(op, where, type, attribute);
  if (name == "nn.default")
    return verifyDefault(function, argIndex, element, attribute.getValue());
  if (name == "nn.range") {
    auto range = dyn_cast<DenseI64ArrayAttr>(attribute.getValue());
    if (!range || range.size() != 2 || range[0] >= range[1])
      return op->emitOpError() << "nn.range of " << where << " is " << attribute.getValue()
                               << ", must be array<i64: low, high> with low < high";
    if (!element.isInteger())
      return op->emitOpError() << "nn.range of " << where << " stands on " << type << ", which holds no integers";
    return success();
  }
  if (name == "nn.below") {
    auto below = dyn_cast<ArrayAttr>(attribute.getValue());
    auto factor = below && below.size() == 2 ? dyn_cast<IntegerAttr>(below[0]) : IntegerAttr();
    if (!factor || factor.getInt() < 1 || !isa<StringAttr>(below[1]) || !element.isInteger())
      return op->emitOpError() << "nn.below of " << where << " is " << attribute.getValue() << " on " << type
                               << ", must be [factor, \"size\"] on integers";
    return success();
  }
  if (name == "nn.state") {
    if (!isa<UnitAttr>(attribute.getValue()) || !shaped)
      return op->emitOpError() << "nn.state of " << where << " is " << attribute.getValue() << " on " << type
                               << ", must be a unit attribute on a tensor";
    return success();
  }
  if (name == "nn.unsigned")
    return verifyUnsigned(op, where, type, attribute);
  if (name == "nn.size_from") {
    auto result = dyn_cast<IntegerAttr>(attribute.getValue());
    if (!result || result.getInt() < 0 || !shaped || shaped.getRank() != 1 || !op->hasAttr("nn.continues"))
      return op->emitOpError()
             << "nn.size_from of " << where << " is " << attribute.getValue() << " on " << type
             << ", must be the number of a result, on an argument of one dimension of a function that "
                "continues another (nn.continues)";
    return success();
  }
  if (name == "nn.global")
    return shaped && isa<MemRefType>(type) ? success() : verifyGlobal(op, where, type, attribute);
  return op->emitOpError()
         << "argument attribute " << name << " of " << where
         << " is unknown; known are nn.name, nn.sizes, nn.default, nn.range, nn.below, nn.state, nn.global, "
            "nn.unsigned, nn.size_from";
}

LogicalResult NnDialect::verifyRegionResultAttribute(Operation *op, unsigned regionIndex, unsigned resultIndex,
                                                     NamedAttribute attribute) {
  auto function = cast<FunctionOpInterface>(op);
  std::string where = "result " + std::to_string(resultIndex);
  StringRef name = attribute.getName();
  if (name == "nn.name") {
    if (failed(verifyName(op, where, attribute)))
      return failure();
    return verifyUniqueNames(function, resultIndex, /*isResult=*/true);
  }
  if (name == "nn.sizes")
    return verifySizes(op, where, function.getResultTypes()[resultIndex], attribute);
  if (name == "nn.state") {
    auto argument = dyn_cast<IntegerAttr>(attribute.getValue());
    if (!argument || argument.getInt() < 0 || argument.getInt() >= static_cast<int64_t>(function.getNumArguments()) ||
        !function.getArgAttr(argument.getInt(), "nn.state"))
      return op->emitOpError() << "nn.state of " << where << " is " << attribute.getValue()
                               << ", must be the number of an argument with nn.state";
    return success();
  }
  if (name == "nn.global")
    return verifyGlobal(op, where, function.getResultTypes()[resultIndex], attribute);
  if (name == "nn.unsigned")
    return verifyUnsigned(op, where, function.getResultTypes()[resultIndex], attribute);
  return op->emitOpError() << "result attribute " << name << " of " << where
                           << " is unknown; known are nn.name, nn.sizes, nn.state, nn.global, nn.unsigned";
}

static LogicalResult verifyFiles(Operation *op, NamedAttribute attribute) {
  if (!isa<ModuleOp>(op))
    return op->emitOpError() << "nn.files stands on an op that is no module";
  auto list = dyn_cast<ArrayAttr>(attribute.getValue());
  if (!list || !llvm::all_of(list, llvm::IsaPred<StringAttr>))
    return op->emitOpError() << "nn.files is " << attribute.getValue() << ", must be a list of names";
  llvm::SmallPtrSet<Attribute, 8> names;
  for (Attribute file : list) {
    if (cast<StringAttr>(file).empty() || !names.insert(file).second)
      return op->emitOpError() << "nn.files lists " << file << ", must list names, each once";
    if (!nn::isBelowDirectory(cast<StringAttr>(file)))
      return op->emitOpError() << "nn.files lists " << file
                               << ", which is not below the directory of the model: name files from a directory that "
                                  "holds them all, and give that with --archives";
  }
  return success();
}

LogicalResult NnDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  StringRef name = attribute.getName();
  if (name == "nn.files")
    return verifyFiles(op, attribute);
  if (name == nn::replacesInputAttr) {
    auto quantize = dyn_cast<nn::QuantizeOp>(op);
    if (!quantize || !quantize.getUnitScale() || !isa<UnitAttr>(attribute.getValue()))
      return op->emitOpError() << name << " is " << attribute.getValue()
                               << ", must be a unit attribute on an nn.quantize with unit_scale";
    return success();
  }
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!function)
    return op->emitOpError() << name << " stands on an op that is no function";
  if (name == "nn.size_limits" || name == "nn.expected_sizes")
    return verifySizeValues(function, attribute);
  if (name == "nn.empty_sizes") {
    auto names = dyn_cast<ArrayAttr>(attribute.getValue());
    if (!names || !llvm::all_of(names, llvm::IsaPred<StringAttr>))
      return op->emitOpError() << "nn.empty_sizes is " << attribute.getValue() << ", must be a list of names";
    llvm::SetVector<StringAttr> known = sizeNames(function);
    for (auto given : names.getAsRange<StringAttr>())
      if (!known.contains(given))
        return op->emitOpError() << "nn.empty_sizes has " << given
                                 << ", and the arguments have no such size: " << listed(known);
    return success();
  }
  if (name == "nn.page_tokens") {
    auto tokens = dyn_cast<IntegerAttr>(attribute.getValue());
    if (!tokens || !tokens.getType().isSignlessInteger(64) || tokens.getInt() < 1)
      return op->emitOpError() << "nn.page_tokens is " << attribute.getValue() << ", must be a positive i64";
    return success();
  }
  if (name == "nn.outlined_from") {
    if (!isa<FlatSymbolRefAttr>(attribute.getValue()))
      return op->emitOpError() << "nn.outlined_from is " << attribute.getValue() << ", must be a function's symbol";
    return success();
  }
  if (name == "nn.continues") {
    if (!isa<FlatSymbolRefAttr>(attribute.getValue()))
      return op->emitOpError() << "nn.continues is " << attribute.getValue() << ", must be a function's symbol";
    return success();
  }
  if (name == "nn.runs_at_load") {
    if (!isa<UnitAttr>(attribute.getValue()) || function.getNumArguments() != 0)
      return op->emitOpError() << "nn.runs_at_load is " << attribute.getValue() << " on a function of "
                               << function.getNumArguments() << " arguments, must be a unit attribute on one of none";
    return success();
  }
  if (name == "nn.metadata") {
    if (!isa<DictionaryAttr>(attribute.getValue()))
      return op->emitOpError() << "nn.metadata is " << attribute.getValue() << ", must be a dictionary";
    return success();
  }
  if (name == "nn.decisions") {
    auto list = dyn_cast<ArrayAttr>(attribute.getValue());
    if (!list || !llvm::all_of(list, llvm::IsaPred<DictionaryAttr>))
      return op->emitOpError() << "nn.decisions is " << attribute.getValue() << ", must be a list of dictionaries";
    return success();
  }
  return op->emitOpError() << "function attribute " << name
                           << " is unknown; known are nn.size_limits, nn.empty_sizes, nn.expected_sizes, "
                              "nn.page_tokens, nn.metadata, nn.decisions, "
                              "nn.runs_at_load, nn.continues";
}
