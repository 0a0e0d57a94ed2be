#include "text/added_tokens.h"

#include <algorithm>

#include "text/unicode.h"

namespace trine {
namespace {

// Where the white space that ends at `place` begins, looking back to `from`.
size_t white_space_begin(std::string_view text, size_t from, size_t place) {
  while (place > from) {
    size_t previous = place - 1;
    while (previous > from && is_utf8_continuation(static_cast<unsigned char>(text[previous]))) --previous;
    const char* p = text.data() + previous;
    if (!is_white_space(decode_utf8(p))) break;
    place = previous;
  }
  return place;
}

size_t white_space_end(std::string_view text, size_t place) {
  while (place < text.size()) {
    const char* p = text.data() + place;
    if (!is_white_space(decode_utf8(p))) break;
    place = static_cast<size_t>(p - text.data());
  }
  return place;
}

}  // namespace

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::sort(tokens_.begin(), tokens_.end(), [](const AddedToken& a, const AddedToken& b) { return a.content < b.content; });
  for (const AddedToken& token : tokens_) begins_[static_cast<unsigned char>(token.content[0])] = true;
  if (!tokens_.empty() && tokens_.front().content[0] == tokens_.back().content[0]) only_first_ = tokens_.front().content[0];
}

// Narrows the sorted tokens byte by byte to those that begin as the text does; the last one met in full is the longest.
const AddedToken* AddedTokenFinder::longest_at(std::string_view text, size_t place) const {
  auto first = tokens_.begin(), last = tokens_.end();
  const AddedToken* longest = nullptr;
  for (size_t depth = 0; first != last && place + depth < text.size(); ++depth) {
    const auto byte = static_cast<unsigned char>(text[place + depth]);
    const auto byte_of = [&](const AddedToken& token) { return static_cast<unsigned char>(token.content[depth]); };
    if (first->content.size() == depth) ++first;  // the one that ended here sorts first
    first = std::partition_point(first, last, [&](const AddedToken& token) { return byte_of(token) < byte; });
    last = std::partition_point(first, last, [&](const AddedToken& token) { return byte_of(token) == byte; });
    if (first != last && first->content.size() == depth + 1) longest = &*first;
  }
  return longest;
}

std::optional<AddedTokenFinder::Match> AddedTokenFinder::find(std::string_view text, size_t from, bool skip_special) const {
  if (tokens_.empty()) return std::nullopt;
  for (size_t place = from; place < text.size(); ++place) {
    if (only_first_) {
      place = text.find(*only_first_, place);
      if (place == std::string_view::npos) break;
    } else if (!begins_[static_cast<unsigned char>(text[place])]) {
      continue;
    }
    const AddedToken* token = longest_at(text, place);
    if (!token) continue;
    const size_t end = place + token->content.size();
    if (skip_special && token->special) {
      place = end - 1;
      continue;
    }
    return Match{token, token->lstrip ? white_space_begin(text, from, place) : place, token->rstrip ? white_space_end(text, end) : end};
  }
  return std::nullopt;
}

}  // namespace trine
