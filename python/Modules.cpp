//===- Modules.cpp - Compiled models and their calls ----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "python/Modules.h"

#include <chrono>

namespace intarsia::python {

/// A call in the background.
class Pending {
public:
  Pending(itx_pending *pending, size_t outputCount) : pending(pending), outputCount(outputCount) {}
  Pending(const Pending &) = delete;
  ~Pending() { itx_pending_free(pending); }

  bool done() const { return itx_pending_done(pending) != 0; }
  void cancel() { itx_pending_cancel(pending); }
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

namespace {

/// Returns what a function says of an input or output.
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

/// Options of a call whose results all stay on one device; null: in memory of the host.
struct Options {
  Options(const Device *device, size_t outputs) : devices(outputs, device ? device->handle() : nullptr) {
    options = {sizeof(options), devices.data(), devices.size(), nullptr, nullptr};
  }
  std::vector<const itx_device *> devices;
  itx_invoke_options options;
};

/// Lets Python handle signals while a call runs on its thread, so that Ctrl-C ends it.
class Signals {
public:
  /// The function that a call asks; it takes Python's lock a few times a second.
  static int32_t isRaised(void *data) {
    auto &signals = *static_cast<Signals *>(data);
    auto now = std::chrono::steady_clock::now();
    if (now < signals.next)
      return signals.raised;
    nb::gil_scoped_acquire locked;
    signals.raised = PyErr_CheckSignals() != 0;
    signals.next = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
    return signals.raised;
  }
  /// Throws what a handler of a signal has raised.
  void rethrow() const {
    if (raised)
      throw nb::python_error();
  }

private:
  std::chrono::steady_clock::time_point next = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
  bool raised = false;
};

/// Returns the tensors of capsules; null for inputs that are left out.
std::vector<TensorHandle> inputsOf(const itx_function *function, const nb::list &capsules) {
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

/// Returns what the C interface takes.
std::vector<itx_tensor *> pointersOf(const std::vector<TensorHandle> &tensors) {
  std::vector<itx_tensor *> pointers;
  for (const TensorHandle &tensor : tensors)
    pointers.push_back(tensor.get());
  return pointers;
}

} // namespace

Module::Module(const std::string &path, bool verify, const std::optional<std::string> &variant,
               const std::vector<std::string> &devices, const std::vector<const Device *> &made, uint64_t memory) {
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
  options.memory_bytes = memory;
  checkUnlocked([&] { return itx_module_load(path.c_str(), &options, &module); });
}

std::vector<std::string> Module::functions() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < itx_module_function_count(module); ++i)
    names.push_back(itx_function_name(itx_module_function_at(module, i)));
  return names;
}

std::vector<std::string> Module::states() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < itx_module_state_count(module); ++i)
    names.push_back(itx_module_state_name(module, i));
  return names;
}

std::vector<std::string> Module::files() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < itx_module_file_count(module); ++i)
    names.push_back(itx_module_file_name(module, i));
  return names;
}

nb::bytes Module::file(const std::string &name) const {
  const void *data = nullptr;
  size_t bytes = 0;
  check(itx_module_file(module, name.c_str(), &data, &bytes));
  return nb::bytes(data, bytes);
}

nb::dict Module::signature(const std::string &name) const {
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

size_t Module::inputIndex(const std::string &function, const std::string &input) const {
  size_t index = 0;
  check(itx_function_input_index(find(function), input.c_str(), &index));
  return index;
}

nb::list Module::invoke(const std::string &name, nb::list capsules, const Device *device) const {
  return invokeWith(nullptr, name, capsules, device);
}

nb::list Module::invokeWith(itx_session *session, const std::string &name, nb::list capsules,
                            const Device *device) const {
  const itx_function *function = find(name);
  std::vector<TensorHandle> inputs = inputsOf(function, capsules);
  std::vector<itx_tensor *> outputs(itx_function_output_count(function), nullptr);
  Options options(device, outputs.size());
  std::vector<itx_tensor *> pointers = pointersOf(inputs);
  Signals signals;
  options.options.cancelled = Signals::isRaised;
  options.options.cancelled_data = &signals;
  try {
    checkUnlocked([&] {
      if (session)
        return itx_session_invoke(session, function, &options.options, pointers.data(), pointers.size(), outputs.data(),
                                  outputs.size());
      return itx_invoke_with(function, &options.options, pointers.data(), pointers.size(), outputs.data(),
                             outputs.size());
    });
  } catch (const ItxError &) {
    signals.rethrow();
    throw;
  }
  return toResults(outputs);
}

std::unique_ptr<Pending> Module::start(const std::string &name, nb::list capsules, const Device *device) const {
  const itx_function *function = find(name);
  std::vector<TensorHandle> inputs = inputsOf(function, capsules);
  Options options(device, itx_function_output_count(function));
  std::vector<itx_tensor *> pointers = pointersOf(inputs);
  itx_pending *pending = nullptr;
  checkUnlocked(
      [&] { return itx_invoke_start_with(function, &options.options, pointers.data(), pointers.size(), &pending); });
  return std::make_unique<Pending>(pending, itx_function_output_count(function));
}

const itx_function *Module::find(const std::string &name) const {
  const itx_function *function = nullptr;
  check(itx_module_function(module, name.c_str(), &function));
  return function;
}

/// The states of one caller, and calls on them.
class Session {
public:
  explicit Session(const Module &module) : module(module) { check(itx_session_create(module.handle(), &session)); }
  Session(const Session &) = delete;
  ~Session() { itx_session_free(session); }

  size_t inputIndex(const std::string &function, const std::string &input) const {
    return module.inputIndex(function, input);
  }
  nb::list invoke(const std::string &name, nb::list capsules, const Device *device) const {
    return module.invokeWith(session, name, capsules, device);
  }
  void reset() {
    checkUnlocked([&] { return itx_session_reset(session); });
  }
  nb::object read(const std::string &state) {
    std::vector<itx_tensor *> tensor(1, nullptr);
    checkUnlocked([&] { return itx_session_read(session, state.c_str(), tensor.data()); });
    return toResults(tensor)[0];
  }
  void write(const std::string &state, nb::object capsule, bool isBfloat16) {
    TensorHandle tensor = fromCapsule(capsule);
    if (isBfloat16)
      tensor = asBfloat16(std::move(tensor));
    checkUnlocked([&] { return itx_session_write(session, state.c_str(), tensor.get()); });
  }

private:
  const Module &module; // which the Python object keeps
  itx_session *session = nullptr;
};

void bindModules(nb::module_ &m) {
  nb::class_<Pending>(m, "Pending")
      .def("done", &Pending::done)
      .def("cancel", &Pending::cancel)
      .def("done_within", &Pending::doneWithin, nb::arg("microseconds"))
      .def("wait", &Pending::wait);
  nb::class_<Module>(m, "Module")
      .def(nb::init<const std::string &, bool, const std::optional<std::string> &, const std::vector<std::string> &,
                    const std::vector<const Device *> &, uint64_t>(),
           nb::arg("path"), nb::arg("verify"), nb::arg("variant").none(), nb::arg("devices"), nb::arg("made"),
           nb::arg("memory"))
      .def_prop_ro("manifest", &Module::manifest)
      .def_prop_ro("memory", &Module::memory)
      .def_prop_ro("variant", &Module::variant)
      .def_prop_ro("functions", &Module::functions)
      .def_prop_ro("files", &Module::files)
      .def_prop_ro("states", &Module::states)
      .def("file", &Module::file, nb::arg("name"))
      .def("signature", &Module::signature, nb::arg("function"))
      .def("input_index", &Module::inputIndex, nb::arg("function"), nb::arg("input"))
      .def("invoke", &Module::invoke, nb::arg("function"), nb::arg("capsules"), nb::arg("device").none())
      .def("start", &Module::start, nb::arg("function"), nb::arg("capsules"), nb::arg("device").none());
  nb::class_<Session>(m, "Session")
      .def(nb::init<const Module &>(), nb::arg("module"), nb::keep_alive<1, 2>())
      .def("input_index", &Session::inputIndex, nb::arg("function"), nb::arg("input"))
      .def("invoke", &Session::invoke, nb::arg("function"), nb::arg("capsules"), nb::arg("device").none())
      .def("reset", &Session::reset)
      .def("read", &Session::read, nb::arg("state"))
      .def("write", &Session::write, nb::arg("state"), nb::arg("capsule"), nb::arg("is_bfloat16"));
}

} // namespace intarsia::python
