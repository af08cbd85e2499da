#include "programs/srp/loop_device.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>

namespace weft::programs::srp {
namespace {

/// Answers each request in a thread of its own, or at once.
struct Below final : scsi::BlockDevice {
  [[nodiscard]] scsi::BlockGeometry geometry() const override { return {.blocks = 8}; }
  void submit(scsi::BlockRequest& request) override {
    const auto answer = [&request] {
      request.client->handle_block_result(request, {.status = scsi::BlockStatus::ReadError});
    };
    if (answers_at_once) {
      answer();
    } else {
      std::thread{answer}.join();
    }
  }
  bool answers_at_once{};
};

struct Client final : scsi::BlockClient {
  void handle_block_result(scsi::BlockRequest& request, const scsi::BlockResult& result) override {
    told = &request;
    status = result.status;
    thread = std::this_thread::get_id();
  }
  scsi::BlockRequest* told{};
  std::optional<scsi::BlockStatus> status;
  std::thread::id thread;
};

TEST(SrpLoopDevice, ResultsOfOtherThreadsComeInTheLoop) {
  asio::io_context loop;
  LoopDevice device{loop, std::make_unique<Below>()};
  Client client;
  scsi::BlockRequest request{.operation = scsi::BlockOperation::Read, .client = &client};
  device.submit(request);
  EXPECT_FALSE(client.status) << "not before the loop runs";
  loop.run();
  EXPECT_EQ(client.told, &request);
  EXPECT_EQ(client.status, scsi::BlockStatus::ReadError);
  EXPECT_EQ(client.thread, std::this_thread::get_id());
}

TEST(SrpLoopDevice, ResultsOfTheLoopsOwnThreadComeAtOnce) {
  asio::io_context loop;
  auto below = std::make_unique<Below>();
  below->answers_at_once = true;
  LoopDevice device{loop, std::move(below)};
  Client client;
  scsi::BlockRequest request{.operation = scsi::BlockOperation::Read, .client = &client};
  device.submit(request);
  EXPECT_EQ(client.told, &request);
  EXPECT_EQ(device.geometry().blocks, 8U);
}

}  // namespace
}  // namespace weft::programs::srp
