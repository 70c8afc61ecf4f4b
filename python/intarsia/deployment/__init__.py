# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Carry out plans: engines that they name, what their pieces take, prompts that are handed over."""
