// The text of a Jinja template brought to one form, so that templates which differ only in layout and spelling get the same hash.
#pragma once

#include <string>
#include <string_view>

namespace trine {

// The form keeps everything that can change what the template renders in Transformers (trim_blocks and lstrip_blocks on), and drops what
// cannot: comments, white space that is stripped or stands inside a tag, the kind of quotes, x['name'] for x.name, a sum of two literals
// for their concatenation, a printed literal for plain text.
std::string jinja_form(std::string_view source);

}  // namespace trine
