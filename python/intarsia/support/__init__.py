# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What every folder uses: errors, checked arguments, folders of work, and the programs of Intarsia."""
