//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The calls of TT-Metalium that intarsia-wafer writes, for host threads: one for each kernel of each core. Written from
// the names and the meaning in its public documentation. It is stricter than a device: addresses, formats and pages are
// checked, and waiting ends with an error. A tile is row-major here; its order in memory is the hardware's own.
//===----------------------------------------------------------------------------------------------------------===//
#pragma once

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#define tt_l1_ptr

namespace host {

[[noreturn]] inline void fail(const std::string &what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::_Exit(1);
}

struct CircularBuffer {
  uint32_t address = 0, pageBytes = 0, pages = 0;
  bool isHalf = false;
  std::atomic<uint32_t> pushed{0}, popped{0};
};

constexpr uint32_t semaphoreBytes = 16, noc0X = 1, noc0Y = 2; // workers are not at the network's origin

struct Core {
  uint32_t column = 0, row = 0, semaphores = 0;
  std::vector<uint8_t> memory;
  std::deque<CircularBuffer> buffers;

  uint8_t *at(uint64_t address, uint64_t bytes) {
    if (address + bytes > memory.size())
      fail("address " + std::to_string(address) + " is beyond the memory of a core");
    return memory.data() + address;
  }
  uint32_t *word(uint64_t address) { return reinterpret_cast<uint32_t *>(at(address, 4)); }
};

inline uint32_t columns, rows;
inline std::deque<Core> cores;
inline std::vector<std::vector<uint8_t>> operands; // in DRAM

/// The state of a kernel of a core.
struct Thread {
  Core *core = nullptr;
  std::map<uint32_t, uint32_t> pushed, popped; // pages of a circular buffer, by this kernel
  float registers[8][1024] = {};
  uint32_t sourceA = ~0u, sourceB = ~0u, packed = ~0u;
  bool transposed = false;
};
inline thread_local Thread *self;

template <typename Condition> void wait(Condition condition, const char *what) {
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (!condition()) {
    std::this_thread::yield();
    if (std::chrono::steady_clock::now() > end)
      fail(std::string("core ") + std::to_string(self->core->column) + ", " + std::to_string(self->core->row) +
           " waits forever for " + what);
  }
}

inline CircularBuffer &buffer(uint32_t number) {
  if (number >= self->core->buffers.size())
    fail("there is no circular buffer " + std::to_string(number));
  return self->core->buffers[number];
}

constexpr uint64_t inDram = uint64_t(1) << 62;

/// Returns the memory that an address of the network names.
inline uint8_t *remote(uint64_t address, uint64_t bytes) {
  if (address & inDram) {
    std::vector<uint8_t> &operand = operands.at((address >> 48) & 0xff);
    uint64_t offset = address & ((uint64_t(1) << 48) - 1);
    if (offset + bytes > operand.size())
      fail("page beyond an operand");
    return operand.data() + offset;
  }
  uint32_t x = uint32_t(address >> 40) - noc0X, y = (uint32_t(address >> 32) & 0xff) - noc0Y;
  if (x >= columns || y >= rows)
    fail("there is no core at " + std::to_string(x) + ", " + std::to_string(y));
  return cores[y * columns + x].at(address & 0xffffffff, bytes);
}

inline uint8_t *tile(uint32_t number, uint32_t page, bool writes) {
  CircularBuffer &of = buffer(number);
  uint32_t first = writes ? self->pushed[number] : self->popped[number];
  if (page >= of.pages || (!writes && of.pushed - of.popped <= page))
    fail("page " + std::to_string(page) + " of circular buffer " + std::to_string(number) + " is not there");
  return self->core->at(of.address + (first + page) % of.pages * of.pageBytes, of.pageBytes);
}

inline float element(uint32_t number, const uint8_t *tile, uint32_t index) {
  if (!buffer(number).isHalf)
    return reinterpret_cast<const float *>(tile)[index];
  return float(reinterpret_cast<const _Float16 *>(tile)[index]);
}

inline void expect(bool isRight, const char *what) {
  if (!isRight)
    fail(what);
}
inline bool alike(uint32_t configured, uint32_t used) {
  return configured != ~0u && buffer(configured).isHalf == buffer(used).isHalf;
}

} // namespace host

//===-- Kernels that move data -------------------------------------------------------------------------------===//

template <bool dram> struct InterleavedAddrGen {
  uint32_t bank_base_address, page_size;
};
template <typename T> T get_arg_val(int index) { return index == 0 ? host::self->core->column : host::self->core->row; }
template <typename T> T get_common_arg_val(int index) {
  if (uint32_t(index) < host::columns)
    return uint32_t(index) + host::noc0X;
  if (uint32_t(index) < host::columns + host::rows)
    return uint32_t(index) - host::columns + host::noc0Y;
  return uint32_t(index) - host::columns - host::rows;
}
inline uint64_t get_noc_addr(uint32_t x, uint32_t y, uint32_t address) {
  return uint64_t(x) << 40 | uint64_t(y) << 32 | address;
}
template <bool dram> uint64_t get_noc_addr(uint32_t page, const InterleavedAddrGen<dram> &of) {
  return host::inDram | uint64_t(of.bank_base_address) << 48 | uint64_t(page) * of.page_size;
}
inline void noc_async_read(uint64_t from, uint32_t to, uint32_t bytes) {
  std::memcpy(host::self->core->at(to, bytes), host::remote(from, bytes), bytes);
}
inline void noc_async_write(uint32_t from, uint64_t to, uint32_t bytes) {
  std::memcpy(host::remote(to, bytes), host::self->core->at(from, bytes), bytes);
}
inline void noc_async_read_barrier() { std::atomic_thread_fence(std::memory_order_seq_cst); }
inline void noc_async_write_barrier() { std::atomic_thread_fence(std::memory_order_seq_cst); }
inline uint32_t get_semaphore(uint32_t number) {
  host::expect(number < host::self->core->semaphores && number < 16, "there is no such semaphore");
  return number * host::semaphoreBytes;
}
inline void noc_semaphore_inc(uint64_t address, uint32_t by) {
  __atomic_fetch_add(reinterpret_cast<uint32_t *>(host::remote(address, 4)), by, __ATOMIC_SEQ_CST);
}
inline uint32_t stub_value(volatile uint32_t *semaphore) {
  return __atomic_load_n(host::self->core->word(reinterpret_cast<uintptr_t>(semaphore)), __ATOMIC_SEQ_CST);
}
inline void noc_semaphore_set(volatile uint32_t *semaphore, uint32_t value) {
  __atomic_store_n(host::self->core->word(reinterpret_cast<uintptr_t>(semaphore)), value, __ATOMIC_SEQ_CST);
}
inline void noc_semaphore_wait(volatile uint32_t *semaphore, uint32_t value) {
  host::wait([&] { return stub_value(semaphore) == value; }, "a semaphore");
}
inline void noc_semaphore_wait_min(volatile uint32_t *semaphore, uint32_t value) {
  host::wait([&] { return stub_value(semaphore) >= value; }, "the other kernel that moves data");
}

//===-- Circular buffers -------------------------------------------------------------------------------------===//

inline uint32_t get_write_ptr(uint32_t number) {
  host::CircularBuffer &of = host::buffer(number);
  return of.address + host::self->pushed[number] % of.pages * of.pageBytes;
}
inline uint32_t get_read_ptr(uint32_t number) {
  host::CircularBuffer &of = host::buffer(number);
  return of.address + host::self->popped[number] % of.pages * of.pageBytes;
}
inline void cb_reserve_back(uint32_t number, uint32_t pages) {
  host::CircularBuffer &of = host::buffer(number);
  host::wait([&] { return of.pages - (of.pushed - of.popped) >= pages; }, "room in a circular buffer");
}
inline void cb_push_back(uint32_t number, uint32_t pages) {
  host::self->pushed[number] += pages;
  host::buffer(number).pushed += pages;
}
inline void cb_wait_front(uint32_t number, uint32_t pages) {
  host::CircularBuffer &of = host::buffer(number);
  host::expect(pages <= of.pages, "a kernel waits for more pages than a circular buffer has");
  host::wait([&] { return of.pushed - of.popped >= pages; }, "pages of a circular buffer");
}
inline void cb_pop_front(uint32_t number, uint32_t pages) {
  host::self->popped[number] += pages;
  host::buffer(number).popped += pages;
}

//===-- Kernels that compute ---------------------------------------------------------------------------------===//

inline void binary_op_init_common(uint32_t a, uint32_t b, uint32_t to) {
  host::self->sourceA = a, host::self->sourceB = b, host::self->packed = to;
}
inline void reconfig_data_format_srca(uint32_t a) { host::self->sourceA = a; }
inline void reconfig_data_format(uint32_t a, uint32_t b) { host::self->sourceA = a, host::self->sourceB = b; }
inline void pack_reconfig_data_format(uint32_t to) { host::self->packed = to; }
inline void tile_regs_acquire() { std::memset(host::self->registers, 0, sizeof host::self->registers); }
inline void tile_regs_commit() {}
inline void tile_regs_wait() {}
inline void tile_regs_release() {}
template <bool outOfOrder> void pack_tile(uint32_t from, uint32_t number, uint32_t page) {
  host::expect(outOfOrder && host::alike(host::self->packed, number), "the packer has another format");
  uint8_t *to = host::tile(number, page, true);
  for (uint32_t i = 0; i < 1024; ++i)
    if (host::buffer(number).isHalf)
      reinterpret_cast<_Float16 *>(to)[i] = _Float16(host::self->registers[from][i]);
    else
      reinterpret_cast<float *>(to)[i] = host::self->registers[from][i];
}
inline void copy_tile_to_dst_init_short(uint32_t) {}
inline void copy_tile(uint32_t number, uint32_t page, uint32_t to) {
  host::expect(host::alike(host::self->sourceA, number), "the unpacker has another format");
  const uint8_t *from = host::tile(number, page, false);
  for (uint32_t i = 0; i < 1024; ++i)
    host::self->registers[to][i] = host::element(number, from, i);
}
inline void fill_tile_init() {}
inline void fill_tile(uint32_t to, float value) {
  for (float &one : host::self->registers[to])
    one = value;
}
inline void add_tiles_init(uint32_t, uint32_t) {}
inline void mul_tiles_init(uint32_t, uint32_t) {}
template <typename Function> void stub_binary(uint32_t a, uint32_t b, uint32_t i, uint32_t j, uint32_t to, Function f) {
  host::expect(host::alike(host::self->sourceA, a) && host::alike(host::self->sourceB, b),
               "the unpackers have other formats");
  const uint8_t *left = host::tile(a, i, false), *right = host::tile(b, j, false);
  for (uint32_t k = 0; k < 1024; ++k)
    host::self->registers[to][k] = f(host::element(a, left, k), host::element(b, right, k));
}
inline void add_tiles(uint32_t a, uint32_t b, uint32_t i, uint32_t j, uint32_t to) {
  stub_binary(a, b, i, j, to, [](float x, float y) { return x + y; });
}
inline void mul_tiles(uint32_t a, uint32_t b, uint32_t i, uint32_t j, uint32_t to) {
  stub_binary(a, b, i, j, to, [](float x, float y) { return x * y; });
}
inline void mm_init_short(uint32_t, uint32_t, uint32_t transposed) { host::self->transposed = transposed; }
inline void matmul_tiles(uint32_t a, uint32_t b, uint32_t i, uint32_t j,
                         uint32_t to) { // its second operand is source A
  host::expect(host::alike(host::self->sourceA, b) && host::alike(host::self->sourceB, a),
               "the unpackers have other formats");
  const uint8_t *left = host::tile(a, i, false), *right = host::tile(b, j, false);
  bool transposed = host::self->transposed;
  for (uint32_t m = 0; m < 32; ++m)
    for (uint32_t k = 0; k < 32; ++k)
      for (uint32_t n = 0; n < 32; ++n)
        host::self->registers[to][m * 32 + n] +=
            host::element(a, left, m * 32 + k) * host::element(b, right, transposed ? n * 32 + k : k * 32 + n);
}
template <typename Function> void stub_unary(uint32_t at, Function f) {
  for (float &one : host::self->registers[at])
    one = f(one);
}
inline void silu_tile_init() {}
inline void silu_tile(uint32_t at) {
  stub_unary(at, [](float x) { return x / (1 + std::exp(-x)); });
}
template <bool fast> void gelu_tile_init() {}
template <bool fast> void gelu_tile(uint32_t at) {
  stub_unary(at, [](float x) { return x / 2 * (1 + std::erf(x * 0.70710678f)); });
}
inline void relu_tile_init() {}
inline void relu_tile(uint32_t at) {
  stub_unary(at, [](float x) { return x > 0 ? x : 0; });
}
inline void tanh_tile_init() {}
inline void tanh_tile(uint32_t at) {
  stub_unary(at, [](float x) { return std::tanh(x); });
}

//===-- The host ---------------------------------------------------------------------------------------------===//

struct StubCore {
  uint32_t column, row;
  std::function<void()> kernels[3];
};
struct StubBuffer {
  uint32_t pages, pageBytes;
  bool isHalf;
};

/// Runs all kernels of a program; operands are files, and are written back.
inline int host_run(uint32_t columns, uint32_t rows, uint32_t semaphores, const std::vector<StubBuffer> &buffers,
                    const std::vector<StubCore> &cores, const std::vector<std::string> &files) {
  host::columns = columns, host::rows = rows;
  for (const std::string &file : files) {
    std::ifstream in(file, std::ios::binary);
    host::operands.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  for (const StubCore &of : cores) {
    host::Core &core = host::cores.emplace_back();
    core.column = of.column, core.row = of.row, core.semaphores = semaphores;
    uint32_t address = 16 * host::semaphoreBytes;
    for (const StubBuffer &one : buffers) {
      host::CircularBuffer &buffer = core.buffers.emplace_back();
      buffer.address = address, buffer.pages = one.pages, buffer.pageBytes = one.pageBytes, buffer.isHalf = one.isHalf;
      address += one.pages * one.pageBytes;
    }
    core.memory.assign(address, 0xff); // what is not set is not a number
    std::memset(core.memory.data(), 0, 16 * host::semaphoreBytes);
  }
  std::vector<std::thread> threads;
  for (size_t i = 0; i < cores.size(); ++i)
    for (const std::function<void()> &kernel : cores[i].kernels)
      threads.emplace_back([&, i] {
        host::Thread thread;
        thread.core = &host::cores[i];
        host::self = &thread;
        kernel();
      });
  for (std::thread &thread : threads)
    thread.join();
  for (size_t i = 0; i < files.size(); ++i)
    std::ofstream(files[i], std::ios::binary)
        .write(reinterpret_cast<const char *>(host::operands[i].data()), std::streamsize(host::operands[i].size()));
  return 0;
}
