# How every room is built: one static library from its sources, one test program from its *_test.cc files, and one program
# per *_fuzz.cc file: a libFuzzer program in the fuzz preset, elsewhere one that replays its archive in tests/corpora.

set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)  # every room may end up inside a drop-in library
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

option(WEFT_WERROR "Treat warnings as errors" ON)
option(WEFT_FUZZ "Build the libFuzzer programs (clang only)" OFF)
option(WEFT_COVERAGE "Say which lines the libFuzzer programs reach (clang only)" OFF)
set(WEFT_SANITIZE "" CACHE STRING "Sanitizers, as for -fsanitize=")
set(WEFT_SANITIZE_LESS "" CACHE STRING "Checks of these sanitizers to leave out, as for -fno-sanitize=: the slow quarter of -fsanitize=undefined")

option(WEFT_CHECKED_OBJECTS "Whoever uses an object of the kernel's API in C that was destroyed is told which, and ended" OFF)
option(WEFT_PLANTED_BUGS "Builds for tests: every bug that tests/planted_bugs must find, behind a switch at run time" OFF)

include(weft_launcher)

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(GTest REQUIRED)
include(GoogleTest)

add_library(weft_options INTERFACE)
target_compile_options(weft_options INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wold-style-cast -Wnon-virtual-dtor
  $<$<BOOL:${WEFT_WERROR}>:-Werror>)
# Its dearest units then take half a gibibyte; to collect the garbage of less costs a seventh of the time.
target_compile_options(weft_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=1048576>)
target_include_directories(weft_options INTERFACE ${CMAKE_CURRENT_SOURCE_DIR}/src)
if(WEFT_PLANTED_BUGS)
  target_compile_definitions(weft_options INTERFACE WEFT_PLANTED_BUGS)
endif()
if(WEFT_SANITIZE)
  target_compile_options(weft_options INTERFACE -fsanitize=${WEFT_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  # Without RELRO: mold 1.10 begins it with an empty TLS segment, in a page that is not there if the code ends just before a page does.
  # The program loader then says "cannot apply additional memory protection after relocation", about once in a thousand links.
  target_link_options(weft_options INTERFACE -fsanitize=${WEFT_SANITIZE} LINKER:-z,norelro)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND WEFT_SANITIZE MATCHES "address|thread" AND NOT WEFT_FUZZ)
    # Shared, as g++ has it: the drop-in libraries answer calls of the C library by a program's links, which a runtime inside of it would take over.
    execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libclang_rt.tsan-x86_64.so OUTPUT_VARIABLE runtime OUTPUT_STRIP_TRAILING_WHITESPACE)
    get_filename_component(runtime ${runtime} DIRECTORY)
    target_link_options(weft_options INTERFACE -shared-libasan -Wl,-rpath,${runtime})
  endif()
  if(WEFT_SANITIZE_LESS)
    target_compile_options(weft_options INTERFACE -fno-sanitize=${WEFT_SANITIZE_LESS})
  endif()
endif()
if(WEFT_FUZZ)
  target_compile_options(weft_options INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(WEFT_COVERAGE)
  target_compile_options(weft_options INTERFACE -fprofile-instr-generate -fcoverage-mapping)
  target_link_options(weft_options INTERFACE -fprofile-instr-generate)
endif()

include(weft_optimize_across)

# Where ld.bfd takes seconds for each of many test programs; link-time optimisation keeps the compiler's own linker.
find_program(WEFT_MOLD mold)
if(WEFT_MOLD)
  target_link_options(weft_options INTERFACE $<$<NOT:$<BOOL:$<TARGET_PROPERTY:WEFT_LINKED_ACROSS>>>:-fuse-ld=mold>)
  set_property(GLOBAL PROPERTY RULE_LAUNCH_LINK "\"${PROJECT_SOURCE_DIR}/cmake/link.sh\"")
endif()

include(weft_precompile)
include(weft_join_sources)

# weft_room(NAME [DEPS room...] [LIBS library...] [TEST_LIBS library...] [PRECOMPILE header...] [LIVE_TESTS suite...]
#           [LONG_WORK] [LONG_TESTS] [APART])
# The library weft_NAME holds every .cc of this folder but the tests, fuzzers and benchmarks. DEPS are the rooms that it
# may include, LIBS are libraries from outside. tests of the room become weft_NAME_test. LIVE_TESTS are the suites, as
# patterns of --gtest_filter, that run threads, processes or a daemon. LONG_WORK: simulations and other tests keep the room busy for
# so long that to optimise it takes less. LONG_TESTS: the tests themselves do such work. APART: its sources cannot share one
# translation unit (weft_join_sources.cmake).
function(weft_room name)
  cmake_parse_arguments(ROOM "LONG_WORK;LONG_TESTS;APART" "" "DEPS;LIBS;TEST_LIBS;PRECOMPILE;LIVE_TESTS" ${ARGN})
  # A room's folders are its own, but for `testing`, which is another room.
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS *.cc)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS *.h)
  file(GLOB_RECURSE testing CONFIGURE_DEPENDS testing/*.cc testing/*.h)
  list(REMOVE_ITEM sources ${testing} "")
  list(REMOVE_ITEM headers ${testing} "")
  set(tests ${sources})
  set(fuzzers ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER fuzzers INCLUDE REGEX "_fuzz\\.cc$")
  list(FILTER sources EXCLUDE REGEX "_(test|fuzz|bench)\\.cc$|/main\\.cc$")
  list(TRANSFORM ROOM_DEPS PREPEND weft_)
  if(NOT ROOM_APART)
    weft_join_sources(sources ${name})
    weft_join_sources(tests ${name}_test)
  endif()
  if(sources)
    add_library(weft_${name} STATIC ${sources} ${headers})
    target_link_libraries(weft_${name} PUBLIC weft_options ${ROOM_DEPS} ${ROOM_LIBS})
    weft_compile_across(weft_${name} ${name})
    if(ROOM_LONG_WORK)
      target_compile_options(weft_${name} PRIVATE ${WEFT_LONG_WORK_OPTIMIZATION})
      set_target_properties(weft_${name} PROPERTIES WEFT_LONG_WORK ON)
    endif()
    weft_precompile(weft_${name} ${ROOM_PRECOMPILE})
  else()
    add_library(weft_${name} INTERFACE)
    target_link_libraries(weft_${name} INTERFACE weft_options ${ROOM_DEPS} ${ROOM_LIBS})
  endif()
  if(tests)
    add_executable(weft_${name}_test ${tests})
    target_link_libraries(weft_${name}_test PRIVATE weft_${name} ${ROOM_TEST_LIBS} GTest::gmock GTest::gtest_main)
    if(ROOM_LONG_TESTS)
      target_compile_options(weft_${name}_test PRIVATE ${WEFT_LONG_WORK_OPTIMIZATION})
    else()
      weft_precompile(weft_${name}_test)
    endif()
    weft_discover_tests(weft_${name}_test ${name} LIVE ${ROOM_LIVE_TESTS})
  endif()
  foreach(fuzzer ${fuzzers})
    weft_fuzzer(${name} ${fuzzer})
  endforeach()
endfunction()

# weft_program(TARGET SOURCE): the program of a room of commands. CLI11 is compiled in each, for ten seconds where it is optimised.
function(weft_program target source)
  add_executable(${target} ${source})
  target_compile_options(${target} PRIVATE ${WEFT_COMMAND_OPTIMIZATION})
endfunction()

# weft_discover_tests(TARGET PREFIX [LIVE pattern...]): every test of the program becomes PREFIX.Suite.Case; those that match a
# pattern of --gtest_filter get the label `live`, and scripts/test says what that means when one fails; the others get `unit`, and
# scripts/testing/unit_tests.py runs many of them in one process.
function(weft_discover_tests target prefix)
  cmake_parse_arguments(TESTS "" "" "LIVE" ${ARGN})
  string(JOIN ":" live ${TESTS_LIVE})
  set(common TEST_PREFIX "${prefix}." DISCOVERY_TIMEOUT 120 NO_PRETTY_VALUES)  # names that stay, without addresses
  if(NOT live STREQUAL "*")
    set(filter "*")
    if(live)
      set(filter "*-${live}")
    endif()
    gtest_discover_tests(${target} ${common} TEST_FILTER ${filter} TEST_LIST ${target}_PURE PROPERTIES TIMEOUT 300 LABELS unit)
  endif()
  if(live)
    gtest_discover_tests(${target} ${common} TEST_FILTER ${live} TEST_LIST ${target}_LIVE PROPERTIES TIMEOUT 300 LABELS live)
  endif()
endfunction()

# What stands in for libFuzzer elsewhere, compiled once.
if(NOT WEFT_FUZZ)
  add_library(weft_replay OBJECT ${PROJECT_SOURCE_DIR}/tests/corpora/replay.cc ${PROJECT_SOURCE_DIR}/tests/corpora/archive.cc)
  target_link_libraries(weft_replay PRIVATE weft_options)
endif()

# The program weft_ROOM_THING_fuzz of src/ROOM/THING_fuzz.cc; its inputs are tests/corpora/weft_ROOM_THING_fuzz.zip.
function(weft_fuzzer room source)
  get_filename_component(name ${source} NAME_WE)
  set(target weft_${room}_${name})
  set(corpus ${PROJECT_SOURCE_DIR}/tests/corpora/${target}.zip)
  add_executable(${target} ${source})
  target_link_libraries(${target} PRIVATE weft_${room})
  if(WEFT_FUZZ)
    target_link_options(${target} PRIVATE -fsanitize=fuzzer)
  else()
    target_link_libraries(${target} PRIVATE weft_replay)
    weft_precompile(${target})
    add_test(NAME ${room}.${name}.replay COMMAND ${target} ${corpus})
    set_tests_properties(${room}.${name}.replay PROPERTIES TIMEOUT 300)
  endif()
endfunction()
