// Paths that a resolver shows (uabi::PublishPaths), with a whole daemon.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <string>
#include <utility>

#include "daemon/testing/live_fabric.h"
#include "host/control_socket.h"
#include "os/clock.h"
#include "os/run_directory.h"
#include "os/shared_memory.h"
#include "sa/published_paths.h"

namespace weft::daemon {
namespace {

using sa::PublishedLayout;
using ::testing::HasSubstr;
using testing::LiveFabric;

constexpr Duration kWaitLimit = Duration::seconds(20);

/// This thread's right to administer its network, which the daemon looks for, in effect or not.
/// False: it has none to put into effect.
bool set_may_administer(bool may) {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, 2> data{};
  EXPECT_EQ(syscall(SYS_capget, &header, data.data()), 0);
  constexpr std::uint32_t kBit = 1U << CAP_NET_ADMIN;
  data[0].effective =
      may ? data[0].effective | (data[0].permitted & kBit) : data[0].effective & ~kBit;
  EXPECT_EQ(syscall(SYS_capset, &header, data.data()), 0);
  return (data[0].permitted & kBit) != 0;
}

/// What a resolver has: memory that others may read.
struct Table {
  explicit Table(std::size_t bytes = PublishedLayout::kBytes)
      : file(*os::create_sealable_memory("test", bytes)),
        memory(*os::map_shared(file, os::Protection::ReadWrite, bytes, bytes)) {}

  os::UniqueFd file;
  os::Mapping memory;
};

class LivePublishedPaths : public ::testing::Test {
 protected:
  LivePublishedPaths() { can_be_privileged_ = set_may_administer(true); }

  [[nodiscard]] host::ControlSocket connected() const {
    return std::move(*host::ControlSocket::connect(os::control_path(fabric_.on("h1").run, "test")));
  }
  /// "": it was taken.
  [[nodiscard]] static std::string publish(const host::ControlSocket& socket, const Table& table,
                                           std::string host = "h1",
                                           std::uint32_t version = uabi::kVersion) {
    EXPECT_TRUE(socket.send(uabi::PublishPaths{.version = version, .host = std::move(host)},
                            std::array{table.file.get()}));
    return reason_in(socket.receive(kWaitLimit));
  }
  [[nodiscard]] static std::string reason_in(const Result<host::Received>& received) {
    EXPECT_TRUE(received) << received.error().reason;
    const auto* const refused = received ? received->message.get_if<uabi::Refused>() : nullptr;
    return refused == nullptr ? "" : refused->reason;
  }
  [[nodiscard]] Result<host::Received> asked(std::string host) const {
    const auto socket = connected();
    EXPECT_TRUE(
        socket.send(uabi::AskPublishedPaths{.version = uabi::kVersion, .host = std::move(host)}));
    return socket.receive(kWaitLimit);
  }

  LiveFabric fabric_{"pair"};
  bool can_be_privileged_{};
};

TEST_F(LivePublishedPaths, AreShownWhileTheResolverLives) {  // R-NL-8
  EXPECT_THAT(reason_in(asked("h1")), HasSubstr("no resolver shows its paths"));
  Table table;
  auto resolver = connected();
  const std::string refused = publish(resolver, table);
  if (!can_be_privileged_) {
    EXPECT_THAT(refused, HasSubstr("may administer the host's network"));
    return;
  }
  EXPECT_EQ(refused, "");
  EXPECT_THAT(reason_in(asked("h2")), HasSubstr("no resolver shows its paths"));
  const auto received = asked("h1");
  ASSERT_EQ(reason_in(received), "");
  ASSERT_TRUE(received->message.holds<uabi::PublishedPaths>());
  const os::UniqueFd& file = received->descriptors.front();
  // The system is asked itself: under TSan, os::map_shared() gives the mapping that is there.
  EXPECT_EQ(
      mmap(nullptr, PublishedLayout::kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0),
      MAP_FAILED)
      << "who reads must not be able to write";
  const auto memory = os::map_shared(file, os::Protection::ReadOnly, PublishedLayout::kBytes,
                                     PublishedLayout::kBytes);
  ASSERT_TRUE(memory) << memory.error().reason;
  const sa::PublishedPaths paths{memory->bytes()};
  EXPECT_TRUE(paths.is_live());
  const sa::PathQuery wanted{
      .sgid = Gid{kDefaultGidPrefix, Guid{1}},
        .dgid = Gid{kDefaultGidPrefix, Guid{2}}
  };
  sa::PathPublisher{table.memory.bytes()}.put(
      wanted, {.dgid = wanted.dgid, .sgid = wanted.sgid, .dlid = Lid{7}, .reversible = true},
      Instant::never());
  EXPECT_EQ(paths.find(wanted, os::now())->dlid, Lid{7});
  EXPECT_THAT(publish(connected(), Table{}), HasSubstr("a resolver shows its paths already"));

  resolver.close();
  for (int turn = 0; turn < 2'000 && paths.is_live(); ++turn) {
    usleep(10'000);
  }
  EXPECT_FALSE(paths.is_live());
  EXPECT_EQ(paths.find(wanted, os::now()), std::nullopt);
  EXPECT_THAT(reason_in(asked("h1")), HasSubstr("no resolver shows its paths"));
  EXPECT_EQ(publish(connected(), Table{}), "") << "another may come";
}

TEST_F(LivePublishedPaths, AreRefusedInWords) {  // R-NL-7
  EXPECT_THAT(publish(connected(), Table{}, "h9"), HasSubstr("h9"));
  EXPECT_THAT(publish(connected(), Table{}, "h1", 1), HasSubstr("version"));
  EXPECT_THAT(reason_in(asked("h9")), HasSubstr("h9"));
  set_may_administer(false);
  EXPECT_THAT(publish(connected(), Table{}), HasSubstr("may administer the host's network"));
  if (set_may_administer(true)) {
    EXPECT_THAT(publish(connected(), Table{PublishedLayout::kBytes - 64}), HasSubstr("bytes"));
    Table sealed;
    ASSERT_TRUE(os::forbid_new_writers(sealed.file));
    EXPECT_NE(publish(connected(), sealed), "") << "the daemon could not say when it is over";
  }
}

}  // namespace
}  // namespace weft::daemon
