# CMake package of Platoon, installed as <prefix>/share/platoon/cmake/platoon-config.cmake. Gives the target
# platoon::platoon, the shared library with its headers; PLATOON_STATIC=ON asks for the static one.

get_filename_component(_platoon_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
find_path(PLATOON_INCLUDE_DIR platoon.h PATHS "${_platoon_prefix}/include" NO_DEFAULT_PATH)
if(PLATOON_STATIC)
  set(_platoon_file libplatoon.a)
else()
  set(_platoon_file libplatoon.so)
endif()
# Distributions have a folder of their own for each architecture.
find_library(PLATOON_LIBRARY ${_platoon_file} PATHS "${_platoon_prefix}" NO_DEFAULT_PATH
             PATH_SUFFIXES lib lib64 lib/${CMAKE_LIBRARY_ARCHITECTURE})

if(NOT PLATOON_INCLUDE_DIR OR NOT PLATOON_LIBRARY)
  set(platoon_FOUND FALSE)
  set(platoon_NOT_FOUND_MESSAGE "platoon.h and ${_platoon_file} are not under ${_platoon_prefix}")
  return()
endif()

if(NOT TARGET platoon::platoon)
  add_library(platoon::platoon UNKNOWN IMPORTED)
  set_target_properties(platoon::platoon PROPERTIES
    IMPORTED_LOCATION "${PLATOON_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${PLATOON_INCLUDE_DIR}")
  if(PLATOON_STATIC)
    # What a static library of Rust needs of the system.
    set_property(TARGET platoon::platoon PROPERTY INTERFACE_LINK_LIBRARIES gcc_s util rt pthread m dl)
  endif()
endif()
