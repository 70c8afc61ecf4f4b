//===- Manifest.cpp - What an artifact says about itself ---------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Assemble/Manifest.h"

#include "dialects/Nn/Nn.h"
#include "dialects/Rt/Turns.h"
#include "intarsia/Version.h"
#include "lib/Formats/ArtifactFormat.h"
#include "lib/Formats/Manifest.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Shard/IR/ShardOps.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/JSON.h"
#include <set>

using namespace mlir;
using llvm::createStringError;

namespace intarsia::assemble {
StringRef dtypeName(Type type) {
  return llvm::TypeSwitch<Type, StringRef>(type)
      .Case([](Float64Type) { return "f64"; })
      .Case([](Float32Type) { return "f32"; })
      .Case([](Float16Type) { return "f16"; })
      .Case([](BFloat16Type) { return "bf16"; })
      .Case([](IntegerType integer) -> StringRef {
        if (integer.isUnsigned())
          return llvm::StringSwitch<StringRef>(std::to_string(integer.getWidth()))
              .Case("8", "u8")
              .Case("16", "u16")
              .Case("32", "u32")
              .Case("64", "u64")
              .Default("");
        switch (integer.getWidth()) {
        case 1:
          return "bool";
        case 8:
          return "i8";
        case 16:
          return "i16";
        case 32:
          return "i32";
        case 64:
          return "i64";
        default:
          return "";
        }
      })
      .Default([](Type) { return ""; });
}

namespace {

/// Returns an expression in postfix notation, as the runtime reads it: "s0 3 + s1 floordiv".
std::string postfix(AffineExpr size) {
  if (auto constant = dyn_cast<AffineConstantExpr>(size))
    return std::to_string(constant.getValue());
  if (auto symbol = dyn_cast<AffineSymbolExpr>(size))
    return "s" + std::to_string(symbol.getPosition());
  auto binary = cast<AffineBinaryOpExpr>(size);
  const char *operation = binary.getKind() == AffineExprKind::Add        ? " +"
                          : binary.getKind() == AffineExprKind::Mul      ? " *"
                          : binary.getKind() == AffineExprKind::FloorDiv ? " floordiv"
                          : binary.getKind() == AffineExprKind::CeilDiv  ? " ceildiv"
                                                                         : " mod";
  return postfix(binary.getLHS()) + " " + postfix(binary.getRHS()) + operation;
}

/// Appends the factors of a size: positions of sizes, and expressions that are not products. Multiplies `bytes` by
/// constants.
void appendFactors(AffineExpr size, int64_t &bytes, std::vector<unsigned> &sizes,
                   std::vector<std::string> &expressions) {
  auto product = dyn_cast<AffineBinaryOpExpr>(size);
  if (auto constant = dyn_cast<AffineConstantExpr>(size)) {
    bytes *= constant.getValue();
  } else if (auto symbol = dyn_cast<AffineSymbolExpr>(size)) {
    sizes.push_back(symbol.getPosition());
  } else if (product && product.getKind() == AffineExprKind::Mul) {
    appendFactors(product.getLHS(), bytes, sizes, expressions);
    appendFactors(product.getRHS(), bytes, sizes, expressions);
  } else {
    expressions.push_back(postfix(size));
  }
}

/// Writes the bytes of an operand of a kernel: a number and the factors to multiply it by, each the position of a size
/// or an expression.
void writeOperand(llvm::json::OStream &json, rt::KernelOp kernel, Type type, DictionaryAttr attributes) {
  auto tensor = cast<RankedTensorType>(type);
  int64_t bytes = llvm::divideCeil(tensor.getElementTypeBitWidth(), 8);
  std::vector<unsigned> sizes;
  std::vector<std::string> expressions;
  auto names = attributes ? attributes.getAs<ArrayAttr>("nn.sizes") : ArrayAttr();
  for (auto [dimension, size] : llvm::enumerate(tensor.getShape())) {
    if (!ShapedType::isDynamic(size))
      bytes *= size;
    else
      appendFactors(kernel.parseSize(cast<StringAttr>(names[dimension]).getValue()), bytes, sizes, expressions);
  }
  json.array([&] {
    json.value(bytes);
    for (unsigned size : sizes)
      json.value(size);
    for (const std::string &expression : expressions)
      json.value(expression);
  });
}

/// Writes a pair of lists for each kernel: inputs and outputs. A weight has the bytes that it was packed into.
void writeOperands(llvm::json::OStream &json, ModuleOp module, const ModuleTables &tables,
                   const weights::PackedWeights &weights) {
  llvm::StringMap<rt::DispatchOp> dispatches;
  module.walk([&](rt::DispatchOp dispatch) { dispatches.try_emplace(dispatch.getKernel(), dispatch); });
  for (auto kernel : module.getOps<rt::KernelOp>()) {
    rt::DispatchOp dispatch = dispatches.lookup(kernel.getSymName());
    json.arrayBegin();
    json.array([&] {
      for (auto [number, type] : llvm::enumerate(kernel.getArgumentTypes())) {
        auto constant = dispatch ? dispatch.getInputs()[number].getDefiningOp<rt::ConstantDataOp>() : nullptr;
        if (constant)
          json.array([&] { json.value(weights.tensorBytes[tables.constantIndices.lookup(constant.getConstant())]); });
        else
          writeOperand(json, kernel, type, kernel.getArgAttrDict(number));
      }
    });
    json.array([&] {
      for (auto [number, type] : llvm::enumerate(kernel.getResultTypes()))
        writeOperand(json, kernel, type, kernel.getResultAttrDict(number));
    });
    json.arrayEnd();
  }
}

/// Writes the element types of the operands of each kernel, inputs and outputs; "" for weights, whose bytes lie in a
/// layout.
void writeOperandTypes(llvm::json::OStream &json, ModuleOp module) {
  auto isStored = [](rt::KernelOp kernel, unsigned argument) {
    auto layout = kernel.getArgAttrOfType<rt::LayoutAttrInterface>(argument, "rt.layout");
    return layout && !layout.isRowMajor();
  };
  for (auto kernel : module.getOps<rt::KernelOp>())
    json.array([&] {
      json.array([&] {
        for (auto [number, type] : llvm::enumerate(kernel.getArgumentTypes()))
          json.value(isStored(kernel, number) ? "" : dtypeName(cast<ShapedType>(type).getElementType()));
      });
      json.array([&] {
        for (Type type : kernel.getResultTypes())
          json.value(dtypeName(cast<ShapedType>(type).getElementType()));
      });
    });
}

/// Writes the inputs of each kernel of which it reads only parts that indices choose, each as a list: its number, and
/// if the parts lie one after another, also that of the indices, the number of parts, and the bytes of an index.
/// Matrices do, rows of a matrix in a layout do not.
void writeGathered(llvm::json::OStream &json, ModuleOp module) {
  for (auto kernel : module.getOps<rt::KernelOp>())
    json.array([&] {
      for (auto [number, type] : llvm::enumerate(kernel.getArgumentTypes())) {
        auto indices = kernel.getArgAttrOfType<IntegerAttr>(number, "rt.gathered");
        if (!indices)
          continue;
        auto shape = cast<ShapedType>(type).getShape();
        json.array([&] {
          json.value(number);
          auto panels = kernel.getArgAttrOfType<rt::PanelsAttr>(number, "rt.layout");
          if (shape.size() < 3 || indices.getInt() < 0 || (panels && panels.getSlices() != 1))
            return;
          json.value(indices.getInt());
          json.value(shape.front());
          json.value(cast<ShapedType>(kernel.getArgumentTypes()[indices.getInt()]).getElementTypeBitWidth() / 8);
        });
      }
    });
}

/// Writes the positions of the weights of which all kernels read only rows that indices choose.
void writeGatheredWeights(llvm::json::OStream &json, ModuleOp module, const ModuleTables &tables) {
  std::set<unsigned> whole; // constants
  module.walk([&](rt::ConstantDataOp data) {
    for (OpOperand &use : data->getUses()) {
      auto dispatch = dyn_cast<rt::DispatchOp>(use.getOwner());
      auto kernel = dispatch ? SymbolTable::lookupNearestSymbolFrom<rt::KernelOp>(dispatch, dispatch.getKernelAttr())
                             : rt::KernelOp();
      bool isGathered = kernel && llvm::all_of(llvm::enumerate(dispatch.getInputs()), [&](auto input) {
                          return input.value() != data.getResult() || kernel.getArgAttr(input.index(), "rt.gathered");
                        });
      if (!isGathered)
        whole.insert(tables.constantIndices.lookup(data.getConstant()));
    }
  });
  for (auto [position, use] : llvm::enumerate(tables.weights))
    if (!whole.contains(use.constant))
      json.value(position);
}

/// Converts metadata of the model to JSON: dictionaries, lists, strings, numbers, booleans.
llvm::json::Value jsonOf(Attribute attribute) {
  return llvm::TypeSwitch<Attribute, llvm::json::Value>(attribute)
      .Case([](DictionaryAttr dictionary) {
        llvm::json::Object object;
        for (NamedAttribute entry : dictionary)
          object[entry.getName().getValue()] = jsonOf(entry.getValue());
        return object;
      })
      .Case([](ArrayAttr array) {
        llvm::json::Array list;
        for (Attribute item : array)
          list.push_back(jsonOf(item));
        return list;
      })
      .Case([](StringAttr text) { return llvm::json::fixUTF8(text.getValue()); })
      .Case([](BoolAttr flag) { return flag.getValue(); })
      .Case([](IntegerAttr number) { return number.getValue().getSExtValue(); })
      .Case([](FloatAttr number) { return number.getValueAsDouble(); })
      .Case([](UnitAttr) { return true; })
      .Default([](Attribute other) {
        std::string text;
        llvm::raw_string_ostream(text) << other;
        return text;
      });
}

class Writer {
public:
  Writer(llvm::json::OStream &json, const ModuleTables &tables) : json(json), tables(tables) {}

  /// Writes which stage of its rank a function is, and how many messages it gets from the one before.
  void writeTurn(func::FuncOp function) {
    auto [turn, turns] = rt::turnOf(function);
    if (turns == 1)
      return;
    int64_t receives = llvm::count_if(function.getOps<rt::CollectiveOp>(),
                                      [](rt::CollectiveOp op) { return op.getKind() == rt::CollectiveKind::Receive; });
    json.attributeObject("turn", [&, turn = turn, turns = turns] {
      json.attribute("number", turn);
      json.attribute("of", turns);
      json.attribute("order", function->getAttrOfType<StringAttr>(rt::orderAttr).getValue());
      json.attribute("receives", receives);
    });
  }

  llvm::Error function(func::FuncOp function) {
    llvm::Error error = llvm::Error::success();
    auto results = function->getAttrOfType<ArrayAttr>(rt::hostResultsAttr).getAsRange<DictionaryAttr>();
    SmallVector<DictionaryAttr> inputs, outputs(results);
    for (unsigned number = 0; number != function.getNumArguments(); ++number) {
      DictionaryAttr attributes = function.getArgAttrDict(number);
      inputs.push_back(attributes ? attributes : DictionaryAttr::get(function.getContext()));
    }
    std::vector<std::string> inputNames = names(inputs, "arg"), outputNames = names(outputs, "result");
    auto standsFor = function->getAttrOfType<StringAttr>(rt::alternativeAttr);
    json.object([&] {
      json.attribute("name", standsFor ? standsFor.getValue() : function.getName());
      if (auto rank = function->getAttrOfType<IntegerAttr>(rt::rankAttr))
        json.attribute("rank", rank.getInt());
      if (auto stages = function->getAttrOfType<IntegerAttr>(rt::stagesAttr))
        json.attribute("stages", stages.getInt());
      writeTurn(function);
      if (tables.devices.size() > 1)
        json.attributeArray("devices", [&] {
          for (unsigned device : devicesOf(function))
            json.value(device);
        });
      if (auto before = function->getAttrOfType<FlatSymbolRefAttr>("nn.continues"))
        json.attribute("continues", before.getValue());
      if (function->hasAttr("nn.runs_at_load"))
        json.attribute("runs_at_load", true);
      if (auto tokens = function->getAttrOfType<IntegerAttr>("nn.page_tokens"))
        json.attribute("page_tokens", tokens.getInt());
      auto limits = function->getAttrOfType<DictionaryAttr>("nn.size_limits");
      auto empty = function->getAttrOfType<ArrayAttr>("nn.empty_sizes");
      json.attributeArray("sizes", [&] {
        for (auto name : function->getAttrOfType<ArrayAttr>(rt::hostSymbolsAttr).getAsRange<StringAttr>()) {
          json.object([&] {
            json.attribute("name", name.getValue());
            if (auto limit = limits ? limits.getAs<IntegerAttr>(name) : IntegerAttr())
              json.attribute("maximum", limit.getInt());
            if (empty && llvm::is_contained(empty, name))
              json.attribute("may_be_empty", true);
          });
        }
      });
      writeChecks(function);
      json.attributeArray("inputs", [&] {
        for (auto [name, type, attributes] : llvm::zip_equal(inputNames, function.getArgumentTypes(), inputs))
          error = joinErrors(std::move(error), value(name, cast<ShapedType>(type), attributes, tables.memoryOf(type)));
      });
      SmallVector<int> memories(outputs.size(), -1);
      for (rt::OutputOp output : function.getOps<rt::OutputOp>())
        memories[output.getIndex()] = tables.memoryOf(output.getType());
      json.attributeArray("outputs", [&] {
        for (auto [name, attributes, memory] : llvm::zip_equal(outputNames, outputs, memories)) {
          auto type = cast<ShapedType>(attributes.getAs<TypeAttr>("type").getValue());
          error = joinErrors(std::move(error), value(name, type, attributes, memory));
        }
      });
      if (auto metadata = function->getAttrOfType<DictionaryAttr>("nn.metadata"))
        json.attribute("metadata", jsonOf(metadata));
    });
    return error;
  }

private:
  /// Writes what sizes and computed indices are checked for, in the order in which host code numbers them.
  void writeChecks(func::FuncOp function) {
    SmallVector<Operation *> checks;
    function.walk([&](Operation *op) {
      if (isa<rt::CheckOp, rt::CheckIndicesOp>(op))
        checks.push_back(op);
    });
    if (checks.empty())
      return;
    auto write = [&](StringRef relation, StringRef left, StringRef right, StringRef why) {
      json.object([&] {
        json.attribute("relation", relation);
        json.attribute("left", left);
        json.attribute("right", right);
        json.attribute("why", why);
      });
    };
    json.attributeArray("checks", [&] {
      for (Operation *op : checks)
        if (auto check = dyn_cast<rt::CheckOp>(op))
          write(rt::stringifyRelation(check.getRelation()), check.getLeftText(), check.getRightText(), check.getWhy());
        else if (auto indices = dyn_cast<rt::CheckIndicesOp>(op))
          write("below", indices.getName(), indices.getLimitText(), indices.getWhy());
    });
  }

  /// Returns the indices of the devices that a function puts work on.
  std::set<unsigned> devicesOf(func::FuncOp function) {
    std::set<unsigned> used;
    auto add = [&](rt::QueueType queue) { used.insert(tables.deviceIndices.lookup(queue.getDevice().getValue())); };
    function.walk([&](rt::DispatchOp dispatch) { add(dispatch.getQueue().getType()); });
    function.walk([&](rt::CopyOp copy) { add(copy.getQueue().getType()); });
    return used;
  }

  /// Returns the names that the model gives. Values without one get their kind and index, followed by as many '_' as
  /// make the name unique.
  static std::vector<std::string> names(ArrayRef<DictionaryAttr> values, const Twine &kind) {
    llvm::StringSet<> taken;
    std::vector<std::string> names;
    for (DictionaryAttr attributes : values) {
      auto given = attributes.getAs<StringAttr>("nn.name");
      names.push_back(given ? given.str() : "");
      taken.insert(names.back());
    }
    for (auto [number, name] : llvm::enumerate(names)) {
      if (!name.empty())
        continue;
      name = (kind + Twine(number)).str();
      while (!taken.insert(name).second)
        name += "_";
    }
    return names;
  }

  llvm::Error value(StringRef name, ShapedType type, DictionaryAttr attributes, int device) {
    Type element = type.getElementType();
    // Integers have no sign in IR: the attribute says that the caller passes unsigned ones.
    if (attributes.contains("nn.unsigned"))
      element = IntegerType::get(type.getContext(), element.getIntOrFloatBitWidth(), IntegerType::Unsigned);
    StringRef dtype = dtypeName(element);
    auto sizes = attributes.getAs<ArrayAttr>("nn.sizes");
    json.object([&] {
      json.attribute("name", name);
      json.attribute("dtype", dtype);
      json.attributeArray("shape", [&] {
        for (auto [dimension, size] : llvm::enumerate(type.getShape())) {
          if (ShapedType::isDynamic(size))
            json.value(cast<StringAttr>(sizes[dimension]).getValue());
          else
            json.value(size);
        }
      });
      if (auto range = attributes.getAs<DenseI64ArrayAttr>("nn.range"))
        json.attributeArray("range", [&] {
          for (int64_t bound : range.asArrayRef())
            json.value(bound);
        });
      if (auto below = attributes.getAs<ArrayAttr>("nn.below"))
        json.attributeObject("below", [&] {
          json.attribute("factor", cast<IntegerAttr>(below[0]).getInt());
          json.attribute("size", cast<StringAttr>(below[1]).getValue());
        });
      if (attributes.contains("nn.state"))
        json.attribute("state", true);
      if (auto from = attributes.getAs<IntegerAttr>("nn.size_from"))
        json.attribute("size_from", from.getInt());
      if (auto global = attributes.getAs<StringAttr>("nn.global"))
        json.attribute("global", global.getValue());
      if (device >= 0)
        json.attribute("device", device);
      if (auto fill = attributes.getAs<IntegerAttr>("nn.default"))
        json.attribute("default", nn::numberOf(fill));
    });
    if (!dtype.empty())
      return llvm::Error::success();
    std::string text;
    llvm::raw_string_ostream(text) << type.getElementType();
    return createStringError("'" + name + "' has elements of type " + text + ", which calls cannot pass");
  }

  llvm::json::OStream &json;
  const ModuleTables &tables;
};

/// Writes the functions of an object, if its device counts what they take.
llvm::Error writeFunctions(llvm::json::OStream &json, const target::Target &target, rt::ObjectOp object) {
  auto functions = target::listFunctions(target, object);
  if (!functions)
    return functions.takeError();
  if (!functions->empty())
    json.attributeArray("functions", [&] {
      for (const target::KernelFunction &function : *functions)
        json.object([&] { target::writeFunction(json, object, function); });
    });
  return llvm::Error::success();
}

/// Writes the devices with their objects, whose indices count through all devices. The host's CPU alone is not written.
llvm::Error writeDevices(llvm::json::OStream &json, const ModuleTables &tables,
                         const target::ArtifactObjects &artifact) {
  const std::vector<target::DeviceObjects> &devices = artifact.devices;
  if (devices.size() == 1 && devices.front().target->runsHostCode())
    return llvm::Error::success();
  llvm::Error error = llvm::Error::success();
  unsigned objects = 0;
  json.attributeArray("devices", [&] {
    for (const target::DeviceObjects &device : devices)
      json.object([&] {
        json.attribute("name", rt::DeviceOp(device.device).getSymName());
        json.attribute("kind", device.target->kind());
        if (device.target->verifiesKernels())
          json.attribute("verifies", true);
        if (!device.target->runsHostCode())
          json.attributeArray("objects", [&] {
            for (rt::ObjectOp object : device.objects)
              json.object([&] {
                json.attribute("variant", object.getVariant().getName());
                json.attribute("object", objects++);
                error = joinErrors(std::move(error), writeFunctions(json, *device.target, object));
              });
          });
      });
  });
  json.attributeArray("kernel_devices", [&] {
    for (unsigned device : tables.kernelDevices)
      json.value(device);
  });
  return error;
}

} // namespace

std::vector<target::Variant> hostVariants(const target::ArtifactObjects &artifact) {
  std::vector<target::Variant> variants;
  for (const target::DeviceObjects &device : artifact.devices)
    if (variants.empty() && device.target->runsHostCode())
      for (rt::ObjectOp object : device.objects) {
        rt::VariantAttr variant = object.getVariant();
        variants.push_back({variant.getName().str(), variant.getCpu().str(), {}});
        for (StringAttr feature : variant.getFeatures())
          variants.back().features.push_back(feature.str());
      }
  if (variants.empty())
    variants.push_back({"host", "", {}});
  return variants;
}

/// Writes how many ranks a split module has, and the groups of them that do something together.
static void writeWorld(llvm::json::OStream &json, ModuleOp module, const ModuleTables &tables) {
  for (auto grid : module.getOps<shard::GridOp>())
    json.attributeObject("world", [&] {
      json.attribute("size", ShapedType::getNumElements(grid.getShape()));
      json.attributeArray("groups", [&] {
        for (const std::vector<int64_t> &ranks : tables.groups)
          json.array([&] {
            for (int64_t rank : ranks)
              json.value(rank);
          });
      });
    });
}

llvm::Expected<std::string> makeManifest(ModuleOp module, const ModuleTables &tables,
                                         const target::ArtifactObjects &artifact, ArrayRef<std::string> flags,
                                         const weights::PackedWeights &weights, StringRef weightsFile) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::json::OStream json(stream);
  llvm::Error error = llvm::Error::success();
  auto strings = [&](StringRef key, ArrayRef<std::string> list) {
    json.attributeArray(key, [&] {
      for (const std::string &item : list)
        json.value(item);
    });
  };
  json.object([&] {
    json.attribute("format", artifactFormatVersion);
    json.attribute("producer", "intarsia " INTARSIA_VERSION " (" INTARSIA_COMMIT ")");
    strings("flags", flags);
    json.attributeObject("target", [&] {
      json.attribute("triple", artifact.hostTriple);
      json.attributeArray("variants", [&] {
        for (const target::Variant &variant : hostVariants(artifact)) {
          json.object([&] {
            json.attribute("name", variant.name);
            json.attribute("cpu", variant.cpu);
            strings("features", variant.features);
          });
        }
      });
    });
    error = writeDevices(json, tables, artifact);
    writeWorld(json, module, tables);
    strings("kernels", tables.kernels);
    json.attributeArray("operands", [&] { writeOperands(json, module, tables, weights); });
    json.attributeArray("gathered", [&] { writeGathered(json, module); });
    if (llvm::any_of(artifact.devices, [](const auto &device) { return device.target->verifiesKernels(); }))
      json.attributeArray("operand_types", [&] { writeOperandTypes(json, module); });
    strings("labels", tables.labels);
    json.attributeObject("weights", [&] {
      if (weightsFile.empty())
        json.attribute("file", nullptr);
      else
        json.attribute("file", weightsFile);
      json.attribute("bytes", weights.bytes);
      json.attribute("header_hash", weights.headerHash);
      json.attribute("hash", weights.hash);
      json.attributeArray("tensors", [&] {
        for (const WeightUse &use : tables.weights)
          json.value(weights.tensors[use.constant]);
      });
      json.attributeArray("gathered", [&] { writeGatheredWeights(json, module, tables); });
      if (llvm::any_of(tables.weights, [](const WeightUse &use) { return use.device >= 0; }))
        json.attributeArray("devices", [&] {
          for (const WeightUse &use : tables.weights)
            json.value(use.device);
        });
    });
    json.attributeArray("files", [&] {
      for (const weights::PackedFile &file : weights.files)
        json.object([&] {
          json.attribute("name", file.name);
          json.attribute("tensor", file.tensor);
          json.attribute("hash", file.hash);
        });
    });
    json.attributeArray("functions", [&] {
      for (Operation *function : tables.functions)
        error = joinErrors(std::move(error), Writer(json, tables).function(cast<func::FuncOp>(function)));
    });
  });
  if (error)
    return error;
  // A manifest that cannot be loaded is not written.
  Manifest parsed;
  if (Status status = parseManifest(text, "the module", parsed); !status.ok())
    return createStringError(status.message());
  return text;
}

} // namespace intarsia::assemble
