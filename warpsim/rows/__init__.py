"""Host side of the scalar rows."""
