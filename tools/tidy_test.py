#!/usr/bin/env python3
"""tools/tidy must find what is planted, and nothing in a tree that keeps the rules."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parent
CLEAN_HEADER = "#pragma once\n\nnamespace weft::hca {\nint answer();\n}  // namespace weft::hca\n"
CLEAN_SOURCE = '#include "hca/answer.h"\n\nnamespace weft::hca {\nint answer() { return 42; }\n}  // namespace weft::hca\n'
CLEAN_TEST = '#include "hca/answer.h"\n\n#include <gtest/gtest.h>\n\nTEST(Answer, IsKnown) { EXPECT_EQ(weft::hca::answer(), 42); }  // T-QP-1\n'


class PlantedViolations(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        (self.root / "tools").mkdir()
        config = re.sub(r"(?ms)^\[exempt\..*", "", (TOOLS / "tidy.toml").read_text())
        config = re.sub(r'(?m)^\[aligned_tables\]\n(?:".*\n)*', "", config)
        (self.root / "tools" / "tidy.toml").write_text(config)
        shutil.copy(TOOLS.parent / ".clang-format", self.root)
        self.write("src/base/CMakeLists.txt", "weft_room(base)\n")
        self.write("src/base/lid.h", "#pragma once\n")
        self.write("src/wire/CMakeLists.txt", "weft_room(wire DEPS base)\n")
        self.write("src/wire/bth.h", '#pragma once\n\n#include "base/lid.h"\n')
        self.write("src/hca/CMakeLists.txt", "weft_room(hca DEPS wire)\n")
        self.write("src/hca/answer.h", CLEAN_HEADER)
        self.write("src/hca/answer.cc", CLEAN_SOURCE)
        self.write("src/hca/answer_test.cc", CLEAN_TEST.replace("  // T-QP-1", "") + "// T-QP-1\n")

    def tearDown(self):
        self.folder.cleanup()

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def tidy(self, *arguments):
        return subprocess.run([sys.executable, "-B", TOOLS / "tidy", "--root", self.root, *arguments],
                              capture_output=True, text=True)

    def assert_finds(self, rule, name, line=None, arguments=("--no-format",)):
        result = self.tidy(*arguments)
        wanted = f"{name}:{line if line else ''}"
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertTrue(any(text.startswith(wanted) and f"[{rule}]" in text for text in result.stdout.splitlines()), result.stdout)
        self.assertEqual(result.stdout.count(f"[{rule}]"), 1, result.stdout)

    def assert_clean(self, arguments=("--no-format",)):
        result = self.tidy(*arguments)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_a_tree_that_keeps_the_rules_is_clean(self):
        self.assert_clean(())

    def test_a_file_that_is_too_long(self):
        self.write("src/hca/answer.h", CLEAN_HEADER + "// line\n" * 600)
        self.assert_finds("file-length", "src/hca/answer.h")

    def test_a_function_that_is_too_long(self):
        body = "int answer() {\n" + "  // line\n" * 68 + "  return 42;\n}\n"
        self.write("src/hca/answer.cc", CLEAN_SOURCE.replace("int answer() { return 42; }\n", body))
        self.assert_finds("function-length", "src/hca/answer.cc", 4)

    def test_a_function_of_exactly_the_limit_is_allowed(self):
        body = "int answer() {\n" + "  // line\n" * 67 + "  return 42;\n}\n"
        self.write("src/hca/answer.cc", CLEAN_SOURCE.replace("int answer() { return 42; }\n", body))
        self.assert_clean()

    def test_a_long_constructor_behind_braced_initialisers(self):
        lines = "  step();\n" * 70
        self.write("src/hca/answer.h", "#pragma once\nclass Answer {\n public:\n  Answer(int a, int b)\n      : a_{a}, b_{b} {\n" + lines + "  }\n};\n")
        self.assert_finds("function-length", "src/hca/answer.h", 4)

    def test_a_long_namespace_class_or_table_is_no_function(self):
        rows = "    {1, 2},\n" * 80
        self.write("src/hca/answer.h", "#pragma once\nnamespace weft {\nclass Answer {\n" + "  int step(int a);\n" * 80
                   + "};\nconstexpr auto kRows = table_of<Row>({\n" + rows + "});\n}\n")
        self.assert_clean()

    def test_an_include_against_the_direction(self):
        self.write("src/wire/bth.h", '#pragma once\n\n#include "hca/answer.h"\n')
        self.assert_finds("include", "src/wire/bth.h", 3)

    def test_an_include_that_cmake_does_not_declare(self):
        self.write("src/wire/CMakeLists.txt", "weft_room(wire)\n")
        self.assert_finds("include", "src/wire/bth.h", 3)

    def test_an_include_through_a_dependency_of_a_dependency_is_allowed(self):
        self.write("src/hca/answer.h", CLEAN_HEADER.replace("#pragma once\n", '#pragma once\n\n#include "base/lid.h"\n'))
        self.assert_clean()

    def test_an_include_without_its_room(self):
        self.write("src/hca/answer.cc", CLEAN_SOURCE.replace("hca/answer.h", "answer.h"))
        self.assert_finds("include", "src/hca/answer.cc", 1)

    def test_a_precompiled_header_that_is_not_included(self):
        use = CLEAN_HEADER.replace("int answer();", "std::vector<int> answers();")
        self.write("src/hca/answer.h", use)
        self.assert_finds("precompiled", "src/hca/answer.h", 4)
        self.write("src/hca/answer.h", use.replace("#pragma once\n", "#pragma once\n\n#include <vector>\n"))
        self.write("src/hca/answer_test.cc", '#include "hca/answer.h"\n\nstd::vector<int> more;\n')  # by a header of ours
        self.assert_clean()

    def test_a_cmake_dependency_against_the_table(self):
        self.write("src/wire/CMakeLists.txt", "weft_room(wire DEPS base hca)\n")
        self.assert_finds("rooms", "src/wire/CMakeLists.txt")

    def test_a_folder_that_is_no_room(self):
        self.write("src/attic/old.h", "#pragma once\n")
        self.assert_finds("rooms", "src/attic")

    def test_banned_words(self):
        cases = {
            "reinterpret-cast": "auto* p = reinterpret_cast<char*>(q);",
            "random": "int a = rand();",
            "clock": "auto t = std::chrono::steady_clock::now();",
            "memcpy-of-struct": "std::memcpy(&bth, octets, sizeof(bth));",
            "bit-field": "std::uint32_t pad : 4;",
            "using-namespace": "using namespace std;",
            "silent-assert": "void check(int a) { assert(a == 1); }",
            "impure-header": "#include <thread>",
            "operating-system-lock": "std::mutex mutex;",
            "exception": "throw 1;",
            "one-mtu": "std::array<std::byte, 2'048> packet;",
            "unfinished": "// TO" + "DO: later",
            "machine-path": "// see /ro" + "ot/notes",
            "foreign-document": "// DES" + "IGN.md, decision 8",
        }
        for rule, text in cases.items():
            with self.subTest(rule):
                self.write("src/hca/answer.cc", CLEAN_SOURCE + text + "\n")
                self.assert_finds(rule, "src/hca/answer.cc", 6)

    def test_a_second_walk_of_forwarding_tables(self):
        for lookup in ("tables.forward(node, dlid)", "view->forwards_multicast(node, mlid, port)", "tables_.multicast_mask(node, mlid, 0)",
                       "tables.get_forwarding_block(node, 0, ports)"):
            with self.subTest(lookup):
                self.write("src/hca/answer.cc", CLEAN_SOURCE + f"auto out = {lookup};\n")
                self.assert_finds("forwarding-walk", "src/hca/answer.cc", 6)
        self.write("src/hca/answer.cc", CLEAN_SOURCE.replace("\n\n", "\n#include <utility>\n\n", 1) + "auto out = std::forward<int>(tables.forwarding());\n")
        self.write("src/hca/answer_test.cc", CLEAN_TEST + "auto out = tables.forward(node, dlid);\n")  # a test looks at what stands there
        self.write("src/subnet/CMakeLists.txt", "weft_room(subnet DEPS base)\n")
        self.write("src/subnet/paths.h", "#pragma once\nauto out = node.forward(dlid);\n")
        self.assert_clean()

    def test_the_one_walk_is_exempt_by_name(self):
        config = self.root / "tools" / "tidy.toml"
        config.write_text(config.read_text() + '\n[exempt.forwarding-walk]\n"src/fabric/walk.h" = "the one walk of all"\n')
        self.write("src/fabric/CMakeLists.txt", "weft_room(fabric DEPS base)\n")
        self.write("src/fabric/walk.h", "#pragma once\nauto out = tables.forward(node, dlid);\n")
        self.assert_clean()
        self.write("src/fabric/path.h", "#pragma once\nauto out = tables.forward(node, dlid);\n")
        self.assert_finds("forwarding-walk", "src/fabric/path.h", 2)

    def test_banned_words_in_comments_and_literals_are_words(self):
        self.write("src/hca/answer.cc", CLEAN_SOURCE + '// never reinterpret_cast, never throw\n/* rand() */\n'
                   "const char* kText = \"throw rand() \\\" reinterpret_cast\";\nconst long kMany = 1'000'000;\n"
                   'const char* kRaw = R"(throw " rand())";\n')
        self.assert_clean()

    def test_banned_words_where_they_are_allowed(self):
        self.write("src/ring/CMakeLists.txt", "weft_room(ring DEPS base)\n")
        self.write("src/ring/ring.h", "#pragma once\nauto* p = reinterpret_cast<char*>(q);\n")
        self.write("src/host/CMakeLists.txt", "weft_room(host DEPS hca)\n")
        self.write("src/host/clock.h", "#pragma once\n#include <thread>\nauto t = std::chrono::steady_clock::now();\n")
        self.assert_clean()

    def test_documents_that_are_not_in_the_tree(self):
        for name in ("docs/DES" + "IGN.md", "SEED-" + "INVENTORY.md", "SEED-" + "INVENTORY 4.3", "docs/SEED-" + "MAP.md", "DROPIN" + "-ABI 2.1"):
            with self.subTest(name):
                self.write("docs/MAP.md", f"what\n{name} says\n")
                self.assert_finds("foreign-document", "docs/MAP.md", 2)
        self.write("docs/MAP.md", "the design, and a seed map of the random generator\n")
        self.assert_clean()

    def test_gits_own_file_of_a_worktree_is_no_text_of_ours(self):
        self.write(".git", "gitdir: /ho" + "me/somebody/weft/.git/worktrees/one\n")
        self.assert_clean()

    def test_an_unfinished_script(self):
        self.write("scripts/go", "#!/bin/sh\n# FIX" + "ME\n").chmod(0o755)
        self.assert_finds("unfinished", "scripts/go", 2)

    def test_a_script_that_cannot_run(self):
        self.write("scripts/go", "#!/bin/sh\n").chmod(0o644)
        self.assert_finds("executable", "scripts/go")

    def test_a_source_without_a_test(self):
        (self.root / "src/hca/answer_test.cc").unlink()
        self.assert_finds("untested", "src/hca/answer.cc")

    def test_a_source_whose_header_another_test_includes(self):
        (self.root / "src/hca/answer_test.cc").rename(self.root / "src/hca/all_test.cc")
        self.assert_clean()

    def test_an_exemption_with_its_reason_is_honoured_and_a_stale_one_found(self):
        (self.root / "src/hca/answer_test.cc").unlink()
        config = self.root / "tools" / "tidy.toml"
        config.write_text(config.read_text() + '\n[exempt.untested]\n"src/hca/answer.cc" = "tried by every client run"\n')
        self.assert_clean()
        self.write("src/hca/answer_test.cc", CLEAN_TEST)
        self.assert_finds("exemption", "tools/tidy.toml")

    def test_formatting_switched_off_outside_a_layout(self):
        self.write("src/wire/bth.h", "#pragma once\n// clang-format off\nint   x;\n// clang-format on\n")
        self.assert_finds("unformatted", "src/wire/bth.h", 2)
        self.write("src/wire/bth.h", "#pragma once\n// clang-format off\nusing Wire = wire::Layout<12>;\n// clang-format on\n")
        self.assert_clean()

    def test_an_aligned_table_that_the_configuration_does_not_name(self):
        table = "// clang-format off\nconstexpr auto kRows = std::to_array<Row>({\n    {1,  2},\n});\n// clang-format on\n"
        self.write("src/wire/opcode.h", "#pragma once\n#include <array>\n" + table)
        self.assert_finds("unformatted", "src/wire/opcode.h", 3)
        config = self.root / "tools" / "tidy.toml"
        config.write_text(config.read_text() + '[aligned_tables]\n"src/wire/opcode.h" = "opcodes"\n')
        self.assert_clean()
        self.write("src/wire/opcode.h", "#pragma once\n// clang-format off\nint   x;\n// clang-format on\n")
        self.assert_finds("unformatted", "src/wire/opcode.h", 2)
        self.write("src/wire/opcode.h", "#pragma once\n")
        self.assert_finds("unformatted", "src/wire/opcode.h", 1)

    def test_a_document_that_names_a_file_that_is_gone(self):
        self.write("docs/MAP.md", "see `src/hca/answer.h`, `src/cm` and [the map](MAP.md)\n")
        self.assert_clean()
        self.write("docs/MAP.md", "see\n`src/hca/question.h`\n")
        self.assert_finds("dead-reference", "docs/MAP.md", 2)
        self.write("docs/MAP.md", "see [it](OTHER.md)\n")
        self.assert_finds("dead-reference", "docs/MAP.md", 1)

    def test_a_reading_path_that_leads_nowhere(self):
        self.write("docs/ARCHITECTURE.md", "| step | file |\n| 1 | `src/hca/answer.cc` | `answer` | it answers |\n")
        self.assert_clean()
        self.write("docs/ARCHITECTURE.md", "| step | file |\n| 1 | `src/hca/answer.cc` | `answers` | it answers |\n")
        self.assert_finds("reading-path", "docs/ARCHITECTURE.md", 2)

    def test_a_header_without_pragma_once(self):
        self.write("src/base/lid.h", "int x;\n")
        self.assert_finds("pragma-once", "src/base/lid.h")

    @unittest.skipUnless(shutil.which("clang-format-19"), "clang-format-19 is not installed")
    def test_a_file_that_clang_format_would_write_otherwise(self):
        self.write("src/hca/answer.cc", CLEAN_SOURCE.replace("{ return 42; }", "{return 42;}"))
        self.assert_finds("format", "src/hca/answer.cc", 4, ())

    def test_citations_are_counted_apart_for_code_and_tests(self):
        self.write("src/hca/answer.cc", CLEAN_SOURCE + "// R-QP-7, IBTA vol 1 §9.7.5, C9-92\n// R-QP-7 again\n")
        result = self.tidy("--citations")
        self.assertRegex(result.stdout, r"R-QP-7 +code +2 +tests +0 +\(no test cites it\)")
        self.assertRegex(result.stdout, r"T-QP-1 +code +0 +tests +1\n")
        self.assertRegex(result.stdout, r"IBTA vol 1 §9\.7\.5 +code +1")
        self.assertRegex(result.stdout, r"C9-92 +code +1")


if __name__ == "__main__":
    unittest.main()
