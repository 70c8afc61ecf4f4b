//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// What this machine can do, measured: figures of its processor and GPUs in the form of the catalogue.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PROBE_PROBE_H
#define INTARSIA_PROBE_PROBE_H

#include "intarsia/Cost/Catalogue.h"

namespace intarsia {

/// A device of this machine. All its figures have the source "measured by intarsia-plan --probe" and what was done.
struct ProbedDevice {
  CatalogueDevice device;
  std::vector<std::string> unmeasured; ///< "watts: why there is no figure"
};

/// What is looked at: the roots of /proc and /sys, and how long a round of measuring takes.
struct ProbeOptions {
  std::string root;             ///< "" is this machine; tests give a folder
  double secondsOfRound = 0.03; ///< of products; reading memory takes as long as it takes
  int rounds = 15;              ///< the best counts: others on the machine only take away
};

/// The processor: all sockets as one device, with the threads that this process may use. Peaks by the widest
/// instructions for products that it has (AMX, AVX-512, AVX2; NEON), memory read by all threads from arrays several
/// times as large as the caches. Takes a few seconds.
ProbedDevice probeProcessor(const ProbeOptions &options = {});

/// GPUs whose driver can be loaded: libcuda.so.1 and libnvidia-ml.so.1. The names of `unmeasured` say why there is
/// none.
struct ProbedGpus {
  std::vector<ProbedDevice> devices;
  std::string none; ///< why there is none; empty if there are some
};
ProbedGpus probeGpus(const ProbeOptions &options = {});

/// As a file of the catalogue, which CatalogueDevice::parse reads. `date` is YYYY-MM-DD.
std::string writeYaml(const ProbedDevice &probed);

/// What `intarsia-plan --probe` does: prints what it found, or writes it to `file` (GPUs beside it, as
/// `file`-gpu0.yaml and so on). Returns the exit code.
int runProbe(llvm::StringRef file);

} // namespace intarsia

#endif
