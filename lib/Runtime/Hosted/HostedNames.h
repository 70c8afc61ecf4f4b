//===- HostedNames.h - How a device that computes on the host is called -----------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_HOSTED_HOSTEDNAMES_H
#define INTARSIA_RUNTIME_HOSTED_HOSTEDNAMES_H

namespace intarsia::runtime {

/// The names of one kind of device, all of which live as long as the process.
struct HostedNames {
  const char *kind;      ///< as `--target` says it: "reference"
  const char *text;      ///< for messages: "the reference device"
  const char *variables; ///< how its environment variables begin: "ITX_REFERENCE"
};

} // namespace intarsia::runtime

#endif
