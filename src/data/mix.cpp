#include "data/mix.h"

namespace trine {

Mix::Mix(std::vector<OrderedSource> sources, std::vector<double> weights, bool given)
    : sources_(std::move(sources)), weights_(std::move(weights)), given_(given), tokens_(sources_.size()), ended_(sources_.size()) {}

std::optional<StreamDocument> Mix::next() {
  for (;;) {
    int64_t furthest_behind = -1;
    double lowest = 0;
    for (size_t i = 0; i < sources_.size(); ++i) {
      const double progress = static_cast<double>(tokens_[i]) / weights_[i];
      if (ended_[i] || (furthest_behind >= 0 && progress >= lowest)) continue;
      furthest_behind = static_cast<int64_t>(i);
      lowest = progress;
    }
    if (furthest_behind < 0) return std::nullopt;
    const size_t i = static_cast<size_t>(furthest_behind);
    if (auto document = sources_[i].next()) {
      tokens_[i] += static_cast<int64_t>(document->ids.size());
      return StreamDocument{std::move(*document), static_cast<int32_t>(i), num_documents_++};
    }
    // A source that has ended says so again when asked again, so the flags need not be part of the state.
    if (given_) ended_.assign(ended_.size(), true);
    ended_[i] = true;
  }
}

MixState Mix::state() const {
  MixState state{.tokens = tokens_, .num_documents = num_documents_};
  for (const OrderedSource& source : sources_) state.sources.push_back(source.state());
  return state;
}

void Mix::restore(const MixState& state) {
  for (size_t i = 0; i < sources_.size(); ++i) sources_[i].restore(state.sources.at(i));
  tokens_ = state.tokens;
  ended_.assign(sources_.size(), false);
  num_documents_ = state.num_documents;
}

int64_t Mix::num_skipped() const {
  int64_t total = 0;
  for (const OrderedSource& source : sources_) total += source.state().num_skipped;
  return total;
}

}  // namespace trine
