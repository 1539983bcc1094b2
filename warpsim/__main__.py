# SPDX-License-Identifier: Apache-2.0
"""`python -m warpsim` is the command `warpsim`."""

import sys

from warpsim.tools.cli import main

sys.exit(main())
