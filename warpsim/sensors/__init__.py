"""What sensors measure: frames, coordinates, subtrees, rays at a state; accelerations, forces and contact of a step."""
