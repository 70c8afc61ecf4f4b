//===- HostedMemory.h - Memory that the host cannot reach by the device's addresses --------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_HOSTED_HOSTEDMEMORY_H
#define INTARSIA_RUNTIME_HOSTED_HOSTEDMEMORY_H

#include "lib/Runtime/Hosted/HostedNames.h"
#include "lib/Runtime/Hosted/RangeAllocator.h"
#include "lib/Support/Status.h"

#include <memory>
#include <mutex>

namespace intarsia::runtime {

/// The memory of a device on the host. The addresses that it hands out lie in a range without any access, so that the
/// host faults when it follows one. The bytes lie in a second mapping at a constant distance, which only the device
/// knows. All members may be called from several threads at once.
class HostedMemory {
public:
  static Status reserve(const HostedNames &names, uint64_t capacity, std::unique_ptr<HostedMemory> &memory);
  ~HostedMemory();
  HostedMemory(const HostedMemory &) = delete;
  HostedMemory &operator=(const HostedMemory &) = delete;

  Status allocate(uint64_t bytes, void *&address);
  /// Returns false if no allocation begins at the address.
  bool release(void *address);

  /// Finds the memory behind an address. Returns false unless all bytes from it on lie in one allocation; for 0 bytes
  /// the address may be the allocation's end.
  bool resolve(const void *address, uint64_t bytes, void *&memory) const;
  /// Returns the bytes from an address to the end of the allocation that it is in; 0 outside of all.
  uint64_t bytesFrom(const void *address) const;
  /// Says what is wrong with an address that resolve() refused: "is at 0x10, which …".
  std::string explain(const void *address, uint64_t bytes) const;
  /// Returns true if any of the bytes has an address that only the device may follow.
  bool overlaps(const void *address, uint64_t bytes) const;

private:
  HostedMemory(const HostedNames &names, uint64_t capacity, uint64_t extent, uint8_t *addresses, uint8_t *bytes)
      : names_(names), capacity_(capacity), extent_(extent), addresses_(addresses), bytes_(bytes), ranges_(extent) {}
  std::optional<uint64_t> offsetOf(const void *address) const;

  const HostedNames &names_;
  const uint64_t capacity_;
  const uint64_t extent_;    ///< bytes of each of the two mappings
  uint8_t *const addresses_; ///< first address that is handed out; never followed
  uint8_t *const bytes_;
  mutable std::mutex mutex_;
  uint64_t usedBytes_ = 0;
  RangeAllocator ranges_;
};

} // namespace intarsia::runtime

#endif
