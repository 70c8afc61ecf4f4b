// RUN: intarsia-opt %s --target-declare-devices="targets=cuda:sm_90a" --fuse-epilogues --fuse-record-decisions="file=%t.json" -o /dev/null 2>&1 | FileCheck %s --check-prefix=MEASURED-REMARK
// RUN: FileCheck %s --check-prefix=MEASURED < %t.json
// RUN: intarsia-opt %s --target-declare-devices="targets=cuda:sm_86" --fuse-epilogues --fuse-record-decisions="file=%t.json" -o /dev/null 2>&1 | FileCheck %s --check-prefix=FAMILY-REMARK
// RUN: intarsia-opt %s --target-declare-devices="targets=hip:gfx942" --fuse-epilogues --fuse-record-decisions="file=%t.json" -o /dev/null 2>&1 | FileCheck %s --check-prefix=ANY-REMARK
// RUN: FileCheck %s --check-prefix=ANY < %t.json

// Costs of kernels of a GPU say what their figures are from.

// MEASURED-REMARK: remark: costs of cuda:sm_90a: kernels of serving engines measured on nvidia/h100-sxm; kernels of this compiler were not measured
// MEASURED: "device": "cuda:sm_90a",
// MEASURED: "figures": "kernels of serving engines measured on nvidia/h100-sxm"
// MEASURED: "chosen": "inside",

// FAMILY-REMARK: remark: costs of cuda:sm_86: an estimate: the datasheet of nvidia/a10, and efficiencies of kernels of serving engines measured on its family 'ampere'

// ANY-REMARK: remark: costs of hip:gfx942: an estimate: the datasheet of amd/mi300x, and efficiencies of kernels of serving engines measured on GPUs of other architectures
// ANY: "device": "hip:gfx942",
// ANY: "figures": "an estimate: the datasheet of amd/mi300x, and efficiencies of kernels of serving engines measured on GPUs of other architectures"

nn.archive @weights {file = "model.safetensors"}
func.func @main(%x: tensor<?x?x384xf16> {nn.sizes = ["batch", "sequence", ""]}) -> tensor<?x?x1536xf16>
    attributes {nn.expected_sizes = {batch = 4 : i64}} {
  %w = nn.weight @weights["w"] : tensor<1536x384xf16>
  %h = nn.linear %x, %w : (tensor<?x?x384xf16>, tensor<1536x384xf16>) -> tensor<?x?x1536xf16> loc("intermediate.dense")
  %g = nn.gelu %h {form = #nn.gelu_form<erf>} : tensor<?x?x1536xf16>
  return %g : tensor<?x?x1536xf16>
}
