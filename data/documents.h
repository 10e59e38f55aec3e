// Reading text into documents: .txt files, .jsonl files (one object a line with "text"), and folders of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heddle {

struct Document {
  std::string text;    ///< valid UTF-8, newlines as LF, not blank
  std::string source;  ///< "source" of a JSON line, else the path of the file
};

enum class Split { kFile, kBlankLines, kChapters };  ///< what one document of a .txt file is
enum class InvalidUtf8 { kReplace, kRefuse };

Split parse_split(const std::string& name);               ///< file | blank_lines | chapters
InvalidUtf8 parse_invalid_utf8(const std::string& name);  ///< replace | refuse

struct DocumentOptions {
  Split split = Split::kFile;
  InvalidUtf8 invalid_utf8 = InvalidUtf8::kReplace;
};

/// One input file as it was read.
struct InputFile {
  std::string path;
  int64_t bytes = 0;
  std::string hash;               ///< hash128_hex of the raw bytes
  int64_t documents = 0;          ///< kept
  int64_t blank_documents = 0;    ///< dropped: empty or white space only
  int64_t invalid_sequences = 0;  ///< places of broken UTF-8, each replaced by U+FFFD
};

struct DocumentSet {
  std::vector<Document> documents;
  std::vector<InputFile> files;
  int64_t blank_documents() const;
  int64_t invalid_sequences() const;
  int64_t text_bytes() const;
};

/// The .txt and .jsonl files of the given files and folders: folders recursively, in order of name. Throws Error for a
/// missing path, another kind of file, or a folder without any.
std::vector<std::string> list_input_files(const std::vector<std::string>& paths);

/// Reads all documents into memory, in the order of the files. Throws Error naming file and line.
DocumentSet read_documents(const std::vector<std::string>& paths, const DocumentOptions& options);

/// Drops a byte order mark, turns CR LF into LF and broken UTF-8 into U+FFFD; returns the number of replacements.
int64_t clean_text(std::string& text);

}  // namespace heddle
