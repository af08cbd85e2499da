#pragma once

// A program connected by ibsim's protocol, presented to its node as an open umad device. Agents and
// timeouts are chosen here, since the protocol does not carry them. No socket, no clock.

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/time.h"
#include "daemon/ibsim/messages.h"
#include "node/umad_file.h"

namespace weft::daemon {

/// Converts between ibsim packets and the agents of one port. Not thread-safe.
class IbsimClient {
 public:
  /// Maximum of unanswered requests; policy, not from the specification.
  static constexpr std::size_t kMaxOpen = 4'096;
  /// Time until an unanswered request is returned with an error; ibsim returns unroutable ones at
  /// once. SMPs are answered by agents, MADs on QP1 by programs, which need longer. Policy, not
  /// from the specification.
  static constexpr std::uint32_t kSmpTimeoutMs = 250;
  static constexpr std::uint32_t kGmpTimeoutMs = 2'000;
  static constexpr std::uint32_t kGmpRetries = 4;

  explicit IbsimClient(const node::UmadPortAccess& access);

  /// Processes a datagram of the program. Returns false if libumad2sim does not send such a one.
  [[nodiscard]] bool handle(ByteSpan datagram, Instant now);

  /// The next datagram for the program.
  [[nodiscard]] std::optional<IbsimPacket> poll();

  /// Registers or unregisters the program as subnet manager, for requests to SM and SA.
  [[nodiscard]] Result<void> set_sm(bool is_sm, Instant now);
  [[nodiscard]] bool is_sm() const { return !sm_agents_.empty(); }
  [[nodiscard]] std::size_t open_requests() const { return open_.size(); }

 private:
  /// The requesting agent, and the lower half of the TID, which the node leaves unchanged.
  using Key = std::pair<std::uint32_t, std::uint32_t>;

  [[nodiscard]] Result<std::uint32_t> agent_for(bool is_smp);
  [[nodiscard]] Result<void> become_sm(Instant now);
  [[nodiscard]] bool restore_tid(std::uint32_t agent, IbsimPacket& packet);

  node::UmadFile file_;
  std::array<std::optional<std::uint32_t>, 2> asking_;  // agents for QP0 and QP1
  std::vector<std::uint32_t> sm_agents_;
  std::map<Key, std::uint64_t> open_;  // original TIDs of the program
};

}  // namespace weft::daemon
