//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// Time of one matrix kernel on a GPU: linears, attention of prompts and of decoding, experts. A kernel is a grid of
// tiles, which fill the multiprocessors in waves while the memory delivers each byte once:
//
//   tile  = max(flops (depth + prologue) / (peak of a multiprocessor · compute / (1 + edge · (1 / rows + 1 /
//   columns))),
//               bytes that it loads / (processor · bandwidth of a multiprocessor)) + tile_us
//   waves = tiles / multiprocessors, rounded up by the share `quantization`
//   time  = launch_us + blend(waves · tile, bytes / (memory · bandwidth)) + the sum of split parts
//
// of the fastest tile and split of a list, with blend(a, b) = (a^p + b^p)^(1 / p). Bytes that the last cache holds come
// `cache` times as fast as those of the memory. Rates are those of the catalogue, the other names are figures that
// bench/fit_gpu_kernels.py fits to measured times (catalogue/efficiency/gpu-kernels.yaml).
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_COST_GPUKERNELS_H
#define INTARSIA_COST_GPUKERNELS_H

#include "intarsia/Cost/Catalogue.h"

namespace intarsia {

enum class GpuKernelKind {
  Linear,  ///< rows × columns over depth
  Prefill, ///< attention of prompts: `rows` queries and `columns` keys of a sequence, heads of `depth` features
  Decode,  ///< the same with few queries: tiles share a sequence's keys
  Experts  ///< two linears, `rows` tokens each through `perToken` of the experts, depth → 2 columns, columns → depth
};

/// The shape of a kernel's computation. Sizes are those of one device.
struct GpuKernelShape {
  GpuKernelKind kind = GpuKernelKind::Linear;
  double batch = 1;                        ///< of attention: sequences; of linears: matmuls
  double rows = 1, columns = 1, depth = 1; ///< see GpuKernelKind
  double heads = 1, keyHeads = 1;          ///< attention
  /// Elements that are cached for a token and a head of keys, where values are part of the keys (latent attention); 0:
  /// a key and a value of `depth` elements.
  double cachedDepth = 0;
  bool causal = true;                                      ///< attention
  double window = 0;                                       ///< most keys that a query sees; 0: all
  double experts = 1, perToken = 1;                        ///< experts of this device
  double inputBytes = 2, weightBytes = 2, outputBytes = 2; ///< of an element; attention: query, cache, result
  /// Share of the weights that the last cache may still hold from a call before: 1 where one kernel is timed again and
  /// again, 0 in a model that is larger than the cache.
  double warmWeights = 0;
};

/// Rates of a device by the catalogue.
struct GpuRates {
  double multiprocessors = 0, peakTflops = 0, memoryGBps = 0, cacheMB = 0;

  /// Reads the rates of one element type; the error names the figure that the catalogue lacks.
  static llvm::Expected<GpuRates> of(const CatalogueDevice &device, llvm::StringRef elementType);
};

/// Fitted figures of one kind of kernel in one element type, in the order of names().
struct GpuKernelFigures {
  double launchUs = 0;     ///< of a kernel that computes almost nothing, by the clock of the measurement
  double compute = 1;      ///< share of the peak that a large tile reaches
  double prologue = 0;     ///< depth whose time it takes to fill and to drain a tile's pipeline
  double edge = 0;         ///< rows of a tile at which half of the peak is lost
  double memory = 1;       ///< share of the memory's bandwidth
  double cache = 1;        ///< bandwidth of the last cache as a multiple of the memory's
  double processor = 1;    ///< bandwidth of a multiprocessor as a multiple of its share of the memory's
  double quantization = 0; ///< 1: the last wave takes as long as a full one; 0: as long as its share of one
  double blend = 2;        ///< exponent p, less 1
  double splitUs = 0;      ///< start of the sum over split parts
  double tileUs = 0;
  double resident = 0;                                      ///< share of the last cache that keeps what is read again
  double input = 0;                                         ///< passes over the input where it is quantized before
  double expertUs = 0;                                      ///< start of one expert
  double head64 = 1, head192 = 1, head256 = 1, head512 = 1; ///< compute of heads of this size, relative to 128

  static llvm::ArrayRef<llvm::StringRef> names();
  double &at(size_t index);
};

/// Returns microseconds of one call.
double gpuKernelUs(const GpuKernelShape &shape, const GpuRates &rates, const GpuKernelFigures &figures);

/// How blocks compute a matmul: by tiles of one size, whose depth is split into parts of different blocks.
struct GpuTiling {
  double rows, columns, parts;
};

/// Returns microseconds of one call of a linear by such tiles; gpuKernelUs() takes the fastest of a list.
double gpuTiledUs(const GpuKernelShape &shape, const GpuTiling &tiling, const GpuRates &rates,
                  const GpuKernelFigures &figures);

/// How blocks that all run at once share a matmul: what the busiest one computes, by tiles of one size.
struct GpuShare {
  double rows, columns; ///< of a tile
  double tiles;         ///< that it computes, the whole depth of them or some of it
  double depth;         ///< of all of these together
  double partials = 0;  ///< of all blocks: tiles of sums that are written, and read once more for a sum over them
};

/// Returns microseconds of one call of a linear that is shared so. No share of a wave is taken off: the busiest block
/// computes as long as its tiles take.
double gpuSharedUs(const GpuKernelShape &shape, const GpuShare &share, const GpuRates &rates,
                   const GpuKernelFigures &figures);

/// Returns the bound that needs no fit: the longer of flops at the peak and bytes at the memory's bandwidth.
double gpuRooflineUs(const GpuKernelShape &shape, const GpuRates &rates);

/// A line of the table of figures.
struct GpuKernelFit {
  GpuKernelKind kind;
  std::string type; ///< element type of the matrix instructions; of attention, of the cache
  std::string of;   ///< device, family of devices, or "any"
  int rows = 0;     ///< measured ones that were fitted
  double error = 0; ///< their median relative error
  GpuKernelFigures figures;
};

/// Fitted figures of an all-reduce between the devices of a node, in the order of names(). The faster of two ways:
///
///   one shot   start + stage log2 n + (n − 1) bytes / (oneShot · link)             each device reads all others
///   two shots  start + stage log2 n + second + 2 (n − 1) / n bytes / (twoShots · link)   scatter sums, gather them
struct AllReduceFigures {
  double startUs = 0, stageUs = 0;
  double secondUs = 0;              ///< the second exchange
  double oneShot = 1, twoShots = 1; ///< shares of the link's bandwidth in one direction

  static llvm::ArrayRef<llvm::StringRef> names();
  double &at(size_t index);
};

/// Returns microseconds of an all-reduce of so many bytes on each of `devices`, whose link has `linkGBps` one way.
double allReduceUs(double devices, double bytes, double linkGBps, const AllReduceFigures &figures);

/// A line of the table of all-reduces.
struct AllReduceFit {
  std::string of; ///< device, family of devices, or "any"
  int rows = 0;
  double error = 0;
  AllReduceFigures figures;
};

/// How near the measured devices are to the one that was asked for.
enum class GpuFitSource { Device, Family, Any };

/// The table of figures.
struct GpuKernelTable {
  std::map<std::string, std::string> families; ///< by generation of the catalogue
  std::vector<GpuKernelFit> fits;
  std::vector<AllReduceFit> allReduces;

  /// Returns the line for a device: its own, else that of its family, else that of all devices. A type that was not
  /// measured takes the line of bf16.
  std::pair<const GpuKernelFit *, GpuFitSource> find(GpuKernelKind kind, llvm::StringRef type,
                                                     const CatalogueDevice &device) const;

  /// Returns the figures of all-reduces of a device: its own, those of its family, or those of all devices.
  const AllReduceFigures &allReduce(const CatalogueDevice &device) const;

  /// Reads the file; the error says `file:line: ` and the reason.
  static llvm::Expected<GpuKernelTable> parse(llvm::StringRef yaml, llvm::StringRef file);
  /// Returns the table that is part of the program.
  static const GpuKernelTable &get();
};

/// Times of kernels on one device: its rates with the figures for it.
class GpuCosts {
public:
  /// Errors name the figure that the catalogue lacks.
  static llvm::Expected<GpuCosts> create(const CatalogueDevice &device);

  /// Returns microseconds of a kernel whose matrix instructions compute in an element type of the catalogue. f16 counts
  /// as bf16, and int8 as fp8; a type that the device has no peak of is computed in bf16.
  double microseconds(const GpuKernelShape &shape, llvm::StringRef elementType) const;
  /// Returns microseconds of a linear that blocks share.
  double sharedUs(const GpuKernelShape &shape, llvm::StringRef elementType, const GpuShare &share) const;
  /// Returns microseconds of a pass over memory, without a launch.
  double streamUs(double bytes) const;
  /// Returns microseconds of a kernel that computes almost nothing.
  double launchUs() const;
  /// Returns microseconds of an all-reduce of so many bytes on each of `devices` of a node; none if the catalogue has
  /// no link between them.
  std::optional<double> allReduceUs(double devices, double bytes) const;
  /// The same of what is half of it: all-gather, reduce-scatter and all-to-all of `bytes` in all; and of a message.
  std::optional<double> gatherUs(double devices, double bytes) const;
  std::optional<double> messageUs(double bytes) const;
  GpuFitSource source() const { return nearest; }
  /// Returns a sentence without a verb: what the figures are from.
  std::string origin() const;

private:
  const CatalogueDevice *device = nullptr;
  std::map<std::string, GpuRates> rates; ///< by element type
  const GpuKernelFit *linear = nullptr;
  GpuFitSource nearest = GpuFitSource::Any;
};

} // namespace intarsia

#endif
