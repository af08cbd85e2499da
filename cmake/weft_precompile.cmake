# weft_precompile(TARGET [HEADER...]): the standard library, fmt and, for programs, GoogleTest are parsed once for all targets and not
# once a source; a HEADER is a heavy one that only this target uses. tools/tidy sees to it that sources include what they use all the same.
option(WEFT_PCH "Precompile the standard library, fmt and GoogleTest: half the time to build" OFF)
set(WEFT_TEST_OPTIMIZATION "" CACHE STRING "Optimisation of test programs, where it is not that of the libraries, as -O0")

set(weft_precompiled <fmt/format.h> <algorithm> <array> <atomic> <cstring> <expected> <functional> <map> <memory> <mutex> <optional>
    <set> <span> <string> <string_view> <utility> <vector>)
set(weft_test_precompiled ${weft_precompiled} <gmock/gmock.h> <gtest/gtest.h>)

# ccache takes a precompiled header as its .sum says. The header itself holds paths; what it was made of does not.
function(weft_sum_of_precompiled target folder)
  set(source ${CMAKE_BINARY_DIR}/precompiled_${target}.cc)
  list(TRANSFORM ARGN PREPEND "#include ")
  string(JOIN "\n" text ${ARGN} "")
  file(WRITE ${source} "${text}")
  separate_arguments(flags UNIX_COMMAND "${CMAKE_CXX_FLAGS}")
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} ${CMAKE_CXX23_STANDARD_COMPILE_OPTION} ${flags} -DASIO_DISABLE_STD_ALIGNED_ALLOC -DASIO_SEPARATE_COMPILATION -E -P ${source}
                  OUTPUT_VARIABLE preprocessed RESULT_VARIABLE status ERROR_QUIET)
  if(status EQUAL 0)
    string(SHA256 sum "${preprocessed}")
    foreach(suffix gch pch)
      file(WRITE ${folder}/CMakeFiles/${target}.dir/cmake_pch.hxx.${suffix}.sum "${sum}\n")
    endforeach()
  endif()
endfunction()

# One for libraries and one for programs, whose code is positioned, and perhaps optimised, differently.
if(WEFT_PCH)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    target_compile_options(weft_options INTERFACE "SHELL:-Xclang -fno-pch-timestamp")  # a fresh checkout has other times
    set(CMAKE_CXX_COMPILE_OPTIONS_USE_PCH -include-pch <PCH_FILE>)  # CMake's own flags name a path that ccache does not take as one
  endif()
  file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/empty.cc CONTENT "")
  add_library(weft_pch STATIC ${CMAKE_BINARY_DIR}/empty.cc)
  target_link_libraries(weft_pch PRIVATE weft_options)
  target_precompile_headers(weft_pch PRIVATE ${weft_precompiled})
  weft_sum_of_precompiled(weft_pch ${CMAKE_BINARY_DIR} ${weft_precompiled})
  add_executable(weft_test_pch ${CMAKE_BINARY_DIR}/empty.cc)
  target_link_libraries(weft_test_pch PRIVATE weft_options GTest::gmock GTest::gtest_main)
  target_compile_options(weft_test_pch PRIVATE ${WEFT_TEST_OPTIMIZATION})
  target_precompile_headers(weft_test_pch PRIVATE ${weft_test_precompiled})
  weft_sum_of_precompiled(weft_test_pch ${CMAKE_BINARY_DIR} ${weft_test_precompiled})
endif()

function(weft_precompile target)
  if(NOT WEFT_PCH)
    return()
  endif()
  get_target_property(type ${target} TYPE)
  if(ARGN)
    target_precompile_headers(${target} PRIVATE ${weft_precompiled} ${ARGN})
    weft_sum_of_precompiled(${target} ${CMAKE_CURRENT_BINARY_DIR} ${weft_precompiled} ${ARGN})
  elseif(type STREQUAL "EXECUTABLE")
    target_compile_options(${target} PRIVATE ${WEFT_TEST_OPTIMIZATION})
    target_precompile_headers(${target} REUSE_FROM weft_test_pch)
  else()
    target_precompile_headers(${target} REUSE_FROM weft_pch)
  endif()
endfunction()
