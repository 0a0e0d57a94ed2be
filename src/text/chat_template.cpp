// The known chat templates: how a folder's is recognised, and what each renders.
#include <algorithm>
#include <array>

#include "base/errors.h"
#include "base/files.h"
#include "base/hashing.h"
#include "base/log.h"
#include "text/chat.h"
#include "text/jinja_form.h"
#include "text/python_json.h"
#include "text/tokenizer.h"

namespace trine {
namespace {

using Family = ChatTemplate::Family;

constexpr std::string_view kTurn = "<|im_start|>", kTurnEnd = "<|im_end|>";
constexpr std::string_view kThink = "<think>", kThinkEnd = "</think>";
constexpr std::string_view kToolResponse = "<tool_response>", kToolResponseEnd = "</tool_response>";

struct Known {
  std::string_view form_hash;  // XXH3-128 of jinja_form(template)
  Family family;
};
constexpr auto kKnown = std::to_array<Known>({
    {"461b5defc4b0621e47933b0c793313a9", Family::kQwen3},          // as first published
    {"5a5a36d12cbc9f7b50bfb0301d7d9f96", Family::kQwen3},          // with content that need not be a string
    {"74fc495da28bf2f767105dc62c175dea", Family::kQwen3Instruct},
    {"689f988e674e98cf62bf813530fbec69", Family::kQwen3Thinking},
    {"31766ba66c944bd79cdebd96d9f5677b", Family::kSmolLm2},
    {"8e8d8643bb1d5ecdf37f726c43479780", Family::kChatml},
    {"017b00ed0e3933b56a3b3d0687d41c9f", Family::kChatml},         // with a default for add_generation_prompt
});

std::string_view strip_left(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of('\n'), text.size()));
  return text;
}
std::string_view strip_right(std::string_view text) { return text.substr(0, text.find_last_not_of('\n') + 1); }

// What a turn says aloud and what it thinks. Text up to </think> counts as reasoning where the chat does not give reasoning apart.
struct Thoughts {
  std::string_view reasoning, content;
};
Thoughts thoughts_of(const ChatMessage& message, size_t number) {
  const std::string_view content = message.content;
  const size_t first_end = content.find(kThinkEnd);
  if (message.reasoning_content) {
    if (!message.reasoning_content->empty() && first_end != std::string_view::npos) {
      throw UserError("messages[{}] has its reasoning twice: in \"reasoning_content\" and before {} in \"content\"", number, kThinkEnd);
    }
    return {*message.reasoning_content, content};
  }
  if (first_end == std::string_view::npos) return {"", content};
  std::string_view reasoning = strip_right(content.substr(0, first_end));
  const size_t begin = reasoning.rfind(kThink);
  if (begin != std::string_view::npos) reasoning.remove_prefix(begin + kThink.size());
  return {strip_left(reasoning), strip_left(content.substr(content.rfind(kThinkEnd) + kThinkEnd.size()))};
}

class Renderer {
 public:
  Renderer(Family family, const Chat& chat, const ChatRenderOptions& options) : family_(family), chat_(chat), options_(options) {}

  RenderedChat run() {
    if (chat_.messages.empty()) throw UserError("a chat needs at least one message");
    if (family_ == Family::kChatml || family_ == Family::kSmolLm2) {
      chatml();
    } else {
      qwen3();
    }
    if (options_.add_generation_prompt) generation_prompt();
    return std::move(out_);
  }

 private:
  template <class... Parts>
  void write(const Parts&... parts) {
    (out_.text.append(parts), ...);
  }
  void turn(std::string_view role, std::string_view content) { write(kTurn, role, "\n", content, kTurnEnd, "\n"); }

  // An assistant turn, whose text `content()` writes.
  template <class Content>
  void assistant_turn(Content content) {
    write(kTurn, "assistant\n");
    const size_t begin = out_.text.size();
    content();
    write(kTurnEnd);
    out_.assistant.push_back({begin, out_.text.size()});
    write("\n");
  }

  void chatml() {
    if (!chat_.tools.empty()) throw UserError("the folder's chat template ({}) cannot express tools", ChatTemplate(family_).name());
    if (family_ == Family::kSmolLm2 && chat_.messages[0].role != "system") {
      turn("system", "You are a helpful AI assistant named SmolLM, trained by Hugging Face");
    }
    for (size_t i = 0; i < chat_.messages.size(); ++i) {
      const ChatMessage& message = chat_.messages[i];
      const bool has_reasoning = message.reasoning_content && !message.reasoning_content->empty();
      if (!message.tool_calls.empty() || has_reasoning) {
        throw UserError("messages[{}]: the folder's chat template ({}) cannot express {}", i, ChatTemplate(family_).name(),
                        has_reasoning ? "reasoning_content; put the reasoning into the content" : "tool calls");
      }
      if (message.role == "assistant") {
        assistant_turn([&] { write(message.content); });
      } else {
        turn(message.role, message.content);
      }
    }
  }

  void qwen3() {
    const bool has_system = chat_.messages[0].role == "system";
    if (!chat_.tools.empty()) {
      write(kTurn, "system\n");
      if (has_system) write(chat_.messages[0].content, "\n\n");
      tools();
      write(kTurnEnd, "\n");
    } else if (has_system) {
      turn("system", chat_.messages[0].content);
    }
    const size_t last_query = last_query_index();
    for (size_t i = has_system ? 1 : 0; i < chat_.messages.size(); ++i) {
      const ChatMessage& message = chat_.messages[i];
      if (message.role == "user" || message.role == "system") {
        turn(message.role, message.content);
      } else if (message.role == "assistant") {
        assistant_turn([&] { qwen3_assistant(i, i > last_query); });
      } else if (message.role == "tool") {
        tool_response(i);
      } else {
        throw UserError("messages[{}]: role \"{}\" is unknown to the folder's chat template ({}); it knows system, user, assistant, tool",
                        i, message.role, ChatTemplate(family_).name());
      }
    }
  }

  void tools() {
    write("# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
          "You are provided with function signatures within <tools></tools> XML tags:\n<tools>");
    for (const OrderedJson& tool : chat_.tools) write("\n", python_json(tool));
    write("\n</tools>\n\nFor each function call, return a json object with function name and arguments within <tool_call></tool_call> XML "
          "tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>");
  }

  // The last user turn that is a question rather than a tool's answer in disguise. Turns after it keep their reasoning.
  size_t last_query_index() const {
    for (size_t i = chat_.messages.size(); i-- > 0;) {
      const ChatMessage& message = chat_.messages[i];
      const bool is_response = message.content.starts_with(kToolResponse) && message.content.ends_with(kToolResponseEnd);
      if (message.role == "user" && !is_response) return i;
    }
    return chat_.messages.size() - 1;
  }

  void qwen3_assistant(size_t number, bool after_query) {
    const ChatMessage& message = chat_.messages[number];
    const bool last = number + 1 == chat_.messages.size();
    Thoughts turn = {"", message.content};
    if (family_ != Family::kQwen3Instruct) turn = thoughts_of(message, number);
    if (family_ != Family::kQwen3Instruct && after_query && (last || !turn.reasoning.empty())) {
      write(kThink, "\n", strip_left(strip_right(turn.reasoning)), "\n", kThinkEnd, "\n\n", strip_left(turn.content));
    } else {
      write(turn.content);
    }
    for (size_t i = 0; i < message.tool_calls.size(); ++i) {
      if (i > 0 || !turn.content.empty()) write("\n");
      const ToolCall& call = message.tool_calls[i];
      write("<tool_call>\n{\"name\": \"", call.name, "\", \"arguments\": ");
      write(call.arguments.is_string() ? call.arguments.get<std::string>() : python_json(call.arguments));
      write("}\n</tool_call>");
    }
  }

  // Successive tool messages share one user turn.
  void tool_response(size_t number) {
    const auto is_tool = [&](size_t i) { return i < chat_.messages.size() && chat_.messages[i].role == "tool"; };
    if (number == 0 || !is_tool(number - 1)) write(kTurn, "user");
    write("\n", kToolResponse, "\n", chat_.messages[number].content, "\n", kToolResponseEnd);
    if (!is_tool(number + 1)) write(kTurnEnd, "\n");
  }

  void generation_prompt() {
    write(kTurn, "assistant\n");
    if (family_ == Family::kQwen3 && !options_.enable_thinking) write(kThink, "\n\n", kThinkEnd, "\n\n");
    if (family_ == Family::kQwen3Thinking) write(kThink, "\n");
  }

  Family family_;
  const Chat& chat_;
  const ChatRenderOptions& options_;
  RenderedChat out_;
};

// The "chat_template" of a tokenizer_config.json, or "".
std::string configured_template(const std::filesystem::path& file) {
  const Json config = read_json_file(file);
  const auto found = config.is_object() ? config.find("chat_template") : config.end();
  if (found == config.end() || found->is_null()) return "";
  if (!found->is_string()) {
    throw UserError("{}: \"chat_template\" must be one string; several named templates are not supported", file.string());
  }
  return found->get<std::string>();
}

}  // namespace

std::string_view ChatTemplate::name() const {
  switch (family_) {
    case Family::kQwen3: return "Qwen3";
    case Family::kQwen3Instruct: return "Qwen3-Instruct-2507";
    case Family::kQwen3Thinking: return "Qwen3-Thinking-2507";
    case Family::kChatml: return "ChatML";
    case Family::kSmolLm2: return "SmolLM2";
  }
  return "";
}

ChatTemplate ChatTemplate::from_text(std::string_view jinja, std::string_view where) {
  const std::string form = jinja_form(jinja);
  const std::string hash = xxh3_hex(std::as_bytes(std::span(form)));
  for (const Known& known : kKnown) {
    if (known.form_hash == hash) return ChatTemplate(known.family);
  }
  throw UserError("{}: this chat template (form {}) is not one that Trine renders. It renders those of Qwen3, Qwen3-Instruct-2507, "
                  "Qwen3-Thinking-2507 and SmolLM2, and plain ChatML", where, hash);
}

ChatTemplate ChatTemplate::from_folder(const std::filesystem::path& folder) {
  const std::filesystem::path own = folder / "chat_template.jinja", config = folder / "tokenizer_config.json";
  if (std::filesystem::exists(own)) return from_text(read_file(own), own.string());
  if (std::filesystem::exists(config)) {
    const std::string jinja = configured_template(config);
    if (!jinja.empty()) return from_text(jinja, config.string());
  }
  const Tokenizer tokenizer = Tokenizer::from_folder(folder);
  for (const std::string_view token : {kTurn, kTurnEnd, kThink, kThinkEnd}) {
    if (!tokenizer.token_id(token)) {
      throw UserError("{}: no chat template there (chat_template.jinja, or \"chat_template\" in tokenizer_config.json)", folder.string());
    }
  }
  log::info("{}: no chat template there; the tokenizer has Qwen3's turn and think tokens, so chats are rendered as Qwen3's",
            folder.string());
  return ChatTemplate(Family::kQwen3);
}

RenderedChat ChatTemplate::render(const Chat& chat, const ChatRenderOptions& options) const {
  return Renderer(family_, chat, options).run();
}

}  // namespace trine
