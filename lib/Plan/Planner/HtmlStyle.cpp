//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
// The report's style. Nothing is fetched: it uses the system's fonts, and colours for light, dark and paper.
//===----------------------------------------------------------------------------------------------------------===//
#include "Html.h"

namespace intarsia::plan::html {

// Hues of pools keep 3:1 against their background, and neighbours in this order remain distinguishable with the common
// kinds of colour blindness (Machado et al., 2009); names stand beside them, too.
llvm::StringRef style() {
  return R"css(
:root {
  color-scheme: light dark;
  --page: #f6f6f3; --surface: #ffffff; --ink: #0b0b0b; --muted: #52514e; --grid: #e4e3dc; --line: #8d8c86;
  --bar: #e9e8e2; --good: #00691c; --bad: #c32424; --part: #0000000a;
  --pool0: #2a78d6; --pool1: #1a9c6c; --pool2: #c98500; --pool3: #006300;
  --pool4: #4a3aa7; --pool5: #d9423f; --pool6: #d0588a; --pool7: #d95926; --outside: #85847e;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #0d0d0d; --surface: #1a1a19; --ink: #ffffff; --muted: #c3c2b7; --grid: #2f2f2d; --line: #8d8c86;
    --bar: #31312f; --good: #3fbf5a; --bad: #ff7b72; --part: #ffffff0b;
    --pool0: #4a93ec; --pool1: #1fb37d; --pool2: #d69213; --pool3: #35a335;
    --pool4: #9085e9; --pool5: #ea6f6f; --pool6: #dd6f9c; --pool7: #e26f40; --outside: #98978f;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 28px 20px 60px; max-width: 1120px; background: var(--page); color: var(--ink);
  font: 14px/1.5 system-ui, "Segoe UI", "Helvetica Neue", Arial, "DejaVu Sans", sans-serif;
}
h1 { margin: 0 0 2px; font-size: 26px; line-height: 1.25; overflow-wrap: anywhere; }
h2 { margin: 0 0 12px; font-size: 18px; }
h3 { margin: 18px 0 8px; font-size: 14px; }
p { margin: 0 0 10px; max-width: 78ch; }
.status { color: var(--muted); margin-bottom: 18px; }
.good { color: var(--good); font-weight: 600; }
.bad { color: var(--bad); font-weight: 600; }
nav { margin: 0 0 18px; display: flex; flex-wrap: wrap; gap: 4px 16px; }
nav a { color: var(--muted); }
section {
  background: var(--surface); border: 1px solid var(--grid); border-radius: 10px; padding: 18px 20px; margin: 0 0 16px;
  overflow-x: auto;
}
.tiles { display: flex; flex-wrap: wrap; gap: 10px; margin-bottom: 16px; }
.tile { flex: 1 1 140px; border: 1px solid var(--grid); border-radius: 8px; padding: 10px 14px; }
.tile b { display: block; font-size: 21px; line-height: 1.3; font-variant-numeric: tabular-nums; white-space: nowrap; }
.tile span { color: var(--muted); font-size: 12px; }
table { border-collapse: collapse; width: 100%; font-size: 13px; }
th { text-align: left; color: var(--muted); font-weight: 500; border-bottom: 1px solid var(--grid); }
th, td { padding: 5px 14px 5px 0; vertical-align: top; }
td { border-bottom: 1px solid var(--grid); overflow-wrap: anywhere; }
td:first-child:not(.n) { min-width: 125px; }
tr:last-child td { border-bottom: none; }
.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
th.n { text-align: right; }
.long { min-width: 260px; }
.nowrap { white-space: nowrap; }
.bars td:has(.bar) { width: 30%; min-width: 120px; }
.bar { position: relative; height: 12px; margin-top: 4px; border-radius: 4px; background: var(--bar); }
.bar span { display: block; height: 100%; min-width: 2px; border-radius: 4px; background: var(--pool, var(--line)); }
.bar i { position: absolute; top: -3px; width: 2px; height: 18px; background: var(--ink); }
.dot {
  display: inline-block; width: 10px; height: 10px; margin-right: 6px; border-radius: 3px; background: var(--pool);
}
.pool0 { --pool: var(--pool0); } .pool1 { --pool: var(--pool1); } .pool2 { --pool: var(--pool2); }
.pool3 { --pool: var(--pool3); } .pool4 { --pool: var(--pool4); } .pool5 { --pool: var(--pool5); }
.pool6 { --pool: var(--pool6); } .pool7 { --pool: var(--pool7); } .outside { --pool: var(--outside); }
.bound { --pool: var(--pool0); } .tight { --pool: var(--bad); }
svg { display: block; max-width: 100%; height: auto; margin: 0 auto; overflow: visible; }
svg text { fill: var(--ink); font-size: 12px; }
svg .small { font-size: 11px; fill: var(--muted); }
svg .name { font-size: 12.5px; font-weight: 600; }
svg .strong { font-weight: 600; fill: var(--ink); }
.card { fill: color-mix(in srgb, var(--pool) 9%, var(--surface)); stroke: var(--pool); }
.swatch, .serving { fill: var(--pool); }
.part { fill: var(--part); stroke: var(--line); stroke-dasharray: 4 3; }
.arrow { fill: none; stroke: var(--line); stroke-width: 1.4; }
.streams { stroke-dasharray: 2 3; }
.head { fill: var(--line); }
.grid { stroke: var(--grid); }
.end { stroke: var(--ink); stroke-dasharray: 3 3; }
.waiting { fill: var(--pool); opacity: 0.3; }
.transfer { stroke: var(--pool); stroke-width: 2; }
.first { stroke: var(--surface); stroke-width: 1.5; }
.critical { fill: var(--ink); }
.steps { fill: none; stroke: var(--line); stroke-dasharray: 3 3; }
.point { fill: var(--pool0); stroke: var(--surface); stroke-width: 2; }
.open { fill: var(--surface); stroke: var(--pool0); }
.chosen { fill: none; stroke: var(--ink); stroke-width: 2; }
.legend { margin: 10px 0 12px; color: var(--muted); font-size: 12px; max-width: none; }
.legend > span:not(:first-child), .legend > b { margin-left: 14px; }
.key { display: inline-block; width: 16px; height: 10px; margin-right: 5px; border-radius: 2px; background: var(--line); }
.key.transfer { height: 2px; vertical-align: middle; } .key.waiting { opacity: 0.3; }
.key.critical { height: 3px; vertical-align: middle; background: var(--ink); }
.key.point { width: 10px; border-radius: 5px; background: var(--pool0); }
.key.open { width: 10px; border-radius: 5px; background: none; border: 2px solid var(--pool0); }
.key.mark { width: 2px; height: 14px; background: var(--ink); vertical-align: middle; }
.note { color: var(--muted); font-size: 12.5px; }
ul { margin: 0; padding-left: 20px; } li { margin-bottom: 3px; overflow-wrap: anywhere; }
details { margin-top: 10px; } summary { cursor: pointer; color: var(--muted); margin-bottom: 8px; }
@media print {
  :root {
    color-scheme: light;
    --page: #fff; --surface: #fff; --ink: #000; --muted: #444; --grid: #ddd; --line: #777; --bar: #e5e5e5;
    --good: #00691c; --bad: #c32424; --part: #00000008;
    --pool0: #2a78d6; --pool1: #1a9c6c; --pool2: #c98500; --pool3: #006300;
    --pool4: #4a3aa7; --pool5: #d9423f; --pool6: #d0588a; --pool7: #d95926; --outside: #85847e;
  }
  body { padding: 0; font-size: 12px; }
  table { font-size: 10.5px; }
  th, td { padding-right: 8px; }
  .long { min-width: 150px; }
  td:first-child:not(.n) { min-width: 105px; }
  nav { display: none; }
  section { border: none; padding: 0; overflow: visible; }
  svg, tr, .tile { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
)css";
}

} // namespace intarsia::plan::html
