#include "programs/iscsi/target_url.h"

#include <gtest/gtest.h>

#include <string>

namespace weft::programs::iscsi {
namespace {

TEST(TargetUrl, NamesALogicalUnit) {
  const auto url = parse_target_url("iscsi://127.0.0.1:3261/iqn.2026-01.org.example:disks/7");
  ASSERT_TRUE(url);
  EXPECT_EQ(url->scheme, "iscsi");
  EXPECT_EQ(url->address, "127.0.0.1:3261");
  EXPECT_EQ(url->target, "iqn.2026-01.org.example:disks");
  EXPECT_EQ(url->lun, 7);
  EXPECT_EQ(parse_target_url("iser://disks/iqn.2026-01.org.example:a/0")->address, "disks:3260");
  EXPECT_EQ(parse_target_url("iscsi://[::1]/iqn.2026-01.org.example:a/0")->address, "[::1]:3260");
  EXPECT_EQ(with_port("[::1]:1"), "[::1]:1");
}

TEST(TargetUrl, RefusesWhatIsNone) {
  for (const char* const text :
       {"", "disk.img", "http://h/iqn.2026-01.org.example:a/0", "iscsi://h",
        "iscsi:///iqn.2026-01.org.example:a/0", "iscsi://h/iqn.2026-01.org.example:a",
        "iscsi://h/iqn.2026-01.org.example:a/", "iscsi://h/iqn.2026-01.org.example:a/x",
        "iscsi://h/iqn.2026-01.org.example:a/99999", "iscsi://h/name/0"}) {
    EXPECT_FALSE(parse_target_url(text)) << text;
  }
}

TEST(TargetUrl, KeepsSecretsOutOfWhatItSays) {
  const auto url = parse_target_url("iscsi://me%secret@h/iqn.2026-01.org.example:a/0");
  ASSERT_FALSE(url);
  EXPECT_EQ(url.error().reason.find("secret@"), std::string::npos);
  EXPECT_NE(url.error().reason.find("--chap-file"), std::string::npos);
}

}  // namespace
}  // namespace weft::programs::iscsi
