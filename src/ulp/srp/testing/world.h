#pragma once

// Two initiators and a target over connections that delay, break, and are made again, in virtual
// time. A checker sees every unit on its way and every outcome: credits, states of channels, memory
// that the target touches, and what is on the disk. One seed, one course of events.

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/time.h"
#include "scsi/testing/bench_target.h"
#include "ulp/srp/session.h"
#include "ulp/srp/target.h"
#include "ulp/srp/testing/initiator_memory.h"
#include "wire/testing/srp_tables.h"

namespace weft::srp::testing {

using Octets = std::vector<std::byte>;

struct Scenario {
  unsigned breaks{};        ///< connections that break in the course of it
  unsigned aborts{};        ///< percent of requests that are aborted
  unsigned repeats{};       ///< per mille of responses that a lying target sends twice
  unsigned port_changes{};  ///< times that the target ends a channel itself
  unsigned moves{300};
};

class World;

/// One connection, from REQ until both ends have forgotten it. Either direction is in order; the
/// CM's messages are not ordered with the QP's.
class Link final : public TargetConnection, public std::enable_shared_from_this<Link> {
 public:
  Link(World& world, std::size_t path) : world_(world), path_(path) {}

  Result<void> prepare() override { return {}; }
  void accept(ByteSpan login_rsp) override;
  void reject(ByteSpan login_rej) override;
  void make_ready_to_send() override {}
  void send_dreq() override;
  void send_drep() override { break_now(); }
  void fail() override { break_now(); }
  Result<void> post_send(std::size_t slot, ByteSpan unit) override;
  Result<void> post_read(std::size_t slot, std::span<const Segment> from,
                         MutableByteSpan into) override;
  Result<void> post_write_and_send(std::size_t slot, std::span<const ByteSpan> data,
                                   std::span<const Segment> to, ByteSpan unit) override;
  Result<void> post_marker() override;

  /// From the initiator.
  void send_to_target(Octets unit);
  /// Nothing arrives from now on; both ends learn of it, each in its time.
  void break_now();
  [[nodiscard]] bool is_alive() const { return alive_; }

  std::optional<ChannelId> channel;

 private:
  void report(std::function<void(Channel&, bool)> what);
  void deliver(const Octets& unit);

  World& world_;
  std::size_t path_;
  bool alive_{true};
  Instant to_target_{};
  Instant to_initiator_{};
  std::int64_t credits_{};
};

/// What a block may contain: more than one value while nobody knows whether a write was done.
using Contents = std::set<std::uint8_t>;

/// An initiator's path with its client, which has blocks of its own.
class Path final : public SessionClient, public InitiatorConnection, public MemoryMapper {
 public:
  static constexpr std::uint64_t kBlocks = 8;

  Path(World& world, std::size_t index);

  // InitiatorConnection
  void connect(ByteSpan login_req) override;
  Result<void> post_send(ByteSpan unit) override;
  void disconnect() override;
  // MemoryMapper: fast registration of one in two requests, else a key for each piece.
  Result<Mapping> map(std::span<const LocalPiece> pieces) override;
  Result<Mapping> place_table(ByteSpan octets) override;
  void unmap(std::uint64_t token) override;
  // SessionClient
  void handle_outcome(std::uint64_t id, const Outcome& outcome) override;
  void handle_path_state(PathState /*state*/) override {}
  void handle_event(std::uint64_t /*lun*/, ByteSpan /*sense*/) override {}

  void write(std::uint64_t block);
  void read(std::uint64_t block);
  void abort_one();
  [[nodiscard]] std::size_t pending() const { return pending_.size(); }
  [[nodiscard]] bool is_busy(std::uint64_t block) const { return busy_.contains(block); }

  Session session;
  std::shared_ptr<Link> link;
  std::vector<Contents> blocks{kBlocks, Contents{0}};

 private:
  struct Pending {
    std::uint64_t block{};
    std::optional<std::uint8_t> written{};
    std::vector<Segment> memory{};
  };
  void submit(std::uint64_t block, std::optional<std::uint8_t> value);

  World& world_;
  std::size_t index_;
  std::uint64_t next_id_{1};
  std::uint8_t next_value_{1};
  std::map<std::uint64_t, Pending> pending_;
  std::set<std::uint64_t> busy_;
  std::map<std::uint64_t, std::vector<RKey>> mapped_;
  std::uint64_t next_token_{1};
};

class World {
 public:
  static inline const std::string kPort = "port";
  static constexpr std::int32_t kLimit = 4;

  World(std::uint64_t seed, const Scenario& chosen);
  ~World();

  /// What was found to be wrong.
  std::vector<std::string> run();

  void at(Duration from_now, std::function<void()> what) {
    events_.emplace(std::pair{now + from_now, ++order_}, std::move(what));
  }
  void at(Instant when, std::function<void()> what) {
    events_.emplace(std::pair{when, ++order_}, std::move(what));
  }
  [[nodiscard]] Duration delay(std::int64_t most_us = 400) {
    return Duration::microseconds(
        1 + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(most_us))));
  }
  void expect(bool holds, const std::string& what) {
    if (!holds) {
      findings.push_back(what);
    }
  }

  Random random;
  Scenario scenario;
  Instant now{};
  InitiatorMemory memory;
  scsi::testing::Bench disk;
  Target target{disk.target};
  std::array<std::unique_ptr<Path>, 2> paths;
  std::vector<std::string> findings;
  std::map<Outcome::Kind, std::uint64_t> outcomes;  // how requests ended

 private:
  void move();
  void run_until(Instant end);
  void settle();
  void check();

  std::map<std::pair<Instant, std::uint64_t>, std::function<void()>> events_;
  std::uint64_t order_{};
  std::map<ChannelId, ChannelState> seen_;
};

}  // namespace weft::srp::testing
