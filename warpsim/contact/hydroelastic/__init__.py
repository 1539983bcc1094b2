"""Host side of hydroelastic contact: tables on the device, launches, and patches for people to look at."""
