//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The questions that phases ask of the devices that a module is compiled for. Each kind of device is one class behind
// Target, in a folder of lib/Target of its own; no phase asks which it is.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_TARGET_TARGET_H
#define INTARSIA_TARGET_TARGET_H

#include "dialects/Rt/Rt.h"
#include "intarsia/Cost/Cost.h"
#include "mlir/IR/BuiltinOps.h"
#include <memory>
#include <string>
#include <vector>

namespace llvm {
class TargetMachine;
namespace json {
class OStream;
}
} // namespace llvm

namespace mlir {
class OpPassManager;
}

namespace intarsia::target {

/// One way in which the kernels of an artifact are compiled. Of those that a processor can run, the runtime takes the
/// one made for that processor, else the one that uses most of its features.
struct Variant {
  std::string name;                  ///< "x86-64-v4"; no two of an artifact are equal
  std::string cpu;                   ///< LLVM's name of the processor that instructions are scheduled for
  std::vector<std::string> features; ///< features that the processor must have, LLVM's names without "+": "avx2", "fma"
};

/// A piece of code of kernels. Of a device that runs host code it is a relocatable ELF object: for variant v and kernel
/// k one of the pieces defines the launch, `itx_k<k>_v<v>_plan` (itx_kernel_plan_fn), and the body, `itx_k<k>_v<v>_run`
/// (itx_kernel_run_fn), hidden. Of another device it is what the device's driver loads (lib/Runtime/<X>), one piece for
/// each variant.
struct CompiledObject {
  std::string name; ///< for messages and for the order in which objects are linked
  std::vector<char> object;
};

/// A kernel to compile, and its index k among all kernels of the artifact.
struct NumberedKernel {
  unsigned index;
  rt::KernelOp kernel;
};

/// Steps of kernels on their way to code that people may read.
enum class EmitStep {
  Loops, ///< as the code generator gets them: functions of loops and vectors
  Llvm   ///< lowered to the LLVM dialect
};

/// Compiles the kernels of one device for one artifact, in one or several variants.
class KernelCompiler {
public:
  virtual ~KernelCompiler() = default;

  /// LLVM triple of the host that the kernels need, e.g. "x86_64-unknown-linux-gnu"; empty if any will do.
  virtual std::string triple() const = 0;
  /// Variants, best first; variant index v of the artifact.
  virtual std::vector<Variant> variants() const = 0;

  /// Compiles kernels for every variant, on the threads of the MLIR context. `module` holds the kernels and stays as it
  /// is; `hostTriple` is that of the artifact's host code. Each variant appends its pieces of code to `objects`, as
  /// many as the others. The pieces and their order depend on the kernels and the variants alone. Errors name the
  /// kernel, the op and where it comes from in the user's model.
  virtual llvm::Error compileKernels(mlir::ModuleOp module, llvm::ArrayRef<NumberedKernel> kernels,
                                     llvm::StringRef hostTriple, std::vector<CompiledObject> &objects) = 0;

  /// Writes into IR, as `rt.shapes` of the kernels, how each variant cuts their work up: tiles, instructions, what is
  /// packed. Code follows figures that stand there already. A device without such choices writes nothing. Fails after
  /// an error, which went to the context's diagnostics.
  virtual mlir::LogicalResult chooseShapes(llvm::ArrayRef<NumberedKernel>) { return mlir::success(); }
  /// Returns the code of the best variant after a step: a module with functions for every kernel; null after an error,
  /// which went to the context's diagnostics.
  virtual mlir::OwningOpRef<mlir::ModuleOp> emitKernels(mlir::ModuleOp module, llvm::ArrayRef<NumberedKernel> kernels,
                                                        EmitStep step) = 0;
};

/// A function of a kernel, and the resources of its device that it takes. A member is none where the compiler does not
/// know it, or where the device does not count such a resource.
struct KernelFunction {
  unsigned kernel;                         ///< index in the artifact
  std::string name;                        ///< in the code
  uint64_t threads;                        ///< of a block
  std::string blocks;                      ///< of its grid, in the same notation as the shared memory; 0: not launched
  std::string sharedBytes;                 ///< of a block: an expression in the kernel's sizes in postfix notation
  std::optional<uint64_t> registers;       ///< of a thread
  std::optional<uint64_t> spilledBytes;    ///< of a thread, for lack of registers
  std::optional<uint64_t> localBytes;      ///< of a thread
  std::optional<uint64_t> scalarRegisters; ///< of a warp
  std::optional<uint64_t> spilledScalars;  ///< of a warp
};

/// Fitted figures for a device, and a remark where they were not measured on its kind.
struct FittedModel {
  const DeviceModel *figures;
  std::string remark;
};

/// A kernel-to-be, as far as it has grown.
struct KernelCandidate {
  mlir::Operation *root;
  KernelRoot kind;
  bool quantizesInput; ///< the root quantizes its input as it reads it
  bool hasParts;       ///< slices of the root's result are stored each for itself
};

/// How the pages of a cache are laid out.
struct CacheLayout {
  int64_t page;    ///< tokens
  bool transposed; ///< matrices of pages are [features, page] instead of [page, features]
};

/// How a device prefers a computed tensor to lie in memory.
struct PreferredLayout {
  llvm::SmallVector<int64_t> permutation; ///< its dimensions, outermost first, as in linalg.transpose
  double slowdown;                        ///< time of the op with another innermost dimension, as a multiple
};

/// A text behind the colon of --target, empty for the machine that compiles, and its meaning.
struct NamedVariant {
  std::string name, meaning;
};

/// A kind of device. There is one object for each, for the life of the process; a variant is what stands behind the
/// colon of --target, empty for the machine that compiles.
class Target {
public:
  virtual ~Target() = default;

  /// The text before the colon: "cpu".
  virtual llvm::StringRef kind() const = 0;
  /// Lists variants for people, the machine that compiles first.
  virtual std::vector<NamedVariant> listVariants() const = 0;
  /// True if kernels read and write the memory of the host; other devices have a memory of their own, which host
  /// programs copy to and from.
  virtual bool usesHostMemory() const = 0;
  /// True if objects of kernels are linked into the host code of the artifact.
  virtual bool runsHostCode() const = 0;
  /// True if its objects have the kernels of all devices of an artifact, so that a run can compute each a second time.
  virtual bool verifiesKernels() const { return false; }
  /// True if its kernels compute nn.candidates, so that logits may stay in the memory of its device.
  virtual bool findsCandidates() const { return true; }
  /// Returns the functions of an object's code, in the order of kernels and launches; none where a device does not
  /// count the resources that functions take.
  virtual llvm::Expected<std::vector<KernelFunction>> listFunctions(llvm::ArrayRef<char>) const {
    return std::vector<KernelFunction>();
  }
  /// Name of a program that makes machine code of kernels where it is in PATH, and without which the device's driver
  /// makes it when it loads them; empty if machine code needs no other program.
  virtual llvm::StringRef assembler() const { return ""; }
  /// Adds the dialects, extensions and translations that compiling kernels uses.
  virtual void addDialects(mlir::DialectRegistry &registry) const = 0;
  /// Returns a compiler for each host triple among the variants, or one for any host; the error of an unknown variant
  /// lists those that exist.
  virtual llvm::Expected<std::vector<std::unique_ptr<KernelCompiler>>>
  compilers(llvm::ArrayRef<llvm::StringRef> variants) const = 0;
  /// Returns the model that costs are computed with; an error if there is none.
  virtual llvm::Expected<FittedModel> model(llvm::StringRef variant) const = 0;

  /// True if kernels are made of the op as it is; others are written as loops. An op of the kind `generic` has no
  /// kernel of its own on devices that compute.
  virtual bool hasKernel(mlir::Operation *op) const;
  /// True if a kernel can hold a norm of its root's result behind the root; otherwise `whyNot` says why.
  virtual bool holdsNorm(const KernelCandidate &kernel, std::string &whyNot) const = 0;
  /// Largest number of results that a kernel yields for each part of its root's result.
  virtual unsigned largestResultCount() const = 0;
  /// True if kernels can treat the features of a linear before and from `feature` on each by themselves: results are
  /// stored apart, or stored matrices are cut there.
  virtual bool splitsAt(int64_t feature) const = 0;
  /// True if kernels read rows of so many elements as quantized values of a format; of others they read floats.
  virtual bool storesQuantized(BlockFormatAttrInterface format, int64_t elements) const = 0;
  /// True if the kernel of the group `from` can quantize a result to a format where it is computed, and that of `to`,
  /// which quantizes it so as it reads it, read the quantized values and scales instead.
  virtual bool passesQuantized(nn::GroupOp, nn::GroupOp, nn::QuantizeOp) const { return false; }
  /// Bits of the inputs of linears with quantized weights that kernels are fastest with: 8 where they multiply
  /// integers, else 16.
  virtual unsigned activationBits() const { return 8; }
  /// True if kernels round the operands of linears with this precision to it.
  virtual bool multipliesIn(mlir::Type) const { return false; }
  /// Returns how a constant operand is stored. `use` is None if it is read in other ways too; `format`, which the
  /// target stores, is the one that it is quantized to, or null; `slices` parts of a matrix's rows are read together.
  virtual rt::LayoutAttrInterface layout(mlir::MLIRContext *context, StoredOperand use, BlockFormatAttrInterface format,
                                         int64_t slices) const = 0;

  /// Returns the layout in which kernels compute a result of an op fastest; nullopt if layouts do not differ. The pass
  /// that asks derives the layouts of the operands from the op's maps.
  virtual std::optional<PreferredLayout> preferredLayout(mlir::OpResult) const { return std::nullopt; }

  /// Returns how kernels read the pages of a cache of a format whose layout is open: with pages of `page` tokens, or if
  /// that is 0 of the size that the device prefers. An error says why kernels do not read such a cache.
  virtual llvm::Expected<CacheLayout> cacheLayout(nn::CacheFormatAttr format, int64_t page) const = 0;

  /// Returns the target of a kind; null if there is none.
  static const Target *find(llvm::StringRef kind);
  /// Returns all targets.
  static llvm::ArrayRef<const Target *> all();
};

/// The compiler of a device's kernels for one artifact.
struct DeviceCompiler {
  const Target *target;
  std::string device; ///< name of the rt.device; of `specs` the kind
  std::unique_ptr<KernelCompiler> compiler;
};

/// The code of one artifact: that of its host, and of each of its devices in their order.
struct ArtifactCompilers {
  std::string hostTriple;
  std::vector<DeviceCompiler> devices;
};

/// Returns the compilers of the artifacts for `specs` (`cpu`, `cpu:znver5`, `cpu:x86-64-v4+avx512vnni`, `cpu:aarch64`,
/// `reference`, …): one artifact for each host triple, each with all devices; variants of a device for one triple are
/// variants of one compiler. The error of an unknown name lists those that exist; so does that of a device which has no
/// variant for the triple of another one.
llvm::Expected<std::vector<ArtifactCompilers>> createCompilers(llvm::ArrayRef<std::string> specs);
/// The same for the devices that a module declares.
llvm::Expected<std::vector<ArtifactCompilers>> createCompilers(mlir::ModuleOp module);

/// Returns the kernels of a module with their indices: all, or those of a device.
std::vector<NumberedKernel> numberKernels(mlir::ModuleOp module, llvm::StringRef device = "");
/// Returns the kernels that the objects of a device hold: its own, or all if it verifies those of others.
std::vector<NumberedKernel> kernelsIn(mlir::ModuleOp module, const Target &target, llvm::StringRef device);

/// The compiled kernels of a device for one artifact.
struct DeviceObjects {
  const Target *target;
  rt::DeviceOp device;
  llvm::SmallVector<rt::ObjectOp> objects; ///< one for each variant, in their order
};
/// The compiled kernels of one artifact, by the devices of the module in their order.
struct ArtifactObjects {
  std::string hostTriple;
  std::vector<DeviceObjects> devices;
};
/// Returns the objects of a module for each artifact that they make. The module has passed target-verify.
std::vector<ArtifactObjects> objectsOf(mlir::ModuleOp module);

/// Returns the functions of an object; none if its device does not count resources, or if the IR lacks its bytes.
/// Errors name the object.
llvm::Expected<std::vector<KernelFunction>> listFunctions(const Target &target, rt::ObjectOp object);
/// Writes what is known of a function of an object as attributes of the JSON object that has begun.
void writeFunction(llvm::json::OStream &json, rt::ObjectOp object, const KernelFunction &function);

/// Returns the `--target`s that a module's devices stand for; none without devices.
std::vector<std::string> targetSpecs(mlir::ModuleOp module);

/// Prints all targets with their variants as a table.
void printTargets(llvm::raw_ostream &stream);

/// Replaces the devices of a module by those that `specs` name, as --target does. Emits an error at the module if a
/// name is unknown, and a remark for a device whose costs are estimated by another's figures.
mlir::LogicalResult declareDevices(mlir::ModuleOp module, llvm::ArrayRef<std::string> specs);

/// A device of a module, for passes.
struct Device {
  rt::DeviceOp op;
  const Target *target;
  const DeviceModel *model;
};
/// Returns the device that an op's kernels run on: the one that its attribute `rt.device` names, or that of an op
/// around it, else the first of its module. Emits an error at the op if there is none, or none with figures.
mlir::FailureOr<Device> deviceOf(mlir::Operation *op);

} // namespace intarsia::target

namespace intarsia {
/// Compiles the kernels of a lowered module to objects; ends with a verifier of what leaves the phase.
void buildTargetPipeline(mlir::OpPassManager &manager);
/// The verifier alone, for IR whose kernels were compiled before.
void buildTargetVerification(mlir::OpPassManager &manager);
/// Registers the phase's passes and the pipeline `intarsia-target` with tools that take passes by name.
void registerTargetPasses();
} // namespace intarsia

#endif
