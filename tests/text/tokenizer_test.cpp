#include "text/tokenizer.h"

#include <gmock/gmock.h>

#include "base/errors.h"
#include "tests/text/tiny_tokenizer.h"

namespace trine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string refusal(const nlohmann::ordered_json& json) {
  try {
    tokenizer_of(json);
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Tokenizer, EncodesAndDecodes) {
  const Tokenizer tokenizer = tiny_tokenizer();
  EXPECT_THAT(tokens_of(tokenizer, "the  hello 你好"), ElementsAre("the", " ", " ", "hello", " ", "你好"));
  for (const char* text : {"", "a", "the the\n\n2026 😀 你好 ½", "<|im_start|>x"}) {
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
}

TEST(Tokenizer, NormalisesBeforeMerging) {
  EXPECT_EQ(tiny_tokenizer().encode("e\u0301"), tiny_tokenizer().encode("\u00E9"));
}

// C5
TEST(Tokenizer, ReadsMergesAsPairsAndAsStrings) {
  nlohmann::ordered_json pairs = tiny_tokenizer_json(), strings = pairs;
  for (auto& merge : strings["model"]["merges"]) merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  const std::string text = "the hello aaaaaaa  你好\n\n";
  EXPECT_EQ(tokenizer_of(strings).encode(text), tokenizer_of(pairs).encode(text));
  strings["model"]["merges"][2] = "th";
  EXPECT_THAT(refusal(strings), HasSubstr("merge 2 is \"th\""));
  strings["model"]["merges"][2] = 7;
  EXPECT_THAT(refusal(strings), HasSubstr("merge 2 is neither"));
  pairs["model"]["merges"][3] = {"a", "b", "c"};
  EXPECT_THAT(refusal(pairs), HasSubstr("merge 3 is neither"));
}

TEST(Tokenizer, PairPartsMayContainSpaces) {
  nlohmann::ordered_json json = tiny_tokenizer_json();
  json["model"]["vocab"]["a b"] = 280;  // outside the byte-level alphabet: readable, never produced
  json["model"]["vocab"]["a bc"] = 281;
  json["model"]["merges"].push_back({"a b", "c"});
  EXPECT_EQ(tokenizer_of(json).encode("a bc"), tiny_tokenizer().encode("a bc"));
}

TEST(Tokenizer, RecognisesAddedTokensLeftmostLongestAndSparesSpecialOnesOnRequest) {
  nlohmann::ordered_json json = tiny_tokenizer_json();
  json["added_tokens"].push_back(json["added_tokens"][0]);
  json["added_tokens"][4]["id"] = 304;
  json["added_tokens"][4]["content"] = "<|im_start|>user";
  const Tokenizer tokenizer = tokenizer_of(json);
  EXPECT_THAT(tokens_of(tokenizer, "a<|im_start|>user<|im_start|>use<|im_"),
              ElementsAre("a", "<|im_start|>user", "<|im_start|>", "u", "s", "e", "<", "|", "i", "m", "_"));
  EXPECT_THAT(tokens_of(tokenizer, "<|im_end|><think>", {.special_as_text = true}),
              ElementsAre("<", "|", "i", "m", "_", "e", "n", "d", "|", ">", "<think>"));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("a<|im_end|><think>b"), true), "a<think>b");
}

TEST(Tokenizer, AddedTokensTakeTheWhiteSpaceTheyAreSaidToTake) {
  nlohmann::ordered_json json = tiny_tokenizer_json();
  json["added_tokens"][3]["lstrip"] = true;
  json["added_tokens"][3]["rstrip"] = true;
  EXPECT_THAT(tokens_of(tokenizer_of(json), "a \u3000<think> \n b"), ElementsAre("a", "<think>", "b"));
  json["added_tokens"][3]["single_word"] = true;
  EXPECT_THAT(refusal(json), HasSubstr("single_word"));
}

TEST(Tokenizer, NormalizedAddedTokensAreFoundInTheNormalisedText) {
  nlohmann::ordered_json json = tiny_tokenizer_json();
  json["added_tokens"][3]["content"] = "<e\u0301>";
  EXPECT_EQ(tokenizer_of(json).encode("<e\u0301>"), std::vector<int32_t>{303});
  EXPECT_GT(tokenizer_of(json).encode("<\u00E9>").size(), 1u);
  json["added_tokens"][3]["normalized"] = true;
  EXPECT_EQ(tokenizer_of(json).encode("<e\u0301>"), std::vector<int32_t>{303});
  EXPECT_EQ(tokenizer_of(json).encode("<\u00E9>"), std::vector<int32_t>{303});
}

TEST(Tokenizer, AddsWhatThePostProcessorAdds) {
  nlohmann::ordered_json json = tiny_tokenizer_json();
  const nlohmann::ordered_json single = {{{"SpecialToken", {{"id", "<|endoftext|>"}, {"type_id", 0}}}},
                                         {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}};
  const nlohmann::ordered_json special = {{"<|endoftext|>", {{"id", "<|endoftext|>"}, {"ids", {300}}, {"tokens", {"<|endoftext|>"}}}}};
  const nlohmann::ordered_json byte_level = json["post_processor"];
  const nlohmann::ordered_json around = {{"type", "TemplateProcessing"}, {"single", single}, {"special_tokens", special}};
  json["post_processor"] = {{"type", "Sequence"}, {"processors", {byte_level, around}}};
  EXPECT_EQ(tokenizer_of(json).encode("a"), (std::vector<int32_t>{300, 'a'}));
  EXPECT_EQ(tokenizer_of(json).encode("a", {.add_special_tokens = false}), std::vector<int32_t>{'a'});
  json["post_processor"]["processors"][1]["special_tokens"]["<|endoftext|>"]["ids"] = {299};
  EXPECT_THAT(refusal(json), HasSubstr("no token has id 299"));
}

// C8
TEST(Tokenizer, VocabularySizeIsTheLargestIdPlusOneOverGaps) {
  const Tokenizer tokenizer = tiny_tokenizer();
  EXPECT_EQ(tokenizer.vocab_size(), 304);
  EXPECT_FALSE(tokenizer.has_token(290));
  EXPECT_FALSE(tokenizer.has_token(304));
  EXPECT_FALSE(tokenizer.has_token(-1));
  const std::vector<int32_t> ids = {'a', 290, 319, 'b'};
  EXPECT_EQ(tokenizer.decode(ids), "ab");
  EXPECT_EQ(tokenizer.token_id("<|im_end|>"), 302);
  EXPECT_EQ(tokenizer.token_id("\u0120the"), tokenizer.encode(" the").at(0)) << "as tokenizer.json spells it";
  EXPECT_EQ(tokenizer.token_id("absent"), std::nullopt);
}

TEST(Tokenizer, ReadsTheRolesOfTokensInBothForms) {
  const nlohmann::ordered_json json = tiny_tokenizer_json();
  EXPECT_EQ(tokenizer_of(json, R"({"eos_token": "<|im_end|>", "bos_token": null})").eos_token_id(), 302);
  const Tokenizer tokenizer = tokenizer_of(json, R"({"eos_token": {"content": "<|im_end|>", "lstrip": false}, "bos_token": "<|im_start|>",
                                                     "pad_token": "<|endoftext|>"})");
  EXPECT_EQ(tokenizer.eos_token_id(), 302);
  EXPECT_EQ(tokenizer.bos_token_id(), 301);
  EXPECT_EQ(tokenizer.pad_token_id(), 300);
  EXPECT_TRUE(tokenizer.is_special(302));
  EXPECT_FALSE(tokenizer.is_special(303));
  EXPECT_THROW(tokenizer_of(json, R"({"eos_token": "</s>"})"), UserError);
  EXPECT_THROW(tokenizer_of(json, R"({"eos_token": 3})"), UserError);
}

TEST(Tokenizer, ReadsIllFormedBytesAsReplacementCharacters) {
  const Tokenizer tokenizer = tiny_tokenizer();
  EXPECT_EQ(tokenizer.encode("a\xFF\xE4\xBD!"), tokenizer.encode("a\uFFFD\uFFFD!"));
}

TEST(Tokenizer, TellsWhereEveryTokenEndsInTheTextAsGiven) {
  const Tokenizer tokenizer = tiny_tokenizer();
  std::vector<int32_t> ids;
  std::vector<int64_t> ends;
  const std::string text = "the e\u0301\xFF<|im_end|>hello";
  tokenizer.encode_with_ends(text, ids, ends);
  EXPECT_EQ(ids, tokenizer.encode(text));
  // the, " ", two bytes of é, three of U+FFFD, the added token, hello
  EXPECT_THAT(ends, ElementsAre(3, 4, 7, 7, 8, 8, 8, 18, 23));
}

TEST(Tokenizer, BatchesEqualSingleCallsForAnyNumberOfThreads) {
  const Tokenizer tokenizer = tiny_tokenizer();
  std::vector<std::string> texts;
  for (int i = 0; i < 200; ++i) texts.push_back(std::string(static_cast<size_t>(i % 7), 'a') + "the hello " + std::to_string(i));
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  for (const int64_t threads : {0, 1, 5}) {
    const auto batch = tokenizer.encode_batch(views, threads);
    ASSERT_EQ(batch.size(), texts.size());
    for (size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(batch[i], tokenizer.encode(texts[i]));
  }
}

TEST(Tokenizer, OneTextByManyThreadsGivesTheSameIds) {
  const std::string line_ends[] = {"\n", "\n\n", " \n", "\n ", "。\n", "\n\u3000", "\r\n", "<|im_end|>\n", "\n<|im_end|>", "\n\u0301"};
  std::string text;
  for (int i = 0; text.size() < 1'000'000; ++i) text += "the hello 12 你好" + line_ends[i % 10];
  nlohmann::ordered_json gpt2 = tiny_tokenizer_json();
  gpt2["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  nlohmann::ordered_json taking = tiny_tokenizer_json();
  taking["added_tokens"][2]["lstrip"] = true;
  for (const nlohmann::ordered_json& json : {tiny_tokenizer_json(), gpt2, taking}) {
    const Tokenizer tokenizer = tokenizer_of(json);
    EXPECT_EQ(tokenizer.encode_parallel(text, 4), tokenizer.encode(text));
    EXPECT_EQ(tokenizer.encode_parallel(text + "\xFF", 4), tokenizer.encode(text + "\xFF"));
  }
}

TEST(Tokenizer, AppendsToWhatIsThere) {
  const Tokenizer tokenizer = tiny_tokenizer();
  Tokenizer::Scratch scratch(tokenizer);
  std::vector<int32_t> ids = {7};
  tokenizer.encode_append("ab", scratch, ids);
  tokenizer.encode_append("c", scratch, ids);
  EXPECT_THAT(ids, ElementsAre(7, 'a', 'b', 'c'));
}

TEST(StreamDecoder, HoldsBackIncompleteCharacters) {
  const Tokenizer tokenizer = tiny_tokenizer();
  StreamDecoder decoder(tokenizer);
  EXPECT_EQ(decoder.push(0xF0), "");
  EXPECT_EQ(decoder.push(0x9F), "");
  EXPECT_EQ(decoder.push(0x98), "");
  EXPECT_EQ(decoder.push(0x80), "😀");
  EXPECT_EQ(decoder.push(0xE4), "");
  EXPECT_EQ(decoder.push('a'), "\uFFFDa");
  EXPECT_EQ(decoder.push(302), "") << "special tokens are skipped";
  EXPECT_EQ(decoder.push(0xE4), "");
  EXPECT_EQ(decoder.finish(), "\uFFFD");
}

TEST(TokenizerFile, RefusesByNameWhatItDoesNotDo) {
  const auto with = [](const char* pointer, const nlohmann::ordered_json& value) {
    nlohmann::ordered_json json = tiny_tokenizer_json();
    json[nlohmann::ordered_json::json_pointer(pointer)] = value;
    return refusal(json);
  };
  EXPECT_THAT(with("/model/type", "Unigram"), HasSubstr("\"Unigram\" is not supported"));
  EXPECT_THAT(with("/model/dropout", 0.1), HasSubstr("dropout"));
  EXPECT_THAT(with("/model/byte_fallback", true), HasSubstr("byte_fallback"));
  EXPECT_THAT(with("/model/end_of_word_suffix", "</w>"), HasSubstr("</w>"));
  EXPECT_THAT(with("/normalizer", {{"type", "NFKC"}}), HasSubstr("NFKC"));
  EXPECT_THAT(with("/pre_tokenizer", {{"type", "Whitespace"}}), HasSubstr("Whitespace"));
  EXPECT_THAT(with("/pre_tokenizer/pretokenizers/0/pattern/Regex", "\\w+"), HasSubstr("\\w+"));
  EXPECT_THAT(with("/pre_tokenizer/pretokenizers/0/behavior", "Removed"), HasSubstr("Removed"));
  EXPECT_THAT(with("/pre_tokenizer/pretokenizers/1/add_prefix_space", true), HasSubstr("add_prefix_space"));
  EXPECT_THAT(with("/post_processor", {{"type", "BertProcessing"}}), HasSubstr("BertProcessing"));
  EXPECT_THAT(with("/decoder", {{"type", "WordPiece"}}), HasSubstr("WordPiece"));
}

TEST(TokenizerFile, HostileFilesEndInAMessage) {
  const auto with = [](const char* pointer, const nlohmann::ordered_json& value) {
    nlohmann::ordered_json json = tiny_tokenizer_json();
    json[nlohmann::ordered_json::json_pointer(pointer)] = value;
    return refusal(json);
  };
  EXPECT_THAT(with("/model/vocab/zz", -1), HasSubstr("-1 is not a token id"));
  EXPECT_THAT(with("/model/vocab/zz", 4'000'000'000), HasSubstr("4000000000 is not a token id"));
  EXPECT_THAT(with("/model/vocab/zz", 1.5), HasSubstr("must be an integer"));
  EXPECT_THAT(with("/model/vocab/zz", 97), HasSubstr("id 97 belongs to both"));
  EXPECT_THAT(with("/model/vocab", nlohmann::ordered_json::array()), HasSubstr("must be an object"));
  EXPECT_THAT(with("/model/merges/0", {"t", "absent"}), HasSubstr("which the vocabulary lacks"));
  EXPECT_THAT(with("/model/merges/0", {"t", "t"}), HasSubstr("\"tt\", which the vocabulary lacks"));
  EXPECT_THAT(with("/model/merges", "x"), HasSubstr("must be an array"));
  EXPECT_THAT(with("/added_tokens/0/id", 97), HasSubstr("id 97 belongs to both"));
  EXPECT_THAT(with("/added_tokens/0/content", ""), HasSubstr("is empty"));
  EXPECT_THAT(with("/added_tokens/0/content", "<think>"), HasSubstr("given twice"));
  EXPECT_THAT(with("/added_tokens/0/content", "a"), HasSubstr("has id 300 here and id 97"));
  EXPECT_THAT(with("/added_tokens", 3), HasSubstr("must be an array"));
  EXPECT_THAT(with("/pre_tokenizer", nullptr), HasSubstr("pre_tokenizer"));
  EXPECT_THROW(Tokenizer::from_json("{", "", "x"), UserError);
  EXPECT_THROW(Tokenizer::from_json("[]", "", "x"), UserError);
  EXPECT_THROW(Tokenizer::from_json("", "", "x"), UserError);
  EXPECT_THROW(Tokenizer::from_json(R"({"model": {"vocab": {"a": 0, "a": 1}, "merges": []}})", "", "x"), UserError);
  EXPECT_THROW(Tokenizer::from_json(R"({"model": {}, "model": {}})", "", "x"), UserError);
  EXPECT_THROW(Tokenizer::from_json(std::string(100'000, '['), "", "x"), UserError);
}

TEST(TokenizerFile, ExplainsAMissingFile) {
  try {
    Tokenizer::from_folder("no/such/folder");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no tokenizer.json"));
  }
}

}  // namespace
}  // namespace trine
