//===- Api.h - Shared by the files of the C interface -------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_CORE_API_H
#define INTARSIA_RUNTIME_CORE_API_H

#include "lib/Support/Status.h"

#include <cstddef>
#include <exception>
#include <memory>
#include <new>
#include <string>

namespace intarsia::runtime {

class Device;
class Module;

/// Returns the device of a handle.
const std::shared_ptr<Device> &deviceOf(const itx_device *device);
/// Returns the module of a handle.
std::shared_ptr<Module> moduleOf(const itx_module *module);
/// Finds the index of a function by name; the message lists the functions that exist.
Status findFunction(const Module &module, const std::string &name, size_t &index);

/// The part of a function that a call needs. It is copied first, because another thread may then free the module's
/// handle.
struct Callee {
  std::shared_ptr<Module> module;
  size_t index = 0;
};
/// Returns an error if the module of the function is freed.
Status calleeOf(const itx_function *function, Callee &callee);

/// Keeps the message for itx_last_error.
itx_status report(const Status &status) noexcept;

/// Runs an action at the C boundary, through which nothing is thrown.
template <typename Action> itx_status guarded(Action action) noexcept {
  try {
    return report(action());
  } catch (const std::bad_alloc &) {
    return report({ITX_OUT_OF_MEMORY, "out of memory"});
  } catch (const std::exception &exception) {
    return report({ITX_INTERNAL, exception.what()});
  } catch (...) {
    return report({ITX_INTERNAL, "an unknown exception"});
  }
}

#define ITX_REQUIRE(pointer)                                                                                           \
  do {                                                                                                                 \
    if (!(pointer))                                                                                                    \
      return error(ITX_INVALID_ARGUMENT, "the argument '" #pointer "' is null");                                       \
  } while (false)

} // namespace intarsia::runtime

#endif
