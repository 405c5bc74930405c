"""pip install . : builds the core and the extension with CMake for the torch that this Python imports.

TINY_CORE_DIST=dist/tinygrad_core-*.tar.xz builds the extension alone, with the C++ compiler and nothing else, on a core made elsewhere by
`make core-dist`: neither CMake nor LLVM nor any other library is needed then.
"""
import os
import subprocess
import sys
import sysconfig

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(ROOT, "scripts"))


class Build(build_ext):
    def run(self):
        package = os.path.join(ROOT, "torch_ext" if self.inplace else self.build_lib, "torch_tiny")
        os.makedirs(package, exist_ok=True)
        if os.environ.get("TINY_CORE_DIST"):
            import compile_ext
            compile_ext.build(os.environ["TINY_CORE_DIST"], package, os.path.join(ROOT, self.build_temp))
        else:
            self.build_by_cmake(package)

    def build_by_cmake(self, package):
        folder = os.path.join(ROOT, "build", "pip-" + sysconfig.get_platform() + "-" + sys.implementation.cache_tag)
        subprocess.run(["cmake", "-G", "Ninja", "-S", ROOT, "-B", folder, "-DTINY_TORCH=ON", "-DTINY_TESTS=OFF", "-DTINY_BENCHMARKS=OFF",
                        f"-DPython_EXECUTABLE={sys.executable}", f"-DTINY_PACKAGE_DIR={package}"], check=True)
        subprocess.run(["cmake", "--build", folder, "-j", str(os.cpu_count())], check=True)

    def get_outputs(self):
        package = os.path.join(self.build_lib, "torch_tiny")
        return [os.path.join(package, name) for name in ("_C.so", "libtinygrad_core.so")]


setup(ext_modules=[Extension("torch_tiny._C", [])], cmdclass={"build_ext": Build})
