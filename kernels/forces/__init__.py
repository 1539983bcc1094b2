# SPDX-License-Identifier: Apache-2.0
"""Forces besides contact and rows: springs, actuators, wrenches."""
