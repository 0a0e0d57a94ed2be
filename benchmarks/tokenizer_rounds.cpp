// Trine's side of tokenizer_bench.py: encodes a set of documents whenever it is told to, so that rounds alternate with other libraries'.
//
// tokenizer_rounds TOKENIZER_FOLDER DOCUMENTS      documents are separated by NUL bytes
//   stdin "encode N"    encodes all documents by N threads that know no word yet, prints wall and CPU seconds
//   stdin "ids FILE"    writes the ids of all documents to FILE as int32, each document followed by -1
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "base/files.h"
#include "text/tokenizer.h"

namespace {

// encode_batch keeps its threads' word caches from call to call, which would help us on text that comes again each round.
std::vector<std::vector<int32_t>> encode(const trine::Tokenizer& tokenizer, const std::vector<std::string_view>& documents,
                                         int num_threads) {
  std::vector<std::vector<int32_t>> ids(documents.size());
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    trine::Tokenizer::Scratch scratch(tokenizer);
    for (size_t i = next++; i < documents.size(); i = next++) tokenizer.encode_append(documents[i], scratch, ids[i]);
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 1; i < num_threads; ++i) threads.emplace_back(work);
    work();
  }
  return ids;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: tokenizer_rounds TOKENIZER_FOLDER DOCUMENTS\n");
    return 2;
  }
  try {
    const auto tokenizer = trine::Tokenizer::from_folder(argv[1]);
    const std::string text = trine::read_file(argv[2]);
    std::vector<std::string_view> documents;
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find('\0', begin), text.size());
      documents.push_back(std::string_view(text).substr(begin, end - begin));
      begin = end + 1;
    }
    for (std::string command, argument; std::cin >> command >> argument;) {
      if (command == "encode") {
        const auto start = std::chrono::steady_clock::now();
        const std::clock_t cpu_start = std::clock();
        encode(tokenizer, documents, std::stoi(argument));
        const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
        fmt::print("{:.6f} {:.6f}\n", seconds.count(), static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC);
      } else if (command == "ids") {
        trine::FileWriter file(argument);
        for (std::vector<int32_t>& ids : tokenizer.encode_batch(documents)) {
          ids.push_back(-1);
          file.write(std::as_bytes(std::span(ids)));
        }
        file.sync_and_close();
        fmt::print("{}\n", documents.size());
      }
      std::fflush(stdout);
    }
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
