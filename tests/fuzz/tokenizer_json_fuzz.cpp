// A tokenizer.json from elsewhere, up to the first NUL byte, and after it a text: the file is refused with a UserError, or it encodes any
// text with ends in order, the same in one go and by threads.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/errors.h"
#include "base/log.h"
#include "text/tokenizer.h"

namespace trine {
namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void use(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<int32_t> ids;
  std::vector<int64_t> ends;
  tokenizer.encode_with_ends(text, ids, ends);
  require(ids == tokenizer.encode(text) && ids == tokenizer.encode_parallel(text, 2) && ids.size() == ends.size());
  int64_t previous = 0;
  for (const int64_t end : ends) {
    require(end >= previous && end <= std::ssize(text));
    previous = end;
  }
  for (const int32_t id : ids) require(tokenizer.has_token(id));
  tokenizer.encode(text, {.add_special_tokens = false, .special_as_text = true});

  StreamDecoder decoder(tokenizer, false);
  std::string streamed;
  for (const int32_t id : ids) streamed += decoder.push(id);
  streamed += decoder.finish();
  require(streamed == tokenizer.decode(ids));
}

}  // namespace
}  // namespace trine

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool quiet = (trine::log::set_level(trine::log::Level::kError), true);
  (void)quiet;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(input.find('\0'), input.size());
  const std::string_view text = input.substr(std::min(end + 1, input.size()));
  try {
    const auto tokenizer = trine::Tokenizer::from_json(input.substr(0, end), "", "fuzz");
    trine::use(tokenizer, text);
    trine::use(tokenizer, "a the hello  12 你好\r\n e\u0301\xFF<|im_end|>\n");
  } catch (const trine::UserError&) {
  }
  return 0;
}
