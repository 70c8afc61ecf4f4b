//===- QuantizeKvCache.cpp - Caches get the elements that the user asks for ---------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#include "intarsia/Analysis/FunctionCaches.h"
#include "intarsia/Cost/Catalogue.h"
#include "intarsia/Quantize/Quantize.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/GlobPattern.h"
#include <set>

using namespace mlir;
using llvm::createStringError;

namespace intarsia {

namespace {
/// A format by the name that users know it by.
struct NamedElement {
  StringRef name;
  Type (*make)(Builder &builder);
  bool unrotated = false; ///< for keys alone: see #nn.cache_format
};
constexpr NamedElement namedElements[] = {
    {"f32", [](Builder &b) -> Type { return b.getF32Type(); }},
    {"f16", [](Builder &b) -> Type { return b.getF16Type(); }},
    {"bf16", [](Builder &b) -> Type { return b.getBF16Type(); }},
    {"fp8", [](Builder &b) -> Type { return Float8E4M3FNType::get(b.getContext()); }},
    {"int8", [](Builder &b) -> Type { return b.getIntegerType(8, /*isSigned=*/false); }},
    {"int4", [](Builder &b) -> Type { return b.getIntegerType(4, /*isSigned=*/false); }},
    {"int8-unrotated", [](Builder &b) -> Type { return b.getIntegerType(8, /*isSigned=*/false); }, true},
    {"int4-unrotated", [](Builder &b) -> Type { return b.getIntegerType(4, /*isSigned=*/false); }, true},
};

/// The format of caches for which nothing else is asked.
constexpr llvm::StringLiteral defaultFormat = "f16";

/// "cache.0.keys" → "cache.0".
StringRef layerOf(StringRef name) { return name.rsplit('.').first; }

/// One entry of --kv: a format for all caches, or for those whose names a glob matches.
struct CacheChoice {
  std::string text;
  std::string pattern; ///< empty: all
  std::optional<llvm::GlobPattern> glob;
  const NamedElement *element;
  bool isUsed = false;

  bool matches(StringRef name) const { return !glob || glob->match(name) || glob->match(layerOf(name)); }
};

llvm::Expected<CacheChoice> parseChoice(StringRef text) {
  auto [pattern, name] = text.contains('=') ? text.rsplit('=') : std::pair(StringRef(), text);
  const auto *element = llvm::find_if(namedElements, [&](const NamedElement &one) { return one.name == name; });
  if (element == std::end(namedElements))
    return createStringError("--kv=" + text +
                             ": caches can be f32, f16, bf16, fp8, int8 and int4, and with keys as before their "
                             "rotation int8-unrotated and int4-unrotated" +
                             (text.contains('=') ? "" : ", of some layers by their names: cache.0=f16"));
  CacheChoice choice{text.str(), pattern.str(), std::nullopt, element};
  if (!text.contains('='))
    return choice;
  llvm::Expected<llvm::GlobPattern> glob = llvm::GlobPattern::create(pattern);
  if (!glob)
    return createStringError("--kv=" + text + ": invalid glob: " + llvm::toString(glob.takeError()));
  choice.glob = std::move(*glob);
  return choice;
}
} // namespace

llvm::Error checkCacheFormats(llvm::ArrayRef<std::string> caches) {
  for (const std::string &text : caches)
    if (llvm::Error error = parseChoice(text).takeError())
      return error;
  return llvm::Error::success();
}

namespace quantize {
#define GEN_PASS_DECL
#define GEN_PASS_DEF_QUANTIZEKVCACHE
#include "lib/Quantize/Passes.h.inc"

namespace {
struct QuantizeKvCache : impl::QuantizeKvCacheBase<QuantizeKvCache> {
  using QuantizeKvCacheBase::QuantizeKvCacheBase;

  void runOnOperation() override {
    SmallVector<CacheChoice> choices;
    for (const std::string &text : formats) {
      llvm::Expected<CacheChoice> choice = parseChoice(text);
      if (!choice) {
        getOperation().emitError() << llvm::toString(choice.takeError());
        return signalPassFailure();
      }
      choices.push_back(std::move(*choice));
    }
    std::vector<std::string> names;
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      FailureOr<SmallVector<FunctionCache>> caches = findCaches(function);
      if (failed(caches))
        return signalPassFailure();
      for (FunctionCache &cache : *caches) {
        names.push_back(cache.name);
        if (failed(decide(function, cache, choices)))
          return signalPassFailure();
      }
    }
    for (const CacheChoice &choice : choices)
      if (!choice.isUsed) {
        refuseUnused(choice, names);
        return signalPassFailure();
      }
  }

  /// Sets the format of a cache. If several choices match it, the last one holds.
  LogicalResult decide(func::FuncOp function, FunctionCache &cache, MutableArrayRef<CacheChoice> choices) {
    Builder builder(&getContext());
    const CacheChoice *chosen = nullptr;
    for (CacheChoice &choice : choices)
      if (choice.matches(cache.name)) {
        choice.isUsed = true;
        chosen = &choice;
      }
    if (!chosen && cache.format.getDecidedElement())
      return success();
    const NamedElement &element =
        chosen ? *chosen->element
               : *llvm::find_if(namedElements, [](const NamedElement &one) { return one.name == defaultFormat; });
    nn::CacheFormatAttr format = cache.format.withElement(element.make(builder));
    if (element.unrotated && format.getKind() == nn::CacheKind::Keys)
      format = format.withoutRotation();
    if (format == cache.format)
      return success();
    if (!cache.format.isOpen())
      return function.emitError() << "--kv=" << chosen->text << ": the pages of '" << cache.name
                                  << "' are laid out already, as " << cache.format;
    if (cache.format.isQuantized())
      return function.emitError() << "--kv=" << chosen->text << ": '" << cache.name << "' is quantized already, to "
                                  << cache.format;
    int64_t features = cache.format.getFeatures(cast<RankedTensorType>(cache.tensors.front().getType()));
    if (format.getBits() == 4 && features % 32 != 0)
      return function.emitError() << "--kv=" << chosen->text << ": '" << cache.name << "' has heads of " << features
                                  << " features, no multiple of 32, which 4-bit values come in; try int8 for it: --kv="
                                  << chosen->text << "," << layerOf(cache.name) << "=int8";
    if (format.isQuantized())
      return quantizeCache(function, cache, format);
    setFormat(function, cache, format);
    return success();
  }

  void refuseUnused(const CacheChoice &choice, std::vector<std::string> names) {
    InFlightDiagnostic error = getOperation().emitError() << "--kv=" << choice.text << ": ";
    if (names.empty()) {
      error << "the model has no key/value cache";
      return;
    }
    error << "no cache is named so";
    std::set<std::string> all(names.begin(), names.end());
    for (const std::string &name : names)
      all.insert(layerOf(name).str());
    if (std::string near = nearestNames(choice.pattern, std::vector<std::string>(all.begin(), all.end()));
        !near.empty())
      error << near;
    else
      error << "; the model has for instance '" << names.front() << "' and '" << names.back() << "'";
  }
};
} // namespace
} // namespace quantize
} // namespace intarsia
