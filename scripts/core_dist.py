"""Packs the built core for machines that have no LLVM, no CMake and no package registry: dist/tinygrad_core-VERSION-PLATFORM.tar.xz.

lib/libtinygrad_core.so (stripped), tinygrad_core/ (headers) and include/ (the headers of other projects that these include).
"""
import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIMIT = 30 << 20
SYSTEM_LIBRARIES = {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "libpthread.so.0", "libdl.so.2", "librt.so.1"}


def cache_entry(build, name):
    with open(os.path.join(build, "CMakeCache.txt")) as f:
        return re.search(rf"^{name}:\w+=(.*)$", f.read(), re.M)[1]


def check_relocatable(library):
    dynamic = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
    needed = set(re.findall(r"\(NEEDED\).*\[(.*?)\]", dynamic))
    other = {n for n in needed - SYSTEM_LIBRARIES if not n.startswith("ld-linux")}
    if other or re.search(r"\((RUNPATH|RPATH)\)", dynamic):
        sys.exit(f"{library} is not relocatable: needs {sorted(other)} or has a run path")


def copy_headers(source, target):
    for path in glob.glob("**/*", root_dir=source, recursive=True):
        if path.endswith((".h", ".hpp", ".def")):
            os.makedirs(os.path.dirname(os.path.join(target, path)), exist_ok=True)
            shutil.copy2(os.path.join(source, path), os.path.join(target, path))


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--build", default="build")
    a = ap.parse_args()
    build = os.path.join(ROOT, a.build)
    version = re.search(r'version = "(.*?)"', open(os.path.join(ROOT, "pyproject.toml")).read())[1]
    archive = os.path.join(ROOT, "dist", f"tinygrad_core-{version}-{sysconfig.get_platform()}.tar.xz")
    os.makedirs(os.path.dirname(archive), exist_ok=True)
    with tempfile.TemporaryDirectory() as stage:
        lib = os.path.join(stage, "lib", "libtinygrad_core.so")
        os.makedirs(os.path.dirname(lib))
        shutil.copy2(os.path.join(build, "libtinygrad_core.so"), lib)
        subprocess.run(["strip", "--strip-unneeded", lib], check=True)
        check_relocatable(lib)
        copy_headers(os.path.join(ROOT, "tinygrad_core"), os.path.join(stage, "tinygrad_core"))
        include = os.path.join(stage, "include")
        shutil.copytree(os.path.join(ROOT, "third_party"), include)
        shutil.copytree(os.path.join(cache_entry(build, "FMT_INCLUDE"), "fmt"), os.path.join(include, "fmt"))
        shutil.copy2(os.path.join(cache_entry(build, "XXHASH_INCLUDE"), "xxhash.h"), include)
        with tarfile.open(archive, "w:xz", preset=6) as tar:
            for name in sorted(os.listdir(stage)):
                tar.add(os.path.join(stage, name), name)
    size = os.path.getsize(archive)
    print(f"{archive}: {size / 2**20:.1f} MB")
    if size > LIMIT:
        sys.exit(f"over the limit of {LIMIT >> 20} MB")


if __name__ == "__main__":
    main()
