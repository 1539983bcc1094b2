# SPDX-License-Identifier: Apache-2.0
"""Host side of contact: collision, rays."""
