#include "data/importers/classics.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "data/chapters.h"
#include "data/documents.h"
#include "data/importers/gutenberg.h"
#include "data/importers/r_lazy_load.h"
#include "support/atomic_file.h"
#include "support/error.h"
#include "support/hash.h"
#include "support/log.h"

namespace heddle {

namespace fs = std::filesystem;

namespace {

constexpr const char* kAusten = "usr/lib/R/site-library/janeaustenr/data/Rdata.rdb";
constexpr const char* kStem = "liblingua-stem-perl";
constexpr const char* kPoe = "usr/share/doc/liblingua-stem-perl/examples/collected_works_poe.txt";
constexpr const char* kFinn = "usr/share/doc/liblingua-stem-perl/examples/huckfinn.txt";
constexpr const char* kHolmes = "usr/share/gocode/src/github.com/jdkato/prose/testdata/sherlock.txt";
constexpr const char* kMoby = "usr/share/gocode/src/github.com/colinmarc/hdfs/testdata/mobydick.txt";
constexpr const char* kOpticks = "usr/share/gocode/src/github.com/andybalholm/brotli/testdata/Isaac.Newton-Opticks.txt";

ClassicBook austen(const char* source, int object, Part part, const char* hash) {
  return {source, "r-cran-janeaustenr", "1.0.0-1", kAusten, object, false, false, false, part, hash};
}

std::string file_of(Part part) {
  return part == Part::kOther ? "other_author.jsonl" : fmt::format("{}.jsonl", part_name(part));
}

}  // namespace

const std::vector<ClassicBook>& classic_books() {
  static const std::vector<ClassicBook> books = {
      austen("Jane Austen, Emma", 0, Part::kTrain, "e3b71f7f978c5c7877aa47ca2c7adf2d"),
      austen("Jane Austen, Mansfield Park", 1, Part::kTrain, "011a346a55815b1c4173ee78066e8b39"),
      austen("Jane Austen, Northanger Abbey", 2, Part::kTrain, "1be6bc95952c287b457bb42f2a41fe01"),
      austen("Jane Austen, Persuasion", 3, Part::kValidation, "c7158064964ec5d8f60482eb5c91c3e5"),
      austen("Jane Austen, Pride and Prejudice", 4, Part::kTrain, "f54c568d4bbf79321d91f151260937a4"),
      austen("Jane Austen, Sense and Sensibility", 5, Part::kTrain, "5200aabffaa8f958deff9b3b29a78032"),
      {"Edgar Allan Poe, Works", kStem, "2.31-1", kPoe, -1, true, false, true, Part::kTrain,
       "d89f6cdd6adcf7034a50cecb54723ff9"},
      {"Mark Twain, Huckleberry Finn", kStem, "2.31-1", kFinn, -1, false, true, false, Part::kTrain,
       "3870c13a20e82272837381b23d4c8548"},
      {"Herman Melville, Moby Dick", "golang-github-colinmarc-hdfs-dev", "2.3.0-2", kMoby, -1, false, false, false,
       Part::kTrain, "283f3a33e690278194c1c1a29af88699"},
      {"Isaac Newton, Opticks", "golang-github-andybalholm-brotli-dev", "1.0.4-3", kOpticks, -1, false, false, true,
       Part::kTrain, "6e88a4e071b9bda98b3063bbadc54d12"},
      {"Arthur Conan Doyle, Sherlock Holmes", "golang-github-jdkato-prose-dev", "1.2.1-1", kHolmes, -1, false, false,
       false, Part::kOther, "94216795bd457b47c61ac278fe955d32"},
  };
  return books;
}

std::string read_classic(const std::string& root, const ClassicBook& book) {
  const std::string path = (fs::path(root) / book.file).string();
  if (!fs::exists(path))
    throw Error(
        fmt::format("'{}' is missing; it comes from the Debian package {} {}", path, book.package, book.version),
        "fetch and unpack the packages with launch/fetch_corpus.sh DIR, then give DIR/root");
  std::string text;
  if (book.r_object >= 0) {
    const auto objects = read_r_lazy_load(path);
    if (static_cast<size_t>(book.r_object) >= objects.size())
      fail("'{}' holds {} texts, expected number {} to be {}", path, objects.size(), book.r_object + 1, book.source);
    for (const std::string& line : objects[static_cast<size_t>(book.r_object)]) (text += line) += '\n';
  } else {
    text = read_text_file(path);
    if (book.latin1) text = latin1_to_utf8(text);
    text = strip_gutenberg(text);
  }
  clean_text(text);
  return join_wrapped_lines(text, book.undo_hyphens);
}

ClassicReport import_classics(const std::string& root, const std::string& folder) {
  ClassicReport report;
  std::array<std::string, 3> lines;
  auto manifest = nlohmann::json::array();
  for (const ClassicBook& book : classic_books()) {
    const std::string text = read_classic(root, book);
    ClassicReport::Row row = {book.source, hash128_hex(text), static_cast<int64_t>(text.size()), 0, book.part, true};
    row.expected = row.hash == book.hash;
    if (!row.expected)
      log_warning(fmt::format(
          "{}: the text has hash {}, expected {} (package {} {}): results will differ from the published ones",
          book.source, row.hash, book.hash, book.package, book.version));
    for (const std::string_view chapter : split_chapters(text, {.capital_titles = book.capital_titles})) {
      ++row.chapters;
      const nlohmann::json line = {{"text", trim(chapter)},
                                   {"source", fmt::format("{}, {}", book.source, row.chapters)}};
      (lines[static_cast<size_t>(book.part)] += line.dump()) += '\n';
    }
    manifest.push_back({{"source", book.source},
                        {"package", book.package},
                        {"version", book.version},
                        {"file", book.file},
                        {"part", part_name(book.part)},
                        {"bytes", row.bytes},
                        {"chapters", row.chapters},
                        {"xxh3_128", row.hash},
                        {"licence", "public domain"}});
    report.books.push_back(row);
  }
  fs::create_directories(folder);
  for (const Part part : kAllParts)
    publish_text((fs::path(folder) / file_of(part)).string(), lines[static_cast<size_t>(part)]);
  publish_text((fs::path(folder) / "manifest.json").string(), manifest.dump(1) + "\n");
  return report;
}

}  // namespace heddle
