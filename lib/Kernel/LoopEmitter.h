//===- LoopEmitter.h - Index arithmetic and loops ---------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_KERNEL_LOOPEMITTER_H
#define INTARSIA_LIB_KERNEL_LOOPEMITTER_H

#include "lib/Kernel/Reductions.h"
#include "lib/Kernel/VectorInstructions.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/SmallVector.h"
#include <map>
#include <memory>
#include <type_traits>

namespace intarsia::kernel {

namespace callbacks {
/// Calls a callback that returns nothing or whether it succeeded.
template <typename Fn, typename... Arguments> llvm::LogicalResult call(Fn &fn, Arguments... arguments) {
  if constexpr (std::is_void_v<std::invoke_result_t<Fn, Arguments...>>)
    return fn(arguments...), llvm::success();
  else
    return fn(arguments...);
}
/// Returns what a callback of type `Result` makes its caller return.
template <typename Result, typename Emitted> Result outcome(Emitted emitted) {
  if constexpr (std::is_void_v<Result>)
    (void)emitted;
  else if constexpr (std::is_same_v<Result, Emitted>)
    return emitted;
  else
    return *emitted; // a callback that returns values cannot fail
}
} // namespace callbacks

/// Values, or none: an op that cannot be compiled stands in the way, and there is a message.
using Values = llvm::FailureOr<llvm::SmallVector<mlir::Value>>;

/// How the threads of a device share the elements of a row.
class RowLoops {
public:
  virtual ~RowLoops() = default;
  /// Emits LoopEmitter::vectorLoop() for a body that may fail.
  virtual llvm::LogicalResult
  emitVectorLoop(mlir::Value size, llvm::function_ref<llvm::LogicalResult(mlir::Value i, int64_t width)> body) = 0;
  /// Emits a loop like vectorLoop() that computes elements, which may fail, and stores them.
  virtual llvm::LogicalResult emitStoreLoop(
      mlir::Value size,
      llvm::function_ref<llvm::FailureOr<llvm::SmallVector<mlir::Value>>(mlir::Value i, int64_t width)> compute,
      llvm::function_ref<void(mlir::Value i, int64_t width, llvm::ArrayRef<mlir::Value> values)> store) = 0;
  /// Emits LoopEmitter::reduce() for elements that may fail, of several reductions side by side.
  virtual Values emitReductions(mlir::Value size, llvm::ArrayRef<Reduction> reductions,
                                llvm::function_ref<Values(mlir::Value i, int64_t width)> elements) = 0;
  /// Emits a loop that combines each element of [0, size), which may fail, with those before it, and stores what it
  /// gets.
  virtual llvm::LogicalResult
  emitPrefixes(mlir::Value size, const Prefixes &prefixes,
               llvm::function_ref<llvm::FailureOr<mlir::Value>(mlir::Value i, int64_t width)> element,
               llvm::function_ref<void(mlir::Value i, int64_t width, mlir::Value prefix)> store) = 0;
};

/// The function that is being emitted.
struct Code {
  VectorInstructions instructions;
  mlir::OpBuilder b;
  RowLoops *rowLoops = nullptr;
  /// The op before which sizes are computed; constants begin its block.
  mlir::Operation *prologueEnd = nullptr;
  std::map<int64_t, mlir::Value> constants;

  /// Elements of tensors already emitted, by tensor, indices and width: a level for each block around the insertion
  /// point.
  using MemoKey = std::pair<void *, std::vector<std::pair<void *, int64_t>>>;
  llvm::SmallVector<std::map<MemoKey, mlir::Value>> memo;
};

/// What all emitters of a kernel are written in: values of sizes and indices (i64, folded where they are constants),
/// vectors of constants, loops. A copy of an emitter emits into the same function.
class LoopEmitter {
public:
  LoopEmitter(const VectorInstructions &instructions, mlir::Location loc)
      : code(std::make_shared<Code>(Code{instructions, mlir::OpBuilder(loc.getContext())})), b(code->b), loc(loc) {}

protected:
  /// What a callback returns. One that may fail returns a LogicalResult or a FailureOr, and what calls it does too.
  template <typename Fn, typename... Arguments> using Outcome = std::invoke_result_t<Fn, Arguments...>;

  /// Creates an op where the function goes on.
  template <typename Op, typename... Arguments> Op make(Arguments &&...arguments) {
    return Op::create(b, loc, std::forward<Arguments>(arguments)...);
  }
  mlir::Value constant(int64_t value);
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, mlir::Value b);
  mlir::Value sub(mlir::Value a, mlir::Value b);
  mlir::Value div(mlir::Value a, mlir::Value b);
  mlir::Value rem(mlir::Value a, mlir::Value b);
  mlir::Value ceilDiv(mlir::Value a, mlir::Value b);
  mlir::Value min(mlir::Value a, mlir::Value b);
  mlir::Value max(mlir::Value a, mlir::Value b);
  mlir::Value less(mlir::Value a, mlir::Value b);
  mlir::Value equal(mlir::Value a, mlir::Value b);
  mlir::Value select(mlir::Value condition, mlir::Value yes, mlir::Value no);
  mlir::Value floatConstant(double value, mlir::Type type, int64_t width);
  mlir::Value splat(mlir::Value scalar, int64_t width);
  /// Returns i32.
  mlir::Value word(int64_t value);
  /// Returns i32 with the same value in each byte.
  mlir::Value bytesOf(int64_t each) { return word(int64_t(uint32_t(each) * 0x01010101u)); }
  mlir::Type vectorOf(mlir::Type element, int64_t width);
  /// Emits a loop around body(iv).
  template <typename BodyFn>
  Outcome<BodyFn, mlir::Value> forLoop(mlir::Value begin, mlir::Value end, mlir::Value step, BodyFn body);
  /// Emits a loop that carries values: body(iv, running) returns the next ones. Returns the last.
  template <typename BodyFn>
  Outcome<BodyFn, mlir::Value, mlir::ValueRange> forLoop(mlir::Value begin, mlir::Value end, mlir::Value step,
                                                         mlir::ValueRange inits, BodyFn body);
  template <typename Then> Outcome<Then> ifThen(mlir::Value condition, Then then);
  template <typename Then, typename Otherwise>
  Outcome<Then> ifThen(mlir::Value condition, Then then, Otherwise otherwise);
  /// Emits branches that return values of these types; returns those of the one that is taken.
  Values ifElse(mlir::Value condition, mlir::TypeRange types, llvm::function_ref<Values()> then,
                llvm::function_ref<Values()> otherwise);
  /// Calls body(i, width) for [0, size) in steps of whole vectors, then element by element.
  template <typename BodyFn> Outcome<BodyFn, mlir::Value, int64_t> vectorLoop(mlir::Value size, BodyFn body);
  /// Returns element(i, width) for i in [0, size), combined: several vector accumulators, then a scalar tail.
  template <typename Element>
  Outcome<Element, mlir::Value, int64_t> reduce(mlir::Value size, Combination kind, mlir::Type type, Element element);

  const std::shared_ptr<Code> code;
  mlir::OpBuilder &b;
  mlir::Location loc;

private:
  using Carried = llvm::SmallVector<mlir::Value>;
  llvm::FailureOr<Carried> emitLoop(mlir::Value begin, mlir::Value end, mlir::Value step, mlir::ValueRange inits,
                                    llvm::function_ref<llvm::FailureOr<Carried>(mlir::Value, mlir::ValueRange)> body);
  llvm::LogicalResult emitIf(mlir::Value condition, llvm::function_ref<llvm::LogicalResult()> then,
                             llvm::function_ref<llvm::LogicalResult()> otherwise);
};

template <typename BodyFn>
auto LoopEmitter::forLoop(mlir::Value begin, mlir::Value end, mlir::Value step, BodyFn body)
    -> Outcome<BodyFn, mlir::Value> {
  auto emitted = emitLoop(begin, end, step, {}, [&](mlir::Value iv, mlir::ValueRange) -> llvm::FailureOr<Carried> {
    if (failed(callbacks::call(body, iv)))
      return llvm::failure();
    return Carried();
  });
  return callbacks::outcome<Outcome<BodyFn, mlir::Value>>(llvm::LogicalResult(emitted));
}

template <typename BodyFn>
auto LoopEmitter::forLoop(mlir::Value begin, mlir::Value end, mlir::Value step, mlir::ValueRange inits, BodyFn body)
    -> Outcome<BodyFn, mlir::Value, mlir::ValueRange> {
  return callbacks::outcome<Outcome<BodyFn, mlir::Value, mlir::ValueRange>>(
      emitLoop(begin, end, step, inits, [&](mlir::Value iv, mlir::ValueRange running) -> llvm::FailureOr<Carried> {
        return body(iv, running);
      }));
}

template <typename Then> auto LoopEmitter::ifThen(mlir::Value condition, Then then) -> Outcome<Then> {
  return callbacks::outcome<Outcome<Then>>(emitIf(condition, [&] { return callbacks::call(then); }, nullptr));
}

template <typename Then, typename Otherwise>
auto LoopEmitter::ifThen(mlir::Value condition, Then then, Otherwise otherwise) -> Outcome<Then> {
  static_assert(std::is_same_v<Outcome<Then>, Outcome<Otherwise>>, "both branches may fail, or none");
  return callbacks::outcome<Outcome<Then>>(
      emitIf(condition, [&] { return callbacks::call(then); }, [&] { return callbacks::call(otherwise); }));
}

template <typename BodyFn>
auto LoopEmitter::vectorLoop(mlir::Value size, BodyFn body) -> Outcome<BodyFn, mlir::Value, int64_t> {
  return callbacks::outcome<Outcome<BodyFn, mlir::Value, int64_t>>(code->rowLoops->emitVectorLoop(
      size, [&](mlir::Value i, int64_t width) { return callbacks::call(body, i, width); }));
}

template <typename Element>
auto LoopEmitter::reduce(mlir::Value size, Combination kind, mlir::Type type, Element element)
    -> Outcome<Element, mlir::Value, int64_t> {
  Values values =
      code->rowLoops->emitReductions(size, Reduction{kind, type}, [&](mlir::Value i, int64_t width) -> Values {
        llvm::FailureOr<mlir::Value> value = element(i, width);
        if (failed(value))
          return llvm::failure();
        return Carried{*value};
      });
  llvm::FailureOr<mlir::Value> value = failed(values) ? llvm::FailureOr<mlir::Value>() : (*values)[0];
  return callbacks::outcome<Outcome<Element, mlir::Value, int64_t>>(value);
}

} // namespace intarsia::kernel

#endif
