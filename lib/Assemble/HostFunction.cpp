//===- HostFunction.cpp - One host function as LLVM IR -----------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Assemble/HostFunction.h"

#include "lib/Assemble/Manifest.h"
#include "lib/Formats/Dtype.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using llvm::createStringError;

namespace intarsia::assemble {

llvm::Value *HostFunction::call(unsigned position, llvm::Type *result, ArrayRef<llvm::Value *> arguments) {
  SmallVector<llvm::Type *> types = llvm::map_to_vector(arguments, [](llvm::Value *value) { return value->getType(); });
  llvm::Value *callee = builder.CreateLoad(pointer, builder.CreateConstInBoundsGEP1_32(pointer, api, position));
  return builder.CreateCall(llvm::FunctionType::get(result, types, false), callee, arguments);
}

llvm::Error HostFunction::build() {
  auto argument = function->arg_begin();
  for (llvm::Value **value : {&api, &theCall, &symbols, &inputs, &weights})
    *value = &*argument++;
  builder.SetInsertPoint(llvm::BasicBlock::Create(context, "", function));
  size_t mostBuffers = 0, mostSizes = 0, mostEvents = 0, outputRanks = 0, outputCount = 0;
  Block &body = source.getBody().front();
  source.walk([&](Operation *op) {
    if (auto dispatch = dyn_cast<rt::DispatchOp>(op)) {
      mostBuffers = std::max<size_t>(mostBuffers, dispatch.getInputs().size() + dispatch.getOutputs().size());
      mostSizes = std::max<size_t>(mostSizes, dispatch.getSizes().size());
      mostEvents = std::max<size_t>(mostEvents, dispatch.getAfter().size());
    } else if (auto copy = dyn_cast<rt::CopyOp>(op)) {
      mostEvents = std::max<size_t>(mostEvents, copy.getAfter().size());
    } else if (auto collective = dyn_cast<rt::CollectiveOp>(op)) {
      mostEvents = std::max<size_t>(mostEvents, collective.getAfter().size());
    } else if (auto output = dyn_cast<rt::OutputOp>(op)) {
      outputRanks += cast<MemRefType>(output.getType()).getRank();
      ++outputCount;
    }
  });
  buffers.emplace(builder, pointer, mostBuffers);
  sizes.emplace(builder, builder.getInt64Ty(), mostSizes);
  events.emplace(builder, builder.getInt64Ty(), mostEvents);
  outputSizes.emplace(builder, builder.getInt64Ty(), outputRanks);
  outputs.emplace(builder, pointer, outputCount);
  workspaceBytes.emplace(builder, builder.getInt64Ty(), tables.devices.size() + 1);
  workspaces.emplace(builder, pointer, tables.devices.size() + 1);
  for (BlockArgument input : body.getArguments())
    values[input] =
        builder.CreateLoad(pointer, builder.CreateConstInBoundsGEP1_32(pointer, inputs, input.getArgNumber()));
  return translateBlock(body);
}

llvm::Error HostFunction::translateBlock(Block &block) {
  for (Operation &op : block)
    if (llvm::Error error = translate(op))
      return error;
  return llvm::Error::success();
}

llvm::Constant *HostFunction::entry() {
  uint32_t ranges = 0, belows = 0, outputSizes = 0;
  for (unsigned number = 0; number != source.getNumArguments(); ++number) {
    ranges += bool(source.getArgAttr(number, "nn.range"));
    belows += bool(source.getArgAttr(number, "nn.below"));
  }
  auto results = source->getAttrOfType<ArrayAttr>(rt::hostResultsAttr);
  for (auto result : results.getAsRange<DictionaryAttr>())
    outputSizes += cast<ShapedType>(result.getAs<TypeAttr>("type").getValue()).getRank();
  SmallVector<llvm::Constant *> fields = {function};
  for (uint32_t count : {uint32_t(source->getAttrOfType<ArrayAttr>(rt::hostSymbolsAttr).size()), uint32_t(checks),
                         uint32_t(source.getNumArguments()), ranges, belows, uint32_t(results.size()), outputSizes})
    fields.push_back(builder.getInt32(count));
  return llvm::ConstantStruct::getAnon(fields);
}

/// Emits: if the condition holds, run the code of `before` and return 1.
void HostFunction::returnIf(llvm::Value *failed, llvm::function_ref<void()> before) {
  llvm::BasicBlock *end = newBlock(), *next = newBlock();
  builder.CreateCondBr(failed, end, next);
  builder.SetInsertPoint(end);
  before();
  builder.CreateRet(builder.getInt32(1));
  builder.SetInsertPoint(next);
}

/// Emits: if `failed` holds, tell the runtime why and return. A non-negative size is then too large.
void HostFunction::refuseIf(llvm::Value *failed, unsigned owner, unsigned index, llvm::Value *size) {
  returnIf(failed, [&] {
    llvm::Value *told = overflow ? builder.CreateSelect(overflow, builder.getInt64(INT64_MAX), size) : size;
    call(refuseFunction, builder.getVoidTy(), {theCall, builder.getInt32(owner), builder.getInt32(index), told});
  });
}

/// Asks once for all results and the workspaces, as soon as all their sizes are known.
llvm::Error HostFunction::prepare() {
  if (isPrepared)
    return llvm::Error::success();
  isPrepared = true;
  if (llvm::Error error = testSizes())
    return error;
  Block &body = source.getBody().front();
  // The memory of the host comes first, then those of the devices.
  SmallVector<llvm::Value *> bytes(tables.devices.size() + 1, builder.getInt64(0));
  SmallVector<rt::OutputOp> outputOps(body.getOps<rt::OutputOp>());
  llvm::sort(outputOps, [](rt::OutputOp a, rt::OutputOp b) { return a.getIndex() < b.getIndex(); });
  SmallVector<llvm::Value *> allSizes;
  for (rt::OutputOp output : outputOps)
    allSizes.append(sizesOf(cast<MemRefType>(output.getType()), output.getSizes()));
  auto workspaceOps = body.getOps<rt::WorkspaceOp>();
  for (rt::WorkspaceOp workspace : workspaceOps)
    bytes[tables.memoryOf(workspace.getType()) + 1] = values.lookup(workspace.getBytes());
  llvm::Value *failed = call(
      prepareFunction, builder.getInt32Ty(),
      {theCall, workspaceBytes->fill(bytes), outputSizes->fill(allSizes), outputs->fill({}), workspaces->fill({})});
  returnIf(builder.CreateIsNotNull(failed));
  for (auto [number, output] : llvm::enumerate(outputOps))
    values[output.getResult()] = outputs->load(number);
  for (rt::WorkspaceOp workspace : workspaceOps)
    values[workspace.getResult()] = workspaces->load(tables.memoryOf(workspace.getType()) + 1);
  return llvm::Error::success();
}

/// Lets the runtime check integers that kernels have computed.
void HostFunction::translateCheck(rt::CheckIndicesOp check) {
  auto type = cast<MemRefType>(check.getIndices().getType());
  if ((overflow = overflows.lookup(check.getLimit())))
    refuseIf(overflow, ITX_SIZE_OF_RIGHT, checks, values.lookup(check.getLimit()));
  llvm::Value *count = builder.getInt64(1);
  for (llvm::Value *size : sizesOf(type, check.getSizes()))
    count = builder.CreateMul(count, size);
  llvm::Value *result =
      call(checkIndicesFunction, builder.getInt32Ty(),
           {theCall, builder.getInt32(checks++), values.lookup(check.getIndices()),
            builder.getInt32(type.getElementTypeBitWidth() / 8), count, values.lookup(check.getLimit())});
  returnIf(builder.CreateIsNotNull(result));
}

llvm::Error HostFunction::translate(Operation &op) {
  bool usesBuffers = isa<rt::OutputOp, rt::WorkspaceOp, rt::DispatchOp, rt::CopyOp, rt::CollectiveOp, memref::LoadOp,
                         scf::IfOp, scf::ForOp, scf::WhileOp, rt::CheckIndicesOp, func::ReturnOp>(op);
  if (usesBuffers)
    if (llvm::Error error = prepare())
      return error;
  auto afterOf = [&](ValueRange after) -> std::pair<llvm::Value *, llvm::Value *> {
    return {events->fill(all(after)), builder.getInt32(after.size())};
  };
  return llvm::TypeSwitch<Operation *, llvm::Error>(&op)
      .Case([&](rt::SymbolOp symbol) {
        auto names = source->getAttrOfType<ArrayAttr>(rt::hostSymbolsAttr);
        auto position = llvm::find(names, Attribute(symbol.getNameAttr())) - names.begin();
        values[symbol.getResult()] = builder.CreateLoad(
            builder.getInt64Ty(), builder.CreateConstInBoundsGEP1_32(builder.getInt64Ty(), symbols, position));
        testedSizes.insert(symbol.getResult()); // by the runtime
        return llvm::Error::success();
      })
      .Case([&](rt::CheckOp check) {
        std::pair<Value, unsigned> sides[] = {{check.getLeft(), ITX_SIZE_OF_LEFT},
                                              {check.getRight(), ITX_SIZE_OF_RIGHT}};
        for (auto [side, owner] : sides)
          if ((overflow = overflows.lookup(side)))
            refuseIf(overflow, owner, checks, values.lookup(side));
        llvm::Value *result = call(
            checkFunction, builder.getInt32Ty(),
            {theCall, builder.getInt32(checks++), values.lookup(check.getLeft()), values.lookup(check.getRight())});
        returnIf(builder.CreateIsNotNull(result));
        return llvm::Error::success();
      })
      .Case([&](rt::CheckIndicesOp check) {
        translateCheck(check);
        return llvm::Error::success();
      })
      .Case([&](rt::GetQueueOp queue) {
        values[queue.getResult()] = builder.getInt32(queue.getIndex());
        return llvm::Error::success();
      })
      .Case([&](rt::ConstantDataOp data) {
        unsigned position = tables.weightNumber(data);
        values[data.getResult()] =
            builder.CreateLoad(pointer, builder.CreateConstInBoundsGEP1_32(pointer, weights, position));
        return llvm::Error::success();
      })
      .Case<rt::OutputOp, rt::WorkspaceOp>([&](auto) { return llvm::Error::success(); })
      .Case([&](memref::ViewOp view) {
        values[view.getResult()] = builder.CreateInBoundsGEP(builder.getInt8Ty(), values.lookup(view.getSource()),
                                                             values.lookup(view.getByteShift()));
        return llvm::Error::success();
      })
      .Case<memref::ExpandShapeOp, memref::CollapseShapeOp, memref::CastOp>([&](auto view) {
        values[view->getResult(0)] = values.lookup(view->getOperand(0));
        return llvm::Error::success();
      })
      .Case([&](rt::DispatchOp dispatch) {
        SmallVector<llvm::Value *> pointers = all(dispatch.getInputs());
        pointers.append(all(dispatch.getOutputs()));
        auto [after, afterCount] = afterOf(dispatch.getAfter());
        values[dispatch.getEvent()] =
            call(dispatchFunction, builder.getInt64Ty(),
                 {theCall, values.lookup(dispatch.getQueue()),
                  builder.getInt32(tables.kernelIndices.lookup(dispatch.getKernel())),
                  builder.getInt32(tables.labelIndices.lookup(ModuleTables::labelOf(dispatch))),
                  buffers->fill(pointers), builder.getInt32(pointers.size()), sizes->fill(all(dispatch.getSizes())),
                  builder.getInt32(dispatch.getSizes().size()), after, afterCount});
        return llvm::Error::success();
      })
      .Case([&](rt::CopyOp copy) {
        auto type = cast<MemRefType>(copy.getSource().getType());
        llvm::Value *bytes = builder.getInt64(llvm::divideCeil(type.getElementTypeBitWidth(), 8));
        for (llvm::Value *size : sizesOf(type, copy.getSizes()))
          bytes = builder.CreateMul(bytes, size);
        auto [after, afterCount] = afterOf(copy.getAfter());
        unsigned device = tables.deviceIndices.lookup(copy.getQueue().getType().getDevice().getValue());
        unsigned memories = (rt::memoryDeviceOf(copy.getDestination().getType()) ? ITX_COPY_DESTINATION_ON_DEVICE : 0) +
                            (rt::memoryDeviceOf(type) ? ITX_COPY_SOURCE_ON_DEVICE : 0);
        values[copy.getEvent()] = call(copyFunction, builder.getInt64Ty(),
                                       {theCall, builder.getInt32(device), values.lookup(copy.getQueue()),
                                        values.lookup(copy.getDestination()), values.lookup(copy.getSource()), bytes,
                                        builder.getInt32(memories), after, afterCount});
        return llvm::Error::success();
      })
      .Case([&](rt::CollectiveOp collective) -> llvm::Error {
        auto type = cast<MemRefType>(collective.getSized().getType());
        llvm::Value *elements = builder.getInt64(1), *rows = builder.getInt64(0);
        SmallVector<llvm::Value *> sizes = sizesOf(type, collective.getSizes());
        for (llvm::Value *size : sizes)
          elements = builder.CreateMul(elements, size);
        if (collective.isOfRows())
          rows = sizes.front();
        StringRef name = dtypeName(type.getElementType());
        const DtypeInfo *dtype = dtypeInfo(std::string_view(name.data(), name.size()));
        if (!dtype)
          return createStringError("function '" + source.getName() + "': ranks share no elements of the type of '" +
                                   ModuleTables::labelOf(collective) + "'");
        auto bufferOf = [&](Value buffer) -> llvm::Value * {
          return buffer ? values.lookup(buffer) : llvm::ConstantPointerNull::get(pointer);
        };
        auto [after, afterCount] = afterOf(collective.getAfter());
        auto queue = collective.getQueue();
        llvm::Value *device = builder.getInt32(
            queue ? tables.deviceIndices.lookup(cast<rt::QueueType>(queue.getType()).getDevice().getValue())
                  : ITX_NO_DEVICE);
        values[collective.getEvent()] =
            call(collectiveFunction, builder.getInt64Ty(),
                 {theCall, device, queue ? values.lookup(queue) : builder.getInt32(0),
                  builder.getInt32(uint32_t(collective.getKind())), builder.getInt32(dtype->dtype),
                  builder.getInt32(tables.groupNumber(collective.getRanks())),
                  builder.getInt32(tables.labelIndices.lookup(ModuleTables::labelOf(collective))),
                  bufferOf(collective.getDestination()), bufferOf(collective.getSource()), elements, rows, after,
                  afterCount});
        return llvm::Error::success();
      })
      .Case([&](rt::WaitOp wait) {
        // A loop that goes on by what failed work has not written might not end.
        bool mayRepeat = wait->getParentOp() != source;
        for (Value event : wait.getEvents()) {
          llvm::Value *failed = call(waitFunction, builder.getInt32Ty(), {theCall, values.lookup(event)});
          if (mayRepeat)
            returnIf(builder.CreateIsNotNull(failed));
        }
        return llvm::Error::success();
      })
      .Case([&](memref::LoadOp load) {
        values[load.getResult()] = loadElement(load);
        return llvm::Error::success();
      })
      .Case([&](scf::IfOp branch) { return translateIf(branch); })
      .Case([&](scf::ForOp loop) { return translateFor(loop); })
      .Case([&](scf::WhileOp loop) { return translateWhile(loop); })
      .Case<scf::YieldOp, scf::ConditionOp>([&](auto) { return llvm::Error::success(); })
      .Case([&](func::ReturnOp) {
        builder.CreateRet(builder.getInt32(0));
        return llvm::Error::success();
      })
      .Default([&](Operation *) -> llvm::Error {
        llvm::Value *value = op.getNumResults() == 1 ? arithmetic(op) : nullptr;
        if (!value)
          return createStringError("function '" + source.getName() + "': no host code for '" +
                                   op.getName().getStringRef() + "'");
        values[op.getResult(0)] = value;
        if (overflow)
          overflows[op.getResult(0)] = overflow;
        return llvm::Error::success();
      });
}

} // namespace intarsia::assemble
