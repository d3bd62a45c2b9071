"""Build and check Triton's C module for images without a compiler.

``make`` runs in a build stage with a compiler, and ``check`` in the final image.

Triton compiles kernels with its own ptxas. But one C module (``cuda_utils``), which loads and launches kernels, is
compiled with a C compiler at its first use and stored in TRITON_CACHE_DIR. The module does not depend on the GPU. It is
linked with the driver's libcuda.so.1, which does not exist during a build. An empty library with this name is used
instead, and the real one is found when the module is loaded.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

SONAME = "libcuda.so.1"


def make() -> None:
    """Compile the module into TRITON_CACHE_DIR with Triton's own function."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / SONAME
        compiler = os.environ.get("CC", "gcc")
        command = [compiler, "-shared", f"-Wl,-soname,{SONAME}", "-o", str(library), "-x", "c", os.devnull]
        subprocess.run(command, check=True)
        # The empty library has no symbols, so some linkers would drop it without this option.
        keeping = Path(folder) / "cc"
        keeping.write_text(f'#!/bin/sh\nexec {compiler} -Wl,--no-as-needed "$@"\n')
        keeping.chmod(0o755)
        os.environ |= {"CC": str(keeping), "TRITON_LIBCUDA_PATH": folder}
        from triton.backends.nvidia.driver import CudaUtils

        try:
            CudaUtils()
        except (ImportError, RuntimeError, SystemError) as error:
            print(f"compiled; it is loaded where a driver is ({error})")
    check()


def check() -> None:
    """Exit with status 1 if Triton would not find the module.

    The module must have been compiled from the current sources, for this platform and this Python version.
    """
    import hashlib
    import sysconfig

    import triton.backends.nvidia.driver as nvidia
    from triton.runtime.build import platform_key
    from triton.runtime.cache import get_cache_manager

    source = (Path(nvidia.dirname) / "driver.c").read_text()
    key = hashlib.sha256((source + platform_key()).encode("utf-8")).hexdigest()
    found = get_cache_manager(key).get_file(f"cuda_utils{sysconfig.get_config_var('EXT_SUFFIX')}")
    if found is None:
        sys.exit("Triton would look for another module than the one that was made.")
    print(f"found {found}")


if __name__ == "__main__":
    {"make": make, "check": check}[sys.argv[1]]()
