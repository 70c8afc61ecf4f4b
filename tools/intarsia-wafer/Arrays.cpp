//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "Arrays.h"

#include "lib/Formats/FloatFormats.h"
#include "lib/Formats/Npy.h"
#include "lib/Support/File.h"
#include "llvm/ADT/STLExtras.h"
#include <cstring>

namespace intarsia {
namespace {

llvm::Error toError(const Status &status) { return llvm::createStringError(status.message()); }

llvm::Expected<wafer::Matrix> readMatrix(const std::string &file) {
  std::unique_ptr<MappedFile> mapped;
  if (Status status = MappedFile::open(file, mapped); !status.ok())
    return toError(status);
  NpyHeader header;
  if (Status status = parseNpy(mapped->data(), mapped->size(), file, header); !status.ok())
    return toError(status);
  if (header.shape.size() != 2 || header.fortranOrder || (header.dtype != ITX_F32 && header.dtype != ITX_F16))
    return llvm::createStringError(file + ": is " + shapeText(header.shape) +
                                   ", must be a row-major matrix of float16 or float32");
  wafer::Matrix matrix{header.shape[0], header.shape[1], std::vector<float>(size_t(header.shape[0] * header.shape[1]))};
  const uint8_t *data = mapped->data() + header.dataOffset;
  if (header.dtype == ITX_F32)
    std::memcpy(matrix.values.data(), data, matrix.values.size() * 4);
  else
    for (auto [index, value] : llvm::enumerate(matrix.values)) {
      uint16_t pattern;
      std::memcpy(&pattern, data + 2 * index, 2);
      value = decodeF16(pattern);
    }
  return matrix;
}

} // namespace

llvm::Expected<std::vector<wafer::Matrix>> readInputs(const wafer::Program &program,
                                                      llvm::ArrayRef<std::string> files) {
  std::vector<wafer::Matrix> matrices;
  for (const std::string &file : files) {
    llvm::Expected<wafer::Matrix> matrix = readMatrix(file);
    if (!matrix)
      return matrix.takeError();
    matrices.push_back(std::move(*matrix));
  }
  for (const wafer::Binding &input : program.inputs) {
    if (size_t(input.argument) >= matrices.size())
      return llvm::createStringError("program @" + program.name + " has an input " + llvm::Twine(input.argument) +
                                     ", but there are " + llvm::Twine(matrices.size()) + " of --input");
    const wafer::Matrix &matrix = matrices[size_t(input.argument)];
    if (matrix.rows != input.rows || matrix.columns != input.columns)
      return llvm::createStringError(files[size_t(input.argument)] + ": is " + llvm::Twine(matrix.rows) + "x" +
                                     llvm::Twine(matrix.columns) + ", input " + llvm::Twine(input.argument) +
                                     " of program @" + program.name + " is " + llvm::Twine(input.rows) + "x" +
                                     llvm::Twine(input.columns));
  }
  return matrices;
}

llvm::Error writeOutput(const wafer::Matrix &matrix, const std::string &path) {
  std::unique_ptr<OutputFile> file;
  std::string header = npyHeaderText(ITX_F32, {matrix.rows, matrix.columns});
  if (Status status = OutputFile::create(path, file); !status.ok())
    return toError(status);
  if (Status status = file->write(header.data(), header.size()); !status.ok())
    return toError(status);
  if (Status status = file->write(matrix.values.data(), matrix.values.size() * 4); !status.ok())
    return toError(status);
  if (Status status = file->close(); !status.ok())
    return toError(status);
  return llvm::Error::success();
}

} // namespace intarsia
