"""Files in and out: MJCF through MuJoCo's parser, URDF and USD by readers of our own, Zarr stores, web pages."""
