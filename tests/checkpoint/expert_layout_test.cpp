// cases.md B14: experts stored fused, in both layouts, against the definition of the layouts element by element.
#include "checkpoint/expert_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/hf_folder.h"
#include "tests/checkpoint/test_files.h"

namespace trine {
namespace {

using test::TemporaryPlace;
using test::user_error;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// The experts of one layer: every element has a value of its own, by (projection, expert, row, column) of its published matrix.
struct LayerOfExperts {
  int64_t num_experts = 3, intermediate = 2, hidden = 5;
  StoredDtype dtype = StoredDtype::kI32;
  std::string layer = "model.layers.0";

  std::string experts() const { return layer + ".mlp.experts"; }
  int64_t rows(int projection) const { return projection == 2 ? hidden : intermediate; }
  int64_t columns(int projection) const { return projection == 2 ? intermediate : hidden; }
  int64_t value(int projection, int64_t expert, int64_t row, int64_t column) const {
    return ((projection * num_experts + expert) * rows(projection) + row) * columns(projection) + column;
  }
};

struct ValueTensor {
  std::string name;
  std::vector<int64_t> shape, values;
};

std::vector<ValueTensor> separate(const LayerOfExperts& a) {
  std::vector<ValueTensor> tensors;
  for (int64_t expert = 0; expert < a.num_experts; ++expert) {
    for (const int projection : {0, 1, 2}) {
      const char* names[] = {"gate_proj", "up_proj", "down_proj"};
      const int64_t rows = a.rows(projection), columns = a.columns(projection);
      ValueTensor tensor{fmt::format("{}.{}.{}.weight", a.experts(), expert, names[projection]), {rows, columns}, {}};
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t column = 0; column < columns; ++column) tensor.values.push_back(a.value(projection, expert, row, column));
      }
      tensors.push_back(std::move(tensor));
    }
  }
  return tensors;
}

std::vector<ValueTensor> plain(const LayerOfExperts& a) {
  ValueTensor gate_up{a.experts() + ".gate_up_proj", {a.num_experts, 2 * a.intermediate, a.hidden}, {}};
  ValueTensor down{a.experts() + ".down_proj", {a.num_experts, a.hidden, a.intermediate}, {}};
  for (int64_t e = 0; e < a.num_experts; ++e) {
    for (int64_t j = 0; j < 2 * a.intermediate; ++j) {
      for (int64_t h = 0; h < a.hidden; ++h) gate_up.values.push_back(a.value(j >= a.intermediate, e, j % a.intermediate, h));
    }
    for (int64_t h = 0; h < a.hidden; ++h) {
      for (int64_t i = 0; i < a.intermediate; ++i) down.values.push_back(a.value(2, e, h, i));
    }
  }
  return {down, gate_up};
}

std::vector<ValueTensor> transposed(const LayerOfExperts& a) {
  ValueTensor gate_up{a.experts() + ".gate_up_proj", {a.num_experts, a.hidden, 2 * a.intermediate}, {}};
  ValueTensor down{a.experts() + ".down_proj", {a.num_experts, a.intermediate, a.hidden}, {}};
  for (int64_t e = 0; e < a.num_experts; ++e) {
    for (int64_t h = 0; h < a.hidden; ++h) {
      for (int64_t j = 0; j < 2 * a.intermediate; ++j) gate_up.values.push_back(a.value(j >= a.intermediate, e, j % a.intermediate, h));
    }
    for (int64_t i = 0; i < a.intermediate; ++i) {
      for (int64_t h = 0; h < a.hidden; ++h) down.values.push_back(a.value(2, e, h, i));
    }
  }
  return {gate_up, down};
}

size_t width_of(StoredDtype dtype) { return static_cast<size_t>(dtype_bits(dtype) / 8); }

// The low bytes of every value, as elements of `dtype`.
void write_values(const std::filesystem::path& file, const std::vector<ValueTensor>& tensors, StoredDtype dtype) {
  std::vector<TensorDeclaration> declarations;
  for (const ValueTensor& tensor : tensors) declarations.push_back({tensor.name, dtype, tensor.shape});
  SafetensorsWriter writer(file, declarations);
  for (const ValueTensor& tensor : tensors) {
    std::vector<std::byte> bytes(tensor.values.size() * width_of(dtype));
    for (size_t i = 0; i < tensor.values.size(); ++i) std::memcpy(bytes.data() + i * width_of(dtype), &tensor.values[i], width_of(dtype));
    writer.write(bytes);
  }
  writer.finish();
}

// Hands out the elements of another source a few at a time, as one that is put together from pieces may.
class InPieces : public WeightSource {
 public:
  InPieces(std::unique_ptr<WeightSource> whole, int64_t at_once) : whole_(std::move(whole)), at_once_(at_once) {}
  std::string description() const override { return whole_->description(); }
  const std::vector<StoredTensor>& tensors() const override { return whole_->tensors(); }
  const std::vector<std::string>& notes() const override { return whole_->notes(); }
  void visit(const StoredTensor& tensor, int64_t first, int64_t last, const Take& take) const override {
    for (; first < last; first += at_once_) whole_->visit(tensor, first, std::min(first + at_once_, last), take);
  }

 private:
  std::unique_ptr<WeightSource> whole_;
  int64_t at_once_;
};

// Elements [first, last), whose pieces must follow each other.
std::vector<int64_t> read(const WeightSource& source, const StoredTensor& tensor, int64_t first, int64_t last) {
  std::vector<int64_t> values;
  const size_t width = width_of(tensor.dtype);
  source.visit(tensor, first, last, [&](int64_t at, std::span<const std::byte> bytes) {
    EXPECT_EQ(at, first + static_cast<int64_t>(values.size()));
    for (size_t i = 0; i < bytes.size(); i += width) {
      int64_t value = 0;
      std::memcpy(&value, bytes.data() + i, width);
      values.push_back(value);
    }
  });
  return values;
}

struct ExpertLayout : testing::Test {
  LayerOfExperts layer;
  TemporaryPlace place;

  std::unique_ptr<WeightSource> opened(const std::vector<ValueTensor>& tensors) {
    write_values(place / "model.safetensors", tensors, layer.dtype);
    return open_weights(place.path());
  }
  std::string refusal(const std::vector<ValueTensor>& tensors) {
    return user_error([&] { opened(tensors); });
  }
  // Every range of every matrix.
  void expect_published(const WeightSource& source) {
    const std::vector<ValueTensor> published = separate(layer);
    EXPECT_EQ(source.tensors().size(), published.size());
    for (const ValueTensor& expected : published) {
      const StoredTensor* tensor = source.find(expected.name);
      ASSERT_TRUE(tensor) << expected.name;
      EXPECT_EQ(tensor->shape, expected.shape);
      EXPECT_EQ(tensor->dtype, layer.dtype);
      const auto count = static_cast<int64_t>(expected.values.size());
      for (int64_t first = 0; first <= count; ++first) {
        for (int64_t last = first; last <= count; ++last) {
          const std::vector<int64_t> part(expected.values.begin() + first, expected.values.begin() + last);
          ASSERT_EQ(read(source, *tensor, first, last), part) << expected.name << " " << first << " to " << last;
        }
      }
    }
  }
};

TEST_F(ExpertLayout, PlainTensorsAreShownPerExpertAndReadInPlace) {
  const auto source = opened(plain(layer));
  expect_published(*source);
  EXPECT_THAT(source->notes(),
              ElementsAre(AllOf(HasSubstr("1 layer (model.layers.0.mlp.experts)"),
                                HasSubstr("gate_up_proj [experts, 2 * intermediate, hidden]"), Not(HasSubstr("transposed")))));
  const auto& files = dynamic_cast<const HfWeights&>(source->stored());
  const StoredTensor& up = *source->find("model.layers.0.mlp.experts.1.up_proj.weight");
  EXPECT_EQ(up.where, (place / "model.safetensors").string());
  source->visit(up, 0, 10, [&](int64_t, std::span<const std::byte> bytes) {
    EXPECT_EQ(bytes.data(), files.bytes(*files.find("model.layers.0.mlp.experts.gate_up_proj")).data() + (1 * 4 + 2) * 5 * sizeof(int32_t));
  });
}

TEST_F(ExpertLayout, TransposedTensorsAreShownPerExpertInOrder) {
  const auto source = opened(transposed(layer));
  expect_published(*source);
  EXPECT_THAT(source->notes(), ElementsAre(HasSubstr("transposed as gate_up_proj [experts, hidden, 2 * intermediate]")));
}

TEST_F(ExpertLayout, ElementsOfEveryWidthAreMovedWhole) {
  for (const StoredDtype dtype : {StoredDtype::kU8, StoredDtype::kBF16, StoredDtype::kF32, StoredDtype::kF64}) {
    layer.dtype = dtype;
    expect_published(*opened(transposed(layer)));
    expect_published(*opened(plain(layer)));
  }
}

TEST_F(ExpertLayout, OneColumnOrRowIsEnoughForAMatrix) {
  layer.intermediate = 1;
  expect_published(*opened(transposed(layer)));
  expect_published(*opened(plain(layer)));
  layer.intermediate = 3, layer.hidden = 1;
  expect_published(*opened(transposed(layer)));
  expect_published(*opened(plain(layer)));
}

TEST_F(ExpertLayout, PiecesOfTheStoredTensorMayEndAnywhere) {
  for (const auto& tensors : {plain(layer), transposed(layer)}) {
    write_values(place / "model.safetensors", tensors, layer.dtype);
    for (const int64_t at_once : {1, 3, 7}) {
      std::unique_ptr<WeightSource> pieces = std::make_unique<InPieces>(std::make_unique<HfWeights>(place.path()), at_once);
      expect_published(*split_fused_experts(std::move(pieces)));
    }
  }
}

TEST_F(ExpertLayout, AMatrixLargerThanABlockArrivesWhole) {
  layer.num_experts = 1, layer.intermediate = 2100, layer.hidden = 2500;
  const auto source = opened(transposed(layer));
  for (const ValueTensor& expected : separate(layer)) {
    const auto count = static_cast<int64_t>(expected.values.size());
    EXPECT_TRUE(read(*source, *source->find(expected.name), 0, count) == expected.values) << expected.name;
    const std::vector<int64_t> most(expected.values.begin() + 1234, expected.values.end() - 4321);
    EXPECT_TRUE(read(*source, *source->find(expected.name), 1234, count - 4321) == most) << expected.name;
  }
}

TEST_F(ExpertLayout, LayersMayDifferAndOtherTensorsStayAsTheyWere) {
  std::vector<ValueTensor> tensors = {{"model.norm.weight", {5}, {1, 2, 3, 4, 5}}};
  for (const auto& [name, form] : {std::pair("model.layers.0", &plain), {"model.layers.1", &separate}, {"model.layers.2", &transposed}}) {
    layer.layer = name;
    for (ValueTensor& tensor : form(layer)) tensors.push_back(std::move(tensor));
  }
  const auto source = opened(tensors);
  EXPECT_EQ(source->tensors().size(), 1u + 3 * 9);
  EXPECT_THAT(read(*source, *source->find("model.norm.weight"), 1, 4), ElementsAre(2, 3, 4));
  for (const char* name : {"model.layers.0", "model.layers.1", "model.layers.2"}) {
    layer.layer = name;
    for (const ValueTensor& expected : separate(layer)) {
      EXPECT_EQ(read(*source, *source->find(expected.name), 0, static_cast<int64_t>(expected.values.size())), expected.values);
    }
  }
  EXPECT_EQ(source->notes().size(), 2u);
}

TEST_F(ExpertLayout, FilesWithoutFusedExpertsAreNotTouched) {
  const auto source = opened(separate(layer));
  EXPECT_TRUE(dynamic_cast<const HfWeights*>(source.get()));
  EXPECT_THAT(source->notes(), IsEmpty());
}

TEST_F(ExpertLayout, BothFormsInOneLayerAreRefusedByName) {
  std::vector<ValueTensor> both = plain(layer);
  both.push_back(separate(layer)[4]);
  const auto is_named = HasSubstr("model.layers.0.mlp.experts.1.up_proj.weight");
  EXPECT_THAT(refusal(both), AllOf(HasSubstr("model.layers.0.mlp.experts.gate_up_proj"), is_named));
  both.erase(both.begin() + 1);  // gate_up_proj, so that nothing is there twice
  EXPECT_THAT(refusal(both), AllOf(HasSubstr("model.layers.0.mlp.experts.down_proj"), is_named));
}

TEST_F(ExpertLayout, OneFusedTensorWithoutTheOtherIsRefused) {
  EXPECT_THAT(refusal({plain(layer)[1]}),
              AllOf(HasSubstr("there is model.layers.0.mlp.experts.gate_up_proj"), HasSubstr("no model.layers.0.mlp.experts.down_proj")));
  EXPECT_THAT(refusal({plain(layer)[0]}), HasSubstr("no model.layers.0.mlp.experts.gate_up_proj"));
}

TEST_F(ExpertLayout, ShapesThatFitNoLayoutAreRefusedWithBothShapes) {
  const auto with_down = [&](std::vector<int64_t> shape) {
    std::vector<ValueTensor> tensors = plain(layer);
    tensors[0].values.resize(static_cast<size_t>(element_count(shape)));
    tensors[0].shape = std::move(shape);
    return refusal(tensors);
  };
  EXPECT_THAT(with_down({3, 2, 5}), AllOf(HasSubstr("gate_up_proj [3, 4, 5]"), HasSubstr("down_proj [3, 2, 5]"), HasSubstr("do not fit")));
  EXPECT_THAT(with_down({3, 5, 3}), HasSubstr("do not fit"));
  EXPECT_THAT(with_down({2, 5, 2}), HasSubstr("do not fit"));  // another number of experts
  EXPECT_THAT(with_down({3, 10}), AllOf(HasSubstr("down_proj [3, 10]"), HasSubstr("three dimensions")));
  EXPECT_THAT(with_down({3, 0, 2}), HasSubstr("down_proj [3, 0, 2]"));
}

TEST_F(ExpertLayout, TheRouterAndNormsOfTheLayerMustAgree) {
  const auto beside = [&](std::string name, std::vector<int64_t> shape) {
    std::vector<ValueTensor> tensors = plain(layer);
    const auto count = static_cast<size_t>(element_count(shape));
    tensors.push_back({std::move(name), std::move(shape), std::vector<int64_t>(count)});
    return refusal(tensors);
  };
  EXPECT_EQ(beside("model.layers.0.mlp.gate.weight", {3, 5}), "");
  EXPECT_THAT(beside("model.layers.0.mlp.gate.weight", {3, 4}), AllOf(HasSubstr("hidden size 5"), HasSubstr("mlp.gate.weight [3, 4]")));
  EXPECT_THAT(beside("model.layers.0.mlp.gate.weight", {4, 5}), AllOf(HasSubstr("hold 3 experts"), HasSubstr("chooses among 4")));
  EXPECT_EQ(beside("model.layers.0.input_layernorm.weight", {5}), "");
  EXPECT_THAT(beside("model.layers.0.input_layernorm.weight", {4}), HasSubstr("input_layernorm.weight [4]"));
  EXPECT_EQ(beside("model.layers.1.input_layernorm.weight", {4}), "");  // of another layer
}

TEST_F(ExpertLayout, ASquareMatrixIsTakenAsPlainBesideAPlainOneAndRefusedBesideATransposedOne) {
  layer.intermediate = 2, layer.hidden = 4;  // gate_up_proj is [3, 4, 4]
  expect_published(*opened(plain(layer)));
  EXPECT_THAT(refusal(transposed(layer)),
              AllOf(HasSubstr("down_proj [3, 2, 4] is stored transposed"), HasSubstr("gate_up_proj [3, 4, 4] is too cannot be seen")));
  layer.intermediate = 4;  // down_proj is [3, 4, 4]
  expect_published(*opened(plain(layer)));
  EXPECT_THAT(refusal(transposed(layer)),
              AllOf(HasSubstr("gate_up_proj [3, 4, 8] is stored transposed"), HasSubstr("down_proj [3, 4, 4] is too cannot be seen")));
}

TEST_F(ExpertLayout, ElementsSmallerThanAByteAreRefused) {
  const std::string header =
      R"({"a.experts.gate_up_proj":{"dtype":"F4","shape":[1,4,3],"data_offsets":[0,6]},)"
      R"("a.experts.down_proj":{"dtype":"F4","shape":[1,3,2],"data_offsets":[6,9]}})";
  test::write_text(place / "model.safetensors", test::raw_safetensors(header, 9));
  EXPECT_THAT(user_error([&] { open_weights(place.path()); }), AllOf(HasSubstr("a.experts.gate_up_proj"), HasSubstr("F4")));
}

}  // namespace
}  // namespace trine
