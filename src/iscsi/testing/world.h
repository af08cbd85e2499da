#pragma once

// Both ends of iSCSI over streams that delay, cut and damage by seed, with a disk that answers late
// and in another order. What comes back is checked against what was written. Virtual time.

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/time.h"
#include "iscsi/initiator_session.h"
#include "iscsi/stream_datamover.h"
#include "iscsi/target_server.h"
#include "iscsi/testing/fake_chap_library.h"
#include "scsi/ram_device.h"
#include "scsi/target.h"
#include "scsi/testing/bench_target.h"

namespace weft::iscsi::testing {

/// What happens in a run; counts are over all of it.
struct Scenario {
  unsigned cuts{};     ///< connections whose ends learn of their loss at different times
  unsigned damages{};  ///< octets that change on their way, while digests are on
  unsigned losses{};   ///< whole PDUs, but pings, whose loss ends a connection
  unsigned aborts{};
  unsigned resets{};  ///< of the logical unit, by any initiator
  unsigned
      reconfigurations{};  ///< the target asks all initiators to come back (it is reconfigured)
  bool digests{};
  bool chap{};
  bool patient{};                ///< users wait for longer than connections are cut
  std::uint32_t connections{1};  ///< of a session
  std::uint32_t level{};         ///< of error recovery
  unsigned moves{300};           ///< commands
};

class LossyDatamover;
class Player;
struct Link;

class World final : public ServerEnvironment {
 public:
  static constexpr std::uint64_t kBlocks = 192;  // of each initiator
  static constexpr unsigned kPlayers = 3;

  World(std::uint64_t seed, const Scenario& scenario);
  ~World();

  /// What was found wrong; nothing, if all is right.
  [[nodiscard]] std::vector<std::string> run();

  std::map<InitiatorOutcome::Kind, std::uint64_t> outcomes;
  /// Of all sessions.
  [[nodiscard]] RecoveryCounts recoveries() const;

 private:
  friend class LossyDatamover;
  friend class Player;
  void wake() override { wakes_ = true; }
  [[nodiscard]] ChapLibrary& chap_library() override { return chap_; }
  [[nodiscard]] bool has_faults() const {
    return scenario_.cuts + scenario_.damages + scenario_.losses + scenario_.aborts +
               scenario_.resets + scenario_.reconfigurations !=
           0;
  }
  void find(const std::string& what);
  void open(Player& player, std::uint16_t cid);
  [[nodiscard]] bool loses(const OutgoingPdu& pdu);
  void step();
  void fault();
  void carry(Link& link);
  void carry_one_way(StreamDatamover& from, std::deque<std::byte>& line);
  void deliver(Link& link);
  void cut(Link& link);
  void fire(Link& link);
  void settle();

  Random random_;
  Scenario scenario_;
  Scenario left_;
  Instant now_;
  FakeChapLibrary chap_;
  std::unique_ptr<scsi::RamDevice> ram_;
  scsi::testing::HeldDevice disk_;
  scsi::Target scsi_;
  NodeOptions node_;
  TargetServer server_;
  bool wakes_{};
  std::vector<std::unique_ptr<Player>> players_;
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<std::string> findings_;
};

}  // namespace weft::iscsi::testing
