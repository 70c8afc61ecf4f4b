// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A driver that simulates one GPU: it has 8 GB, copies 64 MB in a millisecond and runs the kernel of multiply-adds in
// 2, for tests of the probe on machines without a driver. INTARSIA_DRIVER_FAILS names a function that fails.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double queued_ms;
static int fails(const char *name) {
  const char *which = getenv("INTARSIA_DRIVER_FAILS");
  return which && strcmp(which, name) == 0 ? 999 : 0;
}

int cuInit(unsigned flags) { return flags ? 1 : fails("cuInit"); }
int cuDeviceGetCount(int *count) { return *count = 1, 0; }
int cuDeviceGet(int *device, int ordinal) { return *device = 7, ordinal != 0; }
int cuDeviceGetName(char *name, int size, int device) {
  return strncpy(name, "Simulated X1 8GB", (size_t)size), device != 7;
}
int cuDeviceTotalMem_v2(size_t *bytes, int device) { return *bytes = 8000000000, device != 7; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  *value = attribute == 16 ? 10 : attribute == 75 ? 9 : attribute == 76 ? 0 : -1;
  return *value < 0 || device != 7;
}
int cuDevicePrimaryCtxRetain(void **context, int device) { return *context = &queued_ms, device != 7; }
int cuDevicePrimaryCtxRelease_v2(int device) { return device != 7; }
int cuCtxSetCurrent(void *context) { return context != &queued_ms; }
int cuCtxSynchronize(void) {
  struct timespec time = {(time_t)(queued_ms / 1000), (long)((queued_ms - (long)(queued_ms / 1000) * 1000) * 1e6)};
  queued_ms = 0;
  return nanosleep(&time, NULL);
}
static size_t allocated;
int cuMemAlloc_v2(uint64_t *pointer, size_t bytes) { return *pointer = 4096, allocated = bytes, fails("cuMemAlloc"); }
int cuMemFree_v2(uint64_t pointer) { return pointer != 4096; }
int cuMemsetD8_v2(uint64_t pointer, unsigned char value, size_t bytes) { return pointer != 4096 || !value || !bytes; }
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream) {
  queued_ms += (double)bytes / 64e6;
  return to != 4096 || from != 4096 || stream != NULL;
}
int cuModuleLoadData(void **module, const void *image) {
  *module = (void *)image;
  return strstr(image, ".visible .entry multiply_adds") == NULL ? 218 : fails("cuModuleLoadData");
}
int cuModuleGetFunction(void **function, void *module, const char *name) {
  return *function = module, strcmp(name, "multiply_adds") != 0;
}
int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **arguments, void **extra) {
  queued_ms += 2;
  return !function || x != 80 || y != 1 || z != 1 || bx != 256 || by != 1 || bz != 1 || shared || stream || extra ||
         *(unsigned *)arguments[1] != 2000;
}
