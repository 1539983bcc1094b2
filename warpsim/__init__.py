"""warpsim: batched, differentiable multibody physics with stiff contact, on CPU and GPU through NVIDIA Warp."""

import pathlib as _pathlib

# The device code lives in `kernels/` beside this package in a checkout and in `warpsim/kernels` in a wheel.
if not (_pathlib.Path(__file__).parent / "kernels").is_dir():
    __path__.append(str(_pathlib.Path(__file__).parent.parent))
