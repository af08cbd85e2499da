// Arbitrary octets as what a target sends, in a login and after it, while commands, functions and
// texts are under way and connections come and go. Whatever comes, the initiator sends whole PDUs,
// each command ends exactly once, and nothing is left when the session has ended.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "iscsi/initiator_session.h"
#include "iscsi/stream_datamover.h"
#include "iscsi/testing/fake_chap_library.h"
#include "iscsi/text.h"
#include "wire/iscsi/login.h"

namespace weft::iscsi {
namespace {

constexpr std::size_t kMaxTurns = 64;
constexpr std::size_t kMaxCommands = 32;

void expect(bool holds) {
  if (!holds) {
    std::abort();
  }
}

/// Octets of the input, one after another; zeroes beyond its end.
class Input {
 public:
  explicit Input(ByteSpan octets) : octets_(octets) {}
  [[nodiscard]] bool empty() const { return octets_.empty(); }
  [[nodiscard]] unsigned octet() {
    const ByteSpan one = take(1);
    return one.empty() ? 0 : std::to_integer<unsigned>(one[0]);
  }
  [[nodiscard]] ByteSpan take(std::size_t count) {
    const ByteSpan taken = octets_.first(std::min(count, octets_.size()));
    octets_ = octets_.subspan(taken.size());
    return taken;
  }

 private:
  ByteSpan octets_;
};

struct Submitted final : InitiatorClient {
  void handle_outcome(InitiatorCommand& ended, const InitiatorOutcome& outcome,
                      Instant /*now*/) override {
    expect(&ended == &command && ++ends == 1);
    expect(outcome.data_in_bytes <= command.data_in.size());
  }
  InitiatorCommand command;
  unsigned ends{};
};

class World final : public InitiatorEnvironment {
 public:
  explicit World(unsigned flags) : flags_(flags), session_(options(flags), *this) {
    session_.start(now_);
  }

  void connect(std::uint16_t cid, std::string_view /*address*/) override { wants_[cid] = true; }
  void cancel_connect(std::uint16_t cid) override { wants_[cid] = false; }
  void handle_state(SessionState /*state*/, std::string_view /*reason*/) override {}
  void handle_scsi_event(std::uint64_t /*lun*/, ByteSpan /*sense*/) override {}
  [[nodiscard]] ChapLibrary& chap_library() override { return chap_; }

  void run(Input input) {
    for (std::size_t turn = 0; !input.empty() && turn < kMaxTurns; ++turn) {
      settle();
      act(input);
    }
    end();
  }

 private:
  static constexpr unsigned kConnections = 2;

  static InitiatorOptions options(unsigned flags) {
    InitiatorOptions options;
    options.name = "iqn.2026-01.org.example:client";
    options.target = (flags & 0x40) != 0 ? "" : "iqn.2026-01.org.example:disks";
    options.address = "127.0.0.1:3260";
    options.max_commands = 8;
    options.preferences.values.max_connections = (flags & 8) != 0 ? kConnections : 1;
    options.preferences.values.error_recovery_level = level_of(flags);
    if ((flags & 0x80) != 0) {
      options.chap = {
          .peers = {{.name = "disks", .secret = "another-secret"}},
          .own = ChapAccount{.name = "h1", .secret = "secret-of-h1-0"}
      };
    }
    return options;
  }

  static unsigned level_of(unsigned flags) { return std::min((flags >> 4) & 3, 2U); }

  void act(Input& input) {
    const unsigned action = input.octet();
    switch (action % 8) {
      case 0:
      case 1:
        submit(action % 2 == 1, input.octet());
        break;
      case 2:
        now_ = now_ + Duration::milliseconds(static_cast<std::int64_t>(input.octet()) * 100);
        session_.handle_timeout(now_);
        break;
      case 3:
        if (!submitted_.empty()) {
          abort_one(input.octet());
        }
        break;
      case 4:
        session_.manage(static_cast<wire::iscsi::TaskManagementFunction>(2 + input.octet() % 6), 0,
                        {}, now_);
        break;
      case 5:
        session_.send_text(
            {.key = "SendTargets", .value = "All"},
            [](const TextPairs* /*pairs*/, Instant /*now*/) {}, now_);
        break;
      default:
        receive(input.take(wire::iscsi::kHeaderBytes));
        receive(input.take(action / 8 * 4));
        break;
    }
  }
  void submit(bool writes, unsigned size) {
    if (submitted_.size() == kMaxCommands) {
      return;
    }
    Submitted& submitted = *submitted_.emplace_back(std::make_unique<Submitted>());
    submitted.command.client = &submitted;
    submitted.command.cdb.resize(size % 7 == 0 ? 32 : 16, std::byte{0x88});
    const SharedBuffer data{std::size_t{size} * 64};
    std::ranges::fill(data.octets(), std::byte{0x5A});
    (writes ? submitted.command.data_out : submitted.command.data_in) = data;
    session_.submit(submitted.command, now_);
  }
  void abort_one(unsigned which) {
    Submitted& submitted = *submitted_[which % submitted_.size()];
    if (submitted.ends == 0) {
      session_.abort(submitted.command, now_);
    }
  }
  // To the connections in turn.
  void receive(ByteSpan octets) { receive(octets, turn_++ % kConnections); }
  void receive(ByteSpan octets, std::size_t cid) {
    if (movers_[cid]) {
      movers_[cid]->receive(octets, now_);
    } else if (cid != 0) {
      receive(octets, 0);
    }
  }

  // Takes what was sent, ends connections that are over, and makes those that are asked for.
  void settle() {
    for (unsigned again = 0; again < 4; ++again) {
      for (std::uint16_t cid = 0; cid < kConnections; ++cid) {
        settle(cid);
      }
    }
  }
  void settle(std::uint16_t cid) {
    std::optional<StreamDatamover>& mover = movers_[cid];
    if (mover) {
      expect(mover->output_bytes() % 4 == 0);
      mover->consume(mover->output_bytes());
      if (!mover->is_ended()) {
        return;
      }
      mover->terminate(Datamover::Ending::AtOnce, "over");
      session_.client(cid).handle_lost(mover->reason(), now_);
      mover.reset();
    }
    if (std::exchange(wants_[cid], false)) {
      mover.emplace();
      mover->set_client(session_.client(cid));
      session_.handle_connected(cid, *mover, now_);
      if ((flags_ & 1) != 0) {
        log_in(cid);
      }
    }
  }
  void log_in(std::uint16_t cid) {
    wire::iscsi::LoginResponse response;
    response.transit = true;
    response.current_stage = wire::iscsi::LoginStage::LoginOperationalNegotiation;
    response.next_stage = wire::iscsi::LoginStage::FullFeature;
    response.tsih = 7;
    response.exp_cmd_sn = 1;
    response.max_cmd_sn = 16;
    TextWriter text;
    text.add("HeaderDigest", "None").add("DataDigest", "None");
    text.add("MaxRecvDataSegmentLength", "512");
    if (cid == 0 || session_.state() != SessionState::Live) {
      text.add("DefaultTime2Wait", "2").add("DefaultTime2Retain", "20");
      text.add("ErrorRecoveryLevel", std::to_string(level_of(flags_)));
    }
    if ((flags_ & 0x40) == 0 && (cid == 0 || session_.state() != SessionState::Live)) {
      text.add("MaxConnections", (flags_ & 8) != 0 ? "2" : "1");
      text.add("InitialR2T", (flags_ & 2) != 0 ? "No" : "Yes");
      text.add("ImmediateData", (flags_ & 4) != 0 ? "Yes" : "No").add("MaxBurstLength", "4096");
      text.add("FirstBurstLength", "1024").add("MaxOutstandingR2T", "2");
      text.add("DataPDUInOrder", "Yes").add("DataSequenceInOrder", "Yes");
    }
    StreamDatamover sender;
    sender.send_control(text_pdu(response, text.text()));
    std::array<ByteSpan, 8> pieces;
    for (const ByteSpan piece : std::span{pieces}.first(sender.gather(pieces))) {
      receive(piece, cid);
    }
  }
  void end() {
    session_.stop(now_);
    for (unsigned turn = 0; turn < 8 && session_.state() != SessionState::Idle; ++turn) {
      settle();
      now_ = now_ + Duration::seconds(20);
      session_.handle_timeout(now_);
    }
    settle();
    expect(session_.state() == SessionState::Idle);
    expect(session_.under_way() == 0 && session_.waiting() == 0);
    for (const auto& submitted : submitted_) {
      expect(submitted->ends == 1);
    }
  }

  unsigned flags_;
  testing::FakeChapLibrary chap_;
  InitiatorSession session_;
  std::array<std::optional<StreamDatamover>, kConnections> movers_;
  std::deque<std::unique_ptr<Submitted>> submitted_;
  Instant now_;
  std::array<bool, kConnections> wants_{};
  std::size_t turn_{};
};

}  // namespace
}  // namespace weft::iscsi

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 1) {
    weft::iscsi::World world{data[0]};
    world.run(weft::iscsi::Input{std::as_bytes(std::span{data + 1, size - 1})});
  }
  return 0;
}
