// RUN: rm -rf %t && intarsia-wafer %s --csl=%t
// RUN: FileCheck %s --check-prefix=LAYOUT < %t/sum/layout.csl
// RUN: FileCheck %s --check-prefix=FIRST < %t/sum/role_0.csl
// RUN: FileCheck %s --check-prefix=MIDDLE < %t/sum/role_2.csl
// RUN: FileCheck %s --check-prefix=PLACE < %t/sum/placement.json

// Partial sums go up and down to the middle core of each column, and from there to all. Two messages in a chain have two
// colors, the last one reaches all others.
// LAYOUT: const memcpy = @import_module("<memcpy/get_params>", .{ .width = 4, .height = 4 });
// LAYOUT: const class_of_column = [4]i16 { 0, 0, 0, 0 };
// LAYOUT: const class_of_row = [4]i16 { 0, 1, 2, 3 };
// LAYOUT: @set_rectangle(4, 4);
// LAYOUT: if (class_of_column[x] == 0 and class_of_row[y] == 0) { @set_tile_code(x, y, "role_0.csl", .{ .memcpy_params = memcpy.get_params(x) }); }
// LAYOUT: @get_color(0), .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ SOUTH } } }
// LAYOUT: @get_color(0), .{ .routes = .{ .rx = .{ NORTH }, .tx = .{ RAMP } } }
// LAYOUT: .{ .routes = .{ .rx = .{ SOUTH }, .tx = .{ NORTH, RAMP } } }
// LAYOUT: .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ NORTH, SOUTH } } }
// LAYOUT: @export_name("main", fn()void);

// The first core of a column sends what it has and receives the result.
// FIRST: const out_0: output_queue = @get_output_queue(2);
// FIRST: const advance_id: local_task_id = @get_local_task_id(8);
// FIRST: var buffer_w = @zeros([2]f32);
// FIRST: const buffer_y_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{1} -> buffer_y[i] });
// FIRST: const out_0_1 = @get_dsd(fabout_dsd, .{ .extent = 1, .fabric_color = color_0, .output_queue = out_0 });
// FIRST-LABEL: fn step_0() void {
// FIRST: @fmacs(buffer_y_dsd, buffer_y_dsd, @increment_dsd_offset(buffer_w_dsd_1_by_1, k * 1, f32), buffer_x[k]);
// FIRST: pending += 1;
// FIRST-NEXT: @fmovs(out_0_1, buffer_y_dsd, .{ .async = true, .activate = done_0_id });
// FIRST-NEXT: wait(1);
// FIRST: @fmovs(buffer_y_dsd, in_4_1, .{ .async = true, .activate = done_0_id });
// FIRST: sys_mod.unblock_cmd_stream();
// FIRST: @bind_local_task(advance, advance_id);
// FIRST: @initialize_queue(out_0, .{ .color = color_0 });

// The middle one adds what arrives from both sides, one after the other, and sends the sum.
// MIDDLE-LABEL: fn step_0() void {
// MIDDLE: @fadds(buffer_y_dsd, buffer_y_dsd, in_1_1, .{ .async = true, .activate = done_0_id });
// MIDDLE-NEXT: wait(1);
// MIDDLE: @fadds(buffer_y_dsd, buffer_y_dsd, in_2_1, .{ .async = true, .activate = done_0_id });
// MIDDLE-NEXT: wait(2);
// MIDDLE: @fmovs(out_4_1, buffer_y_dsd,

// PLACE: "argument": 1
// PLACE: "rows_along": "y"
// PLACE: "symbol": "buffer_w"
func.func @sum(%x: tensor<1x8xf32>, %w: tensor<8x4xf32>) -> tensor<1x4xf32> {
  %y = wafer.dist_gemv tree %x, %w on 4 groups 1 : tensor<1x8xf32>, tensor<8x4xf32> -> tensor<1x4xf32>
  return %y : tensor<1x4xf32>
}
