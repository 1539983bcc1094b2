# SPDX-License-Identifier: Apache-2.0
"""The base of all rooms: errors, checks of values, annotations, names of other engines, printing and pickling."""
