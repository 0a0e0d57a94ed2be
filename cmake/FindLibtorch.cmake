# Finds the libtorch inside a Python wheel, as the imported target `libtorch`.
#
# The wheel's own TorchConfig.cmake is not used: with a CUDA wheel it insists on a CUDA toolkit, which Trine's host code does not
# need. Set TRINE_PYTHON to a Python whose torch is to be used (default: .venv/bin/python), or TORCH_DIR to a torch folder.
set(TRINE_PYTHON "${CMAKE_SOURCE_DIR}/.venv/bin/python" CACHE FILEPATH "Python whose torch package is linked")
if(NOT TORCH_DIR)
  execute_process(
    COMMAND ${TRINE_PYTHON} -I -c "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
    OUTPUT_VARIABLE TORCH_DIR OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT EXISTS "${TORCH_DIR}/include/ATen/ATen.h")
  message(FATAL_ERROR "No libtorch found through ${TRINE_PYTHON}. Run tools/setup.sh, or set TORCH_DIR to a torch package folder.")
endif()
file(STRINGS "${TORCH_DIR}/version.py" version_line REGEX "^__version__")
string(REGEX REPLACE ".*'(.*)'.*" "\\1" TRINE_TORCH_VERSION "${version_line}")
message(STATUS "libtorch ${TRINE_TORCH_VERSION}")

# The wheel's include folder carries headers of another fmt (12), whose code is in no library; the one that we link comes first.
get_target_property(fmt_include fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
set(fmt_first ${CMAKE_BINARY_DIR}/fmt_first)
file(MAKE_DIRECTORY ${fmt_first})
file(CREATE_LINK ${fmt_include}/fmt ${fmt_first}/fmt SYMBOLIC)

add_library(libtorch INTERFACE IMPORTED GLOBAL)
target_include_directories(libtorch SYSTEM INTERFACE ${fmt_first})
target_include_directories(libtorch SYSTEM INTERFACE ${TORCH_DIR}/include ${TORCH_DIR}/include/torch/csrc/api/include)
target_compile_definitions(libtorch INTERFACE _GLIBCXX_USE_CXX11_ABI=1)
target_link_libraries(libtorch INTERFACE ${TORCH_DIR}/lib/libtorch_cpu.so ${TORCH_DIR}/lib/libc10.so)
set(TRINE_LIBTORCH_DIR ${TORCH_DIR}/lib)
if(EXISTS ${TORCH_DIR}/lib/libtorch_cuda.so)
  # Nothing of ours refers to its symbols; it registers the CUDA kernels when it is loaded.
  target_link_options(libtorch INTERFACE -Wl,--no-as-needed ${TORCH_DIR}/lib/libtorch_cuda.so ${TORCH_DIR}/lib/libc10_cuda.so
                      -Wl,--as-needed)
endif()
set(Libtorch_FOUND TRUE)
