//===- runtime.cpp - The extension module intarsia._runtime ---------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A thin layer over intarsia/runtime.h: handles with lifetimes, arrays in and out without copies, status codes as
// exceptions. Everything that can be written in Python is, in intarsia/_module.py.
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/runtime.h"

#include "lib/Formats/DLPack.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
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

/// The tensor of a capsule that a producer's __dlpack__ returned. It shares the producer's memory and keeps it alive;
/// rows that are not dense are copied.
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

/// The same memory as bfloat16: NumPy has no DLPack type for it, its arrays come as 16-bit integers.
TensorHandle asBfloat16(TensorHandle bits) {
  itx_tensor *raw = bits.get(), *tensor = nullptr;
  auto release = [](void *context) { itx_tensor_free(static_cast<itx_tensor *>(context)); };
  check(itx_tensor_wrap(itx_tensor_data(raw), ITX_BF16, itx_tensor_rank(raw), itx_tensor_shape(raw), release, raw,
                        &tensor));
  bits.release();
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
  result["state"] = info.is_state != 0;
  result["device"] = info.device ? nb::object(nb::str(info.device)) : nb::object(nb::none());
  return result;
}

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

/// Returns a result of a call: a NumPy array, or a tensor if it is in the memory of a device.
nb::object toResult(TensorHandle tensor) {
  if (!itx_tensor_device(tensor.get()))
    return toNumpy(std::move(tensor));
  return nb::cast(std::make_unique<Tensor>(std::move(tensor)));
}

/// Returns the results of a call; takes the tensors over.
nb::list toResults(const std::vector<itx_tensor *> &outputs) {
  std::vector<TensorHandle> owned(outputs.begin(), outputs.end());
  nb::list result;
  for (TensorHandle &output : owned)
    result.append(toResult(std::move(output)));
  return result;
}

/// A call in the background.
class Pending {
public:
  Pending(itx_pending *pending, size_t outputCount) : pending(pending), outputCount(outputCount) {}
  Pending(const Pending &) = delete;
  ~Pending() { itx_pending_free(pending); }

  bool done() const { return itx_pending_done(pending) != 0; }
  bool doneWithin(uint64_t microseconds) const {
    nb::gil_scoped_release unlocked;
    return itx_pending_done_within(pending, microseconds) != 0;
  }
  /// May be called once.
  nb::list wait() {
    std::vector<itx_tensor *> outputs(outputCount, nullptr);
    itx_pending *waited = std::exchange(pending, nullptr);
    checkUnlocked([&] { return itx_pending_wait(waited, outputs.data(), outputs.size()); });
    return toResults(outputs);
  }

private:
  itx_pending *pending;
  size_t outputCount;
};

class Module {
public:
  Module(const std::string &path, bool verify, const std::optional<std::string> &variant,
         const std::vector<std::string> &devices, const std::vector<const Device *> &made) {
    itx_load_options options = {};
    options.struct_bytes = sizeof(options);
    options.verify = verify;
    options.variant = variant ? variant->c_str() : nullptr;
    std::vector<const char *> names;
    for (const std::string &device : devices)
      names.push_back(device.c_str());
    options.devices = names.data();
    options.device_count = names.size();
    std::vector<itx_device *> handles;
    for (const Device *device : made)
      handles.push_back(device->handle());
    options.device_handles = handles.data();
    options.device_handle_count = handles.size();
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

  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (size_t i = 0; i < itx_module_file_count(module); ++i)
      names.push_back(itx_module_file_name(module, i));
    return names;
  }

  nb::bytes file(const std::string &name) const {
    const void *data = nullptr;
    size_t bytes = 0;
    check(itx_module_file(module, name.c_str(), &data, &bytes));
    return nb::bytes(data, bytes);
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

  const itx_module *handle() const { return module; }

  size_t inputIndex(const std::string &function, const std::string &input) const {
    size_t index = 0;
    check(itx_function_input_index(find(function), input.c_str(), &index));
    return index;
  }

  /// `capsules`: one (DLPack capsule, is bfloat16 bits) pair or None for each input. `device`: where all results are to
  /// stay; None: in memory of the host.
  nb::list invoke(const std::string &name, nb::list capsules, const Device *device) const {
    const itx_function *function = find(name);
    std::vector<TensorHandle> inputs = inputsOf(function, capsules);
    std::vector<itx_tensor *> outputs(itx_function_output_count(function), nullptr);
    Options options(device, outputs.size());
    std::vector<itx_tensor *> pointers = pointersOf(inputs);
    checkUnlocked([&] {
      return itx_invoke_with(function, &options.options, pointers.data(), pointers.size(), outputs.data(),
                             outputs.size());
    });
    return toResults(outputs);
  }

  /// The same in the background.
  std::unique_ptr<Pending> start(const std::string &name, nb::list capsules, const Device *device) const {
    const itx_function *function = find(name);
    std::vector<TensorHandle> inputs = inputsOf(function, capsules);
    Options options(device, itx_function_output_count(function));
    std::vector<itx_tensor *> pointers = pointersOf(inputs);
    itx_pending *pending = nullptr;
    checkUnlocked(
        [&] { return itx_invoke_start_with(function, &options.options, pointers.data(), pointers.size(), &pending); });
    return std::make_unique<Pending>(pending, itx_function_output_count(function));
  }

private:
  /// Options of a call whose results all stay on one device; null: in memory of the host.
  struct Options {
    Options(const Device *device, size_t outputs) : devices(outputs, device ? device->handle() : nullptr) {
      options = {sizeof(options), devices.data(), devices.size()};
    }
    std::vector<const itx_device *> devices;
    itx_invoke_options options;
  };

  static std::vector<TensorHandle> inputsOf(const itx_function *function, const nb::list &capsules) {
    std::vector<TensorHandle> inputs;
    for (nb::handle item : capsules) {
      if (item.is_none()) {
        inputs.emplace_back();
        continue;
      }
      auto pair = nb::cast<nb::tuple>(item);
      const itx_value_info *info = itx_function_input(function, inputs.size());
      std::string inputName = info ? info->name : "";
      try {
        TensorHandle tensor = fromCapsule(pair[0]);
        inputs.push_back(nb::cast<bool>(pair[1]) ? asBfloat16(std::move(tensor)) : std::move(tensor));
      } catch (const ItxError &error) {
        throw ItxError{error.status, "input '" + inputName + "': " + error.message};
      }
    }
    return inputs;
  }

  static std::vector<itx_tensor *> pointersOf(const std::vector<TensorHandle> &tensors) {
    std::vector<itx_tensor *> pointers;
    for (const TensorHandle &tensor : tensors)
      pointers.push_back(tensor.get());
    return pointers;
  }

  const itx_function *find(const std::string &name) const {
    const itx_function *function = nullptr;
    check(itx_module_function(module, name.c_str(), &function));
    return function;
  }

  itx_module *module = nullptr;
};

using Ids = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

class Sequence {
public:
  explicit Sequence(itx_sequence *sequence) : sequence(sequence) {}
  Sequence(const Sequence &) = delete;
  ~Sequence() { itx_sequence_free(sequence); }

  itx_sequence *handle() const { return sequence; }
  int64_t length() const { return itx_sequence_length(sequence); }
  bool isEvicted() const { return itx_sequence_is_evicted(sequence) != 0; }
  void evict() { check(itx_sequence_evict(sequence)); }
  void setEvictable(bool evictable) { check(itx_sequence_set_evictable(sequence, evictable)); }
  void save(const std::filesystem::path &path) const {
    checkUnlocked([&] { return itx_sequence_save(sequence, path.c_str()); });
  }

  std::vector<int64_t> tokens() const {
    std::vector<int64_t> ids;
    size_t count = 0;
    check(itx_sequence_tokens(sequence, nullptr, 0, &count));
    ids.resize(count);
    check(itx_sequence_tokens(sequence, ids.data(), ids.size(), &count));
    ids.resize(std::min(count, ids.size()));
    return ids;
  }

  std::unique_ptr<Sequence> fork() const {
    itx_sequence *child = nullptr;
    checkUnlocked([&] { return itx_sequence_fork(sequence, &child); });
    return std::make_unique<Sequence>(child);
  }

  int64_t truncate(int64_t length) {
    int64_t kept = 0;
    check(itx_sequence_truncate(sequence, length, &kept));
    return kept;
  }

private:
  itx_sequence *sequence;
};

class Cache {
public:
  Cache(const Module &module, const std::string &function, int64_t sequences, int64_t pages, uint64_t bytes) {
    itx_cache_options options = {sizeof(options), sequences, pages, bytes};
    checkUnlocked([&] { return itx_cache_create(module.handle(), function.c_str(), &options, &cache); });
  }
  Cache(const Cache &) = delete;
  ~Cache() { itx_cache_free(cache); }

  nb::dict info() const {
    itx_cache_info info = {};
    info.struct_bytes = sizeof(info);
    check(itx_cache_get_info(cache, &info));
    nb::dict result;
    result["bytes"] = info.bytes;
    result["page_bytes"] = info.page_bytes;
    result["sequence_bytes"] = info.sequence_bytes;
    result["pages"] = info.pages;
    result["free_pages"] = info.free_pages;
    result["page_tokens"] = info.page_tokens;
    result["sequences"] = info.sequences;
    result["free_sequences"] = info.free_sequences;
    result["context"] = info.context;
    result["vocabulary"] = info.vocabulary;
    return result;
  }

  std::unique_ptr<Sequence> sequence() {
    itx_sequence *made = nullptr;
    check(itx_sequence_create(cache, &made));
    return std::make_unique<Sequence>(made);
  }

  std::unique_ptr<Sequence> restore(const std::filesystem::path &path) {
    itx_sequence *made = nullptr;
    checkUnlocked([&] { return itx_sequence_restore(cache, path.c_str(), &made); });
    return std::make_unique<Sequence>(made);
  }

  /// `chunks`: (sequence, token ids, how many logits) each.
  nb::object step(const std::vector<std::tuple<Sequence *, Ids, int64_t>> &chunks) {
    std::vector<itx_chunk> parsed;
    for (const auto &[sequence, ids, outputs] : chunks)
      parsed.push_back({sequence->handle(), ids.data(), static_cast<int64_t>(ids.shape(0)), outputs});
    itx_tensor *logits = nullptr;
    checkUnlocked([&] { return itx_cache_step(cache, parsed.data(), parsed.size(), &logits); });
    return logits ? toNumpy(TensorHandle(logits)) : nb::object(nb::none());
  }

private:
  itx_cache *cache = nullptr;
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
      .def("numpy", &Tensor::numpy)
      .def("capsule", &Tensor::capsule, nb::arg("versioned"));
  nb::class_<Pending>(m, "Pending")
      .def("done", &Pending::done)
      .def("done_within", &Pending::doneWithin, nb::arg("microseconds"))
      .def("wait", &Pending::wait);
  nb::class_<Module>(m, "Module")
      .def(nb::init<const std::string &, bool, const std::optional<std::string> &, const std::vector<std::string> &,
                    const std::vector<const Device *> &>(),
           nb::arg("path"), nb::arg("verify"), nb::arg("variant").none(), nb::arg("devices"), nb::arg("made"))
      .def_prop_ro("manifest", &Module::manifest)
      .def_prop_ro("variant", &Module::variant)
      .def_prop_ro("functions", &Module::functions)
      .def_prop_ro("files", &Module::files)
      .def("file", &Module::file, nb::arg("name"))
      .def("signature", &Module::signature, nb::arg("function"))
      .def("input_index", &Module::inputIndex, nb::arg("function"), nb::arg("input"))
      .def("invoke", &Module::invoke, nb::arg("function"), nb::arg("capsules"), nb::arg("device").none())
      .def("start", &Module::start, nb::arg("function"), nb::arg("capsules"), nb::arg("device").none());
  nb::class_<Sequence>(m, "Sequence", "Tokens, and what a Cache holds of them; its pages are given back with it.")
      .def_prop_ro("length", &Sequence::length, "Tokens in the cache; 0 when it was evicted.")
      .def_prop_ro("tokens", &Sequence::tokens, "The token ids, those of an evicted sequence too.")
      .def_prop_ro("evicted", &Sequence::isEvicted,
                   "Its pages were given to others: truncate it to 0, and give its tokens again.")
      .def("fork", &Sequence::fork, "Return another sequence with the same tokens, which shares their pages.")
      .def("truncate", &Sequence::truncate, nb::arg("length"),
           "Forget the tokens from `length` on. Return how many are left: fewer where so many cannot be kept.")
      .def("evict", &Sequence::evict, "Give its pages back.")
      .def("set_evictable", &Sequence::setEvictable, nb::arg("evictable"),
           "Let the cache evict it when pages run out; of several, the one that was longest not in a forward step.")
      .def("save", &Sequence::save, nb::arg("path"), "Write it to a file, which appears when it is complete.");
  nb::class_<Cache>(m, "Cache")
      .def(nb::init<const Module &, const std::string &, int64_t, int64_t, uint64_t>(), nb::arg("module"),
           nb::arg("function"), nb::arg("sequences"), nb::arg("pages"), nb::arg("bytes"))
      .def_prop_ro("info", &Cache::info, "Sizes, and what of them is free.")
      .def("sequence", &Cache::sequence, "Return a sequence without tokens.")
      .def("restore", &Cache::restore, nb::arg("path"),
           "Return a new sequence with what `Sequence.save` wrote; it must have been made with the same artifact.")
      .def("step", &Cache::step, nb::arg("chunks"));
  m.def(
      "cache_bytes_needed",
      [](const Module &module, const std::string &function, int64_t sequences, int64_t pages, uint64_t bytes) {
        itx_cache_options options = {sizeof(options), sequences, pages, bytes};
        uint64_t needed = 0;
        check(itx_cache_bytes_needed(module.handle(), function.c_str(), &options, &needed));
        return needed;
      },
      nb::arg("module"), nb::arg("function"), nb::arg("sequences"), nb::arg("pages"), nb::arg("bytes"));
  m.def(
      "to_device",
      [](nb::handle capsule, bool isBfloat16, const Device &device) {
        TensorHandle tensor = fromCapsule(capsule);
        if (isBfloat16)
          tensor = asBfloat16(std::move(tensor));
        return Tensor(std::move(tensor)).copy(&device);
      },
      nb::arg("capsule"), nb::arg("is_bfloat16"), nb::arg("device"));
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
