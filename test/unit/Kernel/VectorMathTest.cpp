//===- VectorMathTest.cpp - Tests of lib/Kernel/VectorMath -----------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles every function for this processor and compares it with the f64 functions of the C library, whose error is
// some 1e-16. About four million arguments spread over all bit patterns, or, with INTARSIA_EXHAUSTIVE=1 in the
// environment, all 2^32 of them. The limits are the figures of an exhaustive run, rounded up: a coefficient that is
// wrong in its last place shows.
//
//===----------------------------------------------------------------------------------------------------------===//
#include "lib/Kernel/VectorMath.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/ExecutionEngine/ExecutionEngine.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include "gtest/gtest.h"
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>

using namespace mlir;
namespace kernel = intarsia::kernel;
using intarsia::nn::GeluForm;

namespace {

struct MathFunction {
  const char *name;
  Value (*emit)(OpBuilder &, Location, Value);
  double (*reference)(double);
  double maximalUlp;
  /// Results smaller than this are measured absolutely: f32 subnormals that may be flushed, far tails.
  double smallestResult;
  double maximalSmallError;
  float lowest = -std::numeric_limits<float>::infinity(), highest = std::numeric_limits<float>::infinity();
};

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double smallestNormal = 0x1p-126;

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double silu(double x) { return x == -infinity ? -0.0 : x / (1.0 + std::exp(-x)); }
double geluErf(double x) { return x == -infinity ? -0.0 : 0.5 * x * std::erfc(-x * 0.70710678118654752440); }
double geluTanh(double x) {
  if (x == -infinity)
    return -0.0;
  return x / (1.0 + std::exp(-1.59576912160573071176 * (x + 0.044715 * x * x * x)));
}

Value constantLike(OpBuilder &builder, Value like, TypedAttr scalar) {
  TypedAttr value = scalar;
  if (auto vector = dyn_cast<VectorType>(like.getType()))
    value = DenseElementsAttr::get(vector.clone(scalar.getType()), Attribute(scalar));
  return arith::ConstantOp::create(builder, like.getLoc(), value);
}
Value constantLike(OpBuilder &builder, Value like, float value) {
  return constantLike(builder, like, builder.getF32FloatAttr(value));
}
Value integerLike(OpBuilder &builder, Value like, int32_t value) {
  return constantLike(builder, like, builder.getI32IntegerAttr(value));
}

const MathFunction functions[] = {
    {"exp", kernel::emitExp, [](double x) { return std::exp(x); }, 0.99, smallestNormal, 8.4e-39},
    {"exp_non_positive", kernel::emitExpNonPositive, [](double x) { return std::exp(x); }, 1.93, smallestNormal,
     8.4e-39, -std::numeric_limits<float>::infinity(), 0.0f},
    {"erf", kernel::emitErf, [](double x) { return std::erf(x); }, 1.35, smallestNormal, 0x1p-149},
    {"tanh", kernel::emitTanh, [](double x) { return std::tanh(x); }, 2.52, smallestNormal, 0x1p-149},
    {"sigmoid", kernel::emitSigmoid, sigmoid, 2.49, smallestNormal, 4.2e-39},
    {"silu", kernel::emitSilu, silu, 2.46, 5e-37, 3.7e-37},
    {"gelu_erf", [](OpBuilder &b, Location l, Value x) { return kernel::emitGelu(b, l, x, GeluForm::Erf); }, geluErf,
     31.2, 1e-6, 1.8e-12},
    {"gelu_tanh", [](OpBuilder &b, Location l, Value x) { return kernel::emitGelu(b, l, x, GeluForm::Tanh); }, geluTanh,
     20.3, 1e-6, 1.3e-12},
    {"log", kernel::emitLog, [](double x) { return std::log(x); }, 0.93, smallestNormal, 0x1p-149},
    {"sin", kernel::emitSin, [](double x) { return std::sin(x); }, 2.12, smallestNormal, 0x1p-149},
    {"cos", kernel::emitCos, [](double x) { return std::cos(x); }, 3.09, smallestNormal, 0x1p-149},
    {"rsqrt", kernel::emitRsqrt, [](double x) { return 1.0 / std::sqrt(x); }, 1.5, smallestNormal, 0x1p-149},
    {"exp2", kernel::emitExp2, [](double x) { return std::exp2(x); }, 0.87, smallestNormal, 8.4e-39},
    {"expm1", kernel::emitExpm1, [](double x) { return std::expm1(x); }, 1.5, smallestNormal, 0x1p-149},
    {"log2", kernel::emitLog2, [](double x) { return std::log2(x); }, 1.8, smallestNormal, 0x1p-149},
    {"log10", kernel::emitLog10, [](double x) { return std::log10(x); }, 2.57, smallestNormal, 0x1p-149},
    {"log1p", kernel::emitLog1p, [](double x) { return std::log1p(x); }, 1.67, smallestNormal, 0x1p-149},
    {"erfc", kernel::emitErfc, [](double x) { return std::erfc(x); }, 0.51, smallestNormal, 0x1p-149},
    {"cbrt", kernel::emitCbrt, [](double x) { return std::cbrt(x); }, 0.51, smallestNormal, 0x1p-149},
    {"tan", kernel::emitTan, [](double x) { return std::tan(x); }, 1.68, smallestNormal, 0x1p-149},
    {"atan", kernel::emitAtan, [](double x) { return std::atan(x); }, 1.39, smallestNormal, 0x1p-149},
    {"asin", kernel::emitAsin, [](double x) { return std::asin(x); }, 1.89, smallestNormal, 0x1p-149},
    {"acos", kernel::emitAcos, [](double x) { return std::acos(x); }, 1.27, smallestNormal, 0x1p-149},
    {"sinh", kernel::emitSinh, [](double x) { return std::sinh(x); }, 2.97, smallestNormal, 0x1p-149},
    {"cosh", kernel::emitCosh, [](double x) { return std::cosh(x); }, 2.97, smallestNormal, 0x1p-149},
    {"asinh", kernel::emitAsinh, [](double x) { return std::asinh(x); }, 2.0, smallestNormal, 0x1p-149},
    {"acosh", kernel::emitAcosh, [](double x) { return std::acosh(x); }, 2.89, smallestNormal, 0x1p-149},
    {"atanh", kernel::emitAtanh, [](double x) { return std::atanh(x); }, 2.37, smallestNormal, 0x1p-149},
    {"pow_of_x", [](OpBuilder &b, Location l, Value x) { return kernel::emitPow(b, l, x, constantLike(b, x, 2.5f)); },
     [](double x) { return std::pow(x, 2.5); }, 0.51, 0x1p-149, 0x1p-149},
    {"pow_to_minus_3",
     [](OpBuilder &b, Location l, Value x) { return kernel::emitPow(b, l, x, constantLike(b, x, -3)); },
     [](double x) { return std::pow(x, -3.0); }, 0.51, 0x1p-149, 0x1p-149},
    {"pow_to_x", [](OpBuilder &b, Location l, Value x) { return kernel::emitPow(b, l, constantLike(b, x, 1.7f), x); },
     [](double x) { return std::pow(double(1.7f), x); }, 0.51, 0x1p-149, 0x1p-149},
    {"x_to_x", [](OpBuilder &b, Location l, Value x) { return kernel::emitPow(b, l, x, x); },
     [](double x) { return std::pow(x, x); }, 0.51, 0x1p-149, 0x1p-149},
    {"integer_power",
     [](OpBuilder &b, Location l, Value x) { return kernel::emitIntegerPower(b, l, x, integerLike(b, x, -7)); },
     [](double x) { return std::pow(x, -7.0); }, 0.51, 0x1p-149, 0x1p-149},
    {"atan2_of_x",
     [](OpBuilder &b, Location l, Value x) { return kernel::emitAtan2(b, l, x, constantLike(b, x, -0.5f)); },
     [](double x) { return std::atan2(x, -0.5); }, 1.39, smallestNormal, 0x1p-149},
    {"atan2_from_x",
     [](OpBuilder &b, Location l, Value x) { return kernel::emitAtan2(b, l, constantLike(b, x, -2.5f), x); },
     [](double x) { return std::atan2(-2.5, x); }, 1.53, smallestNormal, 0x1p-149},
    {"atan2_of_both", [](OpBuilder &b, Location l, Value x) { return kernel::emitAtan2(b, l, x, x); },
     [](double x) { return std::atan2(x, x); }, 0.64, smallestNormal, 0x1p-149},
};

/// A function `void NAME(const float *in, float *out, int64_t count)` for every math function and width, in LLVM
/// dialect. Width 0 is scalar code.
class Kernels {
public:
  Kernels() {
    DialectRegistry registry;
    registry.insert<arith::ArithDialect, cf::ControlFlowDialect, func::FuncDialect, LLVM::LLVMDialect,
                    math::MathDialect, scf::SCFDialect, vector::VectorDialect>();
    registerBuiltinDialectTranslation(registry);
    registerLLVMDialectTranslation(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    module = ModuleOp::create(UnknownLoc::get(&context));
    for (const MathFunction &function : functions)
      for (int64_t width : {0, 4, 16})
        addKernel(function, width);
    EXPECT_TRUE(succeeded(verify(*module)));
    PassManager passes(&context);
    passes.addPass(createSCFToControlFlowPass());
    passes.addPass(createConvertMathToLLVMPass());
    passes.addPass(createConvertVectorToLLVMPass());
    passes.addPass(createArithToLLVMConversionPass());
    passes.addPass(createConvertControlFlowToLLVMPass());
    passes.addPass(createConvertFuncToLLVMPass());
    passes.addPass(createReconcileUnrealizedCastsPass());
    EXPECT_TRUE(succeeded(passes.run(*module)));
  }

  static std::string symbol(const MathFunction &function, int64_t width) {
    return std::string(function.name) + "_" + std::to_string(width);
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;

private:
  void addKernel(const MathFunction &function, int64_t width) {
    OpBuilder builder(&context);
    Location location = builder.getUnknownLoc();
    builder.setInsertionPointToEnd(module->getBody());
    Type pointer = LLVM::LLVMPointerType::get(&context), i64 = builder.getI64Type(), f32 = builder.getF32Type();
    auto kernel = func::FuncOp::create(builder, location, symbol(function, width),
                                       builder.getFunctionType({pointer, pointer, i64}, {}));
    kernel->setAttr(LLVM::LLVMDialect::getEmitCWrapperAttrName(), builder.getUnitAttr());
    builder.setInsertionPointToStart(kernel.addEntryBlock());
    Type type = width ? Type(VectorType::get({width}, f32)) : f32;
    Value zero = arith::ConstantOp::create(builder, location, builder.getI64IntegerAttr(0));
    Value step = arith::ConstantOp::create(builder, location, builder.getI64IntegerAttr(width ? width : 1));
    auto loop = scf::ForOp::create(builder, location, zero, kernel.getArgument(2), step);
    builder.setInsertionPointToStart(loop.getBody());
    auto at = [&](unsigned argument) {
      return LLVM::GEPOp::create(builder, location, pointer, f32, kernel.getArgument(argument),
                                 ArrayRef<LLVM::GEPArg>{loop.getInductionVar()});
    };
    Value x = LLVM::LoadOp::create(builder, location, type, at(0), /*alignment=*/4);
    LLVM::StoreOp::create(builder, location, function.emit(builder, location, x), at(1), /*alignment=*/4);
    builder.setInsertionPointToEnd(&kernel.getBody().front());
    func::ReturnOp::create(builder, location);
  }
};

using Compiled = void (*)(const float *in, float *out, int64_t count);

class Compiler {
public:
  static Compiler &get() {
    // Never destroyed: the engine's destructor compiles, and at exit LLVM's own tables may be gone before it.
    static Compiler &compiler = *new Compiler;
    return compiler;
  }
  Compiled lookup(const MathFunction &function, int64_t width) {
    auto address = engine->lookup(Kernels::symbol(function, width));
    if (!address) {
      ADD_FAILURE() << llvm::toString(address.takeError());
      return nullptr;
    }
    return reinterpret_cast<Compiled>(*address);
  }

  Kernels kernels;
  std::unique_ptr<ExecutionEngine> engine;

private:
  Compiler() {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    ExecutionEngineOptions options;
    options.jitCodeGenOptLevel = llvm::CodeGenOptLevel::Default;
    auto created = ExecutionEngine::create(*kernels.module, options);
    if (created)
      engine = std::move(*created);
    else
      ADD_FAILURE() << llvm::toString(created.takeError());
  }
};

/// True if the processor multiplies and adds in one instruction; without it llvm.fma would be a slow library call.
bool hostHasFma() {
#if defined(__x86_64__)
  return llvm::sys::getHostCPUFeatures().lookup("fma");
#else
  return true;
#endif
}

double unitOfLastPlace(double value) {
  int exponent;
  std::frexp(value, &exponent);
  return std::ldexp(1.0, std::max(exponent - 24, -149));
}

struct Worst {
  double ulp = 0.0, smallError = 0.0, absolute = 0.0;
  float ulpAt = 0.0f, smallErrorAt = 0.0f;
};

/// Updates `worst`; false for a result of the wrong kind (NaN, infinity, sign of zero).
bool check(const MathFunction &function, float x, float result, Worst &worst) {
  double exact = function.reference(static_cast<double>(x));
  if (std::isnan(exact))
    return std::isnan(result);
  if (x == 0.0f && exact == 0.0)
    return std::bit_cast<uint32_t>(result) == std::bit_cast<uint32_t>(static_cast<float>(exact));
  if (std::isinf(static_cast<float>(exact)))
    return result == static_cast<float>(exact);
  double error = std::fabs(static_cast<double>(result) - exact);
  if (!(error <= std::numeric_limits<float>::max()))
    return false;
  if (std::fabs(exact) <= 1.0)
    worst.absolute = std::max(worst.absolute, error);
  if (std::fabs(exact) < function.smallestResult) {
    if (error > worst.smallError)
      worst.smallError = error, worst.smallErrorAt = x;
  } else if (double ulp = error / unitOfLastPlace(exact); ulp > worst.ulp) {
    worst.ulp = ulp, worst.ulpAt = x;
  }
  return true;
}

const float specials[] = {0.0f,
                          -0.0f,
                          1.0f,
                          -1.0f,
                          std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN(),
                          std::bit_cast<float>(0x7fc00001u),
                          std::bit_cast<float>(0x7f800001u),
                          std::bit_cast<float>(0xffffffffu),
                          std::numeric_limits<float>::max(),
                          -std::numeric_limits<float>::max(),
                          0x1p-126f,
                          -0x1p-126f,
                          0x1p-149f,
                          -0x1p-149f,
                          88.72283f,
                          88.72284f,
                          -87.33654f,
                          -87.33655f,
                          -88.0f,
                          -103.97f,
                          1.0e5f,
                          100000.01f,
                          -1.0e5f,
                          6.1655e4f,
                          1.0e30f,
                          -1.0e10f};

class VectorMath : public testing::TestWithParam<MathFunction> {
protected:
  void SetUp() override {
    if (!hostHasFma())
      GTEST_SKIP() << "this processor has no fused multiply-add, which every CPU target of the compiler needs";
  }
};

TEST_P(VectorMath, StaysWithinItsError) {
  const MathFunction &function = GetParam();
  Compiled compiled = Compiler::get().lookup(function, 16);
  ASSERT_TRUE(compiled);
  Worst worst;
  uint64_t wrong = 0;
  constexpr size_t chunk = 1 << 16;
  std::vector<float> in, out(chunk);
  auto flush = [&] {
    in.resize((in.size() + 15) / 16 * 16, 1.0f / 3.0f);
    compiled(in.data(), out.data(), static_cast<int64_t>(in.size()));
    for (size_t i = 0; i < in.size(); ++i)
      if (!check(function, in[i], out[i], worst) && ++wrong <= 10)
        ADD_FAILURE() << function.name << "(" << in[i] << ") = " << out[i] << ", expected "
                      << function.reference(in[i]);
    in.clear();
  };
  auto add = [&](float x) {
    if (!(x < function.lowest) && !(x > function.highest))
      in.push_back(x);
    if (in.size() == chunk)
      flush();
  };
  for (float special : specials)
    add(special);
  const uint64_t stride = std::getenv("INTARSIA_EXHAUSTIVE") ? 1 : 1021;
  for (uint64_t bits = 0; bits < (uint64_t(1) << 32); bits += stride)
    add(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  flush();
  EXPECT_EQ(wrong, 0u);
  EXPECT_LE(worst.ulp, function.maximalUlp) << function.name << "(" << worst.ulpAt << ")";
  EXPECT_LE(worst.smallError, function.maximalSmallError) << function.name << "(" << worst.smallErrorAt << ")";
  EXPECT_GT(worst.ulp, 0.4) << "no function is that good: nothing was compared";
  std::printf("%-17s %.3f ulp at %.9g; results below %.3g: %.3g at %.9g; results up to 1: %.3g\n", function.name,
              worst.ulp, worst.ulpAt, function.smallestResult, worst.smallError, worst.smallErrorAt, worst.absolute);
}

// Kernels evaluate remainders with narrower vectors: a row's result must not depend on where it lies.
TEST_P(VectorMath, IsTheSameForAllWidths) {
  const MathFunction &function = GetParam();
  std::vector<float> in(std::begin(specials), std::end(specials));
  for (uint64_t bits = 0; bits < (uint64_t(1) << 32); bits += 65521)
    in.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  in.resize((in.size() + 15) / 16 * 16, 0.5f);
  std::vector<float> wide(in.size()), narrow(in.size());
  Compiler::get().lookup(function, 16)(in.data(), wide.data(), static_cast<int64_t>(in.size()));
  for (int64_t width : {0, 4}) {
    Compiler::get().lookup(function, width)(in.data(), narrow.data(), static_cast<int64_t>(in.size()));
    for (size_t i = 0; i < in.size(); ++i) {
      if (!(in[i] < function.lowest || in[i] > function.highest) && !(std::isnan(wide[i]) && std::isnan(narrow[i]))) {
        ASSERT_EQ(std::bit_cast<uint32_t>(wide[i]), std::bit_cast<uint32_t>(narrow[i]))
            << function.name << "(" << in[i] << "), width " << width;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Functions, VectorMath, testing::ValuesIn(functions),
                         [](const auto &info) { return std::string(info.param.name); });

struct Machine {
  const char *name, *triple, *processor;
};

class VectorMathObject : public testing::TestWithParam<Machine> {};

// An artifact links against nothing, so a libm call would only fail in the user's process.
TEST_P(VectorMathObject, CallsNothing) {
  llvm::InitializeAllTargetInfos();
  llvm::InitializeAllTargets();
  llvm::InitializeAllTargetMCs();
  llvm::InitializeAllAsmPrinters();
  Kernels kernels;
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module = translateModuleToLLVMIR(*kernels.module, context);
  ASSERT_TRUE(module);
  llvm::Triple triple(GetParam().triple);
  std::string message;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, message);
  ASSERT_TRUE(target) << message;
  std::unique_ptr<llvm::TargetMachine> machine(
      target->createTargetMachine(triple, GetParam().processor, "", {}, llvm::Reloc::PIC_));
  module->setTargetTriple(triple);
  module->setDataLayout(machine->createDataLayout());
  llvm::SmallVector<char, 0> object;
  llvm::raw_svector_ostream stream(object);
  llvm::legacy::PassManager passes;
  ASSERT_FALSE(machine->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::ObjectFile));
  passes.run(*module);
  auto file = llvm::object::ObjectFile::createObjectFile(
      llvm::MemoryBufferRef(llvm::StringRef(object.data(), object.size()), "object"));
  ASSERT_TRUE(bool(file)) << llvm::toString(file.takeError());
  if (const char *path = std::getenv("INTARSIA_KEEP_OBJECT")) {
    std::error_code error;
    llvm::raw_fd_ostream(std::string(path) + "." + GetParam().name + ".o", error)
        << llvm::StringRef(object.data(), object.size());
  }
  for (llvm::object::SymbolRef symbol : (*file)->symbols()) {
    if (llvm::cantFail(symbol.getFlags()) & llvm::object::SymbolRef::SF_Undefined)
      EXPECT_EQ(llvm::cantFail(symbol.getName()), "") << "is undefined";
  }
}

INSTANTIATE_TEST_SUITE_P(Machines, VectorMathObject,
                         testing::Values(Machine{"x86_64_v3", "x86_64-unknown-linux-gnu", "x86-64-v3"},
                                         Machine{"x86_64_v4", "x86_64-unknown-linux-gnu", "x86-64-v4"},
                                         Machine{"aarch64", "aarch64-unknown-linux-gnu", "generic"}),
                         [](const auto &info) { return std::string(info.param.name); });

} // namespace
