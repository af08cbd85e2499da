# Link-time optimisation is for the drop-in libraries, which the data path runs in: the rooms that they are made of are compiled for
# both, and only weft_link_across(TARGET...) links them as one program. For all other programs, some of which hold every room, the
# code that was compiled room by room is linked as it is: that takes a second each, and the optimiser several minutes.
option(WEFT_OPTIMIZE_ACROSS "Optimise the drop-in libraries across rooms" OFF)

set(weft_rooms_across base os verbs wire ring hca fabric station uabi host ulp_rsocket)

if(WEFT_OPTIMIZE_ACROSS)
  # g++ hands objects that have both forms to the optimiser, whichever linker it calls, unless it is told not to.
  target_link_options(weft_options INTERFACE $<$<NOT:$<BOOL:$<TARGET_PROPERTY:WEFT_LINKED_ACROSS>>>:-fno-lto>)
endif()

# Of a room's library: its objects have both forms, if it is one of those.
function(weft_compile_across target name)
  if(WEFT_OPTIMIZE_ACROSS AND name IN_LIST weft_rooms_across)
    target_compile_options(${target} PRIVATE -flto -ffat-lto-objects)
    set_target_properties(${target} PROPERTIES WEFT_COMPILED_ACROSS ON)
  endif()
endfunction()

function(weft_link_across)
  if(WEFT_OPTIMIZE_ACROSS)
    foreach(target ${ARGN})
      target_compile_options(${target} PRIVATE -flto)
      target_link_options(${target} PRIVATE -flto=auto)
      set_target_properties(${target} PROPERTIES WEFT_COMPILED_ACROSS ON WEFT_LINKED_ACROSS ON)
    endforeach()
  endif()
endfunction()
