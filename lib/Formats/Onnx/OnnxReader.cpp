//===- OnnxReader.cpp - Messages of ONNX files --------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Numbers of fields: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto. Unknown fields are skipped, as protobuf
// says.
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Formats/Onnx/OnnxReader.h"

#include "lib/Formats/Onnx/ExternalData.h"
#include "lib/Formats/Onnx/OnnxDevices.h"

#include <bit>
#include <cstring>
#include <limits>

namespace intarsia::onnx {
namespace {

/// What a model may have at most.
constexpr unsigned deepest = 64; // graphs in graphs
constexpr size_t mostDimensions = 64;
constexpr uint64_t tensorBytes = 384; // that archives and importers keep of a tensor, its key among them

/// Returns what is wrong with its place before it. Graphs in graphs have a long one, of which the inner part is kept.
std::string placed(const std::string &place, const std::string &what) {
  constexpr size_t longest = 500;
  constexpr std::string_view left = "…: ";
  if (what.starts_with(left))
    return what;
  return what.size() > longest ? std::string(left) + what : place + ": " + what;
}

/// Reads the messages of one model.
class ModelReader {
public:
  ModelReader(ExternalFiles *external, uint64_t fileBytes) : external(external), budget(fileBytes) {}

  void readModel(Message message, Model &model);

private:
  /// Adds a place to what is wrong inside of it: "graph: node 'n' (Conv): …".
  template <typename Read> void within(const std::string &place, Read read) {
    try {
      read();
    } catch (const Malformed &malformed) {
      throw Malformed{placed(place, malformed.what)};
    } catch (const protozero::exception &exception) {
      throw Malformed{placed(place, exception.what())};
    }
  }

  void readGraph(Message message, Graph &graph, unsigned depth);
  void readNode(Message message, Node &node, unsigned depth);
  void readAttribute(Message message, Attribute &attribute, unsigned depth);
  void readTensor(Message message, Tensor &tensor);
  void readValue(Message message, ValueInfo &value);
  void readType(Message message, ValueType &type);
  void readTensorType(Message message, ValueType &type);
  void readFunction(Message message, Function &function);
  OperatorSet readOperatorSet(Message message);

  ExternalFiles *external;
  Budget budget;
};

std::pair<std::string_view, std::string_view> readEntry(Message message) {
  std::pair<std::string_view, std::string_view> entry;
  while (message.next())
    switch (message.field()) {
    case 1:
      entry.first = message.text();
      break;
    case 2:
      entry.second = message.text();
      break;
    default:
      message.skip();
    }
  return entry;
}

OperatorSet ModelReader::readOperatorSet(Message message) {
  OperatorSet set;
  while (message.next())
    switch (message.field()) {
    case 1:
      set.domain = message.text();
      break;
    case 2:
      set.version = message.integer();
      break;
    default:
      message.skip();
    }
  if (set.domain == "ai.onnx")
    set.domain = "";
  return set;
}

void ModelReader::readModel(Message message, Model &model) {
  bool hasGraph = false;
  within("model", [&] {
    while (message.next())
      switch (message.field()) {
      case 1:
        model.irVersion = message.integer();
        break;
      case 7:
        if (hasGraph)
          throw Malformed{"has two graphs"};
        hasGraph = true;
        readGraph(message.message(), model.graph, 0);
        break;
      case 8:
        budget.add(model.operatorSets) = readOperatorSet(message.message());
        break;
      case 14:
        budget.add(model.metadata) = readEntry(message.message());
        break;
      case 25:
        readFunction(message.message(), budget.add(model.functions));
        break;
      case 26:
        readConfiguration(message.message(), budget, budget.add(model.configurations));
        break;
      default:
        message.skip();
      }
    if (!hasGraph)
      throw Malformed{"has no graph: it is no ONNX file, or only a part of one"};
  });
}

void ModelReader::readGraph(Message message, Graph &graph, unsigned depth) {
  if (depth > deepest)
    throw Malformed{"graphs are nested deeper than " + std::to_string(deepest)};
  within("graph", [&] {
    uint64_t nodes = 0, tensors = 0;
    for (Message counted = message; counted.next(); counted.skip()) {
      nodes += counted.field() == 1;
      tensors += counted.field() == 5;
    }
    budget.reserve(graph.nodes, nodes);
    budget.reserve(graph.initializers, tensors);
    while (message.next())
      switch (message.field()) {
      case 1:
        readNode(message.message(), budget.add(graph.nodes), depth);
        break;
      case 5:
        readTensor(message.message(), budget.add(graph.initializers));
        break;
      case 11:
        readValue(message.message(), budget.add(graph.inputs));
        break;
      case 12:
        readValue(message.message(), budget.add(graph.outputs));
        break;
      case 15:
        graph.hasSparse = true;
        message.skip();
        break;
      default: // types that the file states for its values are not trusted
        message.skip();
      }
  });
}

void ModelReader::readNode(Message message, Node &node, unsigned depth) {
  // The name may come after a field that is wrong, so it is read first.
  Message names = message;
  std::string place = "node";
  within(place, [&] {
    uint64_t inputs = 0, outputs = 0, attributes = 0;
    while (names.next())
      switch (names.field()) {
      case 1:
        ++inputs;
        names.skip();
        break;
      case 2:
        ++outputs;
        names.skip();
        break;
      case 5:
        ++attributes;
        names.skip();
        break;
      case 3:
        node.name = names.text();
        break;
      case 4:
        node.op = names.text();
        break;
      default:
        names.skip();
      }
    budget.reserve(node.inputs, inputs);
    budget.reserve(node.outputs, outputs);
    budget.reserve(node.attributes, attributes);
  });
  place += " " + quoted(node.name) + " (" + std::string(node.op.substr(0, 64)) + ")";
  within(place, [&] {
    while (message.next())
      switch (message.field()) {
      case 1:
        budget.addText(message, node.inputs);
        break;
      case 2:
        budget.addText(message, node.outputs);
        break;
      case 5:
        readAttribute(message.message(), budget.add(node.attributes), depth);
        break;
      case 7:
        node.domain = message.text();
        break;
      case 8:
        node.overload = message.text();
        break;
      case 10:
        readDevices(message.message(), budget, budget.add(node.devices));
        break;
      default:
        message.skip();
      }
    if (node.domain == "ai.onnx")
      node.domain = "";
  });
}

/// Appends packed or single floats to numbers.
void appendFloats(const std::vector<std::string_view> &pieces, std::vector<float> &numbers) {
  for (std::string_view piece : pieces) {
    size_t before = numbers.size();
    numbers.resize(before + piece.size() / sizeof(float));
    std::memcpy(numbers.data() + before, piece.data(), piece.size());
  }
}

/// Returns the type of an attribute of files that do not state it, which are older than IR version 4.
AttributeType typeOf(const Attribute &attribute, bool hasNumber, bool hasInteger, bool hasText) {
  return hasNumber                     ? AttributeType::Float
         : hasInteger                  ? AttributeType::Int
         : hasText                     ? AttributeType::String
         : !attribute.integers.empty() ? AttributeType::Ints
         : !attribute.numbers.empty()  ? AttributeType::Floats
         : !attribute.texts.empty()    ? AttributeType::Strings
         : !attribute.tensors.empty()  ? AttributeType::Tensor
         : !attribute.graphs.empty()   ? AttributeType::Graph
                                       : AttributeType::Undefined;
}

void ModelReader::readAttribute(Message message, Attribute &attribute, unsigned depth) {
  Message names = message;
  within("attribute", [&] {
    while (names.next()) {
      if (names.field() == 1)
        attribute.name = names.text();
      else
        names.skip();
    }
  });
  within("attribute " + quoted(attribute.name), [&] {
    bool hasNumber = false, hasInteger = false, hasText = false;
    unsigned single = 0;
    std::vector<std::string_view> floats;
    while (message.next())
      switch (message.field()) {
      case 2:
        attribute.number = message.real();
        hasNumber = true;
        break;
      case 3:
        attribute.integer = message.integer();
        hasInteger = true;
        break;
      case 4:
        attribute.text = message.text();
        hasText = true;
        break;
      case 5:
      case 6:
        if (single++)
          throw Malformed{"has two values"};
        [[fallthrough]];
      case 10:
      case 11:
        if (message.field() == 5 || message.field() == 10)
          readTensor(message.message(), budget.add(attribute.tensors));
        else
          readGraph(message.message(), budget.add(attribute.graphs), depth + 1);
        break;
      case 7:
        budget.addReals(message, floats, sizeof(float));
        break;
      case 8:
        budget.addIntegers(message, attribute.integers);
        break;
      case 9:
        budget.addText(message, attribute.texts);
        break;
      case 20:
        attribute.type = AttributeType(message.number32());
        break;
      case 21:
        attribute.reference = message.text();
        break;
      default:
        message.skip();
      }
    appendFloats(floats, attribute.numbers);
    if (attribute.type == AttributeType::Undefined)
      attribute.type = typeOf(attribute, hasNumber, hasInteger, hasText);
    bool needsTensor = attribute.type == AttributeType::Tensor, needsGraph = attribute.type == AttributeType::Graph;
    if (attribute.reference.empty() &&
        ((needsTensor && attribute.tensors.size() != 1) || (needsGraph && attribute.graphs.size() != 1)))
      throw Malformed{needsTensor ? "has no tensor" : "has no graph"};
  });
}

void join(const std::vector<std::string_view> &pieces, Tensor &tensor) {
  if (pieces.size() == 1) {
    tensor.data = reinterpret_cast<const uint8_t *>(pieces.front().data());
    tensor.bytes = pieces.front().size();
    return;
  }
  auto memory = std::make_shared<std::vector<uint8_t>>();
  for (std::string_view piece : pieces)
    memory->insert(memory->end(), piece.begin(), piece.end());
  tensor.data = memory->data();
  tensor.bytes = memory->size();
  tensor.decoded = std::move(memory);
}

/// Returns the bytes that the elements of a tensor take.
uint64_t bytesOf(const Tensor &tensor, unsigned bits) {
  uint64_t elements = 1;
  bool isEmpty = false;
  for (int64_t size : tensor.dims) {
    if (size < 0)
      throw Malformed{"has a dimension of " + std::to_string(size)};
    isEmpty |= size == 0;
  }
  for (int64_t size : tensor.dims)
    if (!isEmpty && __builtin_mul_overflow(elements, uint64_t(size), &elements))
      throw Malformed{"has more elements than 64 bits count"};
  if (isEmpty)
    return 0;
  if (elements > uint64_t(std::numeric_limits<int64_t>::max()) / 128)
    throw Malformed{"has " + std::to_string(elements) + " elements"};
  return (elements * bits + 7) / 8;
}

void ModelReader::readTensor(Message message, Tensor &tensor) {
  Message names = message;
  within("tensor", [&] {
    budget.take(tensorBytes);
    while (names.next())
      switch (names.field()) {
      case 2:
        tensor.type = DataType(names.number32());
        break;
      case 8:
        tensor.name = names.text();
        break;
      default:
        names.skip();
      }
  });
  within("tensor " + quoted(tensor.name), [&] {
    std::vector<std::string_view> reals;
    std::shared_ptr<std::vector<uint8_t>> decoded; // of integers of variable length
    unsigned elementBytes = std::max(8u, factsOf(tensor.type).bits) / 8;
    std::vector<std::pair<std::string_view, std::string_view>> entries;
    bool isExternal = false;
    unsigned dataField = 0; // that has the elements
    auto takeFrom = [&](unsigned field) {
      if (dataField != 0 && dataField != field)
        throw Malformed{"has data in two places"};
      dataField = field;
    };
    while (message.next())
      switch (message.field()) {
      case 1:
        budget.addIntegers(message, tensor.dims);
        break;
      case 3:
        throw Malformed{"is a segment of a tensor"};
      case 4:
      case 10:
        takeFrom(message.field());
        budget.addReals(message, reals, message.field() == 4 ? sizeof(float) : sizeof(double));
        break;
      case 5:
      case 7:
      case 11:
        takeFrom(message.field());
        if (!decoded)
          decoded = std::make_shared<std::vector<uint8_t>>();
        budget.addElements(message, *decoded, std::min<unsigned>(elementBytes, sizeof(int64_t)));
        break;
      case 9: {
        std::string_view raw = message.text();
        tensor.data = reinterpret_cast<const uint8_t *>(raw.data());
        tensor.bytes = raw.size();
        takeFrom(9);
        break;
      }
      case 13:
        budget.add(entries) = readEntry(message.message());
        break;
      case 14:
        isExternal = message.integer() == 1;
        break;
      default: // strings among others: tensors of strings are not imported
        message.skip();
      }
    if (tensor.dims.size() > mostDimensions)
      throw Malformed{"has " + std::to_string(tensor.dims.size()) + " dimensions"};
    DataTypeFacts facts = factsOf(tensor.type);
    if (facts.name.empty() || tensor.type == DataType::Undefined)
      throw Malformed{"has the element type " + std::to_string(int32_t(tensor.type)) + ", which there is not"};
    uint64_t wanted = bytesOf(tensor, facts.bits);
    if (facts.bits == 0)
      return;
    if (isExternal)
      takeFrom(13);
    if (dataField != 0 && dataField != 9 && !isExternal && dataField != facts.field)
      throw Malformed{"has elements of type " + std::string(facts.name) + " in field " + std::to_string(dataField) +
                      ", must be in field " + std::to_string(facts.field)};
    if (isExternal)
      readExternal(external, entries, tensor);
    else if (!reals.empty())
      join(reals, tensor);
    else if (decoded) {
      if (facts.bits == 6)
        pack(*decoded);
      tensor.data = decoded->data();
      tensor.bytes = decoded->size();
      tensor.decoded = std::move(decoded);
    }
    // The length of external data is optional. Without it the data reaches to the end of its file.
    if (tensor.bytes < wanted || (tensor.bytes > wanted && !isExternal))
      throw Malformed{"has " + std::to_string(tensor.bytes) + " bytes of data, its dimensions need " +
                      std::to_string(wanted)};
    tensor.bytes = wanted;
  });
}

void ModelReader::readTensorType(Message message, ValueType &type) {
  while (message.next()) {
    if (message.field() == 1) {
      type.element = DataType(message.number32());
      continue;
    }
    if (message.field() != 2) {
      message.skip();
      continue;
    }
    type.hasShape = true;
    Message shape = message.message();
    while (shape.next()) {
      if (shape.field() != 1) {
        shape.skip();
        continue;
      }
      if (type.dims.size() == mostDimensions)
        throw Malformed{"has more than " + std::to_string(mostDimensions) + " dimensions"};
      ValueType::Dimension &dimension = budget.add(type.dims);
      Message each = shape.message();
      while (each.next())
        switch (each.field()) {
        case 1:
          dimension.value = each.integer();
          break;
        case 2:
          dimension.name = each.text();
          break;
        default:
          each.skip();
        }
    }
  }
}

void ModelReader::readType(Message message, ValueType &type) {
  while (message.next()) {
    if (message.field() != 1) { // sequences, maps, optional values and others
      message.skip();
      continue;
    }
    type.isTensor = true;
    readTensorType(message.message(), type);
  }
}

void ModelReader::readValue(Message message, ValueInfo &value) {
  within("value", [&] {
    while (message.next())
      switch (message.field()) {
      case 1:
        value.name = message.text();
        break;
      case 2:
        readType(message.message(), value.type);
        break;
      default:
        message.skip();
      }
  });
}

void ModelReader::readFunction(Message message, Function &function) {
  within("function", [&] {
    while (message.next())
      switch (message.field()) {
      case 1:
        function.name = message.text();
        break;
      case 4:
        budget.addText(message, function.inputs);
        break;
      case 5:
        budget.addText(message, function.outputs);
        break;
      case 6:
        budget.addText(message, function.attributes);
        break;
      case 7:
        readNode(message.message(), budget.add(function.nodes), 0);
        break;
      case 9:
        budget.add(function.operatorSets) = readOperatorSet(message.message());
        break;
      case 10:
        function.domain = message.text();
        break;
      case 11:
        readAttribute(message.message(), budget.add(function.defaults), 0);
        if (!function.defaults.back().reference.empty())
          throw Malformed{"the default of attribute " + quoted(function.defaults.back().name) +
                          " refers to another attribute"};
        break;
      case 13:
        function.overload = message.text();
        break;
      default:
        message.skip();
      }
    if (function.domain == "ai.onnx")
      function.domain = "";
  });
}

} // namespace

std::string readModel(std::string_view bytes, ExternalFiles *external, Model &model) {
  try {
    ModelReader(external, bytes.size()).readModel(Message(bytes), model);
  } catch (const Malformed &malformed) {
    return malformed.what;
  }
  return "";
}

} // namespace intarsia::onnx
