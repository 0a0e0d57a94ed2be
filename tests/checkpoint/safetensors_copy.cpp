// For tests/parity: what our reader and writer make of files of the safetensors library.
//
//   safetensors_copy copy IN OUT      reads IN and writes its tensors to OUT with our writer
//   safetensors_copy check FILE...    one line per file: "ok", or what is wrong with it
#include <fmt/format.h>

#include <string>
#include <vector>

#include "base/errors.h"
#include "checkpoint/safetensors_writer.h"

namespace {

using namespace trine;

void copy(const std::string& from, const std::string& to) {
  const SafetensorsFile file(from);
  std::vector<TensorDeclaration> declarations;
  for (const TensorEntry& entry : file.entries()) declarations.push_back({entry.name, entry.dtype, entry.shape});
  SafetensorsWriter writer(to, declarations, file.metadata());
  for (const TensorEntry& entry : writer.entries()) writer.write(file.data(*file.find(entry.name)));
  writer.finish();
}

std::string verdict(const std::string& path) {
  try {
    const SafetensorsFile file(path);
    return "ok";
  } catch (const UserError& e) {
    return e.what();
  }
}

}  // namespace

int main(int count, char** words) {
  const std::vector<std::string> arguments(words + 1, words + count);
  if (arguments.size() == 3 && arguments[0] == "copy") {
    copy(arguments[1], arguments[2]);
    return 0;
  }
  if (arguments.empty() || arguments[0] != "check") return 2;
  for (size_t i = 1; i < arguments.size(); ++i) fmt::print("{}\n", verdict(arguments[i]));
  return 0;
}
