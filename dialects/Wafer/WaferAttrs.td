//===----------------------------------------------------------------------------------------------------------===//
//
// Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------------------------------------------===//
#ifndef INTARSIA_WAFER_ATTRS
#define INTARSIA_WAFER_ATTRS

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"

def Wafer_Dialect : Dialect {
  let name = "wafer";
  let cppNamespace = "::intarsia::wafer";
  let summary = "Programs for a two-dimensional mesh of cores with small local memories";
  let description = [{
    Tensor level: `dist_gemm` and `dist_gemv` multiply matrices that are split over a grid of cores; the algorithm is an
    attribute. Core level: a `program` holds what the cores of the grid do. Each op of a program applies to a role class
    (`#wafer.cores`: a range of columns times a range of rows), never to one core, so that a program has the same length
    on 8 x 8 and on 720 x 720 cores. A core executes, in order, the ops whose class it is in.

    Column `x` and row `y` of a core count from 0 at one corner of the grid.
  }];
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::mlir::memref::MemRefDialect"];
}

class Wafer_Enum<string name, string summary, list<I32EnumAttrCase> cases> : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::intarsia::wafer";
  let genSpecializedAttr = 0;
}
class Wafer_EnumAttr<EnumInfo info, string mnemonic> : EnumAttr<Wafer_Dialect, info, mnemonic> {
  let assemblyFormat = "$value";
}

def Wafer_Axis : Wafer_Enum<"Axis", "direction along which something is split, or none", [
  I32EnumAttrCase<"None", 0, "none">, I32EnumAttrCase<"X", 1, "x">, I32EnumAttrCase<"Y", 2, "y">]>;
def Wafer_AxisAttr : Wafer_EnumAttr<Wafer_Axis, "axis">;

def Wafer_Skew : Wafer_Enum<"Skew", "which index of a tile is shifted by the other", [
  I32EnumAttrCase<"None", 0, "none">, I32EnumAttrCase<"Rows", 1, "rows">, I32EnumAttrCase<"Columns", 2, "columns">]>;
def Wafer_SkewAttr : Wafer_EnumAttr<Wafer_Skew, "skew">;

def Wafer_Arithmetic : Wafer_Enum<"Arithmetic", "what a core computes", [
  I32EnumAttrCase<"Zero", 0, "zero">, I32EnumAttrCase<"Copy", 1, "copy">, I32EnumAttrCase<"Add", 2, "add">,
  I32EnumAttrCase<"Multiply", 3, "multiply">, I32EnumAttrCase<"Exp", 4, "exp">, I32EnumAttrCase<"Silu", 5, "silu">,
  I32EnumAttrCase<"Gemm", 6, "gemm">, I32EnumAttrCase<"GemmTransposed", 7, "gemm_transposed">,
  I32EnumAttrCase<"Gemv", 8, "gemv">, I32EnumAttrCase<"Gelu", 9, "gelu">,
  I32EnumAttrCase<"GeluTanh", 10, "gelu_tanh">, I32EnumAttrCase<"Relu", 11, "relu">,
  I32EnumAttrCase<"Tanh", 12, "tanh">, I32EnumAttrCase<"Sum", 13, "sum">,
  I32EnumAttrCase<"SumSquares", 14, "sum_squares">, I32EnumAttrCase<"Scale", 15, "scale">,
  I32EnumAttrCase<"Shift", 16, "shift">, I32EnumAttrCase<"Affine", 17, "affine">,
  I32EnumAttrCase<"Rsqrt", 18, "rsqrt">, I32EnumAttrCase<"Largest", 19, "largest">,
  I32EnumAttrCase<"Reciprocal", 20, "reciprocal">, I32EnumAttrCase<"Mask", 21, "mask">,
  I32EnumAttrCase<"Take", 22, "take">, I32EnumAttrCase<"Put", 23, "put">, I32EnumAttrCase<"Rotate", 24, "rotate">,
  I32EnumAttrCase<"Decode", 25, "decode">, I32EnumAttrCase<"Collect", 26, "collect">]>;
def Wafer_ArithmeticAttr : Wafer_EnumAttr<Wafer_Arithmetic, "arithmetic">;

def Wafer_GemmAlgorithm : Wafer_Enum<"GemmAlgorithm", "how tiles of a matrix product travel", [
  I32EnumAttrCase<"Mesh", 0, "mesh">, I32EnumAttrCase<"Cannon", 1, "cannon">, I32EnumAttrCase<"Summa", 2, "summa">]>;
def Wafer_GemmAlgorithmAttr : Wafer_EnumAttr<Wafer_GemmAlgorithm, "gemm">;

def Wafer_Reduction : Wafer_Enum<"Reduction", "how partial sums are added along an axis", [
  I32EnumAttrCase<"Tree", 0, "tree">, I32EnumAttrCase<"Pipeline", 1, "pipeline">, I32EnumAttrCase<"Ring", 2, "ring">]>;
def Wafer_ReductionAttr : Wafer_EnumAttr<Wafer_Reduction, "reduction">;

def Wafer_Norm : Wafer_Enum<"Norm", "what a norm subtracts and divides by", [
  I32EnumAttrCase<"Rms", 0, "rms">, I32EnumAttrCase<"Layer", 1, "layer">]>;
def Wafer_NormAttr : Wafer_EnumAttr<Wafer_Norm, "norm">;

def Wafer_TargetAttr : AttrDef<Wafer_Dialect, "Target"> {
  let mnemonic = "target";
  let summary = "A mesh of cores";
  let description = [{
    `#wafer.target<name = "wse2", columns = 750, rows = 994, …>`: the grid that programs may use, the memory of a core
    and what of it the runtime reserves, the colours that routes may have, and the constants of the timing model. Times
    are in cycles of the core's clock. The sources of the figures stand in the catalogue
    (`catalogue/wafers`).

    | figure | meaning |
    |---|---|
    | `hop_cycles`, `ramp_cycles` | from a router to the next; between a router and its core |
    | `link_bytes` | bytes that a link carries in a cycle in each direction |
    | `macs` | multiply-accumulates of f16 in a cycle |
    | `loop_cycles` | start of one vector instruction |
    | `product_cycles` | software that starts a product of two tiles |
    | `stage_cycles` | software that starts a send or a receive, passes a message on, or sets a route anew |
    | `add_cycles` | one element of a message that is added on the way |
    | `element_cycles` | one element of a function such as exp or silu |

    `defects` are the columns and rows of cores that do not work, in turn: `defects = [3, 5]` is the core (3, 5).
    `watts` is the most power that the whole system draws, where that is published.
  }];
  let parameters = (ins "::mlir::StringAttr":$name, "int64_t":$columns, "int64_t":$rows, "int64_t":$sram_bytes,
                        "int64_t":$reserved_bytes, "int64_t":$colors, "::mlir::FloatAttr":$clock_ghz,
                        "::mlir::FloatAttr":$hop_cycles, "::mlir::FloatAttr":$ramp_cycles,
                        "::mlir::FloatAttr":$link_bytes, "::mlir::FloatAttr":$macs, "::mlir::FloatAttr":$loop_cycles,
                        "::mlir::FloatAttr":$product_cycles, "::mlir::FloatAttr":$stage_cycles,
                        "::mlir::FloatAttr":$add_cycles, "::mlir::FloatAttr":$element_cycles,
                        OptionalParameter<"::mlir::DenseI64ArrayAttr">:$defects,
                        OptionalParameter<"::mlir::FloatAttr">:$watts);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Wafer_RangeAttr : AttrDef<Wafer_Dialect, "Range"> {
  let mnemonic = "range";
  let summary = "Positions along an axis";
  let description = [{
    `#wafer.range<start = 0, end = 8, period = 4, width = 2>`: the positions p with start <= p < end and
    (p - start) mod period < width; 0, 1, 4 and 5 here. In the body of a `repeat`, `start_moves` and `end_moves` are
    added to `start` and `end` once for each iteration that is done. With `ring`, p is the place on the interleaved ring
    (`0, 2, 4, …, 5, 3, 1`), not the position on the axis.
  }];
  let parameters = (ins "int64_t":$start, "int64_t":$end, DefaultValuedParameter<"int64_t", "1">:$period,
                        DefaultValuedParameter<"int64_t", "1">:$width,
                        DefaultValuedParameter<"int64_t", "0">:$start_moves,
                        DefaultValuedParameter<"int64_t", "0">:$end_moves,
                        DefaultValuedParameter<"bool", "false">:$ring);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Wafer_CoresAttr : AttrDef<Wafer_Dialect, "Cores"> {
  let mnemonic = "cores";
  let summary = "A role class: a range of columns times a range of rows";
  let description = [{
    `#wafer.cores<x = <start = 0, end = 4>, y = <start = 0, end = 1>>`; an axis that is left out has all positions.
  }];
  let parameters = (ins OptionalParameter<"::intarsia::wafer::RangeAttr">:$x,
                        OptionalParameter<"::intarsia::wafer::RangeAttr">:$y);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Wafer_PathAttr : AttrDef<Wafer_Dialect, "Path"> {
  let mnemonic = "path";
  let summary = "Equal paths of messages along one axis";
  let description = [{
    `#wafer.path<start = <start = 0, end = 7>, by = 1, color = 0, alternate>`: from each position of `start` a path to
    the position `by` further. Its color is `color`; with `alternate` every second one, counted in steps of `by`, has
    the color after it: a core then receives and sends along the axis on two colors. With `multicast` each core on the
    way gets the message too, and the path ends at the edge of the grid where `by` is beyond it.
  }];
  let parameters = (ins "::intarsia::wafer::RangeAttr":$start, "int64_t":$by, "int64_t":$color,
                        DefaultValuedParameter<"bool", "false">:$alternate,
                        DefaultValuedParameter<"bool", "false">:$multicast);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}
def Wafer_PathArrayAttr : TypedArrayAttrBase<Wafer_PathAttr, "paths">;

def Wafer_TilesAttr : AttrDef<Wafer_Dialect, "Tiles"> {
  let mnemonic = "tiles";
  let summary = "Which tile of a matrix each core has";
  let description = [{
    `#wafer.tiles<rows = y, columns = x, ring, skew = columns>`: the axis along which rows and columns are split
    (`none`: each core along it has all of them). With `ring`, tiles follow the order of the interleaved ring. `skew =
    columns` adds the index of the tile's row to that of its column, modulo their number, `skew = rows` the other way
    round. The matrix is padded with zeros to whole tiles. With `extent = n` only the first n columns and the first n rows
    of cores have tiles, rings are of n cores, and the other cores have zeros.
  }];
  let parameters = (ins EnumParameter<Wafer_Axis>:$rows, EnumParameter<Wafer_Axis>:$columns,
                        DefaultValuedParameter<"bool", "false">:$ring,
                        DefaultValuedParameter<"::intarsia::wafer::Skew", "::intarsia::wafer::Skew::None">:$skew,
                        DefaultValuedParameter<"int64_t", "0">:$extent);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Wafer_RelayoutAttr : AttrDef<Wafer_Dialect, "Relayout"> {
  let mnemonic = "relayout";
  let summary = "Half of the way of a matrix from one grid to another";
  let description = [{
    A matrix of `height` rows and `width` columns lies on the first `from` columns and rows of cores, its rows along `along`
    and its columns along the other axis. On the first `to` columns and rows of cores it is to lie as MeshGEMM wants its second
    factor: `#wafer.tiles<rows = y, columns = x, ring, skew = rows, extent = to>`. Its tiles go around rings of all cores,
    first of the axis of its columns: each core keeps the columns that its line of cores has in the end. With `second`
    what was kept goes around rings of the other axis, and each core keeps its rows.
  }];
  let parameters = (ins EnumParameter<Wafer_Axis>:$along, "int64_t":$from, "int64_t":$to, "int64_t":$height,
                        "int64_t":$width, DefaultValuedParameter<"bool", "false">:$second);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

#endif
