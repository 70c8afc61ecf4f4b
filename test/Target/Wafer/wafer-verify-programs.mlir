// RUN: intarsia-opt %s --split-input-file --wafer-verify-programs --verify-diagnostics

#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>
wafer.program @accepted on #wafer grid 4 by 2 {
  %a = wafer.buffer "a" : memref<1x8xf16>
  %b = wafer.buffer "b" : memref<1x8xf16>
  wafer.route @east along x [#wafer.path<start = <start = 0, end = 3>, by = 1, color = 0, alternate = true>]
  wafer.load %a from 0 as <rows = none, columns = x> : memref<1x8xf16>, tensor<1x32xf16>
  wafer.send %a on @east at <x = <start = 0, end = 3>> : memref<1x8xf16>
  wafer.receive %b on @east at <x = <start = 1, end = 4>> : memref<1x8xf16>
  wafer.await
  wafer.compute copy %a, %b at <x = <start = 1, end = 4>> : memref<1x8xf16>, memref<1x8xf16>
}

// -----

// Two cores that wait for each other: in this order no core can begin.
#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>
// expected-error@+1 {{receive at core (1, 0), iteration 0: deadlock: no earlier op sends it a message on @east}}
wafer.program @receive_first on #wafer grid 4 by 2 {
  %a = wafer.buffer "a" : memref<1x8xf16>
  %b = wafer.buffer "b" : memref<1x8xf16>
  wafer.route @east along x [#wafer.path<start = <start = 0, end = 3>, by = 1, color = 0, alternate = true>]
  wafer.load %a from 0 as <rows = none, columns = x> : memref<1x8xf16>, tensor<1x32xf16>
  wafer.receive %b on @east at <x = <start = 1, end = 4>> : memref<1x8xf16>
  wafer.send %a on @east at <x = <start = 0, end = 3>> : memref<1x8xf16>
  wafer.await
}

// -----

#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>
// expected-error@+1 {{await at core (0, 0), iteration 0: deadlock: it waits for a message that it has sent, which no earlier op receives}}
wafer.program @await_too_early on #wafer grid 4 by 2 {
  %a = wafer.buffer "a" : memref<1x8xf16>
  %b = wafer.buffer "b" : memref<1x8xf16>
  wafer.route @east along x [#wafer.path<start = <start = 0, end = 3>, by = 1, color = 0, alternate = true>]
  wafer.load %a from 0 as <rows = none, columns = x> : memref<1x8xf16>, tensor<1x32xf16>
  wafer.send %a on @east at <x = <start = 0, end = 3>> : memref<1x8xf16>
  wafer.await
  wafer.receive %b on @east at <x = <start = 1, end = 4>> : memref<1x8xf16>
  wafer.await
}

// -----

#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>
// expected-error@+1 {{await at core (2, 0), iteration 0: deadlock: it waits for a message}}
wafer.program @no_receive on #wafer grid 4 by 2 {
  %a = wafer.buffer "a" : memref<1x8xf16>
  %b = wafer.buffer "b" : memref<1x8xf16>
  wafer.route @east along x [#wafer.path<start = <start = 0, end = 3>, by = 1, color = 0, alternate = true>]
  wafer.load %a from 0 as <rows = none, columns = x> : memref<1x8xf16>, tensor<1x32xf16>
  wafer.send %a on @east at <x = <start = 0, end = 3>> : memref<1x8xf16>
  wafer.receive %b on @east at <x = <start = 1, end = 3>> : memref<1x8xf16>
  wafer.await
}

// -----

#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>
// expected-error@+1 {{a second message on @east is sent before the first is received}}
wafer.program @second_message on #wafer grid 4 by 2 {
  %a = wafer.buffer "a" : memref<1x8xf16>
  %b = wafer.buffer "b" : memref<1x8xf16>
  wafer.route @east along x [#wafer.path<start = <start = 0, end = 3>, by = 1, color = 0, alternate = true>]
  wafer.load %a from 0 as <rows = none, columns = x> : memref<1x8xf16>, tensor<1x32xf16>
  wafer.send %a on @east at <x = <start = 0, end = 3>> : memref<1x8xf16>
  wafer.send %a on @east at <x = <start = 0, end = 3>> : memref<1x8xf16>
  wafer.receive %b on @east at <x = <start = 1, end = 4>> : memref<1x8xf16>
  wafer.receive %b on @east at <x = <start = 1, end = 4>> : memref<1x8xf16>
  wafer.await
}

// -----

#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>
// expected-error@+1 {{send at core (3, 0), iteration 0: route @east has no path that starts here}}
wafer.program @no_path on #wafer grid 4 by 2 {
  %a = wafer.buffer "a" : memref<1x8xf16>
  %b = wafer.buffer "b" : memref<1x8xf16>
  wafer.route @east along x [#wafer.path<start = <start = 0, end = 3>, by = 1, color = 0, alternate = true>]
  wafer.load %a from 0 as <rows = none, columns = x> : memref<1x8xf16>, tensor<1x32xf16>
  wafer.send %a on @east : memref<1x8xf16>
  wafer.receive %b on @east at <x = <start = 1, end = 4>> : memref<1x8xf16>
  wafer.await
}

// -----

#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>
// expected-error@+1 {{race: buffer "a" is written while it is sent; await the transfer before}}
wafer.program @written_while_sent on #wafer grid 4 by 2 {
  %a = wafer.buffer "a" : memref<1x8xf16>
  %b = wafer.buffer "b" : memref<1x8xf16>
  wafer.route @east along x [#wafer.path<start = <start = 0, end = 3>, by = 1, color = 0, alternate = true>]
  wafer.load %a from 0 as <rows = none, columns = x> : memref<1x8xf16>, tensor<1x32xf16>
  wafer.send %a on @east at <x = <start = 0, end = 3>> : memref<1x8xf16>
  wafer.receive %b on @east at <x = <start = 1, end = 4>> : memref<1x8xf16>
  wafer.compute zero %a : memref<1x8xf16>
  wafer.await
}

// -----

#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>
// expected-error@+1 {{race: buffer "b" is read while a message arrives in it; await it before}}
wafer.program @read_while_received on #wafer grid 4 by 2 {
  %a = wafer.buffer "a" : memref<1x8xf16>
  %b = wafer.buffer "b" : memref<1x8xf16>
  wafer.route @east along x [#wafer.path<start = <start = 0, end = 3>, by = 1, color = 0, alternate = true>]
  wafer.load %a from 0 as <rows = none, columns = x> : memref<1x8xf16>, tensor<1x32xf16>
  wafer.send %a on @east at <x = <start = 0, end = 3>> : memref<1x8xf16>
  wafer.receive %b on @east at <x = <start = 1, end = 4>> : memref<1x8xf16>
  wafer.compute copy %a, %b at <x = <start = 3, end = 4>> : memref<1x8xf16>, memref<1x8xf16>
  wafer.await
}

// -----

#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>
// expected-error@+1 {{compute at core (0, 0), iteration 0: buffer "b" is read before anything was written to it}}
wafer.program @unset on #wafer grid 4 by 2 {
  %a = wafer.buffer "a" : memref<1x8xf16>
  %b = wafer.buffer "b" : memref<1x8xf16>
  wafer.route @east along x [#wafer.path<start = <start = 0, end = 3>, by = 1, color = 0, alternate = true>]
  wafer.load %a from 0 as <rows = none, columns = x> : memref<1x8xf16>, tensor<1x32xf16>
  wafer.send %a on @east at <x = <start = 0, end = 3>> : memref<1x8xf16>
  wafer.receive %b on @east at <x = <start = 1, end = 4>> : memref<1x8xf16>
  wafer.await
  wafer.compute copy %a, %b at <x = <start = 0, end = 4>> : memref<1x8xf16>, memref<1x8xf16>
}

// -----

#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>
// expected-error@+1 {{core (1, 0) ends while buffer "a" is sent; add an await}}
wafer.program @no_await on #wafer grid 4 by 2 {
  %a = wafer.buffer "a" : memref<1x8xf16>
  %b = wafer.buffer "b" : memref<1x8xf16>
  wafer.route @east along x [#wafer.path<start = <start = 0, end = 3>, by = 1, color = 0, alternate = true>]
  wafer.load %a from 0 as <rows = none, columns = x> : memref<1x8xf16>, tensor<1x32xf16>
  wafer.send %a on @east at <x = <start = 0, end = 3>> : memref<1x8xf16>
  wafer.receive %b on @east at <x = <start = 1, end = 4>> : memref<1x8xf16>
  wafer.await at <x = <start = 0, end = 1>>
}

// -----

// On one color the router at position 1 would have messages from its core and from position 0.
#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>
// expected-error@+1 {{routes @east and @east meet with color 0 at the router at position 1}}
wafer.program @colors on #wafer grid 4 by 2 {
  %a = wafer.buffer "a" : memref<1x8xf16>
  %b = wafer.buffer "b" : memref<1x8xf16>
  wafer.route @east along x [#wafer.path<start = <start = 0, end = 3>, by = 1, color = 0>]
  wafer.load %a from 0 as <rows = none, columns = x> : memref<1x8xf16>, tensor<1x32xf16>
  wafer.send %a on @east at <x = <start = 0, end = 3>> : memref<1x8xf16>
  wafer.receive %b on @east at <x = <start = 1, end = 4>> : memref<1x8xf16>
  wafer.await
}

// -----

#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>
// expected-error@+1 {{routes @east and @south cross with color 1}}
wafer.program @crossing on #wafer grid 4 by 2 {
  %a = wafer.buffer "a" : memref<1x8xf16>
  %b = wafer.buffer "b" : memref<1x8xf16>
  wafer.route @east along x [#wafer.path<start = <start = 0, end = 3>, by = 1, color = 0, alternate = true>]
  wafer.route @south along y [#wafer.path<start = <start = 0, end = 1>, by = 1, color = 1>]
  wafer.load %a from 0 as <rows = none, columns = x> : memref<1x8xf16>, tensor<1x32xf16>
}

// -----

#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>
// expected-error@+1 {{route @east leads from position 3 to 4, outside of the grid}}
wafer.program @outside on #wafer grid 4 by 2 {
  %a = wafer.buffer "a" : memref<1x8xf16>
  %b = wafer.buffer "b" : memref<1x8xf16>
  wafer.route @east along x [#wafer.path<start = <start = 0, end = 4>, by = 1, color = 0, alternate = true>]
  wafer.load %a from 0 as <rows = none, columns = x> : memref<1x8xf16>, tensor<1x32xf16>
}

// -----

#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>
// expected-error@+1 {{receive at core (1, 0), iteration 1: deadlock: no earlier op sends it a message on @east}}
wafer.program @later_iteration on #wafer grid 4 by 2 {
  %a = wafer.buffer "a" : memref<1x8xf16>
  %b = wafer.buffer "b" : memref<1x8xf16>
  wafer.route @east along x [#wafer.path<start = <start = 0, end = 3>, by = 1, color = 0, alternate = true>]
  wafer.load %a from 0 as <rows = none, columns = x> : memref<1x8xf16>, tensor<1x32xf16>
  wafer.repeat 4 {
    wafer.send %a on @east at <x = <start = 0, end = 3, start_moves = 1>> : memref<1x8xf16>
    wafer.receive %b on @east at <x = <start = 1, end = 4, start_moves = 0>> : memref<1x8xf16>
    wafer.await
    wafer.yield
  }
}

// -----

#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>
// expected-error@+1 {{receive at core (1, 0), iteration 0: buffer "b" has 4 elements, the message on @east has 8}}
wafer.program @too_long on #wafer grid 4 by 2 {
  %a = wafer.buffer "a" : memref<1x8xf16>
  %b = wafer.buffer "b" : memref<1x4xf16>
  wafer.route @east along x [#wafer.path<start = <start = 0, end = 3>, by = 1, color = 0, alternate = true>]
  wafer.load %a from 0 as <rows = none, columns = x> : memref<1x8xf16>, tensor<1x32xf16>
  wafer.send %a on @east at <x = <start = 0, end = 3>> : memref<1x8xf16>
  wafer.receive %b on @east at <x = <start = 1, end = 4>> : memref<1x4xf16>
  wafer.await
}

// -----

#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>
// expected-error@+1 {{forward at core (1, 0), iteration 0: buffer "b" has 8 elements, the message on @east has 4}}
wafer.program @too_short_to_add on #wafer grid 4 by 2 {
  %a = wafer.buffer "a" : memref<1x4xf16>
  %b = wafer.buffer "b" : memref<1x8xf16>
  wafer.route @east along x [#wafer.path<start = <start = 0, end = 3>, by = 1, color = 0, alternate = true>]
  wafer.load %a from 0 as <rows = none, columns = x> : memref<1x4xf16>, tensor<1x16xf16>
  wafer.load %b from 1 as <rows = none, columns = x> : memref<1x8xf16>, tensor<1x32xf16>
  wafer.send %a on @east at <x = <start = 0, end = 1>> : memref<1x4xf16>
  wafer.forward add %b from @east on @east at <x = <start = 1, end = 2>> : memref<1x8xf16>
  wafer.await
}

// -----

#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>
// Buffers that are not in use together share bytes.
wafer.program @shared on #wafer grid 4 by 2 {
  %a = wafer.buffer "a" at 0 : memref<1x8xf16>
  %b = wafer.buffer "b" at 16 : memref<1x8xf16>
  %c = wafer.buffer "c" at 16 : memref<1x8xf16>
  wafer.load %a from 0 as <rows = none, columns = x> : memref<1x8xf16>, tensor<1x32xf16>
  wafer.compute copy %b, %a : memref<1x8xf16>, memref<1x8xf16>
  wafer.compute copy %a, %b : memref<1x8xf16>, memref<1x8xf16>
  wafer.compute copy %c, %a : memref<1x8xf16>, memref<1x8xf16>
  wafer.store %c to 0 as <rows = none, columns = x> : memref<1x8xf16>, tensor<1x32xf16>
}

// -----

#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>
// expected-error@+1 {{compute at core (0, 0), iteration 0: buffer "b" is read after buffer "c" was written to its bytes}}
wafer.program @reused on #wafer grid 4 by 2 {
  %a = wafer.buffer "a" at 0 : memref<1x8xf16>
  %b = wafer.buffer "b" at 16 : memref<1x8xf16>
  %c = wafer.buffer "c" at 28 : memref<1x8xf16>
  wafer.load %a from 0 as <rows = none, columns = x> : memref<1x8xf16>, tensor<1x32xf16>
  wafer.compute copy %b, %a : memref<1x8xf16>, memref<1x8xf16>
  wafer.compute copy %c, %a : memref<1x8xf16>, memref<1x8xf16>
  wafer.compute copy %a, %b : memref<1x8xf16>, memref<1x8xf16>
}

// -----

#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>
// expected-error@+1 {{race: buffer "c" is written while buffer "a", which shares bytes with it, is sent; await the transfer before}}
wafer.program @reused_while_sent on #wafer grid 4 by 2 {
  %a = wafer.buffer "a" at 0 : memref<1x8xf16>
  %b = wafer.buffer "b" at 16 : memref<1x8xf16>
  %c = wafer.buffer "c" at 0 : memref<1x8xf16>
  wafer.route @east along x [#wafer.path<start = <start = 0, end = 3>, by = 1, color = 0, alternate = true>]
  wafer.load %a from 0 as <rows = none, columns = x> : memref<1x8xf16>, tensor<1x32xf16>
  wafer.send %a on @east at <x = <start = 0, end = 3>> : memref<1x8xf16>
  wafer.receive %b on @east at <x = <start = 1, end = 4>> : memref<1x8xf16>
  wafer.compute zero %c : memref<1x8xf16>
  wafer.await
}

// -----

#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>
// expected-error@+1 {{buffer "c" is computed from buffer "a", which shares bytes with it}}
wafer.program @in_place on #wafer grid 4 by 2 {
  %a = wafer.buffer "a" at 0 : memref<1x8xf16>
  %c = wafer.buffer "c" at 4 : memref<1x8xf16>
  wafer.load %a from 0 as <rows = none, columns = x> : memref<1x8xf16>, tensor<1x32xf16>
  wafer.compute copy %c, %a : memref<1x8xf16>, memref<1x8xf16>
}

// -----

#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>
// expected-error@+1 {{buffers "a" and "b" are both loaded, and share bytes}}
wafer.program @two_inputs on #wafer grid 4 by 2 {
  %a = wafer.buffer "a" at 0 : memref<1x8xf16>
  %b = wafer.buffer "b" at 8 : memref<1x8xf16>
  wafer.load %a from 0 as <rows = none, columns = x> : memref<1x8xf16>, tensor<1x32xf16>
  wafer.load %b from 1 as <rows = none, columns = x> : memref<1x8xf16>, tensor<1x32xf16>
}

// -----

#wafer = #wafer.target<name = "tiny", columns = 8, rows = 8, sram_bytes = 4096, reserved_bytes = 1024, colors = 8, clock_ghz = 1.0, hop_cycles = 1.0, ramp_cycles = 2.0, link_bytes = 4.0, macs = 2.0, loop_cycles = 3.0, product_cycles = 300.0, stage_cycles = 20.0, add_cycles = 1.0, element_cycles = 60.0>
// expected-error@+1 {{output 0: buffer "b" of core (0, 0) has bytes to which buffer "c" was written}}
wafer.program @lost on #wafer grid 4 by 2 {
  %a = wafer.buffer "a" at 0 : memref<1x8xf16>
  %b = wafer.buffer "b" at 16 : memref<1x8xf16>
  %c = wafer.buffer "c" at 16 : memref<1x8xf16>
  wafer.load %a from 0 as <rows = none, columns = x> : memref<1x8xf16>, tensor<1x32xf16>
  wafer.compute copy %b, %a : memref<1x8xf16>, memref<1x8xf16>
  wafer.compute copy %c, %a : memref<1x8xf16>, memref<1x8xf16>
  wafer.store %b to 0 as <rows = none, columns = x> : memref<1x8xf16>, tensor<1x32xf16>
}
