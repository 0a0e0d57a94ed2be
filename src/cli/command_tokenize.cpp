#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/errors.h"
#include "base/files.h"
#include "base/format.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/tokenized_files.h"
#include "data/shards.h"
#include "text/chat.h"
#include "text/tokenizer.h"

namespace trine {
namespace {

struct Request {
  std::string folder, file, text, chat, dataset, text_field = "text", out;
  bool ids = false, decode = false, as_json = false, special_as_text = false, generation_prompt = false, no_thinking = false;
  int64_t num_threads = 0;
};

std::string joined(const std::vector<int32_t>& ids) { return fmt::format("{}", fmt::join(ids, " ")); }

// Ids separated by white space, commas or brackets.
std::vector<int32_t> parse_ids(std::string_view text, std::string_view where) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < text.size();) {
    if (std::string_view(" \t\r\n,[]").find(text[i]) != std::string_view::npos) {
      ++i;
      continue;
    }
    int32_t id = 0;
    const auto [end, error] = std::from_chars(text.data() + i, text.data() + text.size(), id);
    if (error != std::errc() || id < 0) {
      throw UserError("{}: \"{}\" at byte {} is not a token id", where, text.substr(i, text.find_first_of(" \t\r\n,[]", i) - i), i);
    }
    ids.push_back(id);
    i = static_cast<size_t>(end - text.data());
  }
  return ids;
}

std::string dataset_of(const std::filesystem::path& file) {
  std::filesystem::path name = file.filename();
  if (name.extension() == ".gz" || name.extension() == ".zst") name.replace_extension();
  const std::string ending = name.extension().string();
  if (ending == ".jsonl" || ending == ".json" || ending == ".ndjson") return "jsonl";
  return ending == ".parquet" ? "parquet" : "text";
}

void print_facts(const Request& request, const TokenizedFacts& facts, double seconds) {
  const double bytes = static_cast<double>(facts.num_bytes);
  if (request.as_json) {
    const OrderedJson json = {{"documents", facts.num_documents}, {"bytes", facts.num_bytes},  {"tokens", facts.num_tokens},
                              {"seconds", seconds},               {"threads", request.num_threads}};
    fmt::print("{}\n", json.dump());
    return;
  }
  fmt::print("documents {:>16}\nbytes     {:>16}\ntokens    {:>16}  ({:.2f} bytes per token)\n", with_commas(facts.num_documents),
             with_commas(facts.num_bytes), with_commas(facts.num_tokens),
             facts.num_tokens > 0 ? bytes / static_cast<double>(facts.num_tokens) : 0.0);
  fmt::print("time      {:>16}  ({:.1f} MB/s by {} thread{})\n", in_duration(seconds), bytes / 1e6 / seconds, request.num_threads,
             request.num_threads == 1 ? "" : "s");
}

void tokenize_file(const Tokenizer& tokenizer, const Request& request) {
  const std::string dataset = request.dataset.empty() ? dataset_of(request.file) : request.dataset;
  const SourceFiles source = find_sources({dataset}, {request.file}, Part::kTraining).front();
  std::unique_ptr<ShardWriter> shard;
  if (!request.out.empty()) shard = std::make_unique<ShardWriter>(request.out, tokenizer.vocab_size(), tokenizer_fingerprint(tokenizer));
  const auto start = std::chrono::steady_clock::now();
  const auto take = [&](const std::vector<int32_t>& ids) {
    if (request.ids) fmt::print("{}\n", joined(ids));
    if (shard) shard->add(ids);
  };
  const TokenizedFacts facts = tokenize_files(tokenizer, source, request.text_field, request.num_threads, take);
  if (shard) shard->finish();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (!request.ids) print_facts(request, facts, seconds.count());
}

// The pieces of a text with their ids, so that a reader sees where it was cut.
void print_pieces(const Tokenizer& tokenizer, std::string_view text, const EncodeOptions& options) {
  for (const int32_t id : tokenizer.encode(text, options)) {
    const OrderedJson piece = std::string(tokenizer.token_bytes(id));
    fmt::print("{:>8}  {}\n", id, piece.dump(-1, ' ', false, OrderedJson::error_handler_t::replace));
  }
}

// One line of JSON per chat: the text that the folder's template makes of it and what of it is learned.
void render_chats(const Tokenizer& tokenizer, const Request& request) {
  const ChatTemplate chat_template = ChatTemplate::from_folder(request.folder);
  const std::string lines = read_file(request.chat);
  int64_t number = 0;
  for (size_t begin = 0; begin < lines.size();) {
    const size_t end = std::min(lines.find('\n', begin), lines.size());
    const std::string_view line = std::string_view(lines).substr(begin, end - begin);
    begin = end + 1;
    const std::string where = fmt::format("{}:{}", request.chat, ++number);
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const RenderedChat chat = chat_template.render(
        parse_chat(line, where), {.add_generation_prompt = request.generation_prompt, .enable_thinking = !request.no_thinking});
    const std::vector<int32_t> ids = tokenizer.encode(chat.text);
    if (request.ids) {
      fmt::print("{}\n", joined(ids));
      continue;
    }
    OrderedJson learned = OrderedJson::array();
    for (const ByteSpan& span : chat.assistant) learned.push_back(chat.text.substr(span.begin, span.end - span.begin));
    const OrderedJson json = {{"text", chat.text}, {"learned", learned}, {"tokens", ids.size()}};
    fmt::print("{}\n", json.dump());
  }
}

void check(const Request& request) {
  const int inputs = !request.file.empty() + !request.text.empty() + !request.chat.empty();
  if (inputs != 1) throw UserError("trine tokenize: give one of --file, --text and --chat");
  if (request.decode && !request.chat.empty()) throw UserError("trine tokenize: --decode reads ids from --file or --text");
  if (!request.out.empty() && request.file.empty()) throw UserError("trine tokenize: --to-shards needs --file");
  if (!request.out.empty() && std::filesystem::path(request.out).extension() != ".tokens") {
    throw UserError("trine tokenize: --to-shards {}: the name must end in .tokens, by which the dataset \"shards\" finds it in a folder",
                    request.out);
  }
  if (request.num_threads < 0) throw UserError("trine tokenize: --threads {}: must be 0 (all) or more", request.num_threads);
  if (request.special_as_text && request.text.empty()) throw UserError("trine tokenize: --special-as-text goes with --text");
}

int run(const Words& words) {
  Request request;
  Arguments arguments("trine tokenize", "Turns text into token ids and back, counts tokens, and writes pre-tokenised shards.");
  arguments.option("--tokenizer", "DIR", request.folder, "folder with tokenizer.json (required)");
  arguments.option("--file", "F", request.file, "a text, JSONL or Parquet file, or a folder of them with --dataset");
  arguments.option("--text", "TEXT", request.text, "a text given here; without --ids its tokens are listed one a line");
  arguments.option("--chat", "F", request.chat, "a JSONL file of chats, rendered by the folder's chat template");
  arguments.flag("--ids", request.ids, "print ids only, one line per document");
  arguments.flag("--decode", request.decode, "the input is ids; print their text");
  arguments.option("--to-shards", "OUT", request.out, "write the documents' ids to a shard OUT.tokens for the dataset \"shards\"");
  arguments.option("--dataset", "NAME", request.dataset, "jsonl, text or parquet; by default by the file's ending");
  arguments.option("--text-field", "NAME", request.text_field, "field of JSONL and Parquet that holds the text");
  arguments.option("--threads", "N", request.num_threads, "threads; 0: as many as the machine has");
  arguments.flag("--special-as-text", request.special_as_text, "read special tokens in --text as ordinary characters");
  arguments.flag("--generation-prompt", request.generation_prompt, "end each rendered chat with the opening of an answer");
  arguments.flag("--no-thinking", request.no_thinking, "with --generation-prompt: let the answer skip its reasoning (Qwen3)");
  arguments.flag("--json", request.as_json, "print the counts as JSON");
  if (!arguments.parse(words)) return 0;
  if (request.folder.empty()) throw UserError("trine tokenize: give --tokenizer DIR, a folder with tokenizer.json");
  check(request);
  if (request.num_threads == 0) request.num_threads = std::max(1u, std::thread::hardware_concurrency());

  const Tokenizer tokenizer = Tokenizer::from_folder(request.folder);
  if (request.decode) {
    const std::vector<int32_t> ids =
        request.text.empty() ? parse_ids(read_file(request.file), request.file) : parse_ids(request.text, "--text");
    fmt::print("{}", tokenizer.decode(ids));
  } else if (!request.chat.empty()) {
    render_chats(tokenizer, request);
  } else if (!request.file.empty()) {
    tokenize_file(tokenizer, request);
  } else if (request.ids) {
    fmt::print("{}\n", joined(tokenizer.encode(request.text, {.special_as_text = request.special_as_text})));
  } else {
    print_pieces(tokenizer, request.text, {.special_as_text = request.special_as_text});
  }
  return 0;
}

}  // namespace

const Command kTokenizeCommand = {"tokenize", "text to token ids and back, counts, pre-tokenised shards", run};

}  // namespace trine
