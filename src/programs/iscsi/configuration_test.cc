#include "programs/iscsi/configuration.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace weft::programs::iscsi {
namespace {

TEST(Configuration, ReadsUnitsOfTheCommandLine) {
  EXPECT_EQ(parse_unit("ram:64M", 0), (UnitConfiguration{.lun = 0, .ram_bytes = 64 << 20}));
  EXPECT_EQ(
      parse_unit("disk.img,bs=4096,ro", 3),
      (UnitConfiguration{.lun = 3, .path = "disk.img", .block_bytes = 4096, .read_only = true}));
  EXPECT_EQ(parse_unit("ram:1M,pi=2", 0),
            (UnitConfiguration{.ram_bytes = 1 << 20, .protection = scsi::ProtectionType::Type2}));
  for (const char* wrong : {"", "ram:", "ram:x", "disk,rw", "disk,bs=1024", "disk,", "ram:1M,pi=4",
                            "ram:1M,pi", "disk.img,pi=1"}) {
    EXPECT_FALSE(parse_unit(wrong, 0).has_value()) << wrong;
  }
}

TEST(Configuration, ReadsAFile) {
  const auto read = parse_configuration(R"(
portals = ["127.0.0.1:3260"]
[[target]]
name = "iqn.2026-01.org.example:disks"
alias = "disks"
initiators = ["iqn.2026-01.org.example:client"]
chap-file = "secrets"
[[target.lun]]
ram = "1G"
protection = "type1"
[[target.lun]]
lun = 7
path = "disk.img"
block-size = 4096
read-only = true
)",
                                        "x.toml");
  ASSERT_TRUE(read.has_value()) << read.error().reason;
  EXPECT_EQ(read->portals, (std::vector<std::string>{"127.0.0.1:3260"}));
  ASSERT_EQ(read->targets.size(), 1U);
  EXPECT_EQ(
      read->targets[0],
      (TargetConfiguration{
          .name = "iqn.2026-01.org.example:disks",
          .alias = "disks",
          .units = {{.lun = 0, .ram_bytes = 1 << 30, .protection = scsi::ProtectionType::Type1},
                    {.lun = 7, .path = "disk.img", .block_bytes = 4096, .read_only = true}},
          .initiators = {"iqn.2026-01.org.example:client"},
          .chap_file = "secrets"
  }));
}

TEST(Configuration, RefusesWhatItDoesNotKnow) {
  for (const char* wrong :
       {"portal = 1", "[[target]]\n", "[[target]]\nname = \"iqn.a\"\nsize = 1",
        "[[target]]\nname = \"iqn.a\"\n[[target.lun]]\n",
        "[[target]]\nname = \"iqn.a\"\n[[target.lun]]\nram = \"1M\"\npath = \"x\"",
        "[[target]]\nname = \"iqn.a\"\n[[target.lun]]\nram = \"1M\"\nlun = 16384",
        "[[target]]\nname = \"iqn.a\"\n[[target.lun]]\nram = \"1M\"\nprotection = \"type4\"",
        "[[target]]\nname = \"iqn.a\"\n[[target.lun]]\npath = \"x\"\nprotection = \"type1\"",
        "[[target]]\nname = \"iqn.a\"\n[[target.lun]]\nram = \"1M\"\nblock-size = 520",
        "portals = [1]", "target = 1 ["}) {
    const auto read = parse_configuration(wrong, "x.toml");
    ASSERT_FALSE(read.has_value()) << wrong;
    EXPECT_TRUE(read.error().reason.starts_with("x.toml")) << read.error().reason;
  }
}

TEST(Configuration, ReadsChapSecretsAndNeverRepeatsThem) {
  const auto read = parse_chap("# who\npeer h1 secret-of-h1-0\nown disks secret-of-disks\n");
  ASSERT_TRUE(read.has_value()) << read.error().reason;
  EXPECT_EQ(read->peers.size(), 1U);
  EXPECT_EQ(read->own->name, "disks");
  for (const char* wrong :
       {"", "own disks secret-of-disks", "peer h1", "peer h1 secret-of-h1-0 more", "peer h1 secret",
        "user h1 secret-of-h1-0", "peer h1 secret-of-h1-0\nown t secret-of-h1-0"}) {
    const auto refused = parse_chap(wrong);
    ASSERT_FALSE(refused.has_value()) << wrong;
    EXPECT_EQ(refused.error().reason.find("secret-of"), std::string::npos);
  }
}

TEST(Configuration, RefusesAFileOfSecretsThatOthersMayRead) {
  std::string path = "/tmp/weft-chap-XXXXXX";
  close(mkstemp(path.data()));
  std::ofstream{path} << "peer h1 secret-of-h1-0\n";
  EXPECT_TRUE(read_chap_file(path).has_value());
  for (const mode_t mode : {0640U, 0604U, 0620U, 0602U}) {
    chmod(path.c_str(), mode);
    EXPECT_EQ(read_chap_file(path).error().code, ErrorCode::PermissionDenied);
  }
  unlink(path.c_str());
  EXPECT_EQ(read_chap_file(path).error().code, ErrorCode::NotFound);
}

}  // namespace
}  // namespace weft::programs::iscsi
