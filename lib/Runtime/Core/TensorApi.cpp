//===- TensorApi.cpp - The C interface of tensors -----------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Formats/DLPack.h"
#include "lib/Runtime/Core/Api.h"
#include "lib/Runtime/Core/Copies.h"
#include "lib/Runtime/Core/Device.h"
#include "lib/Runtime/Core/Pending.h"
#include "lib/Runtime/Core/Tensor.h"

#include "intarsia/module_abi.h"

#include <cstring>

using namespace intarsia;
using namespace intarsia::runtime;

/// The memory of empty tensors: buffers are never null.
alignas(ITX_BUFFER_ALIGNMENT) static char nothing[ITX_BUFFER_ALIGNMENT];

static itx_tensor *handleOf(Tensor tensor) { return new itx_tensor(std::move(tensor)); }

const char *itx_dtype_name(itx_dtype dtype) {
  const DtypeInfo *info = dtypeInfo(dtype);
  return info ? info->name : nullptr;
}

size_t itx_dtype_bytes(itx_dtype dtype) {
  const DtypeInfo *info = dtypeInfo(dtype);
  return info ? info->bytes : 0;
}

static Status checkShapeArgument(uint32_t rank, const int64_t *shape) {
  if (rank > ITX_MAX_RANK)
    return error(ITX_INVALID_ARGUMENT, "rank %u is more than %d", rank, ITX_MAX_RANK);
  if (rank != 0 && !shape)
    return error(ITX_INVALID_ARGUMENT, "the shape is null");
  return Status::success();
}

itx_status itx_tensor_create(itx_dtype dtype, uint32_t rank, const int64_t *shape, const void *data,
                             itx_tensor **tensor) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(tensor);
    ITX_RETURN_IF_ERROR(checkShapeArgument(rank, shape));
    Tensor result;
    ITX_RETURN_IF_ERROR(makeTensor(dtype, shape, rank, result));
    if (data && result.bytes)
      std::memcpy(result.data.get(), data, result.bytes);
    *tensor = handleOf(std::move(result));
    return Status::success();
  });
}

itx_status itx_tensor_wrap(const void *data, itx_dtype dtype, uint32_t rank, const int64_t *shape,
                           void (*release)(void *context), void *context, itx_tensor **tensor) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(tensor);
    ITX_RETURN_IF_ERROR(checkShapeArgument(rank, shape));
    Tensor result;
    ITX_RETURN_IF_ERROR(tensorBytes(dtype, shape, rank, result.bytes));
    if (!data && result.bytes)
      return error(ITX_INVALID_ARGUMENT, "the data of a tensor of %llu bytes is null",
                   (unsigned long long)result.bytes);
    result.dtype = dtype;
    result.shape.assign(shape, shape + rank);
    // Makes the handle first: once the memory has an owner, an exception would release memory that the caller still
    // owns.
    std::unique_ptr<itx_tensor> handle(new itx_tensor(std::move(result)));
    void *address = data ? const_cast<void *>(data) : nothing;
    handle->data = std::shared_ptr<void>(address, [](void *) {});
    if (release)
      handle->data = std::shared_ptr<void>(address, [release, context](void *) { release(context); });
    *tensor = handle.release();
    return Status::success();
  });
}

/// Returns the device in whose own memory tensors of a handle are; null for memory of the host.
static Device *memoryOf(const itx_device *device) { return device ? ownMemoryOf(*deviceOf(device)) : nullptr; }

itx_status itx_tensor_create_on(const itx_device *device, itx_dtype dtype, uint32_t rank, const int64_t *shape,
                                const void *data, itx_tensor **tensor) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(tensor);
    ITX_RETURN_IF_ERROR(checkShapeArgument(rank, shape));
    Tensor result;
    ITX_RETURN_IF_ERROR(makeTensorOn(memoryOf(device), dtype, shape, rank, result));
    if (data)
      ITX_RETURN_IF_ERROR(
          copyMemory({result.device, result.data.get()}, {nullptr, const_cast<void *>(data)}, result.bytes));
    *tensor = handleOf(std::move(result));
    return Status::success();
  });
}

itx_status itx_tensor_copy(const itx_tensor *tensor, const itx_device *device, itx_tensor **copy) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(tensor);
    ITX_REQUIRE(copy);
    Tensor result;
    ITX_RETURN_IF_ERROR(copyTensor(*tensor, memoryOf(device), result));
    *copy = handleOf(std::move(result));
    return Status::success();
  });
}

itx_status itx_tensor_copy_start(const itx_tensor *tensor, const itx_device *device, itx_pending **pending) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(tensor);
    ITX_REQUIRE(pending);
    auto work = [from = *tensor, memory = memoryOf(device)](std::vector<Tensor> &results) -> Status {
      return copyTensor(from, memory, results.emplace_back());
    };
    startPending("a copy", 1, std::move(work), pending);
    return Status::success();
  });
}

itx_status itx_tensor_rows(const itx_tensor *tensor, int64_t first, int64_t count, itx_tensor **rows) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(tensor);
    ITX_REQUIRE(rows);
    if (tensor->shape.empty())
      return error(ITX_INVALID_ARGUMENT, "a tensor of rank 0 has no rows");
    int64_t all = tensor->shape[0];
    if (first < 0 || count < 0 || first > all || count > all - first)
      return error(ITX_INVALID_ARGUMENT, "%lld rows from row %lld on are wanted, the tensor has %lld", (long long)count,
                   (long long)first, (long long)all);
    Tensor result = *tensor;
    uint64_t bytesOfRow = all == 0 ? 0 : tensor->bytes / uint64_t(all);
    result.shape[0] = count;
    result.bytes = bytesOfRow * uint64_t(count);
    result.data = {tensor->data, static_cast<char *>(tensor->data.get()) + bytesOfRow * uint64_t(first)};
    *rows = handleOf(std::move(result));
    return Status::success();
  });
}

const char *itx_tensor_device(const itx_tensor *tensor) {
  return tensor && tensor->device ? tensor->device->name() : nullptr;
}

void itx_tensor_free(itx_tensor *tensor) { delete tensor; }
itx_dtype itx_tensor_dtype(const itx_tensor *tensor) { return tensor ? tensor->dtype : itx_dtype(-1); }
uint32_t itx_tensor_rank(const itx_tensor *tensor) { return tensor ? uint32_t(tensor->shape.size()) : 0; }
const int64_t *itx_tensor_shape(const itx_tensor *tensor) { return tensor ? tensor->shape.data() : nullptr; }
size_t itx_tensor_bytes(const itx_tensor *tensor) { return tensor ? tensor->bytes : 0; }
void *itx_tensor_data(const itx_tensor *tensor) { return tensor ? tensor->data.get() : nullptr; }
int64_t itx_tensor_elements(const itx_tensor *tensor) {
  return tensor ? int64_t(tensor->bytes / dtypeInfo(tensor->dtype)->bytes) : 0;
}

// ---- DLPack -----------------------------------------------------------------------------------------------

/// "complex64", "uint16", "float32x4": for messages.
static std::string typeName(const DLDataType &type) {
  static const char *const names[] = {"int", "uint", "float", "opaque", "bfloat", "complex", "bool"};
  std::string name = type.code < std::size(names) ? names[type.code] : "type code " + std::to_string(type.code) + ", ";
  return name + std::to_string(type.bits) + (type.lanes == 1 ? "" : "x" + std::to_string(type.lanes));
}

/// Returns false if the offset of an element, in elements or in bytes, or its address overflows. No size is 0.
static bool isInAddressSpace(const DLTensor &source, size_t elementBytes) {
  int64_t lowest = 0, highest = 0;
  for (int32_t i = 0; source.strides && i < source.ndim; ++i) {
    int64_t reach = 0;
    int64_t &end = source.strides[i] < 0 ? lowest : highest;
    if (__builtin_mul_overflow(source.strides[i], source.shape[i] - 1, &reach) ||
        __builtin_add_overflow(end, reach, &end))
      return false;
  }
  auto address = reinterpret_cast<uintptr_t>(source.data);
  for (int64_t offset : {lowest, highest}) {
    int64_t bytes = 0;
    uintptr_t end = 0;
    if (__builtin_mul_overflow(offset, int64_t(elementBytes), &bytes) ||
        __builtin_add_overflow(address, source.byte_offset, &end) || __builtin_add_overflow(end, bytes, &end))
      return false;
  }
  return true;
}

/// Returns a device's number among the machine's of its DLPack type.
static int32_t dlpackNumber(const Device &device) {
  int32_t number = 0;
  for (const Device *other : devices()) {
    if (other == &device)
      break;
    number += other->dlpackType() == device.dlpackType();
  }
  return number;
}

/// Finds the device in whose own memory a DLPack tensor is; null for memory of the host.
static Status findDlpackDevice(const DLDevice &wanted, Device *&found) {
  found = nullptr;
  if (wanted.device_type == kDLCPU || wanted.device_type == kDLCUDAHost || wanted.device_type == kDLROCMHost)
    return Status::success();
  for (Device *device : devices())
    if (!device->usesHostMemory() && device->dlpackType() == wanted.device_type &&
        dlpackNumber(*device) == wanted.device_id) {
      found = device;
      return Status::success();
    }
  return error(ITX_INVALID_ARGUMENT,
               "the DLPack tensor is on device type %d%s, number %d, which is none of the devices here; host memory is "
               "wanted: copy it first",
               wanted.device_type, wanted.device_type == kDLCUDA ? " (CUDA)" : "", wanted.device_id);
}

static Status checkDlpack(const DLTensor &source, Tensor &result) {
  ITX_RETURN_IF_ERROR(findDlpackDevice(source.device, result.device));
  const DtypeInfo *info = dtypeInfoOfDlpack(source.dtype.code, source.dtype.bits, source.dtype.lanes);
  if (!info)
    return error(ITX_INVALID_ARGUMENT, "the DLPack tensor has elements of %s, which is not an element type of Intarsia",
                 typeName(source.dtype).c_str());
  if (source.ndim < 0 || source.ndim > ITX_MAX_RANK)
    return error(ITX_INVALID_ARGUMENT, "the DLPack tensor has rank %d; 0 to %d are taken", source.ndim, ITX_MAX_RANK);
  if (source.ndim != 0 && !source.shape)
    return error(ITX_INVALID_ARGUMENT, "the DLPack tensor has rank %d, its shape is null", source.ndim);
  result.dtype = info->dtype;
  ITX_RETURN_IF_ERROR(tensorBytes(result.dtype, source.shape, source.ndim, result.bytes));
  if (!source.data && result.bytes)
    return error(ITX_INVALID_ARGUMENT, "the DLPack tensor has no data");
  if (result.bytes && !isInAddressSpace(source, info->bytes))
    return error(ITX_INVALID_ARGUMENT,
                 "the DLPack tensor's byte_offset of %llu, or a stride, leads beyond what memory can be",
                 (unsigned long long)source.byte_offset);
  result.shape.assign(source.shape, source.shape + source.ndim);
  return Status::success();
}

static bool isDense(const DLTensor &source) {
  if (!source.strides)
    return true;
  int64_t stride = 1;
  for (int32_t i = source.ndim; i-- > 0;) {
    if (source.shape[i] == 0)
      return true;
    if (source.shape[i] != 1 && source.strides[i] != stride)
      return false;
    stride *= source.shape[i];
  }
  return true;
}

/// Checks a tensor in the memory of a device, which only the device could make dense.
static Status checkOnDevice(const DLTensor &source, const void *data, const Tensor &tensor) {
  const char *name = tensor.device->name();
  if (!isDense(source))
    return error(
        ITX_INVALID_ARGUMENT,
        "the rows of the DLPack tensor, which is in the memory of the device '%s', are not dense: make it dense "
        "or copy it to the host first",
        name);
  if (!tensor.device->owns(data, tensor.bytes))
    return error(
        ITX_INVALID_ARGUMENT,
        "the DLPack tensor is said to be in the memory of the device '%s', whose memory it is not: has another "
        "library made it? Copy it to the host first",
        name);
  return Status::success();
}

static void copyStrided(const DLTensor &source, const char *from, size_t element, char *to) {
  std::vector<int64_t> position(source.ndim, 0);
  int64_t elements = 1, offset = 0;
  for (int32_t i = 0; i < source.ndim; ++i)
    elements *= source.shape[i];
  for (int64_t i = 0; i < elements; ++i, to += element) {
    std::memcpy(to, from + offset * int64_t(element), element);
    for (int32_t d = source.ndim; d-- > 0;) {
      if (++position[d] < source.shape[d]) {
        offset += source.strides[d];
        break;
      }
      offset -= source.strides[d] * (source.shape[d] - 1);
      position[d] = 0;
    }
  }
}

template <typename Managed> static Status fromDlpack(Managed *managed, bool readOnly, itx_tensor **tensor) {
  const DLTensor &source = managed->dl_tensor;
  auto release = [](Managed *owner) {
    if (owner->deleter)
      owner->deleter(owner);
  };
  auto handle = std::make_unique<itx_tensor>();
  ITX_RETURN_IF_ERROR(checkDlpack(source, *handle));
  char *data = static_cast<char *>(source.data) + source.byte_offset;
  if (handle->device && handle->bytes != 0)
    ITX_RETURN_IF_ERROR(checkOnDevice(source, data, *handle));
  if (handle->bytes == 0) {
    handle->device = nullptr;
    handle->data = std::shared_ptr<void>(nothing, [](void *) {});
    release(managed);
  } else if (!isDense(source)) {
    ITX_RETURN_IF_ERROR(makeTensor(handle->dtype, source.shape, source.ndim, *handle));
    copyStrided(source, data, itx_dtype_bytes(handle->dtype), static_cast<char *>(handle->data.get()));
    handle->isCopy = true;
    release(managed);
  } else {
    // Takes two steps, so that running out of memory does not call the deleter of a tensor that the caller still owns.
    auto owner = std::make_shared<Managed *>(nullptr);
    handle->data = std::shared_ptr<void>(data, [owner, release](void *) {
      if (*owner)
        release(*owner);
    });
    *owner = managed;
    handle->readOnly = readOnly;
  }
  *tensor = handle.release();
  return Status::success();
}

template <typename Managed> struct Export {
  Managed managed = {};
  Tensor tensor;
  std::vector<int64_t> strides;
};

template <typename Managed> static Managed *toDlpack(const itx_tensor *tensor) {
  auto state = std::make_unique<Export<Managed>>();
  state->tensor = *tensor;
  state->strides.resize(tensor->shape.size());
  int64_t stride = 1;
  for (size_t i = tensor->shape.size(); i-- > 0;) {
    state->strides[i] = stride;
    stride *= tensor->shape[i];
  }
  const DtypeInfo &info = *dtypeInfo(tensor->dtype);
  DLTensor &view = state->managed.dl_tensor;
  view.data = tensor->data.get();
  view.device = {kDLCPU, 0};
  if (tensor->device)
    view.device = {tensor->device->dlpackType(), dlpackNumber(*tensor->device)};
  view.ndim = int32_t(tensor->shape.size());
  view.dtype = {info.dlpackCode, uint8_t(info.bytes * 8), 1};
  view.shape = state->tensor.shape.data();
  view.strides = state->strides.data();
  state->managed.manager_ctx = state.get();
  state->managed.deleter = [](Managed *self) { delete static_cast<Export<Managed> *>(self->manager_ctx); };
  return &state.release()->managed;
}

itx_status itx_tensor_from_dlpack(DLManagedTensor *managed, itx_tensor **tensor) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(managed);
    ITX_REQUIRE(tensor);
    return fromDlpack(managed, /*readOnly=*/false, tensor);
  });
}

itx_status itx_tensor_from_dlpack_versioned(DLManagedTensorVersioned *managed, itx_tensor **tensor) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(managed);
    ITX_REQUIRE(tensor);
    if (managed->version.major != 1)
      return error(ITX_INVALID_ARGUMENT, "the tensor is of DLPack %u.%u; 1.x is read", managed->version.major,
                   managed->version.minor);
    return fromDlpack(managed, (managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0, tensor);
  });
}

itx_status itx_tensor_to_dlpack(const itx_tensor *tensor, DLManagedTensor **managed) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(tensor);
    ITX_REQUIRE(managed);
    if (tensor->readOnly)
      return error(ITX_INVALID_ARGUMENT,
                   "the tensor is read-only, which DLPack 0.x cannot say: use itx_tensor_to_dlpack_versioned");
    *managed = toDlpack<DLManagedTensor>(tensor);
    return Status::success();
  });
}

itx_status itx_tensor_to_dlpack_versioned(const itx_tensor *tensor, DLManagedTensorVersioned **managed) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(tensor);
    ITX_REQUIRE(managed);
    *managed = toDlpack<DLManagedTensorVersioned>(tensor);
    (*managed)->version = {1, 0};
    (*managed)->flags = tensor->readOnly ? DLPACK_FLAG_BITMASK_READ_ONLY : 0;
    return Status::success();
  });
}

// ---- NumPy files ------------------------------------------------------------------------------------------

itx_status itx_tensor_load_npy(const char *path, itx_tensor **tensor) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(path);
    ITX_REQUIRE(tensor);
    Tensor result;
    ITX_RETURN_IF_ERROR(loadNpy(path, result));
    *tensor = handleOf(std::move(result));
    return Status::success();
  });
}

itx_status itx_tensor_save_npy(const itx_tensor *tensor, const char *path) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(tensor);
    ITX_REQUIRE(path);
    return saveNpy(*tensor, path);
  });
}
