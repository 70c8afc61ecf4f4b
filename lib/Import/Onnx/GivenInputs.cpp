//===- GivenInputs.cpp - What the user says of the inputs of an ONNX model ----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Import/Onnx/GivenInputs.h"

#include "lib/Formats/Npy.h"
#include "lib/Support/FileVersions.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

namespace intarsia::onnx {

using Dimension = ValueType::Dimension;

static llvm::StringRef textOf(std::string_view text) { return {text.data(), text.size()}; }

/// Returns a dimension as files and options have it.
static std::string textOf(const Dimension &dimension) {
  if (dimension.value)
    return std::to_string(*dimension.value);
  return dimension.name.empty() ? "?" : printable(dimension.name);
}

/// Returns "float [n, 3]".
static std::string textOf(const ValueType &type) {
  if (!type.isTensor)
    return "no tensor";
  std::string text = nameOf(type.element);
  if (!type.hasShape)
    return text + " without a shape";
  std::vector<std::string> dims;
  for (const Dimension &dimension : type.dims)
    dims.push_back(textOf(dimension));
  return text + " [" + llvm::join(dims, ", ") + "]";
}

/// True for a name of a size, which others with it share.
static bool isName(const Dimension &dimension) {
  return !dimension.value && !dimension.name.empty() && dimension.name != "?";
}

std::string_view GivenInputs::keep(llvm::StringRef text) { return texts.emplace_back(text.str()); }

GivenInputs::GivenInputs(const importer::ImportOptions &options, const Graph &graph, importer::Errors &errors)
    : graph(graph), errors(errors) {
  for (const std::string &text : options.shapes)
    parseShape(text);
  for (const Shape &shape : shapes)
    nameSizes(shape);
  for (const Shape &shape : shapes)
    fixSizes(*shape.input, shape.dims, shape.text);
  for (const std::string &text : options.values)
    setValue(text);
}

/// Finds the input whose name a text of the form NAME=… begins with; the longest one, as names may have any character.
const ValueInfo *GivenInputs::find(llvm::StringRef text, llvm::StringRef option, llvm::StringRef &rest) {
  const ValueInfo *found = nullptr;
  for (const ValueInfo &input : graph.inputs)
    if (llvm::StringRef name = textOf(input.name); text.starts_with(name) &&
                                                   text.drop_front(name.size()).starts_with("=") &&
                                                   (!found || found->name.size() < name.size()))
      found = &input;
  if (found) {
    rest = text.drop_front(found->name.size() + 1);
    return found;
  }
  constexpr size_t most = 20;
  std::vector<std::string> names;
  for (const ValueInfo &input : graph.inputs)
    if (names.size() < most)
      names.push_back("'" + printable(input.name) + "'");
  if (graph.inputs.size() > most)
    names.push_back("…");
  errors.report(option + "=" + text + ": " +
                (text.contains('=') ? "the model has no input of this name" : "is not of the form NAME=…") +
                (names.empty() ? "; it has no inputs" : "; its inputs are " + llvm::join(names, ", ")));
  return nullptr;
}

/// Parses "x=1x3xHxW", or with commas, for names that have an x.
void GivenInputs::parseShape(llvm::StringRef text) {
  llvm::StringRef rest;
  const ValueInfo *input = find(text, "--shape", rest);
  if (!input)
    return;
  Shape shape{input, {}, "--shape=" + text.str()};
  auto report = [&](const llvm::Twine &what) { errors.report(shape.text + ": " + what); };
  llvm::SmallVector<llvm::StringRef> parts;
  if (!rest.empty())
    rest.split(parts, rest.contains(',') ? ',' : 'x');
  // A name alone that has an x ends with a comma.
  if (parts.size() > 1 && parts.back().empty() && rest.ends_with(","))
    parts.pop_back();
  for (llvm::StringRef part : parts) {
    Dimension &dimension = shape.dims.emplace_back();
    if (int64_t number; !part.getAsInteger(10, number)) {
      if (number < 0)
        return report("a size is " + llvm::Twine(number));
      dimension.value = number;
    } else if (part.empty() || llvm::isDigit(part.front())) {
      return report("'" + part +
                    "' is no size; a shape is numbers and names of sizes as in x=1x3xheightxwidth, or with "
                    "commas x=1,3,max_height,max_width");
    } else if (part != "?") {
      dimension.name = keep(part);
    }
  }
  if (!input->type.isTensor)
    return report("the input is no tensor");
  if (shapeOf.contains(textOf(input->name)))
    return report("the shape of the input is given twice");
  shapeOf.try_emplace(textOf(input->name), &shapes.emplace_back(std::move(shape)));
}

/// Takes names that an option gives to sizes, and checks what it says of those that are numbers.
void GivenInputs::nameSizes(const Shape &shape) {
  const ValueType &own = shape.input->type;
  auto report = [&](const llvm::Twine &what) { errors.report(shape.text + ": the input is " + textOf(own) + what); };
  if (!own.hasShape)
    return;
  if (own.dims.size() != shape.dims.size())
    return report(", which has " + llvm::Twine(own.dims.size()) + " dimensions, not " + llvm::Twine(shape.dims.size()));
  for (auto [number, pair] : llvm::enumerate(llvm::zip_equal(own.dims, shape.dims))) {
    const auto &[mine, given] = pair;
    if (mine.value && *mine.value >= 0 && mine.value != given.value)
      return report(", whose dimension " + llvm::Twine(number) + " is a number");
    if (!isName(mine) || !isName(given))
      continue;
    auto [known, isNew] = renamed.try_emplace(textOf(mine.name), given.name);
    if (!isNew && known->second != given.name)
      return report(", whose size '" + printable(mine.name) + "' is called '" + std::string(known->second) +
                    "' elsewhere");
  }
}

/// Takes the numbers that an input's sizes become by a shape.
void GivenInputs::fixSizes(const ValueInfo &input, llvm::ArrayRef<Dimension> dims, const llvm::Twine &option) {
  if (!input.type.hasShape)
    return;
  for (auto [mine, given] : llvm::zip(input.type.dims, dims)) {
    if (!isName(mine) || !given.value)
      continue;
    auto other = renamed.find(textOf(mine.name));
    llvm::StringRef name = textOf(other == renamed.end() ? mine.name : other->second);
    auto [known, isNew] = fixed.try_emplace(name, *given.value);
    if (!isNew && known->second != *given.value)
      return errors.report(option + ": size '" + printable(mine.name) + "' of the input is " +
                           llvm::Twine(*given.value) + ", and " + llvm::Twine(known->second) + " elsewhere");
  }
}

ValueType GivenInputs::typeOf(const ValueInfo &input) const {
  ValueType type = input.type;
  if (auto given = shapeOf.find(textOf(input.name)); given != shapeOf.end()) {
    // An axis that both leave open keeps the name that it has in the file.
    for (auto [number, dimension] : llvm::enumerate(given->second->dims))
      if (!type.hasShape)
        type.dims.push_back(dimension);
      else if (dimension.value || isName(dimension))
        type.dims[number] = dimension;
    type.hasShape = true;
  }
  for (Dimension &dimension : type.dims) {
    if (!isName(dimension))
      continue;
    if (auto other = renamed.find(textOf(dimension.name)); other != renamed.end())
      dimension.name = other->second;
    if (auto number = fixed.find(textOf(dimension.name)); number != fixed.end())
      dimension = {number->second, {}};
  }
  return type;
}

const GraphValue *GivenInputs::valueOf(llvm::StringRef input) const {
  auto found = values.find(input);
  return found == values.end() ? nullptr : &found->second;
}

//===-- Values ------------------------------------------------------------------------------------------------===//

/// Sets an input to "[1,2]", "0.5", or "@file.npy".
void GivenInputs::setValue(llvm::StringRef text) {
  llvm::StringRef rest;
  const ValueInfo *input = find(text, "--set", rest);
  if (!input || errors.any())
    return;
  std::string option = "--set=" + text.substr(0, 80).str() + (text.size() > 80 ? "…" : "");
  if (!input->type.isTensor)
    return errors.report(option + ": the input is no tensor");
  GraphValue value;
  value.type = input->type.element;
  llvm::SmallVector<int64_t> shape;
  if (rest.consume_front("@")) {
    if (!readArray(*input, rest, option, value))
      return;
    shape.assign(value.stored->dims.begin(), value.stored->dims.end());
  } else {
    std::optional<Elements> elements = parseElements(*input, rest, option);
    if (!elements)
      return;
    shape = elements->shape;
    value.elements = std::make_shared<Elements>(std::move(*elements));
  }
  ValueType type = typeOf(*input);
  std::vector<Dimension> dims;
  for (int64_t size : shape)
    dims.push_back({size, {}});
  bool agrees = !type.hasShape || type.dims.size() == dims.size();
  for (auto [mine, given] : llvm::zip(type.dims, dims))
    agrees &= !mine.value || *mine.value < 0 || mine.value == given.value;
  if (!agrees)
    return errors.report(option + ": the input is " + textOf(type) + ", the value has the shape [" +
                         llvm::join(llvm::map_range(shape, [](int64_t size) { return std::to_string(size); }), ", ") +
                         "]");
  fixSizes(*input, dims, option);
  if (!values.try_emplace(textOf(input->name), std::move(value)).second)
    errors.report(option + ": the input is set twice");
}

/// Adds the elements of nested lists. `depth` is that of the list; false if lists have different lengths.
static bool flatten(const llvm::json::Value &value, size_t depth, llvm::SmallVector<int64_t> &shape,
                    std::vector<const llvm::json::Value *> &elements) {
  const llvm::json::Array *list = value.getAsArray();
  if (!list) {
    elements.push_back(&value);
    return depth == shape.size();
  }
  constexpr size_t deepest = 64;
  // The first list of a depth says how long all of it are; an element may have stood in its place before.
  if (depth == shape.size()) {
    if (!elements.empty() || depth == deepest)
      return false;
    shape.push_back(int64_t(list->size()));
  }
  if (shape[depth] != int64_t(list->size()))
    return false;
  return llvm::all_of(*list, [&](const llvm::json::Value &each) { return flatten(each, depth + 1, shape, elements); });
}

/// Returns an element of a type; nullopt for a number that it does not hold.
static std::optional<Element> elementOf(const llvm::json::Value &value, DataType type) {
  if (std::optional<bool> truth = value.getAsBoolean())
    return isBool(type) ? std::optional(Element(int64_t(*truth))) : std::nullopt;
  if (isFloat(type)) {
    std::optional<double> number = value.getAsNumber();
    return number ? std::optional(rounded(Element::ofReal(*number), type)) : std::nullopt;
  }
  if (std::optional<uint64_t> number = value.getAsUINT64(); number && type == DataType::Uint64)
    return Element(int64_t(*number));
  std::optional<int64_t> number = value.getAsInteger();
  if (!number || (type == DataType::Uint64 && *number < 0))
    return std::nullopt;
  Element element = rounded(Element(*number), type);
  return element.integer == *number ? std::optional(element) : std::nullopt;
}

std::optional<Elements> GivenInputs::parseElements(const ValueInfo &input, llvm::StringRef text,
                                                   const llvm::Twine &option) {
  auto refuse = [&](const llvm::Twine &what) {
    errors.report(option + ": " + what);
    return std::nullopt;
  };
  DataType type = input.type.element;
  bool isNarrow = isSmall(type) || bitsOf(type) == 0;
  if (isNarrow || type == DataType::Complex64 || type == DataType::Complex128)
    return refuse("elements of type " + nameOf(type) + " cannot be given as numbers");
  // The parser calls itself for each bracket.
  constexpr size_t deepest = 64;
  if (text.count('[') > deepest && text.take_front(deepest + 1).count('[') > deepest)
    return refuse("lists are more than 64 deep");
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(text);
  if (!value) {
    llvm::consumeError(value.takeError());
    return refuse("a value is a number, lists of numbers as [1,2], or @file.npy");
  }
  Elements elements;
  std::vector<const llvm::json::Value *> numbers;
  if (!flatten(*value, 0, elements.shape, numbers))
    return refuse("lists in the value have different lengths");
  for (const llvm::json::Value *each : numbers) {
    std::optional<Element> element = elementOf(*each, type);
    if (!element)
      return refuse("the input has elements of type " + nameOf(type) + ", which '" + llvm::formatv("{0}", *each).str() +
                    "' is not");
    elements.values.push_back(*element);
  }
  return elements;
}

/// Returns the type that an array has in a file of NumPy; those that it does not have lie as bytes there.
static std::optional<itx_dtype> arrayType(DataType type) {
  switch (type) {
  case DataType::Float:
    return ITX_F32;
  case DataType::Double:
    return ITX_F64;
  case DataType::Float16:
    return ITX_F16;
  case DataType::Bfloat16:
    return ITX_BF16;
  case DataType::Int8:
    return ITX_I8;
  case DataType::Int16:
    return ITX_I16;
  case DataType::Int32:
    return ITX_I32;
  case DataType::Int64:
    return ITX_I64;
  case DataType::Uint8:
  case DataType::Float8E4M3FN:
  case DataType::Float8E4M3FNUZ:
  case DataType::Float8E5M2:
  case DataType::Float8E5M2FNUZ:
  case DataType::Float8E8M0:
    return ITX_U8;
  case DataType::Uint16:
    return ITX_U16;
  case DataType::Uint32:
    return ITX_U32;
  case DataType::Uint64:
    return ITX_U64;
  case DataType::Bool:
    return ITX_BOOL;
  default:
    return std::nullopt;
  }
}

static constexpr llvm::StringLiteral arrayTypeNames[] = {"f32", "f16", "bf16", "f64", "i64", "i32", "i16",
                                                         "i8",  "u8",  "bool", "u16", "u32", "u64"};

bool GivenInputs::readArray(const ValueInfo &input, llvm::StringRef path, const llvm::Twine &option,
                            GraphValue &value) {
  auto refuse = [&](const llvm::Twine &what) {
    errors.report(option + ": " + what);
    return false;
  };
  FileVersions::note(path.str());
  std::unique_ptr<MappedFile> &file = files.emplace_back();
  if (Status status = MappedFile::open(path.str(), file); !status.ok())
    return refuse(status.message());
  NpyHeader header;
  if (Status status = parseNpy(file->data(), file->size(), path.str(), header); !status.ok())
    return refuse(status.message());
  std::optional<itx_dtype> wanted = arrayType(value.type);
  if (!wanted)
    return refuse("elements of type " + nameOf(value.type) + " cannot be given by a file");
  // NumPy has no type of its own for it.
  if (value.type == DataType::Bfloat16 && header.dtype == ITX_U16)
    wanted = ITX_U16;
  if (header.dtype != *wanted)
    return refuse("the input has elements of type " + nameOf(value.type) + ", which are " + arrayTypeNames[*wanted] +
                  " in files, and the array has " + arrayTypeNames[header.dtype]);
  Tensor &tensor = tensors.emplace_back();
  tensor.name = input.name;
  tensor.type = value.type;
  tensor.dims = header.shape;
  tensor.data = file->data() + header.dataOffset;
  tensor.bytes = header.dataBytes;
  if (header.fortranOrder) {
    auto memory = std::make_shared<std::vector<uint8_t>>(header.dataBytes);
    fortranToRowMajor(header, tensor.data, memory->data());
    tensor.data = memory->data();
    tensor.decoded = std::move(memory);
  }
  value.stored = &tensor;
  return true;
}

} // namespace intarsia::onnx
