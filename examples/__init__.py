# SPDX-License-Identifier: Apache-2.0
"""Programs to start from, each run as `python -m examples.NAME` from the root of the checkout."""
