"""Prints version;root;C++11 ABI flag of the torch that this Python imports, for CMake."""
import os

os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
import torch  # noqa: E402

print(torch.__version__, os.path.dirname(torch.__file__), int(torch._C._GLIBCXX_USE_CXX11_ABI), sep=";")
