//===- Manifest.cpp - What an artifact says about itself ----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Formats/Manifest.h"

#include "lib/Formats/ArtifactFormat.h"
#include "lib/Formats/Dtype.h"
#include "lib/Formats/MemberReader.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace intarsia {

// ---- Sizes of operands ------------------------------------------------------------------------------------

std::optional<uint64_t> OperandInfo::bytesIn(const int64_t *launchSizes, size_t count) const {
  uint64_t product = bytes;
  auto multiply = [&](int64_t factor) {
    return factor >= 0 && !__builtin_mul_overflow(product, uint64_t(factor), &product);
  };
  for (uint32_t size : sizes)
    if (size >= count || !multiply(launchSizes[size]))
      return std::nullopt;
  for (const SizeExpression &expression : expressions) {
    std::optional<int64_t> value = evaluate(expression, launchSizes, count);
    if (!value || !multiply(*value))
      return std::nullopt;
  }
  return product;
}

// ---- The parser -------------------------------------------------------------------------------------------

/// Reads the index of one of `devices` devices. Returns false, after an error, if there is no such device.
static bool readDeviceIndex(MemberReader &reader, const Json &json, size_t devices, const std::string &what,
                            int32_t &device) {
  int64_t index = 0;
  if (!reader.integer(json, what.c_str(), index))
    return false;
  if (index < 0 || size_t(index) >= devices) {
    reader.fail(what + " is " + std::to_string(index) + ", there are " + std::to_string(devices) + " devices");
    return false;
  }
  device = int32_t(index);
  return true;
}

static void readValue(MemberReader &reader, const Json &json, const FunctionInfo &function, bool output, size_t devices,
                      ValueInfo &value) {
  value.name = reader.text(json, "name");
  std::string dtype = reader.text(json, "dtype");
  const DtypeInfo *info = dtypeInfo(dtype);
  if (!info)
    return reader.fail("'" + value.name + "' has the unknown dtype '" + dtype + "'");
  value.dtype = info->dtype;
  for (const Json &size : reader.array(json, "shape")) {
    int64_t number = -1;
    int32_t symbol = -1;
    std::string expression;
    if (size.is_string()) {
      const std::string &name = size.get_ref<const std::string &>();
      for (size_t i = 0; i < function.sizes.size(); ++i)
        if (function.sizes[i].name == name)
          symbol = int32_t(i);
      // The module computes the sizes of its outputs; a name that is not a size is an expression for people to read.
      if (symbol < 0 && output)
        expression = name;
      else if (symbol < 0)
        return reader.fail("'" + value.name + "' has the size '" + name + "', which function '" + function.name +
                           "' does not list");
    } else if (!reader.integer(size, "a size", number) || number < 0) {
      return reader.fail("'" + value.name + "' has a negative size");
    }
    value.shape.push_back(number);
    value.symbols.push_back(symbol);
    value.expressions.push_back(expression);
  }
  if (value.shape.size() > ITX_MAX_RANK)
    return reader.fail("'" + value.name + "' has more than 16 dimensions");
  if (const Json *fill = reader.member(json, "default", false)) {
    if (!fill->is_number() && !fill->is_boolean())
      return reader.fail("the default of '" + value.name + "' is not a number");
    value.optional = true;
    value.defaultValue = fill->is_boolean() ? double(fill->get<bool>()) : fill->get<double>();
    if (!(std::fabs(value.defaultValue) <= 9007199254740992.0)) // 2^53: exact as an integer too
      return reader.fail("the default of '" + value.name + "' is out of range");
  }
  if (const Json *range = reader.member(json, "range", false)) {
    if (!range->is_array() || range->size() != 2 || !reader.integer((*range)[0], "a range", value.rangeLow) ||
        !reader.integer((*range)[1], "a range", value.rangeHigh) || value.rangeLow >= value.rangeHigh)
      return reader.fail("the range of '" + value.name + "' is not [low, high)");
    value.hasRange = true;
    if (value.dtype == ITX_F32 || value.dtype == ITX_F16 || value.dtype == ITX_BF16 || value.dtype == ITX_F64)
      return reader.fail("'" + value.name + "' has a range, but is not of an integer type");
    if (value.optional &&
        (value.defaultValue < double(value.rangeLow) || value.defaultValue >= double(value.rangeHigh)))
      return reader.fail("the default of '" + value.name + "' is not in its range");
  }
  if (const Json *below = reader.member(json, "below", false)) {
    std::string size = reader.text(*below, "size");
    for (size_t i = 0; i < function.sizes.size(); ++i)
      if (function.sizes[i].name == size)
        value.belowSize = int32_t(i);
    const Json *factor = reader.member(*below, "factor");
    if (value.belowSize < 0 || !value.hasRange || value.rangeLow < 0 || !factor ||
        !reader.integer(*factor, "a factor", value.belowFactor) || value.belowFactor < 1)
      return reader.fail("the limit of '" + value.name + "' is not a size and a factor");
  }
  if (reader.member(json, "global", false)) {
    value.global = reader.text(json, "global");
    if (value.global.empty())
      return reader.fail("'" + value.name + "' is a global without a name");
  }
  if (const Json *from = reader.member(json, "size_from", false)) {
    int64_t number = 0;
    bool isSize = value.shape.size() == 1 && value.symbols[0] >= 0 && value.dtype == ITX_I8;
    if (!reader.integer(*from, "'size_from'", number) || number < 0 || number > INT32_MAX || !isSize)
      return reader.fail("'" + value.name + "' is no input that has one size");
    value.sizeFrom = int32_t(number);
  }
  if (const Json *state = reader.member(json, "state", false))
    value.state = state->is_boolean() && state->get<bool>();
  if (value.state && value.optional)
    return reader.fail("'" + value.name + "' is updated in place and may be left out");
  if (const Json *device = reader.member(json, "device", false)) {
    if (!readDeviceIndex(reader, *device, devices, "the device of '" + value.name + "'", value.device))
      return;
    if (value.hasRange)
      return reader.fail("'" + value.name + "' has a range, which the host cannot check in the memory of a device");
  }
}

/// Reads the devices that a function puts work on; it may use all if the manifest does not say it.
static void readFunctionDevices(MemberReader &reader, const Json &json, size_t devices, FunctionInfo &function) {
  std::vector<uint32_t> &used = function.devices;
  if (!reader.member(json, "devices", false)) {
    used.resize(devices);
    std::iota(used.begin(), used.end(), 0);
    return;
  }
  for (const Json &item : reader.array(json, "devices")) {
    int32_t device = 0;
    if (!readDeviceIndex(reader, item, devices, "a device of function '" + function.name + "'", device))
      return;
    used.push_back(uint32_t(device));
  }
  std::sort(used.begin(), used.end());
  if (std::adjacent_find(used.begin(), used.end()) != used.end())
    reader.fail("function '" + function.name + "' lists a device twice");
}

/// Reads the ranks that run a module together, and their groups.
static void readWorld(MemberReader &reader, const Json &json, WorldInfo &world) {
  // A rank is a process of one host.
  constexpr int64_t mostRanks = 256;
  int64_t size = 0;
  const Json *value = reader.member(json, "size");
  if (!value || !reader.integer(*value, "the size of the world", size))
    return;
  if (size < 1 || size > mostRanks)
    return reader.fail("the world has " + std::to_string(size) + " ranks, 1 to 256 are possible");
  world.size = int32_t(size);
  for (const Json &item : reader.array(json, "groups", false)) {
    std::vector<int32_t> &group = world.groups.emplace_back();
    if (!item.is_array() || item.empty())
      return reader.fail("a group of the world is no list of ranks");
    for (const Json &member : item) {
      int64_t rank = 0;
      if (!reader.integer(member, "a rank of a group", rank))
        return;
      if (rank < 0 || rank >= size || std::find(group.begin(), group.end(), rank) != group.end())
        return reader.fail("a group of the world of " + std::to_string(size) + " has the rank " + std::to_string(rank) +
                           ", which does not exist or is in it twice");
      group.push_back(int32_t(rank));
    }
  }
}

/// Reads which stage of its rank a function is.
static void readTurn(MemberReader &reader, const Json &json, FunctionInfo &function) {
  const Json *value = reader.member(json, "turn", false);
  if (!value)
    return;
  auto number = [&](const char *name, int64_t &to) {
    const Json *member = reader.member(*value, name);
    return member && reader.integer(*member, "a turn", to);
  };
  TurnInfo &turn = function.turn;
  if (!number("number", turn.number) || !number("of", turn.count) || !number("receives", turn.receives))
    return;
  std::string order = reader.text(*value, "order");
  turn.isBreadthFirst = order == "breadth-first";
  constexpr int64_t mostTurns = 256; // as many as the compiler makes
  if (turn.count < 2 || turn.count > mostTurns || turn.number < 0 || turn.number >= turn.count || turn.receives < 0 ||
      function.stages < 2 || (!turn.isBreadthFirst && order != "interleaved"))
    reader.fail("the turn of function '" + function.name + "' is none of a pipeline's");
}

/// Returns the number of values that are no globals, which come first.
static size_t countGiven(MemberReader &reader, const FunctionInfo &function, const std::vector<ValueInfo> &values) {
  size_t count = 0;
  while (count < values.size() && values[count].global.empty())
    ++count;
  for (size_t i = count; i < values.size(); ++i)
    if (values[i].global.empty())
      reader.fail("'" + values[i].name + "' of function '" + function.name + "' comes behind a global and is none");
  return count;
}

__attribute__((cold)) static void readFunction(MemberReader &reader, const Json &json, size_t devices,
                                               FunctionInfo &function) {
  function.name = reader.text(json, "name");
  readFunctionDevices(reader, json, devices, function);
  if (const Json *tokens = reader.member(json, "page_tokens", false))
    if (reader.integer(*tokens, "'page_tokens'", function.pageTokens) && function.pageTokens < 1)
      reader.fail("'page_tokens' of function '" + function.name + "' is not positive");
  if (const Json *stages = reader.member(json, "stages", false))
    if (reader.integer(*stages, "'stages'", function.stages) && function.stages < 1)
      reader.fail("'stages' of function '" + function.name + "' is not positive");
  readTurn(reader, json, function);
  for (const Json &size : reader.array(json, "sizes", false)) {
    SizeInfo info;
    info.name = reader.text(size, "name");
    if (const Json *maximum = reader.member(size, "maximum", false))
      if (!reader.integer(*maximum, "a maximum", info.maximum) || info.maximum < 1)
        reader.fail("the maximum of size '" + info.name + "' is not positive");
    if (const Json *empty = reader.member(size, "may_be_empty", false))
      info.mayBeEmpty = empty->is_boolean() && empty->get<bool>();
    for (const SizeInfo &other : function.sizes)
      if (other.name == info.name)
        reader.fail("function '" + function.name + "' lists the size '" + info.name + "' twice");
    function.sizes.push_back(std::move(info));
  }
  for (const Json &check : reader.array(json, "checks", false)) {
    std::string name = reader.text(check, "relation");
    CheckRelation relation = name == "at_most" ? CheckRelation::AtMost
                             : name == "below" ? CheckRelation::Below
                                               : CheckRelation::Equal;
    if (relation == CheckRelation::Equal && name != "equal")
      reader.fail("function '" + function.name + "' has a check with the unknown relation '" + name + "'");
    function.checks.push_back(
        {relation, reader.text(check, "left"), reader.text(check, "right"), reader.text(check, "why", false)});
  }
  for (const char *key : {"inputs", "outputs"}) {
    std::vector<ValueInfo> &values = key[0] == 'i' ? function.inputs : function.outputs;
    for (const Json &value : reader.array(json, key)) {
      values.emplace_back();
      readValue(reader, value, function, key[0] == 'o', devices, values.back());
      for (size_t i = 0; i + 1 < values.size(); ++i)
        if (values[i].name == values.back().name)
          reader.fail("function '" + function.name + "' has two " + key + " named '" + values[i].name + "'");
    }
  }
  if (reader.member(json, "continues", false))
    function.continues = reader.text(json, "continues");
  if (const Json *atLoad = reader.member(json, "runs_at_load", false))
    function.runsAtLoad = atLoad->is_boolean() && atLoad->get<bool>();
  if (function.runsAtLoad && !(function.inputs.empty() && function.continues.empty()))
    reader.fail("function '" + function.name + "' runs at load, and has inputs or continues another");
  function.givenInputs = countGiven(reader, function, function.inputs);
  function.givenOutputs = countGiven(reader, function, function.outputs);
  for (size_t i = 0; i < function.sizes.size() && reader.status.ok(); ++i) {
    bool bound = false;
    for (const ValueInfo &input : function.inputs)
      for (int32_t symbol : input.symbols)
        bound |= symbol == int32_t(i);
    if (!bound)
      reader.fail("no input of function '" + function.name + "' has the size '" + function.sizes[i].name + "'");
  }
  if (const Json *metadata = reader.member(json, "metadata", false))
    function.metadata = jsonText(*metadata);
}

/// Reads one operand of a kernel: [bytes, factors…], where a factor is the position of a size or an expression.
static OperandInfo readOperand(MemberReader &reader, const Json &json) {
  OperandInfo operand;
  if (!json.is_array() || json.empty())
    reader.fail("an operand in 'operands' has no bytes");
  for (size_t i = 0; i < json.size() && reader.status.ok(); ++i) {
    if (i > 0 && json[i].is_string()) {
      operand.expressions.push_back(parseSizeExpression(json[i]));
      if (operand.expressions.back().empty())
        reader.fail("'operands' has the expression '" + std::string(json[i]) + "', which is not valid");
      continue;
    }
    int64_t number = 0;
    if (reader.integer(json[i], "a number of 'operands'", number) && (number < 0 || (i > 0 && number > INT32_MAX)))
      reader.fail("a number of 'operands' is out of range");
    if (i == 0)
      operand.bytes = number;
    else
      operand.sizes.push_back(uint32_t(number));
  }
  return operand;
}

static void readOperands(MemberReader &reader, const Json &json, Manifest &manifest) {
  for (const Json &kernel : reader.array(json, "operands", false)) {
    manifest.operands.emplace_back();
    if (!kernel.is_array() || kernel.size() != 2 || !kernel[0].is_array() || !kernel[1].is_array())
      return reader.fail("'operands' holds something that is not a pair of inputs and outputs");
    for (bool isOutput : {false, true})
      for (const Json &item : kernel[isOutput]) {
        manifest.operands.back().push_back(readOperand(reader, item));
        manifest.operands.back().back().isOutput = isOutput;
      }
  }
  if (!manifest.operands.empty() && manifest.operands.size() != manifest.kernels.size())
    reader.fail("'operands' are of another number of kernels");
}

/// Reads which inputs of each kernel are gathered.
static void readGathered(MemberReader &reader, const Json &json, Manifest &manifest) {
  if (!reader.member(json, "gathered", false))
    return;
  const Json &kernels = reader.array(json, "gathered");
  if (kernels.size() != manifest.operands.size())
    return reader.fail("'gathered' are of another number of kernels than 'operands'");
  for (size_t i = 0; i < kernels.size(); ++i)
    for (const Json &item : kernels[i]) {
      int64_t numbers[4] = {}; // operand, indices, parts, bytes of an index
      if (!item.is_array() || (item.size() != 1 && item.size() != 4))
        return reader.fail("'gathered' has something else than lists of 1 or 4 numbers");
      for (size_t k = 0; k < item.size(); ++k)
        if (!reader.integer(item[k], "a number of 'gathered'", numbers[k]))
          return;
      std::vector<OperandInfo> &operands = manifest.operands[i];
      for (int64_t number : {numbers[0], numbers[1]})
        if (number < 0 || size_t(number) >= operands.size() || operands[number].isOutput)
          return reader.fail("'gathered' has the number " + std::to_string(number) + " for kernel '" +
                             manifest.kernels[i] + "', which has no such input");
      int64_t bytes = numbers[3];
      bool isIndex = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
      if (item.size() == 4 && (numbers[2] < 1 || numbers[2] > INT32_MAX || !isIndex))
        return reader.fail("'gathered' has " + std::to_string(numbers[2]) + " parts and indices of " +
                           std::to_string(bytes) + " bytes for kernel '" + manifest.kernels[i] + "'");
      OperandInfo &operand = operands[numbers[0]];
      operand.isGathered = true;
      operand.indices = uint32_t(numbers[1]);
      operand.parts = uint32_t(numbers[2]);
      operand.indexBytes = uint32_t(bytes);
    }
}

/// Reads the element types of the operands; "" stands for bytes in a layout.
static void readOperandTypes(MemberReader &reader, const Json &json, Manifest &manifest) {
  if (!reader.member(json, "operand_types", false))
    return;
  const Json &kernels = reader.array(json, "operand_types");
  if (kernels.size() != manifest.operands.size())
    return reader.fail("'operand_types' are of another number of kernels than 'operands'");
  for (size_t i = 0; i < kernels.size(); ++i) {
    std::vector<OperandInfo> &operands = manifest.operands[i];
    const Json &kernel = kernels[i];
    if (!kernel.is_array() || kernel.size() != 2 || !kernel[0].is_array() || !kernel[1].is_array() ||
        kernel[0].size() + kernel[1].size() != operands.size())
      return reader.fail("the 'operand_types' of kernel '" + manifest.kernels[i] + "' are not those of its operands");
    auto operand = operands.begin();
    for (bool isOutput : {false, true})
      for (const Json &type : kernel[isOutput]) {
        std::string name = type.is_string() ? type.get<std::string>() : jsonText(type);
        const DtypeInfo *info = dtypeInfo(name);
        if (!info && !name.empty())
          return reader.fail("an operand of kernel '" + manifest.kernels[i] + "' has the unknown dtype '" + name + "'");
        if (operand->isOutput != isOutput)
          return reader.fail("the 'operand_types' of kernel '" + manifest.kernels[i] +
                             "' are of another number of outputs than its 'operands'");
        if (info)
          operand->dtype = info->dtype;
        ++operand;
      }
  }
  manifest.hasOperandTypes = true;
}

/// Reads the devices and their objects; a manifest without any is for the CPU of the host.
static void readDevices(MemberReader &reader, const Json &json, Manifest &manifest) {
  if (!reader.member(json, "devices", false)) {
    manifest.devices.push_back({"cpu", "cpu", {}});
    return;
  }
  for (const Json &item : reader.array(json, "devices")) {
    DeviceInfo device = {reader.text(item, "name"), reader.text(item, "kind"), {}};
    for (const Json &object : reader.array(item, "objects", false)) {
      int64_t number = 0;
      const Json *value = reader.member(object, "object");
      if (value && reader.integer(*value, "an object", number) && (number < 0 || number > INT32_MAX))
        reader.fail("an object of device '" + device.name + "' has the number " + std::to_string(number));
      device.objects.push_back({reader.text(object, "variant"), uint32_t(number)});
    }
    if (const Json *verifies = reader.member(item, "verifies", false))
      device.verifies = verifies->is_boolean() && verifies->get<bool>();
    for (const DeviceInfo &other : manifest.devices)
      if (other.name == device.name)
        reader.fail("there are two devices named '" + device.name + "'");
    manifest.devices.push_back(std::move(device));
  }
  if (manifest.devices.empty())
    reader.fail("'devices' lists no device");
}

/// Reads the devices of the kernels; all are of the first device if the manifest does not say it.
static void readKernelDevices(MemberReader &reader, const Json &json, Manifest &manifest) {
  const Json &devices = reader.array(json, "kernel_devices", false);
  manifest.kernelDevices.assign(manifest.kernels.size(), 0);
  if (!reader.member(json, "kernel_devices", false))
    return;
  if (devices.size() != manifest.kernels.size())
    return reader.fail("'kernel_devices' are of another number of kernels");
  for (size_t i = 0; i < devices.size(); ++i) {
    int32_t device = 0;
    if (!readDeviceIndex(reader, devices[i], manifest.devices.size(),
                         "the device of kernel '" + manifest.kernels[i] + "'", device))
      return;
    manifest.kernelDevices[i] = uint32_t(device);
  }
}

/// Reads the rank of a function.
static void readFunctionRank(MemberReader &reader, const Json &json, const WorldInfo &world, FunctionInfo &function) {
  const Json *value = reader.member(json, "rank", false);
  int64_t rank = 0;
  if (!value || !reader.integer(*value, "the rank of a function", rank))
    return;
  if (rank < 0 || rank >= world.size)
    return reader.fail("function '" + function.name + "' is of rank " + std::to_string(rank) + ", the world has " +
                       std::to_string(world.size) + " ranks");
  function.rank = int32_t(rank);
}

/// Reads the functions. Of those with one name for one rank, each must say on which devices it runs, and no two on the
/// same.
static void readFunctions(MemberReader &reader, const Json &json, Manifest &manifest) {
  const Json &functions = reader.array(json, "functions");
  for (size_t i = 0; i < functions.size(); ++i) {
    manifest.functions.emplace_back();
    FunctionInfo &function = manifest.functions.back();
    readFunction(reader, functions[i], manifest.devices.size(), function);
    readFunctionRank(reader, functions[i], manifest.world, function);
    for (size_t k = 0; k < i; ++k) {
      int32_t other = manifest.functions[k].rank;
      bool isOfOneRank = other == function.rank || other < 0 || function.rank < 0;
      if (manifest.functions[k].name != function.name || !isOfOneRank)
        continue;
      if (!reader.member(functions[i], "devices", false) || !reader.member(functions[k], "devices", false))
        reader.fail("there are two functions named '" + function.name + "'");
      else if (manifest.functions[k].devices == function.devices)
        reader.fail("there are two functions named '" + function.name + "' for the same devices");
    }
  }
}

static void readWeights(MemberReader &reader, const Json &json, Manifest &manifest) {
  WeightsInfo &info = manifest.weights;
  info.tensors = reader.texts(json, "tensors", false);
  info.devices.assign(info.tensors.size(), -1);
  info.present = !info.tensors.empty() || !manifest.files.empty();
  if (!info.present)
    return;
  info.file = reader.text(json, "file", false);
  if (info.file.find('/') != std::string::npos)
    reader.fail("the weights file '" + info.file + "' is in another folder");
  int64_t bytes = 0;
  if (const Json *value = reader.member(json, "bytes"))
    if (reader.integer(*value, "the size of the weights", bytes) && bytes < 0)
      reader.fail("the size of the weights is negative");
  info.bytes = bytes;
  info.headerHash = reader.text(json, "header_hash");
  info.hash = reader.text(json, "hash");
  info.isGathered.assign(info.tensors.size(), false);
  for (const Json &item : reader.array(json, "gathered", false)) {
    int64_t number = 0;
    if (!reader.integer(item, "a number of the 'gathered' weights", number))
      return;
    if (number < 0 || size_t(number) >= info.tensors.size())
      return reader.fail("the 'gathered' weights have the number " + std::to_string(number) + " of " +
                         std::to_string(info.tensors.size()));
    info.isGathered[size_t(number)] = true;
  }
  if (!reader.member(json, "devices", false))
    return;
  const Json &devices = reader.array(json, "devices");
  if (devices.size() != info.tensors.size())
    return reader.fail("the 'devices' of the weights are of another number of tensors");
  for (size_t i = 0; i < devices.size(); ++i)
    if (devices[i] != -1 && !readDeviceIndex(reader, devices[i], manifest.devices.size(),
                                             "the device of the weight '" + info.tensors[i] + "'", info.devices[i]))
      return;
}

// This runs once for an artifact, so that less code is better than faster code.
__attribute__((cold)) Status parseManifest(std::string_view text, const std::string &name, Manifest &manifest) {
  // A C compiler may end the section with a zero byte.
  while (!text.empty() && text.back() == '\0')
    text.remove_suffix(1);
  Json json;
  ITX_RETURN_IF_ERROR(parseJson(text, name + ": manifest", json));
  Manifest result;
  result.text = std::string(text);
  MemberReader reader(name + ": manifest");
  int64_t version = 0;
  if (const Json *value = reader.member(json, "format"))
    if (reader.integer(*value, "'format'", version) && version != artifactFormatVersion)
      return error(ITX_VERSION_MISMATCH, "%s: manifest has format %lld, this runtime reads %u", name.c_str(),
                   (long long)version, artifactFormatVersion);
  result.producer = reader.text(json, "producer");
  if (const Json *target = reader.member(json, "target")) {
    result.triple = reader.text(*target, "triple");
    for (const Json &item : reader.array(*target, "variants"))
      result.variants.push_back(
          {reader.text(item, "name"), reader.text(item, "cpu", false), reader.texts(item, "features", false)});
    if (result.variants.empty())
      reader.fail("there is no target variant");
  }
  readDevices(reader, json, result);
  result.kernels = reader.texts(json, "kernels");
  if (reader.status.ok()) // texts() leaves out what is not a string
    readKernelDevices(reader, json, result);
  readOperands(reader, json, result);
  if (reader.status.ok()) // types are of operands that were read
    readOperandTypes(reader, json, result);
  if (reader.status.ok())
    readGathered(reader, json, result);
  result.labels = reader.texts(json, "labels", false);
  for (const Json &file : reader.array(json, "files", false))
    result.files.push_back({reader.text(file, "name"), reader.text(file, "tensor"), reader.text(file, "hash")});
  if (const Json *weights = reader.member(json, "weights", false))
    readWeights(reader, *weights, result);
  if (!result.files.empty() && !result.weights.present)
    reader.fail("there are files, but no weights that they lie with");
  if (const Json *world = reader.member(json, "world", false))
    readWorld(reader, *world, result.world);
  readFunctions(reader, json, result);
  if (!reader.status.ok())
    return reader.status;
  manifest = std::move(result);
  return Status::success();
}

} // namespace intarsia
