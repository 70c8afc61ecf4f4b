//===- OnnxModel.h - What an ONNX file says -----------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Messages of https://github.com/onnx/onnx/blob/main/onnx/onnx.proto, IR versions 3 to 14. Names, texts and the bytes
// of tensors stay in the mapped file.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_FORMATS_ONNX_ONNXMODEL_H
#define INTARSIA_LIB_FORMATS_ONNX_ONNXMODEL_H

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace intarsia::onnx {

/// Returns a text of the file as it may stand in a message: without control characters, and not too long.
std::string printable(std::string_view text);

/// Types of elements, by their numbers in files.
enum class DataType : int32_t {
  Undefined = 0,
  Float = 1,
  Uint8 = 2,
  Int8 = 3,
  Uint16 = 4,
  Int16 = 5,
  Int32 = 6,
  Int64 = 7,
  String = 8,
  Bool = 9,
  Float16 = 10,
  Double = 11,
  Uint32 = 12,
  Uint64 = 13,
  Complex64 = 14,
  Complex128 = 15,
  Bfloat16 = 16,
  Float8E4M3FN = 17,
  Float8E4M3FNUZ = 18,
  Float8E5M2 = 19,
  Float8E5M2FNUZ = 20,
  Uint4 = 21,
  Int4 = 22,
  Float4E2M1 = 23,
  Float8E8M0 = 24,
  Uint2 = 25,
  Int2 = 26,
  Float6E2M3 = 27,
  Float6E3M2 = 28,
};

/// What the reader knows of a type of elements.
struct DataTypeFacts {
  std::string_view name;        ///< "float", as the standard's documents write it
  unsigned bits = 0;            ///< of an element in raw data; 0 for those that have none
  std::string_view safetensors; ///< "F32": of the archive's tensor; "U8" for floats of 8 bits and for packed elements,
                                ///< empty for types that archives do not have
  unsigned field = 5;           ///< of a TensorProto, that has elements which are no raw data
};
/// Returns the facts of a type; their name is empty for a number that is no type.
DataTypeFacts factsOf(DataType type);

/// A tensor that the file holds. Its bytes are row-major, little-endian; elements of fewer than 8 bits lie one after
/// the other, the first in the lowest bits.
struct Tensor {
  std::string_view name;
  std::string key; ///< of the archive: the name where no tensor before it has it
  DataType type = DataType::Undefined;
  std::vector<int64_t> dims;
  const uint8_t *data = nullptr;
  uint64_t bytes = 0;
  std::shared_ptr<const std::vector<uint8_t>> decoded; ///< the memory of `data`, where the file has no such bytes

  int64_t elements() const {
    int64_t count = 1;
    for (int64_t size : dims) {
      // The others may be too many to be multiplied.
      if (size == 0)
        return 0;
      if (__builtin_mul_overflow(count, size, &count))
        count = INT64_MAX;
    }
    return count;
  }
};

/// The type of a value. Dimensions are numbers, names, or neither.
struct ValueType {
  struct Dimension {
    std::optional<int64_t> value;
    std::string_view name;
  };

  bool isTensor = false; ///< others are sequences, maps, optional values, or sparse
  DataType element = DataType::Undefined;
  bool hasShape = false;
  std::vector<Dimension> dims;
};

struct ValueInfo {
  std::string_view name;
  ValueType type;
};

struct Graph;

enum class AttributeType : int32_t {
  Undefined = 0,
  Float = 1,
  Int = 2,
  String = 3,
  Tensor = 4,
  Graph = 5,
  Floats = 6,
  Ints = 7,
  Strings = 8,
  Tensors = 9,
  Graphs = 10,
  SparseTensor = 11,
  SparseTensors = 12,
  TypeProto = 13,
  TypeProtos = 14,
};

struct Attribute {
  std::string_view name, reference; ///< reference: of the function's attribute that it stands for
  AttributeType type = AttributeType::Undefined;
  float number = 0;
  int64_t integer = 0;
  std::string_view text;
  std::vector<float> numbers;
  std::vector<int64_t> integers;
  std::vector<std::string_view> texts;
  std::vector<Tensor> tensors; ///< one of type Tensor
  std::vector<Graph> graphs;   ///< one of type Graph
};

/// How a tensor that a node reads or computes lies on devices.
struct ShardingSpec {
  struct Dimension {
    int64_t axis = 0;                 ///< negative ones count from the back
    std::vector<int64_t> shardCounts; ///< of parts of the axis that were axes of their own
  };

  std::string_view tensor;
  std::vector<int64_t> devices; ///< numbers of devices, or of groups
  std::vector<std::pair<int64_t, std::vector<int64_t>>> groups;
  std::vector<Dimension> dimensions;
};

/// Where one of the configurations of the model has a node.
struct NodeDevices {
  std::string_view configuration;
  std::optional<int64_t> stage; ///< of a pipeline
  std::vector<ShardingSpec> specs;
};

struct Node {
  std::string_view name, op, domain, overload;
  std::vector<std::string_view> inputs, outputs; ///< "" for those that are left out
  std::vector<Attribute> attributes;
  std::vector<NodeDevices> devices;

  const Attribute *find(std::string_view attribute) const {
    for (const Attribute &each : attributes)
      if (each.name == attribute)
        return &each;
    return nullptr;
  }
};

struct Graph {
  std::vector<Node> nodes;
  std::vector<Tensor> initializers;
  std::vector<ValueInfo> inputs, outputs;
  bool hasSparse = false; ///< it has sparse initializers, which are not read
};

struct OperatorSet {
  std::string_view domain; ///< "" for ai.onnx
  int64_t version = 0;
};

struct Function {
  std::string_view name, domain, overload;
  std::vector<std::string_view> inputs, outputs;
  std::vector<std::string_view> attributes; ///< those without a default
  std::vector<Attribute> defaults;
  std::vector<Node> nodes;
  std::vector<OperatorSet> operatorSets;
};

/// Devices that an author had in mind for a model; from IR version 11 on.
struct DeviceConfiguration {
  std::string_view name;
  int64_t count = 0;
  std::vector<std::string_view> devices; ///< their names, or none
};

struct Model {
  int64_t irVersion = 0;
  std::vector<OperatorSet> operatorSets;
  Graph graph;
  std::vector<Function> functions;
  std::vector<DeviceConfiguration> configurations;
  std::vector<std::pair<std::string_view, std::string_view>> metadata; ///< keys and texts
};

} // namespace intarsia::onnx

#endif
