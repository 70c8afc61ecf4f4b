//===- Listing.cpp - What intarsia-run prints -------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "tools/intarsia-run/Listing.h"

#include "lib/Formats/Manifest.h"
#include "lib/Runtime/Core/Api.h"
#include "lib/Runtime/Core/Device.h"
#include "lib/Runtime/Core/Module.h"
#include "lib/Runtime/Core/Tensor.h"
#include "lib/Support/Json.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace intarsia::run {

static std::string shapeOf(const itx_value_info &info) {
  std::string text = "[";
  for (uint32_t i = 0; i < info.rank; ++i) {
    if (i)
      text += ", ";
    text += info.symbols[i] ? info.symbols[i] : std::to_string(info.shape[i]);
  }
  return text + "]";
}

static std::string line(const char *kind, const itx_value_info &info) {
  std::string text =
      format("  %-7s %-24s %-5s %-28s", kind, info.name, itx_dtype_name(info.dtype), shapeOf(info).c_str());
  if (info.optional)
    text += format(" default %g", info.default_value);
  if (info.has_range && info.range_high < std::numeric_limits<int64_t>::max())
    text += format(" values %lld to %lld", (long long)info.range_low, (long long)info.range_high - 1);
  if (info.is_state)
    text += " updated in place";
  while (text.back() == ' ')
    text.pop_back();
  return text + "\n";
}

/// Returns a line for each device of a module that does not run on the CPU alone.
static std::string deviceLines(const runtime::Module &module) {
  const Manifest &manifest = module.manifest();
  std::string text;
  if (manifest.devices.size() == 1 && manifest.devices.front().kind == "cpu")
    return text;
  for (size_t i = 0; i < manifest.devices.size(); ++i) {
    const DeviceInfo &device = manifest.devices[i];
    std::vector<std::string> variants;
    for (const ObjectInfo &object : device.objects)
      variants.push_back(object.variant);
    auto kernels = std::count(manifest.kernelDevices.begin(), manifest.kernelDevices.end(), uint32_t(i));
    text +=
        format("device %s of kind %s: %zu kernels, %s%s%s\n", device.name.c_str(), device.kind.c_str(), size_t(kernels),
               variants.empty() ? "host code" : ("code for " + join(variants)).c_str(),
               device.verifies ? ", verifies all kernels" : "", module.devices()[i].device ? "" : " (not used here)");
  }
  return text;
}

static std::string devicesOf(const Manifest &manifest, const FunctionInfo &function) {
  std::vector<std::string> names;
  for (uint32_t device : function.devices)
    names.push_back(manifest.devices[device].name);
  return names.empty() ? "no device" : join(names);
}

/// Returns the lines on the devices of a function, if the artifact has several.
static std::string functionDeviceLines(const Manifest &manifest, const FunctionInfo &function) {
  if (manifest.devices.size() < 2)
    return "";
  std::string others;
  for (const FunctionInfo &other : manifest.functions)
    if (&other != &function && other.name == function.name)
      others += (others.empty() ? "" : "; ") + devicesOf(manifest, other);
  return "  runs on " + devicesOf(manifest, function) + "\n" +
         (others.empty() ? "" : "  also compiled for: " + others + "\n");
}

std::string deviceTable() {
  std::string text =
      format("%-16s %-16s %10s %8s %7s  %s\n", "name", "kind", "memory", "threads", "queues", "description");
  for (const runtime::Device *device : runtime::devices()) {
    Json info;
    // Cannot fail: a device writes JSON about itself.
    (void)parseJson(device->info(), device->name(), info);
    text += format("%-16s %-16s %7.1f GB %8d %7u  %s\n", device->name(), device->kind(),
                   double(info.value("memory_bytes", uint64_t(0))) / 1e9, info.value("threads", 0),
                   device->queueCount(), info.value("description", "").c_str());
  }
  return text;
}

std::string listing(const itx_module *module) {
  std::shared_ptr<runtime::Module> loaded = runtime::moduleOf(module);
  const Manifest &manifest = loaded->manifest();
  std::string text = format("made by %s for %s\n", manifest.producer.c_str(), manifest.triple.c_str());
  for (const VariantInfo &variant : manifest.variants)
    text += format("variant %s%s\n", variant.name.c_str(),
                   variant.name == itx_module_variant(module) ? " (runs on this machine)" : "");
  text += deviceLines(*loaded);
  text += format("kernels %zu\n", manifest.kernels.size());
  if (manifest.weights.present)
    text += format("weights %zu tensors, %.1f MB, %s\n", manifest.weights.tensors.size(),
                   double(manifest.weights.bytes) / 1e6,
                   manifest.weights.file.empty() ? "embedded" : ("in " + manifest.weights.file).c_str());
  else
    text += "weights none\n";
  if (!manifest.files.empty()) {
    text += "files  ";
    for (const FileInfo &file : manifest.files)
      text += " " + file.name;
    text += "\n";
  }
  for (size_t f = 0; f < itx_module_function_count(module); ++f) {
    const itx_function *function = itx_module_function_at(module, f);
    const FunctionInfo &info = *loaded->functions()[f].info;
    text += format("\nfunction %s\n", itx_function_name(function));
    text += functionDeviceLines(manifest, info);
    for (size_t i = 0; i < itx_function_input_count(function); ++i)
      text += line("input", *itx_function_input(function, i));
    for (size_t i = 0; i < itx_function_output_count(function); ++i)
      text += line("output", *itx_function_output(function, i));
    for (const SizeInfo &size : info.sizes)
      if (size.maximum >= 0)
        text += format("  size    %s is at most %lld\n", size.name.c_str(), (long long)size.maximum);
    itx_cache_options whole = {sizeof(whole), /*sequences=*/1, /*pages=*/0, /*bytes=*/UINT64_MAX};
    uint64_t bytes = 0;
    if (itx_cache_bytes_needed(module, itx_function_name(function), &whole, &bytes) == ITX_OK)
      text += format("  state   %.1f MB for a text as long as the model's context\n", double(bytes) / 1e6);
  }
  return text;
}

std::string verification(const itx_module *module) {
  const runtime::KernelVerifier *verifier = runtime::moduleOf(module)->verifier();
  if (!verifier)
    return "";
  runtime::VerifiedKernels verified = verifier->verified();
  std::string text = format("verified %llu launches of %zu kernels on %s, largest relative difference %.2g",
                            (unsigned long long)verified.launches, verified.kernels, verifier->device().name(),
                            verified.largestDifference);
  if (!verified.kernel.empty())
    text += " (" + verified.kernel + ", " + verified.label + ")";
  return text + "\n";
}

static double half(uint16_t bits) {
  double magnitude = (bits & 0x7c00) == 0x7c00 ? (bits & 0x3ff ? NAN : INFINITY)
                     : bits & 0x7c00           ? std::ldexp(1024 + (bits & 0x3ff), (bits >> 10 & 31) - 25)
                                               : std::ldexp(bits & 0x3ff, -24);
  return bits & 0x8000 ? -magnitude : magnitude;
}

template <typename T> static T load(const void *data, int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char *>(data) + index * int64_t(sizeof(T)), sizeof(T));
  return value;
}

static std::string element(const itx_tensor *tensor, int64_t index) {
  const void *data = itx_tensor_data(tensor);
  switch (itx_tensor_dtype(tensor)) {
  case ITX_F32:
    return format("%.6g", double(load<float>(data, index)));
  case ITX_F64:
    return format("%.6g", load<double>(data, index));
  case ITX_F16:
    return format("%.4g", half(load<uint16_t>(data, index)));
  case ITX_BF16: {
    uint32_t bits = uint32_t(load<uint16_t>(data, index)) << 16;
    return format("%.3g", double(load<float>(&bits, 0)));
  }
  case ITX_I64:
    return std::to_string(load<int64_t>(data, index));
  case ITX_I32:
    return std::to_string(load<int32_t>(data, index));
  case ITX_I16:
    return std::to_string(load<int16_t>(data, index));
  case ITX_I8:
    return std::to_string(load<int8_t>(data, index));
  case ITX_U8:
    return std::to_string(load<uint8_t>(data, index));
  case ITX_U16:
    return std::to_string(load<uint16_t>(data, index));
  case ITX_U32:
    return std::to_string(load<uint32_t>(data, index));
  case ITX_U64:
    return std::to_string(load<uint64_t>(data, index));
  case ITX_BOOL:
    return load<uint8_t>(data, index) ? "true" : "false";
  }
  return "?";
}

std::string summary(const char *name, const itx_tensor *tensor) {
  std::string text =
      format("%s  %s %s ", name, itx_dtype_name(itx_tensor_dtype(tensor)), shapeText(tensor->shape).c_str());
  int64_t count = itx_tensor_elements(tensor);
  for (int64_t i = 0; i < count && i < 8; ++i)
    text += " " + element(tensor, i);
  return text + (count > 8 ? " …" : "");
}

} // namespace intarsia::run
