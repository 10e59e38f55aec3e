#include "data/documents.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "data/chapters.h"
#include "data/text_repair.h"
#include "support/error.h"
#include "support/hash.h"

namespace heddle {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

std::string read_file(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  std::string content{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (!stream) throw Error(fmt::format("cannot read '{}'", path), "check that it exists and may be read");
  return content;
}

/// Takes the documents of one file.
class FileReader {
 public:
  FileReader(const std::string& path, const DocumentOptions& options, DocumentSet& set)
      : options_(options), set_(set), content_(read_file(path)) {
    file_.path = path;
    file_.bytes = static_cast<int64_t>(content_.size());
    file_.hash = hash128_hex(content_);
  }

  void read() {
    if (fs::path(file_.path).extension() == ".jsonl")
      read_json_lines();
    else
      read_text();
    set_.files.push_back(file_);
  }

 private:
  void clean(std::string& text, int64_t line) {
    const int64_t replaced = clean_text(text);
    file_.invalid_sequences += replaced;
    if (replaced > 0 && options_.invalid_utf8 == InvalidUtf8::kRefuse)
      throw Error(fmt::format("{}{}: {} broken UTF-8 sequences", file_.path,
                              line > 0 ? fmt::format(":{}", line) : std::string(), replaced),
                  "convert the file to UTF-8, or use --data.invalid_utf8 replace to put U+FFFD in their place");
  }

  void keep(std::string_view text, const std::string& source) {
    if (trim(text).empty()) {
      ++file_.blank_documents;
      return;
    }
    ++file_.documents;
    set_.documents.push_back({std::string(text), source});
  }

  void read_text() {
    clean(content_, 0);
    const std::string_view text = content_;
    switch (options_.split) {
      case Split::kFile:
        keep(text, file_.path);
        return;
      case Split::kChapters:
        for (const std::string_view chapter : split_chapters(text)) keep(chapter, file_.path);
        if (text.empty()) ++file_.blank_documents;
        return;
      case Split::kBlankLines:
        read_blocks(text);
        return;
    }
  }

  /// Blocks of lines between lines of white space; the separating lines belong to no document.
  void read_blocks(std::string_view text) {
    size_t block = 0;
    for (size_t begin = 0; begin <= text.size();) {
      const size_t newline = std::min(text.find('\n', begin), text.size());
      if (trim(text.substr(begin, newline - begin)).empty()) {
        if (begin > block) keep(text.substr(block, begin - block), file_.path);
        block = newline + 1;
      }
      begin = newline + 1;
    }
    if (block < text.size()) keep(text.substr(block), file_.path);
  }

  void read_json_lines() {
    int64_t number = 0;
    for (size_t begin = 0; begin < content_.size();) {
      const size_t newline = std::min(content_.find('\n', begin), content_.size());
      std::string line = content_.substr(begin, newline - begin);
      begin = newline + 1;
      ++number;
      clean(line, number);
      if (!trim(line).empty()) read_json_line(line, number);
    }
  }

  void read_json_line(const std::string& line, int64_t number) {
    const auto refuse = [&](const std::string& what) {
      throw Error(fmt::format("{}:{}: {}", file_.path, number, what),
                  R"(every line is one JSON object such as {"text": "...", "source": "..."})");
    };
    const auto object = nlohmann::json::parse(line, nullptr, false);
    if (object.is_discarded()) refuse("not valid JSON");
    if (!object.is_object()) refuse(fmt::format("found a JSON {}, expected an object", object.type_name()));
    const auto text = object.find("text");
    if (text == object.end()) refuse("the object has no \"text\"");
    if (!text->is_string()) refuse(fmt::format("\"text\" is a {}, expected a string", text->type_name()));
    std::string content = text->get<std::string>();
    clean(content, number);
    const auto source = object.find("source");
    keep(content, source != object.end() && source->is_string() ? source->get<std::string>() : file_.path);
  }

  const DocumentOptions& options_;
  DocumentSet& set_;
  std::string content_;
  InputFile file_;
};

}  // namespace

Split parse_split(const std::string& name) {
  if (name == "file") return Split::kFile;
  if (name == "blank_lines") return Split::kBlankLines;
  if (name == "chapters") return Split::kChapters;
  throw UsageError(fmt::format("split '{}': expected file, blank_lines or chapters", name));
}

InvalidUtf8 parse_invalid_utf8(const std::string& name) {
  if (name == "replace") return InvalidUtf8::kReplace;
  if (name == "refuse") return InvalidUtf8::kRefuse;
  throw UsageError(fmt::format("invalid_utf8 '{}': expected replace or refuse", name));
}

int64_t DocumentSet::blank_documents() const {
  int64_t sum = 0;
  for (const InputFile& file : files) sum += file.blank_documents;
  return sum;
}

int64_t DocumentSet::invalid_sequences() const {
  int64_t sum = 0;
  for (const InputFile& file : files) sum += file.invalid_sequences;
  return sum;
}

int64_t DocumentSet::text_bytes() const {
  int64_t sum = 0;
  for (const Document& document : documents) sum += static_cast<int64_t>(document.text.size());
  return sum;
}

int64_t clean_text(std::string& text) {
  if (std::string_view(text).starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  if (text.find("\r\n") != std::string::npos) {
    size_t out = 0;
    for (size_t in = 0; in < text.size(); ++in)
      if (!(text[in] == '\r' && in + 1 < text.size() && text[in + 1] == '\n')) text[out++] = text[in];
    text.resize(out);
  }
  return replace_broken_utf8(text);
}

std::vector<std::string> list_input_files(const std::vector<std::string>& paths) {
  const auto readable = [](const fs::path& path) { return path.extension() == ".txt" || path.extension() == ".jsonl"; };
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    if (!fs::exists(path)) throw Error(fmt::format("there is no file or folder '{}'", path), "check the path");
    if (!fs::is_directory(path)) {
      if (!readable(path))
        throw Error(
            fmt::format("'{}' is neither .txt nor .jsonl", path),
            "unpack compressed files first; Parquet is not supported: export it as .jsonl with a \"text\" field");
      files.push_back(path);
      continue;
    }
    std::vector<std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(path))
      if (entry.is_regular_file() && readable(entry.path())) found.push_back(entry.path().string());
    if (found.empty()) throw Error(fmt::format("the folder '{}' holds no .txt or .jsonl file", path), "check the path");
    std::sort(found.begin(), found.end());
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

DocumentSet read_documents(const std::vector<std::string>& paths, const DocumentOptions& options) {
  DocumentSet set;
  for (const std::string& path : list_input_files(paths)) FileReader(path, options, set).read();
  return set;
}

}  // namespace heddle
