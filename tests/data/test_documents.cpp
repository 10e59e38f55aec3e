#include <gtest/gtest.h>

#include "data/chapters.h"
#include "data/documents.h"
#include "support/error.h"
#include "temporary_folder.h"

namespace heddle {
namespace {

std::vector<std::string> texts(const DocumentSet& set) {
  std::vector<std::string> result;
  for (const Document& document : set.documents) result.push_back(document.text);
  return result;
}

TEST(Documents, BlankOnesAreDroppedAndCounted) {
  const TemporaryFolder folder;
  folder.write("a.txt", "");
  folder.write("b.txt", " \n\t\r\n");
  folder.write("c.txt", "one\n");
  folder.write(
      "d.jsonl",
      "{\"text\": \"\"}\n{\"text\": \"two\", \"source\": \"s\"}\n\n{\"text\": \"  \\n\"}\n{\"text\": \"three\"}");
  folder.write("ignored.md", "not read");
  const DocumentSet set = read_documents({folder.path()}, {});
  EXPECT_EQ(texts(set), (std::vector<std::string>{"one\n", "two", "three"}));
  EXPECT_EQ(set.blank_documents(), 4);
  EXPECT_EQ(set.documents[1].source, "s");
  EXPECT_EQ(set.documents[2].source, folder.path("d.jsonl"));
  ASSERT_EQ(set.files.size(), 4u);
  EXPECT_EQ(set.files[3].documents, 2);
  EXPECT_EQ(set.text_bytes(), 4 + 3 + 5);
}

TEST(Documents, FoldersAreReadInOrderOfName) {
  const TemporaryFolder folder;
  folder.write("z/1.txt", "third");
  folder.write("b.txt", "second");
  folder.write("a/9.txt", "first");
  EXPECT_EQ(texts(read_documents({folder.path()}, {})), (std::vector<std::string>{"first", "second", "third"}));
  EXPECT_EQ(texts(read_documents({folder.path("z"), folder.path("b.txt")}, {})),
            (std::vector<std::string>{"third", "second"}));
}

TEST(Documents, TextIsCleaned) {
  std::string text = "\xEF\xBB\xBFone\r\ntwo\rthree\r\n";
  EXPECT_EQ(clean_text(text), 0);
  EXPECT_EQ(text, "one\ntwo\rthree\n");
  text =
      "a\xFF"
      "b\xC3(\xE2\x82";
  EXPECT_EQ(clean_text(text), 3);
  EXPECT_EQ(text,
            "a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD(\xEF\xBF\xBD");
  text = "na\xC3\xAFve \xF0\x9F\x99\x82";
  EXPECT_EQ(clean_text(text), 0);
  EXPECT_EQ(text, "na\xC3\xAFve \xF0\x9F\x99\x82");
}

TEST(Documents, BrokenUtf8CanBeRefused) {
  const TemporaryFolder folder;
  folder.write("a.txt", "caf\xE9 \xE9");
  folder.write("b.jsonl", "{\"text\": \"fine\"}\n{\"text\": \"caf\xE9\"}\n");
  EXPECT_EQ(read_documents({folder.path()}, {}).invalid_sequences(), 3);
  const DocumentOptions refuse = {.invalid_utf8 = InvalidUtf8::kRefuse};
  expect_error<Error>([&] { read_documents({folder.path("a.txt")}, refuse); }, "a.txt: 2 broken");
  expect_error<Error>([&] { read_documents({folder.path("b.jsonl")}, refuse); }, "b.jsonl:2: 1 broken");
}

TEST(Documents, JsonErrorsNameTheLine) {
  const TemporaryFolder folder;
  const auto expect = [&](const std::string& content, const std::string& part) {
    const std::string path = folder.write("x.jsonl", content);
    expect_error<Error>([&] { read_documents({path}, {}); }, part);
  };
  expect("{\"text\": \"a\"}\n{\"text\": \n", "x.jsonl:2: not valid JSON");
  expect("\n\n{\"txt\": \"a\"}\n", "x.jsonl:3: the object has no \"text\"");
  expect("{\"text\": 7}\n", "x.jsonl:1: \"text\" is a number");
  expect("[1]\n", "x.jsonl:1: found a JSON array");
}

TEST(Documents, BadPathsAreRefused) {
  const TemporaryFolder folder;
  expect_error<Error>([&] { read_documents({folder.path("none")}, {}); }, "there is no file or folder");
  expect_error<Error>([&] { read_documents({folder.path()}, {}); }, "holds no .txt or .jsonl");
  const std::string parquet = folder.write("a.parquet", "PAR1");
  expect_error<Error>([&] { read_documents({parquet}, {}); }, "neither .txt nor .jsonl");
  EXPECT_THROW(parse_split("lines"), UsageError);
  EXPECT_THROW(parse_invalid_utf8("skip"), UsageError);
}

TEST(Documents, BlankLinesSplit) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a.txt", "\n\none\nline\n\n \t\n\ntwo\n\nthree");
  EXPECT_EQ(texts(read_documents({path}, {.split = Split::kBlankLines})),
            (std::vector<std::string>{"one\nline\n", "two\n", "three"}));
}

TEST(Chapters, HeadingsAreRecognised) {
  for (const char* line :
       {"CHAPTER I.", "Chapter 12", "  VOLUME II", "XIV.", "BOOK THE FIRST", "_PART II._",
        "ADVENTURE I. A SCANDAL IN BOHEMIA", "CHAPTER 1. Loomings.", "VII. THE ADVENTURE OF THE BLUE CARBUNCLE"})
    EXPECT_TRUE(is_chapter_heading(line)) << line;
  for (const char* line : {"", "Chapter and verse", "12", "I went", "Part of the way", "CHAPTER", "Book",
                           "CHAPTER house was old", "VII. The Adventure", "I HAVE BEEN"})
    EXPECT_FALSE(is_chapter_heading(line)) << line;
}

TEST(Chapters, SplitsAtHeadingsBehindBlankLines) {
  const std::string text = "Title\n\nCHAPTER I\n\nfirst words\nCHAPTER II is not one here\n\nCHAPTER II\n\nsecond\n";
  const auto chapters = split_chapters(text, {.minimum_bytes = 1});
  ASSERT_EQ(chapters.size(), 3u);
  EXPECT_EQ(chapters[0], "Title\n\n");
  EXPECT_EQ(chapters[1], "CHAPTER I\n\nfirst words\nCHAPTER II is not one here\n\n");
  EXPECT_EQ(chapters[2], "CHAPTER II\n\nsecond\n");
  // The title page joins the first chapter; the last one is too short to stand alone.
  const auto joined = split_chapters(text, {.minimum_bytes = 20});
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_EQ(joined[0], text);
}

TEST(Chapters, CapitalTitlesAreOptional) {
  const std::string text = "some words here\n\nTHE PURLOINED LETTER\n\nmore words\n\nNOT FOLLOWED BY BLANK\nwords\n";
  EXPECT_EQ(split_chapters(text, {.minimum_bytes = 1}).size(), 1u);
  const auto tales = split_chapters(text, {.minimum_bytes = 1, .capital_titles = true});
  ASSERT_EQ(tales.size(), 2u);
  EXPECT_TRUE(tales[1].starts_with("THE PURLOINED"));
}

}  // namespace
}  // namespace heddle
