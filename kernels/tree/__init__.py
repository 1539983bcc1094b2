"""Motion of trees of links: joints, poses, velocities, mass matrix, bias forces."""
