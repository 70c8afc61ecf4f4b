// RUN: rm -rf %t && intarsia-wafer %s --target=tensix --metalium=%t
// RUN: FileCheck %s --check-prefix=READER < %t/main/reader_0.cpp
// RUN: FileCheck %s --check-prefix=WRITER < %t/main/writer_1.cpp
// RUN: FileCheck %s --check-prefix=COMPUTE < %t/main/compute_2.cpp
// RUN: FileCheck %s --check-prefix=PLAN < %t/main/plan.json

// The reader brings the tiles of inputs from DRAM, and says when the memory for the next tile is free.
// READER: #include "dataflow_api.h"
// READER: const InterleavedAddrGen<true> input_0 = {.bank_base_address = get_common_arg_val<uint32_t>(COLUMNS + ROWS + 1), .page_size = 2048};
// READER: noc_async_read(get_noc_addr(first_core * 1 + tile, input_0), get_write_ptr(slot_{{.*}}) + tile * 2048, 2048);
// READER: noc_async_read_barrier();
// READER: for (uint32_t iteration = 0; iteration < 1; ++iteration) {
// READER-NEXT: noc_semaphore_inc(at(1, 0, get_semaphore(2)), 1); // free for @interleaved_x
// READER-NEXT: noc_semaphore_wait(semaphore(3), 1);
// READER-NEXT: noc_semaphore_set(semaphore(3), 0);
// READER: noc_semaphore_set(semaphore(0), ++met);

// The writer waits for that, writes the tile and says so.
// WRITER: noc_semaphore_wait(semaphore(2), 1); // all that receive on @interleaved_x
// WRITER: noc_async_write(get_read_ptr(slot_[[FROM:.*]]), at(to, 0, get_read_ptr(slot_{{.*}})), 2048);
// WRITER-NEXT: noc_async_write_barrier();
// WRITER-NEXT: for (uint32_t to = 1; to <= 1; ++to)
// WRITER-NEXT: noc_semaphore_inc(at(to, 0, get_semaphore(3)), 1);
// WRITER: noc_async_write(get_read_ptr({{.*}}) + tile * 4096, get_noc_addr(first_core * 1 + tile, output_0), 4096);

// COMPUTE: void MAIN {
// COMPUTE: cb_wait_front(GO, 1);
// COMPUTE: zero(slot_[[C:[0-9]+]], 1);
// COMPUTE: multiply_tiles<false>(slot_[[C]], slot_{{[0-9]+}}, slot_{{[0-9]+}}, 1, 1, 1);
// COMPUTE: cb_push_back(DONE_FOR_WRITER, 1);

// PLAN: "format": "Float16"
// PLAN: "semaphores": 6
func.func @main(%a: tensor<64x64xf16>, %b: tensor<64x64xf16>) -> tensor<64x64xf32> {
  %c = wafer.dist_gemm mesh %a, %b on 2 : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
  return %c : tensor<64x64xf32>
}
