"""Builds torch_tiny/_C.so with g++ alone, on a core archive: compile_ext.py ARCHIVE PACKAGE_FOLDER [WORK_FOLDER].

Needs a C++20 compiler, Python's headers and the torch that this Python imports; the archive brings all else. Objects newer than
their sources are kept.
"""
import concurrent.futures
import glob
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FLAGS = ["-std=c++20", "-O2", "-DNDEBUG", "-fPIC", "-Wall", "-Wno-unused-parameter", "-ffp-contract=off", "-fvisibility=hidden",
         "-DFMT_HEADER_ONLY"]


def interface_hash(include):
    """Names the headers that the extension and the core must have in common."""
    h = hashlib.sha256()
    for path in sorted(glob.glob("**/*.h", root_dir=include, recursive=True) + glob.glob("**/*.def", root_dir=include, recursive=True)):
        with open(os.path.join(include, path), "rb") as f:
            h.update(path.encode() + b"\0" + f.read() + b"\0")
    return h.hexdigest()


def unpack(archive, folder):
    """The archive's root in `folder`; refuses a core whose headers are not those of this source tree."""
    shutil.rmtree(folder, ignore_errors=True)
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    if interface_hash(os.path.join(folder, "tinygrad_core")) != interface_hash(os.path.join(ROOT, "tinygrad_core")):
        sys.exit(f"{archive} was made from other headers than those of {ROOT}/tinygrad_core; run `make core-dist` again")
    return folder


def torch_paths():
    # -E: inside pip's isolated build the outer environment's torch is the one that counts.
    out = subprocess.run([sys.executable, "-E", os.path.join(ROOT, "scripts", "torch_paths.py")],
                         capture_output=True, text=True, check=True).stdout
    version, root, abi = out.strip().split(";")
    return version, root, abi


def newest(paths):
    return max((os.path.getmtime(p) for p in paths), default=0)


def compile_one(command, source, target, headers_time):
    if os.path.exists(target) and os.path.getmtime(target) > max(os.path.getmtime(source), headers_time):
        return
    os.makedirs(os.path.dirname(target), exist_ok=True)
    done = subprocess.run([*command, "-c", source, "-o", target], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(done.args)}\n{done.stderr}")
    print("built", os.path.relpath(source, ROOT), flush=True)


def build(archive, package, work, jobs=None):
    version, torch_root, abi = torch_paths()
    work = os.path.join(work, "torch-" + version)
    core = unpack(archive, os.path.join(work, "core"))
    cxx, csrc = os.environ.get("CXX", "g++"), os.path.join(ROOT, "csrc")
    common = [cxx, *FLAGS, f"-D_GLIBCXX_USE_CXX11_ABI={abi}", *(f"-I{core}/{d}" for d in ("tinygrad_core", "include"))]
    torch_include = torch_root + "/include"
    torch_flags = ["-DTORCH_EXTENSION_NAME=_C", "-I" + csrc, "-isystem" + torch_include, f"-isystem{torch_include}/torch/csrc/api/include",
                   "-isystem" + sysconfig.get_path("include")]
    headers = glob.glob(csrc + "/**/*.h", recursive=True) + glob.glob(csrc + "/**/*.def", recursive=True)
    headers_time = newest([*headers, archive])

    pch = os.path.join(work, "pch.h")
    compile_one([*common, *torch_flags, "-x", "c++-header"], os.path.join(csrc, "pch.h"), pch + ".gch", headers_time)
    with open(pch, "w") as f:  # included by name; GCC takes pch.h.gch in its place
        f.write(f'#include "{csrc}/pch.h"\n')
    units = []
    for source in glob.glob(csrc + "/**/*.cpp", recursive=True):
        name = os.path.relpath(source, csrc)
        lowering = name.startswith("lower" + os.sep)
        command = [*common, "-I" + csrc] if lowering else [*common, *torch_flags, "-include", pch]
        units.append((command, source, os.path.join(work, name[:-4] + ".o")))
    with concurrent.futures.ThreadPoolExecutor(jobs or os.cpu_count()) as pool:
        list(pool.map(lambda unit: compile_one(*unit, headers_time), units))

    shutil.copy2(os.path.join(core, "lib", "libtinygrad_core.so"), package)
    # libstdc++ by its run-time name, first: the extension shares torch's copy, whatever this g++ would link by itself.
    libraries = ["-l:libstdc++.so.6", "-L" + package, "-ltinygrad_core", f"-L{torch_root}/lib", "-lc10", "-ltorch_cpu", "-ltorch",
                 "-ltorch_python"]
    subprocess.run([cxx, "-shared", "-o", os.path.join(package, "_C.so"), *(u[2] for u in units), *libraries,
                    "-Wl,--as-needed", "-Wl,-rpath,$ORIGIN"], check=True)


if __name__ == "__main__":
    build(sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else os.path.join(ROOT, "build", "ext"))
