#pragma once

// A scripted daemon: it attaches one program to h1 of a pair, and sends it the tables that the test
// makes. It can change what weftd never changes while programs run.

#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <array>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>

#include "fabric/counters.h"
#include "fabric/departure_clocks.h"
#include "fabric/faults.h"
#include "fabric/testing/test_routes.h"
#include "host/control_socket.h"
#include "host/lane.h"
#include "os/packet_socket.h"
#include "os/run_directory.h"
#include "os/shared_memory.h"

namespace weft::host::testing {

class TablesDaemon {
 public:
  static constexpr Duration kWaitLimit = Duration::seconds(10);
  static constexpr fabric::NodeIndex kPeerNode{1};

  TablesDaemon() : builder(fabric::generate_pair()) {
    char pattern[] = "/tmp/weft-test-XXXXXX";
    run = mkdtemp(pattern);
    std::filesystem::create_directories(os::fabric_directory(run, "test"));
    listener_ = std::move(*os::listen_at(os::control_path(run, "test")));
    EXPECT_TRUE(fabric::testing::TestRoutes{builder}.bring_up());
    own_port = builder.node(fabric::NodeIndex{0}).first_port;
    peer_port = builder.node(kPeerNode).first_port;
    page_ = std::move(*os::create_shared_memory("counters", fabric::CounterPage::bytes_needed()));
    attention = std::move(*os::create_shared_memory("attention", kAttentionPageBytes));
    clocks_ =
        std::move(*os::create_shared_memory("clocks", fabric::DepartureClocks::bytes_needed(64)));
    faults_ = std::move(*os::create_shared_memory("faults", fabric::FaultCounters::bytes_needed()));
  }
  ~TablesDaemon() { std::filesystem::remove_all(run); }
  TablesDaemon(const TablesDaemon&) = delete;
  TablesDaemon& operator=(const TablesDaemon&) = delete;

  /// Waits for the program to attach, on a thread of its own.
  void admit_program() {
    pollfd called{.fd = listener_.get(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(::poll(&called, 1, static_cast<int>(kWaitLimit.milliseconds())), 1);
    control = ControlSocket{os::UniqueFd{accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)}};
    EXPECT_TRUE(control.receive(kWaitLimit));
    const os::UniqueFd tables = next_tables();
    const std::array descriptors{tables.get(), page_.get(), attention.get(), clocks_.get(),
                                 faults_.get()};
    uabi::Welcome welcome;
    welcome.self = {.node = 0, .slot = 1};
    EXPECT_TRUE(control.send(welcome, descriptors));
    send_initial_state();
    if (control) {
      EXPECT_TRUE(control.send(uabi::InitialStateSent{}));
    }
  }

  /// Who else connects finds no daemon.
  void refuse_others() { listener_.reset(); }

  void send_tables() {
    const os::UniqueFd tables = next_tables();
    const std::array descriptors{tables.get()};
    EXPECT_TRUE(control.send(uabi::TablesChanged{}, descriptors));
  }

  /// The counters of the program.
  [[nodiscard]] fabric::CounterPageView counter_page() {
    if (page_memory_.bytes().empty()) {
      const std::size_t bytes = fabric::CounterPage::bytes_needed();
      page_memory_ = std::move(*os::map_shared(page_, os::Protection::ReadOnly, bytes, bytes));
    }
    return *fabric::CounterPageView::open(page_memory_.bytes());
  }

  std::function<void()> send_initial_state{[] {}};  // sends the state before the program attached
  std::string run;
  fabric::TablesBuilder builder;
  fabric::PortIndex own_port;
  fabric::PortIndex peer_port;
  os::UniqueFd attention;
  ControlSocket control;  // closed: the daemon has ended

 private:
  os::UniqueFd next_tables() {
    return std::move(*os::publish_memory("tables", builder.build(++generation_)));
  }

  os::UniqueFd listener_;
  std::uint64_t generation_{};
  os::UniqueFd page_;
  os::Mapping page_memory_;
  os::UniqueFd clocks_;
  os::UniqueFd faults_;
};

}  // namespace weft::host::testing
