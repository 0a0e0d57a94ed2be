// Several sources as one stream of documents, each with its share of the tokens.
//
// The next document comes from the source that is furthest behind its share (fewest tokens taken per weight; the first of equals), so
// that shares hold over any stretch much longer than a document, and the choice depends on nothing but what was read before.
//
// With num_epochs: sources weighted by their size drop out one by one, and every document is read num_epochs times. With weights given by
// the user, the stream ends when the first source has ended, since the shares could not be kept after that.
#pragma once

#include <vector>

#include "data/order.h"

namespace trine {

struct MixState {
  std::vector<OrderState> sources;
  std::vector<int64_t> tokens;  // taken, per source
  int64_t num_documents = 0;
  bool operator==(const MixState&) const = default;
};

// A document with its place in the whole stream.
struct StreamDocument : Document {
  int32_t source = 0;
  int64_t number = 0;  // from 0, over all sources and epochs
};

class Mix {
 public:
  // `weights`: one positive number per source. `given`: by the user, else from sizes.
  Mix(std::vector<OrderedSource> sources, std::vector<double> weights, bool given);

  std::optional<StreamDocument> next();
  MixState state() const;
  void restore(const MixState& state);
  const OrderedSource& source(int32_t index) const { return sources_.at(static_cast<size_t>(index)); }
  int64_t num_skipped() const;

 private:
  std::vector<OrderedSource> sources_;
  std::vector<double> weights_;
  bool given_;
  std::vector<int64_t> tokens_;
  std::vector<bool> ended_;
  int64_t num_documents_ = 0;
};

}  // namespace trine
