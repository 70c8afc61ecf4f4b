//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Parsing, printing and plausibility of figures that people write, common to the dialects of plans, and suggestions for
// unknown names.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_DIALECTS_FLEET_FIGURES_H
#define INTARSIA_DIALECTS_FLEET_FIGURES_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"

namespace intarsia {

/// Plausible range of a figure, to find mistaken units.
struct FigureRange {
  double low, high;       ///< both included
  const char *hint;       ///< the likely mistake: "did you give seconds?"
  bool mayBeZero = false; ///< 0 is valid although it is below `low`
};

using EmitError = llvm::function_ref<mlir::InFlightDiagnostic()>;

/// Reads `400`, `-0.5` or `1.0e-6` as an f64.
mlir::ParseResult parseFigure(mlir::AsmParser &parser, mlir::FloatAttr &figure);
/// Prints the shortest text that parseFigure reads as the same number: `400`, not `4.000000e+02`.
void printFigure(llvm::raw_ostream &out, double figure);
std::string figureText(double figure);

/// A figure with its name, as in `years = 4`.
struct NamedFigure {
  llvm::StringRef name;
  mlir::FloatAttr *figure;
};
/// Reads `<name = number, …>`; a name that is not in the list, or is there twice, is an error.
mlir::ParseResult parseFigures(mlir::AsmParser &parser, llvm::ArrayRef<NamedFigure> figures);
/// Prints `name = number, …` of the figures that are set.
void printFigures(llvm::raw_ostream &out, llvm::ArrayRef<std::pair<llvm::StringRef, mlir::FloatAttr>> figures);

/// Verifies that a figure is not negative and in its range. A null figure is valid.
mlir::LogicalResult verifyFigure(EmitError emitError, const llvm::Twine &what, mlir::FloatAttr figure,
                                 const FigureRange &range);
mlir::LogicalResult verifyFigure(EmitError emitError, const llvm::Twine &what, double figure, const FigureRange &range);

/// Returns "; did you mean 'fast'?", "; known are 'fast', 'cheap'", or "; there are none".
std::string nearestNames(llvm::StringRef name, llvm::ArrayRef<llvm::StringRef> known);

/// Returns the op that a symbol names, of the wanted kind. Returns null, with an error that lists the nearest names, if
/// there is none.
template <typename Op>
Op lookupNamed(mlir::Operation *user, mlir::SymbolRefAttr symbol, mlir::SymbolTableCollection &tables,
               llvm::StringRef kind) {
  mlir::Operation *found = tables.lookupNearestSymbolFrom(user, symbol);
  if (auto op = llvm::dyn_cast_if_present<Op>(found))
    return op;
  if (found) {
    user->emitOpError() << "names " << symbol << ", which is '" << found->getName() << "', must be " << kind;
    return nullptr;
  }
  // The symbol table of the last part of the name.
  mlir::Operation *table = mlir::SymbolTable::getNearestSymbolTable(user->getParentOp());
  if (auto nested = symbol.getNestedReferences(); !nested.empty() && table) {
    mlir::Operation *outer = tables.lookupNearestSymbolFrom(user, symbol.getRootReference());
    if (!outer) {
      user->emitOpError() << "names " << symbol << ", but there is no '" << symbol.getRootReference().getValue() << "'";
      return nullptr;
    }
    table = outer;
  }
  llvm::SmallVector<llvm::StringRef> known;
  if (table)
    for (mlir::Region &region : table->getRegions())
      for (Op op : region.getOps<Op>())
        known.push_back(op.getSymName());
  user->emitOpError() << "names " << symbol << ", but there is no such " << kind
                      << nearestNames(symbol.getLeafReference().getValue(), known);
  return nullptr;
}

} // namespace intarsia

#endif
