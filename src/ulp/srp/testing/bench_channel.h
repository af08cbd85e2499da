#pragma once

// A target with a disk in memory, and connections that a test drives by hand: it says when sends,
// READs and the marker are reported, and what the CM says. One thread.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "scsi/testing/bench_target.h"
#include "ulp/srp/target.h"
#include "ulp/srp/testing/initiator_memory.h"
#include "wire/srp/information_unit.h"
#include "wire/testing/srp_tables.h"

namespace weft::srp::testing {

using Octets = std::vector<std::byte>;

/// Work that is posted and not reported.
struct Posted {
  enum class Kind : std::uint8_t { Send, Read, Marker };
  Kind kind{};
  std::size_t slot{};
  bool succeeds{true};
  std::vector<ByteSpan> pieces{};  // of data that is written
  Octets data{};                   // what they had when they were posted

  /// Octets stay until the operation is reported.
  [[nodiscard]] bool has_kept_its_data() const {
    Octets now;
    for (const ByteSpan piece : pieces) {
      now.insert(now.end(), piece.begin(), piece.end());
    }
    return now == data;
  }
};

class ManualConnection final : public TargetConnection {
 public:
  explicit ManualConnection(InitiatorMemory& memory) : memory_(memory) {}

  Result<void> prepare() override {
    if (prepare_error) {
      return fail_with(*prepare_error, "told to");
    }
    return {};
  }
  void accept(ByteSpan login_rsp) override { rep.emplace(login_rsp.begin(), login_rsp.end()); }
  void reject(ByteSpan login_rej) override { rej.emplace(login_rej.begin(), login_rej.end()); }
  void make_ready_to_send() override { ++ready; }
  void send_dreq() override { ++dreqs; }
  void send_drep() override { ++dreps; }
  void fail() override { has_failed = true; }

  Result<void> post_send(std::size_t slot, ByteSpan unit) override {
    if (has_failed) {
      return fail_with(ErrorCode::ShutDown, "the QP is in error");
    }
    const auto judged = wire::srp_tables::decode_unit(unit);
    WEFT_ASSERT(judged.faults.empty(), "every unit is as the tables say");
    units.emplace_back(unit.begin(), unit.end());
    posted.push_back({.kind = Posted::Kind::Send, .slot = slot});
    return {};
  }
  Result<void> post_read(std::size_t slot, std::span<const Segment> from,
                         MutableByteSpan into) override {
    if (has_failed) {
      return fail_with(ErrorCode::ShutDown, "the QP is in error");
    }
    const bool readable = memory_.read(from, into);
    posted.push_back({.kind = Posted::Kind::Read, .slot = slot, .succeeds = readable});
    return {};
  }
  Result<void> post_write_and_send(std::size_t slot, std::span<const ByteSpan> data,
                                   std::span<const Segment> to, ByteSpan unit) override {
    if (write_error) {
      return fail_with(*write_error, "told to");
    }
    auto sent = post_send(slot, unit);
    if (sent) {
      posted.back().pieces.assign(data.begin(), data.end());
      for (const ByteSpan piece : data) {
        posted.back().data.insert(posted.back().data.end(), piece.begin(), piece.end());
      }
    }
    if (sent && !memory_.write(to, data)) {
      units.pop_back();
      posted.back().succeeds = false;
    }
    return sent;
  }
  Result<void> post_marker() override {
    posted.push_back({.kind = Posted::Kind::Marker});
    return {};
  }

  std::optional<ErrorCode> prepare_error;
  std::optional<ErrorCode> write_error;
  std::optional<Octets> rep;
  std::optional<Octets> rej;
  int ready{};
  int dreqs{};
  int dreps{};
  bool has_failed{};
  std::deque<Octets> units;  // sent and not looked at
  std::deque<Posted> posted;

 private:
  static std::unexpected<Error> fail_with(ErrorCode code, const char* why) {
    return weft::fail(code, "{}", why);
  }
  InitiatorMemory& memory_;
};

[[nodiscard]] inline wire::SrpPortId port_id(std::uint8_t last) {
  wire::SrpPortId id{};
  id[15] = std::byte{last};
  return id;
}

class TargetBench {
 public:
  static inline const std::string kPort = "port";

  explicit TargetBench(PortOptions options = {}) {
    options.name = kPort;
    options.target_port = port_id(0xAA);
    options.request_limit = options.request_limit == 128 ? 8 : options.request_limit;
    WEFT_ASSERT(target.add_port(options).has_value(), "the first port");
    WEFT_ASSERT(target.set_enabled(kPort, true).has_value(), "there is one");
    WEFT_ASSERT(target.allow_anybody(kPort, true).has_value(), "there is one");
  }
  ~TargetBench() {
    std::ignore = target.release_port(kPort, [] {});
    settle();
  }

  struct Login {
    ChannelId id{};
    std::shared_ptr<ManualConnection> connection{};
    std::optional<wire::SrpLoginRejReason> refused{};
  };

  [[nodiscard]] static wire::SrpLoginReq login_req(std::uint8_t initiator = 1) {
    return {.tag = 77,
            .requested_iu_length = 1024,
            .required_formats = wire::kSrpDirectFormat | wire::kSrpIndirectFormat,
            .immediate_data = true,
            .immediate_offset = wire::kSrpDefaultImmediateOffset,
            .initiator_port_id = port_id(initiator),
            .target_port_id = port_id(0xAA)};
  }

  Login log_in(const wire::SrpLoginReq& req = login_req(),
               std::optional<ErrorCode> prepare_error = std::nullopt) {
    auto connection = std::make_shared<ManualConnection>(memory);
    connection->prepare_error = prepare_error;
    const auto octets = wire::pack(req);
    Login login{.connection = connection};
    const auto id = target.log_in(kPort, {.private_data = octets}, connection);
    if (id) {
      login.id = *id;
      connections.emplace_back(*id, connection);
    } else {
      login.refused = id.error();
    }
    return login;
  }
  /// Logged in, RTU and all, and the power-on unit attention is cleared.
  Login connect(const wire::SrpLoginReq& req = login_req()) {
    Login login = log_in(req);
    WEFT_ASSERT(!login.refused, "the login is sound");
    channel(login).handle_rtu();
    settle();
    request(login, command(0, scsi::testing::bytes({0, 0, 0, 0, 0, 0})));
    settle();
    login.connection->units.clear();
    return login;
  }

  Channel& channel(const Login& login) {
    Channel* const found = target.channel(login.id);
    WEFT_ASSERT(found != nullptr, "it is there");
    return *found;
  }

  [[nodiscard]] static wire::SrpCommandUnit command(std::uint64_t tag, const Octets& cdb) {
    wire::SrpCommandUnit unit{.header = {.tag = tag}};
    std::copy_n(cdb.begin(), std::min<std::size_t>(cdb.size(), 16), unit.header.cdb.begin());
    return unit;
  }
  void request(const Login& login, const wire::SrpCommandUnit& unit) {
    channel(login).handle_receive(wire::to_unit(unit, wire::kSrpDefaultImmediateOffset));
  }
  void manage(const Login& login, wire::SrpTaskFunction function, std::uint64_t tag,
              std::uint64_t task_tag = 0) {
    channel(login).handle_receive(
        wire::to_unit(wire::SrpTskMgmt{.tag = tag, .function = function, .task_tag = task_tag}));
  }

  /// Reports the oldest posted work of a connection; false if there is none.
  bool report_one(ChannelId id, ManualConnection& connection) {
    Channel* const found = target.channel(id);
    if (found == nullptr || connection.posted.empty()) {
      return false;
    }
    const Posted work = connection.posted.front();
    connection.posted.pop_front();
    WEFT_ASSERT(work.has_kept_its_data(), "what is posted stays until it is reported");
    const bool succeeds = work.succeeds && !connection.has_failed;
    switch (work.kind) {
      case Posted::Kind::Send:
        found->handle_send_done(work.slot, succeeds);
        break;
      case Posted::Kind::Read:
        found->handle_read_done(work.slot, succeeds);
        break;
      case Posted::Kind::Marker:
        found->handle_marker_done(succeeds);
        break;
    }
    return true;
  }
  /// Everything that is posted is reported.
  void settle() {
    for (bool moved = true; moved;) {
      moved = false;
      for (const auto& [id, connection] : connections) {
        moved = report_one(id, *connection) || moved;
      }
      target.check_invariants();
    }
    target.collect();
  }

  /// The oldest SRP_RSP that was sent and not looked at.
  [[nodiscard]] std::optional<wire::SrpResponseUnit> response(const Login& login) {
    auto& units = login.connection->units;
    while (!units.empty()) {
      last = units.front();
      units.pop_front();
      if (*wire::srp_opcode(last) == wire::SrpOpcode::Rsp) {
        return *wire::parse_srp_response(last);
      }
    }
    return std::nullopt;
  }

  scsi::testing::Bench disk;
  InitiatorMemory memory;
  Target target{disk.target};
  std::vector<std::pair<ChannelId, std::shared_ptr<ManualConnection>>> connections;
  Octets last;
};

}  // namespace weft::srp::testing
