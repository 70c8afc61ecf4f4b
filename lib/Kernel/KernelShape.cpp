//===- KernelShape.cpp - How the work of a kernel is cut up ------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Kernel/KernelShape.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace intarsia::kernel {

FailureOr<Attribute> statedShape(rt::KernelOp kernel, StringRef variant) {
  Attribute all = kernel->getAttr(shapesAttribute);
  if (!all)
    return Attribute();
  auto shapes = dyn_cast<DictionaryAttr>(all);
  if (!shapes)
    return kernel.emitOpError() << shapesAttribute << " is " << all
                                << ", must be a dictionary by the names of variants";
  return shapes.get(variant);
}

void setShape(rt::KernelOp kernel, StringRef variant, Attribute shape) {
  NamedAttrList shapes(kernel->getAttrOfType<DictionaryAttr>(shapesAttribute));
  shapes.set(variant, shape);
  kernel->setAttr(shapesAttribute, shapes.getDictionary(kernel.getContext()));
}

KernelShape::KernelShape(rt::KernelOp kernel, StringRef variant, Attribute stated)
    : kernel(kernel), variant(variant.str()) {
  if (auto figures = dyn_cast_if_present<DictionaryAttr>(stated))
    this->stated = figures;
  else if (stated)
    refuse("states " + text(stated) + ", must be a dictionary of figures");
}

std::string KernelShape::text(Attribute value) {
  std::string result;
  llvm::raw_string_ostream stream(result);
  value.print(stream, /*elideType=*/true);
  return result;
}

void KernelShape::refuse(const Twine &why) {
  if (problem.empty())
    problem = why.str();
}

Attribute KernelShape::take(StringRef name) { return stated.erase(name); }

void KernelShape::state(StringRef name, Attribute value) {
  if (Attribute other = take(name); other && other != value)
    refuse("states " + name + " = " + text(other) + ", which follows from the kernel and the processor: it is " +
           text(value));
  figures.set(name, value);
}

void KernelShape::state(StringRef name, int64_t value) {
  state(name, Builder(kernel.getContext()).getI64IntegerAttr(value));
}

void KernelShape::state(StringRef name, StringRef value) { state(name, StringAttr::get(kernel.getContext(), value)); }

int64_t KernelShape::chosen(StringRef name, int64_t figure, Range range) {
  if (Attribute other = take(name)) {
    auto number = dyn_cast<IntegerAttr>(other);
    bool isInteger = number && number.getType().isSignlessInteger(64);
    // What the emitter chooses is always right: sizes may end before a multiple does.
    if (isInteger && (number.getInt() == figure || (number.getInt() >= range.least && number.getInt() <= range.most &&
                                                    number.getInt() % range.multiple == 0)))
      figure = number.getInt();
    else
      refuse("states " + name + " = " + text(other) + ", must be an integer from " + Twine(range.least) + " to " +
             Twine(range.most) + (range.multiple == 1 ? "" : ", a multiple of " + Twine(range.multiple)));
  }
  figures.set(name, Builder(kernel.getContext()).getI64IntegerAttr(figure));
  return figure;
}

void KernelShape::part(StringRef name, function_ref<void(KernelShape &)> describe) {
  KernelShape part(kernel, variant, take(name));
  describe(part);
  DictionaryAttr described = part.dictionary();
  if (!part.problem.empty())
    refuse(part.problem + " (" + name + ")");
  figures.set(name, described);
}

/// Returns the figures; refuses those that are stated and that the shape does not have.
DictionaryAttr KernelShape::dictionary() {
  if (!stated.empty()) {
    std::string names;
    llvm::raw_string_ostream stream(names);
    llvm::interleaveComma(figures, stream, [&](NamedAttribute figure) { stream << figure.getName().getValue(); });
    refuse("states '" + stated.begin()->getName().getValue() + "', which the kernel does not have; it has " + names);
  }
  return figures.getDictionary(kernel.getContext());
}

FailureOr<DictionaryAttr> KernelShape::finish() {
  DictionaryAttr described = dictionary();
  if (!problem.empty())
    return kernel.emitOpError() << shapesAttribute << " of " << variant << " " << problem;
  return described;
}

} // namespace intarsia::kernel
