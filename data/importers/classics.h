// The tiny demonstration corpus: public-domain English books out of five unpacked Debian packages, as chapters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/token_store.h"

namespace heddle {

/// One book of the manifest.
struct ClassicBook {
  const char* source;  ///< "Jane Austen, Emma"
  const char* package;
  const char* version;
  const char* file;  ///< below the root of the unpacked packages
  int r_object;      ///< position in an R data file; -1 for a text file
  bool latin1;
  bool undo_hyphens;
  bool capital_titles;  ///< a collection of tales, cut at titles in capitals
  Part part;            ///< Persuasion is validation, Sherlock Holmes the other author
  const char* hash;     ///< hash128_hex of the cleaned text
};

/// All books with their packages. The packaging is under the licence named in README; the texts are in the public
/// domain.
const std::vector<ClassicBook>& classic_books();

/// The cleaned text of the book. Throws Error naming the package if the file is missing.
std::string read_classic(const std::string& root, const ClassicBook& book);

struct ClassicReport {
  struct Row {
    std::string source, hash;
    int64_t bytes = 0, chapters = 0;
    Part part = Part::kTrain;
    bool expected = true;  ///< the hash is that of the manifest
  };
  std::vector<Row> books;
};

/// Writes train.jsonl, validation.jsonl, other_author.jsonl (one chapter a line, with "text" and "source") and
/// manifest.json into the folder, which is made. Warns about a text that differs from the manifest.
ClassicReport import_classics(const std::string& root, const std::string& folder);

}  // namespace heddle
