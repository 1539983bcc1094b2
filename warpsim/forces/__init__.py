"""Host side of what pulls along lines."""
