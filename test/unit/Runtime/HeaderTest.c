/*===- RuntimeHeader.c - The public headers from C99 ----------------------------------------------------------===//
 *
 * Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *===------------------------------------------------------------------------------------------------------===*/
#include "intarsia/engine.h"
#include "intarsia/module_abi.h"
#include "intarsia/runtime.h"

#include <stdio.h>
#include <string.h>

int main(void) {
  const int64_t shape[2] = {2, 3};
  const float values[6] = {1, 2, 3, 4, 5, 6};
  itx_tensor *tensor = NULL;
  itx_module *module = NULL;
  if (itx_tensor_create(ITX_F32, 2, shape, values, &tensor) != ITX_OK)
    return 1;
  if (itx_tensor_elements(tensor) != 6 || memcmp(itx_tensor_data(tensor), values, sizeof(values)) != 0)
    return 2;
  itx_tensor_free(tensor);
  if (itx_module_load("does-not-exist.itx", NULL, &module) != ITX_NOT_FOUND ||
      strstr(itx_last_error(), "does-not-exist.itx") == NULL)
    return 3;
  if (itx_device_count() < 1 || itx_device_info(0) == NULL || itx_threads() < 1)
    return 4;
  {
    itx_device_options options = {sizeof(options), 2, NULL, 0};
    itx_device *part = NULL, *there = NULL;
    itx_tensor *copy = NULL, *back = NULL;
    if (itx_device_create("cpu", &options, &part) != ITX_OK || itx_device_get_info(part) == NULL)
      return 5;
    if (itx_device_find("reference", &there) != ITX_OK ||
        itx_tensor_create_on(there, ITX_F32, 2, shape, values, &copy) != ITX_OK || itx_tensor_device(copy) == NULL ||
        itx_tensor_copy(copy, part, &back) != ITX_OK || itx_tensor_device(back) != NULL ||
        memcmp(itx_tensor_data(back), values, sizeof(values)) != 0)
      return 6;
    itx_tensor_free(back);
    itx_tensor_free(copy);
    itx_device_free(there);
    itx_device_free(part);
  }
  printf("%s, %s\n", itx_version(), itx_device_info(0));
  return 0;
}
