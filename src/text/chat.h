// Chats as Hugging Face data sets hold them, and their rendering to the one text that a model reads: Qwen3's templates and ChatML.
//
// A folder's chat template is a program in Jinja; instead of running it we recognise it (by the hash of its normalised text) and render
// in C++, byte-equal to Transformers' apply_chat_template. A template that we do not know is refused by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace trine {

struct ToolCall {
  std::string name;
  OrderedJson arguments;  // a string is rendered as it stands, anything else as JSON
};

struct ChatMessage {
  std::string role;                              // system | user | assistant | tool
  std::string content;                           // empty for JSON null
  std::optional<std::string> reasoning_content;  // of an assistant turn
  std::vector<ToolCall> tool_calls;
};

struct Chat {
  std::vector<ChatMessage> messages;
  std::vector<OrderedJson> tools;  // function descriptions, rendered as JSON with their keys in order
};

// Reads {"messages": [...], "tools": [...]} or a bare array of messages. A tool call may be bare or wrapped as {"function": ...}.
// `where` (file:line) opens every message of a UserError.
Chat parse_chat(std::string_view json, std::string_view where);

struct ChatRenderOptions {
  bool add_generation_prompt = false;  // end with the opening of an assistant turn
  bool enable_thinking = true;         // Qwen3: false gives the generation prompt an empty think block
};

struct ByteSpan {
  size_t begin = 0, end = 0;
};

struct RenderedChat {
  std::string text;
  // What each assistant turn contributes, in order: the bytes after its role line up to and including its end-of-turn token. Reasoning
  // that the template drops from earlier turns is in neither text nor span.
  std::vector<ByteSpan> assistant;
};

class ChatTemplate {
 public:
  enum class Family { kQwen3, kQwen3Instruct, kQwen3Thinking, kChatml, kSmolLm2 };

  // The template of `folder`: chat_template.jinja, else "chat_template" of tokenizer_config.json. Throws UserError if there is none, or
  // if it is not one of those we render.
  static ChatTemplate from_folder(const std::filesystem::path& folder);
  static ChatTemplate from_text(std::string_view jinja, std::string_view where);
  explicit ChatTemplate(Family family) : family_(family) {}

  Family family() const { return family_; }
  std::string_view name() const;
  // Throws UserError for a chat that the template refuses or cannot express (no messages, say).
  RenderedChat render(const Chat& chat, const ChatRenderOptions& options = {}) const;

 private:
  Family family_;
};

}  // namespace trine
