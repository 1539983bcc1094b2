# SPDX-License-Identifier: Apache-2.0
"""Jobs that make simulators: resume a run, step through a fault, find the number of worlds that fit."""
