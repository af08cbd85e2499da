# weft_join_sources(LIST NAME): replaces the sources in LIST by fewer that include them (join_sources.py), which halves the time to build
# everything and makes the change of one file dearer. Where a name of one file then hides another's local one, no warning says so; presets
# without it do. Optimised, g++ also sees through calls between files, and guesses wrongly of what it sees there.
option(WEFT_JOIN_SOURCES "Compile up to fourteen sources at a time" OFF)

if(WEFT_JOIN_SOURCES)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  # What is found may be a script that looks for the interpreter each time, which takes longer than joining.
  execute_process(COMMAND ${Python3_EXECUTABLE} -c "import sys; print(sys.executable)" OUTPUT_VARIABLE weft_python
                  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(weft_options INTERFACE -Wshadow=local -Wno-maybe-uninitialized -Wno-array-bounds -Wno-restrict
                           -Wno-stringop-overflow -Wno-stringop-overread -Wno-subobject-linkage)
  else()
    target_compile_options(weft_options INTERFACE -Wno-shadow)
  endif()
endif()

function(weft_join_sources list name)
  if(NOT WEFT_JOIN_SOURCES OR NOT ${list})
    return()
  endif()
  string(REPLACE "/" "_" name ${name})
  execute_process(COMMAND ${weft_python} ${PROJECT_SOURCE_DIR}/cmake/join_sources.py --include ${PROJECT_SOURCE_DIR}/src
                          --into ${CMAKE_CURRENT_BINARY_DIR}/joined_${name} ${${list}}
                  OUTPUT_VARIABLE joined OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  # A name that is new to a file may part it from the others of its part.
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/join_sources.py)
  set(${list} ${joined} PARENT_SCOPE)
endfunction()
