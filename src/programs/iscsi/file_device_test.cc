#include "programs/iscsi/file_device.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <future>
#include <string>
#include <vector>

namespace weft::programs::iscsi {
namespace {

using scsi::BlockOperation;
using scsi::BlockRequest;
using scsi::BlockResult;
using scsi::BlockStatus;

class File {
 public:
  explicit File(off_t bytes) {
    const int file = mkstemp(path.data());
    EXPECT_GE(file, 0);
    EXPECT_EQ(ftruncate(file, bytes), 0);
    close(file);
  }
  ~File() { unlink(path.c_str()); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  std::string path{"/tmp/weft-file-device-XXXXXX"};
};

class Waiter final : public scsi::BlockClient {
 public:
  void handle_block_result(BlockRequest& /*request*/, const BlockResult& result) override {
    promise.set_value(result.status);
  }
  std::promise<BlockStatus> promise;
};

[[nodiscard]] BlockStatus run(FileDevice& device, BlockRequest request) {
  Waiter waiter;
  request.client = &waiter;
  device.submit(request);
  return waiter.promise.get_future().get();
}

TEST(FileDevice, ReadsWhatWasWritten) {
  const File file{64 * 4096};
  WorkerPool pool{2};
  auto device = FileDevice::open({.path = file.path, .block_bytes = 4096}, pool);
  ASSERT_TRUE(device.has_value());
  EXPECT_EQ((*device)->geometry().blocks, 64U);
  std::vector<std::byte> data(8192, std::byte{7});
  EXPECT_EQ(run(**device, {.operation = BlockOperation::Write,
                           .lba = 3,
                           .blocks = 2,
                           .write_from = data,
                           .force_unit_access = true}),
            BlockStatus::Ok);
  std::vector<std::byte> read(12288);
  EXPECT_EQ(
      run(**device, {.operation = BlockOperation::Read, .lba = 2, .blocks = 3, .read_into = read}),
      BlockStatus::Ok);
  EXPECT_EQ(std::ranges::count(read, std::byte{7}), 8192);
  EXPECT_EQ(read[4095], std::byte{0});
  EXPECT_EQ(run(**device, {.operation = BlockOperation::Flush}), BlockStatus::Ok);
}

TEST(FileDevice, KnowsItsHolesAndMakesThem) {
  const File file{1 << 20};
  WorkerPool pool{1};
  auto device = FileDevice::open({.path = file.path, .block_bytes = 512}, pool);
  ASSERT_TRUE(device.has_value());
  EXPECT_FALSE((*device)->extent(0).mapped);
  EXPECT_EQ((*device)->extent(0).blocks, 2048U);
  const std::vector<std::byte> data(65536, std::byte{7});
  ASSERT_EQ(
      run(**device,
          {.operation = BlockOperation::Write, .lba = 1024, .blocks = 128, .write_from = data}),
      BlockStatus::Ok);
  EXPECT_EQ((*device)->extent(0).blocks, 1024U);
  EXPECT_TRUE((*device)->extent(1024).mapped);
  EXPECT_EQ((*device)->extent(1024).blocks, 128U);
  ASSERT_EQ(run(**device, {.operation = BlockOperation::Unmap, .lba = 1024, .blocks = 64}),
            BlockStatus::Ok);
  EXPECT_FALSE((*device)->extent(1024).mapped);
  ASSERT_EQ(run(**device, {.operation = BlockOperation::WriteZeroes, .lba = 1088, .blocks = 64}),
            BlockStatus::Ok);
  std::vector<std::byte> read(65536, std::byte{1});
  ASSERT_EQ(run(**device,
                {.operation = BlockOperation::Read, .lba = 1024, .blocks = 128, .read_into = read}),
            BlockStatus::Ok);
  EXPECT_EQ(std::ranges::count(read, std::byte{0}), 65536);
}

TEST(FileDevice, RefusesWhatIsNoDisk) {
  const File file{1000};
  WorkerPool pool{1};
  EXPECT_EQ(FileDevice::open({.path = file.path}, pool).error().code, ErrorCode::InvalidArgument);
  EXPECT_EQ(FileDevice::open({.path = "/nonexistent/disk"}, pool).error().code, ErrorCode::Io);
  EXPECT_EQ(FileDevice::open({.path = "/dev/null"}, pool).error().code, ErrorCode::InvalidArgument);
  EXPECT_FALSE(FileDevice::open({.path = file.path, .block_bytes = 1000}, pool).has_value());
}

TEST(FileDevice, NeverWritesAReadOnlyFile) {
  const File file{4096};
  WorkerPool pool{1};
  auto device = FileDevice::open({.path = file.path, .read_only = true}, pool);
  ASSERT_TRUE(device.has_value());
  EXPECT_TRUE((*device)->geometry().read_only);
  const std::vector<std::byte> data(512);
  EXPECT_EQ(run(**device,
                {.operation = BlockOperation::Write, .lba = 0, .blocks = 1, .write_from = data}),
            BlockStatus::ReadOnly);
}

}  // namespace
}  // namespace weft::programs::iscsi
