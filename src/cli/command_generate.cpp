#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/files.h"
#include "base/log.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/model_options.h"
#include "text/chat.h"
#include "train/generate.h"

namespace trine {
namespace {

struct Request {
  ModelOptions model;
  std::string prompt, chat;
  GenerateOptions generation;
  bool no_thinking = false, ignore_end = false, as_json = false;
};

std::vector<int32_t> prompt_ids(const LoadedModel& loaded, const Request& request) {
  const Tokenizer& tokenizer = loaded.require_tokenizer();
  if (request.chat.empty()) return tokenizer.encode(request.prompt);
  const Chat chat = parse_chat(read_file(request.chat), request.chat);
  const RenderedChat rendered = ChatTemplate::from_folder(loaded.files.assets)
                                    .render(chat, {.add_generation_prompt = true, .enable_thinking = !request.no_thinking});
  return tokenizer.encode(rendered.text, {.add_special_tokens = false});
}

void answer(const LoadedModel& loaded, const Request& request) {
  const Tokenizer& tokenizer = loaded.require_tokenizer();
  const std::vector<int32_t> prompt = prompt_ids(loaded, request);
  GenerateOptions options = request.generation;
  options.seed = static_cast<uint64_t>(request.model.seed);
  if (!request.ignore_end) options.end_tokens = loaded.eos_token_ids;

  StreamDecoder decoder(tokenizer);
  std::string text;
  const auto show = [&](const std::string& piece) {
    text += piece;
    if (request.as_json) return;
    fmt::print("{}", piece);
    std::fflush(stdout);
  };
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<int32_t> ids = generate(*loaded.model, prompt, options, [&](int32_t id) { show(decoder.push(id)); });
  show(decoder.finish());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const bool ended = !ids.empty() && std::ranges::find(options.end_tokens, int64_t{ids.back()}) != options.end_tokens.end();

  if (request.as_json) {
    const OrderedJson json = {{"text", text}, {"ids", ids}, {"prompt_ids", prompt}, {"stopped_by", ended ? "end token" : "length"},
                              {"seconds", seconds}, {"model", loaded.weights}};
    fmt::print("{}\n", json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace));
    return;
  }
  fmt::print("\n");
  log::info("{} tokens after a prompt of {}, {:.1f} per second; stopped by {}", ids.size(), prompt.size(),
            static_cast<double>(ids.size()) / seconds, ended ? "an end token" : "length");
}

int run(const Words& words) {
  Request request;
  SamplingOptions& sampling = request.generation.sampling;
  Arguments arguments("trine generate", "Continues a text, or answers a chat, token by token.");
  request.model.declare(arguments);
  arguments.option("--prompt", "TEXT", request.prompt, "the text to continue");
  arguments.option("--chat", "FILE", request.chat, "a JSON file with the chat to answer: {\"messages\": [...]} or its messages alone");
  arguments.option("--max-new-tokens", "N", request.generation.max_new_tokens, "tokens to generate at most");
  arguments.option("--temperature", "T", sampling.temperature, "0 takes the most likely token always (greedy); higher is more varied");
  arguments.option("--top-k", "K", sampling.top_k, "choose among the K most likely tokens; 0: all");
  arguments.option("--top-p", "P", sampling.top_p, "choose among the fewest tokens whose probabilities reach P");
  arguments.flag("--no-thinking", request.no_thinking, "with --chat: let the answer skip its reasoning (Qwen3)");
  arguments.flag("--ignore-end", request.ignore_end, "go on after an end token");
  arguments.flag("--json", request.as_json, "print text, ids and times as JSON");
  arguments.notes("The same seed, options and model give the same text. top_k and top_p need a temperature above 0.\n");
  if (!arguments.parse(words)) return 0;
  if (request.prompt.empty() == request.chat.empty()) throw UserError("trine generate: give one of --prompt TEXT and --chat FILE");
  if (request.generation.max_new_tokens < 1) throw UserError("--max-new-tokens {}: must be 1 or more", request.generation.max_new_tokens);
  sampling.check();
  if (sampling.temperature == 0 && (sampling.top_k != 0 || sampling.top_p != 1)) {
    throw UserError("--top-k and --top-p have no effect on the most likely token: give a --temperature above 0 as well");
  }
  answer(request.model.load(), request);
  return 0;
}

}  // namespace

const Command kGenerateCommand = {"generate", "continue a text or answer a chat", run};

}  // namespace trine
