# How the compilers are started. They allocate by the million and free little: with pages of 2 MiB, that are not given back in between,
# clang takes an eighth less time. (g++ keeps most of its memory itself: weft_build.cmake.)
set(weft_launcher ${CMAKE_COMMAND} -E env
    GLIBC_TUNABLES=glibc.malloc.hugetlb=1:glibc.malloc.top_pad=67108864:glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=1073741824)

# ccache, if it is installed, so that a second checkout or a branch builds from what another has compiled: paths are taken
# relative to the checkout, and a precompiled header counts by what it was made of.
find_program(WEFT_CCACHE ccache)
if(WEFT_CCACHE)
  set(ccache_settings
    CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}
    CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
    CCACHE_PCH_EXTSUM=1)
  if(NOT DEFINED ENV{CCACHE_MAXSIZE})
    list(APPEND ccache_settings CCACHE_MAXSIZE=12G)  # policy: all presets of some weeks; the default of 5 GB holds one of two
  endif()
  list(APPEND weft_launcher ${ccache_settings} ${WEFT_CCACHE})
endif()
set(CMAKE_CXX_COMPILER_LAUNCHER ${weft_launcher})
