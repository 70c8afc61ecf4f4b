//===- runtime.cpp - The extension module intarsia._runtime ---------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A thin layer over intarsia/runtime.h: handles with lifetimes, arrays in and out without copies, status codes as
// exceptions. Everything that can be written in Python is, in intarsia/runtime.
//===----------------------------------------------------------------------------------------------------------===//
#include "python/Engines.h"
#include "python/Modules.h"
#include "python/Products.h"
#include "python/Sampling.h"
#include "python/Sequences.h"
#include "python/Tensors.h"
#include "python/Worlds.h"

using namespace intarsia::python;

NB_MODULE(_runtime, m) {
  m.doc() = "The C runtime of Intarsia; use the package intarsia.";
  nb::register_exception_translator([](const std::exception_ptr &pointer, void *) {
    try {
      std::rethrow_exception(pointer);
    } catch (const ItxError &error) {
      nb::object exception = nb::module_::import_("intarsia.support.errors")
                                 .attr("from_status")(itx_status_name(error.status), error.message);
      PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(exception.ptr())), exception.ptr());
    }
  });
  bindTensors(m);
  bindModules(m);
  bindSequences(m);
  bindEngines(m);
  bindSampling(m);
  bindProducts(m);
  bindWorlds(m);
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
