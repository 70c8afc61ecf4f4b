//===- Manifest.h - What an artifact says about itself ------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_FORMATS_MANIFEST_H
#define INTARSIA_LIB_FORMATS_MANIFEST_H

#include "lib/Formats/SizeExpression.h"
#include "lib/Support/Status.h"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace intarsia {

/// A symbolic size of a function.
struct SizeInfo {
  std::string name;
  int64_t maximum = -1; // -1: no limit
  bool mayBeEmpty = false;
};

/// An input or output.
struct ValueInfo {
  std::string name;
  itx_dtype dtype = ITX_F32;
  std::vector<int64_t> shape;           // -1: symbolic
  std::vector<int32_t> symbols;         // index into the function's sizes, -1 for a static size
  std::vector<std::string> expressions; // expressions of computed output sizes ("batch*sequence")
  bool optional = false;
  double defaultValue = 0;
  bool hasRange = false;
  int64_t rangeLow = 0;
  int64_t rangeHigh = 0;
  int32_t belowSize = -1; // index into the function's sizes: values are less than belowFactor times it
  int64_t belowFactor = 1;
  bool state = false; // updated in place
  // The global that an input is, or that an output is the next value of: a result of the function that runs at load, or
  // what a session keeps. Callers neither give nor get it. Empty: none.
  std::string global;
  int32_t sizeFrom = -1; // of a part's input: the result of the part before whose element is the input's only size
  int32_t device = -1;   // index of the device in whose own memory the function reads or writes it; -1: in the host's
};

/// The comparison that the two sides of a check must pass. The left side of `Below` are integers that kernels compute.
enum class CheckRelation { Equal, AtMost, Below };

/// A condition on two sizes that the module computes, or on integers and a size.
struct CheckInfo {
  CheckRelation relation = CheckRelation::Equal;
  std::string left; // expressions in the function's sizes, for people; for `Below` what the integers are
  std::string right;
  std::string why;
};

/// Which stage of its rank a function is. Ranks may have several stages of a pipeline, and a function for each: all but
/// that of the last turn have no results, and names of their own.
struct TurnInfo {
  int64_t number = 0, count = 1;
  bool isBreadthFirst = false; // the order of parts, if there are several (StageOrder.h)
  int64_t receives = 0;        // messages that the function gets from the stage before, first of all

  /// Returns the name of the function of another turn of the same rank, by the name of the last one's.
  static std::string nameOf(const std::string &function, int64_t turn) {
    return function + ".turn" + std::to_string(turn);
  }
};

/// A function. Several may have one name: alternatives, which put work on different devices, and functions of the ranks
/// of a world.
struct FunctionInfo {
  std::string name;
  int32_t rank = -1;             // rank of the world that runs it; -1: all
  std::vector<uint32_t> devices; // indices of those that it puts work on, in ascending order
  int64_t pageTokens = 0;        // tokens of a page of its caches; 0: the manifest does not say it
  int64_t stages = 1;            // of the pipeline that the ranks are: ranks that a part goes through
  TurnInfo turn;
  std::vector<SizeInfo> sizes;
  std::vector<CheckInfo> checks;  // in the order of host code's indices
  std::vector<ValueInfo> inputs;  // those that callers give first, then globals
  std::vector<ValueInfo> outputs; // those that callers get first, then the next values of globals
  size_t givenInputs = 0, givenOutputs = 0;
  bool runsAtLoad = false; // its results are globals
  // The function that it is the rest of, whose inputs and results are its first inputs; inputs behind them have sizes
  // that are elements of those results. Empty: it is called by its name.
  std::string continues;
  std::string metadata = "{}"; // JSON

  /// False if only the runtime calls it.
  bool isForCallers() const { return !runsAtLoad && continues.empty(); }
};

struct VariantInfo {
  std::string name;
  std::string cpu;
  std::vector<std::string> features;
};

/// The bytes of an operand of a kernel: the product of a number, sizes of the launch, and expressions in those.
struct OperandInfo {
  uint64_t bytes = 0;
  std::vector<uint32_t> sizes;
  bool isOutput = false;
  bool isGathered = false; // the kernel reads only parts that indices choose
  // The parts, if they lie one after another: how many there are, and the operand with the indices, signed integers of
  // so many bytes. 0 parts: it is not known.
  uint32_t parts = 0, indices = 0, indexBytes = 0;
  std::optional<itx_dtype> dtype; // of the elements; none if they lie in a layout, or if the manifest does not say it
  std::vector<SizeExpression> expressions;

  /// Returns the bytes in a launch with these sizes; none if they are negative or need more than 64 bits, or if a size
  /// is missing.
  std::optional<uint64_t> bytesIn(const int64_t *launchSizes, size_t count) const;
};

struct WeightsInfo {
  bool present = false;
  std::string file; // beside the artifact; empty: embedded
  uint64_t bytes = 0;
  std::string headerHash;
  std::string hash; // hash of the data after the header
  std::vector<std::string> tensors;
  std::vector<int32_t> devices; // of each tensor: index of the device in whose own memory it lies; -1: in the host's
  std::vector<bool> isGathered; // of each tensor: kernels read only rows of it that indices choose
};

/// Code for a device of one of its variants.
struct ObjectInfo {
  std::string variant;
  uint32_t object = 0; // index into the code's objects
};

/// A device that the module runs on.
struct DeviceInfo {
  std::string name;                // unique in the artifact
  std::string kind;                // "cpu", …
  std::vector<ObjectInfo> objects; // best first; none for a device that runs host code
  bool verifies = false;           // its objects have all kernels, those of other devices too
};

/// A file of the model that lies in the archive of the weights as a tensor of bytes.
struct FileInfo {
  std::string name;
  std::string tensor;
  std::string hash;
};

/// The processes that run the module together.
struct WorldInfo {
  int32_t size = 0;                         // 0: one process runs it alone
  std::vector<std::vector<int32_t>> groups; // of ranks that exchange data
};

struct Manifest {
  std::string text;
  std::string producer;
  std::string triple;
  std::vector<VariantInfo> variants; // of host code, best first
  std::vector<DeviceInfo> devices;
  std::vector<std::string> kernels;
  std::vector<uint32_t> kernelDevices; // index of the device of each kernel
  std::vector<std::vector<OperandInfo>>
      operands; // operands of each kernel, outputs last; empty if our compiler did not write the manifest
  bool hasOperandTypes = false;
  std::vector<std::string> labels;
  WeightsInfo weights;
  std::vector<FileInfo> files;
  WorldInfo world;
  std::vector<FunctionInfo> functions;
};

/// Parses and checks a manifest. `name` starts each message.
Status parseManifest(std::string_view text, const std::string &name, Manifest &manifest);

} // namespace intarsia

#endif
