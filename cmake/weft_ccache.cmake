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
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env ${ccache_settings} ${WEFT_CCACHE})
endif()
