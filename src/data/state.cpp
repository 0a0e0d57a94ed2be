#include "data/state.h"

#include <nlohmann/json.hpp>

#include "base/errors.h"

namespace trine {
namespace {

constexpr int64_t kVersion = 1;

Json order_to_json(const OrderState& order) {
  return {{"epoch", order.epoch},
          {"window", order.window},
          {"file", order.window_start.file},
          {"offset", order.window_start.offset},
          {"number", order.window_start.number},
          {"taken", order.taken},
          {"epoch_documents", order.epoch_documents},
          {"num_skipped", order.num_skipped}};
}

OrderState order_from_json(const Json& json) {
  return {.epoch = json.at("epoch"),
          .window = json.at("window"),
          .window_start = {json.at("file").get<int32_t>(), json.at("offset").get<uint64_t>(), json.at("number").get<int64_t>()},
          .taken = json.at("taken"),
          .epoch_documents = json.at("epoch_documents"),
          .num_skipped = json.at("num_skipped")};
}

void check_identity(const Json& old, const Json& now) {
  std::string differences;
  for (const auto& [key, value] : now.items()) {
    const Json before = old.contains(key) ? old.at(key) : Json();
    if (before != value) differences += fmt::format("\n  {}: was {}, is {}", key, before.dump(), value.dump());
  }
  if (differences.empty()) return;
  throw UserError("the run cannot go on in its data, which is not the same as when the checkpoint was saved:{}\nBring back the old data "
                  "and settings, or start a new run from the checkpoint's weights (checkpoint.initial_load_path).",
                  differences);
}

}  // namespace

Json place_to_json(const PackState& place, int64_t num_rows, const Json& identity) {
  Json sources = Json::array();
  for (const OrderState& order : place.mix.sources) sources.push_back(order_to_json(order));
  return {{"version", kVersion},
          {"identity", identity},
          {"num_rows", num_rows},
          {"num_documents", place.mix.num_documents},
          {"tokens", place.mix.tokens},
          {"sources", std::move(sources)},
          {"offset", place.offset}};
}

SavedPlace place_from_json(const Json& state, const Json& identity, size_t num_sources) {
  try {
    const int64_t version = state.at("version");
    if (version > kVersion) {
      throw UserError("the saved place in the data has version {}; this program reads up to {}. Use the program that saved it or a newer "
                      "one.",
                      version, kVersion);
    }
    check_identity(state.at("identity"), identity);
    SavedPlace saved{.num_rows = state.at("num_rows")};
    saved.place.mix.num_documents = state.at("num_documents");
    saved.place.mix.tokens = state.at("tokens").get<std::vector<int64_t>>();
    for (const Json& order : state.at("sources")) saved.place.mix.sources.push_back(order_from_json(order));
    saved.place.offset = state.at("offset");
    if (saved.place.mix.sources.size() != num_sources || saved.place.mix.tokens.size() != num_sources) {
      throw UserError("the saved place in the data is damaged: it does not tell the place in each of the {} sources", num_sources);
    }
    return saved;
  } catch (const Json::exception& error) {
    throw UserError("the saved place in the data is damaged: {}", error.what());
  }
}

}  // namespace trine
