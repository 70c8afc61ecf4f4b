//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Cost/Cost.h"
#include "intarsia/Target/Target.h"
#include "lib/Fuse/Fuser.h"
#include "lib/Fuse/Passes.h"
#include "lib/Support/File.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/ScopedPrinter.h"
#include "llvm/Support/raw_ostream.h"

namespace intarsia::fuse {
#define GEN_PASS_DEF_FUSERECORDDECISIONS
#include "lib/Fuse/Passes.h.inc"
} // namespace intarsia::fuse

using namespace mlir;
using namespace intarsia;
using namespace intarsia::fuse;

namespace {
/// A number with so many decimals, without the digits that doubles have beyond them.
void writeNumber(llvm::json::OStream &json, StringRef field, double value, unsigned decimals) {
  json.attributeBegin(field);
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.*f", decimals, value);
  json.rawValue(text);
  json.attributeEnd();
}

/// Writes the root and the work of one kernel, with the time that the cost model expects.
void writeKernel(llvm::json::OStream &json, nn::GroupOp group, const WorkModel &model, const DeviceModel &device) {
  SmallVector<Operation *> ops;
  for (Operation &op : group.getBodyBlock().without_terminator())
    ops.push_back(&op);
  KernelWork work = model.work(group.getRoot(), ops);
  json.object([&] {
    json.attribute("function", group->getParentOfType<func::FuncOp>().getSymName());
    json.attribute("location", locationName(group.getLoc()));
    json.attribute("root", stringifyKernelRoot(group.getRoot()));
    // Of the ops of a kernel only those that multiply matrices have one, and one of them is the root.
    Operation *const *rounded = llvm::find_if(ops, [](Operation *op) { return op->hasAttr("precision"); });
    if (rounded != ops.end())
      json.attribute("precision", llvm::to_string((*rounded)->getAttrOfType<TypeAttr>("precision").getValue()));
    json.attribute("why", group.getWhy().value_or(""));
    writeNumber(json, "flops", work.flops, 0);
    writeNumber(json, "transcendentals", work.transcendentals, 0);
    writeNumber(json, "weight_bytes", work.weightBytes, 0);
    writeNumber(json, "activation_bytes", work.activationBytes, 0);
    writeNumber(json, "finish_elements", work.finishElements, 0);
    writeNumber(json, "expected_us", device.microseconds(work), 2);
  });
}

/// One decision, its fields in an order that reads well.
void writeDecision(llvm::json::OStream &json, StringRef function, DictionaryAttr decision) {
  auto text = [&](StringRef field) { json.attribute(field, decision.getAs<StringAttr>(field).getValue()); };
  auto number = [&](StringRef field) {
    writeNumber(json, field, decision.getAs<FloatAttr>(field).getValueAsDouble(), 2);
  };
  json.object([&] {
    text("id");
    text("pass");
    json.attribute("function", function);
    text("location");
    text("root");
    text("op");
    text("chosen");
    number("inside_us");
    number("apart_us");
    text("reason");
    json.attribute("forced", decision.getAs<BoolAttr>("forced").getValue());
  });
}

/// Writes which part of a model one device runs, if the model is split by memory, or one way to share it over ranks.
void writeSplit(llvm::json::OStream &json, DictionaryAttr row) {
  json.object([&] {
    for (NamedAttribute field : row) {
      if (auto text = dyn_cast<StringAttr>(field.getValue()))
        json.attribute(field.getName(), text.getValue());
      else if (auto number = dyn_cast<IntegerAttr>(field.getValue()))
        json.attribute(field.getName(), number.getInt());
      else if (auto number = dyn_cast<FloatAttr>(field.getValue()))
        writeNumber(json, field.getName(), number.getValueAsDouble(), 2);
    }
  });
}

struct FuseRecordDecisions : fuse::impl::FuseRecordDecisionsBase<FuseRecordDecisions> {
  using FuseRecordDecisionsBase::FuseRecordDecisionsBase;

  void runOnOperation() override {
    for (const std::string &pattern : flip)
      if (!isUsed(pattern)) {
        getOperation().emitError() << "no decision has the id '" << pattern
                                   << "', which is to be flipped; the file of --explain lists the ids";
        return signalPassFailure();
      }
    if (!file.empty()) {
      FailureOr<target::Device> device = target::deviceOf(getOperation());
      if (failed(device))
        return signalPassFailure();
      std::string text;
      llvm::raw_string_ostream stream(text);
      write(stream, *device->model);
      if (Status status = save(text); !status.ok()) {
        getOperation().emitError() << "cannot write decisions: " << status.message();
        return signalPassFailure();
      }
    }
    for (auto function : getOperation().getOps<func::FuncOp>())
      function->removeAttr("nn.decisions");
  }

  bool isUsed(StringRef pattern) {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (auto decisions = function->getAttrOfType<ArrayAttr>("nn.decisions"))
        for (auto decision : decisions.getAsRange<DictionaryAttr>())
          if (matchesDecision(pattern, decision.getAs<StringAttr>("id").getValue()))
            return true;
    return false;
  }

  /// Under a temporary name that is renamed: a half-written file never appears.
  Status save(StringRef text) {
    std::unique_ptr<AtomicFile> output;
    ITX_RETURN_IF_ERROR(AtomicFile::create(file, output));
    ITX_RETURN_IF_ERROR(output->write(text.data(), text.size()));
    return output->commit();
  }

  void write(llvm::raw_ostream &stream, const DeviceModel &device) {
    llvm::json::OStream json(stream, 2);
    json.object([&] {
      json.attribute("format", 1);
      json.attribute("device", device.name);
      json.attributeObject("expected_sizes", [&] {
        for (auto function : getOperation().getOps<func::FuncOp>())
          if (!function.isExternal())
            json.attributeObject(function.getSymName(), [&] {
              WorkModel work(function);
              for (auto [name, value] : llvm::zip(work.symbols().names(), work.expected()))
                json.attribute(name, value);
            });
      });
      json.attribute("figures", device.machine);
      if (auto split = getOperation()->getAttrOfType<ArrayAttr>("rt.split"))
        json.attributeArray("split", [&] {
          for (auto row : split.getAsRange<DictionaryAttr>())
            writeSplit(json, row);
        });
      if (auto partition = getOperation()->getAttrOfType<ArrayAttr>("rt.partition"))
        json.attributeArray("partition", [&] {
          for (auto row : partition.getAsRange<DictionaryAttr>())
            writeSplit(json, row);
        });
      if (auto messages = getOperation()->getAttrOfType<ArrayAttr>(rt::messagesAttr))
        json.attributeArray("messages", [&] {
          for (auto row : messages.getAsRange<DictionaryAttr>())
            writeSplit(json, row);
        });
      json.attributeArray("decisions", [&] {
        for (auto function : getOperation().getOps<func::FuncOp>())
          if (auto decisions = function->getAttrOfType<ArrayAttr>("nn.decisions"))
            for (auto decision : decisions.getAsRange<DictionaryAttr>())
              writeDecision(json, function.getSymName(), decision);
      });
      json.attributeArray("kernels", [&] {
        for (auto function : getOperation().getOps<func::FuncOp>()) {
          if (function.isExternal())
            continue;
          WorkModel work(function);
          FailureOr<Devices> devices = devicesOf(function);
          for (auto group : function.getOps<nn::GroupOp>())
            writeKernel(json, group, work,
                        succeeded(devices) ? *devices->lookup(group->getAttr(rt::deviceAttr)).model : device);
        }
      });
    });
    stream << "\n";
  }
};
} // namespace
