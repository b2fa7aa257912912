# SPDX-License-Identifier: Apache-2.0
#
# One library a folder, PRIVATE links. Headers are included as "folder/name.h".
# Each library exposes only its own folder, through build/include/<folder>/<folder>,
# a link to the source: an include of a folder that is not linked does not compile.

set(ORCH_WARNINGS
    -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wformat=2 -Wswitch-enum -Wvla
    -Wcast-qual -Wpointer-arith -Wundef -Wwrite-strings -Wnull-dereference -Wimplicit-fallthrough -Wunused-result)
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
  list(APPEND ORCH_WARNINGS -Wduplicated-cond -Wlogical-op)
endif()
set(ORCH_HARDENING -fstack-protector-strong -fstack-clash-protection -fcf-protection -fno-common
    -ftrivial-auto-var-init=zero)
if(CMAKE_C_COMPILER_ID STREQUAL "Clang" AND CMAKE_C_COMPILER_VERSION VERSION_LESS 16)
  list(APPEND ORCH_HARDENING -enable-trivial-auto-var-init-zero-knowing-it-will-be-removed-from-clang)
endif()

function(orch_compile_options target)
  target_compile_options(${target} PRIVATE -std=gnu17 ${ORCH_WARNINGS} ${ORCH_HARDENING})
  if(ORCH_SANITIZE AND NOT A_GUEST)
    target_compile_options(${target} PRIVATE -fsanitize=${ORCH_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(${target} PUBLIC -fsanitize=${ORCH_SANITIZE})
  endif()
  target_compile_definitions(${target} PRIVATE _GNU_SOURCE $<$<CONFIG:Release>:_FORTIFY_SOURCE=3>)
endfunction()

# The include directory that shows one folder and nothing else.
function(orch_folder_includes folder ret)
  set(dir ${CMAKE_BINARY_DIR}/include/${folder})
  file(MAKE_DIRECTORY ${dir})
  file(CREATE_LINK ${CMAKE_SOURCE_DIR}/${folder} ${dir}/${folder} SYMBOLIC)
  set(${ret} ${dir} PARENT_SCOPE)
endfunction()

# orch_library(orch_state FOLDER state SOURCES a.c b.c LINKS orch_base PkgConfig::SQLITE)
# GUEST: for static guests; never instrumented (a sanitizer runtime cannot be PID 1 of an empty root).
function(orch_library target)
  cmake_parse_arguments(A "GUEST" "FOLDER" "SOURCES;LINKS;PUBLIC_LINKS" ${ARGN})
  add_library(${target} STATIC ${A_SOURCES})
  orch_compile_options(${target})
  orch_folder_includes(${A_FOLDER} dir)
  target_include_directories(${target} PUBLIC ${dir})
  target_link_libraries(${target} PRIVATE ${A_LINKS} PUBLIC ${A_PUBLIC_LINKS})
endfunction()

# A guest: a static program that runs elsewhere (glibc, no shared library needed).
function(orch_guest target)
  cmake_parse_arguments(A "" "" "SOURCES;LINKS" ${ARGN})
  set(A_GUEST ON)
  add_executable(${target} ${A_SOURCES})
  orch_compile_options(${target})
  target_link_options(${target} PRIVATE -static)
  target_link_libraries(${target} PRIVATE ${A_LINKS})
  install(TARGETS ${target} DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/orch)
endfunction()

# A Criterion program: orch_test(NAME SOURCES … LINKS …). Run by tests/support/unit, which sees leaks
# and left files that Criterion does not report.
function(orch_test target)
  cmake_parse_arguments(A "" "" "SOURCES;LINKS" ${ARGN})
  add_executable(${target} ${A_SOURCES})
  orch_compile_options(${target})
  target_link_libraries(${target} PRIVATE ${A_LINKS} orch_test_support)
  add_test(NAME ${target} COMMAND ${CMAKE_SOURCE_DIR}/tests/support/unit $<TARGET_FILE:${target}>)
  set_tests_properties(${target} PROPERTIES LABELS unit TIMEOUT 120
      ENVIRONMENT "ORCH_BUILD=${CMAKE_BINARY_DIR};ORCH_SOURCE=${CMAKE_SOURCE_DIR}")
endfunction()
