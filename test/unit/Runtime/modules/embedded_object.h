/*===- embedded_object.h - Code for a device inside a module of the tests -------------------------------------===//
 *
 * Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 *===------------------------------------------------------------------------------------------------------===*/
#ifndef INTARSIA_TEST_UNIT_RUNTIME_MODULES_EMBEDDEDOBJECT_H
#define INTARSIA_TEST_UNIT_RUNTIME_MODULES_EMBEDDEDOBJECT_H

#include "intarsia/module_abi.h"

/* The build defines the path of the object. */
__asm__(".pushsection .rodata\n"
        ".balign 64\n"
        "object_begin: .incbin \"" ITX_TEST_OBJECT "\"\n"
        "object_end:\n"
        ".popsection\n"
        ".pushsection .data.rel.ro, \"aw\"\n"
        ".balign 8\n"
        "embedded_object: .quad object_begin, object_end - object_begin\n"
        ".popsection\n");
__attribute__((visibility("hidden"))) extern const itx_object embedded_object[1];

#endif
