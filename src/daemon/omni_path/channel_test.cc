#include "daemon/omni_path/channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fabric/testing/omni_path_star.h"
#include "node/fabric.h"
#include "wire/opa/packet_16b.h"

namespace weft::daemon {
namespace {

using node::OmniPathUsers;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A channel of a program at o1, and a program at o2; the test runs the management plane.
class OmniPathSocket : public ::testing::Test {
 protected:
  OmniPathSocket() {
    run_management();
    std::array<int, 2> ends{-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    program_ = host::ControlSocket{os::UniqueFd{ends[1]}};
    channel_ = std::make_shared<OmniPathChannel>(loop_, os::UniqueFd{ends[0]}, users(), near_);
    channel_->start({.on_sent = [this] { ++turns_; },
                     .on_offence = [this](std::string_view what) { offences_ += what; }});
  }
  ~OmniPathSocket() override { channel_->close(); }

  void run_management() {
    while (fabric_->run_management(Instant{})) {
    }
  }
  [[nodiscard]] OmniPathUsers& users() { return fabric_->management().omni_path_users(); }
  [[nodiscard]] fabric::PortIndex port(std::string_view name) const {
    return fabric_->find_ports(name)->front();
  }
  [[nodiscard]] std::vector<std::byte> frame(std::string_view from, std::string_view to,
                                             std::size_t bytes = 60) const {
    const fabric::TablesBuilder& tables = fabric_->builder();
    return wire::to_opa_packet({.slid = tables.port(port(from)).lid,
                                .dlid = tables.port(port(to)).lid,
                                .pkey = kDefaultPKey},
                               std::vector<std::byte>(bytes));
  }
  void program_sends(const std::vector<std::vector<std::byte>>& packets) {
    uabi::OmniPathPackets batch;
    for (const auto& packet : packets) {
      batch.packets.push_back({packet});
    }
    ASSERT_TRUE(program_.send(batch));
    loop_.restart();
    loop_.poll();
  }
  [[nodiscard]] std::size_t arrived_far() {
    run_management();
    std::size_t count = 0;
    for (; users().next_bytes(far_) != 0; ++count) {
      static_cast<void>(users().take_next(far_));
    }
    return count;
  }
  /// How many packets each batch has that the program can read now.
  [[nodiscard]] std::vector<std::size_t> batches() {
    std::vector<std::size_t> sizes;
    while (const auto received = program_.receive()) {
      sizes.push_back(received->message.get<uabi::OmniPathPackets>().packets.size());
    }
    return sizes;
  }
  void far_sends(std::size_t count, std::size_t bytes = 60) {
    for (std::size_t i = 0; i < count; ++i) {
      users().send(far_, frame("o2:1", "o1:1", bytes));
      run_management();
    }
  }

  std::unique_ptr<node::Fabric> fabric_{
      std::move(*node::Fabric::create(fabric::testing::omni_path_beside_infiniband(), Instant{}))};
  node::OmniPathUserId near_{*users().attach(port("o1:1"), {.takes_ethernet = true})};
  node::OmniPathUserId far_{*users().attach(port("o2:1"), {.takes_ethernet = true})};
  asio::io_context loop_;
  host::ControlSocket program_;
  std::shared_ptr<OmniPathChannel> channel_;
  int turns_{};
  std::string offences_;
};

TEST_F(OmniPathSocket, SendsWhatTheProgramSends) {
  program_sends({frame("o1:1", "o2:1"), frame("o1:1", "o2:1")});
  EXPECT_EQ(turns_, 1);
  EXPECT_EQ(arrived_far(), 2U);
  program_sends({frame("o1:1", "o2:1")});
  EXPECT_EQ(arrived_far(), 1U);
}

TEST_F(OmniPathSocket, GivesTheProgramItsPacketsInBatchesOfManyOrOfFewLongOnes) {
  far_sends(uabi::kMaxOmniPathPackets + 1);
  channel_->flush();
  EXPECT_THAT(batches(), ElementsAre(uabi::kMaxOmniPathPackets, 1U));
  far_sends(3, 10'238);
  channel_->flush();
  EXPECT_THAT(batches(), ElementsAre(2U, 1U));
  channel_->flush();
  EXPECT_THAT(batches(), IsEmpty());
}

TEST_F(OmniPathSocket, KeepsWhatTheProgramsSocketHasNoRoomForAndInOrder) {
  constexpr std::size_t kMany = 2'000;
  far_sends(kMany, 1'000);
  channel_->flush();
  std::size_t got = 0;
  std::size_t rounds = 0;
  for (; got < kMany && rounds < 1'000; ++rounds) {
    for (const std::size_t size : batches()) {
      got += size;
    }
    loop_.restart();
    loop_.poll();  // the socket has room again
  }
  EXPECT_EQ(got, kMany);
  EXPECT_GT(rounds, 1U) << "they all fitted at once";
}

/// What it has not read is still there when there is room.
TEST_F(OmniPathSocket, ReadsNoMoreWhileMuchIsUnderWay) {
  const std::vector<std::vector<std::byte>> batch(uabi::kMaxOmniPathPackets, frame("o1:1", "o2:1"));
  const std::size_t enough = OmniPathUsers::kEnoughUnderWay / batch.size();
  for (std::size_t i = 0; i < enough + 2; ++i) {
    program_sends(batch);
  }
  EXPECT_FALSE(users().has_room());
  EXPECT_EQ(arrived_far(), enough * batch.size());
  channel_->flush();
  loop_.restart();
  loop_.poll();
  EXPECT_EQ(arrived_far(), 2 * batch.size());
}

TEST_F(OmniPathSocket, NamesWhatIsNoPacketAndEndsAtWhatIsNoBatch) {
  program_sends({{std::byte{1}}, frame("o1:1", "o2:1")});
  EXPECT_THAT(offences_, HasSubstr("16B packets that are none"));
  EXPECT_EQ(arrived_far(), 1U);
  ASSERT_TRUE(program_.send(uabi::OmniPathPortsChanged{}));
  loop_.restart();
  loop_.poll();
  EXPECT_THAT(offences_, HasSubstr("malformed batches"));
  EXPECT_EQ(program_.receive().error().code, ErrorCode::Refused);
}

}  // namespace
}  // namespace weft::daemon
