# ccache when present, and a linker faster than GNU ld when one is found (an LLVM of 200 archives is linked into the core).
find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # ccache hashes what a precompiled header was made of; our files hold no time macros.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE})
endif()

# GCC looks for ld.lld by that name; Debian keeps it in LLVM's own folder.
include(CheckCXXSourceCompiles)
foreach(linker "mold" "lld" "lld -B${TINY_LLVM_BIN}")
  string(MAKE_C_IDENTIFIER "TINY_LINKER_${linker}" found)
  separate_arguments(flags UNIX_COMMAND "-fuse-ld=${linker}")
  set(CMAKE_REQUIRED_LINK_OPTIONS ${flags})
  check_cxx_source_compiles("int main() { return 0; }" ${found})
  unset(CMAKE_REQUIRED_LINK_OPTIONS)
  if(${found})
    add_link_options(${flags})
    break()
  endif()
endforeach()
