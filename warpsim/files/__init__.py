# SPDX-License-Identifier: Apache-2.0
"""Robot files, stores, outputs."""
