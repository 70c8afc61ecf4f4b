//===- Fiber.h - Contexts that take turns on one thread of the host ---------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ucontext's swapcontext makes a system call to keep signal masks, which costs 40 times as much as the switch itself.
//===------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_RUNTIME_EMULATED_FIBER_H
#define INTARSIA_RUNTIME_EMULATED_FIBER_H

#include <cstddef>
#include <cstdint>

#if !defined(ITX_UCONTEXT_FIBERS) && (defined(__x86_64__) || defined(__aarch64__))
#define ITX_ASSEMBLY_FIBERS 1
#else
#define ITX_ASSEMBLY_FIBERS 0
#include <ucontext.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#define ITX_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ITX_ADDRESS_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define ITX_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ITX_THREAD_SANITIZER 1
#endif
#endif
#ifndef ITX_ADDRESS_SANITIZER
#define ITX_ADDRESS_SANITIZER 0
#endif
#ifndef ITX_THREAD_SANITIZER
#define ITX_THREAD_SANITIZER 0
#endif

#if ITX_ADDRESS_SANITIZER
#include <sanitizer/common_interface_defs.h>
#endif
#if ITX_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

namespace intarsia::runtime {

/// A context that can be left and continued: either one with a stack of its own, or that of a thread of the host. A
/// fiber must be continued by the thread of the host that prepared it. No exception may leave its entry function.
class Fiber {
public:
  using Entry = void (*)();

  Fiber() = default;
  ~Fiber();
  Fiber(const Fiber &) = delete;
  Fiber &operator=(const Fiber &) = delete;

  /// Lets the fiber begin with `entry`, which must not return, on the stack from `bottom` on. What ran on the stack
  /// before is dropped, without its destructors. The first `unused` bytes from the stack's top stay free.
  void prepare(uint8_t *bottom, size_t bytes, size_t unused, Entry entry);

  /// Leaves `from`, which is running, and continues `to`. Returns when `from` is continued.
  static void switchTo(Fiber &from, Fiber &to);
  /// Continues `to` from a fiber that is never continued again.
  [[noreturn]] static void finish(Fiber &from, Fiber &to);
  /// Must be called first in each entry function.
  static void enter();

private:
  static void swap(Fiber &from, Fiber &to);

#if ITX_ASSEMBLY_FIBERS
  void *stackPointer_ = nullptr; ///< of a context that was left: its registers lie there
#else
  ucontext_t registers_;
#endif
#if ITX_ADDRESS_SANITIZER
  const void *stackBottom_ = nullptr;
  size_t stackBytes_ = 0;
  void *fakeStack_ = nullptr;
  static inline thread_local Fiber *leaving = nullptr; ///< whose stack bounds the next context is told
#endif
#if ITX_THREAD_SANITIZER
  void *state_ = nullptr; ///< what the sanitizer knows of this context
  bool ownsState_ = false;
#endif
};

#if ITX_ASSEMBLY_FIBERS && defined(__AVX512F__)
#define ITX_WIDE_REGISTERS                                                                                             \
  , "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26", "xmm27",        \
      "xmm28", "xmm29", "xmm30", "xmm31", "k1", "k2", "k3", "k4", "k5", "k6", "k7"
#else
#define ITX_WIDE_REGISTERS
#endif

/// The compiler saves the registers that the assembly names as overwritten, so that only those in use are saved. The
/// frame pointer and the base pointer of a frame cannot be named. Contexts continue with a jump, which leaves the
/// processor's stack of return addresses as it is: the fibers of a warp return to the same addresses.
inline void Fiber::swap(Fiber &from, Fiber &to) {
#if !ITX_ASSEMBLY_FIBERS
  swapcontext(&from.registers_, &to.registers_);
#elif defined(__x86_64__)
  void **saved = &from.stackPointer_, **continued = &to.stackPointer_;
  asm volatile("leaq -128(%%rsp), %%rsp\n\t" // below the red zone
               "pushq %%rbp\n\t"
               "pushq %%rbx\n\t"
               "leaq 1f(%%rip), %%rax\n\t"
               "pushq %%rax\n\t"
               "movq %%rsp, (%[saved])\n\t"
               "movq (%[continued]), %%rsp\n\t"
               "popq %%rax\n\t"
               "jmpq *%%rax\n"
               "1:\n\t"
               "popq %%rbx\n\t"
               "popq %%rbp\n\t"
               "leaq 128(%%rsp), %%rsp\n\t"
               : [saved] "+D"(saved), [continued] "+S"(continued)
               :
               : "rax", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory", "cc", "xmm0",
                 "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",
                 "xmm13", "xmm14", "xmm15" ITX_WIDE_REGISTERS);
#else
  register void **saved asm("x0") = &from.stackPointer_;
  register void **continued asm("x1") = &to.stackPointer_;
  asm volatile("stp x29, x19, [sp, #-32]!\n\t"
               "adr x9, 1f\n\t"
               "str x9, [sp, #16]\n\t"
               "mov x10, sp\n\t"
               "str x10, [%[saved]]\n\t"
               "ldr x10, [%[continued]]\n\t"
               "mov sp, x10\n\t"
               "ldr x9, [sp, #16]\n\t"
               "br x9\n"
               "1:\n\t"
               "ldp x29, x19, [sp], #32\n\t"
               : [saved] "+r"(saved), [continued] "+r"(continued)
               :
               : "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17",
                 "x18", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x30", "memory", "cc", "v0",
                 "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16",
                 "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30",
                 "v31");
#endif
}

inline void Fiber::switchTo(Fiber &from, Fiber &to) {
#if ITX_ADDRESS_SANITIZER
  leaving = &from;
  __sanitizer_start_switch_fiber(&from.fakeStack_, to.stackBottom_, to.stackBytes_);
#endif
#if ITX_THREAD_SANITIZER
  if (!from.ownsState_) // a thread of the host, and not always the same
    from.state_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(to.state_, 0);
#endif
  swap(from, to);
#if ITX_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(from.fakeStack_, &leaving->stackBottom_, &leaving->stackBytes_);
#endif
}

inline void Fiber::enter() {
#if ITX_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(nullptr, &leaving->stackBottom_, &leaving->stackBytes_);
#endif
}

} // namespace intarsia::runtime

#endif
