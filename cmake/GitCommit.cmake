# Writes OUTPUT, a source file that defines trine::git_commit(), when the commit has changed. Run by the build, not by configure.
execute_process(COMMAND git -C ${SOURCE_DIR} rev-parse --short=12 HEAD OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE
                RESULT_VARIABLE failed ERROR_QUIET)
if(failed)
  set(commit "no commit")
else()
  execute_process(COMMAND git -C ${SOURCE_DIR} diff --quiet HEAD RESULT_VARIABLE changed ERROR_QUIET)
  if(changed)
    string(APPEND commit "-dirty")
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT [[#include "base/versions.h"

std::string_view trine::git_commit() { return "@commit@"; }
]] @ONLY)
