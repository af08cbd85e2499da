#pragma once

// An initiator on host 0 and an iSCSI target over iSER on host 1, on one thread and a virtual
// clock.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/testing/engine_network.h"
#include "core/testing/manual_environment.h"
#include "iscsi/testing/scripted_initiator.h"
#include "ulp/iser/initiator.h"
#include "ulp/iser/target_datamover.h"
#include "ulp/iser/testing/simulated_cm.h"
#include "wire/iscsi/login.h"

namespace weft::iser::testing {

/// The iSCSI layer above a connection, as a test plays it.
class PduLog final : public iscsi::DatamoverClient {
 public:
  struct Pdu {
    iscsi::HeaderOctets header;
    std::vector<std::byte> data;
  };
  void handle_pdu(const iscsi::ReceivedPdu& pdu, Instant /*now*/) override {
    Pdu copy{
        .header = {},
          .data = {pdu.data.begin(), pdu.data.end()}
    };
    std::ranges::copy(pdu.header, copy.header.begin());
    came.push_back(std::move(copy));
  }
  void handle_data_fetched(std::uint32_t /*tag*/, Instant /*now*/) override {}
  void handle_agreed(Instant /*now*/) override { ++agreed; }
  void handle_lost(std::string_view why, Instant /*now*/) override {
    ++losses;
    reason = why;
  }

  std::deque<Pdu> came;
  unsigned agreed{};
  unsigned losses{};
  std::string reason;
};

struct WorldOptions {
  TargetOptions target{};
  iscsi::ServerOptions server{};
  scsi::ProtectionType protection{scsi::ProtectionType::None};  ///< of the disk
  core::engine::EngineInit initiator_device{};
  core::engine::EngineInit target_device{};
};

class World {
 public:
  explicit World(std::uint64_t seed = 1, const TargetOptions& target = {},
                 const iscsi::ServerOptions& server = {})
      : World(seed, WorldOptions{.target = target, .server = server}) {}
  World(std::uint64_t seed, const WorldOptions& options)
      : fixture(options.server, options.protection), target_options_(options.target) {
    environment.world = [this] { return step(); };
    network.add_host(registry, options.initiator_device);
    network.add_host(registry, options.target_device);
    cm = std::make_unique<SimulatedCm>(environment, network, seed);
    EXPECT_TRUE(registry.register_client(*cm));
    cm->listen(1, [this](std::unique_ptr<SimulatedId> id, ByteSpan data) {
      auto mover = std::make_unique<TargetDatamover>(environment, target_options_,
                                                     [this] { ++targets_gone; });
      iscsi::DatamoverClient* const client = fixture.server.accept(*mover, environment.now());
      if (client == nullptr || refuses) {
        return;
      }
      mover->set_client(*client);
      id->set_handler(*mover);
      const auto accepted = mover->accept(std::move(id), data);
      EXPECT_TRUE(accepted) << accepted.error().reason;
      movers.push_back(std::move(mover));
    });
    initiator = std::make_unique<Initiator>(
        environment, [this](CmHandler& handler) { return cm->make_id(0, handler); });
  }
  ~World() {
    initiator.reset();
    for (const auto& mover : movers) {
      mover->terminate(iscsi::Datamover::Ending::AtOnce, "the test ends");
    }
    environment.wait_until([this] { return targets_gone == movers.size(); }, Instant::never());
    environment.advance(Duration::milliseconds(20));
    movers.clear();
    registry.unregister_client(*cm);
    cm.reset();
    network.unregister_all();
  }

  bool step() {
    if (seen_wakes_ != fixture.wakes) {
      seen_wakes_ = fixture.wakes;
      fixture.server.handle_completions(environment.now());
      return true;
    }
    return network.step();
  }

  /// Connects and binds `log`; the endpoint.
  EndpointId connect(PduLog& log, const ConnectionOptions& options = {}) {
    const auto endpoint = initiator->connect_endpoint("1", options, true);
    EXPECT_TRUE(endpoint) << endpoint.error().reason;
    if (!endpoint) {
      return 0;
    }
    session = initiator->create_session(*endpoint, {});
    connection = initiator->create_connection(*session, 0);
    EXPECT_TRUE(initiator->bind(*connection, *endpoint, true, log));
    EXPECT_TRUE(initiator->start(*connection));
    return *endpoint;
  }
  [[nodiscard]] Connection& link() { return *connection->connection(); }

  /// Waits for the next PDU, which must be of this kind.
  template <class Header>
  Header next(PduLog& log, std::vector<std::byte>* data = nullptr) {
    environment.wait_until([&] { return !log.came.empty() || log.losses != 0; },
                           environment.now() + Duration::seconds(20));
    if (log.came.empty()) {
      ADD_FAILURE() << "no " << Header::kName << "; " << log.reason;
      return {};
    }
    const auto pdu = std::move(log.came.front());
    log.came.pop_front();
    const auto header = wire::unpack<Header>(pdu.header);
    EXPECT_EQ(header.opcode, Header{}.opcode) << "wanted " << Header::kName;
    if (data != nullptr) {
      *data = pdu.data;
    }
    return header;
  }

  void send_login(const TransferParameters& agreed = {}) {
    wire::iscsi::LoginRequest request;
    request.transit = true;
    request.current_stage = wire::iscsi::LoginStage::LoginOperationalNegotiation;
    request.next_stage = wire::iscsi::LoginStage::FullFeature;
    request.isid = isid;
    request.cid = 1;
    request.cmd_sn = cmd_sn;
    iscsi::TextWriter text;
    text.add("InitiatorName", iscsi::testing::kInitiatorName);
    text.add("SessionType", "Normal");
    text.add("TargetName", iscsi::testing::kTargetName);
    text.add("InitialR2T", agreed.initial_r2t ? "Yes" : "No");
    text.add("ImmediateData", agreed.immediate_data ? "Yes" : "No");
    text.add("FirstBurstLength", std::to_string(agreed.first_burst_bytes));
    if (declares_hello) {
      text.add("iSERHelloRequired", *declares_hello ? "Yes" : "No");
    }
    EXPECT_TRUE(link().send_control(iscsi::text_pdu(request, text.text())));
  }
  void login(PduLog& log, const TransferParameters& agreed = {}) {
    send_login(agreed);
    const auto response = next<wire::iscsi::LoginResponse>(log);
    EXPECT_EQ(response.status, wire::iscsi::LoginStatus::Success);
    exp_stat_sn = response.stat_sn + 1;
    if (!link().agree(agreed)) {
      environment.wait_until([this] { return !link().awaits_hello_reply(); },
                             environment.now() + Duration::seconds(1));
    }
    Task probe;  // the unit attention of a new nexus
    number(probe);
    EXPECT_TRUE(link().transmit(probe));
    static_cast<void>(next<wire::iscsi::ScsiResponse>(log));
  }

  void number(Task& task) {
    task.command.attribute = wire::iscsi::TaskAttributeCode::Simple;
    task.command.initiator_task_tag = next_tag++;
    task.command.cmd_sn = cmd_sn++;
    task.command.exp_stat_sn = exp_stat_sn;
  }
  /// READ (10) or WRITE (10) of `memory`, a multiple of 512 octets, in pieces of `piece` octets.
  void set_up(Task& task, bool writes, std::uint32_t lba, MutableByteSpan memory,
              std::size_t piece = 1U << 30) {
    number(task);
    task.command.cdb[0] = std::byte{static_cast<unsigned char>(writes ? 0x2A : 0x28)};
    for (std::size_t i = 0; i < 4; ++i) {
      task.command.cdb[5 - i] = static_cast<std::byte>(lba >> i * 8);
    }
    const std::size_t blocks = memory.size() / 512;
    task.command.cdb[7] = static_cast<std::byte>(blocks >> 8);
    task.command.cdb[8] = static_cast<std::byte>(blocks & 0xFF);
    auto& list = writes ? task.data_out : task.data_in;
    for (std::size_t at = 0; at < memory.size(); at += piece) {
      const auto part = memory.subspan(at, std::min(piece, memory.size() - at));
      list.push_back({.address = std::bit_cast<std::uint64_t>(part.data()),
                      .length = static_cast<std::uint32_t>(part.size())});
    }
  }

  core::testing::ManualEnvironment environment;
  core::Registry registry{environment};
  core::testing::EngineNetwork network{environment};
  iscsi::testing::Fixture fixture;
  std::unique_ptr<SimulatedCm> cm;
  std::vector<std::unique_ptr<TargetDatamover>> movers;
  std::size_t targets_gone{};
  bool refuses{};
  std::unique_ptr<Initiator> initiator;
  Session* session{};
  SessionConnection* connection{};
  std::optional<bool> declares_hello;  ///< by iSERHelloRequired
  std::uint64_t isid{0x8000'0000'0001};
  std::uint32_t cmd_sn{100};
  std::uint32_t exp_stat_sn{};
  std::uint32_t next_tag{1};

 private:
  TargetOptions target_options_;
  int seen_wakes_{};
};

}  // namespace weft::iser::testing
