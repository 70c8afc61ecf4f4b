# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``python -m intarsia``, and the program ``intarsia``."""

import sys

from .commands.main import main

if __name__ == "__main__":
    sys.exit(main())
