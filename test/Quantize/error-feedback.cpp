//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// intarsia-error-feedback ELEMENT SCALE BLOCK FEATURES THREADS: reads second moments [FEATURES, FEATURES] and then rows
// of f32 from standard input, quantizes the rows with error feedback, and writes to standard output: the tensor scale
// as f32; quantized values, scales and decoded values, each for all rows; the error of the outputs as f64. Python
// compares them with GPTQ as its paper has it.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Quantize/ErrorFeedback.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/StringExtras.h"
#include <cstdio>

using namespace intarsia;

static bool write(const void *bytes, size_t size) { return std::fwrite(bytes, 1, size, stdout) == size; }

int main(int argc, char **argv) {
  std::optional<nn::BlockElement> element = argc == 6 ? nn::symbolizeBlockElement(argv[1]) : std::nullopt;
  std::optional<nn::BlockScale> scale = argc == 6 ? nn::symbolizeBlockScale(argv[2]) : std::nullopt;
  int64_t block = 0, features = 0, threads = 0;
  if (!element || !scale || !llvm::to_integer(argv[3], block) || !llvm::to_integer(argv[4], features) ||
      !llvm::to_integer(argv[5], threads) || block < 0 || features <= 0 || threads <= 0) {
    std::fprintf(stderr, "usage: intarsia-error-feedback ELEMENT SCALE BLOCK FEATURES THREADS <input >results\n");
    return 2;
  }
  std::vector<float> input, buffer(1 << 16);
  while (size_t count = std::fread(buffer.data(), sizeof(float), buffer.size(), stdin))
    input.insert(input.end(), buffer.begin(), buffer.begin() + count);
  llvm::ArrayRef<float> moments = llvm::ArrayRef(input).take_front(features * features);
  llvm::ArrayRef<float> weights = llvm::ArrayRef(input).drop_front(features * features);

  llvm::DefaultThreadPool pool(llvm::hardware_concurrency(threads));
  llvm::Expected<InputMoments> inputs = InputMoments::create(moments, features, pool);
  if (!inputs) {
    std::fprintf(stderr, "%s\n", llvm::toString(inputs.takeError()).c_str());
    return 1;
  }
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<nn::NnDialect>();
  auto format = nn::BlockFormatAttr::get(&context, *element, *scale, block, /*axis=*/1);
  BlockCodec codec(format, haveZeroPoints(format));
  ErrorFeedback feedback(format, *inputs);
  size_t width = features, rows = weights.size() / width, scaleBytes = codec.blockCount(width) * codec.scaleBytes();
  float tensorScale = BlockCodec::tensorScaleOf(BlockCodec::largestMagnitude(weights));
  std::vector<uint8_t> quantized(rows * width), scales(rows * scaleBytes);
  size_t zeroCount = codec.zeroPointCount(width);
  std::vector<uint8_t> zeroPoints(rows * zeroCount);
  std::vector<float> decoded(rows * width);
  double error = 0;
  for (size_t first = 0; first < rows; first += ErrorFeedback::kMostRows) {
    size_t count = std::min(ErrorFeedback::kMostRows, rows - first);
    auto part = [&](auto &all, size_t size) { return llvm::MutableArrayRef(all).slice(first * size, count * size); };
    llvm::ArrayRef<float> here = weights.slice(first * width, count * width);
    if (std::optional<size_t> bad = feedback.encodeRows(here, count, tensorScale, part(quantized, width),
                                                        part(scales, scaleBytes), part(zeroPoints, zeroCount))) {
      std::fprintf(stderr, "value %zu of row %zu is %g\n", *bad % width, first + *bad / width, double(here[*bad]));
      return 1;
    }
    for (size_t row = first; row < first + count; ++row)
      codec.decodeRow(llvm::ArrayRef(quantized).slice(row * width, width),
                      llvm::ArrayRef(scales).slice(row * scaleBytes, scaleBytes),
                      llvm::ArrayRef(zeroPoints).slice(row * zeroCount, zeroCount), tensorScale,
                      llvm::MutableArrayRef(decoded).slice(row * width, width));
    error += feedback.outputError(here, part(decoded, width), count);
  }
  bool isWritten = write(&tensorScale, sizeof(float)) && write(quantized.data(), quantized.size()) &&
                   write(scales.data(), scales.size()) && write(zeroPoints.data(), zeroPoints.size()) &&
                   write(decoded.data(), decoded.size() * sizeof(float)) && write(&error, sizeof(error)) &&
                   std::fflush(stdout) == 0;
  return isWritten ? 0 : 1;
}
