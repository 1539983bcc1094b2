"""Host side of the motion of trees."""
