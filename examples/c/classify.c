/*===- classify.c - Call a compiled model from C --------------------------------------------------------------===//
 *
 * Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * usage: classify MODEL.itx INPUT.npy …     one file for each input of "main" that has no default, in order
 *===------------------------------------------------------------------------------------------------------===*/
#include <intarsia/runtime.h>

#include <stdio.h>

static int failed(void) {
  fprintf(stderr, "error: %s\n", itx_last_error());
  return 1;
}

static void print_signature(const itx_function *function) {
  for (size_t i = 0; i < itx_function_input_count(function); ++i) {
    const itx_value_info *info = itx_function_input(function, i);
    printf("input %s: %s, rank %u%s\n", info->name, itx_dtype_name(info->dtype), (unsigned)info->rank,
           info->optional ? ", optional" : "");
  }
}

/* Prints the largest element of each row of an f32 tensor: the class, if the model is a classifier. */
static void print_largest(const char *name, const itx_tensor *tensor) {
  uint32_t rank = itx_tensor_rank(tensor);
  int64_t width = rank ? itx_tensor_shape(tensor)[rank - 1] : 1;
  const float *values = itx_tensor_data(tensor);
  if (itx_tensor_dtype(tensor) != ITX_F32 || width == 0)
    return;
  for (int64_t row = 0; row < itx_tensor_elements(tensor) / width && row < 4; ++row) {
    int64_t best = 0;
    for (int64_t i = 1; i < width; ++i)
      if (values[row * width + i] > values[row * width + best])
        best = i;
    printf("%s, row %lld: largest at %lld, %g\n", name, (long long)row, (long long)best,
           (double)values[row * width + best]);
  }
}

int main(int argc, char **argv) {
  enum { most = 16 };
  itx_module *module;
  const itx_function *function;
  itx_tensor *inputs[most] = {NULL}, *outputs[most];
  if (argc < 2) {
    fprintf(stderr, "usage: %s MODEL.itx INPUT.npy ...\n", argv[0]);
    return 2;
  }
  if (itx_module_load(argv[1], NULL, &module) != ITX_OK || itx_module_function(module, "main", &function) != ITX_OK)
    return failed();
  print_signature(function);

  size_t input_count = itx_function_input_count(function), output_count = itx_function_output_count(function);
  if (input_count > most || output_count > most)
    return 1;
  int argument = 2;
  for (size_t i = 0; i < input_count && argument < argc; ++i)
    if (!itx_function_input(function, i)->optional && itx_tensor_load_npy(argv[argument++], &inputs[i]) != ITX_OK)
      return failed();

  if (itx_invoke(function, inputs, input_count, outputs, output_count) != ITX_OK)
    return failed();
  for (size_t i = 0; i < output_count; ++i) {
    print_largest(itx_function_output(function, i)->name, outputs[i]);
    itx_tensor_free(outputs[i]);
  }
  for (size_t i = 0; i < input_count; ++i)
    itx_tensor_free(inputs[i]);
  itx_module_free(module);
  return 0;
}
