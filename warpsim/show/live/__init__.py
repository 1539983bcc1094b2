# SPDX-License-Identifier: Apache-2.0
"""The live viewer: a page in the browser that steps a simulator, or plays a recorded rollout."""
