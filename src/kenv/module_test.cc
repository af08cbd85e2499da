// Parameters, entries, messages and texts of modules.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <string_view>

#include <linux/device.h>
#include <linux/inet.h>
#include <linux/module.h>
#include <linux/parser.h>
#include <linux/proc_fs.h>
#include <linux/string.h>

#include <weft/module_host.h>

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using weft::ErrorCode;

int depth = 1;
module_param(depth, int, 0);
MODULE_PARM_DESC(depth, "How deep");
unsigned short port = 1;
module_param(port, ushort, 0);
bool is_loud;
module_param_named(loud, is_loud, bool, 0);
char* name;
module_param(name, charp, 0);
unsigned sizes[3];
unsigned size_count;
module_param_array(sizes, uint, &size_count, 0);
char label[8];
module_param_string(label, label, sizeof label, 0);

TEST(KenvParameters, TakeValuesOfTheirTypes) {
  EXPECT_TRUE(weft::kenv::set_parameter("depth", "-0x10"));
  EXPECT_EQ(depth, -16);
  EXPECT_TRUE(weft::kenv::set_parameter("port", "65535"));
  EXPECT_EQ(port, 65'535);
  EXPECT_TRUE(weft::kenv::set_parameter("loud", ""));
  EXPECT_TRUE(is_loud) << "its name alone says yes";
  EXPECT_TRUE(weft::kenv::set_parameter("loud", "n"));
  EXPECT_FALSE(is_loud);
  EXPECT_TRUE(weft::kenv::set_parameter("name", "a b"));
  EXPECT_STREQ(name, "a b");
  EXPECT_TRUE(weft::kenv::set_parameter("sizes", "4,5"));
  EXPECT_EQ(size_count, 2U);
  EXPECT_EQ(sizes[1], 5U);
  EXPECT_TRUE(weft::kenv::set_parameter("label", "1234567"));
  EXPECT_STREQ(&label[0], "1234567");
}

TEST(KenvParameters, RefuseInWordsAndStayAsTheyAre) {
  depth = 3;
  for (const char* const bad : {"", "x", "1x", "4294967296", "1.5", "--1", " 1"}) {
    const auto set = weft::kenv::set_parameter("depth", bad);
    ASSERT_FALSE(set) << bad;
    EXPECT_EQ(set.error().code, ErrorCode::InvalidArgument);
    EXPECT_THAT(set.error().reason, HasSubstr("depth (int) is a number of 32 bits"));
  }
  EXPECT_EQ(depth, 3);
  EXPECT_FALSE(weft::kenv::set_parameter("port", "65536"));
  EXPECT_FALSE(weft::kenv::set_parameter("port", "-1"));
  EXPECT_FALSE(weft::kenv::set_parameter("loud", "perhaps"));
  EXPECT_FALSE(weft::kenv::set_parameter("sizes", "1,2,3,4"));
  EXPECT_FALSE(weft::kenv::set_parameter("label", "12345678"));
  const auto unknown = weft::kenv::set_parameter("height", "1");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::NotFound);
  EXPECT_THAT(unknown.error().reason, HasSubstr("depth (int)"));
}

TEST(KenvParameters, AreDescribed) {
  for (const auto& parameter : weft::kenv::parameters()) {
    if (parameter.name == "depth") {
      EXPECT_EQ(parameter.type, "int");
      EXPECT_EQ(parameter.text, "How deep");
      return;
    }
  }
  FAIL() << "depth is not there";
}

std::string the_written;

int show_twice(seq_file* seq, void* /*at*/) {
  seq_printf(seq, "%d ", 4);
  seq_puts(seq, "twice\n");
  return 0;
}

int open_twice(inode* node, file* file) { return single_open(file, show_twice, node->i_private); }

ssize_t keep_written(file* /*file*/, const char* from, size_t count, loff_t* /*position*/) {
  the_written.assign(from, count);
  return the_written == "no\n" ? -EPERM : static_cast<ssize_t>(count);
}

const proc_ops kOps{.proc_flags = 0,
                    .proc_open = open_twice,
                    .proc_read = seq_read,
                    .proc_write = keep_written,
                    .proc_lseek = seq_lseek,
                    .proc_release = single_release};

TEST(KenvEntries, AreReadAndWrittenByName) {
  proc_dir_entry* const folder = proc_mkdir("folder", nullptr);
  ASSERT_NE(folder, nullptr);
  ASSERT_NE(proc_create("twice", 0644, folder, &kOps), nullptr);
  EXPECT_EQ(proc_create("twice", 0644, folder, &kOps), nullptr) << "it is there";
  EXPECT_THAT(weft::kenv::entries(), ElementsAre("folder/twice"));
  EXPECT_EQ(weft::kenv::read_entry("folder/twice").text, "4 twice\n");
  EXPECT_EQ(weft::kenv::write_entry("folder/twice", "yes\n").status, 4);
  EXPECT_EQ(the_written, "yes\n");
  EXPECT_EQ(weft::kenv::write_entry("folder/twice", "no\n").status, -EPERM);
  EXPECT_EQ(weft::kenv::read_entry("folder").status, -ENOENT);
  EXPECT_EQ(weft::kenv::read_entry("folder/thrice").status, -ENOENT);
  EXPECT_EQ(weft::kenv::read_entry("").status, -ENOENT);
  proc_remove(folder);
  EXPECT_TRUE(weft::kenv::entries().empty());
}

void* count_start(seq_file* /*seq*/, loff_t* position) {
  return *position < 3 ? position : nullptr;
}
void* count_next(seq_file* /*seq*/, void* /*at*/, loff_t* position) {
  return ++*position < 3 ? position : nullptr;
}
void count_stop(seq_file* /*seq*/, void* /*at*/) {}
int count_show(seq_file* seq, void* at) {
  seq_printf(seq, "%lld;", static_cast<long long>(*static_cast<loff_t*>(at)));
  return 0;
}
const seq_operations kCount{
    .start = count_start, .stop = count_stop, .next = count_next, .show = count_show};
int open_count(inode* /*node*/, file* file) { return seq_open(file, &kCount); }
const proc_ops kCountOps{.proc_flags = 0,
                         .proc_open = open_count,
                         .proc_read = seq_read,
                         .proc_write = nullptr,
                         .proc_lseek = nullptr,
                         .proc_release = seq_release};

TEST(KenvEntries, OfRecordsShowEachOnce) {
  proc_create("count", 0444, nullptr, &kCountOps);
  EXPECT_EQ(weft::kenv::read_entry("count").text, "0;1;2;");
  EXPECT_EQ(weft::kenv::write_entry("count", "x").status, -EIO) << "it cannot be written";
  remove_proc_entry("count", nullptr);
}

ssize_t level_show(device* /*of*/, device_attribute* /*attribute*/, char* buffer) {
  return sysfs_emit(buffer, "%s\n", "high");
}

TEST(KenvEntries, OfDevicesAreTheirAttributes) {
  device thing{};
  device_initialize(&thing);
  dev_set_name(&thing, "thing%d", 1);
  DEVICE_ATTR_RO(level);
  ASSERT_EQ(device_create_file(&thing, &dev_attr_level), 0);
  EXPECT_EQ(weft::kenv::read_entry("thing1/level").text, "high\n");
  device_remove_file(&thing, &dev_attr_level);
  EXPECT_TRUE(weft::kenv::entries().empty());
  put_device(&thing);
}

[[nodiscard]] std::string printed(const char* format, ...) {
  std::array<char, 256> text{};
  va_list arguments;
  va_start(arguments, format);
  vscnprintf(text.data(), text.size(), format, arguments);
  va_end(arguments);
  return text.data();
}

TEST(KenvFormat, PrintsAsCDoes) {
  EXPECT_EQ(printed("%5d|%-5s|%05x|%c%%", 42, "ab", 0xFE, 'z'), "   42|ab   |000fe|z%");
  EXPECT_EQ(printed("%Lx %llu %zu %ld %hhu", 0xABCDEF0123ULL, 1ULL << 63, sizeof(int), -5L, 300),
            "abcdef0123 9223372036854775808 4 -5 44");
  EXPECT_EQ(printed("|%.4s|%.*s|", "abcdefgh", 2, "xyz"), "|abcd|xy|");
}

TEST(KenvFormat, ShowsWhatPointersPointTo) {
  const in_addr four{.s_addr = htonl(0x7F4D0001)};
  EXPECT_EQ(printed("%pI4!", &four), "127.77.0.1!");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(7770);
  address.sin_addr = four;
  EXPECT_EQ(printed("%pISpc", &address), "127.77.0.1:7770");
  EXPECT_EQ(printed("%pe", ERR_PTR(-ENOMEM)), "-ENOMEM");
  const std::array<unsigned char, 6> bytes{1, 2, 3, 4, 5, 0xAB};
  EXPECT_EQ(printed("%pM %*ph", bytes.data(), 2, bytes.data()), "01:02:03:04:05:ab 01 02");
}

TEST(KenvFormat, CutsWhatDoesNotFitAndSaysWhatIsThere) {
  std::array<char, 4> text{};
  EXPECT_EQ(scnprintf(text.data(), text.size(), "%s", "abcdef"), 3);
  EXPECT_STREQ(text.data(), "abc");
  EXPECT_EQ(strscpy(text.data(), "abcdef", text.size()), -E2BIG);
  EXPECT_EQ(strscpy(text.data(), "abc", text.size()), 3);
}

TEST(KenvText, NumbersAreWhollyNumbers) {
  int number = 5;
  EXPECT_EQ(kstrtoint("0x1f\n", 0, &number), 0);
  EXPECT_EQ(number, 31);
  EXPECT_EQ(kstrtoint("2147483648", 10, &number), -ERANGE);
  EXPECT_EQ(kstrtoint("-2147483648", 10, &number), 0);
  EXPECT_EQ(kstrtoint("12 ", 10, &number), -EINVAL);
  unsigned count = 0;
  EXPECT_EQ(kstrtouint("-1", 10, &count), -EINVAL);
}

TEST(KenvInet, ReadsAddressesUpToTheirEnd) {
  std::array<u8, 16> to{};
  const char* end = nullptr;
  EXPECT_EQ(in4_pton("127.77.0.2", -1, to.data(), -1, nullptr), 1);
  EXPECT_EQ(to[3], 2);
  EXPECT_EQ(in4_pton("10.0.0.1/24", -1, to.data(), '/', &end), 1);
  EXPECT_STREQ(end, "/24");
  EXPECT_EQ(in4_pton("10.0.0", -1, to.data(), -1, nullptr), 0);
  EXPECT_EQ(in4_pton("10.0.0.1x", -1, to.data(), '/', nullptr), 0);
  EXPECT_EQ(in6_pton("fe80::1", -1, to.data(), -1, nullptr), 1);
  EXPECT_EQ(to[0], 0xFE);
}

TEST(KenvParser, FindsTheFirstPatternThatMatches) {
  const match_table_t table = {
      {1, "count=%d"},
      {2, "name=%s" },
      {3, "ro"      },
      {0, nullptr   }
  };
  std::array<substring_t, MAX_OPT_ARGS> arguments{};
  std::string text = "count=-12";
  EXPECT_EQ(match_token(text.data(), table, arguments.data()), 1);
  int number = 0;
  EXPECT_EQ(match_int(arguments.data(), &number), 0);
  EXPECT_EQ(number, -12);
  text = "name=x";
  EXPECT_EQ(match_token(text.data(), table, arguments.data()), 2);
  text = "rw";
  EXPECT_EQ(match_token(text.data(), table, arguments.data()), 0);
}

int the_exits = 0;
void count_exit() { ++the_exits; }
module_exit(count_exit)

    TEST(KenvModule, IsNotRemovedWhileItHasUsersAndHasNoneAfterwards) {
  ASSERT_TRUE(try_module_get(THIS_MODULE));
  const auto refused = weft::kenv::stop_module();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::Busy);
  EXPECT_EQ(the_exits, 0);
  module_put(THIS_MODULE);
  EXPECT_TRUE(weft::kenv::stop_module());
  EXPECT_EQ(the_exits, 1);
  EXPECT_FALSE(try_module_get(THIS_MODULE));
}

}  // namespace
