# SPDX-License-Identifier: Apache-2.0
"""What makes simulators by itself: a run that goes on, a fault that is stepped again, worlds counted that fit."""
