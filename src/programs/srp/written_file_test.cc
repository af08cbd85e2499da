#include "programs/srp/written_file.h"

#include <gtest/gtest.h>
#include <linux/fuse.h>
#include <sys/stat.h>

#include <cerrno>
#include <span>
#include <string>

namespace weft::programs::srp {
namespace {

template <class... Parts>
[[nodiscard]] std::vector<std::byte> request_of(std::uint32_t opcode, const Parts&... parts) {
  std::vector<std::byte> octets;
  const auto add = [&octets](ByteSpan part) {
    octets.insert(octets.end(), part.begin(), part.end());
  };
  fuse_in_header head{};
  head.opcode = opcode;
  head.unique = 77;
  head.nodeid = FUSE_ROOT_ID;
  add(bytes_of(head));
  (add(parts), ...);
  return octets;
}

[[nodiscard]] fuse_out_header head_of(const std::vector<std::byte>& answer) {
  fuse_out_header head{};
  copy_bytes(std::as_writable_bytes(std::span{&head, 1}), ByteSpan{answer}.first(sizeof head));
  return head;
}

[[nodiscard]] std::vector<std::byte> write_of(const std::string& text, std::uint32_t size) {
  fuse_write_in write{};
  write.size = size;
  return request_of(FUSE_WRITE, bytes_of(write), std::as_bytes(std::span{text}));
}

class WrittenFileTest : public ::testing::Test {
 protected:
  int error_{};
  std::vector<std::string> written_;
  WrittenFileProtocol protocol_{[this](std::string_view text) {
    written_.emplace_back(text);
    return error_;
  }};
};

TEST_F(WrittenFileTest, HandsOnWhatIsWrittenAndAnswersWhatTheHandlerSays) {
  const std::string text = "id_ext=5";
  const auto good = protocol_.answer(write_of(text, 8));
  ASSERT_TRUE(good);
  EXPECT_EQ(head_of(*good).error, 0);
  EXPECT_EQ(head_of(*good).unique, 77U);
  ASSERT_EQ(good->size(), sizeof(fuse_out_header) + sizeof(fuse_write_out));
  EXPECT_EQ(head_of(*good).len, good->size());
  error_ = EINVAL;
  const auto bad = protocol_.answer(write_of(text, 8));
  ASSERT_TRUE(bad);
  EXPECT_EQ(head_of(*bad).error, -EINVAL);
  EXPECT_EQ(bad->size(), sizeof(fuse_out_header));
  EXPECT_EQ(written_, (std::vector<std::string>{text, text}));
}

TEST_F(WrittenFileTest, TakesNoMoreThanThereIs) {
  const auto answer = protocol_.answer(write_of("short", 4096));
  ASSERT_TRUE(answer);
  EXPECT_EQ(head_of(*answer).error, -EIO);
  EXPECT_TRUE(written_.empty());
  EXPECT_FALSE(protocol_.answer({}));
  const auto cut = request_of(FUSE_WRITE);
  ASSERT_TRUE(protocol_.answer(cut));
  EXPECT_EQ(head_of(*protocol_.answer(cut)).error, -EIO);
}

TEST_F(WrittenFileTest, IsAFileThatIsWrittenOnly) {
  const auto attributes = protocol_.answer(request_of(FUSE_GETATTR));
  ASSERT_TRUE(attributes);
  fuse_attr_out out{};
  copy_bytes(std::as_writable_bytes(std::span{&out, 1}),
             ByteSpan{*attributes}.subspan(sizeof(fuse_out_header), sizeof out));
  EXPECT_EQ(out.attr.mode, static_cast<unsigned>(S_IFREG | 0200));
  EXPECT_EQ(head_of(*protocol_.answer(request_of(FUSE_READ))).error, -EIO);
  EXPECT_EQ(head_of(*protocol_.answer(request_of(FUSE_LOOKUP))).error, -ENOSYS);
  EXPECT_EQ(head_of(*protocol_.answer(request_of(FUSE_SETATTR))).error, 0);
  EXPECT_FALSE(protocol_.answer(request_of(FUSE_FORGET)));
  EXPECT_FALSE(protocol_.answer(request_of(FUSE_INTERRUPT)));
}

}  // namespace
}  // namespace weft::programs::srp
