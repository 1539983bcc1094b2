# SPDX-License-Identifier: Apache-2.0
"""The sticky flags of a world, bits of `diagnostics.flags`; see docs/flags.md.

`team_commit` (`integrate/theta/schemes.py`) adds the solver's status and the flags of the step's contacts
(`Contacts.flags`) to those of the world. The comments say which other files raise a flag.
"""

import warp as wp

# The world stays at its last finite state: integrate/theta/schemes.py; tree/mocap.py, contact/contacts.py and
# contact/hydroelastic/find_polygons.py.
NONFINITE: int = wp.constant(1)
# The solver stopped above its tolerance: integrate/theta/schemes.py; bodies too heavy: contact/contacts.py.
NOT_CONVERGED: int = wp.constant(2)
# Contacts or polygons beyond their capacity: contact/contacts.py (also for contact/convex_contacts.py and
# contact/broadphase.py), contact/hydroelastic/find_polygons.py, contact/hydroelastic/patches.py.
CONTACT_OVERFLOW: int = wp.constant(4)
# The step may have missed a contact: contact/narrow/resolution.py, contact/contacts.py.
UNRESOLVED: int = wp.constant(8)
# Pressure fields overlap by more than half of their depth: contact/hydroelastic/find_polygons.py and caps.py.
DEEP_PRESSURE: int = wp.constant(16)
# A constraint is violated and does not close: rows/watch.py.
NOT_HELD: int = wp.constant(32)
# A tree gains energy without work: integrate/gain.py.
ENERGY_GAIN: int = wp.constant(64)
