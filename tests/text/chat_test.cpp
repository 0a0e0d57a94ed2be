#include "text/chat.h"

#include <gmock/gmock.h>

#include "base/errors.h"
#include "text/jinja_form.h"
#include "text/python_json.h"

namespace trine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Family = ChatTemplate::Family;

std::vector<std::string> learned(const RenderedChat& chat) {
  std::vector<std::string> out;
  for (const ByteSpan& span : chat.assistant) out.push_back(chat.text.substr(span.begin, span.end - span.begin));
  return out;
}

RenderedChat rendered(Family family, std::string_view json) { return ChatTemplate(family).render(parse_chat(json, "chats.jsonl:7")); }

template <class Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

// C10
TEST(Qwen3Chat, LearnsExactlyWhatTheAssistantSaysInTheFinalRendering) {
  const RenderedChat chat = rendered(Family::kQwen3, R"([
      {"role": "system", "content": "S"},
      {"role": "user", "content": "one"}, {"role": "assistant", "content": "first", "reasoning_content": "dropped later"},
      {"role": "user", "content": "two"}, {"role": "assistant", "content": "second", "reasoning_content": "kept"}])");
  EXPECT_EQ(chat.text,
            "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\none<|im_end|>\n<|im_start|>assistant\nfirst<|im_end|>\n"
            "<|im_start|>user\ntwo<|im_end|>\n<|im_start|>assistant\n<think>\nkept\n</think>\n\nsecond<|im_end|>\n");
  EXPECT_THAT(learned(chat), ElementsAre("first<|im_end|>", "<think>\nkept\n</think>\n\nsecond<|im_end|>"));
}

// C10
TEST(Qwen3Chat, ACompletionWithOnlyTheClosingTagGetsOneThinkBlock) {
  const RenderedChat chat = rendered(Family::kQwen3, R"([{"role": "user", "content": "q"},
      {"role": "assistant", "content": "so it is\n</think>\n\nanswer"}])");
  EXPECT_THAT(learned(chat), ElementsAre("<think>\nso it is\n</think>\n\nanswer<|im_end|>"));
}

// C10
TEST(Qwen3Chat, ReasoningGivenTwiceIsRefused) {
  const std::string message = message_of([] {
    rendered(Family::kQwen3, R"([{"role": "user", "content": "q"},
        {"role": "assistant", "content": "<think>a</think>b", "reasoning_content": "c"}])");
  });
  EXPECT_THAT(message, HasSubstr("messages[1] has its reasoning twice"));
}

TEST(Qwen3Chat, ToolAnswersShareAUserTurnAndAreNotLearned) {
  const RenderedChat chat = rendered(Family::kQwen3, R"({"tools": [{"name": "f"}], "messages": [{"role": "user", "content": "q"},
      {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1}}}]},
      {"role": "tool", "content": "1"}, {"role": "tool", "content": "2"}, {"role": "assistant", "content": "done"}]})");
  EXPECT_THAT(chat.text, HasSubstr("<tools>\n{\"name\": \"f\"}\n</tools>"));
  EXPECT_THAT(chat.text, HasSubstr("<|im_start|>user\n<tool_response>\n1\n</tool_response>\n"
                                   "<tool_response>\n2\n</tool_response><|im_end|>\n"));
  EXPECT_THAT(learned(chat), ElementsAre("<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call><|im_end|>",
                                         "<think>\n\n</think>\n\ndone<|im_end|>"));
}

TEST(Qwen3Chat, UnknownRolesAreRefused) {
  EXPECT_THAT(message_of([] { rendered(Family::kQwen3, R"([{"role": "developer", "content": "x"}])"); }), HasSubstr("role \"developer\""));
}

TEST(ChatmlChat, RefusesWhatItCannotExpress) {
  for (const char* chat : {R"({"tools": [{"name": "f"}], "messages": [{"role": "user", "content": "q"}]})",
                           R"([{"role": "assistant", "content": "a", "reasoning_content": "r"}])",
                           R"([{"role": "assistant", "content": "a", "tool_calls": [{"name": "f", "arguments": {}}]}])"}) {
    EXPECT_THAT(message_of([&] { rendered(Family::kChatml, chat); }), HasSubstr("cannot express")) << chat;
  }
}

TEST(ParseChat, NamesThePlaceOfWhatIsWrong) {
  const auto error = [](std::string_view json) { return message_of([&] { parse_chat(json, "chats.jsonl:7"); }); };
  EXPECT_THAT(error("{"), HasSubstr("chats.jsonl:7"));
  EXPECT_THAT(error("{}"), HasSubstr("\"messages\""));
  EXPECT_THAT(error("[]"), HasSubstr("at least one message"));
  EXPECT_THAT(error(R"([{"role": "user", "content": 3}])"), HasSubstr("messages[0]: \"content\" must be a string"));
  EXPECT_THAT(error(R"([{"role": "user", "content": "a"}, {"content": "b"}])"), HasSubstr("messages[1]: \"role\" is missing"));
  EXPECT_THAT(error(R"([{"role": "user", "content": [{"type": "text", "text": "a"}]}])"), HasSubstr("not array"));
  EXPECT_THAT(error(R"([{"role": "assistant", "tool_calls": [{"name": "f"}]}])"), HasSubstr("tool call"));
  EXPECT_THAT(error(R"({"messages": [{"role": "user"}], "tools": {"a": 1}})"), HasSubstr("\"tools\" must be an array"));
  EXPECT_THAT(error(R"([{"role": "assistant", "tool_calls": [{"name": "f", "arguments": 36893488147419103232}]}])"), HasSubstr("64 bits"));
}

TEST(ChatTemplate, AnotherTemplateIsRefusedWithWhatIsSupported) {
  const std::string message =
      message_of([] { ChatTemplate::from_text("{% for m in messages %}{{ m }}{% endfor %}", "folder/chat_template.jinja"); });
  EXPECT_THAT(message, HasSubstr("folder/chat_template.jinja"));
  EXPECT_THAT(message, HasSubstr("Qwen3-Instruct-2507"));
}

TEST(JinjaForm, IsTheSameForOtherLayoutsOfOneTemplateOnly) {
  const std::string form = jinja_form("{% if a %}{{ 'x' + a['b'] }}{% endif %}");
  EXPECT_EQ(jinja_form("{%-  if  a -%}\n  {{- \"x\" +\n a.b }}\n{%- endif %}\n"), form);
  EXPECT_EQ(jinja_form("{# note #}{% if a %}\n{{ 'x'+a[ 'b' ] }}{% endif %}"), form) << "a newline after a tag is dropped";
  EXPECT_NE(jinja_form("{% if a %} {{ 'x' + a['b'] }}{% endif %}"), form);
  EXPECT_NE(jinja_form("{% if a %}{{ 'x ' + a['b'] }}{% endif %}"), form);
  EXPECT_NE(jinja_form("{% if a %}{{ 'x' + a['b'] }}\n{% endif %}"), form) << "a newline after a value is printed";
  EXPECT_NE(jinja_form("{% if a %}{{ 'x' + a[b] }}{% endif %}"), form);
  EXPECT_EQ(jinja_form("{{ 'a' + 'b\\n' }}c"), jinja_form("ab\nc"));
  EXPECT_NE(jinja_form("{{ 'a' + 'b '|trim }}"), jinja_form("{{ 'ab '|trim }}"));
  EXPECT_EQ(jinja_form("{{ 'a ' }}{%- if b %}{% endif %}"), jinja_form("{{ 'a ' }}{% if b %}{% endif %}")) << "literals are not stripped";
  for (const char* broken : {"{{", "{% if", "{# x", "{{ 'a", "{{ '\\", "}}", "{%-", "{{-}}"}) jinja_form(broken);
}

// Expected texts are those of Python's json.dumps(ensure_ascii=False).
TEST(PythonJson, WritesNumbersAndTextAsPythonDoes) {
  const auto again = [](std::string_view json) { return python_json(parse_ordered_json(json, "test")); };
  EXPECT_EQ(again(R"({"b":1,"a":[true,null,"é\"\\\n\u0001\u007f"]})"), "{\"b\": 1, \"a\": [true, null, \"é\\\"\\\\\\n\\u0001\x7f\"]}");
  EXPECT_EQ(again("[1.0, 0.1, 1e15, 1e16, 123456789.125, 1e-4, 1e-5, -2.5e-07, 1e22, 5e-324, -0.0, 1.7976931348623157e308]"),
            "[1.0, 0.1, 1000000000000000.0, 1e+16, 123456789.125, 0.0001, 1e-05, -2.5e-07, 1e+22, 5e-324, -0.0, 1.7976931348623157e+308]");
  EXPECT_EQ(again("[18446744073709551615, -9223372036854775808]"), "[18446744073709551615, -9223372036854775808]");
  EXPECT_EQ(again("[[], {}]"), "[[], {}]");
}

}  // namespace
}  // namespace trine
