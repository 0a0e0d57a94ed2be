// A chat from elsewhere and a template's text: refused with a UserError, or rendered with its spans in order and inside the text.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/errors.h"
#include "text/chat.h"
#include "text/jinja_form.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using Family = trine::ChatTemplate::Family;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  trine::jinja_form(input);
  for (const Family family : {Family::kQwen3, Family::kQwen3Instruct, Family::kQwen3Thinking, Family::kChatml, Family::kSmolLm2}) {
    try {
      const trine::RenderedChat chat = trine::ChatTemplate(family).render(trine::parse_chat(input, "fuzz"), {.add_generation_prompt = true});
      size_t previous = 0;
      for (const trine::ByteSpan& span : chat.assistant) {
        if (span.begin < previous || span.end < span.begin || span.end > chat.text.size()) std::abort();
        if (!std::string_view(chat.text).substr(span.begin, span.end - span.begin).ends_with("<|im_end|>")) std::abort();
        previous = span.end;
      }
    } catch (const trine::UserError&) {
    }
  }
  return 0;
}
