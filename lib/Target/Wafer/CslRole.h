//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_LIB_TARGET_WAFER_CSLROLE_H
#define INTARSIA_LIB_TARGET_WAFER_CSLROLE_H

#include "lib/Target/Wafer/Roles.h"

namespace intarsia::wafer {

/// The CSL of the cores of one class.
struct CslRole {
  std::string text;
  bool usesColumn = false, usesRow = false; ///< parameters that the layout gives
};
/// Returns it for the class of a core; the error names what a core cannot do.
llvm::Expected<CslRole> writeCslRole(const Program &program, const Roles &roles, int64_t column, int64_t row);

/// Returns names of buffers: letters, digits and lines, each once.
std::vector<std::string> cslNamesOf(const Program &program);
llvm::StringRef cslTypeOf(const CoreBuffer &buffer);

} // namespace intarsia::wafer

#endif
