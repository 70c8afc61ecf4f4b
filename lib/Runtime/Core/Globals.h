//===- Globals.h - Tensors that a module computes once, and states of sessions ------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_CORE_GLOBALS_H
#define INTARSIA_RUNTIME_CORE_GLOBALS_H

#include "lib/Runtime/Core/Tensor.h"
#include "lib/Support/Status.h"

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

struct itx_call;

namespace intarsia::runtime {

class Device;
class Module;

/// Tensors by the names that inputs of functions refer to. Nothing writes to the memory of a tensor that is in here, so
/// that sessions may share it.
class Globals {
public:
  /// Returns the tensor of a name in the memory of a device (null: the host); null if there is none. A tensor that lies
  /// elsewhere is copied there once.
  Status find(const std::string &name, Device *device, std::shared_ptr<const Tensor> &tensor);
  void set(const std::string &name, Tensor tensor);

private:
  std::mutex mutex; ///< calls of one module run at the same time
  std::map<std::string, std::vector<std::shared_ptr<const Tensor>>> tensors; ///< of each, a copy in each memory
};

/// The states of one caller. Calls are done one after another; one that fails leaves the states as they were.
class Session {
public:
  explicit Session(std::shared_ptr<Module> module) : module(std::move(module)) {}

  /// Runs a function on the states, and keeps the new ones. Gives its results in `call`.
  Status run(size_t function, const Tensor *const *inputs, size_t count, std::vector<Device *> outputMemories,
             ::itx_call &call);
  /// Gives all states their initial values.
  void reset();
  /// Copies a state to memory of the host.
  Status read(const std::string &name, Tensor &tensor);
  /// Replaces a state by a copy of a tensor.
  Status write(const std::string &name, const Tensor &tensor);

private:
  std::shared_ptr<Module> module;
  std::mutex mutex;
  std::unique_ptr<Globals> states = std::make_unique<Globals>(); ///< those that have been written to
};

} // namespace intarsia::runtime

/// The C interface's handle.
struct itx_session {
  std::shared_ptr<intarsia::runtime::Module> module;
  std::shared_ptr<intarsia::runtime::Session> session;
};

#endif
