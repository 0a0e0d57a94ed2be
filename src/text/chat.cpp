#include "text/chat.h"

#include "base/errors.h"

namespace trine {
namespace {

[[noreturn]] void bad(std::string_view where, size_t message, std::string_view what) {
  throw UserError("{}: messages[{}]: {}", where, message, what);
}

// A string member; an absent one or null is an empty string.
std::string text_of(const OrderedJson& object, const char* name, std::string_view where, size_t message) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return "";
  if (!found->is_string()) bad(where, message, fmt::format("\"{}\" must be a string, not {}", name, found->type_name()));
  return found->get<std::string>();
}

ToolCall tool_call_of(const OrderedJson& value, std::string_view where, size_t message) {
  const OrderedJson* call = &value;
  if (value.is_object() && value.contains("function")) call = &value["function"];
  if (!call->is_object() || !call->contains("name") || !(*call)["name"].is_string() || !call->contains("arguments")) {
    bad(where, message, "a tool call must be an object with \"name\" (a string) and \"arguments\"");
  }
  return {(*call)["name"].get<std::string>(), (*call)["arguments"]};
}

ChatMessage message_of(const OrderedJson& value, std::string_view where, size_t number) {
  if (!value.is_object()) bad(where, number, "must be an object with \"role\" and \"content\"");
  ChatMessage message;
  message.role = text_of(value, "role", where, number);
  if (message.role.empty()) bad(where, number, "\"role\" is missing");
  message.content = text_of(value, "content", where, number);
  const auto reasoning = value.find("reasoning_content");
  if (reasoning != value.end() && !reasoning->is_null()) {
    message.reasoning_content = text_of(value, "reasoning_content", where, number);
  }
  const auto calls = value.find("tool_calls");
  if (calls != value.end() && !calls->is_null()) {
    if (!calls->is_array()) bad(where, number, "\"tool_calls\" must be an array");
    for (const OrderedJson& call : *calls) message.tool_calls.push_back(tool_call_of(call, where, number));
  }
  return message;
}

}  // namespace

Chat parse_chat(std::string_view json, std::string_view where) {
  const OrderedJson root = parse_ordered_json(json, where);
  const bool bare = root.is_array();
  if (!bare && (!root.is_object() || !root.contains("messages"))) {
    throw UserError("{}: a chat is an object with \"messages\", or an array of messages", where);
  }
  const OrderedJson& messages = bare ? root : root["messages"];
  if (!messages.is_array() || messages.empty()) throw UserError("{}: \"messages\" must be an array with at least one message", where);
  Chat chat;
  for (const OrderedJson& message : messages) chat.messages.push_back(message_of(message, where, chat.messages.size()));
  if (!bare && root.contains("tools") && !root["tools"].is_null()) {
    if (!root["tools"].is_array()) throw UserError("{}: \"tools\" must be an array", where);
    chat.tools.assign(root["tools"].begin(), root["tools"].end());
  }
  return chat;
}

}  // namespace trine
