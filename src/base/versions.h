// What this program is made of: its own version and commit, and the libraries it was built with beside those it was tested with.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trine {

extern const std::string_view kTrineVersion;

// The commit that was built ("0123456789ab", with "-dirty" for changed files), or "no commit" outside a git checkout. Defined in the
// library trine_git_commit, apart from trine_base, because it changes with every commit.
std::string_view git_commit();

struct LibraryVersion {
  std::string name;
  std::string found;   // what this binary was built with
  std::string tested;  // what Trine's tests ran with
};
std::vector<LibraryVersion> library_versions();

// The parts before a local suffix agree ("2.13.0+cu126" is "2.13.0").
bool is_tested(const LibraryVersion& library);

}  // namespace trine
