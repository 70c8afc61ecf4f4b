//===- Listing.cpp - What --list prints ---------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "tools/intarsia-run/Listing.h"

#include "lib/Formats/Manifest.h"
#include "lib/Runtime/Core/Tensor.h"

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

std::string listing(const itx_module *module) {
  Manifest manifest;
  // Cannot fail: it was parsed when the module was loaded.
  (void)parseManifest(itx_module_manifest(module), "manifest", manifest);
  std::string text = format("made by %s for %s\n", manifest.producer.c_str(), manifest.triple.c_str());
  for (const VariantInfo &variant : manifest.variants)
    text += format("variant %s%s\n", variant.name.c_str(),
                   variant.name == itx_module_variant(module) ? " (runs on this machine)" : "");
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
    text += format("\nfunction %s\n", itx_function_name(function));
    for (size_t i = 0; i < itx_function_input_count(function); ++i)
      text += line("input", *itx_function_input(function, i));
    for (size_t i = 0; i < itx_function_output_count(function); ++i)
      text += line("output", *itx_function_output(function, i));
    for (const SizeInfo &size : manifest.functions[f].sizes)
      if (size.maximum >= 0)
        text += format("  size    %s is at most %lld\n", size.name.c_str(), (long long)size.maximum);
    itx_cache_options whole = {sizeof(whole), /*sequences=*/1, /*pages=*/0, /*bytes=*/UINT64_MAX};
    uint64_t bytes = 0;
    if (itx_cache_bytes_needed(module, itx_function_name(function), &whole, &bytes) == ITX_OK)
      text += format("  state   %.1f MB for a text as long as the model's context\n", double(bytes) / 1e6);
  }
  return text;
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
