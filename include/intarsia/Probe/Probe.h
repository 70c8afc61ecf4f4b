//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Measured capabilities of this machine: figures of its processor and GPUs in the form of the catalogue.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_PROBE_PROBE_H
#define INTARSIA_PROBE_PROBE_H

#include "intarsia/Cost/Catalogue.h"

namespace intarsia {

/// A device of this machine. All its figures have the source "measured by intarsia-plan --probe" and the method.
struct ProbedDevice {
  CatalogueDevice device;
  std::vector<std::string> unmeasured; ///< "watts: " and the reason why there is no figure
};

/// Options of a probe: the root of /proc and /sys, and the length of a measuring round.
struct ProbeOptions {
  std::string root;             ///< "" is this machine; tests give a folder
  double secondsOfRound = 0.03; ///< for matmul loops; reading memory takes as long as necessary
  int rounds = 15;              ///< the best one counts: others on the machine can only slow it down
};

/// Measures the processor: all sockets as one device, with the threads that this process may use. Peaks are those of
/// its widest multiply-add instructions (AMX, AVX-512, AVX2; NEON); all threads read memory from arrays several times
/// as large as the caches. Takes a few seconds.
ProbedDevice probeProcessor(const ProbeOptions &options = {});

/// GPUs whose driver can be loaded: libcuda.so.1 and libnvidia-ml.so.1. Entries of `unmeasured` give the reason.
struct ProbedGpus {
  std::vector<ProbedDevice> devices;
  std::string none; ///< reason why there is none; empty if there are some
};
ProbedGpus probeGpus(const ProbeOptions &options = {});

/// Returns a device as a file of the catalogue, which CatalogueDevice::parse reads. `date` is YYYY-MM-DD.
std::string writeYaml(const ProbedDevice &probed);

/// Measures decoders and encoders of random weights in f32, bf16, int8 and int4, which `compiler`, the path of
/// intarsia-compile, compiles for this machine, for about `seconds`: with fewer than 120, models are smaller and have
/// fewer turns. Waits up to half as long for other work on the machine. Shows its progress on standard error; takes
/// 1.3 GB in the temporary folder.
llvm::Expected<MeasuredTimes> probeServing(llvm::StringRef compiler, double seconds);

/// Runs `intarsia-plan --probe`: prints the figures, or writes them to `file` (GPUs beside it, as `file`-gpu0.yaml and
/// so on). Language models are measured with the intarsia-compile in `tools`, the folder of this program, for about
/// `seconds`; not for none. Returns the exit code.
int runProbe(llvm::StringRef file, llvm::StringRef tools, double seconds);

} // namespace intarsia

#endif
