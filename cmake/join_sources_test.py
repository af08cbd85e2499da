#!/usr/bin/env python3
"""Which names join_sources.py finds, and which files it keeps apart."""
import sys
import unittest

sys.dont_write_bytecode = True

import join_sources  # noqa: E402: found beside this file


class Names(unittest.TestCase):
    def test_are_those_of_the_outermost_level(self):
        text = """#include "a/b.h"
#define PLACE 1
namespace weft::a {
namespace {
using Record = wire::Record;
using testing::HasSubstr;
constexpr int kLimit = 3;
constexpr std::array<int, 2> kTable{
    1, 2};
struct Row {
  int inner{};
};
enum class Kind : std::uint8_t { One };
template <class T>
class Box {};
[[nodiscard]] Result<std::vector<int>> read_all(
    int fd) {
  const int local = 3;
}
void Daemon::Impl::start() {}
}  // namespace
TEST(Suite, Case) {}
TEST_F(Fixture, Case) {}
"""
        self.assertEqual(join_sources.declared(text) - {"T"}, {"PLACE", "Record", "kLimit", "kTable", "Row", "Kind", "Box", "read_all", "Suite_Case_Test"})

    def test_are_not_those_of_comments_and_strings(self):
        self.assertEqual(join_sources.used('int a = b;  // kLimit\ncall("kLimit \\" more");'), {"int", "a", "b", "call"})


class Parts(unittest.TestCase):
    def parts(self, **texts):
        return join_sources.parts(sorted(texts), texts.__getitem__)

    def test_hold_files_that_have_nothing_in_common(self):
        self.assertEqual(self.parts(a="int f() {}", b="int g() {}"), [["a", "b"]])

    def test_leave_out_a_file_that_uses_one_of_their_names(self):
        self.assertEqual(self.parts(a="int write(int x) {}", b="int g() {\n  write(1);\n}"), [["a"], ["b"]])
        self.assertEqual(self.parts(a="constexpr int kLimit = 1;", b="constexpr int kLimit = 2;"), [["a"], ["b"]])

    def test_go_on_after_a_file_that_they_leave_out(self):
        limit = {"a": "constexpr int kLimit = 1;", "b": "constexpr int kLimit = 2;"}
        self.assertEqual(self.parts(**limit, c="int f() {}"), [["a", "c"], ["b"]])
        self.assertEqual(self.parts(**limit, c="int kLimit() {}", d="int f() {}"), [["a", "d"], ["b"], ["c"]])

    def test_leave_files_alone_whose_names_leave_them(self):
        self.assertEqual(self.parts(a="int f() {}", b="using enum Kind;", c="int g() {}"), [["b"], ["a", "c"]])

    def test_hold_files_with_the_same_directives(self):
        self.assertEqual(self.parts(a="int f() {}", b="using namespace weft;\nint g() {}", c="using namespace weft;", d="using namespace std;"),
                         [["a"], ["b", "c"], ["d"]])

    def test_are_not_too_long_and_begin_where_a_name_says(self):
        many = {f"file_{number}": "" for number in range(100)}
        parts = self.parts(**many)
        self.assertEqual(sorted(file for part in parts for file in part), sorted(many))
        self.assertLessEqual(max(map(len, parts)), join_sources.MOST)
        self.assertLess(len(parts), 20)
        changed = self.parts(**{**many, "file_0_new": ""})
        self.assertLessEqual(len([part for part in parts if part not in changed]), 4)


if __name__ == "__main__":
    unittest.main()
