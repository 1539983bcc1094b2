# SPDX-License-Identifier: Apache-2.0
"""What a simulator does around its steps: checks of input, controls, rollouts, its description, and stores written."""
