//===- EmulatedObject.cpp - An object of a GPU, loaded for the emulated device ---------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#include "lib/Runtime/Emulated/EmulatedObject.h"

#include "intarsia/emulated_abi.h"
#include "lib/Runtime/Hosted/MathImports.h"

namespace intarsia::runtime {

uint32_t warpSizeOf(const std::string &architecture) {
  auto continues = [&](std::string_view prefix) {
    return architecture.starts_with(prefix) && architecture.size() > prefix.size();
  };
  if (continues("sm_"))
    return 32;
  if (continues("gfx9")) // CDNA, and GCN of its last generation
    return 64;
  return continues("gfx1") ? 32 : 0; // RDNA
}

void *findEmulatedImport(const std::string &name) {
  struct Import {
    std::string_view name;
    void *function;
  };
#define ITX_IMPORT(name)                                                                                               \
  {                                                                                                                    \
    "itx_emulated_" #name, reinterpret_cast<void *>(itx_emulated_##name)                                               \
  }
  static const Import imports[] = {
      ITX_IMPORT(thread_id),
      ITX_IMPORT(block_id),
      ITX_IMPORT(block_dim),
      ITX_IMPORT(grid_dim),
      ITX_IMPORT(lane_id),
      ITX_IMPORT(warp_size),
      ITX_IMPORT(shared),
      ITX_IMPORT(load_check),
      ITX_IMPORT(store_check),
      ITX_IMPORT(async_copy),
      ITX_IMPORT(async_commit),
      ITX_IMPORT(async_wait),
      ITX_IMPORT(barrier),
      ITX_IMPORT(warp_barrier),
      ITX_IMPORT(shuffle_idx),
      ITX_IMPORT(shuffle_up),
      ITX_IMPORT(shuffle_down),
      ITX_IMPORT(shuffle_xor),
      ITX_IMPORT(vote_ballot),
      ITX_IMPORT(vote_any),
      ITX_IMPORT(vote_all),
      ITX_IMPORT(ldmatrix),
      ITX_IMPORT(mma),
      ITX_IMPORT(mma_scaled),
      ITX_IMPORT(wgmma),
      ITX_IMPORT(wgmma_registers),
      ITX_IMPORT(wgmma_commit),
      ITX_IMPORT(wgmma_wait),
      ITX_IMPORT(trap),
      ITX_IMPORT(elect),
      ITX_IMPORT(mbarrier_init),
      ITX_IMPORT(mbarrier_arrive),
      ITX_IMPORT(mbarrier_arrive_expect),
      ITX_IMPORT(mbarrier_wait),
      ITX_IMPORT(proxy_fence),
      ITX_IMPORT(tensor_copy),
      ITX_IMPORT(set_registers),
  };
#undef ITX_IMPORT
  for (const Import &import : imports)
    if (import.name == name)
      return import.function;
  return findMathFunction(name);
}

Status EmulatedObject::load(const ExecutableSource &source, const MachineSettings &settings,
                            std::unique_ptr<Executable> &executable) {
  std::string where = source.name + ": its code for the emulated device";
#if defined(__x86_64__)
  // The compiler uses its conversions of f16 (lib/Target/GPU/Codegen.cpp).
  if (!__builtin_cpu_supports("f16c"))
    return error(ITX_UNSUPPORTED, "%s needs a processor with F16C", where.c_str());
#endif
  std::unique_ptr<EmulatedObject> object(new EmulatedObject);
  object->settings_ = settings;
  ITX_RETURN_IF_ERROR(parseGpuObject(source.object, source.bytes, where, object->object_));
  object->warpSize_ = warpSizeOf(object->object_.architecture);
  if (object->warpSize_ == 0)
    return error(ITX_UNSUPPORTED,
                 "%s is for the architecture '%s', which is none of a GPU that is emulated (sm_80, "
                 "gfx942 and the like)",
                 where.c_str(), object->object_.architecture.c_str());
  ITX_RETURN_IF_ERROR(object->loadCode(where));
  ITX_RETURN_IF_ERROR(object->bindFunctions(source, where));
  ITX_RETURN_IF_ERROR(object->library_->bindImports(ITX_EMULATED_IMPORTS, ITX_EMULATED_FUNCTIONS, findEmulatedImport));
  object->isChecked_ = object->library_->imports(ITX_EMULATED_IMPORTS, "itx_emulated_load_check") ||
                       object->library_->imports(ITX_EMULATED_IMPORTS, "itx_emulated_store_check");
  executable = std::move(object);
  return Status::success();
}

/// Loads the first piece of code for the host that is for this machine.
Status EmulatedObject::loadCode(const std::string &where) {
  std::vector<std::string> kinds;
  Status unsupported;
  for (const GpuCode &code : object_.code) {
    kinds.push_back(gpuCodeKindName(code.kind));
    if (code.kind != GpuCodeKind::Host)
      continue;
    std::string bytes;
    ITX_RETURN_IF_ERROR(unpackGpuCode(code, where, bytes));
    unsupported = ElfLibrary::load(bytes.data(), bytes.size(), where, library_);
    if (unsupported.code() != ITX_UNSUPPORTED)
      break;
  }
  object_.code.clear(); // they refer to the bytes that were read
  if (!library_ && unsupported.ok())
    return error(ITX_UNSUPPORTED, "%s has no code for the host, only %s: compile the model for the target emulated:%s",
                 where.c_str(), join(kinds).c_str(), object_.architecture.c_str());
  return unsupported;
}

Status EmulatedObject::bindFunctions(const ExecutableSource &source, const std::string &where) {
  std::map<std::string, uint64_t> sharedBytes;
  for (const GpuFunction &function : object_.functions)
    sharedBytes[function.name] = function.sharedBytes.value_or(0);
  for (uint32_t index : source.wanted) {
    bool isNamed = source.kernels && index < source.kernels->size();
    const char *name = isNamed ? (*source.kernels)[index].c_str() : "?";
    const GpuKernel *kernel = object_.find(index);
    if (!kernel)
      return error(ITX_CORRUPT, "%s: lacks kernel '%s' (number %u): compile the model again", where.c_str(), name,
                   index);
    for (const GpuLaunch &launch : kernel->launches) {
      void *address = library_->find(launch.function);
      if (!address)
        return error(ITX_CORRUPT, "%s: lacks the function '%s' of kernel '%s': compile the model again", where.c_str(),
                     launch.function.c_str(), name);
      functions_[launch.function] = {reinterpret_cast<void (*)()>(address), sharedBytes[launch.function]};
    }
  }
  return Status::success();
}

} // namespace intarsia::runtime
