//===- Conv.cpp - Convolutions ------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/Ops/CallChecks.h"
#include "lib/Import/Onnx/Ops/QuantizedProducts.h"
#include "lib/Import/Onnx/Ops/Scalars.h"
#include "lib/Import/Onnx/Ops/Windowed.h"

using namespace mlir;

namespace intarsia::onnx {

/// Refuses pads of a node that are not those of its mode; zeros are none.
static void checkMode(NodeContext &node, llvm::StringRef mode, llvm::ArrayRef<int64_t> pads, size_t dimension,
                      int64_t low, int64_t high) {
  int64_t before = pads[dimension], after = pads[pads.size() / 2 + dimension];
  if (mode != "NOTSET" && (before != 0 || after != 0) && (before != low || after != high))
    node.refuse("attribute 'pads' has " + llvm::Twine(before) + " and " + llvm::Twine(after) + " for dimension " +
                llvm::Twine(dimension + 2) + ", where 'auto_pad' " + mode + " means " + llvm::Twine(low) + " and " +
                llvm::Twine(high));
}

std::optional<llvm::SmallVector<int64_t>> numbersOf(NodeContext &node, llvm::StringRef name, size_t count,
                                                    int64_t byDefault, int64_t least) {
  auto given = node.integers(name).value_or(llvm::SmallVector<int64_t>(count, byDefault));
  if (given.size() != count || llvm::any_of(given, [&](int64_t number) { return number < least || isLong(number); }))
    node.refuse("attribute '" + name + "' must have " + llvm::Twine(count) + " numbers of at least " +
                llvm::Twine(least) + " and at most 32 bits");
  return node.isRefused() ? std::nullopt : std::optional(given);
}

std::optional<importer::Windows> windowsOf(NodeContext &node, llvm::ArrayRef<int64_t> window, const Shape &spatial) {
  importer::Windows windows;
  size_t rank = window.size();
  auto entries = [&](llvm::StringRef name, size_t count, int64_t byDefault) {
    auto given = node.integers(name);
    if (given && given->size() != count)
      node.refuse("attribute '" + name + "' has " + llvm::Twine(given->size()) + " numbers, must have " +
                  llvm::Twine(count));
    return given && given->size() == count ? *given : llvm::SmallVector<int64_t>(count, byDefault);
  };
  windows.window.assign(window.begin(), window.end());
  windows.strides = entries("strides", rank, 1);
  windows.dilations = entries("dilations", rank, 1);
  llvm::SmallVector<int64_t> pads = entries("pads", 2 * rank, 0);
  auto isBelowOne = [](int64_t number) { return number < 1; };
  if (llvm::any_of(windows.strides, isBelowOne) || llvm::any_of(windows.dilations, isBelowOne) ||
      llvm::any_of(window, isBelowOne))
    node.refuse("a stride, a dilation or a size of the window is below 1");
  if (llvm::any_of(pads, [](int64_t number) { return number < 0; }))
    node.refuse("attribute 'pads' has a negative number");
  for (llvm::ArrayRef<int64_t> numbers : {window, llvm::ArrayRef<int64_t>(windows.strides),
                                          llvm::ArrayRef<int64_t>(windows.dilations), llvm::ArrayRef<int64_t>(pads)})
    if (llvm::any_of(numbers, isLong))
      node.refuse("a stride, a dilation, a pad or a size of the window is of more than 32 bits");
  llvm::StringRef mode = node.text("auto_pad", "NOTSET");
  if (node.isRefused())
    return std::nullopt;
  for (size_t dimension = 0; dimension < rank; ++dimension) {
    int64_t low = pads[dimension], high = pads[rank + dimension];
    if (mode == "VALID") {
      low = high = 0;
    } else if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
      // So many that there is a window for each stride.
      int64_t stride = windows.strides[dimension];
      int64_t extent = (window[dimension] - 1) * windows.dilations[dimension] + 1, needed = extent - 1;
      if (spatial[dimension].isDynamic() && stride != 1) {
        node.refuse("attribute 'auto_pad' is '" + mode + "', whose pads depend on sizes of the call");
        return std::nullopt;
      }
      if (!spatial[dimension].isDynamic()) {
        int64_t size = spatial[dimension].value, count = llvm::divideCeil(size, stride);
        needed = std::max<int64_t>(0, (count - 1) * stride + extent - size);
      }
      low = mode == "SAME_UPPER" ? needed / 2 : needed - needed / 2;
      high = needed - low;
    } else if (mode != "NOTSET") {
      node.refuse("attribute 'auto_pad' is '" + mode + "', must be NOTSET, VALID, SAME_UPPER or SAME_LOWER");
      return std::nullopt;
    }
    checkMode(node, mode, pads, dimension, low, high);
    windows.padsLow.push_back(low);
    windows.padsHigh.push_back(high);
  }
  return node.isRefused() ? std::nullopt : std::optional(windows);
}

namespace {

/// Reads what both kinds of convolutions have in common: images [batch, channels, spatial…] and a weight.
struct Convolution {
  Value images, weight, bias;
  Shape spatial;
  llvm::SmallVector<int64_t> window;
  int64_t groups = 1;
  bool isOfCall = false; ///< the call decides numbers of channels, or sizes of windows
  Shape windowSizes;
  bool isWindowKnown = true; ///< else `window` has ones
};

std::optional<Convolution> read(NodeContext &node) {
  Convolution conv{node.tensor(0), node.tensor(1), node.has(2) ? node.tensor(2) : Value(), {}, {}};
  if (!node.isComputed(0) || !node.areOneType({0, 1, 2}))
    return std::nullopt;
  Shape images = node.graph.shapeOf(node.at, conv.images), weight = node.graph.shapeOf(node.at, conv.weight);
  if (images.size() < 3 || images.size() > 5 || weight.size() != images.size()) {
    node.refuse("images have " + llvm::Twine(images.size()) + " dimensions and the weight " +
                llvm::Twine(weight.size()) + "; both need as many, 3 to 5");
    return std::nullopt;
  }
  if (llvm::any_of(weight, [](const Size &size) { return !size.isDynamic() && size.value < 1; })) {
    node.refuse("the weight has no elements");
    return std::nullopt;
  }
  conv.spatial.assign(images.begin() + 2, images.end());
  auto given = node.integers("kernel_shape");
  for (auto [number, size] : llvm::enumerate(llvm::MutableArrayRef(weight).drop_front(2))) {
    // Windows of another size than the node says end a call with an error.
    if (size.isDynamic() && given && given->size() == images.size() - 2)
      size = (*given)[number];
    if (!size.isDynamic() && (size.value < 1 || isLong(size.value))) {
      node.refuse("attribute 'kernel_shape' has the size " + llvm::Twine(size.value));
      return std::nullopt;
    }
    conv.isWindowKnown &= !size.isDynamic();
    conv.windowSizes.push_back(size);
    conv.window.push_back(size.isDynamic() ? 1 : size.value);
  }
  if (llvm::StringRef mode = node.text("auto_pad", "NOTSET");
      !conv.isWindowKnown && (mode.starts_with("SAME") || node.hasAttribute("output_shape")))
    node.refuse("pads depend on the sizes of the windows, which must be known to the compiler");
  if (!node.isRefused())
    conv.weight = node.reshaped(conv.weight, weight);
  conv.isOfCall = !conv.isWindowKnown || images[1].isDynamic() || weight[0].isDynamic() || weight[1].isDynamic();
  if (given && conv.isWindowKnown && llvm::ArrayRef(*given) != llvm::ArrayRef(conv.window))
    node.refuse("attribute 'kernel_shape' is not the shape of the weight");
  conv.groups = node.integer("group", 1);
  if (conv.groups < 1 || isLong(conv.groups) || (!images[1].isDynamic() && images[1].value % conv.groups != 0))
    node.refuse("attribute 'group' is " + llvm::Twine(conv.groups) + ", of " +
                (images[1].isDynamic() ? "any number of" : std::to_string(images[1].value)) + " channels");
  if (conv.isOfCall && conv.bias && tensorType(conv.bias).getRank() != 1)
    node.refuse("the bias has no element for each channel of the result");
  if (node.isRefused())
    return std::nullopt;
  return conv;
}

/// Sets the result of a convolution of channels that the call decides.
void resultOfCall(NodeContext &node, const Convolution &conv, const importer::Windows &windows) {
  using importer::SizeOp;
  Shape positions;
  for (auto [number, size] : llvm::enumerate(conv.spatial)) {
    int64_t stride = windows.strides[number], pads = windows.padsLow[number] + windows.padsHigh[number];
    // From the first element of a window to the last.
    Size reach = node.compute(SizeOp::Multiply, node.compute(SizeOp::Subtract, conv.windowSizes[number], 1),
                              windows.dilations[number]);
    if (windows.isTransposed) {
      Size last = node.compute(SizeOp::Multiply, node.compute(SizeOp::Subtract, size, 1), stride);
      Size beyond = node.compute(SizeOp::Add, reach, 1 - pads + windows.outputPads[number]);
      positions.push_back(node.compute(SizeOp::Add, last, beyond));
    } else {
      NamedSize image{size, ("dimension " + llvm::Twine(number + 2) + " of input 'X'").str()};
      if (!requireAtLeast(node, image, {node.compute(SizeOp::Add, reach, 1 - pads), "the extent of a window"}))
        return;
      Size room = node.compute(SizeOp::Subtract, node.compute(SizeOp::Add, size, pads - 1), reach);
      positions.push_back(node.compute(SizeOp::Add, node.compute(SizeOp::Divide, room, stride), 1));
    }
  }
  Value whole = convInCall(node, conv.images, conv.weight, conv.groups, windows, positions);
  if (conv.bias) {
    Shape shape(positions.size() + 2, 1);
    shape[1] = node.graph.shapeOf(node.at, conv.bias)[0];
    whole = combine(node, {whole, node.reshaped(conv.bias, shape)}, node.typeOf(0), [](Scalars &s, Value x, Value y) {
      return arith::AddFOp::create(s.builder, s.at, x, y).getResult();
    });
  }
  node.result(whole);
}

void result(NodeContext &node, Value images) { node.result(node.ir().channelsFirst(node.at, images)); }

void conv(NodeContext &node) {
  std::optional<Convolution> conv = read(node);
  if (!conv)
    return;
  std::optional<importer::Windows> windows = windowsOf(node, conv->window, conv->spatial);
  if (!windows)
    return;
  windows->groups = conv->groups;
  if (conv->isOfCall)
    return resultOfCall(node, *conv, *windows);
  auto weight = tensorType(conv->weight);
  int64_t channels = tensorType(conv->images).getDimSize(1);
  if (weight.getDimSize(1) * conv->groups != channels || weight.getDimSize(0) % conv->groups != 0)
    return node.refuse("a weight of " + llvm::Twine(weight.getDimSize(1)) + " channels in " +
                       llvm::Twine(conv->groups) + " groups does not go with images of " + llvm::Twine(channels));
  if (conv->bias &&
      (tensorType(conv->bias).getRank() != 1 || tensorType(conv->bias).getDimSize(0) != weight.getDimSize(0)))
    return node.refuse("the bias has no element for each channel of the result");
  for (auto [number, size] : llvm::enumerate(conv->spatial))
    if (!size.isDynamic() && size.value + windows->padsLow[number] + windows->padsHigh[number] <
                                 (conv->window[number] - 1) * windows->dilations[number] + 1)
      return node.refuse("images of size " + llvm::Twine(size.value) + " are smaller than a window");
  if (Value product = quantizedConv(node, 0, 1, *windows)) {
    if (conv->bias)
      product = combine(node, {product, conv->bias}, DataType::Float, [](Scalars &s, Value x, Value y) -> Value {
        return arith::AddFOp::create(s.builder, s.at, x, y);
      });
    return result(node, product);
  }
  Value last = node.ir().channelsLast(node.at, conv->images);
  result(node, node.ir().conv(node.at, last, node.ir().convWeight(node.at, conv->weight), conv->bias, *windows));
}

/// The weight of a transposed convolution in groups, [in, out / groups, window…], as [out, in / groups, window…]: the
/// rows of each group are turned by themselves.
Value turnedGroups(NodeContext &node, Value weight, int64_t groups) {
  llvm::SmallVector<int64_t> shape(tensorType(weight).getShape());
  llvm::SmallVector<int64_t> split{groups, shape[0] / groups, shape[1]}, order{0, 2, 1};
  split.append(shape.begin() + 2, shape.end());
  for (int64_t dimension = 3; dimension < int64_t(split.size()); ++dimension)
    order.push_back(dimension);
  Value turned = node.ir().permute(node.at, node.ir().reshape(node.at, weight, split), order);
  llvm::SmallVector<int64_t> joined{groups * shape[1], shape[0] / groups};
  joined.append(shape.begin() + 2, shape.end());
  return node.ir().convWeight(node.at, node.ir().reshape(node.at, turned, joined));
}

void convTranspose(NodeContext &node) {
  std::optional<Convolution> conv = read(node);
  if (!conv)
    return;
  size_t rank = conv->window.size();
  auto weight = tensorType(conv->weight);
  if (!conv->isOfCall && weight.getDimSize(0) != tensorType(conv->images).getDimSize(1))
    return node.refuse("the weight is of " + llvm::Twine(weight.getDimSize(0)) + " channels, images have " +
                       llvm::Twine(tensorType(conv->images).getDimSize(1)));
  if (!conv->isOfCall && conv->bias &&
      (tensorType(conv->bias).getRank() != 1 ||
       tensorType(conv->bias).getDimSize(0) != weight.getDimSize(1) * conv->groups))
    return node.refuse("the bias has no element for each channel of the result");
  // Pads that a mode or a size of the result implies are not those of a convolution.
  llvm::StringRef mode = node.text("auto_pad", "NOTSET");
  auto wanted = node.integers("output_shape");
  llvm::SmallVector<int64_t> beyond = node.integers("output_padding").value_or(llvm::SmallVector<int64_t>(rank, 0));
  llvm::SmallVector<int64_t> pads = node.integers("pads").value_or(llvm::SmallVector<int64_t>(2 * rank, 0));
  importer::Windows windows;
  windows.isTransposed = true;
  windows.groups = conv->groups;
  windows.window.assign(conv->window.begin(), conv->window.end());
  windows.strides = node.integers("strides").value_or(llvm::SmallVector<int64_t>(rank, 1));
  windows.dilations = node.integers("dilations").value_or(llvm::SmallVector<int64_t>(rank, 1));
  if (mode != "NOTSET" && mode != "VALID" && mode != "SAME_UPPER" && mode != "SAME_LOWER")
    return node.refuse("attribute 'auto_pad' is '" + mode + "', must be NOTSET, VALID, SAME_UPPER or SAME_LOWER");
  for (const auto &[name, entries, count] :
       {std::tuple(llvm::StringRef("output_padding"), beyond.size(), rank),
        {"pads", pads.size(), 2 * rank},
        {"strides", windows.strides.size(), rank},
        {"dilations", windows.dilations.size(), rank},
        {"output_shape", wanted && wanted->size() != rank + 2 ? wanted->size() : rank, rank}})
    if (entries != count)
      node.refuse("attribute '" + name + "' has " + llvm::Twine(entries) + " numbers, must have " + llvm::Twine(count));
  if (node.isRefused())
    return;
  for (size_t dimension = 0; dimension < rank; ++dimension) {
    int64_t stride = windows.strides[dimension], dilation = windows.dilations[dimension];
    for (int64_t number : {stride, dilation, pads[dimension], pads[rank + dimension], beyond[dimension],
                           conv->window[dimension], wanted ? (*wanted)[wanted->size() - rank + dimension] : 0,
                           conv->spatial[dimension].isDynamic() ? 0 : conv->spatial[dimension].value})
      if (isLong(number))
        return node.refuse("a size, a stride, a dilation or a pad is of more than 32 bits");
    if (stride < 1 || dilation < 1 || pads[dimension] < 0 || pads[rank + dimension] < 0 || beyond[dimension] < 0)
      return node.refuse("a stride, a dilation or a pad is too small");
    int64_t low = pads[dimension], high = pads[rank + dimension];
    int64_t extent = (conv->window[dimension] - 1) * dilation + 1;
    bool isSame = mode == "SAME_UPPER" || mode == "SAME_LOWER";
    if (wanted || isSame) {
      if (conv->spatial[dimension].isDynamic() && wanted)
        return node.refuse("attribute 'output_shape' implies pads that depend on the size of dimension " +
                           llvm::Twine(dimension + 2) + ", which the call decides");
      // All of it is `total` larger than what is wanted.
      int64_t size = conv->spatial[dimension].value;
      int64_t total =
          wanted ? stride * (size - 1) + beyond[dimension] + extent - (*wanted)[wanted->size() - rank + dimension]
                 : extent + beyond[dimension] - stride;
      // What is smaller than that is longer at its end, as in ONNX Runtime and the standard's evaluator.
      low = total < 0 ? 0 : mode == "SAME_UPPER" ? total / 2 : total - total / 2;
      high = total - low;
    } else if (mode == "VALID") {
      low = high = 0;
    }
    if (!wanted)
      checkMode(node, mode, pads, dimension, low, high);
    // What is beyond the end is a pad that is not taken off.
    if (high < 0) {
      beyond[dimension] += -high;
      high = 0;
    }
    windows.padsLow.push_back(low);
    windows.padsHigh.push_back(high);
    int64_t size = conv->spatial[dimension].value;
    if (beyond[dimension] >= std::max(stride, dilation))
      return node.refuse("'output_padding' is " + llvm::Twine(beyond[dimension]) +
                         ", must be below the stride or the dilation");
    if (conv->isWindowKnown && !conv->spatial[dimension].isDynamic() &&
        (size - 1) * stride - low - high + extent + beyond[dimension] < 1)
      return node.refuse("pads leave nothing of the result");
  }
  windows.outputPads.assign(beyond.begin(), beyond.end());
  if (node.isRefused())
    return;
  if (conv->isOfCall)
    return resultOfCall(node, *conv, windows);
  Value matrix = conv->groups == 1 ? node.ir().convWeight(node.at, conv->weight, /*isTransposed=*/true)
                                   : turnedGroups(node, conv->weight, conv->groups);
  Value last = node.ir().channelsLast(node.at, conv->images);
  result(node, node.ir().conv(node.at, last, matrix, conv->bias, windows));
}

} // namespace

llvm::ArrayRef<OpRow> convOps() {
  static const OpRow rows[] = {
      {"", "Conv", 1, conv, Takes::Numbers, /*inSingle=*/true},
      {"", "ConvTranspose", 1, convTranspose, Takes::Numbers, /*inSingle=*/true},
  };
  return rows;
}

} // namespace intarsia::onnx
