//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Reads MLIR files, text or bytecode, which may be nested deeper than the stack of a parser allows.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_IMPORT_MLIR_MLIRFILE_H
#define INTARSIA_LIB_IMPORT_MLIR_MLIRFILE_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include <string>

namespace intarsia {

/// Returns an error `name:line:column: …` if the text is nested too deeply to be parsed. It does not check bytecode.
llvm::Error checkNesting(llvm::MemoryBufferRef buffer);

/// The form of IR that this version reads and writes: it changes with every change of ops, attributes and types that
/// makes IR of a version before unreadable. A file says its form as `rt.form` of its module; those of form 1 do not.
inline constexpr int64_t irForm = 2;
/// Returns what a bytecode file says of its producer, so that its form is known before it is read.
std::string bytecodeProducer(llvm::StringRef program);
/// Returns an error `name: …` if the file says that it is in another form of IR.
llvm::Error checkForm(llvm::MemoryBufferRef buffer);
/// Returns a hint for a file that is not valid: what else than a mistake may be the reason. It may be empty.
std::string invalidHint(llvm::MemoryBufferRef buffer);

/// Returns the message of a StackGuard around the reading of a file.
std::string tooDeepMessage(llvm::StringRef name);

/// Reports, with a diagnostic, attributes that verifiers of MLIR crash on or read the low 32 bits of. To be asked
/// before IR is verified.
mlir::LogicalResult checkAttributes(mlir::Operation *root);

/// Parses text or bytecode and gives `sources`, which must be empty, the buffer. Returns an error if it is nested too
/// deeply or in another form of IR, and null, after diagnostics, if it is not valid.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> parseMlir(std::unique_ptr<llvm::MemoryBuffer> buffer,
                                                            llvm::SourceMgr &sources, const mlir::ParserConfig &config);

} // namespace intarsia

#endif
