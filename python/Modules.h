//===- Modules.h - Compiled models and their calls ------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PYTHON_MODULES_H
#define INTARSIA_PYTHON_MODULES_H

#include "python/Tensors.h"

namespace intarsia::python {

class Pending;
class Session;

/// A compiled model.
class Module {
public:
  /// `devices` are named, `made` are objects: those that the module is to run on. `memory`: bytes that the process may
  /// use; 0: no limit.
  Module(const std::string &path, bool verify, const std::optional<std::string> &variant,
         const std::vector<std::string> &devices, const std::vector<const Device *> &made, uint64_t memory);
  Module(const Module &) = delete;
  ~Module() { itx_module_free(module); }

  const itx_module *handle() const { return module; }
  std::string manifest() const { return itx_module_manifest(module); }
  std::optional<std::string> memory() const {
    const char *text = itx_module_memory(module);
    return text ? std::optional<std::string>(text) : std::nullopt;
  }
  std::string variant() const { return itx_module_variant(module); }
  std::vector<std::string> functions() const;
  std::vector<std::string> files() const;
  nb::bytes file(const std::string &name) const;
  nb::dict signature(const std::string &name) const;
  size_t inputIndex(const std::string &function, const std::string &input) const;

  /// Calls a function. `capsules`: one (DLPack capsule, is bfloat16 bits) pair or None for each input. `device`: where
  /// all results are to stay; None: in memory of the host.
  nb::list invoke(const std::string &name, nb::list capsules, const Device *device) const;
  /// The same in the background.
  std::unique_ptr<Pending> start(const std::string &name, nb::list capsules, const Device *device) const;

  /// Returns the names of the states that sessions keep.
  std::vector<std::string> states() const;

private:
  friend class Session;
  const itx_function *find(const std::string &name) const;
  /// Calls a function, with a session or a null pointer.
  nb::list invokeWith(itx_session *session, const std::string &name, nb::list capsules, const Device *device) const;

  itx_module *module = nullptr;
};

/// Adds the classes to the extension module.
void bindModules(nb::module_ &m);

} // namespace intarsia::python

#endif
