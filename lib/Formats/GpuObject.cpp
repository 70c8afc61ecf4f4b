//===- GpuObject.cpp - Kernels of a GPU, as artifacts hold them ---------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Formats/GpuObject.h"

#include "lib/Formats/MemberReader.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <set>
#ifdef INTARSIA_ZSTD
#include <zstd.h>
#endif

namespace intarsia {

/// Bytes before the JSON text: the magic, and the bytes of the text and of the code.
static constexpr uint64_t headerBytes = sizeof(gpuObjectMagic) + 2 * sizeof(uint64_t);
static constexpr std::pair<GpuCodeKind, const char *> codeKinds[] = {{GpuCodeKind::Cubin, "cubin"},
                                                                     {GpuCodeKind::Ptx, "ptx"},
                                                                     {GpuCodeKind::Hsaco, "hsaco"},
                                                                     {GpuCodeKind::Host, "host"}};

const char *gpuCodeKindName(GpuCodeKind kind) {
  for (auto [one, name] : codeKinds)
    if (one == kind)
      return name;
  return "?";
}

const GpuKernel *GpuObject::find(uint32_t index) const {
  auto found = std::find_if(kernels.begin(), kernels.end(), [&](const GpuKernel &one) { return one.index == index; });
  return found == kernels.end() ? nullptr : &*found;
}

// ---- Compression ------------------------------------------------------------------------------------------

#ifdef INTARSIA_ZSTD

/// The level of zstd: of 0.8 MB of PTX and cubins, level 3 leaves 106 kB in 5 ms, 9 leaves 88 kB in 25 ms, 19 leaves
/// 77 kB in 400 ms, which is more than compiling may take longer.
static constexpr int packingLevel = 9;

/// Appends a piece of code to packed code. A checksum at its end lets damage show.
static Status packCode(std::string_view code, std::string &packed) {
  std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context(ZSTD_createCCtx(), ZSTD_freeCCtx);
  if (!context)
    return error(ITX_OUT_OF_MEMORY, "out of memory for compressing code");
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, packingLevel);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, 1);
  size_t begin = packed.size(), bound = ZSTD_compressBound(code.size());
  packed.resize(begin + bound);
  size_t written = ZSTD_compress2(context.get(), packed.data() + begin, bound, code.data(), code.size());
  if (ZSTD_isError(written))
    return error(ITX_INTERNAL, "cannot compress %zu bytes of code: %s", code.size(), ZSTD_getErrorName(written));
  packed.resize(begin + written);
  return Status::success();
}

Status unpackGpuCode(const GpuCode &code, const std::string &name, std::string &unpacked) {
  const char *kind = gpuCodeKindName(code.kind);
  unsigned long long stated = ZSTD_getFrameContentSize(code.packed.data(), code.packed.size());
  if (stated != code.bytes)
    return error(ITX_CORRUPT, "%s: its %s code for %s is damaged: it does not begin as %llu bytes that zstd has packed",
                 name.c_str(), kind, code.architecture.c_str(), (unsigned long long)code.bytes);
  if (code.bytes > largestGpuCode)
    return error(ITX_CORRUPT, "%s: its %s code for %s has %llu bytes, at most %llu are possible", name.c_str(), kind,
                 code.architecture.c_str(), (unsigned long long)code.bytes, (unsigned long long)largestGpuCode);
  std::string result;
  result.resize(code.bytes);
  size_t written = ZSTD_decompress(result.data(), result.size(), code.packed.data(), code.packed.size());
  if (ZSTD_isError(written) || written != code.bytes)
    return error(ITX_CORRUPT, "%s: its %s code for %s is damaged: %s", name.c_str(), kind, code.architecture.c_str(),
                 ZSTD_isError(written) ? ZSTD_getErrorName(written) : "it is shorter than it says");
  unpacked = std::move(result);
  return Status::success();
}

#else

/// Returns the error of a build without zstd.
static Status lacksZstd(const std::string &what) {
  return error(ITX_UNSUPPORTED,
               "%s needs zstd, which this build of Intarsia lacks: build it where libzstd-dev is installed",
               what.c_str());
}

static Status packCode(std::string_view, std::string &) { return lacksZstd("writing objects of GPUs"); }

Status unpackGpuCode(const GpuCode &, const std::string &name, std::string &) {
  return lacksZstd(name + ": loading its code");
}

#endif

// ---- The writer -------------------------------------------------------------------------------------------

/// The numbers of a tensor map, each with its key and the largest one. Boxes: CUDA driver API,
/// cuTensorMapEncodeTiled().
static constexpr struct {
  const char *key;
  uint32_t GpuTensorMap::*number;
  uint64_t largest;
} tensorNumbers[] = {{"buffer", &GpuTensorMap::buffer, INT32_MAX},
                     {"element_bytes", &GpuTensorMap::elementBytes, 4},
                     {"box_rows", &GpuTensorMap::boxRows, 256},
                     {"box_columns", &GpuTensorMap::boxColumns, 256},
                     {"swizzle_bytes", &GpuTensorMap::swizzleBytes, 128}};

static Json launchJson(const GpuLaunch &launch) {
  Json grid = Json::array();
  for (const SizeExpression &blocks : launch.grid)
    grid.push_back(sizeExpressionText(blocks));
  Json json = {{"function", launch.function}, {"grid", grid}, {"block", launch.block}};
  json["shared"] = sizeExpressionText(launch.shared);
  for (const GpuTensorMap &map : launch.tensorMaps) {
    Json item = {{"rows", sizeExpressionText(map.rows)}, {"columns", sizeExpressionText(map.columns)}};
    for (const auto &[key, number, largest] : tensorNumbers)
      item[key] = map.*number;
    json["tensor_maps"].push_back(std::move(item));
  }
  return json;
}

/// The facts that an object may have about a function, each with its key in the text.
static constexpr std::pair<const char *, std::optional<uint64_t> GpuFunction::*> functionFacts[] = {
    {"registers", &GpuFunction::registers},
    {"spilled_bytes", &GpuFunction::spilledBytes},
    {"shared_bytes", &GpuFunction::sharedBytes},
    {"local_bytes", &GpuFunction::localBytes},
    {"scalar_registers", &GpuFunction::scalarRegisters},
    {"spilled_scalars", &GpuFunction::spilledScalars},
};

static Json functionJson(const GpuFunction &function) {
  Json json = {{"name", function.name}};
  for (auto [key, fact] : functionFacts)
    if (function.*fact)
      json[key] = *(function.*fact);
  return json;
}

static bool hasTensorMaps(const GpuObject &object) {
  for (const GpuKernel &kernel : object.kernels)
    for (const GpuLaunch &launch : kernel.launches)
      if (!launch.tensorMaps.empty())
        return true;
  return false;
}

static Json objectJson(const GpuObject &object) {
  uint32_t format = hasTensorMaps(object) ? gpuObjectFormatVersion : 1;
  Json json = {{"format", format}, {"architecture", object.architecture}};
  json["kernels"] = Json::array();
  for (const GpuKernel &kernel : object.kernels) {
    Json item = {{"index", kernel.index}, {"buffers", kernel.buffers}, {"sizes", kernel.sizes}};
    item["scratch"] = sizeExpressionText(kernel.scratch);
    for (const GpuLaunch &launch : kernel.launches)
      item["launches"].push_back(launchJson(launch));
    json["kernels"].push_back(std::move(item));
  }
  json["functions"] = Json::array();
  for (const GpuFunction &function : object.functions)
    json["functions"].push_back(functionJson(function));
  return json;
}

static void appendNumber(std::string &bytes, uint64_t number) {
  for (int shift = 0; shift < 64; shift += 8)
    bytes += char(number >> shift & 255);
}

Status writeGpuObject(const GpuObject &object, const std::vector<std::string_view> &code, std::string &bytes) {
  if (code.size() != object.code.size())
    return error(ITX_INVALID_ARGUMENT, "an object that lists %zu pieces of code is written with %zu",
                 object.code.size(), code.size());
  Json json = objectJson(object);
  json["code"] = Json::array();
  std::string packed;
  for (size_t i = 0; i < code.size(); ++i) {
    size_t begin = packed.size();
    ITX_RETURN_IF_ERROR(packCode(code[i], packed));
    json["code"].push_back({{"kind", gpuCodeKindName(object.code[i].kind)},
                            {"architecture", object.code[i].architecture},
                            {"bytes", code[i].size()},
                            {"packed_bytes", packed.size() - begin}});
  }
  std::string text = jsonText(json);
  std::string result(gpuObjectMagic, sizeof(gpuObjectMagic));
  appendNumber(result, text.size());
  appendNumber(result, packed.size());
  result += text;
  result += packed;
  // The reader's checks are the only ones, so that nothing is written which it refuses.
  GpuObject again;
  if (Status status = parseGpuObject(result.data(), result.size(), "GPU object", again); !status.ok())
    return {ITX_INVALID_ARGUMENT, status.message()};
  bytes = std::move(result);
  return Status::success();
}

// ---- The reader -------------------------------------------------------------------------------------------

/// Reads a number of at most `limit`; none, after an error, if it is another.
static std::optional<uint64_t> readCount(MemberReader &reader, const Json &json, const std::string &what,
                                         uint64_t limit) {
  int64_t number = 0;
  if (!reader.integer(json, what.c_str(), number))
    return std::nullopt;
  if (number < 0 || uint64_t(number) > limit) {
    reader.fail(what + " is " + std::to_string(number) + "; 0 to " + std::to_string(limit) + " are possible");
    return std::nullopt;
  }
  return uint64_t(number);
}

/// Reads a required member that is a number of at most `limit`.
static uint64_t readCountOf(MemberReader &reader, const Json &json, const char *key, uint64_t limit) {
  const Json *value = reader.member(json, key);
  return value ? readCount(reader, *value, std::string("'") + key + "'", limit).value_or(0) : 0;
}

/// Reads a name that the driver gets as a C string.
static std::string readName(MemberReader &reader, const Json &json, const char *key) {
  std::string name = reader.text(json, key);
  if (reader.status.ok() && (name.empty() || name.find('\0') != std::string::npos))
    reader.fail(std::string("'") + key + "' is empty or has a zero byte");
  return name;
}

static SizeExpression readExpression(MemberReader &reader, const Json &json, const GpuKernel &kernel,
                                     const std::string &what) {
  std::string text = json.is_string() ? json.get<std::string>() : jsonText(json);
  SizeExpression expression = json.is_string() ? parseSizeExpression(text) : SizeExpression();
  if (expression.empty())
    reader.fail(what + " is '" + text + "', which is not a valid expression");
  else if (requiredSizes(expression) > kernel.sizes)
    reader.fail(what + " is '" + text + "', but the kernel has " + std::to_string(kernel.sizes) + " sizes");
  return expression;
}

/// Returns what is wrong with a tensor map of a kernel; empty if nothing is.
static std::string problemOf(const GpuTensorMap &map, const GpuKernel &kernel) {
  if (map.buffer >= kernel.buffers)
    return format("it is of buffer %u, but the kernel has %u", map.buffer, kernel.buffers);
  bool isElement = map.elementBytes == 1 || map.elementBytes == 2 || map.elementBytes == 4;
  if (!isElement || (map.swizzleBytes != 32 && map.swizzleBytes != 64 && map.swizzleBytes != 128))
    return format("it has elements of %u bytes and a swizzle of %u; 1, 2 or 4 and 32, 64 or 128 are possible",
                  map.elementBytes, map.swizzleBytes);
  uint32_t rowBytes = map.boxColumns * map.elementBytes;
  if (map.boxRows == 0 || rowBytes != map.swizzleBytes)
    return format("a box has %u rows of %u bytes, its swizzle is for rows of %u", map.boxRows, rowBytes,
                  map.swizzleBytes);
  return {};
}

static GpuTensorMap readTensorMap(MemberReader &reader, const Json &json, const GpuKernel &kernel,
                                  const std::string &what) {
  GpuTensorMap map;
  for (const auto &[key, number, largest] : tensorNumbers)
    map.*number = uint32_t(readCountOf(reader, json, key, largest));
  for (bool isRows : {true, false}) {
    const char *key = isRows ? "rows" : "columns";
    if (const Json *value = reader.member(json, key))
      (isRows ? map.rows : map.columns) = readExpression(reader, *value, kernel, format("%s'%s'", what.c_str(), key));
  }
  if (std::string problem = reader.status.ok() ? problemOf(map, kernel) : ""; !problem.empty())
    reader.fail(what + problem);
  return map;
}

static GpuLaunch readLaunch(MemberReader &reader, const Json &json, const GpuKernel &kernel, const std::string &where) {
  GpuLaunch launch;
  launch.function = readName(reader, json, "function");
  std::string what = where + ", function '" + launch.function + "': ";
  const Json &grid = reader.array(json, "grid"), &block = reader.array(json, "block");
  if (reader.status.ok() && (grid.size() != 3 || block.size() != 3))
    reader.fail(what + "'grid' and 'block' do not have three dimensions");
  if (!reader.status.ok())
    return launch;
  uint64_t threads = 1;
  for (size_t i = 0; i < 3; ++i) {
    launch.grid[i] = readExpression(reader, grid[i], kernel, what + "a dimension of the grid");
    launch.block[i] =
        uint32_t(readCount(reader, block[i], what + "a dimension of the block", largestGpuBlock).value_or(0));
    threads *= launch.block[i];
  }
  if (reader.status.ok() && (threads == 0 || threads > largestGpuBlock))
    reader.fail(what + "a block has " + std::to_string(threads) + " threads; 1 to " + std::to_string(largestGpuBlock) +
                " are possible");
  if (const Json *shared = reader.member(json, "shared", false))
    launch.shared = readExpression(reader, *shared, kernel, what + "the shared memory");
  for (const Json &map : reader.array(json, "tensor_maps", false)) {
    launch.tensorMaps.push_back(
        readTensorMap(reader, map, kernel, format("%stensor map %zu: ", what.c_str(), launch.tensorMaps.size())));
    if (!reader.status.ok())
      return launch;
  }
  return launch;
}

static GpuKernel readKernel(MemberReader &reader, const Json &json) {
  static constexpr uint64_t limit = std::numeric_limits<int32_t>::max();
  GpuKernel kernel;
  kernel.index = uint32_t(readCountOf(reader, json, "index", limit));
  kernel.buffers = uint32_t(readCountOf(reader, json, "buffers", limit));
  kernel.sizes = uint32_t(readCountOf(reader, json, "sizes", limit));
  std::string where = "kernel " + std::to_string(kernel.index);
  if (const Json *scratch = reader.member(json, "scratch", false))
    kernel.scratch = readExpression(reader, *scratch, kernel, where + ": the scratch");
  for (const Json &item : reader.array(json, "launches")) {
    kernel.launches.push_back(readLaunch(reader, item, kernel, where));
    if (!reader.status.ok())
      return kernel;
  }
  if (kernel.launches.empty())
    reader.fail(where + " has no launches");
  return kernel;
}

static GpuFunction readFunction(MemberReader &reader, const Json &json) {
  GpuFunction function;
  function.name = readName(reader, json, "name");
  for (auto [key, fact] : functionFacts)
    if (const Json *value = reader.member(json, key, false))
      function.*fact =
          readCount(reader, *value, "'" + std::string(key) + "' of function '" + function.name + "'", INT64_MAX);
  return function;
}

/// Reads the pieces of code, which follow each other in `packed`.
static void readCode(MemberReader &reader, const Json &json, std::string_view packed, GpuObject &object) {
  std::string_view rest = packed;
  for (const Json &item : reader.array(json, "code")) {
    GpuCode code;
    std::string kind = reader.text(item, "kind");
    auto found =
        std::find_if(std::begin(codeKinds), std::end(codeKinds), [&](auto &one) { return kind == one.second; });
    if (reader.status.ok() && found == std::end(codeKinds))
      reader.fail("there is code of the unknown kind '" + kind + "'");
    code.architecture = readName(reader, item, "architecture");
    code.bytes = readCountOf(reader, item, "bytes", largestGpuCode);
    uint64_t bytes = readCountOf(reader, item, "packed_bytes", INT64_MAX);
    if (reader.status.ok() && bytes > rest.size())
      reader.fail("the " + kind + " code has " + std::to_string(bytes) + " packed bytes, " +
                  std::to_string(rest.size()) + " are left");
    if (!reader.status.ok())
      return;
    code.kind = found->first;
    code.packed = rest.substr(0, bytes);
    rest.remove_prefix(bytes);
    object.code.push_back(std::move(code));
  }
  if (object.code.empty())
    reader.fail("there is no code");
  if (!rest.empty())
    reader.fail(std::to_string(rest.size()) + " bytes follow the last piece of code");
}

static uint64_t numberAt(const uint8_t *data) {
  uint64_t number = 0;
  for (int i = 7; i >= 0; --i)
    number = number << 8 | data[i];
  return number;
}

/// Checks the bytes before the JSON text, and that text and code are the rest of the object.
static Status readHeader(const uint8_t *data, uint64_t bytes, const std::string &name, uint64_t &textBytes) {
  // The last byte of the magic is the version of what follows it.
  if (bytes < headerBytes || std::memcmp(data, gpuObjectMagic, sizeof(gpuObjectMagic) - 1) != 0)
    return error(ITX_CORRUPT, "%s: is not an object of a GPU", name.c_str());
  if (data[7] != uint8_t(gpuObjectMagic[7]))
    return error(ITX_VERSION_MISMATCH,
                 "%s: has version %u of objects of GPUs, version %u is read: compile the model again", name.c_str(),
                 data[7], uint8_t(gpuObjectMagic[7]));
  textBytes = numberAt(data + 8);
  uint64_t codeBytes = numberAt(data + 16), rest = bytes - headerBytes;
  if (textBytes > rest || codeBytes != rest - textBytes)
    return error(ITX_CORRUPT, "%s: says that it has %llu bytes of text and %llu of code, there are %llu of both",
                 name.c_str(), (unsigned long long)textBytes, (unsigned long long)codeBytes, (unsigned long long)rest);
  return Status::success();
}

__attribute__((cold)) Status parseGpuObject(const void *data, uint64_t bytes, const std::string &name,
                                            GpuObject &object) {
  auto *begin = static_cast<const uint8_t *>(data);
  uint64_t textBytes = 0;
  ITX_RETURN_IF_ERROR(readHeader(begin, bytes, name, textBytes));
  std::string_view all(static_cast<const char *>(data), bytes);
  Json json;
  ITX_RETURN_IF_ERROR(parseJson(all.substr(headerBytes, textBytes), name, json));
  MemberReader reader(name);
  if (uint64_t format = readCountOf(reader, json, "format", INT32_MAX);
      reader.status.ok() && (format == 0 || format > gpuObjectFormatVersion))
    return error(ITX_VERSION_MISMATCH,
                 "%s: has format %llu of objects of GPUs, formats 1 to %u are read: compile the model again, or update "
                 "Intarsia",
                 name.c_str(), (unsigned long long)format, gpuObjectFormatVersion);
  GpuObject result;
  result.architecture = readName(reader, json, "architecture");
  readCode(reader, json, all.substr(headerBytes + textBytes), result);
  std::set<uint32_t> indices;
  for (const Json &item : reader.array(json, "kernels")) {
    result.kernels.push_back(readKernel(reader, item));
    if (reader.status.ok() && !indices.insert(result.kernels.back().index).second)
      reader.fail("there are two kernels " + std::to_string(result.kernels.back().index));
    if (!reader.status.ok())
      return reader.status;
  }
  for (const Json &item : reader.array(json, "functions", false))
    result.functions.push_back(readFunction(reader, item));
  ITX_RETURN_IF_ERROR(reader.status);
  object = std::move(result);
  return Status::success();
}

} // namespace intarsia
