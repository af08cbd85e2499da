#pragma once

// A target server with one disk in memory, and connections to it whose PDUs a test writes and reads
// one by one.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "iscsi/datamover.h"
#include "iscsi/target_server.h"
#include "iscsi/testing/fake_chap_library.h"
#include "iscsi/text.h"
#include "scsi/ram_device.h"
#include "scsi/target.h"
#include "scsi/testing/bench_target.h"
#include "wire/iscsi/data.h"
#include "wire/iscsi/login.h"
#include "wire/iscsi/scsi_command.h"

namespace weft::iscsi::testing {

inline constexpr std::string_view kTargetName = "iqn.2026-01.org.example:disks";
inline constexpr std::string_view kInitiatorName = "iqn.2026-01.org.example:client";

/// Remembers what the target sends.
class RecordingDatamover final : public Datamover {
 public:
  void limit(Preferences& preferences) const override {
    preferences.values.rdma_extensions |= limits_to_rdma;
    if (limits_to_rdma) {
      preferences.values.hello_required = true;
    }
  }
  void send_control(OutgoingPdu pdu) override { sent.push_back(std::move(pdu)); }
  void put_data(OutgoingPdu pdu) override { sent.push_back(std::move(pdu)); }
  void get_data(OutgoingPdu pdu, MutableByteSpan into) override {
    fetch_into = into;
    sent.push_back(std::move(pdu));
  }
  [[nodiscard]] std::size_t max_protected_bytes() const override { return protected_bytes; }
  void get_protected_data(OutgoingPdu pdu, ProtectedData into) override {
    protected_data = std::move(into);
    sent.push_back(std::move(pdu));
  }
  void put_protected_data(OutgoingPdu pdu, ProtectedData from) override {
    protected_data = std::move(from);
    sent.push_back(std::move(pdu));
  }
  [[nodiscard]] bool agree(const Parameters& parameters) override {
    agreed = parameters;
    return !delays_agreement;
  }
  void enable(bool header, bool data, std::size_t /*max_receive_bytes*/) override {
    header_digest = header;
    data_digest = data;
  }
  void terminate(Ending /*ending*/, std::string_view why) override {
    ended = true;
    reason = why;
  }

  std::deque<OutgoingPdu> sent;
  MutableByteSpan fetch_into;
  std::size_t protected_bytes{};  ///< as an adapter with integrity regions
  ProtectedData protected_data;   ///< of the last PDU
  bool limits_to_rdma{};          ///< as iSER does
  bool delays_agreement{};        ///< until the test says that it is there
  std::optional<Parameters> agreed;
  bool header_digest{};
  bool data_digest{};
  bool ended{};
  std::string reason;
};

class Fixture final : public ServerEnvironment {
 public:
  static constexpr std::uint64_t kDiskBytes = 1 << 20;

  explicit Fixture(const ServerOptions& options = {},
                   scsi::ProtectionType protection = scsi::ProtectionType::None)
      : disk(*scsi::RamDevice::create(
            {.bytes = kDiskBytes,
             .block_bytes = 512,
             .keeps_protection = protection != scsi::ProtectionType::None})),
        gate(*disk, disk->geometry()),
        server(options, *this) {
    const scsi::PortOptions port{.id = scsi::PortId{1}, .protocol = 5, .designator = {}};
    EXPECT_TRUE(scsi.add_port(port).has_value());
    EXPECT_TRUE(scsi.add_unit({.lun = scsi::Lun{0}, .protection = protection}, gate).has_value());
    node.name = kTargetName;
    node.scsi = &scsi;
    EXPECT_TRUE(server.add_node(node).has_value());
    server.set_addresses({"127.0.0.1:3260"}, {});
  }

  void wake() override { ++wakes; }
  [[nodiscard]] ChapLibrary& chap_library() override { return chap; }

  std::unique_ptr<scsi::RamDevice> disk;
  scsi::testing::HeldDevice gate;  // before the disk; it holds nothing unless told
  FakeChapLibrary chap;
  scsi::Target scsi;
  NodeOptions node;
  TargetServer server;
  int wakes{};
};

/// One connection.
class Connection {
 public:
  explicit Connection(Fixture& fixture) : client_(fixture.server.accept(mover, {})) {}
  ~Connection() { lose(); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  template <class Header>
  void send(Header header, std::vector<std::byte> data = {}, bool damaged = false) {
    const OutgoingPdu pdu{header, std::move(data)};
    client_->handle_pdu({.header = pdu.header(),
                         .additional_headers = {},
                         .data = pdu.data(),
                         .data_is_damaged = damaged},
                        now);
  }
  void send_pdu(const OutgoingPdu& pdu) {
    client_->handle_pdu({.header = pdu.header(),
                         .additional_headers = pdu.additional_headers(),
                         .data = pdu.data()},
                        now);
  }
  /// The next PDU of the target, which must be of this kind.
  template <class Header>
  [[nodiscard]] Header next(std::vector<std::byte>* data = nullptr) {
    if (mover.sent.empty()) {
      ADD_FAILURE() << "no " << Header::kName;
      return {};
    }
    const OutgoingPdu pdu = std::move(mover.sent.front());
    mover.sent.pop_front();
    const auto header = pdu.as<Header>();
    EXPECT_EQ(header.opcode, Header{}.opcode) << "wanted " << Header::kName;
    if (data != nullptr) {
      data->assign(pdu.data().begin(), pdu.data().end());
    }
    return header;
  }
  [[nodiscard]] bool is_quiet() const { return mover.sent.empty(); }
  void lose() {
    if (client_ != nullptr) {
      std::exchange(client_, nullptr)->handle_lost("reset", now);
    }
  }
  void fetched(std::uint32_t tag) { client_->handle_data_fetched(tag, now); }
  void data_put(std::uint32_t tag) { client_->handle_data_put(tag, now); }
  void fail_protection(std::uint32_t tag, const scsi::ProtectionError& error) {
    client_->handle_protection_error(tag, error);
  }

  /// One Login Request with its answer.
  wire::iscsi::LoginResponse login_step(wire::iscsi::LoginRequest request, const TextPairs& keys) {
    TextWriter text;
    for (const TextPair& pair : keys) {
      text.add(pair.key, pair.value);
    }
    request.isid = isid;
    request.cid = cid;
    send(request, to_octets(text.text()));
    std::vector<std::byte> data;
    const auto response = next<wire::iscsi::LoginResponse>(&data);
    answers = to_characters(data);
    return response;
  }
  /// A login in one step, with further keys.
  wire::iscsi::LoginResponse login(TextPairs keys = {}, std::uint16_t tsih = 0) {
    wire::iscsi::LoginRequest request;
    request.transit = true;
    request.current_stage = wire::iscsi::LoginStage::LoginOperationalNegotiation;
    request.next_stage = wire::iscsi::LoginStage::FullFeature;
    request.tsih = tsih;
    request.cmd_sn = cmd_sn;
    keys.insert(keys.begin(), {
                                  {"InitiatorName", kInitiatorName},
                                  {"SessionType",   "Normal"      },
                                  {"TargetName",    kTargetName   }
    });
    const auto response = login_step(request, keys);
    exp_stat_sn = response.stat_sn + 1;
    return response;
  }
  [[nodiscard]] std::string answer(std::string_view key) const {
    const auto pairs = parse_text(answers);
    return pairs ? std::string{find_value(*pairs, key).value_or("")} : "";
  }

  /// WRITE (10) or READ (10) of whole blocks of 512 octets.
  [[nodiscard]] wire::iscsi::ScsiCommand command(bool writes, std::uint32_t lba,
                                                 std::uint16_t blocks) {
    wire::iscsi::ScsiCommand request;
    request.read = !writes;
    request.write = writes;
    request.attribute = wire::iscsi::TaskAttributeCode::Simple;
    request.initiator_task_tag = next_tag++;
    request.expected_data_transfer_length = blocks * 512U;
    request.cmd_sn = cmd_sn++;
    request.exp_stat_sn = exp_stat_sn;
    request.cdb[0] = std::byte{static_cast<unsigned char>(writes ? 0x2A : 0x28)};
    for (std::size_t i = 0; i < 4; ++i) {
      request.cdb[5 - i] = static_cast<std::byte>(lba >> i * 8);
    }
    request.cdb[7] = static_cast<std::byte>(blocks >> 8);
    request.cdb[8] = static_cast<std::byte>(blocks & 0xFF);
    return request;
  }
  /// The unit attention of a new nexus is answered.
  void clear_attention() {
    wire::iscsi::ScsiCommand request = command(false, 0, 0);
    request.read = false;
    request.cdb = {};
    send(request);
    static_cast<void>(next<wire::iscsi::ScsiResponse>());
  }

  RecordingDatamover mover;
  Instant now;
  std::string answers;
  std::uint64_t isid{0x8000'0000'0001};
  std::uint16_t cid{1};
  std::uint32_t cmd_sn{100};
  std::uint32_t exp_stat_sn{};
  std::uint32_t next_tag{1};

 private:
  DatamoverClient* client_;
};

/// Octets that differ with their place.
[[nodiscard]] inline std::vector<std::byte> pattern(std::size_t bytes, std::size_t from = 0) {
  std::vector<std::byte> octets(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    octets[i] = static_cast<std::byte>((i + from) * 31 + (i + from) / 256);
  }
  return octets;
}

}  // namespace weft::iscsi::testing
