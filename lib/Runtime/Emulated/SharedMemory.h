//===- SharedMemory.h - Shared memory of a block, and which of it was written ----------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_EMULATED_SHAREDMEMORY_H
#define INTARSIA_RUNTIME_EMULATED_SHAREDMEMORY_H

#include "lib/Support/Status.h"

#include <cstdint>
#include <cstring>
#include <memory>

namespace intarsia::runtime {

/// The shared memory of one block at a time.
class SharedMemory {
public:
  /// As the strictest instructions of GPUs want it: tensor copies with a swizzle of 128 bytes.
  static constexpr uint64_t alignment = 1024;
  /// NaN in each format of floating-point numbers that has one.
  static constexpr uint8_t pattern = 0xff;

  /// Gives the next block `bytes` that hold the pattern. If `tracked`, it is noted which bytes are written.
  Status reset(uint64_t bytes, bool tracked);

  uint8_t *address() const { return memory_.get(); }
  uint64_t bytes() const { return bytes_; }
  bool contains(const void *address, uint64_t bytes) const {
    uint64_t offset = offsetOf(address);
    return offset <= bytes_ && bytes <= bytes_ - offset;
  }
  /// Returns the offset of an address, which may lie outside.
  uint64_t offsetOf(const void *address) const {
    return reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(memory_.get());
  }

  /// Notes that bytes, which must lie inside, are written.
  void noteWritten(const void *address, uint64_t bytes) {
    if (!tracked_)
      return;
    // Kernels make most accesses of as many bytes. Of a size that is known they are one instruction.
    uint8_t *notes = written_.get() + offsetOf(address);
    switch (bytes) {
    case 2:
      return noteAs<uint16_t>(notes);
    case 4:
      return noteAs<uint32_t>(notes);
    case 8:
      return noteAs<uint64_t>(notes);
    default:
      std::memset(notes, 1, bytes);
    }
  }
  /// Returns true if bytes, which must lie inside, are all written, or if that is not noted.
  bool areWritten(const void *address, uint64_t bytes) const {
    if (!tracked_)
      return true;
    const uint8_t *notes = written_.get() + offsetOf(address);
    switch (bytes) {
    case 2:
      return areNoted<uint16_t>(notes);
    case 4:
      return areNoted<uint32_t>(notes);
    case 8:
      return areNoted<uint64_t>(notes);
    default:
      return !std::memchr(notes, 0, bytes);
    }
  }
  /// Notes that a product begins, or ends, to read a chunk of 16 bytes, which must lie inside.
  void beginRead(uint64_t offset) {
    ++readers_.get()[offset / chunkBytes];
    ++reads_;
  }
  void endRead(uint64_t offset) {
    --readers_.get()[offset / chunkBytes];
    --reads_;
  }
  /// Returns true if a product may still read one of some bytes, which must lie inside.
  bool areBeingRead(const void *address, uint64_t bytes) const { return reads_ != 0 && hasReader(address, bytes); }

  /// Fills bytes, which must lie inside, with the pattern, and notes that they are not written.
  void forget(void *address, uint64_t bytes);
  /// Returns the offset of the first of some bytes that is not written; that behind them if all are.
  uint64_t firstUnwritten(const void *address, uint64_t bytes) const;

private:
  /// As many notes that a byte is written as a word has bytes.
  template <typename Word> static constexpr Word allNoted = Word(0x0101010101010101);
  template <typename Word> static void noteAs(uint8_t *notes) { std::memcpy(notes, &allNoted<Word>, sizeof(Word)); }
  template <typename Word> static bool areNoted(const uint8_t *notes) {
    Word word;
    std::memcpy(&word, notes, sizeof(Word));
    return word == allNoted<Word>;
  }

  struct Free {
    void operator()(void *memory) const;
  };
  using Memory = std::unique_ptr<uint8_t, Free>;

  static constexpr uint64_t chunkBytes = 16;
  bool hasReader(const void *address, uint64_t bytes) const;

  Memory memory_;
  Memory written_;                          ///< 1 for each byte that is written
  std::unique_ptr<uint16_t, Free> readers_; ///< products of warps that read each chunk
  uint64_t reads_ = 0;                      ///< their sum
  uint64_t capacity_ = 0;
  uint64_t bytes_ = 0;
  bool tracked_ = false;
};

} // namespace intarsia::runtime

#endif
