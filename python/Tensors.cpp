//===- Tensors.cpp - Devices and tensors ----------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "python/Tensors.h"

#include <nanobind/ndarray.h>

namespace intarsia::python {

/// Returns the DLPack type of elements.
static nb::dlpack::dtype toDlpack(itx_dtype dtype) {
  using Code = nb::dlpack::dtype_code;
  auto make = [&](Code code) {
    return nb::dlpack::dtype{static_cast<uint8_t>(code), static_cast<uint8_t>(8 * itx_dtype_bytes(dtype)), 1};
  };
  switch (dtype) {
  case ITX_F32:
  case ITX_F16:
  case ITX_F64:
    return make(Code::Float);
  case ITX_BF16:
    return make(Code::Bfloat);
  case ITX_U8:
  case ITX_U16:
  case ITX_U32:
  case ITX_U64:
    return make(Code::UInt);
  case ITX_BOOL:
    return make(Code::Bool);
  default:
    return make(Code::Int);
  }
}

TensorHandle fromCapsule(nb::handle capsule) {
  itx_tensor *tensor = nullptr;
  // A capsule that was used is renamed: it may be used once.
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned")) {
    void *managed = PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned");
    check(itx_tensor_from_dlpack_versioned(static_cast<DLManagedTensorVersioned *>(managed), &tensor));
    PyCapsule_SetName(capsule.ptr(), "used_dltensor_versioned");
  } else if (PyCapsule_IsValid(capsule.ptr(), "dltensor")) {
    void *managed = PyCapsule_GetPointer(capsule.ptr(), "dltensor");
    check(itx_tensor_from_dlpack(static_cast<DLManagedTensor *>(managed), &tensor));
    PyCapsule_SetName(capsule.ptr(), "used_dltensor");
  } else {
    throw ItxError{ITX_INVALID_ARGUMENT, "its __dlpack__ returned no DLPack capsule"};
  }
  return TensorHandle(tensor);
}

TensorHandle asBfloat16(TensorHandle bits) {
  itx_tensor *raw = bits.get(), *tensor = nullptr;
  auto release = [](void *context) { itx_tensor_free(static_cast<itx_tensor *>(context)); };
  check(itx_tensor_wrap(itx_tensor_data(raw), ITX_BF16, itx_tensor_rank(raw), itx_tensor_shape(raw), release, raw,
                        &tensor));
  bits.release();
  return TensorHandle(tensor);
}

nb::object toNumpy(TensorHandle tensor) {
  itx_tensor *raw = tensor.get();
  std::vector<size_t> shape(itx_tensor_rank(raw));
  for (size_t axis = 0; axis < shape.size(); ++axis)
    shape[axis] = static_cast<size_t>(itx_tensor_shape(raw)[axis]);
  nb::dlpack::dtype dtype = toDlpack(itx_tensor_dtype(raw));
  if (itx_tensor_dtype(raw) == ITX_BF16)
    dtype = {static_cast<uint8_t>(nb::dlpack::dtype_code::UInt), 16, 1};
  nb::capsule owner(raw, [](void *pointer) noexcept { itx_tensor_free(static_cast<itx_tensor *>(pointer)); });
  tensor.release();
  return nb::cast(nb::ndarray<nb::numpy>(itx_tensor_data(raw), shape.size(), shape.data(), owner, nullptr, dtype,
                                         nb::device::cpu::value));
}

/// Returns a result of a call: a NumPy array, or a tensor if it is in the memory of a device.
static nb::object toResult(TensorHandle tensor) {
  if (!itx_tensor_device(tensor.get()))
    return toNumpy(std::move(tensor));
  return nb::cast(std::make_unique<Tensor>(std::move(tensor)));
}

nb::list toResults(const std::vector<itx_tensor *> &outputs) {
  std::vector<TensorHandle> owned(outputs.begin(), outputs.end());
  nb::list result;
  for (TensorHandle &output : owned)
    result.append(toResult(std::move(output)));
  return result;
}

void bindTensors(nb::module_ &m) {
  nb::class_<Device>(m, "Device")
      .def(nb::init<const std::string &, int32_t, const std::vector<int32_t> &>(), nb::arg("kind"), nb::arg("threads"),
           nb::arg("processors"))
      .def_static("find", &Device::find, nb::arg("name"))
      .def_prop_ro("name", &Device::name)
      .def_prop_ro("info", &Device::info);
  nb::class_<Tensor>(m, "Tensor")
      .def_prop_ro("device", &Tensor::device)
      .def_prop_ro("dtype", &Tensor::dtype)
      .def_prop_ro("shape", &Tensor::shape)
      .def("copy", &Tensor::copy, nb::arg("device").none())
      .def("rows", &Tensor::rows, nb::arg("first"), nb::arg("count"))
      .def("numpy", &Tensor::numpy)
      .def("capsule", &Tensor::capsule, nb::arg("versioned"));
  m.def(
      "to_device",
      [](nb::handle capsule, bool isBfloat16, const Device &device) {
        TensorHandle tensor = fromCapsule(capsule);
        if (isBfloat16)
          tensor = asBfloat16(std::move(tensor));
        return Tensor(std::move(tensor)).copy(&device);
      },
      nb::arg("capsule"), nb::arg("is_bfloat16"), nb::arg("device"));
}

} // namespace intarsia::python
