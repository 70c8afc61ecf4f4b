//===- Api.cpp - The C interface ----------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Core/Api.h"

#include "intarsia/Version.h"
#include "lib/Runtime/Core/Module.h"
#include "lib/Runtime/Core/Profile.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <unistd.h>

using namespace intarsia;
using namespace intarsia::runtime;

// ---- Errors -----------------------------------------------------------------------------------------------

static std::string &lastError() {
  static thread_local std::string message;
  return message;
}

itx_status intarsia::runtime::report(const Status &status) noexcept {
  if (!status.ok()) {
    try {
      lastError() = status.message();
    } catch (...) {
      lastError().clear();
    }
  }
  return status.code();
}

const char *itx_last_error(void) { return lastError().c_str(); }

const char *itx_status_name(itx_status status) {
  static const char *const names[] = {"ok",
                                      "invalid argument",
                                      "not found",
                                      "input/output error",
                                      "corrupt",
                                      "version mismatch",
                                      "unsupported",
                                      "out of memory",
                                      "internal error",
                                      "cache full",
                                      "evicted",
                                      "device lost",
                                      "rank lost",
                                      "busy",
                                      "cancelled"};
  return size_t(status) < std::size(names) ? names[size_t(status)] : "unknown status";
}

const char *itx_version(void) { return INTARSIA_VERSION " (" INTARSIA_COMMIT ")"; }

// ---- Modules ----------------------------------------------------------------------------------------------

namespace {
/// An input or output as the C interface shows it.
struct ValueView {
  std::vector<const char *> symbols;
  std::vector<int64_t> maxima;
  itx_value_info info = {};
};
} // namespace

namespace {
/// A function as the C interface shows it.
struct FunctionView {
  const FunctionInfo *info = nullptr;
  std::vector<ValueView> inputs, outputs;
};

/// Data that a module's handle owns and the handles of its functions refer to.
struct Loaded {
  std::shared_ptr<Module> module;
  std::vector<FunctionView> functions;
};
} // namespace

/// The handle of a function. It is never freed, so that a call after itx_module_free is refused: this costs about 100
/// bytes, the weak pointer's block included. A registry of valid handles would need a lock at each call, which a child
/// of a fork may find held for ever.
struct itx_function {
  std::weak_ptr<const Loaded> loaded;
  size_t index = 0;
  const itx_function *earlier = nullptr; // the first function of the module that was loaded before
};

struct itx_module {
  std::shared_ptr<const Loaded> loaded;
  const itx_function *functions = nullptr;
};

static std::vector<ValueView> viewsOf(const Module &module, const FunctionInfo &function,
                                      const std::vector<ValueInfo> &values, size_t count) {
  std::vector<ValueView> views(count);
  for (size_t i = 0; i < count; ++i) {
    const ValueInfo &value = values[i];
    ValueView &view = views[i];
    for (size_t d = 0; d < value.symbols.size(); ++d) {
      int32_t symbol = value.symbols[d];
      const std::string &text = symbol < 0 ? value.expressions[d] : function.sizes[symbol].name;
      view.symbols.push_back(text.empty() ? nullptr : text.c_str());
      view.maxima.push_back(symbol < 0 ? -1 : function.sizes[symbol].maximum);
    }
    const Device *device = module.memoryOf(value.device);
    view.info = {value.name.c_str(),
                 value.dtype,
                 uint32_t(value.shape.size()),
                 value.shape.data(),
                 view.symbols.data(),
                 view.maxima.data(),
                 value.optional,
                 value.defaultValue,
                 value.hasRange,
                 value.rangeLow,
                 value.rangeHigh,
                 value.state,
                 device ? device->name() : nullptr};
  }
  return views;
}

static Status readOptions(const itx_load_options *given, LoadOptions &result) {
  itx_load_options options = {};
  if (given && given->struct_bytes < sizeof(given->struct_bytes))
    return error(ITX_INVALID_ARGUMENT, "struct_bytes of the load options is %zu: set it to sizeof(itx_load_options)",
                 given->struct_bytes);
  if (given)
    std::memcpy(&options, given, std::min(given->struct_bytes, sizeof(options)));
  result.verify = options.verify != 0;
  if (options.variant)
    result.variant = options.variant;
  if (options.weights)
    result.weights = options.weights;
  if (options.device_count != 0)
    ITX_REQUIRE(options.devices);
  for (size_t i = 0; i < options.device_count; ++i) {
    if (!options.devices[i])
      return error(ITX_INVALID_ARGUMENT, "the name of device %zu in the load options is null", i);
    result.devices.push_back(options.devices[i]);
  }
  if (options.device_handle_count != 0)
    ITX_REQUIRE(options.device_handles);
  for (size_t i = 0; i < options.device_handle_count; ++i) {
    if (!options.device_handles[i])
      return error(ITX_INVALID_ARGUMENT, "device handle %zu in the load options is null", i);
    const std::shared_ptr<Device> &device = deviceOf(options.device_handles[i]);
    result.devices.push_back(device->name());
    result.made.push_back(device);
  }
  if (!(options.verify_kernels >= 0) || std::isinf(options.verify_kernels))
    return error(
        ITX_INVALID_ARGUMENT,
        "verify_kernels of the load options is %g: a tolerance such as 0.001 is wanted, or 0 to verify nothing",
        options.verify_kernels);
  result.verifyKernels = options.verify_kernels;
  result.memoryBytes = options.memory_bytes;
  return Status::success();
}

/// Makes the handles of a module's functions and links them to those of all earlier modules: leak checkers see that
/// they are kept on purpose.
static const itx_function *functionsOf(const std::shared_ptr<const Loaded> &loaded) {
  static std::atomic<const itx_function *> latest{nullptr};
  size_t count = loaded->functions.size();
  if (count == 0)
    return nullptr;
  auto *functions = new itx_function[count];
  for (size_t i = 0; i < count; ++i) {
    functions[i].loaded = loaded;
    functions[i].index = i;
  }
  functions->earlier = latest;
  while (!latest.compare_exchange_weak(functions->earlier, functions))
    ;
  return functions;
}

static itx_module *handleOf(std::shared_ptr<Module> module) {
  auto handle = std::make_unique<itx_module>();
  // make_shared would let the functions' weak pointers keep the memory of the whole object.
  std::shared_ptr<Loaded> loaded(new Loaded);
  for (size_t i = 0; i < module->functions().size(); ++i) {
    const FunctionInfo &info = *module->functions()[i].info, &last = module->lastPart(i);
    if (info.isForCallers())
      loaded->functions.push_back({&info, viewsOf(*module, info, info.inputs, info.givenInputs),
                                   viewsOf(*module, last, last.outputs, last.givenOutputs)});
  }
  loaded->module = std::move(module);
  handle->functions = functionsOf(loaded);
  handle->loaded = std::move(loaded);
  return handle.release();
}

/// Loads a module by `load(options, module)` and makes its handles.
template <typename Load> static Status loadModule(const itx_load_options *options, itx_module **module, Load load) {
  ITX_REQUIRE(module);
  std::shared_ptr<Module> loaded;
  LoadOptions parsed;
  ITX_RETURN_IF_ERROR(readOptions(options, parsed));
  ITX_RETURN_IF_ERROR(hostDevice().checkEnvironment());
  ITX_RETURN_IF_ERROR(load(parsed, loaded));
  *module = handleOf(std::move(loaded));
  return Status::success();
}

itx_status itx_module_load(const char *path, const itx_load_options *options, itx_module **module) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(path);
    return loadModule(options, module, [&](const LoadOptions &parsed, std::shared_ptr<Module> &loaded) {
      return Module::load(path, parsed, loaded);
    });
  });
}

itx_status itx_module_load_memory(const void *data, size_t bytes, const char *name, const itx_load_options *options,
                                  itx_module **module) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(data);
    return loadModule(options, module, [&](const LoadOptions &parsed, std::shared_ptr<Module> &loaded) {
      return Module::loadMemory(data, bytes, name ? name : "module", parsed, loaded);
    });
  });
}

static std::string ownExecutable() {
  std::vector<char> buffer(4096);
  ssize_t length = readlink("/proc/self/exe", buffer.data(), buffer.size());
  return length > 0 && size_t(length) < buffer.size() ? std::string(buffer.data(), length) : "/proc/self/exe";
}

itx_status itx_module_load_embedded(const char *path, const itx_load_options *options, itx_module **module) {
  return guarded([&]() -> Status {
    return loadModule(options, module, [&](const LoadOptions &parsed, std::shared_ptr<Module> &loaded) {
      return Module::loadEmbedded(path ? path : ownExecutable(), parsed, loaded);
    });
  });
}

void itx_module_free(itx_module *module) { delete module; }

const char *itx_module_manifest(const itx_module *module) {
  return module ? module->loaded->module->manifest().text.c_str() : nullptr;
}

const char *itx_module_variant(const itx_module *module) {
  return module ? module->loaded->module->variant().name.c_str() : nullptr;
}

const char *itx_module_memory(const itx_module *module) {
  static thread_local std::string text;
  return guarded([&]() -> Status {
           text.clear();
           if (module && module->loaded->module->stream())
             text = module->loaded->module->stream()->figures();
           return Status::success();
         }) == ITX_OK &&
                 !text.empty()
             ? text.c_str()
             : nullptr;
}

size_t itx_module_file_count(const itx_module *module) {
  return module ? module->loaded->module->manifest().files.size() : 0;
}

const char *itx_module_file_name(const itx_module *module, size_t index) {
  return index < itx_module_file_count(module) ? module->loaded->module->manifest().files[index].name.c_str() : nullptr;
}

itx_status itx_module_file(const itx_module *module, const char *name, const void **data, size_t *bytes) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(module);
    ITX_REQUIRE(name);
    ITX_REQUIRE(data);
    ITX_REQUIRE(bytes);
    uint64_t size = 0;
    ITX_RETURN_IF_ERROR(module->loaded->module->file(name, *data, size));
    *bytes = size;
    return Status::success();
  });
}

// ---- Functions --------------------------------------------------------------------------------------------

std::shared_ptr<Module> intarsia::runtime::moduleOf(const itx_module *module) { return module->loaded->module; }

Status intarsia::runtime::findFunction(const Module &module, const std::string &name, size_t &index) {
  const std::vector<ModuleFunction> &functions = module.functions();
  std::vector<std::string> names;
  for (index = 0; index < functions.size() && functions[index].info->isForCallers(); ++index) {
    if (functions[index].info->name == name)
      return Status::success();
    names.push_back(functions[index].info->name);
  }
  return error(ITX_NOT_FOUND, "%s: has no function '%s'; it has: %s", module.name().c_str(), name.c_str(),
               join(names).c_str());
}

size_t itx_module_function_count(const itx_module *module) { return module ? module->loaded->functions.size() : 0; }

const itx_function *itx_module_function_at(const itx_module *module, size_t index) {
  return index < itx_module_function_count(module) ? &module->functions[index] : nullptr;
}

itx_status itx_module_function(const itx_module *module, const char *name, const itx_function **function) {
  return guarded([&]() -> Status {
    ITX_REQUIRE(module);
    ITX_REQUIRE(function);
    size_t index = 0;
    ITX_RETURN_IF_ERROR(findFunction(*module->loaded->module, name ? name : "main", index));
    *function = &module->functions[index];
    return Status::success();
  });
}

static Status lockLoaded(const itx_function *function, std::shared_ptr<const Loaded> &loaded) {
  ITX_REQUIRE(function);
  loaded = function->loaded.lock();
  if (!loaded)
    return error(ITX_INVALID_ARGUMENT, "the module of the function is freed");
  return Status::success();
}

/// Answers a question about a function; a null handle, and one whose module is freed, get a null pointer or 0.
template <typename Answer> static auto ask(const itx_function *function, Answer answer) {
  std::shared_ptr<const Loaded> loaded = function ? function->loaded.lock() : nullptr;
  using Result = decltype(answer(loaded->functions[0]));
  return loaded ? answer(loaded->functions[function->index]) : Result{};
}

static const itx_value_info *infoAt(const std::vector<ValueView> &values, size_t index) {
  return index < values.size() ? &values[index].info : nullptr;
}

const char *itx_function_name(const itx_function *function) {
  return ask(function, [](const FunctionView &view) { return view.info->name.c_str(); });
}

const char *itx_function_metadata(const itx_function *function) {
  return ask(function, [](const FunctionView &view) { return view.info->metadata.c_str(); });
}

size_t itx_function_input_count(const itx_function *function) {
  return ask(function, [](const FunctionView &view) { return view.inputs.size(); });
}

size_t itx_function_output_count(const itx_function *function) {
  return ask(function, [](const FunctionView &view) { return view.outputs.size(); });
}

const itx_value_info *itx_function_input(const itx_function *function, size_t index) {
  return ask(function, [index](const FunctionView &view) { return infoAt(view.inputs, index); });
}

const itx_value_info *itx_function_output(const itx_function *function, size_t index) {
  return ask(function, [index](const FunctionView &view) { return infoAt(view.outputs, index); });
}

static Status findValue(const itx_function *function, std::vector<ValueView> FunctionView::*values, const char *kind,
                        const char *name, size_t *index) {
  std::shared_ptr<const Loaded> loaded;
  ITX_RETURN_IF_ERROR(lockLoaded(function, loaded));
  ITX_REQUIRE(name);
  ITX_REQUIRE(index);
  const FunctionView &view = loaded->functions[function->index];
  std::vector<std::string> names;
  for (size_t i = 0; i < (view.*values).size(); ++i) {
    names.push_back((view.*values)[i].info.name);
    if (names.back() == name) {
      *index = i;
      return Status::success();
    }
  }
  return error(ITX_NOT_FOUND, "function '%s' has no %s '%s'; it has: %s", view.info->name.c_str(), kind, name,
               join(names).c_str());
}

itx_status itx_function_input_index(const itx_function *function, const char *name, size_t *index) {
  return guarded([&] { return findValue(function, &FunctionView::inputs, "input", name, index); });
}

itx_status itx_function_output_index(const itx_function *function, const char *name, size_t *index) {
  return guarded([&] { return findValue(function, &FunctionView::outputs, "output", name, index); });
}

Status intarsia::runtime::calleeOf(const itx_function *function, Callee &callee) {
  std::shared_ptr<const Loaded> loaded;
  ITX_RETURN_IF_ERROR(lockLoaded(function, loaded));
  callee = {loaded->module, function->index};
  return Status::success();
}

// ---- Profiles ---------------------------------------------------------------------------------------------

itx_status itx_profile_start(void) {
  return guarded([&]() -> Status {
    startProfile();
    return Status::success();
  });
}

itx_status itx_profile_stop(const char *path) {
  return guarded([&] { return stopProfile(path ? path : ""); });
}
