//===- Tensors.h - Devices and tensors ------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PYTHON_TENSORS_H
#define INTARSIA_PYTHON_TENSORS_H

#include "intarsia/runtime.h"

#include "lib/Formats/DLPack.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace intarsia::python {

namespace nb = nanobind;

/// An error that the C API reported; becomes the exception that intarsia.support.errors.from_status makes of it.
struct ItxError {
  itx_status status;
  std::string message;
};

inline void check(itx_status status) {
  if (status != ITX_OK)
    throw ItxError{status, itx_last_error()};
}

/// Runs without Python's lock; the message is kept before the lock is taken, another call on this thread could replace
/// it.
template <typename Action> void checkUnlocked(Action action) {
  itx_status status;
  std::string message;
  {
    nb::gil_scoped_release unlocked;
    status = action();
    if (status != ITX_OK)
      message = itx_last_error();
  }
  if (status != ITX_OK)
    throw ItxError{status, message};
}

struct TensorDeleter {
  void operator()(itx_tensor *tensor) const { itx_tensor_free(tensor); }
};
using TensorHandle = std::unique_ptr<itx_tensor, TensorDeleter>;

/// Returns the tensor of a capsule that a producer's __dlpack__ returned. It shares the producer's memory and keeps it
/// alive; rows that are not dense are copied.
TensorHandle fromCapsule(nb::handle capsule);
/// Returns the same memory as bfloat16: NumPy has no DLPack type for it, its arrays come as 16-bit integers.
TensorHandle asBfloat16(TensorHandle bits);
/// Returns a NumPy array that owns the tensor. bfloat16 becomes uint16, which Python views as ml_dtypes.bfloat16.
nb::object toNumpy(TensorHandle tensor);
/// Returns the results of a call, each a NumPy array, or a tensor if it is in the memory of a device; takes them over.
nb::list toResults(const std::vector<itx_tensor *> &outputs);

class Device {
public:
  Device(const std::string &kind, int32_t threads, const std::vector<int32_t> &processors) {
    itx_device_options options = {sizeof(options), threads, processors.data(), processors.size()};
    check(itx_device_create(kind.c_str(), &options, &device));
  }
  explicit Device(itx_device *device) : device(device) {}
  Device(const Device &) = delete;
  ~Device() { itx_device_free(device); }

  static std::unique_ptr<Device> find(const std::string &name) {
    itx_device *found = nullptr;
    check(itx_device_find(name.c_str(), &found));
    return std::make_unique<Device>(found);
  }

  itx_device *handle() const { return device; }
  std::string name() const { return itx_device_get_name(device); }
  std::string info() const { return itx_device_get_info(device); }

private:
  itx_device *device = nullptr;
};

/// A tensor in the memory of a device.
class Tensor {
public:
  explicit Tensor(TensorHandle tensor) : tensor(std::move(tensor)) {}

  std::optional<std::string> device() const {
    const char *name = itx_tensor_device(tensor.get());
    return name ? std::optional<std::string>(name) : std::nullopt;
  }
  std::string dtype() const { return itx_dtype_name(itx_tensor_dtype(tensor.get())); }
  std::vector<int64_t> shape() const {
    const int64_t *sizes = itx_tensor_shape(tensor.get());
    return {sizes, sizes + itx_tensor_rank(tensor.get())};
  }

  std::unique_ptr<Tensor> copy(const Device *to) const {
    itx_tensor *made = nullptr;
    checkUnlocked([&] { return itx_tensor_copy(tensor.get(), to ? to->handle() : nullptr, &made); });
    return std::make_unique<Tensor>(TensorHandle(made));
  }
  std::unique_ptr<Tensor> rows(int64_t first, int64_t count) const {
    itx_tensor *made = nullptr;
    check(itx_tensor_rows(tensor.get(), first, count, &made));
    return std::make_unique<Tensor>(TensorHandle(made));
  }
  const itx_tensor *handle() const { return tensor.get(); }
  nb::object numpy() const {
    itx_tensor *made = nullptr;
    checkUnlocked([&] { return itx_tensor_copy(tensor.get(), nullptr, &made); });
    return toNumpy(TensorHandle(made));
  }

  /// Returns a DLPack capsule of version 1.x or 0.x, and the device's type and number in it.
  nb::tuple capsule(bool versioned) const {
    if (versioned) {
      DLManagedTensorVersioned *managed = nullptr;
      check(itx_tensor_to_dlpack_versioned(tensor.get(), &managed));
      return capsuleOf(managed, managed->dl_tensor, "dltensor_versioned");
    }
    DLManagedTensor *managed = nullptr;
    check(itx_tensor_to_dlpack(tensor.get(), &managed));
    return capsuleOf(managed, managed->dl_tensor, "dltensor");
  }

private:
  template <typename Managed> static nb::tuple capsuleOf(Managed *managed, const DLTensor &view, const char *name) {
    auto device = nb::make_tuple(int(view.device.device_type), view.device.device_id);
    auto end = [](PyObject *capsule) {
      // Whoever takes the tensor renames the capsule, and calls the deleter.
      const char *name = PyCapsule_GetName(capsule);
      if (!name || std::string_view(name).substr(0, 4) == "used")
        return;
      auto *left = static_cast<Managed *>(PyCapsule_GetPointer(capsule, name));
      left->deleter(left);
    };
    PyObject *capsule = PyCapsule_New(managed, name, end);
    if (!capsule) {
      managed->deleter(managed);
      throw nb::python_error();
    }
    return nb::make_tuple(nb::steal(capsule), device);
  }

  TensorHandle tensor;
};

/// Adds the classes to the extension module, and what makes tensors.
void bindTensors(nb::module_ &m);

} // namespace intarsia::python

#endif
