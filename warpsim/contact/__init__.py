"""Host side of contact: collision, rays."""
