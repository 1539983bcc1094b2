"""Files in and out: MJCF and URDF through MuJoCo's parser, USD, Zarr stores, web pages."""
