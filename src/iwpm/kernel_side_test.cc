#include "iwpm/kernel_side.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace weft::iwpm {
namespace {

using wire::iwpm::DaemonError;
using wire::iwpm::kAbi;
using wire::iwpm::kClientIwcm;
using wire::iwpm::Operation;

constexpr std::uint32_t kDaemon = 4711;
constexpr Instant kStart{};
const SocketAddress kLocal{IpAddress::v4(0x0A00'0001), 80};
const SocketAddress kRemote{IpAddress::v4(0x0A00'0002), 90};
const DeviceInfo kDevice{.device_name = "siw0", .interface_name = "eth0"};

/// A daemon's socket: keeps what is sent to it.
struct Services final : KernelServices {
  Result<void> unicast(std::uint32_t port, std::vector<std::byte> datagram) override {
    if (!is_alive || port != kDaemon) {
      return fail(ErrorCode::Refused, "no such socket");
    }
    sent.push_back(std::move(datagram));
    return {};
  }
  Result<void> multicast(std::uint32_t group, std::vector<std::byte> datagram) override {
    if (!is_alive || group != wire::iwpm::kGroup) {
      return fail(ErrorCode::NotFound, "nobody listens");
    }
    sent.push_back(std::move(datagram));
    return {};
  }
  void log(std::string line) override { lines.push_back(std::move(line)); }

  bool is_alive = true;
  std::vector<std::vector<std::byte>> sent;
  std::vector<std::string> lines;
};

class IwpmKernel : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(kernel_.init(kClientIwcm).has_value()); }
  void TearDown() override { kernel_.check_invariants(); }

  template <class Message>
  int say(const Message& message, Operation operation = Message::kOperation,
          std::uint32_t sender = kDaemon, std::uint8_t client = kClientIwcm) {
    std::vector<std::byte> datagram;
    EXPECT_TRUE(wire::iwpm::append(datagram, 4096, {.client = client, .sequence = 5, .port = 1},
                                   message, kAbi, operation));
    ByteSpan rest = datagram;
    return kernel_.handle_message(*wire::netlink::take_message(rest), sender, now_);
  }
  /// The last message to the daemon.
  template <class Message>
  Message last(std::uint16_t abi = kAbi) {
    ByteSpan rest = services_.sent.back();
    const auto message = wire::netlink::take_message(rest);
    EXPECT_EQ(wire::iwpm::operation_of(message->header.type), Message::kOperation);
    last_sequence_ = message->header.sequence;
    const auto parsed = wire::iwpm::parse<Message>(message->payload, abi);
    EXPECT_TRUE(parsed.has_value());
    return parsed.value_or(Message{});
  }
  void enter(std::uint16_t version = kAbi) {
    const auto started = kernel_.register_pid(kDevice, kClientIwcm, now_);
    ASSERT_TRUE(started.has_value() && started->completion_follows);
    ASSERT_EQ(say(wire::iwpm::RegisterPidAnswer{started->sequence, "siw0",
                                                std::string{wire::iwpm::kLibraryName}, version, 0}),
              0);
    ASSERT_EQ(kernel_.poll_completion()->result, (WaitResult{0, false}));
  }
  std::uint32_t begin_query() {
    const auto started = kernel_.add_and_query_mapping(
        {.local = kLocal, .mapped_local = {}, .remote = kRemote, .mapped_remote = {}, .flags = 0},
        kClientIwcm, now_);
    EXPECT_TRUE(started.has_value() && started->completion_follows);
    return started->sequence;
  }

  Services services_;
  KernelSide kernel_{services_};
  Instant now_ = kStart;
  std::uint32_t last_sequence_ = 0;
};

TEST_F(IwpmKernel, RefusesEverythingOutsideOfInitAndExit) {
  EXPECT_FALSE(kernel_.init(kClientIwcm).has_value());
  EXPECT_FALSE(kernel_.init(wire::iwpm::kClients).has_value());
  ASSERT_TRUE(kernel_.create_mapinfo(kLocal, kLocal, kClientIwcm, 0).has_value());
  ASSERT_TRUE(kernel_.init(3).has_value());
  EXPECT_TRUE(kernel_.exit(kClientIwcm).has_value());
  EXPECT_EQ(kernel_.mapinfo_available(), 1);  // until the last client goes
  EXPECT_TRUE(kernel_.exit(3).has_value());
  EXPECT_EQ(kernel_.mapinfo_available(), 0);
  EXPECT_FALSE(kernel_.valid_client(kClientIwcm));
  const auto is_refused = [](const auto& result) {
    return !result && result.error().code == ErrorCode::InvalidArgument;
  };
  EXPECT_TRUE(is_refused(kernel_.exit(kClientIwcm)));
  EXPECT_TRUE(is_refused(kernel_.register_pid(kDevice, kClientIwcm, now_)));
  EXPECT_TRUE(is_refused(kernel_.add_mapping({}, kClientIwcm, now_)));
  EXPECT_TRUE(is_refused(kernel_.add_and_query_mapping({}, kClientIwcm, now_)));
  EXPECT_TRUE(is_refused(kernel_.remove_mapping(kLocal, kClientIwcm)));
  EXPECT_TRUE(is_refused(kernel_.create_mapinfo(kLocal, kLocal, kClientIwcm, 0)));
  EXPECT_TRUE(is_refused(kernel_.send_mapinfo(kClientIwcm, kDaemon)));
  EXPECT_TRUE(is_refused(kernel_.get_remote_info(kLocal, kRemote, kClientIwcm)));
  EXPECT_TRUE(is_refused(kernel_.send_hello(kClientIwcm, kDaemon, 4)));
  EXPECT_EQ(say(wire::iwpm::Hello{4}), -EINVAL);
  EXPECT_TRUE(services_.sent.empty());
}

TEST_F(IwpmKernel, RegistrationsAreBits) {
  EXPECT_EQ(kernel_.get_registration(kClientIwcm), kRegistrationUndefined);
  kernel_.set_registration(kClientIwcm, kRegistrationIncomplete);
  EXPECT_TRUE(
      kernel_.check_registration(kClientIwcm, kRegistrationValid | kRegistrationIncomplete));
  EXPECT_FALSE(kernel_.check_registration(kClientIwcm, kRegistrationValid));
  EXPECT_FALSE(kernel_.check_registration(3, kRegistrationIncomplete));
}

TEST_F(IwpmKernel, RegistersByMulticastAndLearnsTheDaemon) {
  EXPECT_FALSE(kernel_.valid_pid());
  const auto started = kernel_.register_pid(kDevice, kClientIwcm, now_);
  const auto request = last<wire::iwpm::RegisterPid>();
  EXPECT_EQ(request.device_name, "siw0");
  EXPECT_EQ(request.interface_name, "eth0");
  EXPECT_EQ(request.library_name, "iWarpPortMapperUser");
  EXPECT_EQ(last_sequence_, started->sequence);
  // Another library, another device, too old a version: no daemon.
  EXPECT_EQ(say(wire::iwpm::RegisterPidAnswer{started->sequence, "siw0", "other", 4, 0}), 0);
  EXPECT_EQ(kernel_.poll_completion()->result.number,
            static_cast<int>(DaemonError::UserLibraryInfo));
  EXPECT_FALSE(kernel_.valid_pid());
  enter();
  EXPECT_EQ(kernel_.daemon(), kDaemon);
  EXPECT_TRUE(kernel_.check_registration(kClientIwcm, kRegistrationValid));
  EXPECT_FALSE(kernel_.register_pid(kDevice, kClientIwcm, now_)->completion_follows);
  EXPECT_EQ(kernel_.requests(), 0U);
}

// Part of T-IWPM-3: nothing waits when there is no daemon.
TEST_F(IwpmKernel, WithoutADaemonGoesOnUnmappedAtOnce) {
  services_.is_alive = false;
  EXPECT_EQ(kernel_.register_pid(kDevice, kClientIwcm, now_).error().code, ErrorCode::NotFound);
  EXPECT_EQ(kernel_.requests(), 0U);
  EXPECT_FALSE(kernel_.register_pid(kDevice, kClientIwcm, now_)->completion_follows);
  EXPECT_FALSE(kernel_.add_mapping({}, kClientIwcm, now_)->completion_follows);
  EXPECT_FALSE(kernel_.add_and_query_mapping({}, kClientIwcm, now_)->completion_follows);
  EXPECT_TRUE(kernel_.remove_mapping(kLocal, kClientIwcm).has_value());
  EXPECT_FALSE(kernel_.poll_completion().has_value());
  // A daemon that comes says hello, and the client may register.
  services_.is_alive = true;
  EXPECT_EQ(say(wire::iwpm::Hello{4}), 0);
  EXPECT_EQ(last<wire::iwpm::Hello>().abi, 4);
  EXPECT_TRUE(kernel_.check_registration(kClientIwcm, kRegistrationIncomplete));
  EXPECT_EQ(kernel_.add_mapping({}, kClientIwcm, now_).error().code, ErrorCode::InvalidArgument);
  enter();
}

// T-IWPM-4
TEST_F(IwpmKernel, ASilentDaemonCostsTenSecondsAndLeavesNothing) {
  enter();
  begin_query();
  EXPECT_EQ(kernel_.poll_deadline(), kStart + Duration::seconds(10));
  kernel_.handle_timeout(kStart + Duration::milliseconds(9'999));
  EXPECT_FALSE(kernel_.poll_completion().has_value());
  EXPECT_EQ(kernel_.requests(), 1U);
  kernel_.handle_timeout(kStart + Duration::seconds(10));
  const auto completion = kernel_.poll_completion();
  ASSERT_TRUE(completion.has_value());
  EXPECT_EQ(completion->result, (WaitResult{-EINVAL, true}));
  EXPECT_FALSE(completion->has_mapping());
  EXPECT_EQ(kernel_.requests(), 0U);
  EXPECT_EQ(say(wire::iwpm::HandleError{completion->sequence, 11}), 0);
  EXPECT_FALSE(kernel_.poll_completion().has_value());
}

TEST_F(IwpmKernel, TakesMappingsOfTheOneThatWasAsked) {
  enter();
  const auto add = kernel_.add_mapping({.local = kLocal,
                                        .mapped_local = {},
                                        .remote = {},
                                        .mapped_remote = {},
                                        .flags = wire::iwpm::kFlagNoPortMap},
                                       kClientIwcm, now_);
  EXPECT_EQ(last<wire::iwpm::AddMapping>(),
            (wire::iwpm::AddMapping{5, kLocal, wire::iwpm::kFlagNoPortMap}));
  const wire::iwpm::AddMappingAnswer answer{add->sequence, kLocal, kLocal.with_port(9), 0};
  EXPECT_EQ(say(answer, Operation::AddMapping, kDaemon + 1), -EINVAL);  // a stranger
  EXPECT_FALSE(kernel_.poll_completion().has_value());
  EXPECT_EQ(say(answer), 0);
  const auto completion = kernel_.poll_completion();
  EXPECT_TRUE(completion->has_mapping());
  EXPECT_EQ(completion->addresses.mapped_local, kLocal.with_port(9));
  EXPECT_EQ(say(answer), -EINVAL);  // twice

  const std::uint32_t sequence = begin_query();
  EXPECT_EQ(
      say(wire::iwpm::ConnectionInfo{sequence, kLocal, kRemote.with_port(1), kLocal, kRemote, 0}),
      0);
  EXPECT_EQ(kernel_.poll_completion()->result.number,
            static_cast<int>(DaemonError::UserLibraryInfo));
  EXPECT_TRUE(kernel_.remove_mapping(kLocal, kClientIwcm).has_value());
  EXPECT_EQ(last<wire::iwpm::RemoveMapping>().local, kLocal);
  EXPECT_EQ(kernel_.requests(), 0U);
}

TEST_F(IwpmKernel, APeerThatRejectsIsUsedUnmapped) {
  enter();
  const std::uint32_t sequence = begin_query();
  const SocketAddress mapped = kLocal.with_port(40'000);
  EXPECT_EQ(say(wire::iwpm::ConnectionInfo{sequence, kLocal, kRemote, mapped, kRemote, 16}), 0);
  const auto completion = kernel_.poll_completion();
  EXPECT_EQ(completion->result.number, 16);
  EXPECT_TRUE(completion->has_mapping());
  EXPECT_EQ(completion->addresses.mapped_local, mapped);
  EXPECT_EQ(completion->addresses.mapped_remote, kRemote);
}

TEST_F(IwpmKernel, TheDaemonsErrorsReachTheWaiter) {
  enter();
  for (std::uint16_t error = 10; error <= 17; ++error) {
    const std::uint32_t sequence = begin_query();
    EXPECT_EQ(say(wire::iwpm::HandleError{sequence, error}), 0);
    EXPECT_EQ(kernel_.poll_completion()->result, (WaitResult{int{error}, false}));
  }
  EXPECT_EQ(say(wire::iwpm::HandleError{99'999, 17}), 0);  // of nobody's request
  EXPECT_EQ(kernel_.requests(), 0U);
}

TEST_F(IwpmKernel, OfVersion3SendsNoFlags) {
  enter(3);
  EXPECT_EQ(kernel_.abi(), 3);
  EXPECT_TRUE(
      kernel_
          .add_mapping(
              {.local = kLocal, .mapped_local = {}, .remote = {}, .mapped_remote = {}, .flags = 0},
              kClientIwcm, now_)
          .has_value());
  ByteSpan rest = services_.sent.back();
  EXPECT_FALSE(
      wire::iwpm::parse<wire::iwpm::AddMapping>(wire::netlink::take_message(rest)->payload, 4)
          .has_value());
  EXPECT_FALSE(
      kernel_
          .add_mapping(
              {.local = kLocal, .mapped_local = {}, .remote = {}, .mapped_remote = {}, .flags = 1},
              kClientIwcm, now_)
          .has_value());
}

TEST_F(IwpmKernel, TellsARestartedDaemonAllMappingsAndTheirNumber) {
  for (std::uint16_t i = 0; i < 30; ++i) {
    ASSERT_TRUE(kernel_
                    .create_mapinfo(kLocal.with_port(i),
                                    kLocal.with_port(static_cast<std::uint16_t>(i + 1000)),
                                    kClientIwcm, 0)
                    .has_value());
  }
  EXPECT_EQ(kernel_.send_mapinfo(kClientIwcm, kDaemon).value_or(0), 30U);
  std::set<std::uint16_t> told;
  ASSERT_GT(services_.sent.size(), 2U);  // one page is too small for all
  for (std::size_t i = 0; i + 1 < services_.sent.size(); ++i) {
    EXPECT_LE(services_.sent[i].size(), wire::iwpm::kMessageRoom);
    ByteSpan rest = services_.sent[i];
    std::uint16_t type = 0;
    while (const auto message = wire::netlink::take_message(rest)) {
      type = message->header.type;
      if (type != wire::netlink::kTypeDone) {
        told.insert(wire::iwpm::parse<wire::iwpm::Mapinfo>(message->payload, 3)->local.port);
      }
    }
    EXPECT_EQ(type, wire::netlink::kTypeDone);
  }
  EXPECT_EQ(told.size(), 30U);
  EXPECT_EQ(last<wire::iwpm::MapinfoCount>().sent, 30U);
  EXPECT_EQ(kernel_.send_mapinfo(kClientIwcm, kDaemon + 1).error().code, ErrorCode::Refused);
}

TEST_F(IwpmKernel, RemoteInfoComesFromTheDaemonAndIsTakenOnce) {
  enter();
  const wire::iwpm::ConnectionInfo info{
      0, kLocal, kRemote, kLocal.with_port(1), kRemote.with_port(2), 0};
  EXPECT_EQ(say(info, Operation::RemoteInfo, kDaemon + 1), -EINVAL);
  EXPECT_EQ(say(info, Operation::RemoteInfo), 0);
  const auto get = [&] {
    return kernel_.get_remote_info(info.mapped_local, info.mapped_remote, kClientIwcm);
  };
  EXPECT_EQ(get().value_or(SocketAddress{}), kRemote);
  EXPECT_FALSE(get().has_value());
}

TEST_F(IwpmKernel, ADaemonThatDiedIsForgotten) {
  enter();
  services_.is_alive = false;
  EXPECT_EQ(
      kernel_
          .add_mapping(
              {.local = kLocal, .mapped_local = {}, .remote = {}, .mapped_remote = {}, .flags = 0},
              kClientIwcm, now_)
          .error()
          .code,
      ErrorCode::Refused);
  EXPECT_FALSE(kernel_.valid_pid());
  EXPECT_EQ(kernel_.requests(), 0U);
}

TEST_F(IwpmKernel, NoTwoThreadsGetTheSameNumber) {
  constexpr std::size_t kEach = 20'000;
  std::vector<std::uint32_t> first(kEach);
  std::vector<std::uint32_t> second(kEach);
  {
    const auto fill = [&](std::vector<std::uint32_t>& numbers) {
      for (std::uint32_t& number : numbers) {
        number = kernel_.get_nlmsg_seq();
      }
    };
    const std::jthread one{[&] { fill(first); }};
    fill(second);
  }
  std::set<std::uint32_t> all(first.begin(), first.end());
  all.insert(second.begin(), second.end());
  EXPECT_EQ(all.size(), 2 * kEach);
  EXPECT_EQ(*all.rbegin(), 2 * kEach);
}

TEST_F(IwpmKernel, RefusesWhatNoDaemonSays) {
  enter();
  EXPECT_EQ(say(wire::iwpm::Hello{4}, Operation::Hello, 0), -EINVAL);
  EXPECT_EQ(say(wire::iwpm::Hello{2}), -EINVAL);
  EXPECT_EQ(say(wire::iwpm::Hello{4}, Operation::RemoveMapping), -EINVAL);
  EXPECT_EQ(say(wire::iwpm::Hello{4}, static_cast<Operation>(9)), -EINVAL);
  EXPECT_EQ(say(wire::iwpm::Hello{4}, Operation::QueryMapping), -EINVAL);
  EXPECT_EQ(say(wire::iwpm::MapinfoRequest{"other", 4}), -EINVAL);
  EXPECT_EQ(say(wire::iwpm::MapinfoCountAnswer{1, 2, 3}, Operation::MapinfoCount, 5), -EINVAL);
  EXPECT_EQ(kernel_.daemon(), kDaemon);
}

}  // namespace
}  // namespace weft::iwpm
