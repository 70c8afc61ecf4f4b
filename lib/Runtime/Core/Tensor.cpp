//===- Tensor.cpp - Arrays that go into and come out of calls -----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Core/Tensor.h"

#include "lib/Formats/Npy.h"
#include "lib/Runtime/Core/Copies.h"
#include "lib/Runtime/Core/Device.h"
#include "lib/Support/File.h"

#include <cstring>

namespace intarsia::runtime {

Status requireHostMemory(const Tensor &tensor, const char *purpose) {
  if (!tensor.device)
    return Status::success();
  return error(ITX_INVALID_ARGUMENT,
               "the tensor is in the memory of the device '%s' and cannot be %s: only memory of the host can, so copy "
               "it there first",
               tensor.device->name(), purpose);
}

Status makeTensor(itx_dtype dtype, const int64_t *shape, size_t rank, Tensor &tensor) {
  if (rank > ITX_MAX_RANK)
    return error(ITX_INVALID_ARGUMENT, "rank %zu is more than %d", rank, ITX_MAX_RANK);
  ITX_RETURN_IF_ERROR(tensorBytes(dtype, shape, rank, tensor.bytes));
  tensor.dtype = dtype;
  tensor.shape.assign(shape, shape + rank);
  tensor.data = allocateShared(tensor.bytes);
  if (!tensor.data)
    return error(ITX_OUT_OF_MEMORY, "no memory for a tensor of %llu bytes", (unsigned long long)tensor.bytes);
  return Status::success();
}

Status makeTensorOn(Device *device, itx_dtype dtype, const int64_t *shape, size_t rank, Tensor &tensor) {
  if (!device)
    return makeTensor(dtype, shape, rank, tensor);
  if (rank > ITX_MAX_RANK)
    return error(ITX_INVALID_ARGUMENT, "rank %zu is more than %d", rank, ITX_MAX_RANK);
  ITX_RETURN_IF_ERROR(tensorBytes(dtype, shape, rank, tensor.bytes));
  auto buffer = std::make_shared<Buffer>();
  if (Status status = Buffer::make(*device, tensor.bytes, *buffer); !status.ok())
    return error(status.code(), "no memory on the device '%s' for a tensor of %llu bytes: %s", device->name(),
                 (unsigned long long)tensor.bytes, status.message().c_str());
  tensor.dtype = dtype;
  tensor.shape.assign(shape, shape + rank);
  tensor.device = device;
  tensor.data = std::shared_ptr<void>(buffer, buffer->address());
  return Status::success();
}

Status copyTensor(const Tensor &from, Device *device, Tensor &tensor) {
  Tensor copy;
  ITX_RETURN_IF_ERROR(makeTensorOn(device, from.dtype, from.shape.data(), from.shape.size(), copy));
  ITX_RETURN_IF_ERROR(copyMemory({device, copy.data.get()}, {from.device, from.data.get()}, from.bytes));
  tensor = std::move(copy);
  return Status::success();
}

Device *ownMemoryOf(Device &device) { return device.usesHostMemory() ? nullptr : &device; }

Status loadNpy(const std::string &path, Tensor &tensor) {
  std::unique_ptr<MappedFile> file;
  ITX_RETURN_IF_ERROR(MappedFile::open(path, file));
  NpyHeader header;
  ITX_RETURN_IF_ERROR(parseNpy(file->data(), file->size(), path, header));
  ITX_RETURN_IF_ERROR(makeTensor(header.dtype, header.shape.data(), header.shape.size(), tensor));
  const uint8_t *from = file->data() + header.dataOffset;
  if (tensor.bytes == 0)
    return Status::success();
  if (header.fortranOrder && header.shape.size() > 1)
    fortranToRowMajor(header, from, static_cast<uint8_t *>(tensor.data.get()));
  else
    std::memcpy(tensor.data.get(), from, tensor.bytes);
  return Status::success();
}

Status writeNpy(const Tensor &tensor, OutputFile &file) {
  ITX_RETURN_IF_ERROR(requireHostMemory(tensor, "saved"));
  std::string header = npyHeaderText(tensor.dtype, tensor.shape);
  ITX_RETURN_IF_ERROR(file.write(header.data(), header.size()));
  return file.write(tensor.data.get(), tensor.bytes);
}

Status saveNpy(const Tensor &tensor, const std::string &path) {
  std::unique_ptr<AtomicFile> file;
  ITX_RETURN_IF_ERROR(AtomicFile::create(path, file));
  ITX_RETURN_IF_ERROR(writeNpy(tensor, *file));
  return file->commit();
}

} // namespace intarsia::runtime
