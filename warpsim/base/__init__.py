# SPDX-License-Identifier: Apache-2.0
"""What every room stands on: errors, checks of values, annotations, other engines' names, how results are shown and
pickled."""
