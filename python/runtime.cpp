//===- runtime.cpp - The extension module intarsia._runtime ---------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A thin layer over intarsia/runtime.h: handles with lifetimes, arrays in and out without copies, status codes as
// exceptions. Everything that can be written in Python is, in intarsia/_module.py.
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/runtime.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace nb = nanobind;

namespace {

/// What the C API reported; becomes the exception that intarsia._errors.from_status makes of it.
struct ItxError {
  itx_status status;
  std::string message;
};

void check(itx_status status) {
  if (status != ITX_OK)
    throw ItxError{status, itx_last_error()};
}

struct TensorDeleter {
  void operator()(itx_tensor *tensor) const { itx_tensor_free(tensor); }
};
using TensorHandle = std::unique_ptr<itx_tensor, TensorDeleter>;

nb::dlpack::dtype toDlpack(itx_dtype dtype) {
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
    return make(Code::UInt);
  case ITX_BOOL:
    return make(Code::Bool);
  default:
    return make(Code::Int);
  }
}

std::optional<itx_dtype> fromDlpack(nb::dlpack::dtype dtype) {
  for (itx_dtype candidate : {ITX_F32, ITX_F16, ITX_BF16, ITX_F64, ITX_I64, ITX_I32, ITX_I16, ITX_I8, ITX_U8, ITX_BOOL})
    if (toDlpack(candidate) == dtype)
      return candidate;
  return std::nullopt;
}

/// Arrays of any framework, in host memory. Rows that are not dense are copied by the caster.
using InputArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

/// The tensor shares the array's memory and keeps the array alive. bfloat16 arrays of NumPy come as uint16 with
/// `bits` set, as NumPy has no DLPack type for them.
TensorHandle wrap(const InputArray &array, bool bits, const std::string &name) {
  std::optional<itx_dtype> dtype = bits ? ITX_BF16 : fromDlpack(array.dtype());
  if (!dtype)
    throw ItxError{ITX_INVALID_ARGUMENT, "input '" + name + "': no element type of Intarsia has DLPack code " +
                                             std::to_string(array.dtype().code) + " with " +
                                             std::to_string(array.dtype().bits) + " bits"};
  std::vector<int64_t> shape(array.ndim());
  for (size_t axis = 0; axis < shape.size(); ++axis)
    shape[axis] = static_cast<int64_t>(array.shape(axis));
  auto owner = std::make_unique<InputArray>(array);
  auto release = [](void *context) {
    // The last user may be a worker thread. After the interpreter's end there is nothing left to give back to.
    if (!nb::is_alive())
      return;
    nb::gil_scoped_acquire gil;
    delete static_cast<InputArray *>(context);
  };
  itx_tensor *tensor = nullptr;
  check(itx_tensor_wrap(array.data(), *dtype, static_cast<uint32_t>(shape.size()), shape.data(), release, owner.get(),
                        &tensor));
  owner.release();
  return TensorHandle(tensor);
}

/// A NumPy array that owns the tensor. bfloat16 becomes uint16, which Python views as ml_dtypes.bfloat16.
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

nb::dict describe(const itx_value_info &info) {
  nb::list shape;
  nb::list maxima;
  for (uint32_t axis = 0; axis < info.rank; ++axis) {
    if (info.symbols[axis])
      shape.append(nb::str(info.symbols[axis]));
    else
      shape.append(info.shape[axis]);
    maxima.append(info.maxima[axis] < 0 ? nb::object(nb::none()) : nb::cast(info.maxima[axis]));
  }
  nb::dict result;
  result["name"] = nb::str(info.name);
  result["dtype"] = nb::str(itx_dtype_name(info.dtype));
  result["shape"] = nb::tuple(shape);
  result["maxima"] = nb::tuple(maxima);
  result["default"] = info.optional ? nb::cast(info.default_value) : nb::object(nb::none());
  result["value_range"] =
      info.has_range ? nb::object(nb::make_tuple(info.range_low, info.range_high)) : nb::object(nb::none());
  return result;
}

class Module {
public:
  Module(const std::string &path, bool verify, const std::optional<std::string> &variant) {
    itx_load_options options = {};
    options.struct_bytes = sizeof(options);
    options.verify = verify;
    options.variant = variant ? variant->c_str() : nullptr;
    itx_status status;
    {
      nb::gil_scoped_release unlocked;
      status = itx_module_load(path.c_str(), &options, &module);
    }
    check(status);
  }
  Module(const Module &) = delete;
  ~Module() { itx_module_free(module); }

  std::string manifest() const { return itx_module_manifest(module); }
  std::string variant() const { return itx_module_variant(module); }

  std::vector<std::string> functions() const {
    std::vector<std::string> names;
    for (size_t i = 0; i < itx_module_function_count(module); ++i)
      names.push_back(itx_function_name(itx_module_function_at(module, i)));
    return names;
  }

  nb::dict signature(const std::string &name) const {
    const itx_function *function = find(name);
    nb::list inputs;
    for (size_t i = 0; i < itx_function_input_count(function); ++i)
      inputs.append(describe(*itx_function_input(function, i)));
    nb::list outputs;
    for (size_t i = 0; i < itx_function_output_count(function); ++i)
      outputs.append(describe(*itx_function_output(function, i)));
    nb::dict result;
    result["inputs"] = inputs;
    result["outputs"] = outputs;
    result["metadata"] = nb::str(itx_function_metadata(function));
    return result;
  }

  size_t inputIndex(const std::string &function, const std::string &input) const {
    size_t index = 0;
    check(itx_function_input_index(find(function), input.c_str(), &index));
    return index;
  }

  /// `arrays`: one (array, is bfloat16 bits) pair or None for each input.
  nb::list invoke(const std::string &name, nb::list arrays) const {
    const itx_function *function = find(name);
    std::vector<TensorHandle> inputs;
    for (nb::handle item : arrays) {
      if (item.is_none()) {
        inputs.emplace_back();
        continue;
      }
      auto pair = nb::cast<nb::tuple>(item);
      const itx_value_info *info = itx_function_input(function, inputs.size());
      std::string inputName = info ? info->name : "";
      InputArray array;
      if (!nb::try_cast(pair[0], array))
        throw ItxError{ITX_INVALID_ARGUMENT, "input '" + inputName + "' is no array in host memory"};
      inputs.push_back(wrap(array, nb::cast<bool>(pair[1]), inputName));
    }
    std::vector<itx_tensor *> inputPointers;
    for (const TensorHandle &input : inputs)
      inputPointers.push_back(input.get());
    std::vector<itx_tensor *> outputs(itx_function_output_count(function), nullptr);
    itx_status status;
    std::string message;
    {
      nb::gil_scoped_release unlocked;
      status = itx_invoke(function, inputPointers.data(), inputPointers.size(), outputs.data(), outputs.size());
      // Kept before the lock is taken: another call on this thread could replace it.
      if (status != ITX_OK)
        message = itx_last_error();
    }
    if (status != ITX_OK)
      throw ItxError{status, message};
    std::vector<TensorHandle> owned;
    for (itx_tensor *output : outputs)
      owned.emplace_back(output);
    nb::list result;
    for (TensorHandle &output : owned)
      result.append(toNumpy(std::move(output)));
    return result;
  }

private:
  const itx_function *find(const std::string &name) const {
    const itx_function *function = nullptr;
    check(itx_module_function(module, name.c_str(), &function));
    return function;
  }

  itx_module *module = nullptr;
};

} // namespace

NB_MODULE(_runtime, m) {
  m.doc() = "The C runtime of Intarsia; use the package intarsia.";
  nb::register_exception_translator([](const std::exception_ptr &pointer, void *) {
    try {
      std::rethrow_exception(pointer);
    } catch (const ItxError &error) {
      nb::object exception =
          nb::module_::import_("intarsia._errors").attr("from_status")(itx_status_name(error.status), error.message);
      PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(exception.ptr())), exception.ptr());
    }
  });
  nb::class_<Module>(m, "Module")
      .def(nb::init<const std::string &, bool, const std::optional<std::string> &>(), nb::arg("path"),
           nb::arg("verify"), nb::arg("variant").none())
      .def_prop_ro("manifest", &Module::manifest)
      .def_prop_ro("variant", &Module::variant)
      .def_prop_ro("functions", &Module::functions)
      .def("signature", &Module::signature, nb::arg("function"))
      .def("input_index", &Module::inputIndex, nb::arg("function"), nb::arg("input"))
      .def("invoke", &Module::invoke, nb::arg("function"), nb::arg("arrays"));
  m.def("version", [] { return std::string(itx_version()); });
  m.def("set_threads", [](int32_t threads) { check(itx_set_threads(threads)); }, nb::arg("threads"));
  m.def("threads", [] { return itx_threads(); });
  m.def("devices", [] {
    std::vector<std::string> devices;
    for (size_t i = 0; i < itx_device_count(); ++i)
      devices.push_back(itx_device_info(i));
    return devices;
  });
  m.def("profile_start", [] { check(itx_profile_start()); });
  m.def(
      "profile_stop",
      [](const std::optional<std::string> &path) { check(itx_profile_stop(path ? path->c_str() : nullptr)); },
      nb::arg("path").none());
}
