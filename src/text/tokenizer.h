// Text to token ids and back, from a Hugging Face folder's tokenizer.json: byte-level BPE as Qwen2/3, Llama 3 and GPT-2 descendants
// use it. Ids equal those of the `tokenizers` library; anything in the file that we do not do exactly so is refused by name.
//
// Invalid UTF-8 in the text: every maximal ill-formed part (Unicode 15.0, section 3.9, U+FFFD substitution) is read as one U+FFFD.
// Copies of a Tokenizer share their tables. All const methods may be called from several threads at once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trine {

struct EncodeOptions {
  bool add_special_tokens = true;  // the begin (or end) tokens that the file's post-processor adds; Qwen3 and SmolLM2 have none
  bool special_as_text = false;    // "<|im_end|>" in the text is ten ordinary characters; added tokens that are not special stay tokens
};

class Tokenizer {
 public:
  struct Tables;
  // Buffers and the word cache of one encoding thread. Use one per thread, with one Tokenizer.
  class Scratch {
   public:
    explicit Scratch(const Tokenizer& tokenizer);
    Scratch(Scratch&&) noexcept;
    Scratch& operator=(Scratch&&) noexcept;
    ~Scratch();
    struct State;
    State& state() { return *state_; }

   private:
    std::unique_ptr<State> state_;
  };

  // Reads `folder`/tokenizer.json and, if there, tokenizer_config.json (end, begin and padding tokens). Throws UserError naming the
  // file and the part of it that is missing, malformed or not supported.
  static Tokenizer from_folder(const std::filesystem::path& folder);
  static Tokenizer from_file(const std::filesystem::path& tokenizer_json);
  // From the text of a tokenizer.json, and of a tokenizer_config.json or "". `where` opens every message.
  static Tokenizer from_json(std::string_view tokenizer_json, std::string_view config_json, std::string_view where);

  std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options = {}) const;
  // Appends the ids of `text` to `ids`.
  void encode_append(std::string_view text, Scratch& scratch, std::vector<int32_t>& ids, const EncodeOptions& options = {}) const;
  // Also appends to `ends`, for every id, the byte of `text` at which the token ends (a token that the post-processor adds ends where
  // it stands). Where normalisation changes text, tokens within a changed stretch end with the stretch.
  void encode_with_ends(std::string_view text, std::vector<int32_t>& ids, std::vector<int64_t>& ends,
                        const EncodeOptions& options = {}) const;
  // The ids of every text, by `num_threads` threads (0: as many as the machine has).
  std::vector<std::vector<int32_t>> encode_batch(std::span<const std::string_view> texts, int64_t num_threads = 0,
                                                 const EncodeOptions& options = {}) const;
  // One text by several threads: cut at line ends over which no token can reach, so that the ids are those of encode().
  std::vector<int32_t> encode_parallel(std::string_view text, int64_t num_threads = 0, const EncodeOptions& options = {}) const;

  // The text of the ids; bytes that are not valid UTF-8 become U+FFFD. Ids without a token (gaps, padded rows) give nothing.
  std::string decode(std::span<const int32_t> ids, bool skip_special = false) const;

  int64_t vocab_size() const;                                      // largest id + 1, added tokens included; there may be gaps below
  std::optional<int32_t> token_id(std::string_view token) const;   // of a token as tokenizer.json spells it
  std::string_view token_bytes(int32_t id) const;                  // the bytes that a token stands for; empty for an id without token
  bool has_token(int32_t id) const;
  bool is_special(int32_t id) const;                               // an added token marked as special
  std::optional<int32_t> eos_token_id() const;                     // from tokenizer_config.json
  std::optional<int32_t> bos_token_id() const;
  std::optional<int32_t> pad_token_id() const;

 private:
  explicit Tokenizer(std::shared_ptr<const Tables> tables) : tables_(std::move(tables)) {}
  std::shared_ptr<const Tables> tables_;
};

// Decodes ids one by one, as generation yields them, and holds back the bytes of a character that is not complete yet.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, bool skip_special = true) : tokenizer_(tokenizer), skip_special_(skip_special) {}
  std::string push(int32_t id);  // the text that became complete
  std::string finish();          // what is left, ill-formed bytes as U+FFFD

 private:
  Tokenizer tokenizer_;
  bool skip_special_;
  std::string held_;
};

}  // namespace trine
