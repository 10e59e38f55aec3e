// From text files to a token store: reading, splitting off the validation documents, training the tokenizer, encoding.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/documents.h"
#include "data/token_store.h"

namespace heddle {

struct BuildOptions {
  std::vector<std::string> inputs;          ///< files and folders of train text
  std::vector<std::string> validation;      ///< explicit validation text; empty: a fraction of the train documents
  std::vector<std::string> other;           ///< a second held-out text; may be empty
  std::string tokenizer = "sentencepiece";  ///< bytes | sentencepiece
  std::string tokenizer_from;               ///< token store whose tokenizer is used instead
  SentencePieceOptions sentencepiece;
  DocumentOptions documents;
  double validation_fraction = 0;  ///< of the documents, when `validation` is empty
  int64_t seed = 1;                ///< of that choice
};

/// Hash of the settings and of the bytes of all inputs: equal keys give equal stores. Reads the files.
std::string build_key(const BuildOptions& options);

/// True if the document belongs to the validation part: a function of its text and the seed, so that a text that
/// occurs twice never stands on both sides.
bool is_validation_document(const std::string& text, double fraction, int64_t seed);

struct BuildReport {
  int64_t kept_documents = 0, blank_documents = 0, invalid_sequences = 0;
  int64_t moved_validation = 0;  ///< documents that the fraction moved
  double read_seconds = 0, train_seconds = 0, encode_seconds = 0, write_seconds = 0;
  int64_t encoded_bytes = 0;
};

/// Builds and publishes the store. Needs memory for the text and 4 bytes for each token. Throws Error.
BuildReport build_token_store(const BuildOptions& options, const std::string& path);

}  // namespace heddle
