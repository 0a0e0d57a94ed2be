#include "cli/tokenized_files.h"

#include <atomic>
#include <exception>
#include <thread>

#include "base/errors.h"
#include "data/lines.h"
#include "data/parquet.h"
#include "data/text_files.h"

namespace trine {
namespace {

constexpr int64_t kRecordsAtOnce = 2048;

// Documents of one record each, made by one DocumentMaker per thread.
class Makers {
 public:
  Makers(int64_t num_threads, const std::function<DocumentMaker()>& make, const RecordReader& reader) : reader_(reader) {
    for (int64_t i = 0; i < num_threads; ++i) makers_.push_back(make());
  }

  std::vector<Document> operator()(const std::vector<Record>& records) const {
    std::vector<Document> documents(records.size());
    std::vector<std::exception_ptr> failures(records.size());
    std::atomic<size_t> next = 0;
    const auto work = [&](const DocumentMaker& maker) {
      for (size_t i = next++; i < records.size(); i = next++) {
        try {
          documents[i] = maker(records[i]);
        } catch (const BadRecord& bad) {
          const std::string file = reader_.files()[static_cast<size_t>(records[i].file)].string();
          failures[i] = std::make_exception_ptr(UserError("{}:{}: {}", file, records[i].number, bad.what()));
        } catch (...) {
          failures[i] = std::current_exception();
        }
      }
    };
    {
      std::vector<std::jthread> threads;
      for (size_t i = 1; i < makers_.size(); ++i) threads.emplace_back(work, std::cref(makers_[i]));
      work(makers_[0]);
    }
    for (const std::exception_ptr& failure : failures) {
      if (failure) std::rethrow_exception(failure);
    }
    return documents;
  }

 private:
  const RecordReader& reader_;
  std::vector<DocumentMaker> makers_;
};

}  // namespace

TokenizedFacts tokenize_files(const Tokenizer& tokenizer, const SourceFiles& source, const std::string& text_field, int64_t num_threads,
                              const std::function<void(const std::vector<int32_t>&)>& take) {
  TokenizedFacts facts;
  const auto add = [&](const std::vector<int32_t>& ids) {
    ++facts.num_documents;
    facts.num_tokens += std::ssize(ids);
    take(ids);
  };
  if (source.format == Format::kText) {  // few and large: each is cut among the threads
    const auto texts = make_text_reader(source.files);
    for (Record record; texts->next(record);) {
      facts.num_bytes += std::ssize(record.bytes);
      if (!record.bytes.empty()) add(tokenizer.encode_parallel(record.bytes, num_threads));
    }
    return facts;
  }
  std::unique_ptr<RecordReader> reader;
  std::function<DocumentMaker()> make;
  if (source.format == Format::kJsonl) {
    reader = make_line_reader(source.files);
    make = [&] { return json_documents(tokenizer, text_field, std::nullopt); };
  } else if (source.format == Format::kParquet) {
    reader = make_parquet_reader(source.files, text_field);
    make = [&] { return text_documents(tokenizer, std::nullopt); };
  } else {
    throw UserError("trine tokenize: --dataset {} is not text; jsonl, text and parquet are", source.dataset);
  }
  const Makers makers(num_threads, make, *reader);
  std::vector<Record> records;
  for (bool more = true; more;) {
    records.clear();
    for (Record record; std::ssize(records) < kRecordsAtOnce && (more = reader->next(record));) {
      facts.num_bytes += std::ssize(record.bytes);
      records.push_back(std::move(record));
    }
    for (const Document& document : makers(records)) {
      if (!document.ids.empty()) add(document.ids);
    }
  }
  return facts;
}

}  // namespace trine
