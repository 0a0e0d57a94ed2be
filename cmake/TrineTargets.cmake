# trine_library(NAME [TORCH] SOURCES file... LINKS target...)      a folder of src/ as the library trine_NAME
# trine_test(NAME [TORCH] SOURCES file... LINKS target...)         a folder of tests/ as the test binary NAME_tests
#
# TORCH: the sources include torch headers, and share one precompiled header with all others that do.

add_library(trine_pch OBJECT ${CMAKE_SOURCE_DIR}/cmake/pch.cpp)
target_link_libraries(trine_pch PUBLIC libtorch fmt::fmt)
target_precompile_headers(trine_pch PUBLIC <torch/torch.h> <torch/library.h> <fmt/format.h> <string> <vector> <map> <memory>)

function(trine_library name)
  cmake_parse_arguments(ARG "TORCH" "" "SOURCES;LINKS" ${ARGN})
  add_library(trine_${name} STATIC ${ARG_SOURCES})
  target_include_directories(trine_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(trine_${name} PUBLIC ${ARG_LINKS} fmt::fmt Threads::Threads)
  if(ARG_TORCH)
    target_link_libraries(trine_${name} PUBLIC libtorch)
    target_precompile_headers(trine_${name} REUSE_FROM trine_pch)
  endif()
endfunction()

# What every executable needs: libtorch at run time, and with TORCH the precompiled header (which was built with -fPIC, not -fPIE).
function(trine_executable_paths target)
  set_target_properties(${target} PROPERTIES BUILD_RPATH ${TRINE_LIBTORCH_DIR} LINK_LIBRARY_OVERRIDE_trine_ops WHOLE_ARCHIVE)
endfunction()

function(trine_use_torch_in_executable target)
  target_link_libraries(${target} PRIVATE libtorch)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIC)
  target_precompile_headers(${target} REUSE_FROM trine_pch)
endfunction()

function(trine_test name)
  cmake_parse_arguments(ARG "TORCH" "" "SOURCES;LINKS" ${ARGN})
  add_executable(${name}_tests ${ARG_SOURCES})
  target_include_directories(${name}_tests PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name}_tests PRIVATE ${ARG_LINKS} GTest::gtest GTest::gmock GTest::gtest_main)
  target_compile_definitions(${name}_tests PRIVATE TRINE_SOURCE_DIR="${CMAKE_SOURCE_DIR}" TRINE_BINARY_DIR="${CMAKE_BINARY_DIR}")
  if(ARG_TORCH)
    trine_use_torch_in_executable(${name}_tests)
  endif()
  trine_executable_paths(${name}_tests)
  add_test(NAME ${name} COMMAND ${name}_tests WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
endfunction()

# Installs a program so that it finds libtorch by itself. A CPU libtorch is copied to lib/trine, since it is a few hundred megabytes; a
# CUDA build refers to the wheel where it lies.
function(trine_install_program target)
  if(EXISTS ${TRINE_LIBTORCH_DIR}/libtorch_cuda.so)
    set_target_properties(${target} PROPERTIES INSTALL_RPATH ${TRINE_LIBTORCH_DIR})
  else()
    set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/trine")
    install(CODE "
      file(GET_RUNTIME_DEPENDENCIES EXECUTABLES \"$<TARGET_FILE:${target}>\" RESOLVED_DEPENDENCIES_VAR needed
           PRE_EXCLUDE_REGEXES \"^ld-linux\" POST_INCLUDE_REGEXES \"^${TORCH_DIR}\" \"/torch\\\\.libs/\" POST_EXCLUDE_REGEXES \".*\")
      file(INSTALL \${needed} DESTINATION \"\${CMAKE_INSTALL_PREFIX}/lib/trine\" FOLLOW_SYMLINK_CHAIN)")
  endif()
  install(TARGETS ${target} RUNTIME DESTINATION bin)
endfunction()
