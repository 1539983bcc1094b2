# SPDX-License-Identifier: Apache-2.0
"""Forces other than contact and rows: springs, actuators, wrenches."""
