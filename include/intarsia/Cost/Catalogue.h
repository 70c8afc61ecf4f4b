//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The catalogue of devices: figures of data sheets, price lists and a paper for accelerators, each with its source and
// date. The files of catalogue/devices are part of the program; a user's own are parsed the same way.
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_COST_CATALOGUE_H
#define INTARSIA_COST_CATALOGUE_H

#include "intarsia/Cost/MeasuredTimes.h"
#include "lib/Support/ElementTypes.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace intarsia {

/// One number of the catalogue.
struct Figure {
  double value = 0;
  std::string source;  ///< origin of the figure
  std::string date;    ///< date of reading the source, YYYY or YYYY-MM or YYYY-MM-DD
  bool unsure = false; ///< from memory, rounded, or derived from another figure: to be shown as such
};

struct OwnershipTerms {
  double years = 4;
  double interestPerYear = 0.08; ///< compounded continuously over the years
  double dollarsPerKWh = 0.40;   ///< for the energy that the device draws; includes cooling
  double utilisation = 1;        ///< share of the power: at 1 the device draws `watts` all the time
};

/// One kind of device.
struct CatalogueDevice {
  std::string name;                         ///< vendor/device, for example nvidia/h100-sxm
  std::string set;                          ///< datasheet, paper, or measured (by intarsia-plan --probe)
  std::string file;                         ///< file name for messages
  std::string generation;                   ///< hopper, blackwell, cdna3, …
  std::string target;                       ///< --target of intarsia-compile for it; empty: there is none
  std::string efficiencyOf;                 ///< generation whose fitted efficiencies apply to it; empty: none
  std::string wafer;                        ///< name of catalogue/wafers, or a file of that form; empty: it is none
  std::map<std::string, Figure> peakTflops; ///< dense, by elementTypes, 10^12 operations a second
  std::optional<Figure> memoryGB;           ///< 10^9 bytes
  std::optional<Figure> memoryGBps;
  std::optional<Figure> multiprocessors; ///< of a GPU; compute units of AMD's
  std::optional<Figure> clockGHz;        ///< boost
  std::optional<Figure> cacheMB;         ///< last cache before the memory, 10^6 bytes
  std::optional<Figure> linkGBps;        ///< as the source states it
  bool linkBothDirections = true;        ///< true if the source counts both directions together, false if one
  std::optional<Figure> nodeDevices;
  std::optional<Figure> linkDomain;  ///< devices that the link reaches; the node if not given
  std::optional<Figure> networkGBps; ///< per device and direction, between nodes
  std::optional<Figure> watts;
  /// Number of programs that may each have a share of one device's threads and memory; none if not given.
  std::optional<Figure> clients;
  std::optional<Figure> purchaseDollars;
  std::optional<Figure> rentalDollarsPerHour;
  std::optional<Figure> rentalLowDollarsPerHour; ///< the lowest price found
  std::optional<Figure> operatingDollarsPerHour; ///< as printed by a source; used only for comparison
  std::optional<MeasuredTimes> serving;          ///< times of this compiler's kernels; they stand before `efficiencyOf`

  /// Returns the dense peak in 10^12 operations a second. There is no fallback for a missing figure: the error names
  /// the figure, the file and the element types that the file has.
  llvm::Expected<double> peak(llvm::StringRef elementType) const;
  /// Returns the value of an optional figure; the error names it and the file. `name` is as the file spells it.
  llvm::Expected<double> need(const std::optional<Figure> &figure, llvm::StringRef name) const;
  /// Returns the bandwidth of the link in one direction.
  llvm::Expected<double> linkOneWayGBps() const;
  /// Returns the number of devices that the link connects: `link_domain`, else `devices` of the node, else 1.
  int devicesOnLink() const;
  /// Returns the number of programs that can share a device: `clients`, else 1.
  int mostClients() const { return clients ? int(clients->value) : 1; }
  /// Returns the names of the figures that are unsure, as the file spells them.
  std::vector<std::string> unsureFigures() const;

  /// Returns the rental price of an hour: the lowest of the list prices found.
  llvm::Expected<double> rentalPerHour() const;
  /// Returns the owner's cost of an hour: principal and interest spread over all hours of the years, and energy: (price
  /// + price·(e^(interest·years) − 1)) / (8760·years) + kW·utilisation·$/kWh.
  llvm::Expected<double> ownedPerHour(const OwnershipTerms &terms = {}) const;
  /// Returns the same without the principal: with the default terms the operating cost in Table 5 of arXiv 2507.19635.
  /// The table's H100 does not fit its price ($25,000 gives $0.55, the table prints $0.60): $30,000 does.
  llvm::Expected<double> operatingPerHour(const OwnershipTerms &terms = {}) const;

  /// Reads a file of the catalogue. Errors name the line, the figure and the reason: unknown keys, missing source or
  /// date, figures that are negative, zero, not finite, or implausible in their unit ("memory_gb 80000: did you give
  /// MB?").
  static llvm::Expected<CatalogueDevice> parse(llvm::StringRef yaml, llvm::StringRef file);
};

/// Returns all devices that are part of the program, by name.
llvm::ArrayRef<CatalogueDevice> catalogueDevices();
/// Looks up a device by its name; the error lists the nearest names.
llvm::Expected<const CatalogueDevice *> findDevice(llvm::StringRef name);

/// Returns " did you mean 'a', 'b'?" for the entries of `names` nearest to `name` by edit distance or as part of each
/// other; "" when none is near.
std::string nearestNames(llvm::StringRef name, llvm::ArrayRef<std::string> names);

} // namespace intarsia

#endif
