//===- Turns.h - Functions of ranks that have several stages of a pipeline ----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_DIALECTS_RT_TURNS_H
#define INTARSIA_DIALECTS_RT_TURNS_H

#include "dialects/Rt/Rt.h"

namespace intarsia::rt {

/// On a function of a rank that has several stages of a pipeline: which of them it is, from 0 on, how many the rank
/// has, and in which order parts go through them, a StringAttr "interleaved" or "breadth-first". `rt.stages` is then
/// the number of ranks that a part goes through in each turn.
inline constexpr llvm::StringLiteral turnAttr = "rt.turn";
inline constexpr llvm::StringLiteral turnsAttr = "rt.turns";
inline constexpr llvm::StringLiteral orderAttr = "rt.order";

/// Returns what is behind a function's name in that of its part for a turn: nothing for the last one, which gives the
/// function's results.
inline std::string turnSuffix(int64_t turn, int64_t turns) {
  return turn + 1 == turns ? std::string() : ".turn" + std::to_string(turn);
}

/// Returns the turn that a function is, and how many its rank has: {0, 1} if it has one stage, or all layers.
inline std::pair<int64_t, int64_t> turnOf(mlir::Operation *function) {
  auto turn = function->getAttrOfType<mlir::IntegerAttr>(turnAttr);
  auto turns = function->getAttrOfType<mlir::IntegerAttr>(turnsAttr);
  return turn && turns ? std::pair(turn.getInt(), turns.getInt()) : std::pair<int64_t, int64_t>(0, 1);
}

/// Returns the name of the function of the model that a function of a rank is a part of.
inline llvm::StringRef wholeName(mlir::FunctionOpInterface function) {
  auto standsFor = function->getAttrOfType<mlir::StringAttr>(alternativeAttr);
  llvm::StringRef name = standsFor ? standsFor.getValue() : function.getName();
  auto [turn, turns] = turnOf(function);
  name.consume_back(turnSuffix(turn, turns));
  return name;
}

} // namespace intarsia::rt

#endif
