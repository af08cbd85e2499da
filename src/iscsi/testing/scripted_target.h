#pragma once

// An initiator's session whose target is a test, which reads and writes PDUs one by one.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "iscsi/initiator_session.h"
#include "iscsi/testing/fake_chap_library.h"
#include "iscsi/testing/scripted_initiator.h"

namespace weft::iscsi::testing {

/// A command with what became of it.
struct Submitted final : InitiatorClient {
  void handle_outcome(InitiatorCommand& /*command*/, const InitiatorOutcome& ended,
                      Instant /*now*/) override {
    EXPECT_FALSE(outcome.has_value()) << "a command ends once";
    outcome = ended;
  }
  [[nodiscard]] bool ended_as(InitiatorOutcome::Kind kind) const {
    return outcome && outcome->kind == kind;
  }
  InitiatorCommand command;
  std::optional<InitiatorOutcome> outcome;
};

[[nodiscard]] inline InitiatorOptions scripted_options() {
  InitiatorOptions options;
  options.name = kInitiatorName;
  options.target = kTargetName;
  options.address = "127.0.0.1:3260";
  return options;
}

class ScriptedTarget final : public InitiatorEnvironment {
 public:
  explicit ScriptedTarget(const InitiatorOptions& options = scripted_options())
      : session(options, *this) {}

  void connect(std::uint16_t number, std::string_view address) override {
    asked.emplace_back(address);
    asked_cids.push_back(number);
  }
  void cancel_connect(std::uint16_t /*number*/) override { ++cancelled; }
  void handle_state(SessionState state, std::string_view /*reason*/) override {
    states.push_back(state);
  }
  void handle_scsi_event(std::uint64_t /*lun*/, ByteSpan sense) override {
    events.emplace_back(sense.begin(), sense.end());
  }
  [[nodiscard]] ChapLibrary& chap_library() override { return chap; }

  template <class Header>
  void send(const Header& header, std::vector<std::byte> data = {}, bool damaged = false) {
    const OutgoingPdu pdu{header, std::move(data)};
    session.client(cid).handle_pdu({.header = pdu.header(),
                                    .additional_headers = {},
                                    .data = pdu.data(),
                                    .data_is_damaged = damaged},
                                   now);
  }
  /// With StatSN, and a window of `window` commands beyond what has come.
  template <class Header>
  void answer(Header header, std::vector<std::byte> data = {}) {
    header.stat_sn = stat_sns[cid]++;
    number(header);
    send(header, std::move(data));
  }
  template <class Header>
  void number(Header& header) const {
    header.exp_cmd_sn = exp_cmd_sn;
    header.max_cmd_sn = exp_cmd_sn + window - 1;
  }
  /// The next PDU of the initiator, which must be of this kind.
  template <class Header>
  [[nodiscard]] Header next(std::vector<std::byte>* data = nullptr) {
    if (movers[cid].sent.empty()) {
      ADD_FAILURE() << "no " << Header::kName;
      return {};
    }
    last = std::move(movers[cid].sent.front());
    movers[cid].sent.pop_front();
    const auto header = last.as<Header>();
    EXPECT_EQ(header.opcode, Header{}.opcode) << "wanted " << Header::kName;
    if (data != nullptr) {
      data->assign(last.data().begin(), last.data().end());
    }
    return header;
  }
  [[nodiscard]] bool is_quiet() const { return movers[cid].sent.empty(); }

  void connected() {
    movers[cid] = {};
    movers[cid].delays_agreement = delays_agreement;
    movers[cid].limits_to_rdma = limits_to_rdma;
    session.handle_connected(cid, movers[cid], now);
  }
  /// A login in one step, with these answers beside the defaults.
  void log_in(const TextPairs& answers = {}) {
    connected();
    const auto request = next<wire::iscsi::LoginRequest>();
    EXPECT_TRUE(request.transit);
    EXPECT_EQ(request.cid, cid);
    if (request.tsih == 0) {
      exp_cmd_sn = request.cmd_sn;
    }
    TextWriter text;
    TextPairs all{
        {"HeaderDigest",        "None"  },
        {"DataDigest",          "None"  },
        {"DefaultTime2Wait",    "2"     },
        {"DefaultTime2Retain",  "0"     },
        {"ErrorRecoveryLevel",  "0"     },
        {"MaxConnections",      "1"     },
        {"InitialR2T",          "Yes"   },
        {"ImmediateData",       "No"    },
        {"MaxBurstLength",      "262144"},
        {"FirstBurstLength",    "65536" },
        {"MaxOutstandingR2T",   "1"     },
        {"DataPDUInOrder",      "Yes"   },
        {"DataSequenceInOrder", "Yes"   }
    };
    for (TextPair& pair : all) {
      pair.value = find_value(answers, pair.key).value_or(pair.value);
      text.add(pair.key, pair.value);
    }
    for (const std::string_view key :
         {"MaxRecvDataSegmentLength", "RDMAExtensions", "TargetRecvDataSegmentLength",
          "InitiatorRecvDataSegmentLength", "iSERHelloRequired"}) {
      if (const auto value = find_value(answers, key)) {
        text.add(key, *value);
      }
    }
    respond(text, wire::iscsi::LoginStage::LoginOperationalNegotiation,
            wire::iscsi::LoginStage::FullFeature);
  }
  /// The login of connection `number` into the session, which takes it from then on.
  void join(std::uint16_t number) {
    cid = number;
    connected();
    const auto request = next<wire::iscsi::LoginRequest>();
    EXPECT_EQ(request.cid, number);
    EXPECT_EQ(request.tsih, 7);
    TextWriter text;
    text.add("HeaderDigest", "None").add("DataDigest", "None");
    respond(text, wire::iscsi::LoginStage::LoginOperationalNegotiation,
            wire::iscsi::LoginStage::FullFeature);
  }
  void refuse_login(wire::iscsi::LoginStatus status) {
    wire::iscsi::LoginResponse response;
    response.status = status;
    response.current_stage = wire::iscsi::LoginStage::LoginOperationalNegotiation;
    send(response);
  }
  void respond(TextWriter& text, wire::iscsi::LoginStage stage,
               std::optional<wire::iscsi::LoginStage> next_stage) {
    wire::iscsi::LoginResponse response;
    response.transit = next_stage.has_value();
    response.current_stage = stage;
    response.next_stage = next_stage.value_or(stage);
    response.tsih = 7;
    response.stat_sn = stat_sns[cid]++;
    number(response);
    send(response, to_octets(text.take()));
  }

  /// READ (10) or WRITE (10) of whole blocks.
  Submitted& submit(bool writes, std::uint16_t blocks, std::size_t cdb_bytes = 10) {
    auto& submitted = *submissions.emplace_back(std::make_unique<Submitted>());
    submitted.command.cdb.resize(cdb_bytes);
    submitted.command.cdb[0] = std::byte{static_cast<unsigned char>(writes ? 0x2A : 0x28)};
    submitted.command.client = &submitted;
    SharedBuffer buffer{blocks * 512UL};
    copy_bytes(buffer.octets(), pattern(buffer.size()));
    (writes ? submitted.command.data_out : submitted.command.data_in) = buffer;
    session.submit(submitted.command, now);
    return submitted;
  }
  void pass(Duration time) {
    now = now + time;
    session.handle_timeout(now);
    // What was ended by this side is closed by the driver.
    for (std::uint16_t i = 0; i < movers.size(); ++i) {
      if (std::exchange(movers[i].ended, false)) {
        session.client(i).handle_lost("closed", now);
      }
    }
  }
  /// The connection that is spoken on.
  void lose() { session.client(cid).handle_lost("reset", now); }

  FakeChapLibrary chap;
  static constexpr std::size_t kConnections = 3;
  std::array<RecordingDatamover, kConnections> movers;
  std::array<std::uint32_t, kConnections> stat_sns{50, 150, 250};
  std::uint16_t cid{};  // the connection that is spoken on
  RecordingDatamover& mover{movers[0]};
  std::uint32_t& stat_sn{stat_sns[0]};
  OutgoingPdu last;
  Instant now;
  std::vector<std::string> asked;
  std::vector<std::uint16_t> asked_cids;
  std::vector<SessionState> states;
  std::vector<std::vector<std::byte>> events;
  std::vector<std::unique_ptr<Submitted>> submissions;
  int cancelled{};
  std::uint32_t exp_cmd_sn{};
  std::uint32_t window{8};
  bool limits_to_rdma{};    ///< datamovers from now on
  bool delays_agreement{};  ///< the same
  InitiatorSession session;
};

}  // namespace weft::iscsi::testing
