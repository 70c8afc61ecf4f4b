/*===- all_reduce.c - Times an all-reduce of f32 by this runtime, or with -DUSE_MPI by MPI ----------------------===//
 *
 * Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * Rank 0 reads lines "BYTES CALLS" from its input and answers each with the microseconds of a call, median and
 * fastest. "0 0" ends. With ITX_BENCH_INT8 in the environment messages between hosts are rounded to 8 bits.
 *===------------------------------------------------------------------------------------------------------===*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef USE_MPI
#include <mpi.h>
static int start(void) {
  int rank;
  MPI_Init(0, 0);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}
static void tell(long *words) { MPI_Bcast(words, 2, MPI_LONG, 0, MPI_COMM_WORLD); }
static void meet(void) { MPI_Barrier(MPI_COMM_WORLD); }
static void reduce(float *to, const float *from, long n) {
  MPI_Allreduce(from, to, (int)n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}
static void end(void) { MPI_Finalize(); }
#else
#include "intarsia/runtime.h"
static itx_world *world;
static void check(itx_status status) {
  if (status == ITX_OK)
    return;
  fprintf(stderr, "error: %s\n", itx_last_error());
  exit(1);
}
static int start(void) {
  check(itx_world_join(NULL, &world));
  return itx_world_rank(world);
}
static void tell(long *words) { check(itx_world_broadcast(world, 0, ITX_I64, words, 2)); }
static void meet(void) { check(itx_world_barrier(world)); }
static void reduce(float *to, const float *from, long n) {
  itx_reduction reduction = getenv("ITX_BENCH_INT8") ? ITX_SUM_INT8 : ITX_SUM;
  check(itx_world_all_reduce(world, reduction, ITX_F32, to, from, (size_t)n));
}
static void end(void) { itx_world_free(world); }
#endif

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e6 + (double)time.tv_nsec * 1e-3;
}

static int ascending(const void *left, const void *right) {
  double a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

int main(void) {
  int rank = start();
  for (;;) {
    long words[2] = {0, 0};
    if (rank == 0 && scanf("%ld %ld", &words[0], &words[1]) != 2)
      words[1] = 0;
    tell(words);
    long n = words[0] / 4, calls = words[1];
    if (calls == 0)
      break;
    float *from = aligned_alloc(64, (size_t)words[0] + 64), *to = aligned_alloc(64, (size_t)words[0] + 64);
    double *times = malloc((size_t)calls * sizeof(double));
    for (long i = 0; i < n; ++i)
      from[i] = (float)(rank + i % 7);
    memset(to, 0, (size_t)words[0]);
    for (long call = -calls / 4 - 1; call < calls; ++call) {
      meet();
      double begin = now();
      reduce(to, from, n);
      if (call >= 0)
        times[call] = now() - begin;
    }
    qsort(times, (size_t)calls, sizeof(double), ascending);
    if (rank == 0) {
      printf("%.4f %.4f\n", times[calls / 2], times[0]);
      fflush(stdout);
    }
    free(from);
    free(to);
    free(times);
  }
  end();
  return 0;
}
